/* fills.c: zeros that are only there to be written over.
 *
 * The gradient of a tensor that was read in parts begins as zeros, and each part is added to its region. A part that is
 * the first in its region is simply written there, and zeros that parts cover completely are never filled in.
 *
 * Invariant: between the fill and the update that is looked at nobody else reads what is there, and the regions written
 * so far are one stretch of elements and those of the fill's family: one layout, offsets from low to high. A family
 * that leaves nothing out between its first and last element joins the stretch: the gates of a step, column by column,
 * and then those of the next. */
#include "graph/builder.h"

#include "graph/desk.h"

static bool is_zeros(const planner *p, int32_t v)
{
    if (v >= p->key->records || p->key->record[v].op != OP_cast)
        return false;
    int32_t in = p->key->record[v].in[0];
    return in < 0 && p->key->leaf[-1 - in].bits & LEAF_ZERO && p->values[v].layout == p->values[v].layout->plain;
}

static fill *fill_new(planner *p, int32_t root)
{
    if (p->fill_count == p->fill_capacity) {
        int capacity = p->fill_capacity ? p->fill_capacity * 2 : 16;
        fill *grown = desk_grow(p->fills, (size_t)p->fill_count * sizeof *grown, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        p->fills = grown;
        p->fill_capacity = capacity;
    }
    p->fills[p->fill_count] = (fill){ .root = root };
    return &p->fills[p->fill_count++];
}

static bool is_written(const fill *f, const layout *l, int64_t offset)
{
    if (f->begin < f->end && offset < f->end && f->begin < offset + l->span)
        return true;
    return f->layout && (f->layout != l || layout_meets(l, f->low, f->high, l, offset));
}

static void write_region(fill *f, const layout *l, int64_t offset)
{
    f->low = f->layout && f->low < offset ? f->low : offset;
    f->high = f->layout && f->high > offset ? f->high : offset;
    f->layout = l;
    f->count += l->numel;
    f->covered += l->numel;
    const int64_t end = f->high + l->span;
    const bool first = f->begin == f->end, beside = f->low == f->end || end == f->begin;
    if (f->count != end - f->low || !(first || beside))
        return;
    f->begin = first || f->low < f->begin ? f->low : f->begin;
    f->end = first || end > f->end ? end : f->end;
    f->layout = NULL;
    f->count = 0;
}

/* Update i writes into zeros: is it the first to write there? */
static bool look_at(planner *p, int32_t i)
{
    const attr *a = &p->key->record[i].attr;
    const layout *l = a->region.layout;
    int32_t old = input_of(p, i, 0);
    if (old >= p->key->records || p->uses[old] != 1)
        return true;
    fill *f = p->homes[old].fill ? &p->fills[p->homes[old].fill - 1] : NULL;
    if (!f && is_zeros(p, old) && !(f = fill_new(p, old)))
        return false;
    if (!f || f->closed)
        return true;
    f->closed = l->overlapping || is_written(f, l, a->region.offset);
    if (f->closed)
        return true;
    write_region(f, l, a->region.offset);
    p->homes[i].fill = (int32_t)(f - p->fills) + 1;
    p->homes[i].fresh = true;
    if (f->covered == p->values[f->root].layout->numel) {
        p->homes[f->root].unfilled = true;
        note(p, FACT_UNFILLED, f->root);
    }
    return true;
}

bool find_fills(planner *p)
{
    bool good = true;
    for (int k = 0; good && rewrites_done & REWRITE_fills && k < p->updates.count; k++)
        good = look_at(p, p->updates.at[k]);
    return good;
}
