/* repeat.c: recording the same steps again.
 *
 * A layer over a sequence records one step after the other. What differs from one to the next is which records are
 * read, and where in a sequence: both go on as they went. So a step needs neither handles nor checks once two have been
 * recorded, and costs a fifth.
 *
 * Invariant: a record is to the one a step before it what that one is to the one two steps before: it reads, and leads
 * on the tape, either to the same node or to what stands a step later in the log; of its attributes only the offset of
 * a region differs, by as much. */
#include "graph/repeat.h"

#include <string.h>

#include "core/lock.h"
#include "graph/append.h"
#include "graph/rewrites.h"

static bool is_region(const node *n) { return n->op == OP_view || n->op == OP_update; }

/* Whether what is read here is what was read a step before, or what stands a step later in the log. */
static bool goes_on(const node *before, const node *here, int length)
{
    if (before == here)
        return true;
    return before && here && before->flags & here->flags & NODE_PENDING && here->slot == before->slot + length;
}

static bool attributes_go_on(const node *before, const node *here)
{
    if (!is_region(here))
        return !memcmp(&before->attr, &here->attr, sizeof here->attr);
    return before->attr.region.layout == here->attr.region.layout && before->attr.region.add == here->attr.region.add &&
           before->attr.region.tape == here->attr.region.tape;
}

static bool record_goes_on(const node *before, const node *here, int length)
{
    bool good = before && here && before->op == here->op && before->dtype == here->dtype &&
                before->layout == here->layout && before->inputs == here->inputs && before->flags == here->flags &&
                !here->extra && attributes_go_on(before, here);
    for (int k = 0; k < MAX_INPUTS; k++)
        good = good && goes_on(before->in[k], here->in[k], length) && goes_on(before->edge[k], here->edge[k], length);
    return good;
}

static node *follow(const op_log *log, const node *before, node *here, int length)
{
    return before == here ? here : log->nodes[here->slot + length];
}

/* The record that comes after `here`, as that came after `before`. */
static node *next_record(const op_log *log, const node *before, const node *here, int length)
{
    node *n = node_blank(here->op, (bk_dtype)here->dtype, here->layout);
    if (!n)
        return NULL;
    n->line = here->line;
    n->flags = here->flags & NODE_INFERENCE;
    n->inputs = here->inputs;
    n->attr = here->attr;
    if (is_region(here))
        n->attr.region.offset += here->attr.region.offset - before->attr.region.offset;
    for (int k = 0; k < n->inputs; k++) {
        node *edge = here->edge[k];
        node_input(n, k, follow(log, before->in[k], here->in[k], length),
                   edge ? follow(log, before->edge[k], edge, length) : NULL);
    }
    return n;
}

static int repeat_once(op_log *log, int length)
{
    for (int i = 0; i < length; i++) {
        const node *here = log->nodes[log->count - length], *before = log->nodes[log->count - 2 * length];
        node *n = next_record(log, before, here, length);
        if (!n)
            return -1;
        int status = append_record(n, n->op, (bk_dtype)n->dtype, n->layout, n->inputs, n->op < EW_COUNT);
        node_release(n); /* the log has its own */
        if (status < 0)
            return -1;
    }
    return 0;
}

/* What a step adds to memory in use; -1 where the last two do not go on. */
static int64_t step_bytes(const op_log *log, int length)
{
    int64_t bytes = 0;
    if (length <= 0 || log->count < 2 * length || log_due() || log->progress.plan)
        return -1;
    for (int at = log->count - length; at < log->count; at++) {
        if (!record_goes_on(log->nodes[at - length], log->nodes[at], length))
            return -1;
        bytes += new_bytes(log->nodes[at]);
    }
    return bytes;
}

static int64_t repeats;

int64_t log_repeats(void) { return repeats; }

int log_repeat(int length, int times)
{
    op_log *log = &the_log;
    int done = 0;
    lock_take();
    const int64_t bytes = rewrites_done & REWRITE_repeats ? step_bytes(log, length) : -1;
    bool good = true;
    while (good && bytes >= 0 && done < times && log_has_room(length, bytes)) {
        good = log_reserve(log, length) && repeat_once(log, length) == 0;
        done += good;
    }
    repeats += done;
    lock_give();
    return good ? done : -1;
}
