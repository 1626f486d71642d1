/* rules_linalg.c: gradients of factorisations and of the solutions of linear systems.
 *
 * Where the gradient itself is to be differentiated, A is put together again from the factors that were kept, with its
 * place on the tape; where not, the factors serve once more. */
#include "autograd/rules.h"
#include "core/error.h"
#include "core/tensor.h"
#include "ops/linalg.h"
#include "ops/products.h"

#include <float.h>

static bk_tensor *kept(const node *n, int k) { return tensor_at(n->in[k], NULL); }
static bk_tensor *turned(const bk_tensor *t) { return bk_transpose(t, -1, -2); }
static int give(bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]) { return (grads[0] = g) ? 0 : -1; }
static bk_tensor *matmul(const bk_tensor *a, bool turn_a, const bk_tensor *b, bool turn_b)
{
    return a && b ? product_turned(a, b, (turn_a ? TURNED_A : 0) | (turn_b ? TURNED_B : 0)) : NULL;
}

/* The matrix whose LU is input 0 and whose pivots are input k, at its place on the tape. */
static bk_tensor *factored(node *n, bk_tensor *lu, int k)
{
    bool was = grad_set_enabled(false);
    bk_tensor *a = lu_product(lu, kept(n, k));
    operand in;
    bool good = a && tensor_read(a, &in);
    grad_set_enabled(was);
    return good ? tensor_at(in.value, n->edge[0]) : NULL;
}

/* t with size 1 for a matrix at its end. */
static bk_tensor *as_matrix(const bk_tensor *t) { return bk_unsqueeze(bk_unsqueeze(t, -1), -1); }

/* --- systems --------------------------------------------------------------------------------------------------------
 */

int grad_solve_triangular(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    int how = (int)n->attr.i[0];
    bool upper = how & TRIANGLE_UPPER, right = how & TRIANGLE_RIGHT, transposed = how & TRIANGLE_TRANSPOSED;
    bk_tensor *of_b = triangle_solve(tensor_at(n->in[0], n->edge[0]), g, how ^ TRIANGLE_TRANSPOSED);
    if (n->edge[1])
        grads[1] = of_b;
    if (of_b && n->edge[0]) {
        bk_tensor *x = rule_result(n); /* first: what the rows of T meet */
        bk_tensor *of_t = matmul(right != transposed ? x : of_b, right, right != transposed ? of_b : x, !right);
        int64_t diagonal = how & TRIANGLE_UNIT ? (upper ? 1 : -1) : 0;
        grads[0] = bk_neg(upper ? bk_triu(of_t, diagonal) : bk_tril(of_t, diagonal));
        return grads[0] ? 0 : -1;
    }
    return of_b ? 0 : -1;
}

int grad_lu_solve(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bool transposed = n->attr.i[0];
    bk_tensor *lu = kept(n, 0), *of_b;
    if (grad_enabled())
        of_b = solve_unchecked(factored(n, lu, 2), g, !transposed);
    else
        of_b = lu_solve_record(lu, kept(n, 2), g, !transposed, NULL);
    if (!of_b)
        return -1;
    if (n->edge[1])
        grads[1] = of_b;
    if (n->edge[0]) {
        bk_tensor *x = rule_result(n);
        grads[0] = bk_neg(transposed ? matmul(x, false, of_b, true) : matmul(of_b, false, x, true));
        return grads[0] ? 0 : -1;
    }
    return 0;
}

int grad_inverse(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *x = rule_result(n);
    return give(bk_neg(matmul(matmul(x, true, g, false), false, x, true)), grads);
}

/* --- determinants ---------------------------------------------------------------------------------------------------
 */

/* lu with a tiny pivot for every one that is 0: a matrix next to the singular one, whose adjugate is next to its. */
static bk_tensor *made_regular(bk_tensor *lu)
{
    bk_tensor *diagonal = bk_diagonal(lu, 0, -2, -1);
    bk_tensor *tiny = bk_full(0, NULL, tensor_dtype(lu) == BK_FLOAT64 ? DBL_EPSILON : FLT_EPSILON, tensor_dtype(lu));
    bk_tensor *none = bk_zeros(0, NULL, tensor_dtype(lu));
    return bk_add(lu, bk_diag_embed(bk_where(bk_eq_s(diagonal, 0), tiny, none), 0, -2, -1));
}

static bk_tensor *inverse_turned(node *n, bk_tensor *lu)
{
    if (grad_enabled())
        return turned(inverse_unchecked(factored(n, lu, 2)));
    return lu_solve_record(lu, kept(n, 2), identity_like(lu), true, NULL);
}

/* det A^-T, which is the adjugate transposed. */
int grad_det(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bool again = grad_enabled(), was = grad_set_enabled(false);
    bk_tensor *lu = made_regular(kept(n, 0));
    grad_set_enabled(was);
    if (!lu)
        return -1;
    bk_tensor *det = again ? bk_det(factored(n, lu, 2))
                           : bk_mul(bk_prod(bk_diagonal(lu, 0, -2, -1), 1u << (lu->layout->ndim - 2), false),
                                    pivots_sign(kept(n, 2)));
    return give(bk_mul(as_matrix(bk_mul(g, det)), inverse_turned(n, lu)), grads);
}

/* It stays as it is until it jumps: no gradient goes on, as in PyTorch. */
int grad_signdet(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    (void)n, (void)g, (void)grads;
    return 0;
}

int grad_logabsdet(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    return give(bk_mul(as_matrix(g), inverse_turned(n, kept(n, 0))), grads);
}

/* --- factorisations -------------------------------------------------------------------------------------------------
 */

/* The lower (upper) triangle of a symmetric matrix, made whole. */
static bk_tensor *mirrored(bk_tensor *t, bool upper)
{
    return upper ? bk_add(bk_triu(t, 0), turned(bk_triu(t, 1))) : bk_add(bk_tril(t, 0), turned(bk_tril(t, -1)));
}

/* L^-T S L^-1, where S is half of the lower triangle of L^T g mirrored. */
int grad_cholesky(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *l = rule_result(n), *s = bk_mul_s(mirrored(matmul(l, true, g, false), false), 0.5);
    return give(triangle_solve(l, triangle_solve(l, s, TRIANGLE_TRANSPOSED), TRIANGLE_RIGHT), grads);
}

/* P^T L^-T (tril(L^T gL, -1) + triu(gU U^T)) U^-T, square matrices only. Input 0: the pivots. */
int grad_lu_factor(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    const layout *l = n->layout;
    if (l->sizes[l->ndim - 1] != l->sizes[l->ndim - 2])
        return error_int(BK_NOT_IMPLEMENTED,
                         "linalg.lu_factor: the gradient of a matrix that is not square; qr has one");
    bk_tensor *lu = rule_result(n), *lower = bk_add(bk_tril(lu, -1), identity_like(lu)), *upper = bk_triu(lu, 0);
    bk_tensor *of_l = bk_tril(matmul(lower, true, bk_tril(g, -1), false), -1);
    bk_tensor *of_u = bk_triu(matmul(bk_triu(g, 0), false, upper, true), 0);
    bk_tensor *middle = triangle_solve(lu, bk_add(of_l, of_u), TRIANGLE_TRANSPOSED | TRIANGLE_UNIT);
    bk_tensor *whole = triangle_solve(lu, middle, TRIANGLE_UPPER | TRIANGLE_TRANSPOSED | TRIANGLE_RIGHT);
    return give(permute_rows(kept(n, 0), whole, true), grads);
}

/* Q S R^-T, where S is the upper triangle of g R^T mirrored. Q is A R^-1 here, so that it is on the tape by way of A
 * and R; the tape sees the Q that users get in the same way. */
int grad_qr_r(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *r = rule_result(n),
              *q = triangle_solve(r, tensor_at(n->in[0], n->edge[0]), TRIANGLE_UPPER | TRIANGLE_RIGHT);
    bk_tensor *s = mirrored(matmul(g, false, r, true), true);
    return give(triangle_solve(r, matmul(q, false, s, false), TRIANGLE_UPPER | TRIANGLE_RIGHT | TRIANGLE_TRANSPOSED),
                grads);
}

int grad_qr_other(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    (void)n, (void)g, (void)grads;
    return error_int(
        BK_RUNTIME_ERROR,
        "linalg.qr: only mode='reduced', or 'complete' of at most as many rows as columns, has a gradient");
}
