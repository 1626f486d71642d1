/* moments.c: variances and what is made of them. */
#include "autograd/composed.h"
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

/* The mean of each row, which PyTorch has as a sum that is divided. */
static bk_tensor *row_means(const bk_tensor *x)
{
    static int row;
    uint64_t start = next_sequence;
    return composed_as(bk_mean(x, 2, true), "_row_means", &row, start, &x, 1);
}

static bk_tensor *plain_covariance(const bk_tensor *x, double correction, double *freedom)
{
    double n = *freedom = (double)x->layout->sizes[1] - correction;
    bk_tensor *centred = bk_sub(x, row_means(x));
    return bk_div_s(bk_matmul(centred, bk_t(centred)), n > 0 ? n : 0);
}

static int check_weights(const bk_tensor *w, const char *name, bool real, int64_t observations)
{
    const dtype_info *d = &dtypes[tensor_dtype(w)];
    if (w->layout->ndim > 1)
        return error_int(BK_RUNTIME_ERROR,
                         "cov(): expected %s to have one or fewer dimensions but got %s with %d dimensions", name, name,
                         w->layout->ndim);
    if (d->category != (real ? CATEGORY_FLOAT : CATEGORY_INT))
        return error_int(BK_RUNTIME_ERROR, "cov(): expected %s to have %s dtype but got %s with %s dtype", name,
                         real ? "floating point" : "integral", name, d->type_name);
    if (w->layout->numel != observations)
        return error_int(BK_RUNTIME_ERROR,
                         "cov(): expected %s to have the same numel as there are observations in the input but got "
                         "%lld != %lld",
                         name, (long long)w->layout->numel, (long long)observations);
    bk_tensor *least = observations ? bk_min(w) : NULL;
    if (observations && !least)
        return -1;
    if (least && bk_item(least) < 0)
        return error_int(BK_RUNTIME_ERROR, "cov(): %s cannot be negative", name);
    return 0;
}

/* As PyTorch has it: with weights of importance what is taken off the sum of weights is their own average. */
static bk_tensor *weighted_covariance(const bk_tensor *x, double correction, const bk_tensor *frequencies,
                                      const bk_tensor *importances, double *freedom)
{
    const int64_t n = x->layout->sizes[1];
    if ((frequencies && check_weights(frequencies, "fweights", false, n) < 0) ||
        (importances && check_weights(importances, "aweights", true, n) < 0))
        return NULL;
    const bk_tensor *w = !importances ? frequencies : frequencies ? bk_mul(frequencies, importances) : importances;
    bk_tensor *sum = bk_sum(w, 0, false);
    if (!sum)
        return NULL;
    if (bk_item(sum) == 0)
        return error_null(BK_RUNTIME_ERROR, "cov(): weights sum to zero, can't be normalized");
    bk_tensor *off = importances ? bk_div(bk_mul_s(bk_sum(bk_mul(w, importances), 0, false), correction), sum) : NULL;
    bk_tensor *over = importances ? bk_sub(sum, off) : bk_sub_s(sum, correction);
    if (!over)
        return NULL;
    *freedom = bk_item(over);
    bk_tensor *centred = bk_sub(x, bk_unsqueeze(bk_div(bk_sum(bk_mul(x, w), 2, false), sum), 1));
    bk_tensor *c = bk_matmul(centred, bk_t(bk_mul(centred, w)));
    return *freedom > 0 ? bk_div(c, over) : bk_div_s(c, 0);
}

static bk_tensor *covariance(const bk_tensor *t, double correction, const bk_tensor *frequencies,
                             const bk_tensor *importances, double *freedom)
{
    const bk_tensor *x = t->layout->ndim < 2 ? bk_view(t, 2, (int64_t[]){ 1, -1 }) : t;
    x = x && !dtype_is_float(tensor_dtype(x)) ? bk_to(x, bk_get_default_dtype()) : x;
    if (!x)
        return NULL;
    bk_tensor *c = frequencies || importances ? weighted_covariance(x, correction, frequencies, importances, freedom)
                                              : plain_covariance(x, correction, freedom);
    return bk_squeeze(c, BK_MAX_NDIM);
}

bk_tensor *bk_cov(const bk_tensor *t, double correction)
{
    double freedom;
    return moments_cov(t, correction, NULL, NULL, &freedom);
}

bk_tensor *moments_cov(const bk_tensor *t, double correction, const bk_tensor *frequencies,
                       const bk_tensor *importances, double *freedom)
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
    return scope_return(covariance(t, correction, frequencies, importances, freedom));
}

/* Divided by both deviations in turn, and clipped: rounding must not make a correlation of more than 1. */
static bk_tensor *correlation(const bk_tensor *t)
{
    bk_tensor *c = bk_cov(t, 1);
    if (!c || c->layout->ndim == 0)
        return bk_div(c, c);
    static int row;
    bk_tensor *deviation = bk_sqrt(bk_diagonal(c, 0, 0, 1));
    bk_tensor *column = made_by(bk_unsqueeze(deviation, 1), VIEW_view);
    c = bk_div(bk_div(c, column), made_by(bk_unsqueeze(deviation, 0), VIEW_view));
    uint64_t start = next_sequence;
    return composed_as(bk_clamp_max_s(bk_clamp_min_s(c, -1), 1), "_clip_number", &row, start,
                       (const bk_tensor *[]){ c }, 1);
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

/* The diagonal as a view: one stride for both dimensions. */
static bk_tensor *main_diagonal(const bk_tensor *t)
{
    const layout *l = t->layout;
    int64_t n = l->sizes[0] < l->sizes[1] ? l->sizes[0] : l->sizes[1];
    int64_t step = l->strides[0] + l->strides[1];
    return bk_as_strided(t, 1, &n, &step, t->offset);
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
