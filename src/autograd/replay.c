/* replay.c: backward passes that were recorded before.
 *
 * What the rules of a pass record follows from the form of its tape: the ops, sizes and attributes of the places, how
 * they hang together, which of their values are the same, are constants, are there already. A program that trains walks
 * tapes of the same form again and again. The second time, what the rules record is remembered; from the third time on
 * it is appended as it stands, with this tape's values for that one's.
 *
 * Invariant: tapes with the same key record the same. All that a rule can look at is in the key; a rule that looks at
 * data, or records something whose making is not understood here, spoils the learning. Places with hooks and functions
 * run code of the user: tapes that have some are never learnt. What leaves do with their gradients is not remembered.
 * BRISK_CHECK_PLAN=1 learns anew instead of replaying, and compares. */
#include "autograd/replay.h"

#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/append.h"
#include "graph/plan.h"
#include "ops/elementwise.h"

/* --- keys ----------------------------------------------------------------------------------------------------------
 */

enum { /* the state of a value or a place */
       IS_PENDING = 1,
       HAS_DATA = 2,
       IS_CONSTANT = 4,
       WAS_FREED = 8,
       IS_WANTED = 16,
       LEADS = 32,
       IS_ASKED = 64,
};

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

static inline uint8_t state_of(const node *n)
{
    return (uint8_t)((n->flags & NODE_PENDING ? IS_PENDING : 0) | (n->data ? HAS_DATA : 0) |
                     (n->flags & NODE_CONSTANT ? IS_CONSTANT : 0) | (n->flags & NODE_FREED ? WAS_FREED : 0));
}

static inline void describe_step(const step *s, value_key *key)
{
    node *n = s->node;
    key->op = n->op;
    key->dtype = n->dtype;
    key->state =
        (uint8_t)(state_of(n) | (s->wanted ? IS_WANTED : 0) | (s->leads ? LEADS : 0) | (s->asked ? IS_ASKED : 0));
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

static uint64_t hash_keys(const value_key *keys, int count)
{
    uint64_t lanes[4] = { 1, 2, 3, 4 }, words[sizeof *keys / 8];
    for (int i = 0; i < count; i++) {
        memcpy(words, &keys[i], sizeof words);
        for (size_t j = 0; j < sizeof words / 8; j++) {
            uint64_t h = (lanes[j % 4] ^ words[j]) * 0x9E3779B97F4A7C15ull;
            lanes[j % 4] = h ^ h >> 32;
        }
    }
    uint64_t h = 0;
    for (int j = 0; j < 4; j++)
        h = (h ^ lanes[j]) * 0xBF58476D1CE4E5B9ull, h ^= h >> 29;
    return h;
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
        if (i < p->count)
            describe_step(&p->steps[i], &values.keys[i]);
        else
            describe_value(values.nodes[i], &values.keys[i]);
    }
    values.nodes[values.count] = NULL;
    values.keys[values.count++] = call;
    values.hash = hash_keys(values.keys, values.count);
    return true;
}

/* --- what is remembered ----------------------------------------------------------------------------------------------
 */

typedef enum record_kind {
    MADE_RECORD,   /* in the log */
    MADE_AT_ONCE,  /* one element, computed from others that are there */
    MADE_ELEMENT,  /* one element whose bits attr has */
    MADE_VIEW,     /* of memory that is there: op and attr as a view's record would have them */
    MADE_CONSTANT, /* its bits are in attr */
} record_kind;

typedef struct record {
    uint16_t op;
    uint8_t dtype, inputs, kind;
    const layout *layout;
    int32_t in[MAX_INPUTS]; /* numbers of values; those that were made here follow those of the tape */
    attr attr;
} record;

/* The gradient of a leaf, as a part of a value. */
typedef struct leaf_gradient {
    int32_t step, value; /* value -1: none */
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
    int keys, records, leaves, watches;
    int64_t recorded; /* what the results of the records would take */
    value_key *key;
    record *record;
    leaf_gradient *leaf;
    leaf_watch *watch;
} memo;

enum { MEMOS = 256, SEEN = 1024 };
static const size_t MAX_BYTES = (size_t)64 << 20, MAX_MEMO = (size_t)32 << 20;
static struct {
    memo *table[MEMOS];
    uint64_t seen[SEEN]; /* hashes of tapes that were walked once */
    replay_counts counts;
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

static memo *find(void)
{
    memo *m = *slot_of(values.hash);
    bool same = m && m->hash == values.hash && m->keys == values.count &&
                !memcmp(m->key, values.keys, (size_t)m->keys * sizeof *m->key);
    return same ? m : NULL;
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
    int first; /* the log's count when the rules began */
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

/* The numbers of a record's inputs; constants that are met become records of their own. False: an input of unknown
 * making. */
static bool number_inputs(memo *m, int inputs, node *const *in, int32_t *numbers)
{
    for (int k = 0; k < inputs; k++) {
        int number = number_of(in[k]);
        if (number < 0 && in[k]->flags & NODE_CONSTANT) {
            m->record[m->records++] = (record){
                .dtype = in[k]->dtype, .kind = MADE_CONSTANT, .layout = in[k]->layout, .attr.i[0] = in[k]->attr.i[0]
            };
            number = add_value(in[k]);
        }
        if (number < 0)
            return false;
        numbers[k] = number;
    }
    return true;
}

static bool learn_record(memo *m, node *n, const attr *a)
{
    record r = {
        .op = n->op, .dtype = n->dtype, .inputs = n->inputs, .kind = MADE_RECORD, .layout = n->layout, .attr = *a
    };
    if (n->flags & NODE_TAPED || n->extra || !number_inputs(m, n->inputs, n->in, r.in))
        return false;
    m->record[m->records++] = r;
    m->recorded += new_bytes(n);
    add_value(n);
    return true;
}

static bool learn_made(memo *m, const made *made)
{
    node *n = made->node;
    record r = { .op = (uint16_t)made->op, .dtype = n->dtype, .inputs = (uint8_t)made->inputs, .layout = n->layout };
    if (made->op == OP_data) {
        r.kind = MADE_ELEMENT;
        memcpy(&r.attr, n->data, dtype_size((bk_dtype)n->dtype));
    } else if (op_get(made->op)->kind == KIND_VIEW) {
        int64_t bytes = n->data - made->in[0]->data;
        r.kind = MADE_VIEW;
        r.attr.region.offset = bytes / (int64_t)dtype_size((bk_dtype)n->dtype);
    } else {
        r.kind = MADE_AT_ONCE;
    }
    if (n->flags & NODE_TAPED || !number_inputs(m, made->inputs, made->in, r.in))
        return false;
    m->record[m->records++] = r;
    add_value(n);
    return true;
}

/* Both kinds in the order of their making. */
static bool learn_all(memo *m)
{
    int at = learning.first, i = 0;
    while (at < the_log.count || i < learning.count) {
        bool logged = i == learning.count ||
                      (at < the_log.count && the_log.nodes[at]->sequence < learning.made[i].node->sequence);
        if (logged ? !learn_record(m, the_log.nodes[at], &the_log.keys[at].attr) : !learn_made(m, &learning.made[i++]))
            return false;
        at += logged;
    }
    return true;
}

static bool learn_leaves(const pass *p, memo *m)
{
    for (int i = pass_first_leaf(p); i < p->count; i++) {
        const bk_tensor *g = p->steps[i].grad;
        int value = g ? number_of(g->cell->value) : -1;
        if (g && value < 0)
            return false;
        m->leaf[m->leaves++] = (leaf_gradient){ i, value, g ? g->layout : NULL, g ? g->offset : 0 };
    }
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

static memo *memo_new(int records, int leaves)
{
    size_t keys = (size_t)values.count * sizeof(value_key), made = (size_t)records * sizeof(record),
           ends = (size_t)leaves * sizeof(leaf_gradient), watches = (size_t)leaves * sizeof(leaf_watch);
    size_t bytes = sizeof(memo) + keys + made + ends + watches;
    memo *m = bytes <= MAX_MEMO ? mem_try(bytes) : NULL;
    if (!m)
        return NULL;
    *m = (memo){ .hash = values.hash, .bytes = bytes, .keys = values.count };
    m->key = (value_key *)(m + 1);
    m->record = (record *)((char *)m->key + keys);
    m->leaf = (leaf_gradient *)((char *)m->record + made);
    m->watch = (leaf_watch *)((char *)m->leaf + ends);
    memcpy(m->key, values.keys, keys);
    return m;
}

static int constants(int inputs, node *const *in)
{
    int count = 0;
    for (int k = 0; k < inputs; k++)
        count += (in[k]->flags & NODE_CONSTANT) != 0;
    return count;
}

static int most_records(void)
{
    int most = the_log.count - learning.first + learning.count;
    for (int i = learning.first; i < the_log.count; i++)
        most += constants(the_log.nodes[i]->inputs, the_log.nodes[i]->in);
    for (int i = 0; i < learning.count; i++)
        most += constants(learning.made[i].inputs, learning.made[i].in);
    return most;
}

/* NULL: this pass cannot be replayed. */
static memo *learn(const pass *p)
{
    if (learning.spoiled || the_log.epoch != learning.epoch || the_log.progress.plan)
        return NULL;
    int most = most_records();
    memo *m = values_reserve(values.count + most) ? memo_new(most, p->count - pass_first_leaf(p)) : NULL;
    learning.starved |= !m;
    if (m && learn_all(m) && learn_leaves(p, m)) {
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

static int compare(const memo *m, const memo *known)
{
    bool same = m && m->records == known->records && m->leaves == known->leaves &&
                !memcmp(m->record, known->record, (size_t)m->records * sizeof *m->record) &&
                !memcmp(m->leaf, known->leaf, (size_t)m->leaves * sizeof *m->leaf);
    return same ? 0
                : error_int(BK_RUNTIME_ERROR, "brisk: a backward pass differs from one of the same form (this is a "
                                              "bug in brisk)");
}

int replay_learnt(pass *p, bool good)
{
    memo *m = good ? learn(p) : NULL;
    int status = good && learning.known && !learning.starved ? compare(m, learning.known) : 0;
    learn_end();
    if (m && !learning.known)
        keep(m);
    else
        mem_free(m);
    lock_give();
    return status;
}

/* --- replaying -------------------------------------------------------------------------------------------------------
 */

static memo *chosen;

replay_way replay_look(pass *p)
{
    const backward_call *c = p->call;
    if (c->create_graph || anomaly_check || p->around || log_eager() || inference_enabled() || !make_keys(p))
        return REPLAY_NONE;
    chosen = find();
    if (chosen && leaves_stand(p, chosen)) {
        if (log_look() < 0 || !log_has_room(chosen->records, chosen->recorded) ||
            !values_reserve(values.count + chosen->records))
            return REPLAY_NONE;
        lock_take();
        if (!flush_checks())
            return REPLAY_KNOWN;
        learn_begin(chosen);
        return REPLAY_LEARN;
    }
    uint64_t *seen = &memory.seen[values.hash % SEEN];
    bool again = *seen == values.hash && !chosen;
    *seen = values.hash;
    if (!again)
        return REPLAY_NONE;
    lock_take();
    learn_begin(NULL);
    return REPLAY_LEARN;
}

static inline __attribute__((always_inline)) node *append(const record *r)
{
    node *n = node_new_here(r->op, (bk_dtype)r->dtype, r->layout);
    if (!n)
        return NULL;
    n->inputs = r->inputs;
    n->attr = r->attr;
    for (int k = 0; k < r->inputs; k++)
        n->in[k] = node_retain(values.nodes[r->in[k]]);
    if (append_record(n, r->op, (bk_dtype)r->dtype, r->layout, r->inputs, r->op < EW_COUNT) == 0)
        return n;
    node_release(n);
    return NULL;
}

static node *make(const record *r)
{
    node *in[MAX_INPUTS], *n;
    for (int k = 0; k < r->inputs; k++)
        in[k] = values.nodes[r->in[k]];
    switch ((record_kind)r->kind) {
    case MADE_RECORD: return append(r);
    case MADE_AT_ONCE: return elementwise_now(r->op, (bk_dtype)r->dtype, in, r->layout);
    case MADE_VIEW:
        return r->op == OP_view ? node_view(in[0], NULL, r->layout, r->attr.region.offset)
                                : node_expand(in[0], NULL, r->layout);
    case MADE_CONSTANT: return node_constant_bits((bk_dtype)r->dtype, (uint64_t)r->attr.i[0]);
    case MADE_ELEMENT:
        n = node_new(OP_data, (bk_dtype)r->dtype, r->layout);
        if (n) {
            n->data = (char *)&n->attr;
            n->attr = r->attr;
        }
        return n;
    }
    return NULL;
}

static bool give_leaf(pass *p, const leaf_gradient *l)
{
    if (l->value < 0)
        return true;
    bk_tensor *g = tensor_at(values.nodes[l->value], NULL);
    if (g && (g->layout != l->layout || l->offset))
        g = tensor_alias(g, l->layout, l->offset, false);
    p->steps[l->step].grad = bk_retain(g);
    return g != NULL;
}

/* The log has room for all records: none of them makes it flush. */
static bool append_all(const memo *m)
{
    for (int i = 0; i < m->records; i++) {
        const record *r = &m->record[i];
        node *n = __builtin_expect(r->kind == MADE_RECORD, 1) ? append(r) : make(r);
        if (!n)
            return false;
        values.nodes[values.count++] = n;
    }
    return true;
}

int replay_run(pass *p)
{
    const memo *m = memory.used = chosen;
    int tape = values.count;
    bool good = append_all(m);
    for (int i = 0; good && i < m->leaves; i++)
        good = give_leaf(p, &m->leaf[i]);
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
