/* rules_nn.c: gradients of losses whose parts would give others. */
#include "autograd/rules.h"
#include "core/tensor.h"
#include "ops/compose.h"

/* (x - y) / (x (1 - x)) with a divisor of at least 1e-12; for y, log(1 - x) - log(x), each at least -100. */
int grad_binary_cross_entropy(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *x = tensor_at(n->in[0], n->edge[0]), *y = tensor_at(n->in[2], n->edge[2]);
    bk_tensor *rest = ew_with(EW_add, bk_neg(x), number_int(1));
    if (n->edge[0]) {
        bk_tensor *spread = ew_with(EW_clamp_min, bk_mul(rest, x), number_float(1e-12));
        grads[0] = bk_div(bk_mul(g, bk_sub(x, y)), spread);
    }
    if (n->edge[2]) {
        bk_tensor *no = ew_with(EW_clamp_min, bk_log1p(bk_neg(x)), number_float(-100));
        grads[2] = bk_mul(g, bk_sub(no, ew_with(EW_clamp_min, bk_log(x), number_float(-100))));
    }
    return (n->edge[0] && !grads[0]) || (n->edge[2] && !grads[2]) ? -1 : 0;
}
