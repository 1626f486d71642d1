/* sort.h: sorting, selection, unique values and counting.
 *
 * Order is PyTorch's: NaN is greater than everything, 0.0 and -0.0 are equal. All return 0, or -1 when memory is out;
 * unique_run returns the number of values. Indices are int64 views. */
#ifndef BK_CPU_SORT_H
#define BK_CPU_SORT_H
#include "cpu/view.h"

/* What becomes of equal values. */
typedef enum sort_ties {
    TIES_STABLE,     /* they stay in the order of their indices */
    TIES_AS_PYTORCH, /* PyTorch's order without stable=True */
    TIES_NAN_APART   /* the same, and a NaN is neither less nor greater than anything: as mode sorts */
} sort_ties;

/* values or indices may be NULL. */
int sort_run(const view *values, const view *indices, const view *src, int dim, bool descending, sort_ties ties);
/* values and indices have size k along dim; `sorted` orders them, otherwise they are in PyTorch's order all the same.
 */
int topk_run(const view *values, const view *indices, const view *src, int64_t k, int dim, bool largest, bool sorted);
/* The k-th smallest (from 0) along dim, where values and indices have size 1. */
int kth_run(const view *values, const view *indices, const view *src, int64_t k, int dim);
/* The lower median; the first NaN if there is one, or (skips_nan) that of the others. */
int median_run(const view *values, const view *indices, const view *src, int dim, bool skips_nan);

/* Unique values of a 1-d view, ascending, or (consecutive) as they come. values and counts have room for all of src;
 * inverse has src's size; counts and inverse may be NULL. NaNs are all different. */
int64_t unique_run(const view *values, const view *inverse, const view *counts, const view *src, bool consecutive);

/* dst[src[i]] += weights ? weights[i] : 1. src is 1-d, int64, in range; dst is int64, or float with weights. */
void bincount_run(const view *dst, const view *src, const view *weights);
/* Where each value would be inserted into the sorted rows along the last dimension: before equals, or after them
 * (right). sorted is 1-d or has values' leading sizes. All have one dtype; dst is int64 of values' sizes. */
void searchsorted_run(const view *dst, const view *sorted, const view *values, bool right);
/* Counts of src's elements in equal bins from low to high, both included; others and NaN are ignored. */
void histc_run(const view *dst, const view *src, double low, double high);

#endif
