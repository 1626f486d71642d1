/* view.h: memory as the CPU kernels see it: an address, a dtype, sizes and strides (in elements, any sign). */
#ifndef BK_CPU_VIEW_H
#define BK_CPU_VIEW_H
#include "core/dtype.h"

typedef struct view {
    char *data; /* the first element */
    bk_dtype dtype;
    int ndim;
    int64_t sizes[BK_MAX_NDIM];
    int64_t strides[BK_MAX_NDIM];
} view;

static inline int64_t view_numel(const view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim; d++)
        n *= v->sizes[d];
    return n;
}

#endif
