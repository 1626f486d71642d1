/* walk.h: several views of equal sizes, walked together in row-major order, one run of the last dimension at a time.
 *
 * A piece of a parallel loop starts its walk at any flat index, so every kernel splits its elements evenly, whatever
 * the shape. Invariant: `at` is the coordinate of `p`, and p[i] is where view i has that element. */
#ifndef BK_CPU_WALK_H
#define BK_CPU_WALK_H
#include "cpu/view.h"

enum { WALK_VIEWS = 4 };

typedef struct walk {
    int ndim, count;
    int64_t sizes[BK_MAX_NDIM], at[BK_MAX_NDIM];
    int64_t step[WALK_VIEWS][BK_MAX_NDIM]; /* bytes */
    char *p[WALK_VIEWS];
} walk;

static inline void walk_start(walk *w, const view *const *views, int count, int64_t first)
{
    w->ndim = views[0]->ndim ? views[0]->ndim : 1; /* field by field: what lies beyond ndim is never looked at */
    w->count = count;
    w->sizes[0] = 1;
    for (int i = 0; i < count; i++) {
        w->p[i] = views[i]->data;
        for (int d = 0; d < w->ndim; d++)
            w->step[i][d] = d < views[i]->ndim ? views[i]->strides[d] * (int64_t)dtype_size(views[i]->dtype) : 0;
    }
    for (int d = 0; d < views[0]->ndim; d++)
        w->sizes[d] = views[0]->sizes[d];
    for (int d = w->ndim - 1; d >= 0; d--) {
        w->at[d] = 0;
        if (first <= 0)
            continue;
        w->at[d] = first % w->sizes[d];
        first /= w->sizes[d];
        for (int i = 0; i < count; i++)
            w->p[i] += w->at[d] * w->step[i][d];
    }
}

/* How many elements follow in the last dimension, at most `left`. */
static inline int64_t walk_run(const walk *w, int64_t left)
{
    int64_t n = w->sizes[w->ndim - 1] - w->at[w->ndim - 1];
    return n < left ? n : left;
}

/* The byte step of view i along the run. */
static inline int64_t walk_step(const walk *w, int i) { return w->step[i][w->ndim - 1]; }

/* Passes n elements, no more than walk_run gave. */
static inline void walk_skip(walk *w, int64_t n)
{
    int d = w->ndim - 1;
    w->at[d] += n;
    for (int i = 0; i < w->count; i++)
        w->p[i] += n * w->step[i][d];
    for (; d > 0 && w->at[d] == w->sizes[d]; d--) {
        for (int i = 0; i < w->count; i++)
            w->p[i] += w->step[i][d - 1] - w->sizes[d] * w->step[i][d];
        w->at[d] = 0;
        w->at[d - 1]++;
    }
}

#endif
