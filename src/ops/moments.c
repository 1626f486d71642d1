/* moments.c: variances and what is made of them. */
#include "core/error.h"
#include "core/lock.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

/* Over n - correction, but never over less than nothing. */
static double divisor(const layout *l, uint32_t dims, double correction)
{
    double n = (double)reduced_count(l, dims) - correction;
    return n > 0 ? n : 0;
}

static bk_tensor *spread(int op, const bk_tensor *t, uint32_t dims, double correction, bool keepdim)
{
    if (!t)
        return NULL;
    if (!dtype_is_float(tensor_dtype(t)))
        return error_null(BK_RUNTIME_ERROR, "std and var only support floating point and complex dtypes");
    lock_take();
    operand in;
    bk_tensor *r = NULL;
    const layout *l = t->layout;
    dims = some_dims(l, dims);
    attr a = { .reduce = { .dims = dims, .from = l } };
    a.d[2] = divisor(l, dims, correction);
    if (tensor_read(t, &in))
        r = record_one(op, in, tensor_dtype(t), reduced_layout(l, dims, keepdim), a);
    lock_give();
    return r;
}

bk_tensor *bk_var(const bk_tensor *t, uint32_t dims, double correction, bool keepdim)
{
    return spread(OP_var, t, dims, correction, keepdim);
}

bk_tensor *bk_std(const bk_tensor *t, uint32_t dims, double correction, bool keepdim)
{
    return spread(OP_std, t, dims, correction, keepdim);
}

/* --- matrices of them
 * -------------------------------------------------------------------------------------------------- */

static bk_tensor *covariance(const bk_tensor *t, double correction)
{
    const bk_tensor *x = t->layout->ndim < 2 ? bk_view(t, 2, (int64_t[]){ 1, -1 }) : t;
    x = x && !dtype_is_float(tensor_dtype(x)) ? bk_to(x, bk_get_default_dtype()) : x;
    if (!x)
        return NULL;
    double n = (double)x->layout->sizes[1] - correction;
    bk_tensor *centred = bk_sub(x, bk_mean(x, 2, true));
    bk_tensor *c = bk_div_s(bk_matmul(centred, bk_transpose(centred, 0, 1)), n > 0 ? n : 0);
    return bk_squeeze(c, BK_MAX_NDIM);
}

bk_tensor *bk_cov(const bk_tensor *t, double correction)
{
    if (!t)
        return NULL;
    if (t->layout->ndim > 2)
        return error_null(BK_RUNTIME_ERROR,
                          "cov(): expected input to have two or fewer dimensions but got an input with "
                          "%d dimensions",
                          t->layout->ndim);
    if (tensor_dtype(t) == BK_BOOL)
        return error_null(BK_RUNTIME_ERROR, "cov(): bool dtype is not supported for input");
    bk_scope_push();
    return scope_return(covariance(t, correction));
}

/* The diagonal as a view: one stride for both dimensions. */
static bk_tensor *main_diagonal(const bk_tensor *t)
{
    const layout *l = t->layout;
    int64_t n = l->sizes[0] < l->sizes[1] ? l->sizes[0] : l->sizes[1];
    int64_t step = l->strides[0] + l->strides[1];
    return bk_as_strided(t, 1, &n, &step, t->offset);
}

/* Divided by both deviations in turn, and clipped: rounding must not make a correlation of more than 1. */
static bk_tensor *correlation(const bk_tensor *t)
{
    bk_tensor *c = bk_cov(t, 1);
    if (!c || c->layout->ndim == 0)
        return bk_div(c, c);
    bk_tensor *deviation = bk_sqrt(main_diagonal(c));
    c = bk_div(bk_div(c, bk_unsqueeze(deviation, 1)), bk_unsqueeze(deviation, 0));
    return bk_clamp_max_s(bk_clamp_min_s(c, -1), 1);
}

bk_tensor *bk_corrcoef(const bk_tensor *t)
{
    if (!t)
        return NULL;
    if (t->layout->ndim > 2)
        return error_null(BK_RUNTIME_ERROR,
                          "corrcoef(): expected input to have two or fewer dimensions but got an input "
                          "with %d dimensions",
                          t->layout->ndim);
    bk_scope_push();
    return scope_return(correlation(t));
}

bk_tensor *bk_trace(const bk_tensor *t)
{
    if (!t)
        return NULL;
    if (tensor_dtype(t) == BK_BOOL)
        return error_null(BK_NOT_IMPLEMENTED, "\"trace\" not implemented for '%s'", dtypes[tensor_dtype(t)].type_name);
    if (t->layout->ndim != 2)
        return error_null(BK_RUNTIME_ERROR, "trace: expected a matrix, but got tensor with dim %d", t->layout->ndim);
    bk_scope_push();
    return scope_return(bk_sum(main_diagonal(t), 0, false));
}
