/* ahead.c: running the first steps of a plan while its log is still being recorded.
 *
 * Python takes as long to record a step of a loop as a core to run it, and all cores but one have nothing to do
 * meanwhile. So where a log begins as that of a plan in the cache does, a worker runs the first instructions of that
 * plan, in memory of the plan's own, as far as records are there. When the flush finds that the whole log has this
 * plan, it goes on from where the worker is. Else what was computed is thrown away, and nobody has seen it.
 *
 * Invariants: The worker writes to temporaries and results of the plan alone. It reads these and leaves of the log; a
 * leaf is bound only if it looks as the plan's leaf did, everything that the plan reads through it lies within its
 * storage, and nobody outside has that memory's address. The log holds it, so that it stays, and nobody writes to it
 * before the flush: tensor_open wants to be the only holder, tensor_export flushes, tensor_pin calls ahead_leave, and
 * what is recorded waits for the flush. What was computed counts only if cache_find, which compares everything there is
 * to compare, gives this very plan. A log that begins as no plan does is left to pages.c. */
#include "graph/ahead.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/threads.h"
#include "graph/pages.h"
#include "graph/rewrites.h"
#include "graph/run.h"

enum {
    LOOK_EVERY = 64,      /* records */
    FEWEST_RECORDS = 768, /* of a log: less is recorded before a worker has begun */
    FEWEST_STEPS = 64,    /* instructions */
    PLANS_TRIED = 4,
    ENOUGH = 256,        /* records by which a plan is known that has nothing to run ahead */
    SHORT = 1 << 16,     /* elements of an instruction outside of regions */
    FEWEST_ROWS = 12,    /* of a long product, at a time: a tile's */
    IDLE_ROUNDS = 4096,  /* some 200 us without a new record: Python does something else */
    MOST_PAUSES = 1 << 8 /* logs that a plan lets pass after it was wrong again and again */
};
static const double LONGEST_NS = 100e3;              /* of an instruction: the flush may have to wait for one */
static const double LEAST_NS = 100e3;                /* of work */
static const double PIECE_NS = 10e3;                 /* of a product that is run some rows at a time */
static const double FLOPS_PER_NS = 100;              /* of a thread, roughly */
static const int64_t MOST_BYTES = (int64_t)64 << 20; /* that are taken before they are needed */

/* Bytes that a plan's head reads through a leaf, from its first element. */
typedef struct head_reach {
    int64_t from, to;
    int32_t buffer; /* -1: none, it lies in that of an earlier leaf */
} head_reach;

/* What can run ahead of a plan's log. */
struct plan_head {
    int32_t end;       /* its first instructions; 0: none that are worth it */
    int32_t *needs;    /* for each, how many leaves have to be there */
    int32_t long_ones; /* up to where there are products that are run some rows at a time */
    head_reach *leaves;
    int32_t lost;   /* how often in a row it was for nothing */
    int32_t pauses; /* logs to let pass */
};

static struct {
    plan *plan; /* NULL: none */
    char *arena;
    key_place checked; /* records and leaves that are as the plan's; factors that are bound */
    int leaves;
    int factors;
    atomic_int limit; /* instructions that the worker may run */
    atomic_int done;
    atomic_llong rows;      /* of the next one, a long product, that are done as well */
    atomic_bool stop, gone; /* the worker is to end; it has ended */
    ahead_counts counts;
} ahead;

bool ahead_eagerly;
int64_t ahead_most_rows = INT64_MAX;

ahead_counts ahead_count(void) { return ahead.counts; }

/* --- what can run ahead ------------------------------------------------------------------------------------------- */

typedef struct finding {
    const plan *plan;
    plan_head *head;
    int32_t needs; /* of the instruction that is looked at */
} finding;

static bool sees(finding *f, const plan_view *v, bool writes)
{
    const plan_buffer *b = &f->plan->buffers[v->buffer];
    if (b->kind != BUFFER_LEAF)
        return b->kind != BUFFER_LOCAL;
    head_reach *r = &f->head->leaves[b->leaf];
    const int64_t size = (int64_t)dtype_size(v->dtype), from = v->offset * size, to = from + v->layout->span * size;
    if (r->buffer < 0)
        *r = (head_reach){ from, to, v->buffer };
    r->from = from < r->from ? from : r->from;
    r->to = to > r->to ? to : r->to;
    f->needs = b->leaf < f->needs ? f->needs : b->leaf + 1;
    return !writes;
}

static bool sees_program(finding *f, const plan_program *q)
{
    for (int i = 0; i < q->program->ports; i++)
        if (q->ports[i].buffer >= 0 && !sees(f, &q->ports[i], q->program->port[i].writes))
            return false;
    return !q->sink_count;
}

static bool sees_product(finding *f, const instruction *in)
{
    for (int k = 0; k < in->kernel.inputs; k++)
        if (!sees(f, &in->kernel.in[k], false))
            return false;
    return sees(f, &in->kernel.out, true) && (in->kernel.addend.buffer < 0 || sees(f, &in->kernel.addend, false)) &&
           (!in->kernel.epilogue.program || sees_program(f, &in->kernel.epilogue));
}

static double each_ns(const plan_region *r) { return r->work_ns / (r->end - r->first); }

/* About what an instruction takes one thread, if it takes long. */
static double work_of(const plan_region *region, const instruction *in)
{
    if (region)
        return each_ns(region);
    if (in->kind != DO_KERNEL || in->op != OP_matmul)
        return 0;
    const layout *b = in->kernel.in[1].layout;
    return 2.0 * (double)in->kernel.out.layout->numel * (double)b->sizes[b->ndim - 2] / FLOPS_PER_NS;
}

/* How many rows of an instruction are run at a time, where all of them would take too long; else 0. */
static int64_t rows_at_a_time(const plan_region *region, const instruction *in)
{
    const double work_ns = work_of(region, in);
    if (region || work_ns <= LONGEST_NS || !has_rows(in))
        return 0;
    const int64_t rows = (int64_t)((double)in->kernel.out.layout->sizes[0] * PIECE_NS / work_ns);
    return rows < FEWEST_ROWS ? FEWEST_ROWS : rows;
}

/* What the flush may have to wait for. */
static double longest_of(const plan_region *region, const instruction *in)
{
    const int64_t some = rows_at_a_time(region, in);
    return work_of(region, in) * (some ? (double)some / (double)in->kernel.out.layout->sizes[0] : 1);
}

/* Whether a worker can run it: in a region of rows, or of few that cores go through together, or a product, or short
 * and as simple. Products do without memory where there is none; blocks cannot. */
static bool can_run(finding *f, const plan_region *region, const instruction *in)
{
    if ((region && region->width) || longest_of(region, in) > LONGEST_NS)
        return false;
    if (in->kind == DO_COPY)
        return (region || in->copy.to.layout->numel <= SHORT) && sees(f, &in->copy.from, false) &&
               sees(f, &in->copy.to, true);
    if (in->kind == DO_PROGRAM)
        return (region || in->elementwise.program->numel <= SHORT) && sees_program(f, &in->elementwise);
    return in->kind == DO_KERNEL && (region || in->op == OP_matmul) && sees_product(f, in);
}

/* The region that instruction i is in; NULL: none. *at is one that does not end before it. */
static const plan_region *region_around(const plan *p, const plan_region **at, int32_t i)
{
    const plan_region *last = p->regions + p->region_count;
    while (*at < last && (*at)->end <= i)
        (*at)++;
    return *at < last && (*at)->first <= i ? *at : NULL;
}

static void find_head(const plan *p, plan_head *h)
{
    finding f = { .plan = p, .head = h };
    const plan_region *at = p->regions;
    double work_ns = 0;
    int32_t i = 0;
    for (; i < p->code_count; i++) {
        const plan_region *region = region_around(p, &at, i);
        f.needs = 0;
        if (!can_run(&f, region, &p->code[i]))
            break;
        h->needs[i] = f.needs;
        h->long_ones = rows_at_a_time(region, &p->code[i]) ? i + 1 : h->long_ones;
        work_ns += work_of(region, &p->code[i]);
    }
    h->end = ahead_eagerly || (i >= FEWEST_STEPS && work_ns >= LEAST_NS) ? i : 0;
}

static int64_t memory_of(const plan *p)
{
    int64_t bytes = p->arena_bytes;
    for (int b = 0; b < p->buffer_count; b++)
        bytes += p->buffers[b].kind == BUFFER_RESULT ? p->buffers[b].bytes : 0;
    return bytes;
}

/* Found when it is first asked for: a plan may run only once. NULL: out of memory. */
static plan_head *head_of(plan *p)
{
    if (p->head)
        return p->head;
    plan_head *h = mem_try(sizeof *h);
    if (!h)
        return NULL;
    *h = (plan_head){ .needs = mem_try((size_t)p->code_count * sizeof *h->needs + 1),
                      .leaves = mem_try((size_t)p->key.leaves * sizeof *h->leaves + 1) };
    for (int l = 0; h->leaves && l < p->key.leaves; l++)
        h->leaves[l] = (head_reach){ .buffer = -1 };
    if (h->needs && h->leaves && memory_of(p) <= MOST_BYTES)
        find_head(p, h);
    return p->head = h;
}

void plan_forget_head(plan *p)
{
    if (p->head) {
        mem_free(p->head->needs);
        mem_free(p->head->leaves);
        mem_free(p->head);
    }
}

/* --- the worker --------------------------------------------------------------------------------------------------- */

/* False: it has to stop first. */
static bool run_pieces(const instruction *in, const binding *bound, int64_t piece)
{
    const int64_t rows = in->kernel.out.layout->sizes[0];
    for (int64_t at = 0, end; at < rows; at = end) {
        end = at + piece < rows ? at + piece : rows;
        if (atomic_load_explicit(&ahead.stop, memory_order_relaxed) || at >= ahead_most_rows ||
            run_rows_of(in, bound, at, end) < 0)
            return false;
        atomic_store_explicit(&ahead.rows, end, memory_order_relaxed);
    }
    atomic_store_explicit(&ahead.rows, 0, memory_order_relaxed);
    return true;
}

static int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }

static void run_steps(const plan *p)
{
    const plan_region *at = p->regions;
    const int32_t last = p->head->end;
    int32_t next = 0, asked = 0;
    for (int idle = 0; next < last && idle < IDLE_ROUNDS;) {
        if (atomic_load_explicit(&ahead.stop, memory_order_relaxed))
            return;
        const int32_t limit = atomic_load_explicit(&ahead.limit, memory_order_acquire);
        if (next >= limit) {
            cpu_relax();
            idle++;
            continue;
        }
        const plan_region *region = region_around(p, &at, next);
        if (region && region->first == next)
            asked = 0;
        if (region)
            ask_before(region, p->bound, min_i32(next + ASKS_AHEAD, limit), &asked, 0, region->rows);
        const int64_t piece = rows_at_a_time(region, &p->code[next]);
        if (piece ? !run_pieces(&p->code[next], p->bound, piece) : run_alone(p, region, next, p->bound) < 0)
            return;
        idle = 0;
        atomic_store_explicit(&ahead.done, ++next, memory_order_release);
    }
}

static void run_ahead(void *arg, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    run_steps(arg);
    atomic_store(&ahead.gone, true);
}

/* --- following the log -------------------------------------------------------------------------------------------- */

/* Whether a leaf looks as the plan's did. */
static bool is_alike(const plan *p, const op_log *log, int l)
{
    const leaf_key *key = &p->key.leaf[l];
    const node *n = log->leaves[l], *first = log->leaves[key->memory];
    return n->layout->id == key->layout && n->dtype == key->dtype && n->memory == first->memory &&
           n->data - first->data == key->offset && !(n->flags & NODE_CONSTANT) == !(key->bits & LEAF_CONSTANT);
}

static bool bind_leaf(const op_log *log, int l)
{
    const plan *p = ahead.plan;
    const node *n = log->leaves[l];
    const head_reach *r = &p->head->leaves[l];
    storage *s = n->memory;
    if (!is_alike(p, log, l))
        return false;
    if (r->buffer < 0)
        return true;
    if (!s && (r->from < 0 || r->to > (int64_t)sizeof(attr)))
        return false;
    if (s &&
        (s->exports || s->pinned || n->data - s->data + r->from < 0 || n->data - s->data + r->to > (int64_t)s->bytes))
        return false;
    p->bound[r->buffer] = (binding){ n->data, s, false };
    return true;
}

/* Lets the worker go on to what is there. False: the log departs from the plan. */
static bool follow(const op_log *log)
{
    const plan *p = ahead.plan;
    const plan_head *h = p->head;
    int limit = atomic_load_explicit(&ahead.limit, memory_order_relaxed);
    if (log->count > p->key.records || log->leaf_count > p->key.leaves ||
        !key_text_goes_on(p->text, &ahead.checked, log->keys, log->count))
        return false;
    for (; ahead.leaves < log->leaf_count; ahead.leaves++)
        if (!bind_leaf(log, ahead.leaves))
            return false;
    while (ahead.factors < p->factor_count && p->factors[ahead.factors].code < h->end &&
           h->needs[p->factors[ahead.factors].code] <= ahead.leaves)
        plan_bind_factor(p, ahead.factors++);
    while (limit < h->end && h->needs[limit] <= ahead.leaves && p->code[limit].record < ahead.checked.records)
        limit++;
    atomic_store_explicit(&ahead.limit, limit, memory_order_release);
    return true;
}

/* --- begin and end ------------------------------------------------------------------------------------------------ */

/* Whether a log of this plan may have begun as this one, as far as *place. */
static bool begins_as(const plan *p, const op_log *log, key_place *place)
{
    const bool idle = p->head && !p->head->end;
    bool good = p->key.records >= log->count && p->key.leaves >= log->leaf_count &&
                (p->key.records >= FEWEST_RECORDS || ahead_eagerly) && p->key.rewrites == rewrites_done && !p->begun;
    for (int l = 0; good && l < log->leaf_count; l++)
        good = is_alike(p, log, l);
    *place = (key_place){ 0 };
    return good && key_text_goes_on(p->text, place, log->keys, idle && log->count > ENOUGH ? ENOUGH : log->count);
}

/* The plan whose log began as this one; of several the one that ran last. */
static plan *find_candidate(const op_log *log, key_place *place)
{
    int tried = 0;
    if (!(rewrites_done & REWRITE_ahead) || log_due() || log->progress.plan || threads_at_hand() < 2)
        return NULL;
    for (plan *p = cache_newest(); p && tried < PLANS_TRIED; p = p->older, tried++) {
        if (!begins_as(p, log, place))
            continue;
        plan_head *h = head_of(p);
        if (!h || !h->end)
            return NULL;
        return h->pauses > 0 ? h->pauses--, NULL : p;
    }
    return NULL;
}

static void drop(void)
{
    threads_recall();
    plan_give_memory(ahead.plan, ahead.arena);
    ahead.plan->begun = false;
    ahead.plan = NULL;
}

/* It was for nothing: the plan lets logs pass, twice as many each time. */
static void lose(void)
{
    plan_head *h = ahead.plan->head;
    h->lost += 1 << h->lost < MOST_PAUSES;
    h->pauses = (1 << h->lost) - 1;
    ahead.counts.left++;
    drop();
}

static void begin(const op_log *log)
{
    plan *p = find_candidate(log, &ahead.checked);
    char *arena = p ? plan_take_memory(p, log) : NULL;
    if (!arena)
        return;
    ahead.plan = p;
    ahead.arena = arena;
    ahead.leaves = ahead.factors = 0;
    atomic_store(&ahead.limit, 0);
    atomic_store(&ahead.done, 0);
    atomic_store(&ahead.rows, 0);
    atomic_store(&ahead.stop, false);
    atomic_store(&ahead.gone, false);
    p->begun = true;
    ahead.counts.begun++;
    if (!follow(log))
        lose();
    else if (!threads_lend(run_ahead, p, &ahead.stop)) {
        ahead.counts.left++;
        drop();
    }
}

/* --- looking -------------------------------------------------------------------------------------------------------
 */

/* Whether the worker is at a long product, and needs no more than that. */
static bool is_busy(void)
{
    const int done = atomic_load_explicit(&ahead.done, memory_order_relaxed);
    return done < atomic_load_explicit(&ahead.limit, memory_order_relaxed) && ahead.plan->head->long_ones > done;
}

void ahead_look(op_log *log)
{
    const bool follows = ahead.plan != NULL;
    log->look = INT_MAX;
    if (follows && !is_busy() && !follow(log))
        lose();
    else if (!follows && log->count < PAGES_RECORDS)
        begin(log);
    if (!follows && !ahead.plan)
        pages_for_planning(log);
    else if (ahead.plan && atomic_load_explicit(&ahead.limit, memory_order_relaxed) < ahead.plan->head->end)
        log->look = log->count + LOOK_EVERY;
}

/* Whether the leaves are where they were when they were bound. */
static bool is_bound(const op_log *log)
{
    const plan *p = ahead.plan;
    for (int l = 0; l < ahead.leaves; l++) {
        const int32_t b = p->head->leaves[l].buffer;
        if (b >= 0 && p->bound[b].base != log->leaves[l]->data)
            return false;
    }
    return true;
}

void ahead_settle(const plan *p, const op_log *log)
{
    pages_stop();
    if (!ahead.plan)
        return;
    while (ahead_eagerly && !atomic_load(&ahead.stop) && !atomic_load(&ahead.gone) &&
           atomic_load(&ahead.done) < atomic_load(&ahead.limit))
        cpu_relax();
    threads_recall();
    if (ahead.plan != p || !is_bound(log))
        lose();
}

bool ahead_take(const plan *p, plan_progress *progress, int *factors)
{
    if (!ahead.plan || ahead.plan != p)
        return false;
    progress->arena = ahead.arena;
    progress->next = atomic_load_explicit(&ahead.done, memory_order_acquire);
    progress->rows = atomic_load_explicit(&ahead.rows, memory_order_relaxed);
    *factors = ahead.factors;
    p->head->lost = 0;
    ahead.plan = NULL;
    ahead.counts.taken++;
    ahead.counts.halfway += progress->rows > 0;
    ahead.counts.instructions += progress->next;
    return true;
}

void ahead_leave(void)
{
    if (ahead.plan)
        lose();
}
