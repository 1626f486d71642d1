/* grad_mode.c: what no_grad, enable_grad and their kin have in common: `with` sets a mode, and puts the old one back.
 *
 * Programs enter one in every training step, some around every parameter, so it is C. A class says by its attribute
 * `_mode` what it sets; one that was called with a function decorates it. The object remembers what was before each
 * time that it was entered, since it may be entered again while it is open. */
#include "pybrisk.h"

#include <string.h>
#include <structmember.h>

#include "core/tensor.h"

enum { FEW = 8 };

typedef struct mode_object {
    PyObject_HEAD char mode;
    uint8_t few[FEW];
    uint8_t *before; /* `few`, or memory of its own */
    int depth, capacity;
} mode_object;

static PyObject *mode_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "function", NULL };
    PyObject *function = Py_None;
    if ((kwargs || PyTuple_GET_SIZE(args)) && !PyArg_ParseTupleAndKeywords(args, kwargs, "|O", names, &function))
        return NULL;
    static PyObject *name;
    if (!name && !(name = PyUnicode_InternFromString("_mode")))
        return NULL;
    PyObject *sets = PyObject_GetAttr((PyObject *)type, name);
    const bool on = sets == Py_True;
    mode_object *o = sets ? (mode_object *)type->tp_alloc(type, 0) : NULL;
    Py_XDECREF(sets);
    if (!o)
        return NULL;
    o->mode = on;
    o->before = o->few;
    o->capacity = FEW;
    if (function == Py_None)
        return (PyObject *)o;
    PyObject *decorated = PyObject_CallOneArg((PyObject *)o, function);
    Py_DECREF(o);
    return decorated;
}

static void mode_dealloc(PyObject *self)
{
    mode_object *o = (mode_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (o->before != o->few)
        PyMem_Free(o->before);
    type->tp_free(self);
    Py_DECREF(type);
}

static bool has_room(mode_object *o)
{
    if (o->depth < o->capacity)
        return true;
    uint8_t *grown = PyMem_Malloc((size_t)o->capacity * 2);
    if (!grown)
        return false;
    memcpy(grown, o->before, (size_t)o->depth);
    if (o->before != o->few)
        PyMem_Free(o->before);
    o->before = grown;
    o->capacity *= 2;
    return true;
}

static PyObject *mode_enter(PyObject *self, PyObject *unused)
{
    mode_object *o = (mode_object *)self;
    (void)unused;
    if (!has_room(o))
        return PyErr_NoMemory();
    o->before[o->depth++] = grad_ask(o->mode);
    Py_RETURN_NONE;
}

static PyObject *mode_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    mode_object *o = (mode_object *)self;
    (void)args, (void)count;
    if (!o->depth)
        return PyErr_Format(PyExc_RuntimeError, "%s is left, but was not entered", Py_TYPE(self)->tp_name);
    grad_ask(o->before[--o->depth]);
    Py_RETURN_FALSE;
}

static PyMemberDef mode_members[] = {
    { "mode", T_BOOL, offsetof(mode_object, mode), 0, "whether ops are put on the tape inside" },
    { 0 },
};

static PyMethodDef mode_methods[] = {
    { "__enter__", mode_enter, METH_NOARGS, NULL },
    { "__exit__", (PyCFunction)(void (*)(void))mode_exit, METH_FASTCALL, NULL },
    { 0 },
};

static PyType_Slot mode_slots[] = {
    { Py_tp_doc, "Sets inside `with` whether ops are put on the tape." },
    { Py_tp_new, mode_new },
    { Py_tp_dealloc, mode_dealloc },
    { Py_tp_members, mode_members },
    { Py_tp_methods, mode_methods },
    { 0, NULL },
};

static PyType_Spec mode_spec = { "brisk._C._GradMode", sizeof(mode_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                                 mode_slots };

int grad_mode_init(PyObject *module)
{
    static PyTypeObject *type;
    return py_add_type(module, &mode_spec, &type);
}
