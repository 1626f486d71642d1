/* asks.c: what the steps of a region will need from far away, so that it is asked for some steps before.
 *
 * A core's rows of a step are a few cache lines, and those of the next step lie behind the other cores' rows: nothing
 * tells the hardware. What was written in another pass, or by another core, comes from a cache far away or from memory:
 * a step of 16 rows of 64 that wrote its outputs over lines of the other core's took half as long again.
 *
 * Asked for are rows that the region reads and does not write, and rows that it writes and others read later. What only
 * lives within it is near anyway, and where a step has many rows the hardware finds them.
 *
 * They are looked for when a plan runs for the second time: many run only once. Without memory nothing is asked for. */
#include "graph/builder.h"

#include "core/memory.h"

enum { MOST_BYTES = 1 << 14 }; /* of a step's rows */

typedef struct finder {
    const plan *plan;
    plan_region *region;
    int32_t number;   /* of the region, from 1 on */
    int32_t *written; /* per buffer: the last region that writes to it */
    int32_t *own;     /* per buffer: the region that has it for itself */
    int capacity;     /* of the region's asks */
} finder;

static bool grow(finder *f)
{
    const int capacity = f->capacity ? f->capacity * 2 : 64;
    plan_ask *grown = mem_try((size_t)capacity * sizeof *grown);
    if (!grown)
        return false;
    if (f->region->ask_count)
        memcpy(grown, f->region->asks, (size_t)f->region->ask_count * sizeof *grown);
    mem_free(f->region->asks);
    f->region->asks = grown;
    f->capacity = capacity;
    return true;
}

typedef bool (*visitor)(finder *f, int32_t at, const plan_view *v, bool writes);

static bool note_write(finder *f, int32_t at, const plan_view *v, bool writes)
{
    (void)at;
    if (writes)
        f->written[v->buffer] = f->number;
    return true;
}

static bool add_ask(finder *f, int32_t at, const plan_view *v, bool writes)
{
    plan_region *r = f->region;
    if ((writes ? f->own : f->written)[v->buffer] == f->number)
        return true; /* it is near */
    const row_shape s = view_rows(v);
    if (s.rows != r->rows || s.step < s.width || s.rows * s.step > MOST_BYTES)
        return true;
    const plan_ask ask = { .code = at,
                           .buffer = v->buffer,
                           .at = v->offset * (int64_t)dtype_size(v->dtype),
                           .step = (int32_t)s.step,
                           .width = (int32_t)s.width,
                           .writes = writes };
    const plan_ask *last = r->ask_count ? &r->asks[r->ask_count - 1] : NULL;
    if (last && last->code == at && last->buffer == ask.buffer && last->at == ask.at)
        return true; /* a product, and what is computed from it in its place */
    if (r->ask_count == f->capacity && !grow(f))
        return false;
    r->asks[r->ask_count++] = ask;
    return true;
}

static bool visit_ports(finder *f, int32_t at, const plan_program *q, visitor visit)
{
    for (int i = 0; q && i < q->program->ports; i++)
        if (q->ports[i].buffer >= 0 && !visit(f, at, &q->ports[i], q->program->port[i].writes))
            return false;
    return true;
}

/* Sums ask for themselves (gemm_micro.h), and factors are the same in every step. */
static bool visit_views(finder *f, int32_t at, visitor visit)
{
    const instruction *in = &f->plan->code[at];
    if (in->kind == DO_COPY)
        return visit(f, at, &in->copy.from, false) && visit(f, at, &in->copy.to, true);
    if (in->kind == DO_KERNEL && !(visit(f, at, &in->kernel.in[0], false) && visit(f, at, &in->kernel.out, true) &&
                                   (in->kernel.addend.buffer < 0 || visit(f, at, &in->kernel.addend, false))))
        return false;
    return visit_ports(f, at, plan_program_of(in), visit);
}

static bool find_in(finder *f, plan_region *r)
{
    f->region = r;
    f->capacity = 0;
    for (int32_t i = 0; i < r->own_count; i++)
        f->own[r->own[i].buffer] = f->number;
    for (int32_t i = r->first; i < r->end; i++)
        visit_views(f, i, note_write);
    for (int32_t i = r->first; i < r->end; i++)
        if (!visit_views(f, i, add_ask))
            return false;
    return true;
}

void plan_find_asks(plan *p)
{
    const size_t bytes = (size_t)p->buffer_count * 2 * sizeof(int32_t);
    p->asks = true;
    if (!(rewrites_done & REWRITE_asks) || !p->region_count)
        return;
    finder f = { .plan = p, .written = mem_try(bytes) };
    if (!f.written)
        return;
    memset(f.written, 0, bytes);
    f.own = f.written + p->buffer_count;
    bool good = true;
    for (int i = 0; good && i < p->region_count; i++) {
        f.number = i + 1;
        if (p->regions[i].rows && !p->regions[i].width)
            good = find_in(&f, &p->regions[i]);
    }
    mem_free(f.written);
}
