/* view_steps.h: the functions that PyTorch has for an index, which is one view here. */
#ifndef BK_AUTOGRAD_VIEW_STEPS_H
#define BK_AUTOGRAD_VIEW_STEPS_H
#include "core/tensor.h"

enum { MAX_VIEW_STEPS = 2 * BK_MAX_NDIM };

/* x[0, 1:] is a slice of a select in PyTorch. Writes what was done, the last first, and returns how many functions
 * that is; 1 for whatever is no index. */
int view_steps(const node *place, view_op out[static MAX_VIEW_STEPS]);
/* Whether a view is one of several made at once, and which. */
bool view_is_part(const node *place);
int view_part(const node *place);
/* The gradient of what the last of these functions before `step` gave, from that of its own result: by one of several.
 */
bk_tensor *view_step_gradient(const node *place, int step, bk_tensor *g);
/* What a select, slice or unsqueeze was called with: dimension, start, end (the largest number where it goes to the
 * end) and step. */
void view_step_numbers(const node *place, int step, int64_t out[static 4]);
/* The sizes of what it was called on; how many: dimensions may be made before others are dropped. */
int view_step_sizes(const node *place, int step, int64_t out[static MAX_VIEW_STEPS]);

#endif
