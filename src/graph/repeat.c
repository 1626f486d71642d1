/* repeat.c: recording the same steps again.
 *
 * A layer over a sequence records one step after the other. What differs from one to the next is which records are
 * read, and where in a sequence: both go on as they went. So a step needs neither handles nor checks once two have been
 * recorded, and costs a fifth. Off the tape nobody but the steps themselves will ask for their values: then they get no
 * nodes either (graph/excerpt.h) but in the last step, and cost a fifth of that.
 *
 * Invariant: a record is to the one a step before it what that one is to the one two steps before: it reads, and leads
 * on the tape, either to the same node or to what stands a step later in the log; of its attributes only the offset of
 * a region differs, by as much. */
#include "graph/repeat.h"

#include <string.h>

#include "autograd/function.h"
#include "core/lock.h"
#include "graph/ahead.h"
#include "graph/append.h"
#include "graph/excerpt.h"
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

/* --- steps without nodes ------------------------------------------------------------------------------------------ */

/* A record more reads an input, and holds it, as append_record and its node do. */
static inline void hold_input(op_log *log, int32_t number)
{
    node *n = record_input(log, number);
    if (number >= 0)
        log->keys[number].readers++;
    else
        n->uses++;
    if (n)
        node_retain(n);
}

/* The record that comes after the one a step before it, and where it reads elsewhere than that. */
static void append_next(op_log *log, int length)
{
    const int at = log->count++;
    record_key *key = &log->keys[at];
    const record_key *here = key - length, *before = here - length;
    *key = *here;
    key->readers = 0;
    for (int k = 0; k < key->inputs; k++) {
        if (before->in[k] != here->in[k])
            key->in[k] += length;
        hold_input(log, key->in[k]);
    }
    if (key->op == OP_view || key->op == OP_update)
        key->attr.region.offset += here->attr.region.offset - before->attr.region.offset;
    log->nodes[at] = NULL;
    log->layouts[at] = log->layouts[at - length];
}

/* What is to be changed in a copy of the step before. */
typedef struct change {
    int32_t record, k; /* k < 0: the offset of its region */
    int64_t by;
    bool leaves; /* what it reads then is of the step before */
} change;

static int find_changes(const op_log *log, int length, change *changes)
{
    const int first = log->count - length;
    int count = 0;
    for (int i = 0; i < length; i++) {
        const record_key *key = &log->keys[first + i], *before = key - length;
        for (int k = 0; k < key->inputs; k++)
            if (key->in[k] != before->in[k])
                changes[count++] = (change){ i, k, length, key->in[k] < first };
        const int64_t by = key->attr.region.offset - before->attr.region.offset;
        if ((key->op == OP_view || key->op == OP_update) && by)
            changes[count++] = (change){ i, -1, by, false };
    }
    return count;
}

/* Copies of the last step, whose readers are those of its own so far. What all steps read is held by hold_common. */
static void append_copies(op_log *log, int length, int times, const change *changes, int count)
{
    for (int t = 0; t < times; t++) {
        record_key *keys = log->keys + log->count;
        memcpy(keys, keys - length, (size_t)length * sizeof *keys);
        for (int i = 0; i < count; i++) {
            record_key *key = &keys[changes[i].record];
            if (changes[i].k < 0)
                key->attr.region.offset += changes[i].by;
            else
                key->in[changes[i].k] += length;
        }
        for (int i = 0; i < count; i++) /* after the copy: the last step has no readers in a next one yet */
            if (changes[i].leaves)
                hold_input(log, keys[changes[i].record].in[changes[i].k]);
        memset(log->nodes + log->count, 0, (size_t)length * sizeof *log->nodes);
        memcpy(log->layouts + log->count, log->layouts + log->count - length, (size_t)length * sizeof *log->layouts);
        log->count += length;
    }
}

/* What all steps read is held by so many more. */
static void hold_common(op_log *log, int first, int length, int times)
{
    for (int i = first; i < first + length; i++)
        for (int k = 0; k < log->keys[i].inputs; k++) {
            const int32_t number = log->keys[i].in[k];
            if (number != log->keys[i - length].in[k])
                continue;
            node *n = record_input(log, number);
            if (number >= 0)
                log->keys[number].readers += times;
            else
                n->uses += times;
            if (n)
                n->refs += times;
        }
}

/* Nodes for the last step, like those of step `from`, whose first record this is. */
static int name_step(op_log *log, int from, int length)
{
    for (int i = 0; i < length; i++) {
        node *n = log_name(log->count - length + i);
        if (!n)
            return -1;
        n->line = log->nodes[from + i]->line;
        n->flags |= log->nodes[from + i]->flags & NODE_INFERENCE;
        node_release(n); /* the log has its own */
    }
    return 0;
}

static int repeat_nameless(op_log *log, int length, int times, int64_t bytes)
{
    const int from = log->count - length;
    change changes[length * (MAX_INPUTS + 1)];
    if (!log_reserve(log, length * times))
        return -1;
    for (int i = from; i < from + length; i++)
        log->layouts[i] = log->nodes[i]->layout;
    for (int i = 0; i < length; i++)
        append_next(log, length);
    append_copies(log, length, times - 1, changes, find_changes(log, length, changes));
    hold_common(log, from + length, length, times - 1);
    log->bytes += bytes * times;
    log->hash = log_mix(log_mix(log->hash, (uint64_t)length), (uint64_t)times); /* the rest follows from what was */
    return name_step(log, from, length);
}

/* --- any steps ---------------------------------------------------------------------------------------------------- */

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

/* Whether nobody will look for the nodes of steps like the last one: the tape, or a custom forward under way. */
static bool needs_no_nodes(const op_log *log, int length)
{
    bool taped = forwards_under_way;
    for (int at = log->count - length; at < log->count; at++)
        taped |= log->nodes[at]->flags & NODE_TAPED;
    return !taped;
}

/* How many steps leave the log within its budget. */
static int steps_within(int length, int64_t bytes, int times)
{
    while (times > 0 && !log_has_room(length * times, bytes * times))
        times--;
    return times;
}

static int repeat_steps(op_log *log, int length, int times)
{
    const int64_t bytes = step_bytes(log, length);
    times = bytes < 0 ? 0 : steps_within(length, bytes, times);
    if (log->count + times * length >= log->look) /* while they are written down the first ones can run */
        ahead_look(log);
    if (times > 0 && needs_no_nodes(log, length))
        return repeat_nameless(log, length, times, bytes) < 0 ? -1 : times;
    for (int done = 0; done < times; done++)
        if (!log_reserve(log, length) || repeat_once(log, length) < 0)
            return -1;
    return times;
}

static int64_t repeats;

int64_t log_repeats(void) { return repeats; }

int log_repeat(int length, int times)
{
    lock_take();
    const int done = rewrites_done & REWRITE_repeats ? repeat_steps(&the_log, length, times) : 0;
    repeats += done > 0 ? done : 0;
    lock_give();
    return done;
}
