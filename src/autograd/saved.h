/* saved.h: values that a rule reads, of written leaves and of packed values. */
#ifndef BK_AUTOGRAD_SAVED_H
#define BK_AUTOGRAD_SAVED_H
#include "autograd/hooks.h"

/* Input k of n was the leaf (whole: not a view of it) before somebody wrote to it: refused, or, after a write through
 * .data, n gets what stands there now. -1: failed. */
int saved_of_written(node *n, int k, const track *leaf, bool whole);
/* The rule of n over the values that were packed. */
int saved_packed_rule(node *n, const hooks *h, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS]);

#endif
