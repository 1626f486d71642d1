/* normalise.h: rows that are normalised as a whole, and what their gradients are made of. */
#ifndef BK_OPS_NORMALISE_H
#define BK_OPS_NORMALISE_H
#include "core/tensor.h"

/* (x - mean) / sqrt(variance + eps) over the last `count` dimensions, or without centring x / sqrt(mean square + eps).
 * x is float32 or float64. */
bk_tensor *standardised_rows(const bk_tensor *x, int count, double eps, bool centred);

/* Of a node that standardises rows, or of its gradient: the gradient for x, the rows again, 1 / sqrt(variance + eps).
 */
bk_tensor *standardised_gradient(const node *n, const bk_tensor *g, const bk_tensor *x);
bk_tensor *standardised_again(const node *n, const bk_tensor *x);
bk_tensor *row_scale(const node *n, const bk_tensor *x);
uint32_t row_dims(const node *n);

/* Whether a softmax runs over the last dimension of floats or doubles; its gradient then. */
bool is_of_rows(const node *n);
bk_tensor *softmax_gradient(const bk_tensor *g, const bk_tensor *y);

#endif
