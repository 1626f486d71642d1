/* bind_autograd.c: gradients from Python. */
#include "binds.h"
#include "autograd/backward.h"
#include "autograd/parts.h"
#include "autograd/hooks.h"
#include "core/lock.h"
#include "gil.h"
#include "core/memory.h"
#include "ops/elementwise.h"

/* Custom functions and hooks on the tape may be Python's. */
static int walk_tape(const backward_call *call)
{
    bool was = gil_say(true);
    int status = backward_record(call);
    gil_unsay(was);
    return status;
}

/* With inputs it is autograd.backward's work. */
static PyObject *backward_into(const arg *a)
{
    PyObject *module = PyImport_ImportModule("brisk.autograd");
    PyObject *gradient = a[1].object ? a[1].object : Py_None, *retain = a[2].object ? a[2].object : Py_None;
    PyObject *answer = module ? PyObject_CallMethod(module, "backward", "OOOOOO", a[0].object, gradient, retain,
                                                    a[3].b ? Py_True : Py_False, Py_None, a[4].object)
                              : NULL;
    Py_XDECREF(module);
    return answer;
}

/* Leaves will hold gradients whose tape leads to them. */
static int warn_of_cycle(void)
{
    static bool warned;
    if (warned)
        return 0;
    warned = true;
    return PyErr_WarnEx(
        PyExc_UserWarning,
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
        "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
        "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
        "the cycle and avoid the leak.",
        1);
}

/* How many transforms of torch.func run a function here. Such a function may not ask for gradients itself. */
static HOT_THREAD_LOCAL int transforms;

static PyObject *py_in_transform(const arg *a)
{
    transforms += (int)a[0].i;
    Py_RETURN_NONE;
}

static PyObject *refuse_backward(void)
{
    PyErr_SetString(PyExc_RuntimeError, "backward() called inside a functorch transform. This is not supported, please "
                                        "use functorch.grad or functorch.vjp instead or call backward() outside of "
                                        "functorch transforms.");
    return NULL;
}

/* more: what else PyTorch takes the call for. */
static PyObject *refuse_method(const char *name, const char *more)
{
    return PyErr_Format(
        PyExc_RuntimeError,
        "You are attempting to call Tensor.%s() %sinside of a function being transformed by a functorch "
        "transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, "
        "vjp, jacrev, jacfwd, hessian) or call %s() outside of a function being transformed instead.",
        name, more, name);
}

static PyObject *py_backward(const arg *a)
{
    if (transforms)
        return refuse_backward();
    if (a[4].given)
        return backward_into(a);
    backward_call call = { .outputs = &a[0].tensor,
                           .gradients = &a[1].tensor,
                           .output_count = 1,
                           .retain_graph = a[2].given ? a[2].b : a[3].b,
                           .create_graph = a[3].b };
    if (__builtin_expect(tangent_leaves, 0) && !py_asks_gradient(a[0].tensor)) {
        PyErr_SetString(PyExc_RuntimeError, "element 0 of tensors does not require grad and does not have a grad_fn");
        return NULL;
    }
    if (walk_tape(&call) < 0)
        return py_raise();
    if (py_flush() < 0 || (call.create_graph && warn_of_cycle() < 0))
        return NULL;
    Py_RETURN_NONE;
}

/* The results of a pass as a tuple, None where an input was not used. Steals them. */
static PyObject *results_tuple(bk_tensor **results, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; i < count; i++) {
        PyObject *g = !tuple ? NULL : results[i] ? py_wrap(results[i]) : Py_NewRef(Py_None);
        if (!tuple)
            bk_release(results[i]);
        else if (!g)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, g);
    }
    return tuple;
}

/* outputs, gradients, inputs (None: every leaf), retain_graph, create_graph, accumulate: the gradients of the inputs,
 * or (accumulate) None, when the leaves have taken them. */
static PyObject *py_run_backward(const arg *a)
{
    bool accumulate = a[5].b;
    int count = a[2].given ? a[2].tensors.n : 0;
    bk_tensor *results[count + 1];
    backward_call call = { .outputs = a[0].tensors.v,
                           .gradients = a[1].tensors.v,
                           .output_count = a[0].tensors.n,
                           .inputs = a[2].given ? a[2].tensors.v : NULL,
                           .input_count = count,
                           .results = accumulate ? NULL : results,
                           .retain_graph = a[3].b,
                           .create_graph = a[4].b,
                           .inputs_are_ends = a[6].b };
    if (accumulate && transforms)
        return refuse_backward();
    if (accumulate && call.create_graph && warn_of_cycle() < 0)
        return NULL;
    if (walk_tape(&call) < 0)
        return py_raise();
    PyObject *tuple = accumulate ? Py_NewRef(Py_None) : results_tuple(results, count);
    if (tuple && py_flush() < 0)
        Py_CLEAR(tuple);
    return tuple;
}

/* --- hooks
 * ------------------------------------------------------------------------------------------------------------ */

static const char *hook_name(PyObject *hook, char text[static 100])
{
    PyObject *name = PyObject_GetAttrString(hook, "__name__");
    const char *known = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    snprintf(text, 100, "%s", known ? known : "<unknown>");
    Py_XDECREF(name);
    PyErr_Clear();
    return text;
}

/* What stands for a gradient that a hook has returned; *slot takes it. -1: it is no such thing. */
static int take_gradient(PyObject *hook, PyObject *answer, bk_tensor **slot)
{
    char name[100];
    if (answer != Py_None && !*slot) {
        PyErr_SetString(PyExc_RuntimeError, "can't replace a None gradient with a non-None value");
        return -1;
    }
    if (answer != Py_None && !py_is_tensor(answer)) {
        PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", py_type_name(answer));
        return -1;
    }
    bk_tensor *t = answer == Py_None ? NULL : ((py_tensor *)answer)->t, *old = *slot;
    if (t && tensor_dtype(t) != tensor_dtype(old)) {
        PyErr_Format(PyExc_RuntimeError,
                     "hook '%s' has changed the type of value (was torch.%sTensor got torch.%sTensor)",
                     hook_name(hook, name), dtypes[tensor_dtype(old)].type_name, dtypes[tensor_dtype(t)].type_name);
        return -1;
    }
    if (t && t->layout->plain != old->layout->plain) {
        PyErr_Format(PyExc_RuntimeError, "hook '%s' has changed the size of value", hook_name(hook, name));
        return -1;
    }
    *slot = bk_retain(t);
    bk_release(old);
    return 0;
}

static PyObject *gradient_object(bk_tensor *g) { return g ? py_wrap(bk_retain(g)) : Py_NewRef(Py_None); }

static PyObject *gradient_tuple(bk_tensor *const *grads, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *g = gradient_object(grads[i]);
        if (g)
            PyTuple_SET_ITEM(tuple, i, g);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* A hook around a function answers None, or a tuple of as many gradients. */
static int take_gradients(PyObject *hook, PyObject *answer, bk_tensor **slots, int count)
{
    char name[100];
    int status = 0;
    if (answer == Py_None)
        return 0;
    if (!PyTuple_Check(answer)) {
        PyErr_Format(PyExc_TypeError, "expected tuple, but hook returned '%s'", py_type_name(answer));
        return -1;
    }
    if (PyTuple_GET_SIZE(answer) != count) {
        PyErr_Format(PyExc_RuntimeError,
                     "hook '%s' has returned an incorrect number of values (got %zd, but expected %d)",
                     hook_name(hook, name), PyTuple_GET_SIZE(answer), count);
        return -1;
    }
    for (int i = 0; status == 0 && i < count; i++)
        status = take_gradient(hook, PyTuple_GET_ITEM(answer, i), &slots[i]);
    return status;
}

/* What a list of hooks is called with. */
typedef struct hook_call {
    bk_tensor **slots; /* may be replaced */
    bk_tensor *const *others;
    int count, other_count;
    bk_tensor *leaf;
} hook_call;

static int call_tensor_hook(PyObject *hook, const hook_call *c)
{
    PyObject *g = gradient_object(c->slots[0]);
    PyObject *answer = g ? PyObject_CallOneArg(hook, g) : NULL;
    int status = !answer ? -1 : answer == Py_None ? 0 : take_gradient(hook, answer, c->slots);
    Py_XDECREF(g);
    Py_XDECREF(answer);
    return status;
}

static int call_before_hook(PyObject *hook, const hook_call *c)
{
    PyObject *grads = gradient_tuple(c->slots, c->count);
    PyObject *answer = grads ? PyObject_CallOneArg(hook, grads) : NULL;
    int status = answer ? take_gradients(hook, answer, c->slots, c->count) : -1;
    Py_XDECREF(grads);
    Py_XDECREF(answer);
    return status;
}

static int call_after_hook(PyObject *hook, const hook_call *c)
{
    PyObject *grads = gradient_tuple(c->slots, c->count);
    PyObject *results = grads ? gradient_tuple(c->others, c->other_count) : NULL;
    PyObject *answer = results ? PyObject_CallFunctionObjArgs(hook, grads, results, NULL) : NULL;
    int status = answer ? take_gradients(hook, answer, c->slots, c->count) : -1;
    Py_XDECREF(grads);
    Py_XDECREF(results);
    Py_XDECREF(answer);
    return status;
}

static int call_accumulated_hook(PyObject *hook, const hook_call *c)
{
    PyObject *leaf = py_wrap(bk_retain(c->leaf));
    PyObject *answer = leaf ? PyObject_CallOneArg(hook, leaf) : NULL;
    if (answer && py_is_tensor(answer))
        PyErr_SetString(PyExc_RuntimeError, "Tensor post accumulate grad hooks should return None.");
    else if (answer && answer != Py_None)
        PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", py_type_name(answer));
    int status = answer == Py_None ? 0 : -1;
    Py_XDECREF(leaf);
    Py_XDECREF(answer);
    return status;
}

/* The hooks of a dict in order; the dict may change while they run. */
static int call_all(void *list, int (*call)(PyObject *hook, const hook_call *c), const hook_call *c)
{
    gil_state gil = gil_take();
    PyObject *hooks = PyDict_Values(list);
    int status = hooks ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(hooks); i++)
        status = call(PyList_GET_ITEM(hooks, i), c);
    Py_XDECREF(hooks);
    if (status < 0)
        callback_failed();
    gil_give(gil);
    return status;
}

static int call_tensor_hooks(void *list, bk_tensor **g)
{
    return call_all(list, call_tensor_hook, &(hook_call){ .slots = g, .count = 1 });
}

static int call_before_hooks(void *list, bk_tensor **results, int count)
{
    return call_all(list, call_before_hook, &(hook_call){ .slots = results, .count = count });
}

static int call_after_hooks(void *list, bk_tensor **inputs, int input_count, bk_tensor *const *results, int count)
{
    return call_all(list, call_after_hook, &(hook_call){ inputs, results, input_count, count, NULL });
}

static int call_accumulated_hooks(void *list, bk_tensor *leaf)
{
    return call_all(list, call_accumulated_hook, &(hook_call){ .leaf = leaf });
}

static void drop_now(void *data) { Py_DECREF((PyObject *)data); }
static void drop_object(void *data) { release_with_gil(drop_now, data); }

static const hook_calls python_hooks = { call_tensor_hooks,      call_before_hooks, call_after_hooks,
                                         call_accumulated_hooks, py_unpack_slots,   drop_object };

/* The dict that others of several results, whose function has a place for each, have for it already; NULL: none. */
static PyObject *dict_of_others(const node *place, int kind)
{
    parts all;
    hooks around;
    bool known = (kind == HOOK_BEFORE || kind == HOOK_AFTER) && parts_of(place, &all) && parts_hooks(&all, &around);
    return known ? Py_XNewRef((PyObject *)around.lists[kind]) : NULL;
}

PyObject *py_hook_list(node *place, int kind)
{
    lock_take();
    hooks *h = hooks_at(place);
    if (h && !h->lists[kind]) {
        PyObject *dict = dict_of_others(place, kind);
        h->calls = &python_hooks;
        parts_hook(place, (hook_kind)kind, dict ? dict : PyDict_New());
    }
    lock_give();
    return h ? Py_XNewRef((PyObject *)h->lists[kind]) : py_raise();
}

int py_keep_packed(node *place, PyObject *list)
{
    lock_take();
    hooks *h = hooks_at(place);
    if (h) {
        h->calls = &python_hooks;
        h->lists[HOOK_PACKED] = Py_NewRef(list);
    }
    lock_give();
    if (!h)
        py_raise();
    return h ? 0 : -1;
}

/* The dict of self's hooks: those that see its gradient, or (accumulated) that see self when it has taken it. */
static PyObject *py_hooks(const arg *a)
{
    bk_tensor *t = a[0].tensor;
    node *place = tensor_edge(t);
    if (!place || (a[1].b && !bk_is_leaf(t))) {
        PyErr_SetString(PyExc_RuntimeError,
                        !place ? "cannot register a hook on a tensor that doesn't require gradient"
                               : "post accumulate grad hooks cannot be registered on non-leaf tensors");
        return NULL;
    }
    if (bk_is_leaf(t) && t->front)
        py_collectable(t->front); /* a hook may hold it */
    return py_hook_list(place, a[1].b ? HOOK_ACCUMULATED : HOOK_TENSOR);
}

static PyObject *py_retain_grad(const arg *a)
{
    if (transforms)
        return refuse_method("retain_grad", "");
    if (bk_retain_grad(a[0].tensor) < 0)
        return py_raise();
    Py_RETURN_NONE;
}

static PyObject *py_detach(const arg *a) { return py_wrap(bk_detach(a[0].tensor)); }
static PyObject *py_detach_(const arg *a) { return py_in_place(&a[0], bk_detach_(a[0].tensor)); }

static PyObject *py_as_leaf(const arg *a) { return py_in_place(&a[0], bk_set_requires_grad(a[0].tensor, a[1].b)); }

static PyObject *py_requires_grad_(const arg *a)
{
    return transforms ? refuse_method("requires_grad_", "(or perhaps using torch.autograd.functional.* APIs) ")
                      : py_as_leaf(a);
}

static PyObject *py_is_grad_enabled(const arg *a)
{
    (void)a;
    return PyBool_FromLong(grad_mode());
}

static PyObject *py_set_grad_enabled(const arg *a) { return PyBool_FromLong(grad_ask(a[0].b)); }

static PyObject *py_is_inference(const arg *a) { return PyBool_FromLong(a[0].tensor->flags & TENSOR_INFERENCE); }

static PyObject *py_is_inference_mode(const arg *a)
{
    (void)a;
    return PyBool_FromLong(inference_enabled());
}

static PyObject *py_set_inference_mode(const arg *a) { return PyBool_FromLong(inference_set_enabled(a[0].b)); }

/* --- attributes ----------------------------------------------------------------------------------------------------
 */

static PyObject *get_requires_grad(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(py_asks_gradient(((py_tensor *)self)->t));
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value || !PyBool_Check(value)) {
        PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool");
        return -1;
    }
    bool on = value == Py_True;
    if (on && !dtype_is_float(tensor_dtype(((py_tensor *)self)->t))) {
        PyErr_SetString(PyExc_RuntimeError, "only Tensors of floating point and complex dtype can require gradients");
        return -1;
    }
    if (bk_set_requires_grad(((py_tensor *)self)->t, on) < 0) {
        py_raise();
        return -1;
    }
    return 0;
}

/* What is no leaf has none, unless it was asked to keep it. */
static __attribute__((noinline)) PyObject *no_grad_there(const bk_tensor *t)
{
    bool in_vain = !bk_is_leaf(t) && !bk_retains_grad(t) && py_asks_gradient(t);
    const char *text =
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information.";
    if (in_vain && PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *get_grad(PyObject *self, void *unused)
{
    (void)unused;
    const bk_tensor *t = ((py_tensor *)self)->t;
    bk_tensor *g = bk_grad_of(t);
    return g ? py_wrap(bk_retain(g)) : no_grad_there(t);
}

static int set_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (value && value != Py_None && !py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s",
                     py_type_name(value));
        return -1;
    }
    bk_tensor *g = value && value != Py_None ? ((py_tensor *)value)->t : NULL;
    if (bk_set_grad(((py_tensor *)self)->t, g) < 0) {
        py_raise();
        return -1;
    }
    return 0;
}

static PyObject *get_output_nr(PyObject *self, void *unused)
{
    (void)unused;
    const bk_tensor *t = ((py_tensor *)self)->t;
    return PyLong_FromLong(py_asks_gradient(t) ? py_output_number(t) : 0);
}

static PyObject *get_is_leaf(PyObject *self, void *unused)
{
    (void)unused;
    const bk_tensor *t = ((py_tensor *)self)->t;
    return PyBool_FromLong(bk_is_leaf(t) || !py_asks_gradient(t));
}

static PyObject *get_retains_grad(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(bk_retains_grad(((py_tensor *)self)->t));
}

static PyObject *get_data(PyObject *self, void *unused)
{
    (void)unused;
    bk_tensor *data = bk_detach(((py_tensor *)self)->t);
    if (data)
        data->flags |= TENSOR_DATA;
    return py_wrap(data);
}

static int set_data(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value || !py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s",
                     value ? py_type_name(value) : "nothing");
        return -1;
    }
    if (bk_set_data(((py_tensor *)self)->t, ((py_tensor *)value)->t) < 0) {
        py_raise();
        return -1;
    }
    return 0;
}

static PyObject *get_grad_fn(PyObject *self, void *unused)
{
    (void)unused;
    const bk_tensor *t = ((py_tensor *)self)->t;
    return py_asks_gradient(t) ? py_grad_fn(t) : Py_NewRef(Py_None);
}

PyGetSetDef autograd_attributes[] = {
    { "grad_fn", get_grad_fn, NULL, "The function that the gradient goes to; None for a leaf.", NULL },
    { "requires_grad", get_requires_grad, set_requires_grad, "Whether gradients are wanted.", NULL },
    { "grad", get_grad, set_grad, "The gradient that backward() has accumulated.", NULL },
    { "output_nr", get_output_nr, NULL, "Which output of its grad_fn this tensor is.", NULL },
    { "is_leaf", get_is_leaf, NULL, "Whether no recorded op made this tensor.", NULL },
    { "retains_grad", get_retains_grad, NULL, "Whether this tensor, no leaf, keeps its gradient.", NULL },
    { "data", get_data, set_data, "The same memory, on no tape.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

/* --- the tables, for tests that ask something of every row ---------------------------------------------------------
 */

/* (name, number of operands, lo, hi, the operands that have a gradient) of an elementwise row. */
static PyObject *describe_row(int op)
{
    const ew_info *row = &ew_infos[op];
    PyObject *smooth = PyList_New(0);
    for (int k = 0; smooth && k < row->arity; k++) {
        PyObject *number = strcmp(row->gradient[k], "NONDIFF") ? PyLong_FromLong(k) : NULL;
        if (number && PyList_Append(smooth, number) < 0)
            Py_CLEAR(smooth);
        Py_XDECREF(number);
    }
    return smooth ? Py_BuildValue("(siddN)", row->name, row->arity, row->lo, row->hi, smooth) : NULL;
}

/* (the rows of ops.def, the names of the rows of nodes.def that have a gradient) */
static PyObject *py_tables(const arg *a)
{
    (void)a;
    PyObject *rows = PyList_New(0), *nodes = PyList_New(0);
    for (int op = 0; rows && nodes && op < OP_COUNT; op++) {
        bool elementwise = op < EW_COUNT;
        if (!elementwise && !op_get(op)->gradient)
            continue;
        PyObject *row = elementwise ? describe_row(op) : PyUnicode_FromString(op_get(op)->name);
        if (!row || PyList_Append(elementwise ? rows : nodes, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    if (rows && nodes)
        return Py_BuildValue("(NN)", rows, nodes);
    Py_XDECREF(rows);
    Py_XDECREF(nodes);
    return NULL;
}

/* (bytes of tensors in use, nodes in use), when everything recorded has been evaluated */
static PyObject *py_in_use(const arg *a)
{
    (void)a;
    return py_flush() < 0 ? NULL : Py_BuildValue("(LL)", (long long)pool_bytes_in_use(), (long long)nodes_live());
}

/* The elementwise row of that number over these operands. */
static PyObject *py_apply_row(const arg *a)
{
    operand in[MAX_INPUTS] = { { 0 } };
    int64_t op = a[0].i;
    if (op < 0 || op >= EW_COUNT || a[1].tensors.n != ew_infos[op].arity) {
        PyErr_SetString(PyExc_ValueError, "no such row, or another number of operands");
        return NULL;
    }
    lock_take();
    bool good = true;
    for (int k = 0; good && k < a[1].tensors.n; k++)
        good = tensor_read(a[1].tensors.v[k], &in[k]);
    bk_tensor *t = good ? ew_apply((int)op, in) : NULL;
    lock_give();
    return t ? py_wrap(t) : py_raise();
}

const binding autograd_rows[] = {
    { AS_METHOD,
      "backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False, "
      "Object? inputs=None)",
      py_backward, "Accumulates the gradients of this tensor into the leaves it was computed from, or into inputs." },
    { AS_FUNCTION,
      "_run_backward(Tensor[] outputs, Tensor[] gradients, Tensor[]? inputs, bool retain_graph, bool create_graph, "
      "bool accumulate, bool ends=False)",
      py_run_backward, NULL },
    { AS_METHOD, "_hooks(Tensor self, bool accumulated=False)", py_hooks, NULL },
    { AS_METHOD, "_gradient_edge(Tensor self)", py_gradient_edge, NULL },
    { AS_FUNCTION, "_tables()", py_tables, NULL },
    { AS_FUNCTION, "_in_use()", py_in_use, NULL },
    { AS_FUNCTION, "_apply_row(int row, Tensor[] operands)", py_apply_row, NULL },
    { AS_METHOD, "retain_grad(Tensor self)", py_retain_grad, "Keeps the gradient although this is no leaf." },
    { AS_FUNCTION | AS_METHOD, "detach_(Tensor self)", py_detach_, "Takes the tensor off the tape." },
    { AS_FUNCTION | AS_METHOD, "detach(Tensor self)", py_detach, "The same memory, on no tape." },
    { AS_METHOD, "requires_grad_(Tensor self, bool requires_grad=True)", py_requires_grad_, NULL },
    { AS_FUNCTION, "_as_leaf(Tensor self, bool requires_grad=True)", py_as_leaf, NULL },
    { AS_FUNCTION, "_in_transform(int more)", py_in_transform, NULL },
    { AS_FUNCTION, "is_grad_enabled()", py_is_grad_enabled, NULL },
    { AS_FUNCTION | AS_METHOD, "is_inference(Tensor self)", py_is_inference, "Whether it was made in inference mode." },
    { AS_FUNCTION, "is_inference_mode_enabled()", py_is_inference_mode, NULL },
    { AS_FUNCTION, "_set_inference_mode(bool mode)", py_set_inference_mode, NULL },
    { AS_FUNCTION, "_set_grad_enabled(bool mode)", py_set_grad_enabled, NULL },
};
const size_t autograd_row_count = sizeof autograd_rows / sizeof *autograd_rows;
