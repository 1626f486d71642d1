/* bind_tape.c: questions about the tape under some tensors, for transforms and anomaly mode. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/backward.h"
#include "autograd/composed.h"
#include "autograd/function.h"
#include "autograd/slopeless.h"
#include "binds.h"
#include "core/lock.h"
#include "gil.h"
#include "core/memory.h"
#include "core/trail.h"
#include "lines.h"

/* All places under the tensors. The lock is held; unmark when done. */
static bool walk_tape(trail *w, bk_tensor *const *tensors, int count)
{
    bool good = true;
    for (int i = 0; good && i < count; i++)
        good = trail_meet(w, tensor_edge(tensors[i]));
    for (int i = 0; good && i < w->count; i++) {
        const node *n = w->v[i];
        if (n->op == OP_leaf)
            continue;
        int edges = n->op == OP_function ? function_inputs(n) : MAX_INPUTS;
        node *const *edge = n->op == OP_function ? function_edges(n) : n->edge;
        for (int k = 0; good && k < edges; k++)
            good = trail_meet(w, edge[k]);
    }
    return good;
}

/* (tensors, own): whether gradients of tensors would reach a leaf that is none of own. */
static PyObject *py_leads_outside(const arg *a)
{
    trail w = { 0 };
    bool outside = false;
    lock_take();
    bool good = walk_tape(&w, a[0].tensors.v, a[0].tensors.n);
    trail_unmark(&w);
    for (int i = 0; i < w.count && !outside; i++) {
        bool own = w.v[i]->op != OP_leaf;
        for (int k = 0; k < a[1].tensors.n && !own; k++)
            own = a[1].tensors.v[k]->track == w.v[i]->extra;
        outside = !own;
    }
    lock_give();
    trail_free(&w);
    return good ? PyBool_FromLong(outside) : py_raise();
}

/* A leaf that forward mode made is not the user's, and what only leads to such asks for no gradients. Nor does what
 * only passes for tangents go through. What leads nowhere led to a leaf of the user's: forward mode's are no parts. */
static bool leads_to_asked(const bk_tensor *t)
{
    trail w = { 0 };
    bool asked = false, good;
    lock_take();
    good = trail_meet(&w, tensor_edge(t));
    for (int i = 0; good && !asked && i < w.count; i++) {
        const node *n = w.v[i];
        asked = n->op == OP_nowhere || (n->op == OP_leaf && !((const track *)n->extra)->tangents);
        int edges = n->op == OP_leaf || n->op == OP_forward ? 0
                    : n->op == OP_function                  ? function_inputs(n)
                                                            : MAX_INPUTS;
        node *const *edge = n->op == OP_function ? function_edges(n) : n->edge;
        for (int k = 0; good && k < edges; k++)
            good = trail_meet(&w, edge[k]);
    }
    trail_unmark(&w);
    lock_give();
    trail_free(&w);
    return asked || !good;
}

bool py_asks_gradient(const bk_tensor *t)
{
    return bk_requires_grad(t) && (!(tangent_leaves || forward_is_open()) || leads_to_asked(t));
}

static PyObject *py_on_tape(const arg *a) { return PyBool_FromLong(bk_requires_grad(a[0].tensor)); }

static PyObject *py_is_tape_leaf(const arg *a) { return PyBool_FromLong(bk_is_leaf(a[0].tensor)); }

static PyObject *py_for_tangents(const arg *a)
{
    lock_take();
    int status = tensor_for_tangents(a[0].tensor);
    lock_give();
    return status < 0 ? py_raise() : Py_NewRef(a[0].object);
}

PyObject *py_stand_in(node *place, int number)
{
    const layout *l = place->op == OP_leaf ? ((const track *)place->extra)->layout : place->layout;
    operand in;
    bk_tensor *zeros = bk_zeros(l->ndim, l->sizes, (bk_dtype)place->dtype);
    bool call = place->op == OP_function && function_outputs(place) > 1;
    bk_tensor *t = zeros && tensor_read(zeros, &in) ? tensor_at(in.value, call ? NULL : place) : NULL;
    bk_release(zeros);
    if (t && call && function_place_output(place, t, number) < 0) {
        bk_release(t);
        t = NULL;
    }
    return py_wrap(t);
}

/* A result that was reshaped on the way, as a tensor of its own. */
static PyObject *py_as_own(const arg *a)
{
    bk_tensor *own = tensor_as_own(a[0].tensor);
    return own == a[0].tensor ? Py_NewRef(a[0].object) : py_wrap(own);
}

/* A tensor at self's place. */
static PyObject *py_stand_in_for(const arg *a)
{
    lock_take();
    node *place = tensor_edge(a[0].tensor);
    bk_tensor *zeros = place ? bk_zeros_like(a[0].tensor) : NULL;
    operand in;
    bk_tensor *t = zeros && tensor_read(zeros, &in) ? tensor_at(in.value, place) : NULL;
    bk_release(zeros);
    lock_give();
    return py_wrap(t);
}

static PyObject *py_increment_version(const arg *a)
{
    tensor_count_write(a[0].tensor);
    Py_RETURN_NONE;
}

static PyObject *py_finished(const arg *a)
{
    tensor_finished(a[0].tensor);
    return Py_NewRef(a[0].object);
}

static PyObject *py_written_often(const arg *a)
{
    tensor_written_often(a[0].tensor, (uint32_t)a[1].i);
    return Py_NewRef(a[0].object);
}

static PyObject *py_pass_number(const arg *a)
{
    (void)a;
    return PyLong_FromUnsignedLongLong(backward_number());
}

static PyObject *py_pass_reaches(const arg *a)
{
    lock_take();
    const node *place = tensor_edge(a[0].tensor);
    bool reached = place && backward_reaches(place);
    lock_give();
    return PyBool_FromLong(reached);
}

/* --- anomaly mode ------------------------------------------------------------------------------------------------ */

static PyObject *checker; /* called with (name, gradients) after every gradient function */
static PyObject *teller;  /* called with [(name, line or None), ...] when one fails: it, and what it was recorded for */

/* What a gradient function recorded in a pass that will be differentiated, while the mode is on: those numbers of
 * sequence are its. In their order. */
typedef struct induced {
    uint64_t start, end; /* end: not its own */
    uint64_t by;         /* the number of what was differentiated */
    source_line line;
    PyObject *name;
} induced;
static struct {
    induced *v;
    int count, capacity;
} inductions;

static PyObject *name_of_place(const node *n)
{
    if (n->op == OP_function)
        return PyUnicode_FromFormat("%sBackward", function_name(n));
    return PyUnicode_FromFormat("%s%s", n->op == OP_leaf ? "torch::autograd::" : "", place_grad_name(n));
}

static void forget_inductions(int count)
{
    for (int i = 0; i < count; i++)
        Py_XDECREF(inductions.v[i].name);
    inductions.count -= count;
    if (inductions.count)
        memmove(inductions.v, inductions.v + count, (size_t)inductions.count * sizeof *inductions.v);
}

/* The gradient of n has just been recorded. */
static int note_induced(const node *n)
{
    enum { MOST = 1 << 18 }; /* of passes long ago, the first half is forgotten */
    uint64_t start = backward_number(), last = inductions.count ? inductions.v[inductions.count - 1].end : 0;
    start = last > start ? last : start;
    if (!grad_enabled() || next_sequence <= start)
        return 0;
    if (inductions.count == MOST)
        forget_inductions(MOST / 2);
    if (inductions.count == inductions.capacity) {
        int capacity = inductions.capacity ? 2 * inductions.capacity : 64;
        induced *v = mem_resize(inductions.v, (size_t)capacity * sizeof *v);
        if (!v)
            return -1;
        inductions.v = v;
        inductions.capacity = capacity;
    }
    PyObject *name = name_of_place(n);
    if (name)
        inductions.v[inductions.count++] = (induced){ start, next_sequence, n->sequence, n->line, name };
    return name ? 0 : -1;
}

/* What recorded this number of sequence; NULL: nobody knows. */
static const induced *find_induced(uint64_t sequence)
{
    int low = 0, high = inductions.count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (inductions.v[middle].end <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < inductions.count && inductions.v[low].start <= sequence ? &inductions.v[low] : NULL;
}

static int check_gradients(const node *n, bk_tensor *const *grads, int count)
{
    gil_state gil = gil_take();
    PyObject *list = note_induced(n) < 0 ? NULL : PyList_New(count), *done = NULL;
    for (int i = 0; list && i < count; i++) {
        PyObject *g = grads[i] ? py_wrap(bk_retain(grads[i])) : Py_NewRef(Py_None);
        if (!g)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, g);
    }
    if (list)
        done = PyObject_CallFunction(checker, "NO", name_of_place(n), list);
    int status = done ? 0 : -1;
    if (status < 0)
        callback_failed();
    Py_XDECREF(list);
    Py_XDECREF(done);
    gil_give(gil);
    return status;
}

/* Appends (name, line or None); steals the name. */
static int append_told(PyObject *list, PyObject *name, const source_line *at)
{
    PyObject *line = name ? lines_describe(at) : NULL, *pair = line ? PyTuple_Pack(2, name, line) : NULL;
    int status = pair ? PyList_Append(list, pair) : -1;
    Py_XDECREF(name);
    Py_XDECREF(line);
    Py_XDECREF(pair);
    return status;
}

/* n, what it was recorded for, and so on. */
static PyObject *describe_failure(const node *n)
{
    PyObject *list = PyList_New(0);
    int status = list ? append_told(list, name_of_place(n), &n->line) : -1;
    const induced *by = find_induced(n->sequence);
    for (; status == 0 && by; by = find_induced(by->by))
        status = append_told(list, Py_NewRef(by->name), &by->line);
    if (status < 0)
        Py_CLEAR(list);
    return list;
}

/* The error that is set stays, unless telling fails: a warning may be an error. */
static void tell_of_failure(const node *n)
{
    gil_state gil = gil_take();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    error_mute(true);
    PyObject *chain = describe_failure(n), *told = chain ? PyObject_CallOneArg(teller, chain) : NULL;
    error_mute(false);
    if (told) {
        PyErr_Restore(type, value, trace);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        callback_failed();
    }
    Py_XDECREF(chain);
    Py_XDECREF(told);
    gil_give(gil);
}

/* (what looks at gradients, what is told of failures); None: off, for the time of a warning if both are. */
static PyObject *py_set_anomaly_check(const arg *a)
{
    bool on = a[0].object && a[0].object != Py_None, ends = !on && a[1].object && a[1].object != Py_None;
    if (ends)
        forget_inductions(inductions.count);
    Py_XSETREF(checker, on ? Py_NewRef(a[0].object) : NULL);
    Py_XSETREF(teller, on ? Py_NewRef(a[1].object) : NULL);
    anomaly_check = on ? check_gradients : NULL;
    anomaly_failed = on ? tell_of_failure : NULL;
    if (lines_keep(on) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* The row of a function of composed.def; -1: it has none. */
static PyObject *py_composed_row(const arg *a) { return PyLong_FromLong(composed_find(a[0].s)); }

/* (arguments): where the tape is, and a bit for each argument that it knows; None where one is no tensor. A call may
 * write to them, so this is asked before it. */
static PyObject *py_call_begins(const arg *a)
{
    const Py_ssize_t count = PyTuple_Check(a[0].object) ? PyTuple_GET_SIZE(a[0].object) : 0;
    long known = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *one = PyTuple_GET_ITEM(a[0].object, i);
        if (!py_is_tensor(one))
            Py_RETURN_NONE;
        known |= (long)bk_requires_grad(((py_tensor *)one)->t) << i;
    }
    lock_take();
    const uint64_t at = next_sequence;
    lock_give();
    return Py_BuildValue("(Kl)", (unsigned long long)at, known);
}

/* The bits of arguments in the order of a row's. */
static uint8_t in_order_of_row(const char *arguments, long known)
{
    uint8_t reached = 0;
    for (int i = 0; isalnum((unsigned char)arguments[i]); i++) {
        int before = 0; /* those of smaller numbers */
        for (int k = 0; isalnum((unsigned char)arguments[k]); k++)
            before += composed_argument(arguments[k]) < composed_argument(arguments[i]);
        reached |= (uint8_t)((known >> before & 1) << i);
    }
    return reached;
}

/* (row, begun, result, number): the result looks like that of a function of composed.def, whose call began so; which of
 * several it is. */
static PyObject *py_looks_like(const arg *a)
{
    const int row = (int)a[0].i;
    unsigned long long start;
    long known;
    if (!PyArg_ParseTuple(a[1].object, "Kl", &start, &known))
        return NULL;
    if (row >= 0 && bk_requires_grad(a[2].tensor))
        composed_mark_several(a[2].tensor, row, start, in_order_of_row(composed_rows[row].arguments, known),
                              (int)a[3].i);
    return Py_NewRef(a[2].object);
}

/* (function, results, arguments, written): what it gave for these arguments is on the tape without a gradient;
 * written: the first argument, which still has its place from before, is the first result. */
static PyObject *py_without_derivative(const arg *a)
{
    bool same[8] = { a[3].b };
    if (slopeless_record(a[0].s, a[2].tensors.v, a[2].tensors.n, (bk_tensor **)a[1].tensors.v, same, a[1].tensors.n) <
        0)
        return py_raise();
    Py_RETURN_NONE;
}

/* Forward mode begins or ends: what is done without gradients is recorded for tangents. */
static PyObject *py_forward_mode(const arg *a)
{
    (a[0].b ? forward_open : forward_close)();
    Py_RETURN_NONE;
}

static PyObject *py_take_tangents(const arg *a) { return PyBool_FromLong(backward_take_tangents(a[0].b)); }

/* (primal, place): the primal's memory, which from here on the tape knows as made at the place of another tensor. */
static PyObject *py_placed_at(const arg *a)
{
    lock_take();
    bk_tensor *t = function_input_again(a[0].tensor);
    node *place = t ? tensor_edge(a[1].tensor) : NULL;
    if (t && (!place || tensor_set_place(t, place) < 0)) {
        bk_release(t);
        t = NULL;
    }
    lock_give();
    return py_wrap(t);
}

const binding tape_rows[] = {
    { AS_FUNCTION, "_leads_outside(Tensor[] tensors, Tensor[] own)", py_leads_outside, NULL },
    { AS_FUNCTION, "_on_tape(Tensor self)", py_on_tape, NULL },
    { AS_FUNCTION, "_is_tape_leaf(Tensor self)", py_is_tape_leaf, NULL },
    { AS_FUNCTION, "_for_tangents(Tensor leaf)", py_for_tangents, NULL },
    { AS_FUNCTION, "_stand_in(Tensor self)", py_stand_in_for, NULL },
    { AS_FUNCTION, "_increment_version(Tensor self)", py_increment_version, NULL },
    { AS_FUNCTION, "_finished(Tensor self)", py_finished, NULL },
    { AS_FUNCTION, "_written_often(Tensor self, int times)", py_written_often, NULL },
    { AS_FUNCTION, "_pass_number()", py_pass_number, NULL },
    { AS_FUNCTION, "_pass_reaches(Tensor self)", py_pass_reaches, NULL },
    { AS_FUNCTION, "_forward_mode(bool open)", py_forward_mode, NULL },
    { AS_FUNCTION, "_take_tangents(bool on)", py_take_tangents, NULL },
    { AS_FUNCTION, "_placed_at(Tensor self, Tensor place)", py_placed_at, NULL },
    { AS_FUNCTION, "_composed_row(str function)", py_composed_row, NULL },
    { AS_FUNCTION, "_call_begins(Object arguments)", py_call_begins, NULL },
    { AS_FUNCTION, "_looks_like(int row, Object begun, Tensor result, int number=0)", py_looks_like, NULL },
    { AS_FUNCTION, "_as_own(Tensor self)", py_as_own, NULL },
    { AS_FUNCTION, "_without_derivative(str function, Tensor[] results, Tensor[] arguments, bool written=False)",
      py_without_derivative, NULL },
    { AS_FUNCTION, "_set_anomaly_check(Object? check, Object? tell=None)", py_set_anomaly_check, NULL },
};
const size_t tape_row_count = sizeof tape_rows / sizeof *tape_rows;
