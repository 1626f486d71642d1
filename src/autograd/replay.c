/* replay.c: backward passes that were recorded before.
 *
 * What the rules of a pass record follows from the form of its tape: the ops, sizes and attributes of the places, how
 * they hang together, which of their values are the same, are constants, are there already. A program that trains walks
 * tapes of the same form again and again. The second time, what the rules record is remembered; from the third time on
 * it is appended as it stands, with this tape's values for that one's.
 *
 * Invariant: tapes with the same key record the same. All that a rule can look at is in the key; a rule that looks at
 * data, or records something whose making is not understood here, spoils the learning. Places with hooks and functions
 * run code of the user: tapes that have some are never learnt. What leaves do with their gradients is remembered where
 * they have none yet, and nobody looks on.
 * BRISK_CHECK_PLAN=1 learns anew instead of replaying, and compares. */
#include "autograd/replay.h"

#include <string.h>

#include "autograd/function.h"
#include "autograd/periods.h"
#include "autograd/tape_keys.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/append.h"
#include "graph/excerpt.h"
#include "graph/plan.h"
#include "graph/rewrites.h"
#include "ops/elementwise.h"

/* --- what is remembered ----------------------------------------------------------------------------------------------
 */

/* Values that no record makes, from others that are there. */
typedef enum making {
    MADE_AT_ONCE,  /* one element, computed */
    MADE_ELEMENT,  /* one element, whose bits attr has */
    MADE_VIEW,     /* of memory: op and attr as a view's record would have them */
    MADE_CONSTANT, /* its bits are in attr */
} making;

typedef struct recipe {
    uint16_t op;
    uint8_t dtype, inputs;
    int32_t making;
    const layout *layout;
    int32_t in[MAX_INPUTS]; /* numbers of values: those that are made follow those of the tape */
    int32_t unused;         /* memos are compared as bytes: no padding */
    attr attr;
} recipe;

/* The gradient of a leaf, as a part of a value. */
typedef struct leaf_gradient {
    int32_t step;
    int32_t value;  /* -1: it has none, or one that a record makes */
    int32_t record; /* the record's place among those that are named; -1: none */
    int32_t unused;
    const layout *layout;
    int64_t offset;
} leaf_gradient;

/* A leaf must not have been written since the earliest place that reads it was recorded. */
typedef struct leaf_watch {
    int32_t leaf, reader;
} leaf_watch;

typedef struct memo {
    uint64_t hash;
    size_t bytes;
    int keys, recipes, leaves, named, watches;
    tape_key *key;
    recipe *recipe;
    excerpt records;
    leaf_gradient *leaf;
    int32_t *name; /* the records that leaves take, in their order */
    leaf_watch *watch;
} memo;

enum { MEMOS = 256, SEEN = 1024 };
static const size_t MAX_BYTES = (size_t)64 << 20, MAX_MEMO = (size_t)32 << 20;
static struct {
    memo *table[MEMOS];
    uint64_t seen[SEEN]; /* hashes of tapes that were walked once */
    replay_counts counts;
    memo *latest;     /* that was used last, or NULL: a program mostly repeats its last pass */
    const memo *used; /* by the pass under way */
    bool outdated;    /* to be cleared after it */
} memory;

static memo **slot_of(uint64_t hash) { return &memory.table[hash % MEMOS]; }

static void forget(memo **slot)
{
    if (!*slot)
        return;
    memory.counts.bytes -= (int64_t)(*slot)->bytes;
    memory.counts.passes--;
    if (*slot == memory.latest)
        memory.latest = NULL;
    mem_free(*slot);
    *slot = NULL;
}

void replay_clear(void)
{
    memory.outdated = memory.used != NULL;
    if (memory.used)
        return;
    for (int i = 0; i < MEMOS; i++)
        forget(&memory.table[i]);
    memset(memory.seen, 0, sizeof memory.seen);
}

replay_counts replay_count(void) { return memory.counts; }

void replay_keep_layouts(void)
{
    for (int i = 0; memory.used && i < memory.used->leaves; i++)
        if (memory.used->leaf[i].layout)
            layout_keep(memory.used->leaf[i].layout);
}

static bool has_key(const memo *m)
{
    return m && m->keys == tape.count && !memcmp(m->key, tape.keys, (size_t)m->keys * sizeof *m->key);
}

/* NULL: nothing is remembered, and the keys have their hash. */
static memo *find(void)
{
    if (has_key(memory.latest))
        return memory.latest;
    tape.hash = tape_hash(tape.keys, tape.count);
    memo *m = *slot_of(tape.hash);
    if (!m || m->hash != tape.hash || !has_key(m))
        return NULL;
    return memory.latest = m;
}

/* Whether each leaf that the rules read is what it was when it was read. */
static bool leaves_stand(const pass *p, const memo *m)
{
    for (int i = 0; i < m->watches; i++) {
        const track *leaf = p->steps[m->watch[i].leaf].node->extra;
        if (leaf->cell && leaf->cell->moved > p->steps[m->watch[i].reader].node->sequence)
            return false;
    }
    return true;
}

/* --- learning --------------------------------------------------------------------------------------------------------
 */

/* What was made but is in no log, in the order of its making. */
typedef struct made {
    node *node;
    int op, inputs;
    node *in[MAX_INPUTS];
} made;

static struct {
    made *made;
    int count, capacity;
    int first; /* the log's count when the rules began, and its hash */
    uint64_t before;
    uint32_t epoch;
    bool spoiled, starved; /* starved: memory was out */
    memo *known;           /* what it is to be compared with */
    int watched;           /* what was made before somebody began to watch */
    bool watching_alone;   /* nothing is learnt meanwhile */
} learning;
bool replay_learning;

void replay_spoil(void) { learning.spoiled = true; }

void replay_saw(node *n, int op, int inputs, node *const *in)
{
    if (learning.count == learning.capacity) {
        int capacity = learning.capacity * 2 + 16;
        made *grown = mem_try((size_t)capacity * sizeof *grown);
        if (!grown) {
            learning.spoiled = learning.starved = true;
            return;
        }
        if (learning.count)
            memcpy(grown, learning.made, (size_t)learning.count * sizeof *grown);
        mem_free(learning.made);
        learning.made = grown;
        learning.capacity = capacity;
    }
    made *m = &learning.made[learning.count++];
    *m = (made){ .node = node_retain(n), .op = op, .inputs = inputs };
    for (int k = 0; k < inputs; k++)
        m->in[k] = node_retain(in[k]);
}

static void learn_begin(memo *known)
{
    learning.first = the_log.count;
    learning.before = the_log.hash;
    learning.epoch = the_log.epoch;
    learning.spoiled = learning.starved = false;
    learning.known = known;
    replay_learning = true;
}

static void learn_end(void)
{
    replay_learning = false;
    for (int i = 0; i < learning.count; i++) {
        for (int k = 0; k < learning.made[i].inputs; k++)
            node_release(learning.made[i].in[k]);
        node_release(learning.made[i].node);
    }
    learning.count = 0;
    mem_free(learning.made);
    learning.made = NULL;
    learning.capacity = 0;
}

void replay_watch(void)
{
    learning.watching_alone = !replay_learning;
    if (learning.watching_alone)
        learn_begin(NULL);
    learning.watched = learning.count;
}

bool replay_unwatch(void)
{
    const bool none = learning.count == learning.watched && !learning.spoiled;
    if (learning.watching_alone)
        learn_end();
    return none;
}

/* The number of a value that stands before the records; a constant that is met gets a recipe. -1: its making is
 * unknown. */
static int number_outside(memo *m, node *n)
{
    int number = tape_number(n);
    if (number >= 0 || !(n->flags & NODE_CONSTANT))
        return number;
    m->recipe[m->recipes++] =
        (recipe){ .dtype = n->dtype, .making = MADE_CONSTANT, .layout = n->layout, .attr.i[0] = n->attr.i[0] };
    return tape_add(n);
}

static bool learn_made(memo *m, const made *made)
{
    node *n = made->node;
    recipe r = { .op = (uint16_t)made->op, .dtype = n->dtype, .inputs = (uint8_t)made->inputs, .layout = n->layout };
    if (made->op == OP_data) {
        r.making = MADE_ELEMENT;
        memcpy(&r.attr, n->data, dtype_size((bk_dtype)n->dtype));
    } else if (op_get(made->op)->kind == KIND_VIEW) {
        int64_t bytes = n->data - made->in[0]->data;
        r.making = MADE_VIEW;
        r.attr.region.offset = bytes / (int64_t)dtype_size((bk_dtype)n->dtype);
    } else {
        r.making = MADE_AT_ONCE;
    }
    for (int k = 0; k < made->inputs; k++)
        if ((r.in[k] = number_outside(m, made->in[k])) < 0)
            return false;
    m->recipe[m->recipes++] = r;
    tape_add(n);
    return !(n->flags & NODE_TAPED);
}

static bool is_inside(const node *n) { return n->flags & NODE_PENDING && n->slot >= learning.first; }

/* What a record of the pass reads that was there before it; NULL: it is none, or has no node. */
static node *read_outside(const record_key *key, int k)
{
    return key->in[k] < learning.first ? record_input(&the_log, key->in[k]) : NULL;
}

/* Records of periods that followed from others have no nodes. */
static bool learn_record(memo *m, int i)
{
    const node *n = the_log.nodes[learning.first + i];
    const record_key *key = &the_log.keys[learning.first + i];
    excerpt *e = &m->records;
    if (n && (n->flags & NODE_TAPED || n->extra))
        return false;
    for (int k = 0; k < key->inputs; k++) {
        if (key->in[k] >= learning.first)
            continue;
        node *in = read_outside(key, k);
        int value = in ? number_outside(m, in) : -1;
        if (value < 0)
            return false;
        e->input[e->inputs++] = (excerpt_input){ i, k, value };
    }
    e->layouts[i] = n ? n->layout : the_log.layouts[learning.first + i];
    e->bytes += record_bytes(key->op, (bk_dtype)key->dtype, e->layouts[i], &key->attr);
    return true;
}

static bool learn_records(memo *m)
{
    excerpt *e = &m->records;
    for (int i = 0; i < learning.count; i++)
        if (!learn_made(m, &learning.made[i]))
            return false;
    for (int i = 0; i < e->records; i++)
        if (!learn_record(m, i))
            return false;
    memcpy(e->keys, the_log.keys + learning.first, (size_t)e->records * sizeof *e->keys);
    e->first = learning.first;
    e->before = learning.before;
    e->after = the_log.hash;
    return true;
}

/* The place of a record among those that are named, which are kept in order. */
static int name(memo *m, int record)
{
    int at = m->named;
    while (at > 0 && m->name[at - 1] > record)
        at--;
    if (at > 0 && m->name[at - 1] == record)
        return record;
    memmove(m->name + at + 1, m->name + at, (size_t)(m->named - at) * sizeof *m->name);
    m->name[at] = record;
    m->named++;
    return record;
}

static int place_of(const memo *m, int record)
{
    int at = 0;
    while (m->name[at] != record)
        at++;
    return at;
}

static bool learn_leaves(const pass *p, memo *m)
{
    for (int i = pass_first_leaf(p); i < p->count; i++) {
        const bk_tensor *g = p->steps[i].grad;
        leaf_gradient l = { .step = i, .value = -1, .record = -1 };
        if (g) {
            node *n = g->cell->value;
            l.layout = g->layout;
            l.offset = g->offset;
            if (is_inside(n))
                l.record = name(m, n->slot - learning.first);
            else if ((l.value = number_outside(m, n)) < 0)
                return false;
        }
        m->leaf[m->leaves++] = l;
    }
    for (int i = 0; i < m->leaves; i++)
        if (m->leaf[i].record >= 0)
            m->leaf[i].record = place_of(m, m->leaf[i].record);
    return true;
}

static void watch(memo *m, int leaf, int reader)
{
    int i = 0;
    while (i < m->watches && m->watch[i].leaf != leaf)
        i++;
    m->watch[i] = (leaf_watch){ leaf, reader }; /* later steps are earlier places */
    m->watches += i == m->watches;
}

static void learn_watches(const pass *p, memo *m)
{
    for (int i = 0; i < pass_first_leaf(p); i++) {
        const node *n = p->steps[i].node;
        uint8_t needs = place_values_read(n);
        for (int k = 0; k < n->inputs; k++) {
            const node *leaf = needs & 1 << k && n->edge[k] ? place_leaf_under(n->edge[k]) : NULL;
            if (step_of(p, leaf))
                watch(m, leaf->visit, i);
        }
    }
}

/* The parts of a memo lie one behind the other, behind it. */
static void *part(memo *m, size_t *at, size_t bytes)
{
    void *p = (char *)m + *at;
    *at += (bytes + 15) & ~(size_t)15;
    return p;
}

static size_t lay_out(memo *m, int records, int inputs, int recipes, int leaves)
{
    size_t at = (sizeof *m + 15) & ~(size_t)15, n = (size_t)leaves;
    m->key = part(m, &at, (size_t)tape.count * sizeof *m->key);
    m->recipe = part(m, &at, (size_t)recipes * sizeof *m->recipe);
    m->records.keys = part(m, &at, (size_t)records * sizeof *m->records.keys);
    m->records.layouts = part(m, &at, (size_t)records * sizeof *m->records.layouts);
    m->records.input = part(m, &at, (size_t)inputs * sizeof *m->records.input);
    m->leaf = part(m, &at, n * sizeof *m->leaf);
    m->name = part(m, &at, n * sizeof *m->name);
    m->watch = part(m, &at, n * sizeof *m->watch);
    return at;
}

/* What a memo of this pass has room for, at most. */
static memo *memo_new(const pass *p)
{
    int records = the_log.count - learning.first, inputs = 0, leaves = p->count - pass_first_leaf(p);
    int recipes = learning.count * (1 + MAX_INPUTS) + leaves;
    for (const record_key *key = the_log.keys + learning.first; key < the_log.keys + the_log.count; key++)
        for (int k = 0; k < key->inputs; k++) {
            const node *in = read_outside(key, k);
            inputs += key->in[k] < learning.first;
            recipes += in && in->flags & NODE_CONSTANT;
        }
    memo probe, *m;
    size_t bytes = lay_out(&probe, records, inputs, recipes, leaves);
    if (bytes > MAX_MEMO || !tape_reserve(tape.count + recipes) || !(m = mem_try(bytes)))
        return NULL;
    *m = (memo){ .hash = tape.hash, .bytes = bytes, .keys = tape.count, .records.records = records };
    lay_out(m, records, inputs, recipes, leaves);
    memcpy(m->key, tape.keys, (size_t)tape.count * sizeof *m->key);
    return m;
}

/* NULL: this pass cannot be replayed. */
static memo *learn(const pass *p)
{
    if (learning.spoiled || the_log.epoch != learning.epoch || the_log.progress.plan)
        return NULL;
    memo *m = memo_new(p);
    learning.starved |= !m;
    if (m && learn_records(m) && learn_leaves(p, m)) {
        learn_watches(p, m);
        return m;
    }
    mem_free(m);
    return NULL;
}

static void keep(memo *m)
{
    memo **slot = slot_of(m->hash);
    forget(slot);
    if (memory.counts.bytes + (int64_t)m->bytes > (int64_t)MAX_BYTES)
        replay_clear();
    memory.counts.bytes += (int64_t)m->bytes;
    memory.counts.passes++;
    memory.counts.learnt++;
    *slot = m;
}

/* Both records in slots of their own excerpt; what comes from outside is compared by the numbers of values. */
static bool same_record(const excerpt *a, const excerpt *b, int i)
{
    record_key x = a->keys[i], y = b->keys[i];
    for (int k = 0; k < MAX_INPUTS; k++) {
        x.in[k] = k < x.inputs && x.in[k] >= a->first ? x.in[k] - a->first : -1;
        y.in[k] = k < y.inputs && y.in[k] >= b->first ? y.in[k] - b->first : -1;
    }
    return !memcmp(&x, &y, sizeof x) && a->layouts[i] == b->layouts[i];
}

static bool same_records(const excerpt *a, const excerpt *b)
{
    bool same = a->records == b->records && a->inputs == b->inputs &&
                !memcmp(a->input, b->input, (size_t)a->inputs * sizeof *a->input);
    for (int i = 0; same && i < a->records; i++)
        same = same_record(a, b, i);
    return same;
}

static int compare(const memo *m, const memo *known)
{
    bool same = m && m->recipes == known->recipes && m->leaves == known->leaves &&
                !memcmp(m->recipe, known->recipe, (size_t)m->recipes * sizeof *m->recipe) &&
                !memcmp(m->leaf, known->leaf, (size_t)m->leaves * sizeof *m->leaf) &&
                same_records(&m->records, &known->records);
    return same ? 0
                : error_int(BK_RUNTIME_ERROR, "brisk: a backward pass differs from one of the same form (this is a "
                                              "bug in brisk)");
}

/* The gradients that leaves will take, as they take them. */
static bool shape_gradients(pass *p)
{
    for (int i = pass_first_leaf(p); i < p->count; i++) {
        step *s = &p->steps[i];
        if (!s->grad || !step_takes(p, s))
            continue;
        bk_tensor *g = track_gradient(s->node->extra, s->grad);
        if (!g)
            return false;
        bk_release(s->grad);
        s->grad = g;
    }
    return true;
}

int replay_learnt(pass *p, bool good)
{
    bool shaped = good && shape_gradients(p);
    memo *m = shaped ? learn(p) : NULL;
    int status = shaped && learning.known && !learning.starved ? compare(m, learning.known) : 0;
    learn_end();
    if (m && !learning.known)
        keep(m);
    else
        mem_free(m);
    lock_give();
    return good && !shaped ? -1 : status;
}

/* --- replaying -------------------------------------------------------------------------------------------------------
 */

static memo *chosen;

replay_way replay_look(pass *p)
{
    const backward_call *c = p->call;
    if (!(rewrites_done & REWRITE_replay) || c->create_graph || anomaly_check || p->around || forwards_under_way ||
        log_eager() || inference_enabled() || !tape_describe(p))
        return REPLAY_NONE;
    chosen = find();
    if (chosen && leaves_stand(p, chosen)) {
        if (log_look() < 0 || !log_has_room(chosen->records.records, chosen->records.bytes) ||
            !tape_reserve(tape.count + chosen->recipes + chosen->named))
            return REPLAY_NONE;
        lock_take();
        if (!flush_checks())
            return REPLAY_KNOWN;
        learn_begin(chosen);
        return REPLAY_LEARN;
    }
    if (chosen) /* but a leaf was written */
        return REPLAY_NONE;
    uint64_t *seen = &memory.seen[tape.hash % SEEN];
    const bool again = *seen == tape.hash;
    const bool repeats = rewrites_done & REWRITE_repeats && log_look() == 0 && periods_find(p);
    *seen = tape.hash;
    if (!again && !repeats)
        return REPLAY_NONE;
    lock_take();
    if (again)
        learn_begin(NULL);
    return !again ? REPLAY_PERIODS : repeats ? REPLAY_LEARN_BY_PERIODS : REPLAY_LEARN;
}

/* Owned. */
static node *make(const recipe *r)
{
    node *in[MAX_INPUTS], *n;
    for (int k = 0; k < r->inputs; k++)
        in[k] = tape.nodes[r->in[k]];
    switch ((making)r->making) {
    case MADE_AT_ONCE: return elementwise_now(r->op, (bk_dtype)r->dtype, in, r->layout);
    case MADE_VIEW:
        return r->op == OP_view ? node_view(in[0], NULL, r->layout, r->attr.region.offset)
                                : node_expand(in[0], NULL, r->layout);
    case MADE_CONSTANT: return node_constant_bits((bk_dtype)r->dtype, (uint64_t)r->attr.i[0]);
    case MADE_ELEMENT:
        n = node_blank(OP_data, (bk_dtype)r->dtype, r->layout);
        if (n) {
            n->data = (char *)&n->attr;
            n->attr = r->attr;
        }
        return n;
    }
    return NULL;
}

static bool own(node *n)
{
    if (n)
        tape.nodes[tape.count++] = n;
    return n != NULL;
}

/* Makes what no record makes, appends the records, names those that leaves take: owned, in this order. */
static bool record_again(const memo *m)
{
    bool good = true;
    for (int i = 0; good && i < m->recipes; i++)
        good = own(make(&m->recipe[i]));
    int first = the_log.count;
    good = good && excerpt_append(&m->records, tape.nodes);
    for (int i = 0; good && i < m->named; i++)
        good = own(log_name(first + m->name[i]));
    return good;
}

static bool give_leaf(pass *p, const leaf_gradient *l, node *const *named)
{
    if (l->value < 0 && l->record < 0)
        return true;
    step *s = &p->steps[l->step];
    node *n = l->record < 0 ? tape.nodes[l->value] : named[l->record];
    if (step_takes(p, s)) {
        track *k = s->node->extra;
        s->wanted = false; /* nothing is left to be done there */
        k->grad = tensor_own_at(n, NULL);
        return k->grad != NULL;
    }
    bk_tensor *g = tensor_at(n, NULL);
    if (g && (g->layout != l->layout || l->offset))
        g = tensor_alias(g, l->layout, l->offset, false);
    s->grad = bk_retain(g);
    return g != NULL;
}

int replay_run(pass *p)
{
    const memo *m = memory.used = chosen;
    const int known = tape.count;
    bool good = record_again(m);
    for (int i = 0; good && i < m->leaves; i++)
        good = give_leaf(p, &m->leaf[i], tape.nodes + known + m->recipes);
    for (int i = known; i < tape.count; i++)
        node_release(tape.nodes[i]);
    if (good && log_due())
        good = log_flush() == 0;
    memory.used = NULL;
    memory.counts.replayed += good;
    if (memory.outdated)
        replay_clear();
    lock_give();
    return good ? 0 : -1;
}
