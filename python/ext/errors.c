/* errors.c: the library's errors as Python exceptions, and how error texts name types. */
#include "pybrisk.h"

#include "lines.h"

#include <string.h>

static PyObject *linalg_error; /* torch.linalg.LinAlgError */
static PyObject *memory_error; /* PyTorch's is a RuntimeError, Python's a MemoryError: both find it */

static int make_memory_error(PyObject *module)
{
    PyObject *bases = PyTuple_Pack(2, PyExc_MemoryError, PyExc_RuntimeError);
    memory_error = bases ? PyErr_NewExceptionWithDoc("brisk._C._MemoryError",
                                                     "There is no memory for a result, or to work in.", bases, NULL)
                         : NULL;
    Py_XDECREF(bases);
    return memory_error ? PyModule_AddObjectRef(module, "_MemoryError", memory_error) : -1;
}

int errors_init(PyObject *module)
{
    if (make_memory_error(module) < 0)
        return -1;
    linalg_error = PyErr_NewExceptionWithDoc("brisk._C._LinAlgError", "A matrix that has no answer: singular, say.",
                                             PyExc_RuntimeError, NULL);
    return linalg_error ? PyModule_AddObjectRef(module, "_LinAlgError", linalg_error) : -1;
}

static PyObject *exception_of(bk_error_kind kind)
{
    switch (kind) {
    case BK_TYPE_ERROR: return PyExc_TypeError;
    case BK_VALUE_ERROR: return PyExc_ValueError;
    case BK_INDEX_ERROR: return PyExc_IndexError;
    case BK_MEMORY_ERROR: return memory_error;
    case BK_NOT_IMPLEMENTED: return PyExc_NotImplementedError;
    case BK_LINALG_ERROR: return linalg_error;
    default: return PyExc_RuntimeError;
    }
}

/* The message, and the line of the record that the error is about. */
static void set_error(PyObject *type, const char *message)
{
    source_line line = error_line();
    PyObject *where = line.code ? lines_find(&line) : NULL;
    if (where) {
        PyObject *file = PyTuple_GET_ITEM(where, 0), *number = PyTuple_GET_ITEM(where, 1);
        PyErr_Format(type, "%s, recorded in %U, line %S, in %U", message, file, number, PyTuple_GET_ITEM(where, 2));
        Py_DECREF(where);
    } else {
        PyErr_SetString(type, message);
    }
}

/* A callback that failed has left its own Python exception, which is the one to see. */
PyObject *py_raise(void)
{
    bk_error_kind kind = bk_error_code();
    if (kind == BK_INTERRUPTED) {
        if (PyErr_CheckSignals() == 0) /* the handler has been changed meanwhile, and did not raise */
            PyErr_SetNone(PyExc_KeyboardInterrupt);
    } else if (!(kind == BK_CALLBACK_ERROR && PyErr_Occurred())) {
        const char *message = bk_error();
        set_error(exception_of(kind), message ? message : "brisk: an error without a message");
    }
    bk_error_clear();
    return NULL;
}

/* Ours are shown by PyTorch's names, as in their reprs: a reader compares messages, not module paths. */
const char *py_type_name(PyObject *o)
{
    static const char ours[] = "brisk.";
    const char *name = Py_TYPE(o)->tp_name;
    static const struct {
        const char *brisk, *torch;
    } shown[] = {
        { "brisk.dtype", "torch.dtype" },   { "brisk.Size", "torch.Size" },
        { "brisk.device", "torch.device" }, { "brisk.layout", "torch.layout" },
        { "brisk.finfo", "torch.finfo" },   { "brisk.memory_format", "torch.memory_format" },
        { "brisk.iinfo", "torch.iinfo" },   { "brisk.Generator", "torch.Generator" },
    };
    if (strncmp(name, ours, sizeof ours - 1) == 0)
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
            if (strcmp(name, shown[i].brisk) == 0)
                return shown[i].torch;
    return name;
}

int py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
    if (!*type)
        *type = (PyTypeObject *)PyType_FromSpec(spec);
    if (!*type)
        return -1;
    const char *dot = strrchr(spec->name, '.');
    return PyModule_AddObjectRef(module, dot ? dot + 1 : spec->name, (PyObject *)*type);
}
