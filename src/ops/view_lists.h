/* view_lists.h: lists of numbers that tell how views on the tape were made, for who looks at them later: the sizes of
 * a split, and what a long index did to dimensions (INDEX_..., in two words).
 *
 * A view has a number for that. Each list is kept once, and its numbers are counted on from those of the lists before
 * it: this number tells the list, too. Programs have few of them; where there are more than numbers, the parts of a
 * split have their numbers in it, and nobody knows the others; of an index it is not known what it did. */
#ifndef BK_OPS_VIEW_LISTS_H
#define BK_OPS_VIEW_LISTS_H
#include "core/tensor.h"

enum { VIEW_LISTS_FIRST = 1 << 30 }; /* numbers below stand for themselves */

typedef struct view_list {
    int count, number; /* how many it has; which one is meant */
    const int64_t *v;  /* the list; NULL: nobody knows */
} view_list;

/* The number of its first; 0: the list is not kept. With the lock. */
int view_list_keep(const int64_t *sizes, int count);
/* What a number stands for. */
view_list view_list_at(uint32_t part);

/* The same for views that are about to be made of t; 0 also where t is on no tape. */
int view_list_for(const bk_tensor *t, const int64_t *sizes, int count);

#endif
