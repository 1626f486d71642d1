/* sort.h: sorting with a choice of what becomes of equal values. */
#ifndef BK_OPS_SORT_H
#define BK_OPS_SORT_H
#include "brisk.h"
#include "cpu/sort.h"

/* bk_sort, which is stable, with another order of equal values. */
bk_tensor *sort_with(const bk_tensor *t, int dim, bool descending, sort_ties ties, bk_tensor **indices);

#endif
