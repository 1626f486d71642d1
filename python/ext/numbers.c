/* numbers.c: reading single numbers: Python's, NumPy's, and tensors that hold one.
 *
 * NumPy's scalars are known by their types' names, so that nothing here imports NumPy. */
#include "pybrisk.h"

#include <string.h>

static const struct {
    const char *name;
    bk_dtype dtype;
} numpy_types[] = {
    { "float64", BK_FLOAT64 }, { "float32", BK_FLOAT32 }, { "int64", BK_INT64 },    { "int32", BK_INT32 },
    { "bool", BK_BOOL },       { "bool_", BK_BOOL },      { "int16", BK_INT16 },    { "int8", BK_INT8 },
    { "uint8", BK_UINT8 },     { "float16", BK_FLOAT16 }, { "longlong", BK_INT64 },
};

bool numpy_scalar(PyObject *o, bk_dtype *dtype)
{
    static const char prefix[] = "numpy.";
    const char *name = Py_TYPE(o)->tp_name;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    name += sizeof prefix - 1;
    for (size_t i = 0; i < sizeof numpy_types / sizeof *numpy_types; i++)
        if (strcmp(name, numpy_types[i].name) == 0) {
            *dtype = numpy_types[i].dtype;
            return true;
        }
    return false;
}

static int from_int(PyObject *o, py_number *out)
{
    int overflow;
    int64_t i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow)
        PyErr_SetString(PyExc_OverflowError,
                        overflow < 0 ? "can't convert negative int to unsigned" : "int too big to convert");
    if (overflow || (i == -1 && PyErr_Occurred()))
        return -1;
    *out = (py_number){ NUMBER_INT, i, (double)i };
    return 1;
}

static int from_float(PyObject *o, py_number *out)
{
    double d = PyFloat_AsDouble(o);
    if (d == -1 && PyErr_Occurred())
        return -1;
    *out = (py_number){ NUMBER_FLOAT, 0, d };
    return 1;
}

static int from_bool(bool b, py_number *out)
{
    *out = (py_number){ NUMBER_BOOL, b, b };
    return 1;
}

static int from_tensor(PyObject *o, py_number *out)
{
    if (bk_ndim(((py_tensor *)o)->t) != 0)
        return 0;
    view v;
    if (py_tensor_read(o, &v))
        return -1;
    if (v.dtype == BK_BOOL)
        return from_bool(*(const uint8_t *)v.data != 0, out);
    bool is_float = dtype_is_float(v.dtype);
    *out = (py_number){ is_float ? NUMBER_FLOAT : NUMBER_INT, is_float ? 0 : dtype_load_int(v.dtype, v.data),
                        dtype_load_double(v.dtype, v.data) };
    return 1;
}

static int from_numpy(PyObject *o, py_number *out)
{
    bk_dtype dtype;
    if (!numpy_scalar(o, &dtype))
        return 0;
    if (dtype == BK_BOOL) {
        int b = PyObject_IsTrue(o);
        return b < 0 ? -1 : from_bool(b, out);
    }
    if (dtype_is_float(dtype))
        return from_float(o, out);
    PyObject *index = PyNumber_Index(o);
    int r = index ? from_int(index, out) : -1;
    Py_XDECREF(index);
    return r;
}

int py_number_from(PyObject *o, py_number *out)
{
    if (PyFloat_Check(o))
        return from_float(o, out);
    if (PyBool_Check(o))
        return from_bool(o == Py_True, out);
    if (PyLong_Check(o))
        return from_int(o, out);
    return py_is_tensor(o) ? from_tensor(o, out) : from_numpy(o, out);
}

int py_int64_from(PyObject *o, int64_t *out)
{
    PyObject *index = PyLong_CheckExact(o) ? Py_NewRef(o) : PyNumber_Index(o);
    if (!index)
        return -1;
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow)
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    return overflow || (*out == -1 && PyErr_Occurred()) ? -1 : 0;
}
