/* bind_elementwise.c: a function, a method and an in-place method from every row of the op table. */
#include "binds.h"
#include "core/lock.h"
#include "ops/elementwise.h"

/* Arguments a[0..arity) are operands, a[arity] is out. */
static PyObject *apply(int op, const arg *a)
{
    operand in[MAX_INPUTS] = { { 0 } };
    int arity = ew_infos[op].arity;
    lock_take();
    bool good = true;
    for (int k = 0; good && k < arity; k++)
        good = py_operand(&a[k], &in[k]);
    bk_tensor *t = good ? ew_apply_python(op, in) : NULL;
    lock_give();
    return good ? py_row_out(op, t, a) : NULL;
}

static PyObject *apply_in_place(int op, const arg *a)
{
    operand in[MAX_INPUTS] = { { 0 } };
    int arity = ew_infos[op].arity;
    lock_take();
    bool good = true;
    for (int k = 0; good && k < arity; k++)
        good = py_operand(&a[k], &in[k]);
    int status = good ? ew_apply_python_in_place(op, a[0].tensor, in) : -1;
    lock_give();
    return good ? py_in_place(&a[0], status) : NULL;
}

/* The ternary ones have signatures of their own: where and lerp stand below, the others where they are composed. */
#define UNARY(name, ...)                                                                                               \
    static PyObject *py_##name(const arg *a) { return apply(EW_##name, a); }                                           \
    static PyObject *py_##name##_(const arg *a) { return apply_in_place(EW_##name, a); }
#define BINARY(name, ...) UNARY(name)
#define TERNARY(name, ...)
#include "brisk/ops.def"
#undef TERNARY

static PyObject *py_where(const arg *a) { return apply(EW_where, a); }
static PyObject *py_where_number(const arg *a) { return apply(EW_where, (const arg[]){ a[0], a[1], a[2], { 0 } }); }
/* (self, condition, other) */
static PyObject *py_where_method(const arg *a) { return apply(EW_where, (const arg[]){ a[1], a[0], a[2], { 0 } }); }
UNARY(lerp)
#undef UNARY
#undef BINARY

enum { BOTH = AS_FUNCTION | AS_METHOD };

#define UNARY(name, ...)                                                                                               \
    { BOTH, #name "(Tensor self, *, Tensor? out=None)", py_##name, NULL },                                             \
        { BOTH, #name "_(Tensor self)", py_##name##_, NULL },
#define BINARY(name, ...)                                                                                              \
    { BOTH, #name "(Tensor self, Tensor other, *, Tensor? out=None)", py_##name, NULL },                               \
        { BOTH, #name "(Tensor self, Scalar other, *, Tensor? out=None)", py_##name, NULL },                           \
        { AS_FUNCTION, #name "(Scalar self, Tensor other, *, Tensor? out=None)", py_##name, NULL },                    \
        { AS_METHOD, #name "_(Tensor self, Tensor other)", py_##name##_, NULL },                                       \
        { AS_METHOD, #name "_(Tensor self, Scalar other)", py_##name##_, NULL },
#define TERNARY(name, ...)
const binding elementwise_rows[] = {
#include "brisk/ops.def"
    { AS_FUNCTION, "where(Tensor condition)", py_where_places, NULL },
    { AS_FUNCTION, "where(Tensor condition, Tensor self, Tensor other, *, Tensor? out=None)", py_where, NULL },
    { AS_FUNCTION, "where(Tensor condition, Tensor self, Scalar other)", py_where_number, NULL },
    { AS_FUNCTION, "where(Tensor condition, Scalar self, Tensor other)", py_where_number, NULL },
    { AS_FUNCTION, "where(Tensor condition, Scalar self, Scalar other)", py_where_number, NULL },
    { AS_METHOD, "where(Tensor self, Tensor condition, Tensor other)", py_where_method, NULL },
    { AS_METHOD, "where(Tensor self, Tensor condition, Scalar other)", py_where_method, NULL },
    { BOTH, "lerp(Tensor self, Tensor end, Tensor weight, *, Tensor? out=None)", py_lerp, NULL },
    { BOTH, "lerp(Tensor self, Tensor end, Scalar weight, *, Tensor? out=None)", py_lerp, NULL },
    { AS_METHOD, "lerp_(Tensor self, Tensor end, Tensor weight)", py_lerp_, NULL },
    { AS_METHOD, "lerp_(Tensor self, Tensor end, Scalar weight)", py_lerp_, NULL },
};
const size_t elementwise_row_count = sizeof elementwise_rows / sizeof *elementwise_rows;

/* What rows give and PyTorch does not have: activations stand in nn.functional, tests have no in-place form. Programs
 * ask with hasattr, and classes derived from Tensor have attributes of these names. */
/* clang-format off */
static const char *const no_names[] = {
    "celu", "celu_", "cube", "cube_", "cut", "cut_", "elu", "elu_", "gelu", "gelu_", "gelu_slope", "gelu_slope_", "gelu_tanh", "gelu_tanh_", "hardsigmoid",
    "hardsigmoid_", "hardswish", "hardswish_", "isfinite_", "isinf_", "isnan_", "isneginf_", "isposinf_",
    "leaky_relu", "leaky_relu_", "logsigmoid", "logsigmoid_", "mish", "mish_", "signbit_", "silu", "silu_",
    "softsign", "softsign_", "trigamma", "trigamma_", "tanh_backward", "tanh_backward_", "sigmoid_backward",
    "sigmoid_backward_", "erfcx", "erfcx_", "zeta", "zeta_",
};
static const char *const no_methods[] = {
    "fmax_", "fmin_", "logaddexp2_", "logaddexp_", "maximum_", "minimum_", "selu", "selu_",
};
static const char *const no_functions[] = {
    "absolute_", "bitwise_not_", "digamma_", "erfinv_", "lgamma_", "logical_not_", "sgn_", "sign_", "igamma_",
    "igammac_",
};
/* clang-format on */

static int forget_names(PyObject *owner, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (PyObject_HasAttrString(owner, names[i]) && PyObject_DelAttrString(owner, names[i]) < 0)
            return -1;
    return 0;
}

#define FORGET(owner, names) forget_names(owner, names, sizeof names / sizeof *names)

int elementwise_forget_names(PyObject *module)
{
    PyObject *tensor = (PyObject *)py_tensor_type;
    if (FORGET(module, no_names) < 0 || FORGET(module, no_functions) < 0)
        return -1;
    return FORGET(tensor, no_names) < 0 ? -1 : FORGET(tensor, no_methods);
}
