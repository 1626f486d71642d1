/* regions.c: stretches of a plan that each core takes its rows through, without waiting for the others.
 *
 * In most of a recurrence row r of every result depends on row r of what came before and on weights that all rows
 * share. Instructions of that kind that follow each other, over the same number of rows, are a region.
 *
 * Invariant: within a region a buffer that is written is only touched in rows: every view of it has the same distance
 * between rows, and row r of one view shares no byte with row q of another. A view lies in rows of `step` bytes if it
 * begins within the first row of one of the buffer's blocks of `rows` rows and no row reaches into the next: x[t] of
 * (time, batch, width) and x[:, t] of (batch, time, width) both do. A buffer that takes the memory of another one
 * within the region has the same step, for the same reason (builder.c). */
#include "graph/builder.h"

#include "core/memory.h"
#include "graph/desk.h"
#include "graph/kernels.h"

enum {
    FEWEST_ROWS = 4,
    MOST_ROWS = 256, /* more keep all cores busy by themselves */
    UNPACKED_ROWS = 64,
    SMALL_FACTOR = 1024, /* elements */
};

/* What a region knows about a buffer. */
typedef struct use {
    int32_t region; /* good while this is the number of the open one */
    bool written;
    bool free; /* read by views that do not lie in rows */
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
    double work_ns;
} finder;

/* The first dimension that is not of size 1, as rows: how many, how far apart, how wide. */
typedef struct row_shape {
    int64_t rows, step, width; /* step and width in bytes */
} row_shape;

static row_shape rows_of(const plan_view *v)
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
            if (!visit(f, &from, false, from.layout->plain != d->plain))
                return false;
        }
        plan_view to = view_of(p, i);
        if (to.buffer >= 0 && !visit(f, &to, true, false))
            return false;
    }
    return true;
}

static bool visit_views(finder *f, int32_t at, visitor visit)
{
    const planner *p = f->p;
    const draft *d = &p->drafts[at];
    if (d->kind == DO_COPY)
        return visit(f, &d->copy.from, false, d->copy.from.layout->plain != d->copy.to.layout->plain) &&
               visit(f, &d->copy.to, true, false);
    if (d->kind == DO_KERNEL &&
        !(visit(f, &d->in[0], false, false) && visit(f, &d->in[1], false, true) && visit(f, &d->out, true, false)))
        return false;
    if (d->first_member >= 0 && p->key->record[d->first_member].op == OP_update)
        return visit(f, &d->in[1], false, false) && visit(f, &d->in[0], true, false);
    return visit_members(f, at, visit);
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
        return 0;
    if (d->kind == DO_KERNEL) {
        const layout *b = d->in[1].layout, *c = d->out.layout;
        if (op_get(p->key->record[d->record].op)->run != run_matmul || c->ndim != 2 || c->sizes[1] < 2 ||
            c->strides[1] != 1 || b->sizes[0] < 1 || (d->members && d->plain->plain != c->plain))
            return 0;
        if (d->packed < 0 && b->numel > SMALL_FACTOR && (b->strides[1] != 1 || c->sizes[0] > UNPACKED_ROWS))
            return 0; /* each core would pack it */
        return c->sizes[0] >= FEWEST_ROWS && c->sizes[0] <= MOST_ROWS ? c->sizes[0] : 0;
    }
    int64_t rows = rows_of(&out).rows;
    return rows >= FEWEST_ROWS && rows <= MOST_ROWS ? rows : 0;
}

/* --- whether it may join -------------------------------------------------------------------------------------------
 */

static bool fits(finder *f, const plan_view *v, bool writes, bool shared)
{
    const use *u = &f->uses[v->buffer];
    row_shape s = rows_of(v);
    bool in_rows = !shared && lies_in_rows(v, f->rows, s), known = u->region == f->open;
    if (writes)
        return in_rows && (!known || (!u->free && u->step == s.step));
    if (!shared && s.rows != f->rows && v->layout->numel != 1)
        return false;
    return !known || !u->written || (in_rows && u->step == s.step);
}

static bool remember(finder *f, const plan_view *v, bool writes, bool shared)
{
    use *u = &f->uses[v->buffer];
    row_shape s = rows_of(v);
    if (u->region != f->open) {
        *u = (use){ .region = f->open, .step = s.step };
        f->touched[f->touched_count++] = v->buffer;
    }
    u->written |= writes;
    u->free |= shared || !lies_in_rows(v, f->rows, s) || u->step != s.step;
    return true;
}

/* A value that several views show the same rows of may be read within one instruction and written in it: what is
 * remembered of its first views counts for the later ones. */
static bool fits_itself(finder *f, const plan_view *v, bool writes, bool shared)
{
    return fits(f, v, writes, shared) && remember(f, v, writes, shared);
}

static double work_of(const draft *d)
{
    if (d->kind == DO_COPY)
        return (double)d->copy.to.layout->numel * 0.3;
    double work = d->plain ? (double)d->plain->numel * d->members * 0.4 : 0;
    if (d->kind == DO_KERNEL)
        work += 2.0 * (double)d->out.layout->numel * (double)d->in[1].layout->sizes[0] / 60;
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
        p->regions[p->region_count++] =
            (plan_region){ .first = f->first, .end = end, .rows = f->rows, .work_ns = f->work_ns };
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
    f->products = 0;
    f->work_ns = 0;
}

static bool joins(finder *f, int32_t at)
{
    if (!visit_views(f, at, fits_itself))
        return false;
    f->products += f->p->drafts[at].kind == DO_KERNEL;
    f->work_ns += work_of(&f->p->drafts[at]);
    return true;
}

bool find_regions(planner *p)
{
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
