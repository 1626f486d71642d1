/* gemm_rows.c: products summed over rows that come in runs: the gradient of a weight from some rows of a batch, at
 * every step of a loop.
 *
 * Whoever has computed these rows adds them up, on his core, where they still are. c is small and stays in cache.
 *
 * Invariant: an element of c is the sum over blocks of runs in order, each block's begun at zero. */
#include "cpu/gemm_internal.h"
#include <string.h>

/* The runs of a block, and where they begin. */
typedef struct block {
    const gemm_rows *task;
    const gemm_kernels *kernels;
    gemm_steps steps;
    const char *a, *b;
    bool add;
} block;

/* The last columns of b, fewer than a panel has: they are copied, with zeros beside them. */
static void pack_edge(const block *s, int64_t col, char *to)
{
    const gemm_rows *t = s->task;
    const int64_t size = s->kernels->size, nr = s->kernels->nr, cols = t->n - col;
    for (int64_t run = 0; run < s->steps.runs; run++)
        for (int64_t row = 0; row < t->rows; row++, to += nr * size) {
            memset(to, 0, (size_t)(nr * size));
            memcpy(to, s->b + (run * t->b_run + row * t->b_row + col) * size, (size_t)(cols * size));
        }
}

static void run_panel(block *s, int64_t col)
{
    const gemm_rows *t = s->task;
    const gemm_kernels *kernels = s->kernels;
    const int64_t size = kernels->size, nr = kernels->nr, tiles = ceil_div(t->m, kernels->mr);
    const bool edge = col + nr > t->n;
    _Alignas(64) char tile[GEMM_MAX_ROWS * GEMM_MAX_PANEL_BYTES], own[GEMM_SLICE_BYTES];
    const char *b = edge ? own : s->b + col * size;
    gemm_steps steps = s->steps;
    if (edge) {
        pack_edge(s, col, own);
        steps.b_row = steps.c_row = nr;
        steps.b_run = nr * t->rows;
    }
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t row = t->m * i / tiles, rows = t->m * (i + 1) / tiles - row;
        char *c = (char *)t->c + (row * t->n + col) * size;
        kernels->strung[rows](&steps, s->a + row * size, b, s->add && !edge ? c : NULL, edge ? tile : c);
        if (edge)
            kernels->store((int)rows, t->n - col, tile, c, t->n, 1, s->add);
    }
}

void gemm_add_rows(const gemm_rows *t)
{
    const gemm_kernels *kernels = gemm_kernels_for(t->dtype);
    const int64_t most = GEMM_MOST_RUN / t->rows;
    block s = { .task = t, .kernels = kernels, .add = t->accumulate };
    s.steps = (gemm_steps){ .k = t->rows, .a_col = t->a_row, .b_row = t->b_row, .a_run = t->a_run, .b_run = t->b_run };
    s.steps.c_row = s.steps.from_row = t->n;
    for (int64_t run = 0; run < t->runs; run += most, s.add = true) {
        s.steps.runs = min_i64(most, t->runs - run);
        s.a = (const char *)t->a + run * t->a_run * kernels->size;
        s.b = (const char *)t->b + run * t->b_run * kernels->size;
        for (int64_t col = 0; col < t->n; col += kernels->nr)
            run_panel(&s, col);
    }
}
