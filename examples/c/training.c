/* training.c: a small network fitted to a curve, from C. examples/python/training.py is the same program: with the same
 * seed it starts from the same weights and prints the same losses. */
#include <brisk.h>

#include <math.h>
#include <stdio.h>

enum { LAYERS = 3, HIDDEN = 32, ROWS = 256, BATCH = 64, EPOCHS = 61 };

static const int64_t widths[LAYERS + 1] = { 1, HIDDEN, HIDDEN, 1 };
static bk_tensor *params[2 * LAYERS]; /* weight, bias, weight, ... */
static bk_adam_state states[2 * LAYERS];

/* As PyTorch draws a linear layer: the weight, then the bias, both within 1 / sqrt(inputs). */
static int make_layer(int i)
{
    double bound = 1 / sqrt((double)widths[i]);
    bk_tensor *weight = bk_empty(2, (int64_t[]){ widths[i + 1], widths[i] }, BK_FLOAT32);
    bk_tensor *bias = bk_empty(1, &widths[i + 1], BK_FLOAT32);
    params[2 * i] = weight;
    params[2 * i + 1] = bias;
    if (bk_uniform_(weight, -bound, bound, NULL) < 0 || bk_uniform_(bias, -bound, bound, NULL) < 0)
        return -1;
    return bk_set_requires_grad(weight, true) < 0 || bk_set_requires_grad(bias, true) < 0 ? -1 : 0;
}

static bk_tensor *forward(bk_tensor *x)
{
    for (int i = 0; i < LAYERS; i++) {
        x = bk_linear(x, params[2 * i], params[2 * i + 1]);
        if (i < LAYERS - 1)
            x = bk_tanh(x);
    }
    return x;
}

/* One step; the loss, or NAN with the error set. A NULL from any call travels on to the next, which returns NULL too.
 */
static double step(const bk_tensor *x, const bk_tensor *y, int64_t from)
{
    const bk_adam_options adam = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    double value = NAN;
    bk_scope_push();
    bk_tensor *inputs = bk_slice(x, 0, from, from + BATCH, 1), *targets = bk_slice(y, 0, from, from + BATCH, 1);
    for (int i = 0; i < 2 * LAYERS; i++)
        bk_set_grad(params[i], NULL);
    bk_tensor *loss = bk_mse_loss(forward(inputs), targets, BK_REDUCE_MEAN);
    if (loss && bk_backward(loss, NULL, false, false) == 0 && bk_adam_step(params, states, 2 * LAYERS, &adam) == 0)
        value = bk_item(loss);
    bk_scope_pop();
    return value;
}

int main(void)
{
    bk_manual_seed(7);
    for (int i = 0; i < LAYERS; i++)
        if (make_layer(i) < 0)
            return fprintf(stderr, "%s\n", bk_error()), 1;
    bk_scope_push();
    bk_tensor *x = bk_unsqueeze(bk_linspace(-1, 1, ROWS, BK_FLOAT32), 1);
    bk_tensor *y = bk_add(bk_sin(bk_mul_s(x, 4)), bk_mul_s(x, 0.5));
    double total = 0;
    for (int epoch = 0; epoch < EPOCHS && total == total; epoch++) {
        total = 0;
        for (int64_t from = 0; from < ROWS; from += BATCH)
            total += step(x, y, from);
        if (epoch % 20 == 0)
            printf("epoch %2d  loss %.5f\n", epoch, total / (ROWS / BATCH));
    }
    if (total != total)
        fprintf(stderr, "%s\n", bk_error());
    bk_scope_pop();
    bk_adam_state_release(states, 2 * LAYERS);
    for (int i = 0; i < 2 * LAYERS; i++)
        bk_release(params[i]);
    return total == total ? 0 : 1;
}
