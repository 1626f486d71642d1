/* module_object.c: the base of nn.Module: calls, and attributes that live in a module's own tables.
 *
 * A module keeps its parameters, buffers and submodules in dictionaries of its __dict__, as PyTorch's does, because
 * programs read and replace them. What must be cheap is here: a call without hooks goes straight to forward, and
 * reading self.weight is three look-ups of interned names. Everything rarer is Python (nn/modules/module.py), which
 * hands over what this file needs of it by _module_setup.
 *
 * What a call looks up in the module's __dict__ is remembered until that dictionary changes (CPython 3.11 and before
 * number its states; elsewhere it is looked up again). A call goes by vectorcall, so that no tuple of arguments is
 * made.
 *
 * A Python class below a type with a __getattr__ reads attributes through a hook that first fails and then asks again.
 * __init_subclass__ puts our own function back into the slot where nobody has overridden either of the two, and lets
 * vectorcall through, which CPython 3.11 does not inherit to Python classes. */
#include "binds.h"
#include "module_object.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

enum { PARAMETERS, BUFFERS, MODULES, TABLES };
enum { HOOK_KINDS = 4 };
enum { SHORTCUTS = 8 };

/* A parameter, buffer or submodule that was asked for lately: good while the table that has it, the module's dictionary
 * and its class are in the states they were in. */
typedef struct shortcut {
    PyObject *name;          /* owned */
    PyObject *table, *value; /* borrowed */
    uint64_t state;          /* of the table */
    unsigned type;           /* the version of the class */
} shortcut;

/* What the module's dictionary holds in one of its states: borrowed, good while it is in that state. */
typedef struct known {
    uint64_t state;
    PyObject *table[TABLES], *hooks[HOOK_KINDS]; /* NULL: no dictionary */
    bool own_forward;
    shortcut shortcuts[SHORTCUTS]; /* by a hash of the name's address: in one of two neighbours */
} known;

/* With fields besides dict and weak the type counts as having a layout of its own, so that class M(Mixin, nn.Module)
 * has our layout too, whatever stands first. */
typedef struct module_object {
    PyObject_HEAD vectorcallfunc vectorcall; /* NULL until the first call */
    PyObject *dict, *weak;
    known known;
} module_object;

static PyTypeObject *module_type;

/* What Python hands over. */
static PyTypeObject *parameter_type;
static PyObject *assign_member, *call_with_hooks;
static PyObject *global_hooks; /* a tuple of dictionaries */

/* Interned names. */
static PyObject *name_forward, *name_is_buffer, *name_getattr, *name_getattribute;
static const char *const table_names[TABLES] = { "_parameters", "_buffers", "_modules" };
static PyObject *tables[TABLES];
static const char *const hook_names[HOOK_KINDS] = { "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
                                                    "_backward_pre_hooks" };
static PyObject *hooks[HOOK_KINDS];

/* --- attributes ----------------------------------------------------------------------------------------------------
 */

/* A number that no other state of any dictionary has; 0 where the interpreter keeps none. */
static uint64_t state_of(PyObject *dict)
{
#if PY_VERSION_HEX < 0x030C0000
    return ((PyDictObject *)dict)->ma_version_tag;
#else
    return (void)dict, 0;
#endif
}

static PyObject *dictionary(PyObject *dict, PyObject *name)
{
    PyObject *d = PyDict_GetItemWithError(dict, name);
    return d && PyDict_Check(d) ? d : NULL;
}

static void forget_shortcuts(known *k)
{
    for (int i = 0; i < SHORTCUTS; i++)
        Py_CLEAR(k->shortcuts[i].name);
}

/* The names are plain strings, whose comparison cannot fail. */
static void look_up(known *k, PyObject *dict)
{
    for (int kind = 0; kind < TABLES; kind++)
        k->table[kind] = dict ? dictionary(dict, tables[kind]) : NULL;
    for (int kind = 0; kind < HOOK_KINDS; kind++)
        k->hooks[kind] = dict ? dictionary(dict, hooks[kind]) : NULL;
    k->own_forward = dict && PyDict_GetItemWithError(dict, name_forward);
    forget_shortcuts(k);
    k->state = dict ? state_of(dict) : 0;
}

static inline const known *know(PyObject *self)
{
    module_object *m = (module_object *)self;
    if (__builtin_expect(!m->dict || !m->known.state || m->known.state != state_of(m->dict), 0))
        look_up(&m->known, m->dict);
    return &m->known;
}

/* A parameter, buffer or submodule and the table it is in; borrowed, NULL when there is none of the name (or with an
 * exception set). */
static PyObject *find_member(PyObject *self, PyObject *name, PyObject **table)
{
    const known *k = know(self);
    for (int kind = 0; kind < TABLES; kind++) {
        *table = k->table[kind];
        PyObject *found = *table ? PyDict_GetItemWithError(*table, name) : NULL;
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

static int shortcut_at(PyObject *name)
{
    uintptr_t at = (uintptr_t)name / sizeof(void *) / 2;
    return (int)((at ^ at / SHORTCUTS) % SHORTCUTS);
}

/* Where a name is to be: in its place, whose owner moves next door, so that two names that share one do not drive each
 * other out with every step of a loop. */
static shortcut *shortcut_place(known *k, PyObject *name)
{
    const int at = shortcut_at(name);
    shortcut *s = &k->shortcuts[at], *next = &k->shortcuts[at ^ 1];
    if (next->name == name)
        return next;
    if (s->name && s->name != name) {
        PyObject *old = next->name;
        *next = *s;
        s->name = NULL;
        Py_XDECREF(old);
    }
    return s;
}

/* 0: the class has changed since it was last looked at. */
static unsigned type_version(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

static inline PyObject *by_shortcut(PyObject *self, PyObject *name)
{
    module_object *m = (module_object *)self;
    const int at = shortcut_at(name);
    const shortcut *s = &m->known.shortcuts[m->known.shortcuts[at].name == name ? at : at ^ 1];
    bool good = s->name == name && m->dict && m->known.state == state_of(m->dict) && s->state == state_of(s->table) &&
                s->type == type_version(Py_TYPE(self));
    return good ? s->value : NULL;
}

/* Neither the class nor the module's own dictionary has the name. */
static PyObject *member_by_name(PyObject *self, PyObject *name)
{
    module_object *m = (module_object *)self;
    PyObject *table = NULL, *found = find_member(self, name, &table);
    unsigned type = type_version(Py_TYPE(self));
    if (found && m->known.state && type && PyUnicode_CHECK_INTERNED(name)) {
        shortcut *s = shortcut_place(&m->known, name);
        PyObject *old = s->name;
        *s = (shortcut){ Py_NewRef(name), table, found, state_of(table), type };
        Py_XDECREF(old);
    }
    return found;
}

static PyObject *module_getattro(PyObject *self, PyObject *name)
{
    PyObject *known = by_shortcut(self, name);
    if (known)
        return Py_NewRef(known);
    PyObject *of_type = _PyType_Lookup(Py_TYPE(self), name);
    descrgetfunc get = of_type ? Py_TYPE(of_type)->tp_descr_get : NULL;
    if (get && Py_TYPE(of_type)->tp_descr_set) {
        Py_INCREF(of_type);
        PyObject *value = get(of_type, self, (PyObject *)Py_TYPE(self));
        Py_DECREF(of_type);
        return value;
    }
    PyObject *dict = ((module_object *)self)->dict, *own = dict ? PyDict_GetItemWithError(dict, name) : NULL;
    if (own)
        return Py_NewRef(own);
    if (of_type) {
        Py_INCREF(of_type);
        PyObject *value = get ? get(of_type, self, (PyObject *)Py_TYPE(self)) : Py_NewRef(of_type);
        Py_DECREF(of_type);
        return value;
    }
    PyObject *found = PyErr_Occurred() ? NULL : member_by_name(self, name);
    return found ? Py_NewRef(found) : no_attribute(self, name);
}

/* What a subclass with a __getattr__ of its own asks by super().__getattr__(name). */
static PyObject *module_getattr(PyObject *self, PyObject *name)
{
    PyObject *table, *found = find_member(self, name, &table);
    return found ? Py_NewRef(found) : no_attribute(self, name);
}

static bool is_buffer(PyObject *value)
{
    if (!py_is_tensor(value) || !((py_tensor *)value)->attrs)
        return false;
    return PyDict_GetItemWithError(((py_tensor *)value)->attrs, name_is_buffer) != NULL;
}

/* Whether assigning value to the name is a matter of the module's tables: 1, 0, or -1 with an exception set. */
static int concerns_tables(PyObject *self, PyObject *name, PyObject *value)
{
    if (value && ((parameter_type && PyObject_TypeCheck(value, parameter_type)) ||
                  PyObject_TypeCheck(value, module_type) || is_buffer(value)))
        return 1;
    for (int kind = 0; kind < TABLES; kind++) {
        PyObject *t = know(self)->table[kind];
        int there = t ? PyDict_Contains(t, name) : 0;
        if (there)
            return there;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int module_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    int concerned = concerns_tables(self, name, value);
    if (concerned < 0)
        return -1;
    if (!concerned || !assign_member)
        return PyObject_GenericSetAttr(self, name, value);
    PyObject *arguments[] = { self, name, value };
    PyObject *done = PyObject_Vectorcall(assign_member, arguments, value ? 3 : 2, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs);

/* --- calls ----------------------------------------------------------------------------------------------------------
 */

static bool has_hooks(const known *k)
{
    for (int kind = 0; kind < HOOK_KINDS; kind++)
        if (k->hooks[kind] && PyDict_GET_SIZE(k->hooks[kind]))
            return true;
    for (Py_ssize_t i = 0; global_hooks && i < PyTuple_GET_SIZE(global_hooks); i++)
        if (PyDict_GET_SIZE(PyTuple_GET_ITEM(global_hooks, i)))
            return true;
    return false;
}

/* function(self, ...): self stands in the place before the arguments, which the caller may have kept free for that. */
static PyObject *call_as_method(PyObject *function, PyObject *self, PyObject *const *args, size_t nargsf,
                                PyObject *names)
{
    enum { FEW = 8 };
    size_t n = (size_t)PyVectorcall_NARGS(nargsf), total = n + (names ? (size_t)PyTuple_GET_SIZE(names) : 0);
    if (nargsf & PY_VECTORCALL_ARGUMENTS_OFFSET) {
        PyObject **at = (PyObject **)(uintptr_t)(args - 1), *was = *at;
        *at = self;
        PyObject *result = PyObject_Vectorcall(function, at, n + 1, names);
        *at = was;
        return result;
    }
    PyObject *stack[FEW + 1], **all = total > FEW ? PyMem_Malloc(sizeof *all * (total + 1)) : stack;
    if (!all)
        return PyErr_NoMemory();
    all[0] = self;
    for (size_t i = 0; i < total; i++)
        all[i + 1] = args[i];
    PyObject *result = PyObject_Vectorcall(function, all, n + 1, names);
    if (all != stack)
        PyMem_Free(all);
    return result;
}

static PyObject *call_forward(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const known *k = know(self);
    if (has_hooks(k))
        return call_as_method(call_with_hooks, self, args, nargsf, names);
    PyObject *forward = _PyType_Lookup(Py_TYPE(self), name_forward), *result;
    if (!k->own_forward && forward && PyType_HasFeature(Py_TYPE(forward), Py_TPFLAGS_METHOD_DESCRIPTOR)) {
        Py_INCREF(forward);
        result = call_as_method(forward, self, args, nargsf, names);
        Py_DECREF(forward);
        return result;
    }
    PyObject *bound = PyObject_GetAttr(self, name_forward);
    result = bound ? PyObject_Vectorcall(bound, args, nargsf, names) : NULL;
    Py_XDECREF(bound);
    return result;
}

/* A class whose __call__ was replaced since has another slot: without a vectorcall the call goes there. */
static PyObject *module_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    if (__builtin_expect(Py_TYPE(self)->tp_call == module_call, 1))
        return call_forward(self, args, nargsf, names);
    ((module_object *)self)->vectorcall = NULL;
    return PyObject_Vectorcall(self, args, nargsf, names);
}

static PyObject *call_with_keywords(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args), more = PyDict_GET_SIZE(kwargs), at = 0, i = 0;
    PyObject **all = PyMem_Malloc(sizeof *all * (size_t)(n + more + 1)), *names = all ? PyTuple_New(more) : NULL;
    PyObject *key, *value, *result = NULL;
    if (names) {
        memcpy(all, ((PyTupleObject *)args)->ob_item, sizeof *all * (size_t)n);
        for (; PyDict_Next(kwargs, &at, &key, &value); i++) {
            PyTuple_SET_ITEM(names, i, Py_NewRef(key));
            all[n + i] = value; /* kwargs is the call's own: it holds them meanwhile */
        }
        result = call_forward(self, all, (size_t)n, names);
    } else {
        PyErr_NoMemory();
    }
    Py_XDECREF(names);
    PyMem_Free(all);
    return result;
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (Py_TYPE(self)->tp_call == module_call)
        ((module_object *)self)->vectorcall = module_vectorcall;
    if (kwargs && PyDict_GET_SIZE(kwargs))
        return call_with_keywords(self, args, kwargs);
    return call_forward(self, ((PyTupleObject *)args)->ob_item, (size_t)PyTuple_GET_SIZE(args), NULL);
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
    if (type->tp_call == module_call && type->tp_vectorcall_offset == module_type->tp_vectorcall_offset)
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
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
    forget_shortcuts(&((module_object *)self)->known);
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
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(module_object, vectorcall), READONLY, NULL },
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
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
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
