/* hooks.h: what runs when the gradient of a tensor is complete, and around the gradient function of a place.
 *
 * Hooks belong to a place on the tape: those of a leaf to its track, which outlives the tape, those of any other tensor
 * to the node that made it, so that they run although nobody holds the tensor any more. The order is PyTorch's: those
 * on the tensor, who keeps its gradient, those before the function, the function (at a leaf: the accumulation, and what
 * waits for it), those after it. */
#ifndef BK_AUTOGRAD_HOOKS_H
#define BK_AUTOGRAD_HOOKS_H
#include "autograd/function.h"

typedef enum hook_kind {
    HOOK_TENSOR,      /* sees the gradient, may replace it */
    HOOK_BEFORE,      /* sees the gradients of a function's results, may replace them */
    HOOK_AFTER,       /* sees both, may replace those of the function's inputs */
    HOOK_ACCUMULATED, /* sees a leaf that has taken its gradient */
    HOOK_PACKED,      /* no hook: the values that the gradient reads, as the front end keeps them */
    HOOK_KINDS
} hook_kind;

/* The front end's: each runs one list. -1: failed. What may be replaced is a reference of its own. */
typedef struct hook_calls {
    int (*tensor)(void *list, bk_tensor **g);
    int (*before)(void *list, bk_tensor **results, int count);
    int (*after)(void *list, bk_tensor **inputs, int input_count, bk_tensor *const *results, int count);
    int (*accumulated)(void *list, bk_tensor *leaf);
    /* The values as tensors, one reference each: slot k is input k's, the last the result's; NULL: not packed. */
    int (*unpack)(void *list, bk_tensor *slots[static MAX_INPUTS + 1]);
    void (*free)(void *list);
} hook_calls;

typedef struct hooks {
    const hook_calls *calls;
    void *lists[HOOK_KINDS]; /* the front end's; NULL: none */
    track *keepers;          /* tracks, no leaves, whose tensors keep their gradient; not owned */
} hooks;

/* Where a place keeps its hooks. */
static inline hooks **hooks_slot(const node *place)
{
    if (place->op == OP_leaf)
        return &((track *)place->extra)->hooks;
    return place->op == OP_function ? &function_closure(place)->hooks : (hooks **)&((node *)place)->extra;
}
/* Whether somebody looks on: packed values alone ask for nothing. */
static inline bool hooks_look(const hooks *h)
{
    return h->lists[HOOK_TENSOR] || h->lists[HOOK_BEFORE] || h->lists[HOOK_AFTER] || h->keepers;
}
/* Whether the values that the gradient of n, no leaf and no function, reads are packed. */
static inline bool hooks_have_packed(const node *n)
{
    const hooks *h = n->extra;
    return h && h->lists[HOOK_PACKED];
}
/* The hooks of a place; NULL: none. */
static inline hooks *hooks_of(const node *place) { return *hooks_slot(place); }
/* The same, made where there are none; NULL: out of memory. */
hooks *hooks_at(node *place);
void hooks_free(hooks *h);
void hooks_unpack_no_more(hooks *h); /* the packed values go */
/* k is at this place (or there no longer) and keeps its gradient. */
int hooks_keep(node *place, track *k);
void hooks_forget(node *place, const track *k);

#endif
