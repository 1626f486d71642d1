/* gradients.c: a small fit by gradient descent, a second derivative, and a function with a gradient of its own, in C.
 *
 * Everything made between bk_scope_push and bk_scope_pop is released at the pop, but for what bk_retain keeps. */
#include <brisk.h>

#include <math.h>
#include <stdio.h>

enum { POINTS = 64, STEPS = 200 };

/* --- backward: y = a x + b, fitted ------------------------------------------------------------------------------- */

static int descend(bk_tensor *p, double rate)
{
    bool was = bk_set_grad_enabled(false); /* the step itself is not on the tape */
    int status = bk_copy_(p, bk_sub(p, bk_mul_s(bk_grad_of(p), rate)));
    bk_set_grad_enabled(was);
    return status < 0 ? -1 : bk_set_grad(p, NULL);
}

static int fit(double *slope, double *intercept)
{
    bk_scope_push();
    bk_tensor *x = bk_linspace(-1, 1, POINTS, BK_FLOAT32);
    bk_tensor *y = bk_add_s(bk_mul_s(x, 3), 0.5);
    bk_tensor *a = bk_zeros(0, NULL, BK_FLOAT32), *b = bk_zeros(0, NULL, BK_FLOAT32);
    int status = bk_set_requires_grad(a, true) < 0 || bk_set_requires_grad(b, true) < 0 ? -1 : 0;
    for (int i = 0; status == 0 && i < STEPS; i++) {
        bk_scope_push();
        bk_tensor *error = bk_sub(bk_add(bk_mul(x, a), b), y);
        status = bk_backward(bk_mean(bk_square(error), 0, false), NULL, false, false);
        if (status == 0)
            status = descend(a, 0.5) < 0 || descend(b, 0.5) < 0 ? -1 : 0;
        bk_scope_pop();
    }
    if (status == 0) {
        *slope = bk_item(a);
        *intercept = bk_item(b);
    }
    bk_scope_pop();
    return status;
}

/* --- bk_grad: derivatives of derivatives ---------------------------------------------------------------------------
 */

/* d^2 sin(x) / dx^2, in *second */
static int curvature(double at, double *second)
{
    bk_scope_push();
    bk_tensor *x = bk_scalar(at, BK_FLOAT64), *y = NULL, *slope = NULL, *bend = NULL;
    int status = bk_set_requires_grad(x, true);
    if (status == 0)
        y = bk_sin(x);
    if (status == 0)
        status = bk_grad(&y, NULL, 1, &x, 1, true, true, &slope);
    if (status == 0)
        status = bk_grad(&slope, NULL, 1, &x, 1, false, false, &bend);
    if (status == 0)
        *second = bk_item(bend);
    bk_release(slope); /* results of bk_grad are the caller's */
    bk_release(bend);
    bk_scope_pop();
    return status;
}

/* --- a function of one's own: x^3, its gradient written by hand ------------------------------------------------------
 */

static int cube_backward(void *data, bk_tensor *const *output_grads, int outputs, bk_tensor **input_grads, int inputs)
{
    bk_tensor *x = data;
    (void)outputs, (void)inputs;
    bk_scope_push();
    input_grads[0] = bk_retain(bk_mul(output_grads[0], bk_mul_s(bk_square(x), 3)));
    bk_scope_pop();
    return input_grads[0] ? 0 : -1;
}

static void cube_free(void *data) { bk_release(data); }

static bk_tensor *cube(bk_tensor *x)
{
    bool was = bk_set_grad_enabled(false); /* computed without a tape, then put on it */
    bk_tensor *out = bk_mul(x, bk_square(x));
    bk_set_grad_enabled(was);
    bk_function fn = { .name = "cube", .backward = cube_backward, .free = cube_free, .data = bk_retain(x) };
    return out && bk_function_apply(&fn, &x, 1, &out, 1) == 0 ? out : NULL;
}

static int slope_of_cube(double at, double *slope)
{
    bk_scope_push();
    bk_tensor *x = bk_scalar(at, BK_FLOAT64);
    int status = bk_set_requires_grad(x, true);
    if (status == 0)
        status = bk_backward(cube(x), NULL, false, false);
    if (status == 0)
        *slope = bk_item(bk_grad_of(x));
    bk_scope_pop();
    return status;
}

int main(void)
{
    double a = 0, b = 0, second = 0, slope = 0;
    if (fit(&a, &b) < 0 || curvature(1, &second) < 0 || slope_of_cube(2, &slope) < 0) {
        fprintf(stderr, "%s\n", bk_error());
        return 1;
    }
    printf("fitted: %.3f x + %.3f\n", a, b);
    printf("second derivative of sin at 1: %.6f (%.6f)\n", second, -sin(1));
    printf("slope of the cube at 2: %.1f\n", slope);
    bool right = fabs(a - 3) < 1e-3 && fabs(b - 0.5) < 1e-3 && fabs(second + sin(1)) < 1e-12 && slope == 12;
    return right ? 0 : 1;
}
