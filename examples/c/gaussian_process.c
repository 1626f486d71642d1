/* gaussian_process.c: a smooth curve from noisy points, by a Gaussian process: gradients go through a Cholesky
 * factorisation, twice. examples/python/gaussian_process.py is the same program and prints the same numbers.
 *
 * How smooth, how large and how noisy the curve is are three logarithms, found where the points are most likely. The
 * curvature there says how well the points determine them. */
#include <brisk.h>

#include <math.h>
#include <stdio.h>

enum { POINTS = 40, STEPS = 121, LENGTH = 0, SCALE, NOISE, LOGS };

static const double log_2_pi = 1.8378770664093453;
static bk_tensor *x, *y;

/* exp(power * logs[i]) */
static bk_tensor *parameter(const bk_tensor *logs, int i, double power)
{
    return bk_exp(bk_mul_s(bk_select(logs, 0, i), power));
}

/* scale^2 exp(-(a - b)^2 / (2 length^2)) for every pair: (places of a, places of b) */
static bk_tensor *covariance(const bk_tensor *a, const bk_tensor *b, const bk_tensor *logs)
{
    bk_tensor *apart = bk_div(bk_sub(bk_unsqueeze(a, 1), b), parameter(logs, LENGTH, 1));
    return bk_mul(parameter(logs, SCALE, 2), bk_exp(bk_mul_s(bk_square(apart), -0.5)));
}

static bk_tensor *factor(const bk_tensor *logs)
{
    bk_tensor *noise = bk_mul(bk_eye(POINTS, POINTS, BK_FLOAT64), parameter(logs, NOISE, 2));
    return bk_cholesky(bk_add(covariance(x, x, logs), noise), false, true);
}

/* -log of the density of y: (|L^-1 y|^2 + POINTS log 2 pi) / 2 + log det L */
static bk_tensor *misfit(const bk_tensor *logs)
{
    bk_tensor *l = factor(logs);
    bk_tensor *z = bk_solve_triangular(l, bk_unsqueeze(y, 1), false, true, false);
    bk_tensor *half = bk_mul_s(bk_add_s(bk_sum(bk_square(z), 0, false), POINTS * log_2_pi), 0.5);
    return bk_add(half, bk_sum(bk_log(bk_diagonal(l, 0, 0, 1)), 0, false));
}

static int fit(bk_tensor *logs)
{
    const bk_adam_options adam = { .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    bk_adam_state state = { 0 };
    int status = bk_set_requires_grad(logs, true);
    for (int i = 0; status == 0 && i < STEPS; i++) {
        bk_scope_push();
        bk_set_grad(logs, NULL);
        bk_tensor *loss = misfit(logs);
        status = bk_backward(loss, NULL, false, false);
        if (status == 0)
            status = bk_adam_step(&logs, &state, 1, &adam);
        if (status == 0 && i % 40 == 0)
            printf("step %3d  -log likelihood %8.4f\n", i, bk_item(loss));
        bk_scope_pop();
    }
    bk_adam_state_release(&state, 1);
    return status;
}

/* The standard errors of the logarithms: the inverse of the matrix of second derivatives, its diagonal, the roots. */
static bk_tensor *errors(bk_tensor *logs)
{
    bk_tensor *loss = misfit(logs), *slope = NULL, *rows[LOGS] = { 0 }, *out = NULL;
    int status = bk_grad(&loss, NULL, 1, &logs, 1, true, true, &slope);
    for (int i = 0; status == 0 && i < LOGS; i++) {
        bk_tensor *one = bk_select(slope, 0, i);
        status = bk_grad(&one, NULL, 1, &logs, 1, true, false, &rows[i]);
    }
    if (status == 0)
        out = bk_sqrt(bk_diagonal(bk_inverse(bk_stack(rows, LOGS, 0), true), 0, 0, 1));
    for (int i = 0; i < LOGS; i++) /* results of bk_grad are the caller's */
        bk_release(rows[i]);
    bk_release(slope);
    return out;
}

/* How far the curve is from sin(2 x), at the worst of three places; NAN with the error set. */
static double worst(const bk_tensor *logs)
{
    bk_tensor *places = bk_linspace(-1, 1, 3, BK_FLOAT64);
    bk_tensor *weights = bk_cholesky_solve(bk_unsqueeze(y, 1), factor(logs), false);
    bk_tensor *curve = bk_squeeze(bk_matmul(covariance(places, x, logs), weights), 1);
    return bk_item(bk_amax(bk_abs(bk_sub(curve, bk_sin(bk_mul_s(places, 2)))), 0, false));
}

int main(void)
{
    const char *names[LOGS] = { "length", "scale", "noise" };
    const int64_t points = POINTS, count = LOGS;
    bk_scope_push();
    bk_manual_seed(0);
    x = bk_linspace(-3, 3, POINTS, BK_FLOAT64);
    y = bk_add(bk_sin(bk_mul_s(x, 2)), bk_mul_s(bk_randn(1, &points, BK_FLOAT64, NULL), 0.1));
    bk_tensor *logs = bk_zeros(1, &count, BK_FLOAT64);
    int status = fit(logs);
    bk_tensor *spread = status == 0 ? errors(logs) : NULL;
    const double *value = bk_data(logs), *error = bk_data(spread);
    double off = error ? worst(logs) : NAN;
    if (isnan(off)) {
        fprintf(stderr, "%s\n", bk_error());
    } else {
        for (int i = 0; i < LOGS; i++)
            printf("%-6s %.3f, to within %.0f%%\n", names[i], exp(value[i]), 100 * error[i]);
        printf("the curve is off by %.3f at most\n", off);
    }
    bk_scope_pop();
    return off < 0.1 ? 0 : 1;
}
