/* compose.c: elementwise functions made of the rows of ops.def.
 *
 * They are ordinary recordings, so that they fuse and are differentiated like what a user writes; what they add is
 * PyTorch's argument checks, its special values, and one rounding for half precision. */
#include "ops/compose.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/numbers.h"
#include "ops/settings.h"

/* --- bricks ----------------------------------------------------------------------------------------------------------
 */

bool operand_of(const bk_tensor *t, operand *out) { return t && tensor_read(t, out); }

bk_tensor *ew_unary(int op, const bk_tensor *x)
{
    operand in[MAX_INPUTS] = { { 0 } };
    return operand_of(x, &in[0]) ? ew_apply(op, in) : NULL;
}

bk_tensor *ew_with(int op, const bk_tensor *x, operand y)
{
    y.beside = true;
    operand in[MAX_INPUTS] = { { 0 }, y };
    return operand_of(x, &in[0]) ? ew_apply(op, in) : NULL;
}

bk_tensor *ew_both(int op, const bk_tensor *x, const bk_tensor *y)
{
    operand in[MAX_INPUTS] = { { 0 } };
    return operand_of(x, &in[0]) && operand_of(y, &in[1]) ? ew_apply(op, in) : NULL;
}

bk_tensor *ew_choose(const bk_tensor *condition, operand x, operand y)
{
    operand in[MAX_INPUTS] = { { 0 }, x, y };
    in[1].beside = in[2].beside = true;
    return operand_of(condition, &in[0]) ? ew_apply(EW_where, in) : NULL;
}

bk_tensor *laid_as(bk_tensor *t, const layout *l)
{
    return !t || !l ? NULL : t->layout == l ? t : copy_as(t, l, tensor_dtype(t));
}

bk_tensor *laid_like(bk_tensor *t, const bk_tensor *x) { return laid_as(t, layout_packed(x->layout)); }

static bool is_half(bk_dtype d) { return d == BK_FLOAT16 || d == BK_BFLOAT16; }

/* The operand, rounded to a dtype, in the one that arithmetic for results of that dtype is done in. */
static bk_tensor *as_computed(operand o, bk_dtype dtype)
{
    owned cast = operand_cast(o, dtype);
    if (cast.value && is_half(dtype)) {
        owned narrow = cast;
        cast = operand_cast(owned_operand(narrow), BK_FLOAT32);
        owned_release(narrow);
    }
    if (!cast.value)
        return NULL;
    bk_tensor *t = tensor_at(cast.value, cast.edge);
    owned_release(cast);
    return t;
}

/* --- sums of products
 * -------------------------------------------------------------------------------------------------- */

static operand negative(operand number)
{
    return number.category == CATEGORY_FLOAT ? number_float(-number.d) : number_int((int64_t)(0 - (uint64_t)number.i));
}

/* PyTorch subtracts by adding the negative. */
static bool check_alpha(operand factor, bk_dtype result, bool subtract)
{
    if (result != BK_BOOL && factor.category == CATEGORY_BOOL)
        return error_null(BK_RUNTIME_ERROR, "Boolean alpha only supported for Boolean results."), false;
    if (!dtype_is_float(result) && factor.category == CATEGORY_FLOAT)
        return error_null(BK_RUNTIME_ERROR,
                          "For integral input tensors, argument alpha must not be a floating point number."),
               false;
    return number_check(subtract ? negative(factor) : factor, result) == 0;
}

static bool is_one(operand o) { return o.category == CATEGORY_FLOAT ? o.d == 1 : o.i == 1; }

bk_tensor *add_scaled(operand x, operand y, operand alpha, bool subtract)
{
    int op = subtract ? EW_sub : EW_add;
    bk_dtype dtype = operands_promote((operand[]){ x, y }, 2);
    bool bools = (x.value ? x.value->dtype == BK_BOOL : x.category == CATEGORY_BOOL) ||
                 (y.value ? y.value->dtype == BK_BOOL : y.category == CATEGORY_BOOL);
    if (subtract && bools) /* which is refused */
        return ew_apply(op, (operand[MAX_INPUTS]){ x, y });
    if (!check_alpha(alpha, dtype, subtract))
        return NULL;
    if (is_one(alpha))
        return ew_apply(op, (operand[MAX_INPUTS]){ x, y });
    if (dtype == BK_BOOL)
        alpha = number_bool(alpha.d != 0);
    return ew_apply(subtract ? EW_sub_scaled : EW_add_scaled, (operand[MAX_INPUTS]){ x, y, alpha });
}

/* x + value * (a op b). In PyTorch it is one loop over all three, which shows in strides of dimensions of one element.
 */
static bk_tensor *add_to(const operand in[3], int op, operand value, bk_dtype dtype)
{
    bk_tensor *term = ew_both(op, as_computed(in[1], dtype), as_computed(in[2], dtype));
    if (term && !is_one(value))
        term = ew_with(EW_mul, term, value);
    bk_tensor *sum = ew_both(EW_add, as_computed(in[0], dtype), term);
    sum = sum ? bk_to(sum, dtype) : NULL;
    return sum ? laid_as(sum, strides_of_loop(in, 3, sum->layout->plain)) : NULL;
}

bk_tensor *addcmul(operand x, operand a, operand b, operand value)
{
    bk_dtype dtype = operands_promote((operand[]){ x, a, b }, 3);
    if (dtype == BK_BOOL)
        return error_null(BK_NOT_IMPLEMENTED, "\"addcmul_cpu_out\" not implemented for 'Bool'");
    if (factor_check(value, dtype) < 0)
        return NULL;
    if (!dtype_is_float(dtype) && value.category == CATEGORY_FLOAT)
        value = number_int((int64_t)value.d); /* an element of the dtype */
    bk_scope_push();
    return scope_return(add_to((operand[]){ x, a, b }, EW_mul, value, dtype));
}

bk_tensor *addcdiv(operand x, operand a, operand b, operand value)
{
    bk_dtype dtype = operands_promote((operand[]){ x, a, b }, 3);
    if (!dtype_is_float((bk_dtype)a.value->dtype) && !dtype_is_float((bk_dtype)b.value->dtype))
        return error_null(
            BK_RUNTIME_ERROR,
            "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will "
            "perform a true division of tensor1 and tensor2. The historic addcdiv behavior can be "
            "implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer "
            "inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv behavior "
            "is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.");
    if (factor_check(value, dtype) < 0)
        return NULL;
    bk_scope_push();
    return scope_return(add_to((operand[]){ x, a, b }, EW_div, value, dtype));
}

/* --- bounds
 * --------------------------------------------------------------------------------------------------------------- */

bk_tensor *clamp_between(operand x, const operand *lo, const operand *hi)
{
    if (!lo && !hi)
        return error_null(BK_RUNTIME_ERROR, "torch.clamp: At least one of 'min' or 'max' must not be None");
    operand in[MAX_INPUTS] = { x };
    int op = lo && hi ? EW_clamp : lo ? EW_clamp_min : EW_clamp_max, n = 1;
    if (lo)
        in[n++] = *lo;
    if (hi)
        in[n++] = *hi;
    bk_dtype dtype = operands_promote(in, n);
    if (dtype == BK_BOOL && !in[1].value)
        return error_null(BK_NOT_IMPLEMENTED, "\"clamp_scalar_cpu\" not implemented for 'Bool'");
    for (int k = 1; k < n; k++)
        if (number_check(in[k], dtype) < 0)
            return NULL;
    return ew_apply(op, in);
}

/* --- division and powers
 * ----------------------------------------------------------------------------------------------------- */

/* Floats: the quotient, rounded as the dtype has it, cut off. On the tape it has the place of a floor_divide, whose
 * gradient is 0 whatever the divisor is; nobody reads that one's value. Integers: what is left of x without its
 * remainder divides evenly. */
static bk_tensor *divide_trunc(operand x, operand y)
{
    operand in[MAX_INPUTS] = { x, y };
    bk_dtype dtype = operands_promote(in, 2);
    if (dtype == BK_BOOL)
        return error_null(BK_NOT_IMPLEMENTED, "\"div_trunc_cpu\" not implemented for 'Bool'");
    if (!dtype_is_float(dtype)) {
        bk_tensor *rest = ew_apply(EW_fmod, in), *even = rest ? ew_both(EW_sub, as_computed(x, dtype), rest) : NULL;
        return even ? ew_with(EW_floor_divide, even, y) : NULL;
    }
    bool taped = x.edge || y.edge;
    operand place = { 0 }, whole;
    if (taped && !operand_of(ew_apply(EW_floor_divide, in), &place))
        return NULL;
    in[0].edge = in[1].edge = NULL;
    bk_tensor *t = bk_trunc(ew_apply(EW_div, in));
    return taped && operand_of(t, &whole) ? tensor_at(whole.value, place.edge) : t;
}

bk_tensor *divide(operand x, operand y, const char *mode)
{
    operand in[MAX_INPUTS] = { x, y };
    const bool floor = mode && !strcmp(mode, "floor");
    if (mode && !floor && strcmp(mode, "trunc"))
        return error_null(BK_RUNTIME_ERROR,
                          "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", mode);
    static int row;
    uint64_t start = next_sequence;
    row = row ? row : composed_find("_div_rounded") + 1;
    bk_scope_push();
    bk_tensor *t = floor ? ew_apply(EW_floor_divide, in) : mode ? divide_trunc(x, y) : ew_apply(EW_div, in);
    if (t && tensor_tracked(t))
        composed_mark(t, row - 1, start, (uint8_t)((x.edge != NULL) | (y.edge != NULL) << 1));
    return scope_return(t);
}

bk_tensor *float_power(operand x, operand y)
{
    bk_scope_push();
    operand in[MAX_INPUTS] = { { 0 } };
    bk_tensor *wide_x = x.value ? as_computed(x, BK_FLOAT64) : NULL,
              *wide_y = y.value ? as_computed(y, BK_FLOAT64) : NULL;
    bool good = (x.value ? operand_of(wide_x, &in[0]) : (in[0] = number_float(x.d), true)) &&
                (y.value ? operand_of(wide_y, &in[1]) : (in[1] = number_float(y.d), true));
    return scope_return(good ? ew_apply_python(EW_pow, in) : NULL);
}

bk_tensor *round_decimals(const bk_tensor *x, int64_t decimals)
{
    static int row;
    uint64_t start = next_sequence;
    if (!decimals)
        return composed_as(bk_round(x), "_round_decimals", &row, start, &x, 1);
    if (!dtype_is_float(tensor_dtype(x)))
        return error_null(BK_NOT_IMPLEMENTED, "\"round_cpu\" not implemented for '%s'",
                          dtypes[tensor_dtype(x)].type_name);
    bk_scope_push();
    operand scale = number_float(pow(10, (double)(decimals < 0 ? -decimals : decimals))), in;
    bk_dtype dtype = tensor_dtype(x);
    bk_tensor *t = operand_of(x, &in) ? as_computed(in, dtype) : NULL;
    t = ew_unary(EW_round, ew_with(decimals > 0 ? EW_mul : EW_div, t, scale));
    t = ew_with(decimals > 0 ? EW_div : EW_mul, t, scale);
    t = composed_as(t ? bk_to(t, dtype) : NULL, "_round_decimals", &row, start, &x, 1);
    return scope_return(t);
}

/* --- comparison
 * ----------------------------------------------------------------------------------------------------------------- */

bk_tensor *is_close(const bk_tensor *x, const bk_tensor *y, double rtol, double atol, bool equal_nan)
{
    bk_dtype dtype = tensor_dtype(x);
    if (dtype != tensor_dtype(y))
        return error_null(BK_RUNTIME_ERROR, "%s did not match %s", dtypes[dtype].type_name,
                          dtypes[tensor_dtype(y)].type_name);
    if (rtol < 0 || atol < 0)
        return error_null(BK_RUNTIME_ERROR, "%s must be greater than or equal to zero, but got %g",
                          rtol < 0 ? "rtol" : "atol", rtol < 0 ? rtol : atol);
    bk_scope_push();
    bk_tensor *close = bk_eq(x, y);
    if (equal_nan && dtype_is_float(dtype))
        close = bk_logical_or(close, bk_logical_and(bk_isnan(x), bk_isnan(y)));
    if (rtol == 0 && atol == 0)
        return scope_return(close);
    if (!dtype_is_float(dtype)) {
        x = bk_to(x, dtype == BK_BOOL ? default_dtype() : BK_FLOAT64);
        y = bk_to(y, dtype == BK_BOOL ? default_dtype() : BK_FLOAT64);
    }
    bk_tensor *allowed = ew_with(EW_add, bk_abs(ew_with(EW_mul, y, number_float(rtol))), number_float(atol));
    bk_tensor *actual = bk_abs(bk_sub(x, y));
    bk_tensor *near = bk_logical_and(bk_isfinite(actual), bk_le(actual, allowed));
    return scope_return(bk_logical_or(close, near));
}

int bk_allclose(const bk_tensor *x, const bk_tensor *y, double rtol, double atol, bool equal_nan, bool *out)
{
    if (!x || !y)
        return -1;
    lock_take();
    bk_scope_push();
    bool was = grad_set_enabled(false);
    bk_tensor *close = is_close(x, y, rtol, atol, equal_nan);
    bk_tensor *apart = close ? bk_sum(bk_logical_not(close), 0, false) : NULL;
    int status = apart ? bk_eval(apart) : -1;
    if (status == 0)
        *out = bk_item_int(apart) == 0;
    grad_set_enabled(was);
    bk_scope_pop();
    lock_give();
    return status;
}

int bk_equal(const bk_tensor *x, const bk_tensor *y, bool *out)
{
    if (!x || !y)
        return -1;
    *out = x->layout->plain == y->layout->plain;
    if (!*out)
        return 0;
    lock_take();
    bk_scope_push();
    bk_tensor *apart = bk_sum(bk_ne(x, y), 0, false);
    int status = apart ? bk_eval(apart) : -1;
    if (status == 0)
        *out = bk_item_int(apart) == 0;
    bk_scope_pop();
    lock_give();
    return status;
}

/* --- special values
 * ------------------------------------------------------------------------------------------------------------------ */

static double largest(bk_dtype d)
{
    return d == BK_FLOAT64 ? DBL_MAX : d == BK_FLOAT16 ? 65504 : d == BK_BFLOAT16 ? 0x1.fep127 : FLT_MAX;
}

bk_tensor *replace_nan(const bk_tensor *x, const double *nan, const double *posinf, const double *neginf)
{
    bk_dtype dtype = tensor_dtype(x);
    if (!dtype_is_float(dtype))
        return bk_clone(x);
    bk_scope_push();
    double top = posinf ? *posinf : largest(dtype), bottom = neginf ? *neginf : -largest(dtype);
    operand in = { 0 };
    bk_tensor *t = bk_isneginf(x);
    t = operand_of(x, &in) ? ew_choose(t, number_float(bottom), in) : NULL;
    t = operand_of(t, &in) ? ew_choose(bk_isposinf(x), number_float(top), in) : NULL;
    t = operand_of(t, &in) ? ew_choose(bk_isnan(x), number_float(nan ? *nan : 0), in) : NULL;
    return scope_return(laid_like(t, x));
}

/* These are one row each; PyTorch's have steps in between, which show in the strides of dimensions of one element. */

bk_tensor *is_infinite(const bk_tensor *x)
{
    bk_scope_push();
    bk_tensor *t = bk_isinf(x); /* |x| == inf; of integers zeros like x */
    if (t && dtype_is_float(tensor_dtype(x)))
        t = laid_as(t, strides_of_result(&t->layout, 1, t->layout->plain));
    else if (t)
        t = laid_like(t, x);
    return scope_return(t);
}

bk_tensor *is_finite(const bk_tensor *x)
{
    bk_scope_push();
    bk_tensor *t = bk_isfinite(x); /* (x == x) * (|x| != inf); of integers ones like x */
    if (t && dtype_is_float(tensor_dtype(x))) {
        const layout *plain = t->layout->plain, *in[] = { t->layout, strides_of_result(&t->layout, 1, plain) };
        t = in[1] ? laid_as(t, strides_of_equals(in, 2, plain)) : NULL;
    } else if (t) {
        t = laid_like(t, x);
    }
    return scope_return(t);
}

bk_tensor *soft_sign(const bk_tensor *x)
{
    bk_scope_push();
    bk_tensor *t = bk_softsign(x); /* x / (|x| + 1) */
    if (t) {
        const layout *plain = t->layout->plain, *in[] = { x->layout, strides_of_result(&t->layout, 1, plain) };
        t = in[1] ? laid_as(t, strides_of_equals(in, 2, plain)) : NULL;
    }
    return scope_return(t);
}

bk_tensor *logit(const bk_tensor *x, double eps)
{
    bk_dtype dtype = dtype_is_float(tensor_dtype(x)) ? tensor_dtype(x) : default_dtype();
    bk_scope_push();
    operand in;
    bk_tensor *t = operand_of(x, &in) ? as_computed(in, dtype) : NULL;
    if (eps >= 0 && operand_of(t, &in))
        t = ew_apply(EW_clamp, (operand[]){ in, number_float(eps), number_float(1 - eps) });
    t = bk_logit(t);
    return scope_return(t ? bk_to(t, dtype) : NULL);
}

/* --- the public functions
 * --------------------------------------------------------------------------------------------------------------- */

/* sin(pi x) / (pi x), and 1 at 0; the quotient is kept finite there for the gradient. */
bk_tensor *bk_sinc(const bk_tensor *x)
{
    if (!x)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_dtype dtype = dtype_is_float(tensor_dtype(x)) ? tensor_dtype(x) : default_dtype();
    operand in = { 0 };
    bk_tensor *t = operand_of(x, &in) ? as_computed(in, dtype) : NULL, *zero = bk_eq_s(t, 0);
    bk_tensor *angle =
        operand_of(t, &in) ? ew_with(EW_mul, ew_choose(zero, number_float(1), in), number_float(M_PI)) : NULL;
    bk_tensor *q = bk_div(bk_sin(angle), angle);
    t = operand_of(q, &in) ? ew_choose(zero, number_float(1), in) : NULL;
    t = scope_return(t ? bk_to(t, dtype) : NULL);
    lock_give();
    return t;
}

static bk_tensor *scaled(const bk_tensor *x, double factor)
{
    if (!x)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *t = scope_return(laid_like(ew_with(EW_mul, x, number_float(factor)), x));
    lock_give();
    return t;
}

bk_tensor *bk_deg2rad(const bk_tensor *x) { return scaled(x, M_PI / 180); }
bk_tensor *bk_rad2deg(const bk_tensor *x) { return scaled(x, 180 / M_PI); }

bk_tensor *bk_addcmul(const bk_tensor *x, const bk_tensor *a, const bk_tensor *b, double value)
{
    operand in[3] = { { 0 } };
    lock_take();
    bool good = operand_of(x, &in[0]) && operand_of(a, &in[1]) && operand_of(b, &in[2]);
    bk_tensor *t = good ? addcmul(in[0], in[1], in[2], number_float(value)) : NULL;
    lock_give();
    return t;
}

bk_tensor *bk_addcdiv(const bk_tensor *x, const bk_tensor *a, const bk_tensor *b, double value)
{
    operand in[3] = { { 0 } };
    lock_take();
    bool good = operand_of(x, &in[0]) && operand_of(a, &in[1]) && operand_of(b, &in[2]);
    bk_tensor *t = good ? addcdiv(in[0], in[1], in[2], number_float(value)) : NULL;
    lock_give();
    return t;
}

bk_tensor *bk_clamp_s(const bk_tensor *x, double lo, double hi)
{
    operand in, bounds[2] = { number_float(lo), number_float(hi) };
    lock_take();
    bk_tensor *t = operand_of(x, &in) ? clamp_between(in, &bounds[0], &bounds[1]) : NULL;
    lock_give();
    return t;
}

bk_tensor *bk_isclose(const bk_tensor *x, const bk_tensor *y, double rtol, double atol, bool equal_nan)
{
    if (!x || !y)
        return NULL;
    lock_take();
    bk_tensor *t = is_close(x, y, rtol, atol, equal_nan);
    lock_give();
    return t;
}

/* (-1)^(n + 1) n! zeta(n + 1, x) */
static bk_tensor *polygamma_from_2(int64_t n, const bk_tensor *x)
{
    operand in[MAX_INPUTS] = { number_float((double)n + 1) };
    in[0].beside = true;
    lock_take();
    bk_scope_push();
    bk_tensor *sum = operand_of(x, &in[1]) ? ew_apply(EW_zeta, in) : NULL;
    double factor = (n % 2 ? 1 : -1) * tgamma((double)n + 1);
    bk_tensor *t = scope_return(sum ? ew_with(EW_mul, sum, number_float(factor)) : NULL);
    lock_give();
    return t;
}

bk_tensor *bk_polygamma(int64_t n, const bk_tensor *x)
{
    if (n < 0)
        return error_null(BK_RUNTIME_ERROR, "polygamma(n, x) does not support negative n.");
    static int row;
    uint64_t start = next_sequence;
    bk_tensor *t = n > 1 ? polygamma_from_2(n, x) : n ? bk_trigamma(x) : bk_digamma(x);
    return composed_as(t, "_polygamma", &row, start, &x, 1);
}
