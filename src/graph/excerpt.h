/* excerpt.h: a run of records that is appended as it stood in an earlier log.
 *
 * Nobody holds the values of an excerpt but the records that read them, so that its records have no nodes: log.nodes is
 * NULL there, and log.layouts has what else is to be known of them. One that somebody wants gets its node by log_name.
 *
 * Invariant: a record without a node holds a reference to each of its inputs that has one, as a node does. */
#ifndef BK_GRAPH_EXCERPT_H
#define BK_GRAPH_EXCERPT_H
#include "graph/log.h"

/* Input k of a record that is a value from outside the excerpt. */
typedef struct excerpt_input {
    int32_t record, k;
    int32_t value; /* an index of what excerpt_append is given */
} excerpt_input;

typedef struct excerpt {
    int records, inputs;
    int first;              /* the slot that the first record had */
    uint64_t before, after; /* the hashes of that log */
    int64_t bytes;          /* what the results take */
    record_key *keys;
    const layout **layouts;
    excerpt_input *input; /* in the order of the records, and of their inputs */
} excerpt;

/* Appends it; the log has room for it (log_has_room). False with the error set: out of memory, the log is as it was. */
bool excerpt_append(const excerpt *e, node *const *values);
/* The node of a record, made if it has none; one reference for the caller. Of several records of an excerpt, those that
 * stand first are named first. */
node *log_name(int slot);

/* The node of an input, NULL where it has none. */
static inline node *record_input(const op_log *log, int32_t number)
{
    return number < 0 ? log->leaves[-1 - number] : log->nodes[number];
}

#endif
