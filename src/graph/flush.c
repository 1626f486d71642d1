/* flush.c: what a flush finds out about the log, and the flush itself.
 *
 * The key of a plan is all that planning looks at: the records, who needs what (found here, in one sweep from the last
 * record to the first), and the state of the leaves. A flush that fails before its plan has begun leaves the log as it
 * was. One that stops later keeps its place; `room` is 0 then, so that nothing is recorded before it is finished. What
 * somebody can reach meanwhile is what he could reach after the flush: who needs what does not change. */
#include "graph/log.h"

#include <stdlib.h>
#include <string.h>

#include "autograd/function.h"
#include "autograd/hooks.h"
#include "autograd/replay.h"
#include "core/distance.h"
#include "core/interpreter.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/ahead.h"
#include "graph/excerpt.h"
#include "graph/pages.h"
#include "graph/plan.h"
#include "graph/rewrites.h"

/* Scratch arrays that grow with the longest log and stay. */
static struct {
    uint8_t *bits;
    leaf_key *leaves;
    int capacity, leaf_capacity;
} scratch;

static bool resize(void *array, size_t item, int count)
{
    void **at = array;
    void *grown = mem_resize(*at, item * (size_t)count);
    if (grown)
        *at = grown;
    return grown != NULL;
}

static bool reserve(const op_log *log)
{
    if (log->capacity > scratch.capacity) {
        if (!resize(&scratch.bits, 1, log->capacity))
            return false;
        scratch.capacity = log->capacity;
    }
    if (log->leaf_capacity > scratch.leaf_capacity || !scratch.leaves) { /* there may be none: keys are copied */
        if (!resize(&scratch.leaves, sizeof(leaf_key), log->leaf_capacity + 1))
            return false;
        scratch.leaf_capacity = log->leaf_capacity;
    }
    return true;
}

/* The values that the gradient of a reachable record will read. */
static void keep_for_tape(const op_log *log, int i)
{
    const node *r = log->nodes[i];
    const op_info *info = op_get(r->op);
    uint8_t needs = 0;
    for (int k = 0; k < MAX_INPUTS; k++) {
        if (!r->edge[k])
            continue;
        if (!(r->flags & NODE_FREED)) /* a backward has been here: nobody will ask for its values again */
            needs |= info->needs[k];
        if (r->edge[k]->flags & NODE_PENDING)
            r->edge[k]->alive_edges++;
    }
    scratch.bits[i] |= RECORD_TAPED;
    if (needs & NEEDS_OUT)
        scratch.bits[i] |= RECORD_NEEDED | RECORD_KEPT;
    for (int k = 0; k < r->inputs; k++) {
        if (!(needs & 1 << k))
            continue;
        const int32_t in = log->keys[i].in[k];
        scratch.bits[i] |= (uint8_t)(RECORD_SAVES << k);
        if (in >= 0)
            scratch.bits[in] |= RECORD_NEEDED | RECORD_KEPT;
        else
            scratch.leaves[-1 - in].bits = LEAF_HELD; /* described later; until then, whether the tape saves it */
    }
}

/* Who else than records needs the value of a record. */
static inline void see_holders(const op_log *log, int i)
{
    node *r = log->nodes[i];
    int walked = r->flags & NODE_WALKED ? 1 : 0; /* a backward holds it for its place on the tape */
    bool held = r->refs - 1 - walked - r->tape_refs - r->cache_refs - log->keys[i].readers > 0;
    /* hooks: the handle that has seen it must find it again; amid an op, what it has read or recorded is its operand */
    bool seen = (r->extra && hooks_look(r->extra)) || (log->amid && (held || r->cache_refs));
    if (held || seen)
        scratch.bits[i] |= RECORD_NEEDED | RECORD_KEPT;
    if (r->flags & NODE_TAPED && (walked || seen || r->tape_refs > r->inner_edges || r->alive_edges > 0))
        keep_for_tape(log, i);
    r->alive_edges = 0; /* all that lead to it stand after it */
}

/* From the last record to the first: readers stand after what they read. */
static void sweep(const op_log *log)
{
    memset(scratch.bits, 0, (size_t)log->count);
    for (int l = 0; l < log->leaf_count; l++)
        scratch.leaves[l].bits = 0;
    for (int i = log->count - 1; i >= 0; i--) {
        const record_key *key = &log->keys[i];
        if (i >= NODES_AHEAD)
            node_expect(log->nodes[i - NODES_AHEAD]);
        if (log->nodes[i])
            see_holders(log, i);
        if (!(scratch.bits[i] & RECORD_NEEDED))
            continue;
        for (int k = 0; k < key->inputs; k++)
            if (key->in[k] >= 0)
                scratch.bits[key->in[k]] |= RECORD_NEEDED;
    }
}

/* A leaf whose last reference is the log's ends with the flush, unless the tape saves it. */
static void count_dying(const op_log *log)
{
    for (int l = 0; l < log->leaf_count; l++)
        if (log->leaves[l]->memory)
            log->leaves[l]->memory->dying = 0;
    for (int l = 0; l < log->leaf_count; l++) {
        const node *leaf = log->leaves[l];
        if (leaf->memory && !scratch.leaves[l].bits && leaf->refs - leaf->cache_refs == leaf->uses)
            leaf->memory->dying++;
    }
}

static void describe_leaves(const op_log *log)
{
    count_dying(log);
    for (int l = 0; l < log->leaf_count; l++) {
        const node *leaf = log->leaves[l];
        storage *s = leaf->memory;
        int32_t first = l;
        if (s && s->epoch == log->epoch) {
            first = s->first_leaf;
        } else if (s) {
            s->epoch = log->epoch;
            s->first_leaf = l;
        }
        uint8_t bits = leaf->flags & NODE_CONSTANT ? LEAF_CONSTANT : 0;
        if (bits && !leaf->attr.i[0])
            bits |= LEAF_ZERO;
        if (s && (s->exports || s->pinned))
            bits |= LEAF_FORCED;
        else if (!s || s->refs > s->dying)
            bits |= LEAF_HELD;
        if (s && !s->release && leaf->data == s->data &&
            leaf->layout->span * (int64_t)dtype_size((bk_dtype)leaf->dtype) * 2 >= (int64_t)s->bytes)
            bits |= LEAF_WHOLE;
        scratch.leaves[l] = (leaf_key){ .layout = leaf->layout->id,
                                        .dtype = leaf->dtype,
                                        .bits = bits,
                                        .memory = first,
                                        .offset = leaf->data - log->leaves[first]->data };
    }
}

static plan_key make_key(const op_log *log)
{
    return (plan_key){ .recorded = log->hash,
                       .rewrites = rewrites_done,
                       .records = log->count,
                       .leaves = log->leaf_count,
                       .record = log->keys,
                       .bits = scratch.bits,
                       .leaf = scratch.leaves };
}

/* A holder of the value less, as node_release_value. */
static inline void let_go(node *n, node **aside)
{
    if (--n->refs == 0)
        node_put_aside(n, aside);
    else if (n->refs == n->tape_refs && n->memory)
        node_forget_value(n);
}

static void leave_tape(node *r, node **aside)
{
    for (int k = 0; k < MAX_INPUTS; k++) {
        node *edge = r->edge[k];
        r->edge[k] = NULL;
        if (edge) {
            edge->tape_refs--;
            if (--edge->refs == 0)
                node_put_aside(edge, aside);
        }
    }
    r->flags &= (uint8_t)~NODE_TAPED;
}

/* A record without a node lets go of what it read. */
static void settle_nameless(const op_log *log, int i, node **aside)
{
    const record_key *key = &log->keys[i];
    for (int k = 0; k < key->inputs; k++) {
        node *in = record_input(log, key->in[k]);
        if (in)
            let_go(in, aside);
    }
}

/* Records that were evaluated keep what the tape needs and let go of the rest. What goes with them may be Python's and
 * record again as it goes, so that it is freed when the log is empty. */
static void settle(op_log *log)
{
    node *aside = NULL;
    bool forward = forwards_under_way;
    for (int i = 0; i < log->count; i++) {
        node *r = log->nodes[i];
        uint8_t bits = scratch.bits[i];
        if (i + NODES_AHEAD < log->count)
            node_expect(log->nodes[i + NODES_AHEAD]);
        if (!r) {
            settle_nameless(log, i, &aside);
            continue;
        }
        if (forward)
            forward_carry(r, r->op, r->in, r->inputs);
        for (int k = 0; k < r->inputs; k++) {
            node *in = r->in[k];
            if (bits & RECORD_SAVES << k || !in)
                continue;
            r->in[k] = NULL;
            let_go(in, &aside);
        }
        if (r->flags & NODE_TAPED && !(bits & RECORD_TAPED))
            leave_tape(r, &aside);
        r->flags &= (uint8_t)~NODE_PENDING;
        let_go(r, &aside);
    }
    log->count = log->leaf_count = 0;
    log->hash = 0;
    log->bytes = log->read_bytes = 0;
    log->reads_shared = false;
    log->epoch++;
    nodes_free(aside);
}

bool flush_checks(void)
{
    static int check = -1;
    if (check < 0) {
        const char *text = getenv("BRISK_CHECK_PLAN");
        check = text && *text && strcmp(text, "0") != 0;
    }
    return check;
}

/* What the flush has to know before it can look for a plan. */
static bool examine(op_log *log, plan_key *key)
{
    if (log->progress.plan || !reserve(log)) /* begun: what was found out is still needed */
        return false;
    sweep(log);
    describe_leaves(log);
    *key = make_key(log);
    return true;
}

bool flush_lookup(void)
{
    plan_key key;
    return examine(&the_log, &key) && cache_find(&key) != NULL;
}

bool flush_plan(void)
{
    plan_key key;
    ahead_settle(NULL, &the_log); /* the desk is to be the planner's alone */
    plan *p = examine(&the_log, &key) ? plan_make(&the_log, &key) : NULL;
    if (p)
        cache_add(p);
    return p != NULL;
}

/* About 50 us of work: handing over an interpreter's lock costs less. */
static bool is_long(const op_log *log)
{
    enum { LONG_BYTES = 1 << 19, LONG_RECORDS = 2048 };
    return log->bytes + log->read_bytes >= LONG_BYTES || log->count >= LONG_RECORDS;
}

/* Finds or makes the plan, and takes its memory. */
static int begin(op_log *log)
{
    plan_key key;
    if (!examine(log, &key))
        return -1;
    plan *p = cache_find(&key);
    ahead_settle(p, log);
    if (p && flush_checks() && plan_check(p, log, &key) < 0)
        return -1;
    if (p && !p->asks)
        plan_find_asks(p);
    if (!p) {
        pages_for_running(log, scratch.bits);
        p = plan_make(log, &key);
        pages_stop();
        if (!p)
            return -1;
        cache_add(p);
        distance_watch(is_long(log)); /* the first time before the first run of many steps */
    }
    if (!p->emitted)
        plan_emit(p);
    return plan_begin(p, log);
}

static int go_on(op_log *log)
{
    void *left = is_long(log) ? interpreter_leave(true) : NULL;
    int status = plan_go_on(log);
    interpreter_enter(left);
    return status;
}

static void keep_layouts(void)
{
    nodes_keep_layouts();
    tensors_keep_layouts();
    replay_keep_layouts();
}

static void forget_all(void)
{
    cache_clear();
    replay_clear();
}

/* Keys have layouts by their address in attributes, so plans go before another layout can get an old one's. */
static void sweep_layouts(void)
{
    forget_all();
    layout_sweep(keep_layouts);
}

int log_flush(void)
{
    op_log *log = &the_log;
    if (!log->count)
        return 0;
    if (!log->progress.plan && begin(log) < 0)
        return -1;
    if (go_on(log) < 0) {
        log->room = 0;
        return -1;
    }
    const bool was_long = is_long(log);
    log->look = FIRST_LOOK;
    log_make_room(log);
    settle(log);
    distance_watch(was_long);
    if (__builtin_expect(layouts_crowded(), 0))
        sweep_layouts();
    return 0;
}

int bk_forget_plans(void)
{
    lock_take();
    int status = log_flush();
    if (status == 0)
        forget_all();
    lock_give();
    return status;
}
