/* bind_saved.c: saved_tensors_hooks: values that gradients will read pass through Python functions.
 *
 * A built-in op saves nodes, not tensors. While hooks are active, what was recorded is looked at when its result
 * becomes a Python object: every value that the gradient of a new place on the tape reads is packed there and then, and
 * the node lets go of it. A backward unpacks them. What custom functions save passes the same two functions
 * (bind_function.c).
 *
 * Invariant: a node has NODE_PACKED when the values that its gradient reads are in its list of packed ones. */
#include "binds.h"
#include "gil.h"

#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "core/lock.h"
#include "core/memory.h"
#include "ops/elementwise.h"

bool py_saved_hooks;           /* some thread has hooks */
static uint64_t packing_since; /* what was recorded before that is left alone */
static PyObject *packer; /* tensor -> (packed object, function that unpacks it), or None: this thread has no hooks */
static _Thread_local bool packing;

PyObject *py_pack(PyObject *tensor) { return PyObject_CallOneArg(packer, tensor); }

PyObject *py_unpack(PyObject *pair)
{
    PyObject *t = PyObject_CallOneArg(PyTuple_GET_ITEM(pair, 1), PyTuple_GET_ITEM(pair, 0));
    if (t && !py_is_tensor(t)) {
        PyErr_Format(PyExc_TypeError,
                     "Output of saved tensor unpack_hook expected to be a Tensor but got result of type %s",
                     py_type_name(t));
        Py_CLEAR(t);
    }
    return t;
}

/* --- packing -------------------------------------------------------------------------------------------------------
 */

typedef struct walk {
    node **nodes;
    int count, capacity;
} walk;

static bool meet(walk *w, node *n)
{
    if (!n || n->flags & NODE_PACKED || n->op == OP_leaf || n->sequence < packing_since)
        return true;
    if (w->count == w->capacity) {
        int capacity = w->capacity ? 2 * w->capacity : 16;
        node **nodes = mem_resize(w->nodes, (size_t)capacity * sizeof *nodes);
        if (!nodes)
            return false;
        w->nodes = nodes;
        w->capacity = capacity;
    }
    n->flags |= NODE_PACKED;
    w->nodes[w->count++] = node_retain(n);
    return true;
}

static int earliest_first(const void *a, const void *b)
{
    uint64_t x = (*(node *const *)a)->sequence, y = (*(node *const *)b)->sequence;
    return x < y ? -1 : x > y;
}

/* The new places under t, in the order in which they were recorded; what a custom function was given has been looked
 * at when it was made. */
static bool find_new(walk *w, const bk_tensor *t)
{
    lock_take();
    bool good = meet(w, tensor_edge(t));
    for (int i = 0; good && i < w->count; i++) {
        const node *n = w->nodes[i];
        int count = n->op == OP_function ? 0 : MAX_INPUTS;
        for (int k = 0; good && k < count; k++)
            good = meet(w, n->edge[k]);
    }
    lock_give();
    if (w->count)
        qsort(w->nodes, (size_t)w->count, sizeof *w->nodes, earliest_first);
    return good;
}

/* One value of n: 0 packed, 1 left alone, -1 failed. */
static int pack_value(node *n, int slot, PyObject *list)
{
    lock_take();
    bk_tensor *t = tensor_at(slot == MAX_INPUTS ? n : n->in[slot], NULL);
    lock_give();
    PyObject *tensor = py_wrap(t), *pair = tensor ? py_pack(tensor) : NULL;
    int status = !pair ? -1 : pair == Py_None;
    PyObject *item = status == 0 ? Py_BuildValue("(iO)", slot, pair) : NULL;
    if (status == 0 && (!item || PyList_Append(list, item) < 0))
        status = -1;
    Py_XDECREF(item);
    Py_XDECREF(pair);
    Py_XDECREF(tensor);
    return status;
}

/* The values of n that are packed, a bit for each; numbers stay where they are, as in PyTorch. */
static uint8_t values_packed(const node *n)
{
    uint8_t needs = n->op == OP_function ? 0 : place_values_read(n);
    for (int slot = 0; slot < MAX_INPUTS; slot++)
        if (n->in[slot] && n->in[slot]->flags & NODE_CONSTANT)
            needs &= (uint8_t)~(1U << slot);
    return needs;
}

static int pack_node(node *n)
{
    const uint8_t needs = values_packed(n);
    PyObject *list = needs ? PyList_New(0) : NULL;
    int status = needs && !list ? -1 : 0;
    for (int slot = 0; status == 0 && slot <= MAX_INPUTS; slot++)
        if (needs >> slot & 1 && (slot == MAX_INPUTS || n->in[slot]))
            status = pack_value(n, slot, list);
    if (status != 0 || !list || py_flush() < 0 || py_keep_packed(n, list) < 0) {
        if (status == 1) /* another thread's hooks */
            n->flags &= (uint8_t)~NODE_PACKED;
        status = status == 1 || (!list && status == 0 && !PyErr_Occurred()) ? 0 : -1;
    } else {
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
    walk w = { 0 };
    if (packing || !packer || !t->track)
        return 0;
    packing = true;
    int status = find_new(&w, t) ? 0 : -1;
    if (status < 0)
        py_raise();
    for (int i = 0; i < w.count; i++) {
        if (status == 0)
            status = pack_node(w.nodes[i]);
        lock_take();
        node_release(w.nodes[i]);
        lock_give();
    }
    mem_free(w.nodes);
    packing = false;
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
    int status = 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE((PyObject *)list); i++)
        status = unpack_slot(PyList_GET_ITEM((PyObject *)list, i), slots);
    if (status < 0)
        callback_failed();
    gil_give(gil);
    return status;
}

/* (on, packer) */
static PyObject *py_set_packing(const arg *a)
{
    Py_XSETREF(packer, Py_NewRef(a[1].object));
    lock_take();
    if (a[0].b && !py_saved_hooks)
        packing_since = next_sequence;
    py_saved_hooks = a[0].b;
    lock_give();
    Py_RETURN_NONE;
}

const binding saved_rows[] = {
    { AS_FUNCTION, "_set_packing(bool on, Object packer)", py_set_packing, NULL },
};
const size_t saved_row_count = sizeof saved_rows / sizeof *saved_rows;
