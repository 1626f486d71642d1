/* rewrite_emit.c: writing the log anew, as rewrite.c has decided.
 *
 * Invariant: a record is written after what it reads, and nothing comes between a kernel and its second result. */
#include "graph/rewriter.h"

#include "graph/desk.h"

bool reserve(rewriter *w, int records)
{
    rewritten *out = w->out;
    if (records <= w->capacity)
        return true;
    size_t had = (size_t)w->capacity, capacity = had + had / 2 < (size_t)records ? (size_t)records : had + had / 2;
    out->key.record = desk_grow(out->key.record, had * sizeof(record_key), capacity * sizeof(record_key));
    out->key.bits = desk_grow(out->key.bits, had, capacity);
    out->layouts = desk_grow(out->layouts, had * sizeof *out->layouts, capacity * sizeof *out->layouts);
    out->origin = desk_grow(out->origin, had * sizeof *out->origin, capacity * sizeof *out->origin);
    w->capacity = (int)capacity;
    return out->key.record && out->key.bits && out->layouts && out->origin;
}

int32_t emit(rewriter *w, record_key key, const layout *l, uint8_t bits, int32_t origin)
{
    rewritten *out = w->out;
    if (!l || !reserve(w, w->out->key.records + 1))
        return NO_RECORD;
    key.layout = l->id;
    out->key.record[out->key.records] = key;
    out->key.bits[out->key.records] = bits;
    out->layouts[out->key.records] = l;
    out->origin[out->key.records] = origin;
    return out->key.records++;
}

int32_t new_input(const rewriter *w, int32_t v) { return v < w->key->records ? w->map[v] : -1 - (v - w->key->records); }

static int32_t emit_empty(rewriter *w, const layout *l, uint8_t dtype, int32_t origin)
{
    return emit(w, (record_key){ .op = OP_empty, .dtype = dtype }, l, RECORD_NEEDED, origin);
}

/* `into` with the value from `at` on along dimension dim. */
static int32_t emit_update(rewriter *w, int32_t into, const layout *whole, int32_t value, const layout *l, int dim,
                           int64_t at, uint8_t dtype, int32_t origin)
{
    record_key key = { .op = OP_update, .dtype = dtype, .inputs = 2, .in = { into, value } };
    key.attr.region.layout = layout_get(2, l->sizes, whole->strides);
    key.attr.region.offset = at * whole->strides[dim];
    if (into == NO_RECORD || !key.attr.region.layout)
        return NO_RECORD;
    return emit(w, key, whole, RECORD_NEEDED, origin);
}

int32_t emit_view(rewriter *w, int32_t of, const layout *whole, const layout *l, int64_t offset, uint8_t dtype,
                  int32_t origin)
{
    record_key key = { .op = OP_view, .dtype = dtype, .inputs = 1, .in = { of } };
    key.attr.region.layout = whole;
    key.attr.region.offset = offset;
    return of == NO_RECORD ? NO_RECORD : emit(w, key, l, RECORD_NEEDED, origin);
}

int32_t emit_product(rewriter *w, const record_key *like, int32_t a, const layout *la, int32_t b, const layout *lb,
                     const layout *l, uint8_t bits, int32_t origin)
{
    record_key key = *like;
    key.in[0] = a;
    key.in[1] = b;
    key.attr.product.a = la;
    key.attr.product.b = lb;
    return a == NO_RECORD || b == NO_RECORD ? NO_RECORD : emit(w, key, l, bits, origin);
}

static int32_t emit_joined(rewriter *w, const set *s)
{
    joined_weight *j = &w->joined[s->joined];
    uint8_t dtype = w->key->record[s->parts[0].record].dtype;
    if (j->record >= 0)
        return j->record;
    int32_t made = emit_empty(w, j->layout, dtype, s->first);
    for (int k = 0; k < s->count; k++)
        made = emit_update(w, made, j->layout, new_input(w, s->parts[k].weight), layout_of(w, s->parts[k].weight),
                           j->dim, s->parts[k].at, dtype, s->first);
    return j->record = made;
}

/* --- runs of rows ------------------------------------------------------------------------------------------------- */

/* `count` rows of a weight from `at` on, as the product reads it. */
static int32_t emit_weight_rows(rewriter *w, const record_key *key, int32_t b, const layout *lb, int64_t at,
                                int64_t count, const layout **l, int32_t i)
{
    int dim = rows_dim(key);
    int64_t sizes[2] = { lb->sizes[0], lb->sizes[1] };
    *l = lb;
    if (count == sizes[dim])
        return b;
    sizes[dim] = count;
    *l = layout_get(2, sizes, lb->strides);
    return *l ? emit_view(w, b, lb, *l, at * lb->strides[dim], key->dtype, i) : NO_RECORD;
}

/* The product of all rows of a run. */
static bool emit_run(rewriter *w, run *r, const record_key *key, int32_t b, const layout *lb, int64_t columns,
                     int32_t i)
{
    int64_t step = r->step < 0 ? -r->step : r->step, rows = r->rows * r->count, offset = 0;
    const layout *shown = layout_of(w, r->low), *some;
    const layout *lx = layout_get(2, (int64_t[]){ rows, r->width }, (int64_t[]){ r->rows == 1 ? step : r->width, 1 });
    const layout *l = layout_get(2, (int64_t[]){ rows, columns }, NULL);
    if (!lx || !l)
        return false;
    int32_t weight = emit_weight_rows(w, key, b, lb, r->at, r->width, &some, i), of = r->low;
    if (of < w->key->records) { /* a view, which may be recorded later than this */
        offset = w->key->record[of].attr.region.offset;
        shown = w->key->record[of].attr.region.layout;
        of = value_of(w, of, 0);
    }
    int32_t x = emit_view(w, new_input(w, of), shown, lx, offset, key->dtype, i);
    r->product = emit_product(w, key, x, lx, weight, some, l, RECORD_NEEDED, i);
    note_of(w, FACT_ROWS, i);
    return r->product != NO_RECORD;
}

/* Part i of a run: its rows of the product, and the product of what stood beside them. */
static int32_t emit_rows(rewriter *w, int32_t i, int32_t b, const layout *lb, const layout *l)
{
    run *r = &w->runs[w->marks[i].run - 1];
    const record_key *key = &w->key->record[i];
    if (!l || b == NO_RECORD || (r->product < 0 && !emit_run(w, r, key, b, lb, l->sizes[1], i)))
        return NO_RECORD;
    int64_t place = r->step < 0 ? r->count - 1 - w->marks[i].place : w->marks[i].place;
    int32_t rows = emit_view(w, r->product, w->out->layouts[r->product], l, place * l->numel, key->dtype, i);
    halves h = halves_of(w, i);
    if (h.rest < 0 || rows == NO_RECORD)
        return rows;
    const layout *rest = layout_of(w, h.rest), *some;
    int32_t weight = emit_weight_rows(w, key, b, lb, h.rest_at, rest->sizes[1], &some, i);
    int32_t other = emit_product(w, key, new_input(w, h.rest), rest, weight, some, l, RECORD_NEEDED, i);
    record_key add = { .op = EW_add, .dtype = key->dtype, .inputs = 2, .in = { rows, other } };
    return other == NO_RECORD ? NO_RECORD : emit(w, add, l, RECORD_NEEDED, i);
}

static bool emit_single(rewriter *w, int32_t i)
{
    int32_t b = value_of(w, i, 1);
    w->map[i] = emit_rows(w, i, new_input(w, b), layout_of(w, b), w->layouts[i]);
    return w->map[i] != NO_RECORD;
}

/* --- columns and sums --------------------------------------------------------------------------------------------- */

/* The product of all of the set's columns, and its parts. */
static bool emit_columns(rewriter *w, int32_t i)
{
    const set *s = &w->sets[w->marks[i].set - 1];
    const record_key *key = &w->key->record[i];
    int64_t rows = w->layouts[i]->sizes[0], columns = 0;
    if (i != s->first)
        return true;
    for (int k = 0; k < s->count; k++)
        columns += w->layouts[s->parts[k].record]->sizes[1];
    const layout *l = layout_get(2, (int64_t[]){ rows, columns }, NULL), *lb = w->joined[s->joined].layout;
    int32_t b = emit_joined(w, s), a = value_of(w, i, 0);
    int32_t product = w->marks[i].run
                          ? emit_rows(w, i, b, lb, l)
                          : emit_product(w, key, new_input(w, a), layout_of(w, a), b, lb, l, RECORD_NEEDED, i);
    for (int k = 0; k < s->count; k++) {
        int32_t part = s->parts[k].record;
        const layout *of = l ? layout_get(2, w->layouts[part]->sizes, (int64_t[]){ columns, 1 }) : NULL;
        w->map[part] = emit_view(w, product, l, of, s->parts[k].at, key->dtype, part);
        if (w->map[part] == NO_RECORD)
            return false;
    }
    return true;
}

/* A product of which columns [low, high) are read, in the place of record i: l is its layout, lb that of its weight. */
static int32_t emit_narrow(rewriter *w, const record_key *key, int32_t a, const layout *la, int32_t b, const layout *lb,
                           int32_t i)
{
    const mark *m = &w->marks[i];
    int dim = columns_dim(key);
    int64_t sizes[2] = { lb->sizes[0], lb->sizes[1] }, width = m->high - m->low;
    sizes[dim] = width;
    const layout *some = layout_get(2, sizes, lb->strides);
    const layout *l = layout_get(2, (int64_t[]){ w->layouts[i]->sizes[0], width }, NULL);
    if (!some || !l)
        return NO_RECORD;
    int32_t weight = emit_view(w, b, lb, some, m->low * lb->strides[dim], key->dtype, i);
    note_of(w, FACT_NARROWED, i);
    return emit_product(w, key, a, la, weight, some, l, RECORD_NEEDED, i);
}

/* The factors of a sum side by side, as soon as all are there: before anyone needs them in memory of their own. */
static bool emit_beside(rewriter *w, set *s)
{
    int32_t i = s->result;
    uint8_t dtype = w->key->record[i].dtype;
    int64_t inner = 0;
    for (int k = 0; k < s->count; k++)
        inner += layout_of(w, value_of(w, s->parts[k].record, 0))->sizes[1];
    const layout *l = layout_get(2, (int64_t[]){ w->layouts[i]->sizes[0], inner }, NULL);
    int32_t a = emit_empty(w, l, dtype, i);
    for (int k = 0; k < s->count && a != NO_RECORD; k++) {
        int32_t v = value_of(w, s->parts[k].record, 0);
        a = emit_update(w, a, l, new_input(w, v), layout_of(w, v), 1, s->parts[k].at, dtype, i);
    }
    s->beside = a;
    return a != NO_RECORD;
}

/* The factors side by side times the joined weight; added to what the sum began with. */
static bool emit_sum(rewriter *w, int32_t i)
{
    set *s = &w->sets[w->marks[i].set - 1];
    const record_key *key = &w->key->record[s->parts[0].record];
    if (s->beside < 0 && !emit_beside(w, s))
        return false;
    int32_t a = s->beside, b = emit_joined(w, s);
    const layout *la = w->out->layouts[a], *lb = w->joined[s->joined].layout;
    if (b == NO_RECORD)
        return false;
    bool narrow = s->base < 0 && is_narrow(w, i);
    int32_t sum =
        narrow ? emit_narrow(w, key, a, la, b, lb, i)
               : emit_product(w, key, a, la, b, lb, w->layouts[i], s->base < 0 ? w->key->bits[i] : RECORD_NEEDED, i);
    if (s->base >= 0 && sum != NO_RECORD) {
        record_key add = w->key->record[i];
        add.in[0] = new_input(w, s->base);
        add.in[1] = sum;
        sum = emit(w, add, w->layouts[i], w->key->bits[i], i);
    }
    w->marks[i].role = narrow ? ROLE_NARROW : ROLE_SUM;
    w->map[i] = sum;
    return sum != NO_RECORD;
}

static bool emit_narrowed(rewriter *w, int32_t i)
{
    const record_key *key = &w->key->record[i];
    int32_t a = value_of(w, i, 0), b = value_of(w, i, 1);
    w->map[i] = emit_narrow(w, key, new_input(w, a), layout_of(w, a), new_input(w, b), layout_of(w, b), i);
    return w->map[i] != NO_RECORD;
}

/* A view of columns of a product that has fewer of them now. */
static bool emit_narrow_view(rewriter *w, int32_t i, int32_t of)
{
    const mark *m = &w->marks[of];
    const layout *whole = w->out->layouts[w->map[of]];
    const layout *l = layout_get(2, w->layouts[i]->sizes, whole->strides);
    if (!l)
        return false;
    w->map[i] =
        emit_view(w, w->map[of], whole, l, w->key->record[i].attr.region.offset - m->low, w->key->record[i].dtype, i);
    return w->map[i] != NO_RECORD;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* The part of v that view i shows of what is computed of v: a view, or the same operations over parts. */
static int32_t emit_part(rewriter *w, int32_t i, int32_t v)
{
    const layout *l = layout_of(w, v), *shown = w->layouts[i];
    const bool record = v < w->key->records, alike = l == w->key->record[i].attr.region.layout;
    const uint8_t dtype = record ? w->key->record[v].dtype : w->key->leaf[v - w->key->records].dtype;
    if (!alike) /* one number */
        return l->numel == 1 ? new_input(w, v)
                             : emit_view(w, new_input(w, v), l, layout_get(0, NULL, NULL), 0, dtype, i);
    if (!record || !w->marks[v].spread)
        return emit_view(w, new_input(w, v), l, shown, w->key->record[i].attr.region.offset, dtype, i);
    record_key key = w->key->record[v];
    for (int k = 0; k < key.inputs; k++) {
        const bool again = k && computes_same(w, value_of(w, v, k), value_of(w, v, 0));
        key.in[k] = again ? key.in[0] : emit_part(w, i, value_of(w, v, k));
        if (key.in[k] == NO_RECORD)
            return NO_RECORD;
    }
    return emit(w, key, shown, RECORD_NEEDED, i);
}

static bool emit_part_view(rewriter *w, int32_t i, int32_t of)
{
    w->map[i] = emit_part(w, i, of);
    return w->map[i] != NO_RECORD;
}

/* Most records: written where they are to stand. */
static bool emit_same(rewriter *w, int32_t i)
{
    if (!reserve(w, w->out->key.records + 1))
        return false;
    rewritten *out = w->out;
    const int32_t at = out->key.records++;
    record_key *key = &out->key.record[at];
    *key = w->key->record[i];
    for (int k = 0; k < key->inputs; k++)
        if (key->in[k] >= 0)
            key->in[k] = w->map[key->in[k]];
    out->key.bits[at] = w->key->bits[i];
    out->layouts[at] = w->layouts[i];
    out->origin[at] = i;
    w->map[i] = at;
    return !w->marks[i].completes || emit_beside(w, &w->sets[w->marks[i].completes - 1]);
}

static bool emit_record(rewriter *w, int32_t i)
{
    int32_t in = w->key->record[i].inputs ? w->key->record[i].in[0] : -1;
    switch (w->marks[i].role) {
    case ROLE_COLUMNS: return emit_columns(w, i);
    case ROLE_TERM: return true;
    case ROLE_SUM: return emit_sum(w, i);
    case ROLE_NARROW: return emit_narrowed(w, i);
    case ROLE_LOOKUP: return emit_lookup(w, i);
    default: break;
    }
    if (w->marks[i].run)
        return emit_single(w, i);
    if (w->marks[i].spread)
        return true;
    if (in >= 0 && w->marks[in].spread)
        return emit_part_view(w, i, in);
    if (in >= 0 && w->marks[in].role == ROLE_NARROW)
        return emit_narrow_view(w, i, in);
    return emit_same(w, i);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* Records that nobody needs are left out. */
bool write_anew(rewriter *w)
{
    w->out->key.leaves = w->key->leaves;
    w->out->key.leaf = w->key->leaf;
    w->map = desk_take((size_t)w->key->records * sizeof *w->map);
    bool good = w->map != NULL;
    for (int32_t i = 0; good && i < w->key->records; i++)
        good = !is_needed(w, i) || emit_record(w, i);
    return good;
}
