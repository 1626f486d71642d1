/* compose.h: elementwise functions made of others, over operands: tensors, or numbers that keep their category.
 *
 * All of them record under the lock, which the caller holds. Half precision is computed in float32 and rounded once, as
 * PyTorch's kernels do. */
#ifndef BK_OPS_COMPOSE_H
#define BK_OPS_COMPOSE_H
#include "core/tensor.h"

/* A tensor as an operand; with value == NULL and the error set when t is NULL. */
bool operand_of(const bk_tensor *t, operand *out);
/* op over a tensor and an operand, in this order; NULL passes through. */
bk_tensor *ew_unary(int op, const bk_tensor *x);
bk_tensor *ew_with(int op, const bk_tensor *x, operand y);
bk_tensor *ew_both(int op, const bk_tensor *x, const bk_tensor *y);
/* condition ? x : y */
bk_tensor *ew_choose(const bk_tensor *condition, operand x, operand y);

/* t, a result that nobody else has, in memory of these strides; or in memory like x's, as PyTorch's kernels do that
 * make room for their result before they run: where it counts only in dimensions of one element. In a scope. */
bk_tensor *laid_as(bk_tensor *t, const layout *l);
bk_tensor *laid_like(bk_tensor *t, const bk_tensor *x);

/* x + alpha y, x - alpha y */
bk_tensor *add_scaled(operand x, operand y, operand alpha, bool subtract);
bk_tensor *addcmul(operand x, operand a, operand b, operand value);
bk_tensor *addcdiv(operand x, operand a, operand b, operand value);
/* lo, hi: NULL for none. */
bk_tensor *clamp_between(operand x, const operand *lo, const operand *hi);
/* With a rounding mode, "trunc" or "floor"; NULL: it is named, as none. */
bk_tensor *divide(operand x, operand y, const char *mode);
bk_tensor *float_power(operand x, operand y);
bk_tensor *is_close(const bk_tensor *x, const bk_tensor *y, double rtol, double atol, bool equal_nan);
/* Each number NULL for the default. */
bk_tensor *replace_nan(const bk_tensor *x, const double *nan, const double *posinf, const double *neginf);
bk_tensor *is_infinite(const bk_tensor *x);
bk_tensor *is_finite(const bk_tensor *x);
bk_tensor *soft_sign(const bk_tensor *x);
bk_tensor *round_decimals(const bk_tensor *x, int64_t decimals);
/* eps < 0: none */
bk_tensor *logit(const bk_tensor *x, double eps);

#endif
