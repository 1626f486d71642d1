/* mode.c: the most frequent value of each lane: the longest run after sorting. */
#include "cpu/mode.h"

#include <string.h>

#include "core/memory.h"
#include "cpu/sort.h"
#include "cpu/walk.h"

/* v without dim; *step takes its stride in bytes. */
static view without(const view *v, int dim, int64_t *step)
{
    view lane;
    view_take(&lane, v);
    *step = v->ndim ? v->strides[dim] * (int64_t)dtype_size(v->dtype) : 0;
    if (!v->ndim)
        return lane;
    lane.ndim--;
    for (int d = dim; d < lane.ndim; d++) {
        lane.sizes[d] = v->sizes[d + 1];
        lane.strides[d] = v->strides[d + 1];
    }
    return lane;
}

/* A NaN equals nothing. */
static bool equal(bk_dtype t, const char *p, const char *q)
{
    if (!dtype_is_float(t))
        return !memcmp(p, q, dtype_size(t));
    return dtype_load_double(t, p) == dtype_load_double(t, q);
}

/* The place of the last element of the first longest run. */
static int64_t longest_run(bk_dtype t, const char *src, int64_t step, const int64_t *order, int64_t n)
{
    int64_t best = 0, length = 0, start = 0;
    for (int64_t i = 1; i <= n; i++) {
        if (i < n && equal(t, src + order[i] * step, src + order[start] * step))
            continue;
        if (i - start > length) {
            length = i - start;
            best = order[i - 1];
        }
        start = i;
    }
    return best;
}

int mode_run(const view *values, const view *indices, const view *src, int dim)
{
    int64_t n = src->ndim ? src->sizes[dim] : 1, steps[3], size = (int64_t)dtype_size(src->dtype);
    view from = without(src, dim, &steps[0]), to = without(values, dim, &steps[1]);
    view places = indices ? without(indices, dim, &steps[2]) : to;
    int64_t lanes = view_numel(&from), *order = pool_take((size_t)n * 8 + 8);
    if (!order)
        return -1;
    view sorted = { .data = (char *)order, .dtype = BK_INT64, .ndim = 1, .sizes = { n }, .strides = { 1 } };
    int status = 0;
    walk w;
    walk_start(&w, (const view *const[]){ &from, &to, &places }, 3, 0);
    for (int64_t i = 0; i < lanes; i++, walk_skip(&w, 1)) {
        view lane = { .data = w.p[0], .dtype = src->dtype, .ndim = 1, .sizes = { n }, .strides = { steps[0] / size } };
        status = sort_run(NULL, &sorted, &lane, 0, false, TIES_NAN_APART);
        if (status < 0)
            break;
        int64_t at = longest_run(src->dtype, w.p[0], steps[0], order, n);
        memcpy(w.p[1], w.p[0] + at * steps[0], (size_t)size);
        if (indices)
            *(int64_t *)w.p[2] = at;
    }
    pool_give(order, (size_t)n * 8 + 8);
    return status;
}
