/* asks.c: what the steps of a region will need from far away, so that it is asked for some steps before.
 *
 * A core's rows of a step are a few cache lines, and those of the next step lie behind the other cores' rows: nothing
 * tells the hardware. What was written in another pass, or by another core, comes from a cache far away or from memory:
 * a step of 16 rows of 64 that wrote its outputs over lines of the other core's took half as long again.
 *
 * Asked for are rows that the region reads and does not write, and rows that it writes and others read later. What only
 * lives within it is near anyway, and where a step has many rows the hardware finds them. */
#include "graph/builder.h"

#include "core/memory.h"
#include "graph/desk.h"
#include "graph/kernels.h"

enum { MOST_BYTES = 1 << 14 }; /* of a step's rows */

typedef struct finder {
    const planner *p;
    const plan *made;
    plan_region *region;
    plan_ask *asks;
    int count, capacity;
} finder;

static bool grow(finder *f)
{
    const int capacity = f->capacity ? f->capacity * 2 : 64;
    plan_ask *grown = desk_grow(f->asks, (size_t)f->capacity * sizeof *grown, (size_t)capacity * sizeof *grown);
    if (!grown)
        return false;
    f->asks = grown;
    f->capacity = capacity;
    return true;
}

static bool add_ask(finder *f, int32_t at, const plan_view *v, bool writes)
{
    const draft_buffer *b = &f->p->buffers[v->buffer];
    if (writes ? b->own : b->written_in == f->region->first)
        return true; /* it is near */
    const row_shape s = view_rows(v);
    if (s.rows != f->region->rows || s.step < s.width || s.rows * s.step > MOST_BYTES)
        return true;
    const plan_ask ask = { .code = at,
                           .buffer = v->buffer,
                           .at = v->offset * (int64_t)dtype_size(v->dtype),
                           .step = (int32_t)s.step,
                           .width = (int32_t)s.width,
                           .writes = writes };
    const plan_ask *last = f->count ? &f->asks[f->count - 1] : NULL;
    if (last && last->code == at && last->buffer == ask.buffer && last->at == ask.at)
        return true; /* a product, and what is computed from it in its place */
    if (f->count == f->capacity && !grow(f))
        return false;
    f->asks[f->count++] = ask;
    return true;
}

static bool ask_for_ports(finder *f, int32_t at, const plan_program *q)
{
    for (int i = 0; q && i < q->program->ports; i++)
        if (q->ports[i].buffer >= 0 && !add_ask(f, at, &q->ports[i], q->program->port[i].writes))
            return false;
    return true;
}

/* Sums ask for themselves (gemm_micro.h), and factors are the same in every step. */
static bool ask_for_views(finder *f, int32_t at)
{
    const instruction *in = &f->made->code[at];
    if (in->kind == DO_COPY)
        return add_ask(f, at, &in->copy.from, false) && add_ask(f, at, &in->copy.to, true);
    if (in->kind == DO_KERNEL && !(add_ask(f, at, &in->kernel.in[0], false) && add_ask(f, at, &in->kernel.out, true) &&
                                   (in->kernel.addend.buffer < 0 || add_ask(f, at, &in->kernel.addend, false))))
        return false;
    return ask_for_ports(f, at, plan_program_of(in));
}

static bool find_in(finder *f, plan_region *r)
{
    f->region = r;
    f->count = 0;
    for (int32_t i = r->first; i < r->end; i++)
        if (!ask_for_views(f, i))
            return false;
    if (!f->count)
        return true;
    r->asks = mem_alloc((size_t)f->count * sizeof *r->asks);
    if (!r->asks)
        return false;
    memcpy(r->asks, f->asks, (size_t)f->count * sizeof *r->asks);
    r->ask_count = f->count;
    return true;
}

bool find_asks(const planner *p, plan *made)
{
    finder f = { .p = p, .made = made };
    bool good = true;
    for (int i = 0; good && rewrites_done & REWRITE_asks && i < made->region_count; i++)
        if (made->regions[i].rows && !made->regions[i].width)
            good = find_in(&f, &made->regions[i]);
    return good;
}
