/* conv.c: padding, convolutions and their transposes, over one to three spatial dimensions.
 *
 * A convolution is a product: windows of the input, as columns (channel, place in the window), times the weight as a
 * matrix. The windows are views until the product wants them in a row. A transposed convolution is a plain one over the
 * input with zeros between its elements, with the weight turned round. */
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "nn/shapes.h"
#include "ops/numbers.h"

enum { MAX_SPATIAL = 3 };

/* The elements of x within the limits; pads that are negative cut off. */
static bk_tensor *cut(const bk_tensor *x, int pairs, const int64_t *pads)
{
    bk_tensor *t = tensor_same(x);
    for (int i = 0; t && i < pairs; i++) {
        int dim = x->layout->ndim - 1 - i;
        int64_t size = x->layout->sizes[dim], low = pads[2 * i] < 0 ? -pads[2 * i] : 0;
        int64_t high = pads[2 * i + 1] < 0 ? size + pads[2 * i + 1] : size;
        if (low > high)
            return error_null(BK_RUNTIME_ERROR,
                              "The input size %lld, plus negative padding, resulted in a negative output "
                              "size, which is invalid. Check dimension %d of your input.",
                              (long long)size, dim);
        if (low || high != size)
            t = bk_slice(t, dim, low, high, 1);
    }
    return t;
}

bk_tensor *bk_pad(const bk_tensor *x, int pairs, const int64_t *pads, double value)
{
    if (!x)
        return NULL;
    if (pairs > x->layout->ndim)
        return error_null(BK_RUNTIME_ERROR,
                          "Length of pad should be no more than twice the number of dimensions of the "
                          "input. Pad length is %d while the input has %d dimensions.",
                          2 * pairs, x->layout->ndim);
    bk_scope_push();
    bk_tensor *kept = cut(x, pairs, pads), *place = NULL;
    int64_t sizes[BK_MAX_NDIM];
    bool grows = false;
    for (int d = 0; kept && d < kept->layout->ndim; d++)
        sizes[d] = kept->layout->sizes[d];
    for (int i = 0; i < pairs; i++) {
        int64_t more = (pads[2 * i] > 0 ? pads[2 * i] : 0) + (pads[2 * i + 1] > 0 ? pads[2 * i + 1] : 0);
        grows |= more > 0;
        sizes[x->layout->ndim - 1 - i] += more;
    }
    if (!kept || !grows)
        return scope_return(kept ? bk_clone(kept) : NULL);
    if (number_check(number_float(value), tensor_dtype(x)) < 0)
        return scope_return(NULL);
    bk_tensor *out = place = bk_full(x->layout->ndim, sizes, value, tensor_dtype(x));
    for (int i = 0; place && i < pairs; i++) {
        int dim = x->layout->ndim - 1 - i;
        int64_t low = pads[2 * i] > 0 ? pads[2 * i] : 0;
        place = bk_slice(place, dim, low, low + kept->layout->sizes[dim], 1);
    }
    return scope_return(place && bk_copy_(place, kept) == 0 ? tensor_finished(out) : NULL);
}

/* pads[] as bk_pad takes it, last dimension first, from the same amount on both sides. */
static bk_tensor *pad_both(const bk_tensor *x, int n, const int64_t *padding)
{
    int64_t pads[2 * MAX_SPATIAL], any = 0;
    for (int i = 0; i < n; i++) {
        pads[2 * (n - 1 - i)] = pads[2 * (n - 1 - i) + 1] = padding[i];
        any |= padding[i];
    }
    return any ? bk_pad(x, n, pads, 0) : tensor_same(x);
}

static int check_spatial(const char *name, int n, const int64_t *values, int64_t least)
{
    for (int i = 0; i < n; i++)
        if (values[i] < least)
            return error_int(BK_RUNTIME_ERROR,
                             least ? "non-positive %s is not supported" : "negative %s is not supported", name);
    return 0;
}

/* x has a batch; weight is (out, in / groups, kernel...). */
static int check_conv(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias, const int64_t *padding,
                      const int64_t *dilation, int64_t groups)
{
    const layout *l = x->layout, *w = weight->layout;
    int n = w->ndim - 2;
    char wanted[SHAPE_TEXT], got[SHAPE_TEXT];
    shape_text(wanted, w->ndim, w->sizes), shape_text(got, l->ndim, l->sizes);
    if (tensor_dtype(x) != tensor_dtype(weight) || (bias && tensor_dtype(x) != tensor_dtype(bias)))
        return error_int(BK_RUNTIME_ERROR, "Input type (%s) and %s type (%s) should be the same",
                         dtypes[tensor_dtype(x)].type_name, tensor_dtype(x) != tensor_dtype(weight) ? "weight" : "bias",
                         dtypes[tensor_dtype(tensor_dtype(x) != tensor_dtype(weight) ? weight : bias)].type_name);
    if (l->sizes[1] != w->sizes[1] * groups)
        return error_int(BK_RUNTIME_ERROR,
                         "Given groups=%lld, weight of size [%s], expected input[%s] to have %lld channels, but got "
                         "%lld channels instead",
                         (long long)groups, wanted, got, (long long)(w->sizes[1] * groups), (long long)l->sizes[1]);
    if (groups < 1 || w->sizes[0] % groups)
        return error_int(BK_RUNTIME_ERROR,
                         "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight of "
                         "size [%s] instead",
                         (long long)groups, (long long)groups, wanted);
    if (bias && (bias->layout->ndim != 1 || bias->layout->sizes[0] != w->sizes[0]))
        return error_int(BK_RUNTIME_ERROR,
                         "Given weight of size [%s], expected bias to be 1-dimensional with %lld elements", wanted,
                         (long long)w->sizes[0]);
    for (int i = 0; i < n; i++)
        if (l->sizes[2 + i] + 2 * padding[i] < dilation[i] * (w->sizes[2 + i] - 1) + 1)
            return error_int(BK_RUNTIME_ERROR,
                             "Calculated padded input size is smaller than the kernel size: Kernel size "
                             "can't be greater than actual input size");
    return 0;
}

/* (N, C, spatial...) to (N, C, kernel..., out...), a view; out takes the numbers of windows. */
static bk_tensor *windows(bk_tensor *x, int n, const int64_t *kernel, const int64_t *stride, const int64_t *dilation,
                          int64_t *out)
{
    const bk_tensor *whole = x;
    for (int i = 0; x && i < n; i++) {
        x = bk_unfold(x, 2 + i, dilation[i] * (kernel[i] - 1) + 1, stride[i]);
        if (x && dilation[i] > 1)
            x = bk_slice(x, 2 + n + i, 0, x->layout->sizes[2 + n + i], dilation[i]);
    }
    int order[BK_MAX_NDIM] = { 0, 1 };
    for (int i = 0; x && i < n; i++) {
        out[i] = x->layout->sizes[2 + i];
        order[2 + i] = 2 + n + i;
        order[2 + n + i] = 2 + i;
    }
    x = x ? bk_permute(x, 2 + 2 * n, order) : NULL;
    /* one view: windows that share elements would each get a gradient of their own on the way */
    return x ? tensor_alias(whole, x->layout, x->offset, true) : NULL;
}

/* The product: weight (G, O/G, K) times columns (N, G, K, L). */
static bk_tensor *conv_padded(bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias, const int64_t *stride,
                              const int64_t *dilation, int64_t groups)
{
    const layout *w = weight->layout;
    int n = w->ndim - 2;
    int64_t sizes[2 + MAX_SPATIAL] = { x->layout->sizes[0], w->sizes[0] }, places = 1, taps = w->sizes[1];
    bk_tensor *columns = windows(x, n, w->sizes + 2, stride, dilation, sizes + 2);
    if (!columns)
        return NULL;
    for (int i = 0; i < n; i++) {
        places *= sizes[2 + i];
        taps *= w->sizes[2 + i];
    }
    bk_tensor *y;
    if (groups == 1) {
        columns = bk_reshape(columns, 3, (int64_t[]){ sizes[0], taps, places });
        y = bk_matmul(bk_reshape(weight, 2, (int64_t[]){ w->sizes[0], taps }), columns);
    } else {
        columns = bk_reshape(columns, 4, (int64_t[]){ sizes[0], groups, taps, places });
        y = bk_matmul(bk_reshape(weight, 3, (int64_t[]){ groups, w->sizes[0] / groups, taps }), columns);
    }
    y = bk_reshape(y, 2 + n, sizes);
    if (!bias)
        return tensor_as_own(y);
    int64_t spread[2 + MAX_SPATIAL] = { 1, w->sizes[0], 1, 1, 1 };
    return bk_add(y, bk_reshape(bias, 2 + n, spread));
}

/* x with a batch dimension: 1 when it was added, 0, or -1 with the error set. */
static int with_batch(const bk_tensor **x, const bk_tensor *weight, const char *name)
{
    int n = weight->layout->ndim - 2, ndim = (*x)->layout->ndim;
    if (ndim == n + 2)
        return 0;
    if (n >= 1 && n <= MAX_SPATIAL && ndim == n + 1)
        return (*x = bk_unsqueeze(*x, 0)) ? 1 : -1;
    char got[SHAPE_TEXT];
    shape_text(got, ndim, (*x)->layout->sizes);
    return error_int(BK_RUNTIME_ERROR,
                     "Expected %dD (unbatched) or %dD (batched) input to %s%dd, but got input of size: [%s]", n + 1,
                     n + 2, name, n, got);
}

bk_tensor *bk_conv(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias, const int64_t *stride,
                   const int64_t *padding, const int64_t *dilation, int64_t groups)
{
    if (!x || !weight)
        return NULL;
    int n = weight->layout->ndim - 2;
    bk_scope_push();
    int added = with_batch(&x, weight, "conv");
    if (added < 0 || check_spatial("stride", n, stride, 1) < 0 || check_spatial("padding", n, padding, 0) < 0 ||
        check_spatial("dilation", n, dilation, 1) < 0 || check_conv(x, weight, bias, padding, dilation, groups) < 0)
        return scope_return(NULL);
    bk_tensor *padded = pad_both(x, n, padding);
    bk_tensor *y = padded ? conv_padded(padded, weight, bias, stride, dilation, groups) : NULL;
    return scope_return(y && added ? tensor_as_own_taped(bk_squeeze(y, 0)) : y);
}

/* x with step - 1 zeros after every element but the last of each spatial dimension. */
static bk_tensor *spread(const bk_tensor *x, int n, const int64_t *step)
{
    int64_t sizes[BK_MAX_NDIM];
    bool any = false;
    for (int d = 0; d < x->layout->ndim; d++) {
        int64_t size = x->layout->sizes[d];
        sizes[d] = d < 2 || !size ? size : (size - 1) * step[d - 2] + 1;
        any |= sizes[d] != size;
    }
    if (!any)
        return tensor_same(x);
    bk_tensor *out = bk_zeros(x->layout->ndim, sizes, tensor_dtype(x)), *place = out;
    for (int i = 0; place && i < n; i++)
        place = bk_slice(place, 2 + i, 0, sizes[2 + i], step[i]);
    return place && bk_copy_(place, x) == 0 ? out : NULL;
}

/* (C, O/G, kernel...) to (O, C/G, kernel turned round...). */
static bk_tensor *turned_weight(const bk_tensor *weight, int64_t groups)
{
    const layout *w = weight->layout;
    int n = w->ndim - 2, flips[MAX_SPATIAL];
    int64_t apart[BK_MAX_NDIM] = { groups, w->sizes[0] / groups, w->sizes[1] };
    int64_t joined[BK_MAX_NDIM] = { groups * w->sizes[1], w->sizes[0] / groups };
    for (int i = 0; i < n; i++) {
        apart[3 + i] = joined[2 + i] = w->sizes[2 + i];
        flips[i] = 2 + i;
    }
    bk_tensor *t = bk_transpose(bk_reshape(bk_flip(weight, n, flips), n + 3, apart), 1, 2);
    return bk_reshape(t, n + 2, joined);
}

static int check_transpose(const bk_tensor *x, const bk_tensor *weight, const int64_t *stride,
                           const int64_t *output_padding, const int64_t *dilation, int64_t groups)
{
    const layout *l = x->layout, *w = weight->layout;
    char wanted[SHAPE_TEXT], got[SHAPE_TEXT];
    shape_text(wanted, w->ndim, w->sizes), shape_text(got, l->ndim, l->sizes);
    if (l->sizes[1] != w->sizes[0] || groups < 1 || w->sizes[0] % groups)
        return error_int(BK_RUNTIME_ERROR,
                         "Given transposed=1, weight of size [%s], expected input[%s] to have %lld channels, but got "
                         "%lld channels instead",
                         wanted, got, (long long)w->sizes[0], (long long)l->sizes[1]);
    for (int i = 0; i < w->ndim - 2; i++)
        if (output_padding[i] >= stride[i] && output_padding[i] >= dilation[i])
            return error_int(BK_RUNTIME_ERROR,
                             "output padding must be smaller than either stride or dilation, but got output_padding: "
                             "%lld, stride: %lld, dilation: %lld",
                             (long long)output_padding[i], (long long)stride[i], (long long)dilation[i]);
    return 0;
}

bk_tensor *bk_conv_transpose(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias, const int64_t *stride,
                             const int64_t *padding, const int64_t *output_padding, int64_t groups,
                             const int64_t *dilation)
{
    if (!x || !weight)
        return NULL;
    int n = weight->layout->ndim - 2;
    bk_scope_push();
    int added = with_batch(&x, weight, "conv_transpose");
    if (added < 0 || check_spatial("stride", n, stride, 1) < 0 || check_spatial("padding", n, padding, 0) < 0 ||
        check_spatial("dilation", n, dilation, 1) < 0 ||
        check_transpose(x, weight, stride, output_padding, dilation, groups) < 0)
        return scope_return(NULL);
    int64_t pads[2 * MAX_SPATIAL];
    static const int64_t ones[MAX_SPATIAL] = { 1, 1, 1 };
    for (int i = 0; i < n; i++) {
        int64_t around = dilation[i] * (weight->layout->sizes[2 + i] - 1) - padding[i];
        pads[2 * (n - 1 - i)] = around;
        pads[2 * (n - 1 - i) + 1] = around + output_padding[i];
    }
    bk_tensor *wide = bk_pad(spread(x, n, stride), n, pads, 0), *turned = turned_weight(weight, groups);
    bk_tensor *y = wide && turned ? conv_padded(wide, turned, bias, ones, dilation, groups) : NULL;
    return scope_return(y && added ? tensor_as_own_taped(bk_squeeze(y, 0)) : y);
}
