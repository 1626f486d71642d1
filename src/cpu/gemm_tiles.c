/* gemm_tiles.c: blocking and threading of matrix products around the micro-kernels of gemm_kernels.c.
 *
 * c is cut into a grid of pieces, and a piece into blocks. Within a block k goes by in steps of STEP_K; b is read panel
 * by panel (a slice of STEP_K rows for all rows of the block), a tile by tile; a block's STEP_K columns of a and the
 * slice stay in L2. The sums of a block stay in L2 as well, in a buffer of its own until the last step: rows of c a
 * power of two apart would push each other out. While a tile is computed, what comes next is brought into L2: the next
 * slice of b, and a's rows of the next step. Without that a core waits a tenth of the time.
 *
 * A long k over a small c (the gradient of a weight) is cut as well, and each thread has its steps: the rows of both
 * operands that it reads are then those that it wrote as results of earlier products, and are in its cache. The sums of
 * the later parts wait, each step's apart, until they are added up in order.
 *
 * Packing is only a matter of where a kernel reads its operands, so it is done where it pays: few rows read b where it
 * lies, many pack it on the way, a slice at a time, for all threads: the tiles of one slice carry the next.
 *
 * Invariant: an element of c is the sum over steps of STEP_K, in order, each step's sum begun at zero and added up in
 * ascending k. No choice made here (grid, tiles, packing, which operand is called a) changes that. */
#include "cpu/gemm_internal.h"
#include "core/memory.h"
#include "core/threads.h"
#include <unistd.h>

enum {
    BLOCK_ROWS = 128,    /* with STEP_K columns of a: 256 KB of float32 in L2, twice that with the next step's */
    BLOCK_PANELS = 64,   /* with BLOCK_ROWS rows of c: 1 MB of sums in L2 */
    FEW_BYTES = 1 << 20, /* of b: they stay in L2 */
    PACKED_PANELS = 16,  /* of a piece: what packing rows or columns of a takes */
    KEEPING_TILES = 4,   /* as many read a slice, if it is packed for one block */
    MAX_ROW_BLOCKS = 256,
    LINE_BYTES = 64,
    K_PARTS_NS = 20000, /* the work of a thread, at least, that pays for adding up */
};

typedef enum b_way {
    B_SLICES, /* in the packed form */
    B_DIRECT, /* where it lies, rows contiguous; a panel that isn't whole as a slice */
    B_TURNED, /* where it lies, columns contiguous: few rows turn squares of it as they read them */
} b_way;

typedef struct tile_job {
    const gemm_task *task;
    const gemm_kernels *kernels;
    gemm_factor factor;
    b_way way;
    bool pack_a;  /* the rows of a block are packed before use */
    bool fetches; /* there is more than L2 surely holds: what comes next is brought there */
    int64_t row_blocks, col_blocks;
    int64_t k_parts; /* stretches of steps of k that are computed apart */
    char *apart;     /* the sums of each step beyond the first part: panel by panel, all rows of each; or NULL */
    atomic_int blocks_left[MAX_ROW_BLOCKS]; /* of each row of blocks, while there are several columns of them */
} tile_job;

/* Steps of k, and the first of a part of them. */
static int64_t steps_of(const tile_job *job) { return ceil_div(job->task->k, GEMM_STEP_K); }
static int64_t part_step(const tile_job *job, int64_t part) { return steps_of(job) * part / job->k_parts; }

/* The first row, k and column of something. */
typedef struct spot {
    int64_t row, k, col;
} spot;

/* A block of c and the memory that goes with it. */
typedef struct block {
    int64_t row, rows, tiles, col, col_end; /* tiles of rows: all of about the same height */
    int64_t k, k_end;
    int64_t first;  /* the panel to begin with: threads begin at different ones, so that each packs its share of b */
    char *packed_a; /* one step of a's rows, tile by tile, or NULL */
    char *sums;     /* panel by panel, or NULL: sums go to c at once */
    spot after;     /* the block that follows, unless another thread takes it; its row may be m */
} block;

/* What a thread has at hand: a slice of b for itself where none is kept for all, and the one that follows. */
typedef struct desk {
    _Alignas(LINE_BYTES) char slices[2][GEMM_SLICE_BYTES];
    int at;         /* the one in use */
    int64_t k, col; /* which slice it is, or -1 */
} desk;

/* --- bringing memory into L2 ---------------------------------------------------------------------------------- */

/* Rows of memory, in bytes. */
typedef struct region {
    const char *at;
    int64_t rows, row_bytes, stride;
    int64_t run, each; /* addresses in a row; rows for a tile */
} region;

/* What the micro-kernels bring into L2 during the tiles of one panel, one region after the other. */
typedef struct fetch {
    region queue[5];
    int count, at;
    int64_t step; /* bytes from one address to the next */
} fetch;

static void fetch_add(fetch *f, region r)
{
    const int64_t into_line = (int64_t)((uintptr_t)r.at % LINE_BYTES);
    if (r.rows <= 0 || r.row_bytes <= 0)
        return;
    r.at -= into_line;
    r.row_bytes += into_line;
    f->queue[f->count++] = r;
}

static int64_t lines_of(int64_t bytes) { return (bytes + LINE_BYTES - 1) / LINE_BYTES; }

/* Spreads the addresses over `tiles` tiles with `slots` of them each: bursts hold up the operands. Where there are more
 * lines, every other one is asked for; the cache fetches its neighbour with it. */
static void fetch_spread(fetch *f, int64_t tiles, int64_t slots)
{
    int64_t lines = 0;
    for (int i = 0; i < f->count; i++)
        lines += f->queue[i].rows * lines_of(f->queue[i].row_bytes);
    const int64_t all = tiles * slots;
    f->step = lines * 4 <= all   ? LINE_BYTES / 4
              : lines * 2 <= all ? LINE_BYTES / 2
                                 : LINE_BYTES * (lines <= all ? 1 : 2);
    for (int i = 0; i < f->count; i++) {
        region *r = &f->queue[i];
        r->run = ceil_div(r->row_bytes, f->step);
        r->each = max_i64(1, slots / r->run);
    }
}

/* The share of the next tile. */
static void fetch_next(fetch *f, gemm_steps *steps)
{
    if (f->at == f->count) {
        steps->next_step = steps->next_jump = 0;
        steps->next_run = INT64_MAX;
        return;
    }
    region *r = &f->queue[f->at];
    steps->next = r->at;
    steps->next_step = f->step;
    steps->next_run = r->run;
    steps->next_jump = r->stride - r->run * f->step;
    r->at += r->each * r->stride;
    r->rows -= r->each;
    if (r->rows <= 0)
        f->at++;
}

/* Rows of a matrix, or its columns where they are the contiguous ones; nothing where neither is. */
static region region_of(int size, const char *at, int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    if (col == 1)
        return (region){ .at = at, .rows = rows, .row_bytes = cols * size, .stride = row * size };
    if (row == 1)
        return (region){ .at = at, .rows = cols, .row_bytes = rows * size, .stride = col * size };
    return (region){ 0 };
}

/* A slice of b; and the memory where it will be packed. */
static void fetch_slice(fetch *f, const gemm_factor *b, int64_t k, int64_t col)
{
    const int size = b->kernels->size, nr = b->kernels->nr;
    const int64_t rows = min_i64(GEMM_STEP_K, b->k - k), cols = min_i64(nr, b->n - col);
    const bool packed = gemm_slice_is_packed(b, k, col);
    if (!packed)
        fetch_add(f, region_of(size, b->b + (k * b->b_row + col * b->b_col) * size, rows, cols, b->b_row, b->b_col));
    if (packed || b->states)
        fetch_add(f, region_of(size, gemm_slice_place(b, k, col), rows, nr, nr, 1));
}

/* --- a step of k within a block ------------------------------------------------------------------------------- */

typedef struct tile_step {
    const tile_job *job;
    const block *block;
    desk *desk;
    gemm_steps steps;
    int64_t k;
    bool first, last; /* of the steps of k */
    const char *a;    /* the first row of the block, at the step's first k */
} tile_step;

/* Where the sums of a step wait that is not of the first part: a panel's, from row 0 on. */
static char *apart_at(const tile_job *job, int64_t k, int64_t col)
{
    const int64_t panels = ceil_div(job->task->n, job->kernels->nr), step = k / GEMM_STEP_K - part_step(job, 1);
    return job->apart + (step * panels * job->kernels->nr + col) * job->task->m * job->kernels->size;
}

/* Where the sums of a panel come from and where they go; `from` is NULL when they begin. */
typedef struct places {
    const char *from;
    char *to;
    int64_t from_row, to_row;
    const char *addend; /* what the finished sums are increased by, or NULL */
    int64_t cols;
    bool edge; /* `to` is c, and a tile can't be stored as it is: its columns are too many, or apart in c */
} places;

/* Whether lean tiles can read a. */
static bool is_lean(const tile_step *s)
{
    return s->job->kernels->lean[0][0][1] && (s->block->packed_a || s->steps.a_col == 1 || s->steps.a_row == 1);
}

static gemm_a lean_kind(const tile_step *s)
{
    return s->block->packed_a ? GEMM_A_PACKED : s->steps.a_col == 1 ? GEMM_A_ROWS : GEMM_A_COLUMNS;
}

static char *sums_at(const tile_job *job, const block *b, int64_t col)
{
    return b->sums + (col - b->col) * b->rows * job->kernels->size;
}

static places places_of(const tile_step *s, int64_t col)
{
    const gemm_task *t = s->job->task;
    const block *b = s->block;
    const int size = s->job->kernels->size, nr = s->job->kernels->nr;
    if (b->k > 0)
        return (places){ .to = apart_at(s->job, s->k, col) + b->row * nr * size, .to_row = nr, .cols = nr };
    char *c = (char *)t->c + (b->row * t->c_row + col * t->c_col) * size;
    char *sums = b->sums ? sums_at(s->job, b, col) : NULL;
    places p = { .cols = min_i64(nr, t->n - col) };
    const bool whole = p.cols == nr && t->c_col == 1;
    if (s->first && t->accumulate && sums && !whole) {
        gemm_copy_matrix(size, b->rows, p.cols, c, t->c_row, t->c_col, sums, nr);
        p.from = sums;
    } else if (s->first)
        p.from = t->accumulate ? c : NULL;
    else
        p.from = sums ? sums : c;
    p.to = sums && !s->last ? sums : c;
    p.from_row = p.from == c ? t->c_row : nr;
    p.to_row = p.to == c ? t->c_row : nr;
    p.edge = p.to == c && !whole;
    p.addend = s->last && t->addend ? (const char *)t->addend + (b->row * t->addend_row + col) * size : NULL;
    return p;
}

/* A tile by way of a buffer: for the last columns, and where the columns of c are apart. */
static void run_edge_tile(const tile_step *s, gemm_tile_fn run, int rows, const places *p, const char *a, const char *b,
                          const char *from, char *c)
{
    const gemm_task *t = s->job->task;
    const gemm_kernels *kernels = s->job->kernels;
    _Alignas(64) char tile[GEMM_MAX_ROWS * GEMM_MAX_PANEL_BYTES];
    const bool add = p->from == p->to;
    gemm_steps steps = s->steps;
    steps.c_row = kernels->nr;
    steps.addend = NULL;
    run(&steps, a, b, add ? NULL : from, tile);
    kernels->store(rows, p->cols, tile, c, t->c_row, t->c_col, add);
    if (s->steps.addend) {
        gemm_copy_matrix(kernels->size, rows, p->cols, s->steps.addend, t->addend_row, 1, tile, kernels->nr);
        kernels->store(rows, p->cols, tile, c, t->c_row, t->c_col, true);
    }
}

/* Where a panel's rows of b are read. */
typedef struct slice {
    const char *b;
    int64_t row, panel; /* elements from one row to the next, from one panel to the next */
} slice;

/* The slice that follows, if it is to be packed meanwhile: the tiles carry it there, row by row. */
typedef struct load {
    spot at;
    const char *raw;
    int64_t rows; /* those left */
    char *to;     /* where they go, or NULL: there is nothing to carry */
} load;

/* Whether the next tile carries, and what. Where there are many tiles each carries little: what it asks of memory
 * shares the buffers of L1 with its operands. */
static bool takes_load(tile_step *s, load *ahead)
{
    enum { MANY_TILES = 8 };
    const gemm_kernels *kernels = s->job->kernels;
    const bool rests = s->block->tiles >= MANY_TILES;
    const int64_t rows = s->steps.k / GEMM_CARRY_K / (rests ? 2 : 1), b_row = s->job->task->b_row;
    if (!ahead->to || ahead->rows < rows)
        return false;
    s->steps.raw = ahead->raw;
    s->steps.raw_row = b_row;
    s->steps.raw_rests = rests ? GEMM_CARRY_K : 0;
    s->steps.keep = ahead->to;
    ahead->raw += rows * b_row * kernels->size;
    ahead->to += rows * kernels->nr * kernels->size;
    ahead->rows -= rows;
    return true;
}

/* All rows of the block against `panels` panels of b. The rows are dealt out evenly: 16 rows are 8 and 8, not 14 and
 * 2, since a low tile runs slower. */
static void run_tiles(tile_step *s, int64_t col, int panels, const slice *right, load *ahead, fetch *next)
{
    const gemm_kernels *kernels = s->job->kernels;
    const int size = kernels->size;
    const int64_t all = s->block->rows, tiles = s->block->tiles, low = all / tiles, higher = all % tiles;
    const places p = places_of(s, col);
    const bool packed = s->block->packed_a, narrow = 2 * p.cols <= kernels->nr, lean = is_lean(s);
    const gemm_tile_fn(*of)[GEMM_MAX_ROWS + 1] = kernels->lean[lean_kind(s)];
    const gemm_tile_fn *one = narrow ? kernels->narrow : lean ? of[0] : kernels->tile;
    const gemm_tile_fn *bare = panels > 1 ? kernels->wide : one;
    s->steps.from_row = p.from_row;
    s->steps.c_row = p.to_row;
    s->steps.b_row = right->row;
    s->steps.b_panel = right->panel;
    int64_t row = 0;
    for (int64_t i = 0; i < tiles; i++) {
        fetch_next(next, &s->steps);
        const int rows = (int)(low + (i < higher));
        const char *a = s->a + row * (packed ? s->steps.k : s->steps.a_row) * size;
        if (packed)
            s->steps.a_col = rows; /* for kernels that know strides only */
        const char *from = p.from ? p.from + row * p.from_row * size : NULL;
        char *to = p.to + row * p.to_row * size;
        s->steps.addend = p.addend ? p.addend + row * s->steps.addend_row * size : NULL;
        const gemm_tile_fn run = (bare == of[0] && takes_load(s, ahead) ? of[1] : bare)[rows];
        if (p.edge)
            run_edge_tile(s, run, rows, &p, a, right->b, from, to);
        else
            run(&s->steps, a, right->b, from, to);
        row += rows;
    }
}

/* One tile holds all rows, and turns its panel of b itself. */
static void run_turned_tile(tile_step *s, int64_t col)
{
    const gemm_task *t = s->job->task;
    const gemm_kernels *kernels = s->job->kernels;
    const gemm_tile_fn run = kernels->turned[s->block->rows];
    const char *b = (const char *)t->b + (s->k + col * t->b_col) * kernels->size;
    const places p = places_of(s, col);
    s->steps.b_panel = t->b_col;
    s->steps.from_row = p.from_row;
    s->steps.c_row = p.to_row;
    s->steps.addend = p.addend;
    if (p.edge)
        run_edge_tile(s, run, (int)s->block->rows, &p, s->a, b, p.from, p.to);
    else
        run(&s->steps, s->a, b, p.from, p.to);
}

/* How many panels from column `col` on go into one call: several only where a single tile holds all rows. */
static int panels_at(const tile_step *s, int64_t col)
{
    const tile_job *job = s->job;
    const block *b = s->block;
    const bool at_hand = job->way == B_DIRECT || (job->factor.packed && !job->factor.states);
    if (b->rows > job->kernels->mr || job->task->c_col != 1 || !at_hand)
        return 1;
    const int wide = job->kernels->wide_panels[b->rows];
    return wide && col + (int64_t)wide * job->kernels->nr <= b->col_end ? wide : 1;
}

/* What the block turns to after the panel at `col`, the last of the step or not; or the block after it. */
static spot spot_after(const tile_step *s, int64_t col, bool last)
{
    const block *b = s->block;
    const int64_t nr = s->job->kernels->nr;
    if (!last)
        return (spot){ b->row, s->k, col + nr < b->col_end ? col + nr : b->col };
    if (!s->last)
        return (spot){ b->row, s->k + GEMM_STEP_K, b->col + b->first * nr };
    return b->after;
}

/* What is needed after the panel at `col`, the i-th of `count`: the next slice of b, the rows of c where its sums will
 * be stored, and in the second half of the panels a's rows of the next step. */
static void fetch_after(fetch *f, const tile_step *s, const load *ahead, int64_t col, int64_t i, int64_t count)
{
    const tile_job *job = s->job;
    const gemm_task *t = job->task;
    const block *b = s->block;
    const int size = job->kernels->size, nr = job->kernels->nr;
    const spot to = spot_after(s, col, i + 1 >= count), after = spot_after(s, col, true);
    if (!ahead->to)
        fetch_slice(f, &job->factor, to.k, to.col);
    const int64_t rows = min_i64(b->rows, t->m - to.row), cols = min_i64(nr, t->n - to.col);
    if (b->sums && to.k > 0)
        fetch_add(f, region_of(size, sums_at(s->job, b, to.col), rows, nr, nr, 1));
    if (b->k > 0) {
        fetch_add(f, region_of(size, apart_at(job, to.k, to.col) + to.row * nr * size, rows, nr, nr, 1));
    } else if (!b->sums || to.k + GEMM_STEP_K >= b->k_end) {
        const char *c = (const char *)t->c + (to.row * t->c_row + to.col * t->c_col) * size;
        fetch_add(f, region_of(size, c, rows, cols, t->c_row, t->c_col));
    }
    const int64_t late = i - count / 2, share = ceil_div(b->rows, count - count / 2);
    if (late >= 0) {
        const int64_t row = after.row + late * share, end = min_i64(t->m, min_i64(row + share, after.row + b->rows));
        const char *a = (const char *)t->a + (row * t->a_row + after.k * t->a_col) * size;
        fetch_add(f, region_of(size, a, end - row, min_i64(GEMM_STEP_K, t->k - after.k), t->a_row, t->a_col));
    }
    fetch_spread(f, b->tiles, is_lean(s) ? s->steps.k / GEMM_LEAN_FETCH : s->steps.k);
}

/* Whether tiles read b where it lies. Many of them read a slice sooner, if it is packed for this block alone. */
static bool reads_in_place(const tile_step *s)
{
    return s->job->way == B_DIRECT && !(s->job->fetches && is_lean(s) && s->block->tiles >= KEEPING_TILES);
}

static bool is_whole(const tile_step *s, int64_t col)
{
    const gemm_task *t = s->job->task;
    return !t->packed_b && t->b_col == 1 && col + s->job->kernels->nr <= t->n;
}

static const char *raw_at(const tile_step *s, int64_t k, int64_t col)
{
    const gemm_task *t = s->job->task;
    return (const char *)t->b + (k * t->b_row + col) * s->job->kernels->size;
}

/* The panel at `col`. */
static slice slice_at(const tile_step *s, int64_t col)
{
    const gemm_task *t = s->job->task;
    const int64_t nr = s->job->kernels->nr;
    desk *d = s->desk;
    if (is_whole(s, col) && reads_in_place(s))
        return (slice){ raw_at(s, s->k, col), t->b_row, nr };
    if (d->k == s->k && d->col == col)
        return (slice){ d->slices[d->at], nr, nr };
    const char *b = gemm_slice(&s->job->factor, s->k, col, d->slices[d->at]);
    if (b == d->slices[d->at]) {
        d->k = s->k;
        d->col = col;
    }
    return (slice){ b, nr, nr * t->k };
}

/* The slice at `to`, to be packed while the panel at `col` is computed; it is asked for. */
static load load_of(const tile_step *s, spot to, int64_t col)
{
    enum { FIRST = 8 };
    const tile_job *job = s->job;
    const gemm_task *t = job->task;
    desk *d = s->desk;
    const bool same = to.k == s->k && to.col == col, many = is_lean(s) && s->block->tiles >= KEEPING_TILES;
    load ahead = { to, raw_at(s, to.k, to.col), min_i64(GEMM_STEP_K, t->k - to.k), NULL };
    if (same || !many || to.row >= t->m || !is_whole(s, to.col) || reads_in_place(s) ||
        gemm_slice_is_packed(&job->factor, to.k, to.col))
        return ahead;
    char *own = d->slices[!d->at];
    ahead.to = gemm_slice_claim(&job->factor, to.k, to.col, own);
    if (job->factor.packed && ahead.to == own)
        ahead.to = NULL; /* another thread packs it */
    const int64_t row = t->b_row * job->kernels->size, bytes = job->kernels->nr * job->kernels->size;
    for (int64_t i = 0; ahead.to && i < min_i64(FIRST, ahead.rows); i++)
        for (int64_t at = 0; at < bytes + LINE_BYTES; at += LINE_BYTES)
            __builtin_prefetch(ahead.raw + i * row + min_i64(at, bytes - 1));
    return ahead;
}

/* The rows that no tile took, and word that the slice is there. */
static void finish_load(const tile_step *s, load *ahead)
{
    const gemm_factor *f = &s->job->factor;
    desk *d = s->desk;
    if (!ahead->to)
        return;
    s->job->kernels->pack(ahead->rows, ahead->raw, s->job->task->b_row, ahead->to);
    if (f->packed) {
        gemm_slice_done(f, ahead->at.k, ahead->at.col, gemm_slice_place(f, ahead->at.k, ahead->at.col));
        return;
    }
    d->at = !d->at;
    d->k = ahead->at.k;
    d->col = ahead->at.col;
}

/* One step of k over the columns of a block. */
static void run_step(tile_step *s)
{
    const tile_job *job = s->job;
    const gemm_task *t = job->task;
    const block *b = s->block;
    const int nr = job->kernels->nr;
    const int64_t count = ceil_div(b->col_end - b->col, nr);
    fetch next;
    int panels;
    for (int64_t i = 0; i < count; i += panels) {
        const int64_t panel = b->first + i, col = b->col + (panel < count ? panel : panel - count) * nr;
        panels = panels_at(s, col);
        if (job->way == B_TURNED && col + nr <= t->n) {
            run_turned_tile(s, col);
            continue;
        }
        const slice right = slice_at(s, col);
        const int64_t last = i + panels - 1, last_col = col + (panels - 1) * nr;
        load ahead = { .to = NULL };
        next.count = next.at = 0;
        if (job->fetches) {
            ahead = load_of(s, spot_after(s, last_col, last + 1 >= count), col);
            fetch_after(&next, s, &ahead, last_col, last, count);
        }
        run_tiles(s, col, panels, &right, &ahead, &next);
        finish_load(s, &ahead);
    }
}

/* --- blocks, pieces ------------------------------------------------------------------------------------------- */

/* The tiles of a step of a, one after the other. */
static void pack_rows(const tile_step *s)
{
    const block *b = s->block;
    const gemm_kernels *kernels = s->job->kernels;
    const int64_t low = b->rows / b->tiles, higher = b->rows % b->tiles;
    int64_t row = 0;
    for (int64_t i = 0; i < b->tiles; i++) {
        const int rows = (int)(low + (i < higher));
        kernels->pack_a(rows, s->steps.k, s->a + row * s->steps.a_row * kernels->size, s->steps.a_row, s->steps.a_col,
                        b->packed_a + row * s->steps.k * kernels->size);
        row += rows;
    }
}

static void run_block(const tile_job *job, const block *b, desk *desk)
{
    const gemm_task *t = job->task;
    const int size = job->kernels->size;
    tile_step s = { .job = job, .block = b, .desk = desk, .steps = { .next = t->a, .addend_row = t->addend_row } };
    for (s.k = b->k; s.k < b->k_end; s.k += GEMM_STEP_K) {
        s.steps.k = min_i64(GEMM_STEP_K, b->k_end - s.k);
        s.first = s.k == 0;
        s.last = s.k + s.steps.k == b->k_end;
        s.a = (const char *)t->a + (b->row * t->a_row + s.k * t->a_col) * size;
        s.steps.a_row = t->a_row;
        s.steps.a_col = t->a_col;
        if (b->packed_a) {
            pack_rows(&s);
            s.a = b->packed_a;
            s.steps.a_row = 1;
        }
        run_step(&s);
    }
}

static int64_t sums_bytes(const tile_job *job)
{
    return (int64_t)BLOCK_ROWS * BLOCK_PANELS * job->kernels->nr * job->kernels->size;
}

static int64_t packed_a_bytes(const tile_job *job)
{
    return job->pack_a ? (int64_t)BLOCK_ROWS * GEMM_STEP_K * job->kernels->size + GEMM_PACK_SPILL : 0;
}

/* A b that stays in L2 leaves c there as well. */
static bool keeps_sums(const tile_job *job)
{
    const gemm_task *t = job->task;
    return t->k > GEMM_STEP_K && t->m > job->kernels->mr && t->k * t->n * job->kernels->size > FEW_BYTES;
}

/* One piece of the grid over a part of k, in equal parts of at most BLOCK_ROWS rows and BLOCK_PANELS panels. */
static void run_piece(tile_job *job, int64_t piece, char *memory, desk *desk)
{
    const gemm_task *t = job->task;
    const int64_t grid = job->row_blocks * job->col_blocks, k_part = piece / grid;
    const int64_t k = part_step(job, k_part) * GEMM_STEP_K;
    const int64_t k_end = min_i64(part_step(job, k_part + 1) * GEMM_STEP_K, t->k);
    piece %= grid;
    const int nr = job->kernels->nr, threads = bk_get_num_threads();
    const int64_t line = piece / job->col_blocks, column = piece % job->col_blocks;
    const int64_t panels = ceil_div(t->n, nr);
    const int64_t begin = t->m * line / job->row_blocks, end = t->m * (line + 1) / job->row_blocks;
    const int64_t panel = panels * column / job->col_blocks, panel_end = panels * (column + 1) / job->col_blocks;
    const int64_t parts = ceil_div(end - begin, BLOCK_ROWS);
    /* Panels that are turned go by in long runs down the columns: all of k before the next. */
    const int64_t strips = job->way == B_TURNED ? panel_end - panel : ceil_div(panel_end - panel, BLOCK_PANELS);
    const bool shares_b = job->factor.states && job->col_blocks == 1;
    const int64_t thread = line * threads / job->row_blocks;
    for (int64_t part = 0; part < parts; part++) {
        block b = { .row = begin + (end - begin) * part / parts, .k = k, .k_end = k_end };
        b.rows = begin + (end - begin) * (part + 1) / parts - b.row;
        b.tiles = ceil_div(b.rows, job->kernels->mr);
        b.packed_a = job->pack_a ? memory : NULL;
        b.sums = memory && k == 0 && keeps_sums(job) && b.rows > job->kernels->mr ? memory + packed_a_bytes(job) : NULL;
        const bool same_rows = part + 1 == parts && panel_end < panels;
        const spot next_rows = { same_rows ? begin : b.row + b.rows, k, same_rows ? panel_end * nr : panel * nr };
        for (int64_t strip = 0; strip < strips; strip++) {
            const int64_t from = panel + (panel_end - panel) * strip / strips;
            const int64_t to = panel + (panel_end - panel) * (strip + 1) / strips;
            b.col = from * nr;
            b.col_end = min_i64(to * nr, t->n);
            b.after = strip + 1 < strips ? (spot){ b.row, k, b.col_end } : next_rows;
            b.first = shares_b ? (to - from) * thread / threads : 0;
            run_block(job, &b, desk);
        }
        if (t->epilogue && job->col_blocks == 1)
            t->epilogue(t->epilogue_arg, b.row, b.row + b.rows);
    }
    if (t->epilogue && job->col_blocks > 1 && atomic_fetch_sub(&job->blocks_left[line], 1) == 1)
        t->epilogue(t->epilogue_arg, begin, end);
}

static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    tile_job *job = arg;
    const size_t bytes = (size_t)(packed_a_bytes(job) + (keeps_sums(job) ? sums_bytes(job) : 0));
    char *memory = bytes ? pool_try(bytes) : NULL;
    desk desk;
    desk.at = 0;
    desk.k = desk.col = -1;
    for (int64_t piece = begin; piece < end; piece++)
        run_piece(job, piece, memory, &desk);
    pool_give(memory, bytes);
}

/* --- sums of parts of k ------------------------------------------------------------------------------------------ */

/* Panels of c: what waits apart is added to the sums of the first part, step by step. */
static void add_panels(void *arg, int64_t begin, int64_t end)
{
    const tile_job *job = arg;
    const gemm_task *t = job->task;
    const int nr = job->kernels->nr;
    for (int64_t col = begin * nr; col < min_i64(end * nr, t->n); col += nr)
        for (int64_t step = part_step(job, 1); step < steps_of(job); step++)
            job->kernels->store((int)t->m, min_i64(nr, t->n - col), apart_at(job, step * GEMM_STEP_K, col),
                                (char *)t->c + col * t->c_col * job->kernels->size, t->c_row, t->c_col, true);
}

static void add_apart(tile_job *job)
{
    const gemm_task *t = job->task;
    const double bytes = (double)(steps_of(job) - part_step(job, 1)) * (double)(t->m * t->n * job->kernels->size);
    threads_for(ceil_div(t->n, job->kernels->nr), 1, gemm_bytes_ns(bytes), add_panels, job);
}

/* --- choices --------------------------------------------------------------------------------------------------- */

/* Whether a's columns fall on the same cache sets: then they are packed, by pieces that are wide enough to pay for it.
 */
static bool has_crowded_columns(const gemm_task *t, int size)
{
    return t->a_row == 1 && t->a_col != 1 && t->a_col * size % 4096 == 0;
}

/* The lines of L1 that addresses 4 KB apart share. */
static int64_t ways_of_l1(void)
{
    static atomic_int known;
    int ways = atomic_load_explicit(&known, memory_order_relaxed);
#ifdef _SC_LEVEL1_DCACHE_ASSOC
    if (!ways)
        ways = (int)sysconf(_SC_LEVEL1_DCACHE_ASSOC);
#endif
    ways = ways > 0 ? ways : 8;
    atomic_store_explicit(&known, ways, memory_order_relaxed);
    return ways;
}

/* Whether a's rows are packed before use, which each piece does for itself. In place they are read as fast on a core of
 * one's own, and up to a tenth slower on one that is shared; packing takes as long as a panel. Elements far apart
 * always cost more than that, and so do columns 4 KB apart, and such rows where they are too many for the ways of L1:
 * half as many again lose nothing. */
static bool should_pack_a(const tile_job *job)
{
    const gemm_task *t = job->task;
    const gemm_kernels *kernels = job->kernels;
    const int64_t panels = ceil_div(ceil_div(t->n, kernels->nr), job->col_blocks);
    if (job->way == B_TURNED)
        return false;
    if (t->m == 1)
        return t->a_col != 1 && panels > 4;
    if (t->a_col == 1) {
        const bool crowded = t->a_row * kernels->size % 4096 == 0 && 2 * kernels->mr > 3 * ways_of_l1();
        return t->m > kernels->mr && panels >= (crowded ? 4 : PACKED_PANELS);
    }
    if (t->a_row == 1)
        return panels >= 4 && (has_crowded_columns(t, kernels->size) || !kernels->lean[GEMM_A_COLUMNS][0][1]);
    return panels >= 3 && t->k > 16;
}

/* Whether b is packed for good: when enough rows read it. Fewer read it where it lies if its rows are contiguous, or
 * pack a slice at a time. So do many if it stays in L2 and its rows lie alike in cache lines, but not all in the same
 * sets. */
static bool should_pack_b(const gemm_task *t, const gemm_kernels *kernels)
{
    const int64_t bytes = t->k * t->n * kernels->size, row = t->b_row * kernels->size;
    if (t->packed_b || t->m <= 2 * kernels->mr)
        return false;
    if (t->b_col != 1 || row % 4096 == 0)
        return true;
    return t->m > 10 * kernels->mr && bytes > (row % LINE_BYTES ? 64 * 1024 : FEW_BYTES / 2);
}

/* Whether there is more than L2 surely holds. A packed b of few rows is read again and again, and stays there: asking
 * for it would only cost instructions, 2% of an LSTM's steps. */
static bool should_fetch(const gemm_task *t, const gemm_kernels *kernels)
{
    enum { FEW_ROWS = 32, SURE_BYTES = 128 * 1024 };
    const int64_t b = t->k * t->n * kernels->size;
    const bool stays = t->packed_b && t->m <= FEW_ROWS && b <= FEW_BYTES / 2;
    return !stays && b + (t->m * t->k + t->m * t->n) * kernels->size > SURE_BYTES;
}

/* How many pieces: one for each thread, of at least 2.5 us; up to eight as long as they take an eighth of a
 * millisecond, so that a thread that is held up, or has the slower core, does not keep the others waiting. More would
 * only read their operands more often. */
static int64_t choose_pieces(double work_ns)
{
    const int threads = threads_at_hand();
    const double eighths = work_ns / threads / 125e3; /* of a millisecond for each thread */
    const int64_t each = eighths < 1 ? 1 : min_i64((int64_t)eighths, 8);
    return threads == 1 ? 1 : min_i64(each * threads, 1 + (int64_t)(work_ns / 2.5e3));
}

/* Whether parts of whole steps of k take about as long as each other: 704 are 512 and 192. */
static bool is_even(int64_t k, int64_t steps, int64_t parts)
{
    int64_t largest = 0;
    for (int64_t p = 0; p < parts; p++) {
        const int64_t begin = steps * p / parts, end = steps * (p + 1) / parts;
        largest = max_i64(largest, min_i64(end * GEMM_STEP_K, k) - begin * GEMM_STEP_K);
    }
    return 8 * largest * parts <= 9 * k;
}

/* Into how many parts k is cut: one for each thread where both operands have their rows along k, results of earlier
 * products, and where c is so much smaller that adding up its parts costs less than what reading the operands from
 * another core's cache does. */
static int64_t choose_k_parts(const tile_job *job, double work_ns)
{
    const gemm_task *t = job->task;
    const int64_t threads = threads_at_hand(), steps = ceil_div(t->k, GEMM_STEP_K);
    const bool along = t->a_row == 1 && t->a_col != 1 && t->b_col == 1 && !t->packed_b && t->m > job->kernels->mr;
    const bool small = t->m * t->n <= GEMM_STEP_K / 2 * (t->m + t->n);
    if (!along || !small || t->epilogue || t->addend || work_ns < K_PARTS_NS * (double)threads)
        return 1;
    const int64_t parts = min_i64(threads, steps);
    return is_even(t->k, steps, parts) ? parts : 1;
}

static int64_t apart_bytes(const tile_job *job)
{
    const gemm_task *t = job->task;
    const int64_t columns = ceil_div(t->n, job->kernels->nr) * job->kernels->nr;
    return job->k_parts > 1 ? (steps_of(job) - part_step(job, 1)) * columns * t->m * job->kernels->size : 0;
}

/* Rows are cut first, alike for all threads: each packs its own rows of a, and its share of b for all, since it begins
 * at other panels; and whole rows keep an epilogue local. But not below nine tiles, lest b be read too often. */
static void choose_grid(tile_job *job, double work_ns)
{
    const gemm_task *t = job->task;
    const int threads = threads_at_hand(), mr = job->kernels->mr;
    const int64_t wanted = ceil_div(choose_pieces(work_ns), job->k_parts), panels = ceil_div(t->n, job->kernels->nr);
    const bool high = (1 + t->m / (9 * mr)) * panels >= wanted;
    const int64_t most_rows = min_i64(1 + t->m / ((high ? 9 : 4) * mr), MAX_ROW_BLOCKS);
    job->row_blocks = min_i64(wanted, most_rows);
    if (job->row_blocks > threads)
        job->row_blocks -= job->row_blocks % threads;
    job->col_blocks = min_i64(ceil_div(wanted, job->row_blocks), panels);
    if (has_crowded_columns(t, job->kernels->size))
        job->col_blocks = min_i64(job->col_blocks, max_i64(1, panels / PACKED_PANELS));
    for (int64_t i = 0; i < job->row_blocks; i++)
        atomic_store_explicit(&job->blocks_left[i], (int)job->col_blocks, memory_order_relaxed);
}

static double expected_ns(const tile_job *job)
{
    const gemm_task *t = job->task;
    const int64_t half = job->kernels->nr / 2, n = ceil_div(t->n, half) * half;
    const double flops = 2.0 * (double)t->m * (double)n * (double)t->k;
    const double compute_ns = flops / job->kernels->flops_per_ns;
    const double read_ns = gemm_bytes_ns((double)t->n * (double)t->k * job->kernels->size);
    const bool turns = !job->factor.packed && t->b_col != 1; /* which takes as long as reading, and waits for it */
    return turns ? compute_ns + read_ns : t->m < 4 && compute_ns < read_ns ? read_ns : compute_ns;
}

static gemm_factor factor_of(const gemm_task *t, const gemm_kernels *kernels)
{
    return (gemm_factor){ .kernels = kernels, .k = t->k, .n = t->n, .b = t->b, .b_row = t->b_row, .b_col = t->b_col };
}

void gemm_run_tiled(const gemm_task *t, const gemm_kernels *kernels)
{
    tile_job job;
    job.task = t;
    job.kernels = kernels;
    job.factor = factor_of(t, kernels);
    job.factor.packed = (char *)t->packed_b; /* read only: it has no states */
    const bool turned = !t->packed_b && t->m <= GEMM_MAX_TURNED_ROWS && t->b_row == 1 && t->b_col != 1;
    job.fetches = should_fetch(t, kernels);
    char *packed = should_pack_b(t, kernels) ? pool_try(gemm_factor_bytes(&job.factor)) : NULL;
    if (packed)
        gemm_factor_start(&job.factor, packed);
    job.way = turned ? B_TURNED : job.factor.packed || t->b_col != 1 ? B_SLICES : B_DIRECT;
    const double work_ns = expected_ns(&job);
    job.k_parts = choose_k_parts(&job, work_ns);
    const size_t apart = (size_t)apart_bytes(&job);
    job.apart = apart ? pool_try(apart) : NULL;
    job.k_parts = job.apart ? job.k_parts : 1;
    choose_grid(&job, work_ns);
    job.pack_a = should_pack_a(&job);
    threads_for(job.row_blocks * job.col_blocks * job.k_parts, 1, work_ns, run_pieces, &job);
    if (job.apart) {
        add_apart(&job);
        pool_give(job.apart, apart);
    }
    if (packed)
        pool_give(packed, gemm_factor_bytes(&job.factor));
}
