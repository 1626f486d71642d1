/* reduce.c: the plan of a reduction: which loops, in which order, on which threads.
 *
 * The source's dimensions are split into the kept and the reduced ones, each sorted by stride and merged. If a reduced
 * dimension has the smallest stride, outputs are reduced row by row, otherwise many outputs side by side, column by
 * column: memory is read in its own order either way. Accumulators of all outputs lie in one buffer, in the order of
 * the kept dimensions, and are cast into the destination at the end.
 *
 * Invariant: long reductions are cut into chunks whose size depends on the shape alone, and chunks are joined in
 * ascending order, so results do not depend on threads. */
#include "cpu/reduce.h"

#include "core/memory.h"
#include "core/threads.h"
#include "cpu/isa.h"
#include "cpu/move.h"
#include "cpu/walk.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 1 << 16,        /* elements of one output reduced by one task */
    COLUMN_CHUNK = 1 << 19, /* elements of one tile of columns reduced by one task, where rows are wide */
    TASK_ROWS = 64,         /* at least, elsewhere: accumulators take a 32nd of the memory of the rows */
    FEW_TILES = 16,         /* so many tiles keep all threads busy without chunks */
    GRAIN = 1 << 15,        /* elements per piece */
    FOLDED = 512,           /* columns that narrow dense rows are widened to */
    NARROW = 64,            /* fewer columns than this are folded into wider rows */
    SMALL = 512             /* accumulators that fit on the stack */
};

typedef struct reduction {
    reduce_rows_fn rows;
    reduce_columns_fn columns;
    reduce_kind kind;
    view kept, reduced;     /* the source, split; both at the source's address */
    int64_t outputs, count; /* elements of each */
    int64_t line;           /* the last dimension of a row-major source; 0: its rows do not follow each other */
    int64_t chunk, chunks;  /* of the reduced elements */
    int64_t width, tiles;   /* columns: the last kept dimension, and how many tiles it makes */
    int64_t block;          /* columns: rows that are joined at a time */
    bool floating, paired;  /* accumulators are double; a second accumulator is in use */
    char *a, *b;            /* chunks x outputs accumulators of 8 bytes */
} reduction;

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* --- joining chunks ---------------------------------------------------------------------------------------- */

static double join_double(reduce_kind kind, double x, double y)
{
    switch (kind) {
    case REDUCE_SUM: return x + y;
    case REDUCE_PROD: return x * y;
    case REDUCE_MAX:
    case REDUCE_ANY: return x > y || x != x ? x : y;
    default: return x < y || x != x ? x : y;
    }
}

static int64_t join_int(reduce_kind kind, int64_t x, int64_t y)
{
    switch (kind) {
    case REDUCE_SUM: return (int64_t)((uint64_t)x + (uint64_t)y);
    case REDUCE_PROD: return (int64_t)((uint64_t)x * (uint64_t)y);
    case REDUCE_MAX:
    case REDUCE_ANY: return x > y ? x : y;
    default: return x < y ? x : y;
    }
}

/* Whether y, which comes later, replaces the extreme x. */
static bool replaces(const reduction *r, const char *x, const char *y)
{
    if (!r->floating) {
        int64_t i = *(const int64_t *)x, j = *(const int64_t *)y;
        return r->kind == REDUCE_ARGMAX ? j > i : j < i;
    }
    double i = *(const double *)x, j = *(const double *)y;
    return (r->kind == REDUCE_ARGMAX ? j > i : j < i) || (j != j && i == i);
}

static void join_moments(double *mean, double *m2, int64_t before, double new_mean, double new_m2, int64_t n)
{
    double delta = new_mean - *mean, share = (double)n / (double)(before + n);
    *mean += delta * share;
    *m2 += new_m2 + delta * delta * (double)before * share;
}

/* Joins n accumulators at (a, b) with those of `count` later elements at (c, d). */
static void join(const reduction *r, char *a, char *b, const char *c, const char *d, int64_t n, int64_t before,
                 int64_t count)
{
    if (r->kind == REDUCE_SUM && r->floating) {
        for (int64_t i = 0; i < n; i++)
            ((double *)a)[i] += ((const double *)c)[i];
        return;
    }
    for (int64_t i = 0; i < n; i++, a += 8, b += 8, c += 8, d += 8) {
        if (r->kind == REDUCE_MOMENTS) {
            join_moments((double *)a, (double *)b, before, *(const double *)c, *(const double *)d, count);
        } else if (r->paired) {
            if (replaces(r, a, c)) {
                memcpy(a, c, 8);
                memcpy(b, d, 8);
            }
        } else if (r->floating) {
            *(double *)a = join_double(r->kind, *(double *)a, *(const double *)c);
        } else {
            *(int64_t *)a = join_int(r->kind, *(int64_t *)a, *(const int64_t *)c);
        }
    }
}

/* --- rows -------------------------------------------------------------------------------------------------- */

static void reduce_chunk(const reduction *r, char *p, int64_t begin, int64_t end, char *a, char *b)
{
    view reduced;
    view_take(&reduced, &r->reduced);
    reduced.data = p;
    walk w;
    walk_start(&w, (const view *const[]){ &reduced }, 1, begin);
    int64_t first = begin;
    for (int64_t n; begin < end; begin += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - begin);
        /* places count from the start of the output, everything else from the start of the chunk */
        int64_t before = begin - first;
        r->rows(w.p[0], 1, 0, n, walk_step(&w, 0), before, a, b);
    }
    if ((r->kind == REDUCE_ARGMAX || r->kind == REDUCE_ARGMIN) && first > 0)
        *(int64_t *)b += first;
}

/* Tasks are (output, chunk), chunks fastest; their accumulators are laid out by chunk, then output. */
static void row_chunks(void *arg, int64_t begin, int64_t end)
{
    const reduction *r = arg;
    for (int64_t t = begin; t < end; t++) {
        int64_t output = t / r->chunks, c = t % r->chunks, at = (c * r->outputs + output) * 8;
        walk w;
        walk_start(&w, (const view *const[]){ &r->kept }, 1, output);
        reduce_chunk(r, w.p[0], c * r->chunk, least((c + 1) * r->chunk, r->count), r->a + at, r->b + at);
    }
}

/* One chunk, one stretch of memory per output: runs of outputs go to the kernel together. */
static void row_runs(void *arg, int64_t begin, int64_t end)
{
    const reduction *r = arg;
    int64_t step = r->reduced.ndim ? r->reduced.strides[0] * (int64_t)dtype_size(r->reduced.dtype) : 0;
    walk w;
    walk_start(&w, (const view *const[]){ &r->kept }, 1, begin);
    for (int64_t n; begin < end; begin += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - begin);
        r->rows(w.p[0], n, walk_step(&w, 0), r->count, step, 0, r->a + begin * 8, r->b + begin * 8);
    }
}

static void reduce_rows(reduction *r)
{
    double work = (double)r->outputs * ((double)r->count * 0.2 + 2);
    if (r->chunks == 1 && r->reduced.ndim <= 1)
        threads_for(r->outputs, 1 + GRAIN / (r->count + 8), work, row_runs, r);
    else
        threads_for(r->outputs * r->chunks, 1 + GRAIN / least(r->count, r->chunk), work, row_chunks, r);
}

/* --- columns ----------------------------------------------------------------------------------------------- */

/* Dense rows of a few columns: several rows count as one wide row, whose groups are joined afterwards. */
static int64_t narrow_columns(const reduction *r, const char *p, int64_t rows, int64_t row_step, int64_t n, char *a)
{
    char wide[FOLDED * 8];
    int64_t fold = FOLDED / n, taken = rows / fold * fold;
    if (taken == 0)
        return 0;
    r->columns(p, rows / fold, row_step * fold, n * fold, row_step / n, 0, wide, wide);
    for (int64_t i = 1; i < fold; i++)
        join(r, wide, wide, wide + i * n * 8, wide, n, 0, 0);
    memcpy(a, wide, (size_t)n * 8);
    return taken;
}

static void column_rows(const reduction *r, const char *p, int64_t rows, int64_t row_step, int64_t n, int64_t before,
                        char *a, char *b)
{
    int64_t size = (int64_t)dtype_size(r->kept.dtype), step = r->kept.strides[r->kept.ndim - 1] * size;
    int64_t taken = 0;
    if (n < NARROW && !r->paired && before == 0 && step == size && row_step == n * size)
        taken = narrow_columns(r, p, rows, row_step, n, a);
    int64_t most = r->block < REDUCE_ROWS && !r->paired ? r->block : rows;
    for (int64_t some; taken < rows; taken += some) {
        some = least(most, rows - taken);
        r->columns(p + taken * row_step, some, row_step, n, step, before + taken, a, b);
    }
}

static void column_task(const reduction *r, int64_t outer, int64_t tile, int64_t c)
{
    int64_t first = tile * REDUCE_TILE, n = least(REDUCE_TILE, r->width - first), output = outer * r->width + first;
    int64_t at = (c * r->outputs + output) * 8, begin = c * r->chunk, end = least(begin + r->chunk, r->count);
    walk start;
    walk_start(&start, (const view *const[]){ &r->kept }, 1, output);
    view reduced;
    view_take(&reduced, &r->reduced);
    reduced.data = start.p[0];
    walk w;
    walk_start(&w, (const view *const[]){ &reduced }, 1, begin);
    for (int64_t i = begin, rows; i < end; i += rows, walk_skip(&w, rows)) {
        rows = walk_run(&w, end - i);
        column_rows(r, w.p[0], rows, walk_step(&w, 0), n, i - begin, r->a + at, r->b + at);
    }
    if (r->kind == REDUCE_ARGMAX || r->kind == REDUCE_ARGMIN)
        for (int64_t i = 0; i < n && begin > 0; i++)
            ((int64_t *)(r->b + at))[i] += begin;
}

static void column_tasks(void *arg, int64_t begin, int64_t end)
{
    const reduction *r = arg;
    for (int64_t t = begin; t < end; t++)
        column_task(r, t / r->chunks / r->tiles, t / r->chunks % r->tiles, t % r->chunks);
}

static void reduce_columns(reduction *r)
{
    int64_t tasks = r->outputs / r->width * r->tiles * r->chunks, per_task = least(r->width, REDUCE_TILE) * r->chunk;
    threads_for(tasks, 1 + GRAIN / (per_task + 64), (double)r->outputs * (double)r->count * 0.2, column_tasks, r);
}

/* --- the plan ---------------------------------------------------------------------------------------------- */

static bool by_columns(const reduction *r)
{
    if (r->kept.ndim == 0 || r->reduced.ndim == 0)
        return false;
    int64_t kept = r->kept.strides[r->kept.ndim - 1], reduced = r->reduced.strides[r->reduced.ndim - 1];
    return kept != 0 && kept < (reduced < 0 ? -reduced : reduced);
}

static int64_t line_of(const view *src)
{
    int64_t expect = 1;
    for (int d = src->ndim - 1; d >= 0; d--) {
        if (src->sizes[d] != 1 && src->strides[d] != expect)
            return 0;
        expect *= src->sizes[d];
    }
    return src->ndim ? src->sizes[src->ndim - 1] : 1;
}

static void split(reduction *r, const view *src, uint32_t dims)
{
    r->kept.data = r->reduced.data = src->data; /* field by field: sizes beyond ndim are never looked at */
    r->kept.dtype = r->reduced.dtype = src->dtype;
    r->kept.ndim = r->reduced.ndim = 0;
    for (int d = 0; d < src->ndim; d++) {
        view *part = dims >> d & 1 ? &r->reduced : &r->kept;
        part->sizes[part->ndim] = src->sizes[d];
        part->strides[part->ndim++] = src->strides[d];
    }
    r->outputs = view_numel(&r->kept);
    r->count = view_numel(&r->reduced);
    r->line = line_of(src);
}

static void kept_part(view *to, const view *dst, uint32_t dims)
{
    to->data = dst->data;
    to->dtype = dst->dtype;
    to->ndim = 0;
    for (int d = 0; d < dst->ndim; d++)
        if (!(dims >> d & 1)) {
            to->sizes[to->ndim] = dst->sizes[d];
            to->strides[to->ndim++] = dst->strides[d];
        }
}

/* Sorts the dimensions; the kept parts of the destinations go along. Turning a reduced dimension moves the address,
 * which the kept part has to follow. */
static void order(reduction *r, view *a, view *b)
{
    if (!r->kept.ndim && (!r->reduced.ndim || (r->reduced.ndim == 1 && r->reduced.strides[0] > 0)))
        return; /* a line to one number */
    view *kept[3] = { &r->kept };
    int n = 1;
    if (a)
        kept[n++] = a;
    if (b)
        kept[n++] = b;
    views_order(kept, n);
    if (r->kind == REDUCE_ARGMAX || r->kind == REDUCE_ARGMIN) {
        views_collapse((view *[]){ &r->reduced }, 1);
        return;
    }
    char *before = r->reduced.data;
    views_order((view *[]){ &r->reduced }, 1);
    r->kept.data += r->reduced.data - before;
}

int64_t reduce_block_rows(int64_t width)
{
    int64_t rows = REDUCE_FEED / width / REDUCE_ROWS * REDUCE_ROWS;
    for (rows = rows ? rows : REDUCE_ROWS; rows > 4 && rows * width > 2 * REDUCE_FEED;)
        rows /= 2;
    return rows;
}

int64_t reduce_task_rows(int64_t width)
{
    int64_t rows = 2 * reduce_block_rows(width);
    return rows < TASK_ROWS ? TASK_ROWS : rows;
}

/* A sum of everything has a chunk for each block of rows, one of columns for each task: so both can be fed by blocks.
 */
static void cut(reduction *r, bool columns)
{
    r->chunk = CHUNK;
    if (columns) {
        r->width = r->kept.sizes[r->kept.ndim - 1];
        r->tiles = pieces(r->width, REDUCE_TILE);
        r->block = REDUCE_ROWS;
        if (r->outputs / r->width * r->tiles >= FEW_TILES) {
            r->chunk = r->count;
        } else if (r->width > REDUCE_WIDEST) {
            r->chunk = COLUMN_CHUNK / REDUCE_TILE;
        } else {
            r->chunk = reduce_task_rows(r->width);
            r->block = least(REDUCE_ROWS, reduce_block_rows(r->width));
        }
    } else if (!r->kept.ndim && r->line && r->line <= REDUCE_WIDEST) {
        r->chunk = reduce_block_rows(r->line) * r->line;
    }
    r->chunks = pieces(r->count, r->chunk);
}

static void fill_empty(reduction *r)
{
    double x = r->kind == REDUCE_PROD || r->kind == REDUCE_ALL;
    if (r->kind == REDUCE_MOMENTS)
        x = NAN;
    for (int64_t i = 0; i < r->outputs; i++) {
        if (r->floating)
            ((double *)r->a)[i] = x;
        else
            ((int64_t *)r->a)[i] = (int64_t)x;
        if (r->paired)
            ((int64_t *)r->b)[i] = 0; /* also 0.0 */
    }
}

static void join_chunks(const reduction *r)
{
    for (int64_t c = 1; c < r->chunks; c++) {
        int64_t at = c * r->outputs * 8, count = least(r->chunk, r->count - c * r->chunk);
        join(r, r->a, r->b, r->a + at, r->b + at, r->outputs, c * r->chunk, count);
    }
}

static void run(reduction *r, bool columns)
{
    if (r->count == 0) {
        fill_empty(r);
        return;
    }
    if (columns)
        reduce_columns(r);
    else
        reduce_rows(r);
    join_chunks(r);
}

/* The accumulators at `data` become the elements of dst, which lies at `to`. */
static void deliver(const view *dst, char *to, char *data, bk_dtype dtype)
{
    if (!dst->ndim && dst->dtype == BK_FLOAT32 && dtype == BK_FLOAT64) {
        *(float *)to = (float)*(const double *)data;
        return;
    }
    view from;
    from.data = data;
    from.dtype = dtype;
    from.ndim = dst->ndim;
    int64_t stride = 1;
    for (int d = dst->ndim - 1; d >= 0; d--) {
        from.sizes[d] = dst->sizes[d];
        from.strides[d] = stride;
        stride *= dst->sizes[d];
    }
    view there;
    view_take(&there, dst);
    there.data = to;
    move_copy(&there, &from);
}

static const reduce_table *table(void)
{
    static const reduce_table *const of[] = {
        [ISA_BASELINE] = &reduce_table_baseline,
        [ISA_AVX2] = &reduce_table_avx2,
        [ISA_AVX512] = &reduce_table_avx512,
    };
    return of[isa_current()];
}

/* What becomes of float accumulators before they are rounded to the destination's dtype. */
typedef struct finish {
    double divide;
    bool root;
} finish;

static void finish_run(double *acc, int64_t n, finish f)
{
    for (int64_t i = 0; i < n; i++)
        acc[i] = f.root ? sqrt(acc[i] / f.divide) : acc[i] / f.divide;
}

/* a_dst takes the first accumulators, b_dst the second ones; NULL for those nobody wants. `f` is for the second ones of
 * moments, else for the first. */
static int reduce(reduce_kind kind, const view *a_dst, const view *b_dst, const view *src, uint32_t dims,
                  const finish *f)
{
    reduction r = { .kind = kind, .floating = dtype_is_float(src->dtype), .paired = kind >= REDUCE_ARGMAX };
    r.rows = table()->rows[src->dtype][kind];
    r.columns = table()->columns[src->dtype][kind];
    split(&r, src, dims);
    if (r.outputs == 0)
        return 0;
    view a, b;
    if (a_dst)
        kept_part(&a, a_dst, dims);
    if (b_dst)
        kept_part(&b, b_dst, dims);
    if (r.count > 0)
        order(&r, a_dst ? &a : NULL, b_dst ? &b : NULL);
    bool columns = r.count > 0 && by_columns(&r);
    cut(&r, columns);

    _Alignas(16) char small[SMALL * 16];
    int64_t accumulators = r.outputs * (r.chunks ? r.chunks : 1);
    size_t bytes = (size_t)accumulators * (r.paired ? 16 : 8);
    r.a = bytes <= sizeof small ? small : pool_take(bytes);
    if (!r.a)
        return -1;
    r.b = r.paired ? r.a + accumulators * 8 : r.a;
    run(&r, columns);
    if (f)
        finish_run((double *)(kind == REDUCE_MOMENTS ? r.b : r.a), r.outputs, *f);
    if (a_dst)
        deliver(&a, a.data, r.a, r.floating ? BK_FLOAT64 : BK_INT64);
    if (b_dst)
        deliver(&b, b.data, r.b, kind == REDUCE_MOMENTS ? BK_FLOAT64 : BK_INT64);
    if (r.a != small)
        pool_give(r.a, bytes);
    return 0;
}

int reduce_run(reduce_kind kind, const view *dst, const view *src, uint32_t dims)
{
    if (kind == REDUCE_ARGMAX || kind == REDUCE_ARGMIN)
        return reduce(kind, NULL, dst, src, dims, NULL);
    return reduce(kind, dst, NULL, src, dims, NULL);
}

int reduce_extreme(bool max, const view *values, const view *indices, const view *src, int dim)
{
    return reduce(max ? REDUCE_ARGMAX : REDUCE_ARGMIN, values, indices, src, 1u << dim, NULL);
}

int reduce_moments(const view *mean, const view *m2, const view *src, uint32_t dims)
{
    return reduce(REDUCE_MOMENTS, mean, m2, src, dims, NULL);
}

int reduce_mean(const view *dst, const view *src, uint32_t dims)
{
    double count = 1;
    for (int d = 0; d < src->ndim; d++)
        count *= dims >> d & 1 ? (double)src->sizes[d] : 1;
    return reduce(REDUCE_SUM, dst, NULL, src, dims, &(finish){ count, false });
}

int reduce_variance(const view *mean, const view *variance, const view *src, uint32_t dims, double divide, bool root)
{
    return reduce(REDUCE_MOMENTS, mean, variance, src, dims, &(finish){ divide, root });
}

/* --- reducing values as they are made -------------------------------------------------------------------------
 *
 * The geometry is that of the same reduction over memory, at an address that is made up: an address is only ever a
 * number of elements from it. Values pass through a scratch of one REDUCE_BLOCK, or of REDUCE_ROWS rows: what the
 * kernels join at a time, so that neither they nor the result can tell the difference. */

enum { ROWS_SCRATCH = REDUCE_ROWS * REDUCE_TILE * 4 }; /* whole tiles of floats: in L2 */
#define MADE_UP ((char *)4096)

typedef struct stream_sink {
    reduction r;
    view dst; /* its kept part, at an address that is made up, too */
    int from;
    bool mean;
} stream_sink;

struct reduce_stream {
    int count;
    bool columns;
    int64_t tasks, grain;
    double work_ns;         /* besides that of the source */
    const reduce_end *ends; /* of the run under way, as are the accumulators in sinks */
    const reduce_source *source;
    stream_sink sink[];
};

static int64_t item_size(const reduction *r) { return (int64_t)dtype_size(r->kept.dtype); }

/* Where sink i finds elements from `begin` on. */
static const char *made(const reduce_stream *s, int i, int64_t begin, char *const *scratch)
{
    return s->ends[i].memory ? s->ends[i].memory + begin * item_size(&s->sink[i].r) : scratch[s->sink[i].from];
}

/* `outputs` whole outputs, or one piece of a long one, from element `begin` on. */
static void stream_row_piece(const reduce_stream *s, int64_t begin, int64_t outputs, int64_t n, int64_t before,
                             int64_t at)
{
    _Alignas(64) char scratch[s->count][REDUCE_BLOCK * 8];
    char *to[REDUCE_SINKS];
    for (int i = 0; i < s->count; i++)
        to[i] = scratch[i];
    s->source->make(s->source->arg, begin, begin + outputs * n, to);
    for (int i = 0; i < s->count; i++) {
        const reduction *r = &s->sink[i].r;
        int64_t size = item_size(r);
        r->rows(made(s, i, begin, to), outputs, n * size, n, size, before, r->a + at, r->a + at);
    }
}

static void stream_rows(void *arg, int64_t begin, int64_t end)
{
    const reduce_stream *s = arg;
    const reduction *r = &s->sink->r;
    for (int64_t t = begin, outputs = 1; t < end; t += outputs) {
        if (r->count <= REDUCE_BLOCK) {
            outputs = least(end - t, REDUCE_BLOCK / r->count);
            stream_row_piece(s, t * r->count, outputs, r->count, 0, t * 8);
            continue;
        }
        int64_t output = t / r->chunks, c = t % r->chunks, first = c * r->chunk;
        int64_t last = least(first + r->chunk, r->count), at = (c * r->outputs + output) * 8;
        for (int64_t i = first; i < last; i += REDUCE_BLOCK)
            stream_row_piece(s, output * r->count + i, 1, least(REDUCE_BLOCK, last - i), i - first, at);
    }
}

/* `rows` rows of n columns, `row_step` elements apart, into the accumulators at `at`. */
static void stream_some_rows(const reduce_stream *s, int64_t first, int64_t rows, int64_t row_step, int64_t n,
                             int64_t before, int64_t at)
{
    _Alignas(64) char scratch[s->count][ROWS_SCRATCH];
    char *to[REDUCE_SINKS];
    bool together = row_step == n;
    for (int64_t row = 0; row < rows; row += together ? rows : 1) {
        int64_t begin = first + row * row_step;
        for (int i = 0; i < s->count; i++)
            to[i] = scratch[i] + row * n * item_size(&s->sink[i].r);
        s->source->make(s->source->arg, begin, begin + (together ? rows : 1) * n, to);
    }
    for (int i = 0; i < s->count; i++)
        to[i] = scratch[i];
    for (int i = 0; i < s->count; i++) {
        const reduction *r = &s->sink[i].r;
        int64_t size = item_size(r), step = (s->ends[i].memory ? row_step : n) * size;
        r->columns(made(s, i, first, to), rows, step, n, size, before, r->a + at, r->a + at);
    }
}

static int64_t elements_from(const reduction *r, const char *p) { return (p - MADE_UP) / item_size(r); }

/* Columns [first, first + n) of one outer index, over one chunk of the rows. */
static void stream_column_task(const reduce_stream *s, int64_t output, int64_t n, int64_t c)
{
    const reduction *r = &s->sink->r;
    int64_t begin = c * r->chunk, end = least(begin + r->chunk, r->count);
    walk start;
    walk_start(&start, (const view *const[]){ &r->kept }, 1, output);
    view reduced;
    view_take(&reduced, &r->reduced);
    reduced.data = start.p[0];
    walk w;
    walk_start(&w, (const view *const[]){ &reduced }, 1, begin);
    for (int64_t i = begin, rows; i < end; i += rows, walk_skip(&w, rows)) {
        rows = walk_run(&w, end - i);
        int64_t row_step = walk_step(&w, 0) / item_size(r), first = elements_from(r, w.p[0]);
        for (int64_t row = 0; row < rows; row += r->block)
            stream_some_rows(s, first + row * row_step, least(r->block, rows - row), row_step, n, i - begin + row,
                             (c * r->outputs + output) * 8);
    }
}

/* How many columns pass at a time: a multiple of every vector, so that the last columns are the same ones. */
static int64_t stream_width(const reduce_stream *s)
{
    int64_t size = 1;
    for (int i = 0; i < s->count; i++)
        size = item_size(&s->sink[i].r) > size ? item_size(&s->sink[i].r) : size;
    return least(REDUCE_TILE, ROWS_SCRATCH / REDUCE_ROWS / size);
}

static void stream_columns(void *arg, int64_t begin, int64_t end)
{
    const reduce_stream *s = arg;
    const reduction *r = &s->sink->r;
    int64_t width = stream_width(s);
    for (int64_t t = begin; t < end; t++) {
        int64_t first = t / r->chunks % r->tiles * REDUCE_TILE, n = least(REDUCE_TILE, r->width - first);
        int64_t output = t / r->chunks / r->tiles * r->width + first;
        for (int64_t column = 0; column < n; column += width)
            stream_column_task(s, output + column, least(width, n - column), t % r->chunks);
    }
}

bool reduce_streams(const view *src, uint32_t dims)
{
    reduction r = { .kind = REDUCE_SUM };
    view made_up;
    view_take(&made_up, src);
    made_up.data = MADE_UP;
    split(&r, &made_up, dims);
    if (r.outputs == 0 || r.count == 0)
        return false;
    order(&r, NULL, NULL);
    return by_columns(&r) ? r.kept.sizes[r.kept.ndim - 1] >= NARROW : r.reduced.ndim <= 1;
}

/* `at` is where the destination counts as lying. */
static bool stream_begin(reduction *r, const reduce_sink *sink, uint32_t dims, view *dst, char *at)
{
    view src;
    view_take(&src, &sink->src);
    src.data = MADE_UP;
    r->kind = sink->kind;
    r->floating = dtype_is_float(src.dtype);
    r->paired = false;
    r->rows = table()->rows[src.dtype][sink->kind];
    r->columns = table()->columns[src.dtype][sink->kind];
    split(r, &src, dims);
    kept_part(dst, &sink->dst, dims);
    dst->data = at;
    order(r, dst, NULL);
    bool columns = by_columns(r);
    cut(r, columns);
    return columns;
}

reduce_stream *reduce_stream_new(const reduce_sink *sinks, int count, uint32_t dims)
{
    reduce_stream *s = mem_alloc(reduce_stream_bytes(count));
    if (!s)
        return NULL;
    s->count = count;
    for (int i = 0; i < count; i++) {
        s->columns = stream_begin(&s->sink[i].r, &sinks[i], dims, &s->sink[i].dst, MADE_UP); /* of one all */
        s->sink[i].from = sinks[i].from;
        s->sink[i].mean = sinks[i].mean;
    }
    const reduction *r = &s->sink->r;
    int64_t task = s->columns ? least(r->width, REDUCE_TILE) * r->chunk + 64 : least(r->count, r->chunk) + 8;
    s->tasks = (s->columns ? r->outputs / r->width * r->tiles : r->outputs) * r->chunks;
    s->grain = 1 + GRAIN / 4 / task;
    s->work_ns = (double)r->outputs * ((double)r->count * 0.2 * count + 2);
    return s;
}

size_t reduce_stream_bytes(int count) { return sizeof(reduce_stream) + (size_t)count * sizeof(stream_sink); }

static void stream_deliver(const stream_sink *sink, char *dst)
{
    const reduction *r = &sink->r;
    join_chunks(r);
    if (sink->mean)
        finish_run((double *)r->a, r->outputs, (finish){ (double)r->count, false });
    deliver(&sink->dst, dst + (sink->dst.data - MADE_UP), r->a, r->floating ? BK_FLOAT64 : BK_INT64);
}

int reduce_stream_run(reduce_stream *s, const reduce_end *ends, const reduce_source *source)
{
    _Alignas(16) char small[SMALL * 8];
    size_t each = (size_t)(s->sink->r.outputs * s->sink->r.chunks) * 8, bytes = each * (size_t)s->count;
    char *accumulators = bytes <= sizeof small ? small : pool_take(bytes);
    if (!accumulators)
        return -1;
    for (int i = 0; i < s->count; i++)
        s->sink[i].r.a = s->sink[i].r.b = accumulators + (size_t)i * each;
    s->ends = ends;
    s->source = source;
    threads_for(s->tasks, s->grain, source->work_ns + s->work_ns, s->columns ? stream_columns : stream_rows, s);
    for (int i = 0; i < s->count; i++)
        stream_deliver(&s->sink[i], ends[i].dst);
    if (accumulators != small)
        pool_give(accumulators, bytes);
    return 0;
}

/* --- reducing blocks of rows as they are made -------------------------------------------------------------------- */

struct reduce_feed {
    reduction r;
    view dst;
    size_t bytes; /* of this and the accumulators */
    bool columns, mean;
};

/* Of a row-major source: everything, or columns of whole rows of `width`, whose chunks are whole blocks. */
bool reduce_feeds(const view *src, uint32_t dims, int64_t width)
{
    reduction r = { .kind = REDUCE_SUM };
    split(&r, src, dims);
    if (!r.outputs || !r.count || !r.line || width > REDUCE_WIDEST)
        return false;
    order(&r, NULL, NULL);
    if (by_columns(&r))
        return r.kept.ndim == 1 && r.kept.sizes[0] == width && width >= NARROW && r.reduced.ndim == 1;
    return !r.kept.ndim && r.line <= REDUCE_WIDEST &&
           reduce_block_rows(width) * width % (reduce_block_rows(r.line) * r.line) == 0;
}

reduce_feed *reduce_feed_open(const reduce_sink *sink, uint32_t dims)
{
    reduction r;
    view dst;
    bool columns = stream_begin(&r, sink, dims, &dst, sink->dst.data);
    size_t bytes = (sizeof(reduce_feed) + 63) / 64 * 64, all = bytes + (size_t)(r.outputs * r.chunks) * 8;
    reduce_feed *f = pool_take(all);
    if (!f)
        return NULL;
    r.a = r.b = (char *)f + bytes;
    *f = (reduce_feed){ .r = r, .dst = dst, .bytes = all, .columns = columns, .mean = sink->mean };
    return f;
}

static void feed_columns(const reduction *r, int64_t begin, int64_t end, const char *p)
{
    int64_t size = item_size(r), first = begin / r->width, rows = (end - begin) / r->width, c = first / r->chunk;
    for (int64_t column = 0; column < r->width; column += REDUCE_TILE) {
        char *a = r->a + (c * r->outputs + column) * 8;
        r->columns(p + column * size, rows, r->width * size, least(REDUCE_TILE, r->width - column), size,
                   first - c * r->chunk, a, a);
    }
}

void reduce_feed_block(const reduce_feed *f, int64_t begin, int64_t end, const char *p)
{
    const reduction *r = &f->r;
    if (f->columns) {
        feed_columns(r, begin, end, p);
        return;
    }
    for (int64_t n; begin < end; begin += n, p += n * item_size(r)) {
        n = least(r->chunk, end - begin);
        char *a = r->a + begin / r->chunk * 8;
        r->rows(p, 1, 0, n, item_size(r), 0, a, a);
    }
}

void reduce_feed_close(reduce_feed *f, bool deliver_it)
{
    reduction *r = &f->r;
    if (deliver_it) {
        join_chunks(r);
        if (f->mean)
            finish_run((double *)r->a, r->outputs, (finish){ (double)r->count, false });
        deliver(&f->dst, f->dst.data, r->a, r->floating ? BK_FLOAT64 : BK_INT64);
    }
    pool_give(f, f->bytes);
}
