/* from_python.c: Python data to tensor memory.
 *
 * One pass infers and converts: the dtype is guessed from the first element, elements are written straight into the
 * target as that dtype, and an element that needs a wider one starts the pass again with the promoted dtype. Types
 * only widen, so there are at most four passes, and for data of one type there is one.
 *
 * Sizes follow the first element of each level; every other element must agree. An array (NumPy's, or anything with
 * a buffer) stands for all the levels below it and is copied whole.
 *
 * Invariant: while converting, `next` points at the first element not yet written. */
#include "pybrisk.h"
#include "arrays.h"
#include "compat.h"
#include "core/memory.h"

#include <math.h>
#include <string.h>

enum { DONE = 0, ERROR = -1, AGAIN = 1 };

typedef struct walk {
    py_data *out;
    bool inferred; /* the dtype may still widen */
    char *next;
} walk;

/* --- what an element is --------------------------------------------------------------------------------------- */

static int invalid_type(PyObject *o)
{
    PyErr_Format(PyExc_TypeError, "new(): invalid data type '%s'", py_type_name(o));
    return ERROR;
}

static bool is_text(PyObject *o) { return PyUnicode_Check(o) || PyBytes_Check(o); }

static int single_element(PyObject *tensor, bk_dtype to)
{
    if (bk_numel(((py_tensor *)tensor)->t) == 1)
        return DONE;
    if (dtypes[to].category == CATEGORY_INT)
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
    else
        PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    return ERROR;
}

/* The dtype an element asks for, or ERROR. */
static int element_dtype(PyObject *o)
{
    bk_dtype dtype;
    if (!PyFloat_CheckExact(o) && numpy_scalar(o, &dtype)) /* numpy.float64 is a float too */
        return (int)dtype;
    if (PyFloat_Check(o))
        return (int)bk_get_default_dtype();
    if (PyBool_Check(o))
        return BK_BOOL;
    if (PyLong_Check(o))
        return BK_INT64;
    if (py_is_tensor(o))
        return (int)bk_dtype_of(((py_tensor *)o)->t);
    if (PyComplex_Check(o))
        PyErr_SetString(PyExc_NotImplementedError, "brisk has no complex tensors");
    else if (is_text(o))
        invalid_type(o);
    else
        PyErr_Format(PyExc_RuntimeError, "Could not infer dtype of %s", py_type_name(o));
    return ERROR;
}

/* Widens the dtype when the element needs it; AGAIN when that happened. */
static int admit(walk *w, int dtype)
{
    if (dtype < 0)
        return ERROR;
    bk_dtype wide = dtype_promote(w->out->dtype, (bk_dtype)dtype);
    if (!w->inferred || wide == w->out->dtype)
        return DONE;
    w->out->dtype = wide;
    return AGAIN;
}

/* --- single elements ------------------------------------------------------------------------------------------ */

static int overflow(bk_dtype dtype)
{
    PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", bk_dtype_name(dtype));
    return ERROR;
}

/* [low, high] of each integer dtype; uint8 takes negative numbers, which wrap. */
static const struct {
    int64_t low, high;
} ranges[BK_DTYPE_COUNT] = {
    [BK_INT64] = { INT64_MIN, INT64_MAX },  [BK_INT32] = { INT32_MIN, INT32_MAX },
    [BK_INT16] = { INT16_MIN, INT16_MAX },  [BK_INT8] = { INT8_MIN, INT8_MAX },
    [BK_UINT8] = { -UINT8_MAX, UINT8_MAX },
};

static int store_int(bk_dtype dtype, int64_t i, void *to)
{
    if (i < ranges[dtype].low || i > ranges[dtype].high)
        return overflow(dtype);
    dtype_store_int(dtype, to, i);
    return DONE;
}

/* A float for an integer dtype is cut off; there is no wrapping, and NaN fits nowhere. */
static int store_float_as_int(bk_dtype dtype, double d, void *to)
{
    double low = dtype == BK_UINT8 ? 0 : (double)ranges[dtype].low, high = (double)ranges[dtype].high;
    if (!(d >= low && (dtype == BK_INT64 ? d < high : d <= high)))
        return overflow(dtype);
    dtype_store_int(dtype, to, (int64_t)d);
    return DONE;
}

static int store_tensor(bk_dtype dtype, PyObject *o, void *to)
{
    view v;
    if (single_element(o, dtype) || py_tensor_read(o, &v))
        return ERROR;
    if (dtype_is_float(dtype) || dtype == BK_BOOL) {
        dtype_store_double(dtype, to, dtype_load_double(v.dtype, v.data));
        return DONE;
    }
    if (dtype_is_float(v.dtype)) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return ERROR;
    }
    return store_int(dtype, dtype_load_int(v.dtype, v.data), to);
}

/* bool takes any number, however large, but as PyTorch nothing that merely has a truth value. */
static int store_bool(PyObject *o, void *to)
{
    bk_dtype dtype;
    int truth;
    if (PyFloat_Check(o) || PyLong_Check(o) || numpy_scalar(o, &dtype)) {
        truth = PyObject_IsTrue(o);
    } else {
        PyObject *index = PyNumber_Index(o);
        truth = index ? PyObject_IsTrue(index) : -1;
        Py_XDECREF(index);
    }
    *(uint8_t *)to = truth > 0;
    return truth < 0 ? ERROR : DONE;
}

/* Converts any number to the dtype, with Python's own errors for what is none. */
static int store(bk_dtype dtype, PyObject *o, void *to)
{
    if (py_is_tensor(o))
        return store_tensor(dtype, o, to);
    if (dtype_is_float(dtype)) {
        double d = PyFloat_AsDouble(o);
        if (d == -1 && PyErr_Occurred())
            return ERROR;
        dtype_store_double(dtype, to, d);
        return DONE;
    }
    if (dtype == BK_BOOL)
        return store_bool(o, to);
    if (PyFloat_Check(o))
        return store_float_as_int(dtype, PyFloat_AS_DOUBLE(o), to);
    int64_t i;
    return py_int64_from(o, &i) ? ERROR : store_int(dtype, i, to);
}

static int array_level(walk *w, const array *a, int level);

/* Any element that is a number, or an array of no dimension. */
static int admit_and_store(walk *w, PyObject *o)
{
    array a;
    int r = array_open(o, &a);
    if (r < 0)
        return ERROR;
    if (r > 0) {
        r = array_level(w, &a, w->out->ndim);
        array_close(&a);
        return r;
    }
    if (w->inferred) {
        if ((PyList_Check(o) || PyTuple_Check(o)) && w->out->ndim > 0)
            r = DONE; /* a list among numbers: store says what it is not */
        else
            r = admit(w, element_dtype(o));
        if (r != DONE)
            return r;
    }
    Py_INCREF(o); /* __float__ and __index__ may change the list that holds it */
    r = store(w->out->dtype, o, w->next);
    Py_DECREF(o);
    if (r == DONE)
        w->next += dtype_size(w->out->dtype);
    return r;
}

/* --- rows of numbers ------------------------------------------------------------------------------------------ */

static int shrank(void)
{
    PyErr_SetString(PyExc_ValueError, "the list changed while it was read");
    return ERROR;
}

/* The common element types are taken here, without a call; whatever else appears goes through admit_and_store. The
 * list is looked up anew for each element because that call may run Python code which changes it. */
static int floats_row(walk *w, PyObject *list, int64_t n)
{
    int r = DONE;
    int64_t small;
    for (int64_t i = 0; i < n && r == DONE; i++) {
        if (i >= PySequence_Fast_GET_SIZE(list))
            return shrank();
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        if (PyFloat_CheckExact(o)) {
            *(float *)w->next = (float)PyFloat_AS_DOUBLE(o);
            w->next += sizeof(float);
        } else if (small_int(o, &small)) {
            *(float *)w->next = (float)(double)small;
            w->next += sizeof(float);
        } else {
            r = admit_and_store(w, o);
        }
    }
    return r;
}

static int doubles_row(walk *w, PyObject *list, int64_t n)
{
    int r = DONE;
    int64_t small;
    for (int64_t i = 0; i < n && r == DONE; i++) {
        if (i >= PySequence_Fast_GET_SIZE(list))
            return shrank();
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        if (PyFloat_CheckExact(o)) {
            *(double *)w->next = PyFloat_AS_DOUBLE(o);
            w->next += sizeof(double);
        } else if (small_int(o, &small)) {
            *(double *)w->next = (double)small;
            w->next += sizeof(double);
        } else {
            r = admit_and_store(w, o);
        }
    }
    return r;
}

static int ints_row(walk *w, PyObject *list, int64_t n)
{
    int r = DONE;
    for (int64_t i = 0; i < n && r == DONE; i++) {
        if (i >= PySequence_Fast_GET_SIZE(list))
            return shrank();
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        if (small_int(o, (int64_t *)w->next))
            w->next += sizeof(int64_t);
        else
            r = admit_and_store(w, o);
    }
    return r;
}

static int any_row(walk *w, PyObject *list, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (i >= PySequence_Fast_GET_SIZE(list))
            return shrank();
        int r = admit_and_store(w, PySequence_Fast_GET_ITEM(list, i));
        if (r != DONE)
            return r;
    }
    return DONE;
}

static int numbers_row(walk *w, PyObject *list, int64_t n)
{
    switch (w->out->dtype) {
    case BK_FLOAT32: return floats_row(w, list, n);
    case BK_FLOAT64: return doubles_row(w, list, n);
    case BK_INT64: return ints_row(w, list, n);
    default: return any_row(w, list, n);
    }
}

/* range(a, b, step) without making its ints. */
static int range_row(walk *w, PyObject *range, int64_t n)
{
    int r = admit(w, BK_INT64);
    if (r != DONE || n == 0)
        return r;
    int64_t start = 0, step = 0, last;
    PyObject *a = PyObject_GetAttrString(range, "start"), *s = PyObject_GetAttrString(range, "step");
    r = !a || !s || py_int64_from(a, &start) || py_int64_from(s, &step) ? ERROR : DONE;
    Py_XDECREF(a);
    Py_XDECREF(s);
    if (r == DONE && (__builtin_mul_overflow(n - 1, step, &last) || __builtin_add_overflow(start, last, &last))) {
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
        r = ERROR;
    }
    bool plain = dtype_is_float(w->out->dtype) || w->out->dtype == BK_BOOL;
    for (int64_t i = 0; i < n && r == DONE; i++) {
        if (plain)
            dtype_store_int(w->out->dtype, w->next, start + i * step);
        else
            r = store_int(w->out->dtype, start + i * step, w->next);
        w->next += dtype_size(w->out->dtype);
    }
    return r;
}

/* --- nested levels -------------------------------------------------------------------------------------------- */

static int wrong_length(int64_t expected, int level, int64_t got)
{
    PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %lld)", (long long)expected, level,
                 (long long)got);
    return ERROR;
}

/* An array or buffer whose dimensions are those from `level` on. */
static int array_level(walk *w, const array *a, int level)
{
    for (int d = 0; d < a->view.ndim && level + d < w->out->ndim; d++)
        if (a->view.sizes[d] != w->out->sizes[level + d])
            return wrong_length(w->out->sizes[level + d], level + d, a->view.sizes[d]);
    if (level + a->view.ndim != w->out->ndim) {
        PyErr_Format(PyExc_ValueError, "expected an array of %d dimensions at dim %d (got %d)", w->out->ndim - level,
                     level, a->view.ndim);
        return ERROR;
    }
    int r = admit(w, (int)a->asks);
    if (r == DONE)
        w->next = array_copy(a, w->out->dtype, w->next);
    return r;
}

static int sequence_level(walk *w, PyObject *o, int level);

static int fill(walk *w, PyObject *o, int level)
{
    if (level == w->out->ndim)
        return admit_and_store(w, o);
    array a;
    int r = array_open(o, &a);
    if (r <= 0)
        return r < 0 ? ERROR : sequence_level(w, o, level);
    r = array_level(w, &a, level);
    array_close(&a);
    return r;
}

static int sequence_items(walk *w, PyObject *items, int level)
{
    int64_t n = w->out->sizes[level];
    if (PySequence_Fast_GET_SIZE(items) != n)
        return wrong_length(n, level, PySequence_Fast_GET_SIZE(items));
    if (level + 1 == w->out->ndim)
        return numbers_row(w, items, n);
    for (int64_t i = 0; i < n; i++) {
        if (i >= PySequence_Fast_GET_SIZE(items))
            return shrank();
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(items, i));
        int r = fill(w, item, level + 1);
        Py_DECREF(item);
        if (r != DONE)
            return r;
    }
    return DONE;
}

static int sequence_level(walk *w, PyObject *o, int level)
{
    if (PyRange_Check(o) && level + 1 == w->out->ndim) {
        Py_ssize_t n = PyObject_Size(o);
        return n == w->out->sizes[level] ? range_row(w, o, n)
               : n < 0                   ? ERROR
                                         : wrong_length(w->out->sizes[level], level, n);
    }
    if (!PySequence_Check(o) || is_text(o)) {
        PyErr_SetString(PyExc_TypeError, "not a sequence");
        return ERROR;
    }
    PyObject *items = PySequence_Fast(o, "not a sequence");
    int r = items ? sequence_items(w, items, level) : ERROR;
    Py_XDECREF(items);
    return r;
}

/* --- sizes ---------------------------------------------------------------------------------------------------- */

static int add_size(py_data *out, int64_t n, PyObject *o)
{
    if (out->ndim == BK_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "too many dimensions '%s': tensors have at most %d", py_type_name(o),
                     BK_MAX_NDIM);
        return ERROR;
    }
    out->sizes[out->ndim++] = n;
    return DONE;
}

static int add_array_sizes(py_data *out, PyObject *o, const array *a)
{
    for (int d = 0; d < a->view.ndim; d++)
        if (add_size(out, a->view.sizes[d], o))
            return ERROR;
    return (int)a->asks;
}

/* The first element of a sequence: a new reference. */
static PyObject *first_of(PyObject *o) { return PySequence_GetItem(o, 0); }

/* Follows first elements down, adding sizes. Returns the dtype the first number asks for (when one is asked for), or
 * ERROR. `o` is stolen. */
static int measure(PyObject *o, bool infer, py_data *out)
{
    int result = (int)bk_get_default_dtype();
    for (;;) {
        array a;
        int is_array = o ? array_open(o, &a) : ERROR;
        if (is_array != 0) {
            result = is_array < 0 ? ERROR : add_array_sizes(out, o, &a);
            if (is_array > 0)
                array_close(&a);
            break;
        }
        if (is_text(o)) {
            bool nested = out->ndim > 0 && PyUnicode_Check(o) && PyUnicode_GET_LENGTH(o) > 0;
            result = ERROR;
            if (nested)
                PyErr_Format(PyExc_ValueError, "too many dimensions '%s'", py_type_name(o));
            else
                invalid_type(o);
            break;
        }
        if (py_is_tensor(o) || !PySequence_Check(o)) {
            result = infer ? element_dtype(o) : DONE;
            break;
        }
        Py_ssize_t n = PySequence_Size(o);
        if (n < 0 || add_size(out, n, o)) {
            result = ERROR;
            break;
        }
        if (n == 0)
            break;
        Py_SETREF(o, first_of(o));
    }
    Py_XDECREF(o);
    return result;
}

/* --- the whole ------------------------------------------------------------------------------------------------ */

static int take_memory(py_data *out)
{
    size_t bytes = dtype_size(out->dtype);
    for (int d = 0; d < out->ndim; d++)
        if (__builtin_mul_overflow(bytes, (size_t)out->sizes[d], &bytes))
            return PyErr_NoMemory(), ERROR;
    out->bytes = bytes;
    out->data = bytes ? pool_take(bytes) : NULL;
    return bytes && !out->data ? py_raise(), ERROR : DONE;
}

static void give_memory(py_data *out)
{
    if (out->data)
        pool_give(out->data, out->bytes);
    out->data = NULL;
}

/* A whole tensor is copied as an array is; as an element of a list it is a number. */
static int from_tensor(PyObject *o, py_data *out, int dtype)
{
    array a = { .holds_buffer = false };
    if (py_tensor_read(o, &a.view))
        return ERROR;
    out->ndim = a.view.ndim;
    memcpy(out->sizes, a.view.sizes, sizeof out->sizes);
    out->dtype = dtype < 0 ? a.view.dtype : (bk_dtype)dtype;
    if (take_memory(out))
        return ERROR;
    if (out->data)
        array_copy(&a, out->dtype, out->data);
    return DONE;
}

/* Integers past 64 bits are in order when another element makes everything float. */
static int is_late_float(const walk *w)
{
    return w->inferred && w->out->dtype == BK_INT64 && PyErr_ExceptionMatches(PyExc_ValueError);
}

static bool any_float(PyObject *o, int depth)
{
    if (PyFloat_Check(o))
        return true;
    if (depth == 0 || !(PyList_Check(o) || PyTuple_Check(o)))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
        if (any_float(PySequence_Fast_GET_ITEM(o, i), depth - 1))
            return true;
    return false;
}

static int pass(walk *w, PyObject *obj)
{
    if (take_memory(w->out))
        return ERROR;
    w->next = w->out->data;
    int r = w->out->data ? fill(w, obj, 0) : DONE;
    if (r != DONE)
        give_memory(w->out);
    if (r == ERROR && is_late_float(w) && any_float(obj, w->out->ndim)) {
        PyErr_Clear();
        w->out->dtype = bk_get_default_dtype();
        return AGAIN;
    }
    return r;
}

int py_data_from(PyObject *obj, int dtype, py_data *out)
{
    *out = (py_data){ 0 };
    if (py_is_tensor(obj))
        return from_tensor(obj, out, dtype);
    int first = measure(Py_NewRef(obj), dtype < 0, out);
    if (first == ERROR)
        return ERROR;
    out->dtype = (bk_dtype)(dtype < 0 ? first : dtype);
    walk w = { out, dtype < 0, NULL };
    int r;
    while ((r = pass(&w, obj)) == AGAIN)
        ;
    return r;
}
