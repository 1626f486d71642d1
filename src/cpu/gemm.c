/* gemm.c: which way a product takes: by dot products where b is a vector, else by tiles, as it stands or transposed;
 * and batches of products.
 *
 * Invariant of the dot products: an element of c is the sum over steps of DOT_STEP, in order, of what the kernel gives
 * for one row and that step. That of the tiles is in gemm_tiles.c.
 *
 * Memory for copies is asked for, not relied on: without it operands are read where they lie. So a product cannot fail,
 * and no plan stops in the middle of one, with rows of c finished and others not. */
#include "cpu/gemm_internal.h"
#include "cpu/isa.h"
#include "core/memory.h"
#include "core/threads.h"
#include <string.h>

enum {
    DOT_STEP = 4096,    /* k per dot product; their sums are added up in order */
    DOT_BLOCK_ROWS = 8, /* rows of a gathered at a time when they aren't contiguous */
};

const gemm_kernels *gemm_kernels_for(bk_dtype dtype)
{
    int type = dtype == BK_FLOAT32 ? GEMM_F32 : dtype == BK_FLOAT64 ? GEMM_F64 : GEMM_I64;
#if defined(__x86_64__)
    static const gemm_kernels *const *const levels[] = {
        [ISA_BASELINE] = gemm_kernels_baseline,
        [ISA_AVX2] = gemm_kernels_avx2,
        [ISA_AVX512] = gemm_kernels_avx512,
    };
    return levels[isa_current()][type];
#else
    return gemm_kernels_baseline[type];
#endif
}

/* --- products by dot products: n == 1, unless the columns of a are contiguous -------------------------------- */

typedef struct dot_job {
    const gemm_task *task;
    const gemm_kernels *kernels;
    const char *x; /* b, contiguous */
    char *sums;    /* one for each row and step of k */
    int64_t steps; /* of k */
    int64_t row_blocks;
    atomic_bool failed;
} dot_job;

/* One piece: DOT_BLOCK_ROWS rows over one step of k. */
static void dot_piece(const dot_job *d, int64_t piece, char *rows_copy)
{
    const gemm_task *t = d->task;
    const int size = d->kernels->size;
    int64_t step = piece / d->row_blocks, row = piece % d->row_blocks * DOT_BLOCK_ROWS, k = step * DOT_STEP;
    int64_t rows = min_i64(DOT_BLOCK_ROWS, t->m - row), length = min_i64(DOT_STEP, t->k - k);
    const char *a = (const char *)t->a + (row * t->a_row + k * t->a_col) * size;
    int64_t a_row = t->a_row;
    if (t->a_col != 1) {
        gemm_copy_matrix(size, rows, length, a, a_row, t->a_col, rows_copy, DOT_STEP + GEMM_A_PAD);
        a = rows_copy;
        a_row = DOT_STEP + GEMM_A_PAD;
    }
    d->kernels->dots(rows, length, a, a_row, d->x + k * size, d->sums + (step * t->m + row) * size);
}

static void dot_pieces(void *arg, int64_t begin, int64_t end)
{
    dot_job *d = arg;
    size_t bytes = (size_t)(DOT_BLOCK_ROWS * (DOT_STEP + GEMM_A_PAD) * d->kernels->size);
    char *rows_copy = NULL;
    if (d->task->a_col != 1 && !(rows_copy = pool_try(bytes))) {
        atomic_store(&d->failed, true);
        return;
    }
    for (int64_t piece = begin; piece < end; piece++)
        dot_piece(d, piece, rows_copy);
    if (rows_copy)
        pool_give(rows_copy, bytes);
}

/* Memory is out: a row at a time, a step of k at a time, on the stack. The same sums in the same order. */
static void run_dots_bare(const gemm_task *t, const gemm_kernels *kernels)
{
    const int size = kernels->size;
    const char *x = t->packed_b ? t->packed_b : t->b;
    const int64_t x_step = t->packed_b ? 1 : t->b_row;
    _Alignas(64) char row_copy[DOT_STEP * 8], x_copy[DOT_STEP * 8], sum[64];
    for (int64_t k = 0; k < t->k; k += DOT_STEP) {
        const int64_t length = min_i64(DOT_STEP, t->k - k);
        gemm_copy_matrix(size, 1, length, x + k * x_step * size, 0, x_step, x_copy, 0);
        for (int64_t i = 0; i < t->m; i++) {
            gemm_copy_matrix(size, 1, length, (const char *)t->a + (i * t->a_row + k * t->a_col) * size, 0, t->a_col,
                             row_copy, 0);
            kernels->dots(1, length, row_copy, 0, x_copy, sum);
            kernels->add_up(1, 1, sum, (char *)t->c + i * t->c_row * size, 0, t->accumulate || k > 0);
        }
    }
}

/* Sums of pieces, then these added up in order. False: memory is out, and c is as it was. */
static bool run_dot_pieces(const gemm_task *t, const gemm_kernels *kernels)
{
    const int size = kernels->size;
    const int64_t steps = ceil_div(t->k, DOT_STEP);
    const bool copy_x = !t->packed_b && t->b_row != 1 && t->k > 1;
    const size_t sums_bytes = (size_t)(steps * t->m * size), x_bytes = copy_x ? (size_t)(t->k * size) : 0;
    const size_t bytes = (sums_bytes + 63) / 64 * 64 + x_bytes;
    _Alignas(64) char small[2048];
    char *scratch = bytes <= sizeof small ? small : pool_try(bytes);
    if (!scratch)
        return false;
    dot_job job = { .task = t, .kernels = kernels, .sums = scratch, .steps = steps };
    job.x = t->packed_b ? t->packed_b : t->b;
    job.row_blocks = ceil_div(t->m, DOT_BLOCK_ROWS);
    if (copy_x) {
        gemm_copy_matrix(size, 1, t->k, t->b, 0, t->b_row, scratch + bytes - x_bytes, 0);
        job.x = scratch + bytes - x_bytes;
    }
    const double work_ns = gemm_bytes_ns((double)t->m * (double)t->k * size);
    const int64_t pieces = steps * job.row_blocks;
    threads_for(pieces, 1 + (int64_t)(5e3 * (double)pieces / (work_ns + 1)), work_ns, dot_pieces, &job);
    const bool done = !atomic_load(&job.failed);
    if (done)
        kernels->add_up(t->m, steps, scratch, t->c, t->c_row, t->accumulate);
    if (scratch != small)
        pool_give(scratch, bytes);
    return done;
}

static void run_dots(const gemm_task *t, const gemm_kernels *kernels)
{
    if (!run_dot_pieces(t, kernels))
        run_dots_bare(t, kernels);
    if (t->epilogue)
        t->epilogue(t->epilogue_arg, 0, t->m);
}

/* --- entry ----------------------------------------------------------------------------------------------------- */

static void run_empty_k(const gemm_task *t)
{
    const size_t size = bk_dtype_size(t->dtype);
    if (!t->accumulate)
        for (int64_t i = 0; i < t->m; i++)
            for (int64_t j = 0; j < t->n; j++)
                memset((char *)t->c + (i * t->c_row + j * t->c_col) * (int64_t)size, 0, size);
    if (t->epilogue)
        t->epilogue(t->epilogue_arg, 0, t->m);
}

/* c^T = b^T a^T: the same sums, with rows and columns changing places. A packed b is a vector here. */
static void run_transposed(const gemm_task *t, const gemm_kernels *kernels)
{
    gemm_task swapped = {
        .dtype = t->dtype,
        .m = t->n,
        .n = t->m,
        .k = t->k,
        .accumulate = t->accumulate,
        .a = t->packed_b ? t->packed_b : t->b,
        .a_row = t->b_col,
        .a_col = t->packed_b ? 1 : t->b_row,
        .b = t->a,
        .b_row = t->a_col,
        .b_col = t->a_row,
        .c = t->c,
        .c_row = t->c_col,
        .c_col = t->c_row,
    };
    gemm_run_tiled(&swapped, kernels);
    if (t->epilogue)
        t->epilogue(t->epilogue_arg, 0, t->m);
}

/* Whether c^T is the better problem: its rows are contiguous and those of c aren't, or c has few columns. */
static bool should_transpose(const gemm_task *t, const gemm_kernels *kernels)
{
    if (t->n == 1)
        return true;
    if (t->packed_b || t->m == 1)
        return false;
    if (t->c_col != 1)
        return t->c_row == 1;
    return !t->epilogue && !t->addend && t->n <= kernels->nr / 4 && t->m >= 2 * kernels->nr;
}

static void run_one(const gemm_task *t)
{
    const gemm_kernels *kernels = gemm_kernels_for(t->dtype);
    if (t->n == 1 && (t->a_row != 1 || t->a_col == 1))
        run_dots(t, kernels);
    else if (should_transpose(t, kernels))
        run_transposed(t, kernels);
    else
        gemm_run_tiled(t, kernels);
}

int gemm_run(const gemm_task *t)
{
    if (t->m > 0)
        (t->n > 0 && t->k > 0 ? run_one : run_empty_k)(t);
    return 0;
}

/* --- batches --------------------------------------------------------------------------------------------------- */

typedef struct batch_job {
    gemm_task task;
    gemm_batch *batch;
} batch_job;

/* The rows of one product among those of all. */
typedef struct batch_rows {
    const gemm_task *task;
    int64_t before;
} batch_rows;

static void finish_batch_rows(void *arg, int64_t begin, int64_t end)
{
    const batch_rows *r = arg;
    r->task->epilogue(r->task->epilogue_arg, r->before + begin, r->before + end);
}

static void run_batch_range(void *arg, int64_t begin, int64_t end)
{
    batch_job *job = arg;
    const gemm_batch *batch = job->batch;
    const int64_t size = (int64_t)bk_dtype_size(job->task.dtype);
    for (int64_t at = begin; at < end; at++) {
        gemm_task task = job->task;
        int64_t left = at, a = 0, b = 0, c = 0;
        for (int d = batch->ndim - 1; d >= 0; d--) {
            const int64_t i = left % batch->sizes[d];
            left /= batch->sizes[d];
            a += i * batch->a[d];
            b += i * batch->b[d];
            c += i * batch->c[d];
        }
        task.a = (const char *)task.a + a * size;
        task.b = (const char *)task.b + b * size;
        task.c = (char *)task.c + c * size;
        batch_rows rows = { &job->task, at * task.m };
        if (task.epilogue) {
            task.epilogue = finish_batch_rows;
            task.epilogue_arg = &rows;
        }
        gemm_run(&task);
    }
}

/* Batch dimensions over one b whose rows of a and c follow on from one product to the next are rows of one product. */
static void fold_batch(batch_job *job)
{
    gemm_task *t = &job->task;
    gemm_batch *batch = job->batch;
    for (; batch->ndim > 0; batch->ndim--) {
        const int last = batch->ndim - 1;
        const bool follows = batch->a[last] == t->m * t->a_row && batch->c[last] == t->m * t->c_row;
        if (batch->sizes[last] != 1 && !(batch->b[last] == 0 && follows))
            return;
        t->m *= batch->sizes[last];
    }
}

int gemm_run_batch(const gemm_task *task, gemm_batch *batch)
{
    batch_job job = { .task = *task, .batch = batch };
    fold_batch(&job);
    int64_t count = 1;
    for (int d = 0; d < batch->ndim; d++)
        count *= batch->sizes[d];
    const gemm_task *t = &job.task;
    const double one_ns =
        2.0 * (double)t->m * (double)t->n * (double)t->k / gemm_kernels_for(t->dtype)->flops_per_ns + 100;
    /* A product that can occupy all threads for long does so; others are dealt out whole. */
    if (count >= 4 * bk_get_num_threads() || one_ns < 200e3)
        threads_for(count, 1 + (int64_t)(5e3 / one_ns), one_ns * (double)count, run_batch_range, &job);
    else
        run_batch_range(&job, 0, count);
    return 0;
}
