/* function_context.c: what the ctx of a custom function holds: what forward has said to it, and what it has saved.
 *
 * A ctx is an instance of the class that goes with the user's (F: FBackward); it lives as long as the call's place on
 * the tape.
 *
 * Invariant: a ctx never holds its own outputs with their places on the tape, which would be a cycle through nodes that
 * no collector sees. A saved output is kept as plain memory and gets a place again when it is asked for.
 *
 * What was saved is what backward sees: a tensor written to after forward is given back as it was. */
#include "function_context.h"

#include "autograd/backward.h"
#include "core/lock.h"
#include "gil.h"

/* --- a ctx's own memory
 * ----------------------------------------------------------------------------------------------- */

static void release_value(saved_one *s)
{
    lock_take();
    if (s->edge) {
        s->edge->tape_refs--;
        node_release(s->edge);
    }
    if (s->value)
        node_release(s->value);
    s->value = s->edge = NULL;
    lock_give();
}

void context_drop_saved(context *c)
{
    saved_one *saved = c->saved;
    int count = c->saved_count;
    c->saved = NULL;
    c->saved_count = 0;
    for (int i = 0; i < count; i++) {
        if (saved[i].value || saved[i].edge)
            release_value(&saved[i]);
        Py_DECREF(saved[i].tensor);
        Py_XDECREF(saved[i].packed);
    }
    if (saved != c->few_saved)
        PyMem_Free(saved);
}

static void drop_said(context *c)
{
    if (c->needs_input_grad || c->dirty || c->non_differentiable) {
        Py_CLEAR(c->needs_input_grad);
        Py_CLEAR(c->dirty);
        Py_CLEAR(c->non_differentiable);
    }
    if (c->saved)
        context_drop_saved(c);
}

static void drop_metas(context *c)
{
    for (int i = 0; c->inputs && i < c->input_count + c->output_count; i++)
        layout_drop(c->inputs[i].layout);
    if (c->inputs != c->few_metas)
        PyMem_Free(c->inputs);
    c->inputs = c->outputs = NULL;
    c->input_count = c->output_count = 0;
}

/* CPython 3.11 remembers where `ctx.method` was found only for objects whose dictionary is there, so there it is made
 * at once; it is as empty again when the ctx is kept for another call. From 3.12 on a missing one will do. */
context *context_new(PyTypeObject *type)
{
    context *c = (context *)type->tp_alloc(type, 0);
#if PY_VERSION_HEX < 0x030C0000
    if (c && !(c->attrs = PyDict_New()))
        Py_CLEAR(c);
#endif
    if (c)
        c->materialize = true;
    return c;
}

void context_renew(context *c)
{
    drop_said(c);
    drop_metas(c);
    if (c->attrs && PyDict_GET_SIZE(c->attrs)) {
        if (Py_REFCNT(c->attrs) == 1)
            PyDict_Clear(c->attrs);
        else
            Py_CLEAR(c->attrs); /* somebody has it */
    }
    c->call = NULL;
    c->forward = (forward_run){ 0 };
    c->freed = c->forward_done = c->in_jvp = c->forwarded = false;
    c->materialize = true;
}

int context_clear(PyObject *self)
{
    context *c = (context *)self;
    Py_CLEAR(c->home);
    Py_CLEAR(c->attrs);
    drop_said(c);
    return 0;
}

int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    context *c = (context *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->attrs);
    Py_VISIT(c->home);
    Py_VISIT(c->needs_input_grad);
    Py_VISIT(c->dirty);
    Py_VISIT(c->non_differentiable);
    for (int i = 0; i < c->saved_count; i++)
        Py_VISIT(c->saved[i].tensor);
    for (int i = 0; i < c->saved_count; i++)
        Py_VISIT(c->saved[i].packed);
    return 0;
}

void context_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((context *)self)->weak)
        PyObject_ClearWeakRefs(self);
    context_clear(self);
    drop_metas((context *)self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* --- what forward says to its ctx
 * ------------------------------------------------------------------------------------- */

static PyObject *keep_args(PyObject **slot, PyObject *args)
{
    Py_XSETREF(*slot, Py_NewRef(args));
    Py_RETURN_NONE;
}

/* They get their final form when forward is done; what a backward says here is for nobody, as in PyTorch. */
static PyObject *save_for_backward(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    context *c = (context *)self;
    if (c->forward_done)
        Py_RETURN_NONE;
    context_drop_saved(c);
    c->saved = n <= FEW_SAVED ? c->few_saved : PyMem_Malloc((size_t)n * sizeof *c->saved);
    if (!c->saved)
        return PyErr_NoMemory();
    for (; c->saved_count < n; c->saved_count++)
        c->saved[c->saved_count] = (saved_one){ .tensor = Py_NewRef(args[c->saved_count]), .output = -1 };
    Py_RETURN_NONE;
}

static PyObject *mark_dirty(PyObject *self, PyObject *args) { return keep_args(&((context *)self)->dirty, args); }

static PyObject *mark_non_differentiable(PyObject *self, PyObject *args)
{
    return keep_args(&((context *)self)->non_differentiable, args);
}

static int set_materialize(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    int on = value ? PyObject_IsTrue(value) : 1;
    if (on >= 0)
        ((context *)self)->materialize = on;
    return on < 0 ? -1 : 0;
}

static PyObject *set_materialize_grads(PyObject *self, PyObject *value)
{
    return set_materialize(self, value, NULL) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *get_needs_input_grad(PyObject *self, void *unused)
{
    (void)unused;
    const context *c = (context *)self;
    if (c->needs_input_grad)
        return Py_NewRef(c->needs_input_grad);
    PyObject *needs = PyTuple_New(c->input_count);
    for (int i = 0; needs && i < c->input_count; i++)
        PyTuple_SET_ITEM(needs, i, PyBool_FromLong(c->inputs[i].taped));
    return needs;
}

static int set_needs_input_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    Py_XSETREF(((context *)self)->needs_input_grad, Py_XNewRef(value));
    return 0;
}

static PyObject *get_marked(PyObject *self, void *dirty)
{
    const context *c = (context *)self;
    PyObject *marked = dirty ? c->dirty : c->non_differentiable;
    return Py_NewRef(marked ? marked : Py_None);
}

/* --- saved tensors
 * ---------------------------------------------------------------------------------------------------- */

bool among(PyObject *tuple, PyObject *o)
{
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
        if (PyTuple_GET_ITEM(tuple, i) == o)
            return true;
    return false;
}

bool is_input(arguments args, PyObject *o)
{
    for (int i = 0; i < args.count; i++)
        if (args.item[i] == o)
            return true;
    return false;
}

PyObject *apart(PyObject *output)
{
    lock_take();
    bk_tensor *alias = function_input_again(handle_of(output));
    lock_give();
    return py_wrap(alias);
}

/* A later write moves the tensor's cell on, not these. Gradients are on, or nothing would be kept. */
static int hold_value(saved_one *s, const bk_tensor *t)
{
    operand in;
    lock_take();
    bool good = tensor_read(t, &in);
    if (good) {
        s->stamp = t->cell->stamp;
        s->value = node_retain(in.value);
        s->edge = in.edge && s->output < 0 ? node_retain(in.edge) : NULL;
        if (s->edge)
            s->edge->tape_refs++;
    }
    lock_give();
    if (!good)
        py_raise();
    return good ? 0 : -1;
}

static PyObject *placed_again(const context *c, const saved_one *s);
static PyObject *guarded(const context *c, const saved_one *s);
static PyObject *as_saved(const saved_one *s);

/* What hooks make of a saved value takes its place. */
static int pack_saved(saved_one *s)
{
    lock_take();
    bk_tensor *t = tensor_at(s->value, NULL);
    lock_give();
    PyObject *tensor = py_wrap(t), *pair = tensor ? py_pack(tensor) : NULL;
    Py_XDECREF(tensor);
    if (!pair || pair == Py_None) {
        Py_XDECREF(pair);
        return pair ? 0 : -1;
    }
    lock_take();
    node_release(s->value);
    s->value = NULL;
    lock_give();
    s->packed = pair;
    Py_SETREF(s->tensor, Py_NewRef(Py_True)); /* no tensor any more, and not None */
    return 0;
}

/* The value again, with its place on the tape. */
static PyObject *unpack_saved(const context *c, const saved_one *s)
{
    PyObject *tensor = py_unpack(s->packed), *answer = NULL;
    operand in;
    if (!tensor)
        return NULL;
    lock_take();
    bool good = tensor_read(handle_of(tensor), &in);
    saved_one again = *s;
    again.value = good ? node_retain(in.value) : NULL;
    lock_give();
    if (good && s->output >= 0 && c->call && c->outputs[s->output].taped && bk_grad_enabled())
        answer = placed_again(c, &again);
    else if (good && s->on_the_way && c->call && bk_grad_enabled())
        answer = guarded(c, &again);
    else
        answer = good ? as_saved(&again) : py_raise();
    again.edge = NULL;
    release_value(&again);
    Py_DECREF(tensor);
    return answer;
}

int context_keep_saved(context *c, arguments args, PyObject *const *outputs, int output_count)
{
    for (int i = 0; i < c->saved_count; i++) {
        saved_one *s = &c->saved[i];
        PyObject *o = s->tensor;
        if (o == Py_None)
            continue;
        if (!py_is_tensor(o)) {
            PyErr_Format(PyExc_TypeError, "save_for_backward can only save variables, but argument %d is of type %s", i,
                         py_type_name(o));
            return -1;
        }
        if (handle_of(o)->flags & TENSOR_INFERENCE && !inference_enabled()) {
            PyErr_SetString(PyExc_RuntimeError,
                            "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
                            "inference mode in computation tracked by autograd. To work around this, you can make a "
                            "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
                            "`torch.inference_mode()`.");
            return -1;
        }
        for (int k = 0; k < output_count; k++)
            if (outputs[k] == o && !is_input(args, o))
                s->output = k;
        if (hold_value(s, handle_of(o)) < 0)
            return -1;
        PyObject *plain = s->output >= 0 ? py_wrap(bk_detach(handle_of(o))) : o;
        if (!plain)
            return -1;
        s->tensor = plain;
        if (plain != o)
            Py_DECREF(o);
        s->on_the_way = s->output < 0 && !s->edge && dtype_is_float(tensor_dtype(handle_of(o))) && !is_input(args, o) &&
                        forward_made(c->forward, s->value);
        if (py_saved_hooks && pack_saved(s) < 0)
            return -1;
    }
    c->forward_done = true;
    return 0;
}

/* A saved output on the tape again, for a backward that is to be differentiated. */
static PyObject *placed_again(const context *c, const saved_one *s)
{
    lock_take();
    bk_tensor *alias = tensor_at(s->value, NULL);
    if (alias && function_place_output(c->call, alias, s->output) < 0) {
        bk_release(alias);
        alias = NULL;
    }
    lock_give();
    return py_wrap(alias);
}

PyObject *py_refuse_freed(void)
{
    PyErr_SetString(PyExc_RuntimeError,
                    "Trying to backward through the graph a second time (or directly access saved tensors after they "
                    "have already been freed). Saved intermediate values of the graph are freed when you call "
                    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                    "graph a second time or if you need to access saved tensors after calling backward.");
    return NULL;
}

PyObject *py_tensor_at(node *value, node *edge)
{
    lock_take();
    track *leaf = edge && edge->op == OP_leaf ? edge->extra : NULL;
    bk_tensor *t = leaf && leaf->cell && leaf->cell->value == value ? track_tensor(leaf) : tensor_at(value, edge);
    lock_give();
    return py_wrap(t);
}

/* The tensor as it was when it was saved. */
static PyObject *as_saved(const saved_one *s) { return py_tensor_at(s->value, s->edge); }

static void let_go(void *data) { Py_DECREF((PyObject *)data); }
static void drop_type(void *data) { release_with_gil(let_go, data); }

static int refuse_to_go_on(void *data, bk_tensor *const *output_grads, int outputs, bk_tensor **input_grads, int inputs)
{
    (void)output_grads, (void)outputs, (void)input_grads, (void)inputs;
    const char *name = ((PyTypeObject *)data)->tp_name;
    gil_state gil = gil_take();
    PyErr_Format(
        PyExc_RuntimeError,
        "%s.backward is being differentiated through a tensor that %s.forward computed on the way and gave to "
        "save_for_backward. How that tensor depends on the inputs is not known, so that the second derivative "
        "would be wrong. Save inputs and compute the tensor again in backward, or return it from forward as one "
        "more output and save that. To treat it as a constant, keep it as an attribute of ctx; a backward that "
        "is not to be differentiated is decorated with once_differentiable.",
        name, name);
    callback_failed();
    gil_give(gil);
    return -1;
}

/* The value at a place that refuses a gradient: only a second derivative sends one there. */
static PyObject *guarded(const context *c, const saved_one *s)
{
    bk_function fn = { .name = context_function(c)->tp_name,
                       .backward = refuse_to_go_on,
                       .free = drop_type,
                       .data = Py_NewRef((PyObject *)context_function(c)) };
    lock_take();
    bk_tensor *t = tensor_at(s->value, NULL);
    if (t && function_beside(c->call, &fn, t) < 0) {
        bk_release(t);
        t = NULL;
    }
    lock_give();
    return py_wrap(t);
}

static PyObject *unpack(const context *c, const saved_one *s)
{
    if (s->tensor == Py_None)
        Py_RETURN_NONE;
    if (s->packed)
        return unpack_saved(c, s);
    if (s->on_the_way && c->call && bk_grad_enabled())
        return guarded(c, s);
    if (s->output >= 0 && c->call && c->outputs[s->output].taped && bk_grad_enabled())
        return placed_again(c, s);
    return handle_of(s->tensor)->cell->stamp == s->stamp ? Py_NewRef(s->tensor) : as_saved(s);
}

static PyObject *get_saved_tensors(PyObject *self, void *unused)
{
    (void)unused;
    context *c = (context *)self;
    if (c->freed)
        return py_refuse_freed();
    if (c->in_jvp && PyObject_HasAttrString(self, "_saved_for_forward"))
        return PyObject_GetAttrString(self, "_saved_for_forward");
    PyObject *all = PyTuple_New(c->saved_count);
    for (int i = 0; all && i < c->saved_count; i++) {
        PyObject *t = c->forward_done ? unpack(c, &c->saved[i]) : Py_NewRef(c->saved[i].tensor);
        if (t)
            PyTuple_SET_ITEM(all, i, t);
        else
            Py_CLEAR(all);
    }
    return all;
}

/* What the forward that is still running has said so far. */
static PyObject *get_to_save(PyObject *self, void *unused)
{
    const context *c = (context *)self;
    return c->saved && !c->forward_done ? get_saved_tensors(self, unused) : Py_NewRef(Py_None);
}

/* --- what users see of it
 * ---------------------------------------------------------------------------------------------- */

PyMethodDef context_methods[] = {
    { "save_for_backward", (PyCFunction)(void (*)(void))save_for_backward, METH_FASTCALL,
      "Keeps tensors (or None) for backward's saved_tensors." },
    { "mark_dirty", mark_dirty, METH_VARARGS, "These inputs were written to in place, and are returned." },
    { "mark_non_differentiable", mark_non_differentiable, METH_VARARGS, "These outputs have no gradient." },
    { "set_materialize_grads", set_materialize_grads, METH_O,
      "Whether backward gets zeros, not None, for an output that has no gradient (it does, unless told otherwise)." },
    { NULL, NULL, 0, NULL },
};

PyGetSetDef context_attributes[] = {
    { "saved_tensors", get_saved_tensors, NULL, "What save_for_backward was given.", NULL },
    { "to_save", get_to_save, NULL, "The same until forward is done, then None.", NULL },
    { "needs_input_grad", get_needs_input_grad, set_needs_input_grad, "For each input, whether it wants a gradient.",
      NULL },
    { "dirty_tensors", get_marked, NULL, "What mark_dirty was given, or None.", (void *)1 },
    { "non_differentiable", get_marked, NULL, "What mark_non_differentiable was given, or None.", NULL },
    { "materialize_grads", NULL, set_materialize, "The same as set_materialize_grads: to be set, not read.", NULL },
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyMemberDef context_members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(context, attrs), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(context, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};
