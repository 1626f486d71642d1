/* products.c: what is made of matrix products: sums with a product, chains, powers, contractions, distances.
 *
 * Sums with a product are elementwise ops on its result, which the planner fuses; they are computed before the result
 * is rounded to its dtype, so that half precision is rounded once. */
#include <math.h>
#include <string.h>

#include "autograd/composed.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/scope.h"
#include "ops/products.h"

/* --- beta input + alpha product --------------------------------------------------------------------------------------
 */

static bk_tensor *scale(const bk_tensor *t, double factor, bool whole)
{
    if (whole)
        factor = trunc(factor);
    return factor == 1 ? tensor_same(t) : bk_mul_s(t, factor);
}

/* product is wide; the result has input's dtype. beta == 0: input is not read, NaN or not. */
static bk_tensor *add_product(const bk_tensor *input, const bk_tensor *product, double beta, double alpha)
{
    if (!product)
        return NULL;
    bk_dtype dtype = tensor_dtype(input), wide = tensor_dtype(product);
    bool whole = !dtype_is_float(dtype);
    bk_tensor *sum = scale(product, alpha, whole);
    if (beta != 0)
        sum = bk_add(sum, scale(bk_to(input, wide), beta, whole));
    return sum ? bk_to(sum, dtype) : NULL;
}

/* Where there is nothing to multiply the result is beta input, which has to keep its dtype. */
static bool check_scaled(const bk_tensor *input, const bk_tensor *a, double beta)
{
    bk_dtype d = tensor_dtype(input);
    bool fraction = beta != trunc(beta);
    if (a->layout->sizes[1] || beta == 0 || dtype_is_float(d) || (d != BK_BOOL && !fraction))
        return true;
    return error_null(BK_RUNTIME_ERROR, "result type %s can't be cast to the desired output type %s",
                      fraction ? "Float" : "Long", dtypes[d].type_name),
           false;
}

bk_tensor *bk_addmm(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha)
{
    if (!input || !a || !b)
        return NULL;
    const layout *la = a->layout, *lb = b->layout;
    if (la->ndim != 2 || lb->ndim != 2)
        return error_null(BK_RUNTIME_ERROR, "mat%d must be a matrix, got %d-D tensor", la->ndim != 2 ? 1 : 2,
                          la->ndim != 2 ? la->ndim : lb->ndim);
    bk_scope_push();
    bk_tensor *sum = NULL, *wide = bk_expand(input, 2, (int64_t[]){ la->sizes[0], lb->sizes[1] });
    if (wide && check_mm(a, b)) {
        if (tensor_dtype(input) != tensor_dtype(b))
            error_null(BK_RUNTIME_ERROR, "self and mat2 must have the same dtype, but got %s and %s",
                       dtypes[tensor_dtype(input)].type_name, dtypes[tensor_dtype(b)].type_name);
        else if (check_scaled(wide, a, beta))
            sum = add_product(input, product_wide(a, b), beta, alpha);
    }
    return scope_return(sum);
}

bk_tensor *bk_addmv(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha)
{
    if (!input || !a || !b || !check_mv(input, a, b))
        return NULL;
    bk_scope_push();
    bk_tensor *product = bk_squeeze(product_wide(a, bk_unsqueeze(b, 1)), 1);
    return scope_return(add_product(input, product, beta, alpha));
}

static bool check_batch_sum(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b)
{
    bk_dtype d = tensor_dtype(input), da = tensor_dtype(a), db = tensor_dtype(b);
    if (d != da || d != db)
        return error_null(BK_RUNTIME_ERROR, "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s",
                          dtypes[d].c_name, dtypes[da].c_name, dtypes[db].c_name),
               false;
    return check_bmm(a, b);
}

static bool check_three(const bk_tensor *a, const bk_tensor *b)
{
    if (a->layout->ndim == 3 && b->layout->ndim == 3)
        return true;
    return error_null(BK_RUNTIME_ERROR, "batch%d must be a 3D tensor", a->layout->ndim != 3 ? 1 : 2), false;
}

bk_tensor *bk_baddbmm(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha)
{
    if (!input || !a || !b || !check_three(a, b))
        return NULL;
    bk_scope_push();
    int64_t sizes[3] = { a->layout->sizes[0], a->layout->sizes[1], b->layout->sizes[2] };
    bool good = bk_expand(input, 3, sizes) && check_batch_sum(input, a, b);
    return scope_return(good ? add_product(input, product_wide(a, b), beta, alpha) : NULL);
}

/* The sum over the batch is part of the contraction: (n, b k) x (b k, m) is one product. */
bk_tensor *bk_addbmm(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha)
{
    if (!input || !a || !b || !check_three(a, b))
        return NULL;
    const layout *la = a->layout, *lb = b->layout;
    if (la->sizes[0] != lb->sizes[0])
        return error_null(BK_RUNTIME_ERROR, "batch1 and batch2 must have same number of batches, got %lld and %lld",
                          (long long)la->sizes[0], (long long)lb->sizes[0]);
    if (la->sizes[2] != lb->sizes[1])
        return error_null(BK_RUNTIME_ERROR, "Incompatible matrix sizes for bmm (%lldx%lld and %lldx%lld)",
                          (long long)la->sizes[1], (long long)la->sizes[2], (long long)lb->sizes[1],
                          (long long)lb->sizes[2]);
    bk_scope_push();
    int64_t rows = la->sizes[1], inner = la->sizes[0] * la->sizes[2], columns = lb->sizes[2];
    bk_tensor *sum = NULL, *wide = bk_expand(input, 2, (int64_t[]){ rows, columns });
    if (wide && check_batch_sum(input, a, b)) {
        bk_tensor *flat_a = bk_reshape(bk_permute(a, 3, (int[]){ 1, 0, 2 }), 2, (int64_t[]){ rows, inner });
        bk_tensor *flat_b = bk_reshape(b, 2, (int64_t[]){ inner, columns });
        sum = add_product(input, product_wide(flat_a, flat_b), beta, alpha);
    }
    return scope_return(sum);
}

/* --- outer products -------------------------------------------------------------------------------------------------
 */

static bool check_vectors(const bk_tensor *a, const bk_tensor *b, const char *op, const char *first, const char *second)
{
    bool bad = a->layout->ndim != 1;
    int ndim = bad ? a->layout->ndim : b->layout->ndim;
    if (ndim == 1)
        return true;
    return error_null(BK_RUNTIME_ERROR, "%s: Expected 1-D argument %s, but got %d-D", op, bad ? first : second, ndim),
           false;
}

bk_tensor *bk_outer(const bk_tensor *a, const bk_tensor *b)
{
    if (!a || !b || !check_vectors(a, b, "outer", "self", "vec2"))
        return NULL;
    bk_scope_push();
    return scope_return(bk_mul(made_by(bk_unsqueeze(a, 1), VIEW_view), b));
}

bk_tensor *bk_addr(const bk_tensor *input, const bk_tensor *a, const bk_tensor *b, double beta, double alpha)
{
    if (!input || !a || !b || !check_vectors(a, b, "addr", "vec1", "vec2"))
        return NULL;
    bk_scope_push();
    bk_tensor *wide = bk_expand(input, 2, (int64_t[]){ a->layout->sizes[0], b->layout->sizes[0] });
    bk_tensor *product = wide ? scale(bk_mul(bk_unsqueeze(a, 1), b), alpha, false) : NULL;
    if (product && beta != 0)
        product = bk_add(scale(wide, beta, false), product);
    bk_dtype common = dtype_promote(tensor_dtype(input), dtype_promote(tensor_dtype(a), tensor_dtype(b)));
    return scope_return(product ? bk_to(product, common) : NULL);
}

bk_tensor *bk_inner(const bk_tensor *a, const bk_tensor *b)
{
    if (!a || !b)
        return NULL;
    const layout *la = a->layout, *lb = b->layout;
    if (!la->ndim || !lb->ndim)
        return bk_mul(a, b);
    char x[200], y[200];
    if (la->sizes[la->ndim - 1] != lb->sizes[lb->ndim - 1])
        return error_null(BK_RUNTIME_ERROR,
                          "inner() the last dimension must match on both input tensors but got shapes %s and %s",
                          layout_text(la, x), layout_text(lb, y));
    return bk_tensordot(a, b, 1, (int[]){ -1 }, (int[]){ -1 });
}

/* --- linear
 * ----------------------------------------------------------------------------------------------------------- */

/* Matrices and a bias that need no check, cast or view: what a layer is called with. */
static bool is_affine(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias)
{
    const layout *lx = x->layout, *lw = weight->layout, *lb = bias->layout;
    bk_dtype d = tensor_dtype(x);
    return lx->ndim == 2 && lw->ndim == 2 && lb->ndim == 1 && lx->sizes[1] == lw->sizes[1] &&
           lb->sizes[0] == lw->sizes[0] && tensor_dtype(weight) == d && tensor_dtype(bias) == d && dtype_is_float(d) &&
           product_dtype(d) == d;
}

static bk_tensor *named_affine(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias)
{
    static int row;
    uint64_t start = next_sequence;
    return composed_as(product_affine(x, weight, bias), "linear", &row, start, (const bk_tensor *[]){ x, weight, bias },
                       3);
}

static bk_tensor *linear_by_vector(const bk_tensor *x, const bk_tensor *weight)
{
    static const char *const names[] = { "dot", "mv" };
    static int rows[2];
    const bk_tensor *of[] = { x, bk_t(weight) };
    uint64_t start = next_sequence;
    bk_tensor *y = bk_matmul(of[0], of[1]);
    int how = x->layout->ndim - 1;
    return how < 2 ? composed_as(y, names[how], &rows[how], start, of, 2) : y;
}

static bk_tensor *linear(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias)
{
    int nx = x->layout->ndim, nw = weight->layout->ndim;
    if (!nx || !nw)
        return error_null(BK_RUNTIME_ERROR, "both arguments to linear need to be at least 1D, but they are %dD and %dD",
                          nx, nw);
    if (nw > 2)
        return error_null(BK_RUNTIME_ERROR, "t() expects a tensor with <= 2 dimensions, but self is %dD", nw);
    if (nw == 1 && bias)
        return error_null(BK_RUNTIME_ERROR, "mat2 must be a matrix, got 1-D tensor");
    if (!bias)
        return nw == 2 ? bk_matmul(x, bk_t(weight)) : linear_by_vector(x, weight);
    const layout *lx = x->layout;
    int64_t sizes[BK_MAX_NDIM], rows = 1;
    for (int d = 0; d < nx - 1; d++)
        rows *= sizes[d] = lx->sizes[d];
    sizes[nx - 1] = weight->layout->sizes[0];
    if (bias->layout->ndim > 1 && nx > 2)
        return bk_add(bk_matmul(x, bk_t(weight)), bias);
    bk_tensor *flat = nx == 2 ? tensor_same(x) : bk_reshape(x, 2, (int64_t[]){ rows, lx->sizes[nx - 1] });
    if (!flat)
        return NULL;
    static int row;
    uint64_t start = next_sequence;
    bk_tensor *y =
        is_affine(flat, weight, bias) ? named_affine(flat, weight, bias) : bk_addmm(bias, flat, bk_t(weight), 1, 1);
    y = nx == 2 ? y : tensor_as_own(bk_view(y, nx, sizes));
    if (nx < 3 || lx->contiguous)
        return y;
    return composed_as(y, "_affine_of_copy", &row, start, (const bk_tensor *[]){ flat, weight, bias }, 3);
}

bk_tensor *bk_linear(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias)
{
    if (!x || !weight)
        return NULL;
    if (bias && is_affine(x, weight, bias))
        return product_affine(x, weight, bias);
    bk_scope_push();
    return scope_return(linear(x, weight, bias));
}

/* --- chains and powers
 * -------------------------------------------------------------------------------------------------- */

/* cut[i][j]: where the product of matrices i..j is split; sizes[i] x sizes[i + 1] is matrix i. */
static bk_tensor *multiply_chain(bk_tensor *const *m, const int *cut, int count, int i, int j)
{
    if (i == j)
        return m[i];
    int k = cut[i * count + j];
    return bk_mm(multiply_chain(m, cut, count, i, k), multiply_chain(m, cut, count, k + 1, j));
}

/* The last product, which PyTorch sees in the sizes that the ends ask for, whether or not these are others. */
static bk_tensor *last_product(bk_tensor *const *m, const int *cut, int count, bool viewed)
{
    static int row;
    int k = cut[count - 1];
    bk_tensor *a = multiply_chain(m, cut, count, 0, k), *b = multiply_chain(m, cut, count, k + 1, count - 1);
    uint64_t start = next_sequence;
    bk_tensor *product = bk_mm(a, b);
    return viewed ? product : composed_as(product, "_last_product", &row, start, (const bk_tensor *[]){ a, b }, 2);
}

/* The cheapest order, by the classic table over all sub-chains; of two that cost the same PyTorch's. */
static bk_tensor *chain(bk_tensor *const *m, int count, bool viewed)
{
    double *cost = mem_alloc((size_t)count * (size_t)count * sizeof *cost);
    int *cut = mem_alloc((size_t)count * (size_t)count * sizeof *cut);
    bk_tensor *result = NULL;
    if (cost && cut) {
        for (int i = 0; i < count; i++)
            cost[i * count + i] = 0;
        for (int span = 1; span < count; span++) {
            for (int i = 0; i + span < count; i++) {
                int j = i + span;
                cost[i * count + j] = INFINITY;
                for (int k = i; k < j; k++) {
                    double here = (double)m[i]->layout->sizes[0] * (double)m[k]->layout->sizes[1] *
                                  (double)m[j]->layout->sizes[1];
                    double total = cost[i * count + k] + cost[(k + 1) * count + j] + here;
                    if (total < cost[i * count + j] || (count == 3 && total == cost[i * count + j])) {
                        cost[i * count + j] = total;
                        cut[i * count + j] = k;
                    }
                }
            }
        }
        result = last_product(m, cut, count, viewed);
    }
    mem_free(cost);
    mem_free(cut);
    return result;
}

static bool check_chain(bk_tensor *const *t, int count)
{
    char a[200], b[200];
    for (int i = 0; i < count; i++) {
        if (!t[i])
            return false;
        bool end = i == 0 || i == count - 1;
        int ndim = t[i]->layout->ndim;
        if (end && (ndim < 1 || ndim > 2))
            return error_null(BK_RUNTIME_ERROR, "multi_dot(): the %s tensor must be 1D or 2D but got %dD",
                              i ? "last" : "first", ndim),
                   false;
        if (!end && ndim != 2)
            return error_null(BK_RUNTIME_ERROR, "multi_dot(): tensor %d must be 2D but got %dD", i, ndim), false;
        if (tensor_dtype(t[i]) != tensor_dtype(t[0]))
            return error_null(BK_RUNTIME_ERROR,
                              "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and "
                              "tensor %d %s",
                              dtypes[tensor_dtype(t[0])].c_name, i, dtypes[tensor_dtype(t[i])].c_name),
                   false;
    }
    for (int i = 0; i + 1 < count; i++) {
        const layout *l = t[i]->layout, *next = t[i + 1]->layout;
        if (l->sizes[l->ndim - 1] != next->sizes[0])
            return error_null(BK_RUNTIME_ERROR,
                              "multi_dot(): tensors %d and %d with shapes %s and %s cannot be multiplied", i, i + 1,
                              layout_text(l, a), layout_text(next, b)),
                   false;
    }
    return true;
}

bk_tensor *bk_multi_dot(bk_tensor *const *tensors, int count)
{
    if (count < 2)
        return error_null(BK_RUNTIME_ERROR, "multi_dot(): expected at least 2 tensors but got %d", count);
    if (!check_chain(tensors, count))
        return NULL;
    bk_scope_push();
    bk_tensor **m = mem_alloc((size_t)count * sizeof *m), *result = NULL;
    if (m) {
        memcpy(m, tensors, (size_t)count * sizeof *m);
        bool row = m[0]->layout->ndim == 1, column = m[count - 1]->layout->ndim == 1;
        if (row)
            m[0] = bk_unsqueeze(m[0], 0);
        if (column)
            m[count - 1] = bk_unsqueeze(m[count - 1], 1);
        result = m[0] && m[count - 1] ? chain(m, count, row || column) : NULL;
        if (result && (row || column))
            result = bk_view(result, !row + !column, &result->layout->sizes[row]);
    }
    mem_free(m);
    return scope_return(result);
}

bk_tensor *bk_chain_matmul(bk_tensor *const *matrices, int count)
{
    if (count < 1)
        return error_null(BK_RUNTIME_ERROR, "chain_matmul(): Expected one or more matrices");
    if (count == 1)
        return bk_clone(matrices[0]);
    return bk_multi_dot(matrices, count);
}

static bk_tensor *identity_like(const bk_tensor *t)
{
    const layout *l = t->layout;
    int64_t n = l->sizes[l->ndim - 1], zero = 0;
    bk_tensor *eye = bk_zeros(2, (int64_t[]){ n, n }, tensor_dtype(t));
    bk_tensor *diagonal = eye ? bk_as_strided(eye, 1, &n, (int64_t[]){ n + 1 }, zero) : NULL;
    if (!diagonal || bk_fill_(diagonal, 1) < 0)
        return NULL;
    return bk_clone(bk_expand(eye, l->ndim, l->sizes));
}

/* As a tensor that was written over: t gets a gradient, of zeros. */
static bk_tensor *power_of_none(const bk_tensor *t)
{
    bk_tensor *one = identity_like(t);
    if (!one || !grad_enabled() || !tensor_tracked(t))
        return one;
    bk_tensor *copy = bk_clone(t);
    return copy && bk_copy_(copy, one) == 0 ? copy : NULL;
}

/* Of matrices, or of stacks of them, under PyTorch's name. */
static bk_tensor *named_product(const bk_tensor *a, const bk_tensor *b)
{
    static int row;
    uint64_t start = next_sequence;
    bk_tensor *c = bk_matmul(a, b);
    return a->layout->ndim > 2 ? composed_as(c, "_stack_by_stack", &row, start, (const bk_tensor *[]){ a, b }, 2) : c;
}

static bk_tensor *power(const bk_tensor *t, int64_t n)
{
    if (n == 3) { /* in PyTorch's order */
        const bk_tensor *square = named_product(t, t);
        return square ? named_product(square, t) : NULL;
    }
    const bk_tensor *result = NULL, *square = t;
    for (; n && square; n >>= 1) {
        if (n & 1)
            result = result ? named_product(result, square) : square;
        if (n > 1)
            square = named_product(square, square);
    }
    return result == t ? bk_clone(t) : square ? tensor_same(result) : NULL;
}

bk_tensor *bk_matrix_power(const bk_tensor *t, int64_t n)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    if (l->ndim < 2)
        return error_null(BK_RUNTIME_ERROR, "linalg.matrix_power: The input tensor A must have at least 2 dimensions.");
    if (l->sizes[l->ndim - 1] != l->sizes[l->ndim - 2])
        return error_null(
            BK_RUNTIME_ERROR,
            "linalg.matrix_power: A must be batches of square matrices, but they are %lld by %lld matrices",
            (long long)l->sizes[l->ndim - 2], (long long)l->sizes[l->ndim - 1]);
    if (n < 0)
        return error_null(BK_NOT_IMPLEMENTED, "linalg.matrix_power: negative powers need an inverse");
    bk_scope_push();
    return scope_return(n ? power(t, n) : power_of_none(t));
}

/* --- contractions
 * --------------------------------------------------------------------------------------------------------- */

/* Reads dims into a bit set; the dimensions counted from the front. */
static bool read_dims(const layout *l, int count, const int *dims, int out[static BK_MAX_NDIM], uint32_t *set)
{
    *set = 0;
    for (int i = 0; i < count; i++) {
        out[i] = layout_dim(l, dims[i]);
        if (out[i] < 0)
            return false;
        if (*set >> out[i] & 1)
            return error_null(BK_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", out[i]), false;
        *set |= 1u << out[i];
    }
    return true;
}

/* A contracted dimension of size 1 meets one of any size: the other side is summed there first. */
static bool meet(const bk_tensor **a, const bk_tensor **b, int da, int db, int named_a, int named_b)
{
    int64_t sa = (*a)->layout->sizes[da], sb = (*b)->layout->sizes[db];
    if (sa == sb && sa != 1)
        return true;
    if (sa != 1 && sb != 1)
        return error_null(BK_RUNTIME_ERROR,
                          "contracted dimensions need to match, but first has size %lld in dim %d and second "
                          "has size %lld in dim %d",
                          (long long)sa, named_a, (long long)sb, named_b),
               false;
    const bk_tensor **wide = sb == 1 ? a : b;
    *wide = bk_to(bk_sum(*wide, 1u << (sb == 1 ? da : db), true), tensor_dtype(*wide));
    return *wide != NULL;
}

/* t as a matrix: the dimensions that are kept by the contracted ones (kept_first), or the other way round. */
static bk_tensor *as_matrix(const bk_tensor *t, int count, const int *dims, uint32_t set, bool kept_first)
{
    int order[BK_MAX_NDIM], n = 0;
    int64_t kept = 1, contracted = 1;
    for (int i = 0; !kept_first && i < count; i++)
        order[n++] = dims[i];
    for (int d = 0; d < t->layout->ndim; d++) {
        if (set >> d & 1)
            continue;
        order[n++] = d;
        kept *= t->layout->sizes[d];
    }
    for (int i = 0; i < count; i++) {
        if (kept_first)
            order[n++] = dims[i];
        contracted *= t->layout->sizes[dims[i]];
    }
    int64_t sizes[2] = { kept_first ? kept : contracted, kept_first ? contracted : kept };
    return bk_reshape(bk_permute(t, n, order), 2, sizes);
}

/* Whether all of l in the order of dims is row-major. */
static bool is_row_major(const layout *l, int count, const int *dims)
{
    int64_t expect = 1;
    for (int i = count - 1; i >= 0; i--) {
        if (l->sizes[dims[i]] != 1 && l->strides[dims[i]] != expect)
            return false;
        expect *= l->sizes[dims[i]];
    }
    return true;
}

/* To one number PyTorch has a product of vectors, or a sum where it would have to copy one. */
static bk_tensor *named_dot(bk_tensor *dot, int count, const bk_tensor *const of[2], const int *const dims[2],
                            uint64_t start)
{
    static const char *const names[] = { "_sum_of_products", "_dot_of_all", "_dot_by_vector", "_dot_of_vector",
                                         "_dot_of_vectors" };
    static int rows[5];
    bool plain = is_row_major(of[0]->layout, count, dims[0]) && is_row_major(of[1]->layout, count, dims[1]);
    int how = plain ? 1 + (of[1]->layout->ndim == 1) + 2 * (of[0]->layout->ndim == 1) : 0;
    return composed_as(dot, names[how], &rows[how], start, of, 2);
}

static bk_tensor *tensordot(const bk_tensor *a, const bk_tensor *b, int count, const int *dims_a, const int *dims_b)
{
    int da[BK_MAX_NDIM], db[BK_MAX_NDIM];
    uint32_t set_a, set_b;
    if (count > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions", BK_MAX_NDIM);
    if (!read_dims(a->layout, count, dims_a, da, &set_a) || !read_dims(b->layout, count, dims_b, db, &set_b))
        return NULL;
    for (int i = 0; i < count; i++)
        if (!meet(&a, &b, da[i], db[i], dims_a[i], dims_b[i]))
            return NULL;
    int64_t sizes[2 * BK_MAX_NDIM];
    int ndim = 0;
    for (int d = 0; d < a->layout->ndim; d++)
        if (!(set_a >> d & 1))
            sizes[ndim++] = a->layout->sizes[d];
    for (int d = 0; d < b->layout->ndim; d++)
        if (!(set_b >> d & 1))
            sizes[ndim++] = b->layout->sizes[d];
    uint64_t start = next_sequence;
    bk_tensor *c = bk_mm(as_matrix(a, count, da, set_a, true), as_matrix(b, count, db, set_b, false));
    bk_tensor *result = tensor_as_own_taped(bk_view(c, ndim, sizes));
    if (!result || (ndim && (result->layout->numel != 1 || !count)))
        return result;
    return named_dot(result, count, (const bk_tensor *[]){ a, b }, (const int *const[]){ da, db }, start);
}

bk_tensor *bk_tensordot(const bk_tensor *a, const bk_tensor *b, int count, const int *dims_a, const int *dims_b)
{
    if (!a || !b)
        return NULL;
    if (tensor_dtype(a) != tensor_dtype(b))
        return error_null(BK_RUNTIME_ERROR, "both inputs should have same dtype");
    bk_scope_push();
    return scope_return(tensordot(a, b, count, dims_a, dims_b));
}

/* (a0, 1, a1, 1) times (1, b0, 1, b1), seen as (a0 b0, a1 b1). */
bk_tensor *bk_kron(const bk_tensor *a, const bk_tensor *b)
{
    if (!a || !b)
        return NULL;
    const layout *la = a->layout, *lb = b->layout;
    int ndim = la->ndim > lb->ndim ? la->ndim : lb->ndim;
    if (2 * ndim > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "kron: tensors of at most %d dimensions, got %d", BK_MAX_NDIM / 2, ndim);
    int64_t wide_a[BK_MAX_NDIM], wide_b[BK_MAX_NDIM], sizes[BK_MAX_NDIM];
    for (int d = 0; d < ndim; d++) {
        int fa = d - (ndim - la->ndim), fb = d - (ndim - lb->ndim);
        wide_a[2 * d] = fa < 0 ? 1 : la->sizes[fa];
        wide_b[2 * d + 1] = fb < 0 ? 1 : lb->sizes[fb];
        wide_a[2 * d + 1] = wide_b[2 * d] = 1;
        sizes[d] = wide_a[2 * d] * wide_b[2 * d + 1];
    }
    bk_scope_push();
    bk_tensor *c = bk_mul(bk_reshape(a, 2 * ndim, wide_a), bk_reshape(b, 2 * ndim, wide_b));
    return scope_return(tensor_as_own(bk_reshape(c, ndim, sizes)));
}

/* --- distances
 * ------------------------------------------------------------------------------------------------------------ */

enum { BY_PRODUCT_ABOVE = 25 }; /* rows: PyTorch's bound */

/* t^(1/p), and 0 with a gradient of 0 at 0. */
static bk_tensor *root(const bk_tensor *t, double p)
{
    bk_tensor *zero = bk_eq_s(t, 0), *safe = bk_where(zero, bk_ones_like(t), t);
    bk_tensor *r = p == 2 ? bk_sqrt(safe) : bk_pow_s(safe, 1 / p);
    return bk_where(zero, bk_zeros_like(t), r);
}

/* |a|^2 + |b|^2 - 2 a b: one product, but digits are lost where rows are close. */
static bk_tensor *distances_by_product(const bk_tensor *a, const bk_tensor *b)
{
    uint32_t last = 1u << (a->layout->ndim - 1);
    bk_tensor *squares = bk_add(bk_sum(bk_square(a), last, true),
                                bk_transpose(bk_sum(bk_square(b), 1u << (b->layout->ndim - 1), true), -1, -2));
    bk_tensor *both = bk_matmul(bk_mul_s(a, -2), bk_transpose(b, -1, -2));
    return root(bk_clamp_min_s(bk_add(squares, both), 0), 2);
}

static bk_tensor *distances(const bk_tensor *a, const bk_tensor *b, double p)
{
    bk_tensor *apart = bk_abs(bk_sub(bk_unsqueeze(a, -2), bk_unsqueeze(b, -3)));
    if (!apart)
        return NULL;
    uint32_t last = 1u << (apart->layout->ndim - 1);
    if (p == 0 && tensor_tracked(apart)) /* the whole part of nothing: its gradient is zero */
        return bk_sum(bk_where(bk_ne_s(apart, 0), bk_ones_like(apart), bk_trunc(apart)), last, false);
    if (p == 0)
        return bk_to(bk_sum(bk_ne_s(apart, 0), last, false), tensor_dtype(a));
    bool empty = apart->layout->sizes[apart->layout->ndim - 1] == 0;
    if (isinf(p) && !empty)
        return bk_amax(apart, last, false);
    if (p == 1 || empty)
        return bk_sum(apart, last, false);
    return root(bk_sum(p == 2 ? bk_square(apart) : bk_pow_s(apart, p), last, false), p);
}

bk_tensor *bk_cdist(const bk_tensor *a, const bk_tensor *b, double p, int mode)
{
    if (!a || !b)
        return NULL;
    const layout *la = a->layout, *lb = b->layout;
    bk_dtype da = tensor_dtype(a), db = tensor_dtype(b);
    if (!dtype_is_float(da) || !dtype_is_float(db))
        return error_null(BK_RUNTIME_ERROR, "cdist only supports floating-point dtypes, X%d got: %s",
                          dtype_is_float(da) ? 2 : 1, dtypes[dtype_is_float(da) ? db : da].type_name);
    if (p < 0)
        return error_null(BK_RUNTIME_ERROR, "cdist only supports non-negative p values");
    if (la->ndim < 2 || lb->ndim < 2)
        return error_null(BK_RUNTIME_ERROR, "cdist only supports at least 2D tensors, X%d got: %dD",
                          la->ndim < 2 ? 1 : 2, la->ndim < 2 ? la->ndim : lb->ndim);
    int64_t columns = la->sizes[la->ndim - 1], rows_a = la->sizes[la->ndim - 2], rows_b = lb->sizes[lb->ndim - 2];
    if (columns != lb->sizes[lb->ndim - 1])
        return error_null(BK_RUNTIME_ERROR, "X1 and X2 must have the same number of columns. X1: %lld X2: %lld",
                          (long long)columns, (long long)lb->sizes[lb->ndim - 1]);
    if (da != db)
        return error_null(BK_RUNTIME_ERROR, "expected scalar type %s but found %s", dtypes[da].type_name,
                          dtypes[db].type_name);
    if (da == BK_FLOAT16 || da == BK_BFLOAT16)
        return error_null(BK_NOT_IMPLEMENTED, "\"cdist\" not implemented for '%s'", dtypes[da].type_name);
    bool product = p == 2 && (mode == 1 || (mode == 0 && (rows_a > BY_PRODUCT_ABOVE || rows_b > BY_PRODUCT_ABOVE)));
    bk_scope_push();
    return scope_return(product ? distances_by_product(a, b) : distances(a, b, p));
}
