/* run_region.c: running a region, each core its rows from the first instruction to the last.
 *
 * A product's element is the same sum whatever rows are computed with it, and elementwise steps know no rows, so the
 * split changes nothing. Factors are packed before, once for all.
 *
 * What only lives within the region (plan_region.own) each core but the first has in memory of its own. It touches no
 * other rows than its own there, so that it makes no difference where they are. */
#include "graph/run.h"

#include <stdatomic.h>
#include <string.h>

#include "core/threads.h"
#include "cpu/gemm.h"
#include "cpu/move.h"
#include "graph/arena.h"

typedef struct region_run {
    const plan *plan;
    const plan_region *region;
    int32_t first, end; /* instructions */
    binding **own;      /* per part: bindings of its own, and memory behind them; or NULL */
    const binding *bound;
    int64_t parts;
    atomic_bool failed;
} region_run;

void pack_factor(const instruction *in, const binding *bound)
{
    gemm_task t;
    product_task(&t, in, bound);
    gemm_pack(t.dtype, t.k, t.n, t.b, t.b_row, t.b_col, bound[in->kernel.packed].base);
}

static int run_product_rows(const instruction *in, const binding *bound, int64_t begin, int64_t end)
{
    gemm_task task;
    rows_task(&task, in, bound, begin, end);
    if (!gemm_has_few_rows(&task))
        return gemm_run(&task);
    gemm_run_columns(&task, 0, task.n, task.n);
    return 0;
}

static void run_program_rows(const plan_program *q, const binding *bound, int64_t rows, int64_t begin, int64_t end)
{
    char *bases[q->program->ports];
    bind_ports(q, bound, bases);
    int64_t width = q->program->numel / rows;
    program_run_range(q->program, bases, begin * width, end * width);
}

/* The rows of a view: its first dimension that is not of size 1. */
static void rows_of(view *to, const plan_view *v, const binding *bound, int64_t begin, int64_t end)
{
    int d = 0;
    layout_view(to, v->layout, v->dtype, address(bound, v));
    while (to->sizes[d] == 1)
        d++;
    to->sizes[d] = end - begin;
    to->data += begin * to->strides[d] * (int64_t)dtype_size(v->dtype);
}

static void run_copy_rows(const instruction *in, const binding *bound, int64_t begin, int64_t end)
{
    view to, from;
    rows_of(&to, &in->copy.to, bound, begin, end);
    if (in->copy.from.layout->plain == in->copy.to.layout->plain) {
        rows_of(&from, &in->copy.from, bound, begin, end);
        move_copy(&to, &from);
    } else {
        move_fill(&to, address(bound, &in->copy.from));
    }
}

/* A product of few rows: what it takes to run it should not cost more than the product. */
bool is_small_product(const instruction *in)
{
    const layout *c = in->kernel.out.layout;
    const ew_program *tail = in->kernel.epilogue.program;
    return in->op == OP_matmul && c->ndim == 2 && c->sizes[0] <= 4 && c->sizes[1] > 1 &&
           (!tail || tail->work_ns < 20e3);
}

int run_small_product(const instruction *in, const binding *bound)
{
    enum { SHORT = 1 << 16 }; /* elements of a factor that one thread reads in the time that it takes to call others */
    int64_t rows = in->kernel.out.layout->sizes[0];
    if (packs_factor(in, bound))
        pack_factor(in, bound);
    gemm_task task;
    product_task(&task, in, bound);
    if (gemm_has_few_rows(&task) && in->kernel.in[1].layout->numel <= SHORT)
        gemm_run_columns(&task, 0, task.n, task.n);
    else if (gemm_run(&task) < 0)
        return -1;
    if (in->kernel.epilogue.program && rows)
        run_program_rows(&in->kernel.epilogue, bound, rows, 0, rows);
    return 0;
}

/* What a kernel of rows reads: as many rows, or one number for all of them. */
static void operand_of(view *to, const plan_view *v, const binding *bound, int64_t begin, int64_t end)
{
    if (v->layout->numel == 1)
        layout_view(to, v->layout, v->dtype, address(bound, v));
    else
        rows_of(to, v, bound, begin, end);
}

/* A norm, a softmax, a sum or an element of each row: what they need is there, so that it takes no memory. */
static void run_kernel_rows(const instruction *in, const binding *bound, int64_t begin, int64_t end)
{
    kernel_call call;
    call_begin(&call, in, &in->kernel.attr);
    for (int k = 0; k < call.inputs; k++)
        operand_of(&call.in[k], &in->kernel.in[k], bound, begin, end);
    rows_of(&call.out, &in->kernel.out, bound, begin, end);
    op_get(in->op)->run(&call);
}

static int run_rows(const region_run *r, const instruction *in, const binding *bound, int64_t begin, int64_t end)
{
    int64_t rows = r->region->rows;
    if (in->kind == DO_COPY) {
        run_copy_rows(in, bound, begin, end);
    } else if (in->kind == DO_PROGRAM) {
        run_program_rows(&in->elementwise, bound, rows, begin, end);
    } else if (in->kind == DO_SUM) {
        share_run(in, bound, rows, begin, end);
    } else if (in->op != OP_matmul) {
        run_kernel_rows(in, bound, begin, end);
    } else {
        if (run_product_rows(in, bound, begin, end) < 0)
            return -1;
        if (in->kernel.epilogue.program)
            run_program_rows(&in->kernel.epilogue, bound, rows, begin, end);
    }
    return 0;
}

/* Where the rows of a part begin: sums by rows know groups of them. */
static int64_t part_row(const region_run *r, int64_t part)
{
    const int64_t rows = r->region->rows;
    return r->region->sums && r->parts <= SUM_GROUPS ? SUM_GROUPS * part / r->parts * (rows / SUM_GROUPS)
                                                     : rows * part / r->parts;
}

static void run_part(region_run *r, const binding *bound, int64_t begin, int64_t end)
{
    int32_t asked = first_ask(r->region, r->first);
    for (int32_t i = r->first; i < r->end; i++) {
        ask_before(r->region, bound, i + ASKS_AHEAD, &asked, begin, end);
        if (run_rows(r, &r->plan->code[i], bound, begin, end) < 0) {
            atomic_store(&r->failed, true);
            return;
        }
    }
}

static size_t bindings_bytes(const plan *p) { return ((size_t)p->buffer_count * sizeof(binding) + 63) / 64 * 64; }

/* The plan's buffers with those that are the region's in memory behind `own`. What a worker has made that ran ahead is
 * taken along. */
static void bind_own(const region_run *r, binding *own)
{
    const plan *p = r->plan;
    const plan_region *region = r->region;
    char *memory = (char *)own + bindings_bytes(p);
    memcpy(own, r->bound, (size_t)p->buffer_count * sizeof *own);
    for (int32_t i = 0; i < region->own_count; i++) {
        const plan_own *o = &region->own[i];
        const plan_buffer *b = &p->buffers[o->buffer];
        own[o->buffer].base = memory + (b->at - region->own_at);
        if (o->first < r->first && o->last >= r->first)
            memcpy(own[o->buffer].base, r->bound[o->buffer].base, (size_t)b->bytes);
    }
}

static void run_parts(void *arg, int64_t begin, int64_t end)
{
    region_run *r = arg;
    binding *own = r->own[begin];
    if (own)
        bind_own(r, own);
    run_part(r, own ? own : r->bound, part_row(r, begin), part_row(r, end));
}

static void pack_factors(const region_run *r)
{
    for (int32_t i = r->first; i < r->end; i++) {
        const instruction *in = &r->plan->code[i];
        if (in->kind == DO_KERNEL && packs_factor(in, r->bound))
            pack_factor(in, r->bound);
    }
}

int32_t first_ask(const plan_region *region, int32_t code)
{
    int32_t low = 0, high = region->ask_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (region->asks[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int run_alone(const plan *p, const plan_region *region, int32_t i, const binding *bound)
{
    const instruction *in = &p->code[i];
    const region_run r = { .plan = p, .region = region, .bound = bound };
    if (!region || !region->rows)
        return run_instruction(in, bound);
    if (in->kind == DO_KERNEL && packs_factor(in, bound))
        pack_factor(in, bound);
    return run_rows(&r, in, bound, 0, region->rows);
}

enum { MOST_OWN_BYTES = 1 << 26 };

/* Own memory is taken here, not by each core: what a new thread takes from the system nobody has touched yet. */
static void run_together(region_run *r, int64_t parts, int32_t first, int32_t end)
{
    const plan_region *whole = r->region;
    const size_t bytes = bindings_bytes(r->plan) + (size_t)whole->own_bytes + 64; /* which may be read beyond its end */
    /* Nobody else goes on with what is made; and many cores do not take more than their caches hold. */
    const bool takes_own = whole->own_count && end == whole->end && (int64_t)bytes * (parts - 1) <= MOST_OWN_BYTES;
    binding *own[parts];
    r->own = own;
    r->parts = parts;
    r->first = first;
    r->end = end;
    for (int64_t part = 0; part < parts; part++)
        own[part] = part && takes_own ? (binding *)arena_more(bytes) : NULL;
    threads_for(parts, 1, whole->work_ns * (end - first) / (whole->end - whole->first), run_parts, r);
    for (int64_t part = parts - 1; part > 0; part--)
        if (own[part])
            arena_less((char *)own[part], bytes);
}

/* More cores than groups of rows: each sum is a loop of its own, and the others have the instructions in between. */
static void run_between_sums(region_run *r, int64_t parts)
{
    const instruction *code = r->plan->code;
    const int32_t end = r->end;
    for (int32_t at = r->first, next; at < end; at = next) {
        const bool sum = code[at].kind == DO_SUM;
        next = at + 1;
        while (next < end && !sum && code[next].kind != DO_SUM)
            next++;
        run_together(r, sum ? SUM_GROUPS : parts, at, next);
    }
}

int run_region(const plan *p, const plan_region *region, int32_t first, const binding *bound)
{
    region_run r = { .plan = p, .region = region, .first = first, .end = region->end, .bound = bound };
    const int64_t threads = bk_get_num_threads(), parts = threads < region->rows ? threads : region->rows;
    pack_factors(&r);
    if (region->sums && parts > SUM_GROUPS)
        run_between_sums(&r, parts);
    else
        run_together(&r, parts, first, region->end);
    for (int32_t i = first; region->sums && i < region->end; i++)
        if (p->code[i].kind == DO_SUM && p->code[i].sum.share.last)
            share_end(&p->code[i], bound);
    return atomic_load(&r.failed) ? -1 : 0;
}
