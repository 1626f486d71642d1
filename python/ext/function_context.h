/* function_context.h: the object that a custom function's forward and backward know as ctx. */
#ifndef EXT_FUNCTION_CONTEXT_H
#define EXT_FUNCTION_CONTEXT_H
#include "binds.h"

#include <structmember.h>

#include "autograd/function.h"

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
    PyObject_HEAD PyObject *attrs; /* __dict__ */
    PyObject *weak;
    PyObject *home;             /* what keeps it for another call when this one's is over; NULL: nothing does */
    struct context *next;       /* among those that are kept so, or wait to be */
    PyObject *needs_input_grad; /* what a user has set; NULL: as the inputs say */
    PyObject *dirty, *non_differentiable;
    saved_one *saved;       /* few_saved, or memory of its own */
    meta *inputs, *outputs; /* one behind the other, likewise */
    node *call;             /* its place on the tape while that lives, borrowed */
    forward_run forward;    /* while it is under way */
    int saved_count, input_count, output_count;
    bool materialize, freed, forward_done;
    bool in_jvp;    /* saved_tensors are those for forward mode */
    bool forwarded; /* its outputs have the tangents that jvp gave them */
    saved_one few_saved[FEW_SAVED];
    meta few_metas[FEW_METAS];
} context;

/* The arguments of a call, borrowed. */
typedef struct arguments {
    PyObject *const *item;
    int count;
    bool room; /* item[-1] may be written to, if it is as it was afterwards */
} arguments;

static inline bk_tensor *handle_of(PyObject *o) { return ((py_tensor *)o)->t; }
bool is_input(arguments args, PyObject *o);
bool among(PyObject *tuple, PyObject *o); /* NULL: the empty tuple */
/* A saved output, or an input that is returned, as memory on no tape. */
PyObject *apart(PyObject *output);

/* Moves what save_for_backward was given to its final form; called before the outputs get their places. */
int context_keep_saved(context *c, arguments args, PyObject *const *outputs, int output_count);
void context_drop_saved(context *c);
/* An output that an attribute holds is part of a cycle, which the garbage collector is to see (cycles.c). */
void context_show_output(const context *c, PyObject *output);

/* A new ctx, and one that is to be as new again. */
context *context_new(PyTypeObject *type);
PyTypeObject *context_function(const context *c); /* the user's class, whose call it belongs to. Borrowed. */
void context_renew(context *c);

/* What the type of a ctx is made of, but for apply. */
extern PyMethodDef context_methods[];
extern PyGetSetDef context_attributes[];
extern PyMemberDef context_members[];
int context_clear(PyObject *self);
int context_traverse(PyObject *self, visitproc visit, void *arg);
void context_dealloc(PyObject *self);

#endif
