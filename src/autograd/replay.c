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
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/append.h"
#include "graph/excerpt.h"
#include "graph/plan.h"
#include "graph/rewrites.h"
#include "ops/elementwise.h"

/* --- keys ----------------------------------------------------------------------------------------------------------
 */

enum { /* the state of a value or a place: flags of the node, and in other bits */
       SHOWN_FLAGS = NODE_PENDING | NODE_CONSTANT | NODE_FREED,
       HAS_DATA = 4,
       IS_WANTED = 16,
       LEADS = 32,
       IS_ASKED = 64,
       TAKES = 128,
};
_Static_assert(!(SHOWN_FLAGS & (HAS_DATA | IS_WANTED | LEADS | IS_ASKED | TAKES)), "the bits of a state are apart");

/* A place of the tape, or a value that one of them holds. Values are numbered: the places by their steps, the others
 * as they are met. */
typedef struct value_key {
    uint16_t op;
    uint8_t dtype;
    uint8_t state;
    uint32_t layout;
    int32_t in[MAX_INPUTS], edge[MAX_INPUTS]; /* numbers; -1: none */
    attr attr;
} value_key;

enum { ANY_OP = 0xffff, CALL = 0xfffe, MAX_STEPS = 1 << 17 };

/* The values of the pass that is looked at, by number. Grows with the longest tape and stays. Who gets no memory here
 * can do without. */
static struct {
    node **nodes;
    value_key *keys;
    int count, capacity;
    uint64_t hash;
} values;

static bool values_reserve(int count)
{
    if (count <= values.capacity)
        return true;
    int capacity = count + count / 2 + 64;
    node **nodes = mem_try((size_t)capacity * sizeof *nodes);
    value_key *keys = mem_try((size_t)capacity * sizeof *keys);
    if (!nodes || !keys) {
        mem_free(nodes);
        mem_free(keys);
        return false;
    }
    if (values.count) {
        memcpy(nodes, values.nodes, (size_t)values.count * sizeof *nodes);
        memcpy(keys, values.keys, (size_t)values.count * sizeof *keys);
    }
    mem_free(values.nodes);
    mem_free(values.keys);
    values.nodes = nodes;
    values.keys = keys;
    values.capacity = capacity;
    return true;
}

static int number_of(const node *n)
{
    bool known = n->visit >= 0 && n->visit < values.count && values.nodes[n->visit] == n;
    return known ? n->visit : -1;
}

static inline int add_value(node *n)
{
    n->visit = values.count;
    values.nodes[values.count] = n;
    return values.count++;
}

/* There is room: see values_reserve. */
static inline int value_of(node *n)
{
    int number = n ? number_of(n) : -1;
    return number >= 0 || !n ? number : add_value(n);
}

static inline uint8_t state_of(const node *n) { return (uint8_t)((n->flags & SHOWN_FLAGS) | (n->data ? HAS_DATA : 0)); }

/* Whether the gradient that comes to a step will be that of a leaf, as it stands. */
static inline bool takes(const pass *p, const step *s)
{
    if (s->node->op != OP_leaf || !s->wanted || p->call->results)
        return false;
    const track *k = s->node->extra;
    return !k->grad && !k->place && !k->hooks;
}

static inline void describe_step(const pass *p, const step *s, value_key *key)
{
    node *n = s->node;
    key->op = n->op;
    key->dtype = n->dtype;
    key->state = (uint8_t)(state_of(n) | (s->wanted ? IS_WANTED : 0) | (s->leads ? LEADS : 0) |
                           (s->asked ? IS_ASKED : 0) | (takes(p, s) ? TAKES : 0));
    key->layout = n->layout->id;
    for (int k = 0; k < MAX_INPUTS; k++) {
        key->in[k] = value_of(n->in[k]);
        key->edge[k] = n->edge[k] ? number_of(n->edge[k]) : -1;
    }
    key->attr = n->attr;
}

/* Of a value that is no place, rules see no more than its sizes, unless it is a view or a constant. */
static void describe_value(const node *n, value_key *key)
{
    bool view = n->flags & NODE_PENDING && op_get(n->op)->kind == KIND_VIEW;
    bool shown = view || n->flags & NODE_CONSTANT;
    *key = (value_key){ .op = shown ? n->op : ANY_OP,
                        .dtype = n->dtype,
                        .state = state_of(n),
                        .layout = n->layout->id,
                        .in = { view ? value_of(n->in[0]) : -1, -1, -1 },
                        .edge = { -1, -1, -1 } };
    if (shown)
        key->attr = n->attr;
}

/* Where the walk begins, and with which gradients. False: not in a way that is remembered. */
static bool describe_call(const pass *p, value_key *key)
{
    const backward_call *c = p->call;
    *key = (value_key){ .op = CALL, .in = { -1, -1, -1 }, .edge = { -1, -1, -1 } };
    if (c->output_count > MAX_INPUTS)
        return false;
    for (int i = 0; i < c->output_count; i++) {
        const bk_tensor *g = c->gradients ? c->gradients[i] : NULL;
        if (g && (!tensor_whole(g) || tensor_dtype(g) != p->outputs[i]->dtype))
            return false;
        key->in[i] = number_of(p->outputs[i]);
        key->edge[i] = g ? value_of(g->cell->value) : -1;
    }
    return true;
}

/* Keys are compared: a sample will do of a long tape, and of each key what tells most. */
static uint64_t hash_keys(const value_key *keys, int count)
{
    enum { SAMPLE = 64 };
    uint64_t what = 1, where = (uint64_t)count, words[2];
    for (int i = 0; i < count; i += 1 + count / SAMPLE) {
        memcpy(words, &keys[i], sizeof words); /* op, dtype, state, layout, two inputs */
        what = (what ^ words[0]) * 0x9E3779B97F4A7C15ull;
        const int64_t *a = keys[i].attr.i;
        where =
            (where ^ words[1] ^ ((uint64_t)a[0] + 7 * (uint64_t)a[1] + 31 * (uint64_t)a[2])) * 0xBF58476D1CE4E5B9ull;
        what ^= what >> 32;
        where ^= where >> 29;
    }
    uint64_t h = (what ^ where) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 31;
}

int pass_first_leaf(const pass *p)
{
    int i = p->count;
    while (i > 0 && p->steps[i - 1].node->op == OP_leaf)
        i--;
    return i;
}

/* Whether no code of the user runs before the leaves, and nobody asks what a place there gets. */
static bool is_plain(const pass *p, int inner)
{
    for (int i = 0; i < inner; i++) {
        const node *n = p->steps[i].node;
        if (n->op == OP_function || n->op == OP_output || n->op == OP_leaf || n->extra || p->steps[i].asked)
            return false;
    }
    return true;
}

/* Numbers the values of the tape and describes them. False: this tape is not for us. */
static bool make_keys(const pass *p)
{
    int inner = pass_first_leaf(p);
    values.count = 0;
    if (!inner || p->count > MAX_STEPS || !is_plain(p, inner) || !values_reserve(p->count + 2 * MAX_INPUTS))
        return false;
    value_key call;
    values.count = p->count;
    for (int i = 0; i < p->count; i++)
        values.nodes[i] = p->steps[i].node;
    if (!describe_call(p, &call))
        return false;
    for (int i = 0; i < values.count; i++) {
        if (values.count + MAX_INPUTS >= values.capacity && !values_reserve(values.count + MAX_INPUTS + 1))
            return false;
        if (i + NODES_AHEAD < values.count)
            node_expect(values.nodes[i + NODES_AHEAD]);
        if (i < p->count)
            describe_step(p, &p->steps[i], &values.keys[i]);
        else
            describe_value(values.nodes[i], &values.keys[i]);
    }
    values.nodes[values.count] = NULL;
    values.keys[values.count++] = call;
    return true;
}

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
    value_key *key;
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
    return m && m->keys == values.count && !memcmp(m->key, values.keys, (size_t)m->keys * sizeof *m->key);
}

/* NULL: nothing is remembered, and the keys have their hash. */
static memo *find(void)
{
    if (has_key(memory.latest))
        return memory.latest;
    values.hash = hash_keys(values.keys, values.count);
    memo *m = *slot_of(values.hash);
    if (!m || m->hash != values.hash || !has_key(m))
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

/* The number of a value that stands before the records; a constant that is met gets a recipe. -1: its making is
 * unknown. */
static int number_outside(memo *m, node *n)
{
    int number = number_of(n);
    if (number >= 0 || !(n->flags & NODE_CONSTANT))
        return number;
    m->recipe[m->recipes++] =
        (recipe){ .dtype = n->dtype, .making = MADE_CONSTANT, .layout = n->layout, .attr.i[0] = n->attr.i[0] };
    return add_value(n);
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
    add_value(n);
    return !(n->flags & NODE_TAPED);
}

static bool is_inside(const node *n) { return n->flags & NODE_PENDING && n->slot >= learning.first; }

static bool learn_record(memo *m, int i)
{
    const node *n = the_log.nodes[learning.first + i];
    excerpt *e = &m->records;
    if (!n || n->flags & NODE_TAPED || n->extra)
        return false;
    for (int k = 0; k < n->inputs; k++) {
        if (is_inside(n->in[k]))
            continue;
        int value = number_outside(m, n->in[k]);
        if (value < 0)
            return false;
        e->input[e->inputs++] = (excerpt_input){ i, k, value };
    }
    e->layouts[i] = n->layout;
    e->bytes += new_bytes(n);
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
    m->key = part(m, &at, (size_t)values.count * sizeof *m->key);
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
    for (int i = learning.first; i < the_log.count; i++)
        for (int k = 0; the_log.nodes[i] && k < the_log.nodes[i]->inputs; k++) {
            inputs += !is_inside(the_log.nodes[i]->in[k]);
            recipes += (the_log.nodes[i]->in[k]->flags & NODE_CONSTANT) != 0;
        }
    memo probe, *m;
    size_t bytes = lay_out(&probe, records, inputs, recipes, leaves);
    if (bytes > MAX_MEMO || !values_reserve(values.count + recipes) || !(m = mem_try(bytes)))
        return NULL;
    *m = (memo){ .hash = values.hash, .bytes = bytes, .keys = values.count, .records.records = records };
    lay_out(m, records, inputs, recipes, leaves);
    memcpy(m->key, values.keys, (size_t)values.count * sizeof *m->key);
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
        if (!s->grad || !takes(p, s))
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
        log_eager() || inference_enabled() || !make_keys(p))
        return REPLAY_NONE;
    chosen = find();
    if (chosen && leaves_stand(p, chosen)) {
        if (log_look() < 0 || !log_has_room(chosen->records.records, chosen->records.bytes) ||
            !values_reserve(values.count + chosen->recipes + chosen->named))
            return REPLAY_NONE;
        lock_take();
        if (!flush_checks())
            return REPLAY_KNOWN;
        learn_begin(chosen);
        return REPLAY_LEARN;
    }
    uint64_t *seen = &memory.seen[values.hash % SEEN];
    bool again = !chosen && *seen == values.hash;
    if (!chosen)
        *seen = values.hash;
    if (!again)
        return REPLAY_NONE;
    lock_take();
    learn_begin(NULL);
    return REPLAY_LEARN;
}

/* Owned. */
static node *make(const recipe *r)
{
    node *in[MAX_INPUTS], *n;
    for (int k = 0; k < r->inputs; k++)
        in[k] = values.nodes[r->in[k]];
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
        values.nodes[values.count++] = n;
    return n != NULL;
}

/* Makes what no record makes, appends the records, names those that leaves take: owned, in this order. */
static bool record_again(const memo *m)
{
    bool good = true;
    for (int i = 0; good && i < m->recipes; i++)
        good = own(make(&m->recipe[i]));
    int first = the_log.count;
    good = good && excerpt_append(&m->records, values.nodes);
    for (int i = 0; good && i < m->named; i++)
        good = own(log_name(first + m->name[i]));
    return good;
}

static bool give_leaf(pass *p, const leaf_gradient *l, node *const *named)
{
    if (l->value < 0 && l->record < 0)
        return true;
    step *s = &p->steps[l->step];
    node *n = l->record < 0 ? values.nodes[l->value] : named[l->record];
    if (takes(p, s)) {
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
    const int tape = values.count;
    bool good = record_again(m);
    for (int i = 0; good && i < m->leaves; i++)
        good = give_leaf(p, &m->leaf[i], values.nodes + tape + m->recipes);
    for (int i = tape; i < values.count; i++)
        node_release(values.nodes[i]);
    if (good && log_due())
        good = log_flush() == 0;
    memory.used = NULL;
    memory.counts.replayed += good;
    if (memory.outdated)
        replay_clear();
    lock_give();
    return good ? 0 : -1;
}
