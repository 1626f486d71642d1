/* size.c: brisk.Size, the tuple of ints that shapes are. Slices, sums and multiples of a Size are Sizes. */
#include "pybrisk.h"
#include "compat.h"

PyTypeObject *py_size_type;

PyObject *py_size(int n, const int64_t *sizes)
{
    PyObject *size = alloc_tuple(py_size_type, n);
    if (!size)
        return NULL;
    for (int i = 0; i < n; i++) {
        PyObject *v = PyLong_FromLongLong(sizes[i]);
        if (!v) {
            Py_DECREF(size);
            return NULL;
        }
        PyTuple_SET_ITEM(size, i, v);
    }
    return size;
}

/* A tuple (stolen) as a Size; its items are taken over as they are. */
static PyObject *size_from_tuple(PyObject *tuple)
{
    if (!tuple)
        return NULL;
    Py_ssize_t n = PyTuple_GET_SIZE(tuple);
    PyObject *size = alloc_tuple(py_size_type, n);
    for (Py_ssize_t i = 0; size && i < n; i++)
        PyTuple_SET_ITEM(size, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
    Py_DECREF(tuple);
    return size;
}

/* The item itself when it is an int, else what its __index__ gives (NumPy's ints, integer tensors). */
static PyObject *size_item(PyObject *item, Py_ssize_t i)
{
    if (PyLong_CheckExact(item))
        return Py_NewRef(item);
    PyObject *index = PyIndex_Check(item) ? PyNumber_Index(item) : NULL;
    if (!index)
        return PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                            py_type_name(item));
    if (!PyBool_Check(index))
        return index;
    Py_SETREF(index, PyLong_FromLong(index == Py_True));
    return index;
}

static PyObject *size_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    PyObject *items = NULL;
    if (kwargs && PyDict_GET_SIZE(kwargs))
        return PyErr_Format(PyExc_TypeError, "torch.Size() takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "|O:Size", &items))
        return NULL;
    PyObject *tuple = items ? PySequence_Tuple(items) : PyTuple_New(0);
    PyObject *size = size_from_tuple(tuple);
    for (Py_ssize_t i = 0; size && i < PyTuple_GET_SIZE(size); i++) {
        PyObject *v = size_item(PyTuple_GET_ITEM(size, i), i);
        if (!v) {
            Py_DECREF(size);
            return NULL;
        }
        PyObject *old = PyTuple_GET_ITEM(size, i);
        PyTuple_SET_ITEM(size, i, v);
        Py_DECREF(old);
    }
    return size;
}

static PyObject *size_repr(PyObject *self)
{
    PyObject *list = PySequence_List(self);
    PyObject *text = list ? PyUnicode_FromFormat("torch.Size(%R)", list) : NULL;
    Py_XDECREF(list);
    return text;
}

static PyObject *size_concat(PyObject *a, PyObject *b)
{
    if (!PyTuple_Check(b))
        return PyErr_Format(PyExc_TypeError, "can only concatenate tuple (not %s) to torch.Size", py_type_name(b));
    return size_from_tuple(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}

/* As a number slot it also sees (3,) + size, where the Size stands on the right. */
static PyObject *size_add(PyObject *a, PyObject *b)
{
    if (!PyTuple_Check(a) || !PyTuple_Check(b))
        Py_RETURN_NOTIMPLEMENTED;
    return size_concat(a, b);
}

static PyObject *size_repeat(PyObject *self, Py_ssize_t n)
{
    return size_from_tuple(PyTuple_Type.tp_as_sequence->sq_repeat(self, n));
}

static PyObject *size_subscript(PyObject *self, PyObject *key)
{
    PyObject *item = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
    return item && PySlice_Check(key) ? size_from_tuple(item) : item;
}

static PyObject *size_numel(PyObject *self, PyObject *none)
{
    (void)none;
    int64_t n = 1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); i++) {
        int64_t v = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
        if (v == -1 && PyErr_Occurred())
            return NULL;
        if (__builtin_mul_overflow(n, v, &n))
            return PyErr_Format(PyExc_OverflowError, "numel: integer multiplication overflow");
    }
    return PyLong_FromLongLong(n);
}

static PyMethodDef size_methods[] = {
    { "numel", size_numel, METH_NOARGS, "The number of elements of a tensor of this size." },
    { 0 },
};

static PyType_Slot size_slots[] = {
    { Py_tp_base, NULL }, /* tuple: filled in below, its address is not a constant everywhere */
    { Py_tp_doc, "The sizes of a tensor: a tuple of ints." },
    { Py_tp_new, size_new },
    { Py_tp_repr, size_repr },
    { Py_tp_methods, size_methods },
    { Py_nb_add, size_add },
    { Py_sq_concat, size_concat },
    { Py_sq_repeat, size_repeat },
    { Py_mp_subscript, size_subscript },
    { 0, NULL },
};

static PyType_Spec size_spec = { "brisk.Size", 0, 0, Py_TPFLAGS_DEFAULT, size_slots };

int size_init(PyObject *module)
{
    size_slots[0].pfunc = &PyTuple_Type;
    return py_add_type(module, &size_spec, &py_size_type);
}
