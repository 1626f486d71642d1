/* tape_keys.c: see tape_keys.h. */
#include "autograd/tape_keys.h"

#include <string.h>

#include "autograd/parts.h"
#include "autograd/replay.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/log.h"

enum { /* the state of a value or a place: flags of the node, and in other bits */
       SHOWN_FLAGS = NODE_PENDING | NODE_CONSTANT | NODE_FREED,
       HAS_DATA = 4,
       IS_WANTED = 16,
       LEADS = 32,
       IS_ASKED = 64,
       TAKES = 128,
};
_Static_assert(!(SHOWN_FLAGS & (HAS_DATA | IS_WANTED | LEADS | IS_ASKED | TAKES)), "the bits of a state are apart");

enum { ANY_OP = 0xffff, CALL = 0xfffe, MAX_STEPS = 1 << 17 };

tape_values tape;

bool tape_reserve(int count)
{
    if (count <= tape.capacity)
        return true;
    int capacity = count + count / 2 + 64;
    node **nodes = mem_try((size_t)capacity * sizeof *nodes);
    tape_key *keys = mem_try((size_t)capacity * sizeof *keys);
    if (!nodes || !keys) {
        mem_free(nodes);
        mem_free(keys);
        return false;
    }
    if (tape.count) {
        memcpy(nodes, tape.nodes, (size_t)tape.count * sizeof *nodes);
        memcpy(keys, tape.keys, (size_t)tape.count * sizeof *keys);
    }
    mem_free(tape.nodes);
    mem_free(tape.keys);
    tape.nodes = nodes;
    tape.keys = keys;
    tape.capacity = capacity;
    return true;
}

/* There is room: see tape_reserve. */
static inline int value_of(node *n)
{
    int number = n ? tape_number(n) : -1;
    return number >= 0 || !n ? number : tape_add(n);
}

static inline uint8_t state_of(const node *n) { return (uint8_t)((n->flags & SHOWN_FLAGS) | (n->data ? HAS_DATA : 0)); }

bool step_takes(const pass *p, const step *s)
{
    if (s->node->op != OP_leaf || !s->wanted || p->call->results)
        return false;
    const track *k = s->node->extra;
    return !k->grad && !k->place && !k->hooks;
}

static inline void describe_step(const pass *p, const step *s, tape_key *key)
{
    node *n = s->node;
    key->op = n->op;
    key->dtype = n->dtype;
    key->state = (uint8_t)(state_of(n) | (s->wanted ? IS_WANTED : 0) | (s->leads ? LEADS : 0) |
                           (s->asked ? IS_ASKED : 0) | (step_takes(p, s) ? TAKES : 0));
    key->layout = n->layout->id;
    for (int k = 0; k < MAX_INPUTS; k++) {
        key->in[k] = value_of(n->in[k]);
        key->edge[k] = n->edge[k] ? tape_number(n->edge[k]) : -1;
    }
    key->attr = n->attr;
}

/* Of a value that is no place, rules see no more than its sizes, unless it is a view or a constant. */
static void describe_value(const node *n, tape_key *key)
{
    bool view = n->flags & NODE_PENDING && op_get(n->op)->kind == KIND_VIEW;
    bool shown = view || n->flags & NODE_CONSTANT;
    *key = (tape_key){ .op = shown ? n->op : ANY_OP,
                       .dtype = n->dtype,
                       .state = state_of(n),
                       .layout = n->layout->id,
                       .in = { view ? value_of(n->in[0]) : -1, -1, -1 },
                       .edge = { -1, -1, -1 } };
    if (shown)
        key->attr = n->attr;
}

/* Where the walk begins, and with which gradients. False: not in a way that is remembered. */
static bool describe_call(const pass *p, tape_key *key)
{
    const backward_call *c = p->call;
    *key = (tape_key){ .op = CALL, .in = { -1, -1, -1 }, .edge = { -1, -1, -1 } };
    if (c->output_count > MAX_INPUTS)
        return false;
    for (int i = 0; i < c->output_count; i++) {
        const bk_tensor *g = c->gradients ? c->gradients[i] : NULL;
        if (g && (!tensor_whole(g) || tensor_dtype(g) != p->outputs[i]->dtype))
            return false;
        key->in[i] = tape_number(p->outputs[i]);
        key->edge[i] = g ? value_of(g->cell->value) : -1;
    }
    return true;
}

/* Keys are compared: a sample will do of a long tape, and of each key what tells most. */
uint64_t tape_hash(const tape_key *keys, int count)
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

/* Whether no code of the user runs before the leaves, and nobody asks what a place there gets. */
static bool is_plain(const pass *p, int inner)
{
    for (int i = 0; i < inner; i++) {
        const node *n = p->steps[i].node;
        if (parts_hooked || n->op == OP_function || n->op == OP_output || n->op == OP_leaf || n->extra ||
            p->steps[i].asked)
            return false;
    }
    return true;
}

bool tape_describe(const pass *p)
{
    int inner = pass_first_leaf(p);
    tape.count = 0;
    if (!inner || p->count > MAX_STEPS || !is_plain(p, inner) || !tape_reserve(p->count + 2 * MAX_INPUTS))
        return false;
    tape_key call;
    tape.count = p->count;
    for (int i = 0; i < p->count; i++)
        tape.nodes[i] = p->steps[i].node;
    if (!describe_call(p, &call))
        return false;
    for (int i = 0; i < tape.count; i++) {
        if (tape.count + MAX_INPUTS >= tape.capacity && !tape_reserve(tape.count + MAX_INPUTS + 1))
            return false;
        if (i + NODES_AHEAD < tape.count)
            node_expect(tape.nodes[i + NODES_AHEAD]);
        if (i < p->count)
            describe_step(p, &p->steps[i], &tape.keys[i]);
        else
            describe_value(tape.nodes[i], &tape.keys[i]);
    }
    tape.nodes[tape.count] = NULL;
    tape.keys[tape.count++] = call;
    return true;
}
