/* builder.c: from the planner's decisions to a plan that can be run and kept.
 *
 * Each elementwise group becomes a program: its members are steps, what they pass to each other stays in registers, and
 * a member whose value lives in memory writes its port directly. Narrow dtypes are kept in the registers of their
 * compute type, rounded or wrapped after every step, and converted at the ports.
 *
 * Invariant: a register is given back after its value's last use within the group, and taken by a value of the same
 * element size at the earliest in the step that reads it last. */
#include "graph/builder.h"

#include <string.h>

#include "core/memory.h"
#include "cpu/emit.h"
#include "graph/ahead.h"
#include "graph/desk.h"
#include "graph/kernels.h"
#include "graph/run.h"

/* While a program is being built, a place is a port (>= 0) or a register r as ~r. */
typedef struct assembly {
    planner *p;
    const draft *group;
    bool by_rows; /* it is run for ranges of rows */
    const ew_table *kernels;
    ew_step *steps;
    int step_count, step_capacity;
    plan_view *ports;
    bool *writes;
    int port_count, port_capacity;
    int32_t *place; /* per value: where it is now */
    int32_t *uses;  /* per value: reads by members still to come */
    int32_t *free;  /* registers */
    int free_count, free_capacity, registers;
    int32_t sink_port[REDUCE_SINKS]; /* of the group's sinks */
    program_table table;
} assembly;

static bool grow(void *array, int *capacity, size_t item)
{
    void **at = array;
    int wanted = *capacity ? *capacity * 2 : 32;
    void *grown = desk_grow(*at, item * (size_t)*capacity, item * (size_t)wanted);
    if (!grown)
        return false;
    *at = grown;
    *capacity = wanted;
    return true;
}

/* A place among the ports, to be filled in by the caller; INT32_MIN: out of memory. */
static int32_t new_port(assembly *a, bool writes)
{
    if (a->port_count == a->port_capacity) {
        int capacity = a->port_capacity;
        if (!grow(&a->writes, &capacity, sizeof *a->writes) || !grow(&a->ports, &a->port_capacity, sizeof *a->ports))
            return INT32_MIN;
    }
    a->writes[a->port_count] = writes;
    return a->port_count++;
}

static int32_t add_port(assembly *a, plan_view v, bool writes)
{
    const int32_t port = new_port(a, writes);
    if (port >= 0)
        a->ports[port] = v;
    return port;
}

/* The memory of a value: written where it is to stand, since a view that goes through the stack is read back there
 * before its parts have left the store buffer. */
static int32_t add_value_port(assembly *a, const value *x, bool writes)
{
    const int32_t port = new_port(a, writes);
    if (port >= 0) {
        plan_view *to = &a->ports[port];
        to->buffer = x->buffer;
        to->dtype = (bk_dtype)x->dtype;
        to->offset = x->offset;
        to->layout = x->layout;
    }
    return port;
}

static bool add_step(assembly *a, ew_step what, int32_t to, int32_t x, int32_t y, int32_t z)
{
    if (a->step_count == a->step_capacity && !grow(&a->steps, &a->step_capacity, sizeof *a->steps))
        return false;
    a->steps[a->step_count++] = ew_step_at(what, to, x, y, z);
    return true;
}

static int32_t take_register(assembly *a)
{
    if (a->free_count)
        return ~a->free[--a->free_count];
    if (a->registers == a->free_capacity && !grow(&a->free, &a->free_capacity, sizeof *a->free))
        return INT32_MIN; /* the free list can hold every register: giving one back never fails */
    return ~a->registers++;
}

static void give_register(assembly *a, int32_t place)
{
    if (place < 0)
        a->free[a->free_count++] = ~place;
}

static bk_dtype register_dtype(bk_dtype d) { return compute_dtype((compute_type)dtypes[d].compute); }

/* The value, which has no place yet, as a member reads it: in its compute type. */
static bool fetch(assembly *a, int32_t v)
{
    const value *x = &a->p->values[v];
    bk_dtype d = (bk_dtype)x->dtype, wide = register_dtype(d);
    int32_t port = add_value_port(a, x, false);
    if (port == INT32_MIN)
        return false;
    a->place[v] = port;
    if (d == wide)
        return true;
    int32_t reg = take_register(a);
    a->place[v] = reg;
    return reg != INT32_MIN && add_step(a, ew_step_cast(a->kernels, d, wide), reg, port, port, port);
}

static void drop(assembly *a, int32_t v)
{
    if (--a->uses[v] == 0)
        give_register(a, a->place[v]);
}

/* Whether values of these dtypes are in registers of the same size. */
static bool same_registers(uint8_t d, uint8_t e)
{
    return d == e || dtype_size(register_dtype((bk_dtype)d)) == dtype_size(register_dtype((bk_dtype)e));
}

/* Gives back the registers of inputs that end with record i: those of the size of its own, or all others. How many
 * there were of these. */
static int drop_inputs(assembly *a, int32_t i, bool same)
{
    const record_key *key = &a->p->key->record[i];
    int count = 0;
    for (int k = 0; k < key->inputs; k++) {
        int32_t v = input_of(a->p, i, k);
        if (same_registers(a->p->values[v].dtype, key->dtype) == same) {
            drop(a, v);
            count++;
        }
    }
    return count;
}

static ew_step step_for(const assembly *a, int32_t i)
{
    const record_key *key = &a->p->key->record[i];
    const value *first = &a->p->values[input_of(a->p, i, 0)];
    if (key->op == OP_cast)
        return ew_step_cast(a->kernels, register_dtype((bk_dtype)first->dtype), register_dtype((bk_dtype)key->dtype));
    int compute = dtypes[first->dtype].compute;
    if (ew_infos[key->op].rule == EW_SELECT)
        compute = dtypes[key->dtype].compute;
    return ew_step_op(a->kernels, key->op, compute);
}

/* The port is what the group's reductions of record i read. Without memory it is bound to a scratch, piece by piece. */
static void note_sinks(assembly *a, int32_t i, int32_t port)
{
    for (int s = 0; s < a->group->sink_count; s++)
        if (input_of(a->p, a->group->sinks[s], 0) == i)
            a->sink_port[s] = port;
}

/* The step of record i; its result lands in its port when it has memory of its compute type, else in a register. */
static bool add_member(assembly *a, int32_t i)
{
    const record_key *key = &a->p->key->record[i];
    const value *x = &a->p->values[i];
    bk_dtype d = (bk_dtype)key->dtype, wide = register_dtype(d);
    int32_t in[MAX_INPUTS] = { 0 };
    for (int k = 0; k < key->inputs; k++) {
        const int32_t v = input_of(a->p, i, k);
        if (a->place[v] == INT32_MAX && !fetch(a, v))
            return false;
        in[k] = a->place[v];
    }
    const int dropped = drop_inputs(a, i, true);
    int32_t port = x->buffer >= 0 || x->sunk ? add_value_port(a, x, true) : INT32_MAX;
    if (x->sunk)
        note_sinks(a, i, port);
    int32_t to = port != INT32_MAX && d == wide ? port : take_register(a);
    if (port == INT32_MIN || to == INT32_MIN || !add_step(a, step_for(a, i), to, in[0], in[1], in[2]))
        return false;
    if (dropped < key->inputs)
        drop_inputs(a, i, false);
    a->place[i] = to;
    if (d != wide) {
        if (!add_step(a, ew_step_round(a->kernels, d), to, to, to, to))
            return false;
        if (port != INT32_MAX && !add_step(a, ew_step_cast(a->kernels, wide, d), port, to, to, to))
            return false;
    }
    if (!a->uses[i])
        give_register(a, to);
    return true;
}

/* region += value, in the compute type. */
static bool add_accumulation(assembly *a)
{
    plan_view region = a->group->in[0], from = a->group->in[1];
    bk_dtype d = region.dtype, wide = register_dtype(d);
    int32_t x = add_port(a, region, false), y = add_port(a, from, false), out = add_port(a, region, true);
    if (x < 0 || y < 0 || out < 0)
        return false;
    ew_step add = ew_step_op(a->kernels, EW_add, dtypes[d].compute);
    if (d == wide)
        return add_step(a, add, out, x, y, 0);
    int32_t rx = take_register(a), ry = take_register(a);
    ew_step in = ew_step_cast(a->kernels, d, wide), back = ew_step_cast(a->kernels, wide, d);
    return rx != INT32_MIN && ry != INT32_MIN && add_step(a, in, rx, x, x, x) && add_step(a, in, ry, y, y, y) &&
           add_step(a, add, rx, rx, ry, 0) && add_step(a, back, out, rx, rx, rx);
}

static void count_uses(assembly *a)
{
    a->uses[a->group->record] = 0; /* a product is of its epilogue's group, but no member */
    for (int32_t i = a->group->first_member; i >= 0; i = a->p->next_member[i]) {
        a->uses[i] = 0;
        for (int k = 0; k < a->p->key->record[i].inputs; k++) {
            int32_t v = input_of(a->p, i, k);
            if (a->p->values[v].group != a->p->values[i].group)
                a->uses[v] = 0;
            a->place[v] = INT32_MAX;
        }
    }
    for (int32_t i = a->group->first_member; i >= 0; i = a->p->next_member[i])
        for (int k = 0; k < a->p->key->record[i].inputs; k++)
            a->uses[input_of(a->p, i, k)]++;
}

static bool assemble(assembly *a)
{
    int32_t first = a->group->first_member;
    if (a->p->key->record[first].op == OP_update)
        return add_accumulation(a);
    count_uses(a);
    for (int32_t i = first; i >= 0; i = a->p->next_member[i])
        if (!add_member(a, i))
            return false;
    return true;
}

static void build_sinks(const assembly *a, plan_program *out, plan_sink *sinks)
{
    const planner *p = a->p;
    out->sinks = sinks;
    out->sink_count = a->group->sink_count;
    for (int s = 0; s < a->group->sink_count; s++) {
        int32_t i = a->group->sinks[s];
        const attr *at = &p->key->record[i].attr;
        const value *x = &p->values[i];
        out->dims = (uint32_t)at->reduce.dims;
        sinks[s] = (plan_sink){ .kind = (reduce_kind)at->reduce.kind,
                                .mean = op_get(p->key->record[i].op)->run == run_mean,
                                .from = s,
                                .port = a->sink_port[s],
                                .out = { x->buffer, (bk_dtype)x->dtype, x->offset, x->layout } };
        for (int t = s - 1; t >= 0; t--)
            if (a->sink_port[t] == a->sink_port[s])
                sinks[s].from = t;
    }
}

static bool build_stream(plan_program *out)
{
    reduce_sink sinks[REDUCE_SINKS];
    for (int i = 0; i < out->sink_count; i++) {
        const plan_sink *s = &out->sinks[i];
        const plan_view *from = &out->ports[s->port];
        reduce_sink *sink = &sinks[i];
        view dst;
        layout_view(&dst, s->out.layout, s->out.dtype, NULL);
        layout_view(&sink->src, from->layout, from->dtype, NULL);
        kept_dims(&sink->dst, &dst, from->layout->ndim, out->dims);
        sink->kind = s->kind;
        sink->mean = s->mean;
        sink->from = s->from;
    }
    out->stream = out->sink_count ? reduce_stream_new(sinks, out->sink_count, out->dims) : NULL;
    return out->stream || !out->sink_count;
}

static bool finish(assembly *a, plan *made, plan_program *out)
{
    size_t sinks = (size_t)a->group->sink_count;
    plan_view *bound = plan_views(made, a->port_count);
    const program_text text = { .plain = a->group->plain,
                                .ports = a->ports, /* a copy that was just made cannot be read before it is in cache */
                                .writes = a->writes,
                                .steps = a->steps,
                                .port_count = a->port_count,
                                .step_count = a->step_count,
                                .registers = a->registers,
                                .by_rows = a->by_rows,
                                .leader = sinks ? a->sink_port[0] : -1 };
    plan_sink *reduced = sinks ? mem_alloc(sinks * sizeof *reduced) : NULL;
    if (!bound || (sinks && !reduced)) {
        mem_free(reduced);
        return false;
    }
    memcpy(bound, a->ports, (size_t)a->port_count * sizeof *bound);
    const int programs = made->program_count;
    const ew_program *q = program_for(&a->table, made, &text);
    if (!q) {
        mem_free(reduced);
        return false;
    }
    if (made->program_count == programs)
        note(a->p, FACT_ALIKE, a->group->record);
    out->program = q;
    out->ports = bound;
    build_sinks(a, out, reduced);
    if (build_stream(out))
        return true;
    mem_free(reduced);
    out->sinks = NULL;
    return false;
}

static bool repeats_one(const layout *l)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->sizes[d] != 1 && l->strides[d])
            return false;
    return true;
}

/* A group that is one copy of memory, no fill, is left to the copying kernels, which know how to transpose. */
static bool build_copy(const planner *p, const draft *d, instruction *out)
{
    int32_t i = d->first_member;
    if (d->members != 1 || d->sink_count || p->key->record[i].op != OP_cast || p->values[i].buffer < 0)
        return false;
    const value *to = &p->values[i], *from = &p->values[input_of(p, i, 0)];
    if (from->layout->plain != to->layout->plain || repeats_one(from->layout))
        return false;
    out->kind = DO_COPY;
    out->copy.to = (plan_view){ to->buffer, (bk_dtype)to->dtype, to->offset, to->layout };
    out->copy.from = (plan_view){ from->buffer, (bk_dtype)from->dtype, from->offset, from->layout };
    return true;
}

/* --- what a product's kernel adds --------------------------------------------------------------------------------- */

/* Whether the kernel can add value v: memory of the product's dtype whose columns are contiguous, a row or a matrix. */
static bool is_addend(const planner *p, const draft *d, int32_t v, int64_t *row)
{
    const value *x = &p->values[v];
    if (v == d->record || x->buffer < 0 || x->group == p->values[d->record].group || x->dtype != d->out.dtype)
        return false;
    view rows;
    port_view(&rows, (bk_dtype)x->dtype, x->layout, d->plain);
    *row = rows.strides[0];
    return rows.strides[1] == 1 && (d->out.dtype == BK_FLOAT32 || d->out.dtype == BK_FLOAT64);
}

/* Whether the sum can stand where member i of the epilogue has its memory; without memory, in place of the product. The
 * kernel writes it before any member runs, so only the first may have taken over memory that members read. */
static bool may_stand(const planner *p, const draft *d, int32_t i, int32_t addend)
{
    const value *sum = &p->values[i];
    if (sum->buffer >= 0 && sum->buffer != d->out.buffer)
        return i == d->first_member && sum->layout->ndim == 2 && sum->layout->strides[1] == 1 &&
               sum->buffer != p->values[addend].buffer;
    for (int32_t k = d->first_member; k >= 0; k = p->next_member[k])
        if (k != i && p->values[k].buffer == d->out.buffer && sum->last_use > k) /* it is read after k is written */
            return false;
    return true;
}

/* The member of the epilogue that only adds something to the product becomes part of the product: its kernel adds a row
 * of biases, or a matrix, as it stores its sums, and the other members find them in memory. */
static void take_addend(planner *p, draft *d, instruction *out)
{
    const layout *c = d->out.layout;
    if (!(rewrites_done & REWRITE_addends) || p->uses[d->record] != 1 || c->ndim != 2 || c->sizes[1] < 2 ||
        c->strides[1] != 1 || d->in[1].layout->sizes[0] < 1 || d->plain->plain != c->plain)
        return;
    int32_t *link = &d->first_member, i, before = -1;
    for (; (i = *link) >= 0; before = i, link = &p->next_member[i])
        if (input_of(p, i, 0) == d->record || (p->key->record[i].inputs > 1 && input_of(p, i, 1) == d->record))
            break;
    if (i < 0 || p->key->record[i].op != EW_add || p->key->record[i].dtype != d->out.dtype)
        return;
    const int32_t addend = input_of(p, i, input_of(p, i, 0) == d->record);
    int64_t row;
    if (!is_addend(p, d, addend, &row) || !may_stand(p, d, i, addend))
        return;
    value *sum = &p->values[i];
    if (sum->buffer < 0) {
        sum->buffer = d->out.buffer;
        sum->offset = d->out.offset;
        sum->layout = d->out.layout;
    }
    sum->group = -1; /* the others read it as memory */
    *link = p->next_member[i];
    if (d->last_member == i)
        d->last_member = before;
    d->members--;
    out->kernel.out = view_of(p, i);
    out->kernel.addend = view_of(p, addend);
    out->kernel.addend_row = row;
    note(p, FACT_ADDEND, i);
}

static bool build_program(assembly *a, const draft *d, plan *made, plan_program *out)
{
    a->group = d;
    a->step_count = a->port_count = a->free_count = a->registers = 0;
    return assemble(a) && finish(a, made, out);
}

static void build_kernel(const planner *p, const draft *d, instruction *out)
{
    const record_key *key = &p->key->record[d->record];
    out->kernel.out = d->out;
    out->kernel.second = d->second;
    out->kernel.has_second = d->has_second;
    out->kernel.inputs = key->inputs;
    out->kernel.attr = key->attr;
    out->kernel.packed = d->packed;
    out->kernel.packs = d->packs;
    out->kernel.loose = d->loose;
    out->kernel.keeps = d->keeps;
    out->kernel.addend = (plan_view){ .buffer = -1 };
    out->kernel.addend_row = 0;
    memcpy(out->kernel.in, d->in, sizeof d->in);
}

static bool build_sum(const planner *p, const draft *d, plan *made, instruction *out)
{
    const sum_part *s = &p->sums[d->record];
    int per_term = p->key->record[s->terms].inputs, count = 0;
    for (int32_t t = s->terms; t >= 0; t = p->sums[t].terms)
        count++;
    plan_view *terms = plan_views(made, count * per_term);
    if (!terms)
        return false;
    out->sum.out = d->out;
    out->sum.terms = terms;
    out->sum.count = count;
    out->sum.products = per_term == 2;
    out->sum.begins = s->first;
    out->sum.scratch = d->scratch;
    out->sum.table = d->table;
    out->sum.share = d->share;
    for (int32_t t = s->terms; t >= 0; t = p->sums[t].terms)
        for (int k = 0; k < per_term; k++, terms++) {
            *terms = view_of(p, input_of(p, t, k));
            bool turned = per_term == 2 && p->key->record[t].attr.product.turned >> k & 1;
            if (turned && !(terms->layout = layout_turned(terms->layout)))
                return false;
        }
    return true;
}

static bool build_code(planner *p, plan *made)
{
    assembly a = { .p = p, .kernels = ew_kernels() };
    size_t values = (size_t)(p->key->records + p->key->leaves);
    a.place = desk_take(values * sizeof *a.place);
    a.uses = desk_take(values * sizeof *a.uses);
    bool good = a.place && a.uses;
    const plan_region *next = p->regions, *end = next + p->region_count;
    for (int i = 0; good && i < p->draft_count; i++) {
        draft *d = &p->drafts[i];
        while (next < end && next->end <= i)
            next++;
        a.by_rows = d->kind == DO_KERNEL || (next < end && next->first <= i);
        instruction *out = &made->code[i];
        out->kind = d->kind;
        out->record = origin_of(p, d->record);
        out->op = p->key->record[d->record].op;
        if (d->kind == DO_PROGRAM && build_copy(p, d, out)) {
            good = true;
        } else if (d->kind == DO_PROGRAM) {
            good = build_program(&a, d, made, &out->elementwise);
        } else if (d->kind == DO_COPY) {
            out->copy.to = d->copy.to;
            out->copy.from = d->copy.from;
        } else if (d->kind == DO_SUM) {
            good = build_sum(p, d, made, out);
        } else {
            build_kernel(p, d, out);
            if (d->members)
                take_addend(p, d, out);
            if (d->members)
                good = build_program(&a, d, made, &out->kernel.epilogue);
        }
        made->code_count += good;
    }
    return good;
}

/* --- memory --------------------------------------------------------------------------------------------------------
 */

/* Temporaries share one arena: places are reused by size class as soon as their last reader has run. */
enum { SIZE_CLASSES = 64 * 4 };

static int size_class(int64_t bytes, int64_t *rounded)
{
    int64_t n = bytes < 256 ? 256 : bytes;
    int power = 63 - __builtin_clzll((unsigned long long)n);
    int64_t quarter = (int64_t)1 << (power - 2);
    int64_t steps = (n - ((int64_t)1 << power) + quarter - 1) / quarter;
    *rounded = ((int64_t)1 << power) + steps * quarter;
    return power * 4 + (int)steps < SIZE_CLASSES ? power * 4 + (int)steps : SIZE_CLASSES - 1;
}

/* Free places by size class, as lists of the buffers that had them. What ends within a region is not free for everyone:
 * another core may still be at it. Those whose rows lie alike may have it, the others when the region is over. */
typedef struct places {
    int32_t free[SIZE_CLASSES];
    int32_t rows[SIZE_CLASSES];
    int32_t *next; /* per buffer */
    int32_t held;  /* what is free after the region, a list */
} places;

static int32_t take_place(const planner *p, places *s, int32_t b, int class, bool in_region)
{
    int32_t *list = &s->free[class];
    int32_t rows = s->rows[class];
    if (in_region && rows >= 0 && p->buffers[b].first_step && p->buffers[rows].last_step == p->buffers[b].first_step)
        list = &s->rows[class];
    int32_t had = *list;
    if (had >= 0)
        *list = s->next[had];
    return had;
}

static void give_place(const planner *p, places *s, int32_t b, int class, bool in_region)
{
    int32_t *list = &s->free[class];
    if (in_region)
        list = p->buffers[b].last_step ? &s->rows[class] : &s->held;
    s->next[b] = *list;
    *list = b;
}

static void end_region(const planner *p, places *s)
{
    int64_t rounded;
    for (int c = 0; c < SIZE_CLASSES; c++)
        for (int32_t b = s->rows[c], next; b >= 0; b = next) {
            next = s->next[b];
            give_place(p, s, b, c, false);
        }
    for (int32_t b = s->held, next; b >= 0; b = next) {
        next = s->next[b];
        give_place(p, s, b, size_class(p->buffers[b].bytes, &rounded), false);
    }
    memset(s->rows, -1, sizeof s->rows);
    s->held = -1;
}

/* Lists of buffers by the instruction that touches them first and last, linked through two arrays. */
static bool place_temporaries(const planner *p, plan *made)
{
    size_t code = (size_t)p->draft_count + 1, buffers = (size_t)p->buffer_count + 1;
    int32_t *starts = desk_take((code * 2 + buffers * 3) * sizeof *starts);
    if (!starts)
        return false;
    int32_t *ends = starts + code, *next_start = ends + code, *next_end = next_start + buffers;
    places s = { .next = next_end + buffers, .held = -1 };
    memset(starts, -1, code * 2 * sizeof *starts);
    memset(s.free, -1, sizeof s.free);
    memset(s.rows, -1, sizeof s.rows);
    for (int32_t b = 0; b < p->buffer_count; b++) {
        const draft_buffer *d = &p->buffers[b];
        if (d->kind != BUFFER_TEMPORARY || d->last < 0)
            continue;
        next_start[b] = starts[d->first];
        starts[d->first] = b;
        next_end[b] = ends[d->last];
        ends[d->last] = b;
    }
    const plan_region *region = p->regions, *last = region + p->region_count;
    for (int i = 0; i < p->draft_count; i++) {
        if (region < last && region->end == i) {
            end_region(p, &s);
            region++;
        }
        bool in_region = region < last && region->first <= i;
        int64_t rounded;
        for (int32_t b = starts[i]; b >= 0; b = next_start[b]) {
            int32_t had = take_place(p, &s, b, size_class(p->buffers[b].bytes, &rounded), in_region);
            made->buffers[b].at = had >= 0 ? made->buffers[had].at : made->arena_bytes;
            made->arena_bytes += had >= 0 ? 0 : rounded;
        }
        for (int32_t b = ends[i]; b >= 0; b = next_end[b])
            give_place(p, &s, b, size_class(p->buffers[b].bytes, &rounded), in_region);
    }
    return true;
}

static bool build_buffers(const planner *p, plan *made)
{
    for (int b = 0; b < p->buffer_count; b++)
        made->buffers[b] =
            (plan_buffer){ .kind = p->buffers[b].kind, .leaf = p->buffers[b].leaf, .bytes = p->buffers[b].bytes };
    made->buffer_count = p->buffer_count;
    return place_temporaries(p, made);
}

static bool copy_key(plan *made, const plan_key *key)
{
    size_t records = (size_t)key->records, leaves = (size_t)key->leaves;
    made->key = (plan_key){
        .recorded = key->recorded, .rewrites = key->rewrites, .records = key->records, .leaves = key->leaves
    };
    made->text = key_text_new(key->record, key->records);
    made->key.bits = mem_alloc(records + 1);
    made->key.leaf = mem_alloc(leaves * sizeof(leaf_key) + 1);
    if (!made->text || !made->key.bits || !made->key.leaf)
        return false;
    memcpy(made->key.bits, key->bits, records);
    memcpy(made->key.leaf, key->leaf, leaves * sizeof(leaf_key));
    return true;
}

static bool list_factors(plan *made)
{
    int count = 0;
    for (int32_t i = 0; i < made->code_count; i++)
        count += made->code[i].kind == DO_KERNEL && made->code[i].kernel.keeps;
    made->factors = mem_alloc((size_t)count * sizeof *made->factors + 1);
    for (int32_t i = 0; made->factors && i < made->code_count; i++)
        if (made->code[i].kind == DO_KERNEL && made->code[i].kernel.keeps)
            made->factors[made->factor_count++] = (plan_factor){ i, made->code[i].kernel.packed };
    return made->factors;
}

static bool list_kept(const planner *p, plan *made)
{
    int count = 0;
    for (int i = 0; i < p->key->records; i++)
        count += (p->key->bits[i] & RECORD_KEPT) != 0;
    made->kept = mem_alloc((size_t)count * sizeof *made->kept + 1);
    for (int i = 0; made->kept && i < p->key->records; i++)
        if (p->key->bits[i] & RECORD_KEPT) {
            const int32_t v = p->same[i], own = v < p->key->records ? p->homes[v].kept : 0;
            const value *x = &p->values[v];
            made->kept[made->kept_count++] =
                (kept_value){ origin_of(p, i), own ? own - 1 : x->buffer, own ? 0 : x->offset };
        }
    return made->kept != NULL;
}

static int64_t size_of(const plan *made)
{
    int64_t bytes = (int64_t)sizeof *made + key_text_bytes(made->text) + made->key.records +
                    made->kept_count * (int64_t)sizeof(kept_value) + made->key.leaves * (int64_t)sizeof(leaf_key) +
                    made->code_count * (int64_t)sizeof(instruction) +
                    made->buffer_count * (int64_t)(sizeof(plan_buffer) + sizeof(binding)) +
                    made->region_count * (int64_t)sizeof(plan_region) +
                    made->factor_count * (int64_t)sizeof(plan_factor);
    for (int i = 0; i < made->region_count; i++)
        bytes += made->regions[i].local_count * (int64_t)sizeof(plan_local) +
                 made->regions[i].own_count * (int64_t)sizeof(plan_own) +
                 (made->regions[i].end - made->regions[i].first) * (int64_t)sizeof(plan_ask); /* there may be so many */
    for (int i = 0; i < made->code_count; i++) {
        const plan_program *q = plan_program_of(&made->code[i]);
        if (q && q->sink_count)
            bytes += q->sink_count * (int64_t)sizeof(plan_sink) + (int64_t)reduce_stream_bytes(q->sink_count);
    }
    for (int i = 0; i < made->program_count; i++) {
        const ew_program *q = made->programs[i].program;
        bytes += (int64_t)sizeof *q + q->ports * (int64_t)sizeof(ew_port) + q->steps * (int64_t)sizeof(ew_step);
    }
    for (const view_block *b = made->views; b; b = b->next)
        bytes += (int64_t)sizeof *b + b->capacity * (int64_t)sizeof(plan_view);
    return bytes;
}

plan *plan_build(planner *p)
{
    plan *made = mem_alloc_zero(sizeof *made);
    if (!made)
        return NULL;
    made->code = mem_alloc_zero((size_t)p->draft_count * sizeof *made->code + 1);
    made->buffers = mem_alloc((size_t)p->buffer_count * sizeof *made->buffers + 1);
    made->bound = mem_alloc((size_t)p->buffer_count * sizeof *made->bound + 1);
    if (!made->code || !made->buffers || !made->bound || !copy_key(made, p->asked) || !build_code(p, made) ||
        !build_buffers(p, made) || !list_factors(made) || !list_kept(p, made)) {
        plan_free(made);
        return NULL;
    }
    made->regions = p->regions;
    made->region_count = p->region_count;
    p->regions = NULL;
    p->region_count = 0;
    if (!find_own(p, made) || !find_teams(p, made)) {
        plan_free(made);
        return NULL;
    }
    made->bytes = size_of(made);
    made->report = p->report;
    return made;
}

void regions_free(plan_region *regions, int count)
{
    for (int i = 0; i < count; i++) {
        mem_free(regions[i].locals);
        mem_free(regions[i].own);
        mem_free(regions[i].asks);
    }
    mem_free(regions);
}

void plan_free(plan *made)
{
    for (int i = 0; i < made->code_count; i++) {
        const plan_program *q = plan_program_of(&made->code[i]);
        if (q) {
            mem_free(q->sinks);
            mem_free(q->stream);
        }
    }
    for (int i = 0; i < made->program_count; i++) {
        emit_release(made->programs[i].program);
        mem_free(made->programs[i].program);
    }
    mem_free(made->programs);
    for (view_block *b = made->views, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    plan_forget_head(made);
    mem_free(made->code);
    mem_free(made->buffers);
    mem_free(made->bound);
    mem_free(made->kept);
    mem_free(made->factors);
    regions_free(made->regions, made->region_count);
    mem_free(made->text);
    mem_free(made->key.bits);
    mem_free(made->key.leaf);
    mem_free(made);
}
