/* move.c: copies, casts and fills between views of any strides.
 *
 * A copy is a matter of finding its shape: dimensions are sorted by the destination's strides and merged, which
 * leaves one of four inner loops: dense rows (memcpy), a broadcast row (fill), a transposition (tiles), or strided.
 *
 * Casts go through the four compute types in blocks that stay in L1: 10 loads, 10 stores per compute type, no
 * hundred loops. Invariant: every element of dst is written exactly once, by one thread. */
#include "cpu/move.h"

#include "core/threads.h"
#include "cpu/element.h"
#include "cpu/turn.h"
#include "cpu/walk.h"

#include <stdlib.h>
#include <string.h>

enum {
    GRAIN = 1 << 15, /* elements per piece: 30 us at memory speed, enough to hide a wake-up of a spinning worker */
    BAND = 4,        /* tiles side by side in a transposition */
    STREAM_BYTES = 4 << 20, /* twice a core's L2 */
    BLOCK = 512,            /* elements cast at a time: 4 KB of doubles, in L1 with source and destination */
};

/* --- shapes ------------------------------------------------------------------------------------------------ */

static bool mergeable(view **views, int count, int d, int next)
{
    for (int i = 0; i < count; i++)
        if (views[i]->strides[d] != views[i]->strides[next] * views[i]->sizes[next])
            return false;
    return true;
}

int views_collapse(view **views, int count)
{
    view *first = views[0];
    int kept = 0;
    for (int d = 0; d < first->ndim; d++) {
        int64_t size = first->sizes[d];
        if (size == 1)
            continue;
        bool merge = kept > 0 && mergeable(views, count, kept - 1, d);
        int to = merge ? kept - 1 : kept++;
        int64_t merged = merge ? first->sizes[to] * size : size;
        for (int i = 0; i < count; i++) {
            views[i]->strides[to] = views[i]->strides[d];
            views[i]->sizes[to] = merged;
            /* the next mergeable() reads views[i]->sizes[d] of a later d only, which is untouched */
        }
    }
    for (int i = 0; i < count; i++)
        views[i]->ndim = kept;
    return kept;
}

static void turn_upwards(view **views, int count)
{
    for (int d = 0; d < views[0]->ndim; d++) {
        if (views[0]->strides[d] >= 0)
            continue;
        for (int i = 0; i < count; i++) {
            int64_t last = (views[i]->sizes[d] - 1) * views[i]->strides[d];
            views[i]->data += last * (int64_t)dtype_size(views[i]->dtype);
            views[i]->strides[d] = -views[i]->strides[d];
        }
    }
}

/* Whether dimension a should stand outside b: by the first view that tells them apart. */
static bool outside(view **views, int count, int a, int b)
{
    for (int i = 0; i < count; i++) {
        int64_t sa = llabs(views[i]->strides[a]), sb = llabs(views[i]->strides[b]);
        if (sa != sb)
            return sa > sb;
    }
    return false;
}

static void swap_dims(view **views, int count, int a, int b)
{
    for (int i = 0; i < count; i++) {
        int64_t size = views[i]->sizes[a], stride = views[i]->strides[a];
        views[i]->sizes[a] = views[i]->sizes[b];
        views[i]->strides[a] = views[i]->strides[b];
        views[i]->sizes[b] = size;
        views[i]->strides[b] = stride;
    }
}

int views_order(view **views, int count)
{
    if (view_numel(views[0]) == 0)
        return views[0]->ndim;
    views_collapse(views, count);
    turn_upwards(views, count);
    for (int d = 1; d < views[0]->ndim; d++) /* insertion sort: stable, at most 8 dimensions */
        for (int e = d; e > 0 && outside(views, count, e, e - 1); e--)
            swap_dims(views, count, e, e - 1);
    return views_collapse(views, count);
}

/* --- runs of one dtype ------------------------------------------------------------------------------------- */

ELEMENT_INLINE void copy_strided(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(d + i * ds, s + i * ss, size);
}

ELEMENT_INLINE void fill_dense(char *d, const char *element, int64_t n, size_t size)
{
    char e[8];
    memcpy(e, element, size);
    for (int64_t i = 0; i < n; i++)
        memcpy(d + i * (int64_t)size, e, size);
}

static void fill_run(char *d, const char *s, int64_t n, size_t size)
{
    switch (size) {
    case 1: memset(d, *s, (size_t)n); break;
    case 2: fill_dense(d, s, n, 2); break;
    case 4: fill_dense(d, s, n, 4); break;
    default: fill_dense(d, s, n, 8);
    }
}

static void copy_run(char *d, int64_t ds, const char *s, int64_t ss, int64_t n, size_t size)
{
    if (ds == (int64_t)size && ss == ds) {
        memmove(d, s, (size_t)n * size);
        return;
    }
    if (ds == (int64_t)size && ss == 0) {
        fill_run(d, s, n, size);
        return;
    }
    switch (size) {
    case 1: copy_strided(d, ds, s, ss, n, 1); break;
    case 2: copy_strided(d, ds, s, ss, n, 2); break;
    case 4: copy_strided(d, ds, s, ss, n, 4); break;
    default: copy_strided(d, ds, s, ss, n, 8);
    }
}

/* --- casts ------------------------------------------------------------------------------------------------- */

typedef union block {
    float f32[BLOCK];
    double f64[BLOCK];
    int64_t i64[BLOCK];
} block;

/* A bool computes as an integer here; the names of load and store rows follow the dtype and the compute type. */
typedef void (*load_fn)(block *b, const char *s, int64_t step, int64_t n);
typedef void (*store_fn)(char *d, int64_t step, const block *b, int64_t n);

#define LOAD_ROW(dtype, name, held, compute, field, get)                                                               \
    static void load_##name(block *b, const char *s, int64_t step, int64_t n)                                          \
    {                                                                                                                  \
        if (step == (int64_t)sizeof(held))                                                                             \
            for (int64_t i = 0; i < n; i++)                                                                            \
                b->field[i] = get(dtype, s + i * (int64_t)sizeof(held));                                               \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                b->field[i] = get(dtype, s + i * step);                                                                \
    }
#define STORE_ROW(dtype, name, held, field, put)                                                                       \
    static void store_##name##_##field(char *d, int64_t step, const block *b, int64_t n)                               \
    {                                                                                                                  \
        if (step == (int64_t)sizeof(held))                                                                             \
            for (int64_t i = 0; i < n; i++)                                                                            \
                put(dtype, d + i * (int64_t)sizeof(held), b->field[i]);                                                \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++)                                                                            \
                put(dtype, d + i * step, b->field[i]);                                                                 \
    }
#define LOAD_INT(dtype, name, held, compute) LOAD_ROW(dtype, name, held, compute, i64, element_int)
#define STORES(dtype, name, held, compute)                                                                             \
    STORE_ROW(dtype, name, held, f32, element_put_float)                                                               \
    STORE_ROW(dtype, name, held, f64, element_put_double)                                                              \
    STORE_ROW(dtype, name, held, i64, element_put_int)
#define LOAD_ENTRY(dtype, name, held, compute) [dtype] = load_##name,
#define STORE_ENTRY(dtype, name, held, compute)                                                                        \
    [dtype] = { store_##name##_f32, store_##name##_f64, store_##name##_i64, store_##name##_i64 },

LOAD_ROW(BK_FLOAT32, f32, float, float, f32, element_float)
LOAD_ROW(BK_FLOAT64, f64, double, double, f64, element_double)
LOAD_ROW(BK_FLOAT16, f16, uint16_t, float, f32, element_float)
LOAD_ROW(BK_BFLOAT16, bf16, uint16_t, float, f32, element_float)
ELEMENT_INTS(LOAD_INT)
ELEMENT_DTYPES(STORES)

static const load_fn loads[BK_DTYPE_COUNT] = { ELEMENT_DTYPES(LOAD_ENTRY) };
static const store_fn stores[BK_DTYPE_COUNT][COMPUTE_COUNT] = { ELEMENT_DTYPES(STORE_ENTRY) };

static void cast_run(bk_dtype to, char *d, int64_t ds, bk_dtype from, const char *s, int64_t ss, int64_t n)
{
    load_fn load = loads[from];
    store_fn store = stores[to][dtypes[from].compute];
    block b;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        load(&b, s + i * ss, ss, m);
        store(d + i * ds, ds, &b, m);
    }
}

void move_run(bk_dtype to, char *d, int64_t ds, bk_dtype from, const char *s, int64_t ss, int64_t n)
{
    if (to == from)
        copy_run(d, ds, s, ss, n, dtype_size(to));
    else
        cast_run(to, d, ds, from, s, ss, n);
}

/* --- transposition ----------------------------------------------------------------------------------------- */

/* A tile is one cache line square: whole lines are read and whole lines are written. A panel is a row of tiles that
 * fills a band of the destination. */
typedef struct transposition {
    view dst, src; /* src.strides[across] == 1, dst.strides[ndim - 1] == 1 */
    int across;    /* the dimension along which the source is dense */
    int64_t tile;  /* elements in a cache line */
    int64_t bands; /* along `across` */
    size_t size;
    turn_fn turn; /* for elements of 4 and 8 bytes */
} transposition;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

ELEMENT_INLINE void tile_any(char *d, int64_t ds, const char *s, int64_t ss, int64_t rows, int64_t columns, size_t size)
{
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++)
            memcpy(d + (c * ds + r) * (int64_t)size, s + (r * ss + c) * (int64_t)size, size);
}

/* Elements of 1 and 2 bytes; the larger ones turn in registers. */
static void turn_bytes(const transposition *t, char *d, int64_t ds, const char *s, int64_t ss, int64_t cols)
{
    const int64_t rows = t->dst.sizes[t->dst.ndim - 1], size = (int64_t)t->size;
    for (int64_t r = 0; r < rows; r += t->tile)
        for (int64_t c = 0; c < cols; c += t->tile) {
            const int64_t high = least(t->tile, rows - r), wide = least(t->tile, cols - c);
            char *to = d + (c * ds + r) * size;
            const char *from = s + (r * ss + c) * size;
            if (t->size == 1)
                tile_any(to, ds, from, ss, high, wide, 1);
            else
                tile_any(to, ds, from, ss, high, wide, 2);
        }
}

/* One band: BAND tiles of columns of the source become as many rows of the destination. Tiles side by side come first:
 * the source is then read several lines at a time, which its prefetchers and the TLB need. */
static void band_move(const transposition *t, char *d, const char *s, int64_t cols)
{
    int along = t->dst.ndim - 1;
    int64_t ss = t->src.strides[along], ds = t->dst.strides[t->across];
    if (t->turn)
        t->turn(cols, t->dst.sizes[along], s, ss, d, ds);
    else
        turn_bytes(t, d, ds, s, ss, cols);
}

static void transpose_piece(void *arg, int64_t begin, int64_t end)
{
    const transposition *t = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t band = i % t->bands, rest = i / t->bands, first = band * t->tile * BAND;
        int64_t d_at = first * t->dst.strides[t->across], s_at = first;
        for (int d = t->dst.ndim - 2; d >= 0; d--) {
            if (d == t->across)
                continue;
            d_at += rest % t->dst.sizes[d] * t->dst.strides[d];
            s_at += rest % t->dst.sizes[d] * t->src.strides[d];
            rest /= t->dst.sizes[d];
        }
        int64_t size = (int64_t)t->size, cols = least(t->tile * BAND, t->dst.sizes[t->across] - first);
        band_move(t, t->dst.data + d_at * size, t->src.data + s_at * size, cols);
    }
}

/* The dimension, other than the last, along which src is dense; -1 unless tiles would pay. */
static int dense_across(const view *dst, const view *src)
{
    int last = dst->ndim - 1;
    if (last < 1 || dst->dtype != src->dtype || dst->strides[last] != 1 || dst->sizes[last] < 4)
        return -1;
    for (int d = 0; d < last; d++)
        if (src->strides[d] == 1 && dst->sizes[d] >= 4 && src->strides[last] != 0)
            return d;
    return -1;
}

/* Whether all lines of dst are whole: no two elements of a line lie in different rows. */
static bool on_lines(const view *dst)
{
    const int64_t line = 64 / (int64_t)dtype_size(dst->dtype);
    for (int d = 0; d < dst->ndim - 1; d++)
        if (dst->strides[d] % line)
            return false;
    return (uintptr_t)dst->data % 64 == 0;
}

/* Past the caches when dst is too large to be found there later: a line that is written whole need not be read first,
 * which is a third of the traffic. */
static turn_fn choose_turn(const view *dst, int64_t bytes)
{
    const turn_kernels *kernels = turn_current();
    const bool stream = bytes >= STREAM_BYTES && on_lines(dst);
    switch (dtype_size(dst->dtype)) {
    case 4: return stream ? kernels->stream_words : kernels->words;
    case 8: return stream ? kernels->stream_longs : kernels->longs;
    default: return NULL;
    }
}

static void transpose(const view *dst, const view *src, int across)
{
    transposition t = { .dst = *dst, .src = *src, .across = across, .size = dtype_size(dst->dtype) };
    t.tile = 64 / (int64_t)t.size;
    t.bands = (dst->sizes[across] + t.tile * BAND - 1) / (t.tile * BAND);
    int64_t total = view_numel(dst), bands = t.bands * (total / (dst->sizes[across] * dst->sizes[dst->ndim - 1]));
    int64_t per_band = total / bands, grain = per_band >= GRAIN ? 1 : GRAIN / per_band;
    t.turn = choose_turn(dst, total * (int64_t)t.size);
    threads_for(bands, grain, (double)total * 0.5, transpose_piece, &t);
}

/* --- copy and fill ----------------------------------------------------------------------------------------- */

typedef struct copy {
    const view *dst, *src;
} copy;

static void copy_piece(void *arg, int64_t begin, int64_t end)
{
    const copy *c = arg;
    walk w;
    walk_start(&w, (const view *const[]){ c->dst, c->src }, 2, begin);
    for (int64_t i = begin, n; i < end; i += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - i);
        move_run(c->dst->dtype, w.p[0], walk_step(&w, 0), c->src->dtype, w.p[1], walk_step(&w, 1), n);
    }
}

void move_copy(const view *dst, const view *src)
{
    view d, s;
    view_take(&d, dst);
    view_take(&s, src);
    int64_t n = view_numel(dst);
    if (n == 0)
        return;
    views_order((view *[]){ &d, &s }, 2);
    int across = dense_across(&d, &s);
    if (across >= 0) {
        transpose(&d, &s, across);
        return;
    }
    threads_for(n, GRAIN, (double)n * (d.dtype == s.dtype ? 0.25 : 1), copy_piece, &(copy){ &d, &s });
}

void move_fill(const view *dst, const void *element)
{
    view s;
    view_take(&s, dst);
    s.data = (char *)(uintptr_t)element;
    for (int d = 0; d < s.ndim; d++)
        s.strides[d] = 0;
    move_copy(dst, &s);
}

/* --- overlap ----------------------------------------------------------------------------------------------- */

/* The bytes [low, high) that a view spans. */
static void span(const view *v, uintptr_t *low, uintptr_t *high)
{
    int64_t size = (int64_t)dtype_size(v->dtype), below = 0, above = size;
    for (int d = 0; d < v->ndim; d++) {
        int64_t reach = (v->sizes[d] - 1) * v->strides[d] * size;
        *(reach < 0 ? &below : &above) += reach;
    }
    *low = (uintptr_t)v->data + (uintptr_t)below;
    *high = (uintptr_t)v->data + (uintptr_t)above;
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

/* Every address of either view lies on data + k * step for the common divisor of all strides: two such combs of
 * teeth `size` wide miss each other if their offset does. x[::2] and x[1::2] are told apart here. */
static bool combs_meet(const view *a, const view *b)
{
    int64_t size_a = (int64_t)dtype_size(a->dtype), size_b = (int64_t)dtype_size(b->dtype), step = 0;
    for (int d = 0; d < a->ndim; d++)
        if (a->sizes[d] > 1)
            step = gcd(step, llabs(a->strides[d]) * size_a);
    for (int d = 0; d < b->ndim; d++)
        if (b->sizes[d] > 1)
            step = gcd(step, llabs(b->strides[d]) * size_b);
    if (step == 0)
        return true;
    int64_t offset = (int64_t)((uintptr_t)b->data - (uintptr_t)a->data) % step;
    offset = offset < 0 ? offset + step : offset;
    return offset < size_a || offset + size_b > step;
}

/* Whether offset is a sum of k[d] * strides[d] with |k[d]| < sizes[d]. Inner dimensions reach less than one step of
 * stride d, so that k[d] is one of two neighbours: at most 2 to the number of dimensions tries, and two nearly always.
 */
static bool reachable(const view *v, int d, int64_t offset)
{
    if (d == v->ndim)
        return offset == 0;
    int64_t stride = v->strides[d], k = offset / stride - (offset % stride < 0);
    return (llabs(k) < v->sizes[d] && reachable(v, d + 1, offset - k * stride)) ||
           (llabs(k + 1) < v->sizes[d] && reachable(v, d + 1, offset - (k + 1) * stride));
}

/* Equal sizes and strides: the same box moved by an offset. Exact if each stride covers all inner dimensions. */
static bool boxes_meet(const view *a, const view *b)
{
    view va, vb;
    view_take(&va, a);
    view_take(&vb, b);
    views_order((view *[]){ &va, &vb }, 2);
    int64_t size = (int64_t)dtype_size(a->dtype), inner = 1;
    int64_t offset = (int64_t)((uintptr_t)vb.data - (uintptr_t)va.data);
    for (int d = va.ndim - 1; d >= 0; d--) {
        if (va.strides[d] < inner)
            return true;
        inner = va.strides[d] * va.sizes[d];
    }
    return offset % size != 0 || reachable(&va, 0, offset / size);
}

static bool same_layout(const view *a, const view *b)
{
    if (a->ndim != b->ndim || dtype_size(a->dtype) != dtype_size(b->dtype))
        return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->sizes[d] != b->sizes[d] || (a->sizes[d] > 1 && a->strides[d] != b->strides[d]))
            return false;
    return true;
}

bool move_overlaps(const view *a, const view *b)
{
    if (view_numel(a) == 0 || view_numel(b) == 0)
        return false;
    uintptr_t a_low, a_high, b_low, b_high;
    span(a, &a_low, &a_high);
    span(b, &b_low, &b_high);
    if (a_high <= b_low || b_high <= a_low || !combs_meet(a, b))
        return false;
    return !same_layout(a, b) || boxes_meet(a, b);
}
