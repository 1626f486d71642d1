/* equal.c: what is equal is computed once.
 *
 * Records are immutable values, so equal ops over equal inputs are equal, whatever is written in between. Invariant:
 * same[i] is the first record that computes what record i computes, i itself for those that are computed; same_leaf[l]
 * likewise. */
#include "graph/builder.h"

#include <string.h>

#include "graph/desk.h"
#include "graph/rewrite.h"

/* A fill is as cheap as the copy that whoever writes into it would need if others had it too. */
static bool is_fill(const planner *p, int32_t i)
{
    int32_t in = p->key->record[i].in[0];
    return p->key->record[i].op == OP_cast && in < 0 && p->key->leaf[-1 - in].bits & LEAF_CONSTANT;
}

/* Whether an equal record could stand for record i. Memory with contents to come is nobody else's; a kernel with a
 * second result stands before it. */
static bool is_shareable(const planner *p, int32_t i)
{
    node_kind kind = op_get(p->key->record[i].op)->kind;
    if (kind == KIND_KERNEL)
        return i + 1 == p->key->records || p->key->record[i + 1].op != OP_second;
    return (kind == KIND_ELEMENTWISE && !is_fill(p, i)) || kind == KIND_VIEW;
}

static uint64_t record_hash(const planner *p, int32_t i)
{
    const record_key *key = &p->key->record[i];
    uint64_t h = (uint64_t)key->op << 40 | (uint64_t)key->dtype << 32 | key->layout;
    for (int k = 0; k < key->inputs; k++)
        h = (h ^ (uint64_t)input_of(p, i, k)) * 0x9E3779B97F4A7C15ull;
    if (key->op >= EW_COUNT)
        for (int k = 0; k < 4; k++)
            h = (h ^ (uint64_t)key->attr.i[k]) * 0xBF58476D1CE4E5B9ull;
    return h ^ h >> 32;
}

static bool same_record(const planner *p, int32_t i, int32_t j)
{
    const record_key *a = &p->key->record[i], *b = &p->key->record[j];
    if (a->op != b->op || a->dtype != b->dtype || a->inputs != b->inputs || a->layout != b->layout)
        return false;
    for (int k = 0; k < a->inputs; k++)
        if (input_of(p, i, k) != input_of(p, j, k))
            return false;
    return !memcmp(&a->attr, &b->attr, sizeof a->attr);
}

static bool same_leaf(const leaf_key *a, const leaf_key *b)
{
    return a->memory == b->memory && a->offset == b->offset && a->layout == b->layout && a->dtype == b->dtype &&
           !((a->bits | b->bits) & LEAF_CONSTANT);
}

/* Leaves that show the same memory in the same way are one value: a weight's transpose is taken anew in every step. */
bool share_leaves(const plan_key *key, int32_t *same)
{
    int leaves = key->leaves;
    size_t slots = 64;
    while (slots < (size_t)leaves * 2)
        slots *= 2;
    const size_t mark = desk_mark();
    int32_t *table = desk_take(slots * sizeof *table);
    if (!table)
        return false;
    memset(table, -1, slots * sizeof *table);
    for (int32_t l = 0; l < leaves; l++) {
        const leaf_key *leaf = &key->leaf[l];
        uint64_t h = ((uint64_t)leaf->memory << 32 | leaf->layout) * 0x9E3779B97F4A7C15ull;
        h = (h ^ (uint64_t)leaf->offset) * 0xBF58476D1CE4E5B9ull;
        size_t at = (h ^ h >> 32) & (slots - 1);
        while (table[at] >= 0 && !same_leaf(leaf, &key->leaf[table[at]]))
            at = (at + 1) & (slots - 1);
        same[l] = table[at] >= 0 ? table[at] : (table[at] = l);
    }
    desk_release(mark);
    return true;
}

/* A slot of the table of records: the hash is compared first, for the record itself is seldom in cache. */
typedef struct entry {
    uint32_t hash;
    int32_t record; /* -1: none */
} entry;

/* The place of record i, or of the last one that computes the same. There is room: slots are probed one by one, so that
 * what is found does not depend on what else there is. A chain that lost one of its records would be two chains. */
static entry *find(const planner *p, entry *table, size_t slots, int32_t i, uint64_t hash)
{
    size_t at = hash & (slots - 1);
    while (table[at].record >= 0 && (table[at].hash != (uint32_t)(hash >> 32) || !same_record(p, i, table[at].record)))
        at = (at + 1) & (slots - 1);
    return &table[at];
}

/* Two values that both outlive the plan stay apart: they may be written to. */
static void share(planner *p, int32_t i, entry *found, uint64_t hash)
{
    const int32_t j = found->record;
    const bool kept = p->values[i].last_use == INT32_MAX;
    if (j < 0 || (kept && p->values[j].last_use == INT32_MAX)) {
        *found = (entry){ (uint32_t)(hash >> 32), i };
        return;
    }
    if (kept)
        p->values[j].last_use = INT32_MAX;
    p->same[i] = j;
    note(p, FACT_SHARED, i);
}

bool share_equal(planner *p)
{
    if (!share_leaves(p->key, p->same_leaf))
        return false;
    if (!(rewrites_done & REWRITE_equal))
        return true;
    const int records = p->key->records;
    size_t slots = 64;
    while (slots < (size_t)records + (size_t)records / 2)
        slots *= 2;
    const size_t mark = desk_mark();
    entry *table = desk_take(slots * sizeof *table);
    if (!table)
        return false;
    memset(table, -1, slots * sizeof *table);
    for (int32_t i = 0; i < records; i++) {
        if (!(p->key->bits[i] & RECORD_NEEDED) || !is_shareable(p, i))
            continue;
        const uint64_t hash = record_hash(p, i);
        share(p, i, find(p, table, slots, i, hash), hash);
    }
    desk_release(mark);
    return true;
}
