/* periods.c: tapes that repeat themselves.
 *
 * The tape of a loop is one step of it over and over. What the rules of a period record differs from what those of the
 * period before recorded in what is read, and where in a sequence: both go on as they went. So the rules run for four
 * periods; if the last three have recorded alike, what the others would record is appended without nodes, as a pass
 * that is replayed is (graph/excerpt.h). It is the same log, record by record. Where anything is not understood, the
 * rules run.
 *
 * Invariant: a step of a stretch is to the one a period before it what that one is to the one two periods before, in
 * its key, in the keys of what it reads, and in the gradient that it has before the stretch begins. Then nothing that a
 * rule can look at tells one period from the next, and gradients are in the same state after each, a period further on.
 * BRISK_CHECK_PLAN=1 runs all rules, and compares. */
#include "autograd/periods.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/function.h"
#include "autograd/replay.h"
#include "autograd/tape_keys.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "graph/append.h"
#include "graph/excerpt.h"

enum {
    STRETCHES = 16,
    FEWEST = 32,    /* steps that are looked at for a stretch */
    LONGEST = 1024, /* steps of a period */
    OBSERVED = 4,   /* periods whose rules run; the last three are compared */
    WORTHWHILE = 4, /* periods that follow from them */
    TRIES = 3,
};

/* Steps of the tape. */
typedef struct stretch {
    int first, end, length;
} stretch;

static struct {
    stretch list[STRETCHES];
    int count;
    int places; /* numbers of values from here on are no places */
    int begun;  /* records of the log before the pass */
} found;

static int64_t followed;

int64_t periods_followed(void) { return followed; }

/* --- finding stretches ---------------------------------------------------------------------------------------------
 */

static bool is_region(int op) { return op == OP_view || op == OP_update; }

/* Whether attributes differ, from one to the next, by as much in the offset of a region, and in nothing else. */
static inline bool attributes_go_on(int op, const attr *a, const attr *b, const attr *c)
{
    if (!is_region(op))
        return !memcmp(a, b, sizeof *a) && !memcmp(b, c, sizeof *b);
    return a->region.layout == b->region.layout && b->region.layout == c->region.layout &&
           a->region.add == b->region.add && b->region.add == c->region.add && a->region.tape == b->region.tape &&
           b->region.tape == c->region.tape &&
           c->region.offset - b->region.offset == b->region.offset - a->region.offset;
}

static inline bool same_head(const tape_key *a, const tape_key *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x); /* op, dtype, state, layout */
    memcpy(&y, b, sizeof y);
    return x == y;
}

/* Which words of keys may differ, if by as much from one to the next: numbers, and the offset of a region. */
enum { KEY_WORDS = sizeof(tape_key) / sizeof(uint32_t), NUMBERS = offsetof(tape_key, in) / sizeof(uint32_t) };
#define EQUAL UINT32_MAX
static const uint32_t equal_words[2][KEY_WORDS] = {
    { EQUAL, EQUAL, 0, 0, 0, 0, 0, 0, EQUAL, EQUAL, EQUAL, EQUAL, EQUAL, EQUAL, EQUAL, EQUAL },
    { EQUAL, EQUAL, 0, 0, 0, 0, 0, 0, EQUAL, EQUAL, 0, 0, EQUAL, EQUAL, EQUAL, EQUAL },
};
#undef EQUAL
_Static_assert(sizeof(tape_key) == 64 && offsetof(tape_key, attr) == 32 && offsetof(attr, region.offset) == 8 &&
                   NUMBERS == 2,
               "the words of keys");

typedef uint32_t key_word __attribute__((may_alias));

static inline bool key_goes_on(const tape_key *a, const tape_key *b, const tape_key *c)
{
    const key_word *x = (const key_word *)a, *y = (const key_word *)b, *z = (const key_word *)c;
    const uint32_t *equal = equal_words[is_region(c->op)];
    uint32_t other = 0;
    for (int i = 0; i < KEY_WORDS; i++)
        other |= ((z[i] - y[i]) ^ (y[i] - x[i])) | ((z[i] - y[i]) & equal[i]);
    return !other;
}

/* Of what three steps read or lead to: whether it is alike in itself. */
static __attribute__((noinline)) bool are_alike(int a, int b, int c)
{
    const tape_key *keys = tape.keys;
    return key_goes_on(&keys[a], &keys[b], &keys[c]) && (c < found.places || keys[b].in[0] == keys[c].in[0]);
}

/* Numbers that differ by as much as those before them: the same, what stands a period further on, or else alike. */
static inline bool number_goes_on(int b, int c, int length)
{
    return b == c || (c - b == length && c < found.places) || are_alike(b - (c - b), b, c);
}

/* Whether step i goes on as the two a period and two periods before it. */
static bool step_goes_on(int i, int length)
{
    const tape_key *c = &tape.keys[i], *b = c - length, *a = b - length;
    if (!key_goes_on(a, b, c))
        return false;
    for (int k = 0; k < MAX_INPUTS; k++)
        if (!number_goes_on(b->in[k], c->in[k], length) || !number_goes_on(b->edge[k], c->edge[k], length))
            return false;
    return true;
}

/* The length of a period of which there are three from step i on; 0: there are none before `end`. */
static int period_at(int i, int end)
{
    const tape_key *keys = tape.keys;
    int looks = 4 * (end - i); /* steps that are compared: few, so that finding stays linear */
    for (int length = 1; length <= LONGEST && i + 3 * length <= end && looks > 0; length++) {
        if (!same_head(&keys[i], &keys[i + length]))
            continue;
        int alike = 0;
        while (alike < length && step_goes_on(i + 2 * length + alike, length))
            alike++;
        looks -= alike;
        if (alike == length)
            return length;
    }
    return 0;
}

/* The stretch around one of three places between the two. */
static bool stretch_within(int begin, int end, stretch *s)
{
    for (int quarter = 2, tries = 0; tries < 3; quarter = tries++ ? 3 : 1) {
        const int middle = begin + (int)((int64_t)(end - begin) * quarter / 4), length = period_at(middle, end);
        if (!length)
            continue;
        *s = (stretch){ middle, middle + 3 * length, length };
        while (s->first > begin && step_goes_on(s->first - 1 + 2 * length, length))
            s->first--;
        while (s->end < end && step_goes_on(s->end, length))
            s->end++;
        s->end -= (s->end - s->first) % length;
        if ((s->end - s->first) / length >= OBSERVED + WORTHWHILE + 1)
            return true;
    }
    return false;
}

static void find_between(int begin, int end)
{
    stretch s;
    if (end - begin < FEWEST || found.count == STRETCHES || !stretch_within(begin, end, &s))
        return;
    find_between(begin, s.first); /* at most STRETCHES deep */
    if (found.count < STRETCHES)
        found.list[found.count++] = s;
    find_between(s.end, end);
}

bool periods_find(const pass *p)
{
    found.count = 0;
    found.places = p->count;
    found.begun = the_log.count;
    find_between(0, pass_first_leaf(p));
    return found.count > 0;
}

/* --- gradients as they stand ---------------------------------------------------------------------------------------
 */

/* The gradient that a step has so far. */
typedef struct state {
    const node *value; /* NULL: none */
    const layout *layout;
    int64_t offset;
    int32_t slot; /* -1: it is no record */
    bool own;
} state;

static inline state state_of(const pass *p, int i)
{
    const step *s = &p->steps[i];
    if (!s->grad)
        return (state){ .slot = -1 };
    const node *n = s->grad->cell->value;
    return (state){ n, s->grad->layout, s->grad->offset, n->flags & NODE_PENDING ? n->slot : -1, s->own };
}

static bool state_goes_on(const state *a, const state *b, const state *c)
{
    if (!a->value && !b->value && !c->value)
        return true;
    if (!a->value || !b->value || !c->value || a->layout != b->layout || b->layout != c->layout ||
        c->offset - b->offset != b->offset - a->offset || a->own != b->own || b->own != c->own)
        return false;
    if (a->slot < 0 || b->slot < 0 || c->slot < 0)
        return a->value == b->value && b->value == c->value;
    return c->slot - b->slot == b->slot - a->slot && a->value->layout == b->value->layout &&
           b->value->layout == c->value->layout;
}

/* --- what is observed ----------------------------------------------------------------------------------------------
 */

/* An edge that leads to another place outside of the stretch in every period. */
typedef struct scattered {
    int32_t to, by; /* in the period after the first; from one to the next */
} scattered;

typedef enum moving { STAYS, MOVES, IS_GRADIENT, IS_VALUE } moving;

/* Input k of a record in the periods that follow. */
typedef struct reading {
    moving how;
    int32_t number, by; /* in the last period that was observed, of a record, leaf or value; from one to the next */
} reading;

typedef struct observation {
    const stretch *of;
    int periods;     /* that follow */
    int ahead;       /* how far moving edges and inputs lead */
    int fixed_count; /* edges that lead to the same place outside in every period */
    int scattered_count;
    int records;            /* of a period */
    int mark[OBSERVED + 1]; /* records of the log at the ends of periods */
    state *before;          /* of the steps of the last three, when the stretch began */
    state *window[3];       /* of the `ahead` steps after the last three, at their ends */
    state *fixed_state[3];  /* at those ends */
    int32_t *fixed;
    scattered *scattered;
    reading *readings;
    int64_t bytes;
} observation;

static int period_begin(const observation *o, int period) { return o->of->first + period * o->of->length; }

/* Where edges lead, as the second period has them. */
static bool sort_edges(observation *o)
{
    const int length = o->of->length, second = period_begin(o, 1);
    o->ahead = o->fixed_count = o->scattered_count = 0;
    for (int i = second; i < second + length; i++) {
        const tape_key *b = &tape.keys[i], *c = b + length;
        for (int k = 0; k < 2 * MAX_INPUTS; k++) {
            const bool edge = k >= MAX_INPUTS;
            const int to = edge ? b->edge[k - MAX_INPUTS] : b->in[k], next = edge ? c->edge[k - MAX_INPUTS] : c->in[k];
            const int by = next - to;
            if (to < 0 || to >= found.places)
                continue;
            if (by == length) {
                o->ahead = to - i > o->ahead ? to - i : o->ahead;
                continue;
            }
            if (edge && !by)
                o->fixed[o->fixed_count++] = to;
            else if (edge)
                o->scattered[o->scattered_count++] = (scattered){ to, by };
            if (edge && to < o->of->end)
                return false;
        }
    }
    return o->ahead <= (OBSERVED - 1) * length;
}

/* Whether the places that scattered edges lead to have no gradients as yet, and lie behind the stretch. */
static bool scattered_are_free(const pass *p, const observation *o)
{
    const int last = OBSERVED + o->periods - 2; /* counted from the second */
    for (int i = 0; i < o->scattered_count; i++) {
        const scattered *s = &o->scattered[i];
        const int64_t end = s->to + (int64_t)s->by * last;
        if (end < o->of->end || end >= p->count)
            return false;
        for (int q = 0; q <= last; q++)
            if (p->steps[s->to + s->by * q].grad)
                return false;
    }
    return true;
}

/* Whether the gradients that steps have before the stretch begins go on, from the second period up to where it ends. */
static bool gradients_go_on(const pass *p, const observation *o)
{
    const int length = o->of->length, end = period_begin(o, OBSERVED + o->periods) + o->ahead;
    for (int i = period_begin(o, 3); i < end; i++) {
        if (!p->steps[i].grad && !p->steps[i - length].grad && !p->steps[i - 2 * length].grad)
            continue;
        const state a = state_of(p, i - 2 * length), b = state_of(p, i - length), c = state_of(p, i);
        if (!state_goes_on(&a, &b, &c))
            return false;
    }
    return true;
}

/* Whether no leaf that the rules of the periods to follow read was written since. */
static bool leaves_stand(const pass *p, const observation *o)
{
    for (int i = period_begin(o, OBSERVED); i < period_begin(o, OBSERVED + o->periods); i++) {
        const node *n = p->steps[i].node;
        const uint8_t needs = place_values_read(n);
        for (int k = 0; needs && k < n->inputs; k++) {
            const node *place = needs & 1 << k && n->edge[k] ? place_leaf_under(n->edge[k]) : NULL;
            const track *leaf = place ? place->extra : NULL;
            if (leaf && leaf->cell && leaf->cell->moved > n->sequence)
                return false;
        }
    }
    return true;
}

static void look_at_ends(const pass *p, observation *o, int period)
{
    const int at = period_begin(o, period), w = period - OBSERVED + 2;
    o->mark[period] = the_log.count;
    if (w < 0)
        return;
    for (int i = 0; i < o->ahead; i++)
        o->window[w][i] = state_of(p, at + i);
    for (int i = 0; i < o->fixed_count; i++)
        o->fixed_state[w][i] = state_of(p, o->fixed[i]);
}

static bool all_go_on(state *const s[3], int count)
{
    bool good = true;
    for (int i = 0; good && i < count; i++)
        good = state_goes_on(&s[0][i], &s[1][i], &s[2][i]);
    return good;
}

/* Whether what stands for `here` at a later step can be told: a record, or what is there already. */
static bool can_be_told(const pass *p, const state *here, int step)
{
    return !here->value || here->slot >= 0 || p->steps[step].grad;
}

static state scattered_state(const pass *p, const scattered *s, int period)
{
    return state_of(p, s->to + s->by * (period - 1));
}

static bool ends_go_on(const pass *p, const observation *o)
{
    for (int i = 0; i < o->scattered_count; i++) {
        state s[3];
        for (int q = 0; q < 3; q++)
            s[q] = scattered_state(p, &o->scattered[i], q + 1);
        if (!state_goes_on(&s[0], &s[1], &s[2]) || (s[2].value && s[2].slot < 0))
            return false;
    }
    for (int i = 0; i < o->ahead; i++)
        if (!can_be_told(p, &o->window[2][i], period_begin(o, OBSERVED + o->periods) + i))
            return false;
    return all_go_on(o->window, o->ahead) && all_go_on(o->fixed_state, o->fixed_count);
}

/* Whether these three records were the gradients of three steps a period apart, when the stretch began. */
static bool were_gradients(const observation *o, int a, int b, int c)
{
    const int length = o->of->length;
    for (int i = 0; i < length; i++)
        if (o->before[i].slot == a && o->before[length + i].slot == b && o->before[2 * length + i].slot == c)
            return true;
    return false;
}

/* Whether these three values are what three steps a period apart are, or read. */
static bool are_values(const observation *o, int a, int b, int c)
{
    const int length = o->of->length, second = period_begin(o, 1);
    for (int i = second; i < second + length; i++) {
        const tape_key *key = &tape.keys[i];
        if (i == a && i + length == b && i + 2 * length == c)
            return true;
        for (int k = 0; k < MAX_INPUTS; k++)
            if (key->in[k] == a && key[length].in[k] == b && key[2 * length].in[k] == c)
                return true;
    }
    return false;
}

/* How input k of a record goes on that three periods have. */
static bool read_alike(const observation *o, node *const n[3], const record_key *const key[3], int k, reading *r)
{
    const int a = key[0]->in[k], b = key[1]->in[k], c = key[2]->in[k];
    *r = (reading){ STAYS, c, 0 };
    if (a == b && b == c)
        return true;
    if (a >= o->mark[0] && b >= o->mark[0] && c >= o->mark[0]) {
        *r = (reading){ MOVES, c, o->records };
        return b - a == o->records && c - b == o->records;
    }
    if (a >= found.begun && b >= found.begun && c >= found.begun) {
        *r = (reading){ IS_GRADIENT, c, c - b };
        return c - b == b - a && were_gradients(o, a, b, c);
    }
    const int x = tape_number(n[0]->in[k]), y = tape_number(n[1]->in[k]), z = tape_number(n[2]->in[k]);
    *r = (reading){ IS_VALUE, z, z - y };
    return x >= 0 && y >= 0 && z >= 0 && z - y == y - x && are_values(o, x, y, z);
}

static bool record_goes_on(observation *o, int i)
{
    node *n[3];
    const record_key *key[3];
    for (int q = 0; q < 3; q++) {
        n[q] = the_log.nodes[o->mark[q + 1] + i];
        key[q] = &the_log.keys[o->mark[q + 1] + i];
        if (!n[q] || n[q]->flags & NODE_TAPED || n[q]->extra)
            return false;
    }
    for (int q = 0; q < 2; q++)
        if (key[q]->op != key[2]->op || key[q]->dtype != key[2]->dtype || key[q]->inputs != key[2]->inputs ||
            key[q]->layout != key[2]->layout)
            return false;
    if (!attributes_go_on(key[2]->op, &key[0]->attr, &key[1]->attr, &key[2]->attr))
        return false;
    for (int k = 0; k < key[2]->inputs; k++)
        if (!read_alike(o, n, key, k, &o->readings[i * MAX_INPUTS + k]))
            return false;
    o->bytes += new_bytes(n[2]);
    return true;
}

static bool records_go_on(observation *o)
{
    o->records = o->mark[OBSERVED] - o->mark[OBSERVED - 1];
    for (int q = 1; q < OBSERVED - 1; q++)
        if (o->mark[q + 1] - o->mark[q] != o->records)
            return false;
    o->readings = mem_try((size_t)o->records * MAX_INPUTS * sizeof *o->readings);
    for (int i = 0; o->readings && i < o->records; i++)
        if (!record_goes_on(o, i))
            return false;
    return o->readings && log_has_room(o->records * o->periods, o->bytes * o->periods);
}

/* --- what follows --------------------------------------------------------------------------------------------------
 */

/* One that reads it more, so many times. */
static inline void hold(op_log *log, int32_t number, int times)
{
    node *n = record_input(log, number);
    if (number >= 0)
        log->keys[number].readers += times;
    else
        n->uses += times;
    if (n)
        n->refs += times;
}

static int64_t region_moves(const observation *o, int i)
{
    const record_key *key = &the_log.keys[o->mark[OBSERVED - 1] + i], *before = key - o->records;
    return is_region(key->op) ? key->attr.region.offset - before->attr.region.offset : 0;
}

/* What is to be changed in a copy of the last period that was observed. */
typedef struct change {
    int32_t record, k; /* k < 0: the offset of its region */
    moving how;
    int64_t from, by;
} change;

static int find_changes(const op_log *log, const observation *o, change *list)
{
    int count = 0;
    for (int i = 0; i < o->records; i++) {
        const record_key *key = &log->keys[o->mark[OBSERVED - 1] + i];
        const int64_t by = region_moves(o, i);
        for (int k = 0; k < key->inputs; k++) {
            const reading *r = &o->readings[i * MAX_INPUTS + k];
            if (r->how != STAYS)
                list[count++] = (change){ i, k, r->how, r->number, r->by };
        }
        if (by)
            list[count++] = (change){ i, -1, STAYS, key->attr.region.offset, by };
    }
    return count;
}

/* What all periods read is held for all of them. */
static void hold_common(op_log *log, const observation *o)
{
    for (int i = 0; i < o->records; i++)
        for (int k = 0; k < log->keys[o->mark[OBSERVED - 1] + i].inputs; k++)
            if (o->readings[i * MAX_INPUTS + k].how == STAYS)
                hold(log, o->readings[i * MAX_INPUTS + k].number, o->periods);
}

/* Makes the changes in the records of a period, `further` ones after the last that was observed. */
static void change_records(op_log *log, record_key *keys, const change *list, int count, int further)
{
    for (const change *c = list; c < list + count; c++) {
        record_key *key = &keys[c->record];
        const int64_t number = c->from + c->by * further;
        if (c->k < 0) {
            key->attr.region.offset = number;
        } else if (c->how == IS_VALUE) {
            key->in[c->k] = input_number(log, node_retain(tape.nodes[number])); /* there is room for leaves */
        } else {
            key->in[c->k] = (int32_t)number;
            hold(log, (int32_t)number, 1);
        }
    }
}

static void append_period(op_log *log, const observation *o, const record_key *like, const change *list, int count,
                          int further)
{
    const int at = log->count, records = o->records, from = o->mark[OBSERVED];
    record_key *keys = log->keys + at;
    memcpy(keys, like, (size_t)records * sizeof *keys);
    memset(log->nodes + at, 0, (size_t)records * sizeof *log->nodes);
    if (at != from)
        memcpy(log->layouts + at, log->layouts + from, (size_t)records * sizeof *log->layouts);
    change_records(log, keys, list, count, further);
    uint64_t hash = log->hash;
    for (int i = 0; i < records; i++)
        hash = log_mix_record(hash, &keys[i]);
    log->hash = hash;
    log->count = at + records;
}

static int values_among(const change *list, int count)
{
    int values = 0;
    for (int i = 0; i < count; i++)
        values += list[i].how == IS_VALUE;
    return values;
}

/* Records what the rules of all periods that follow would. False: out of memory, the log is as it was. */
static bool append_periods(const observation *o)
{
    op_log *log = &the_log;
    const size_t records = (size_t)o->records;
    record_key *like = mem_alloc(records * sizeof *like + records * (MAX_INPUTS + 1) * sizeof(change));
    change *list = (change *)(like + records);
    const int count = like ? find_changes(log, o, list) : 0, last = o->mark[OBSERVED - 1];
    const bool good = like && log_reserve(log, o->records * o->periods) &&
                      log_reserve_leaves(log, values_among(list, count) * o->periods);
    if (good) {
        hold_common(log, o);
        memcpy(like, log->keys + last, records * sizeof *like);
        for (int i = 0; i < o->records; i++) {
            like[i].readers = 0;
            log->layouts[log->count + i] = log->nodes[last + i]->layout;
        }
        for (int further = 1; further <= o->periods; further++)
            append_period(log, o, like, list, count, further);
        log->bytes += o->bytes * o->periods;
    }
    mem_free(like);
    return good;
}

/* A gradient that a step is to have. */
typedef struct sending {
    int32_t step, slot;
    const layout *layout;
    int64_t offset;
    bool own;
} sending;

static int by_slot(const void *a, const void *b)
{
    const int32_t x = ((const sending *)a)->slot, y = ((const sending *)b)->slot;
    return x < y ? -1 : x > y;
}

/* What a step has, where that of the last period observed had `here` and that before it `before`. Values that are no
 * records stay, and so does what is there already. */
static int send_further(const pass *p, const state *before, const state *here, int step, int further, sending *to)
{
    if (here->slot < 0)
        return 0;
    const int32_t slot = here->slot + (here->slot - before->slot) * further;
    const int64_t offset = here->offset + (here->offset - before->offset) * further;
    const state now = state_of(p, step);
    if (now.value && now.slot == slot && now.offset == offset)
        return 0;
    *to = (sending){ step, slot, here->layout, offset, here->own };
    return 1;
}

static int set_gradient(pass *p, const sending *to, bk_tensor *whole)
{
    step *s = &p->steps[to->step];
    const bool part = whole->layout != to->layout || to->offset;
    bk_tensor *g = part ? tensor_alias(whole, to->layout, to->offset, false) : whole;
    if (!g)
        return -1;
    bk_release(s->grad);
    s->grad = bk_retain(g);
    s->own = to->own;
    return 0;
}

/* Records are named in their order: see log_name. */
static int set_all(pass *p, sending *list, int count)
{
    bk_tensor *whole = NULL;
    if (count > 1)
        qsort(list, (size_t)count, sizeof *list, by_slot);
    for (int i = 0; i < count; i++) {
        if (!i || list[i].slot != list[i - 1].slot || list[i].own) {
            node *n = log_name(list[i].slot);
            whole = n ? tensor_at(n, NULL) : NULL;
            if (n)
                node_release(n);
        }
        if (!whole || set_gradient(p, &list[i], whole) < 0)
            return -1;
    }
    return 0;
}

/* Gradients are as far on as the periods that followed. */
static int set_gradients(pass *p, const observation *o)
{
    const int room = o->ahead + o->fixed_count + o->scattered_count * o->periods;
    const int end = period_begin(o, OBSERVED + o->periods);
    sending *list = mem_alloc((size_t)room * sizeof *list);
    int count = 0, status = list ? 0 : -1;
    for (int i = 0; list && i < o->ahead; i++)
        count += send_further(p, &o->window[1][i], &o->window[2][i], end + i, o->periods, &list[count]);
    for (int i = 0; list && i < o->fixed_count; i++)
        count += send_further(p, &o->fixed_state[1][i], &o->fixed_state[2][i], o->fixed[i], o->periods, &list[count]);
    for (int i = 0; list && i < o->scattered_count; i++) {
        const scattered *s = &o->scattered[i];
        const state before = scattered_state(p, s, OBSERVED - 2), here = scattered_state(p, s, OBSERVED - 1);
        for (int q = 1; q <= o->periods; q++)
            count += send_further(p, &before, &here, s->to + s->by * (OBSERVED - 2 + q), q, &list[count]);
    }
    bk_scope_push();
    if (list)
        status = set_all(p, list, count);
    bk_scope_pop();
    mem_free(list);
    return status;
}

static int follow(pass *p, const observation *o)
{
    if (!append_periods(o))
        return -1;
    pass_skip(p, period_begin(o, OBSERVED), period_begin(o, OBSERVED + o->periods));
    followed += o->periods;
    if (set_gradients(p, o) < 0)
        return -1;
    return log_due() ? log_flush() : 0;
}

/* --- BRISK_CHECK_PLAN ----------------------------------------------------------------------------------------------
 */

static bool is_as_predicted(const observation *o, int i, int further)
{
    const record_key *from = &the_log.keys[o->mark[OBSERVED - 1] + i], *key = from + o->records * further;
    attr predicted = from->attr;
    if (region_moves(o, i))
        predicted.region.offset += region_moves(o, i) * further;
    bool good = key->op == from->op && key->dtype == from->dtype && key->inputs == from->inputs &&
                key->layout == from->layout && !memcmp(&key->attr, &predicted, sizeof predicted);
    for (int k = 0; good && k < key->inputs; k++) {
        const reading *r = &o->readings[i * MAX_INPUTS + k];
        const int32_t number = r->number + r->by * further;
        good = r->how == IS_VALUE ? record_input(&the_log, key->in[k]) == tape.nodes[number] : key->in[k] == number;
    }
    return good;
}

static int compare(pass *p, const observation *o)
{
    const uint32_t epoch = the_log.epoch;
    if (pass_run(p, period_begin(o, OBSERVED), period_begin(o, OBSERVED + o->periods)) < 0)
        return -1;
    bool good = the_log.epoch != epoch || the_log.count == o->mark[OBSERVED] + o->records * o->periods;
    for (int q = 1; good && the_log.epoch == epoch && q <= o->periods; q++)
        for (int i = 0; good && i < o->records; i++)
            good = is_as_predicted(o, i, q);
    return good ? 0
                : error_int(BK_RUNTIME_ERROR, "brisk: a backward pass does not repeat itself as its tape does (this is "
                                              "a bug in brisk)");
}

/* --- the stretch ---------------------------------------------------------------------------------------------------
 */

static bool observation_new(observation *o, const stretch *s)
{
    *o = (observation){ .of = s };
    const size_t edges = (size_t)s->length * MAX_INPUTS, window = (size_t)s->length * (OBSERVED - 1);
    char *memory = mem_try((3 * window + 3 * edges + window) * sizeof(state) + edges * sizeof(scattered) +
                           edges * sizeof(int32_t));
    if (!memory)
        return false;
    o->before = (state *)memory;
    for (int q = 0; q < 3; q++) {
        o->window[q] = o->before + window * (size_t)(q + 1);
        o->fixed_state[q] = o->before + window * 4 + edges * (size_t)q;
    }
    o->scattered = (scattered *)(o->before + window * 4 + edges * 3);
    o->fixed = (int32_t *)(o->scattered + edges);
    return true;
}

/* Before the stretch begins: whether its steps can follow from those that rules run for. */
static bool is_promising(const pass *p, observation *o)
{
    const stretch *s = o->of;
    if (!sort_edges(o))
        return false;
    o->periods = (s->end - o->ahead - s->first) / s->length - OBSERVED;
    for (int i = 0; i < 3 * s->length; i++)
        o->before[i] = state_of(p, period_begin(o, 1) + i);
    return o->periods >= WORTHWHILE && gradients_go_on(p, o) && scattered_are_free(p, o) && leaves_stand(p, o);
}

/* Runs the rules of the first periods. *good: the others follow from them. */
static int observe(pass *p, observation *o, bool *good)
{
    const uint32_t epoch = the_log.epoch;
    int status = 0;
    o->mark[0] = the_log.count;
    for (int q = 0; q < OBSERVED && status == 0; q++) {
        if (q == 1)
            replay_watch();
        status = pass_run(p, period_begin(o, q), period_begin(o, q + 1));
        if (status == 0)
            look_at_ends(p, o, q + 1);
        else if (q == 0)
            return -1;
    }
    *good = replay_unwatch() && status == 0 && the_log.epoch == epoch && !the_log.progress.plan && ends_go_on(p, o) &&
            records_go_on(o);
    return status;
}

/* 1: the periods have followed; 0: only some rules have run. The stretch begins behind those then. */
static int try_stretch(pass *p, observation *o, stretch *s)
{
    bool good = false;
    int status = observe(p, o, &good), at = period_begin(o, OBSERVED);
    if (status == 0 && good) {
        status = flush_checks() ? compare(p, o) : follow(p, o);
        at = period_begin(o, OBSERVED + o->periods);
    }
    s->first = at;
    mem_free(o->readings);
    o->readings = NULL;
    return status < 0 ? -1 : good;
}

/* What stands before the stretch reaches into its first periods, and what these record into the next: a period's rules
 * run before it is looked at, and more where it does not go on as yet. */
static int run_stretch(pass *p, const stretch *given)
{
    stretch s = *given;
    observation o;
    int done = 0;
    if (!observation_new(&o, &s))
        return pass_run(p, s.first, s.end);
    for (int tries = 0; tries < TRIES && done == 0; tries++) {
        done = pass_run(p, s.first, s.first + s.length);
        s.first += s.length;
        if (done == 0 && is_promising(p, &o))
            done = try_stretch(p, &o, &s);
    }
    mem_free(o.before);
    return done < 0 ? -1 : pass_run(p, s.first, s.end);
}

int periods_run(pass *p, int end)
{
    int status = 0, at = 0;
    for (int i = 0; status == 0 && i < found.count; i++) {
        status = pass_run(p, at, found.list[i].first);
        if (status == 0)
            status = run_stretch(p, &found.list[i]);
        at = found.list[i].end;
    }
    return status < 0 ? -1 : pass_run(p, at, end);
}
