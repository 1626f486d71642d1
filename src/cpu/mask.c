/* mask.c: reading and writing under masks, and the places of nonzero elements.
 *
 * Two passes: the first counts per chunk, a running sum of the counts says where each chunk's elements go, and the
 * second moves them, all chunks at once. The moves are free of branches: every element is written to the next place,
 * and the place advances only if the mask says so; a random mask would cost a misprediction every other element.
 *
 * Invariant: a chunk writes only to its own part of the result. */
#include "cpu/index.h"

#include "core/memory.h"
#include "core/threads.h"
#include "cpu/element.h"
#include "cpu/move.h"
#include "cpu/walk.h"

#include <string.h>

enum { CHUNK = 1 << 14 }; /* 64 KB of floats, in L2 */

/* --- counting ---------------------------------------------------------------------------------------------- */

typedef struct counting {
    const view *mask;
    int64_t *counts; /* one per chunk */
} counting;

ELEMENT_INLINE int64_t count_strided(bk_dtype t, const char *p, int64_t step, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += element_nonzero(t, p + i * step);
    return count;
}

/* Sums of bytes stay below 256 over 255 elements, so that vectors of bytes can count. */
static int64_t count_bytes(const char *p, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += 4080) {
        uint8_t lane[16] = { 0 };
        int64_t m = n - i < 4080 ? n - i : 4080, j = 0;
        for (; j + 16 <= m; j += 16)
            for (int k = 0; k < 16; k++)
                lane[k] = (uint8_t)(lane[k] + (p[i + j + k] != 0));
        for (int k = 0; k < 16; k++)
            count += lane[k];
        count += count_strided(BK_UINT8, p + i + j, 1, m - j);
    }
    return count;
}

static int64_t count_run(bk_dtype t, const char *p, int64_t step, int64_t n)
{
    if (step == 1)
        return count_bytes(p, n);
    switch (t) {
    case BK_FLOAT32: return count_strided(BK_FLOAT32, p, step, n);
    case BK_FLOAT64: return count_strided(BK_FLOAT64, p, step, n);
    case BK_FLOAT16:
    case BK_BFLOAT16: return count_strided(BK_FLOAT16, p, step, n);
    case BK_INT64: return count_strided(BK_INT64, p, step, n);
    case BK_INT32: return count_strided(BK_INT32, p, step, n);
    case BK_INT16: return count_strided(BK_INT16, p, step, n);
    default: return count_strided(BK_UINT8, p, step, n);
    }
}

static int64_t count_chunk(const view *mask, int64_t begin, int64_t end)
{
    int64_t count = 0;
    walk w;
    walk_start(&w, &mask, 1, begin);
    for (int64_t n; begin < end; begin += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - begin);
        count += count_run(mask->dtype, w.p[0], walk_step(&w, 0), n);
    }
    return count;
}

static void count_piece(void *arg, int64_t begin, int64_t end)
{
    const counting *c = arg;
    for (int64_t i = begin; i < end; i += CHUNK)
        c->counts[i / CHUNK] = count_chunk(c->mask, i, end - i < CHUNK ? end : i + CHUNK);
}

/* Where each chunk's elements start, and at the end the count of all; NULL when memory is out. */
static int64_t *chunk_starts(const view *mask, int64_t n)
{
    int64_t chunks = (n + CHUNK - 1) / CHUNK, total = 0;
    int64_t *starts = mem_alloc((size_t)(chunks + 1) * sizeof *starts);
    if (!starts)
        return NULL;
    threads_for(n, CHUNK, (double)n * 0.1, count_piece, &(counting){ mask, starts });
    for (int64_t i = 0; i < chunks; i++) {
        int64_t count = starts[i];
        starts[i] = total;
        total += count;
    }
    starts[chunks] = total;
    return starts;
}

typedef struct totalling {
    const view *src;
    int64_t total; /* added to by pieces: integers, so the order does not matter */
} totalling;

static void total_piece(void *arg, int64_t begin, int64_t end)
{
    totalling *t = arg;
    __atomic_fetch_add(&t->total, count_chunk(t->src, begin, end), __ATOMIC_RELAXED);
}

int64_t nonzero_count(const view *src)
{
    view v;
    view_take(&v, src);
    int64_t n = view_numel(src);
    totalling t = { .src = &v };
    views_order((view *[]){ &v }, 1);
    threads_for(n, CHUNK, (double)n * 0.1, total_piece, &t);
    return t.total;
}

int64_t mask_count(const view *mask) { return nonzero_count(mask); }

/* --- select and scatter ------------------------------------------------------------------------------------ */

typedef enum direction { TO_LINE, FROM_LINE } direction; /* select, scatter */

typedef struct masking {
    view full, mask; /* row-major, merged */
    char *line;      /* the 1-d side */
    int64_t step;    /* its byte step */
    direction way;
    const int64_t *starts;
} masking;

/* A run of the full side beside the line: where each begins, and the byte steps. */
typedef struct masked_run {
    char *full, *line;
    const char *mask;
    int64_t full_step, line_step, mask_step;
    int64_t n, count; /* elements of the run; those of the line that may be used */
} masked_run;

/* Takes elements until `count` of them are found: so no write goes past the chunk's part. */
ELEMENT_INLINE int64_t select_sized(masked_run r, size_t bytes)
{
    int64_t k = 0;
    for (int64_t i = 0; i < r.n && k < r.count; i++) {
        memcpy(r.line + k * r.line_step, r.full + i * r.full_step, bytes);
        k += r.mask[i * r.mask_step] != 0;
    }
    return k;
}

/* Every element is written, with the next of the line or with itself; stops when the line's part is used up. */
ELEMENT_INLINE int64_t scatter_sized(masked_run r, size_t bytes)
{
    int64_t k = 0;
    for (int64_t i = 0; i < r.n && k < r.count; i++) {
        uint64_t old = 0, new = 0;
        bool take = r.mask[i * r.mask_step] != 0;
        memcpy(&old, r.full + i * r.full_step, bytes);
        memcpy(&new, r.line + k * r.line_step, bytes);
        uint64_t mask = 0 - (uint64_t)take;
        old = (new & mask) | (old & ~mask);
        memcpy(r.full + i * r.full_step, &old, bytes);
        k += take;
    }
    return k;
}

ELEMENT_INLINE int64_t run_sized(direction way, masked_run r, size_t bytes)
{
    return way == TO_LINE ? select_sized(r, bytes) : scatter_sized(r, bytes);
}

/* Where all is dense the steps are constants of the loop. */
ELEMENT_INLINE int64_t run_dense(direction way, masked_run r, size_t bytes)
{
    int64_t b = (int64_t)bytes;
    if (r.full_step != b || r.line_step != b || r.mask_step != 1)
        return run_sized(way, r, bytes);
    r.full_step = r.line_step = b;
    r.mask_step = 1;
    return run_sized(way, r, bytes);
}

ELEMENT_INLINE int64_t run_any(direction way, masked_run r, size_t bytes)
{
    switch (bytes) {
    case 1: return run_dense(way, r, 1);
    case 2: return run_dense(way, r, 2);
    case 4: return run_dense(way, r, 4);
    default: return run_dense(way, r, 8);
    }
}

static void masked_piece(void *arg, int64_t begin, int64_t end)
{
    const masking *g = arg;
    int64_t chunks_end = (end + CHUNK - 1) / CHUNK, k = g->starts[begin / CHUNK], last = g->starts[chunks_end];
    walk w;
    walk_start(&w, (const view *const[]){ &g->full, &g->mask }, 2, begin);
    for (int64_t n; begin < end && k < last; begin += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - begin);
        const masked_run r = { w.p[0],  g->line + k * g->step, w.p[1], walk_step(&w, 0),
                               g->step, walk_step(&w, 1),      n,      last - k };
        const size_t bytes = dtype_size(g->full.dtype);
        k += g->way == TO_LINE ? run_any(TO_LINE, r, bytes) : run_any(FROM_LINE, r, bytes);
    }
}

static int run_masked(const view *full, const view *mask, const view *line, direction way)
{
    int64_t n = view_numel(full);
    if (n == 0)
        return 0;
    masking g = { .full = *full, .mask = *mask, .line = line->data, .way = way };
    g.step = line->ndim ? line->strides[0] * (int64_t)dtype_size(line->dtype) : 0;
    views_collapse((view *[]){ &g.full, &g.mask }, 2);
    int64_t *starts = chunk_starts(&g.mask, n);
    if (!starts)
        return -1;
    g.starts = starts;
    threads_for(n, CHUNK, (double)n, masked_piece, &g);
    mem_free(starts);
    return 0;
}

int mask_select(const view *dst, const view *src, const view *mask) { return run_masked(src, mask, dst, TO_LINE); }

int mask_scatter(const view *dst, const view *mask, const view *src) { return run_masked(dst, mask, src, FROM_LINE); }

/* --- fill -------------------------------------------------------------------------------------------------- */

typedef struct filling {
    view dst, mask;
    const char *element;
} filling;

ELEMENT_INLINE void fill_sized(char *d, int64_t ds, const char *m, int64_t ms, const char *element, int64_t n,
                               size_t bytes)
{
    uint64_t new = 0;
    memcpy(&new, element, bytes);
    for (int64_t i = 0; i < n; i++) {
        uint64_t old = 0, mask = 0 - (uint64_t)(m[i * ms] != 0);
        memcpy(&old, d + i * ds, bytes);
        old = (new & mask) | (old & ~mask);
        memcpy(d + i * ds, &old, bytes);
    }
}

static void fill_piece(void *arg, int64_t begin, int64_t end)
{
    const filling *f = arg;
    walk w;
    walk_start(&w, (const view *const[]){ &f->dst, &f->mask }, 2, begin);
    for (int64_t n; begin < end; begin += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - begin);
        switch (dtype_size(f->dst.dtype)) {
        case 1: fill_sized(w.p[0], walk_step(&w, 0), w.p[1], walk_step(&w, 1), f->element, n, 1); break;
        case 2: fill_sized(w.p[0], walk_step(&w, 0), w.p[1], walk_step(&w, 1), f->element, n, 2); break;
        case 4: fill_sized(w.p[0], walk_step(&w, 0), w.p[1], walk_step(&w, 1), f->element, n, 4); break;
        default: fill_sized(w.p[0], walk_step(&w, 0), w.p[1], walk_step(&w, 1), f->element, n, 8);
        }
    }
}

void mask_fill(const view *dst, const view *mask, const void *element)
{
    int64_t n = view_numel(dst);
    filling f = { *dst, *mask, element };
    views_order((view *[]){ &f.dst, &f.mask }, 2);
    threads_for(n, CHUNK, (double)n * 0.7, fill_piece, &f);
}

/* --- nonzero ----------------------------------------------------------------------------------------------- */

typedef struct finding {
    const view *dst, *src;
    const int64_t *starts;
} finding;

static bool is_nonzero(bk_dtype t, const char *p)
{
    switch (t) {
    case BK_FLOAT32: return element_nonzero(BK_FLOAT32, p);
    case BK_FLOAT64: return element_nonzero(BK_FLOAT64, p);
    case BK_FLOAT16:
    case BK_BFLOAT16: return element_nonzero(BK_FLOAT16, p);
    case BK_INT64: return element_nonzero(BK_INT64, p);
    case BK_INT32: return element_nonzero(BK_INT32, p);
    case BK_INT16: return element_nonzero(BK_INT16, p);
    default: return element_nonzero(BK_UINT8, p);
    }
}

static void put_place(const view *dst, int64_t row, const walk *w, int64_t last)
{
    char *p = dst->data + row * dst->strides[0] * 8;
    for (int d = 0; d < dst->sizes[1]; d++)
        *(int64_t *)(p + d * dst->strides[1] * 8) = d == w->ndim - 1 ? last : w->at[d];
}

static void find_piece(void *arg, int64_t begin, int64_t end)
{
    const finding *f = arg;
    int64_t k = f->starts[begin / CHUNK], last = f->starts[(end + CHUNK - 1) / CHUNK];
    walk w;
    walk_start(&w, (const view *const[]){ f->src }, 1, begin);
    for (int64_t n; begin < end && k < last; begin += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - begin);
        int64_t first = w.at[w.ndim - 1], step = walk_step(&w, 0);
        for (int64_t i = 0; i < n && k < last; i++) { /* the place is overwritten until it is one */
            put_place(f->dst, k, &w, first + i);
            k += is_nonzero(f->src->dtype, w.p[0] + i * step);
        }
    }
}

int nonzero(const view *dst, const view *src)
{
    int64_t n = view_numel(src);
    if (n == 0)
        return 0;
    int64_t *starts = chunk_starts(src, n);
    if (!starts)
        return -1;
    threads_for(n, CHUNK, (double)n * 2, find_piece, &(finding){ dst, src, starts });
    mem_free(starts);
    return 0;
}
