/* bind_compose.c: composed elementwise functions, and the rows of the op table that take more arguments in Python. */
#include "binds.h"
#include "core/lock.h"
#include "ops/activations.h"
#include "ops/compose.h"
#include "ops/elementwise.h"

enum { BOTH = AS_FUNCTION | AS_METHOD, OLDER = AS_OLDER | BOTH };

/* What a function computes from its first arguments; NULL with the library's error set, or a Python exception. */
typedef bk_tensor *(*compute)(const arg *a);

static bk_tensor *locked(compute f, const arg *a)
{
    lock_take();
    bk_tensor *t = f(a);
    lock_give();
    return t;
}

/* f of n arguments, given back in out, which follows them. */
static PyObject *apply_into(compute f, const arg *a, int n, bool same_dtype)
{
    if (a[n].given && !py_reads_apart(a[n].tensor, a, n))
        return NULL;
    bk_tensor *t = locked(f, a);
    return !t && PyErr_Occurred() ? NULL : py_elementwise_out(t, a, n, &a[n], same_dtype);
}
static PyObject *apply_out(compute f, const arg *a, int n) { return apply_into(f, a, n, false); }

static PyObject *apply_in_place(compute f, const arg *a, int n)
{
    if (!py_reads_apart(a[0].tensor, a, n))
        return NULL;
    bk_tensor *t = locked(f, a);
    return !t && PyErr_Occurred() ? NULL : py_write_back(&a[0], t);
}

/* name(...) with out as argument number n, and name_(...). */
#define FUNCTION(name, n)                                                                                              \
    static PyObject *py_##name(const arg *a) { return apply_out(compute_##name, a, n); }
#define FUNCTION_AND_IN_PLACE(name, n)                                                                                 \
    FUNCTION(name, n)                                                                                                  \
    static PyObject *py_##name##_(const arg *a) { return apply_in_place(compute_##name, a, n); }

static bool operands(const arg *a, int n, operand *out)
{
    for (int k = 0; k < n; k++)
        if (!py_operand(&a[k], &out[k]))
            return false;
    return true;
}

/* The last of n is a factor: a number, also where a tensor of one element was given for it. No gradient goes there. */
static bool operands_and_factor(const arg *a, int n, operand *out)
{
    PyObject *factor = a[n - 1].object;
    if (factor && py_is_tensor(factor) && bk_requires_grad(((py_tensor *)factor)->t)) {
        PyErr_SetString(PyExc_TypeError, "a factor (alpha or value) must be Number, not Tensor that requires grad");
        return false;
    }
    out[n - 1] = py_number_operand(&a[n - 1].scalar);
    return operands(a, n - 1, out);
}

/* --- sums
 * ------------------------------------------------------------------------------------------------------------- */

static bk_tensor *compute_add(const arg *a)
{
    operand in[3] = { { 0 } };
    return operands_and_factor(a, 3, in) ? add_scaled(in[0], in[1], in[2], false) : NULL;
}

static bk_tensor *compute_sub(const arg *a)
{
    operand in[3] = { { 0 } };
    return operands_and_factor(a, 3, in) ? add_scaled(in[0], in[1], in[2], true) : NULL;
}

static bk_tensor *compute_rsub(const arg *a)
{
    operand in[3] = { { 0 } };
    return operands_and_factor(a, 3, in) ? add_scaled(in[1], in[0], in[2], true) : NULL;
}

static bk_tensor *compute_addcmul(const arg *a)
{
    operand in[4] = { { 0 } };
    return operands_and_factor(a, 4, in) ? addcmul(in[0], in[1], in[2], in[3]) : NULL;
}

static bk_tensor *compute_addcdiv(const arg *a)
{
    operand in[4] = { { 0 } };
    return operands_and_factor(a, 4, in) ? addcdiv(in[0], in[1], in[2], in[3]) : NULL;
}

FUNCTION_AND_IN_PLACE(add, 3)
FUNCTION_AND_IN_PLACE(sub, 3)

/* (self, alpha, other): how these were called before alpha had to be named. */
#define ALPHA_SECOND(name)                                                                                             \
    static PyObject *py_##name##_alpha(const arg *a) { return py_##name((const arg[]){ a[0], a[2], a[1], a[3] }); }    \
    static PyObject *py_##name##_alpha_(const arg *a) { return py_##name##_((const arg[]){ a[0], a[2], a[1] }); }
ALPHA_SECOND(add)
ALPHA_SECOND(sub)

static PyObject *py_rsub(const arg *a) { return py_wrap(locked(compute_rsub, a)); }
FUNCTION_AND_IN_PLACE(addcmul, 4)
FUNCTION_AND_IN_PLACE(addcdiv, 4)
/* (self, value, tensor1, tensor2, out): the older order */
#define VALUE_SECOND(name)                                                                                             \
    static PyObject *py_##name##_value(const arg *a)                                                                   \
    {                                                                                                                  \
        return py_##name((const arg[]){ a[0], a[2], a[3], a[1], a[4] });                                               \
    }                                                                                                                  \
    static PyObject *py_##name##_value_(const arg *a) { return py_##name##_((const arg[]){ a[0], a[2], a[3], a[1] }); }
VALUE_SECOND(addcmul)
VALUE_SECOND(addcdiv)

static bk_tensor *compute_threshold(const arg *a)
{
    return act_threshold(a[0].tensor, py_number_operand(&a[1].scalar), py_number_operand(&a[2].scalar));
}
static PyObject *py_threshold(const arg *a) { return apply_out(compute_threshold, a, 3); }

/* --- quotients and powers
 * ------------------------------------------------------------------------------------------------ */

static bk_tensor *compute_div(const arg *a)
{
    operand in[2] = { { 0 } };
    return operands(a, 2, in) ? ew_apply(EW_div, in) : NULL;
}

static bk_tensor *compute_div_mode(const arg *a)
{
    operand in[2] = { { 0 } };
    return operands(a, 2, in) ? divide(in[0], in[1], a[2].given ? a[2].s : NULL) : NULL;
}

static bk_tensor *compute_float_power(const arg *a)
{
    operand in[2] = { { 0 } };
    return operands(a, 2, in) ? float_power(in[0], in[1]) : NULL;
}

static bk_tensor *compute_round(const arg *a) { return round_decimals(a[0].tensor, a[1].i); }

FUNCTION_AND_IN_PLACE(div, 2)
FUNCTION_AND_IN_PLACE(div_mode, 3)
FUNCTION(float_power, 2)
static PyObject *py_float_power_(const arg *a)
{
    bk_dtype dtype = tensor_dtype(a[0].tensor);
    if (dtype != BK_FLOAT64)
        return PyErr_Format(PyExc_RuntimeError,
                            "the base given to float_power_ has dtype %s but the operation's result requires dtype "
                            "Double",
                            dtypes[dtype].type_name);
    return apply_in_place(compute_float_power, a, 2);
}
static PyObject *py_round_to(const arg *a) { return py_elementwise_out(locked(compute_round, a), a, 1, &a[2], true); }
static PyObject *py_round_to_(const arg *a) { return apply_in_place(compute_round, a, 1); }

/* --- bounds
 * ------------------------------------------------------------------------------------------------------------------ */

static bk_tensor *compute_clamp(const arg *a)
{
    operand in[3] = { { 0 } };
    for (int k = 0; k < 3; k++)
        if (a[k].given && !py_operand(&a[k], &in[k]))
            return NULL;
    return clamp_between(in[0], a[1].given ? &in[1] : NULL, a[2].given ? &in[2] : NULL);
}
FUNCTION_AND_IN_PLACE(clamp, 3)
static bk_tensor *compute_clamp_min(const arg *a) { return compute_clamp((const arg[]){ a[0], a[1], { 0 } }); }
static bk_tensor *compute_clamp_max(const arg *a) { return compute_clamp((const arg[]){ a[0], { 0 }, a[1] }); }
FUNCTION_AND_IN_PLACE(clamp_min, 2)
FUNCTION_AND_IN_PLACE(clamp_max, 2)

/* PyTorch checks bounds that are numbers before the others, and calls the dtype what C++ does. */
static bool bounds_go_into(const arg *a, int n)
{
    static const bk_dtype of[] = { [NUMBER_BOOL] = BK_BOOL, [NUMBER_INT] = BK_INT64, [NUMBER_FLOAT] = BK_FLOAT32 };
    for (int i = 1; i < n; i++) {
        const dtype_info *to = &dtypes[tensor_dtype(a[0].tensor)];
        bk_dtype bound = a[i].given ? of[a[i].scalar.kind] : BK_BOOL;
        if (dtypes[bound].category > to->category) {
            bound = dtype_is_float(bound) ? bk_get_default_dtype() : bound;
            PyErr_Format(PyExc_RuntimeError, "result type %s can't be cast to the desired output type %s",
                         dtypes[bound].type_name, to->c_name);
            return false;
        }
    }
    return true;
}
static PyObject *py_clamp_min_number_(const arg *a) { return bounds_go_into(a, 2) ? py_clamp_min_(a) : NULL; }
static PyObject *py_clamp_max_number_(const arg *a) { return bounds_go_into(a, 2) ? py_clamp_max_(a) : NULL; }
static PyObject *py_clamp_numbers_(const arg *a) { return bounds_go_into(a, 3) ? py_clamp_(a) : NULL; }

static PyObject *py_clamp_min_number(const arg *a) { return apply_into(compute_clamp_min, a, 2, true); }
static PyObject *py_clamp_max_number(const arg *a) { return apply_into(compute_clamp_max, a, 2, true); }
static PyObject *py_clamp_numbers(const arg *a) { return apply_into(compute_clamp, a, 3, true); }

/* --- comparison
 * ---------------------------------------------------------------------------------------------------------------- */

static PyObject *py_isclose(const arg *a)
{
    return py_wrap(bk_isclose(a[0].tensor, a[1].tensor, a[2].d, a[3].d, a[4].b));
}

static PyObject *py_allclose(const arg *a)
{
    bool same;
    if (bk_allclose(a[0].tensor, a[1].tensor, a[2].d, a[3].d, a[4].b, &same) < 0)
        return py_raise();
    return PyBool_FromLong(same);
}

static PyObject *py_equal(const arg *a)
{
    bool same;
    if (bk_equal(a[0].tensor, a[1].tensor, &same) < 0)
        return py_raise();
    return PyBool_FromLong(same);
}

/* --- special values
 * ---------------------------------------------------------------------------------------------------------------- */

static bk_tensor *compute_nan_to_num(const arg *a)
{
    return replace_nan(a[0].tensor, a[1].given ? &a[1].d : NULL, a[2].given ? &a[2].d : NULL,
                       a[3].given ? &a[3].d : NULL);
}

static bk_tensor *compute_isinf(const arg *a) { return is_infinite(a[0].tensor); }
static bk_tensor *compute_isfinite(const arg *a) { return is_finite(a[0].tensor); }
static PyObject *py_isinf(const arg *a) { return py_wrap(locked(compute_isinf, a)); }
static PyObject *py_isfinite(const arg *a) { return py_wrap(locked(compute_isfinite, a)); }
static bk_tensor *compute_logit(const arg *a) { return logit(a[0].tensor, a[1].given ? a[1].d : -1); }
static bk_tensor *compute_sinc(const arg *a) { return bk_sinc(a[0].tensor); }
static bk_tensor *compute_deg2rad(const arg *a) { return bk_deg2rad(a[0].tensor); }
static bk_tensor *compute_rad2deg(const arg *a) { return bk_rad2deg(a[0].tensor); }
FUNCTION(nan_to_num, 4)
static PyObject *py_nan_to_num_(const arg *a) { return apply_in_place(compute_nan_to_num, a, 1); }
FUNCTION_AND_IN_PLACE(logit, 2)
FUNCTION_AND_IN_PLACE(sinc, 1)
FUNCTION_AND_IN_PLACE(deg2rad, 1)
FUNCTION_AND_IN_PLACE(rad2deg, 1)
static PyObject *py_positive(const arg *a)
{
    if (tensor_dtype(a[0].tensor) != BK_BOOL)
        return Py_NewRef(a[0].object);
    PyErr_SetString(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return NULL;
}
static PyObject *py_erfcx(const arg *a) { return py_wrap(bk_erfcx(a[0].tensor)); }
static PyObject *py_zeta(const arg *a) { return py_wrap(bk_zeta(a[0].tensor, a[1].tensor)); }
static PyObject *py_polygamma(const arg *a)
{
    return py_elementwise_out(bk_polygamma(a[0].i, a[1].tensor), &a[1], 1, &a[2], false);
}
static PyObject *py_polygamma_method(const arg *a) { return py_wrap(bk_polygamma(a[1].i, a[0].tensor)); }
/* A row of the op table under another name. */
#define ALIAS(name, op)                                                                                                \
    static PyObject *py_##name(const arg *a)                                                                           \
    {                                                                                                                  \
        operand in[MAX_INPUTS] = { { 0 } };                                                                            \
        lock_take();                                                                                                   \
        bk_tensor *t = operands(a, ew_infos[op].arity, in) ? ew_apply_python(op, in) : NULL;                           \
        lock_give();                                                                                                   \
        return !t && PyErr_Occurred() ? NULL : py_row_out(op, t, a);                                                   \
    }                                                                                                                  \
    static PyObject *py_##name##_(const arg *a)                                                                        \
    {                                                                                                                  \
        operand in[MAX_INPUTS] = { { 0 } };                                                                            \
        lock_take();                                                                                                   \
        int status = operands(a, ew_infos[op].arity, in) ? ew_apply_python_in_place(op, a[0].tensor, in) : -1;         \
        lock_give();                                                                                                   \
        return py_in_place(&a[0], status);                                                                             \
    }

/* From here on rows, not statements. */
/* clang-format off */
#define UNARY_ALIASES(X)                                                                                               \
    X(absolute, abs) X(negative, neg) X(arccos, acos) X(arcsin, asin) X(arctan, atan) X(arccosh, acosh)                \
    X(arcsinh, asinh) X(arctanh, atanh) X(fix, trunc) X(sgn, sign)
#define BINARY_ALIASES(X)                                                                                              \
    X(multiply, mul) X(greater, gt) X(greater_equal, ge) X(less, lt) X(less_equal, le) X(not_equal, ne)
/* Rows that take no numbers in PyTorch, and those that take them second only. */
#define ROWS_OF_TENSORS(X)                                                                                             \
    X(hypot, hypot) X(logaddexp, logaddexp) X(logaddexp2, logaddexp2) X(atan2, atan2) X(arctan2, atan2)                \
    X(igamma, igamma) X(igammac, igammac) X(minimum, minimum) X(maximum, maximum) X(fmin, fmin) X(fmax, fmax)          \
    X(nextafter, nextafter) X(logical_and, logical_and) X(logical_or, logical_or)              \
    X(logical_xor, logical_xor)
#define ROWS_WITH_NUMBER_LAST(X)                                                                                       \
    X(fmod, fmod) X(eq, eq) X(ne, ne) X(lt, lt) X(le, le) X(gt, gt) X(ge, ge) X(copysign, copysign)
#define DEFINE_ALIAS(name, op) ALIAS(name, EW_##op)
ALIAS(pow, EW_pow)
ALIAS(round, EW_round)
ALIAS(heaviside, EW_heaviside)
ROWS_OF_TENSORS(DEFINE_ALIAS)
ROWS_WITH_NUMBER_LAST(DEFINE_ALIAS)
UNARY_ALIASES(DEFINE_ALIAS)
BINARY_ALIASES(DEFINE_ALIAS)

/* The rows whose function takes no out in PyTorch. */
#define ROWS_WITHOUT_OUT(X) X(relu) X(selu) X(isnan)
#define WITHOUT_OUT(X) ROWS_WITHOUT_OUT(X) X(isinf) X(isfinite)
#define DEFINE_PLAIN(name)                                                                                             \
    static PyObject *py_##name(const arg *a) { return py_wrap(bk_##name(a[0].tensor)); }
ROWS_WITHOUT_OUT(DEFINE_PLAIN)

#define OF_ONE(name)                                                                                                   \
    { BOTH, #name "(Tensor self, *, Tensor? out=None)", py_##name, NULL },                                             \
    { BOTH, #name "_(Tensor self)", py_##name##_, NULL },
#define OF_TWO(name)                                                                                                   \
    { BOTH, #name "(Tensor self, Tensor other, *, Tensor? out=None)", py_##name, NULL },                               \
    { BOTH, #name "(Tensor self, Scalar other, *, Tensor? out=None)", py_##name, NULL },                               \
    { AS_METHOD, #name "_(Tensor self, Tensor other)", py_##name##_, NULL },                                           \
    { AS_METHOD, #name "_(Tensor self, Scalar other)", py_##name##_, NULL },
#define QUOTIENT(name)                                                                                                 \
    { BOTH, name "(Tensor self, Tensor other, *, Tensor? out=None)", py_div, NULL },                                   \
    { BOTH, name "(Tensor self, Scalar other, *, Tensor? out=None)", py_div, NULL },                                   \
    { AS_FUNCTION, name "(Scalar self, Tensor other, *, Tensor? out=None)", py_div, NULL },
#define QUOTIENT_IN_PLACE(name)                                                                                        \
    { AS_METHOD, name "_(Tensor self, Tensor other)", py_div_, NULL },                                                 \
    { AS_METHOD, name "_(Tensor self, Scalar other)", py_div_, NULL },
#define WITH_ALPHA(name, f)                                                                                            \
    { BOTH, name "(Tensor self, Tensor other, *, Scalar alpha=1, Tensor? out=None)", py_##f, NULL },                   \
    { BOTH, name "(Tensor self, Scalar other, *, Scalar alpha=1, Tensor? out=None)", py_##f, NULL },                   \
    { AS_FUNCTION, name "(Scalar self, Tensor other, *, Scalar alpha=1, Tensor? out=None)", py_##f, NULL },            \
    { OLDER, name "(Tensor self, Scalar alpha, Tensor other, *, Tensor? out=None)", py_##f##_alpha, NULL },            \
    { AS_METHOD, name "_(Tensor self, Tensor other, *, Scalar alpha=1)", py_##f##_, NULL },                            \
    { AS_METHOD, name "_(Tensor self, Scalar other, *, Scalar alpha=1)", py_##f##_, NULL },                            \
    { AS_METHOD | AS_OLDER, name "_(Tensor self, Scalar alpha, Tensor other)", py_##f##_alpha_, NULL },
#define WITH_MODE(name)                                                                                                \
    QUOTIENT(name)                                                                                                     \
    { BOTH, name "(Tensor self, Tensor other, *, str? rounding_mode, Tensor? out=None)", py_div_mode, NULL },          \
    { BOTH, name "(Tensor self, Scalar other, *, str? rounding_mode, Tensor? out=None)", py_div_mode, NULL },          \
    { AS_FUNCTION, name "(Scalar self, Tensor other, *, str? rounding_mode, Tensor? out=None)", py_div_mode, NULL },   \
    QUOTIENT_IN_PLACE(name)                                                                                            \
    { AS_METHOD, name "_(Tensor self, Tensor other, *, str? rounding_mode)", py_div_mode_, NULL },                     \
    { AS_METHOD, name "_(Tensor self, Scalar other, *, str? rounding_mode)", py_div_mode_, NULL },
#define WITH_BOUNDS(name)                                                                                              \
    { BOTH, name "(Tensor self, Tensor? min=None, Tensor? max=None, *, Tensor? out=None)", py_clamp, NULL },           \
    { BOTH, name "(Tensor self, Scalar? min=None, Scalar? max=None, *, Tensor? out=None)", py_clamp_numbers, NULL },   \
    { BOTH, name "_(Tensor self, Tensor? min=None, Tensor? max=None)", py_clamp_, NULL },                              \
    { BOTH, name "_(Tensor self, Scalar? min=None, Scalar? max=None)", py_clamp_numbers_, NULL },
#define WITH_BOUND(name, bound)                                                                                        \
    { BOTH, #name "(Tensor self, Tensor " bound ", *, Tensor? out=None)", py_##name, NULL },                           \
    { BOTH, #name "(Tensor self, Scalar " bound ", *, Tensor? out=None)", py_##name##_number, NULL },                  \
    { BOTH, #name "_(Tensor self, Tensor " bound ")", py_##name##_, NULL },                                            \
    { BOTH, #name "_(Tensor self, Scalar " bound ")", py_##name##_number_, NULL },
#define WITH_TENSORS(name)                                                                                             \
    { BOTH, #name "(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1, Tensor? out=None)", py_##name,     \
      NULL },                                                                                                          \
    { OLDER, #name "(Tensor self, Scalar value, Tensor tensor1, Tensor tensor2, *, Tensor? out=None)",                 \
      py_##name##_value, NULL },                                                                                       \
    { AS_METHOD, #name "_(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", py_##name##_, NULL },      \
    { AS_METHOD | AS_OLDER, #name "_(Tensor self, Scalar value, Tensor tensor1, Tensor tensor2)",                      \
      py_##name##_value_, NULL },

const binding compose_rows[] = {
    WITH_ALPHA("add", add)
    WITH_ALPHA("sub", sub)
    WITH_ALPHA("subtract", sub)
    { AS_FUNCTION, "rsub(Tensor self, Tensor other, *, Scalar alpha=1)", py_rsub, NULL },
    { AS_FUNCTION, "rsub(Tensor self, Scalar other, Scalar alpha=1)", py_rsub, NULL },
    WITH_TENSORS(addcmul)
    WITH_TENSORS(addcdiv)
    { AS_FUNCTION, "threshold(Tensor self, Scalar threshold, Scalar value, *, Tensor? out=None)", py_threshold, NULL },
    WITH_MODE("div")
    WITH_MODE("divide")
    QUOTIENT("true_divide")
    QUOTIENT_IN_PLACE("true_divide")
    { BOTH, "float_power(Tensor self, Tensor exponent, *, Tensor? out=None)", py_float_power, NULL },
    { BOTH, "float_power(Tensor self, Scalar exponent, *, Tensor? out=None)", py_float_power, NULL },
    { AS_FUNCTION, "float_power(Scalar self, Tensor exponent, *, Tensor? out=None)", py_float_power, NULL },
    { AS_METHOD, "float_power_(Tensor self, Tensor exponent)", py_float_power_, NULL },
    { AS_METHOD, "float_power_(Tensor self, Scalar exponent)", py_float_power_, NULL },
    { BOTH, "round(Tensor self, *, Tensor? out=None)", py_round, NULL },
    { BOTH, "round(Tensor self, *, int decimals, Tensor? out=None)", py_round_to, NULL },
    { BOTH, "round_(Tensor self)", py_round_, NULL },
    { BOTH, "round_(Tensor self, *, int decimals)", py_round_to_, NULL },
    WITH_BOUNDS("clamp")
    WITH_BOUNDS("clip")
    WITH_BOUND(clamp_min, "min")
    WITH_BOUND(clamp_max, "max")
    { BOTH, "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)", py_isclose, NULL },
    { BOTH, "allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False)", py_allclose,
      NULL },
    { BOTH, "equal(Tensor self, Tensor other)", py_equal, NULL },
    { BOTH, "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None, *, Tensor? out=None)",
      py_nan_to_num, NULL },
    { BOTH, "nan_to_num_(Tensor self, float? nan=None, float? posinf=None, float? neginf=None)", py_nan_to_num_, NULL },
    { BOTH, "logit(Tensor self, float? eps=None, *, Tensor? out=None)", py_logit, NULL },
    { BOTH, "logit_(Tensor self, float? eps=None)", py_logit_, NULL },
    OF_ONE(sinc)
    OF_ONE(deg2rad)
    OF_ONE(rad2deg)
    { BOTH, "positive(Tensor self)", py_positive, NULL },
    { AS_FUNCTION, "_erfcx(Tensor self)", py_erfcx, NULL },
    { AS_FUNCTION, "_zeta(Tensor self, Tensor other)", py_zeta, NULL },
    { AS_FUNCTION, "polygamma(int n, Tensor self, *, Tensor? out=None)", py_polygamma, NULL },
    { AS_METHOD, "polygamma(Tensor self, int n)", py_polygamma_method, NULL },
#define ONE(name, op) OF_ONE(name)
#define TWO(name, op) OF_TWO(name)
#define TENSORS(name, op)                                                                                              \
    { BOTH, #name "(Tensor self, Tensor other, *, Tensor? out=None)", py_##name, NULL },                               \
    { AS_METHOD, #name "_(Tensor self, Tensor other)", py_##name##_, NULL },
    { BOTH, "pow(Tensor self, Tensor exponent, *, Tensor? out=None)", py_pow, NULL },
    { BOTH, "pow(Tensor self, Scalar exponent, *, Tensor? out=None)", py_pow, NULL },
    { AS_FUNCTION, "pow(Scalar self, Tensor exponent, *, Tensor? out=None)", py_pow, NULL },
    { AS_METHOD, "pow_(Tensor self, Tensor exponent)", py_pow_, NULL },
    { AS_METHOD, "pow_(Tensor self, Scalar exponent)", py_pow_, NULL },
    { BOTH, "heaviside(Tensor self, Tensor values, *, Tensor? out=None)", py_heaviside, NULL },
    { AS_METHOD, "heaviside_(Tensor self, Tensor values)", py_heaviside_, NULL },
    ROWS_OF_TENSORS(TENSORS)
    ROWS_WITH_NUMBER_LAST(TWO)
#define PLAIN(name) { BOTH, #name "(Tensor self)", py_##name, NULL },
    WITHOUT_OUT(PLAIN)
    UNARY_ALIASES(ONE)
    { AS_FUNCTION, "multiply(Scalar self, Tensor other, *, Tensor? out=None)", py_multiply, NULL },
    BINARY_ALIASES(TWO)
};
const size_t compose_row_count = sizeof compose_rows / sizeof *compose_rows;
/* clang-format on */
