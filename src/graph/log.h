/* log.h: recording ops, and evaluating what was recorded. */
#ifndef BK_GRAPH_LOG_H
#define BK_GRAPH_LOG_H
#include <string.h>

#include "core/node.h"

/* What the plan of a log depends on, for one record. The first fields are not in the node's order: copied as one word
 * they would wait until the node's single stores have left the store buffer. */
typedef struct record_key {
    uint32_t layout;
    uint8_t inputs;
    uint8_t dtype;
    uint16_t op;
    int32_t in[MAX_INPUTS]; /* a slot; a leaf l as -1 - l */
    int32_t readers;        /* inputs of later records that it is: counted as they come */
    attr attr;
} record_key;

/* Whether two records do the same to what they read. */
static inline bool same_operation(const record_key *a, const record_key *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->inputs == b->inputs && a->layout == b->layout &&
           !memcmp(&a->attr, &b->attr, sizeof a->attr);
}

struct plan;

/* A plan that was begun: under way, or stopped between two instructions. */
typedef struct plan_progress {
    struct plan *plan; /* NULL: none */
    char *arena;
    int next;     /* the instruction to go on with */
    int64_t rows; /* of it that are there already: of a product that a worker has begun (graph/ahead.h) */
} plan_progress;

typedef struct op_log {
    node **nodes;           /* NULL: a record that nobody but other records holds (graph/excerpt.h) */
    const layout **layouts; /* of those */
    record_key *keys;
    int count, capacity;
    int room;      /* records up to this many need no look at memory, budgets and `look` */
    int look;      /* with so many records something may run ahead of the flush (graph/ahead.h) */
    node **leaves; /* by first use */
    int leaf_count, leaf_capacity;
    uint64_t hash;
    uint32_t epoch;     /* a node's slot as a leaf is good while its epoch is this */
    int64_t bytes;      /* what the results would take: the soft budget */
    int64_t read_bytes; /* what the leaves take */
    bool reads_shared;  /* a record reads memory that others may change: it is evaluated before its op returns */
    bool amid;          /* the flush comes in the middle of an op: what handles have seen may be its operands */
    plan_progress progress;
} op_log;

enum { FIRST_LOOK = 128 };

extern op_log the_log;
extern int log_most_records; /* tests set it, to have a flush anywhere: log_make_room then */

/* Appends n, whose inputs, edges, layout and attr are set; takes a reference of its own. -1: out of memory. */
int log_append(node *n);
extern bool inference_seen; /* there has been an inference mode: some node may be NODE_INFERENCE */
/* Evaluates everything in the log. -1: it is as it was, or has kept its place in the plan. */
int log_flush(void);
/* For who looks at pending nodes other than the value of a cell: a plan that was stopped is finished first, since it
 * may have overwritten what only its own records read. */
static inline int log_look(void) { return the_log.progress.plan ? log_flush() : 0; }
/* Evaluates until n has data. */
int log_evaluate(node *n);
/* Sets `room` from the capacity and the budget. */
void log_make_room(op_log *log);
/* Memory for so many records more; false with the error set. */
bool log_reserve(op_log *log, int records);
bool log_reserve_leaves(op_log *log, int leaves); /* the same for leaves */
/* Where the keys of so many records will be, for who touches its pages without changing a byte; NULL: nowhere. */
char *log_stretch(int records, size_t *bytes);
/* Whether so many records more, and what they would take if all were made, leave the log within its budget. */
bool log_has_room(int records, int64_t bytes);
extern bool log_is_eager; /* BRISK_EAGER=1: every op is evaluated before it returns */
static inline bool log_eager(void) { return log_is_eager; }
/* Parts of a flush, for the bench: looking the plan up, and making it. The log stays as it is. */
bool flush_lookup(void);
bool flush_plan(void);
bool flush_checks(void); /* BRISK_CHECK_PLAN=1: what caches remember is made anew and compared */
/* Whether the op that was just recorded has to be evaluated before it returns. */
static inline bool log_due(void) { return the_log.reads_shared || log_eager(); }

#endif
