/* turn.h: transposing copies of 4- and 8-byte elements: squares of one vector's lanes, turned in registers.
 *
 * to[i * to_row + j] = from[i + j * from_col] for i < rows, j < cols: columns are contiguous in `from`, rows in `to`.
 * Any address and any size will do; sizes of whole cache lines are the fast ones. */
#ifndef BK_CPU_TURN_H
#define BK_CPU_TURN_H
#include "brisk.h"

typedef void (*turn_fn)(int64_t rows, int64_t cols, const void *from, int64_t from_col, void *to, int64_t to_row);

typedef struct turn_kernels {
    turn_fn words, longs;               /* elements of 4 and of 8 bytes */
    turn_fn stream_words, stream_longs; /* past the caches; `to` and its rows lie on cache lines */
} turn_kernels;

extern const turn_kernels turn_kernels_baseline, turn_kernels_avx2, turn_kernels_avx512;

const turn_kernels *turn_current(void); /* of the instruction set in use */

#endif
