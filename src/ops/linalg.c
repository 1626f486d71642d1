/* linalg.c: factorisations, linear systems, determinants.
 *
 * A factorisation is a kernel that is on no tape. What the tape sees is a node for the function of A that was asked
 * for, whose rule knows what the factors are good for. Errors about values (a singular matrix) are raised on the user's
 * line, as PyTorch raises them: these functions evaluate. Those that cannot fail so (det, slogdet, lu_factor, qr,
 * triangular systems) only record. */
#include "ops/linalg.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/products.h"

/* --- recording ------------------------------------------------------------------------------------------------------
 */

static node *recorded(int op, bk_dtype dtype, const layout *l, int64_t how, const operand *in, int count)
{
    node *n = l ? node_new(op, dtype, l) : NULL;
    if (!n)
        return NULL;
    n->inputs = (uint8_t)count;
    n->attr.i[0] = how;
    for (int k = 0; k < count; k++)
        node_input(n, k, in[k].value, in[k].edge);
    return record_node(n);
}

static bk_tensor *record(int op, bk_dtype dtype, const layout *l, int64_t how, const operand *in, int count)
{
    return tensor_from_node(recorded(op, dtype, l, how, in, count));
}

/* A kernel of two results, of which neither is on the tape. Both are recorded before either gets a handle, which may
 * evaluate the log. */
static bk_tensor *record_pair(int op, const bk_tensor *a, const layout *first, const layout *second, bk_dtype dtype,
                              bk_tensor **out)
{
    operand in;
    if (!first || !second || !tensor_read(a, &in))
        return NULL;
    in.edge = NULL;
    node *made = recorded(op, tensor_dtype(a), first, 0, &in, 1);
    node *other = made ? recorded(OP_second, dtype, second, 0, &(operand){ .value = made }, 1) : NULL;
    if (!other) {
        if (made)
            node_release(made);
        return NULL;
    }
    bk_tensor *result = tensor_from_node(made);
    *out = tensor_from_node(other);
    return *out ? result : NULL;
}

/* The sizes of t without its last `drop`, followed by others. */
static const layout *batch_layout(const bk_tensor *t, int drop, int count, const int64_t *sizes)
{
    int64_t all[BK_MAX_NDIM + 2];
    int n = t->layout->ndim - drop;
    for (int d = 0; d < n; d++)
        all[d] = t->layout->sizes[d];
    for (int k = 0; k < count; k++)
        all[n++] = sizes[k];
    return layout_get(n, all, NULL);
}

static int64_t size_at(const bk_tensor *t, int from_end) { return t->layout->sizes[t->layout->ndim - from_end]; }
static int64_t shorter_side(const bk_tensor *t)
{
    return size_at(t, 1) < size_at(t, 2) ? size_at(t, 1) : size_at(t, 2);
}

static bk_tensor *lu_record(const bk_tensor *a, bk_tensor **pivots)
{
    int64_t count = a ? shorter_side(a) : 0;
    return a ? record_pair(OP_lu, a, a->layout->plain, batch_layout(a, 2, 1, &count), BK_INT32, pivots) : NULL;
}

bk_tensor *triangle_solve(const bk_tensor *t, const bk_tensor *b, int how)
{
    operand in[2];
    if (!t || !b || !tensor_read(t, &in[0]) || !tensor_read(b, &in[1]))
        return NULL;
    return record(OP_solve_triangular, tensor_dtype(b), b->layout->plain, how, in, 2);
}

static bk_tensor *record_solution(int op, const bk_tensor *lu, const bk_tensor *pivots, const bk_tensor *b,
                                  bool transposed, node *edge)
{
    operand in[3];
    if (!lu || !pivots || !b || !tensor_read(lu, &in[0]) || !tensor_read(b, &in[1]) || !tensor_read(pivots, &in[2]))
        return NULL;
    in[0].edge = edge;
    return record(op, tensor_dtype(b), b->layout->plain, transposed, in, 3);
}

bk_tensor *lu_solve_record(const bk_tensor *lu, const bk_tensor *pivots, const bk_tensor *b, bool transposed,
                           node *edge)
{
    return record_solution(OP_lu_solve, lu, pivots, b, transposed, edge);
}

/* `value`, computed from `kept` (and pivots) without a tape, as a function of a. */
static bk_tensor *record_function(int op, const bk_tensor *a, const bk_tensor *kept, const bk_tensor *value,
                                  const bk_tensor *pivots)
{
    operand in[3], of_a;
    if (!a || !kept || !value || !tensor_read(a, &of_a) || !tensor_read(kept, &in[0]) || !tensor_read(value, &in[1]))
        return NULL;
    if (!of_a.edge)
        return (bk_tensor *)value;
    in[0].edge = of_a.edge;
    in[1].edge = NULL;
    if (pivots && !tensor_read(pivots, &in[2]))
        return NULL;
    return record(op, tensor_dtype(value), value->layout->plain, 0, in, pivots ? 3 : 2);
}

bk_tensor *identity_like(const bk_tensor *t)
{
    if (!t)
        return NULL;
    int64_t n = size_at(t, 1);
    const layout *l = batch_layout(t, 2, 2, (int64_t[]){ n, n });
    return l ? bk_expand(bk_eye(n, n, tensor_dtype(t)), l->ndim, l->sizes) : NULL;
}

bk_tensor *pivots_sign(const bk_tensor *pivots)
{
    if (!pivots)
        return NULL;
    bk_tensor *stays = bk_arange_int(1, size_at(pivots, 1) + 1, 1, BK_INT32);
    bk_tensor *moved = bk_sum(bk_ne(pivots, stays), 1u << (pivots->layout->ndim - 1), false);
    bk_tensor *odd = bk_sub(moved, bk_mul_s(bk_floor_divide_s(moved, 2), 2));
    return bk_sub(bk_full_int(0, NULL, 1, BK_INT64), bk_mul_s(odd, 2));
}

bk_tensor *permute_rows(const bk_tensor *pivots, const bk_tensor *x, bool back)
{
    return x ? lu_solve_record(identity_like(bk_transpose(x, -1, -2)), pivots, x, back, NULL) : NULL;
}

bk_tensor *lu_product(const bk_tensor *lu, const bk_tensor *pivots)
{
    bk_tensor *lower = bk_add(bk_tril(lu, -1), identity_like(lu)), *upper = bk_triu(lu, 0);
    return lower && upper ? permute_rows(pivots, product_turned(lower, upper, 0), true) : NULL;
}

/* --- checks ---------------------------------------------------------------------------------------------------------
 */

static bool check_matrix(const bk_tensor *t, const char *name, bool square)
{
    bk_dtype d = tensor_dtype(t);
    if (t->layout->ndim < 2)
        error_int(BK_RUNTIME_ERROR, "%s: The input tensor A must have at least 2 dimensions.", name);
    else if (!dtype_is_float(d))
        error_int(BK_RUNTIME_ERROR, "%s: Expected a floating point or complex tensor as input. Got %s", name,
                  dtypes[d].type_name);
    else if (dtype_size(d) < 4)
        error_int(BK_RUNTIME_ERROR, "%s: Low precision dtypes not supported. Got %s", name, dtypes[d].type_name);
    else if (square && size_at(t, 1) != size_at(t, 2))
        error_int(BK_RUNTIME_ERROR, "%s: A must be batches of square matrices, but they are %lld by %lld matrices",
                  name, (long long)size_at(t, 2), (long long)size_at(t, 1));
    else
        return true;
    return false;
}

static bool check_fit(const bk_tensor *a, const bk_tensor *b, const char *name, bool left)
{
    if (tensor_dtype(a) != tensor_dtype(b))
        return error_null(
            BK_RUNTIME_ERROR,
            "%s: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead", name,
            dtypes[tensor_dtype(a)].type_name, dtypes[tensor_dtype(b)].type_name);
    if (size_at(a, 1) != size_at(b, left ? 2 : 1))
        return error_null(BK_RUNTIME_ERROR,
                          "%s: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)", name,
                          left ? "AX = B" : "XA = B", (long long)size_at(a, 2), (long long)size_at(a, 1),
                          (long long)size_at(b, 2), (long long)size_at(b, 1));
    return true;
}

/* Which matrix of the batch, and which leading minor of it, has a bad number on the diagonal; -1 for none, -2 on
 * failure. Evaluates. */
static int64_t find_bad(const bk_tensor *t, bool positive, int64_t *minor)
{
    bool was = grad_set_enabled(false);
    bk_tensor *diagonal = bk_contiguous(bk_to(bk_diagonal(t, 0, -2, -1), BK_FLOAT64));
    const double *d = diagonal ? bk_data(diagonal) : NULL;
    grad_set_enabled(was);
    if (!d)
        return -2;
    int64_t count = diagonal->layout->numel, n = count ? size_at(t, 1) : 1;
    for (int64_t i = 0; i < count; i++)
        if (positive ? !(d[i] > 0) : d[i] == 0) {
            *minor = i % n + 1;
            return i / n;
        }
    return -1;
}

static bool check_regular(const bk_tensor *lu, const char *name, bool inverting)
{
    int64_t minor = 0, at = find_bad(lu, false, &minor);
    char batch[48] = "";
    if (at < 0)
        return at == -1;
    if (lu->layout->ndim > 2)
        snprintf(batch, sizeof batch, "(Batch element %lld): ", (long long)at);
    if (inverting)
        return error_null(BK_LINALG_ERROR,
                          "%s: %sThe diagonal element %lld is zero, the inversion could not be completed because the "
                          "input matrix is singular.",
                          name, batch, (long long)minor);
    return error_null(BK_LINALG_ERROR, "%s: %sThe solver failed because the input matrix is singular.", name, batch);
}

static bool check_positive(const bk_tensor *l, const char *name)
{
    int64_t minor = 0, at = find_bad(l, true, &minor);
    char batch[48] = "";
    if (at < 0)
        return at == -1;
    if (l->layout->ndim > 2)
        snprintf(batch, sizeof batch, "(Batch element %lld): ", (long long)at);
    return error_null(BK_LINALG_ERROR,
                      "%s: %sThe factorization could not be completed because the input is not positive-definite (the "
                      "leading minor of order %lld is not positive-definite).",
                      name, batch, (long long)minor);
}

static const bk_tensor *repeated(const bk_tensor *t, int ndim, const int64_t *sizes)
{
    return t->layout->ndim == ndim && !memcmp(t->layout->sizes, sizes, (size_t)ndim * sizeof *sizes)
               ? t
               : bk_expand(t, ndim, sizes);
}

/* Both repeated to a common batch. */
static bool share_batch(const bk_tensor **a, const bk_tensor **b)
{
    int na = (*a)->layout->ndim, nb = (*b)->layout->ndim, n = na > nb ? na : nb;
    int64_t for_a[BK_MAX_NDIM], for_b[BK_MAX_NDIM];
    for (int d = 0; d < n; d++) {
        int64_t x = d < n - na ? 1 : (*a)->layout->sizes[d - n + na],
                y = d < n - nb ? 1 : (*b)->layout->sizes[d - n + nb];
        bool batch = d < n - 2;
        if (batch && x != y && x != 1 && y != 1)
            return error_null(BK_RUNTIME_ERROR,
                              "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton "
                              "dimension %d",
                              (long long)x, (long long)y, d);
        for_a[d] = batch && x == 1 ? y : x;
        for_b[d] = batch && y == 1 ? x : y;
    }
    *a = repeated(*a, n, for_a);
    *b = repeated(*b, n, for_b);
    return *a && *b;
}

/* --- systems --------------------------------------------------------------------------------------------------------
 */

static bk_tensor *factor_and_solve(const bk_tensor *a, const bk_tensor *b, bool transposed, const char *checked)
{
    operand in;
    bool grad = grad_set_enabled(false); /* the solution's edge leads to a, whose place is made below */
    bk_tensor *pivots, *lu = lu_record(a, &pivots);
    grad_set_enabled(grad);
    if (!lu || (checked && !check_regular(lu, checked, false)) || !tensor_read(a, &in))
        return NULL;
    return lu_solve_record(lu, pivots, b, transposed, in.edge);
}

bk_tensor *solve_unchecked(const bk_tensor *a, const bk_tensor *b, bool transposed)
{
    return a && b ? factor_and_solve(a, b, transposed, NULL) : NULL;
}

/* A vector stands for a matrix of one column: PyTorch's rule for what is one. */
static bool is_vector(const bk_tensor *a, const bk_tensor *b)
{
    int n = b->layout->ndim;
    if (n == 1)
        return true;
    if (a->layout->ndim - 1 != n)
        return false;
    for (int d = 0; d < n; d++)
        if (a->layout->sizes[d] != b->layout->sizes[d])
            return false;
    return true;
}

static bk_tensor *solve(const bk_tensor *a, const bk_tensor *b, bool left, bool check)
{
    const char *name = "linalg.solve";
    if (!check_matrix(a, name, true))
        return NULL;
    bool vector = is_vector(a, b);
    if (vector && !left)
        return error_null(BK_RUNTIME_ERROR,
                          "linalg.solve: Vector broadcasting of the left hand side is not supported for "
                          "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
    const bk_tensor *right = vector ? bk_unsqueeze(b, -1) : b;
    if (!right || !check_fit(a, right, name, left) || !share_batch(&a, &right))
        return NULL;
    if (!left)
        right = bk_transpose(right, -1, -2);
    bk_tensor *x = right ? factor_and_solve(a, right, !left, check ? "torch.linalg.solve" : NULL) : NULL;
    return !x ? NULL : vector ? bk_squeeze(x, -1) : left ? x : bk_transpose(x, -1, -2);
}

bk_tensor *inverse_unchecked(const bk_tensor *a)
{
    operand in;
    bk_tensor *pivots, *lu = lu_record(a, &pivots);
    return lu && tensor_read(a, &in) ? record_solution(OP_inverse, lu, pivots, identity_like(a), false, in.edge) : NULL;
}

static bk_tensor *inverse(const bk_tensor *a, bool check)
{
    operand in;
    bk_tensor *pivots, *lu = check_matrix(a, "linalg.inv", true) ? lu_record(a, &pivots) : NULL;
    if (!lu || (check && !check_regular(lu, "linalg.inv", true)) || !tensor_read(a, &in))
        return NULL;
    return record_solution(OP_inverse, lu, pivots, identity_like(a), false, in.edge);
}

static bk_tensor *solve_triangular(const bk_tensor *t, const bk_tensor *b, bool upper, bool left, bool unit)
{
    const char *name = "linalg.solve_triangular";
    if (!check_matrix(t, name, true) || !check_matrix(b, name, false) || !check_fit(t, b, name, left) ||
        !share_batch(&t, &b))
        return NULL;
    return triangle_solve(t, b,
                          (upper ? TRIANGLE_UPPER : 0) | (left ? 0 : TRIANGLE_RIGHT) | (unit ? TRIANGLE_UNIT : 0));
}

static bk_tensor *lu_solve(const bk_tensor *lu, const bk_tensor *pivots, const bk_tensor *b, bool left, bool transposed)
{
    const char *name = "linalg.lu_solve";
    if (!check_matrix(lu, name, true) || !check_matrix(b, name, false) || !check_fit(lu, b, name, left))
        return NULL;
    if (tensor_dtype(pivots) != BK_INT32)
        return error_null(BK_RUNTIME_ERROR, "%s: pivots should be a Tensor of scalar type torch.int32. Got %s", name,
                          dtypes[tensor_dtype(pivots)].type_name);
    if (tensor_edge(lu)) { /* composed of what has a gradient */
        bk_tensor *a = lu_product(lu, pivots);
        const bk_tensor *factor = a, *right = b;
        if (!a || !share_batch(&factor, &right))
            return NULL;
        right = left ? right : bk_transpose(right, -1, -2);
        bk_tensor *x = solve_unchecked(factor, right, transposed == left);
        return !x ? NULL : left ? x : bk_transpose(x, -1, -2);
    }
    const bk_tensor *places = bk_unsqueeze(pivots, -1), *right = b, *again = b;
    if (!places || !share_batch(&lu, &right) || !share_batch(&places, &again))
        return NULL;
    right = left ? right : bk_transpose(right, -1, -2);
    bk_tensor *x = lu_solve_record(lu, bk_squeeze(places, -1), right, transposed == left, NULL);
    return !x ? NULL : left ? x : bk_transpose(x, -1, -2);
}

/* --- determinants ---------------------------------------------------------------------------------------------------
 */

/* What a determinant is made of, on no tape. */
static bk_tensor *diagonal_of_lu(const bk_tensor *a, const char *name, bk_tensor **lu, bk_tensor **pivots)
{
    *lu = check_matrix(a, name, true) ? lu_record(a, pivots) : NULL;
    return *lu ? bk_diagonal(*lu, 0, -2, -1) : NULL;
}

static bk_tensor *det(const bk_tensor *a)
{
    bk_tensor *lu, *pivots, *d = diagonal_of_lu(a, "linalg.det", &lu, &pivots);
    if (!d)
        return NULL;
    bk_tensor *value = bk_mul(bk_prod(d, 1u << (d->layout->ndim - 1), false), pivots_sign(pivots));
    return record_function(OP_det, a, lu, value, pivots);
}

static bk_tensor *slogdet(const bk_tensor *a, bk_tensor **logabsdet)
{
    bk_tensor *lu, *pivots, *d = diagonal_of_lu(a, "linalg.slogdet", &lu, &pivots);
    if (!d)
        return NULL;
    uint32_t last = 1u << (d->layout->ndim - 1);
    bk_tensor *sign = bk_mul(bk_prod(bk_sign(d), last, false), pivots_sign(pivots));
    *logabsdet = record_function(OP_logabsdet, a, lu, bk_sum(bk_log(bk_abs(d)), last, false), pivots);
    return record_function(OP_signdet, a, lu, sign, pivots);
}

/* --- factorisations -------------------------------------------------------------------------------------------------
 */

/* Of the lower triangle; that of the transposed matrix is the upper one. */
static bk_tensor *cholesky(const bk_tensor *a, bool upper, bool check)
{
    operand in;
    if (!check_matrix(a, "linalg.cholesky", true))
        return NULL;
    const bk_tensor *lower = upper ? bk_transpose(a, -1, -2) : a;
    if (!lower || !tensor_read(lower, &in))
        return NULL;
    bk_tensor *l = record(OP_cholesky, tensor_dtype(a), lower->layout->plain, 0, &in, 1);
    if (!l || (check && !check_positive(l, "linalg.cholesky")))
        return NULL;
    return upper ? bk_transpose(l, -1, -2) : l;
}

static bk_tensor *cholesky_solve(const bk_tensor *b, const bk_tensor *l, bool upper)
{
    if (!check_matrix(l, "cholesky_solve", true) || !check_matrix(b, "cholesky_solve", false) ||
        !check_fit(l, b, "cholesky_solve", true) || !share_batch(&l, &b))
        return NULL;
    int how = upper ? TRIANGLE_UPPER : 0, turned = how | TRIANGLE_TRANSPOSED;
    return upper ? triangle_solve(l, triangle_solve(l, b, turned), how)
                 : triangle_solve(l, triangle_solve(l, b, how), turned);
}

static bk_tensor *lu_factor(const bk_tensor *a, bk_tensor **pivots)
{
    bk_tensor *lu = check_matrix(a, "linalg.lu_factor", false) ? lu_record(a, pivots) : NULL;
    return lu ? record_function(OP_lu_factor, a, *pivots, lu, NULL) : NULL;
}

/* Q and R with k columns and rows, on no tape. */
static bk_tensor *qr_record(const bk_tensor *a, int64_t k, bk_tensor **r)
{
    const layout *of_q = batch_layout(a, 2, 2, (int64_t[]){ size_at(a, 2), k });
    const layout *of_r = batch_layout(a, 2, 2, (int64_t[]){ k, size_at(a, 1) });
    return record_pair(OP_qr, a, of_q, of_r, tensor_dtype(a), r);
}

/* At least as many rows as columns. The tape sees R, and Q as A R^-1. */
static bk_tensor *qr_tall(const bk_tensor *a, bk_tensor **r)
{
    operand in, of_a, of_r;
    bk_tensor *q = qr_record(a, size_at(a, 1), r);
    *r = q ? record_function(OP_qr_r, a, a, *r, NULL) : NULL;
    if (!*r || !tensor_read(a, &of_a) || !tensor_read(*r, &of_r) || !tensor_read(q, &in))
        return NULL;
    in.edge = of_a.edge;
    if (!of_a.edge)
        return q;
    return record(OP_qr_q, tensor_dtype(a), q->layout, TRIANGLE_UPPER | TRIANGLE_RIGHT, (operand[]){ of_r, in }, 2);
}

static bk_tensor *qr(const bk_tensor *a, bk_qr_mode mode, bk_tensor **r)
{
    if (!check_matrix(a, "linalg.qr", false))
        return NULL;
    int64_t rows = size_at(a, 2), columns = size_at(a, 1);
    if (mode == BK_QR_R || (mode == BK_QR_COMPLETE && rows > columns)) {
        bk_tensor *q = qr_record(a, mode == BK_QR_COMPLETE ? rows : shorter_side(a), r);
        *r = q ? record_function(OP_qr_other, a, a, *r, NULL) : NULL;
        return *r ? record_function(OP_qr_other, a, a, q, NULL) : NULL;
    }
    if (rows >= columns)
        return qr_tall(a, r);
    bk_tensor *head, *q = qr_tall(bk_slice(a, -1, 0, rows, 1), &head);
    bk_tensor *tail = q ? product_turned(q, bk_slice(a, -1, rows, columns, 1), TURNED_A) : NULL;
    *r = tail ? bk_cat((bk_tensor *[]){ head, tail }, 2, -1) : NULL;
    return q;
}

/* --- the API: each in a scope of its own
 * ------------------------------------------------------------------------------
 */

static void begin(void)
{
    lock_take();
    bk_scope_push();
}

static bk_tensor *finish(bk_tensor *result)
{
    result = scope_return(result);
    lock_give();
    return result;
}

static bk_tensor *finish_two(bk_tensor *first, bk_tensor *second, bk_tensor **out)
{
    bool good = first && second;
    if (out)
        *out = good ? bk_scope_keep(second) : NULL;
    return finish(good ? first : NULL);
}

bk_tensor *bk_solve(const bk_tensor *a, const bk_tensor *b, bool left, bool check)
{
    begin();
    return finish(a && b ? solve(a, b, left, check) : NULL);
}

bk_tensor *bk_inverse(const bk_tensor *a, bool check)
{
    begin();
    return finish(a ? inverse(a, check) : NULL);
}

bk_tensor *bk_solve_triangular(const bk_tensor *t, const bk_tensor *b, bool upper, bool left, bool unit)
{
    begin();
    return finish(t && b ? solve_triangular(t, b, upper, left, unit) : NULL);
}

bk_tensor *bk_lu_factor(const bk_tensor *a, bk_tensor **pivots)
{
    begin();
    bk_tensor *places = NULL, *lu = a ? lu_factor(a, &places) : NULL;
    return finish_two(lu, places, pivots);
}

bk_tensor *bk_lu_solve(const bk_tensor *lu, const bk_tensor *pivots, const bk_tensor *b, bool left, bool transposed)
{
    begin();
    return finish(lu && pivots && b ? lu_solve(lu, pivots, b, left, transposed) : NULL);
}

bk_tensor *bk_det(const bk_tensor *a)
{
    begin();
    return finish(a ? det(a) : NULL);
}

bk_tensor *bk_slogdet(const bk_tensor *a, bk_tensor **logabsdet)
{
    begin();
    bk_tensor *size = NULL, *sign = a ? slogdet(a, &size) : NULL;
    return finish_two(sign, size, logabsdet);
}

bk_tensor *bk_cholesky(const bk_tensor *a, bool upper, bool check)
{
    begin();
    return finish(a ? cholesky(a, upper, check) : NULL);
}

bk_tensor *bk_cholesky_solve(const bk_tensor *b, const bk_tensor *l, bool upper)
{
    begin();
    return finish(b && l ? cholesky_solve(b, l, upper) : NULL);
}

bk_tensor *bk_qr(const bk_tensor *a, bk_qr_mode mode, bk_tensor **r)
{
    begin();
    bk_tensor *upper = NULL, *q = a ? qr(a, mode, &upper) : NULL;
    return finish_two(q, upper, r);
}
