/* bind_functional.c: the functions of nn.functional, in the module brisk._C._nn. */
#include "autograd/composed.h"
#include "binds.h"
#include "core/lock.h"
#include "ops/activations.h"
#include "ops/compose.h"
#include "ops/elementwise.h"
#include "ops/numbers.h"

static operand number(const arg *a)
{
    operand o = { 0 };
    py_operand(a, &o); /* of a Scalar argument: cannot fail */
    return o;
}

/* The result, or the argument that took it. */
static PyObject *finish(bk_tensor *y, const arg *x, const arg *inplace)
{
    return inplace && inplace->b ? py_write_back(x, y) : py_wrap(y);
}

/* The same of what began at `start`; in place PyTorch's gradient has another name. */
static PyObject *finish_as(const char *name, int *row, uint64_t start, bk_tensor *y, const arg *x, const arg *inplace)
{
    PyObject *result = finish(y, x, inplace);
    if (result && inplace->b)
        composed_as(x->tensor, name, row, start, (const bk_tensor *const *)&x->tensor, 1);
    return result;
}

static PyObject *of_one(int op, const arg *a, const arg *inplace)
{
    lock_take();
    bk_tensor *y = ew_unary(op, a[0].tensor);
    lock_give();
    return finish(y, &a[0], inplace);
}

/* The number does not make a float of an integer tensor. */
static PyObject *of_number(int op, const arg *a, const arg *inplace, const char *name, int *row)
{
    bk_dtype dtype = tensor_dtype(a[0].tensor);
    if (!dtype_is_float(dtype))
        return PyErr_Format(PyExc_NotImplementedError, "\"%s_cpu\" not implemented for '%s'",
                            op == EW_celu ? "elu" : ew_infos[op].name, dtypes[dtype].type_name);
    if (op == EW_celu && a[1].scalar.d == 0)
        return PyErr_Format(PyExc_RuntimeError, "ZeroDivisionError: alpha cannot be 0 for CELU");
    if (factor_check(number(&a[1]), dtype) < 0)
        return py_raise();
    const uint64_t start = next_sequence;
    lock_take();
    bk_tensor *y = ew_with(op, a[0].tensor, number(&a[1]));
    lock_give();
    return finish_as(name, row, start, y, &a[0], inplace);
}

#define PLAIN(name, op)                                                                                                \
    static PyObject *py_##name(const arg *a) { return of_one(EW_##op, a, NULL); }
#define MAYBE_IN_PLACE(name, op)                                                                                       \
    static PyObject *py_##name(const arg *a) { return of_one(EW_##op, a, &a[1]); }
#define WITH_NUMBER(name, op)                                                                                          \
    static PyObject *py_##name(const arg *a)                                                                           \
    {                                                                                                                  \
        static int row;                                                                                                \
        return of_number(EW_##op, a, &a[2], #name "_", &row);                                                          \
    }
PLAIN(sigmoid, sigmoid)
PLAIN(tanh, tanh)
MAYBE_IN_PLACE(relu, relu)
MAYBE_IN_PLACE(silu, silu)
MAYBE_IN_PLACE(mish, mish)
MAYBE_IN_PLACE(hardswish, hardswish)
MAYBE_IN_PLACE(hardsigmoid, hardsigmoid)
WITH_NUMBER(leaky_relu, leaky_relu)
WITH_NUMBER(celu, celu)

static PyObject *py_selu(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    lock_take();
    bk_tensor *y = ew_unary(EW_selu, a[0].tensor);
    lock_give();
    return finish_as("selu_", &row, start, y, &a[0], &a[1]);
}

static PyObject *py_logsigmoid(const arg *a)
{
    lock_take();
    bk_tensor *y = act_logsigmoid(a[0].tensor);
    lock_give();
    return py_wrap(y);
}

static PyObject *py_softsign(const arg *a)
{
    lock_take();
    bk_tensor *y = soft_sign(a[0].tensor);
    lock_give();
    return py_wrap(y);
}

static PyObject *py_gelu(const arg *a)
{
    bool tanh = !strcmp(a[1].s, "tanh");
    if (!tanh && strcmp(a[1].s, "none")) {
        PyErr_SetString(PyExc_RuntimeError, "approximate argument must be either none or tanh.");
        return NULL;
    }
    return of_one(tanh ? EW_gelu_tanh : EW_gelu, a, NULL);
}

static PyObject *py_elu(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    lock_take();
    bk_tensor *y = act_elu(a[0].tensor, a[1].scalar.d, 1, 1);
    lock_give();
    return finish_as("elu_", &row, start, y, &a[0], &a[2]);
}

static PyObject *py_softplus(const arg *a)
{
    lock_take();
    bk_tensor *y = act_softplus(a[0].tensor, a[1].scalar.d, a[2].scalar.d);
    lock_give();
    return py_wrap(y);
}

static PyObject *py_hardtanh(const arg *a)
{
    lock_take();
    bk_tensor *y = act_hardtanh(a[0].tensor, number(&a[1]), number(&a[2]));
    lock_give();
    return finish(y, &a[0], &a[3]);
}

static PyObject *py_relu6(const arg *a)
{
    lock_take();
    bk_tensor *y = act_hardtanh(a[0].tensor, number_int(0), number_int(6));
    lock_give();
    return finish(y, &a[0], &a[1]);
}

static PyObject *py_threshold(const arg *a)
{
    static int row;
    const uint64_t start = next_sequence;
    lock_take();
    bk_tensor *y = act_threshold(a[0].tensor, number(&a[1]), number(&a[2]));
    lock_give();
    return finish_as("threshold_", &row, start, y, &a[0], &a[3]);
}

static PyObject *py_hardshrink(const arg *a) { return py_wrap(bk_hardshrink(a[0].tensor, a[1].scalar.d)); }
static PyObject *py_softshrink(const arg *a) { return py_wrap(bk_softshrink(a[0].tensor, a[1].scalar.d)); }
static PyObject *py_tanhshrink(const arg *a) { return py_wrap(bk_tanhshrink(a[0].tensor)); }
static PyObject *py_prelu(const arg *a) { return py_wrap(bk_prelu(a[0].tensor, a[1].tensor)); }
static PyObject *py_glu(const arg *a) { return py_wrap(bk_glu(a[0].tensor, (int)a[1].i)); }
static PyObject *py_linear(const arg *a) { return py_wrap(bk_linear(a[0].tensor, a[1].tensor, a[2].tensor)); }

const binding functional_rows[] = {
    { AS_FUNCTION, "linear(Tensor input, Tensor weight, Tensor? bias=None)", py_linear, NULL },
    { AS_FUNCTION, "sigmoid(Tensor input)", py_sigmoid, NULL },
    { AS_FUNCTION, "tanh(Tensor input)", py_tanh, NULL },
    { AS_FUNCTION, "logsigmoid(Tensor input)", py_logsigmoid, NULL },
    { AS_FUNCTION, "softsign(Tensor input)", py_softsign, NULL },
    { AS_FUNCTION, "tanhshrink(Tensor input)", py_tanhshrink, NULL },
    { AS_FUNCTION, "relu(Tensor input, Truth inplace=False)", py_relu, NULL },
    { AS_FUNCTION, "relu6(Tensor input, Truth inplace=False)", py_relu6, NULL },
    { AS_FUNCTION, "selu(Tensor input, Truth inplace=False)", py_selu, NULL },
    { AS_FUNCTION, "silu(Tensor input, Truth inplace=False)", py_silu, NULL },
    { AS_FUNCTION, "mish(Tensor input, Truth inplace=False)", py_mish, NULL },
    { AS_FUNCTION, "hardswish(Tensor input, Truth inplace=False)", py_hardswish, NULL },
    { AS_FUNCTION, "hardsigmoid(Tensor input, Truth inplace=False)", py_hardsigmoid, NULL },
    { AS_FUNCTION, "leaky_relu(Tensor input, Scalar negative_slope=0.01, Truth inplace=False)", py_leaky_relu, NULL },
    { AS_FUNCTION, "elu(Tensor input, Scalar alpha=1.0, Truth inplace=False)", py_elu, NULL },
    { AS_FUNCTION, "celu(Tensor input, Scalar alpha=1.0, Truth inplace=False)", py_celu, NULL },
    { AS_FUNCTION, "gelu(Tensor input, *, str approximate='none')", py_gelu, NULL },
    { AS_FUNCTION, "softplus(Tensor input, Scalar beta=1, Scalar threshold=20)", py_softplus, NULL },
    { AS_FUNCTION, "hardtanh(Tensor input, Scalar min_val=-1.0, Scalar max_val=1.0, Truth inplace=False)", py_hardtanh,
      NULL },
    { AS_FUNCTION, "threshold(Tensor input, Scalar threshold, Scalar value, Truth inplace=False)", py_threshold, NULL },
    { AS_FUNCTION, "hardshrink(Tensor input, Scalar lambd=0.5)", py_hardshrink, NULL },
    { AS_FUNCTION, "softshrink(Tensor input, Scalar lambd=0.5)", py_softshrink, NULL },
    { AS_FUNCTION, "prelu(Tensor input, Tensor weight)", py_prelu, NULL },
    { AS_FUNCTION, "glu(Tensor input, int dim=-1)", py_glu, NULL },
};
const size_t functional_row_count = sizeof functional_rows / sizeof *functional_rows;
