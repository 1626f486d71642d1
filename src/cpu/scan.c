/* scan.c: running sums, products and extremes along one dimension.
 *
 * A lane is one run through the scanned dimension. Lanes are independent: they are split over threads and, where the
 * scanned dimension is not the dense one, go abreast, LANES of them, so that memory is read in its own order.
 *
 * Invariant: within a lane elements are taken in order by one thread; results do not depend on how lanes are grouped.
 */
#include "cpu/scan.h"

#include "core/threads.h"
#include "cpu/element.h"
#include "cpu/move.h"
#include "cpu/walk.h"

#include <math.h>
#include <stdlib.h>

enum { LANES = 64, GRAIN = 1 << 14 };

typedef struct scan scan;
/* `lanes` neighbours at lane steps, each n elements long at dim steps, all in bytes; [0] dst, [1] src, [2] indices. */
typedef void (*scan_fn)(char *const *p, const int64_t *dim_step, const int64_t *lane_step, int64_t n, int64_t lanes,
                        bk_dtype to);

struct scan {
    scan_fn fn;
    view v[3]; /* without the scanned dimension */
    int count;
    int64_t dim_step[3], n;
    bk_dtype to;
    bool abreast;
};

/* --- the loops --------------------------------------------------------------------------------------------- */

ELEMENT_INLINE double log_add_exp(double a, double b)
{
    double high = a > b || a != a ? a : b, low = a > b || a != a ? b : a;
    if (isinf(high) && high == low)
        return high;
    return high + log1p(exp(low - high));
}

ELEMENT_INLINE double add_double(scan_kind kind, double a, double b)
{
    return kind == SCAN_SUM ? a + b : kind == SCAN_PROD ? a * b : log_add_exp(a, b);
}

ELEMENT_INLINE int64_t add_int(scan_kind kind, int64_t a, int64_t b)
{
    return (int64_t)(kind == SCAN_SUM ? (uint64_t)a + (uint64_t)b : (uint64_t)a * (uint64_t)b);
}

static double start_double(scan_kind kind) { return kind == SCAN_SUM ? 0 : kind == SCAN_PROD ? 1 : -INFINITY; }

ELEMENT_INLINE void scan_floats(scan_kind kind, bk_dtype from, char *const *p, const int64_t *dim, const int64_t *lane,
                                int64_t n, int64_t lanes, bk_dtype to)
{
    double acc[LANES], start = start_double(kind);
    for (int64_t j = 0; j < lanes; j++)
        acc[j] = start;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < lanes; j++)
            acc[j] = add_double(kind, acc[j], element_double(from, p[1] + i * dim[1] + j * lane[1]));
        for (int64_t j = 0; j < lanes; j++)
            if (to == from)
                element_put_double(from, p[0] + i * dim[0] + j * lane[0], acc[j]);
            else
                dtype_store_double(to, p[0] + i * dim[0] + j * lane[0], acc[j]);
    }
}

ELEMENT_INLINE void scan_ints(scan_kind kind, bk_dtype from, char *const *p, const int64_t *dim, const int64_t *lane,
                              int64_t n, int64_t lanes, bk_dtype to)
{
    int64_t acc[LANES];
    for (int64_t j = 0; j < lanes; j++)
        acc[j] = kind == SCAN_PROD;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < lanes; j++)
            acc[j] = add_int(kind, acc[j], element_int(from, p[1] + i * dim[1] + j * lane[1]));
        for (int64_t j = 0; j < lanes; j++)
            if (to == BK_INT64)
                element_put_int(BK_INT64, p[0] + i * dim[0] + j * lane[0], acc[j]);
            else
                dtype_store_int(to, p[0] + i * dim[0] + j * lane[0], acc[j]);
    }
}

/* The new element wins if it is at least as extreme, or a NaN; an old NaN yields only to another. */
ELEMENT_INLINE void extremes_floats(bool max, bk_dtype t, char *const *p, const int64_t *dim, const int64_t *lane,
                                    int64_t n, int64_t lanes)
{
    for (int64_t j = 0; j < lanes; j++) {
        double best = max ? -INFINITY : INFINITY;
        int64_t place = 0;
        for (int64_t i = 0; i < n; i++) {
            double x = element_double(t, p[1] + i * dim[1] + j * lane[1]);
            bool wins = x != x || (best == best && (max ? x >= best : x <= best));
            best = wins ? x : best;
            place = wins ? i : place;
            element_put_double(t, p[0] + i * dim[0] + j * lane[0], best);
            *(int64_t *)(p[2] + i * dim[2] + j * lane[2]) = place;
        }
    }
}

ELEMENT_INLINE void extremes_ints(bool max, bk_dtype t, char *const *p, const int64_t *dim, const int64_t *lane,
                                  int64_t n, int64_t lanes)
{
    for (int64_t j = 0; j < lanes; j++) {
        int64_t best = max ? INT64_MIN : INT64_MAX, place = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t x = element_int(t, p[1] + i * dim[1] + j * lane[1]);
            bool wins = max ? x >= best : x <= best;
            best = wins ? x : best;
            place = wins ? i : place;
            element_put_int(t, p[0] + i * dim[0] + j * lane[0], best);
            *(int64_t *)(p[2] + i * dim[2] + j * lane[2]) = place;
        }
    }
}

/* --- one function per kind and dtype ----------------------------------------------------------------------- */

#define SCAN_FUNCTION(loops, dtype, name, kind)                                                                        \
    static void name##_##kind(char *const *p, const int64_t *dim, const int64_t *lane, int64_t n, int64_t lanes,       \
                              bk_dtype to)                                                                             \
    {                                                                                                                  \
        if (lanes == 1)                                                                                                \
            loops(SCAN_##kind, dtype, p, dim, lane, n, 1, to);                                                         \
        else                                                                                                           \
            loops(SCAN_##kind, dtype, p, dim, lane, n, lanes, to);                                                     \
    }
#define EXTREME_FUNCTION(loops, dtype, name, kind)                                                                     \
    static void name##_##kind(char *const *p, const int64_t *dim, const int64_t *lane, int64_t n, int64_t lanes,       \
                              bk_dtype to)                                                                             \
    {                                                                                                                  \
        (void)to;                                                                                                      \
        loops(SCAN_##kind == SCAN_MAX, dtype, p, dim, lane, n, lanes);                                                 \
    }
#define FLOAT_SCANS(dtype, name, held, compute)                                                                        \
    SCAN_FUNCTION(scan_floats, dtype, name, SUM)                                                                       \
    SCAN_FUNCTION(scan_floats, dtype, name, PROD)                                                                      \
    SCAN_FUNCTION(scan_floats, dtype, name, LOGSUMEXP)                                                                 \
    EXTREME_FUNCTION(extremes_floats, dtype, name, MAX)                                                                \
    EXTREME_FUNCTION(extremes_floats, dtype, name, MIN)
#define INT_SCANS(dtype, name, held, compute)                                                                          \
    SCAN_FUNCTION(scan_ints, dtype, name, SUM)                                                                         \
    SCAN_FUNCTION(scan_ints, dtype, name, PROD)                                                                        \
    EXTREME_FUNCTION(extremes_ints, dtype, name, MAX)                                                                  \
    EXTREME_FUNCTION(extremes_ints, dtype, name, MIN)
#define FLOAT_ENTRIES(dtype, name, held, compute)                                                                      \
    [dtype] = { name##_SUM, name##_PROD, name##_LOGSUMEXP, name##_MAX, name##_MIN },
#define INT_ENTRIES(dtype, name, held, compute) [dtype] = { name##_SUM, name##_PROD, NULL, name##_MAX, name##_MIN },

ELEMENT_FLOATS(FLOAT_SCANS)
ELEMENT_INTS(INT_SCANS)

static const scan_fn scans[BK_DTYPE_COUNT][SCAN_KINDS] = { ELEMENT_FLOATS(FLOAT_ENTRIES) ELEMENT_INTS(INT_ENTRIES) };

/* --- lanes ------------------------------------------------------------------------------------------------- */

static void scan_lanes(void *arg, int64_t begin, int64_t end)
{
    const scan *s = arg;
    walk w;
    walk_start(&w, (const view *const[]){ &s->v[0], &s->v[1], &s->v[2] }, s->count, begin);
    for (int64_t lanes; begin < end; begin += lanes, walk_skip(&w, lanes)) {
        lanes = walk_run(&w, end - begin);
        lanes = !s->abreast ? 1 : lanes < LANES ? lanes : LANES;
        int64_t lane_step[3] = { walk_step(&w, 0), walk_step(&w, 1), walk_step(&w, 2) };
        s->fn(w.p, s->dim_step, lane_step, s->n, lanes, s->to);
    }
}

static void drop_dim(scan *s, int i, int dim)
{
    view *v = &s->v[i];
    if (v->ndim == 0)
        return;
    s->dim_step[i] = v->strides[dim] * (int64_t)dtype_size(v->dtype);
    v->ndim--;
    for (int d = dim; d < v->ndim; d++) {
        v->sizes[d] = v->sizes[d + 1];
        v->strides[d] = v->strides[d + 1];
    }
}

static void scan_start(scan *s, int dim)
{
    if (view_numel(&s->v[0]) == 0)
        return;
    s->n = s->v[0].ndim ? s->v[0].sizes[dim] : 1;
    for (int i = 0; i < s->count; i++)
        drop_dim(s, i, dim);
    view *views[3] = { &s->v[0], &s->v[1], &s->v[2] };
    int ndim = views_order(views, s->count);
    int64_t size = (int64_t)dtype_size(s->v[1].dtype), lanes = view_numel(&s->v[0]);
    s->abreast = ndim > 0 && llabs(s->v[1].strides[ndim - 1] * size) < llabs(s->dim_step[1]);
    threads_for(lanes, 1 + GRAIN / s->n, (double)lanes * (double)s->n * 1.5, scan_lanes, s);
}

void scan_run(scan_kind kind, const view *dst, const view *src, int dim)
{
    scan s = { .fn = scans[src->dtype][kind], .v = { *dst, *src }, .count = 2, .to = dst->dtype };
    scan_start(&s, dim);
}

void scan_extreme(bool max, const view *values, const view *indices, const view *src, int dim)
{
    scan s = { .fn = scans[src->dtype][max ? SCAN_MAX : SCAN_MIN], .v = { *values, *src, *indices }, .count = 3 };
    scan_start(&s, dim);
}
