/* matmul.c: recording products of matrices.
 *
 * One node stands for a batch of products of matrices with any strides, so transposes cost nothing. A batch times one
 * matrix is a single product of folded rows: one GEMM forward, and one for each gradient. */
#include <string.h>

#include "autograd/backward.h"
#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/products.h"

bk_dtype product_dtype(bk_dtype d)
{
    return dtypes[d].category == CATEGORY_FLOAT ? (d == BK_FLOAT64 ? d : BK_FLOAT32) : BK_INT64;
}

/* --- recording -----------------------------------------------------------------------------------------------------
 */

/* Two operands of equal ndim >= 2 whose inner sizes agree, read as `turned` says, and whose batch sizes broadcast. */
static node *record_product(operand a, operand b, int turned)
{
    const layout *la = a.value->layout, *lb = b.value->layout;
    int64_t sizes[BK_MAX_NDIM];
    int last = la->ndim - 1;
    for (int d = 0; d < last - 1; d++)
        sizes[d] = la->sizes[d] == 1 ? lb->sizes[d] : la->sizes[d];
    sizes[last - 1] = la->sizes[turned & TURNED_A ? last : last - 1];
    sizes[last] = lb->sizes[turned & TURNED_B ? last - 1 : last];
    const layout *l = layout_get(la->ndim, sizes, NULL);
    node *n = l ? node_new(OP_matmul, (bk_dtype)a.value->dtype, l) : NULL;
    if (!n)
        return NULL;
    n->inputs = 2;
    n->attr.product.a = la; /* what the gradients are summed to, and whose strides they take */
    n->attr.product.b = lb;
    n->attr.product.turned = turned;
    node_input(n, 0, a.value, a.edge);
    node_input(n, 1, b.value, b.edge);
    return record_node(n);
}

static bk_tensor *record_factors(const bk_tensor *a, const bk_tensor *b, int turned)
{
    operand in[2];
    return tensor_read(a, &in[0]) && tensor_read(b, &in[1]) ? tensor_from_node(record_product(in[0], in[1], turned))
                                                            : NULL;
}

bk_tensor *product_turned(const bk_tensor *a, const bk_tensor *b, int turned)
{
    if (!a || !b)
        return NULL;
    bk_dtype wide = product_dtype(tensor_dtype(a));
    bk_tensor *c;
    lock_take();
    if (tensor_dtype(a) == wide && tensor_dtype(b) == wide) {
        c = record_factors(a, b, turned);
    } else {
        bk_scope_push();
        a = bk_to(a, wide);
        b = bk_to(b, wide);
        c = scope_return(a && b ? record_factors(a, b, turned) : NULL);
    }
    lock_give();
    return c;
}

bk_tensor *product_wide(const bk_tensor *a, const bk_tensor *b) { return product_turned(a, b, 0); }

/* One handle for two records. The bias is read last: a read may flush the log, which keeps what is held, not what a
 * handle only remembers. */
bk_tensor *product_affine(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias)
{
    operand in[2], sum[2] = { { 0 } };
    bk_tensor *y = NULL;
    lock_take();
    bool good = tensor_read(x, &in[0]) && tensor_read(weight, &in[1]);
    node *product = good ? record_product(in[0], in[1], TURNED_B) : NULL;
    if (product && tensor_read(bias, &sum[1])) {
        sum[0] = (operand){ .value = product, .edge = product->flags & NODE_TAPED ? product : NULL };
        y = ew_apply(EW_add, sum);
    }
    if (product)
        node_release(product);
    lock_give();
    return y;
}

/* --- checks --------------------------------------------------------------------------------------------------------
 */

/* There is no kernel for bool, but none is needed where there is nothing to multiply. */
static bool refuse_bool(const bk_tensor *a, const bk_tensor *b, const char *kernel)
{
    if (tensor_dtype(a) != BK_BOOL || !a->layout->numel || !b->layout->numel)
        return true;
    return error_null(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", kernel), false;
}

bool check_mm(const bk_tensor *a, const bk_tensor *b)
{
    const layout *la = a->layout, *lb = b->layout;
    if (la->sizes[1] != lb->sizes[0])
        return error_null(BK_RUNTIME_ERROR, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                          (long long)la->sizes[0], (long long)la->sizes[1], (long long)lb->sizes[0],
                          (long long)lb->sizes[1]),
               false;
    if (tensor_dtype(a) != tensor_dtype(b))
        return error_null(BK_RUNTIME_ERROR, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                          dtypes[tensor_dtype(a)].c_name, dtypes[tensor_dtype(b)].c_name),
               false;
    return refuse_bool(a, b, "addmm_impl_cpu_");
}

bool check_product_dtype(const bk_tensor *a, const bk_tensor *b)
{
    if (!refuse_bool(a, b, "bmm"))
        return false;
    if (tensor_dtype(a) != tensor_dtype(b))
        return error_null(BK_RUNTIME_ERROR, "expected scalar type %s but found %s", dtypes[tensor_dtype(a)].type_name,
                          dtypes[tensor_dtype(b)].type_name),
               false;
    return true;
}

static bool refuse_batch(int64_t batch, int64_t inner, int64_t batch_b, int64_t inner_b)
{
    return error_null(BK_RUNTIME_ERROR,
                      "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: "
                      "[%lld, %lld].",
                      (long long)batch, (long long)inner, (long long)batch_b, (long long)inner_b),
           false;
}

bool check_bmm(const bk_tensor *a, const bk_tensor *b)
{
    const layout *la = a->layout, *lb = b->layout;
    if (la->ndim != 3 || lb->ndim != 3)
        return error_null(BK_RUNTIME_ERROR, "batch%d must be a 3D tensor", la->ndim != 3 ? 1 : 2), false;
    if (la->sizes[0] != lb->sizes[0] || la->sizes[2] != lb->sizes[1])
        return refuse_batch(la->sizes[0], la->sizes[2], lb->sizes[0], lb->sizes[1]);
    return check_product_dtype(a, b);
}

bool check_mv(const bk_tensor *input, const bk_tensor *matrix, const bk_tensor *vector)
{
    const layout *lm = matrix->layout, *lv = vector->layout;
    int ndim = input ? input->layout->ndim : 1;
    if (ndim > 1 || lm->ndim != 2 || lv->ndim != 1)
        return error_null(BK_RUNTIME_ERROR, "vector + matrix @ vector expected, got %d, %d, %d", ndim, lm->ndim,
                          lv->ndim),
               false;
    int64_t rows = input && ndim ? input->layout->sizes[0] : lm->sizes[0];
    if (lm->sizes[1] != lv->sizes[0] || (ndim && rows != lm->sizes[0] && rows != 1))
        return error_null(BK_RUNTIME_ERROR, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)",
                          (long long)rows, (long long)lm->sizes[0], (long long)lm->sizes[1], (long long)lv->sizes[0]),
               false;
    bk_dtype d = tensor_dtype(input ? input : vector);
    if (tensor_dtype(matrix) != tensor_dtype(vector) || d != tensor_dtype(vector))
        return error_null(BK_RUNTIME_ERROR, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                          dtypes[d].type_name, dtypes[tensor_dtype(matrix)].type_name,
                          dtypes[tensor_dtype(vector)].type_name),
               false;
    return refuse_bool(matrix, vector, "addmv_impl_cpu");
}

static bool check_dot(const bk_tensor *a, const bk_tensor *b)
{
    long long na = a->layout->numel, nb = b->layout->numel;
    if (a->layout->ndim != 1 || b->layout->ndim != 1)
        return error_null(BK_RUNTIME_ERROR, "1D tensors expected, but got %dD and %dD tensors", a->layout->ndim,
                          b->layout->ndim),
               false;
    if (tensor_dtype(a) != tensor_dtype(b))
        return error_null(BK_RUNTIME_ERROR, "dot : expected both vectors to have same dtype, but found %s and %s",
                          dtypes[tensor_dtype(a)].type_name, dtypes[tensor_dtype(b)].type_name),
               false;
    if (na != nb)
        return error_null(BK_RUNTIME_ERROR,
                          "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same "
                          "number of elements, but got %lld and %lld elements respectively",
                          na, nb, na, nb),
               false;
    if (tensor_dtype(a) == BK_BOOL)
        return error_null(BK_NOT_IMPLEMENTED, "\"dot\" not implemented for 'Bool'"), false;
    return true;
}

/* --- matrices and vectors ------------------------------------------------------------------------------------------
 */

/* The wide product in a's dtype. */
static bk_tensor *multiply(const bk_tensor *a, const bk_tensor *b)
{
    static int row;
    const bk_dtype d = a ? tensor_dtype(a) : BK_FLOAT32;
    const uint64_t start = next_sequence;
    bk_tensor *c = a && b ? bk_to(product_wide(a, b), d) : NULL;
    return product_dtype(d) == d ? c : composed_as(c, "_wide_product", &row, start, (const bk_tensor *[]){ a, b }, 2);
}

static bk_tensor *mm(const bk_tensor *a, const bk_tensor *b)
{
    if (a->layout->ndim != 2 || b->layout->ndim != 2)
        return error_null(BK_RUNTIME_ERROR, "%s must be a matrix", a->layout->ndim != 2 ? "self" : "mat2");
    return check_mm(a, b) ? multiply(a, b) : NULL;
}

static bk_tensor *bmm(const bk_tensor *a, const bk_tensor *b) { return check_bmm(a, b) ? multiply(a, b) : NULL; }

static bk_tensor *mv(const bk_tensor *a, const bk_tensor *b)
{
    return check_mv(NULL, a, b) ? bk_squeeze(multiply(a, bk_unsqueeze(b, 1)), 1) : NULL;
}

static bk_tensor *named_mv(const bk_tensor *a, const bk_tensor *b)
{
    static int row;
    uint64_t start = next_sequence;
    return composed_as(mv(a, b), "mv", &row, start, (const bk_tensor *[]){ a, b }, 2);
}

static bk_tensor *dot(const bk_tensor *a, const bk_tensor *b)
{
    return check_dot(a, b) ? bk_view(multiply(bk_unsqueeze(a, 0), bk_unsqueeze(b, 1)), 0, NULL) : NULL;
}

/* --- matmul: all ranks ---------------------------------------------------------------------------------------------
 */

/* (..., k) times a matrix or a vector: the leading dimensions fold into rows. */
static bk_tensor *fold(const bk_tensor *a, const bk_tensor *b)
{
    const layout *la = a->layout;
    int64_t sizes[BK_MAX_NDIM], inner = la->sizes[la->ndim - 1], rows = 1;
    int ndim = la->ndim - 1;
    for (int d = 0; d < ndim; d++)
        rows *= sizes[d] = la->sizes[d];
    bk_tensor *flat = bk_reshape(a, 2, (int64_t[]){ rows, inner });
    if (!flat)
        return NULL;
    if (b->layout->ndim == 1)
        return made_by(bk_view(named_mv(flat, b), ndim, sizes), VIEW_unsafe_view);
    sizes[ndim++] = b->layout->sizes[1];
    return made_by(bk_view(mm(flat, b), ndim, sizes), VIEW_unsafe_view);
}

/* t with leading dimensions of size 1 up to ndim. */
static const bk_tensor *raise(const bk_tensor *t, int ndim)
{
    while (t && t->layout->ndim < ndim)
        t = bk_unsqueeze(t, 0);
    return t;
}

static bool check_batches(const layout *a, const layout *b)
{
    int64_t batch = 1, batch_b = 1;
    int last = a->ndim - 1;
    for (int d = 0; d < last - 1; d++) {
        int64_t sa = a->sizes[d], sb = b->sizes[d];
        if (sa != sb && sa != 1 && sb != 1)
            return error_null(BK_RUNTIME_ERROR,
                              "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                              "non-singleton dimension %d",
                              (long long)sa, (long long)sb, d),
                   false;
        batch *= sa == 1 ? sb : sa;
        batch_b = batch;
    }
    if (a->sizes[last] != b->sizes[last - 1])
        return refuse_batch(batch, a->sizes[last], batch_b, b->sizes[last - 1]);
    return true;
}

/* PyTorch turns a product of a matrix that requires gradients round, and leaves one row, one column or nothing at all
 * so: it can be told by the stride of that dimension. */
static bk_tensor *turned_twice(bk_tensor *c)
{
    int64_t sizes[BK_MAX_NDIM];
    int last = c ? c->layout->ndim - 1 : 0;
    if (!c || (c->layout->numel && c->layout->sizes[last] != 1 && c->layout->sizes[last - 1] != 1))
        return c;
    memcpy(sizes, c->layout->sizes, sizeof sizes);
    sizes[last] = c->layout->sizes[last - 1], sizes[last - 1] = c->layout->sizes[last];
    return bk_transpose(bk_view(c, last + 1, sizes), -2, -1);
}

/* Whether the batches of l, repeated to those of the other factor, can be counted by one dimension without a copy. */
static bool counts_in_one(const layout *l, const layout *other)
{
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM], view[BK_MAX_NDIM], batch = 1;
    int last = l->ndim - 1;
    memcpy(sizes, l->sizes, sizeof sizes);
    memcpy(strides, l->strides, sizeof strides);
    for (int d = 0; d < last - 1; d++) {
        if (l->sizes[d] == 1 && other->sizes[d] != 1)
            sizes[d] = other->sizes[d], strides[d] = 0;
        batch *= sizes[d];
    }
    const layout *repeated = layout_get(l->ndim, sizes, strides);
    return !repeated || layout_view_strides(repeated, 3, (int64_t[]){ batch, sizes[last - 1], sizes[last] }, view);
}

/* Whether the rows of all of l's matrices, read transposed, can be counted by one dimension without a copy. */
static bool folds_turned(const layout *l)
{
    int64_t view[BK_MAX_NDIM], inner = l->sizes[l->ndim - 2];
    const layout *turned = layout_turned(l);
    return !turned || !inner || layout_view_strides(turned, 2, (int64_t[]){ l->numel / inner, inner }, view);
}

/* A factor that PyTorch multiplies and saves a copy of: whoever writes to the leaf below it later does the gradients no
 * harm. Elsewhere the tape keeps the leaf's value as it is, and refuses when it has changed. */
static const bk_tensor *copied(const bk_tensor *t)
{
    const node *edge = tensor_edge(t);
    return edge && place_leaf_under(edge) ? bk_clone(t) : t;
}

/* The factors as the tape is to keep them, where the gradient of each reads the other. vector_or_matrix: a was one, and
 * PyTorch folds the rows of b. */
static void keep_factors(const bk_tensor **a, const bk_tensor **b, bool vector_or_matrix)
{
    const layout *la = (*a)->layout, *lb = (*b)->layout;
    if (!grad_enabled() || !tensor_tracked(*a) || !tensor_tracked(*b))
        return;
    if (!vector_or_matrix && !counts_in_one(la, lb))
        *a = copied(*a);
    if (vector_or_matrix ? !folds_turned(lb) : !counts_in_one(lb, la))
        *b = copied(*b);
}

static bk_tensor *batched(const bk_tensor *a, const bk_tensor *b)
{
    bool vector = a->layout->ndim == 1, matrix = a->layout->ndim == 2, turns = matrix && bk_requires_grad(a);
    int ndim = a->layout->ndim > b->layout->ndim ? a->layout->ndim : b->layout->ndim;
    a = raise(a, ndim);
    b = raise(b, ndim);
    if (!a || !b || !check_batches(a->layout, b->layout) || !check_product_dtype(a, b))
        return NULL;
    keep_factors(&a, &b, vector || matrix);
    bk_tensor *c = multiply(a, b);
    return vector ? made_by(bk_squeeze(c, -2), VIEW_squeeze_own) : turns ? turned_twice(c) : c;
}

/* Whether t is one matrix for each of the other's several, and wants a gradient: PyTorch makes it a matrix, lest its
 * gradient be as large as the other. */
static bool is_for_all(const bk_tensor *t, const bk_tensor *other)
{
    const layout *l = t->layout, *o = other->layout;
    return l->ndim == 3 && o->ndim == 3 && l->sizes[0] == 1 && o->sizes[0] != 1 && bk_requires_grad(t);
}

static bk_tensor *matmul(const bk_tensor *a, const bk_tensor *b)
{
    if (is_for_all(a, b))
        a = bk_squeeze(a, 0);
    else if (is_for_all(b, a))
        b = bk_squeeze(b, 0);
    if (!a || !b)
        return NULL;
    int na = a->layout->ndim, nb = b->layout->ndim;
    if (!na || !nb)
        return error_null(BK_RUNTIME_ERROR, "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                          na, nb);
    if (na == 1 && nb == 1)
        return dot(a, b);
    if (na == 1 && nb == 2)
        return made_by(bk_squeeze(mm(bk_unsqueeze(a, 0), b), 0), VIEW_squeeze_own);
    if (na == 2 && nb == 1)
        return mv(a, b);
    if (na == 2 && nb == 2)
        return mm(a, b);
    return nb <= 2 ? fold(a, b) : batched(a, b);
}

/* --- the public functions -------------------------------------------------------------------------------------------
 */

static bk_tensor *apply(bk_tensor *(*product)(const bk_tensor *, const bk_tensor *), const bk_tensor *a,
                        const bk_tensor *b)
{
    if (!a || !b)
        return NULL;
    bk_scope_push();
    return scope_return(tensor_as_own(product(a, b)));
}

bk_tensor *bk_matmul(const bk_tensor *a, const bk_tensor *b) { return apply(matmul, a, b); }
bk_tensor *bk_mm(const bk_tensor *a, const bk_tensor *b) { return apply(mm, a, b); }
bk_tensor *bk_bmm(const bk_tensor *a, const bk_tensor *b) { return apply(bmm, a, b); }
bk_tensor *bk_mv(const bk_tensor *a, const bk_tensor *b) { return apply(mv, a, b); }
bk_tensor *bk_dot(const bk_tensor *a, const bk_tensor *b) { return apply(dot, a, b); }
