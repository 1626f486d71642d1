/* grad_fn.c: x.grad_fn: the place on the tape that x's gradient goes to, as a Python object.
 *
 * It is there to be looked at: its name, and what it leads to. It holds the place, not the value that was computed
 * there, so printing a graph evaluates nothing. Two objects for one place are equal. */
#include "binds.h"

#include "core/lock.h"

typedef struct grad_fn {
    PyObject_HEAD node *place;
    const char *name; /* static */
} grad_fn;

static PyTypeObject *grad_fn_type;

static PyObject *grad_fn_new(node *place, const char *name)
{
    grad_fn *f = PyObject_New(grad_fn, grad_fn_type);
    if (!f)
        return NULL;
    lock_take();
    f->place = node_retain(place);
    place->tape_refs++;
    lock_give();
    f->name = name;
    return (PyObject *)f;
}

PyObject *py_grad_fn(const bk_tensor *t)
{
    const char *name = tensor_grad_name(t);
    if (!name)
        Py_RETURN_NONE;
    lock_take();
    node *place = tensor_edge(t);
    PyObject *f = place ? grad_fn_new(place, name) : NULL;
    lock_give();
    return f || PyErr_Occurred() ? f : py_raise();
}

static void grad_fn_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    node *place = ((grad_fn *)self)->place;
    lock_take();
    place->tape_refs--;
    node_release(place);
    lock_give();
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *grad_fn_name(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(((grad_fn *)self)->name);
}

static PyObject *grad_fn_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<%s object at %p>", ((grad_fn *)self)->name, (void *)self);
}

/* ((function, number of its output), ...): one for each input; (None, 0) where no gradient goes. */
static PyObject *grad_fn_next(PyObject *self, void *unused)
{
    (void)unused;
    const node *n = ((grad_fn *)self)->place;
    int count = 0;
    for (int k = 0; k < MAX_INPUTS; k++)
        if (n->edge[k] || k < n->inputs)
            count = k + 1;
    PyObject *all = PyTuple_New(n->op == OP_leaf ? 0 : count);
    for (int k = 0; all && k < PyTuple_GET_SIZE(all); k++) {
        node *to = n->edge[k];
        PyObject *f = to ? grad_fn_new(to, op_get(to->op)->grad_name) : Py_NewRef(Py_None);
        PyObject *pair = f ? Py_BuildValue("(Ni)", f, 0) : NULL;
        if (!pair) {
            Py_DECREF(all);
            return NULL;
        }
        PyTuple_SET_ITEM(all, k, pair);
    }
    return all;
}

static PyObject *grad_fn_compare(PyObject *a, PyObject *b, int how)
{
    if (Py_TYPE(b) != grad_fn_type || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    bool same = ((grad_fn *)a)->place == ((grad_fn *)b)->place;
    return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t grad_fn_hash(PyObject *self) { return _Py_HashPointer(((grad_fn *)self)->place); }

static PyMethodDef methods[] = {
    { "name", grad_fn_name, METH_NOARGS, "What PyTorch calls this function." },
    { NULL, NULL, 0, NULL },
};

/* The row of ops.def or nodes.def that made it. */
static PyObject *grad_fn_row(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(op_get(((grad_fn *)self)->place->op)->name);
}

static PyGetSetDef attributes[] = {
    { "_row", grad_fn_row, NULL, NULL, NULL },
    { "next_functions", grad_fn_next, NULL, "Where the gradients of the inputs go.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_dealloc, grad_fn_dealloc },
    { Py_tp_repr, grad_fn_repr },
    { Py_tp_richcompare, grad_fn_compare },
    { Py_tp_hash, grad_fn_hash },
    { Py_tp_methods, methods },
    { Py_tp_getset, attributes },
    { 0, NULL },
};
static PyType_Spec spec = { "brisk.autograd.graph.Node", sizeof(grad_fn), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots };

/* A type that is met, not named: brisk has no Node. */
int grad_fn_init(void)
{
    grad_fn_type = (PyTypeObject *)PyType_FromSpec(&spec);
    return grad_fn_type ? 0 : -1;
}
