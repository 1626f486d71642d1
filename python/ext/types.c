/* types.c: dtype, layout and memory_format: singletons that are known by name.
 *
 * Invariant: there is one object per dtype, layout and memory format, made when the module is set up and never freed,
 * so identity is equality. Pickle stores the name. Dtypes past BK_DTYPE_COUNT have a name and a size, so that
 * programs can mention them, but no tensor has them: asking for one raises NotImplementedError. */
#include "pybrisk.h"

#include <string.h>

enum {
    FIRST_NAMED_ONLY = BK_DTYPE_COUNT,
    UINT16 = FIRST_NAMED_ONLY,
    UINT32,
    UINT64,
    COMPLEX32,
    COMPLEX64,
    COMPLEX128,
    ALL_DTYPES
};

static const struct {
    const char *name, *alias, *type_name;
    uint8_t size;
    bool is_float, is_complex, is_signed;
    int8_t complex; /* to_complex; -1: none */
    int8_t real;    /* to_real */
} rows[ALL_DTYPES] = {
    [BK_FLOAT32] = { "float32", "float", "Float", 4, true, false, true, COMPLEX64, BK_FLOAT32 },
    [BK_FLOAT64] = { "float64", "double", "Double", 8, true, false, true, COMPLEX128, BK_FLOAT64 },
    [BK_FLOAT16] = { "float16", "half", "Half", 2, true, false, true, COMPLEX32, BK_FLOAT16 },
    [BK_BFLOAT16] = { "bfloat16", NULL, "BFloat16", 2, true, false, true, COMPLEX64, BK_BFLOAT16 },
    [BK_INT64] = { "int64", "long", "Long", 8, false, false, true, -1, BK_INT64 },
    [BK_INT32] = { "int32", "int", "Int", 4, false, false, true, -1, BK_INT32 },
    [BK_INT16] = { "int16", "short", "Short", 2, false, false, true, -1, BK_INT16 },
    [BK_INT8] = { "int8", NULL, "Char", 1, false, false, true, -1, BK_INT8 },
    [BK_UINT8] = { "uint8", NULL, "Byte", 1, false, false, false, -1, BK_UINT8 },
    [BK_BOOL] = { "bool", NULL, "Bool", 1, false, false, false, -1, BK_BOOL },
    [UINT16] = { "uint16", NULL, "UInt16", 2, false, false, false, -1, UINT16 },
    [UINT32] = { "uint32", NULL, "UInt32", 4, false, false, false, -1, UINT32 },
    [UINT64] = { "uint64", NULL, "UInt64", 8, false, false, false, -1, UINT64 },
    [COMPLEX32] = { "complex32", "chalf", "ComplexHalf", 4, false, true, true, COMPLEX32, BK_FLOAT16 },
    [COMPLEX64] = { "complex64", "cfloat", "ComplexFloat", 8, false, true, true, COMPLEX64, BK_FLOAT32 },
    [COMPLEX128] = { "complex128", "cdouble", "ComplexDouble", 16, false, true, true, COMPLEX128, BK_FLOAT64 },
};

PyTypeObject *py_dtype_type, *py_layout_type, *py_memory_format_type;
static PyObject *dtype_objects[ALL_DTYPES], *layout_objects[LAYOUT_COUNT], *format_objects[FORMAT_COUNT];

static const char *const layout_names[LAYOUT_COUNT] = { "strided", "sparse_coo", "sparse_csr" };
static const char *const format_names[FORMAT_COUNT] = { "contiguous_format", "preserve_format", "channels_last",
                                                        "channels_last_3d" };

static int code_of(PyObject *o) { return ((py_dtype_object *)o)->code; }

static const char *name_of(PyObject *o)
{
    int code = code_of(o);
    if (Py_TYPE(o) == py_dtype_type)
        return rows[code].name;
    return Py_TYPE(o) == py_layout_type ? layout_names[code] : format_names[code];
}

static PyObject *named_repr(PyObject *o) { return PyUnicode_FromFormat("torch.%s", name_of(o)); }

/* A text from __reduce__ is a global name: pickle stores it, copy returns the object itself. */
static PyObject *named_reduce(PyObject *o, PyObject *none)
{
    (void)none;
    return PyUnicode_FromString(name_of(o));
}

static PyObject *get_is_float(PyObject *o, void *c) { return (void)c, PyBool_FromLong(rows[code_of(o)].is_float); }
static PyObject *get_is_complex(PyObject *o, void *c) { return (void)c, PyBool_FromLong(rows[code_of(o)].is_complex); }
static PyObject *get_is_signed(PyObject *o, void *c) { return (void)c, PyBool_FromLong(rows[code_of(o)].is_signed); }
static PyObject *get_itemsize(PyObject *o, void *c) { return (void)c, PyLong_FromLong(rows[code_of(o)].size); }

static PyObject *dtype_to_real(PyObject *o, PyObject *none)
{
    (void)none;
    return Py_NewRef(dtype_objects[rows[code_of(o)].real]);
}

static PyObject *dtype_to_complex(PyObject *o, PyObject *none)
{
    (void)none;
    int code = rows[code_of(o)].complex;
    if (code < 0)
        return PyErr_Format(PyExc_RuntimeError, "Unknown Complex ScalarType for %s", rows[code_of(o)].type_name);
    return Py_NewRef(dtype_objects[code]);
}

static PyGetSetDef dtype_attributes[] = {
    { "is_floating_point", get_is_float, NULL, "True for the floating-point dtypes", NULL },
    { "is_complex", get_is_complex, NULL, "True for the complex dtypes", NULL },
    { "is_signed", get_is_signed, NULL, "True when the dtype has negative values", NULL },
    { "itemsize", get_itemsize, NULL, "bytes of one element", NULL },
    { 0 },
};

static PyMethodDef dtype_methods[] = {
    { "to_real", dtype_to_real, METH_NOARGS, "the dtype of the real part" },
    { "to_complex", dtype_to_complex, METH_NOARGS, "the complex dtype whose parts are of this dtype" },
    { "__reduce__", named_reduce, METH_NOARGS, NULL },
    { 0 },
};

static PyMethodDef named_methods[] = { { "__reduce__", named_reduce, METH_NOARGS, NULL }, { 0 } };

static PyType_Slot dtype_slots[] = {
    { Py_tp_doc, "The type of a tensor's elements." },
    { Py_tp_repr, named_repr },
    { Py_tp_getset, dtype_attributes },
    { Py_tp_methods, dtype_methods },
    { 0, NULL },
};
static PyType_Slot named_slots[] = { { Py_tp_repr, named_repr }, { Py_tp_methods, named_methods }, { 0, NULL } };

enum { NAMED_FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

static PyType_Spec dtype_spec = { "brisk.dtype", sizeof(py_dtype_object), 0, NAMED_FLAGS, dtype_slots };
static PyType_Spec layout_spec = { "brisk.layout", sizeof(py_dtype_object), 0, NAMED_FLAGS, named_slots };
static PyType_Spec format_spec = { "brisk.memory_format", sizeof(py_dtype_object), 0, NAMED_FLAGS, named_slots };

PyObject *py_dtype(bk_dtype dtype) { return Py_NewRef(dtype_objects[dtype]); }

int dtype_from_python(PyObject *o)
{
    int code = -2;
    if (Py_TYPE(o) == py_dtype_type)
        code = code_of(o);
    else if (o == (PyObject *)&PyFloat_Type)
        code = BK_FLOAT64;
    else if (o == (PyObject *)&PyLong_Type)
        code = BK_INT64;
    else if (o == (PyObject *)&PyBool_Type)
        code = BK_BOOL;
    else if (o == (PyObject *)&PyComplex_Type)
        code = COMPLEX128;
    if (code >= FIRST_NAMED_ONLY) {
        PyErr_Format(PyExc_NotImplementedError, "brisk has no tensors of dtype torch.%s", rows[code].name);
        return -1;
    }
    return code;
}

int layout_from_python(PyObject *o) { return Py_TYPE(o) == py_layout_type ? code_of(o) : -2; }

int memory_format_from_python(PyObject *o) { return Py_TYPE(o) == py_memory_format_type ? code_of(o) : -2; }

static int add_named(PyObject *module, PyTypeObject *type, int code, const char *name, PyObject **slot)
{
    if (!*slot) {
        py_dtype_object *o = PyObject_New(py_dtype_object, type);
        if (!o)
            return -1;
        o->code = code;
        *slot = (PyObject *)o;
    }
    return PyModule_AddObjectRef(module, name, *slot);
}

int types_init(PyObject *module)
{
    if (py_add_type(module, &dtype_spec, &py_dtype_type) || py_add_type(module, &layout_spec, &py_layout_type) ||
        py_add_type(module, &format_spec, &py_memory_format_type))
        return -1;
    for (int i = 0; i < ALL_DTYPES; i++) {
        if (add_named(module, py_dtype_type, i, rows[i].name, &dtype_objects[i]))
            return -1;
        if (rows[i].alias && PyModule_AddObjectRef(module, rows[i].alias, dtype_objects[i]))
            return -1;
    }
    for (int i = 0; i < LAYOUT_COUNT; i++)
        if (add_named(module, py_layout_type, i, layout_names[i], &layout_objects[i]))
            return -1;
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (add_named(module, py_memory_format_type, i, format_names[i], &format_objects[i]))
            return -1;
    return 0;
}
