/* bind_saved.c: saved_tensors_hooks: values that gradients will read pass through Python functions.
 *
 * A built-in op saves nodes, not tensors. While a thread has a saver, what was recorded is looked at when its result
 * becomes a Python object: every value that the gradient of a new place on the tape reads is packed there and then, and
 * the node lets go of it. A backward unpacks them. What custom functions save passes the same two functions
 * (bind_function.c).
 *
 * Invariant: a node has NODE_PACKED when a saver has seen it. */
#include "binds.h"
#include "gil.h"
#include "saver.h"

#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "core/lock.h"
#include "core/memory.h"
#include "ops/elementwise.h"

bool py_saved_hooks; /* some thread has a saver */
static int savers;   /* how many have */
/* This thread's, of Python: tensor -> (packed object, function that unpacks it). */
static HOT_THREAD_LOCAL PyObject *saver;
static HOT_THREAD_LOCAL uint64_t saving_since; /* what was recorded before that is left alone */

PyObject *saver_swap(PyObject *other)
{
    PyObject *before = saver;
    lock_take();
    if (!before || is_checkpoint(before))
        saving_since = next_sequence;
    savers += (other != NULL) - (before != NULL);
    py_saved_hooks = savers > 0;
    lock_give();
    saver = other;
    return before;
}

/* What a function of Python makes of a tensor. What it computes is not packed. */
static PyObject *call_packer(PyObject *packer, PyObject *tensor)
{
    PyObject *own = saver;
    saver = NULL;
    PyObject *pair = PyObject_CallOneArg(packer, tensor);
    saver = own;
    return pair;
}

PyObject *py_pack(PyObject *tensor)
{
    if (!saver)
        Py_RETURN_NONE;
    if (is_checkpoint(saver))
        return checkpoint_pack(saver, ((py_tensor *)tensor)->t);
    return call_packer(saver, tensor);
}

PyObject *py_unpack(PyObject *pair)
{
    if (is_held(pair))
        return held_tensor(pair);
    PyObject *t = PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0));
    if (t && !py_is_tensor(t)) {
        PyErr_Format(PyExc_TypeError,
                     "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s",
                     py_type_name(t));
        Py_CLEAR(t);
    }
    return t;
}

/* --- new places ------------------------------------------------------------------------------------------------------
 */

static bool meet(new_places *w, node *n, uint64_t since)
{
    if (!n || n->flags & NODE_PACKED || n->op == OP_leaf || n->sequence < since)
        return true;
    if (w->count == w->capacity) {
        int capacity = w->capacity ? 2 * w->capacity : 16;
        node **nodes = mem_resize(w->v, (size_t)capacity * sizeof *nodes);
        if (!nodes)
            return false;
        w->v = nodes;
        w->capacity = capacity;
    }
    n->flags |= NODE_PACKED;
    w->v[w->count++] = node_retain(n);
    return true;
}

static int earliest_first(const void *a, const void *b)
{
    uint64_t x = (*(node *const *)a)->sequence, y = (*(node *const *)b)->sequence;
    return x < y ? -1 : x > y;
}

/* What a custom function was given has been looked at when it was made. */
bool new_places_find(new_places *w, node *place, uint64_t since)
{
    lock_take();
    bool good = meet(w, place, since);
    for (int i = 0; good && i < w->count; i++) {
        const node *n = w->v[i];
        int count = n->op == OP_function ? 0 : MAX_INPUTS;
        for (int k = 0; good && k < count; k++)
            good = meet(w, n->edge[k], since);
    }
    lock_give();
    if (w->count > 1)
        qsort(w->v, (size_t)w->count, sizeof *w->v, earliest_first);
    return good;
}

void new_places_free(new_places *w)
{
    lock_take();
    for (int i = 0; i < w->count; i++)
        node_release(w->v[i]);
    lock_give();
    mem_free(w->v);
}

/* --- packing ---------------------------------------------------------------------------------------------------------
 */

/* One value of n. */
static int pack_value(PyObject *packer, node *n, int slot, PyObject *list)
{
    lock_take();
    bk_tensor *t = tensor_at(value_saved(n, slot), NULL);
    lock_give();
    PyObject *tensor = py_wrap(t), *pair = tensor ? call_packer(packer, tensor) : NULL;
    PyObject *item = pair ? Py_BuildValue("(iO)", slot, pair) : NULL;
    int status = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    Py_XDECREF(pair);
    Py_XDECREF(tensor);
    return status;
}

uint8_t values_saved(const node *n, uint8_t *numbers)
{
    uint8_t needs = n->op == OP_function || n->flags & NODE_FREED ? 0 : place_values_read(n), slots = 0;
    *numbers = 0;
    for (int k = 0; k <= MAX_INPUTS; k++) {
        const node *value = needs >> k & 1 ? value_saved(n, k) : NULL;
        if (value && value->flags & NODE_CONSTANT)
            *numbers |= (uint8_t)(1 << k);
        else if (value)
            slots |= (uint8_t)(1 << k);
    }
    return slots;
}

static int pack_node(PyObject *packer, node *n)
{
    uint8_t numbers;
    const uint8_t needs = values_saved(n, &numbers);
    if (!needs)
        return 0;
    PyObject *list = PyList_New(0);
    int status = list ? 0 : -1;
    for (int slot = 0; status == 0 && slot <= MAX_INPUTS; slot++)
        if (needs >> slot & 1)
            status = pack_value(packer, n, slot, list);
    if (status == 0 && (py_flush() < 0 || py_keep_packed(n, list) < 0))
        status = -1;
    if (status == 0) {
        lock_take();
        for (int slot = 0; slot < MAX_INPUTS && !(n->flags & NODE_PENDING); slot++)
            if (needs >> slot & 1)
                node_drop_input(n, slot);
        lock_give();
    }
    Py_XDECREF(list);
    return status;
}

int py_pack_new(const bk_tensor *t)
{
    PyObject *packer = saver;
    if (!packer || !t->track)
        return 0;
    if (is_checkpoint(packer))
        return checkpoint_look(packer, t);
    new_places w = { 0 };
    saver = NULL;
    lock_take();
    node *place = tensor_edge(t);
    lock_give();
    int status = new_places_find(&w, place, saving_since) ? 0 : -1;
    if (status < 0)
        py_raise();
    for (int i = 0; status == 0 && i < w.count; i++)
        status = pack_node(packer, w.v[i]);
    new_places_free(&w);
    saver = packer;
    return status;
}

/* --- unpacking -----------------------------------------------------------------------------------------------------
 */

static int unpack_slot(PyObject *item, bk_tensor *slots[static MAX_INPUTS + 1])
{
    PyObject *tensor = py_unpack(PyTuple_GET_ITEM(item, 1));
    if (tensor)
        slots[PyLong_AsLong(PyTuple_GET_ITEM(item, 0))] = bk_retain(((py_tensor *)tensor)->t);
    Py_XDECREF(tensor);
    return tensor ? 0 : -1;
}

int py_unpack_slots(void *list, bk_tensor *slots[static MAX_INPUTS + 1])
{
    gil_state gil = gil_take();
    bool held = is_held(list);
    int status = held ? held_slots(list, slots) : 0;
    for (Py_ssize_t i = 0; !held && status == 0 && i < PyList_GET_SIZE((PyObject *)list); i++)
        status = unpack_slot(PyList_GET_ITEM((PyObject *)list, i), slots);
    if (status < 0)
        callback_failed();
    gil_give(gil);
    return status;
}

/* (saver or None): the one before, or None. */
static PyObject *py_swap_saver(const arg *a)
{
    PyObject *before = saver_swap(a[0].object && a[0].object != Py_None ? Py_NewRef(a[0].object) : NULL);
    return before ? before : Py_NewRef(Py_None);
}

static PyObject *py_has_saver(const arg *a)
{
    (void)a;
    return PyBool_FromLong(saver != NULL);
}

/* What was recorded for these tensors goes to the saver now. */
static PyObject *py_save_new(const arg *a)
{
    for (int i = 0; i < a[0].tensors.n; i++)
        if (py_pack_new(a[0].tensors.v[i]) < 0)
            return NULL;
    Py_RETURN_NONE;
}

const binding saved_rows[] = {
    { AS_FUNCTION, "_swap_saver(Object? saver)", py_swap_saver, NULL },
    { AS_FUNCTION, "_has_saver()", py_has_saver, NULL },
    { AS_FUNCTION, "_save_new(Tensor[] tensors)", py_save_new, NULL },
};
const size_t saved_row_count = sizeof saved_rows / sizeof *saved_rows;
