/* index.c: gather, scatter, slices by index and advanced indexing.
 *
 * Elements move by their size; only the adding modes know dtypes. Reads are split over threads at will. Writes may
 * meet in one place, so they are split only along what the index cannot mix: other dimensions, or, for slices, the
 * destination's rows, each thread taking the indices that fall into its own.
 *
 * Invariant: all writes to one element are made by one thread, in row-major order of the index. */
#include "cpu/index.h"

#include "core/threads.h"
#include "cpu/element.h"
#include "cpu/ew.h"
#include "cpu/move.h"
#include "cpu/walk.h"

#include <string.h>

enum { GRAIN = 1 << 14 };

static int64_t bytes_of(const view *v) { return (int64_t)dtype_size(v->dtype); }

ELEMENT_INLINE int64_t wrapped(int64_t i, int64_t size) { return i < 0 ? i + size : i; }

bool index_check(const view *index, int64_t size, int64_t *bad)
{
    walk w;
    walk_start(&w, &index, 1, 0);
    for (int64_t left = view_numel(index), n; left > 0; left -= n, walk_skip(&w, n)) {
        n = walk_run(&w, left);
        bool wrong = false;
        int64_t step = walk_step(&w, 0);
        for (int64_t i = 0; i < n; i++)
            wrong |= (uint64_t)(*(const int64_t *)(w.p[0] + i * step) + size) >= 2 * (uint64_t)size;
        for (int64_t i = 0; wrong && i < n; i++) {
            *bad = *(const int64_t *)(w.p[0] + i * step);
            if (*bad < -size || *bad >= size)
                return false;
        }
    }
    return true;
}

/* --- one element joined with another ----------------------------------------------------------------------- */

ELEMENT_INLINE double join_double(scatter_mode mode, double a, double b)
{
    switch (mode) {
    case SCATTER_ADD: return a + b;
    case SCATTER_MUL: return a * b;
    case SCATTER_AMAX: return a > b || a != a ? a : b;
    default: return a < b || a != a ? a : b;
    }
}

ELEMENT_INLINE int64_t join_int(scatter_mode mode, int64_t a, int64_t b)
{
    switch (mode) {
    case SCATTER_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case SCATTER_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case SCATTER_AMAX: return a > b ? a : b;
    default: return a < b ? a : b;
    }
}

/* Double holds sums and products of floats exactly enough: rounding twice gives what one rounding gives. */
ELEMENT_INLINE void join_float_at(scatter_mode mode, bk_dtype t, char *d, const char *s)
{
    element_put_double(t, d, join_double(mode, element_double(t, d), element_double(t, s)));
}

ELEMENT_INLINE void join_int_at(scatter_mode mode, bk_dtype t, char *d, const char *s)
{
    element_put_int(t, d, join_int(mode, element_int(t, d), element_int(t, s)));
}

/* d[index[i] * unit] op= s[i]; a NULL index means neighbours at `unit`. */
typedef void (*join_fn)(char *d, int64_t unit, int64_t size, const char *index, int64_t index_step, const char *s,
                        int64_t step, int64_t n);

#define JOIN_FUNCTION(join_at, dtype, name, mode)                                                                      \
    static void name##_##mode(char *d, int64_t unit, int64_t size, const char *index, int64_t index_step,              \
                              const char *s, int64_t step, int64_t n)                                                  \
    {                                                                                                                  \
        if (!index)                                                                                                    \
            for (int64_t i = 0; i < n; i++)                                                                            \
                join_at(SCATTER_##mode, dtype, d + i * unit, s + i * step);                                            \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                int64_t at = wrapped(*(const int64_t *)(index + i * index_step), size);                                \
                join_at(SCATTER_##mode, dtype, d + at * unit, s + i * step);                                           \
            }                                                                                                          \
    }
#define JOIN_FUNCTIONS(join_at, dtype, name)                                                                           \
    JOIN_FUNCTION(join_at, dtype, name, ADD)                                                                           \
    JOIN_FUNCTION(join_at, dtype, name, MUL)                                                                           \
    JOIN_FUNCTION(join_at, dtype, name, AMAX)                                                                          \
    JOIN_FUNCTION(join_at, dtype, name, AMIN)
#define FLOAT_JOINS(dtype, name, held, compute)  JOIN_FUNCTIONS(join_float_at, dtype, name)
#define INT_JOINS(dtype, name, held, compute)    JOIN_FUNCTIONS(join_int_at, dtype, name)
#define JOIN_ENTRIES(dtype, name, held, compute) [dtype] = { NULL, name##_ADD, name##_MUL, name##_AMAX, name##_AMIN },

ELEMENT_FLOATS(FLOAT_JOINS)
ELEMENT_INTS(INT_JOINS)
static const join_fn joins[BK_DTYPE_COUNT][SCATTER_MODES] = { ELEMENT_DTYPES(JOIN_ENTRIES) };

/* --- gather and scatter ------------------------------------------------------------------------------------ */

ELEMENT_INLINE void gather_sized(char *d, int64_t ds, const char *s, int64_t unit, int64_t ss, int64_t size,
                                 const char *index, int64_t is, int64_t n, size_t bytes)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = wrapped(*(const int64_t *)(index + i * is), size);
        memcpy(d + i * ds, s + at * unit + i * ss, bytes);
    }
}

/* d[i] = s[index[i] * unit + i * ss] */
static void gather_run(char *d, int64_t ds, const char *s, int64_t unit, int64_t ss, int64_t size, const char *index,
                       int64_t is, int64_t n, int64_t bytes)
{
    switch (bytes) {
    case 1: gather_sized(d, ds, s, unit, ss, size, index, is, n, 1); break;
    case 2: gather_sized(d, ds, s, unit, ss, size, index, is, n, 2); break;
    case 4: gather_sized(d, ds, s, unit, ss, size, index, is, n, 4); break;
    default: gather_sized(d, ds, s, unit, ss, size, index, is, n, 8);
    }
}

ELEMENT_INLINE void scatter_sized(char *d, int64_t unit, int64_t size, const char *index, int64_t is, const char *s,
                                  int64_t ss, int64_t n, size_t bytes)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(d + wrapped(*(const int64_t *)(index + i * is), size) * unit, s + i * ss, bytes);
}

static void scatter_run(char *d, int64_t unit, int64_t size, const char *index, int64_t is, const char *s, int64_t ss,
                        int64_t n, int64_t bytes)
{
    switch (bytes) {
    case 1: scatter_sized(d, unit, size, index, is, s, ss, n, 1); break;
    case 2: scatter_sized(d, unit, size, index, is, s, ss, n, 2); break;
    case 4: scatter_sized(d, unit, size, index, is, s, ss, n, 4); break;
    default: scatter_sized(d, unit, size, index, is, s, ss, n, 8);
    }
}

typedef struct along {
    view dst, src, index; /* of the index's sizes; the indexed side has stride 0 along dim */
    int64_t unit, size;   /* bytes per index, and how many indices there are */
    join_fn join;
} along;

static void gather_piece(void *arg, int64_t begin, int64_t end)
{
    const along *g = arg;
    walk w;
    walk_start(&w, (const view *const[]){ &g->dst, &g->src, &g->index }, 3, begin);
    for (int64_t n; begin < end; begin += n, walk_skip(&w, n)) {
        n = walk_run(&w, end - begin);
        gather_run(w.p[0], walk_step(&w, 0), w.p[1], g->unit, walk_step(&w, 1), g->size, w.p[2], walk_step(&w, 2), n,
                   bytes_of(&g->dst));
    }
}

/* The indexed view, walked with the index: it stays in place along dim. */
static void held_along(view *to, const view *v, int dim, const view *index)
{
    to->data = v->data;
    to->dtype = v->dtype;
    view_shape(to, v->ndim, index->sizes, v->strides);
    if (to->ndim)
        to->strides[dim] = 0;
}

static void along_dim(along *a, const view *dst, const view *src, const view *indexed, int dim, const view *index)
{
    view_take(&a->dst, dst);
    view_take(&a->index, index);
    a->src.data = src->data;
    a->src.dtype = src->dtype;
    view_shape(&a->src, src->ndim, index->sizes, src->strides);
    a->unit = indexed->ndim ? indexed->strides[dim] * bytes_of(indexed) : 0;
    a->size = indexed->ndim ? indexed->sizes[dim] : 1;
}

void index_gather(const view *dst, const view *src, int dim, const view *index)
{
    int64_t n = view_numel(index);
    if (n == 0)
        return;
    along g;
    along_dim(&g, dst, src, src, dim, index);
    held_along(&g.src, src, dim, index);
    views_order((view *[]){ &g.dst, &g.src, &g.index }, 3);
    threads_for(n, GRAIN, (double)n * 1.5, gather_piece, &g);
}

/* Runs along dim, which was made the last dimension. */
static void scatter_piece(void *arg, int64_t begin, int64_t end)
{
    const along *s = arg;
    int64_t run = s->index.sizes[s->index.ndim - 1];
    walk w;
    walk_start(&w, (const view *const[]){ &s->dst, &s->src, &s->index }, 3, begin * run);
    for (int64_t i = begin; i < end; i++, walk_skip(&w, run)) {
        if (s->join)
            s->join(w.p[0], s->unit, s->size, w.p[2], walk_step(&w, 2), w.p[1], walk_step(&w, 1), run);
        else
            scatter_run(w.p[0], s->unit, s->size, w.p[2], walk_step(&w, 2), w.p[1], walk_step(&w, 1), run,
                        bytes_of(&s->dst));
    }
}

static void dim_last(view *v, int dim)
{
    int64_t size = v->sizes[dim], stride = v->strides[dim];
    for (int d = dim; d + 1 < v->ndim; d++) {
        v->sizes[d] = v->sizes[d + 1];
        v->strides[d] = v->strides[d + 1];
    }
    v->sizes[v->ndim - 1] = size;
    v->strides[v->ndim - 1] = stride;
}

static void make_one_dimensional(view *v)
{
    if (v->ndim == 0) {
        v->ndim = 1;
        v->sizes[0] = 1;
        v->strides[0] = 0;
    }
}

void index_scatter(const view *dst, int dim, const view *index, const view *src, scatter_mode mode)
{
    int64_t n = view_numel(index);
    if (n == 0)
        return;
    along s;
    along_dim(&s, dst, src, dst, dim, index);
    held_along(&s.dst, dst, dim, index);
    s.join = joins[dst->dtype][mode];
    view *views[3] = { &s.dst, &s.src, &s.index };
    for (int i = 0; i < 3; i++) {
        make_one_dimensional(views[i]);
        dim_last(views[i], dim);
    }
    int64_t run = s.index.sizes[s.index.ndim - 1];
    threads_for(n / run, 1 + GRAIN / run, (double)n * 2, scatter_piece, &s);
}

/* --- slices ------------------------------------------------------------------------------------------------ */

/* Slices of a and b meet: an outer part (dimensions before dim), the index, and an inner part after it. */
typedef struct slices {
    view outer[2], inner[2]; /* [0] written, [1] read */
    const view *index;
    int64_t unit[2], size, count; /* bytes from slice to slice; rows indexed; indices */
    int64_t outer_n, inner_n;
    bool adding;
    bool dense;          /* elements of a slice follow each other on both sides */
    int64_t bytes;       /* of an element */
    int64_t parts, part; /* of the rows of dst, one per task */
} slices;

/* What follows from both sides of a slice. */
static void inner_init(slices *s)
{
    view *to = &s->inner[0], *from = &s->inner[1];
    s->inner_n = view_numel(to);
    if (s->inner_n)
        views_collapse((view *[]){ to, from }, 2);
    s->bytes = bytes_of(to);
    s->dense = to->ndim == 0 || (to->ndim == 1 && to->strides[0] == 1 && from->strides[0] == 1);
}

static void slices_init(slices *s, const view *written, const view *read, int dim, const view *index, int64_t size)
{
    const view *v[2] = { written, read };
    for (int i = 0; i < 2; i++) {
        s->outer[i].data = s->inner[i].data = v[i]->data;
        s->outer[i].dtype = s->inner[i].dtype = v[i]->dtype;
        s->outer[i].ndim = s->inner[i].ndim = 0;
        s->unit[i] = v[i]->ndim ? v[i]->strides[dim] * bytes_of(v[i]) : 0;
        for (int d = 0; d < v[i]->ndim; d++) {
            view *part = d < dim ? &s->outer[i] : &s->inner[i];
            if (d != dim) {
                part->sizes[part->ndim] = v[i]->sizes[d];
                part->strides[part->ndim++] = v[i]->strides[d];
            }
        }
    }
    s->outer_n = view_numel(&s->outer[0]);
    s->index = index;
    s->size = size;
    s->count = view_numel(index);
    inner_init(s);
}

/* The i-th index; an index of no dimensions counts as one element. */
static int64_t index_at(const slices *s, int64_t i)
{
    const view *v = s->index;
    return wrapped(*(const int64_t *)(v->data + (v->ndim ? i * v->strides[0] * 8 : 0)), s->size);
}

/* Whether elements of this type are added as they are, not in a wider one. */
static bool adds_itself(bk_dtype t) { return t == BK_FLOAT32 || t == BK_FLOAT64 || t == BK_INT64; }

/* Copies or adds n elements of a slice from its element `first` on. */
static void slice_move(const slices *s, char *d, const char *p, int64_t first, int64_t n)
{
    const bk_dtype t = s->inner[0].dtype;
    if (s->dense && !s->adding) {
        memcpy(d + first * s->bytes, p + first * s->bytes, (size_t)(n * s->bytes));
        return;
    }
    if (s->dense && adds_itself(t)) {
        ew_kernels()->op[EW_add][dtypes[t].compute](n, d + first * s->bytes, d + first * s->bytes, p + first * s->bytes,
                                                    NULL);
        return;
    }
    view to, from;
    view_take(&to, &s->inner[0]);
    view_take(&from, &s->inner[1]);
    to.data = d;
    from.data = (char *)(uintptr_t)p;
    walk w;
    walk_start(&w, (const view *const[]){ &to, &from }, 2, first);
    for (int64_t m; n > 0; n -= m, walk_skip(&w, m)) {
        m = walk_run(&w, n);
        if (s->adding)
            joins[t][SCATTER_ADD](w.p[0], walk_step(&w, 0), 0, NULL, 0, w.p[1], walk_step(&w, 1), m);
        else
            move_run(t, w.p[0], walk_step(&w, 0), t, w.p[1], walk_step(&w, 1), m);
    }
}

static void select_piece(void *arg, int64_t begin, int64_t end)
{
    const slices *s = arg;
    for (int64_t i = begin; i < end; i++) {
        walk w;
        walk_start(&w, (const view *const[]){ &s->outer[0], &s->outer[1] }, 2, i / s->count);
        int64_t k = i % s->count;
        slice_move(s, w.p[0] + k * s->unit[0], w.p[1] + index_at(s, k) * s->unit[1], 0, s->inner_n);
    }
}

/* Slices of one element, for which a slice at a time would be slow, are a gather with a broadcast index. */
static void select_elements(const view *dst, const view *src, int dim, const view *index)
{
    view wide;
    view_take(&wide, dst);
    int64_t stride = index->ndim ? index->strides[0] : 0;
    wide.data = index->data;
    wide.dtype = index->dtype;
    for (int d = 0; d < wide.ndim; d++)
        wide.strides[d] = d == dim ? stride : 0;
    index_gather(dst, src, dim, &wide);
}

void index_select(const view *dst, const view *src, int dim, const view *index)
{
    int64_t n = view_numel(dst);
    if (n == 0)
        return;
    slices s = { .adding = false };
    slices_init(&s, dst, src, dim, index, src->ndim ? src->sizes[dim] : 1);
    if (s.inner_n < 4) {
        select_elements(dst, src, dim, index);
        return;
    }
    threads_for(s.outer_n * s.count, 1 + GRAIN / s.inner_n, (double)n * 0.4, select_piece, &s);
}

/* One part of the destination's rows: its thread passes over all indices and adds those that fall into it. */
static void add_part(void *arg, int64_t begin, int64_t end)
{
    const slices *s = arg;
    int64_t low = begin * s->part, high = end * s->part;
    for (int64_t o = 0; o < s->outer_n; o++) {
        walk w;
        walk_start(&w, (const view *const[]){ &s->outer[0], &s->outer[1] }, 2, o);
        for (int64_t k = 0; k < s->count; k++) {
            int64_t row = index_at(s, k);
            if (row >= low && row < high)
                slice_move(s, w.p[0] + row * s->unit[0], w.p[1] + k * s->unit[1], 0, s->inner_n);
        }
    }
}

void index_add(const view *dst, int dim, const view *index, const view *src)
{
    int64_t n = view_numel(src);
    if (n == 0)
        return;
    slices s = { .adding = true };
    slices_init(&s, dst, src, dim, index, dst->ndim ? dst->sizes[dim] : 1);
    s.parts = s.inner_n < 8 ? 1 : 4; /* below 8 elements, passing over the indices is the work */
    s.part = (s.size + s.parts - 1) / s.parts;
    threads_for(s.parts, 1, (double)n * 0.7, add_part, &s);
}

/* --- advanced indexing ------------------------------------------------------------------------------------- */

typedef struct advanced {
    const view *const *indices;
    int count;
    int64_t sizes[BK_MAX_NDIM], steps[BK_MAX_NDIM]; /* of the indexed dimensions, in bytes */
    view plain_outer;                               /* the side that is not indexed, over the index's shape */
    slices s;                                       /* its inner parts: what follows the indexed dimensions */
    char *indexed;
    bool getting;
} advanced;

/* The byte offsets of n neighbours, starting at flat index `first`. */
static void advanced_offsets(const advanced *a, int64_t first, int64_t n, int64_t *offset)
{
    memset(offset, 0, (size_t)n * sizeof *offset);
    for (int k = 0; k < a->count; k++) {
        walk w;
        walk_start(&w, &a->indices[k], 1, first);
        for (int64_t i = 0, m; i < n; i += m, walk_skip(&w, m)) {
            m = walk_run(&w, n - i);
            int64_t step = walk_step(&w, 0);
            for (int64_t j = 0; j < m; j++)
                offset[i + j] += wrapped(*(const int64_t *)(w.p[0] + j * step), a->sizes[k]) * a->steps[k];
        }
    }
}

ELEMENT_INLINE void advanced_elements(const int64_t *offset, char *indexed, char *plain, int64_t step, int64_t n,
                                      bool getting, size_t bytes)
{
    for (int64_t i = 0; i < n; i++)
        if (getting)
            memcpy(plain + i * step, indexed + offset[i], bytes);
        else
            memcpy(indexed + offset[i], plain + i * step, bytes);
}

static void advanced_run(const advanced *a, const int64_t *offset, char *plain, int64_t step, int64_t n)
{
    if (a->s.inner_n == 1 && !a->s.adding) {
        switch (bytes_of(&a->plain_outer)) {
        case 1: advanced_elements(offset, a->indexed, plain, step, n, a->getting, 1); break;
        case 2: advanced_elements(offset, a->indexed, plain, step, n, a->getting, 2); break;
        case 4: advanced_elements(offset, a->indexed, plain, step, n, a->getting, 4); break;
        default: advanced_elements(offset, a->indexed, plain, step, n, a->getting, 8);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        char *at = a->indexed + offset[i], *other = plain + i * step;
        slice_move(&a->s, a->getting ? other : at, a->getting ? at : other, 0, a->s.inner_n);
    }
}

static void advanced_piece(void *arg, int64_t begin, int64_t end)
{
    const advanced *a = arg;
    int64_t offset[256];
    walk w;
    walk_start(&w, (const view *const[]){ &a->plain_outer }, 1, begin);
    for (int64_t i = begin, n; i < end; i += n) {
        n = end - i < 256 ? end - i : 256;
        advanced_offsets(a, i, n, offset);
        for (int64_t j = 0, m; j < n; j += m, walk_skip(&w, m)) {
            m = walk_run(&w, n - j);
            advanced_run(a, offset + j, w.p[0], walk_step(&w, 0), m);
        }
    }
}

/* Splits `plain` into the index's dimensions and the rest, `indexed` into the indexed dimensions and the rest. */
static void advanced_init(advanced *a, const view *indexed, const view *plain, const view *const *indices, int count,
                          bool getting)
{
    int lead = indices[0]->ndim;
    a->indices = indices;
    a->count = count;
    a->indexed = indexed->data;
    a->getting = getting;
    a->s.adding = false;
    for (int d = 0; d < count; d++) {
        a->sizes[d] = indexed->sizes[d];
        a->steps[d] = indexed->strides[d] * bytes_of(indexed);
    }
    view_take(&a->plain_outer, plain);
    a->plain_outer.ndim = lead;
    view *rest = &a->s.inner[getting], *other = &a->s.inner[!getting];
    rest->dtype = indexed->dtype;
    other->dtype = plain->dtype;
    for (int d = 0; d < indexed->ndim - count; d++) {
        rest->sizes[d] = other->sizes[d] = indexed->sizes[count + d];
        rest->strides[d] = indexed->strides[count + d];
        other->strides[d] = plain->strides[lead + d];
    }
    rest->ndim = other->ndim = indexed->ndim - count;
    inner_init(&a->s);
}

void index_get(const view *dst, const view *src, const view *const *indices, int count)
{
    int64_t n = view_numel(dst);
    if (n == 0)
        return;
    advanced a;
    advanced_init(&a, src, dst, indices, count, true);
    threads_for(n / a.s.inner_n, 1 + GRAIN / a.s.inner_n, (double)n * 1.5, advanced_piece, &a);
}

void index_put(const view *dst, const view *src, const view *const *indices, int count, bool accumulate)
{
    if (view_numel(src) == 0)
        return;
    advanced a;
    advanced_init(&a, dst, src, indices, count, false);
    a.s.adding = accumulate;
    /* indices may repeat: one thread, in order */
    advanced_piece(&a, 0, view_numel(indices[0]));
}
