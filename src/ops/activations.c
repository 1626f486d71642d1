/* activations.c: activations made of other ops, with PyTorch's values and gradients at the kinks. */
#include "ops/activations.h"

#include <math.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/compose.h"
#include "ops/elementwise.h"
#include "ops/numbers.h"

static bool check_float(const bk_tensor *x, const char *op)
{
    if (dtype_is_float(tensor_dtype(x)))
        return true;
    return error_null(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op, dtypes[tensor_dtype(x)].type_name),
           false;
}

/* Half precision is computed in float32. */
static bk_tensor *widen(const bk_tensor *x)
{
    bk_dtype d = tensor_dtype(x);
    return d == BK_FLOAT16 || d == BK_BFLOAT16 ? bk_to(x, BK_FLOAT32) : tensor_same(x);
}

static bk_tensor *narrow(const bk_tensor *y, const bk_tensor *x) { return y ? bk_to(y, tensor_dtype(x)) : NULL; }

static bk_tensor *choose(const bk_tensor *condition, const bk_tensor *x, operand otherwise)
{
    operand in;
    return operand_of(x, &in) ? ew_choose(condition, in, otherwise) : NULL;
}

bk_tensor *act_hardtanh(const bk_tensor *x, operand lo, operand hi)
{
    if (lo.d > hi.d)
        return error_null(BK_VALUE_ERROR, "min_val cannot be greater than max_val");
    if (tensor_dtype(x) == BK_BOOL)
        return error_null(BK_RUNTIME_ERROR, "Bool inputs not supported for hardtanh");
    if (!dtype_is_float(tensor_dtype(x))) {
        if (number_check(lo, BK_INT64) < 0 || number_check(hi, BK_INT64) < 0)
            return NULL;
        lo = lo.category == CATEGORY_FLOAT ? number_int((int64_t)lo.d) : lo; /* bounds take the dtype of the tensor */
        hi = hi.category == CATEGORY_FLOAT ? number_int((int64_t)hi.d) : hi;
        if (tensor_dtype(x) == BK_UINT8 && (lo.i < 0 || hi.i < 0))
            return error_null(BK_RUNTIME_ERROR, "cannot do hardtanh on an unsigned type with negative limits");
    }
    if (number_check(lo, tensor_dtype(x)) < 0 || number_check(hi, tensor_dtype(x)) < 0)
        return NULL;
    bk_scope_push();
    operand in;
    return scope_return(laid_like(operand_of(x, &in) ? ew_apply(EW_cut, (operand[]){ in, lo, hi }) : NULL, x));
}

bk_tensor *act_threshold(const bk_tensor *x, operand threshold, operand value)
{
    operand in;
    bk_dtype dtype = tensor_dtype(x);
    if (dtype == BK_BOOL)
        return error_null(BK_NOT_IMPLEMENTED, "\"threshold_cpu\" not implemented for 'Bool'");
    if (factor_check(threshold, dtype) < 0 || number_check(value, dtype) < 0)
        return NULL;
    bk_scope_push();
    bk_tensor *low = ew_with(EW_le, x, threshold);
    bk_tensor *y = operand_of(x, &in) ? ew_choose(low, value, in) : NULL;
    return scope_return(y ? bk_to(y, dtype) : NULL);
}

bk_tensor *act_hardshrink(const bk_tensor *x, double lambda)
{
    if (!check_float(x, "hardshrink_cpu") || number_check(number_float(lambda), tensor_dtype(x)) < 0)
        return NULL;
    bk_scope_push();
    bk_tensor *low = ew_with(EW_le, bk_abs(x), number_float(lambda));
    operand in;
    return scope_return(operand_of(x, &in) ? ew_choose(low, number_float(0), in) : NULL);
}

bk_tensor *act_softshrink(const bk_tensor *x, double lambda)
{
    bk_dtype dtype = tensor_dtype(x);
    if (!check_float(x, "softshrink_check"))
        return NULL;
    if (!(lambda >= 0 && lambda <= number_greatest(dtype)))
        return error_null(BK_RUNTIME_ERROR, "lambda must be in range [0, %g] for input dtype %s, but found %g",
                          number_greatest(dtype), dtypes[dtype].type_name, lambda);
    bk_scope_push();
    bk_tensor *t = widen(x);
    bk_tensor *high = ew_with(EW_gt, t, number_float(lambda)), *low = ew_with(EW_lt, t, number_float(-lambda));
    operand in;
    bk_tensor *none = ew_with(EW_mul, t, number_float(0)); /* keeps NaN */
    bk_tensor *y = operand_of(none, &in) ? choose(low, ew_with(EW_add, t, number_float(lambda)), in) : NULL;
    y = operand_of(y, &in) ? choose(high, ew_with(EW_sub, t, number_float(lambda)), in) : NULL;
    return scope_return(narrow(y, x));
}

bk_tensor *act_elu(const bk_tensor *x, double alpha, double scale, double input_scale)
{
    if (!check_float(x, "elu_cpu") || factor_check(number_float(alpha), tensor_dtype(x)) < 0)
        return NULL;
    if (scale == 1 && input_scale == 1)
        return ew_with(EW_elu, x, number_float(alpha));
    bk_scope_push();
    bk_tensor *t = widen(x), *bent = bk_expm1(ew_with(EW_mul, t, number_float(input_scale)));
    bent = ew_with(EW_mul, bent, number_float(alpha * scale));
    operand in;
    bk_tensor *y = operand_of(bent, &in) ? choose(bk_gt_s(t, 0), ew_with(EW_mul, t, number_float(scale)), in) : NULL;
    return scope_return(narrow(y, x));
}

/* Row-major whatever x is: PyTorch's keeps a buffer of that layout. */
bk_tensor *act_logsigmoid(const bk_tensor *x)
{
    bk_scope_push();
    return scope_return(bk_contiguous(bk_logsigmoid(x)));
}

bk_tensor *act_softplus(const bk_tensor *x, double beta, double threshold)
{
    operand in[MAX_INPUTS] = { { 0 }, number_float(beta), number_float(threshold) };
    if (!check_float(x, "softplus_cpu") || factor_check(in[1], tensor_dtype(x)) < 0 ||
        factor_check(in[2], tensor_dtype(x)) < 0)
        return NULL;
    return operand_of(x, &in[0]) ? ew_apply(EW_softplus, in) : NULL;
}

/* --- the public functions
 * --------------------------------------------------------------------------------------------- */

bk_tensor *bk_hardtanh(const bk_tensor *x, double lo, double hi)
{
    if (!x)
        return NULL;
    lock_take();
    bk_tensor *y = act_hardtanh(x, number_float(lo), number_float(hi));
    lock_give();
    return y;
}

bk_tensor *bk_threshold(const bk_tensor *x, double threshold, double value)
{
    if (!x)
        return NULL;
    lock_take();
    bk_tensor *y = act_threshold(x, number_float(threshold), number_float(value));
    lock_give();
    return y;
}

bk_tensor *bk_hardshrink(const bk_tensor *x, double lambda)
{
    if (!x)
        return NULL;
    lock_take();
    bk_tensor *y = act_hardshrink(x, lambda);
    lock_give();
    return y;
}

bk_tensor *bk_softshrink(const bk_tensor *x, double lambda)
{
    if (!x)
        return NULL;
    lock_take();
    bk_tensor *y = act_softshrink(x, lambda);
    lock_give();
    return y;
}

bk_tensor *bk_tanhshrink(const bk_tensor *x)
{
    if (!x)
        return NULL;
    bk_scope_push();
    return scope_return(bk_sub(x, bk_tanh(x)));
}

/* One weight, or one for each channel (dimension 1). */
bk_tensor *bk_prelu(const bk_tensor *x, const bk_tensor *weight)
{
    if (!x || !weight)
        return NULL;
    const layout *l = x->layout;
    int64_t n = weight->layout->numel, channels = l->ndim > 1 ? l->sizes[1] : 1;
    if (tensor_dtype(x) != tensor_dtype(weight))
        return error_null(BK_RUNTIME_ERROR, "prelu: Type promoting not supported. Got %s and %s",
                          dtypes[tensor_dtype(x)].type_name, dtypes[tensor_dtype(weight)].type_name);
    if (n != 1 && (l->ndim == 0 || n != channels))
        return error_null(BK_RUNTIME_ERROR,
                          "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                          "%lld and channel size = %lld.",
                          (long long)n, (long long)channels);
    lock_take();
    bk_scope_push();
    int64_t sizes[BK_MAX_NDIM];
    for (int d = 0; d < l->ndim; d++)
        sizes[d] = d == 1 ? n : 1;
    if (l->ndim == 1)
        sizes[0] = n;
    const bool as_is = !l->ndim && !weight->layout->ndim;
    const bk_tensor *w = as_is ? weight : bk_reshape(weight, l->ndim, sizes);
    bk_tensor *bent = bk_mul(x, w);
    operand in;
    bk_tensor *y = operand_of(bent, &in) ? choose(bk_gt_s(x, 0), x, in) : NULL;
    y = scope_return(laid_like(y, x));
    lock_give();
    return y;
}

/* The first half of dim times the sigmoid of the second. */
bk_tensor *bk_glu(const bk_tensor *x, int dim)
{
    if (!x)
        return NULL;
    const layout *l = x->layout;
    if (!l->ndim)
        return error_null(BK_RUNTIME_ERROR, "glu does not support 0-dimensional tensors");
    int d = layout_dim(l, dim);
    if (d < 0)
        return NULL;
    int64_t half = l->sizes[d] / 2;
    if (l->sizes[d] % 2)
        return error_null(BK_RUNTIME_ERROR, "Halving dimension must be even, but dimension %d is size %lld", d,
                          (long long)l->sizes[d]);
    if (!check_float(x, "glu_cpu"))
        return NULL;
    bk_scope_push();
    bk_tensor *t = widen(x);
    bk_tensor *y = bk_mul(bk_slice(t, d, 0, half, 1), bk_sigmoid(bk_slice(t, d, half, 2 * half, 1)));
    return scope_return(narrow(y, x));
}
