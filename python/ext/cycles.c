/* cycles.c: what the garbage collector sees of the tape: Python objects that a tensor keeps alive by its place alone.
 *
 * A hook may hold the leaf that it is a hook of (an optimiser that steps inside of backward), and a ctx the output of
 * its own call. The collector finds such a cycle only if the tensor shows what is at its place. It does where nothing
 * else leads there, as in PyTorch: then nobody, on no other thread, can come to hold it meanwhile, so that counts are
 * read without the lock.
 *
 * Most tensors are unknown to the collector, which costs them nothing; those that may be part of such a cycle are made
 * known to it (py_collectable). */
#include "autograd/hooks.h"
#include "function_context.h"
#include "binds.h"

/* The hooks of a leaf that no tape has and no other handle; NULL: none. */
static const hooks *own_hooks(const bk_tensor *t)
{
    const track *k = t->track;
    bool placed = k->leaf && t->own_edge == k->leaf && t->own_edge->refs == 1; /* the place holds the track, too */
    return !k->place && k->refs == 1 + placed ? k->hooks : NULL;
}

/* The ctx of the call that made t, where nothing else leads to the call; NULL: none. */
static PyObject *own_context(const bk_tensor *t)
{
    const node *place = t->track->refs == 1 ? t->track->place : NULL;
    if (place && place->op == OP_output)
        place = place->refs == 1 ? place->edge[0] : NULL;
    return place && place->op == OP_function && place->refs == 1 ? py_function_context(place) : NULL;
}

int py_visit_place(const bk_tensor *t, visitproc visit, void *arg)
{
    const hooks *h = t && t->track && t->refs == 1 ? own_hooks(t) : NULL;
    for (int kind = 0; h && kind < HOOK_KINDS; kind++)
        Py_VISIT((PyObject *)h->lists[kind]);
    if (t && t->track && t->refs == 1)
        Py_VISIT(own_context(t));
    return 0;
}

static bool is_in(PyObject *const *items, Py_ssize_t count, PyObject *o)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (items[i] == o)
            return true;
    return false;
}

/* Whether an attribute of a ctx is one of the outputs, or a list of some. */
static bool holds_output(PyObject *value, PyObject *output)
{
    bool list = PyList_Check(value) || PyTuple_Check(value);
    return value == output || (list && is_in(PySequence_Fast_ITEMS(value), PySequence_Fast_GET_SIZE(value), output));
}

void context_show_output(const context *c, PyObject *output)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (c->attrs && PyDict_Next(c->attrs, &at, &name, &value))
        if (holds_output(value, output))
            py_collectable(output);
}
