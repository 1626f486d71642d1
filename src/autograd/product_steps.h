/* product_steps.h: the functions that PyTorch has for a product with a stack of matrices, which is one here, and for
 * attention, which is made of such. */
#ifndef BK_AUTOGRAD_PRODUCT_STEPS_H
#define BK_AUTOGRAD_PRODUCT_STEPS_H
#include "core/tensor.h"

enum { STEPS_ROOM = 512 };

/* kind: the word of a row of composed.def, which says what the first factor was: "vector" or "matrix", times a stack;
 * "stack": times another; "rows": a stack times a vector or a matrix that wants no gradient. "attention": of queries,
 * keys and values; then "+mask" and "+dropout" where it has these.
 * The name of the product's own function. */
const char *product_name(const char *kind, const node *place);
/* Writes the steps below it, in the language of composed.def. of: the factors' layouts, NULL where no gradient goes. */
void product_steps(const char *kind, const node *place, const layout *const *of, char out[static STEPS_ROOM]);
/* The same of a stack, argument 0, by the transpose of a matrix, argument 1, which wants a gradient or not; without the
 * view of the result. stack: NULL if it is row-major, or no gradient goes there. */
void product_by_weight(const layout *stack, bool wanted, char *out, size_t room);
/* The functions of a reshape of a tensor that looks like l (NULL: nobody knows), the last one second, or NULL: a view,
 * one by other strides, or a copy. */
const char *const *reshape_names(const layout *l, int ndim, const int64_t *sizes);

#endif
