/* excerpt.c: appending records that have no nodes. */
#include "graph/excerpt.h"

#include <string.h>

#include "graph/ahead.h"
#include "graph/append.h"

/* The records that read each other stand elsewhere now. */
static void move_slots(const excerpt *e, record_key *keys, int delta)
{
    for (int i = 0; delta && i < e->records; i++)
        for (int k = 0; k < keys[i].inputs; k++)
            if (keys[i].in[k] >= e->first)
                keys[i].in[k] += delta;
}

static void take_back(op_log *log, const excerpt *e, node *const *values, int inputs)
{
    ahead_leave(); /* as in log_take_back */
    for (int i = 0; i < inputs; i++) {
        node *n = values[e->input[i].value];
        if (n->flags & NODE_PENDING)
            log->keys[n->slot].readers--;
        else
            n->uses--;
        node_release(n);
    }
}

bool excerpt_append(const excerpt *e, node *const *values)
{
    op_log *log = &the_log;
    if (!log_reserve(log, e->records))
        return false;
    const int at = log->count;
    record_key *keys = log->keys + at;
    memcpy(keys, e->keys, (size_t)e->records * sizeof *keys);
    memcpy(log->layouts + at, e->layouts, (size_t)e->records * sizeof *e->layouts);
    memset(log->nodes + at, 0, (size_t)e->records * sizeof *log->nodes);
    move_slots(e, keys, at - e->first);
    bool same = at == e->first && log->hash == e->before;
    for (int i = 0; i < e->inputs; i++) {
        const excerpt_input *in = &e->input[i];
        node *n = values[in->value];
        int32_t number = input_number(log, n);
        if (number == NO_LEAF)
            return take_back(log, e, values, i), false;
        node_retain(n);
        keys[in->record].in[in->k] = number;
        same &= number == e->keys[in->record].in[in->k];
    }
    uint64_t h = same ? e->after : log->hash;
    for (int i = 0; !same && i < e->records; i++)
        h = log_mix_record(h, &keys[i]);
    log->hash = h;
    log->bytes += e->bytes;
    log->count = at + e->records;
    return true;
}

node *log_name(int slot)
{
    op_log *log = &the_log;
    if (log->nodes[slot])
        return node_retain(log->nodes[slot]);
    const record_key *key = &log->keys[slot];
    node *n = node_new(key->op, (bk_dtype)key->dtype, log->layouts[slot]);
    if (!n)
        return NULL;
    n->attr = key->attr;
    n->inputs = key->inputs;
    for (int k = 0; k < key->inputs; k++)
        n->in[k] = record_input(log, key->in[k]); /* what the record held */
    n->slot = slot;
    n->flags = NODE_PENDING;
    n->refs += 1 + key->readers; /* the log's, and those of its readers */
    log->nodes[slot] = n;
    return n;
}
