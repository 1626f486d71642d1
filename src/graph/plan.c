/* plan.c: from a log to a flat program, in one pass over the records.
 *
 * Instructions are numbered in the order they will run. An elementwise record joins the latest group of its shape if
 * everything it reads is made before that group or in it; everything else becomes an instruction at the end. So a
 * group may gain members after later instructions were made, but never one that depends on them.
 *
 * Values live in buffers; several may share one: views, and the versions that in-place updates make. A buffer's list
 * names every value in it, so that an update can tell whether somebody still needs what it would overwrite.
 *
 * Invariant: born(value) is the number of the instruction after which the value can be read in memory; an instruction
 * reads only values born before it (a group's members also each other's, through registers). */
#include "graph/plan.h"

#include <stddef.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/threads.h"
#include "graph/builder.h"
#include "graph/desk.h"
#include "graph/kernels.h"
#include "graph/rewrite.h"

enum {
    MANY_RECORDS = 512,   /* that take longer to plan than a worker to wake */
    LONGEST_GROUP = 4096, /* members: bounds the ports of a program */
    WATCHED_VALUES = 16,  /* values of a buffer that an update checks one by one */
    GROUP_CACHE = 64,     /* shapes whose latest group is remembered */
};

/* --- buffers --------------------------------------------------------------------------------------------------- */

int32_t buffer_new(planner *p, int kind, int64_t bytes)
{
    if (p->buffer_count == p->buffer_capacity) {
        int capacity = p->buffer_capacity ? p->buffer_capacity * 2 : 64 + p->key->records / 4;
        draft_buffer *grown =
            desk_grow(p->buffers, (size_t)p->buffer_count * sizeof *grown, (size_t)capacity * sizeof *grown);
        if (!grown)
            return -1;
        p->buffers = grown;
        p->buffer_capacity = capacity;
    }
    draft_buffer *b = &p->buffers[p->buffer_count];
    record_clear(b, sizeof *b);
    b->kind = (uint8_t)kind;
    b->bytes = bytes;
    b->first = INT32_MAX;
    b->last = b->touched = b->values = -1;
    return p->buffer_count++;
}

void buffer_touch(planner *p, int32_t b, int32_t instruction)
{
    draft_buffer *buffer = &p->buffers[b];
    if (instruction < buffer->first)
        buffer->first = instruction;
    if (instruction > buffer->last)
        buffer->last = instruction;
}

void value_place(planner *p, int32_t v, int32_t b, int64_t offset, const layout *l)
{
    value *x = &p->values[v];
    x->buffer = b;
    x->offset = offset;
    x->layout = l;
    x->next = p->buffers[b].values;
    p->buffers[b].values = v;
    p->buffers[b].value_count++;
}

/* --- in place or not ---------------------------------------------------------------------------------------------- */

/* A value leaves the list for a family: same layout, a range of offsets. What fits no family counts as everywhere. */
static void fold(draft_buffer *b, const value *x, bool live)
{
    for (int f = 0; f < b->family_count; f++) {
        family *y = &b->families[f];
        if (y->layout != x->layout || y->live != live)
            continue;
        y->low = x->offset < y->low ? x->offset : y->low;
        y->high = x->offset > y->high ? x->offset : y->high;
        y->touched = x->touched > y->touched ? x->touched : y->touched;
        return;
    }
    if (!b->families)
        b->families = desk_try(FAMILIES * sizeof *b->families);
    if (b->families && b->family_count < FAMILIES) {
        b->families[b->family_count++] = (family){ x->layout, x->offset, x->offset, x->touched, live };
    } else {
        b->touched = x->touched > b->touched ? x->touched : b->touched;
        b->crowded |= live;
    }
}

/* Whether v is the stack that `old` has its home in, before record `at`: as yet nothing of it was written there. */
static bool is_stack_of(const planner *p, int32_t v, int32_t old, int32_t at)
{
    if (v >= p->key->records || old >= p->key->records)
        return false;
    const home *h = &p->homes[memory_behind(p, old)];
    return h->owner > 0 && at < h->update && (v == h->owner - 1 || p->homes[v].stack == h->owner);
}

/* Whether record `at` may write the region into the buffer of `old`: nobody reads what it overwrites afterwards. */
static bool may_overwrite(planner *p, int32_t old, const layout *region, int64_t offset, int32_t at)
{
    draft_buffer *b = &p->buffers[p->values[old].buffer];
    if (b->kind == BUFFER_LEAF) {
        uint8_t bits = p->key->leaf[b->leaf].bits;
        if (bits & LEAF_FORCED)
            return true;
        if (bits & (LEAF_HELD | LEAF_CONSTANT))
            return false;
    }
    if (p->values[old].last_use > at || b->crowded)
        return false;
    for (int f = 0; f < b->family_count; f++) {
        const family *y = &b->families[f];
        if (y->live && layout_meets(y->layout, y->low, y->high, region, offset))
            return false;
    }
    int32_t *link = &b->values;
    for (int watched = 0; *link >= 0;) {
        value *x = &p->values[*link];
        bool live = x->last_use > at;
        if (live && layout_meets(x->layout, x->offset, x->offset, region, offset) && !is_stack_of(p, *link, old, at))
            return false;
        bool counts = x->last_use >= at || x->touched >= 0; /* what record `at` reads, it may yet touch */
        if (!counts || ++watched > WATCHED_VALUES) { /* the latest stand first: it is older ones that are folded */
            if (counts)
                fold(b, x, live);
            *link = x->next;
        } else {
            link = &x->next;
        }
    }
    return true;
}

/* Whether the region is left alone by every instruction from number `since` on. */
static bool untouched_since(const planner *p, plan_view region, int32_t since)
{
    const draft_buffer *b = &p->buffers[region.buffer];
    if (b->touched >= since)
        return false;
    for (int f = 0; f < b->family_count; f++) {
        const family *y = &b->families[f];
        if (y->touched >= since && layout_meets(y->layout, y->low, y->high, region.layout, region.offset))
            return false;
    }
    int watched = 0;
    for (int32_t v = b->values; v >= 0; v = p->values[v].next) {
        const value *x = &p->values[v];
        if (++watched > 2 * WATCHED_VALUES)
            return false;
        if (x->touched >= since && layout_meets(x->layout, x->offset, x->offset, region.layout, region.offset))
            return false;
    }
    return true;
}

/* Whether nothing but reads of v itself touches its region from instruction g on. Another member of the group that has
 * its memory there may be read from it by a reduction, tile by tile, as the group runs. A product is there before its
 * group begins. */
static bool only_read_as(const planner *p, const value *v, int32_t g)
{
    const int32_t product = p->drafts[g].kind == DO_KERNEL ? p->drafts[g].record : -1;
    const draft_buffer *b = &p->buffers[v->buffer];
    if (b->touched >= g || b->crowded)
        return false;
    for (int f = 0; f < b->family_count; f++)
        if (b->families[f].touched >= g)
            return false;
    int watched = 0;
    for (int32_t w = b->values; w >= 0; w = p->values[w].next) {
        const value *x = &p->values[w];
        bool same = x->layout == v->layout && x->offset == v->offset;
        if (++watched > 2 * WATCHED_VALUES || (x->group == g && w != product) || x->touched > g ||
            (x->touched == g && !same))
            return false;
    }
    return true;
}

/* Whether v fills a buffer that may change hands. */
static bool fills_buffer(const planner *p, const value *v)
{
    const draft_buffer *b = &p->buffers[v->buffer];
    if (v->offset != 0)
        return false;
    if (b->kind == BUFFER_LEAF)
        return p->key->leaf[b->leaf].bits == LEAF_WHOLE &&
               p->values[p->key->records + b->leaf].layout->numel == v->layout->numel;
    return b->bytes == v->layout->span * (int64_t)dtype_size((bk_dtype)v->dtype);
}

/* A member of a group may be written over an operand that ends with it, element by element. What a product reads must
 * stay: each of its rows needs all of it. The product itself, the first that its group was offered, comes last: its
 * memory is where its kernel can add something to it (take_addend). */
static bool take_over(planner *p, int32_t i)
{
    value *x = &p->values[i];
    if (x->group < 0 || !x->layout->dense || !(rewrites_done & REWRITE_reuse))
        return false;
    const draft *d = &p->drafts[x->group];
    for (int n = 0; n < d->operand_count; n++) {
        const int k = d->kind == DO_KERNEL ? (n + 1) % d->operand_count : n;
        value *v = &p->values[d->operands[k]];
        if (v->last_use > i || v->layout != x->layout ||
            dtype_size((bk_dtype)v->dtype) != dtype_size((bk_dtype)x->dtype) || !fills_buffer(p, v))
            continue;
        if (d->kind == DO_KERNEL && (v->buffer == d->in[0].buffer || v->buffer == d->in[1].buffer))
            continue;
        if (!only_read_as(p, v, x->group) || !may_overwrite(p, d->operands[k], v->layout, v->offset, i))
            continue;
        note(p, FACT_REUSED, i);
        value_place(p, i, v->buffer, 0, x->layout);
        return true;
    }
    return false;
}

/* Gives an elementwise member memory; other values have theirs already. */
bool materialise(planner *p, int32_t v)
{
    value *x = &p->values[v];
    if (x->buffer >= 0)
        return true;
    const bool copies = v < p->key->records && p->homes[v].source;
    const layout *turned = copies ? source_layout(p, v, x->layout) : NULL;
    if (copies && !turned)
        return false;
    if (v < p->key->records && p->homes[v].owner) {
        if (!move_home(p, v))
            return false;
    } else if (!take_over(p, v)) {
        int64_t size = (int64_t)dtype_size((bk_dtype)x->dtype);
        int32_t b = buffer_new(p, BUFFER_TEMPORARY, x->layout->span * size);
        if (b < 0)
            return false;
        value_place(p, v, b, 0, x->layout);
    }
    if (x->born >= 0) {
        buffer_touch(p, x->buffer, x->born);
        x->touched = x->born;
    }
    if (copies)
        settle_source(p, v, turned);
    return true;
}

/* --- instructions --------------------------------------------------------------------------------------------------
 */

draft *draft_new(planner *p, instruction_kind kind, int32_t record)
{
    if (p->draft_count == p->draft_capacity) {
        int capacity = p->draft_capacity ? p->draft_capacity * 2 : 64 + p->key->records / 4;
        draft *grown = desk_grow(p->drafts, (size_t)p->draft_count * sizeof *grown, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        p->drafts = grown;
        p->draft_capacity = capacity;
    }
    draft *d = &p->drafts[p->draft_count++];
    record_clear(d, sizeof *d);
    d->kind = kind;
    d->record = record;
    d->first_member = d->last_member = d->packed = -1;
    return d;
}

/* v is read from (or written to) memory by the instruction. */
void touch(planner *p, int32_t v, int32_t instruction)
{
    value *x = &p->values[v];
    buffer_touch(p, x->buffer, instruction);
    if (instruction > x->touched)
        x->touched = instruction;
}

static bool read_value(planner *p, int32_t v, int32_t instruction)
{
    if (!materialise(p, v))
        return false;
    touch(p, v, instruction);
    return true;
}

bool copy_memory(planner *p, plan_view to, plan_view from, int32_t record)
{
    draft *d = draft_new(p, DO_COPY, record);
    if (!d)
        return false;
    d->copy.to = to;
    d->copy.from = from;
    buffer_touch(p, to.buffer, p->draft_count - 1);
    buffer_touch(p, from.buffer, p->draft_count - 1);
    return true;
}

/* --- elementwise groups ----------------------------------------------------------------------------------------------
 */

static void group_append(planner *p, int32_t group, int32_t record)
{
    draft *d = &p->drafts[group];
    p->next_member[record] = -1;
    if (d->last_member >= 0)
        p->next_member[d->last_member] = record;
    else
        d->first_member = record;
    d->last_member = record;
    d->members++;
}

static int32_t *group_slot(planner *p, const layout *plain) { return &p->latest_group[plain->id % GROUP_CACHE]; }

/* The group that record i joins: the latest of its shape, or a new one. -1: out of memory. */
static int32_t group_for(planner *p, int32_t i, const layout *plain)
{
    int32_t *slot = group_slot(p, plain), g = *slot;
    const int most = rewrites_done & REWRITE_groups ? LONGEST_GROUP : 1;
    bool joins = g >= 0 && p->drafts[g].plain == plain && p->drafts[g].members < most;
    for (int k = 0; joins && k < p->key->record[i].inputs; k++) {
        const value *x = &p->values[input_of(p, i, k)];
        joins = x->born < g || x->group == g;
    }
    if (joins) {
        if (p->drafts[g].kind == DO_KERNEL)
            note(p, FACT_EPILOGUE, i);
        return g;
    }
    draft *d = draft_new(p, DO_PROGRAM, i);
    if (!d)
        return -1;
    d->plain = plain;
    note(p, FACT_GROUP, i);
    return *slot = p->draft_count - 1;
}

/* The group reads v: its memory may serve a result of the group, if it is not needed afterwards. */
static void offer_operand(planner *p, int32_t g, int32_t v)
{
    draft *d = &p->drafts[g];
    if (d->operand_count < OPERANDS && p->values[v].last_use < INT32_MAX && p->values[v].layout->dense)
        d->operands[d->operand_count++] = v;
}

static bool group_takes(planner *p, int32_t i, int32_t g);

/* Reads every input of record i that is not a register of the group, and makes those that are made where they are
 * read. */
static bool group_reads(planner *p, int32_t i, int32_t g)
{
    for (int k = 0; k < p->key->record[i].inputs; k++) {
        int32_t v = input_of(p, i, k);
        if (p->late_count && v < p->key->records && p->homes[v].late && !group_takes(p, v, g))
            return false;
        if (p->values[v].group == g)
            continue;
        if (!read_value(p, v, g))
            return false;
        offer_operand(p, g, v);
    }
    return true;
}

/* Record i becomes a member of the group. */
static bool group_takes(planner *p, int32_t i, int32_t g)
{
    if (!group_reads(p, i, g))
        return false;
    group_append(p, g, i);
    p->values[i].group = p->values[i].born = g;
    p->late_count -= p->homes[i].late;
    p->homes[i].late = false;
    return true;
}

static bool join_group(planner *p, int32_t i)
{
    int32_t g = group_for(p, i, p->values[i].layout->plain);
    return g >= 0 && group_takes(p, i, g);
}

/* Whether record i is one number in every element, for others to read. In the group that reads it it costs nothing;
 * in one that stands before, memory. */
static bool is_repeated(const planner *p, int32_t i)
{
    const home *h = &p->homes[i];
    const int32_t in = p->key->record[i].in[0];
    return p->key->record[i].op == OP_cast && in < 0 && p->values[p->key->records - 1 - in].layout->numel == 1 &&
           p->values[i].layout->numel > 1 && p->values[i].last_use != INT32_MAX && !h->owner && !h->within;
}

static bool plan_elementwise(planner *p, int32_t i)
{
    if (p->homes[i].source) {
        p->values[i].born = p->values[p->homes[i].source - 1].born;
        return true;
    }
    p->homes[i].late = rewrites_done & REWRITE_late && is_repeated(p, i);
    p->late_count += p->homes[i].late;
    return p->homes[i].late || join_group(p, i);
}

/* What record i reads and is yet to be made, unless a group can make it as it goes. */
static bool make_late_inputs(planner *p, int32_t i, bool elementwise)
{
    for (int k = 0; p->late_count && k < p->key->record[i].inputs; k++) {
        int32_t v = input_of(p, i, k);
        if (v >= p->key->records || !p->homes[v].late)
            continue;
        bool alike = elementwise && p->values[v].layout->plain == p->values[i].layout->plain;
        if (!alike && !join_group(p, v))
            return false;
    }
    return true;
}

/* --- views and updates
 * ------------------------------------------------------------------------------------------------ */

/* A view's strides are those of its base as it was recorded. A base that was computed straight into a region of
 * something else has other ones: the view is then one of a copy. */
static bool view_copy(planner *p, int32_t i, int32_t base)
{
    const attr *a = &p->key->record[i].attr;
    value *x = &p->values[i];
    int32_t b = buffer_new(p, BUFFER_TEMPORARY, a->region.layout->span * (int64_t)dtype_size((bk_dtype)x->dtype));
    if (b < 0 || !copy_memory(p, (plan_view){ b, (bk_dtype)x->dtype, 0, a->region.layout }, view_of(p, base), i))
        return false;
    x->born = p->draft_count - 1;
    value_place(p, i, b, a->region.offset, x->layout);
    touch(p, i, x->born);
    touch(p, base, x->born);
    return true;
}

static bool plan_viewing(planner *p, int32_t i)
{
    int32_t base = input_of(p, i, 0);
    if (p->homes[i].waits)
        return true;
    if (!materialise(p, base))
        return false;
    if (p->values[base].layout != p->key->record[i].attr.region.layout)
        return view_copy(p, i, base);
    value *x = &p->values[i];
    x->born = p->values[base].born;
    value_place(p, i, p->values[base].buffer, p->values[base].offset + p->key->record[i].attr.region.offset, x->layout);
    return true;
}

/* The buffer that record i's result starts from: that of its first input when it may be overwritten, else a copy
 * (unless every element is about to be replaced). */
static bool start_from(planner *p, int32_t i, const layout *region, int64_t offset, bool replaces)
{
    int32_t old = input_of(p, i, 0);
    if (!materialise(p, old))
        return false;
    value *x = &p->values[i], *from = &p->values[old];
    if (from->layout == x->layout && may_overwrite(p, old, region, from->offset + offset, i)) {
        x->born = from->born;
        value_place(p, i, from->buffer, from->offset, x->layout);
        return true;
    }
    int32_t b = buffer_new(p, BUFFER_TEMPORARY, x->layout->span * (int64_t)dtype_size((bk_dtype)x->dtype));
    if (b < 0)
        return false;
    value_place(p, i, b, 0, x->layout);
    if (replaces)
        return true;
    note(p, FACT_OLD_HELD, i);
    if (!copy_memory(p, view_of(p, i), view_of(p, old), i))
        return false;
    x->born = p->draft_count - 1;
    touch(p, i, x->born);
    touch(p, old, x->born);
    return true;
}

/* The region of an update as seen in the buffer of record i. */
static plan_view region_of(const planner *p, int32_t i)
{
    const attr *a = &p->key->record[i].attr;
    plan_view whole = view_of(p, i);
    return (plan_view){ whole.buffer, whole.dtype, whole.offset + a->region.offset, a->region.layout };
}

/* The region as a value of the dense layout l has to write it, element after element of its memory. *fits is false
 * where no strides do that; NULL with *fits: memory is out. */
static const layout *region_seen_as(const layout *region, const layout *l, bool *fits)
{
    int order[BK_MAX_NDIM] = { 0 };
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM], own[BK_MAX_NDIM];
    for (int d = 0; d < l->ndim; d++) { /* outermost first; dimensions of size 1 may be anywhere */
        int at = d;
        for (; at > 0 && l->strides[order[at - 1]] < l->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int d = 0; d < l->ndim; d++)
        sizes[d] = l->sizes[order[d]];
    *fits = layout_view_strides(region, l->ndim, sizes, strides);
    for (int d = 0; *fits && d < l->ndim; d++)
        own[order[d]] = strides[d];
    return *fits ? layout_get(l->ndim, l->sizes, own) : NULL;
}

/* A value that only exists to be written into the region can be computed right there, if nothing touches the buffer
 * between its making and now. */
static bool place_in_region(planner *p, int32_t i, int32_t v, plan_view region)
{
    value *x = &p->values[v];
    if (v >= p->key->records || x->buffer >= 0 || x->last_use == INT32_MAX || x->sunk ||
        !(rewrites_done & REWRITE_placement))
        return false;
    if ((x->group < 0 && !p->homes[v].source) || !untouched_since(p, region, x->born))
        return false;
    if (p->values[i].born > x->born && !p->homes[i].fill)
        return false;
    const layout *turned = p->homes[v].source ? source_layout(p, v, region.layout) : NULL;
    if (p->homes[v].source && !turned)
        return false;
    value_place(p, v, region.buffer, region.offset, region.layout);
    touch(p, v, x->born);
    if (x->born > p->values[i].born)
        p->values[i].born = x->born;
    note(p, FACT_PLACED, v);
    if (turned)
        settle_source(p, v, turned);
    return true;
}

/* x[1:] = x[:-1]: what is read must be out of the way before the region is written. */
static bool copy_aside(planner *p, int32_t v, plan_view region, int32_t i, plan_view *from)
{
    *from = view_of(p, v);
    if (from->buffer != region.buffer ||
        !layout_meets(from->layout, from->offset, from->offset, region.layout, region.offset))
        return true;
    const layout *plain = from->layout->plain;
    int32_t b = buffer_new(p, BUFFER_TEMPORARY, plain->span * (int64_t)dtype_size(from->dtype));
    if (b < 0)
        return false;
    plan_view aside = { b, from->dtype, 0, plain };
    if (!copy_memory(p, aside, *from, i))
        return false;
    touch(p, v, p->draft_count - 1);
    *from = aside;
    return true;
}

/* region += value, as a group of its own. */
static bool add_to_region(planner *p, int32_t i, plan_view from, plan_view region)
{
    draft *d = draft_new(p, DO_PROGRAM, i);
    if (!d)
        return false;
    d->plain = region.layout->plain;
    d->in[0] = region;
    d->in[1] = from;
    group_append(p, p->draft_count - 1, i);
    return true;
}

/* Writes v into the region by an instruction of its own: a copy, or a sum. */
static bool write_region(planner *p, int32_t i, int32_t v, plan_view region, bool add)
{
    plan_view from;
    if (!materialise(p, v) || !copy_aside(p, v, region, i, &from))
        return false;
    if (!(add ? add_to_region(p, i, from, region) : copy_memory(p, region, from, i)))
        return false;
    int32_t at = p->draft_count - 1;
    p->values[i].born = at;
    buffer_touch(p, from.buffer, at);
    touch(p, v, at);
    touch(p, i, at);
    return true;
}

static bool plan_update(planner *p, int32_t i)
{
    const attr *a = &p->key->record[i].attr;
    if (is_at_home(p, i)) {
        value *x = &p->values[i], *old = &p->values[input_of(p, i, 0)], *v = &p->values[input_of(p, i, 1)];
        x->born = old->born > v->born ? old->born : v->born;
        value_place(p, i, old->buffer, old->offset, x->layout);
        return true;
    }
    bool add = a->region.add && !p->homes[i].fresh;
    bool replaces = a->region.layout == p->values[i].layout && !add;
    if (!start_from(p, i, a->region.layout, a->region.offset, replaces))
        return false;
    plan_view region = region_of(p, i);
    if (!region.layout->numel)
        return true;
    int32_t v = input_of(p, i, 1);
    if (v < p->key->records && p->homes[v].waits) {
        int32_t base = input_of(p, v, 0);
        plan_view there = region;
        bool fits;
        there.layout = region_seen_as(region.layout, p->values[base].layout, &fits);
        if (fits && there.layout && place_in_region(p, i, base, there))
            return true;
        p->homes[v].waits = false;
        if ((fits && !there.layout) || !plan_viewing(p, v))
            return false;
    }
    if (!add && place_in_region(p, i, v, region))
        return true;
    if (!add)
        note(p, FACT_COPIED, i);
    return write_region(p, i, v, region, add);
}

/* --- kernels -------------------------------------------------------------------------------------------------------
 */

/* A small reduction that would keep group g out of a region: a number for each of few rows, which a region can have
 * among its instructions if it is one of its own, or one that products stand in front of, so that it waits for a step
 * that has long gone on. The values are still in cache when they are read. */
static bool is_better_apart(const planner *p, const attr *a, const layout *from, int32_t g)
{
    enum { FEW_ROWS = 256, FEW_ELEMENTS = 1 << 16 };
    const bool by_rows = a->reduce.dims == 2 && from->ndim == 2 && from->sizes[0] <= FEW_ROWS;
    return from->numel <= FEW_ELEMENTS && (by_rows || p->last_product > g);
}

/* A reduction of a group's member takes its values as they are made, unless their order forbids it. The result is born
 * with the group: no member can read it. */
static bool is_streamed(planner *p, int32_t i)
{
    const record_key *key = &p->key->record[i];
    int (*run)(const struct kernel_call *) = op_get(key->op)->run;
    if ((run != run_reduce && run != run_mean) || key->attr.reduce.kind > REDUCE_ALL ||
        !(rewrites_done & REWRITE_streams))
        return false;
    const value *x = &p->values[input_of(p, i, 0)];
    if (x->group < 0 || p->drafts[x->group].kind != DO_PROGRAM || x->layout != key->attr.reduce.from)
        return false;
    const draft *d = &p->drafts[x->group];
    view src;
    layout_view(&src, x->layout, (bk_dtype)x->dtype, NULL);
    plan_fact refused = FACT_COUNT;
    if (is_better_apart(p, &key->attr, x->layout, x->group))
        refused = FACT_REDUCED_SMALL;
    else if (!x->layout->dense || !reduce_streams(&src, (uint32_t)key->attr.reduce.dims)) {
        refused = FACT_REDUCED_APART;
    } else if (d->sink_count) {
        int32_t other = d->sinks[0];
        if (d->sink_count == REDUCE_SINKS || p->key->record[other].attr.reduce.dims != key->attr.reduce.dims ||
            p->values[input_of(p, other, 0)].layout != x->layout)
            refused = FACT_REDUCED_MANY;
    }
    if (refused != FACT_COUNT)
        note(p, refused, i);
    return refused == FACT_COUNT;
}

static bool plan_sink_of(planner *p, int32_t i)
{
    int32_t v = input_of(p, i, 0), g = p->values[v].group;
    p->values[v].sunk = true;
    p->drafts[g].sinks[p->drafts[g].sink_count++] = i;
    p->values[i].born = g;
    note(p, FACT_REDUCED, i);
    return materialise(p, i);
}

/* What is computed from a product in its own shape joins it, as groups are joined. */
static void open_epilogue(planner *p, int32_t i)
{
    value *x = &p->values[i];
    int32_t g = x->born;
    if (x->layout != x->layout->plain || !x->layout->numel || !(rewrites_done & REWRITE_epilogues))
        return;
    p->drafts[g].plain = x->layout;
    x->group = g;
    *group_slot(p, x->layout) = g;
    offer_operand(p, g, i);
}

/* A product's factors as it reads them. */
static bool turn_factors(const record_key *key, plan_view *in)
{
    for (int k = 0; k < 2; k++)
        if (key->attr.product.turned >> k & 1 && !(in[k].layout = layout_turned(in[k].layout)))
            return false;
    return true;
}

static bool plan_kernel(planner *p, int32_t i, node_kind kind)
{
    const record_key *key = &p->key->record[i];
    value *x = &p->values[i];
    if (kind == KIND_KERNEL_IN_PLACE && !start_from(p, i, x->layout, 0, false))
        return false;
    for (int k = kind == KIND_KERNEL_IN_PLACE; k < key->inputs; k++)
        if (!materialise(p, input_of(p, i, k)))
            return false;
    plan_view in[MAX_INPUTS] = { { 0 } };
    for (int k = 0; k < key->inputs; k++) {
        in[k] = view_of(p, input_of(p, i, k));
        if (kind == KIND_KERNEL_IN_PLACE && !(k ? copy_aside(p, input_of(p, i, k), view_of(p, i), i, &in[k]) : true))
            return false;
    }
    if (key->op == OP_matmul && !turn_factors(key, in))
        return false;
    draft *d = draft_new(p, DO_KERNEL, i);
    if (!d)
        return false;
    int32_t at = p->draft_count - 1;
    x->born = at;
    const bool later = p->homes[i].copied; /* its memory is known when the copy's is */
    if (kind == KIND_KERNEL && !later && !materialise(p, i))
        return false;
    if (!later)
        touch(p, i, at);
    for (int k = 0; k < key->inputs; k++) {
        bool self = k == 0 && kind == KIND_KERNEL_IN_PLACE;
        touch(p, self ? i : input_of(p, i, k), at);
        d->in[k] = self ? view_of(p, i) : in[k];
        buffer_touch(p, d->in[k].buffer, at);
    }
    d->out = view_of(p, i);
    if (op_get(key->op)->run == run_matmul) {
        p->last_product = at;
        if (!later)
            open_epilogue(p, i);
    }
    return true;
}

static bool plan_second(planner *p, int32_t i)
{
    int32_t at = p->values[input_of(p, i, 0)].born;
    p->values[i].born = at;
    if (!materialise(p, i))
        return false;
    p->drafts[at].has_second = true;
    p->drafts[at].second = view_of(p, i);
    return true;
}

static bool plan_record(planner *p, int32_t i)
{
    node_kind kind = op_get(p->key->record[i].op)->kind;
    if (!make_late_inputs(p, i, kind == KIND_ELEMENTWISE && !p->sums[i].role && !p->homes[i].source))
        return false;
    if (p->sums[i].role)
        return plan_sum(p, i);
    if (p->homes[i].unfilled)
        return materialise(p, i);
    switch (kind) {
    case KIND_ELEMENTWISE: return plan_elementwise(p, i);
    case KIND_VIEW: return plan_viewing(p, i);
    case KIND_UPDATE: return plan_update(p, i);
    case KIND_SECOND: return plan_second(p, i);
    case KIND_EMPTY: return materialise(p, i);
    case KIND_KERNEL: return is_streamed(p, i) ? plan_sink_of(p, i) : plan_kernel(p, i, kind);
    case KIND_KERNEL_IN_PLACE: return plan_kernel(p, i, kind);
    case KIND_SOURCE: break;
    }
    return true;
}

/* --- the pass -------------------------------------------------------------------------------------------------------
 */

static bool planner_init(planner *p, const op_log *log, const rewritten *text)
{
    const plan_key *key = p->key = &text->key;
    p->log = log;
    p->origin = text->origin;
    int values = key->records + key->leaves;
    p->values = desk_take((size_t)values * sizeof *p->values);
    p->next_member = desk_take((size_t)key->records * sizeof *p->next_member);
    p->same = desk_take((size_t)key->records * sizeof *p->same);
    p->same_leaf = desk_take((size_t)key->leaves * sizeof *p->same_leaf);
    p->latest_group = desk_take(GROUP_CACHE * sizeof *p->latest_group);
    if (!p->values || !p->next_member || !p->same || !p->same_leaf || !p->latest_group)
        return false;
    for (int g = 0; g < GROUP_CACHE; g++)
        p->latest_group[g] = -1;
    for (int v = 0; v < values; v++) {
        const node *leaf = v < key->records ? NULL : log->leaves[v - key->records];
        p->values[v] = (value){ .buffer = -1,
                                .group = -1,
                                .born = -1,
                                .last_use = -1,
                                .next = -1,
                                .touched = -1,
                                .layout = leaf ? leaf->layout : text->layouts[v],
                                .dtype = leaf ? leaf->dtype : key->record[v].dtype };
        if (v < key->records) {
            p->same[v] = v;
            if (key->bits[v] & RECORD_KEPT)
                p->values[v].last_use = INT32_MAX;
        }
    }
    return true;
}

static bool place_leaves(planner *p)
{
    for (int l = 0; l < p->key->leaves; l++) {
        const leaf_key *leaf = &p->key->leaf[l];
        int32_t v = p->key->records + l, b;
        if (leaf->memory == l) {
            b = buffer_new(p, BUFFER_LEAF, 0);
            if (b < 0)
                return false;
            p->buffers[b].leaf = l;
        } else {
            b = p->values[p->key->records + leaf->memory].buffer;
        }
        value_place(p, v, b, leaf->offset / (int64_t)dtype_size((bk_dtype)leaf->dtype), p->values[v].layout);
    }
    return true;
}

/* To the list of its op, if there is one. */
static void list_record(planner *p, int32_t i)
{
    const int op = p->key->record[i].op;
    record_list *l = op == EW_add ? &p->additions : op == OP_update ? &p->updates : op == OP_cast ? &p->casts : NULL;
    if (l)
        l->at[l->count++] = i;
}

/* Who reads what, and last; terms of sums will be read later (sums.c). */
static bool count_uses(planner *p)
{
    const size_t records = (size_t)p->key->records;
    p->uses = desk_take_zero(records * sizeof *p->uses);
    p->additions.at = desk_take(records * sizeof *p->additions.at);
    p->updates.at = desk_take(records * sizeof *p->updates.at);
    p->casts.at = desk_take(records * sizeof *p->casts.at);
    if (!p->uses || !p->additions.at || !p->updates.at || !p->casts.at)
        return false;
    for (int i = 0; i < p->key->records; i++) {
        if (!(p->key->bits[i] & RECORD_NEEDED) || p->same[i] != i)
            continue;
        list_record(p, i);
        for (int k = 0; k < p->key->record[i].inputs; k++) {
            int32_t v = input_of(p, i, k);
            if (v < p->key->records)
                p->uses[v]++;
            if (p->values[v].last_use < i)
                p->values[v].last_use = i;
        }
        if (p->values[i].last_use == INT32_MAX)
            p->uses[i]++;
    }
    return true;
}

static bool keep_results(planner *p)
{
    for (int i = 0; i < p->key->records; i++) {
        if (p->homes[i].source && !materialise(p, i)) /* a product always has somewhere to write */
            return false;
        if (!(p->key->bits[i] & RECORD_KEPT))
            continue;
        if (!keep_value(p, p->same[i]))
            return false;
    }
    return true;
}

plan *plan_make(const op_log *log, const plan_key *key)
{
    planner p = { .asked = key, .last_product = -1 };
    rewritten text;
    plan *made = NULL;
    bool good = rewrite(&text, log, key, &p.report) && planner_init(&p, log, &text) && place_leaves(&p) &&
                share_equal(&p) && count_uses(&p) && find_sums(&p) && find_homes(&p);
    for (int i = 0; good && i < text.key.records; i++)
        if (text.key.bits[i] & RECORD_NEEDED && p.same[i] == i)
            good = plan_record(&p, i);
    if (text.key.records >= MANY_RECORDS)
        threads_rouse(); /* while the rest is done */
    if (good && keep_results(&p) && share_packed(&p) && find_regions(&p) && find_blocks(&p) && keep_packed(&p))
        made = plan_build(&p);
    if (made)
        report_done(&p.report, key->records, made->code_count, made->arena_bytes);
    regions_free(p.regions, p.region_count);
    desk_clear();
    return made;
}
