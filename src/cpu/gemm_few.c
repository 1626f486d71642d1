/* gemm_few.c: products of few rows, a range of columns at a time, with nothing around the micro-kernels.
 *
 * Such a product reads each element of b once: what counts is that it is read at the speed of the cache it lies in, and
 * that a step of a recurrence, a microsecond of work, does not pay for choices that its first one made already.
 *
 * Invariant: an element of c is the sum that gemm_tiles.c gives, steps of k in the same order. */
#include "cpu/gemm_internal.h"

enum { MOST_BYTES = 1 << 21 }; /* of b: they stay in L2 */

/* How a range of columns is read: its k from `at` on, `rows` rows from `row` on. */
typedef struct few {
    const gemm_task *task;
    const gemm_kernels *kernels;
    gemm_steps steps;
    int64_t at, row, rows;
    const char *a; /* the first of them */
    bool add;      /* to what is in c */
    bool last;     /* of the steps of k */
} few;

/* The panels from `col` on that one call takes, and its kernel. */
static int panels_from(const few *f, int64_t col, int64_t end, gemm_tile_fn *run)
{
    const gemm_kernels *kernels = f->kernels;
    const int64_t left = (end - col) / kernels->nr;
    const int wide = kernels->wide_panels[f->rows];
    const bool whole = wide && left >= wide, pair = !whole && kernels->pair[f->rows] && left >= 2;
    const gemm_tile_fn *one = kernels->lean[0][0][1] && f->steps.a_col == 1 ? kernels->lean[0][0] : kernels->tile;
    *run = (whole ? kernels->wide : pair ? kernels->pair : one)[f->rows];
    return whole ? wide : pair ? 2 : 1;
}

/* The last columns, fewer than a panel has. */
static void run_edge(const few *f, int64_t col)
{
    const gemm_task *t = f->task;
    const gemm_kernels *kernels = f->kernels;
    const int64_t size = kernels->size, cols = t->n - col;
    _Alignas(64) char tile[GEMM_MAX_ROWS * GEMM_MAX_PANEL_BYTES], own[GEMM_SLICE_BYTES];
    const char *b = (const char *)t->packed_b + (col * t->k + f->at * kernels->nr) * size;
    char *c = (char *)t->c + (f->row * t->c_row + col) * size;
    if (!t->packed_b) {
        const gemm_factor factor = {
            .kernels = kernels, .k = t->k, .n = t->n, .b = t->b, .b_row = t->b_row, .b_col = t->b_col
        };
        gemm_pack_slice(&factor, f->at, f->steps.k, col, own);
        b = own;
    }
    gemm_steps steps = f->steps;
    steps.b_row = steps.c_row = kernels->nr;
    steps.addend = NULL;
    kernels->tile[f->rows](&steps, f->a, b, NULL, tile);
    kernels->store((int)f->rows, cols, tile, c, t->c_row, 1, f->add);
    if (f->last && t->addend) {
        const char *more = (const char *)t->addend + (f->row * t->addend_row + col) * size;
        gemm_copy_matrix((int)size, f->rows, cols, more, t->addend_row, 1, tile, kernels->nr);
        kernels->store((int)f->rows, cols, tile, c, t->c_row, 1, true);
    }
}

static void run_columns(few *f, int64_t begin, int64_t end)
{
    const gemm_task *t = f->task;
    const int64_t size = f->kernels->size, nr = f->kernels->nr;
    for (int64_t col = begin; col < end;) {
        if (col + nr > t->n) {
            run_edge(f, col);
            return;
        }
        gemm_tile_fn run;
        const int panels = panels_from(f, col, end, &run);
        const char *b = t->packed_b ? (const char *)t->packed_b + (col * t->k + f->at * nr) * size
                                    : (const char *)t->b + (f->at * t->b_row + col) * size;
        char *c = (char *)t->c + (f->row * t->c_row + col) * size;
        if (f->last && t->addend)
            f->steps.addend = (const char *)t->addend + (f->row * t->addend_row + col) * size;
        run(&f->steps, f->a, b, f->add ? c : NULL, c);
        col += panels * nr;
    }
}

/* One step of k; rows are dealt out evenly, as gemm_tiles.c does. */
static void run_step(few *f, int64_t begin, int64_t end)
{
    const gemm_task *t = f->task;
    const int64_t tiles = ceil_div(t->m, f->kernels->mr);
    for (int64_t i = 0; i < tiles; i++) {
        f->row = t->m * i / tiles;
        f->rows = t->m * (i + 1) / tiles - f->row;
        f->a = (const char *)t->a + (f->row * t->a_row + f->at * t->a_col) * f->kernels->size;
        run_columns(f, begin, end);
    }
}

void gemm_run_columns(const gemm_task *t, int64_t begin, int64_t end)
{
    const gemm_kernels *kernels = gemm_kernels_for(t->dtype);
    const int64_t nr = kernels->nr;
    few f = { .task = t, .kernels = kernels, .add = t->accumulate };
    f.steps = (gemm_steps){ .a_row = t->a_row,
                            .a_col = t->a_col,
                            .b_row = t->packed_b ? nr : t->b_row,
                            .b_panel = t->packed_b ? nr * t->k : nr,
                            .c_row = t->c_row,
                            .from_row = t->c_row,
                            .addend_row = t->addend_row,
                            .next = t->a,
                            .next_run = INT64_MAX };
    for (f.at = 0; f.at < t->k; f.at += GEMM_STEP_K) {
        f.steps.k = min_i64(GEMM_STEP_K, t->k - f.at);
        f.last = f.at + f.steps.k == t->k;
        run_step(&f, begin, end);
        f.add = true;
    }
}

bool gemm_has_few_rows(const gemm_task *t)
{
    const gemm_kernels *kernels = gemm_kernels_for(t->dtype);
    return t->m >= 1 && t->m <= 2 * kernels->mr && t->n > 1 && t->k > 0 && t->c_col == 1 &&
           (t->packed_b || t->b_col == 1) && t->k * t->n * kernels->size <= MOST_BYTES;
}

void gemm_pack_columns(const gemm_task *t, int64_t begin, int64_t end, void *packed)
{
    const gemm_factor f = { .kernels = gemm_kernels_for(t->dtype),
                            .k = t->k,
                            .n = t->n,
                            .b = t->b,
                            .b_row = t->b_row,
                            .b_col = t->b_col,
                            .packed = packed };
    for (int64_t col = begin; col < end; col += f.kernels->nr)
        gemm_pack_slice(&f, 0, t->k, col, gemm_slice_place(&f, 0, col));
}
