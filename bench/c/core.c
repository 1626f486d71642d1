/* core.c: what the core costs, in C: recording, cache hits, planning, fused chains, allocations.
 *
 * Each figure is the lower quartile of many rounds; the limits are those of the design, printed beside the figures. A
 * fused chain is compared with the same loop written by hand (hand.c), a product with its micro-kernel alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "brisk.h"
#include "core/memory.h"
#include "cpu/gemm.h"
#include "cpu/gemm_kernels.h"
#include "cpu/isa.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "hand.h"

enum { ROUNDS = 41, WARM = 300 }; /* warm: code for the group has been made, too */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double lower_quartile(double *times)
{
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 4];
}

static bk_tensor *filled(int64_t n, float scale)
{
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = scale * (float)(i % 1000) / 1000;
    bk_tensor *t = bk_from_data(data, 1, &n, BK_FLOAT32);
    free(data);
    return t;
}

/* c = c + b, `ops` times, without evaluating. */
static bk_tensor *chain(bk_tensor *a, bk_tensor *b, int ops)
{
    bk_tensor *c = bk_retain(a);
    for (int i = 0; i < ops; i++) {
        bk_tensor *next = bk_add(c, b);
        bk_release(c);
        c = next;
    }
    return c;
}

static void recording(void)
{
    enum { OPS = 1000 };
    bk_tensor *a = filled(8, 1), *b = filled(8, 2);
    double record[ROUNDS], flush[ROUNDS], plan[ROUNDS];
    int64_t allocations = 0;
    for (int r = -WARM; r < ROUNDS; r++) {
        double start = now_ns();
        bk_tensor *c = chain(a, b, OPS);
        double recorded = now_ns();
        if (r == 0)
            allocations = mem_count();
        bk_sync();
        double done = now_ns();
        bk_release(c);
        if (r >= 0) {
            record[r] = (recorded - start) / OPS;
            flush[r] = (done - recorded) / OPS;
        }
    }
    allocations = mem_count() - allocations;
    for (int r = 0; r < ROUNDS; r++) { /* the same log, looked up but not run: everything but the kernels */
        bk_tensor *c = chain(a, b, OPS);
        double start = now_ns();
        flush_lookup();
        plan[r] = (now_ns() - start) / OPS;
        bk_sync();
        bk_release(c);
    }
    printf("record an op (take, check, hash, give)   %7.1f ns   (limit 30)\n", lower_quartile(record));
    printf("plan-cache hit, per record                %7.1f ns   (limit 15)\n", lower_quartile(plan));
    printf("flush with evaluation, per record         %7.1f ns\n", lower_quartile(flush));
    printf("allocations in %d warm rounds             %7lld      (limit 0)\n", ROUNDS, (long long)allocations);
    bk_release(a);
    bk_release(b);
}

static double plan_time(int ops)
{
    bk_tensor *a = filled(8, 1), *b = filled(8, 2);
    double times[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        bk_tensor *c = chain(a, b, ops);
        cache_clear();
        double start = now_ns();
        flush_plan();
        times[r] = now_ns() - start;
        bk_sync();
        bk_release(c);
    }
    bk_release(a);
    bk_release(b);
    return lower_quartile(times) / ops;
}

static double run_one_by_one(int ops)
{
    bk_tensor *a = filled(8, 1), *b = filled(8, 2);
    double start = now_ns();
    bk_tensor *c = bk_retain(a);
    for (int i = 0; i < ops; i++) {
        bk_tensor *next = bk_add(c, b);
        bk_release(c);
        c = next;
        bk_sync();
    }
    double each = (now_ns() - start) / ops;
    bk_release(c);
    bk_release(a);
    bk_release(b);
    return each;
}

static void planning(void)
{
    double few = plan_time(10000), many = plan_time(100000);
    printf("planning, per record of 10,000            %7.1f ns   (running them one by one: %.1f ns)\n", few,
           run_one_by_one(10000));
    printf("planning, per record of 100,000           %7.1f ns   (%.2fx; linear is 1)\n", many, many / few);
}

static hand_fn hand_loop(void)
{
    switch (isa_current()) {
#ifdef HAVE_AVX512
    case ISA_AVX512: return hand_avx512;
#endif
#ifdef HAVE_AVX2
    case ISA_AVX2: return hand_avx2;
#endif
    default: return hand_baseline;
    }
}

static bk_tensor *record_chain(const bk_tensor *x, const bk_tensor *y, const bk_tensor *z)
{
    bk_scope_push();
    bk_tensor *t = bk_add(bk_mul(x, y), z);
    bk_tensor *u = bk_retain(bk_sub(bk_mul(bk_reciprocal(bk_add_s(bk_mul(t, t), 1)), x), y));
    bk_scope_pop();
    return u;
}

/* 1 / (1 + (x * y + z)^2) * x - y, by hand and through the engine: all of it, and without recording its seven ops and
 * finding their plan, which have limits of their own. By hand the result has its memory for good, as a loop would have
 * it; the engine gives a new tensor each time. */
static void fused(int64_t n)
{
    bk_set_num_threads(1);
    bk_tensor *x = filled(n, 1), *y = filled(n, 2), *z = filled(n, 3);
    float *px = bk_data(x), *py = bk_data(y), *pz = bk_data(z), *out = pool_take((size_t)n * 4);
    double all[ROUNDS], run[ROUNDS], hand[ROUNDS];
    const hand_fn loop = hand_loop();
    for (int r = -WARM; r < ROUNDS; r++) {
        const double begin = now_ns();
        loop(n, px, py, pz, out);
        const double start = now_ns();
        bk_tensor *u = record_chain(x, y, z);
        const double recorded = now_ns();
        bk_sync();
        const double done = now_ns();
        bk_release(u);
        u = record_chain(x, y, z);
        const double look = now_ns();
        flush_lookup();
        const double found = now_ns();
        bk_sync();
        bk_release(u);
        if (r >= 0) {
            hand[r] = start - begin;
            all[r] = done - start;
            run[r] = done - recorded - (found - look);
        }
    }
    const double a = lower_quartile(all), b = lower_quartile(hand), c = lower_quartile(run);
    printf("fused chain of %8lld elements          %7.2fx hand-fused (limit 1.3), %.2fx with recording and look-up; "
           "by hand %.2f ns an element\n",
           (long long)n, c / b, a / b, b / (double)n);
    pool_give(out, (size_t)n * 4);
    bk_release(x);
    bk_release(y);
    bk_release(z);
}

/* A product of n x n beside its straight limit: the largest tile of the micro-kernel alone, on operands in L1. */
static void product(int64_t n)
{
    bk_set_num_threads(1);
    const gemm_kernels *kernels = gemm_kernels_for(BK_FLOAT32);
    const size_t bytes = (size_t)(n * n) * 4;
    float *a = pool_take(bytes), *b = pool_take(bytes), *c = pool_take(bytes);
    for (int64_t i = 0; i < n * n; i++)
        a[i] = b[i] = c[i] = (float)(i % 7);
    enum { K = 128, TILES = 200, PRODUCTS = 5 };
    const gemm_steps steps = { .k = K,
                               .a_row = K + 16,
                               .a_col = 1,
                               .b_row = kernels->nr,
                               .c_row = 64,
                               .from_row = 64,
                               .next = (char *)b,
                               .next_run = INT64_MAX };
    const gemm_task task = { .dtype = BK_FLOAT32,
                             .m = n,
                             .n = n,
                             .k = n,
                             .a = a,
                             .a_row = n,
                             .a_col = 1,
                             .b = b,
                             .b_row = n,
                             .b_col = 1,
                             .c = c,
                             .c_row = n,
                             .c_col = 1 };
    double tile[ROUNDS], whole = INFINITY;
    for (int r = 0; r < ROUNDS; r++) {
        double start = now_ns();
        for (int i = 0; i < TILES; i++)
            kernels->tile[kernels->mr](&steps, a, b, c, c);
        tile[r] = (now_ns() - start) / TILES;
    }
    for (int r = 0; r < PRODUCTS; r++) {
        double start = now_ns();
        gemm_run(&task);
        whole = fmin(whole, now_ns() - start);
    }
    const double limit = 2.0 * kernels->mr * kernels->nr * K / lower_quartile(tile), each = (double)n;
    const double speed = 2 * each * each * each / whole;
    printf("product of %4lld x %4lld, one thread       %7.1f gigaflops, %.0f%% of the micro-kernel's %.1f\n",
           (long long)n, (long long)n, speed, 100 * speed / limit, limit);
    pool_give(a, bytes);
    pool_give(b, bytes);
    pool_give(c, bytes);
}

int main(void)
{
    recording();
    planning();
    fused(4096);
    fused(100000);
    fused(1000000);
    product(64);
    product(512);
    product(2048);
    return 0;
}
