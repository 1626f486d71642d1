/* rewrite.h: the log as it is planned: the same values by fewer and larger products. */
#ifndef BK_GRAPH_REWRITE_H
#define BK_GRAPH_REWRITE_H
#include "graph/plan.h"
#include "graph/rewrites.h"

typedef struct rewritten {
    plan_key key;           /* its leaves are those of the log */
    const layout **layouts; /* per record */
    int32_t *origin;        /* per record: that of the log which it stands for, or is made for; NULL: each itself */
} rewritten;

/* Facts go to the report, memory comes from the desk. False: there is none. */
bool rewrite(rewritten *out, const op_log *log, const plan_key *key, plan_report *report);

/* rewrite_parts.c: what is smaller is still in a core's cache when its parts are read. Tests have parts of anything. */
extern int64_t parts_least_bytes;

/* equal.c: per leaf the first that shows the same memory in the same way. */
bool share_leaves(const plan_key *key, int32_t *same);

#endif
