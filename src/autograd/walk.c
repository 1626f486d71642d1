/* walk.c: which places of the tape a backward pass comes to, and in which order.
 *
 * The tape is walked from the latest node to the earliest, so that a node's gradient is complete when its turn comes.
 * Nothing here recurses: the steps themselves are the work list. */
#include <stdlib.h>
#include <string.h>

#include "autograd/composed.h"
#include "autograd/function.h"
#include "autograd/hooks.h"
#include "autograd/pass.h"
#include "core/memory.h"
#include "graph/log.h"

/* The arrays of the last passes, which stay: between two passes somebody may have taken memory for good (a plan), so
 * that fresh arrays would be fresh pages. With the lock. */
enum { KEPT_STEPS = 1 << 18 };
static struct {
    step *steps;
    int capacity;
} kept[2];

static step *steps_take(int *capacity)
{
    for (int i = 0; i < 2; i++)
        if (kept[i].steps && kept[i].capacity >= *capacity) {
            step *steps = kept[i].steps;
            *capacity = kept[i].capacity;
            kept[i].steps = NULL;
            return steps;
        }
    return mem_alloc((size_t)*capacity * sizeof(step));
}

static void steps_give(step *steps, int capacity)
{
    for (int i = 0; i < 2 && capacity <= KEPT_STEPS; i++)
        if (!kept[i].steps || kept[i].capacity < capacity) {
            mem_free(kept[i].steps);
            kept[i].steps = steps;
            kept[i].capacity = capacity;
            return;
        }
    mem_free(steps);
}

void pass_forget(pass *p)
{
    if (p->steps != p->few)
        steps_give(p->steps, p->capacity);
}

int pass_first_leaf(const pass *p)
{
    int i = p->count;
    while (i > 0 && p->steps[i - 1].node->op == OP_leaf)
        i--;
    return i;
}

/* A pass that gets long mostly goes through all that was recorded: memory beyond what it needs is never touched, copies
 * are. */
static __attribute__((noinline)) bool grow(pass *p)
{
    int capacity = p->steps == p->few ? 256 : p->capacity * 2;
    if (p->steps != p->few && capacity < the_log.count)
        capacity = the_log.count;
    step *steps = steps_take(&capacity);
    if (!steps)
        return false;
    memcpy(steps, p->steps, (size_t)p->count * sizeof *steps);
    pass_forget(p);
    p->steps = steps;
    p->capacity = capacity;
    return true;
}

static inline bool visit(pass *p, node *n)
{
    if (!n || n->flags & NODE_MARK)
        return true;
    if (p->count == p->capacity && !grow(p))
        return false;
    n->flags |= NODE_MARK | NODE_WALKED;
    p->steps[p->count++] = (step){ .node = node_retain(n), .sequence = n->sequence };
    return true;
}

static node *const *edges_of(const pass *p, const node *n, int *count)
{
    *count = n->op == OP_function ? function_inputs(n) : n->op == OP_forward && !p->tangents ? 0 : MAX_INPUTS;
    return n->op == OP_function ? function_edges(n) : n->edge;
}

static int latest_first(const void *a, const void *b)
{
    uint64_t x = ((const step *)a)->sequence, y = ((const step *)b)->sequence;
    return x < y ? 1 : x > y ? -1 : 0;
}

static bool in_order(const pass *p)
{
    for (int i = 1; i < p->count; i++)
        if (p->steps[i - 1].sequence < p->steps[i].sequence)
            return false;
    return true;
}

/* Nodes of one tape were numbered one after the other, so that a table of the range puts them in order in one go; a
 * chain is in order already. Leaves, numbered 0, come last. -1: the range is too wide, or memory is out. */
static int order_by_table(pass *p)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (int i = 0; i < p->count; i++) {
        uint64_t s = p->steps[i].sequence;
        low = s && s < low ? s : low;
        high = s > high ? s : high;
    }
    if (!high || high - low > 16 * (uint64_t)p->count)
        return -1;
    int32_t *table = mem_alloc_zero((high - low + 1) * sizeof *table);
    int capacity = p->capacity, count = 0;
    step *steps = table ? steps_take(&capacity) : NULL;
    for (int i = 0; steps && i < p->count; i++)
        if (p->steps[i].sequence)
            table[high - p->steps[i].sequence] = i + 1;
    for (uint64_t i = 0; steps && i <= high - low; i++)
        if (table[i])
            steps[count++] = p->steps[table[i] - 1];
    for (int i = 0; steps && i < p->count; i++)
        if (!p->steps[i].sequence)
            steps[count++] = p->steps[i];
    mem_free(table);
    if (!steps)
        return -1;
    pass_forget(p);
    p->steps = steps;
    p->capacity = capacity;
    return 0;
}

static void order(pass *p)
{
    if (!in_order(p) && order_by_table(p) < 0)
        qsort(p->steps, (size_t)p->count, sizeof *p->steps, latest_first);
}

/* Numbers the places, which are no longer marked. Whether anybody can tell in which order their steps are taken, but by
 * rounding. */
static bool number(pass *p)
{
    bool shows = false;
    for (int i = 0; i < p->count; i++) {
        step *s = &p->steps[i];
        if (i + NODES_AHEAD < p->count)
            __builtin_prefetch(s[NODES_AHEAD].node);
        s->visit = s->node->visit;
        s->node->visit = i;
        s->node->flags &= (uint8_t)~NODE_MARK;
        shows |= s->node->extra && (s->node->op != OP_leaf || hooks_of(s->node));
    }
    p->numbered = true;
    return shows;
}

/* The number among the leaves of the one that an edge leads to; -1: it leads to none, or beyond the ends. */
static int leaf_of(const pass *p, const node *edge, int first)
{
    const step *s = step_of(p, edge);
    return s && s - p->steps >= first ? (int)(s - p->steps) - first : -1;
}

/* The last step of the function that step i is the result of, whose records follow it; i where PyTorch has a function
 * for this record alone. */
static int function_end(const pass *p, int i, int first)
{
    uint64_t start = composed_start(p->steps[i].node);
    while (start && i + 1 < first && p->steps[i + 1].sequence >= start)
        i++;
    return i;
}

/* Whether all leaves have their last reader right before them, and stand in the order of its edges. */
static bool in_turn(const pass *p, int first)
{
    int at = 0, count = 0;
    node *const *edges = first ? edges_of(p, p->steps[first - 1].node, &count) : NULL;
    for (int k = 0; k < count; k++)
        at += leaf_of(p, edges[k], first) == at;
    for (int i = 0; at > 1 && i < first; i++)
        at = composed_start(p->steps[i].node) && function_end(p, i, first) == first - 1 ? 0 : at;
    return first + at == p->count;
}

/* The steps with the leaves among them. */
typedef struct ordered {
    step *steps;
    int at;
    int first;     /* of the leaves, where they are last */
    int32_t *last; /* of each leaf's readers, from 1; 0: none, -1: the leaf has its place */
} ordered;

/* Whether an edge leads to a leaf that waits for no step behind `end`. */
static bool is_due(const pass *p, const ordered *o, const node *edge, int end)
{
    int leaf = leaf_of(p, edge, o->first);
    return leaf >= 0 && o->last[leaf] > 0 && o->last[leaf] <= end + 1;
}

static void take_due(const pass *p, ordered *o, node *const *edges, int count, int end)
{
    for (int k = 0; k < count; k++)
        if (is_due(p, o, edges[k], end)) {
            o->last[leaf_of(p, edges[k], o->first)] = -1;
            o->steps[o->at++] = p->steps[edges[k]->visit];
        }
}

static int count_due(const pass *p, const ordered *o, int from, int end)
{
    int due = 0, count;
    for (int i = from; i <= end; i++) {
        node *const *edges = edges_of(p, p->steps[i].node, &count);
        for (int k = 0; k < count; k++)
            due += is_due(p, o, edges[k], end);
    }
    return due;
}

/* The steps of a function and the leaves that are complete then: in the order of its arguments, whichever of its
 * records has led to one last. */
static void take_function(const pass *p, ordered *o, int from, int end)
{
    int count;
    node **arguments = NULL;
    memcpy(o->steps + o->at, p->steps + from, (size_t)(end - from + 1) * sizeof *o->steps);
    o->at += end - from + 1;
    bool several = composed_start(p->steps[from].node) && count_due(p, o, from, end) > 1;
    count = several ? composed_edges(p->steps[from].node, &arguments) : 0;
    take_due(p, o, arguments, count, end);
    mem_free(arguments);
    for (int i = from; i <= end; i++) {
        node *const *edges = edges_of(p, p->steps[i].node, &count);
        take_due(p, o, edges, count, end);
    }
}

/* A leaf takes its gradient as soon as that is complete, as in PyTorch: its step comes after that of its last reader.
 * Steps are numbered, leaves last. What fails for want of memory leaves the steps as they are. */
static void leaves_in_turn(pass *p)
{
    int first = p->count, count, capacity = p->capacity;
    while (first > 0 && p->steps[first - 1].node->op == OP_leaf)
        first--;
    if (in_turn(p, first))
        return;
    ordered o = { .first = first, .last = mem_alloc_zero((size_t)(p->count - first + 1) * sizeof *o.last) };
    o.steps = o.last ? steps_take(&capacity) : NULL;
    for (int i = 0; o.steps && i < first; i++) {
        node *const *edges = edges_of(p, p->steps[i].node, &count);
        for (int k = 0; k < count; k++)
            if (leaf_of(p, edges[k], first) >= 0)
                o.last[leaf_of(p, edges[k], first)] = i + 1;
    }
    for (int j = first; o.steps && j < p->count; j++)
        if (!o.last[j - first])
            o.steps[o.at++] = p->steps[j];
    for (int i = 0, end; o.steps && i < first; i = end + 1) {
        end = function_end(p, i, first);
        take_function(p, &o, i, end);
    }
    mem_free(o.last);
    if (!o.steps)
        return;
    pass_forget(p);
    p->steps = o.steps;
    p->capacity = capacity;
    for (int i = 0; i < p->count; i++)
        p->steps[i].node->visit = i;
}

/* Whether the walk stops at n. */
static bool is_end(const pass *p, const node *n)
{
    if (p->only)
        return excursion_ends(p->only, n);
    for (int i = 0; p->call->inputs_are_ends && i < p->call->input_count; i++)
        if (p->inputs[i] == n)
            return true;
    return false;
}

/* What is recorded and not evaluated yet stands in the log, and the walk comes by from its end to its beginning: edges
 * lead to nodes one at a time, which is too late to ask for them. */
static void expect_before(const node *n)
{
    if (n->flags & NODE_PENDING && n->slot >= NODES_AHEAD)
        node_expect(the_log.nodes[n->slot - NODES_AHEAD]);
}

/* All tape nodes under the outputs: the steps themselves are the work list. */
static bool collect(pass *p)
{
    bool good = true;
    for (int i = 0; good && i < p->call->output_count; i++)
        good = visit(p, p->outputs[i]);
    for (int i = 0; good && i < p->count; i++) {
        int count;
        node *const *edges = edges_of(p, p->steps[i].node, &count);
        expect_before(p->steps[i].node);
        if (is_end(p, p->steps[i].node))
            continue;
        for (int k = 0; good && k < count; k++)
            good = visit(p, edges[k]);
    }
    for (int i = 0; !good && i < p->count; i++)
        p->steps[i].node->flags &= (uint8_t)~NODE_MARK;
    if (!good)
        return false;
    order(p);
    if (number(p))
        leaves_in_turn(p);
    return true;
}

/* Only what leads to an input is walked; without inputs, everything. Edges lead to later steps. */
static void find_wanted(pass *p)
{
    if (!p->call->inputs) {
        for (int i = 0; i < p->count; i++)
            p->steps[i].leads = p->steps[i].wanted = !p->only || !is_end(p, p->steps[i].node);
        return;
    }
    for (int i = 0; i < p->call->input_count; i++)
        if (step_of(p, p->inputs[i]))
            step_of(p, p->inputs[i])->asked = true;
    for (int i = p->count - 1; i >= 0; i--) {
        step *s = &p->steps[i];
        int count;
        node *const *edges = edges_of(p, s->node, &count);
        for (int k = 0; k < count && !(s->asked && p->call->inputs_are_ends); k++)
            s->leads |= edges[k] && p->steps[edges[k]->visit].wanted;
        s->wanted = s->leads || s->asked;
    }
}

bool pass_collect(pass *p)
{
    if (!collect(p))
        return false;
    find_wanted(p);
    return true;
}
