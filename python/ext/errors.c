/* errors.c: the library's errors as Python exceptions, and how error texts name types. */
#include "pybrisk.h"

#include <string.h>

static PyObject *linalg_error; /* torch.linalg.LinAlgError */

int errors_init(PyObject *module)
{
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
    case BK_MEMORY_ERROR: return PyExc_MemoryError;
    case BK_NOT_IMPLEMENTED: return PyExc_NotImplementedError;
    case BK_LINALG_ERROR: return linalg_error;
    default: return PyExc_RuntimeError;
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
        PyErr_SetString(exception_of(kind), message ? message : "brisk: an error without a message");
    }
    bk_error_clear();
    return NULL;
}

/* Ours are shown by PyTorch's names, as in their reprs: a reader compares messages, not module paths. */
const char *py_type_name(PyObject *o)
{
    static const char ours[] = "brisk.";
    const char *name = Py_TYPE(o)->tp_name;
    if (py_tensor_type && py_is_tensor(o)) {
        const char *dot = strrchr(name, '.');
        return dot ? dot + 1 : name;
    }
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
