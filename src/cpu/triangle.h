/* triangle.h: the part of each matrix on one side of a diagonal. */
#ifndef BK_CPU_TRIANGLE_H
#define BK_CPU_TRIANGLE_H
#include "cpu/view.h"

/* dst = src on and below (upper: above) the diagonal and 0 elsewhere, over the last two dimensions; of one dtype. */
void triangle_copy(const view *dst, const view *src, int64_t diagonal, bool upper);

#endif
