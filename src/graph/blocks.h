/* blocks.h: what planning and running a region of blocks share. */
#ifndef BK_GRAPH_BLOCKS_H
#define BK_GRAPH_BLOCKS_H
#include "graph/builder.h"

enum {
    BLOCK_ELEMENTS = 1 << 15, /* of rows too wide to be fed to reductions */
    MOST_OUTPUTS = 512        /* of a row that is reduced in parts: so many need no memory (reduce.c) */
};

/* The rows of a block. */
static inline int64_t block_rows(int64_t width)
{
    return width <= REDUCE_WIDEST ? reduce_block_rows(width) : 1 + (BLOCK_ELEMENTS - 1) / width;
}

/* The rows of a task, some blocks. */
static inline int64_t task_rows(int64_t width)
{
    return width <= REDUCE_WIDEST ? reduce_task_rows(width) : block_rows(width);
}

/* The elements that go into one result of a reduction whose results belong to rows of `width`; 0: it is over rows. */
int64_t reduced_row(const layout *l, uint32_t dims, int64_t width);

#endif
