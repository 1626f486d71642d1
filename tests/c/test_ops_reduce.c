/* test_ops_reduce.c: reductions, scans and orders through the public API: values, places, gradients at ties and zeros.
 */
#include <math.h>

#include "brisk.h"
#include "tap.h"

static bk_tensor *floats(int n, const float *v) { return bk_from_data(v, 1, (int64_t[]){ n }, BK_FLOAT32); }

static bool is(bk_tensor *t, int n, const double *want)
{
    if (!t || bk_numel(t) != n)
        return false;
    bk_tensor *flat = bk_reshape(t, 1, (int64_t[]){ -1 });
    for (int i = 0; i < n; i++) {
        double v = bk_item(bk_select(flat, 0, i));
        if (!(fabs(v - want[i]) < 1e-5 || (isnan(v) && isnan(want[i]))))
            return false;
    }
    return true;
}
#define IS(t, ...) is(t, sizeof((double[]){ __VA_ARGS__ }) / sizeof(double), (double[]){ __VA_ARGS__ })

static void values(void)
{
    bk_scope_push();
    bk_tensor *x = bk_from_data((float[]){ 1, 5, 3, 4, 2, 6 }, 2, (int64_t[]){ 2, 3 }, BK_FLOAT32), *at = NULL;
    tap_ok(IS(bk_sum(x, 1, false), 5, 7, 9) && IS(bk_mean(x, 0, false), 3.5), "sum of a dimension, mean of all");
    tap_ok(IS(bk_var(x, 2, 1, true), 4, 4) && IS(bk_std(x, 0, 0, false), sqrt(17.5 / 6)), "variance and deviation");
    tap_ok(IS(bk_max_dim(x, 1, false, &at), 5, 6) && IS(at, 1, 2), "a maximum and its place");
    tap_ok(IS(bk_sort(x, -1, true, &at), 5, 3, 1, 6, 4, 2) && IS(at, 1, 2, 0, 2, 0, 1), "a descending sort");
    tap_ok(IS(bk_topk(x, 2, 1, false, true, &at), 1, 3, 2, 4) && IS(at, 0, 2, 1, 0), "the two least");
    tap_ok(IS(bk_cumsum(x, 0), 1, 5, 3, 5, 7, 9), "a running sum");
    tap_ok(IS(bk_median(x), 3) && IS(bk_norm(x, 2, 0, false), sqrt(91)), "median and norm");
    bk_tensor *s = bk_softmax(bk_transpose(x, 0, 1), 0);
    tap_ok(IS(bk_sum(s, 1, false), 1, 1), "softmax of a transposed operand sums to one");
    tap_ok(IS(bk_quantile(x, bk_scalar(0.5, BK_FLOAT32), BK_MAX_NDIM, false, BK_QUANTILE_LINEAR), 3.5), "a quantile");
    tap_ok(!bk_max_dim(bk_zeros(2, (int64_t[]){ 0, 3 }, BK_FLOAT32), 0, false, NULL) &&
               bk_error_code() == BK_INDEX_ERROR,
           "a maximum of nothing is an error");
    bk_scope_pop();
}

static bk_tensor *gradient(bk_tensor *x, bk_tensor *y)
{
    bk_set_grad(x, NULL);
    return y && bk_backward(y, NULL, false, false) == 0 ? bk_grad_of(x) : NULL;
}

static void gradients(void)
{
    bk_scope_push();
    bk_tensor *x = floats(4, (float[]){ 2, 0, 2, 1 });
    bk_set_requires_grad(x, true);
    tap_ok(IS(gradient(x, bk_max(x)), 0.5, 0, 0.5, 0), "ties of a maximum share its gradient");
    tap_ok(IS(gradient(x, bk_max_dim(x, 0, false, NULL)), 1, 0, 0, 0), "along a dimension the first takes it");
    tap_ok(IS(gradient(x, bk_prod(x, 0, false)), 0, 4, 0, 0), "a product with one zero");
    tap_ok(IS(gradient(x, bk_sum(bk_cumprod(x, 0), 0, false)), 1, 2 + 4 + 4, 0, 0), "running products past a zero");
    bk_tensor *zero = bk_mul_s(x, 0);
    tap_ok(IS(gradient(x, bk_norm(zero, 2, 0, false)), 0, 0, 0, 0), "a norm of zero has gradient zero");
    bk_tensor *weights = floats(4, (float[]){ 1, 2, 3, 4 });
    tap_ok(IS(gradient(x, bk_sum(bk_mul(bk_sort(x, 0, false, NULL), weights), 0, false)), 3, 1, 4, 2),
           "the gradient of a sort goes back to where the values came from");
    bk_scope_pop();
}

int main(void)
{
    values();
    gradients();
    return tap_done();
}
