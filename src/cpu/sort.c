/* sort.c: sorting and selection along a dimension.
 *
 * Every element becomes an unsigned key that orders as its value does (NaN last, one zero, inverted for descending
 * order), together with its index. Keys of up to 32 bits share a 64-bit word with the index; 64-bit keys have a word
 * each. Long lanes are radix sorted, short ones merged; values are fetched from the source by index at the end.
 *
 * Invariant: entries of a lane are all different, since the index is part of them. Where a total order is asked for,
 * equal values stay in the order of their indices under any algorithm; where PyTorch's order is, indices do not count
 * and the algorithm is PyTorch's (sort_ties.h). */
#include "cpu/sort.h"

#include "core/error.h"
#include "core/memory.h"
#include "core/threads.h"
#include "cpu/element.h"
#include "cpu/walk.h"

#include <math.h>
#include <string.h>

typedef struct pair {
    uint64_t key;
    int64_t index;
} pair;

/* Functions, not macros: the arguments have side effects. */
static inline bool word_less(uint64_t a, uint64_t b) { return a < b; }
static inline bool pair_less(pair a, pair b) { return a.key != b.key ? a.key < b.key : a.index < b.index; }

#define N(name)     word_##name
#define ENTRY       uint64_t
#define DIGIT(e, d) ((e) >> (32 + 8 * (d)) & 255)
#define DIGITS      4
#define LESS        word_less
#include "cpu/sort_entries.h"

#define N(name)     pair_##name
#define ENTRY       pair
#define DIGIT(e, d) ((e).key >> (8 * (d)) & 255)
#define DIGITS      8
#define LESS        pair_less
#include "cpu/sort_entries.h"

#define N(name) word_##name
#define ENTRY   uint64_t
#define KEY(e)  ((e) >> 32)
#include "cpu/sort_ties.h"

#define N(name) pair_##name
#define ENTRY   pair
#define KEY(e)  ((e).key)
#include "cpu/sort_ties.h"

/* --- keys -------------------------------------------------------------------------------------------------- */

/* The key of `bits` significant bits; all ones for NaN. */
ELEMENT_INLINE uint64_t float_key(uint64_t u, int bits, uint64_t infinity)
{
    uint64_t sign = 1ull << (bits - 1), all = sign | (sign - 1), magnitude = u & (sign - 1);
    if (magnitude > infinity)
        return all;
    if (magnitude == 0)
        return sign;
    return u & sign ? all ^ u : u | sign;
}

ELEMENT_INLINE uint64_t element_key(bk_dtype t, const char *p)
{
    switch (t) {
    case BK_FLOAT32: return float_key(*(const uint32_t *)p, 32, 0x7f800000);
    case BK_FLOAT64: return float_key(*(const uint64_t *)p, 64, 0x7ff0000000000000);
    case BK_FLOAT16: return float_key(*(const uint16_t *)p, 16, 0x7c00);
    case BK_BFLOAT16: return float_key(*(const uint16_t *)p, 16, 0x7f80);
    case BK_INT64: return (uint64_t)*(const int64_t *)p ^ 1ull << 63;
    case BK_INT32: return (uint32_t)*(const int32_t *)p ^ 1u << 31;
    default: return (uint64_t)(element_int(t, p) + 32768);
    }
}

static bool is_wide(bk_dtype t) { return dtype_size(t) == 8; }

ELEMENT_INLINE void words_of(bk_dtype t, const char *p, int64_t step, int64_t n, uint64_t flip, uint64_t *e)
{
    for (int64_t i = 0; i < n; i++)
        e[i] = ((element_key(t, p + i * step) ^ flip) & 0xffffffff) << 32 | (uint64_t)i;
}

ELEMENT_INLINE void pairs_of(bk_dtype t, const char *p, int64_t step, int64_t n, uint64_t flip, pair *e)
{
    for (int64_t i = 0; i < n; i++)
        e[i] = (pair){ element_key(t, p + i * step) ^ flip, i };
}

static void make_entries(bk_dtype t, const char *p, int64_t step, int64_t n, bool descending, void *e)
{
    uint64_t flip = descending ? ~0ull : 0;
    switch (t) {
    case BK_FLOAT32: words_of(BK_FLOAT32, p, step, n, flip, e); break;
    case BK_FLOAT64: pairs_of(BK_FLOAT64, p, step, n, flip, e); break;
    case BK_FLOAT16: words_of(BK_FLOAT16, p, step, n, flip, e); break;
    case BK_BFLOAT16: words_of(BK_BFLOAT16, p, step, n, flip, e); break;
    case BK_INT64: pairs_of(BK_INT64, p, step, n, flip, e); break;
    case BK_INT32: words_of(BK_INT32, p, step, n, flip, e); break;
    case BK_INT16: words_of(BK_INT16, p, step, n, flip, e); break;
    case BK_INT8: words_of(BK_INT8, p, step, n, flip, e); break;
    case BK_UINT8: words_of(BK_UINT8, p, step, n, flip, e); break;
    default: words_of(BK_BOOL, p, step, n, flip, e);
    }
}

/* --- lanes ------------------------------------------------------------------------------------------------- */

typedef enum order_task { TASK_SORT, TASK_TOPK, TASK_KTH, TASK_MEDIAN } order_task;

typedef struct ordering {
    order_task task;
    view v[3];           /* src, values, indices, without the dimension; absent ones are a copy of src */
    int64_t dim_step[3]; /* bytes along it */
    bool has[3];
    int64_t n, k;
    bool descending, sorted, skips_nan;
    sort_ties ties;
    size_t entry_bytes;
    int failed; /* a piece found no memory */
} ordering;

static uint32_t word_index(uint64_t e) { return (uint32_t)e; }

/* Where the median is once sorted: in the middle, below, of all that count; or the first of the NaNs, which come last.
 * -1: there are only NaNs, and none of them is to be taken for another. */
static int64_t median_place(const ordering *o, const char *src)
{
    bk_dtype t = o->v[0].dtype;
    int64_t nans = 0;
    for (int64_t i = 0; dtype_is_float(t) && i < o->n; i++) {
        double x = dtype_load_double(t, src + i * o->dim_step[0]);
        nans += x != x;
    }
    if (o->skips_nan)
        return nans == o->n ? -1 : (o->n - nans - 1) / 2;
    return nans ? o->n - nans : (o->n - 1) / 2;
}

static uint64_t nan_key(bk_dtype t) { return t == BK_FLOAT64 ? UINT64_MAX : t == BK_FLOAT32 ? UINT32_MAX : UINT16_MAX; }

static bool tied(const char *e, int64_t n, bool wide)
{
    for (int64_t i = 1; i < n; i++)
        if (wide ? ((const pair *)e)[i].key == ((const pair *)e)[i - 1].key
                 : ((const uint64_t *)e)[i] >> 32 == ((const uint64_t *)e)[i - 1] >> 32)
            return true;
    return false;
}

/* By counting where no two values are equal, or where nobody asks for their order. Elements that are one in memory are
 * not sorted by PyTorch. */
static char *sort_lane(const ordering *o, char *e, char *spare, const char *src)
{
    bool wide = is_wide(o->v[0].dtype);
    uint64_t top = UINT64_MAX;
    if (o->ties != TIES_NAN_APART) {
        char *sorted = wide ? (char *)pair_sort((pair *)e, o->n, (pair *)spare)
                            : (char *)word_sort((uint64_t *)e, o->n, (uint64_t *)spare);
        bool stable = o->ties == TIES_STABLE || !o->has[2] || o->n <= word_few || !o->dim_step[0];
        if (stable || !tied(sorted, o->n, wide))
            return sorted;
        make_entries(o->v[0].dtype, src, o->dim_step[0], o->n, o->descending, e);
    } else if (dtype_is_float(o->v[0].dtype)) {
        top = nan_key(o->v[0].dtype) - 1;
    }
    if (wide)
        pair_sort_ties((pair *)e, o->n, top);
    else
        word_sort_ties((uint64_t *)e, o->n, top);
    return e;
}

/* PyTorch keeps a heap where few are asked for. */
static void top_of_lane(const ordering *o, char *e)
{
    bool wide = is_wide(o->v[0].dtype), few = o->k <= o->n / 64;
    if (few && wide)
        pair_sort_least((pair *)e, o->k, o->n, UINT64_MAX);
    else if (few)
        word_sort_least((uint64_t *)e, o->k, o->n, UINT64_MAX);
    else if (wide)
        pair_select_ties((pair *)e, o->n, o->k - 1);
    else
        word_select_ties((uint64_t *)e, o->n, o->k - 1);
    if (few || !o->sorted)
        return;
    if (wide)
        pair_sort_ties((pair *)e, o->k - 1, UINT64_MAX);
    else
        word_sort_ties((uint64_t *)e, o->k - 1, UINT64_MAX);
}

/* The first of what PyTorch's selection makes of a lane that is all one. */
static int64_t only_nans(const ordering *o, char *e)
{
    if (is_wide(o->v[0].dtype))
        pair_select_ties((pair *)e, o->n, 0);
    else
        word_select_ties((uint64_t *)e, o->n, 0);
    return 0;
}

/* Sorts or selects the entries; returns those asked for. */
static char *arrange(const ordering *o, char *e, char *spare, const char *src)
{
    bool wide = is_wide(o->v[0].dtype);
    int64_t place = o->k;
    switch (o->task) {
    case TASK_SORT: return sort_lane(o, e, spare, src);
    case TASK_TOPK:
        if (o->k)
            top_of_lane(o, e);
        return e;
    case TASK_KTH:
        if (wide)
            pair_quickselect((pair *)e, o->n, place);
        else
            word_quickselect((uint64_t *)e, o->n, place);
        break;
    case TASK_MEDIAN:
        place = median_place(o, src);
        if (place < 0)
            place = only_nans(o, e);
        else if (wide)
            pair_select((pair *)e, o->n, place);
        else
            word_select((uint64_t *)e, o->n, place);
    }
    return e + place * (int64_t)o->entry_bytes;
}

ELEMENT_INLINE void put_sized(char *d, int64_t ds, const char *s, int64_t ss, const char *e, size_t entry, int64_t n,
                              size_t bytes)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = entry == 8 ? word_index(((const uint64_t *)e)[i]) : ((const pair *)e)[i].index;
        memcpy(d + i * ds, s + at * ss, bytes);
    }
}

static void put_values(const ordering *o, char *d, const char *s, const char *e, int64_t n)
{
    int64_t ds = o->dim_step[1], ss = o->dim_step[0];
    switch (dtype_size(o->v[0].dtype)) {
    case 1: put_sized(d, ds, s, ss, e, 8, n, 1); break;
    case 2: put_sized(d, ds, s, ss, e, 8, n, 2); break;
    case 4: put_sized(d, ds, s, ss, e, 8, n, 4); break;
    default: put_sized(d, ds, s, ss, e, sizeof(pair), n, 8);
    }
}

static void put_indices(const ordering *o, char *d, const char *e, int64_t n)
{
    bool wide = is_wide(o->v[0].dtype);
    for (int64_t i = 0; i < n; i++)
        *(int64_t *)(d + i * o->dim_step[2]) = wide ? ((const pair *)e)[i].index : word_index(((const uint64_t *)e)[i]);
}

static void order_lanes(void *arg, int64_t begin, int64_t end)
{
    ordering *o = arg;
    size_t bytes = (size_t)o->n * o->entry_bytes;
    char *entries = pool_take(2 * bytes);
    if (!entries) {
        __atomic_store_n(&o->failed, -1, __ATOMIC_RELAXED);
        return;
    }
    int64_t results = o->task == TASK_SORT ? o->n : o->task == TASK_TOPK ? o->k : 1;
    walk w;
    walk_start(&w, (const view *const[]){ &o->v[0], &o->v[1], &o->v[2] }, 3, begin);
    for (int64_t i = begin; i < end; i++, walk_skip(&w, 1)) {
        make_entries(o->v[0].dtype, w.p[0], o->dim_step[0], o->n, o->descending, entries);
        char *e = arrange(o, entries, entries + bytes, w.p[0]);
        if (o->has[1])
            put_values(o, w.p[1], w.p[0], e, results);
        if (o->has[2])
            put_indices(o, w.p[2], e, results);
    }
    pool_give(entries, 2 * bytes);
}

static void take_view(ordering *o, int i, const view *v, int dim)
{
    o->has[i] = v != NULL;
    o->v[i] = v ? *v : o->v[0];
    view *out = &o->v[i];
    if (!v || out->ndim == 0)
        return;
    o->dim_step[i] = out->strides[dim] * (int64_t)dtype_size(out->dtype);
    out->ndim--;
    for (int d = dim; d < out->ndim; d++) {
        out->sizes[d] = out->sizes[d + 1];
        out->strides[d] = out->strides[d + 1];
    }
}

static int order_run(ordering *o, const view *values, const view *indices, const view *src, int dim)
{
    o->n = src->ndim ? src->sizes[dim] : 1;
    o->entry_bytes = is_wide(src->dtype) ? sizeof(pair) : sizeof(uint64_t);
    take_view(o, 0, src, dim);
    take_view(o, 1, values, dim);
    take_view(o, 2, indices, dim);
    int64_t lanes = view_numel(&o->v[0]);
    if (o->n == 0 || lanes == 0)
        return 0;
    double each = (double)o->n * (o->task == TASK_SORT ? 20 : 5);
    threads_for(lanes, 1 + 2048 / o->n, (double)lanes * each, order_lanes, o);
    if (o->failed)
        error_memory(); /* the error of the thread that met it is not ours */
    return o->failed;
}

int sort_run(const view *values, const view *indices, const view *src, int dim, bool descending, sort_ties ties)
{
    ordering o = { .task = TASK_SORT, .descending = descending, .ties = ties };
    return order_run(&o, values, indices, src, dim);
}

int topk_run(const view *values, const view *indices, const view *src, int64_t k, int dim, bool largest, bool sorted)
{
    ordering o = { .task = TASK_TOPK, .k = k, .descending = largest, .sorted = sorted };
    return order_run(&o, values, indices, src, dim);
}

int kth_run(const view *values, const view *indices, const view *src, int64_t k, int dim)
{
    ordering o = { .task = TASK_KTH, .k = k };
    return order_run(&o, values, indices, src, dim);
}

int median_run(const view *values, const view *indices, const view *src, int dim, bool skips_nan)
{
    ordering o = { .task = TASK_MEDIAN, .skips_nan = skips_nan };
    return order_run(&o, values, indices, src, dim);
}

/* --- unique ------------------------------------------------------------------------------------------------ */

static bool same_value(bk_dtype t, const char *p, const char *q)
{
    return dtype_is_float(t) ? dtype_load_double(t, p) == dtype_load_double(t, q)
                             : dtype_load_int(t, p) == dtype_load_int(t, q);
}

static void put_int(const view *v, int64_t i, int64_t x)
{
    if (v)
        *(int64_t *)(v->data + (v->ndim ? i * v->strides[0] * 8 : 0)) = x;
}

int64_t unique_run(const view *values, const view *inverse, const view *counts, const view *src, bool consecutive)
{
    int64_t n = view_numel(src), found = 0, first = 0, size = (int64_t)dtype_size(src->dtype);
    int64_t step = src->ndim ? src->strides[0] * size : 0, out = values->ndim ? values->strides[0] * size : 0;
    int64_t *order = NULL;
    if (n == 0)
        return 0;
    if (!consecutive) {
        order = pool_take((size_t)n * 8);
        view places = { .data = (char *)order, .dtype = BK_INT64, .ndim = src->ndim, .sizes = { n }, .strides = { 1 } };
        if (!order || sort_run(NULL, &places, src, 0, false, TIES_AS_PYTORCH) < 0) {
            if (order)
                pool_give(order, (size_t)n * 8);
            return -1;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = order ? order[i] : i;
        const char *p = src->data + at * step;
        if (i == 0 || !same_value(src->dtype, p, values->data + (found - 1) * out)) {
            if (i > 0)
                put_int(counts, found - 1, i - first);
            memcpy(values->data + found++ * out, p, (size_t)size);
            first = i;
        }
        put_int(inverse, at, found - 1);
    }
    put_int(counts, found - 1, n - first);
    if (order)
        pool_give(order, (size_t)n * 8);
    return found;
}

/* --- counting ---------------------------------------------------------------------------------------------- */

void bincount_run(const view *dst, const view *src, const view *weights)
{
    int64_t n = view_numel(src), unit = dst->ndim ? dst->strides[0] * (int64_t)dtype_size(dst->dtype) : 0;
    for (int64_t i = 0; i < n; i++) {
        char *p = dst->data + *(const int64_t *)(src->data + i * src->strides[0] * 8) * unit;
        if (!weights) {
            dtype_store_int(dst->dtype, p, dtype_load_int(dst->dtype, p) + 1);
            continue;
        }
        int64_t size = (int64_t)dtype_size(weights->dtype);
        double w = dtype_load_double(weights->dtype, weights->data + i * weights->strides[0] * size);
        dtype_store_double(dst->dtype, p, dtype_load_double(dst->dtype, p) + w);
    }
}

static uint64_t key_at(bk_dtype t, const char *p)
{
    switch (t) {
    case BK_FLOAT32: return element_key(BK_FLOAT32, p);
    case BK_FLOAT64: return element_key(BK_FLOAT64, p);
    case BK_FLOAT16: return element_key(BK_FLOAT16, p);
    case BK_BFLOAT16: return element_key(BK_BFLOAT16, p);
    case BK_INT64: return element_key(BK_INT64, p);
    case BK_INT32: return element_key(BK_INT32, p);
    default: return (uint64_t)(dtype_load_int(t, p) + 32768);
    }
}

typedef struct searching {
    view dst, values, rows; /* rows: where the sorted row of each value starts */
    int64_t n, step;
    bool right;
    bool floating;
    uint64_t nan; /* of floats, the key of NaN */
} searching;

/* Every comparison with a NaN says to go on, so that one is placed after everything, as PyTorch's loop does it. */
static int64_t search(const searching *s, const char *row, uint64_t key)
{
    int64_t low = 0, left = s->n;
    while (left > 0) {
        int64_t half = left / 2;
        uint64_t at = key_at(s->values.dtype, row + (low + half) * s->step);
        bool after = s->right ? at <= key : at < key;
        after |= s->floating && (at == s->nan || key == s->nan);
        low = after ? low + half + 1 : low;
        left = after ? left - half - 1 : half;
    }
    return low;
}

static void search_piece(void *arg, int64_t begin, int64_t end)
{
    const searching *s = arg;
    walk w;
    walk_start(&w, (const view *const[]){ &s->dst, &s->values, &s->rows }, 3, begin);
    for (int64_t i = begin; i < end; i++, walk_skip(&w, 1))
        *(int64_t *)w.p[0] = search(s, w.p[2], key_at(s->values.dtype, w.p[1]));
}

void searchsorted_run(const view *dst, const view *sorted, const view *values, bool right)
{
    searching s = { .dst = *dst, .values = *values, .rows = *values, .right = right };
    int last = sorted->ndim - 1;
    int64_t n = view_numel(values);
    _Alignas(8) char nan[8];
    s.floating = dtype_is_float(values->dtype);
    if (s.floating) {
        dtype_store_double(values->dtype, nan, (double)NAN);
        s.nan = key_at(values->dtype, nan);
    }
    s.n = sorted->sizes[last];
    s.step = sorted->strides[last] * (int64_t)dtype_size(sorted->dtype);
    s.rows.data = sorted->data;
    for (int d = 0; d < values->ndim; d++)
        s.rows.strides[d] = sorted->ndim > 1 && d < last ? sorted->strides[d] : 0;
    if (n > 0)
        threads_for(n, 1024, (double)n * 50, search_piece, &s);
}

void histc_run(const view *dst, const view *src, double low, double high)
{
    int64_t bins = view_numel(dst), n = view_numel(src), unit = dst->strides[0] * (int64_t)dtype_size(dst->dtype);
    walk w;
    walk_start(&w, &src, 1, 0);
    for (int64_t i = 0; i < n; i++, walk_skip(&w, 1)) {
        double x = dtype_load_double(src->dtype, w.p[0]);
        if (!(x >= low && x <= high))
            continue;
        int64_t bin = (int64_t)((x - low) * (double)bins / (high - low));
        char *p = dst->data + (bin < bins ? bin : bins - 1) * unit;
        dtype_store_double(dst->dtype, p, dtype_load_double(dst->dtype, p) + 1);
    }
}
