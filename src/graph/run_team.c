/* run_team.c: running a stretch of few rows, the cores together.
 *
 * Whoever comes first leads. He begins alone; when all others have come he tells them where they join. From there on
 * each computes its columns of every instruction, and they meet, spinning, where an instruction waits.
 *
 * That is good while every member has a core. One that loses its core keeps the others waiting for as long as a time
 * slice, so a leader that had to wait that long goes on alone after the next meeting, and teams are left alone for a
 * while. Members have the same columns whoever they are, and sums do not depend on columns, so nothing of this shows.
 */
#include "graph/run.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "core/threads.h"

enum {
    MOST_MEMBERS = 8,
    SPINS = 100,        /* looks without a pause: about 0.2 us */
    CLOCK_ROUNDS = 256, /* looks from one look at the clock to the next */
    ALONE_AFTERWARDS = 4,
    /* less than a time slice; more than a member's first share takes, whose half of the weights lies in the cache of
     * who has packed them */
    PATIENCE_NS = 500 * 1000,
};
/* A meeting, and fetching what the others have written, take 0.2 to 0.3 us. */
double team_meeting_ns = 400;
static const double FAR = 1.75; /* times as much between cores that share no cache, or may not */

typedef struct member {
    _Alignas(64) atomic_int met; /* how often it has come to a meeting */
} member;

typedef struct team {
    const plan *plan;
    const plan_region *region;
    int32_t first; /* the instruction to begin with */
    const binding *bound;
    int size;
    atomic_int come;  /* members so far */
    atomic_int start; /* 1 + the instruction where they join the leader; 0: not yet, -1: never */
    atomic_int last;  /* the meeting after which the leader is alone */
    atomic_bool late; /* somebody lost his core */
    member members[MOST_MEMBERS];
} team;

/* --- one instruction -----------------------------------------------------------------------------------------------
 */

static void run_elements(const plan_program *q, const binding *bound, int64_t rows, int64_t begin, int64_t end)
{
    char *bases[q->program->ports];
    bind_ports(q, bound, bases);
    const int64_t width = q->program->numel / rows;
    if (end - begin == width)
        program_run_range(q->program, bases, 0, q->program->numel);
    else
        for (int64_t row = 0; row < rows; row++)
            program_run_range(q->program, bases, row * width + begin, row * width + end);
}

static void copy_elements(const instruction *in, const binding *bound, int64_t begin, int64_t end)
{
    const int64_t size = (int64_t)dtype_size(in->copy.to.dtype);
    memcpy(address(bound, &in->copy.to) + begin * size, address(bound, &in->copy.from) + begin * size,
           (size_t)((end - begin) * size));
}

/* What others of the team have just written: asked for at once, not as it is read. */
static void fetch_row(const gemm_task *t)
{
    const int64_t bytes = t->a_col == 1 ? t->k * (int64_t)dtype_size(t->dtype) : 0;
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)t->a + at);
}

/* What a member has of an instruction: [begin, end) of every `step` columns. */
typedef struct share {
    int64_t columns, step, begin, end;
} share;

static share share_of(const team *t, const instruction *in, int who, int size)
{
    share s = { .columns = team_columns(in) };
    const int64_t width = t->region->together;
    s.step = width && s.columns % width == 0 ? width : s.columns;
    team_share(s.step, who, size, &s.begin, &s.end);
    if (s.end - s.begin == s.step)
        s.end = s.step = s.columns; /* alone: all at once */
    return s;
}

static void run_product(const instruction *in, const binding *bound, const share *s, bool back)
{
    gemm_task task;
    product_task(&task, in, bound);
    task.back = back;
    fetch_row(&task);
    for (int64_t at = 0; packs_factor(in, bound) && at < s->columns; at += s->step)
        gemm_pack_columns(&task, at + s->begin, at + s->end, bound[in->kernel.packed].base);
    gemm_run_columns(&task, s->begin, s->end, s->step);
    for (int64_t at = 0; in->kernel.epilogue.program && at < s->columns; at += s->step)
        run_elements(&in->kernel.epilogue, bound, task.m, at + s->begin, at + s->end);
}

/* What member `who` of `size` does of an instruction. Products go through their columns to and fro, since in a
 * recurrence they have one factor: what was read last is still in L1 when it is read first. */
static void run_share(const team *t, const instruction *in, int who, int size, bool *back)
{
    if (in->kind == DO_COPY && !copies_columns(in)) {
        if (who == 0)
            run_copy(in, t->bound);
        return;
    }
    const share s = share_of(t, in, who, size);
    if (s.begin >= s.end)
        return;
    if (in->kind == DO_KERNEL) {
        run_product(in, t->bound, &s, *back);
        *back = !*back;
        return;
    }
    for (int64_t at = 0; at < s.columns; at += s.step) {
        if (in->kind == DO_PROGRAM)
            run_elements(&in->elementwise, t->bound, 1, at + s.begin, at + s.end);
        else
            copy_elements(in, t->bound, at + s.begin, at + s.end);
    }
}

/* --- meeting -------------------------------------------------------------------------------------------------------
 */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits until the value is no longer below `least`. False: it took so long that somebody must have lost his core. */
static bool wait_for(atomic_int *value, int least)
{
    int64_t begun = 0;
    bool late = false;
    for (int round = 0; atomic_load_explicit(value, memory_order_acquire) < least; round++) {
        if (round < SPINS)
            continue;
        if (late)
            sched_yield();
        else
            cpu_relax();
        if (!late && round % CLOCK_ROUNDS == 0) {
            const int64_t now = now_ns();
            begun = begun ? begun : now;
            late = now - begun > PATIENCE_NS;
        }
    }
    return !late;
}

/* False: somebody was late. */
static bool meet(team *t, int who, int meeting)
{
    bool in_time = true;
    atomic_store_explicit(&t->members[who].met, meeting, memory_order_release);
    for (int i = 0; i < t->size; i++)
        if (i != who)
            in_time &= wait_for(&t->members[i].met, meeting);
    return in_time;
}

static void follow(team *t, int who)
{
    int start, meeting = 0;
    bool back = false;
    while (!(start = atomic_load_explicit(&t->start, memory_order_acquire)))
        cpu_relax();
    if (start < 0)
        return;
    for (int32_t i = start - 1; i < t->region->end; i++) {
        const instruction *in = &t->plan->code[i];
        if (in->waits && i >= start) {
            meet(t, who, ++meeting);
            if (atomic_load_explicit(&t->last, memory_order_relaxed) == meeting)
                return;
        }
        run_share(t, in, who, t->size, &back);
    }
}

static void lead(team *t)
{
    int size = 1, meeting = 0;
    bool late = false, over = t->size == 1, back = false;
    for (int32_t i = t->first; i < t->region->end; i++) {
        const instruction *in = &t->plan->code[i];
        if (size == 1 && !over && atomic_load_explicit(&t->come, memory_order_acquire) == t->size) {
            size = t->size;
            atomic_store_explicit(&t->start, i + 1, memory_order_release);
        } else if (size > 1 && in->waits) {
            if (late)
                atomic_store_explicit(&t->last, meeting + 1, memory_order_relaxed);
            const bool parting = late;
            late |= !meet(t, 0, ++meeting);
            if (parting) {
                size = 1;
                over = true;
            }
        }
        run_share(t, in, 0, size, &back);
    }
    if (size == 1 && !over)
        atomic_store_explicit(&t->start, -1, memory_order_release);
    if (late)
        atomic_store(&t->late, true);
}

static void take_part(void *arg, int64_t begin, int64_t end)
{
    team *t = arg;
    (void)begin;
    (void)end;
    const int who = atomic_fetch_add(&t->come, 1);
    if (who == 0)
        lead(t);
    else
        follow(t, who);
}

/* How many members pay. */
static int size_of(const plan_region *region)
{
    const double meeting_ns = team_meeting_ns * (threads_are_near() ? 1 : FAR),
                 work_ns = region->work_ns / (region->waits + 1), most = MOST_MEMBERS * meeting_ns;
    const int threads = bk_get_num_threads(), members = work_ns < most ? (int)(work_ns / meeting_ns) : MOST_MEMBERS;
    return members < 1 ? 1 : members < threads ? members : threads;
}

int run_team(const plan *p, const plan_region *region, int32_t first, const binding *bound)
{
    static int alone; /* how many teams to come are one core each; the library's lock is held */
    team t = { .plan = p, .region = region, .first = first, .bound = bound, .size = size_of(region) };
    if (alone) {
        alone--;
        t.size = 1;
    }
    threads_for(t.size, 1, region->work_ns, take_part, &t);
    if (atomic_load(&t.late))
        alone = ALONE_AFTERWARDS;
    return atomic_load(&t.start) > 0 ? t.size : 1;
}
