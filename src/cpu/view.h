/* view.h: memory as the CPU kernels see it: an address, a dtype, sizes and strides (in elements, any sign). */
#ifndef BK_CPU_VIEW_H
#define BK_CPU_VIEW_H
#include "core/dtype.h"

#include <string.h>

typedef struct view {
    char *data; /* the first element */
    bk_dtype dtype;
    int ndim;
    int64_t sizes[BK_MAX_NDIM];
    int64_t strides[BK_MAX_NDIM];
} view;

/* Nearly all have few dimensions, so that a copy moves few of the words there is room for: never `view a = *b`. */
enum { VIEW_FEW = 4 };

static inline void view_shape(view *v, int ndim, const int64_t *sizes, const int64_t *strides)
{
    v->ndim = ndim;
    memcpy(v->sizes, sizes, VIEW_FEW * sizeof *sizes);
    memcpy(v->strides, strides, VIEW_FEW * sizeof *strides);
    for (int d = VIEW_FEW; d < ndim; d++) {
        v->sizes[d] = sizes[d];
        v->strides[d] = strides[d];
    }
}

static inline void view_take(view *to, const view *from)
{
    to->data = from->data;
    to->dtype = from->dtype;
    view_shape(to, from->ndim, from->sizes, from->strides);
}

static inline int64_t view_numel(const view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim; d++)
        n *= v->sizes[d];
    return n;
}

#endif
