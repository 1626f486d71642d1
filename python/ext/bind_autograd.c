/* bind_autograd.c: gradients from Python. */
#include "binds.h"
#include "autograd/backward.h"
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
    PyObject *answer = module ? PyObject_CallMethod(module, "backward", "OOOOO", a[0].object, gradient, retain,
                                                    a[3].b ? Py_True : Py_False, a[4].object)
                              : NULL;
    Py_XDECREF(module);
    return answer;
}

static PyObject *py_backward(const arg *a)
{
    if (a[4].given)
        return backward_into(a);
    backward_call call = { .outputs = &a[0].tensor,
                           .gradients = &a[1].tensor,
                           .output_count = 1,
                           .retain_graph = a[2].given ? a[2].b : a[3].b,
                           .create_graph = a[3].b };
    if (walk_tape(&call) < 0)
        return py_raise();
    if (py_flush() < 0)
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
    if (walk_tape(&call) < 0)
        return py_raise();
    PyObject *tuple = accumulate ? Py_NewRef(Py_None) : results_tuple(results, count);
    if (tuple && py_flush() < 0)
        Py_CLEAR(tuple);
    return tuple;
}

/* --- hooks
 * ------------------------------------------------------------------------------------------------------------ */

/* One hook's answer: None, or another gradient of the same sizes. -1: neither. */
static int take_answer(PyObject *answer, bk_tensor **g)
{
    if (answer == Py_None)
        return 0;
    if (!py_is_tensor(answer)) {
        PyErr_Format(PyExc_TypeError, "expected Variable, but hook returned '%s'", py_type_name(answer));
        return -1;
    }
    bk_tensor *t = ((py_tensor *)answer)->t;
    if (t->layout->plain != (*g)->layout->plain) {
        PyErr_SetString(PyExc_RuntimeError, "hook has changed the size of value");
        return -1;
    }
    bk_release(*g);
    *g = bk_retain(t);
    return 0;
}

/* The hooks of a dict in order; the dict may change while they run. */
static int call_hooks(void *list, bk_tensor **g)
{
    gil_state gil = gil_take();
    PyObject *hooks = PyDict_Values(list);
    int status = hooks ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(hooks); i++) {
        PyObject *wrapped = py_wrap(bk_retain(*g));
        PyObject *answer = wrapped ? PyObject_CallOneArg(PyList_GET_ITEM(hooks, i), wrapped) : NULL;
        status = answer ? take_answer(answer, g) : -1;
        Py_XDECREF(wrapped);
        Py_XDECREF(answer);
    }
    Py_XDECREF(hooks);
    if (status < 0)
        callback_failed();
    gil_give(gil);
    return status;
}

static void drop_now(void *data) { Py_DECREF((PyObject *)data); }
static void drop_object(void *data) { release_with_gil(drop_now, data); }

/* The dict of self's hooks, made at the first call. */
static PyObject *py_hooks(const arg *a)
{
    lock_take();
    node *place = tensor_edge(a[0].tensor);
    hooks *h = place ? hooks_at(place) : NULL;
    if (h && !h->list) {
        h->list = PyDict_New();
        h->call = call_hooks;
        h->free = drop_object;
    }
    lock_give();
    if (!place)
        PyErr_SetString(PyExc_RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
    else if (!h)
        return py_raise();
    return h ? Py_XNewRef((PyObject *)h->list) : NULL;
}

static PyObject *py_retain_grad(const arg *a)
{
    if (bk_retain_grad(a[0].tensor) < 0)
        return py_raise();
    Py_RETURN_NONE;
}

static PyObject *py_detach(const arg *a) { return py_wrap(bk_detach(a[0].tensor)); }

static PyObject *py_requires_grad_(const arg *a)
{
    return py_in_place(&a[0], bk_set_requires_grad(a[0].tensor, a[1].b));
}

static PyObject *py_is_grad_enabled(const arg *a)
{
    (void)a;
    return PyBool_FromLong(bk_grad_enabled());
}

static PyObject *py_set_grad_enabled(const arg *a) { return PyBool_FromLong(bk_set_grad_enabled(a[0].b)); }

/* --- attributes ----------------------------------------------------------------------------------------------------
 */

static PyObject *get_requires_grad(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(bk_requires_grad(((py_tensor *)self)->t));
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    int on = value ? PyObject_IsTrue(value) : 0;
    if (on < 0)
        return -1;
    if (bk_set_requires_grad(((py_tensor *)self)->t, on) < 0) {
        py_raise();
        return -1;
    }
    return 0;
}

static PyObject *get_grad(PyObject *self, void *unused)
{
    (void)unused;
    bk_tensor *g = bk_grad_of(((py_tensor *)self)->t);
    if (!g)
        Py_RETURN_NONE;
    return py_wrap(bk_retain(g));
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

static PyObject *get_is_leaf(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(bk_is_leaf(((py_tensor *)self)->t));
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
        PyErr_SetString(PyExc_TypeError, "Variable data has to be a tensor");
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
    return py_grad_fn(((py_tensor *)self)->t);
}

PyGetSetDef autograd_attributes[] = {
    { "grad_fn", get_grad_fn, NULL, "The function that the gradient goes to; None for a leaf.", NULL },
    { "requires_grad", get_requires_grad, set_requires_grad, "Whether gradients are wanted.", NULL },
    { "grad", get_grad, set_grad, "The gradient that backward() has accumulated.", NULL },
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
    { AS_METHOD, "_hooks(Tensor self)", py_hooks, NULL },
    { AS_FUNCTION, "_tables()", py_tables, NULL },
    { AS_FUNCTION, "_in_use()", py_in_use, NULL },
    { AS_FUNCTION, "_apply_row(int row, Tensor[] operands)", py_apply_row, NULL },
    { AS_METHOD, "retain_grad(Tensor self)", py_retain_grad, "Keeps the gradient although this is no leaf." },
    { AS_FUNCTION | AS_METHOD, "detach(Tensor self)", py_detach, "The same memory, on no tape." },
    { AS_METHOD, "requires_grad_(Tensor self, bool requires_grad=True)", py_requires_grad_, NULL },
    { AS_FUNCTION, "is_grad_enabled()", py_is_grad_enabled, NULL },
    { AS_FUNCTION, "_set_grad_enabled(bool mode)", py_set_grad_enabled, NULL },
};
const size_t autograd_row_count = sizeof autograd_rows / sizeof *autograd_rows;
