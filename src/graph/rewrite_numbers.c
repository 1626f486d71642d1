/* rewrite_numbers.c: what makes one number of a step is put off until the steps are over.
 *
 * A loss that is added up in a loop, or a norm that is watched, needs all rows of a step, so that every core would wait
 * for the others there; and no step needs it. So such records, and what is computed of their numbers alone, stand
 * behind the last of them, where the steps are through: from the first step to the last each core goes through its
 * rows.
 *
 * Invariant: a record stands after all that it reads, and those that are put off keep their order. They stand no later
 * than where the last of them stood, and no more than MOST_BYTES wait for them: what they read is in memory for so
 * long.
 */
#include "graph/rewriter.h"

#include <string.h>

#include "graph/desk.h"
#include "graph/kernels.h"

enum {
    FEWEST = 4,          /* numbers: fewer are no loop */
    MOST_APART = 512,    /* records from one to the next: those of another loop wait for themselves */
    MOST_READ = 1 << 16, /* elements: more keep all cores busy by themselves */
    MOST_BYTES = 1 << 24,
};

typedef struct sorter {
    const plan_key *key;
    const layout **layouts;
    bool *waits;    /* per record: whether it is put off, as yet */
    int32_t *order; /* records as they are to stand */
    int32_t *put_off;
    int32_t count, put_off_count;
    int32_t end;    /* behind how many records those that are put off are to stand */
    int32_t passed; /* how many were put off past a record that was not */
    int64_t bytes;
} sorter;

static bool reads_waiting(const sorter *s, int32_t i)
{
    const record_key *key = &s->key->record[i];
    bool waits = false;
    for (int k = 0; k < key->inputs; k++)
        waits |= key->in[k] >= 0 && s->waits[key->in[k]];
    return waits;
}

/* A reduction of some elements to one number. */
static bool makes_number(const plan_key *key, const layout *const *layouts, int32_t i)
{
    const record_key *r = &key->record[i];
    int (*run)(const struct kernel_call *) = op_get(r->op)->run;
    return (run == run_reduce || run == run_mean || run == run_var) && layouts[i]->numel == 1 && r->in[0] >= 0 &&
           r->attr.reduce.from->numel > 1 && r->attr.reduce.from->numel <= MOST_READ;
}

/* Whether record i, which reads what is put off, can be put off with it: it computes of numbers, or writes them down.
 */
static bool goes_along(const sorter *s, int32_t i)
{
    const record_key *key = &s->key->record[i];
    const node_kind kind = op_get(key->op)->kind;
    if (kind == KIND_UPDATE)
        return s->layouts[i]->numel <= MOST_READ;
    return s->layouts[i]->numel == 1 && key->op != OP_matmul && kind != KIND_KERNEL_IN_PLACE;
}

/* Those that are put off get their places, and records behind these move up. */
static void settle(sorter *s)
{
    const int32_t waiting = s->put_off_count, behind = s->count - s->end;
    if (!waiting)
        return;
    memmove(s->order + s->end + waiting, s->order + s->end, (size_t)behind * sizeof *s->order);
    memcpy(s->order + s->end, s->put_off, (size_t)waiting * sizeof *s->order);
    for (int32_t k = 0; k < waiting; k++)
        s->waits[s->put_off[k]] = false;
    s->count += waiting;
    s->put_off_count = 0;
    s->bytes = 0;
}

static void put_off(sorter *s, int32_t i, bool makes)
{
    const record_key *key = &s->key->record[i];
    if (makes)
        s->bytes += key->attr.reduce.from->numel * (int64_t)dtype_size((bk_dtype)s->key->record[key->in[0]].dtype);
    s->passed += s->put_off_count && s->end < s->count;
    s->put_off[s->put_off_count++] = i;
    s->waits[i] = true;
    s->end = s->count;
}

static void visit(sorter *s, int32_t i)
{
    const bool makes = makes_number(s->key, s->layouts, i), reads = reads_waiting(s, i);
    if ((makes || (reads && goes_along(s, i))) && !reads_forced(s->key, i)) {
        put_off(s, i, makes);
        if (s->bytes > MOST_BYTES)
            settle(s);
        return;
    }
    if (reads || s->count - s->end > MOST_APART)
        settle(s);
    s->order[s->count++] = i;
}

/* The log in this order. */
static bool write_in_order(const sorter *s, rewritten *out)
{
    const size_t count = (size_t)s->count;
    int32_t *map = desk_take((size_t)s->key->records * sizeof *map);
    out->key.record = desk_take(count * sizeof *out->key.record);
    out->key.bits = desk_take(count);
    out->layouts = desk_take(count * sizeof *out->layouts);
    if (!map || !out->key.record || !out->key.bits || !out->layouts)
        return false;
    for (int32_t at = 0; at < s->count; at++) {
        const int32_t i = s->order[at];
        record_key *key = &out->key.record[at];
        *key = s->key->record[i];
        for (int k = 0; k < key->inputs; k++)
            if (key->in[k] >= 0)
                key->in[k] = map[key->in[k]];
        out->key.bits[at] = s->key->bits[i];
        out->layouts[at] = s->layouts[i];
        map[i] = at;
    }
    out->key.records = s->count;
    out->origin = s->order;
    return true;
}

bool put_off_numbers(rewritten *log, plan_report *report)
{
    const plan_key *key = &log->key;
    const size_t records = (size_t)key->records, before = desk_mark();
    int numbers = 0;
    for (int32_t i = 0; rewrites_done & REWRITE_numbers && i < key->records; i++)
        numbers += key->bits[i] & RECORD_NEEDED && makes_number(key, log->layouts, i);
    if (numbers < FEWEST)
        return true;
    sorter s = { .key = key,
                 .layouts = log->layouts,
                 .order = desk_take(records * sizeof *s.order),
                 .put_off = desk_take(records * sizeof *s.put_off),
                 .waits = desk_take_zero(records * sizeof *s.waits) };
    if (!s.order || !s.put_off || !s.waits)
        return false;
    for (int32_t i = 0; i < key->records; i++)
        if (key->bits[i] & RECORD_NEEDED)
            visit(&s, i);
    settle(&s);
    if (s.passed < FEWEST) {
        desk_release(before);
        return true;
    }
    rewritten sorted = *log;
    if (!write_in_order(&s, &sorted))
        return false;
    for (int32_t at = 0; at < s.count; at++)
        if (makes_number(&sorted.key, sorted.layouts, at))
            report_fact(report, FACT_PUT_OFF, s.order[at], op_get(sorted.key.record[at].op)->name);
    *log = sorted;
    return true;
}
