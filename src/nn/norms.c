/* norms.c: normalisation layers: by mean and variance over some dimensions, or by the root of the mean square.
 *
 * Rows are standardised by a node of their own, statistics of channels are composed of recorded ops. Half precision is
 * computed in float32 and rounded once. Weights and biases may be NULL. */
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/shapes.h"
#include "ops/compose.h"
#include "ops/elementwise.h"
#include "ops/normalise.h"

static bk_tensor *widen(const bk_tensor *x)
{
    bk_dtype d = tensor_dtype(x);
    return d == BK_FLOAT16 || d == BK_BFLOAT16 ? bk_to(x, BK_FLOAT32) : tensor_same(x);
}

/* A vector of channels in the shape that broadcasts over dimension 1 of x. */
static bk_tensor *by_channel(const bk_tensor *v, const bk_tensor *x)
{
    int64_t sizes[BK_MAX_NDIM];
    for (int d = 0; d < x->layout->ndim; d++)
        sizes[d] = d == 1 ? v->layout->numel : 1;
    return bk_reshape(v, x->layout->ndim, sizes);
}

/* y scaled and shifted, as x's dtype. */
static bk_tensor *finish(bk_tensor *y, const bk_tensor *weight, const bk_tensor *bias, bool channels,
                         const bk_tensor *x)
{
    if (weight)
        y = bk_mul(y, channels ? by_channel(weight, x) : weight);
    if (bias)
        y = bk_add(y, channels ? by_channel(bias, x) : bias);
    return y ? bk_to(y, tensor_dtype(x)) : NULL;
}

/* Whether x's last dimensions have the given sizes; if not, the error is set. */
static bool normalizes(const bk_tensor *x, int count, const int64_t *sizes)
{
    const layout *l = x->layout;
    bool fits = count >= 1 && l->ndim >= count;
    for (int i = 0; fits && i < count; i++)
        fits = l->sizes[l->ndim - count + i] == sizes[i];
    if (fits)
        return true;
    char wanted[SHAPE_TEXT], got[SHAPE_TEXT];
    shape_text(wanted, count, sizes), shape_text(got, l->ndim, l->sizes);
    error_int(BK_RUNTIME_ERROR,
              "Given normalized_shape=[%s], expected input with shape [*, %s], but got input of size[%s]", wanted,
              wanted, got);
    return false;
}

bk_tensor *bk_layer_norm(const bk_tensor *x, int count, const int64_t *sizes, const bk_tensor *weight,
                         const bk_tensor *bias, double eps)
{
    if (!x || !normalizes(x, count, sizes))
        return NULL;
    bk_scope_push();
    return scope_return(finish(standardised_rows(widen(x), count, eps, true), weight, bias, false, x));
}

/* The strides of x times a factor for each row of its last `count` dimensions, whose sizes are x's where a row is one
 * element. */
static const layout *scaled_layout(const layout *x, int count)
{
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM], row = 1;
    const int first = x->ndim - count;
    for (int d = 0; d < x->ndim; d++) {
        sizes[d] = d < first ? x->sizes[d] : 1;
        row *= d < first ? 1 : x->sizes[d];
    }
    const layout *factor = layout_get(x->ndim, sizes, NULL);
    for (int d = 0; factor && d < x->ndim; d++)
        strides[d] = d >= first && x->sizes[d] != 1 ? 0 : factor->strides[d];
    factor = factor ? layout_get(x->ndim, x->sizes, strides) : NULL;
    const layout *in[] = { x, factor };
    if (!factor)
        return NULL;
    return row == 1 ? strides_of_equals(in, 2, x->plain) : strides_of_result(in, 2, x->plain);
}

bk_tensor *bk_rms_norm(const bk_tensor *x, int count, const int64_t *sizes, const bk_tensor *weight, double eps)
{
    if (!x || !normalizes(x, count, sizes))
        return NULL;
    bk_scope_push();
    const bk_tensor *wide = widen(x);
    bk_tensor *y = standardised_rows(wide, count, eps, false);
    y = finish(y ? laid_as(y, scaled_layout(wide->layout, count)) : NULL, weight, NULL, false, x);
    if (y && !y->layout->contiguous && !layout_looks_channels_last(x->layout)) /* PyTorch leaves only channels last */
        y = laid_as(y, y->layout->plain);
    return scope_return(y);
}

bk_tensor *bk_group_norm(const bk_tensor *x, int64_t groups, const bk_tensor *weight, const bk_tensor *bias, double eps)
{
    if (!x)
        return NULL;
    const layout *l = x->layout;
    if (l->ndim < 2)
        return error_null(BK_RUNTIME_ERROR, "Expected at least 2 dimensions for input tensor but received %d", l->ndim);
    if (groups < 1 || l->sizes[1] % groups) {
        char got[SHAPE_TEXT];
        shape_text(got, l->ndim, l->sizes);
        return error_null(BK_RUNTIME_ERROR,
                          "Expected number of channels in input to be divisible by num_groups, but got input of shape "
                          "[%s] and num_groups=%lld",
                          got, (long long)groups);
    }
    bk_scope_push();
    int64_t rest = l->sizes[0] && l->sizes[1] ? l->numel / l->sizes[0] / groups : 0;
    bk_tensor *y = bk_reshape(widen(x), 3, (int64_t[]){ l->sizes[0], groups, rest }); /* (N, G, C/G * spatial) */
    y = bk_reshape(standardised_rows(y, 1, eps, true), l->ndim, l->sizes);
    return scope_return(tensor_as_own(finish(y, weight, bias, true, x)));
}

/* running = (1 - momentum) running + momentum value, outside the tape. */
static int move_average(bk_tensor *running, const bk_tensor *value, double momentum)
{
    bool before = bk_set_grad_enabled(false);
    bk_tensor *kept = bk_mul_s(running, 1 - momentum);
    bk_tensor *next = bk_add(kept, bk_mul_s(bk_reshape(value, 1, running->layout->sizes), momentum));
    int status = next ? bk_copy_(running, next) : -1;
    bk_set_grad_enabled(before);
    return status;
}

static int check_channels(const bk_tensor *v, int64_t channels, const char *name)
{
    if (!v || v->layout->numel == channels)
        return 0;
    return error_int(BK_RUNTIME_ERROR, "%s should contain %lld elements not %lld", name, (long long)channels,
                     (long long)v->layout->numel);
}

/* The dimensions over which a channel's statistics are taken: all but the channels, and with `alone` not the samples.*/
static uint32_t channel_dims(const bk_tensor *x, bool alone)
{
    return dims_below(x->layout->ndim) & ~(alone ? 3u : 2u);
}

/* Statistics of the input (which move the running ones) or the running ones. */
static bk_tensor *by_statistics(const bk_tensor *x, bool alone, bk_tensor *running_mean, bk_tensor *running_var,
                                bool of_input, double momentum, double eps)
{
    if (!of_input)
        return bk_mul(bk_sub(x, by_channel(running_mean, x)), bk_rsqrt(bk_add_s(by_channel(running_var, x), eps)));
    if (alone && x->layout->ndim > 2 && !running_mean && !running_var)
        return standardised_rows(x, x->layout->ndim - 2, eps, true);
    uint32_t dims = channel_dims(x, alone);
    bk_tensor *mean = bk_mean(x, dims, true), *centred = bk_sub(x, mean);
    bk_tensor *var = bk_mean(bk_mul(centred, centred), dims, true);
    int64_t count = 1;
    for (int d = 0; d < x->layout->ndim; d++)
        count *= dims >> d & 1 ? x->layout->sizes[d] : 1;
    if (running_mean && move_average(running_mean, alone ? bk_mean(mean, 1u, true) : mean, momentum) < 0)
        return NULL;
    if (running_var) {
        bk_tensor *unbiased = bk_mul_s(var, (double)count / (double)(count - 1));
        if (move_average(running_var, alone ? bk_mean(unbiased, 1u, true) : unbiased, momentum) < 0)
            return NULL;
    }
    return bk_mul(centred, bk_rsqrt(bk_add_s(var, eps)));
}

static bk_tensor *channel_norm(const bk_tensor *x, bool alone, bk_tensor *running_mean, bk_tensor *running_var,
                               const bk_tensor *weight, const bk_tensor *bias, bool of_input, double momentum,
                               double eps)
{
    if (!x)
        return NULL;
    if (x->layout->ndim < 2)
        return error_null(BK_RUNTIME_ERROR, "input should have at least 2 dimensions");
    if (!of_input && (!running_mean || !running_var))
        return error_null(BK_RUNTIME_ERROR, "Expected running_mean and running_var to be defined");
    int64_t channels = x->layout->sizes[1];
    if (check_channels(running_mean, channels, "running_mean") < 0 ||
        check_channels(running_var, channels, "running_var") < 0 || check_channels(weight, channels, "weight") < 0 ||
        check_channels(bias, channels, "bias") < 0)
        return NULL;
    bk_scope_push();
    bk_tensor *y = by_statistics(widen(x), alone, running_mean, running_var, of_input, momentum, eps);
    return scope_return(finish(y, weight, bias, true, x));
}

bk_tensor *bk_batch_norm(const bk_tensor *x, bk_tensor *running_mean, bk_tensor *running_var, const bk_tensor *weight,
                         const bk_tensor *bias, bool training, double momentum, double eps)
{
    return channel_norm(x, false, running_mean, running_var, weight, bias, training, momentum, eps);
}

bk_tensor *bk_instance_norm(const bk_tensor *x, bk_tensor *running_mean, bk_tensor *running_var,
                            const bk_tensor *weight, const bk_tensor *bias, bool use_input_stats, double momentum,
                            double eps)
{
    return channel_norm(x, true, running_mean, running_var, weight, bias, use_input_stats, momentum, eps);
}
