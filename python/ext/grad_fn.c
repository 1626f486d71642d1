/* grad_fn.c: x.grad_fn: the place on the tape that x's gradient goes to, as a Python object.
 *
 * It holds the place, not the value that was computed there, so printing a graph evaluates nothing. While one lives,
 * asking for the same place gives the same object. Its type is named as PyTorch names the function, for programs that
 * look at type(fn).__name__; that of a custom function passes attributes on to the ctx its forward and backward know.
 */
#include "binds.h"
#include <structmember.h>

#include "autograd/backward.h"
#include "autograd/function.h"
#include "autograd/hooks.h"
#include "autograd/parts.h"
#include "autograd/shown.h"
#include "autograd/view_steps.h"
#include "core/handle.h"
#include "core/lock.h"
#include "core/memory.h"
#include "function_context.h"
#include "gil.h"
#include "ops/elementwise.h"

typedef struct grad_fn {
    PyObject_HEAD node *place;
    int step;         /* of a place that PyTorch has several functions for: composed.h, view_steps.h; else 0 */
    const char *name; /* static, or the type's */
    PyObject *key;    /* in `living` */
    PyObject *metadata;
    PyObject *weak;
    node **results; /* of a function of several that are places: those that were looked at; or NULL */
    int result_count;
} grad_fn;

static PyTypeObject *node_type;
static PyObject *types;  /* name -> the subtype of Node that is called so */
static PyObject *living; /* what tells a function from others -> the address of its object, which takes itself out */

/* --- making one ----------------------------------------------------------------------------------------------------
 */

static PyObject *get_variable(PyObject *self, void *unused)
{
    (void)unused;
    lock_take();
    bk_tensor *t = track_tensor(((grad_fn *)self)->place->extra);
    lock_give();
    return py_wrap(t);
}

static PyGetSetDef leaf_attributes[] = {
    { "variable", get_variable, NULL, "The leaf that accumulates.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static const char BUILT_IN[] = "builtins"; /* to PyTorch's users ops are: messages have the bare name */
static const char CUSTOM[] = "torch.autograd.function";

static int type_renamed(PyObject *type, const char *name, const char *in)
{
    PyObject *own = PyUnicode_FromString(name), *module = PyUnicode_FromString(in);
    bool good = own && module && PyObject_SetAttrString(type, "__name__", own) == 0 &&
                PyObject_SetAttrString(type, "__module__", module) == 0;
    Py_XDECREF(own);
    Py_XDECREF(module);
    return good ? 0 : -1;
}

/* The type of this name, made at the first call. Borrowed. */
static PyTypeObject *type_named(const char *name, bool leaf, const char *module)
{
    PyObject *type = PyDict_GetItemString(types, name);
    if (type)
        return (PyTypeObject *)type;
    PyType_Slot slots[] = { { leaf ? Py_tp_getset : 0, leaf ? leaf_attributes : NULL }, { 0, NULL } };
    PyObject *dotted = PyUnicode_FromFormat("brisk.autograd.graph.%s", name); /* lives as long as the type: for good */
    PyType_Spec spec = { dotted ? PyUnicode_AsUTF8(dotted) : NULL, sizeof(grad_fn), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots };
    type = spec.name ? PyType_FromSpecWithBases(&spec, (PyObject *)node_type) : NULL;
    if (!type || type_renamed(type, name, module) < 0 || PyDict_SetItemString(types, name, type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    Py_DECREF(type); /* the dict has it */
    return (PyTypeObject *)type;
}

/* Whether a function is one of brisk's own, which is an op to PyTorch. */
static bool is_own_function(const node *place)
{
    const char *own = function_name(place), *end = strstr(own, "Backward0");
    return own[0] == '_' && end && !end[strlen("Backward0")];
}

/* Whether it is that of a user's class. */
static bool is_custom(const node *place)
{
    return place->op == OP_function && !is_own_function(place) && py_function_context(place);
}

/* A place that a tensor names otherwise than its op does (a view's) is known by that name. */
static PyTypeObject *type_of(const node *place, const char *name)
{
    if (place->op != OP_function)
        return type_named(name ? name : place_shown_name(place), place->op == OP_leaf, BUILT_IN);
    const char *own = function_name(place);
    if (!is_custom(place)) /* a C program's has the name it gave */
        return type_named(own + is_own_function(place), false, BUILT_IN);
    PyObject *backward = PyUnicode_FromFormat("%sBackward", own);
    const char *text = backward ? PyUnicode_AsUTF8(backward) : NULL;
    PyTypeObject *type = text ? type_named(text, false, CUSTOM) : NULL;
    Py_XDECREF(backward);
    return type;
}

/* What tells a function from others, while it lives: a place and a step of it, or what several places are results of.
 */
static PyObject *key_new(const node *place, int step)
{
    struct {
        const void *at;
        uint64_t what;
    } key = { place, (uint64_t)step };
    parts all;
    const node *shared = composed_shared(place, &step);
    if (shared) {
        key.at = shared;
        key.what = (uint64_t)1 << 62 | (uint64_t)step;
    } else if (!step && parts_of(place, &all)) {
        key.at = all.base;
        key.what = (uint64_t)1 << 63 | (uint64_t)all.kind << 32 | all.call;
    }
    return PyBytes_FromStringAndSize((const char *)&key, sizeof key);
}

static node *hold(node *place)
{
    place->tape_refs++;
    return node_retain(place);
}

static void let_go(node *place)
{
    place->tape_refs--;
    node_release(place);
}

/* The function was looked at by one of its results: hooks around it are this one's, too. */
static int learn(grad_fn *f, node *place)
{
    parts all;
    int status = 0;
    if (f->step || !parts_of(place, &all))
        return 0;
    if (!f->results)
        f->results = mem_alloc_zero((size_t)all.count * sizeof *f->results);
    if (!f->results)
        return py_raise(), -1;
    f->result_count = all.count;
    if (all.number >= all.count || f->results[all.number])
        return 0;
    f->results[all.number] = hold(place);
    hooks around;
    bool hooked = parts_hooked && parts_hooks(&all, &around);
    for (int kind = HOOK_BEFORE; status == 0 && hooked && kind <= HOOK_AFTER; kind++) {
        PyObject *list = around.lists[kind] ? py_hook_list(place, kind) : Py_NewRef(Py_None);
        status = list ? 0 : -1;
        Py_XDECREF(list);
    }
    return status;
}

static grad_fn *fresh(node *place, int step, const char *name)
{
    PyTypeObject *type = type_of(place, name);
    grad_fn *f = type ? (grad_fn *)type->tp_alloc(type, 0) : NULL;
    if (!f)
        return NULL;
    lock_take();
    f->place = hold(place);
    f->step = step;
    lock_give();
    f->name = type->tp_name;
    return f;
}

/* A step of a place; name: NULL for what the place itself says. */
static PyObject *step_new(node *place, int step, const char *name)
{
    PyObject *key = key_new(place, step), *same = key ? PyDict_GetItemWithError(living, key) : NULL, *address = NULL;
    grad_fn *f = same ? (grad_fn *)Py_NewRef((PyObject *)PyLong_AsVoidPtr(same)) : NULL;
    if (!f && key && !PyErr_Occurred()) {
        f = fresh(place, step, name);
        address = f ? PyLong_FromVoidPtr(f) : NULL;
        if (f && address && PyDict_SetItem(living, key, address) == 0)
            f->key = Py_NewRef(key);
        else
            Py_CLEAR(f);
    }
    Py_XDECREF(key);
    Py_XDECREF(address);
    if (f && learn(f, place) < 0)
        Py_CLEAR(f);
    return (PyObject *)f;
}

static PyObject *grad_fn_new(node *place, const char *name) { return step_new(place, 0, name); }

/* A result of a custom function leads to the call; *number is which one it is. Of a determinant's two, the second has a
 * gradient. */
static node *function_at(node *place, int *number)
{
    while (place_is_copy(place) && place->attr.region.tape >> REGION_OP_SHIFT == WRITE_part && /* stands for it again */
           (place->edge[0]->op == OP_function || place->edge[0]->op == OP_output))
        place = place->edge[0];
    *number = place->op == OP_output ? (int)place->attr.i[0]
              : place->composed      ? composed_output(place)
              : view_is_part(place)  ? view_part(place)
                                     : place->op == OP_logabsdet;
    return place->op == OP_output ? place->edge[0] : place;
}

/* The function that a tensor at `place` was made by, and which of its outputs it is; NULL: none. */
static node *function_of(node *place, int *number)
{
    node *end = place ? shown_end(place) : NULL, *seen = end ? end : place;
    *number = 0;
    return seen ? composed_function(function_at(seen, number), number) : NULL;
}

PyObject *py_grad_fn(const bk_tensor *t)
{
    int number;
    const char *name = tensor_grad_name(t);
    if (!name)
        Py_RETURN_NONE;
    lock_take();
    node *place = tensor_edge(t), *to = function_of(place, &number);
    PyObject *f = to ? grad_fn_new(to, to == place ? name : NULL) : NULL;
    lock_give();
    return f || PyErr_Occurred() ? f : py_raise();
}

int py_output_number(const bk_tensor *t)
{
    int number;
    lock_take();
    function_of(tensor_edge(t), &number);
    lock_give();
    return number;
}

/* (function, number of its output) of a tensor that requires gradients: a leaf's is what accumulates. */
PyObject *py_gradient_edge(const arg *a)
{
    int number = 0;
    lock_take();
    node *place = tensor_edge(a[0].tensor);
    node *to = place ? function_at(place, &number) : NULL;
    PyObject *f = to ? grad_fn_new(to, to == place ? tensor_grad_name(a[0].tensor) : NULL) : NULL;
    lock_give();
    if (!place)
        PyErr_SetString(PyExc_RuntimeError,
                        "It is not possible to get the gradient edge for a Tensor that does not require gradients");
    return f ? Py_BuildValue("(Ni)", f, number) : NULL;
}

static void grad_fn_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    grad_fn *f = (grad_fn *)self;
    if (f->weak)
        PyObject_ClearWeakRefs(self);
    if (f->key && PyDict_DelItem(living, f->key) < 0)
        PyErr_Clear();
    Py_CLEAR(f->key);
    Py_CLEAR(f->metadata);
    lock_take();
    for (int k = 0; k < f->result_count; k++)
        if (f->results[k])
            let_go(f->results[k]);
    let_go(f->place);
    lock_give();
    mem_free(f->results);
    type->tp_free(self);
    Py_DECREF(type);
}

/* --- looking at one ------------------------------------------------------------------------------------------------
 */

static PyObject *grad_fn_name(PyObject *self, PyObject *unused)
{
    (void)unused;
    const grad_fn *f = (grad_fn *)self;
    static const char *const engine[] = { "AccumulateGrad", "CopySlices", "CopyBackwards", "NotImplemented" };
    bool own = false; /* the engine's, not an op's */
    for (size_t i = 0; i < sizeof engine / sizeof *engine; i++)
        own |= strcmp(f->name, engine[i]) == 0;
    return PyUnicode_FromFormat("%s%s", own ? "torch::autograd::" : "", f->name);
}

static PyObject *grad_fn_repr(PyObject *self)
{
    const grad_fn *f = (grad_fn *)self;
    const char *module = is_custom(f->place) ? "torch.autograd.function." : "";
    return PyUnicode_FromFormat("<%s%s object at %p>", module, f->name, (void *)self);
}

/* (function, number of its output) where an edge leads to. */
static PyObject *function_pair(node *edge)
{
    int number = 0;
    edge = shown_end(edge);
    node *to = edge ? composed_function(function_at(edge, &number), &number) : NULL;
    PyObject *f = to ? grad_fn_new(to, NULL) : Py_NewRef(Py_None);
    return f ? Py_BuildValue("(Ni)", f, number) : NULL;
}

static PyObject *step_pair(node *place, int step, int number)
{
    char name[64];
    view_op ops[MAX_VIEW_STEPS];
    if (place->in_view)
        snprintf(name, sizeof name, "CopySlices");
    else if (place->composed)
        composed_step_name(place, step, name);
    else if (step < view_steps(place, ops))
        snprintf(name, sizeof name, "%s", view_grad_name(ops[step]));
    PyObject *f = step_new(place, step, name);
    return f ? Py_BuildValue("(Ni)", f, number) : NULL;
}

/* ((function, number of its output), ...): one for each input; (None, 0) where no gradient goes. */
static PyObject *grad_fn_next(PyObject *self, void *unused)
{
    (void)unused;
    const grad_fn *f = (grad_fn *)self;
    composed_way *ways = NULL;
    int count = shown_ways(f->place, f->step, &ways);
    PyObject *all = count < 0 ? PyErr_NoMemory() : PyTuple_New(count);
    for (int k = 0; all && k < count; k++) {
        PyObject *pair =
            ways[k].step ? step_pair(ways[k].place, ways[k].step, ways[k].number) : function_pair(ways[k].place);
        if (pair)
            PyTuple_SET_ITEM(all, k, pair);
        else
            Py_CLEAR(all);
    }
    if (count >= 0)
        mem_free(ways); /* borrowed places */
    return all;
}

/* --- calling one ----------------------------------------------------------------------------------------------------
 */

/* The gradients that it was called with; -1: they are no such thing. */
static int read_gradients(PyObject *args, int wanted, bk_tensor **out)
{
    if (PyTuple_GET_SIZE(args) != wanted) {
        PyErr_Format(PyExc_TypeError, "expected %d arguments, got %zd instead", wanted, PyTuple_GET_SIZE(args));
        return -1;
    }
    for (int i = 0; i < wanted; i++) {
        PyObject *g = PyTuple_GET_ITEM(args, i);
        if (g != Py_None && !py_is_tensor(g)) {
            PyErr_Format(PyExc_TypeError, "argument %d is not a Variable", i);
            return -1;
        }
        out[i] = g == Py_None ? NULL : ((py_tensor *)g)->t;
    }
    return 0;
}

/* One gradient as it is, several as a tuple. Steals them and both arrays. */
static PyObject *gradients_tuple(bk_tensor **grads, composed_way *ways, int count)
{
    PyObject *all = PyTuple_New(count);
    for (int k = 0; k < count; k++) {
        PyObject *g = grads[k] ? py_wrap(grads[k]) : Py_NewRef(Py_None);
        if (all && g) {
            PyTuple_SET_ITEM(all, k, g);
        } else {
            Py_XDECREF(g);
            Py_CLEAR(all);
        }
    }
    mem_free(grads);
    mem_free(ways);
    if (all && count == 1)
        Py_SETREF(all, Py_NewRef(PyTuple_GET_ITEM(all, 0)));
    return all;
}

/* y.grad_fn(g): the gradients for where next_functions lead to. A leaf's takes g. */
static PyObject *grad_fn_call(PyObject *self, PyObject *args, PyObject *named)
{
    const grad_fn *f = (grad_fn *)self;
    if (is_custom(f->place))
        return PyErr_Format(PyExc_TypeError, "'%s' object is not callable", f->name);
    if (named && PyDict_GET_SIZE(named)) {
        PyErr_SetString(PyExc_TypeError, "keyword arguments are not supported");
        return NULL;
    }
    int wanted = shown_results(f->place), count = 0;
    bk_tensor *gradients[wanted + 1], **grads = NULL;
    composed_way *ways = NULL;
    if (read_gradients(args, wanted, gradients) < 0)
        return NULL;
    bool was = gil_say(true);
    if (f->place->op == OP_leaf)
        count = backward_take(f->place, gradients[0]);
    else
        count = shown_call(f->place, f->step, gradients, &ways, &grads);
    gil_unsay(was);
    return count < 0 ? py_raise() : gradients_tuple(grads, ways, count);
}

static PyObject *grad_fn_metadata(PyObject *self, void *unused)
{
    (void)unused;
    grad_fn *f = (grad_fn *)self;
    if (!f->metadata)
        f->metadata = PyDict_New();
    return Py_XNewRef(f->metadata);
}

/* The row of ops.def or nodes.def that made it. */
static PyObject *grad_fn_row(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(op_get(((grad_fn *)self)->place->op)->name);
}

static PyObject *grad_fn_sequence(PyObject *self, PyObject *unused)
{
    (void)unused;
    const node *n = ((grad_fn *)self)->place;
    return PyLong_FromUnsignedLongLong(n->op == OP_leaf ? UINT64_MAX : n->sequence);
}

/* In PyTorch the function is the ctx: isinstance shall say so. */
static PyObject *grad_fn_class(PyObject *self, void *unused)
{
    (void)unused;
    const node *n = ((grad_fn *)self)->place;
    PyObject *ctx = is_custom(n) ? py_function_context(n) : NULL;
    return Py_NewRef((PyObject *)Py_TYPE(ctx ? ctx : self));
}

static PyObject *grad_fn_requires_grad(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    Py_RETURN_TRUE;
}

/* --- attributes of its own ------------------------------------------------------------------------------------------
 */

/* The user's backward, called with the gradients alone. */
static PyObject *applied_backward(PyObject *ctx)
{
    PyObject *backward = PyObject_GetAttrString((PyObject *)context_function((context *)ctx), "backward");
    PyObject *bound = backward ? PyMethod_New(backward, ctx) : NULL;
    Py_XDECREF(backward);
    return bound;
}

/* Attributes that are not the type's: saved values, and of a custom function those of its ctx. */
static PyObject *grad_fn_getattr(PyObject *self, PyObject *name)
{
    const node *n = ((grad_fn *)self)->place;
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyObject *ctx = n->op == OP_function ? py_function_context(n) : NULL;
    if (ctx) {
        PyErr_Clear();
        if (PyUnicode_CompareWithASCIIString(name, "apply") == 0) /* to the ctx, that of a forward */
            return applied_backward(ctx);
        if ((found = PyObject_GetAttr(ctx, name)) || !PyErr_ExceptionMatches(PyExc_AttributeError))
            return found;
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", ((grad_fn *)self)->name, name);
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    found = PyUnicode_Check(name) ? py_saved_attribute(n, ((grad_fn *)self)->step, PyUnicode_AsUTF8(name)) : NULL;
    if (found || PyErr_Occurred()) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, value, trace);
    }
    return found;
}

static int grad_fn_setattr(PyObject *self, PyObject *name, PyObject *value)
{
    const node *n = ((grad_fn *)self)->place;
    PyObject *ctx = n->op == OP_function ? py_function_context(n) : NULL;
    return PyObject_GenericSetAttr(ctx ? ctx : self, name, value);
}

static PyObject *grad_fn_dir(PyObject *self, PyObject *unused)
{
    (void)unused;
    const node *n = ((grad_fn *)self)->place;
    PyObject *ctx = n->op == OP_function ? py_function_context(n) : NULL;
    PyObject *names = PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__dir__", "O", self);
    PyObject *list = names ? PySequence_List(names) : NULL, *more = ctx ? PyObject_Dir(ctx) : NULL;
    Py_XDECREF(names);
    if (list && py_saved_names(n, ((grad_fn *)self)->step, list) < 0)
        Py_CLEAR(list);
    if (list && more && PyList_SetSlice(list, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, more) < 0)
        Py_CLEAR(list);
    Py_XDECREF(more);
    return list;
}

/* --- hooks, and a tensor at its place --------------------------------------------------------------------------------
 */

/* The dict of the hooks before (True) or after (False) it. */
static PyObject *grad_fn_hooks(PyObject *self, PyObject *before)
{
    const grad_fn *f = (grad_fn *)self;
    int kind = before == Py_True ? HOOK_BEFORE : HOOK_AFTER;
    PyObject *list = py_hook_list(f->place, kind);
    for (int k = 0; list && k < f->result_count; k++)
        if (f->results[k] && f->results[k] != f->place)
            Py_XSETREF(list, py_hook_list(f->results[k], kind));
    return list;
}

static PyObject *grad_fn_stand_in(PyObject *self, PyObject *number)
{
    const grad_fn *f = (grad_fn *)self;
    int k = (int)PyLong_AsLong(number);
    if (f->place->op == OP_leaf)
        return get_variable(self, NULL);
    bool seen = k >= 0 && k < f->result_count && f->results[k];
    return py_stand_in(seen ? f->results[k] : f->place, k);
}

static PyMethodDef methods[] = {
    { "name", grad_fn_name, METH_NOARGS, "What PyTorch calls this function." },
    { "_hooks", grad_fn_hooks, METH_O, NULL },
    { "_stand_in", grad_fn_stand_in, METH_O, NULL },
    { "_sequence_nr", grad_fn_sequence, METH_NOARGS, NULL },
    { "__dir__", grad_fn_dir, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
    { "__class__", grad_fn_class, NULL, NULL, NULL },
    { "_row", grad_fn_row, NULL, NULL, NULL },
    { "metadata", grad_fn_metadata, NULL, "A dict for whoever looks at the graph.", NULL },
    { "next_functions", grad_fn_next, NULL, "Where the gradients of the inputs go.", NULL },
    { "requires_grad", grad_fn_requires_grad, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
    { "__weaklistoffset__", T_PYSSIZET, offsetof(grad_fn, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_dealloc, grad_fn_dealloc },
    { Py_tp_repr, grad_fn_repr },
    { Py_tp_call, grad_fn_call },
    { Py_tp_getattro, grad_fn_getattr },
    { Py_tp_setattro, grad_fn_setattr },
    { Py_tp_methods, methods },
    { Py_tp_getset, attributes },
    { Py_tp_members, members },
    { Py_tp_doc, "A function of the backward graph." },
    { 0, NULL },
};
static PyType_Spec spec = { "brisk.autograd.graph.Node", sizeof(grad_fn), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots };

int grad_fn_init(PyObject *module)
{
    types = PyDict_New();
    living = PyDict_New();
    node_type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (!types || !living || !node_type)
        return -1;
    return PyModule_AddObjectRef(module, "_Node", (PyObject *)node_type);
}
