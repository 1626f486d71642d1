/* pass.h: a backward pass under way: the places of the tape that it comes to, and what it has for each.
 *
 * Invariant: steps are in the order of the walk, from the latest place to the earliest, leaves last or, where somebody
 * can tell, behind the last that leads to them; once numbered, node->visit is the index of a place's step. */
#ifndef BK_AUTOGRAD_PASS_H
#define BK_AUTOGRAD_PASS_H
#include "autograd/backward.h"
#include "autograd/shown.h"
#include "core/tensor.h"

typedef struct step {
    node *node;
    bk_tensor *grad;     /* the sum of what its readers have sent so far */
    bk_tensor **outputs; /* of a function with several: a gradient for each */
    bool own;            /* nobody else holds grad: more may be added to it in place */
    bool asked;          /* the place of an input */
    bool wanted;         /* it, or what it leads to, was asked for */
    bool leads;          /* what it leads to was */
    bool done;           /* with another step of its function */
    int32_t visit;       /* of the node, in the pass around this one: a function's backward may run one of its own */
    uint64_t sequence;   /* of the node */
} step;

enum { FEW_STEPS = 16, FEW_PLACES = 2 }; /* a small program's pass takes no memory of its own */

typedef struct pass {
    const backward_call *call;
    node **outputs, **inputs; /* their places (owned; NULL: none) */
    node *few_outputs[FEW_PLACES], *few_inputs[FEW_PLACES];
    step *steps, *few; /* the first few live on the caller's stack */
    int count, capacity;
    bool numbered;
    bool tangents;       /* goes through OP_forward */
    uint64_t number;     /* never used twice */
    struct pass *around; /* a function's backward may run a pass */
    excursion *only;     /* of a pass through one function: what that is; else NULL */
} pass;

/* Collects the places under the outputs, and finds which of them are wanted. False: out of memory. */
bool pass_collect(pass *p);
int pass_first_leaf(const pass *p);      /* the first leaf's step, where leaves are last */
void pass_forget(pass *p);               /* gives the array of steps back */
int pass_run(pass *p, int from, int to); /* takes the steps of this range */
/* Leaves the steps of this range as if they had been taken: what their rules record is there. With the lock. */
void pass_skip(pass *p, int from, int to);
/* What a track makes of its gradient: a tensor of its own that is all of its memory, that of a leaf in the leaf's
 * strides, else as it came. Owned. */
bk_tensor *track_gradient(const track *k, const bk_tensor *g);

static inline step *step_of(const pass *p, const node *n)
{
    bool inside = n && n->visit >= 0 && n->visit < p->count && p->steps[n->visit].node == n;
    return inside ? &p->steps[n->visit] : NULL;
}

#endif
