/* bind_info.c: what a tensor is (sizes, strides, dtype, place) and the same tensor as something else (to, float,
 * contiguous, ...). */
#include "autograd/composed.h"
#include "factories.h"

#include <string.h>

#include "core/error.h"
#include "autograd/shown.h"
#include "core/lock.h"
#include "ops/elementwise.h"
#include "ops/read.h"

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static PyObject *py_size_all(const arg *a) { return py_size(a[0].tensor->layout->ndim, a[0].tensor->layout->sizes); }

static PyObject *py_size_of(const arg *a)
{
    if (!a[1].given)
        return py_size_all(a);
    const layout *l = a[0].tensor->layout;
    int d = l->ndim ? layout_dim(l, a[1].i)
                    : error_int(BK_INDEX_ERROR, "Dimension specified as %lld but tensor has no dimensions",
                                (long long)a[1].i);
    return d < 0 ? py_raise() : PyLong_FromLongLong(l->sizes[d]);
}

static PyObject *py_stride(const arg *a)
{
    const layout *l = a[0].tensor->layout;
    if (a[1].given) {
        int d = l->ndim ? layout_dim(l, a[1].i)
                        : error_int(BK_INDEX_ERROR, "Dimension specified as %lld but tensor has no dimensions",
                                    (long long)a[1].i);
        return d < 0 ? py_raise() : PyLong_FromLongLong(l->strides[d]);
    }
    PyObject *strides = PyTuple_New(l->ndim);
    for (int d = 0; strides && d < l->ndim; d++) {
        PyObject *stride = PyLong_FromLongLong(l->strides[d]);
        if (stride)
            PyTuple_SET_ITEM(strides, d, stride);
        else
            Py_CLEAR(strides);
    }
    return strides;
}

static PyObject *py_numel(const arg *a) { return PyLong_FromLongLong(a[0].tensor->layout->numel); }
static PyObject *py_dim(const arg *a) { return PyLong_FromLong(a[0].tensor->layout->ndim); }
static PyObject *py_storage_offset(const arg *a) { return PyLong_FromLongLong(a[0].tensor->offset); }
static PyObject *py_element_size(const arg *a) { return PyLong_FromSize_t(dtype_size(tensor_dtype(a[0].tensor))); }

static PyObject *py_data_ptr(const arg *a)
{
    if (a[0].tensor->layout->numel == 0)
        return PyLong_FromLong(0);
    void *p = bk_data(a[0].tensor);
    return p ? PyLong_FromVoidPtr(p) : py_raise();
}

static PyObject *py_is_contiguous(const arg *a)
{
    const layout *l = a[0].tensor->layout;
    if (!a[1].given || a[1].memory_format == FORMAT_CONTIGUOUS)
        return PyBool_FromLong(l->contiguous);
    int rank = a[1].memory_format == FORMAT_CHANNELS_LAST ? 4 : 5;
    if (a[1].memory_format == FORMAT_PRESERVE || l->ndim != rank)
        Py_RETURN_FALSE;
    const layout *wanted = format_layout(l, &a[1], FORMAT_CONTIGUOUS);
    return wanted ? PyBool_FromLong(wanted == l) : NULL;
}

/* --- kinds ------------------------------------------------------------------------------------------------------ */

static PyObject *py_is_floating_point(const arg *a)
{
    return PyBool_FromLong(dtype_is_float(tensor_dtype(a[0].tensor)));
}
static PyObject *py_is_signed(const arg *a)
{
    bk_dtype d = tensor_dtype(a[0].tensor);
    return PyBool_FromLong(d != BK_UINT8 && d != BK_BOOL);
}
static PyObject *py_no(const arg *a) { return (void)a, Py_NewRef(Py_False); }
static PyObject *py_self(const arg *a) { return Py_NewRef(a[0].object); }
static PyObject *py_is_tensor_object(const arg *a) { return PyBool_FromLong(py_is_tensor(a[0].object)); }

static PyObject *py_is_same_size(const arg *a)
{
    return PyBool_FromLong(a[0].tensor->layout->plain == a[1].tensor->layout->plain);
}

/* --- dtypes of results -----------------------------------------------------------------------------------------------
 */

static PyObject *py_promote_types(const arg *a) { return py_dtype(dtype_promote(a[0].dtype, a[1].dtype)); }

/* A float does not become an integer, and no number a bool. */
static PyObject *py_can_cast(const arg *a)
{
    return PyBool_FromLong(dtypes[a[0].dtype].category <= dtypes[a[1].dtype].category);
}

static PyObject *py_result_type(const arg *a)
{
    operand in[2];
    if (!py_operand(&a[0], &in[0]) || !py_operand(&a[1], &in[1]))
        return NULL;
    return py_dtype(operands_promote(in, 2));
}

/* --- the same elements as another dtype or in another order ------------------------------------------------------- */

/* t itself when it is that already and no copy is asked for. Owned; NULL with an exception set. */
static PyObject *converted(const arg *self, bk_dtype dtype, bool copy, const arg *format)
{
    const bk_tensor *t = self->tensor;
    const layout *l = format_layout(t->layout, format, FORMAT_PRESERVE);
    if (!l)
        return NULL;
    bool same =
        dtype == tensor_dtype(t) && (!format->given || format->memory_format == FORMAT_PRESERVE || l == t->layout);
    if (same && !copy)
        return Py_NewRef(self->object);
    static int row;
    uint64_t start = next_sequence;
    lock_take();
    bk_tensor *c = copy_as(t, l, dtype);
    lock_give();
    return py_wrap(dtype == tensor_dtype(t) ? composed_as(c, "_to_copy", &row, start, &t, 1) : c);
}

/* (self, dtype, non_blocking, copy, memory_format) */
static PyObject *py_to_dtype(const arg *a) { return converted(&a[0], a[1].dtype, a[3].b, &a[4]); }

static PyObject *py_to_device(const arg *a)
{
    if (a[1].given && device_check(a[1].device))
        return NULL;
    return converted(&a[0], a[2].given ? a[2].dtype : tensor_dtype(a[0].tensor), a[4].b, &a[5]);
}

static PyObject *py_to_other(const arg *a) { return converted(&a[0], tensor_dtype(a[1].tensor), a[3].b, &a[4]); }
static PyObject *py_type_as(const arg *a)
{
    static const arg any = { .given = false };
    return converted(&a[0], tensor_dtype(a[1].tensor), false, &any);
}

#define CONVERSIONS(X)                                                                                                 \
    X(float, BK_FLOAT32)                                                                                               \
    X(double, BK_FLOAT64)                                                                                              \
    X(half, BK_FLOAT16)                                                                                                \
    X(bfloat16, BK_BFLOAT16)                                                                                           \
    X(long, BK_INT64)                                                                                                  \
    X(int, BK_INT32)                                                                                                   \
    X(short, BK_INT16)                                                                                                 \
    X(char, BK_INT8)                                                                                                   \
    X(byte, BK_UINT8)                                                                                                  \
    X(bool, BK_BOOL)
#define DEFINE(name, dtype)                                                                                            \
    static PyObject *py_to_##name(const arg *a) { return converted(&a[0], dtype, false, &a[1]); }
CONVERSIONS(DEFINE)
#undef DEFINE

static PyObject *py_cpu(const arg *a) { return converted(&a[0], tensor_dtype(a[0].tensor), false, &a[1]); }

static PyObject *py_cuda(const arg *a)
{
    py_device cuda = { .type = 1, .index = -1 };
    (void)a;
    return device_check(cuda), NULL;
}

/* "torch.FloatTensor" and its class, or a dtype. -1 with an exception set. */
static int dtype_of_type(PyObject *o)
{
    int dtype = dtype_from_python(o);
    if (dtype != -2)
        return dtype;
    PyObject *named = PyUnicode_Check(o) ? NULL : PyObject_GetAttrString(o, "dtype");
    if (named) {
        dtype = dtype_from_python(named);
        Py_DECREF(named);
        return dtype == -2 ? -1 : dtype;
    }
    PyErr_Clear();
    const char *text = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
    for (int d = 0; text && d < BK_DTYPE_COUNT; d++) {
        char name[40];
        snprintf(name, sizeof name, "torch.%sTensor", dtypes[d].type_name);
        if (strcmp(name, text) == 0)
            return d;
    }
    if (text)
        PyErr_Format(PyExc_ValueError, "invalid type: '%s'", text);
    else
        PyErr_SetString(PyExc_TypeError, "dtype must be a type, str, or dtype object");
    return -1;
}

static PyObject *py_type(const arg *a)
{
    static const arg any = { .given = false };
    if (!a[1].given)
        return PyUnicode_FromFormat("torch.%sTensor", dtypes[tensor_dtype(a[0].tensor)].type_name);
    int dtype = dtype_of_type(a[1].object);
    return dtype < 0 ? NULL : converted(&a[0], (bk_dtype)dtype, false, &any);
}

static PyObject *py_contiguous(const arg *a)
{
    const layout *l = format_layout(a[0].tensor->layout, &a[1], FORMAT_CONTIGUOUS);
    if (!l)
        return NULL;
    bool there = l == a[0].tensor->layout || (l == l->plain && a[0].tensor->layout->contiguous);
    if (there)
        return Py_NewRef(a[0].object);
    lock_take();
    bk_tensor *c = copy_as(a[0].tensor, l, tensor_dtype(a[0].tensor));
    lock_give();
    return py_wrap(c);
}

static PyObject *py_clone(const arg *a) { return converted(&a[0], tensor_dtype(a[0].tensor), true, &a[1]); }

/* --- numbers out ----------------------------------------------------------------------------------------------------
 */

static PyObject *py_tolist_of(const arg *a)
{
    view v;
    return py_tensor_read(a[0].object, &v) ? NULL : py_tolist(&v);
}

/* Whether any element of a bool tensor (stolen) is true. */
static PyObject *any_true(PyObject *tensor)
{
    view v;
    if (!tensor || py_tensor_read(tensor, &v)) {
        Py_XDECREF(tensor);
        return NULL;
    }
    bool found = false;
    for (int64_t i = 0, n = view_numel(&v); i < n && !found; i++) {
        int64_t at = 0;
        for (int64_t d = v.ndim - 1, left = i; d >= 0; left /= v.sizes[d--])
            at += left % v.sizes[d] * v.strides[d];
        found = v.data[at] != 0;
    }
    Py_DECREF(tensor);
    return PyBool_FromLong(found);
}

static PyObject *py_contains(const arg *a)
{
    py_number n;
    if (!py_is_tensor(a[1].object) && py_number_from(a[1].object, &n) <= 0) {
        PyErr_Clear();
        return PyErr_Format(PyExc_RuntimeError,
                            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a %R.",
                            (PyObject *)Py_TYPE(a[1].object));
    }
    return any_true(PyObject_RichCompare(a[0].object, a[1].object, Py_EQ));
}

/* --- attributes ------------------------------------------------------------------------------------------------------
 */

static bk_tensor *handle(PyObject *self) { return ((py_tensor *)self)->t; }

static PyObject *get_nbytes(PyObject *self, void *c)
{
    (void)c;
    return PyLong_FromLongLong(handle(self)->layout->numel * (int64_t)dtype_size(tensor_dtype(handle(self))));
}
static PyObject *get_itemsize(PyObject *self, void *c)
{
    return (void)c, PyLong_FromSize_t(dtype_size(tensor_dtype(handle(self))));
}
static PyObject *get_layout(PyObject *self, void *module)
{
    (void)self;
    return PyObject_GetAttrString((PyObject *)module, "strided");
}
static PyObject *get_false(PyObject *self, void *c) { return (void)self, (void)c, Py_NewRef(Py_False); }
static PyObject *get_true(PyObject *self, void *c) { return (void)self, (void)c, Py_NewRef(Py_True); }
static PyObject *get_none(PyObject *self, void *c) { return (void)self, (void)c, Py_NewRef(Py_None); }

static PyObject *get_view_base(PyObject *self, void *c)
{
    (void)c;
    if (!tensor_is_view(handle(self)))
        Py_RETURN_NONE;
    lock_take();
    bk_tensor *base = tensor_base(handle(self));
    lock_give();
    return py_wrap(base);
}

/* What is a view of a result inside of its function in PyTorch says so. */
static PyObject *py_is_view(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    lock_take();
    const node *place = tensor_tracked(t) ? t->track->place : NULL;
    bool view = tensor_is_view(t) || (place && (place->in_view || shown_is_inner_view(place)));
    lock_give();
    return PyBool_FromLong(view);
}

static PyObject *get_version(PyObject *self, void *c)
{
    (void)c;
    if (handle(self)->flags & TENSOR_INFERENCE) {
        PyErr_SetString(PyExc_RuntimeError, "Inference tensors do not track version counter.");
        return NULL;
    }
    return PyLong_FromUnsignedLong(handle(self)->cell->version);
}

static PyGetSetDef info_attributes[] = {
    { "nbytes", get_nbytes, NULL, "How many bytes the elements take.", NULL },
    { "itemsize", get_itemsize, NULL, "How many bytes an element takes.", NULL },
    { "layout", get_layout, NULL, "torch.strided.", NULL },
    { "is_cpu", get_true, NULL, NULL, NULL },
    { "is_cuda", get_false, NULL, NULL, NULL },
    { "is_mps", get_false, NULL, NULL, NULL },
    { "is_meta", get_false, NULL, NULL, NULL },
    { "is_sparse", get_false, NULL, NULL, NULL },
    { "is_quantized", get_false, NULL, NULL, NULL },
    { "is_nested", get_false, NULL, NULL, NULL },
    { "name", get_none, NULL, NULL, NULL },
    { "_version", get_version, NULL, "Changes with every write.", NULL },
    { "_base", get_view_base, NULL, "The tensor that this one is a view of; None: it is none.", NULL },
    { 0 },
};

int info_init(PyObject *module)
{
    for (PyGetSetDef *d = info_attributes; d->name; d++)
        if (strcmp(d->name, "layout") == 0)
            d->closure = module;
    return py_add_attributes(py_tensor_type, info_attributes);
}

enum { BOTH = AS_FUNCTION | AS_METHOD };

const binding info_rows[] = {
    { AS_METHOD, "_is_view(Tensor self)", py_is_view, NULL },
    { AS_METHOD, "size(Tensor self, int? dim=None)", py_size_of, "The sizes, or one of them." },
    { AS_METHOD, "stride(Tensor self, int? dim=None)", py_stride, "The strides, in elements, or one of them." },
    { BOTH, "numel(Tensor self)", py_numel, "The number of elements." },
    { AS_METHOD, "nelement(Tensor self)", py_numel, NULL },
    { AS_METHOD, "dim(Tensor self)", py_dim, "The number of dimensions." },
    { AS_METHOD, "ndimension(Tensor self)", py_dim, NULL },
    { AS_METHOD, "storage_offset(Tensor self)", py_storage_offset, NULL },
    { AS_METHOD, "element_size(Tensor self)", py_element_size, NULL },
    { AS_METHOD, "data_ptr(Tensor self)", py_data_ptr, "The address of the first element, which stays there." },
    { AS_METHOD, "is_contiguous(Tensor self, *, memory_format? memory_format=None)", py_is_contiguous, NULL },
    { BOTH, "is_floating_point(Tensor self)", py_is_floating_point, NULL },
    { BOTH, "is_complex(Tensor self)", py_no, NULL },
    { BOTH, "is_signed(Tensor self)", py_is_signed, NULL },
    { BOTH, "is_conj(Tensor self)", py_no, NULL },
    { BOTH, "is_neg(Tensor self)", py_no, NULL },
    { BOTH, "is_same_size(Tensor self, Tensor other)", py_is_same_size, NULL },
    { AS_METHOD, "is_pinned(Tensor self, Object device=None)", py_no, NULL },
    { AS_METHOD, "pin_memory(Tensor self, Object device=None)", py_self, NULL },
    { BOTH, "resolve_conj(Tensor self)", py_self, NULL },
    { BOTH, "resolve_neg(Tensor self)", py_self, NULL },
    { BOTH, "conj(Tensor self)", py_self, NULL },
    { AS_FUNCTION, "promote_types(dtype type1, dtype type2)", py_promote_types, NULL },
    { AS_FUNCTION, "can_cast(dtype from_, dtype to)", py_can_cast, NULL },
    { AS_FUNCTION, "result_type(Tensor tensor, Tensor other)", py_result_type, NULL },
    { AS_FUNCTION, "result_type(Tensor tensor, Scalar other)", py_result_type, NULL },
    { AS_FUNCTION, "result_type(Scalar scalar, Tensor tensor)", py_result_type, NULL },
    { AS_FUNCTION, "result_type(Scalar scalar1, Scalar scalar2)", py_result_type, NULL },
    { AS_FUNCTION, "is_tensor(Object obj)", py_is_tensor_object, NULL },
    { AS_METHOD,
      "to(Tensor self, dtype dtype, bool non_blocking=False, bool copy=False, *, "
      "memory_format? memory_format=None)",
      py_to_dtype, "As another dtype or on another device." },
    { AS_METHOD,
      "to(Tensor self, device? device=None, dtype? dtype=None, bool non_blocking=False, bool copy=False, *, "
      "memory_format? memory_format=None)",
      py_to_device, NULL },
    { AS_METHOD,
      "to(Tensor self, Tensor other, bool non_blocking=False, bool copy=False, *, "
      "memory_format? memory_format=None)",
      py_to_other, NULL },
#define ROW(name, dtype) { AS_METHOD, #name "(Tensor self, *, memory_format? memory_format=None)", py_to_##name, NULL },
    CONVERSIONS(ROW)
#undef ROW
        { AS_METHOD, "cpu(Tensor self, *, memory_format? memory_format=None)", py_cpu, NULL },
    { AS_METHOD, "cuda(Tensor self, Object device=None, bool non_blocking=False, *, memory_format? memory_format=None)",
      py_cuda, NULL },
    { AS_METHOD, "type(Tensor self, Object? dtype=None, bool non_blocking=False)", py_type, NULL },
    { AS_METHOD, "type_as(Tensor self, Tensor other)", py_type_as, NULL },
    { AS_METHOD, "contiguous(Tensor self, *, memory_format? memory_format=None)", py_contiguous, NULL },
    { BOTH, "clone(Tensor self, *, memory_format? memory_format=None)", py_clone, "A copy in memory of its own." },
    { AS_METHOD, "tolist(Tensor self)", py_tolist_of, "The elements as nested lists." },
    { AS_METHOD, "__format__(Tensor self, str format_spec)", py_tensor_format, NULL },
    { AS_FUNCTION,
      "set_printoptions(int? precision=None, Scalar? threshold=None, int? edgeitems=None, "
      "int? linewidth=None, str? profile=None, bool? sci_mode=None)",
      py_set_printoptions, NULL },
    { AS_FUNCTION, "_get_printoptions()", py_get_printoptions, NULL },
    { AS_METHOD, "untyped_storage(Tensor self)", py_untyped_storage, "The memory under the tensor." },
    { AS_FUNCTION, "_tensor_on_storage(Object storage, int offset, int[] size, int[] stride)", py_tensor_on_storage,
      NULL },
    { AS_FUNCTION, "_storage_from_bytes(dtype dtype, int[] size, int[] stride, Object data)", py_storage_from_bytes,
      NULL },
    { AS_FUNCTION, "_make_subclass(Object cls, Tensor data, bool require_grad=False)", py_make_subclass, NULL },
    { AS_FUNCTION, "_legacy_new(dtype dtype, Object args)", py_legacy_new, NULL },
    { AS_METHOD, "__contains__(Tensor self, Object element)", py_contains, NULL },
};
const size_t info_row_count = sizeof info_rows / sizeof *info_rows;
