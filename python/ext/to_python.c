/* to_python.c: tensor memory to Python numbers and nested lists. */
#include "pybrisk.h"

PyObject *py_item(bk_dtype dtype, const void *p)
{
    if (dtype == BK_BOOL)
        return PyBool_FromLong(*(const uint8_t *)p);
    if (dtype_is_float(dtype))
        return PyFloat_FromDouble(dtype_load_double(dtype, p));
    return PyLong_FromLongLong(dtype_load_int(dtype, p));
}

/* The two dtypes most lists are made from skip py_item's dispatch. */
static PyObject *row(const char *p, bk_dtype dtype, int64_t n, int64_t stride)
{
    PyObject *list = PyList_New(n);
    int64_t step = stride * (int64_t)dtype_size(dtype);
    for (int64_t i = 0; list && i < n; i++, p += step) {
        PyObject *item = dtype == BK_FLOAT32 ? PyFloat_FromDouble(*(const float *)p)
                         : dtype == BK_INT64 ? PyLong_FromLongLong(*(const int64_t *)p)
                                             : py_item(dtype, p);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *level(const view *v, const char *p, int d)
{
    if (d + 1 == v->ndim)
        return row(p, v->dtype, v->sizes[d], v->strides[d]);
    PyObject *list = PyList_New(v->sizes[d]);
    int64_t step = v->strides[d] * (int64_t)dtype_size(v->dtype);
    for (int64_t i = 0; list && i < v->sizes[d]; i++, p += step) {
        PyObject *item = level(v, p, d + 1);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

PyObject *py_tolist(const view *v) { return v->ndim == 0 ? py_item(v->dtype, v->data) : level(v, v->data, 0); }
