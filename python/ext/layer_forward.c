/* layer_forward.c: the forward of a layer that is a function of its input and of the layer's own attributes.
 *
 *     forward = _C.layer_forward(_nn.linear, "weight", "bias")
 *
 * is forward(self, input) returning linear(input, self.weight, self.bias), without a Python frame for it: for a small
 * layer the frame costs as much as recording the work. */
#include "binds.h"
#include "module_object.h"

#include <stddef.h>
#include <structmember.h>

enum { MOST_NAMES = 6 };

typedef struct layer_forward {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *names[MOST_NAMES]; /* interned */
    int count;
} layer_forward;

static PyTypeObject *forward_type;
static PyObject *name_input;

static bool is_input_name(PyObject *names)
{
    return PyTuple_GET_SIZE(names) == 1 && PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), name_input) == 0;
}

/* (self, input), the second by position or by name. */
static int check_arguments(Py_ssize_t n, PyObject *names)
{
    if (__builtin_expect(n == 2 && !names, 1) || (n == 1 && names && is_input_name(names)))
        return 0;
    if (names && PyTuple_GET_SIZE(names) && !is_input_name(names))
        PyErr_Format(PyExc_TypeError, "forward() got an unexpected keyword argument '%U'", PyTuple_GET_ITEM(names, 0));
    else if (n < 2)
        PyErr_SetString(PyExc_TypeError, "forward() missing 1 required positional argument: 'input'");
    else
        PyErr_Format(PyExc_TypeError, "forward() takes 2 positional arguments but %zd were given", n);
    return -1;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const layer_forward *f = (layer_forward *)self;
    if (check_arguments(PyVectorcall_NARGS(nargsf), names) < 0)
        return NULL;
    PyObject *all[MOST_NAMES + 2] = { NULL, args[1] }, *result = NULL;
    int got = 0;
    while (got < f->count && (all[got + 2] = PyObject_GetAttr(args[0], f->names[got])) != NULL)
        got++;
    if (got == f->count)
        result = PyObject_Vectorcall(f->function, all + 1, (size_t)(got + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    while (got-- > 0)
        Py_DECREF(all[got + 2]);
    return result;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args) - 1;
    if (kwargs || count < 0 || count > MOST_NAMES)
        return PyErr_Format(PyExc_TypeError, "layer_forward(function, *names): at most %d names", MOST_NAMES);
    layer_forward *f = (layer_forward *)type->tp_alloc(type, 0);
    if (!f)
        return NULL;
    f->vectorcall = call;
    f->function = Py_NewRef(PyTuple_GET_ITEM(args, 0));
    for (; f->count < count; f->count++) {
        PyObject *name = PyTuple_GET_ITEM(args, f->count + 1);
        if (!PyUnicode_CheckExact(name)) {
            Py_DECREF(f);
            return PyErr_Format(PyExc_TypeError, "layer_forward: names of attributes are strings");
        }
        f->names[f->count] = Py_NewRef(name);
        PyUnicode_InternInPlace(&f->names[f->count]);
    }
    return (PyObject *)f;
}

static void dealloc(PyObject *self)
{
    layer_forward *f = (layer_forward *)self;
    PyTypeObject *type = Py_TYPE(self);
    while (f->count-- > 0)
        Py_DECREF(f->names[f->count]);
    Py_DECREF(f->function);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *bind(PyObject *f, PyObject *object, PyObject *type)
{
    (void)type;
    return object ? PyMethod_New(f, object) : Py_NewRef(f);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    return (void)self, (void)unused, PyUnicode_FromString("forward");
}

static PyObject *get_signature(PyObject *self, void *unused)
{
    return (void)self, (void)unused, PyUnicode_FromString("($self, input)");
}

static PyGetSetDef attributes[] = {
    { "__name__", get_name, NULL, NULL, NULL },
    { "__qualname__", get_name, NULL, NULL, NULL },
    { "__text_signature__", get_signature, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(layer_forward, vectorcall), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_new, make },
    { Py_tp_dealloc, dealloc },
    { Py_tp_call, PyVectorcall_Call },
    { Py_tp_descr_get, bind },
    { Py_tp_getset, attributes },
    { Py_tp_members, members },
    { 0, NULL },
};

static PyType_Spec spec = { "brisk._C.layer_forward", sizeof(layer_forward), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots };

int layer_forward_init(PyObject *module)
{
    name_input = PyUnicode_InternFromString("input");
    return name_input ? py_add_type(module, &spec, &forward_type) : -1;
}
