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
    bool same = same_operation(a, b);
    for (int k = 0; same && k < a->inputs; k++)
        same = input_of(p, i, k) == input_of(p, j, k);
    return same;
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

/* --- records ------------------------------------------------------------------------------------------------------ */

enum { FEW = 4 }; /* records that read a value and are looked at one by one */

/* A slot of the table of records: the hash is compared first, for the record itself is seldom in cache. */
typedef struct entry {
    uint32_t hash;
    int32_t record; /* -1: none */
} entry;

/* The first records that read a value, as their latest input. */
typedef struct readers {
    int32_t record[FEW];
} readers;

/* Records that compute the same read the same values. So they are found among the few that have the same latest input,
 * which stand close by; where these are many, in a table. */
typedef struct finder {
    const planner *p;
    readers *readers; /* per value; -1: none */
    entry *table;     /* NULL: not needed so far */
    size_t slots;
} finder;

static int32_t latest_input(const planner *p, int32_t i)
{
    int32_t latest = -1, leaf = -1;
    for (int k = 0; k < p->key->record[i].inputs; k++) {
        const int32_t v = input_of(p, i, k);
        leaf = v >= p->key->records ? v : leaf;
        latest = v < p->key->records && v > latest ? v : latest;
    }
    return latest >= 0 ? latest : leaf;
}

static bool make_table(finder *f)
{
    const size_t records = (size_t)f->p->key->records;
    f->slots = 64;
    while (f->slots < records + records / 2)
        f->slots *= 2;
    f->table = desk_take(f->slots * sizeof *f->table);
    if (f->table)
        memset(f->table, -1, f->slots * sizeof *f->table);
    return f->table != NULL;
}

/* The place of record i, or of the last one that computes the same; NULL: out of memory. There is room: slots are
 * probed one by one, so that what is found does not depend on what else there is. A chain that lost one of its records
 * would be two chains. */
static int32_t *find_in_table(finder *f, int32_t i)
{
    if (!f->table && !make_table(f))
        return NULL;
    const uint64_t hash = record_hash(f->p, i);
    entry *e = &f->table[hash & (f->slots - 1)];
    while (e->record >= 0 && (e->hash != (uint32_t)(hash >> 32) || !same_record(f->p, i, e->record)))
        e = e + 1 < f->table + f->slots ? e + 1 : f->table;
    e->hash = (uint32_t)(hash >> 32);
    return &e->record;
}

static int32_t *find(finder *f, int32_t i)
{
    const int32_t input = latest_input(f->p, i);
    for (int n = 0; input >= 0 && n < FEW; n++) {
        int32_t *at = &f->readers[input].record[n];
        if (*at < 0 || same_record(f->p, i, *at))
            return at;
    }
    return find_in_table(f, i);
}

/* --- sums that are kept twice ------------------------------------------------------------------------------------- */

enum { MOST_COPIES = 64, MOST_COPIED = 1 << 16 /* bytes: more is better computed beside the other */ };

/* Additions that will be copies of others. */
typedef struct copies {
    int32_t record[MOST_COPIES], of[MOST_COPIES];
    int count;
} copies;

/* The gradients of two biases that are added up are the same sum, step by step; that both are kept must not end it
 * before its last term. */
static bool will_be_copy(const planner *p, copies *c, int32_t i, int32_t of)
{
    const int64_t bytes = p->values[i].layout->numel * (int64_t)dtype_size((bk_dtype)p->values[i].dtype);
    if (p->key->record[i].op != EW_add || bytes > MOST_COPIED || c->count == MOST_COPIES)
        return false;
    c->record[c->count] = i;
    c->of[c->count++] = of;
    return true;
}

/* In records of the planner's own. */
static bool make_copies(planner *p, const copies *c)
{
    const size_t bytes = (size_t)p->key->records * sizeof *p->key->record;
    if (c->count && p->key->record == p->asked->record) {
        p->changed = *p->key;
        p->changed.record = desk_take(bytes);
        if (!p->changed.record)
            return false;
        memcpy(p->changed.record, p->key->record, bytes);
        p->key = &p->changed;
    }
    for (int k = 0; k < c->count; k++) {
        record_key *key = &p->key->record[c->record[k]];
        *key =
            (record_key){ .op = OP_cast, .dtype = key->dtype, .layout = key->layout, .inputs = 1, .in = { c->of[k] } };
        note(p, FACT_SHARED, c->record[k]);
    }
    return true;
}

/* Two values that both outlive the plan stay apart: they may be written to. */
static void share(planner *p, copies *c, int32_t i, int32_t *found)
{
    const int32_t j = *found;
    const bool kept = p->values[i].last_use == INT32_MAX, both = kept && j >= 0 && p->values[j].last_use == INT32_MAX;
    if (both && will_be_copy(p, c, i, j))
        return;
    if (j < 0 || both) {
        *found = i;
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
    const size_t mark = desk_mark(), values = (size_t)(records + p->key->leaves);
    finder f = { .p = p, .readers = desk_take(values * sizeof *f.readers) };
    copies copied = { .count = 0 };
    bool good = f.readers != NULL;
    if (good)
        memset(f.readers, -1, values * sizeof *f.readers);
    for (int32_t i = 0; good && i < records; i++) {
        if (!(p->key->bits[i] & RECORD_NEEDED) || !is_shareable(p, i))
            continue;
        int32_t *found = find(&f, i);
        if ((good = found != NULL))
            share(p, &copied, i, found);
    }
    desk_release(mark);
    return good && make_copies(p, &copied);
}
