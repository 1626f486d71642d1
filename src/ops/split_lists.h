/* split_lists.h: the lists of sizes that tensors on the tape were split by, for who looks at a part later.
 *
 * A part has 16 bits for its number. Each list that a program splits by is kept once, and its parts are numbered on
 * from those of the lists before it: this number tells the list, too. Programs have few of them; where there are more
 * than numbers, the parts of a list have their numbers in it, and nobody knows the others. */
#ifndef BK_OPS_SPLIT_LISTS_H
#define BK_OPS_SPLIT_LISTS_H
#include "core/tensor.h"

enum { SPLIT_LISTS_FIRST = 1 << 15 }; /* numbers below are those in a list that is not known */

typedef struct split_list {
    int count, number; /* of its parts; of this one among them */
    const int64_t *sizes;
} split_list;

/* The number of the first part; 0: the list is not kept. With the lock. */
int split_list_keep(const int64_t *sizes, int count);
/* What a number of a part stands for; sizes is NULL where nobody knows. */
split_list split_list_at(uint32_t part);

/* The number of the first part of t that is about to be split by a list. */
int split_numbers(const bk_tensor *t, const int64_t *sizes, int count);

#endif
