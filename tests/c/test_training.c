/* A C program trains: losses have gradients, steps of the optimisers move the parameters as the formulas say. */
#include <math.h>

#include "brisk.h"
#include "tap.h"

static bool near(double a, double b) { return fabs(a - b) <= 1e-5 * (1 + fabs(b)); }

static double element(bk_tensor *t, int k) { return ((float *)bk_data(t))[k]; }

static bk_tensor *parameter(const float *values, int64_t n)
{
    bk_tensor *p = bk_from_data(values, 1, &n, BK_FLOAT32);
    bk_set_requires_grad(p, true);
    return p;
}

/* The gradient of the sum of squares is 2 p. */
static void set_gradient(bk_tensor *p)
{
    bk_set_grad(p, NULL);
    bk_tensor *square = bk_square(p), *loss = bk_sum(square, 0, false);
    bk_backward(loss, NULL, false, false);
    bk_release(loss);
    bk_release(square);
}

static void test_sgd(void)
{
    bk_tensor *p = parameter((float[]){ 1, -2 }, 2), *momentum = NULL;
    bk_sgd_options o = { .lr = 0.1, .momentum = 0.5 };
    set_gradient(p);
    tap_ok(bk_sgd_step(&p, &momentum, 1, &o) == 0 && near(element(p, 0), 0.8) && near(element(p, 1), -1.6),
           "SGD steps along the gradient");
    set_gradient(p);
    bk_sgd_step(&p, &momentum, 1, &o);
    tap_ok(near(element(p, 0), 0.8 - 0.1 * (0.5 * 2 + 1.6)), "and along its decaying sum");
    bk_release(p);
    bk_release(momentum);
}

static void test_adam(void)
{
    bk_tensor *p = parameter((float[]){ 1, -2 }, 2);
    bk_adam_state state = { 0 };
    bk_adam_options o = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    set_gradient(p);
    tap_ok(bk_adam_step(&p, &state, 1, &o) == 0 && near(element(p, 0), 0.9) && near(element(p, 1), -1.9),
           "Adam's first step has the size of its rate");
    bk_set_grad(p, NULL);
    tap_ok(bk_adam_step(&p, &state, 1, &o) == 0 && state.steps == 1, "a parameter without a gradient stays");
    bk_adam_state_release(&state, 1);
    bk_release(p);
}

static void test_rmsprop(void)
{
    bk_tensor *p = parameter((float[]){ 1, -2 }, 2);
    bk_rmsprop_state state = { 0 };
    bk_rmsprop_options o = { .lr = 0.1, .alpha = 0.99, .eps = 1e-8 };
    set_gradient(p);
    tap_ok(bk_rmsprop_step(&p, &state, 1, &o) == 0 && near(element(p, 0), 0),
           "RMSprop divides by the root of the square");
    bk_rmsprop_state_release(&state, 1);
    bk_release(p);
}

static void test_cross_entropy(void)
{
    const int64_t sizes[2] = { 2, 2 }, two = 2;
    bk_scope_push();
    bk_tensor *x = bk_zeros(2, sizes, BK_FLOAT32);
    bk_tensor *target = bk_from_data((int64_t[]){ 0, -100 }, 1, &two, BK_INT64);
    bk_tensor *bad = bk_from_data((int64_t[]){ 0, 2 }, 1, &two, BK_INT64);
    bk_tensor *loss = bk_cross_entropy(x, target, NULL, -100, 0, BK_REDUCE_MEAN);
    tap_ok(loss && near(bk_item(loss), log(2)), "cross entropy leaves out what is ignored");
    tap_ok(!bk_cross_entropy(x, bad, NULL, -100, 0, BK_REDUCE_MEAN) && bk_error_code() == BK_INDEX_ERROR,
           "a target that is no class is an error");
    bk_error_clear();
    bk_scope_pop();
}

int main(void)
{
    test_sgd();
    test_adam();
    test_rmsprop();
    test_cross_entropy();
    return tap_done();
}
