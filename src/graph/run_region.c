/* run_region.c: running a region, each core its rows from the first instruction to the last.
 *
 * A product's element is the same sum whatever rows are computed with it, and elementwise steps know no rows, so the
 * split changes nothing. Factors are packed before, once for all. */
#include "graph/run.h"

#include <stdatomic.h>
#include <string.h>

#include "core/threads.h"
#include "cpu/gemm.h"
#include "cpu/move.h"

typedef struct region_run {
    const plan *plan;
    const plan_region *region;
    int32_t first; /* the instruction to begin with */
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

static int run_rows(const region_run *r, const instruction *in, int64_t begin, int64_t end)
{
    int64_t rows = r->region->rows;
    if (in->kind == DO_COPY) {
        run_copy_rows(in, r->bound, begin, end);
    } else if (in->kind == DO_PROGRAM) {
        run_program_rows(&in->elementwise, r->bound, rows, begin, end);
    } else {
        if (run_product_rows(in, r->bound, begin, end) < 0)
            return -1;
        if (in->kernel.epilogue.program)
            run_program_rows(&in->kernel.epilogue, r->bound, rows, begin, end);
    }
    return 0;
}

static void run_parts(void *arg, int64_t begin, int64_t end)
{
    region_run *r = arg;
    int64_t rows = r->region->rows, first = rows * begin / r->parts, last = rows * end / r->parts;
    for (int32_t i = r->first; i < r->region->end; i++)
        if (run_rows(r, &r->plan->code[i], first, last) < 0) {
            atomic_store(&r->failed, true);
            return;
        }
}

static void pack_factors(const region_run *r)
{
    for (int32_t i = r->first; i < r->region->end; i++) {
        const instruction *in = &r->plan->code[i];
        if (in->kind == DO_KERNEL && packs_factor(in, r->bound))
            pack_factor(in, r->bound);
    }
}

int run_alone(const plan *p, const plan_region *region, int32_t i, const binding *bound)
{
    const instruction *in = &p->code[i];
    const region_run r = { .plan = p, .region = region, .bound = bound };
    if (!region || !region->rows)
        return run_instruction(in, bound);
    if (in->kind == DO_KERNEL && packs_factor(in, bound))
        pack_factor(in, bound);
    return run_rows(&r, in, 0, region->rows);
}

int run_region(const plan *p, const plan_region *region, int32_t first, const binding *bound)
{
    region_run r = { .plan = p, .region = region, .first = first, .bound = bound };
    r.parts = bk_get_num_threads() < region->rows ? bk_get_num_threads() : region->rows;
    pack_factors(&r);
    threads_for(r.parts, 1, region->work_ns, run_parts, &r);
    return atomic_load(&r.failed) ? -1 : 0;
}
