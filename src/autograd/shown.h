/* shown.h: the gradient functions that the tape shows, as PyTorch has them: where one leads to, and what it gives when
 * somebody calls it.
 *
 * Such a function may be several records, and a record several functions (its steps). A call is a pass through the
 * records of one function alone: it begins with the gradients of its results, and what it sends out of the function is
 * what the call gives. */
#ifndef BK_AUTOGRAD_SHOWN_H
#define BK_AUTOGRAD_SHOWN_H
#include "autograd/composed.h"

/* What was sent out of a function, and who sent it. */
typedef struct sent {
    const node *from, *to;
    bk_tensor *g; /* owned */
} sent;

/* A pass through one function: the place of its result, and what else is inside. */
typedef struct excursion {
    node *place;
    uint64_t since;   /* what was recorded from here on is the function's */
    bool views;       /* but for views and casts of its arguments */
    const node *part; /* that was written to: it and the views on the way to its base are the function's; or NULL */
    const node *base;
    const node *at; /* whose turn it is */
    sent *out;
    int count, capacity;
} excursion;

/* Whether n, which records of the function lead to, is none of them. */
bool excursion_ends(const excursion *e, const node *n);
int excursion_send(excursion *e, const node *to, bk_tensor *g); /* g is borrowed */

/* Where step `step` of a place leads to; the count, or -1 when memory is out. *out is the caller's to free. */
int shown_ways(node *place, int step, composed_way **out);
/* Whether what was made at a place, and is no view here, is one of a result inside of its function in PyTorch. A write
 * to it (node.in_view) is one to that result there, of which it is an as_strided then: step 1 is the write. */
bool shown_is_inner_view(const node *place);
/* The place that a way out leads to: operands that are repeated are no function of PyTorch's. NULL: nowhere. */
node *shown_end(node *place);
/* How many gradients it takes: one for each result. */
int shown_results(const node *place);
/* Whether the function at a place that is no step of another has other gradients than those of its last record. */
bool shown_is_several(const node *place);
/* Whether its arguments are a list of tensors, whose gradients PyTorch computes all if one is wanted. */
bool shown_is_list(const node *place);
/* Calls it with the gradients of its results (NULL: none). Hooks do not run, saved values stay. The count of *ways and
 * *grads, -1: failed; each gradient is a reference of its own or NULL, both arrays are the caller's to free. */
int shown_call(node *place, int step, bk_tensor *const *gradients, composed_way **ways, bk_tensor ***grads);
/* The same with the gradient of the result alone that a place stands for, where the function has others, too. */
int shown_call_result(node *place, int step, bk_tensor *const *gradients, composed_way **ways, bk_tensor ***grads);

#endif
