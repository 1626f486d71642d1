/* arrays.c: NumPy arrays and other buffers as views, and their copies.
 *
 * Everything goes through the buffer protocol; NumPy is never imported, its array type is recognised by name the
 * first time one is seen. */
#include "arrays.h"

#include <string.h>

/* --- recognising ---------------------------------------------------------------------------------------------- */

static PyTypeObject *ndarray; /* once seen */

static bool is_ndarray(PyTypeObject *type)
{
    if (ndarray)
        return type == ndarray || PyType_IsSubtype(type, ndarray);
    for (PyTypeObject *t = type; t; t = t->tp_base)
        if (strcmp(t->tp_name, "numpy.ndarray") == 0) {
            ndarray = (PyTypeObject *)Py_NewRef(t);
            return true;
        }
    return false;
}

bool array_is_numpy(PyObject *o) { return is_ndarray(Py_TYPE(o)); }

/* Sequences and numbers that everyone passes are ruled out by type before any attribute is looked up. */
static bool plainly_not(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    return t == &PyList_Type || t == &PyTuple_Type || t == &PyFloat_Type || t == &PyLong_Type || t == &PyBool_Type ||
           t == &PyRange_Type || o == Py_None || PyUnicode_Check(o) || PyBytes_Check(o) || PyType_Check(o) ||
           py_is_tensor(o);
}

/* --- formats -------------------------------------------------------------------------------------------------- */

/* The dtype of a struct-module format, or -1. l and q depend on the platform: the size decides. */
static int format_dtype(const char *f, Py_ssize_t size)
{
    if (!f)
        return BK_UINT8;
    if (*f == '@' || *f == '=' || *f == (PY_LITTLE_ENDIAN ? '<' : '>'))
        f++;
    if (!f[0] || f[1])
        return -1;
    switch (*f) {
    case '?': return BK_BOOL;
    case 'B': return BK_UINT8;
    case 'e': return BK_FLOAT16;
    case 'f': return BK_FLOAT32;
    case 'd': return BK_FLOAT64;
    case 'b': return BK_INT8;
    case 'h': return BK_INT16;
    case 'i':
    case 'l':
    case 'q': return size == 8 ? BK_INT64 : BK_INT32;
    default: return -1;
    }
}

static int unsupported(PyObject *o, const char *format)
{
    PyErr_Clear();
    if (format && *format && strchr("<>!", *format)) {
        PyErr_SetString(PyExc_ValueError, "given numpy array has byte order different from the native byte order. "
                                          "Conversion between byte orders is currently not supported.");
        return -1;
    }
    PyObject *dtype = PyObject_GetAttrString(o, "dtype");
    PyObject *type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError,
                 "can't convert np.ndarray of type %s. The only supported types are: float64, float32, float16, int64, "
                 "int32, int16, int8, uint8, and bool.",
                 type && PyType_Check(type) ? ((PyTypeObject *)type)->tp_name : "unknown");
    Py_XDECREF(type);
    Py_XDECREF(dtype);
    return -1;
}

/* --- opening -------------------------------------------------------------------------------------------------- */

static bk_dtype python_dtype(bk_dtype d)
{
    return dtype_is_float(d) ? bk_get_default_dtype() : d == BK_BOOL ? BK_BOOL : BK_INT64;
}

/* Strides in elements; false when an array's strides are no multiples of its item size, or it is too deep. */
static bool describe(const Py_buffer *b, view *v)
{
    if (b->ndim > BK_MAX_NDIM)
        return false;
    v->data = b->buf;
    v->ndim = b->ndim;
    for (int d = 0; d < b->ndim; d++) {
        if (b->strides[d] % b->itemsize)
            return false;
        v->sizes[d] = b->shape[d];
        v->strides[d] = b->strides[d] / b->itemsize;
    }
    return true;
}

static int open_buffer(PyObject *o, bool numpy, array *out)
{
    if (PyObject_GetBuffer(o, &out->buffer, PyBUF_RECORDS_RO))
        return numpy ? unsupported(o, NULL) : (PyErr_Clear(), 0);
    int dtype = format_dtype(out->buffer.format, out->buffer.itemsize);
    if (dtype >= 0 && describe(&out->buffer, &out->view)) {
        out->view.dtype = (bk_dtype)dtype;
        out->asks = numpy ? (bk_dtype)dtype : python_dtype((bk_dtype)dtype);
        out->holds_buffer = true;
        return 1;
    }
    int r = !numpy ? 0 : dtype < 0 ? unsupported(o, out->buffer.format) : -1;
    if (r == -1 && dtype >= 0)
        PyErr_Format(PyExc_ValueError, "an array of %d dimensions or uneven strides cannot become a tensor",
                     out->buffer.ndim);
    PyBuffer_Release(&out->buffer);
    return r;
}

/* Foreign array types (pandas, xarray, PIL images) hand out a NumPy array. */
static int open_by_method(PyObject *o, array *out)
{
    PyObject *method = PyObject_GetAttrString(o, "__array__");
    if (!method) {
        PyErr_Clear();
        return 0;
    }
    out->owner = PyObject_CallNoArgs(method);
    Py_DECREF(method);
    if (!out->owner)
        return -1;
    int r = is_ndarray(Py_TYPE(out->owner)) ? open_buffer(out->owner, true, out) : 0;
    if (r <= 0)
        Py_CLEAR(out->owner);
    return r;
}

int array_open(PyObject *o, array *out)
{
    if (plainly_not(o))
        return 0;
    out->owner = NULL;
    out->holds_buffer = false;
    bk_dtype dtype;
    if (is_ndarray(Py_TYPE(o)))
        return open_buffer(o, true, out);
    if (numpy_scalar(o, &dtype))
        return 0;
    int r = PyObject_CheckBuffer(o) ? open_buffer(o, false, out) : 0;
    return r ? r : open_by_method(o, out);
}

void array_close(array *a)
{
    if (a->holds_buffer)
        PyBuffer_Release(&a->buffer);
    Py_CLEAR(a->owner);
}

/* --- copying -------------------------------------------------------------------------------------------------- */

/* n elements, `stride` apart, converted. The pairs that large data comes in have loops that vectorise. */
static void copy_row(const char *from, int64_t stride, bk_dtype source, bk_dtype target, char *to, int64_t n)
{
    size_t in = dtype_size(source), out = dtype_size(target);
    if (source == target && stride == 1) {
        memcpy(to, from, (size_t)n * in);
    } else if (source == BK_FLOAT64 && target == BK_FLOAT32) {
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] = (float)((const double *)from)[i * stride];
    } else if (source == BK_UINT8 && target == BK_FLOAT32) {
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] = ((const uint8_t *)from)[i * stride];
    } else if (source == BK_INT64 && target == BK_FLOAT32) {
        for (int64_t i = 0; i < n; i++)
            ((float *)to)[i] = (float)((const int64_t *)from)[i * stride];
    } else if (dtype_is_float(source)) {
        for (int64_t i = 0; i < n; i++)
            dtype_store_double(target, to + (size_t)i * out,
                               dtype_load_double(source, from + i * stride * (int64_t)in));
    } else {
        for (int64_t i = 0; i < n; i++)
            dtype_store_int(target, to + (size_t)i * out, dtype_load_int(source, from + i * stride * (int64_t)in));
    }
}

/* Joins inner dimensions that lie end to end, so that a contiguous array is one row. */
static view joined(const view *v)
{
    view j;
    view_take(&j, v);
    while (j.ndim > 1) {
        int d = j.ndim - 2;
        if (j.strides[d] != j.strides[d + 1] * j.sizes[d + 1])
            break;
        j.sizes[d] *= j.sizes[d + 1];
        j.strides[d] = j.strides[d + 1];
        j.ndim--;
    }
    return j;
}

char *array_copy(const array *a, bk_dtype dtype, char *to)
{
    view v = joined(&a->view);
    int64_t count = view_numel(&v), at[BK_MAX_NDIM] = { 0 };
    int last = v.ndim - 1;
    int64_t row = last < 0 ? 1 : v.sizes[last], stride = last < 0 ? 1 : v.strides[last];
    size_t in = dtype_size(v.dtype);
    const char *from = v.data;
    for (int64_t done = 0; done < count; done += row) {
        copy_row(from, stride, v.dtype, dtype, to, row);
        to += (size_t)row * dtype_size(dtype);
        for (int d = last - 1; d >= 0; d--) { /* the next row: an odometer over the outer dimensions */
            from += v.strides[d] * (int64_t)in;
            if (++at[d] < v.sizes[d])
                break;
            from -= v.strides[d] * v.sizes[d] * (int64_t)in;
            at[d] = 0;
        }
    }
    return to;
}
