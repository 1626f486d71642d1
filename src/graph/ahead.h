/* ahead.h: running the first steps of a plan while its log is still being recorded. */
#ifndef BK_GRAPH_AHEAD_H
#define BK_GRAPH_AHEAD_H
#include "graph/plan.h"

/* All of this is for the holder of the library's lock. */

/* The log has come to log->look records: begins, or lets the worker go on to what was recorded since. */
void ahead_look(op_log *log);
/* The log has plan p, or none yet (NULL): what was done for another plan is thrown away. The worker stands still. */
void ahead_settle(const plan *p, const op_log *log);
/* What was done ahead for p; false: nothing. The caller has it from here on: p's memory, bound up to the leaves, the
 * instruction to go on with, and how many factors have been bound. */
bool ahead_take(const plan *p, plan_progress *progress, int *factors);
/* Before memory that the log reads may be written by somebody who does not record it: nothing runs ahead afterwards,
 * and what has is thrown away. */
void ahead_leave(void);

void plan_forget_head(plan *p); /* for plan_free */

/* For tests. */
typedef struct ahead_counts {
    int64_t begun, taken, left; /* left: thrown away */
    int64_t instructions;       /* of those that were taken */
    int64_t halfway;            /* taken in the middle of a product */
} ahead_counts;
ahead_counts ahead_count(void);
extern bool ahead_eagerly;      /* of short plans too, and the flush waits until the worker has done all that it may */
extern int64_t ahead_most_rows; /* after which the worker leaves a long product to the flush */

#endif
