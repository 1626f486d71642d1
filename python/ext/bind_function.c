/* bind_function.c: autograd.Function: a forward and a backward of the user's own.
 *
 * The object that forward and backward know as ctx is an instance of the user's class; it lives as long as the call's
 * place on the tape. Everything between Python's call of apply and the user's code is here, because for small tensors
 * that is what a custom function costs.
 *
 * Invariant: a ctx never holds its own outputs with their places on the tape, which would be a cycle through nodes that
 * no collector sees. A saved output is kept as plain memory and gets a place again when it is asked for.
 *
 * What was saved is what backward sees: a tensor written to after forward is given back as it was. */
#include "binds.h"

#include "autograd/backward.h"
#include "autograd/function.h"
#include "core/lock.h"
#include "gil.h"

typedef struct meta {
    const layout *layout; /* NULL: no tensor */
    bk_dtype dtype;
    bool taped;
} meta;

typedef struct saved_one {
    PyObject *tensor; /* a tensor or None */
    uint64_t stamp;   /* its cell's when forward was done */
    node *value;      /* and what it was then, with its place (both owned; NULL: none) */
    node *edge;
    int output;       /* the number of the output it is, or -1 */
    PyObject *packed; /* what hooks have made of it, and what unpacks that; NULL: there were none */
    bool on_the_way;  /* neither an input nor an output, but computed from inputs */
} saved_one;

enum { FEW_SAVED = 2, FEW_METAS = 4 }; /* a small function's ctx takes no memory but its own */

typedef struct context {
    PyObject_HEAD PyObject *needs_input_grad; /* what a user has set; NULL: as the inputs say */
    PyObject *dirty, *non_differentiable;
    saved_one *saved;       /* few_saved, or memory of its own */
    meta *inputs, *outputs; /* one behind the other, likewise */
    node *call;             /* its place on the tape while that lives, borrowed */
    forward_run forward;    /* while it is under way */
    int saved_count, input_count, output_count;
    bool materialize, freed, forward_done;
    saved_one few_saved[FEW_SAVED];
    meta few_metas[FEW_METAS];
} context;

/* The arguments of a call, borrowed. */
typedef struct arguments {
    PyObject *const *item;
    int count;
} arguments;

static PyTypeObject *context_type;
static PyObject *name_forward, *name_backward, *name_setup, *base_setup, *binder;

/* A static method of the user's class, as the class would give it: its metaclass has nothing of these names. */
static PyObject *static_method(PyTypeObject *type, PyObject *name)
{
    PyObject *found = _PyType_Lookup(type, name);
    if (!found)
        return PyObject_GetAttr((PyObject *)type, name); /* raises */
    descrgetfunc get = Py_TYPE(found)->tp_descr_get;
    return get ? get(found, NULL, (PyObject *)type) : Py_NewRef(found);
}

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

static void drop_saved(context *c)
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

static int context_clear(PyObject *self)
{
    context *c = (context *)self;
    Py_CLEAR(c->needs_input_grad);
    Py_CLEAR(c->dirty);
    Py_CLEAR(c->non_differentiable);
    drop_saved(c);
    return 0;
}

static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    context *c = (context *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->needs_input_grad);
    Py_VISIT(c->dirty);
    Py_VISIT(c->non_differentiable);
    for (int i = 0; i < c->saved_count; i++)
        Py_VISIT(c->saved[i].tensor);
    for (int i = 0; i < c->saved_count; i++)
        Py_VISIT(c->saved[i].packed);
    return 0;
}

static void context_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    context_clear(self);
    context *c = (context *)self;
    for (int i = 0; c->inputs && i < c->input_count + c->output_count; i++)
        layout_drop(c->inputs[i].layout);
    if (c->inputs != c->few_metas)
        PyMem_Free(c->inputs);
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

/* They get their final form when forward is done. */
static PyObject *save_for_backward(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    context *c = (context *)self;
    drop_saved(c);
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

static PyObject *set_materialize_grads(PyObject *self, PyObject *value)
{
    int on = PyObject_IsTrue(value);
    if (on < 0)
        return NULL;
    ((context *)self)->materialize = on;
    Py_RETURN_NONE;
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

static PyObject *get_materialize(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((context *)self)->materialize);
}

/* --- saved tensors
 * ---------------------------------------------------------------------------------------------------- */

static bool among(PyObject *tuple, PyObject *o)
{
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); i++)
        if (PyTuple_GET_ITEM(tuple, i) == o)
            return true;
    return false;
}

static bool is_input(arguments args, PyObject *o)
{
    for (int i = 0; i < args.count; i++)
        if (args.item[i] == o)
            return true;
    return false;
}

static bk_tensor *handle_of(PyObject *o) { return ((py_tensor *)o)->t; }

/* A saved output, or an input that is returned, as memory on no tape. */
static PyObject *apart(PyObject *output)
{
    lock_take();
    bk_tensor *alias = function_input_again(handle_of(output));
    lock_give();
    return py_wrap(alias);
}

/* A later write moves the tensor's cell on, not these. */
static int hold_value(saved_one *s, const bk_tensor *t)
{
    operand in;
    lock_take();
    bool was = grad_set_enabled(true);
    bool good = tensor_read(t, &in);
    if (good) {
        s->stamp = t->cell->stamp;
        s->value = node_retain(in.value);
        s->edge = in.edge && s->output < 0 ? node_retain(in.edge) : NULL;
        if (s->edge)
            s->edge->tape_refs++;
    }
    grad_set_enabled(was);
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

/* Moves what save_for_backward was given to its final form; called before the outputs get their places. */
static int keep_saved(context *c, arguments args, PyObject *const *outputs, int output_count)
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
        PyObject *plain = s->output >= 0 ? apart(o) : o;
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

/* The tensor as it was when it was saved. */
static PyObject *as_saved(const saved_one *s)
{
    lock_take();
    bk_tensor *t = tensor_at(s->value, s->edge);
    lock_give();
    return py_wrap(t);
}

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
    bk_function fn = { .name = Py_TYPE(c)->tp_name,
                       .backward = refuse_to_go_on,
                       .free = drop_type,
                       .data = Py_NewRef((PyObject *)Py_TYPE(c)) };
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

/* --- backward
 * --------------------------------------------------------------------------------------------------------- */

static PyObject *gradient_in(const meta *m, bk_tensor *g, bool materialize)
{
    if (g)
        return py_wrap(bk_retain(g));
    if (!materialize || !m->layout)
        Py_RETURN_NONE;
    return py_wrap(bk_zeros(m->layout->ndim, m->layout->sizes, m->dtype));
}

static PyObject *call_users_backward(context *c, bk_tensor *const *grads)
{
    PyObject *argv[c->output_count + 2], *result = NULL;
    int n = 1;
    argv[0] = NULL;
    argv[n++] = (PyObject *)c;
    for (int i = 0; i < c->output_count; i++, n++)
        if (!(argv[n] = gradient_in(&c->outputs[i], c->outputs[i].taped ? grads[i] : NULL, c->materialize)))
            break;
    PyObject *function = n == c->output_count + 2 ? static_method(Py_TYPE(c), name_backward) : NULL;
    if (function)
        result = PyObject_Vectorcall(function, argv + 1, (size_t)(n - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_XDECREF(function);
    for (int i = 2; i < n; i++)
        Py_DECREF(argv[i]);
    return result;
}

static int refuse_gradient(const context *c, int i, const char *why)
{
    PyErr_Format(PyExc_RuntimeError, "Function %sBackward returned an invalid gradient at index %d - %s",
                 Py_TYPE(c)->tp_name, i, why);
    return -1;
}

/* The dimensions of g that a broadcast to its sizes has added to or repeated of m's; NULL without an error: it is none.
 */
static PyObject *broadcast_dims(const layout *g, const layout *m)
{
    int extra = g->ndim - m->ndim;
    PyObject *dims = extra < 0 ? NULL : PyList_New(0);
    for (int d = 0; dims && d < g->ndim; d++) {
        bool same = d >= extra && g->sizes[d] == m->sizes[d - extra];
        if (!same && d >= extra && m->sizes[d - extra] != 1) {
            Py_CLEAR(dims);
            break;
        }
        PyObject *number = same ? NULL : PyLong_FromLong(d);
        if (!same && (!number || PyList_Append(dims, number) < 0))
            Py_CLEAR(dims);
        Py_XDECREF(number);
    }
    return dims;
}

/* A gradient of other sizes is summed where it was broadcast, or refused. */
static bk_tensor *fitted(const context *c, int i, PyObject *g)
{
    const meta *m = &c->inputs[i];
    char why[500], got[200], want[200];
    bk_tensor *t = handle_of(g), *out = NULL;
    if (t->layout->plain == m->layout->plain)
        return tensor_dtype(t) == m->dtype ? bk_retain(t) : bk_to(t, m->dtype);
    PyObject *dims = broadcast_dims(t->layout, m->layout);
    if (!dims && !PyErr_Occurred()) {
        snprintf(why, sizeof why, "got %s but expected shape compatible with %s", layout_text(t->layout, got),
                 layout_text(m->layout, want));
        refuse_gradient(c, i, why);
        return NULL;
    }
    PyObject *size = dims ? py_size(m->layout->ndim, m->layout->sizes) : NULL;
    PyObject *sum = size ? PyObject_CallMethod(g, "sum", "O", dims) : NULL;
    PyObject *shaped = sum ? PyObject_CallMethod(sum, "reshape", "(O)", size) : NULL;
    if (shaped)
        out = bk_to(handle_of(shaped), m->dtype);
    Py_XDECREF(dims);
    Py_XDECREF(size);
    Py_XDECREF(sum);
    Py_XDECREF(shaped);
    return out;
}

static int take_gradient(const context *c, int i, PyObject *g, bk_tensor **out)
{
    *out = NULL;
    if (g == Py_None || !c->inputs[i].layout)
        return 0;
    if (!py_is_tensor(g)) {
        PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s)", py_type_name(g));
        return -1;
    }
    if (!c->inputs[i].taped)
        return 0;
    *out = fitted(c, i, g);
    return *out ? 0 : -1;
}

static int check_count(const context *c, PyObject *const *results, Py_ssize_t n)
{
    bool good = n >= c->input_count;
    for (Py_ssize_t i = c->input_count; i < n; i++)
        good = good && results[i] == Py_None;
    if (!good)
        PyErr_Format(PyExc_RuntimeError,
                     "function %sBackward returned an incorrect number of gradients (expected %d, got %zd)",
                     Py_TYPE(c)->tp_name, c->input_count, n);
    for (int i = 0; good && i < c->input_count; i++)
        if (!c->inputs[i].layout && results[i] != Py_None) {
            PyErr_Format(PyExc_RuntimeError,
                         "function %sBackward returned a gradient different than None at position %d, but the "
                         "corresponding forward input was not a Variable",
                         Py_TYPE(c)->tp_name, i + 1);
            good = false;
        }
    return good ? 0 : -1;
}

static int run_backward(context *c, bk_tensor *const *output_grads, bk_tensor **input_grads)
{
    PyObject *answer = call_users_backward(c, output_grads);
    if (!answer)
        return -1;
    bool several = PyTuple_Check(answer);
    PyObject *const *results = several ? ((PyTupleObject *)answer)->ob_item : &answer;
    int status = check_count(c, results, several ? PyTuple_GET_SIZE(answer) : 1);
    int k = 0; /* among the tensors */
    for (int i = 0; status == 0 && i < c->input_count; i++)
        if (c->inputs[i].layout)
            status = take_gradient(c, i, results[i], &input_grads[k++]);
    Py_DECREF(answer);
    return status;
}

static int on_backward(void *data, bk_tensor *const *output_grads, int outputs, bk_tensor **input_grads, int inputs)
{
    (void)outputs, (void)inputs;
    gil_state gil = gil_take();
    int status = run_backward(data, output_grads, input_grads);
    if (status < 0) {
        if (!PyErr_Occurred())
            py_raise();
        callback_failed();
    }
    gil_give(gil);
    return status;
}

PyObject *py_function_context(const node *call) { return function_data(call, on_backward); }

static void on_free(void *data)
{
    ((context *)data)->call = NULL;
    release_with_gil(let_go, data);
}

/* A backward that does not keep the graph lets go of what was saved. */
static void on_free_saved(void *data)
{
    context *c = data;
    gil_state gil = gil_take();
    c->freed = c->saved_count > 0;
    drop_saved(c);
    gil_give(gil);
}

/* --- apply
 * ------------------------------------------------------------------------------------------------------------ */

static int describe_inputs(context *c, arguments args)
{
    c->input_count = args.count;
    c->inputs = args.count < FEW_METAS ? c->few_metas : PyMem_Calloc((size_t)args.count, sizeof *c->inputs);
    if (!c->inputs) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < args.count; i++) {
        if (!py_is_tensor(args.item[i]))
            continue;
        const bk_tensor *t = handle_of(args.item[i]);
        c->inputs[i] = (meta){ layout_hold(t->layout), tensor_dtype(t), bk_requires_grad(t) };
    }
    return 0;
}

/* The ctx is to be differentiated. */
static int describe_outputs(context *c, PyObject *const *outputs, int count)
{
    int all = c->input_count + count;
    if (all > FEW_METAS) {
        bool few = c->inputs == c->few_metas;
        meta *metas = PyMem_Realloc(few ? NULL : c->inputs, (size_t)all * sizeof *metas);
        if (!metas) {
            PyErr_NoMemory();
            return -1;
        }
        if (few)
            memcpy(metas, c->few_metas, (size_t)c->input_count * sizeof *metas);
        c->inputs = metas;
    }
    c->outputs = c->inputs + c->input_count;
    c->output_count = count;
    for (int i = 0; i < count; i++) {
        c->outputs[i] = (meta){ 0 };
        if (!py_is_tensor(outputs[i]))
            continue;
        const bk_tensor *t = handle_of(outputs[i]);
        bool taped = dtype_is_float(tensor_dtype(t)) && !among(c->non_differentiable, outputs[i]);
        c->outputs[i] = (meta){ layout_hold(t->layout), tensor_dtype(t), taped };
    }
    return 0;
}

/* What forward returns, run on no tape. setup is NULL when forward takes the ctx itself; else it gets `all`, the
 * arguments as a tuple. */
static PyObject *call_users_forward(context *c, PyObject *setup, arguments args, PyObject *all)
{
    PyObject *forward = static_method(Py_TYPE(c), name_forward);
    PyObject *argv[args.count + 2], *out = NULL;
    argv[0] = NULL;
    argv[1] = (PyObject *)c;
    for (int i = 0; i < args.count; i++)
        argv[i + 2] = args.item[i];
    int skip = setup ? 2 : 1;
    bool was = bk_set_grad_enabled(false);
    if (forward)
        out = PyObject_Vectorcall(forward, argv + skip,
                                  (size_t)(args.count + 2 - skip) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    if (out && setup) {
        PyObject *done = PyObject_CallFunctionObjArgs(setup, (PyObject *)c, all, out, NULL);
        if (!done)
            Py_CLEAR(out);
        Py_XDECREF(done);
    }
    bk_set_grad_enabled(was);
    Py_XDECREF(forward);
    return out;
}

static int check_dirty(const context *c, arguments args, PyObject *const *outputs, int count)
{
    for (Py_ssize_t i = 0; c->dirty && i < PyTuple_GET_SIZE(c->dirty); i++) {
        PyObject *o = PyTuple_GET_ITEM(c->dirty, i);
        bool returned = false;
        for (int k = 0; k < count; k++)
            returned = returned || outputs[k] == o;
        if (!py_is_tensor(o)) {
            PyErr_Format(PyExc_RuntimeError, "mark_dirty can only accept variables, but argument %zd is of type %s", i,
                         py_type_name(o));
            return -1;
        }
        if (!returned && is_input(args, o)) {
            PyErr_SetString(PyExc_RuntimeError,
                            "Some elements marked as dirty during the forward method were not returned as output. The "
                            "inputs that are modified inplace must all be outputs of the Function.");
            return -1;
        }
        if (is_input(args, o) && bk_grad_enabled() && bk_requires_grad(handle_of(o)) && bk_is_leaf(handle_of(o))) {
            PyErr_SetString(PyExc_RuntimeError,
                            "a leaf Variable that requires grad has been used in an in-place operation.");
            return -1;
        }
        if (is_input(args, o) && tensor_check_leaf(handle_of(o)) < 0) { /* a view of one */
            py_raise();
            return -1;
        }
    }
    return 0;
}

static int check_non_differentiable(const context *c)
{
    for (Py_ssize_t i = 0; c->non_differentiable && i < PyTuple_GET_SIZE(c->non_differentiable); i++)
        if (!py_is_tensor(PyTuple_GET_ITEM(c->non_differentiable, i))) {
            PyErr_Format(PyExc_RuntimeError, "mark_non_differentiable only accepts variable arguments, but got %s",
                         py_type_name(PyTuple_GET_ITEM(c->non_differentiable, i)));
            return -1;
        }
    return 0;
}

/* Puts the taped outputs on the tape; out[k] becomes the object to return (new references). */
static int record(context *c, arguments args, PyObject *const *outputs, PyObject **out)
{
    int tensors = 0, count = c->output_count;
    bk_tensor *in[c->input_count + 1], *placed[count + 1];
    bool same[count + 1];
    for (int i = 0; i < c->input_count; i++)
        if (c->inputs[i].layout)
            in[tensors++] = handle_of(args.item[i]);
    for (int k = 0; k < count; k++) {
        same[k] = among(c->dirty, outputs[k]);
        placed[k] = c->outputs[k].taped ? bk_retain(handle_of(outputs[k])) : NULL;
    }
    bk_function fn = {
        .name = Py_TYPE(c)->tp_name, .backward = on_backward, .free = on_free, .data = Py_NewRef((PyObject *)c)
    };
    int status = function_record(&fn, on_free_saved, in, tensors, placed, same, count, &c->call);
    if (status < 0)
        py_raise();
    for (int k = 0; k < count; k++) {
        if (status < 0) {
            bk_release(placed[k]);
            out[k] = NULL;
            continue;
        }
        if (placed[k])
            out[k] = py_wrap(placed[k]);
        else if (is_input(args, outputs[k]) && c->outputs[k].layout && !same[k])
            out[k] = apart(outputs[k]); /* an input, returned as not differentiable */
        else
            out[k] = Py_NewRef(outputs[k]);
        if (!out[k])
            status = -1;
    }
    return status;
}

/* Without a tape: inputs that are returned as they are become other tensors on the same memory. */
static int pass_through(const context *c, arguments args, PyObject *const *outputs, int count, PyObject **out)
{
    for (int k = 0; k < count; k++) {
        bool again = py_is_tensor(outputs[k]) && is_input(args, outputs[k]) && !among(c->dirty, outputs[k]);
        out[k] = again ? apart(outputs[k]) : Py_NewRef(outputs[k]);
        if (!out[k])
            return -1;
    }
    return 0;
}

static PyObject *wrap_outputs(context *c, arguments args, PyObject *result)
{
    bool single = !PyTuple_Check(result), wanted = false;
    int count = single ? 1 : (int)PyTuple_GET_SIZE(result);
    PyObject *outputs[count + 1], *out[count + 1];
    for (int k = 0; k < count; k++) {
        outputs[k] = single ? result : PyTuple_GET_ITEM(result, k);
        out[k] = NULL;
    }
    for (int i = 0; i < c->input_count && bk_grad_enabled(); i++)
        wanted = wanted || c->inputs[i].taped;
    int status = check_dirty(c, args, outputs, count) < 0 || check_non_differentiable(c) < 0 ? -1 : 0;
    if (status == 0 && !wanted)
        status = pass_through(c, args, outputs, count, out);
    else if (status == 0)
        status = describe_outputs(c, outputs, count) < 0 || keep_saved(c, args, outputs, count) < 0
                     ? -1
                     : record(c, args, outputs, out);
    PyObject *answer = NULL;
    if (status == 0 && !single && (answer = PyTuple_New(count)) != NULL)
        for (int k = 0; k < count; k++)
            PyTuple_SET_ITEM(answer, k, Py_NewRef(out[k]));
    else if (status == 0 && single)
        answer = Py_NewRef(out[0]);
    for (int k = 0; k < count; k++)
        Py_XDECREF(out[k]);
    return answer;
}

static PyObject *tuple_of(PyObject *const *args, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

/* All arguments by position: keywords, and the defaults that setup_context is to see, are Python's to sort out. */
static PyObject *by_position(PyObject *type, PyObject *const *args, Py_ssize_t n, PyObject *names, bool setup)
{
    PyObject *given = tuple_of(args, n), *keywords = given ? PyDict_New() : NULL, *all = NULL;
    bool good = keywords;
    for (Py_ssize_t i = 0; good && names && i < PyTuple_GET_SIZE(names); i++)
        good = PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), args[n + i]) == 0;
    if (good)
        all = PyObject_CallFunctionObjArgs(binder, type, setup ? Py_True : Py_False, given, keywords, NULL);
    Py_XDECREF(given);
    Py_XDECREF(keywords);
    return all;
}

static void begin_forward(context *c, arguments args)
{
    bk_tensor *taped[args.count + 1];
    int count = 0;
    for (int i = 0; i < c->input_count; i++)
        if (c->inputs[i].taped)
            taped[count++] = handle_of(args.item[i]);
    c->forward = forward_begin(taped, count);
}

static PyObject *apply_bound(PyTypeObject *type, PyObject *setup, arguments args, PyObject *all)
{
    context *c = (context *)type->tp_alloc(type, 0);
    if (!c)
        return NULL;
    c->materialize = true;
    PyObject *answer = NULL, *result = NULL;
    if (describe_inputs(c, args) == 0) {
        begin_forward(c, args);
        result = call_users_forward(c, setup, args, all);
        if (result)
            answer = wrap_outputs(c, args, result);
        forward_end();
    }
    Py_XDECREF(result);
    Py_DECREF(c);
    return answer;
}

static PyObject *apply(PyObject *type, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *setup = static_method((PyTypeObject *)type, name_setup), *answer = NULL;
    if (!setup)
        return NULL;
    bool own_setup = setup != base_setup;
    if (names || own_setup) {
        PyObject *all = by_position(type, args, n, names, own_setup);
        if (all)
            answer = apply_bound((PyTypeObject *)type, own_setup ? setup : NULL,
                                 (arguments){ ((PyTupleObject *)all)->ob_item, (int)PyTuple_GET_SIZE(all) }, all);
        Py_XDECREF(all);
    } else {
        answer = apply_bound((PyTypeObject *)type, NULL, (arguments){ args, (int)n }, NULL);
    }
    Py_DECREF(setup);
    return answer;
}

/* --- the type
 * ---------------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    { "apply", (PyCFunction)(void (*)(void))apply, METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
      "Calls forward and puts its results on the tape." },
    { "save_for_backward", (PyCFunction)(void (*)(void))save_for_backward, METH_FASTCALL,
      "Keeps tensors (or None) for backward's saved_tensors." },
    { "mark_dirty", mark_dirty, METH_VARARGS, "These inputs were written to in place, and are returned." },
    { "mark_non_differentiable", mark_non_differentiable, METH_VARARGS, "These outputs have no gradient." },
    { "set_materialize_grads", set_materialize_grads, METH_O,
      "Whether backward gets zeros, not None, for an output that has no gradient (it does, unless told otherwise)." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef attributes[] = {
    { "saved_tensors", get_saved_tensors, NULL, "What save_for_backward was given.", NULL },
    { "needs_input_grad", get_needs_input_grad, set_needs_input_grad, "For each input, whether it wants a gradient.",
      NULL },
    { "dirty_tensors", get_marked, NULL, "What mark_dirty was given, or None.", (void *)1 },
    { "non_differentiable", get_marked, NULL, "What mark_non_differentiable was given, or None.", NULL },
    { "materialize_grads", get_materialize, NULL, "What set_materialize_grads has set.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_dealloc, context_dealloc },
    { Py_tp_traverse, context_traverse },
    { Py_tp_clear, context_clear },
    { Py_tp_methods, methods },
    { Py_tp_getset, attributes },
    { Py_tp_doc, "What a custom function "
                 "keeps for its backward." },
    { 0, NULL },
};
static PyType_Spec spec = { "brisk._C._FunctionBase", sizeof(context), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots };

/* (setup_context of a class that has none of its own, what binds arguments) */
static PyObject *py_function_setup(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *setup, *bind;
    if (!PyArg_ParseTuple(args, "OO", &setup, &bind))
        return NULL;
    Py_XSETREF(base_setup, Py_NewRef(setup));
    Py_XSETREF(binder, Py_NewRef(bind));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_function_setup", py_function_setup, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int function_init(PyObject *module)
{
    name_forward = PyUnicode_InternFromString("forward");
    name_backward = PyUnicode_InternFromString("backward");
    name_setup = PyUnicode_InternFromString("setup_context");
    if (!name_forward || !name_backward || !name_setup || PyModule_AddFunctions(module, functions) < 0)
        return -1;
    return py_add_type(module, &spec, &context_type);
}
