/* recurrence.c: the limit for loops over time, and how near brisk's own loop comes to it.
 *
 * The limit is the best plan that we know for h = tanh(x[t] Wx^T + b + h Wh^T), forward and backward, as a straight
 * program without a planner: the input's product for all steps at once, each core taking its rows through all steps
 * without waiting, weights packed once, the gradients of the weights as one product each over all steps. It runs on the
 * library's own kernels, so the distance to it is what recording, planning and running a plan cost.
 *
 * The first call of a process costs the limit something, too: code and memory that nobody has touched, and a thread.
 * `recurrence first T B I H` tells how many times a later one. */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <stdio.h>
#include <string.h>

#include "cpu/ew.h"
#include "limit.h"

/* Rows of all steps follow each other: row t * b + r is row r of step t. */
typedef struct recurrence {
    sizes n;
    float *x, *wx, *wh, *bias;
    float *outputs, *dz;
    float *dwx, *dwh, *dbias;
    float *packed_wx, *packed_wh, *packed_wh_turned;
    float *zeros, *ones;
    double loss;
} recurrence;

static recurrence *recurrence_new(sizes n)
{
    recurrence *r = malloc(sizeof *r);
    int64_t rows = n.t * n.b;
    r->n = n;
    r->x = numbers(rows * n.i, 1, 1);
    r->wx = numbers(n.h * n.i, 2, 0.05);
    r->wh = numbers(n.h * n.h, 3, 0.05);
    r->bias = numbers(n.h, 4, 0.05);
    r->outputs = numbers(rows * n.h, 0, 0);
    r->dz = numbers(rows * n.h, 0, 0);
    r->dwx = numbers(n.h * n.i, 0, 0);
    r->dwh = numbers(n.h * n.h, 0, 0);
    r->dbias = numbers(n.h, 0, 0);
    r->zeros = numbers(n.b * n.h, 0, 0);
    r->ones = numbers(rows, 0, 0);
    for (int64_t i = 0; i < rows; i++)
        r->ones[i] = 1;
    r->packed_wx = packed_room(n.i, n.h);
    r->packed_wh = packed_room(n.h, n.h);
    r->packed_wh_turned = packed_room(n.h, n.h);
    return r;
}

static void recurrence_free(recurrence *r)
{
    const sizes n = r->n;
    const int64_t rows = n.t * n.b;
    struct {
        void *p;
        int64_t count;
    } parts[] = { { r->x, rows * n.i },       { r->wx, n.h * n.i },  { r->wh, n.h * n.h },   { r->bias, n.h },
                  { r->outputs, rows * n.h }, { r->dz, rows * n.h }, { r->dwx, n.h * n.i },  { r->dwh, n.h * n.h },
                  { r->dbias, n.h },          { r->ones, rows },     { r->zeros, n.b * n.h } };
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        pool_give(parts[k].p, (size_t)parts[k].count * sizeof(float));
    pool_give(r->packed_wx, gemm_packed_bytes(BK_FLOAT32, n.i, n.h));
    pool_give(r->packed_wh, gemm_packed_bytes(BK_FLOAT32, n.h, n.h));
    pool_give(r->packed_wh_turned, gemm_packed_bytes(BK_FLOAT32, n.h, n.h));
    free(r);
}

/* --- the limit ---------------------------------------------------------------------------------------------------- */

/* The rows [begin, end) of the batch through all steps. */
static void forward_rows(void *arg, int64_t begin, int64_t end)
{
    const recurrence *r = arg;
    const sizes n = r->n;
    const int64_t rows = end - begin;
    const ew_table *kernels = ew_kernels();
    for (int64_t t = 0; t < n.t; t++) {
        float *z = r->outputs + (t * n.b + begin) * n.h;
        if (t)
            times_packed(rows, n.h, n.h, z - n.b * n.h, r->packed_wh, z, true, NULL, 0);
        for (int64_t k = 0; k < rows; k++)
            kernels->op[EW_add][COMPUTE_F32](n.h, z + k * n.h, z + k * n.h, r->bias, NULL);
        kernels->op[EW_tanh][COMPUTE_F32](rows * n.h, z, z, NULL, NULL);
    }
}

/* dz = (2 h / count + dz[t + 1] Wh) (1 - h^2), from the last step to the first. */
static void backward_rows(void *arg, int64_t begin, int64_t end)
{
    const recurrence *r = arg;
    const sizes n = r->n;
    const float scale = 2.f / (float)(n.t * n.b * n.h);
    for (int64_t t = n.t - 1; t >= 0; t--) {
        const float *h = r->outputs + (t * n.b + begin) * n.h;
        float *dz = r->dz + (t * n.b + begin) * n.h;
        const int64_t count = (end - begin) * n.h;
        if (t + 1 < n.t)
            times_packed(end - begin, n.h, n.h, dz + n.b * n.h, r->packed_wh_turned, dz, false, NULL, 0);
        else
            memset(dz, 0, (size_t)count * sizeof *dz);
        for (int64_t k = 0; k < count; k++)
            dz[k] = (scale * h[k] + dz[k]) * (1 - h[k] * h[k]);
    }
}

static void run_limit(recurrence *r)
{
    const sizes n = r->n;
    const int64_t rows = n.t * n.b;
    gemm_pack(BK_FLOAT32, n.i, n.h, r->wx, 1, n.i, r->packed_wx);
    gemm_pack(BK_FLOAT32, n.h, n.h, r->wh, 1, n.h, r->packed_wh);
    gemm_pack(BK_FLOAT32, n.h, n.h, r->wh, n.h, 1, r->packed_wh_turned);
    times_packed(rows, n.h, n.i, r->x, r->packed_wx, r->outputs, false, NULL, 0);
    over_rows(n, (double)(rows * n.h * n.h), forward_rows, r);
    r->loss = mean_square(r->outputs, rows, n.h);
    over_rows(n, (double)(rows * n.h * n.h), backward_rows, r);
    rows_product(rows, n.h, n.i, r->dz, r->x, r->dwx, false);
    rows_product(rows - n.b, n.h, n.h, r->dz + n.b * n.h, r->outputs, r->dwh, false);
    rows_product(rows, 1, n.h, r->ones, r->dz, r->dbias, false);
}

/* --- the loop as it is written ------------------------------------------------------------------------------------ */

typedef struct model {
    sizes n;
    bk_tensor *x, *wx, *wh, *bias;
} model;

static bk_tensor *weight(const float *data, int ndim, const int64_t *shape)
{
    bk_tensor *w = bk_from_data(data, ndim, shape, BK_FLOAT32);
    bk_set_requires_grad(w, true);
    return w;
}

static void run_loop(const model *m)
{
    const sizes n = m->n;
    bk_scope_push();
    bk_scope_push(); /* what the loop made is let go of, as at the end of a function */
    bk_tensor *h = bk_zeros(2, (int64_t[]){ n.b, n.h }, BK_FLOAT32), **steps = malloc((size_t)n.t * sizeof *steps);
    for (int64_t t = 0; t < n.t; t++) {
        bk_tensor *of_x = bk_linear(bk_select(m->x, 0, t), m->wx, m->bias);
        steps[t] = h = bk_tanh(bk_add(of_x, bk_linear(h, m->wh, NULL)));
    }
    bk_tensor *all = bk_retain(bk_stack(steps, (int)n.t, 0)), *loss = bk_retain(bk_mean(bk_square(all), 0, false));
    bk_scope_pop();
    bk_set_grad(m->wx, NULL);
    bk_set_grad(m->wh, NULL);
    bk_set_grad(m->bias, NULL);
    bk_backward(loss, NULL, false, false);
    bk_release(loss);
    bk_release(all);
    free(steps);
    bk_scope_pop();
}

/* --- comparing them ----------------------------------------------------------------------------------------------- */

/* What the limit's first call takes, in later ones: of the process that calls this. */
static double first_of_limit(sizes n)
{
    recurrence *r = recurrence_new(n);
    double begin = now_ms(), later[ROUNDS];
    run_limit(r);
    const double first = now_ms() - begin;
    begin = now_ms();
    for (int cold = 0; is_cold(cold, begin); cold++)
        run_limit(r);
    for (int round = 0; round < ROUNDS; round++) {
        begin = now_ms();
        run_limit(r);
        later[round] = now_ms() - begin;
    }
    recurrence_free(r);
    return first / lower_quartile(later);
}

/* The same of some new processes; 0: they cannot be had. */
static double first_in_process(const char *program, sizes n)
{
    double found[ROUNDS] = { 0 };
    char command[512];
    snprintf(command, sizeof command, "'%s' first %lld %lld %lld %lld", program, (long long)n.t, (long long)n.b,
             (long long)n.i, (long long)n.h);
    for (int round = 0; round < ROUNDS; round++) {
        FILE *answer = popen(command, "r");
        if (!answer || fscanf(answer, "%lf", &found[round]) != 1)
            found[round] = 0;
        if (answer)
            pclose(answer);
    }
    return lower_quartile(found);
}

static void compare(const char *program, sizes n)
{
    recurrence *r = recurrence_new(n);
    bk_scope_push();
    model m = { n, bk_from_data(r->x, 3, (int64_t[]){ n.t, n.b, n.i }, BK_FLOAT32),
                weight(r->wx, 2, (int64_t[]){ n.h, n.i }), weight(r->wh, 2, (int64_t[]){ n.h, n.h }),
                weight(r->bias, 1, &n.h) };
    double limit[ROUNDS], loop[ROUNDS], begin = now_ms();
    run_loop(&m);
    const double first = now_ms() - begin;
    begin = now_ms();
    for (int cold = 0; is_cold(cold, begin); cold++)
        run_loop(&m);
    run_limit(r);
    for (int round = 0; round < ROUNDS; round++) { /* side by side, so that a slow moment meets both */
        double start = now_ms();
        run_limit(r);
        double between = now_ms();
        run_loop(&m);
        limit[round] = between - start;
        loop[round] = now_ms() - between;
    }
    const double best = lower_quartile(limit), as_written = lower_quartile(loop);
    const double apart = largest_difference(r->dwh, bk_data(bk_grad_of(m.wh)), n.h * n.h);
    printf("%5lld,%3lld,%3lld,%3lld  limit %8.3f ms   loop %8.3f ms, %4.2f times the limit   first call %8.3f ms   "
           "the limit's in a process %4.2f times a later one   gradients apart by %.0e\n",
           (long long)n.t, (long long)n.b, (long long)n.i, (long long)n.h, best, as_written, as_written / best, first,
           first_in_process(program, n), apart);
    bk_scope_pop();
    recurrence_free(r);
}

int main(int count, char **arguments)
{
    static const sizes cases[] = { { 100, 32, 128, 128 }, { 100, 32, 256, 256 }, { 50, 64, 512, 512 },
                                   { 200, 1, 128, 128 },  { 28, 128, 32, 128 },  { 1000, 16, 64, 64 } };
    if (count == 6 && !strcmp(arguments[1], "first")) {
        const sizes n = { atoll(arguments[2]), atoll(arguments[3]), atoll(arguments[4]), atoll(arguments[5]) };
        printf("%f\n", first_of_limit(n));
        return 0;
    }
    if (count == 5) {
        const sizes n = { atoll(arguments[1]), atoll(arguments[2]), atoll(arguments[3]), atoll(arguments[4]) };
        compare(arguments[0], n);
        return 0;
    }
    printf("h = tanh(x[t] Wx^T + b + h Wh^T), forward and backward; T, B, I, H:\n");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        compare(arguments[0], cases[k]);
    return 0;
}
