/* saver.h: who takes the values that are saved for gradients in a thread, instead of the tape.
 *
 * That is a function of Python (bind_saved.c: saved_tensors_hooks), the first run of a checkpoint, or a later one of it
 * (bind_checkpoint.c). */
#ifndef BK_EXT_SAVER_H
#define BK_EXT_SAVER_H
#include "pybrisk.h"

#include "core/node.h"

/* This thread's; NULL: the tape keeps them. Both references are the caller's and the thread's own. */
PyObject *saver_swap(PyObject *other);

/* Places that no saver has seen. */
typedef struct new_places {
    node **v; /* owned */
    int count, capacity;
} new_places;
/* Those under a place that were recorded from `since` on, in this order. From here on a saver has seen them. False: out
 * of memory. */
bool new_places_find(new_places *w, node *place, uint64_t since);
void new_places_free(new_places *w);

/* The values that the gradient of n reads: slot k is input k, MAX_INPUTS the result. A bit for each that is saved;
 * *numbers: for those that are numbers, which stay with n, as in PyTorch. */
static inline node *value_saved(const node *n, int slot) { return slot == MAX_INPUTS ? (node *)n : n->in[slot]; }
uint8_t values_saved(const node *n, uint8_t *numbers);

/* bind_checkpoint.c */
bool is_checkpoint(PyObject *saver);
/* Takes what was recorded for t. -1 with an exception set: failed, or a later run has all it was to find. */
int checkpoint_look(PyObject *saver, const bk_tensor *t);
/* Takes a value that a custom function saves; None: it stays there. */
PyObject *checkpoint_pack(PyObject *saver, const bk_tensor *t);
/* What was taken. */
bool is_held(PyObject *packed);
PyObject *held_tensor(PyObject *held);                                   /* of a custom function */
int held_slots(PyObject *held, bk_tensor *slots[static MAX_INPUTS + 1]); /* of a place: see hook_calls.unpack */
const node *held_constant(PyObject *held, int k);                        /* input k, a number; NULL: it is none */

#endif
