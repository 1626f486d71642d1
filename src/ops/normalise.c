/* normalise.c: softmax and its logarithm, and rows standardised by their mean and variance. */
#include "ops/normalise.h"

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

static bk_tensor *normalised(int op, const bk_tensor *t, int at, const char *kernel)
{
    if (!t)
        return NULL;
    bk_dtype dtype = tensor_dtype(t);
    int dim = layout_dim(t->layout, at);
    if (dim < 0)
        return NULL;
    if (!dtype_is_float(dtype) && !t->layout->numel)
        return bk_zeros(t->layout->ndim, t->layout->sizes, dtype); /* of any dtype */
    if (!dtype_is_float(dtype))
        return error_null(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, dtypes[dtype].type_name);
    lock_take();
    operand in;
    bk_tensor *r = NULL;
    if (tensor_read(t, &in))
        r = record_one(op, in, dtype, t->layout->plain, (attr){ .reduce = { .dims = 1u << dim } });
    lock_give();
    return r;
}

bk_tensor *bk_softmax(const bk_tensor *t, int dim) { return normalised(OP_softmax, t, dim, "softmax_kernel_impl"); }

bk_tensor *bk_log_softmax(const bk_tensor *t, int dim)
{
    return normalised(OP_log_softmax, t, dim, "log_softmax_kernel_impl");
}

/* --- rows ----------------------------------------------------------------------------------------------------- */

static attr row_attr(int64_t dims, double eps)
{
    attr a = { 0 };
    a.i[0] = dims;
    a.d[1] = eps;
    return a;
}

bk_tensor *standardised_rows(const bk_tensor *x, int count, double eps, bool centred)
{
    if (!x)
        return NULL;
    lock_take();
    operand in;
    bk_tensor *r = NULL;
    if (tensor_read(x, &in))
        r = record_one(centred ? OP_standardise : OP_unit_rows, in, tensor_dtype(x), x->layout->plain,
                       row_attr(count, eps));
    lock_give();
    return r;
}

/* The gradient of rows x for g. */
static bk_tensor *record_back(int op, const bk_tensor *g, const bk_tensor *x, attr a)
{
    operand in[2];
    if (!g || !x || !tensor_read(g, &in[0]) || !tensor_read(x, &in[1]))
        return NULL;
    node *n = node_new(op, tensor_dtype(x), x->layout->plain);
    if (!n)
        return NULL;
    n->inputs = 2;
    n->attr = a;
    for (int k = 0; k < 2; k++)
        node_input(n, k, in[k].value, in[k].edge);
    return tensor_from_node(record_node(n));
}

static bool is_centred(const node *n) { return n->op == OP_standardise || n->op == OP_standardise_back; }

bk_tensor *standardised_gradient(const node *n, const bk_tensor *g, const bk_tensor *x)
{
    return record_back(is_centred(n) ? OP_standardise_back : OP_unit_rows_back, g, x, n->attr);
}

bk_tensor *standardised_again(const node *n, const bk_tensor *x)
{
    return standardised_rows(x, (int)n->attr.i[0], n->attr.d[1], is_centred(n));
}

uint32_t row_dims(const node *n)
{
    int count = (int)n->attr.i[0];
    return count ? dims_below(count) << (n->layout->ndim - count) : 0;
}

bk_tensor *row_scale(const node *n, const bk_tensor *x)
{
    uint32_t dims = row_dims(n);
    if (is_centred(n))
        x = bk_sub(x, bk_mean(x, dims, true));
    return bk_rsqrt(bk_add_s(bk_mean(bk_square(x), dims, true), n->attr.d[1]));
}

bool is_of_rows(const node *n)
{
    return (n->dtype == BK_FLOAT32 || n->dtype == BK_FLOAT64) && n->layout->ndim &&
           (uint32_t)n->attr.reduce.dims == 1u << (n->layout->ndim - 1);
}

bk_tensor *softmax_gradient(const bk_tensor *g, const bk_tensor *y)
{
    return record_back(OP_softmax_back, g, y, row_attr(1, 0));
}
