/* module_object.c: the base of nn.Module: calls, and attributes that live in a module's own tables.
 *
 * A module keeps its parameters, buffers and submodules in dictionaries of its __dict__, as PyTorch's does, because
 * programs read and replace them. What must be cheap is here: a call without hooks goes straight to forward, and
 * reading self.weight is three look-ups of interned names. Everything rarer is Python (nn/modules/module.py), which
 * hands over what this file needs of it by _module_setup.
 *
 * A Python class below a type with a __getattr__ reads attributes through a hook that first fails and then asks again.
 * __init_subclass__ puts our own function back into the slot where nobody has overridden either of the two. */
#include "binds.h"
#include "module_object.h"

#include <stddef.h>
#include <structmember.h>

/* `solid` is never read: with a field besides dict and weak the type counts as having a layout of its own, so that
 * class M(Mixin, nn.Module) has our layout too, whatever stands first. */
typedef struct module_object {
    PyObject_HEAD void *solid;
    PyObject *dict, *weak;
} module_object;

static PyTypeObject *module_type;

/* What Python hands over. */
static PyTypeObject *parameter_type;
static PyObject *assign_member, *call_with_hooks;
static PyObject *global_hooks; /* a tuple of dictionaries */

/* Interned names. */
static PyObject *name_forward, *name_is_buffer, *name_getattr, *name_getattribute;
enum { PARAMETERS, BUFFERS, MODULES, TABLES };
static const char *const table_names[TABLES] = { "_parameters", "_buffers", "_modules" };
static PyObject *tables[TABLES];
enum { HOOK_KINDS = 4 };
static const char *const hook_names[HOOK_KINDS] = { "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                                                    "_backward_pre_hooks" };
static PyObject *hooks[HOOK_KINDS];

/* --- attributes ----------------------------------------------------------------------------------------------------
 */

/* The dictionary that holds the module's members of one kind; borrowed, NULL before __init__. */
static PyObject *table(PyObject *dict, int kind)
{
    PyObject *t = dict ? PyDict_GetItemWithError(dict, tables[kind]) : NULL;
    return t && PyDict_Check(t) ? t : NULL;
}

/* A parameter, buffer or submodule; borrowed, NULL when there is none of the name (or with an exception set). */
static PyObject *member(PyObject *dict, PyObject *name)
{
    for (int kind = 0; kind < TABLES; kind++) {
        PyObject *t = table(dict, kind);
        PyObject *found = t ? PyDict_GetItemWithError(t, name) : NULL;
        if (found || PyErr_Occurred())
            return found;
    }
    return NULL;
}

static PyObject *no_attribute(PyObject *self, PyObject *name)
{
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(self)->tp_name, name);
    return NULL;
}

static PyObject *module_getattro(PyObject *self, PyObject *name)
{
    PyObject *dict = ((module_object *)self)->dict;
    PyObject *of_type = _PyType_Lookup(Py_TYPE(self), name);
    descrgetfunc get = of_type ? Py_TYPE(of_type)->tp_descr_get : NULL;
    if (get && Py_TYPE(of_type)->tp_descr_set) {
        Py_INCREF(of_type);
        PyObject *value = get(of_type, self, (PyObject *)Py_TYPE(self));
        Py_DECREF(of_type);
        return value;
    }
    PyObject *own = dict ? PyDict_GetItemWithError(dict, name) : NULL;
    if (own)
        return Py_NewRef(own);
    if (of_type) {
        Py_INCREF(of_type);
        PyObject *value = get ? get(of_type, self, (PyObject *)Py_TYPE(self)) : Py_NewRef(of_type);
        Py_DECREF(of_type);
        return value;
    }
    PyObject *found = PyErr_Occurred() ? NULL : member(dict, name);
    return found ? Py_NewRef(found) : no_attribute(self, name);
}

/* What a subclass with a __getattr__ of its own asks by super().__getattr__(name). */
static PyObject *module_getattr(PyObject *self, PyObject *name)
{
    PyObject *found = member(((module_object *)self)->dict, name);
    return found ? Py_NewRef(found) : no_attribute(self, name);
}

static bool is_buffer(PyObject *value)
{
    if (!py_is_tensor(value) || !((py_tensor *)value)->attrs)
        return false;
    return PyDict_GetItemWithError(((py_tensor *)value)->attrs, name_is_buffer) != NULL;
}

/* Whether assigning value to the name is a matter of the module's tables: 1, 0, or -1 with an exception set. */
static int concerns_tables(PyObject *dict, PyObject *name, PyObject *value)
{
    if (value && ((parameter_type && PyObject_TypeCheck(value, parameter_type)) ||
                  PyObject_TypeCheck(value, module_type) || is_buffer(value)))
        return 1;
    for (int kind = 0; kind < TABLES; kind++) {
        PyObject *t = table(dict, kind);
        int known = t ? PyDict_Contains(t, name) : 0;
        if (known)
            return known;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int module_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    int concerned = concerns_tables(((module_object *)self)->dict, name, value);
    if (concerned < 0)
        return -1;
    if (!concerned || !assign_member)
        return PyObject_GenericSetAttr(self, name, value);
    PyObject *arguments[] = { self, name, value };
    PyObject *done = PyObject_Vectorcall(assign_member, arguments, value ? 3 : 2, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* --- calls ----------------------------------------------------------------------------------------------------------
 */

static bool has_hooks(PyObject *dict)
{
    for (int kind = 0; kind < HOOK_KINDS; kind++) {
        PyObject *h = dict ? PyDict_GetItemWithError(dict, hooks[kind]) : NULL;
        if (h && PyDict_Check(h) && PyDict_GET_SIZE(h))
            return true;
    }
    for (Py_ssize_t i = 0; global_hooks && i < PyTuple_GET_SIZE(global_hooks); i++)
        if (PyDict_GET_SIZE(PyTuple_GET_ITEM(global_hooks, i)))
            return true;
    return false;
}

enum { FEW_ARGUMENTS = 8 };

/* function(self, *args, **kwargs) */
static PyObject *call_as_method(PyObject *function, PyObject *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    PyObject *stack[FEW_ARGUMENTS + 1], **all = n > FEW_ARGUMENTS ? PyMem_Malloc(sizeof *all * (size_t)(n + 1)) : stack;
    if (!all)
        return PyErr_NoMemory();
    all[0] = self;
    for (Py_ssize_t i = 0; i < n; i++)
        all[i + 1] = PyTuple_GET_ITEM(args, i);
    PyObject *result = PyObject_VectorcallDict(function, all, (size_t)(n + 1), kwargs);
    if (all != stack)
        PyMem_Free(all);
    return result;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *dict = ((module_object *)self)->dict;
    if (has_hooks(dict))
        return call_as_method(call_with_hooks, self, args, kwargs);
    PyObject *forward = _PyType_Lookup(Py_TYPE(self), name_forward);
    PyObject *own = dict ? PyDict_GetItemWithError(dict, name_forward) : NULL;
    if (!own && forward && PyType_HasFeature(Py_TYPE(forward), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
        Py_INCREF(forward);
        PyObject *result = call_as_method(forward, self, args, kwargs);
        Py_DECREF(forward);
        return result;
    }
    PyObject *bound = PyObject_GetAttr(self, name_forward);
    PyObject *result = bound ? PyObject_Call(bound, args, kwargs) : NULL;
    Py_XDECREF(bound);
    return result;
}

/* --- the type -------------------------------------------------------------------------------------------------------
 */

static PyObject *init_subclass(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) || (kwargs && PyDict_GET_SIZE(kwargs)))
        return PyErr_Format(PyExc_TypeError, "%s.__init_subclass__() takes no arguments",
                            ((PyTypeObject *)cls)->tp_name);
    PyTypeObject *type = (PyTypeObject *)cls;
    PyObject *getattr = _PyType_Lookup(type, name_getattr), *getattribute = _PyType_Lookup(type, name_getattribute);
    if (getattr == _PyType_Lookup(module_type, name_getattr) &&
        getattribute == _PyType_Lookup(module_type, name_getattribute))
        type->tp_getattro = module_getattro;
    Py_RETURN_NONE;
}

static int module_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((module_object *)self)->dict);
    return 0;
}

static int module_clear(PyObject *self)
{
    Py_CLEAR(((module_object *)self)->dict);
    return 0;
}

static void module_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((module_object *)self)->weak)
        PyObject_ClearWeakRefs(self);
    Py_CLEAR(((module_object *)self)->dict);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *setup(PyObject *cls, PyObject *args)
{
    (void)cls;
    PyObject *parameter, *assign, *call, *globals;
    if (!PyArg_ParseTuple(args, "O!OOO!", &PyType_Type, &parameter, &assign, &call, &PyTuple_Type, &globals))
        return NULL;
    Py_XSETREF(parameter_type, (PyTypeObject *)Py_NewRef(parameter));
    Py_XSETREF(assign_member, Py_NewRef(assign));
    Py_XSETREF(call_with_hooks, Py_NewRef(call));
    Py_XSETREF(global_hooks, Py_NewRef(globals));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "__getattr__", module_getattr, METH_O, NULL },
    { "__init_subclass__", (PyCFunction)(void (*)(void))init_subclass, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
      NULL },
    { "_module_setup", setup, METH_VARARGS | METH_STATIC, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(module_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(module_object, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_dealloc, module_dealloc },   { Py_tp_traverse, module_traverse },
    { Py_tp_clear, module_clear },       { Py_tp_getattro, module_getattro },
    { Py_tp_setattro, module_setattro }, { Py_tp_call, module_call },
    { Py_tp_methods, methods },          { Py_tp_members, members },
    { Py_tp_getset, attributes },        { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brisk._C.ModuleBase",
    .basicsize = sizeof(module_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

static int intern(PyObject **names, const char *const *texts, int n)
{
    for (int i = 0; i < n; i++)
        if (!(names[i] = PyUnicode_InternFromString(texts[i])))
            return -1;
    return 0;
}

int module_object_init(PyObject *module)
{
    if (intern(tables, table_names, TABLES) < 0 || intern(hooks, hook_names, HOOK_KINDS) < 0 ||
        intern(&name_forward, (const char *const[]){ "forward" }, 1) < 0 ||
        intern(&name_is_buffer, (const char *const[]){ "_is_buffer" }, 1) < 0 ||
        intern(&name_getattr, (const char *const[]){ "__getattr__" }, 1) < 0 ||
        intern(&name_getattribute, (const char *const[]){ "__getattribute__" }, 1) < 0)
        return -1;
    return py_add_type(module, &spec, &module_type);
}
