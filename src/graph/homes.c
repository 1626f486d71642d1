/* homes.c: where values are to live, decided before they are made.
 *
 * A value that will be written into a stack, or strung together with others in a sum of products, is computed in its
 * place there from the start, although others read it before: h of every step in the stack of all steps, and the
 * gradients of a stretch of steps one after the other. Homes are dense, so that the value looks as it was recorded.
 *
 * A value that outlives the plan, since a list of all states is still there when they are evaluated, lives in the stack
 * as well, until it is copied to memory of its own in the end: one state that is kept for long must not keep the
 * others.
 *
 * Invariant: a home belongs to one value alone. Whoever writes into the buffer later finds the value in its list and
 * leaves it alone while it is needed, as with all values that share a buffer. */
#include "graph/builder.h"

#include "graph/desk.h"
#include "graph/kernels.h"

static bool outlives_plan(const planner *p, int32_t v) { return p->values[v].last_use == INT32_MAX; }

static bool may_move(const planner *p, int32_t v)
{
    if (v >= p->key->records || p->homes[v].owner || p->sums[v].role)
        return false;
    node_kind kind = op_get(p->key->record[v].op)->kind;
    return (kind == KIND_ELEMENTWISE || (kind == KIND_EMPTY && !outlives_plan(p, v))) &&
           p->values[v].layout == p->values[v].layout->plain && p->values[v].layout->numel;
}

static bool is_homeless(const planner *p, int32_t v) { return may_move(p, v) && !outlives_plan(p, v); }

static int64_t bytes_of(const planner *p, int32_t v)
{
    return p->values[v].layout->numel * (int64_t)dtype_size((bk_dtype)p->values[v].dtype);
}

/* --- stacks --------------------------------------------------------------------------------------------------------
 */

/* What v shows all of, in the same order. */
static int32_t shown_by(const planner *p, int32_t v)
{
    while (v < p->key->records && p->key->record[v].op == OP_view &&
           p->values[v].layout == p->values[v].layout->plain) {
        int32_t base = input_of(p, v, 0);
        if (p->values[base].layout != p->values[base].layout->plain ||
            p->values[base].layout->numel != p->values[v].layout->numel)
            return v;
        v = base;
    }
    return v;
}

/* The record whose memory v is in: for what was written part by part, that of the first write. */
int32_t memory_behind(const planner *p, int32_t v)
{
    while (v < p->key->records && p->key->record[v].op == OP_update && p->homes[v].stack)
        v = p->homes[v].stack - 1;
    return v;
}

/* Whether no update before wrote where this one does; from now on it has. */
static bool is_clear(home *stack, int64_t offset, int64_t span)
{
    bool clear = stack->high == stack->low || offset >= stack->high || offset + span <= stack->low;
    bool first = stack->high == stack->low;
    stack->low = first || offset < stack->low ? offset : stack->low;
    stack->high = first || offset + span > stack->high ? offset + span : stack->high;
    return clear;
}

/* Update i writes a value into memory that was made for it: the value may live there, if it is the first in its place.
 */
static void settle_in_stack(planner *p, int32_t i)
{
    const attr *a = &p->key->record[i].attr;
    int32_t old = input_of(p, i, 0), v = memory_behind(p, shown_by(p, input_of(p, i, 1))), stack;
    if (old >= p->key->records || (a->region.add && !p->homes[i].fresh))
        return;
    if (p->key->record[old].op == OP_empty || p->homes[old].unfilled)
        stack = old;
    else if (p->key->record[old].op == OP_update && p->homes[old].stack && p->uses[old] == 1)
        stack = p->homes[old].stack - 1;
    else
        return;
    p->homes[i].stack = stack + 1;
    bool clear = is_clear(&p->homes[stack], a->region.offset, a->region.layout->span);
    bool dense = a->region.layout->dense && a->region.layout->plain->numel == a->region.layout->span;
    for (int d = 0, seen = 0; d < a->region.layout->ndim; d++) { /* row-major, but for dimensions of size 1 */
        seen |= a->region.layout->sizes[d] != 1;
        dense = dense && (!seen || a->region.layout->sizes[d] == 1 ||
                          a->region.layout->strides[d] == a->region.layout->plain->strides[d]);
    }
    if (!clear || !may_move(p, v) || p->values[v].dtype != p->values[i].dtype || v == stack ||
        p->values[v].layout->numel != a->region.layout->numel)
        return;
    if (!dense) {
        p->homes[v].within = outlives_plan(p, v) ? 0 : stack + 1;
        return;
    }
    p->homes[v].owner = stack + 1;
    p->homes[v].update = i;
    p->homes[v].offset = a->region.offset;
}

/* Whether v is computed by a group, for one reader, and may have any memory. */
static bool is_movable(const planner *p, int32_t v)
{
    return v < p->key->records && op_get(p->key->record[v].op)->kind == KIND_ELEMENTWISE && p->uses[v] == 1 &&
           !p->homes[v].owner && !p->sums[v].role && p->values[v].last_use != INT32_MAX && p->values[v].layout->dense;
}

/* Update i writes a view of all that a value has, in the order of its memory: where the value lives is left to the
 * update. */
static void wait_for_update(planner *p, int32_t i)
{
    int32_t v = input_of(p, i, 1);
    if ((p->key->record[i].attr.region.add && !p->homes[i].fresh) || v >= p->key->records ||
        p->key->record[v].op != OP_view || p->uses[v] != 1 || p->values[v].last_use == INT32_MAX)
        return;
    int32_t base = input_of(p, v, 0);
    const attr *a = &p->key->record[v].attr;
    p->homes[v].waits = is_movable(p, base) && a->region.layout == p->values[base].layout && !a->region.offset &&
                        p->values[v].layout == p->values[v].layout->plain && p->values[v].layout->numel &&
                        p->values[v].layout->numel == p->values[base].layout->numel;
}

/* Whether update i has nothing to write: its value lives there. */
bool is_at_home(planner *p, int32_t i)
{
    int32_t old = input_of(p, i, 0), v = shown_by(p, input_of(p, i, 1)), memory = memory_behind(p, v);
    if (memory >= p->key->records || !p->homes[i].stack || p->homes[memory].owner != p->homes[i].stack)
        return false;
    if (p->values[v].buffer < 0 && !materialise(p, v)) /* nobody else has read it yet: it moves in now */
        return false;
    const value *x = &p->values[v], *y = &p->values[old];
    return x->buffer == y->buffer && x->layout == x->layout->plain &&
           x->offset == y->offset + p->key->record[i].attr.region.offset && y->layout == p->values[i].layout;
}

/* --- stretches of sums -----------------------------------------------------------------------------------------------
 */

/* Whether l shows columns of every row of m, turned or not. */
static bool shows_columns(const layout *l, const layout *m)
{
    if (l->ndim != 2 || m->ndim != 2)
        return false;
    for (int row = 0; row < 2; row++)
        if (l->sizes[row] == m->sizes[0] && l->strides[row] == m->strides[0] && l->strides[!row] == m->strides[1] &&
            l->sizes[!row] <= m->sizes[1])
            return true;
    return false;
}

/* The value whose rows a term's factor has: through its transpose or a part of its columns, and from the last write to
 * the memory. What will be computed within the rows of something larger stands for that. */
static int32_t rows_behind(const planner *p, int32_t term, int k)
{
    int32_t v = input_of(p, term, k);
    if (v < p->key->records && p->key->record[v].op == OP_view) {
        int32_t base = input_of(p, v, 0);
        v = shows_columns(p->values[v].layout, p->values[base].layout) ? base : shown_by(p, v);
    }
    v = memory_behind(p, v);
    return v < p->key->records && p->homes[v].within ? p->homes[v].within - 1 : v;
}

static bool slab_new(planner *p, int64_t bytes)
{
    if (p->slab_count == p->slab_capacity) {
        int capacity = p->slab_capacity ? p->slab_capacity * 2 : 16;
        slab *grown = desk_grow(p->slabs, (size_t)p->slab_count * sizeof *grown, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        p->slabs = grown;
        p->slab_capacity = capacity;
    }
    p->slabs[p->slab_count++] = (slab){ .buffer = -1, .bytes = bytes };
    return true;
}

/* Terms from `first` to `end` whose factors are alike and have no home yet get one together. The first step of a loop
 * is often different from the others: it should not keep them apart. */
static bool settle_run(planner *p, int32_t first, int32_t end, int k, int64_t bytes)
{
    int64_t at = 0;
    if (!slab_new(p, bytes))
        return false;
    for (int32_t t = first; t != end; t = p->sums[t].terms) {
        int32_t v = rows_behind(p, t, k);
        if (p->homes[v].owner) /* twice in this sum */
            continue;
        p->homes[v].owner = -p->slab_count;
        p->homes[v].offset = at;
        at += p->values[v].layout->numel;
    }
    return true;
}

static bool settle_stretch(planner *p, int32_t end, int k)
{
    for (int32_t first = p->sums[end].terms, t; first >= 0; first = t) {
        const layout *alike = p->values[rows_behind(p, first, k)].layout;
        int64_t bytes = 0;
        int count = 0;
        for (t = first; t >= 0; t = p->sums[t].terms, count++) {
            int32_t v = rows_behind(p, t, k);
            if (!is_homeless(p, v) || p->values[v].layout != alike)
                break;
            bytes += bytes_of(p, v);
        }
        if (count > 1 && !settle_run(p, first, t, k, bytes))
            return false;
        t = count ? t : p->sums[first].terms;
    }
    return true;
}

bool find_homes(planner *p)
{
    p->homes = desk_take_zero((size_t)p->key->records * sizeof *p->homes);
    if (!p->homes || !find_fills(p))
        return false;
    if (!(rewrites_done & REWRITE_placement))
        return true;
    for (int k = 0; k < p->updates.count; k++)
        settle_in_stack(p, p->updates.at[k]);
    bool good = true;
    for (int a = 0; a < p->additions.count; a++) {
        const sum_part *s = &p->sums[p->additions.at[a]];
        if (s->role == SUM_END)
            for (int k = 0; good && k < p->key->record[s->terms].inputs; k++)
                good = settle_stretch(p, p->additions.at[a], k);
    }
    for (int k = 0; k < p->updates.count; k++)
        wait_for_update(p, p->updates.at[k]);
    find_orders(p);
    return good;
}

/* --- moving in -----------------------------------------------------------------------------------------------------
 */

bool move_home(planner *p, int32_t v)
{
    const home *h = &p->homes[v];
    int32_t b;
    int64_t offset = h->offset;
    if (h->owner > 0) {
        if (!materialise(p, h->owner - 1))
            return false;
        b = p->values[h->owner - 1].buffer;
        offset += p->values[h->owner - 1].offset;
    } else {
        slab *s = &p->slabs[-h->owner - 1];
        if (s->buffer < 0)
            s->buffer = buffer_new(p, BUFFER_TEMPORARY, s->bytes);
        b = s->buffer;
    }
    if (b < 0)
        return false;
    value_place(p, v, b, offset, p->values[v].layout);
    note(p, FACT_PLACED, v);
    return true;
}

/* --- moving out -----------------------------------------------------------------------------------------------------
 */

/* The memory of a value that is kept: what lives in a stack is copied out of it, now that all is made. */
bool keep_value(planner *p, int32_t v)
{
    if (!materialise(p, v))
        return false;
    const value *x = &p->values[v];
    if (v >= p->key->records || p->homes[v].owner <= 0 || !(p->key->bits[v] & RECORD_KEPT)) {
        draft_buffer *b = &p->buffers[x->buffer];
        b->kind = b->kind == BUFFER_TEMPORARY ? BUFFER_RESULT : b->kind;
        return true;
    }
    if (p->homes[v].kept)
        return true;
    const int32_t b = buffer_new(p, BUFFER_RESULT, x->layout->span * (int64_t)dtype_size((bk_dtype)x->dtype));
    if (b < 0 || !copy_memory(p, (plan_view){ b, (bk_dtype)x->dtype, 0, x->layout }, view_of(p, v), v))
        return false;
    touch(p, v, p->draft_count - 1);
    p->homes[v].kept = b + 1;
    return true;
}
