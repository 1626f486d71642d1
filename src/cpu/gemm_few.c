/* gemm_few.c: products of few rows, a range of columns at a time, with nothing around the micro-kernels.
 *
 * Such a product reads each element of b once: what counts is that it is read at the speed of the cache it lies in, and
 * that a step of a recurrence, a microsecond of work, does not pay for choices that its first one made already.
 *
 * Invariant: an element of c is the sum that gemm_tiles.c gives, steps of k in the same order. */
#include "cpu/gemm_internal.h"

enum { MOST_BYTES = 1 << 21 }; /* of b: they stay in L2 */

/* How columns are read: their k from `at` on, `rows` rows from `row` on. */
typedef struct few {
    const gemm_task *task;
    const gemm_kernels *kernels;
    gemm_steps steps;
    int64_t at, row, rows;
    const char *a; /* the first of them */
    bool add;      /* to what is in c */
    bool last;     /* of the steps of k */
} few;

/* The kernels of a number of rows, and how many columns each takes. */
typedef struct choice {
    gemm_tile_fn wide, pair, one;
    int64_t wide_columns, pair_columns;
} choice;

static choice choose(const few *f)
{
    const gemm_kernels *kernels = f->kernels;
    const int64_t rows = f->rows;
    const bool lean = kernels->lean[0][0][rows] && f->steps.a_col == 1;
    const choice c = { kernels->wide[rows], kernels->pair[rows], lean ? kernels->lean[0][0][rows] : kernels->tile[rows],
                       kernels->wide_panels[rows] * kernels->nr, 2 * kernels->nr };
    return c;
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

static void run_columns(few *f, const choice *kernel, int64_t begin, int64_t end)
{
    const gemm_task *t = f->task;
    const int64_t size = f->kernels->size, nr = f->kernels->nr;
    for (int64_t col = begin, columns; col < end; col += columns) {
        if (col + nr > t->n) {
            run_edge(f, col);
            return;
        }
        const bool wide = kernel->wide && end - col >= kernel->wide_columns;
        const bool pair = !wide && kernel->pair && end - col >= kernel->pair_columns;
        const gemm_tile_fn run = wide ? kernel->wide : pair ? kernel->pair : kernel->one;
        columns = wide ? kernel->wide_columns : pair ? kernel->pair_columns : nr;
        const char *b = t->packed_b ? (const char *)t->packed_b + (col * t->k + f->at * nr) * size
                                    : (const char *)t->b + (f->at * t->b_row + col) * size;
        char *c = (char *)t->c + (f->row * t->c_row + col) * size;
        if (f->last && t->addend)
            f->steps.addend = (const char *)t->addend + (f->row * t->addend_row + col) * size;
        run(&f->steps, f->a, b, f->add ? c : NULL, c);
    }
}

/* Rows are dealt out evenly, as gemm_tiles.c does: to two tiles at most, and without a division, which takes as long as
 * a few k. */
static void run_step(few *f, int64_t begin, int64_t end, int64_t apart)
{
    const gemm_task *t = f->task;
    const int64_t half = t->m > f->kernels->mr ? t->m / 2 : t->m;
    const int64_t last = apart < t->n ? (t->n - 1) / apart * apart : 0;
    for (f->row = 0; f->row < t->m; f->row += f->rows) {
        f->rows = f->row ? t->m - f->row : half;
        f->a = (const char *)t->a + (f->row * t->a_row + f->at * t->a_col) * f->kernels->size;
        const choice kernel = choose(f);
        for (int64_t at = 0; at <= last; at += apart) {
            const int64_t from = t->back ? last - at : at;
            run_columns(f, &kernel, from + begin, from + end);
        }
    }
}

void gemm_run_columns(const gemm_task *t, int64_t begin, int64_t end, int64_t apart)
{
    const gemm_kernels *kernels = gemm_kernels_for(t->dtype);
    const int64_t nr = kernels->nr;
    few f; /* field by field: clearing it first takes as long as a tenth of a small product */
    f.task = t;
    f.kernels = kernels;
    f.add = t->accumulate;
    f.steps.a_row = t->a_row;
    f.steps.a_col = t->a_col;
    f.steps.b_row = t->packed_b ? nr : t->b_row;
    f.steps.b_panel = t->packed_b ? nr * t->k : nr;
    f.steps.c_row = f.steps.from_row = t->c_row;
    f.steps.addend = NULL;
    f.steps.addend_row = t->addend_row;
    f.steps.keep = NULL;
    f.steps.next = t->a;
    f.steps.next_step = f.steps.next_jump = 0;
    f.steps.next_run = INT64_MAX;
    for (f.at = 0; f.at < t->k; f.at += GEMM_STEP_K) {
        f.steps.k = min_i64(GEMM_STEP_K, t->k - f.at);
        f.last = f.at + f.steps.k == t->k;
        run_step(&f, begin, end, apart);
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
