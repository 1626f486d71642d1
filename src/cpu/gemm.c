/* gemm.c: blocking, packing and threading of matrix products around the micro-kernels of gemm_kernels.c.
 *
 * c is cut into a grid of blocks, one piece of work each. Within a block k goes by in steps of STEP_K; b is read panel
 * by panel (a panel's STEP_K rows stay in L1 for all rows of the block), a tile by tile (a block's STEP_K columns stay
 * in L2). Packing is only a matter of where a kernel reads its operands, so it is done where it pays: few rows read b
 * where it lies, many pack it once for all threads.
 *
 * Invariant: an element of c is the sum over steps of STEP_K, in order, each step's sum begun at zero and added up in
 * ascending k. No choice made here (grid, tiles, packing, which operand is called a) changes that.
 *
 * Memory for copies is asked for, not relied on: without it operands are read where they lie. So a product cannot fail,
 * and no plan stops in the middle of one, with rows of c finished and others not. */
#include "cpu/gemm.h"
#include "cpu/gemm_kernels.h"
#include "cpu/isa.h"
#include "cpu/turn.h"
#include "core/memory.h"
#include "core/threads.h"
#include <stdatomic.h>
#include <string.h>

enum {
    STEP_K = 256,       /* 32 KB of a panel at most, beside 14 KB of a's tile, in 48 KB of L1; half with AVX2 */
    BLOCK_ROWS = 126,   /* rows of a that share a panel: whole tiles of 14 and 6; 134 KB of float32 in L2 */
    A_PAD = 16,         /* keeps the copied rows of a off the same cache sets */
    DOT_STEP = 4096,    /* k per dot product; their sums are added up in order */
    DOT_BLOCK_ROWS = 8, /* rows of a gathered at a time when they aren't contiguous */
    MAX_ROW_BLOCKS = 256,
    LINE_BYTES = 64,
    SLICE_BYTES = STEP_K * GEMM_MAX_PANEL_BYTES,
};

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

/* --- moving matrices ----------------------------------------------------------------------------------------- */

typedef uint32_t word32 __attribute__((may_alias));
typedef uint64_t word64 __attribute__((may_alias));

/* cols times one element. */
static void repeat(int size, int64_t cols, const char *from, char *to)
{
    const word32 narrow = *(const word32 *)from;
    const word64 wide = size == 8 ? *(const word64 *)from : 0;
    if (size == 4)
        for (int64_t j = 0; j < cols; j++)
            ((word32 *)to)[j] = narrow;
    else
        for (int64_t j = 0; j < cols; j++)
            ((word64 *)to)[j] = wide;
}

static void copy_strided(int size, int64_t rows, int64_t cols, const char *from, int64_t from_row, int64_t from_col,
                         char *to, int64_t to_row)
{
    for (int64_t i = 0; i < rows; i++) {
        const char *source = from + i * from_row * size;
        char *target = to + i * to_row * size;
        if (from_col == 1)
            memcpy(target, source, (size_t)(cols * size));
        else if (from_col == 0) /* the gradient of a sum */
            repeat(size, cols, source, target);
        else if (size == 4)
            for (int64_t j = 0; j < cols; j++)
                ((word32 *)target)[j] = ((const word32 *)source)[j * from_col];
        else
            for (int64_t j = 0; j < cols; j++)
                ((word64 *)target)[j] = ((const word64 *)source)[j * from_col];
    }
}

/* Copies a rows x cols matrix of any strides to one of contiguous rows. */
static void copy_matrix(int size, int64_t rows, int64_t cols, const char *from, int64_t from_row, int64_t from_col,
                        char *to, int64_t to_row)
{
    const turn_kernels *turn = turn_current();
    if (from_row == 1 && from_col != 1 && rows > 1)
        (size == 4 ? turn->words : turn->longs)(rows, cols, from, from_col, to, to_row);
    else
        copy_strided(size, rows, cols, from, from_row, from_col, to, to_row);
}

/* A slice of b as kernels read it: `rows` rows of `nr` columns, those beyond `cols` zero. */
static void pack_panel(const gemm_kernels *kernels, int64_t rows, int64_t cols, const char *b, int64_t b_row,
                       int64_t b_col, char *to)
{
    const int size = kernels->size, nr = kernels->nr;
    copy_matrix(size, rows, cols, b, b_row, b_col, to, nr);
    if (cols < nr)
        for (int64_t i = 0; i < rows; i++)
            memset(to + (i * nr + cols) * size, 0, (size_t)((nr - cols) * size));
}

/* The packed form: panels of nr columns one after another, the last filled up with zeros; a vector stays a vector. */
size_t gemm_packed_bytes(bk_dtype dtype, int64_t k, int64_t n)
{
    const gemm_kernels *kernels = gemm_kernels_for(dtype);
    int64_t columns = n == 1 ? 1 : ceil_div(n, kernels->nr) * kernels->nr;
    return (size_t)(columns * k * kernels->size);
}

typedef struct pack_job {
    const gemm_kernels *kernels;
    int64_t k, n;
    const char *b;
    int64_t b_row, b_col;
    char *packed;
} pack_job;

/* Rows of whole panels: a row of b is read across all of them, since memory is fast along rows. */
static void pack_rows(const pack_job *p, int64_t begin, int64_t end)
{
    enum { TOGETHER = 8 };
    const int64_t size = p->kernels->size, row_bytes = p->kernels->nr * size, panel_bytes = row_bytes * p->k;
    for (int64_t first = begin; first < end; first += TOGETHER) {
        const int64_t count = min_i64(TOGETHER, end - first);
        for (int64_t k = 0; k < p->k; k++) {
            const char *from = p->b + k * p->b_row * size + first * row_bytes;
            char *to = p->packed + first * panel_bytes + k * row_bytes;
            for (int64_t panel = 0; panel < count; panel++, to += panel_bytes)
                for (int64_t at = 0; at < row_bytes; at += 32, from += 32)
                    memcpy(to + at, from, 32);
        }
    }
}

static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *p = arg;
    const int size = p->kernels->size, nr = p->kernels->nr;
    if (p->b_col == 1) {
        const int64_t whole = min_i64(end, p->n / nr);
        pack_rows(p, begin, whole);
        begin = whole > begin ? whole : begin;
    }
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t col = panel * nr;
        pack_panel(p->kernels, p->k, min_i64(nr, p->n - col), p->b + col * p->b_col * size, p->b_row, p->b_col,
                   p->packed + col * p->k * size);
    }
}

void gemm_pack(bk_dtype dtype, int64_t k, int64_t n, const void *b, int64_t b_row, int64_t b_col, void *packed)
{
    pack_job job = { gemm_kernels_for(dtype), k, n, b, b_row, b_col, packed };
    if (k == 0 || n == 0)
        return;
    if (n == 1)
        copy_matrix(job.kernels->size, 1, k, b, 0, b_row, packed, 0);
    else
        threads_for(ceil_div(n, job.kernels->nr), 1, 0.3 * (double)(k * n), pack_panels, &job);
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
        copy_matrix(size, rows, length, a, a_row, t->a_col, rows_copy, DOT_STEP + A_PAD);
        a = rows_copy;
        a_row = DOT_STEP + A_PAD;
    }
    d->kernels->dots(rows, length, a, a_row, d->x + k * size, d->sums + (step * t->m + row) * size);
}

static void dot_pieces(void *arg, int64_t begin, int64_t end)
{
    dot_job *d = arg;
    size_t bytes = (size_t)(DOT_BLOCK_ROWS * (DOT_STEP + A_PAD) * d->kernels->size);
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

static double bytes_ns(double bytes) { return bytes * 0.05; } /* about 20 GB/s from memory */

/* Memory is out: a row at a time, a step of k at a time, on the stack. The same sums in the same order. */
static void run_dots_bare(const gemm_task *t, const gemm_kernels *kernels)
{
    const int size = kernels->size;
    const char *x = t->packed_b ? t->packed_b : t->b;
    const int64_t x_step = t->packed_b ? 1 : t->b_row;
    _Alignas(64) char row_copy[DOT_STEP * 8], x_copy[DOT_STEP * 8], sum[64];
    for (int64_t k = 0; k < t->k; k += DOT_STEP) {
        const int64_t length = min_i64(DOT_STEP, t->k - k);
        copy_matrix(size, 1, length, x + k * x_step * size, 0, x_step, x_copy, 0);
        for (int64_t i = 0; i < t->m; i++) {
            copy_matrix(size, 1, length, (const char *)t->a + (i * t->a_row + k * t->a_col) * size, 0, t->a_col,
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
        copy_matrix(size, 1, t->k, t->b, 0, t->b_row, scratch + bytes - x_bytes, 0);
        job.x = scratch + bytes - x_bytes;
    }
    const double work_ns = bytes_ns((double)t->m * (double)t->k * size);
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

/* --- products by tiles ---------------------------------------------------------------------------------------- */

typedef struct tile_job {
    const gemm_task *task;
    const gemm_kernels *kernels;
    const char *packed; /* all of b, or NULL */
    bool turn_b;        /* few rows and columns of b contiguous: its panels are turned as they are read */
    bool copy_a;        /* the rows of a block are copied before use */
    int64_t row_blocks, col_blocks;
    atomic_int blocks_left[MAX_ROW_BLOCKS]; /* of each row of blocks, while there are several columns of them */
} tile_job;

/* One step of k within a block of c: where its operands lie. */
typedef struct tile_step {
    const gemm_kernels *kernels;
    gemm_steps steps;
    const char *a; /* the first row of the block, at the step's first k */
    char *c;       /* the same row of c, at column 0 */
    int64_t rows, c_col;
    bool add;
} tile_step;

/* A tile by way of a buffer: for the last columns, and where the columns of c are apart. */
static void run_edge_tile(const tile_step *s, gemm_tile_fn run, int rows, int64_t cols, const char *a, const char *b,
                          char *c)
{
    _Alignas(64) char tile[GEMM_MAX_ROWS * GEMM_MAX_PANEL_BYTES];
    gemm_steps steps = s->steps;
    steps.next = b;
    steps.next_step = 0;
    steps.c_row = s->kernels->nr;
    run(&steps, a, b, tile, false);
    s->kernels->store(rows, cols, tile, c, s->steps.c_row, s->c_col, s->add);
}

/* All rows of the block against `panels` panels of b. The rows are dealt out evenly: 16 rows are 8 and 8, not 14 and
 * 2, since a low tile runs slower. Meanwhile the slice of b at `next`, if any, is brought into L2: a packed one in
 * equal shares, from another each tile a line of all rows. */
static void run_tiles(const tile_step *s, int64_t cols, int panels, const char *b, const char *next, char *c)
{
    const gemm_kernels *kernels = s->kernels;
    const int size = kernels->size;
    const int64_t tiles = ceil_div(s->rows, kernels->mr), low = s->rows / tiles, higher = s->rows % tiles;
    const bool edge = cols < kernels->nr || s->c_col != 1;
    gemm_steps steps = s->steps;
    const bool packed = steps.b_row == kernels->nr;
    const int64_t row_bytes = kernels->nr * size, share = ceil_div(row_bytes, tiles);
    int64_t row = 0;
    for (int64_t i = 0; i < tiles; i++) {
        const bool fetch = next && (packed || i * LINE_BYTES < row_bytes);
        steps.next = !fetch ? b : next + i * (packed ? share * steps.k : LINE_BYTES);
        steps.next_step = !fetch ? 0 : packed ? share : steps.b_row * size;
        const int rows = (int)(low + (i < higher));
        const char *a = s->a + row * s->steps.a_row * size;
        char *to = c + row * s->steps.c_row * size;
        if (edge)
            run_edge_tile(s, kernels->tile[rows], rows, cols, a, b, to);
        else
            (panels > 1 ? kernels->wide : kernels->tile)[rows](&steps, a, b, to, s->add);
        row += rows;
    }
}

/* One tile holds all rows, and turns its panel of b itself. */
static void run_turned_tile(const tile_step *s, const char *b, char *c)
{
    const gemm_tile_fn run = s->kernels->turned[s->rows];
    if (s->c_col == 1)
        run(&s->steps, s->a, b, c, s->add);
    else
        run_edge_tile(s, run, (int)s->rows, s->kernels->nr, s->a, b, c);
}

/* How many panels from column `col` on go into one call: several only where a single tile holds all rows. */
static int panels_at(const tile_job *job, const tile_step *s, bool direct, int64_t col, int64_t col_end)
{
    if (s->rows > job->kernels->mr || s->c_col != 1 || !(direct || job->packed))
        return 1;
    const int wide = job->kernels->wide_panels[s->rows];
    return wide && col + (int64_t)wide * job->kernels->nr <= col_end ? wide : 1;
}

/* One step of k over the columns [col, col_end) of a block. */
static void run_step(const tile_job *job, tile_step *s, int64_t k, int64_t col, int64_t col_end)
{
    const gemm_task *t = job->task;
    const int size = job->kernels->size, nr = job->kernels->nr;
    const bool direct = !job->packed && t->b_col == 1;
    const char *after = job->packed ? job->packed + (col * t->k + (k + s->steps.k) % t->k * nr) * size : NULL;
    _Alignas(64) char slice[SLICE_BYTES];
    while (col < col_end) {
        const int64_t cols = min_i64(nr, t->n - col);
        const int panels = panels_at(job, s, direct, col, col_end);
        const char *b, *next = NULL;
        if (job->turn_b && cols == nr) {
            s->steps.b_panel = t->b_col;
            run_turned_tile(s, (const char *)t->b + (k + col * t->b_col) * size, s->c + col * t->c_col * size);
            col += nr;
            continue;
        }
        s->steps.b_row = nr;
        s->steps.b_panel = nr * t->k;
        if (job->packed) {
            b = job->packed + (col * t->k + k * nr) * size;
            next = col + nr < col_end ? b + nr * t->k * size : after;
        } else if (direct && cols == nr) {
            b = (const char *)t->b + (k * t->b_row + col) * size;
            next = b + panels * nr * size;
            s->steps.b_row = t->b_row;
            s->steps.b_panel = nr;
        } else {
            pack_panel(job->kernels, s->steps.k, cols, (const char *)t->b + (k * t->b_row + col * t->b_col) * size,
                       t->b_row, t->b_col, slice);
            b = slice;
        }
        run_tiles(s, cols, panels, b, next, s->c + col * t->c_col * size);
        col += (int64_t)panels * nr;
    }
}

/* The block [row, row_end) x [col, col_end) of c; `a_copy` holds one step of a's rows, or is NULL. */
static void run_block(const tile_job *job, int64_t row, int64_t row_end, int64_t col, int64_t col_end, char *a_copy)
{
    const gemm_task *t = job->task;
    const int size = job->kernels->size;
    tile_step s = { .kernels = job->kernels, .rows = row_end - row, .c_col = t->c_col };
    s.c = (char *)t->c + row * t->c_row * size;
    s.steps.c_row = t->c_row;
    for (int64_t k = 0; k < t->k; k += STEP_K) {
        s.steps.k = min_i64(STEP_K, t->k - k);
        s.add = t->accumulate || k > 0;
        s.a = (const char *)t->a + (row * t->a_row + k * t->a_col) * size;
        s.steps.a_row = t->a_row;
        s.steps.a_col = t->a_col;
        if (a_copy) {
            copy_matrix(size, s.rows, s.steps.k, s.a, t->a_row, t->a_col, a_copy, STEP_K + A_PAD);
            s.a = a_copy;
            s.steps.a_row = STEP_K + A_PAD;
            s.steps.a_col = 1;
        }
        run_step(job, &s, k, col, col_end);
    }
}

/* One piece of the grid, in equal parts of at most BLOCK_ROWS rows. */
static void run_piece(tile_job *job, int64_t piece, char *a_copy)
{
    const gemm_task *t = job->task;
    const int nr = job->kernels->nr;
    const int64_t block = piece / job->col_blocks, column = piece % job->col_blocks, panels = ceil_div(t->n, nr);
    const int64_t begin = t->m * block / job->row_blocks, end = t->m * (block + 1) / job->row_blocks;
    const int64_t col = panels * column / job->col_blocks * nr;
    const int64_t col_end = min_i64(panels * (column + 1) / job->col_blocks * nr, t->n);
    const int64_t parts = ceil_div(end - begin, BLOCK_ROWS);
    for (int64_t part = 0; part < parts; part++) {
        const int64_t row = begin + (end - begin) * part / parts, row_end = begin + (end - begin) * (part + 1) / parts;
        /* Panels that are turned go by in long runs down the columns: all of k before the next. */
        const int64_t width = job->turn_b ? nr : col_end - col;
        for (int64_t at = col; at < col_end; at += width)
            run_block(job, row, row_end, at, min_i64(at + width, col_end), a_copy);
        if (t->epilogue && job->col_blocks == 1)
            t->epilogue(t->epilogue_arg, row, row_end);
    }
    if (t->epilogue && job->col_blocks > 1 && atomic_fetch_sub(&job->blocks_left[block], 1) == 1)
        t->epilogue(t->epilogue_arg, begin, end);
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    tile_job *job = arg;
    const size_t bytes = (size_t)(BLOCK_ROWS * (STEP_K + A_PAD) * job->kernels->size);
    char *a_copy = job->copy_a ? pool_try(bytes) : NULL;
    for (int64_t piece = begin; piece < end; piece++)
        run_piece(job, piece, a_copy);
    if (a_copy)
        pool_give(a_copy, bytes);
}

/* Whether a's rows should be copied before use. Kernels read any strides, but when many panels read the same tile,
 * rows that fall on the same cache sets (4 KB apart) or elements far apart cost more than the copy. */
static bool should_copy_a(const gemm_task *t, const gemm_kernels *kernels)
{
    const int64_t panels = ceil_div(t->n, kernels->nr);
    if (t->m == 1)
        return t->a_col != 1 && panels > 4;
    if (t->a_col == 1)
        return panels > 4 && t->a_row * kernels->size % 4096 == 0;
    return panels >= (t->a_row == 1 ? 16 : 3) && t->k > 16;
}

/* Whether b is packed as a whole first: when enough rows read it. Fewer read it where it lies if its columns are
 * contiguous, or pack a slice at a time. */
static bool should_pack_b(const gemm_task *t, const gemm_kernels *kernels)
{
    const int64_t bytes = t->k * t->n * kernels->size;
    if (t->m <= 2 * kernels->mr)
        return false;
    if (t->b_col != 1 || t->b_row * kernels->size % 4096 == 0)
        return true;
    return t->m > 10 * kernels->mr && bytes > 64 * 1024;
}

/* Blocks for the threads: a piece each, of at least 10 us; up to eight as long as they take a quarter of a millisecond,
 * so that a thread that is held up does not keep the others waiting. More pieces would only read their operands more
 * often. Rows are cut first, alike for all threads: whole rows keep the epilogue local. */
static void choose_grid(tile_job *job, double work_ns)
{
    const gemm_task *t = job->task;
    const int threads = bk_get_num_threads();
    const double quarters = work_ns / threads / 250e3; /* of a millisecond for each thread */
    const int64_t each = quarters < 1 ? 1 : min_i64((int64_t)quarters, 8);
    const int64_t wanted = threads == 1 ? 1 : min_i64(each * threads, 1 + (int64_t)(work_ns / 10e3));
    const int64_t most_rows = min_i64(1 + t->m / (4 * job->kernels->mr), MAX_ROW_BLOCKS);
    job->row_blocks = min_i64(wanted, most_rows);
    if (job->row_blocks > threads)
        job->row_blocks -= job->row_blocks % threads;
    job->col_blocks = min_i64(ceil_div(wanted, job->row_blocks), ceil_div(t->n, job->kernels->nr));
    for (int64_t i = 0; i < job->row_blocks; i++)
        atomic_store_explicit(&job->blocks_left[i], (int)job->col_blocks, memory_order_relaxed);
}

static void run_tiled(const gemm_task *t, const gemm_kernels *kernels)
{
    tile_job job;
    job.task = t;
    job.kernels = kernels;
    job.packed = t->packed_b;
    job.turn_b = !t->packed_b && t->m <= GEMM_MAX_TURNED_ROWS && t->b_row == 1 && t->b_col != 1;
    job.copy_a = !job.turn_b && should_copy_a(t, kernels);
    char *packed = NULL;
    const size_t packed_bytes = gemm_packed_bytes(t->dtype, t->k, t->n);
    if (!t->packed_b && should_pack_b(t, kernels) && (packed = pool_try(packed_bytes))) {
        gemm_pack(t->dtype, t->k, t->n, t->b, t->b_row, t->b_col, packed);
        job.packed = packed;
    }
    const double flops = 2.0 * (double)t->m * (double)t->n * (double)t->k, compute_ns = flops / kernels->flops_per_ns;
    const double read_ns = bytes_ns((double)t->n * (double)t->k * kernels->size);
    const bool turns = !job.packed && t->b_col != 1; /* which takes as long as reading, and waits for it */
    const double work_ns = turns ? compute_ns + read_ns : t->m < 4 && compute_ns < read_ns ? read_ns : compute_ns;
    choose_grid(&job, work_ns);
    threads_for(job.row_blocks * job.col_blocks, 1, work_ns, run_pieces, &job);
    if (packed)
        pool_give(packed, packed_bytes);
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
    run_tiled(&swapped, kernels);
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
    return !t->epilogue && t->n <= kernels->nr / 4 && t->m >= 2 * kernels->nr;
}

static void run_one(const gemm_task *t)
{
    const gemm_kernels *kernels = gemm_kernels_for(t->dtype);
    if (t->n == 1 && (t->a_row != 1 || t->a_col == 1))
        run_dots(t, kernels);
    else if (should_transpose(t, kernels))
        run_transposed(t, kernels);
    else
        run_tiled(t, kernels);
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
    gemm_batch batch;
} batch_job;

static void run_batch_range(void *arg, int64_t begin, int64_t end)
{
    batch_job *job = arg;
    const gemm_batch *batch = &job->batch;
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
        gemm_run(&task);
    }
}

/* Batch dimensions over one b whose rows of a and c follow on from one product to the next are rows of one product. */
static void fold_batch(batch_job *job)
{
    gemm_task *t = &job->task;
    gemm_batch *batch = &job->batch;
    for (; batch->ndim > 0; batch->ndim--) {
        const int last = batch->ndim - 1;
        const bool follows = batch->a[last] == t->m * t->a_row && batch->c[last] == t->m * t->c_row;
        if (batch->sizes[last] != 1 && !(batch->b[last] == 0 && follows))
            return;
        t->m *= batch->sizes[last];
    }
}

int gemm_run_batch(const gemm_task *task, const gemm_batch *batch)
{
    batch_job job = { .task = *task, .batch = *batch };
    fold_batch(&job);
    int64_t count = 1;
    for (int d = 0; d < job.batch.ndim; d++)
        count *= job.batch.sizes[d];
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
