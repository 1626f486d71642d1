/* limit.h: what the limits for loops over time share: memory, products, rows by cores, and the clock. */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "brisk.h"
#include "core/memory.h"
#include "core/threads.h"
#include "cpu/gemm.h"

enum { ROUNDS = 15, WARM_UP = 3, MOST_WARM_UP = 40, WARM_UP_MS = 200 };

typedef struct sizes {
    int64_t t, b, i, h;
} sizes;

static inline float *numbers(int64_t count, int seed, double scale)
{
    float *data = pool_take((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)(sin((double)(i * 7 + seed * 131)) * scale);
    return data;
}

static inline void *packed_room(int64_t k, int64_t n) { return pool_take(gemm_packed_bytes(BK_FLOAT32, k, n)); }

/* c (+)= a b, b packed; rows of a and c follow each other. What is added at the end, a row or a matrix: or NULL. */
static inline void times_packed(int64_t m, int64_t n, int64_t k, const float *a, const float *packed, float *c,
                                bool add, const float *addend, int64_t addend_row)
{
    gemm_task task = { .dtype = BK_FLOAT32, .m = m, .n = n, .k = k, .addend = addend, .addend_row = addend_row };
    task.a = a;
    task.a_row = k;
    task.a_col = 1;
    task.packed_b = packed;
    task.c = c;
    task.c_row = n;
    task.c_col = 1;
    task.accumulate = add;
    if (gemm_has_few_rows(&task))
        gemm_run_columns(&task, 0, n, n);
    else
        gemm_run(&task);
}

/* c (+)= a^T b over `rows` rows of both. */
static inline void rows_product(int64_t rows, int64_t m, int64_t n, const float *a, const float *b, float *c, bool add)
{
    gemm_task task = { .dtype = BK_FLOAT32, .m = m, .n = n, .k = rows };
    task.a = a;
    task.a_row = 1;
    task.a_col = m;
    task.b = b;
    task.b_row = n;
    task.b_col = 1;
    task.c = c;
    task.c_row = n;
    task.c_col = 1;
    task.accumulate = add;
    gemm_run(&task);
}

/* Each core takes its rows of the batch through all steps. `work`: multiply-adds. */
static inline void over_rows(sizes n, double work, threads_fn step, void *arg)
{
    const int64_t threads = bk_get_num_threads(), grain = (n.b + threads - 1) / threads;
    threads_for(n.b, grain, work / 50, step, arg);
}

/* The sum of squares, in as many partial sums as keep vector units busy; each core takes its share of the rows. */
enum { SQUARE_SUMS = 64, SQUARE_PIECES = 64 };

typedef struct squares {
    const float *x;
    int64_t count;
    double sums[SQUARE_PIECES];
} squares;

static inline void add_squares(void *arg, int64_t begin, int64_t end)
{
    squares *s = arg;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t first = s->count * piece / SQUARE_PIECES, last = s->count * (piece + 1) / SQUARE_PIECES;
        float sums[SQUARE_SUMS] = { 0 };
        double total = 0;
        int64_t k = first;
        for (; k + SQUARE_SUMS <= last; k += SQUARE_SUMS)
            for (int j = 0; j < SQUARE_SUMS; j++)
                sums[j] += s->x[k + j] * s->x[k + j];
        for (; k < last; k++)
            total += s->x[k] * s->x[k];
        for (int j = 0; j < SQUARE_SUMS; j++)
            total += sums[j];
        s->sums[piece] = total;
    }
}

static inline double mean_square(const float *x, int64_t rows, int64_t width)
{
    squares s = { .x = x, .count = rows * width };
    double total = 0;
    threads_for(SQUARE_PIECES, 1, (double)s.count * 0.1, add_squares, &s);
    for (int piece = 0; piece < SQUARE_PIECES; piece++)
        total += s.sums[piece];
    return total / (double)s.count;
}

static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Whether another round comes before those that count: what runs often gets machine code only then. */
static inline bool is_cold(int rounds, double begun)
{
    return rounds < WARM_UP || (rounds < MOST_WARM_UP && now_ms() - begun < WARM_UP_MS);
}

static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static inline double lower_quartile(double *times)
{
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 4];
}

static inline double largest_difference(const float *a, const float *b, int64_t n)
{
    double apart = 0, largest = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        apart = fmax(apart, fabs((double)a[i] - b[i]));
        largest = fmax(largest, fabs((double)b[i]));
    }
    return apart / largest;
}

#endif
