/* sample.h: random views for the tests of CPU kernels: any dtype, dimensions in any order, gaps, negative strides. */
#ifndef BK_TESTS_SAMPLE_H
#define BK_TESTS_SAMPLE_H
#include "cpu/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t sample_state = 88172645463325252u;

static inline uint64_t sample_bits(void)
{
    sample_state ^= sample_state << 13;
    sample_state ^= sample_state >> 7;
    sample_state ^= sample_state << 17;
    return sample_state;
}

static inline int64_t sample_int(int64_t low, int64_t high)
{
    return low + (int64_t)(sample_bits() % (uint64_t)(high - low + 1));
}

typedef struct sample {
    view v;
    char *memory;
    int64_t bytes;
} sample;

static inline void sample_free(sample *s) { free(s->memory); }

/* A row-major coordinate of a flat index. */
static inline char *view_at(const view *v, int64_t flat)
{
    int64_t at = 0;
    for (int d = v->ndim - 1; d >= 0; d--) {
        at += flat % v->sizes[d] * v->strides[d];
        flat /= v->sizes[d];
    }
    return v->data + at * (int64_t)dtype_size(v->dtype);
}

static inline double view_double(const view *v, int64_t flat) { return dtype_load_double(v->dtype, view_at(v, flat)); }
static inline int64_t view_int(const view *v, int64_t flat) { return dtype_load_int(v->dtype, view_at(v, flat)); }

/* Small integers, which all dtypes but bool hold, as multiples of 1/4 in floats; sometimes a special value. */
static inline void sample_element(bk_dtype t, void *p, bool specials)
{
    int64_t i = sample_int(t == BK_UINT8 ? 0 : -40, 40);
    if (!dtype_is_float(t)) {
        dtype_store_int(t, p, t == BK_BOOL ? i > 0 : i);
        return;
    }
    double v = (double)i / 4;
    if (specials && sample_int(0, 20) == 0)
        v = (double[]){ NAN, INFINITY, -INFINITY, -0.0 }[sample_int(0, 3)];
    dtype_store_double(t, p, v);
}

/* layout 0: contiguous; otherwise dimensions in random order, with gaps and, one in three, backwards. */
static inline sample sample_make(bk_dtype t, int ndim, const int64_t *sizes, bool contiguous, bool specials)
{
    sample s = { .v = { .dtype = t, .ndim = ndim } };
    int order[BK_MAX_NDIM];
    for (int d = 0; d < ndim; d++) {
        order[d] = d;
        s.v.sizes[d] = sizes[d];
    }
    for (int d = ndim - 1; d > 0 && !contiguous; d--) {
        int e = (int)sample_int(0, d), o = order[d];
        order[d] = order[e];
        order[e] = o;
    }
    int64_t stride = 1, first = 0;
    for (int i = ndim - 1; i >= 0; i--) {
        int d = order[i];
        if (!contiguous && sizes[d] > 1 && sample_int(0, 2) == 0)
            stride += sample_int(0, 2) * stride + (i < ndim - 1 ? sample_int(0, 3) : 0);
        s.v.strides[d] = stride;
        if (!contiguous && sizes[d] > 0 && sample_int(0, 2) == 0) {
            first += (sizes[d] - 1) * stride;
            s.v.strides[d] = -stride;
        }
        stride *= sizes[d] > 0 ? sizes[d] : 1;
    }
    s.bytes = (stride + 8) * (int64_t)dtype_size(t);
    s.memory = malloc((size_t)s.bytes);
    s.v.data = s.memory + first * (int64_t)dtype_size(t);
    for (int64_t i = 0; i < stride + 8; i++)
        sample_element(t, s.memory + i * (int64_t)dtype_size(t), specials);
    return s;
}

/* Random sizes: now and then empty, of size 1, long in one dimension, or of many dimensions. */
static inline int sample_sizes(int64_t *sizes)
{
    int ndim = (int)sample_int(0, 5);
    bool many = sample_int(0, 19) == 0;
    if (many)
        ndim = sample_int(0, 1) ? BK_MAX_NDIM : 9;
    for (int d = 0; d < ndim; d++)
        sizes[d] = !many ? sample_int(1, 5) : 1 + (sample_int(0, ndim - 1) < 7);
    if (ndim && sample_int(0, 2) == 0)
        sizes[sample_int(0, ndim - 1)] = sample_int(0, 200);
    return ndim;
}

static inline bool same_double(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

#endif
