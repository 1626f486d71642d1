/* move.h: copies, casts and fills between views. */
#ifndef BK_CPU_MOVE_H
#define BK_CPU_MOVE_H
#include "cpu/view.h"

/* Drops dimensions of size 1 and merges neighbours that every view walks as one. All views have equal sizes; the
 * order of elements stays row-major. Returns the new number of dimensions (0: one element, or as given when empty). */
int views_collapse(view **views, int count);
/* As views_collapse, but for callers to whom the order of elements does not matter: dimensions are first turned and
 * sorted so that the first view walks its memory upwards, as densely as its strides allow. */
int views_order(view **views, int count);

/* dst and src have equal sizes, do not overlap (or are the same elements in place); casts as dtype.h converts. */
void move_copy(const view *dst, const view *src);
/* n elements at byte steps; the inner loop of move_copy without threads. */
void move_run(bk_dtype to, char *dst, int64_t dst_step, bk_dtype from, const char *src, int64_t src_step, int64_t n);
void move_fill(const view *dst, const void *element); /* an element of dst's dtype */
/* False only if no byte belongs to both; may be true for views that interleave in a way we do not analyse. */
bool move_overlaps(const view *a, const view *b);

#endif
