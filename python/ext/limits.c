/* limits.c: finfo and iinfo, the limits of the dtypes.
 *
 * Both objects hold nothing but a dtype; every attribute is read from the tables. */
#include "pybrisk.h"

#include <float.h>

PyTypeObject *py_finfo_type, *py_iinfo_type;

/* resolution is 10 to the minus number of decimal digits that always survive. */
static const struct {
    double resolution, max, eps, tiny;
} floats[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = { 1e-6, FLT_MAX, FLT_EPSILON, FLT_MIN },
    [BK_FLOAT64] = { 1e-15, DBL_MAX, DBL_EPSILON, DBL_MIN },
    [BK_FLOAT16] = { 1e-3, 65504, 0x1p-10, 0x1p-14 },
    [BK_BFLOAT16] = { 1e-2, 0x1.fep127, 0x1p-7, 0x1p-126 },
};

static const struct {
    int64_t min, max;
} ints[BK_DTYPE_COUNT] = {
    [BK_INT64] = { INT64_MIN, INT64_MAX }, [BK_INT32] = { INT32_MIN, INT32_MAX }, [BK_INT16] = { INT16_MIN, INT16_MAX },
    [BK_INT8] = { INT8_MIN, INT8_MAX },    [BK_UINT8] = { 0, UINT8_MAX },
};

static bk_dtype dtype_of(PyObject *o) { return (bk_dtype)((py_dtype_object *)o)->code; }

static PyObject *make(PyTypeObject *type, bk_dtype dtype)
{
    py_dtype_object *o = PyObject_New(py_dtype_object, type);
    if (o)
        o->code = (int)dtype;
    return (PyObject *)o;
}

/* The dtype argument, by position or as type=. -2: not given. -1: an exception is set. */
static int dtype_argument(const char *name, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = { "type", NULL };
    PyObject *o = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", keywords, &o))
        return -1;
    if (!o)
        return -2;
    /* The limits of a complex dtype are those of its parts. */
    PyObject *real = Py_TYPE(o) == py_dtype_type ? PyObject_CallMethod(o, "to_real", NULL) : Py_NewRef(o);
    int dtype = real ? dtype_from_python(real) : -1;
    Py_XDECREF(real);
    if (dtype != -2)
        return dtype;
    PyErr_Format(PyExc_TypeError, "%s(): argument 'type' (position 1) must be torch.dtype, not %s", name,
                 py_type_name(o));
    return -1;
}

static PyObject *finfo_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    int dtype = dtype_argument("finfo", args, kwargs);
    if (dtype == -1)
        return NULL;
    if (dtype == -2)
        dtype = bk_get_default_dtype();
    if (!dtype_is_float((bk_dtype)dtype))
        return PyErr_Format(PyExc_TypeError, "torch.finfo() requires a floating point input type. Use torch.iinfo to "
                                             "handle 'torch.finfo'");
    return make(type, (bk_dtype)dtype);
}

static PyObject *iinfo_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    int dtype = dtype_argument("iinfo", args, kwargs);
    if (dtype == -1)
        return NULL;
    if (dtype == -2)
        return PyErr_Format(PyExc_TypeError, "iinfo() missing 1 required positional arguments: \"type\"");
    if (dtype == BK_BOOL)
        return PyErr_Format(PyExc_TypeError, "torch.bool is not supported by torch.iinfo");
    if (dtype_is_float((bk_dtype)dtype))
        return PyErr_Format(PyExc_TypeError, "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                                             "'torch.iinfo'");
    return make(type, (bk_dtype)dtype);
}

static PyObject *get_bits(PyObject *o, void *c) { return (void)c, PyLong_FromSize_t(8 * dtype_size(dtype_of(o))); }
static PyObject *get_dtype(PyObject *o, void *c) { return (void)c, PyUnicode_FromString(bk_dtype_name(dtype_of(o))); }
static PyObject *float_max(PyObject *o, void *c) { return (void)c, PyFloat_FromDouble(floats[dtype_of(o)].max); }
static PyObject *float_min(PyObject *o, void *c) { return (void)c, PyFloat_FromDouble(-floats[dtype_of(o)].max); }
static PyObject *float_eps(PyObject *o, void *c) { return (void)c, PyFloat_FromDouble(floats[dtype_of(o)].eps); }
static PyObject *float_tiny(PyObject *o, void *c) { return (void)c, PyFloat_FromDouble(floats[dtype_of(o)].tiny); }
static PyObject *float_resolution(PyObject *o, void *c)
{
    return (void)c, PyFloat_FromDouble(floats[dtype_of(o)].resolution);
}
static PyObject *int_max(PyObject *o, void *c) { return (void)c, PyLong_FromLongLong(ints[dtype_of(o)].max); }
static PyObject *int_min(PyObject *o, void *c) { return (void)c, PyLong_FromLongLong(ints[dtype_of(o)].min); }

static PyObject *compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((dtype_of(a) == dtype_of(b)) == (op == Py_EQ));
}

static PyObject *finfo_repr(PyObject *o)
{
    char text[320];
    double max = floats[dtype_of(o)].max, tiny = floats[dtype_of(o)].tiny;
    snprintf(text, sizeof text, "finfo(resolution=%g, min=%g, max=%g, eps=%g, smallest_normal=%g, tiny=%g, dtype=%s)",
             floats[dtype_of(o)].resolution, -max, max, floats[dtype_of(o)].eps, tiny, tiny,
             bk_dtype_name(dtype_of(o)));
    return PyUnicode_FromString(text);
}

static PyObject *iinfo_repr(PyObject *o)
{
    char text[160];
    snprintf(text, sizeof text, "iinfo(min=%g, max=%g, dtype=%s)", (double)ints[dtype_of(o)].min,
             (double)ints[dtype_of(o)].max, bk_dtype_name(dtype_of(o)));
    return PyUnicode_FromString(text);
}

static PyGetSetDef finfo_attributes[] = {
    { "bits", get_bits, NULL, "bits of one element", NULL },
    { "dtype", get_dtype, NULL, "the dtype's name", NULL },
    { "max", float_max, NULL, "the largest number", NULL },
    { "min", float_min, NULL, "the lowest number", NULL },
    { "eps", float_eps, NULL, "the distance from 1 to the next number", NULL },
    { "tiny", float_tiny, NULL, "the smallest positive normal number", NULL },
    { "smallest_normal", float_tiny, NULL, "the smallest positive normal number", NULL },
    { "resolution", float_resolution, NULL, "the decimal resolution", NULL },
    { 0 },
};

static PyGetSetDef iinfo_attributes[] = {
    { "bits", get_bits, NULL, "bits of one element", NULL },
    { "dtype", get_dtype, NULL, "the dtype's name", NULL },
    { "max", int_max, NULL, "the largest number", NULL },
    { "min", int_min, NULL, "the lowest number", NULL },
    { 0 },
};

static PyType_Slot finfo_slots[] = {
    { Py_tp_doc, "The limits of a floating-point dtype." },
    { Py_tp_new, finfo_new },
    { Py_tp_repr, finfo_repr },
    { Py_tp_getset, finfo_attributes },
    { Py_tp_richcompare, compare },
    { Py_tp_hash, PyObject_HashNotImplemented },
    { 0, NULL },
};
static PyType_Slot iinfo_slots[] = {
    { Py_tp_doc, "The limits of an integer dtype." },
    { Py_tp_new, iinfo_new },
    { Py_tp_repr, iinfo_repr },
    { Py_tp_getset, iinfo_attributes },
    { Py_tp_richcompare, compare },
    { Py_tp_hash, PyObject_HashNotImplemented },
    { 0, NULL },
};

static PyType_Spec finfo_spec = { "brisk.finfo", sizeof(py_dtype_object), 0, Py_TPFLAGS_DEFAULT, finfo_slots };
static PyType_Spec iinfo_spec = { "brisk.iinfo", sizeof(py_dtype_object), 0, Py_TPFLAGS_DEFAULT, iinfo_slots };

int limits_init(PyObject *module)
{
    if (py_add_type(module, &finfo_spec, &py_finfo_type))
        return -1;
    return py_add_type(module, &iinfo_spec, &py_iinfo_type);
}
