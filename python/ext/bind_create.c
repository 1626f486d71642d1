/* bind_create.c: functions that make tensors from sizes, numbers and Python data. */
#include "factories.h"
#include "arrays.h"
#include "interop.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "ops/create.h"
#include "ops/elementwise.h"
#include "ops/numbers.h"

/* --- options --------------------------------------------------------------------------------------------------- */

int options_check(const arg *options)
{
    if (options[OPTION_DEVICE].given && device_check(options[OPTION_DEVICE].device))
        return -1;
    if (options[OPTION_LAYOUT].given && options[OPTION_LAYOUT].layout != LAYOUT_STRIDED) {
        PyErr_SetString(PyExc_NotImplementedError, "brisk has strided tensors only");
        return -1;
    }
    return 0;
}

/* t is written into out, which may then ask for gradients. Steals t. */
static PyObject *made_in(const arg *out, bk_tensor *t, const arg *options)
{
    const arg *dtype = &options[OPTION_DTYPE], *grad = &options[OPTION_GRAD];
    bk_dtype own = tensor_dtype(out->tensor);
    if (dtype->given && dtype->dtype != own) {
        bk_release(t);
        return PyErr_Format(PyExc_RuntimeError, "dtype %s does not match dtype of out parameter (%s)",
                            dtypes[dtype->dtype].type_name, dtypes[own].type_name);
    }
    PyObject *r = py_out(t, out);
    if (r && grad->given && grad->b && bk_set_requires_grad(out->tensor, true) < 0) {
        Py_DECREF(r);
        return py_raise();
    }
    return r;
}

static PyObject *with_grad(bk_tensor *t, const arg *wanted)
{
    if (!t || !wanted->given || !wanted->b)
        return py_wrap(t);
    if (!dtype_is_float(tensor_dtype(t))) {
        bk_release(t);
        return PyErr_Format(PyExc_RuntimeError,
                            "Only Tensors of floating point and complex dtype can require gradients");
    }
    if (bk_set_requires_grad(t, true) < 0) {
        bk_release(t);
        t = NULL;
    }
    return py_wrap(t);
}

PyObject *options_apply(bk_tensor *t, const arg *options, const arg *out)
{
    return t && out && out->given ? made_in(out, t, options) : with_grad(t, &options[OPTION_GRAD]);
}

/* --- layouts --------------------------------------------------------------------------------------------------- */

/* Batch slowest, then the pixels, channels fastest. */
static const layout *channels_last(const layout *l, int ndim)
{
    if (l->ndim != ndim)
        return PyErr_Format(PyExc_RuntimeError, "required rank %d tensor to use %s format", ndim,
                            ndim == 4 ? "channels_last" : "channels_last_3d"),
               NULL;
    int64_t strides[BK_MAX_NDIM], step = l->sizes[1];
    strides[1] = 1;
    for (int d = ndim - 1; d >= 2; d--) {
        strides[d] = step;
        step *= l->sizes[d];
    }
    strides[0] = step;
    return layout_get(ndim, l->sizes, strides);
}

const layout *format_layout(const layout *l, const arg *format, memory_format_kind otherwise)
{
    const layout *found = NULL;
    switch (format->given ? format->memory_format : otherwise) {
    case FORMAT_CHANNELS_LAST: found = channels_last(l, 4); break;
    case FORMAT_CHANNELS_LAST_3D: found = channels_last(l, 5); break;
    case FORMAT_CONTIGUOUS: found = l->plain; break;
    default: found = layout_packed(l);
    }
    if (!found && !PyErr_Occurred())
        py_raise();
    return found;
}

/* --- filled ---------------------------------------------------------------------------------------------------- */

bk_dtype number_dtype(const py_number *n)
{
    return n->kind == NUMBER_FLOAT ? bk_get_default_dtype() : n->kind == NUMBER_INT ? BK_INT64 : BK_BOOL;
}

bk_tensor *filled(const layout *l, const py_number *value, bk_dtype dtype)
{
    if (!l)
        return NULL;
    if (number_check(py_number_operand(value), dtype) < 0)
        return NULL;
    lock_take();
    node *constant = value->kind == NUMBER_FLOAT || dtype_is_float(dtype) ? node_constant_double(dtype, value->d)
                                                                          : node_constant_int(dtype, value->i);
    bk_tensor *t = tensor_from_node(fill_node(l, constant));
    lock_give();
    return t;
}

static const py_number ZERO = { NUMBER_INT, 0, 0 }, ONE = { NUMBER_INT, 1, 1 };

static const layout *sized(const arg *size, const char *op)
{
    char text[200];
    for (int d = 0; d < size->ints.n; d++)
        if (size->ints.v[d] < 0)
            return !strcmp(op, "zeros")
                       ? error_null(BK_RUNTIME_ERROR, "zeros: Dimension size must be non-negative.")
                       : error_null(BK_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld: %s",
                                    (long long)size->ints.v[d], sizes_text(size->ints.n, size->ints.v, text));
    return layout_get(size->ints.n, size->ints.v, NULL);
}

/* (size, out, options) */
static PyObject *fill_size(const arg *a, const py_number *value, const char *op)
{
    if (options_check(a + 2))
        return NULL;
    bk_tensor *t = filled(sized(&a[0], op), value, made_dtype(a + 2, bk_get_default_dtype()));
    return options_apply(t, a + 2, &a[1]);
}

static PyObject *py_zeros(const arg *a) { return fill_size(a, &ZERO, "zeros"); }
static PyObject *py_ones(const arg *a) { return fill_size(a, &ONE, "ones"); }

static PyObject *py_full(const arg *a)
{
    if (options_check(a + 3))
        return NULL;
    bk_dtype dtype = made_dtype(a + 3, number_dtype(&a[1].scalar));
    return options_apply(filled(sized(&a[0], "full"), &a[1].scalar, dtype), a + 3, &a[2]);
}

static bk_tensor *empty_of(const layout *l, bk_dtype dtype)
{
    lock_take();
    bk_tensor *t = l ? tensor_from_node(record_node(node_new(OP_empty, dtype, l))) : NULL;
    lock_give();
    return t;
}

static PyObject *py_empty(const arg *a)
{
    if (options_check(a + 2))
        return NULL;
    const layout *l = sized(&a[0], "empty");
    if (l && a[2 + OPTION_FORMAT].given && !(l = format_layout(l, &a[2 + OPTION_FORMAT], FORMAT_CONTIGUOUS)))
        return NULL;
    return options_apply(empty_of(l, made_dtype(a + 2, bk_get_default_dtype())), a + 2, &a[1]);
}

static PyObject *py_empty_strided(const arg *a)
{
    if (options_check(a + 2))
        return NULL;
    if (a[0].ints.n != a[1].ints.n)
        return PyErr_Format(PyExc_RuntimeError,
                            "dimensionality of sizes (%d) must match dimensionality of strides (%d)", a[0].ints.n,
                            a[1].ints.n);
    bk_tensor *t = bk_empty_strided(a[0].ints.n, a[0].ints.v, a[1].ints.v, option_dtype(a + 2, bk_get_default_dtype()));
    return options_apply(t, a + 2, NULL);
}

/* --- like another tensor ------------------------------------------------------------------------------------------ */

/* options: those of a _like function, whose first argument is t. NULL with an exception set. */
static const layout *like(const arg *t, const arg *options)
{
    return options_check(options) ? NULL : format_layout(t->tensor->layout, &options[OPTION_FORMAT], FORMAT_PRESERVE);
}

static PyObject *fill_like(const arg *a, const py_number *value, const arg *options)
{
    const layout *l = like(&a[0], options);
    if (!l)
        return NULL;
    return options_apply(filled(l, value, option_dtype(options, tensor_dtype(a[0].tensor))), options, NULL);
}

static PyObject *py_zeros_like(const arg *a) { return fill_like(a, &ZERO, a + 1); }
static PyObject *py_ones_like(const arg *a) { return fill_like(a, &ONE, a + 1); }
static PyObject *py_full_like(const arg *a) { return fill_like(a, &a[1].scalar, a + 2); }

static PyObject *py_empty_like(const arg *a)
{
    const layout *l = like(&a[0], a + 1);
    return l ? options_apply(empty_of(l, option_dtype(a + 1, tensor_dtype(a[0].tensor))), a + 1, NULL) : NULL;
}

/* (self, size, options) */
static PyObject *fill_new(const arg *a, const py_number *value, const arg *options, const char *op)
{
    if (options_check(options))
        return NULL;
    bk_dtype dtype = option_dtype(options, tensor_dtype(a[0].tensor));
    return options_apply(filled(sized(&a[1], op), value, dtype), options, NULL);
}

static PyObject *py_new_zeros(const arg *a) { return fill_new(a, &ZERO, a + 2, "new_zeros"); }
static PyObject *py_new_ones(const arg *a) { return fill_new(a, &ONE, a + 2, "new_ones"); }
static PyObject *py_new_full(const arg *a) { return fill_new(a, &a[2].scalar, a + 3, "new_full"); }

static PyObject *py_new_empty(const arg *a)
{
    if (options_check(a + 2))
        return NULL;
    bk_dtype dtype = option_dtype(a + 2, tensor_dtype(a[0].tensor));
    return options_apply(empty_of(sized(&a[1], "new_empty"), dtype), a + 2, NULL);
}

static PyObject *py_fill_(const arg *a)
{
    operand value = py_number_operand(&a[1].scalar);
    lock_take();
    int status = tensor_assign(a[0].tensor, value, WRITE_fill);
    lock_give();
    return py_in_place(&a[0], status);
}

static PyObject *py_fill_tensor_(const arg *a)
{
    if (a[1].tensor->layout->ndim)
        return PyErr_Format(PyExc_RuntimeError,
                            "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.",
                            a[1].tensor->layout->ndim);
    operand value;
    lock_take();
    int status = tensor_read(a[1].tensor, &value) ? tensor_assign(a[0].tensor, value, WRITE_fill_tensor) : -1;
    lock_give();
    return py_in_place(&a[0], status);
}

/* --- sequences ------------------------------------------------------------------------------------------------------
 */

/* start, end, step; options follow out. */
static PyObject *arange(const py_number *start, const py_number *end, const py_number *step, const arg *out)
{
    const arg *options = out + 1;
    if (options_check(options))
        return NULL;
    bool whole = start->kind != NUMBER_FLOAT && end->kind != NUMBER_FLOAT && step->kind != NUMBER_FLOAT;
    bk_dtype dtype = made_dtype(options, whole ? BK_INT64 : bk_get_default_dtype());
    bk_tensor *t =
        whole ? bk_arange_int(start->i, end->i, step->i, dtype) : bk_arange(start->d, end->d, step->d, dtype);
    return options_apply(t, options, out);
}

static PyObject *py_arange_end(const arg *a) { return arange(&ZERO, &a[0].scalar, &ONE, &a[1]); }
static PyObject *py_arange(const arg *a) { return arange(&a[0].scalar, &a[1].scalar, &a[2].scalar, &a[3]); }

static PyObject *py_range(const arg *a)
{
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "torch.range is deprecated and will be removed in a future release because its behavior is "
                     "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values in "
                     "[start, end).",
                     1) ||
        options_check(a + 4))
        return NULL;
    bk_tensor *t = bk_range(a[0].scalar.d, a[1].scalar.d, a[2].scalar.d, made_dtype(a + 4, bk_get_default_dtype()));
    return options_apply(t, a + 4, &a[3]);
}

static PyObject *py_linspace(const arg *a)
{
    if (options_check(a + 4))
        return NULL;
    bk_tensor *t = bk_linspace(a[0].scalar.d, a[1].scalar.d, a[2].i, made_dtype(a + 4, bk_get_default_dtype()));
    return options_apply(t, a + 4, &a[3]);
}

static PyObject *py_logspace(const arg *a)
{
    if (options_check(a + 5))
        return NULL;
    bk_dtype dtype = made_dtype(a + 5, bk_get_default_dtype());
    return options_apply(bk_logspace(a[0].scalar.d, a[1].scalar.d, a[2].i, a[3].d, dtype), a + 5, &a[4]);
}

static PyObject *eye(int64_t rows, int64_t columns, const arg *out)
{
    if (options_check(out + 1))
        return NULL;
    return options_apply(bk_eye(rows, columns, made_dtype(out + 1, bk_get_default_dtype())), out + 1, out);
}

static PyObject *py_eye_square(const arg *a) { return eye(a[0].i, a[0].i, &a[1]); }
static PyObject *py_eye(const arg *a) { return eye(a[0].i, a[1].i, &a[2]); }

/* --- triangles, grids ------------------------------------------------------------------------------------------------
 */

static PyObject *py_tril(const arg *a) { return py_out(bk_tril(a[0].tensor, a[1].i), &a[2]); }
static PyObject *py_triu(const arg *a) { return py_out(bk_triu(a[0].tensor, a[1].i), &a[2]); }

static PyObject *replaced(const arg *self, bk_tensor *value)
{
    int status = bk_copy_(self->tensor, value);
    bk_release(value);
    return py_in_place(self, status);
}

static PyObject *py_tril_(const arg *a) { return replaced(&a[0], bk_tril(a[0].tensor, a[1].i)); }
static PyObject *py_triu_(const arg *a) { return replaced(&a[0], bk_triu(a[0].tensor, a[1].i)); }

static PyObject *py_tril_indices(const arg *a)
{
    if (options_check(a + 3))
        return NULL;
    return options_apply(bk_tril_indices(a[0].i, a[1].i, a[2].i, option_dtype(a + 3, BK_INT64)), a + 3, NULL);
}

static PyObject *py_triu_indices(const arg *a)
{
    if (options_check(a + 3))
        return NULL;
    return options_apply(bk_triu_indices(a[0].i, a[1].i, a[2].i, option_dtype(a + 3, BK_INT64)), a + 3, NULL);
}

static PyObject *py_meshgrid(const arg *a)
{
    int n = a[0].tensors.n;
    bool xy = strcmp(a[1].s, "xy") == 0;
    bk_tensor *out[BK_MAX_NDIM];
    if (!xy && strcmp(a[1].s, "ij") != 0)
        return PyErr_Format(PyExc_RuntimeError,
                            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: %s", a[1].s);
    if (bk_meshgrid(a[0].tensors.v, n, xy, out) < 0)
        return py_raise();
    PyObject *grids = PyTuple_New(n);
    for (int k = 0; k < n; k++) {
        PyObject *grid = grids ? py_wrap(out[k]) : NULL;
        if (!grids)
            bk_release(out[k]);
        else if (grid)
            PyTuple_SET_ITEM(grids, k, grid);
        else
            Py_CLEAR(grids);
    }
    return grids;
}

/* --- Python data
 * ------------------------------------------------------------------------------------------------------ */

/* A number lives in its node. */
static bk_tensor *tensor_of_number(const py_number *n, bk_dtype dtype)
{
    lock_take();
    const layout *l = layout_get(0, NULL, NULL);
    node *value = l ? node_new(OP_data, dtype, l) : NULL;
    if (value) {
        value->data = (char *)&value->attr;
        if (dtype_is_float(dtype))
            dtype_store_double(dtype, value->data, n->d);
        else
            dtype_store_int(dtype, value->data, n->i);
    }
    bk_tensor *t = tensor_from_node(value);
    lock_give();
    return t;
}

/* The memory that the data was read into becomes the tensor's. */
static bk_tensor *tensor_of_data(const py_data *d)
{
    lock_take();
    storage *s = d->data ? storage_adopt(d->data, d->bytes) : storage_new(0);
    bk_tensor *t = tensor_adopt(s, s ? layout_get(d->ndim, d->sizes, NULL) : NULL, d->dtype);
    lock_give();
    return t;
}

/* Whether an array has strides that its copy keeps, or that we refuse. */
static bool strided_array(PyObject *o)
{
    array a;
    if (!array_is_numpy(o) || array_open(o, &a) <= 0)
        return PyErr_Clear(), false;
    const layout *plain = layout_get(a.view.ndim, a.view.sizes, NULL);
    bool strided = false;
    for (int d = 0; plain && d < a.view.ndim; d++)
        strided |= a.view.sizes[d] > 1 && a.view.strides[d] != plain->strides[d];
    array_close(&a);
    return strided;
}

/* A tensor, or an array shared as one, copied as a clone is but on no tape. NULL with an exception set. */
static bk_tensor *copy_of_array(PyObject *o, int dtype)
{
    PyObject *shared = py_is_tensor(o) ? Py_NewRef(o) : tensor_on_array(o);
    if (!shared)
        return NULL;
    bk_tensor *t = ((py_tensor *)shared)->t, *copy;
    lock_take();
    bool taped = grad_set_enabled(false);
    copy = copy_as(t, layout_packed(t->layout), dtype < 0 ? tensor_dtype(t) : (bk_dtype)dtype);
    grad_set_enabled(taped);
    lock_give();
    Py_DECREF(shared);
    if (!copy)
        py_raise();
    return copy;
}

bk_tensor *tensor_from_python(PyObject *data, int dtype)
{
    if (py_is_tensor(data) || strided_array(data))
        return copy_of_array(data, dtype);
    py_number n;
    bk_tensor *t;
    bool plain = PyFloat_CheckExact(data) || PyBool_Check(data) || PyLong_CheckExact(data);
    if (plain && (dtype < 0 || dtype_is_float((bk_dtype)dtype)) && py_number_from(data, &n) > 0) {
        t = tensor_of_number(&n, dtype < 0 ? number_dtype(&n) : (bk_dtype)dtype);
    } else {
        PyErr_Clear();
        py_data d;
        if (py_data_from(data, dtype, &d))
            return NULL;
        t = tensor_of_data(&d);
    }
    if (!t)
        py_raise();
    return t;
}

static PyObject *py_tensor_of(const arg *a)
{
    if (a[2].given && device_check(a[2].device))
        return NULL;
    if (py_is_tensor(a[0].object) &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                     "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
                     1))
        return NULL;
    bk_tensor *t = tensor_from_python(a[0].object, a[1].given ? (int)a[1].dtype : -1);
    return t ? with_grad(t, &a[3]) : NULL;
}

static PyObject *py_new_tensor(const arg *a)
{
    if (a[3].given && device_check(a[3].device))
        return NULL;
    bk_dtype dtype = a[2].given ? a[2].dtype : tensor_dtype(a[0].tensor);
    bk_tensor *t = tensor_from_python(a[1].object, (int)dtype);
    return t ? with_grad(t, &a[4]) : NULL;
}

static PyObject *py_scalar_tensor(const arg *a)
{
    if (options_check(a + 1))
        return NULL;
    bk_dtype dtype = option_dtype(a + 1, bk_get_default_dtype());
    py_number n = a[0].scalar;
    if (dtype_is_float(dtype))
        n = (py_number){ NUMBER_FLOAT, 0, number_narrowed(number_float(n.d), dtype).d };
    return options_apply(filled(layout_get(0, NULL, NULL), &n, dtype), a + 1, NULL);
}

/* --- settings
 * ----------------------------------------------------------------------------------------------------------- */

static PyObject *py_get_default_dtype(const arg *a)
{
    (void)a;
    return py_dtype(bk_get_default_dtype());
}

static PyObject *py_set_default_dtype(const arg *a)
{
    if (bk_set_default_dtype(a[0].dtype) < 0)
        return py_raise();
    Py_RETURN_NONE;
}

static PyObject *py_set_default_device(const arg *a)
{
    if (a[0].given && device_check(a[0].device))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_get_default_device(const arg *a)
{
    (void)a;
    return py_device_new((py_device){ .type = 0, .index = -1 });
}

enum { BOTH = AS_FUNCTION | AS_METHOD };

const binding create_rows[] = {
    { AS_FUNCTION, "zeros(int[] size, *, Tensor? out=None, " OPTIONS ")", py_zeros, "Zeros of a size." },
    { AS_FUNCTION, "ones(int[] size, *, Tensor? out=None, " OPTIONS ")", py_ones, "Ones of a size." },
    { AS_FUNCTION, "full(int[] size, Scalar fill_value, *, Tensor? out=None, " OPTIONS ")", py_full,
      "One number repeated." },
    { AS_FUNCTION, "empty(int[] size, *, Tensor? out=None, " LIKE_OPTIONS ")", py_empty, "Memory as it comes." },
    { AS_FUNCTION, "empty_strided(int[] size, int[] stride, *, " OPTIONS ")", py_empty_strided, NULL },
    { AS_FUNCTION, "zeros_like(Tensor self, *, " LIKE_OPTIONS ")", py_zeros_like, NULL },
    { AS_FUNCTION, "ones_like(Tensor self, *, " LIKE_OPTIONS ")", py_ones_like, NULL },
    { AS_FUNCTION, "full_like(Tensor self, Scalar fill_value, *, " LIKE_OPTIONS ")", py_full_like, NULL },
    { AS_FUNCTION, "empty_like(Tensor self, *, " LIKE_OPTIONS ")", py_empty_like, NULL },
    { AS_METHOD, "new_zeros(Tensor self, int[] size, *, " OPTIONS ")", py_new_zeros, NULL },
    { AS_METHOD, "new_ones(Tensor self, int[] size, *, " OPTIONS ")", py_new_ones, NULL },
    { AS_METHOD, "new_full(Tensor self, int[] size, Scalar fill_value, *, " OPTIONS ")", py_new_full, NULL },
    { AS_METHOD, "new_empty(Tensor self, int[] size, *, " OPTIONS ")", py_new_empty, NULL },
    { AS_METHOD,
      "new_tensor(Tensor self, Object data, *, dtype? dtype=None, device? device=None, "
      "bool? requires_grad=False, bool? pin_memory=False)",
      py_new_tensor, NULL },
    { AS_METHOD, "fill_(Tensor self, Tensor value)", py_fill_tensor_, NULL },
    { AS_METHOD, "fill_(Tensor self, Scalar value)", py_fill_, "Every element becomes value." },
    { AS_FUNCTION, "arange(Scalar end, *, Tensor? out=None, " OPTIONS ")", py_arange_end,
      "Numbers from start to end, end excluded." },
    { AS_FUNCTION, "arange(Scalar start, Scalar end, Scalar step=1, *, Tensor? out=None, " OPTIONS ")", py_arange,
      NULL },
    { AS_FUNCTION, "range(Scalar start, Scalar end, Scalar step=1, *, Tensor? out=None, " OPTIONS ")", py_range, NULL },
    { AS_FUNCTION, "linspace(Scalar start, Scalar end, int steps, *, Tensor? out=None, " OPTIONS ")", py_linspace,
      "Evenly spaced numbers, both ends included." },
    { AS_FUNCTION, "logspace(Scalar start, Scalar end, int steps, float base=10.0, *, Tensor? out=None, " OPTIONS ")",
      py_logspace, "Powers of base with evenly spaced exponents." },
    { AS_FUNCTION, "eye(int n, *, Tensor? out=None, " OPTIONS ")", py_eye_square, "Ones on the diagonal." },
    { AS_FUNCTION, "eye(int n, int m, *, Tensor? out=None, " OPTIONS ")", py_eye, NULL },
    { BOTH, "tril(Tensor self, int diagonal=0, *, Tensor? out=None)", py_tril, "The part on and below a diagonal." },
    { BOTH, "triu(Tensor self, int diagonal=0, *, Tensor? out=None)", py_triu, "The part on and above a diagonal." },
    { AS_METHOD, "tril_(Tensor self, int diagonal=0)", py_tril_, NULL },
    { AS_METHOD, "triu_(Tensor self, int diagonal=0)", py_triu_, NULL },
    { AS_FUNCTION, "tril_indices(int row, int col, int offset=0, *, " OPTIONS ")", py_tril_indices, NULL },
    { AS_FUNCTION, "triu_indices(int row, int col, int offset=0, *, " OPTIONS ")", py_triu_indices, NULL },
    { AS_FUNCTION, "_meshgrid(Tensor[] tensors, str indexing)", py_meshgrid, NULL },
    { AS_FUNCTION,
      "tensor(Object data, *, dtype? dtype=None, device? device=None, bool? requires_grad=False, "
      "bool? pin_memory=False)",
      py_tensor_of, "A tensor of Python data, copied." },
    { AS_FUNCTION, "scalar_tensor(Scalar s, *, " OPTIONS ")", py_scalar_tensor, NULL },
    { AS_FUNCTION, "get_default_dtype()", py_get_default_dtype, NULL },
    { AS_FUNCTION, "set_default_dtype(dtype d)", py_set_default_dtype, NULL },
    { AS_FUNCTION, "get_default_device()", py_get_default_device, NULL },
    { AS_FUNCTION, "set_default_device(device? device)", py_set_default_device, NULL },
};
const size_t create_row_count = sizeof create_rows / sizeof *create_rows;
