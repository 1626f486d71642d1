/* hooks.h: what runs when the gradient of a tensor is complete.
 *
 * Hooks belong to a place on the tape: those of a leaf to its track, which outlives the tape, those of any other tensor
 * to the node that made it, so that they run although nobody holds the tensor any more. */
#ifndef BK_AUTOGRAD_HOOKS_H
#define BK_AUTOGRAD_HOOKS_H
#include "core/tensor.h"

typedef struct hooks {
    int (*call)(void *list, bk_tensor **g); /* may replace *g, a reference of its own; -1: failed */
    void (*free)(void *list);
    void *list;     /* the front end's; NULL: none */
    track *keepers; /* tracks, no leaves, whose tensors keep their gradient; not owned */
} hooks;

/* The hooks of a place; NULL: none. */
hooks *hooks_of(const node *place);
/* The same, made where there are none; NULL: out of memory. */
hooks *hooks_at(node *place);
void hooks_free(hooks *h);
/* k is at this place (or there no longer) and keeps its gradient. */
int hooks_keep(node *place, track *k);
void hooks_forget(node *place, const track *k);

#endif
