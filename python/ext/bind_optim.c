/* bind_optim.c: the steps of optimisers over the objects they keep: one call for a group of parameters.
 *
 * The state of a parameter is a dict of the optimiser's under PyTorch's names. It is read and completed here, so that
 * a step costs no Python for each parameter. Invariant: what is in the dict is what the library wrote to; the arrays
 * made here hold references only for the time of the call. */
#include "binds.h"
#include "core/lock.h"
#include "core/memory.h"
#include "ops/elementwise.h"

enum { MAX_KEPT = 3 };

/* What a kind of optimiser keeps for each parameter, in PyTorch's order; whether an entry is used is up to the call. */
typedef struct kept {
    bool counts; /* "step" comes first */
    const char *names[MAX_KEPT];
} kept;

typedef struct entry {
    PyObject *state, *step; /* the dict, and the tensor that counts */
    double steps;
    bk_tensor *kept[MAX_KEPT], *before[MAX_KEPT]; /* owned; before: what was in the dict already */
} entry;

typedef struct group {
    int n;
    bk_tensor **params; /* those with a gradient, borrowed from the list */
    entry *entries;
} group;

static void group_close(group *g)
{
    for (int k = 0; k < g->n; k++) {
        Py_XDECREF(g->entries[k].state);
        Py_XDECREF(g->entries[k].step);
        for (int i = 0; i < MAX_KEPT; i++)
            if (g->entries[k].kept[i])
                bk_release(g->entries[k].kept[i]);
    }
    PyMem_Free(g->params);
    PyMem_Free(g->entries);
}

/* The tensor under a name, NULL without an exception when there is none. Borrowed. */
static PyObject *lookup(PyObject *state, const char *name, bool *failed)
{
    PyObject *key = PyUnicode_InternFromString(name), *o = key ? PyDict_GetItemWithError(state, key) : NULL;
    Py_XDECREF(key);
    *failed = !o && PyErr_Occurred();
    return o == Py_None ? NULL : o;
}

static int store(PyObject *state, const char *name, bk_tensor *t)
{
    PyObject *o = py_wrap(t);
    int status = o ? PyDict_SetItemString(state, name, o) : -1;
    Py_XDECREF(o);
    return status;
}

/* The step counter, made when there is none; programs may have put a plain number there. */
static int open_counter(entry *e)
{
    bool failed;
    PyObject *o = lookup(e->state, "step", &failed);
    if (failed)
        return -1;
    if (!o || !py_is_tensor(o)) {
        double at = o ? PyFloat_AsDouble(o) : 0;
        if (at == -1 && PyErr_Occurred())
            return -1;
        bk_dtype dtype = bk_get_default_dtype() == BK_FLOAT64 ? BK_FLOAT64 : BK_FLOAT32;
        if (store(e->state, "step", bk_scalar(at, dtype)) < 0)
            return -1;
        o = lookup(e->state, "step", &failed);
    }
    e->step = Py_NewRef(o);
    if (bk_eval(((py_tensor *)o)->t) < 0)
        return py_raise(), -1;
    e->steps = bk_item(((py_tensor *)o)->t);
    return 0;
}

static int open_entry(entry *e, PyObject *states, PyObject *param, const kept *what)
{
    e->state = PyObject_GetItem(states, param);
    if (!e->state)
        return -1;
    if (!PyDict_Check(e->state)) {
        PyErr_Format(PyExc_TypeError, "an optimizer's state of a parameter is a dict, not %s", py_type_name(e->state));
        return -1;
    }
    if (what->counts && open_counter(e) < 0)
        return -1;
    for (int i = 0; i < MAX_KEPT && what->names[i]; i++) {
        bool failed;
        PyObject *o = lookup(e->state, what->names[i], &failed);
        if (failed)
            return -1;
        if (o && py_is_tensor(o))
            e->kept[i] = e->before[i] = bk_retain(((py_tensor *)o)->t);
    }
    return 0;
}

static int group_open(group *g, const arg *params, const arg *states, const kept *what)
{
    *g = (group){ 0 };
    if (!PyList_Check(params->object)) {
        PyErr_SetString(PyExc_TypeError, "the parameters of a group are a list");
        return -1;
    }
    Py_ssize_t n = PyList_GET_SIZE(params->object);
    g->params = PyMem_Calloc((size_t)n + 1, sizeof *g->params);
    g->entries = PyMem_Calloc((size_t)n + 1, sizeof *g->entries);
    if (!g->params || !g->entries) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *param = PyList_GET_ITEM(params->object, k);
        if (!py_is_tensor(param) || !bk_grad_of(((py_tensor *)param)->t))
            continue;
        g->params[g->n] = ((py_tensor *)param)->t;
        g->n++;
        if (states->given && open_entry(&g->entries[g->n - 1], states->object, param, what) < 0)
            return -1;
    }
    return 0;
}

/* Counts the step, and puts into the dicts what the step has made. */
static int group_keep(group *g, const kept *what)
{
    for (int k = 0; k < g->n; k++) {
        entry *e = &g->entries[k];
        if (e->step) {
            bk_tensor *step = ((py_tensor *)e->step)->t;
            operand in[MAX_INPUTS] = { { 0 }, number_int(1) };
            lock_take();
            int status = tensor_read(step, &in[0]) ? ew_apply_in_place(EW_add, step, in) : -1;
            lock_give();
            if (status < 0)
                return py_raise(), -1;
        }
        for (int i = 0; i < MAX_KEPT; i++)
            if (e->kept[i] != e->before[i] && store(e->state, what->names[i], bk_retain(e->kept[i])) < 0)
                return -1;
    }
    return 0;
}

static PyObject *finish(group *g, int status, const kept *what)
{
    if (status < 0)
        py_raise();
    else
        status = group_keep(g, what);
    group_close(g);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *py_sgd_step(const arg *a)
{
    static const kept what = { .names = { "momentum_buffer" } };
    bk_sgd_options o = { .lr = a[2].d,
                         .momentum = a[3].d,
                         .dampening = a[4].d,
                         .weight_decay = a[5].d,
                         .nesterov = a[6].b,
                         .maximize = a[7].b };
    arg states = a[1];
    states.given = o.momentum != 0;
    group g;
    bk_tensor **momentum = NULL;
    int status = group_open(&g, &a[0], &states, &what);
    if (status == 0 && !(momentum = PyMem_Calloc((size_t)g.n + 1, sizeof *momentum)))
        status = (PyErr_NoMemory(), -1);
    if (status < 0)
        return group_close(&g), NULL;
    for (int k = 0; k < g.n; k++)
        momentum[k] = g.entries[k].kept[0];
    status = bk_sgd_step(g.params, momentum, g.n, &o);
    for (int k = 0; k < g.n; k++)
        g.entries[k].kept[0] = momentum[k];
    PyMem_Free(momentum);
    return finish(&g, status, &what);
}

static PyObject *py_adam_step(const arg *a)
{
    static const kept what = { true, { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" } };
    bk_adam_options o = { .lr = a[2].d,
                          .beta1 = a[3].d,
                          .beta2 = a[4].d,
                          .eps = a[5].d,
                          .weight_decay = a[6].d,
                          .decoupled = a[7].b,
                          .amsgrad = a[8].b,
                          .maximize = a[9].b };
    group g;
    bk_adam_state *states = NULL;
    int status = group_open(&g, &a[0], &a[1], &what);
    if (status == 0 && !(states = PyMem_Calloc((size_t)g.n + 1, sizeof *states)))
        status = (PyErr_NoMemory(), -1);
    if (status < 0)
        return group_close(&g), NULL;
    for (int k = 0; k < g.n; k++) {
        const entry *e = &g.entries[k];
        states[k] = (bk_adam_state){ e->steps, e->kept[0], e->kept[1], e->kept[2] };
    }
    status = bk_adam_step(g.params, states, g.n, &o);
    for (int k = 0; k < g.n; k++) {
        bk_tensor *now[MAX_KEPT] = { states[k].mean, states[k].square, states[k].largest };
        memcpy(g.entries[k].kept, now, sizeof now);
    }
    PyMem_Free(states);
    return finish(&g, status, &what);
}

static PyObject *py_rmsprop_step(const arg *a)
{
    static const kept what = { true, { "square_avg", "momentum_buffer", "grad_avg" } };
    bk_rmsprop_options o = { .lr = a[2].d,
                             .alpha = a[3].d,
                             .eps = a[4].d,
                             .weight_decay = a[5].d,
                             .momentum = a[6].d,
                             .centered = a[7].b,
                             .maximize = a[8].b };
    group g;
    bk_rmsprop_state *states = NULL;
    int status = group_open(&g, &a[0], &a[1], &what);
    if (status == 0 && !(states = PyMem_Calloc((size_t)g.n + 1, sizeof *states)))
        status = (PyErr_NoMemory(), -1);
    if (status < 0)
        return group_close(&g), NULL;
    for (int k = 0; k < g.n; k++) {
        const entry *e = &g.entries[k];
        states[k] = (bk_rmsprop_state){ .square = e->kept[0], .momentum = e->kept[1], .mean = e->kept[2] };
    }
    status = bk_rmsprop_step(g.params, states, g.n, &o);
    for (int k = 0; k < g.n; k++) {
        bk_tensor *now[MAX_KEPT] = { states[k].square, states[k].momentum, states[k].mean };
        memcpy(g.entries[k].kept, now, sizeof now);
    }
    PyMem_Free(states);
    return finish(&g, status, &what);
}

const binding optim_rows[] = {
    { AS_FUNCTION,
      "sgd_step(Object params, Object state, float lr, float momentum, float dampening, float weight_decay, bool "
      "nesterov, bool maximize)",
      py_sgd_step, NULL },
    { AS_FUNCTION,
      "adam_step(Object params, Object state, float lr, float beta1, float beta2, float eps, float weight_decay, bool "
      "decoupled, bool amsgrad, bool maximize)",
      py_adam_step, NULL },
    { AS_FUNCTION,
      "rmsprop_step(Object params, Object state, float lr, float alpha, float eps, float weight_decay, float momentum, "
      "bool centered, bool maximize)",
      py_rmsprop_step, NULL },
};
const size_t optim_row_count = sizeof optim_rows / sizeof *optim_rows;
