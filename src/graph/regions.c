/* regions.c: stretches of a plan that each core takes its rows through, without waiting for the others.
 *
 * In most of a recurrence row r of every result depends on row r of what came before and on weights that all rows
 * share. Instructions of that kind that follow each other, over the same number of rows, are a region.
 *
 * Invariant: within a region a buffer that is written is only touched in rows: every view of it has the same distance
 * between rows, and row r of one view shares no byte with row q of another. A view lies in rows of `step` bytes if it
 * begins within the first row of one of the buffer's blocks of `rows` rows and no row reaches into the next: x[t] of
 * (time, batch, width) and x[:, t] of (batch, time, width) both do. A buffer that takes the memory of another one
 * within the region has the same step, for the same reason (builder.c).
 *
 * A sum over the rows of many steps, the gradient of a weight, is part of the region too: each core adds up its own
 * rows, while they are in its cache, and what it has for each group of rows waits until the region ends. Until then
 * nobody else touches the result. */
#include "graph/builder.h"

#include "core/memory.h"
#include "graph/desk.h"
#include "graph/kernels.h"

enum {
    FEWEST_ROWS = 4,
    MOST_ROWS = 256, /* more keep all cores busy by themselves */
    UNPACKED_ROWS = 64,
    SMALL_FACTOR = 1024, /* elements */
    SMALL_SUM = 1 << 16, /* bytes: one for each group of rows stays in cache */
};

/* What a region knows about a buffer. */
typedef struct use {
    int32_t region; /* good while this is the number of the open one */
    bool written;
    bool free;   /* read by views that do not lie in rows */
    int32_t sum; /* 1 + the last draft that is a sum over rows with this result; 0: none */
    int64_t step;
} use;

typedef struct finder {
    planner *p;
    use *uses;        /* per buffer */
    int32_t *touched; /* the open region's buffers */
    int touched_count;
    int32_t open; /* number of the open region */
    int64_t rows;
    int32_t first;
    int products;
    int sums;  /* drafts of the open region */
    int terms; /* of the sum that was visited last */
    double work_ns;
} finder;

row_shape view_rows(const plan_view *v)
{
    const layout *l = v->layout;
    int64_t size = (int64_t)dtype_size(v->dtype), reach = 1;
    int d = 0;
    while (d + 1 < l->ndim && l->sizes[d] == 1)
        d++;
    if (!l->ndim || !l->numel)
        return (row_shape){ 0 };
    for (int e = d + 1; e < l->ndim; e++)
        reach += (l->sizes[e] - 1) * l->strides[e];
    return (row_shape){ l->sizes[d], l->strides[d] * size, reach * size };
}

static bool lies_in_rows(const plan_view *v, int64_t rows, row_shape s)
{
    int64_t at = v->offset * (int64_t)dtype_size(v->dtype);
    return s.rows == rows && at >= 0 && s.step >= s.width && at % (rows * s.step) + s.width <= s.step;
}

/* --- one instruction ---------------------------------------------------------------------------------------------- */

typedef bool (*visitor)(finder *f, const plan_view *v, bool writes, bool shared);

/* Whether what a group reads has a row for each of the group's, of as many elements or of one that is repeated; else
 * all of its rows read the same. */
static bool has_rows_of(const layout *l, const layout *plain)
{
    return l->plain == plain || (l->ndim == 2 && plain->ndim == 2 && l->sizes[0] == plain->sizes[0]);
}

static bool visit_members(finder *f, int32_t g, visitor visit)
{
    const planner *p = f->p;
    const draft *d = &p->drafts[g];
    for (int32_t i = d->first_member; i >= 0; i = p->next_member[i]) {
        for (int k = 0; k < p->key->record[i].inputs; k++) {
            int32_t v = input_of(p, i, k);
            if (p->values[v].group == g && p->values[v].buffer < 0)
                continue;
            plan_view from = view_of(p, v);
            if (!visit(f, &from, false, !has_rows_of(from.layout, d->plain)))
                return false;
        }
        plan_view to = view_of(p, i);
        if (to.buffer >= 0 && !visit(f, &to, true, false))
            return false;
    }
    return true;
}

/* What a sum reads; its result is another matter. */
static bool visit_terms(finder *f, const draft *d, visitor visit)
{
    const planner *p = f->p;
    f->terms = 0;
    for (int32_t t = p->sums[d->record].terms; t >= 0; t = p->sums[t].terms, f->terms++)
        for (int k = 0; k < p->key->record[t].inputs; k++) {
            const plan_view from = term_rows(p, t, k);
            if (!from.layout || !visit(f, &from, false, false))
                return false;
        }
    return true;
}

static bool is_product(const planner *p, const draft *d)
{
    return d->kind == DO_KERNEL && op_get(p->key->record[d->record].op)->run == run_matmul;
}

static bool is_wide_float(bk_dtype d) { return d == BK_FLOAT32 || d == BK_FLOAT64; }

/* A norm or a softmax of each row. Rows that are not dense, and narrow dtypes, would take memory as it runs. */
static bool norms_rows(const record_key *key, const draft *d)
{
    const layout *c = d->out.layout;
    bool dense = c->ndim == 2 && c->strides[1] == 1 && is_wide_float(d->out.dtype);
    for (int k = 0; dense && k < key->inputs; k++)
        dense = d->in[k].layout->plain == c->plain && d->in[k].layout->strides[1] == 1;
    return dense;
}

/* One number for each row: what lies side by side is added up in the same order however many rows there are. */
static bool reduces_rows(const record_key *key, const draft *d)
{
    const layout *from = d->in[0].layout;
    const bool narrow = dtype_is_float(d->in[0].dtype) && !is_wide_float(d->in[0].dtype);
    return key->attr.reduce.dims == 2 && from->ndim == 2 && from->strides[1] == 1 && !narrow &&
           d->out.layout->numel == from->sizes[0];
}

/* Elements of each row that an index of as many rows names: those of it that are read, or written. */
static bool picks_in_rows(const record_key *key, const draft *d, const plan_view *index)
{
    const layout *of = d->in[0].layout;
    return key->attr.index.dims == 1 && of->ndim == 2 && index->layout->ndim == 2 &&
           index->layout->sizes[0] == of->sizes[0];
}

/* A kernel that needs no other rows for a row of its result, and no memory. */
static bool is_row_kernel(const planner *p, const draft *d)
{
    const record_key *key = &p->key->record[d->record];
    int (*run)(const struct kernel_call *) = op_get(key->op)->run;
    if (d->has_second || !d->out.layout->numel)
        return false;
    if (run == run_rows)
        return key->attr.i[0] == 1 && norms_rows(key, d);
    if (run == run_softmax)
        return key->attr.reduce.dims == 2 && norms_rows(key, d);
    if (run == run_reduce || run == run_mean || run == run_var)
        return reduces_rows(key, d);
    if (run == run_named) /* a copy of what is computed already */
        return d->in[1].layout->plain == d->out.layout->plain && d->in[1].dtype == d->out.dtype;
    if (run == run_gather)
        return picks_in_rows(key, d, &d->in[1]);
    return run == run_scatter && picks_in_rows(key, d, &d->in[2]) && key->attr.index.layout == d->out.layout &&
           !key->attr.index.offset;
}

static bool visit_views(finder *f, int32_t at, visitor visit)
{
    const planner *p = f->p;
    const draft *d = &p->drafts[at];
    if (d->kind == DO_SUM)
        return visit_terms(f, d, visit);
    if (d->kind == DO_COPY)
        return visit(f, &d->copy.from, false, d->copy.from.layout->plain != d->copy.to.layout->plain) &&
               visit(f, &d->copy.to, true, false);
    const int inputs = d->kind == DO_KERNEL ? p->key->record[d->record].inputs : 0;
    for (int k = 0; k < inputs; k++)
        if (!visit(f, &d->in[k], false, k == 1 && is_product(p, d))) /* a weight: all rows share it */
            return false;
    if (d->kind == DO_KERNEL && !visit(f, &d->out, true, false))
        return false;
    if (d->first_member >= 0 && p->key->record[d->first_member].op == OP_update)
        return visit(f, &d->in[1], false, false) && visit(f, &d->in[0], true, false);
    return visit_members(f, at, visit);
}

/* How many rows the first term of a sum has, and so all of them if it is to join; 0 when the sum is not for regions. */
static int64_t rows_of_terms(const planner *p, const draft *d)
{
    const int32_t first = p->sums[d->record].terms;
    if (!(rewrites_done & REWRITE_shares) || d->out.layout->numel * (int64_t)dtype_size(d->out.dtype) > SMALL_SUM)
        return 0;
    const plan_view from = term_rows(p, first, 0);
    const int64_t rows = from.layout ? from.layout->sizes[0] : 0;
    return rows % SUM_GROUPS == 0 && rows <= MOST_ROWS ? rows : 0;
}

/* Whether the product can be computed row by row. */
static bool has_rows(const draft *d)
{
    const layout *b = d->in[1].layout, *c = d->out.layout;
    if (c->ndim != 2 || c->sizes[1] < 2 || c->strides[1] != 1 || b->sizes[0] < 1 ||
        (d->members && d->plain->plain != c->plain))
        return false;
    const bool each_packs = d->packed < 0 && b->numel > SMALL_FACTOR;
    return !each_packs || (b->strides[1] == 1 && c->sizes[0] <= UNPACKED_ROWS);
}

/* How many rows the instruction has; 0 when it is of another kind. */
static int64_t rows_in(const planner *p, const draft *d)
{
    plan_view out = d->kind == DO_COPY ? d->copy.to : d->out;
    if (d->kind == DO_PROGRAM) {
        if (d->sink_count || !d->members)
            return 0;
        out = (plan_view){ .dtype = BK_FLOAT32, .layout = d->plain };
    }
    if (d->kind == DO_SUM)
        return rows_of_terms(p, d);
    if (d->kind == DO_KERNEL && !(is_product(p, d) ? has_rows(d) : is_row_kernel(p, d)))
        return 0;
    const int64_t rows = d->kind == DO_KERNEL ? out.layout->sizes[0] : view_rows(&out).rows;
    return rows >= FEWEST_ROWS && rows <= MOST_ROWS ? rows : 0;
}

/* --- whether it may join -------------------------------------------------------------------------------------------
 */

static bool fits(const finder *f, const plan_view *v, row_shape s, bool in_rows, bool writes, bool shared)
{
    const use *u = &f->uses[v->buffer];
    const bool known = u->region == f->open;
    if (known && u->sum)
        return false;
    if (writes)
        return in_rows && (!known || (!u->free && u->step == s.step));
    if (!shared && s.rows != f->rows && v->layout->numel != 1)
        return false;
    return !known || !u->written || (in_rows && u->step == s.step);
}

static void remember(finder *f, int32_t buffer, int64_t step, bool in_rows, bool writes)
{
    use *u = &f->uses[buffer];
    if (u->region != f->open) {
        *u = (use){ .region = f->open, .step = step };
        f->touched[f->touched_count++] = buffer;
    }
    u->written |= writes;
    u->free |= !in_rows || u->step != step;
}

/* A value that several views show the same rows of may be read within one instruction and written in it: what is
 * remembered of its first views counts for the later ones. */
static bool fits_itself(finder *f, const plan_view *v, bool writes, bool shared)
{
    const row_shape s = shared ? (row_shape){ 0 } : view_rows(v);
    const bool in_rows = !shared && lies_in_rows(v, f->rows, s);
    if (!fits(f, v, s, in_rows, writes, shared))
        return false;
    remember(f, v->buffer, s.step, in_rows, writes);
    return true;
}

/* The result of a sum: nobody but sums of the same value may touch it in this region. */
static bool takes_sum(finder *f, int32_t at)
{
    const planner *p = f->p;
    draft *d = &p->drafts[at];
    use *u = &f->uses[d->out.buffer];
    const int32_t before = u->region == f->open ? u->sum - 1 : -1;
    if (u->region == f->open && (before < 0 || p->sums[p->drafts[before].record].root != p->sums[d->record].root))
        return false;
    d->share.before = before;
    remember(f, d->out.buffer, 0, false, true);
    u->sum = at + 1;
    return true;
}

static double work_of(const finder *f, const draft *d)
{
    if (d->kind == DO_SUM)
        return 2.0 * (double)d->out.layout->numel * (double)f->rows * f->terms / 60;
    if (d->kind == DO_COPY)
        return (double)d->copy.to.layout->numel * 0.3;
    double work = d->plain ? (double)d->plain->numel * d->members * 0.4 : 0;
    if (is_product(f->p, d))
        work += 2.0 * (double)d->out.layout->numel * (double)d->in[1].layout->sizes[0] / 60;
    else if (d->kind == DO_KERNEL)
        work += (double)d->in[0].layout->numel * 0.6;
    return work;
}

/* Memory may change hands within the region where both buffers lie in the same rows. */
static void note_steps(finder *f, int32_t end)
{
    for (int i = 0; i < f->touched_count; i++) {
        draft_buffer *b = &f->p->buffers[f->touched[i]];
        const use *u = &f->uses[f->touched[i]];
        int64_t step = u->free ? 0 : u->step;
        if (b->first >= f->first && b->first < end)
            b->first_step = step;
        if (b->last >= f->first && b->last < end)
            b->last_step = step;
    }
}

/* The sums of a region: those of one value share the scratch of the first, the others' is not needed. */
static void share_sums(finder *f, int32_t end)
{
    planner *p = f->p;
    for (int32_t at = f->first; f->sums && at < end; at++) {
        draft *d = &p->drafts[at];
        if (d->kind != DO_SUM)
            continue;
        draft *before = d->share.before < 0 ? NULL : &p->drafts[d->share.before];
        d->share.by_rows = d->share.last = true;
        d->share.first = !before;
        d->share.sets = before ? before->share.sets : p->sums[d->record].first;
        d->share.partial = before ? before->share.partial : d->scratch;
        if (before) {
            before->share.last = false;
            p->buffers[d->scratch].last = -1;
        }
        p->buffers[d->table].last = -1;
        buffer_touch(p, d->share.partial, end - 1);
        buffer_touch(p, d->out.buffer, end - 1);
        note(p, FACT_SHARED_SUM, d->record);
    }
}

static bool close_region(finder *f, int32_t end)
{
    planner *p = f->p;
    if (f->rows && f->products && end - f->first > 1) {
        if (p->region_count == p->region_capacity) {
            int capacity = p->region_capacity ? p->region_capacity * 2 : 16;
            plan_region *grown = mem_resize(p->regions, (size_t)capacity * sizeof *grown);
            if (!grown)
                return false;
            p->regions = grown;
            p->region_capacity = capacity;
        }
        note_steps(f, end);
        share_sums(f, end);
        p->regions[p->region_count++] =
            (plan_region){ .first = f->first, .end = end, .rows = f->rows, .work_ns = f->work_ns, .sums = f->sums };
        note(p, FACT_REGION, p->drafts[f->first].record);
    }
    f->rows = 0;
    f->open++;
    f->touched_count = 0;
    return true;
}

static void open_region(finder *f, int32_t at, int64_t rows)
{
    f->rows = rows;
    f->first = at;
    f->products = f->sums = 0;
    f->work_ns = 0;
}

static bool joins(finder *f, int32_t at)
{
    if (!visit_views(f, at, fits_itself))
        return false;
    const draft *d = &f->p->drafts[at];
    if (d->kind == DO_SUM && !takes_sum(f, at))
        return false;
    f->products += is_product(f->p, d);
    f->sums += d->kind == DO_SUM;
    f->work_ns += work_of(f, d);
    return true;
}

bool find_regions(planner *p)
{
    if (!(rewrites_done & REWRITE_regions))
        return true;
    finder f = { .p = p, .open = 1 };
    f.uses = desk_take_zero((size_t)p->buffer_count * sizeof *f.uses);
    f.touched = desk_take((size_t)p->buffer_count * sizeof *f.touched);
    bool good = f.uses && f.touched;
    for (int32_t at = 0; good && at < p->draft_count; at++) {
        int64_t rows = rows_in(p, &p->drafts[at]);
        if (f.rows && (rows != f.rows || !joins(&f, at)))
            good = close_region(&f, at);
        else if (f.rows)
            continue;
        if (good && rows) {
            open_region(&f, at, rows);
            if (!joins(&f, at))
                good = close_region(&f, at); /* nothing: a region of none */
        }
    }
    good = good && close_region(&f, p->draft_count);
    return good;
}

/* --- what a region has for itself ----------------------------------------------------------------------------------
 */

/* Rows that several cores write are a few kilobytes apart, and a core that writes some fetches those behind them ahead
 * of time: from the cache of whoever is just writing there. A step of 16 rows of 64 took twice as long where the cores
 * share no cache. So what only lives within a region is in memory of each core's own (run_region.c), where the rows of
 * a step are so few. */
enum { FEW_BYTES = 1 << 17, MOST_BYTES = 1 << 22 };

/* The region that has all of the buffer's life; NULL: none. */
static plan_region *region_with(const plan *made, const draft_buffer *b)
{
    plan_region *low = made->regions, *high = low + made->region_count;
    while (low < high) {
        plan_region *middle = low + (high - low) / 2;
        if (middle->end <= b->first)
            low = middle + 1;
        else
            high = middle;
    }
    return low < made->regions + made->region_count && low->first <= b->first && b->last < low->end ? low : NULL;
}

static plan_region *owner_of(const planner *p, const plan *made, int32_t b)
{
    const draft_buffer *d = &p->buffers[b];
    if (d->kind != BUFFER_TEMPORARY || d->last < 0 || !d->first_step || d->first_step != d->last_step)
        return NULL;
    plan_region *r = region_with(made, d);
    return r && r->rows && !r->width && r->rows * d->first_step <= FEW_BYTES ? r : NULL;
}

/* Places among the region's own: how many there are, and where in the arena. */
static void count_own(const plan *made, plan_region *r, int32_t b)
{
    const plan_buffer *x = &made->buffers[b];
    const int64_t end = r->own_at + r->own_bytes;
    const int64_t low = r->own_count && r->own_at < x->at ? r->own_at : x->at;
    r->own_bytes = (r->own_count && end > x->at + x->bytes ? end : x->at + x->bytes) - low;
    r->own_at = low;
    r->own_count++;
}

bool find_own(const planner *p, plan *made)
{
    for (int32_t b = 0; b < p->buffer_count; b++) {
        plan_region *r = owner_of(p, made, b);
        if (r)
            count_own(made, r, b);
    }
    for (int i = 0; i < made->region_count; i++) {
        plan_region *r = &made->regions[i];
        if (r->own_count && r->own_bytes <= MOST_BYTES && !(r->own = mem_alloc((size_t)r->own_count * sizeof *r->own)))
            return false;
        r->own_count = 0;
    }
    for (int32_t b = 0; b < p->buffer_count; b++) {
        plan_region *r = owner_of(p, made, b);
        if (r && r->own)
            r->own[r->own_count++] = (plan_own){ b, p->buffers[b].first, p->buffers[b].last };
    }
    return true;
}
