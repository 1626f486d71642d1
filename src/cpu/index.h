/* index.h: reading and writing at indices and under masks.
 *
 * Indices are int64 views whose values were checked; negative ones count from the end. Masks are bool or uint8. A
 * function that returns int returns -1 when memory is out. Repeated destinations are written in the index's row-major
 * order: the last one stays, sums are added in that order. */
#ifndef BK_CPU_INDEX_H
#define BK_CPU_INDEX_H
#include "cpu/view.h"

typedef enum scatter_mode {
    SCATTER_SET,
    SCATTER_ADD,
    SCATTER_MUL,
    SCATTER_AMAX,
    SCATTER_AMIN,
    SCATTER_MODES
} scatter_mode;

/* Whether all indices are in [-size, size); if not, *bad is the first that is not. */
bool index_check(const view *index, int64_t size, int64_t *bad);

/* dst[i][j][k] = src[index[i][j][k]][j][k] for dim 0, and so on; dst has index's sizes. */
void index_gather(const view *dst, const view *src, int dim, const view *index);
/* dst[index[i][j][k]][j][k] op= src[i][j][k]; src has at least index's sizes. */
void index_scatter(const view *dst, int dim, const view *index, const view *src, scatter_mode mode);

/* Whole slices along dim, by a 1-d index. */
void index_select(const view *dst, const view *src, int dim, const view *index);
void index_add(const view *dst, int dim, const view *index, const view *src);

/* Of matrices of float32 or float64 whose rows are contiguous, by a 1-d index: row r of dst is the sum of the rows i of
 * src with index[i] == r, 256 of them at a time; or it is that of src if the index names it, else zeros. */
int index_sum(const view *dst, const view *index, const view *src);
int index_keep(const view *dst, const view *index, const view *src);

/* dst[i..., rest] = src[indices[0][i], indices[1][i], ..., rest]: the indexed dimensions come first in src, the indices
 * have one common shape (strides of 0 broadcast them). index_put is the reverse, adding if `accumulate`. */
void index_get(const view *dst, const view *src, const view *const *indices, int count);
void index_put(const view *dst, const view *src, const view *const *indices, int count, bool accumulate);

/* src and mask have equal sizes; elements are taken in row-major order. */
int64_t mask_count(const view *mask);
int mask_select(const view *dst, const view *src, const view *mask);    /* dst is 1-d, as long as the count */
int mask_scatter(const view *dst, const view *mask, const view *src);   /* src is 1-d, at least as long */
void mask_fill(const view *dst, const view *mask, const void *element); /* an element of dst's dtype */

int64_t nonzero_count(const view *src);
int nonzero(const view *dst, const view *src); /* dst: int64 [count, ndim] */

#endif
