/* dropout.c: multiplication by random noise that keeps the mean (dropout) or mean and variance (alpha dropout).
 *
 * The numbers are drawn when the call is made, in PyTorch's order; the products are recorded like what a user writes.
 */
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/compose.h"
#include "ops/elementwise.h"

#include <math.h>

/* What is kept is 1, the rest 0: one draw for each element, or one for each (sample, channel). */
static bk_tensor *draw_kept(const bk_tensor *x, double keep, bool by_feature)
{
    const layout *l = x->layout;
    if (!dtype_is_float(tensor_dtype(x)))
        return error_null(BK_RUNTIME_ERROR, "result type Float can't be cast to the desired output type %s",
                          dtypes[tensor_dtype(x)].type_name);
    if (by_feature && l->ndim < 2)
        return error_null(BK_RUNTIME_ERROR, "Feature dropout requires at least 2 dimensions in the input");
    int64_t sizes[BK_MAX_NDIM];
    for (int d = 0; d < l->ndim; d++)
        sizes[d] = d < 2 ? l->sizes[d] : 1;
    bk_tensor *noise = by_feature ? bk_empty(l->ndim, sizes, tensor_dtype(x)) : bk_empty_like(x, tensor_dtype(x));
    return noise && bk_bernoulli_(noise, keep, NULL) == 0 ? noise : NULL;
}

static bk_tensor *scaled_noise(const bk_tensor *x, double p, bool by_feature)
{
    double scale = tensor_dtype(x) == BK_FLOAT64 ? 1 / (1 - p) : (double)(1 / (float)(1 - p)); /* rounded once */
    return ew_with(EW_mul, draw_kept(x, 1 - p, by_feature), number_float(scale));
}

/* Dropped elements become SELU's limit -alpha; x a + b then has the mean and variance that x had. */
static bk_tensor *drop_to_alpha(const bk_tensor *x, double p, bool by_feature)
{
    const double alpha = 1.7580993408473766, a = 1 / sqrt((alpha * alpha * p + 1) * (1 - p));
    bk_tensor *noise = draw_kept(x, 1 - p, by_feature);
    bk_tensor *b = ew_with(EW_mul, ew_with(EW_add, noise, number_int(-1)), number_float(alpha * a));
    b = ew_with(EW_add, b, number_float(alpha * a * p));
    return tensor_written_often(bk_add(bk_mul(x, ew_with(EW_mul, noise, number_float(a))), b), 1); /* add_ */
}

/* The tensor itself where nothing is dropped. */
static bk_tensor *dropped(const bk_tensor *x, double p, bool train, bk_dropout_kind kind)
{
    if (!(p >= 0 && p <= 1))
        return error_null(BK_RUNTIME_ERROR, "dropout probability has to be between 0 and 1, but got %g", p);
    if (p == 0 || !train || !x->layout->numel)
        return tensor_same(x);
    bk_scope_push();
    if (p == 1)
        return scope_return(ew_with(EW_mul, x, number_int(0)));
    bool by_feature = kind & BK_DROPOUT_FEATURES;
    return scope_return(kind & BK_DROPOUT_ALPHA ? drop_to_alpha(x, p, by_feature)
                                                : bk_mul(x, scaled_noise(x, p, by_feature)));
}

bk_tensor *bk_dropout(const bk_tensor *x, double p, bool train, bk_dropout_kind kind)
{
    if (!x)
        return NULL;
    lock_take();
    bk_tensor *t = dropped(x, p, train, kind);
    lock_give();
    return t;
}

int bk_dropout_(bk_tensor *x, double p, bool train, bk_dropout_kind kind)
{
    if (!x)
        return -1;
    lock_take();
    bk_scope_push();
    bk_tensor *t = dropped(x, p, train, kind);
    int status = t == x ? 0 : write_result(x, t);
    bk_scope_pop();
    lock_give();
    return status;
}
