/* repeat.h: recording the same steps again. */
#ifndef BK_GRAPH_REPEAT_H
#define BK_GRAPH_REPEAT_H
#include "graph/log.h"

/* For who has recorded a step over and over, `length` records each time: up to `times` more of them, as if he had gone
 * on. How many there are now: none where the last two were not alike, fewer where the log is to be evaluated first; -1:
 * out of memory. */
int log_repeat(int length, int times);
int64_t log_repeats(void); /* how many steps there were so far: for tests */
/* What n, of the last step before, is `times` steps later. Borrowed. */
static inline node *log_repeated(const node *n, int length, int times)
{
    return the_log.nodes[n->slot + length * times];
}

#endif
