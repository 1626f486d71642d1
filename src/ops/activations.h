/* activations.h: the activations that are not rows of ops.def. The lock is held by the caller. */
#ifndef BK_OPS_ACTIVATIONS_H
#define BK_OPS_ACTIVATIONS_H
#include "core/tensor.h"

bk_tensor *act_hardtanh(const bk_tensor *x, operand lo, operand hi);
bk_tensor *act_threshold(const bk_tensor *x, operand threshold, operand value);
bk_tensor *act_hardshrink(const bk_tensor *x, double lambda);
bk_tensor *act_softshrink(const bk_tensor *x, double lambda);
bk_tensor *act_elu(const bk_tensor *x, double alpha, double scale, double input_scale);
bk_tensor *act_logsigmoid(const bk_tensor *x);
bk_tensor *act_softplus(const bk_tensor *x, double beta, double threshold);

#endif
