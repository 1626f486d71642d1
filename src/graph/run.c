/* run.c: running a plan.
 *
 * The memory of all buffers is taken before the first instruction, so running out of it leaves everything as it was.
 * From then on inputs may be overwritten, and the log cannot be run from its start again. Hence the invariant: an
 * instruction runs to its end or, when it finds no memory to work in, has changed nothing that it or a later one reads;
 * and a plan that stops keeps its place. Products, and so regions and sums, need no memory (gemm.c); other kernels take
 * theirs before they write in place. */
#include "graph/plan.h"

#include <stdatomic.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "cpu/move.h"
#include "graph/ahead.h"
#include "graph/arena.h"
#include "graph/kernels.h"
#include "graph/packed.h"
#include "graph/run.h"
#include "graph/run_sum.h"

static void bind_view(view *to, const binding *bound, const plan_view *v)
{
    layout_view(to, v->layout, v->dtype, address(bound, v));
}

/* A program whose values go to reductions piece by piece. */
typedef struct streaming {
    const plan_program *in;
    char *const *bases;
} streaming;

static void make_piece(const void *arg, int64_t begin, int64_t end, char *const *to)
{
    const streaming *s = arg;
    const plan_program *in = s->in;
    const ew_program *p = in->program;
    char *bases[p->ports];
    memcpy(bases, s->bases, sizeof bases);
    for (int i = 0; i < in->sink_count; i++) {
        int32_t port = in->sinks[i].port;
        if (in->ports[port].buffer < 0 && in->sinks[i].from == i)
            bases[port] = (char *)((uintptr_t)to[i] - (uintptr_t)(begin * p->port[port].size));
    }
    program_run_range(p, bases, begin, end);
}

static int run_sinks(const plan_program *in, const binding *bound, char *const *bases)
{
    reduce_end ends[REDUCE_SINKS];
    for (int i = 0; i < in->sink_count; i++)
        ends[i] = (reduce_end){ .memory = bases[in->sinks[i].port], .dst = address(bound, &in->sinks[i].out) };
    streaming s = { in, bases };
    return reduce_stream_run(in->stream, ends, &(reduce_source){ make_piece, &s, in->program->work_ns });
}

static int run_program(const plan_program *in, const binding *bound)
{
    char *bases[in->program->ports];
    bind_ports(in, bound, bases);
    if (in->sink_count)
        return run_sinks(in, bound, bases);
    program_run(in->program, bases);
    return 0;
}

void run_copy(const instruction *in, const binding *bound)
{
    view to, from;
    bind_view(&to, bound, &in->copy.to);
    bind_view(&from, bound, &in->copy.from);
    if (in->copy.from.layout->plain == in->copy.to.layout->plain)
        move_copy(&to, &from);
    else
        move_fill(&to, from.data); /* a constant, of the same dtype */
}

typedef struct finishing {
    const ew_program *program;
    char *const *bases;
    int64_t width;
    int64_t first; /* row of the product that the kernel counts from */
} finishing;

static void finish_rows(void *arg, int64_t begin, int64_t end)
{
    const finishing *f = arg;
    program_run_range(f->program, f->bases, (f->first + begin) * f->width, (f->first + end) * f->width);
}

/* Rows pass through the epilogue while they are in cache. A product with few rows would leave a long epilogue to one
 * thread: then it runs afterwards, on all of them. */
static int run_product(const plan_program *tail, const binding *bound, kernel_call *call)
{
    enum { MANY_ROWS = 256 };
    char *bases[tail->program->ports];
    bind_ports(tail, bound, bases);
    const view *c = &call->out;
    finishing f = { tail->program, bases, c->sizes[c->ndim - 1], 0 };
    bool many = view_numel(c) >= MANY_ROWS * f.width, hooked = matmul_finishes_rows(call);
    hooked = hooked && (many || tail->program->work_ns < 20e3);
    if (hooked) {
        call->epilogue = finish_rows;
        call->epilogue_arg = &f;
    }
    int status = run_matmul(call);
    if (status == 0 && !hooked)
        program_run(tail->program, bases);
    return status;
}

static int run_kernel(const instruction *in, const binding *bound)
{
    kernel_call call;
    call_begin(&call, in, &in->kernel.attr);
    call.packed = reads_packed(in, bound) ? bound[in->kernel.packed].base : NULL;
    call.packs = packs_factor(in, bound);
    call.addend = in->kernel.addend.buffer >= 0 ? address(bound, &in->kernel.addend) : NULL;
    call.addend_row = in->kernel.addend_row;
    bind_view(&call.out, bound, &in->kernel.out);
    if (call.has_second)
        bind_view(&call.second, bound, &in->kernel.second);
    for (int k = 0; k < call.inputs; k++)
        bind_view(&call.in[k], bound, &in->kernel.in[k]);
    return in->kernel.epilogue.program ? run_product(&in->kernel.epilogue, bound, &call) : op_get(in->op)->run(&call);
}

bool has_rows(const instruction *in)
{
    const layout *c = in->kernel.out.layout;
    const plan_program *tail = &in->kernel.epilogue;
    return in->kind == DO_KERNEL && in->op == OP_matmul && c->ndim == 2 && c->sizes[1] > 1 && c->strides[1] == 1 &&
           in->kernel.in[1].layout->sizes[0] > 0 &&
           (!tail->program || (tail->program->numel == c->numel && !tail->sink_count));
}

int run_rows_of(const instruction *in, const binding *bound, int64_t begin, int64_t end)
{
    const plan_program *tail = &in->kernel.epilogue;
    char *bases[tail->program ? tail->program->ports : 1];
    finishing f = { tail->program, bases, in->kernel.out.layout->sizes[1], begin };
    gemm_task task;
    rows_task(&task, in, bound, begin, end);
    if (begin == 0 && packs_factor(in, bound))
        pack_factor(in, bound);
    if (tail->program) {
        bind_ports(tail, bound, bases);
        task.epilogue = finish_rows;
        task.epilogue_arg = &f;
    }
    return gemm_run(&task);
}

static int run_terms(const instruction *in, const binding *bound)
{
    int factors = in->sum.products ? 2 : 1;
    sum_rows *terms = (sum_rows *)bound[in->sum.table].base;
    for (int i = 0; i < in->sum.count * factors; i++) {
        const plan_view *v = &in->sum.terms[i];
        terms[i] = (sum_rows){ address(bound, v), v->layout, bound[v->buffer].memory };
    }
    sum_call call = { .terms = terms, .count = in->sum.count, .factors = factors, .begins = in->sum.begins };
    bind_view(&call.out, bound, &in->sum.out);
    call.scratch = bound[in->sum.scratch].base;
    return run_sum(&call);
}

/* Records of a backward pass that was replayed have no nodes, and so no line of their own. Those that are not recorded
 * yet (ahead.c) have no name either, and nobody is told. */
static int no_memory(const op_log *log, int record)
{
    if (record >= log->count)
        return -1;
    const node *n = log->nodes[record];
    error_int(BK_MEMORY_ERROR, "brisk: out of memory in %s", op_get(log->keys[record].op)->name);
    return n ? error_about(n->line) : -1;
}

static int64_t bytes_of(const node *n) { return n ? n->layout->span * (int64_t)dtype_size((bk_dtype)n->dtype) : 0; }

/* The record to name when the memory of a result, or of all temporaries (-1), cannot be had: the largest of those. */
static int largest_record(const plan *p, const op_log *log, int buffer)
{
    int largest = 0;
    for (int i = 0; i < p->kept_count; i++)
        if (p->kept[i].buffer == buffer)
            return p->kept[i].record;
    for (int i = 0; i < log->count; i++)
        if (bytes_of(log->nodes[i]) > bytes_of(log->nodes[largest]))
            largest = i;
    return largest;
}

/* Of a log that is not complete, all in time (ahead.c). */
static binding bind_leaf(const op_log *log, int32_t l)
{
    return l < log->leaf_count ? (binding){ log->leaves[l]->data, log->leaves[l]->memory, false } : (binding){ 0 };
}

/* The memory of the plan's buffers. -1: out of memory, nothing is held. */
static int bind_buffers(const plan *p, const op_log *log, binding *bound, char *arena)
{
    for (int b = 0; b < p->buffer_count; b++) {
        const plan_buffer *buffer = &p->buffers[b];
        if (buffer->kind == BUFFER_LEAF) {
            bound[b] = bind_leaf(log, buffer->leaf);
        } else if (buffer->kind == BUFFER_TEMPORARY) {
            bound[b] = (binding){ arena + buffer->at, NULL, false };
        } else if (buffer->kind == BUFFER_LOCAL || buffer->kind == BUFFER_KEPT) {
            bound[b] = (binding){ 0 }; /* whoever runs the region has it; bind_factors */
        } else {
            storage *s = storage_new((size_t)buffer->bytes);
            if (!s) {
                no_memory(log, largest_record(p, log, b));
                while (b-- > 0)
                    if (p->buffers[b].kind == BUFFER_RESULT)
                        storage_release(bound[b].memory);
                return -1;
            }
            bound[b] = (binding){ s->data, s, false };
        }
    }
    return 0;
}

static void bind_leaves(const plan *p, const op_log *log, binding *bound)
{
    for (int b = 0; b < p->buffer_count; b++)
        if (p->buffers[b].kind == BUFFER_LEAF)
            bound[b] = bind_leaf(log, p->buffers[b].leaf);
}

/* A factor that may be packed already. */
void plan_bind_factor(const plan *p, int factor)
{
    binding *bound = p->bound;
    const plan_view *b = &p->code[p->factors[factor].code].kernel.in[1];
    const factor_key key = { address(bound, b),     b->dtype,
                             b->layout->sizes[0],   b->layout->sizes[1],
                             b->layout->strides[0], b->layout->strides[1] };
    char *packed = packed_keep(bound[b->buffer].memory, &key);
    if (packed)
        bound[p->factors[factor].buffer] = (binding){ packed, NULL, true };
}

static void release_results(const plan *p, const binding *bound)
{
    for (int b = 0; b < p->buffer_count; b++)
        if (p->buffers[b].kind == BUFFER_RESULT)
            storage_release(bound[b].memory);
}

static void give_results(const plan *p, const op_log *log, const binding *bound)
{
    for (int i = 0; i < p->kept_count; i++) {
        const kept_value *k = &p->kept[i];
        node *n = log->nodes[k->record];
        n->data = bound[k->buffer].base + k->offset * (int64_t)dtype_size((bk_dtype)n->dtype);
        n->memory = bound[k->buffer].memory;
        if (n->memory) {
            n->memory->refs++;
            packed_drop(n->memory); /* a leaf's, where it was written in place */
        }
    }
    release_results(p, bound);
}

static run_counts counts;

run_counts run_count(void) { return counts; }

int run_instruction(const instruction *in, const binding *bound)
{
    switch (in->kind) {
    case DO_PROGRAM: return run_program(&in->elementwise, bound);
    case DO_COPY: run_copy(in, bound); return 0;
    case DO_KERNEL: return is_small_product(in) ? run_small_product(in, bound) : run_kernel(in, bound);
    case DO_SUM: return run_terms(in, bound);
    case INSTRUCTION_KINDS: break;
    }
    return 0;
}

static atomic_bool interrupted;

void bk_interrupt(void) { atomic_store_explicit(&interrupted, true, memory_order_relaxed); }

static const plan_region *region_from(const plan *p, int instruction)
{
    const plan_region *region = p->regions;
    while (region < p->regions + p->region_count && region->end <= instruction)
        region++;
    return region;
}

/* From instruction `first` on: the region's first, or where a worker got to that ran ahead (ahead.c). */
static int run_stretch(const plan *p, const plan_region *region, int first, const binding *bound)
{
    if (region->rows)
        return region->width ? run_blocks(p, region, bound) : run_region(p, region, first, bound);
    counts.teams += run_team(p, region, first, bound) > 1;
    return 0;
}

/* Instruction `progress->next`, or the rows of it that are missing. */
static int run_next(const plan *p, plan_progress *progress)
{
    const instruction *in = &p->code[progress->next];
    const int64_t done = progress->rows;
    progress->rows = 0;
    return done ? run_rows_of(in, p->bound, done, in->kernel.out.layout->sizes[0]) : run_instruction(in, p->bound);
}

/* From progress->next on, which stays at the instruction that could not be run. */
static int run_code(const op_log *log, plan_progress *progress)
{
    const plan *p = progress->plan;
    const plan_region *region = region_from(p, progress->next), *last = p->regions + p->region_count;
    while (progress->next < p->code_count) {
        if (__builtin_expect(atomic_load_explicit(&interrupted, memory_order_relaxed), 0))
            return error_int(BK_INTERRUPTED, "brisk: interrupted");
        const int first = progress->next;
        const bool whole = region < last && region->first <= first;
        if ((whole ? run_stretch(p, region, first, p->bound) : run_next(p, progress)) < 0)
            return no_memory(log, p->code[first].record);
        progress->next = whole ? region++->end : first + 1;
        for (int i = first; i < progress->next; i++)
            counts.instructions[p->code[i].kind]++;
    }
    return 0;
}

/* Temporaries may be read a little beyond their end. */
static size_t arena_bytes(const plan *p) { return (size_t)p->arena_bytes + 64; }

static char *take_arena(const plan *p)
{
    static char none[64]; /* for temporaries without elements */
    return p->arena_bytes ? arena_take(arena_bytes(p)) : none;
}

static void give_arena(const plan *p, char *arena)
{
    if (p->arena_bytes)
        arena_give(arena, arena_bytes(p));
}

static char *take_memory(plan *p, const op_log *log)
{
    char *arena = take_arena(p);
    if (!arena) {
        no_memory(log, largest_record(p, log, -1));
    } else if (bind_buffers(p, log, p->bound, arena) < 0) {
        give_arena(p, arena);
        arena = NULL;
    }
    return arena;
}

char *plan_take_memory(plan *p, const op_log *log)
{
    error_mute(true);
    char *arena = take_memory(p, log);
    error_mute(false);
    return arena;
}

void plan_give_memory(plan *p, char *arena)
{
    release_results(p, p->bound);
    give_arena(p, arena);
}

/* The leaves that were not there yet, and what has been done without them. */
static void go_on_from(const plan *p, const op_log *log, int next)
{
    bind_leaves(p, log, p->bound);
    for (int i = 0; i < next; i++)
        counts.instructions[p->code[i].kind]++;
}

int plan_begin(plan *p, op_log *log)
{
    plan_progress progress = { .plan = p };
    int factors = 0;
    if (ahead_take(p, &progress, &factors))
        go_on_from(p, log, progress.next);
    else
        progress.arena = take_memory(p, log);
    if (!progress.arena)
        return -1;
    for (; factors < p->factor_count; factors++)
        plan_bind_factor(p, factors);
    p->begun = true;
    log->progress = progress;
    return 0;
}

int plan_go_on(op_log *log)
{
    plan_progress *progress = &log->progress;
    plan *p = progress->plan;
    atomic_store_explicit(&interrupted, false, memory_order_relaxed);
    if (run_code(log, progress) < 0)
        return -1;
    give_results(p, log, p->bound);
    give_arena(p, progress->arena);
    p->begun = false;
    progress->plan = NULL;
    return 0;
}
