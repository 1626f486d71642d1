/* blocks.c: stretches of a plan that run block of rows by block of rows, while the rows are in cache.
 *
 * A norm, what is computed from it, the sums that its gradient needs and the gradient itself each read and write whole
 * tensors; but row r of each needs no other rows. Instructions of that kind that follow each other, over the same
 * number of elements, are a region of blocks: fused groups, kernels over rows (rows.h, softmax, reductions of rows),
 * and reductions over the rows, whose results are there when the region is over. What only lives within the region has
 * no memory but a block for each thread (a local).
 *
 * Invariant: within a region a buffer that is written is only touched in rows: all views of it begin at one place and
 * have the same number of bytes for each row. A buffer that a reduction over the rows writes is touched by nothing
 * else. So blocks may run in any order; what a reduction needs of their order, run_blocks.c keeps. */
#include "graph/blocks.h"

#include "core/memory.h"
#include "graph/desk.h"
#include "graph/kernels.h"

enum {
    LEAST_ELEMENTS = 4 * REDUCE_FEED, /* what is smaller is in cache anyway */
    WIDEST_ROW = BLOCK_ELEMENTS,
    MOST_LOCALS = 16,
    LEAST_FAR = 64,        /* bytes of a row: of less a block has a few lines only */
    MOST_SCRATCH = 1 << 20 /* bytes of locals for each thread: beyond that nothing would stay in L2 */
};

/* What a region knows about a buffer. */
typedef struct use {
    int32_t region; /* good while this is the number of the open one */
    bool written, shared, late;
    bool whole;      /* all views show all of it */
    int64_t at, row; /* where it begins and the bytes of a row */
} use;

typedef struct finder {
    planner *p;
    use *uses;        /* per buffer */
    int32_t *touched; /* the open region's buffers */
    int touched_count;
    int32_t open, first;
    int64_t numel, width;
    double work_ns;
    plan_region *made;
    int made_count, made_capacity;
} finder;

/* --- the shape of an instruction -------------------------------------------------------------------------------- */

static int64_t product(const int64_t *sizes, int count)
{
    int64_t n = 1;
    for (int d = 0; d < count; d++)
        n *= sizes[d];
    return n;
}

/* How many elements the last dimensions hold that `dims` names; 0 when it names others. */
static int64_t trailing(const layout *l, uint32_t dims)
{
    int first = l->ndim;
    while (first > 0 && dims >> (first - 1) & 1)
        first--;
    return dims && dims == (dims_below(l->ndim) & ~dims_below(first)) ? product(l->sizes + first, l->ndim - first) : 0;
}

int64_t reduced_row(const layout *l, uint32_t dims, int64_t width)
{
    int64_t n = trailing(l, dims);
    return n && width % n == 0 && width / n <= MOST_OUTPUTS ? n : 0;
}

static bool is_reduction(int (*run)(const struct kernel_call *)) { return run == run_reduce || run == run_mean; }

/* The elements of the rows that a kernel works on; 0: it is none of rows. */
static int64_t kernel_row(const planner *p, const draft *d)
{
    const record_key *key = &p->key->record[d->record];
    const layout *l = d->in[0].layout;
    int (*run)(const struct kernel_call *) = op_get(key->op)->run;
    if (run == run_rows)
        return product(l->sizes + l->ndim - key->attr.i[0], (int)key->attr.i[0]);
    if (run == run_softmax && (d->out.dtype == BK_FLOAT32 || d->out.dtype == BK_FLOAT64)) /* halves take memory */
        return trailing(l, (uint32_t)key->attr.reduce.dims);
    return is_reduction(run) || run == run_var ? trailing(l, (uint32_t)key->attr.reduce.dims) : 0;
}

static bool is_fed(const planner *p, const draft *d)
{
    const record_key *key = &p->key->record[d->record];
    return d->kind == DO_KERNEL && is_reduction(op_get(key->op)->run) && key->attr.reduce.kind <= REDUCE_ALL;
}

static bool is_copy(const planner *p, const draft *d)
{
    return d->members == 1 && !d->sink_count && p->key->record[d->first_member].op == OP_cast;
}

/* How many elements go through the instruction; 0: it is of no kind that regions know. */
static int64_t elements_in(const planner *p, const draft *d)
{
    if (d->kind == DO_PROGRAM)
        return d->members && !is_copy(p, d) && p->key->record[d->first_member].op != OP_update ? d->plain->numel : 0;
    if (d->kind != DO_KERNEL || d->has_second || !d->in[0].layout->contiguous || !d->out.layout->contiguous)
        return 0;
    if (p->key->record[d->record].inputs > 1 && !d->in[1].layout->contiguous)
        return 0;
    return kernel_row(p, d) || is_fed(p, d) ? d->in[0].layout->numel : 0;
}

/* The width of rows that the instruction asks for: that of its own, or of the columns it reduces; 0: any. */
static int64_t asked_width(const planner *p, const draft *d)
{
    if (d->kind == DO_KERNEL && kernel_row(p, d) && kernel_row(p, d) < d->in[0].layout->numel)
        return kernel_row(p, d);
    const layout *l = d->kind == DO_KERNEL ? d->in[0].layout : d->plain;
    uint32_t dims = d->kind == DO_KERNEL ? (uint32_t)p->key->record[d->record].attr.reduce.dims : 0;
    if (d->kind == DO_PROGRAM && d->sink_count)
        dims = (uint32_t)p->key->record[d->sinks[0]].attr.reduce.dims;
    int kept = 0;
    while (dims >> kept & 1)
        kept++;
    return dims && kept < l->ndim && dims == dims_below(kept) ? product(l->sizes + kept, l->ndim - kept) : 0;
}

/* --- whether it may join -------------------------------------------------------------------------------------- */

static use *use_of(finder *f, int32_t buffer)
{
    use *u = &f->uses[buffer];
    if (u->region != f->open) {
        *u = (use){ .region = f->open, .row = -1, .whole = true };
        f->touched[f->touched_count++] = buffer;
    }
    return u;
}

/* Memory that is the same for all rows. */
static bool reads_shared(finder *f, const plan_view *v)
{
    use *u = use_of(f, v->buffer);
    u->shared = true;
    u->whole = false;
    return !u->written && !u->late;
}

/* `row` elements for each row of the region. */
static bool touches_rows(finder *f, const plan_view *v, int64_t row, bool writes)
{
    int64_t size = (int64_t)dtype_size(v->dtype);
    use *u = use_of(f, v->buffer);
    bool same = u->row < 0 || (u->at == v->offset * size && u->row == row * size);
    if (u->row < 0) {
        u->at = v->offset * size;
        u->row = row * size;
    }
    u->shared |= !same;
    u->written |= writes;
    u->whole &= same && v->offset == 0 && v->layout->numel * size == f->p->buffers[v->buffer].bytes;
    return !u->late && !(u->written && u->shared);
}

static bool writes_late(finder *f, const plan_view *v)
{
    use *u = use_of(f, v->buffer);
    bool first = u->row < 0 && !u->shared && !u->late;
    u->late = true;
    u->whole = false;
    return first;
}

/* An operand of a group: in rows when its sizes before the rows' are those of the group. */
static bool reads_operand(finder *f, const plan_view *v, const layout *plain)
{
    const layout *l = v->layout;
    if (l->contiguous && l->numel == f->numel)
        return touches_rows(f, v, f->width, false);
    int64_t rows = f->numel / f->width, lead = 1;
    int d = 0;
    for (; l->ndim == plain->ndim && d < l->ndim && lead < rows && l->sizes[d] == plain->sizes[d]; d++)
        lead *= l->sizes[d];
    if (!l->contiguous || lead != rows || rows == 1)
        return reads_shared(f, v);
    return touches_rows(f, v, l->numel / rows, false);
}

static bool reduces(finder *f, const plan_view *out, const layout *from, bk_dtype dtype, uint32_t dims)
{
    int64_t row = reduced_row(from, dims, f->width);
    if (row)
        return out->layout->contiguous && touches_rows(f, out, f->width / row, true);
    view src;
    layout_view(&src, from, dtype, NULL);
    return reduce_feeds(&src, dims, f->width) && writes_late(f, out);
}

static bool program_joins(finder *f, int32_t g)
{
    const planner *p = f->p;
    const draft *d = &p->drafts[g];
    for (int32_t i = d->first_member; i >= 0; i = p->next_member[i]) {
        for (int k = 0; k < p->key->record[i].inputs; k++) {
            int32_t v = input_of(p, i, k);
            plan_view from = view_of(p, v);
            if (from.buffer >= 0 && !reads_operand(f, &from, d->plain))
                return false;
        }
        plan_view to = view_of(p, i);
        if (to.buffer >= 0 && !(to.layout->contiguous && touches_rows(f, &to, f->width, true)))
            return false;
    }
    for (int s = 0; s < d->sink_count; s++) {
        const value *x = &p->values[input_of(p, d->sinks[s], 0)];
        plan_view out = view_of(p, d->sinks[s]);
        uint32_t dims = (uint32_t)p->key->record[d->sinks[s]].attr.reduce.dims;
        if (!x->layout->contiguous || !reduces(f, &out, x->layout, (bk_dtype)x->dtype, dims))
            return false;
    }
    return true;
}

static bool kernel_joins(finder *f, const draft *d)
{
    const planner *p = f->p;
    const record_key *key = &p->key->record[d->record];
    for (int k = 0; k < key->inputs; k++)
        if (d->in[k].layout->numel != f->numel || !touches_rows(f, &d->in[k], f->width, false))
            return false;
    int64_t row = kernel_row(p, d);
    if (!row || f->width % row || (d->out.layout->numel < f->numel && f->width / row > MOST_OUTPUTS))
        return is_fed(p, d) && reduces(f, &d->out, d->in[0].layout, d->in[0].dtype, (uint32_t)key->attr.reduce.dims);
    int64_t rows = f->numel / f->width;
    return d->out.layout->numel % rows == 0 && touches_rows(f, &d->out, d->out.layout->numel / rows, true);
}

static bool joins(finder *f, int32_t at)
{
    const draft *d = &f->p->drafts[at];
    if (elements_in(f->p, d) != f->numel)
        return false;
    if (!(d->kind == DO_PROGRAM ? program_joins(f, at) : kernel_joins(f, d)))
        return false;
    f->work_ns += (double)f->numel * (d->kind == DO_PROGRAM ? 0.4 * d->members : 0.6);
    return true;
}

/* --- regions --------------------------------------------------------------------------------------------------- */

/* Locals share places in the scratch that are free by then. */
static void place_local(const finder *f, plan_region *r, int32_t b)
{
    planner *p = f->p;
    int64_t block = block_rows(r->width), bytes = (f->uses[b].row * block + 63) / 64 * 64;
    p->buffers[b].kind = BUFFER_LOCAL;
    for (int i = 0; i < r->local_count; i++) {
        const draft_buffer *other = &p->buffers[r->locals[i].buffer];
        bool taken = false;
        for (int j = 0; j < r->local_count && !taken; j++)
            taken = r->locals[j].at == r->locals[i].at && p->buffers[r->locals[j].buffer].last >= p->buffers[b].first;
        if (!taken && f->uses[r->locals[i].buffer].row == f->uses[b].row && other->last < p->buffers[b].first) {
            r->locals[r->local_count++] = (plan_local){ b, r->locals[i].at, f->uses[b].row };
            return;
        }
    }
    r->locals[r->local_count++] = (plan_local){ b, r->scratch, f->uses[b].row };
    r->scratch += bytes;
}

/* The temporaries that nothing outside of the region touches. */
static bool find_locals(const finder *f, plan_region *r)
{
    planner *p = f->p;
    r->locals = mem_alloc(MOST_LOCALS * sizeof *r->locals);
    if (!r->locals)
        return false;
    for (int32_t i = r->first; i < r->end; i++)
        for (int t = 0; t < f->touched_count; t++) {
            int32_t b = f->touched[t];
            const draft_buffer *d = &p->buffers[b];
            const use *u = &f->uses[b];
            if (d->first != i || d->last >= r->end || d->kind != BUFFER_TEMPORARY || !u->whole || !u->written ||
                r->local_count == MOST_LOCALS)
                continue;
            if (r->scratch + u->row * block_rows(r->width) <= MOST_SCRATCH)
                place_local(f, r, b);
        }
    return true;
}

/* What comes from memory or goes there row by row. */
static void find_far(const finder *f, plan_region *r)
{
    const int most = sizeof r->far / sizeof *r->far;
    for (int t = 0; t < f->touched_count && r->far_count < most; t++) {
        const use *u = &f->uses[f->touched[t]];
        if (u->row >= LEAST_FAR && !u->shared && f->p->buffers[f->touched[t]].kind != BUFFER_LOCAL)
            r->far[r->far_count++] = (plan_local){ f->touched[t], u->at, u->row };
    }
}

static bool close_region(finder *f, int32_t end)
{
    if (end - f->first < 2)
        return true;
    if (f->made_count == f->made_capacity) {
        int capacity = f->made_capacity ? f->made_capacity * 2 : 8;
        plan_region *grown = mem_resize(f->made, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        f->made = grown;
        f->made_capacity = capacity;
    }
    plan_region *r = &f->made[f->made_count++];
    *r = (plan_region){ .first = f->first, .end = end, .rows = f->numel / f->width, .width = f->width };
    r->work_ns = f->work_ns;
    note(f->p, FACT_BLOCKS, f->p->drafts[f->first].record);
    bool good = find_locals(f, r);
    find_far(f, r);
    return good;
}

/* The region that begins with instruction `at` ends before the one returned. */
static int32_t stretch(finder *f, int32_t at, int32_t before)
{
    const planner *p = f->p;
    f->first = at;
    f->open++;
    f->touched_count = 0;
    f->numel = elements_in(p, &p->drafts[at]);
    f->width = f->work_ns = 0;
    for (int32_t i = at; i < before && elements_in(p, &p->drafts[i]) == f->numel; i++) {
        int64_t asked = asked_width(p, &p->drafts[i]);
        f->width = asked > f->width ? asked : f->width;
    }
    if (f->numel < LEAST_ELEMENTS || !f->width || f->width > WIDEST_ROW || f->numel % f->width)
        return at;
    int32_t end = at;
    while (end < before && joins(f, end))
        end++;
    return end;
}

/* The regions of both kinds, in order. */
static bool merge(planner *p, finder *f)
{
    if (!f->made_count)
        return true;
    int count = p->region_count + f->made_count;
    plan_region *all = mem_alloc((size_t)count * sizeof *all);
    if (!all)
        return false;
    for (int i = 0, a = 0, b = 0; i < count; i++) {
        bool theirs = b == f->made_count || (a < p->region_count && p->regions[a].first < f->made[b].first);
        all[i] = theirs ? p->regions[a++] : f->made[b++];
    }
    mem_free(p->regions);
    p->regions = all;
    p->region_count = p->region_capacity = count;
    f->made_count = 0;
    return true;
}

static bool finder_open(finder *f)
{
    f->uses = desk_take_zero((size_t)f->p->buffer_count * sizeof *f->uses);
    f->touched = desk_take((size_t)f->p->buffer_count * sizeof *f->touched);
    return f->uses && f->touched;
}

bool find_blocks(planner *p)
{
    if (!(rewrites_done & REWRITE_blocks))
        return true;
    finder f = { .p = p };
    const plan_region *next = p->regions, *last = next + p->region_count;
    bool good = true;
    for (int32_t at = 0; good && at < p->draft_count;) {
        while (next < last && next->end <= at)
            next++;
        int32_t before = next < last ? next->first : p->draft_count;
        if (at >= before) {
            at = next->end;
            continue;
        }
        if (elements_in(p, &p->drafts[at]) < LEAST_ELEMENTS) {
            at++;
            continue;
        }
        if (!f.uses && !(good = finder_open(&f)))
            break;
        int32_t end = stretch(&f, at, before);
        good = close_region(&f, end);
        at = end > at ? end : at + 1;
    }
    good = good && merge(p, &f);
    for (int i = 0; i < f.made_count; i++)
        mem_free(f.made[i].locals);
    mem_free(f.made);
    return good;
}
