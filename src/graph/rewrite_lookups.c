/* rewrite_lookups.c: products of rows that were looked up, where a table has fewer rows than are looked up in it.
 *
 * Characters, positions and classes come from small tables: then the same row is multiplied again and again. With a
 * table E, places i, and gradients D of what the rows are multiplied to:
 *   - E[i] W, also with a row of biases added, is (E W)[i], and has its bits;
 *   - E[i]^T D and D^T E[i], the gradient of W, are E^T S and S^T E, where row r of S is the sum of the rows of D
 *     whose place is r;
 *   - the rows of D W^T added up by their places, the gradient of E, are S W^T.
 * Rows may have been put into another order on the way (batch_first): then so are the places.
 *
 * Invariant: rows of the table that nobody looked up have no part in it, even if they hold infinities: they are zeros
 * in the second form, and so are those of the third's result. */
#include "graph/rewriter.h"

#include "graph/desk.h"
#include "graph/kernels.h"
#include "ops/index.h"

enum { LOOKUP_ROWS, LOOKUP_WEIGHT, LOOKUP_TABLE };

enum {
    LOOKS_PER_ROW = 4,   /* at least */
    FEWEST_COLUMNS = 64, /* of the table: a row is copied or added up for the price of some 20 */
    LEAST_WORK = 1 << 20 /* multiply-adds of the product */
};

/* --- rows that were looked up ------------------------------------------------------------------------------------- */

/* Rows of a table, as a matrix shows them. */
typedef struct found {
    int32_t table, index; /* values */
    const layout *order;  /* see places */
} found;

static bool is_record(const rewriter *w, int32_t v) { return v < w->key->records; }

static uint8_t dtype_of(const rewriter *w, int32_t v)
{
    return is_record(w, v) ? w->key->record[v].dtype : w->key->leaf[v - w->key->records].dtype;
}

/* An index of whole rows of a matrix. */
static bool indexes_rows(const attr *a, const layout *l)
{
    return a->index.dims == index_dims(1, 0) && a->index.layout == l && l->ndim == 2 && l->strides[1] == 1;
}

static bool is_lookup(const rewriter *w, int32_t v)
{
    return is_record(w, v) && op_get(w->key->record[v].op)->run == run_index_get &&
           indexes_rows(&w->key->record[v].attr, layout_of(w, value_of(w, v, 0))) &&
           w->layouts[v] == w->layouts[v]->plain && layout_of(w, value_of(w, v, 1))->ndim > 0;
}

/* A view, or a copy in the same sizes. */
static bool is_view_of(const rewriter *w, int32_t v, int32_t of)
{
    return w->key->record[v].op == OP_view && w->key->record[v].attr.region.offset == 0 && is_record(w, of) &&
           w->key->record[v].attr.region.layout == w->layouts[of];
}

static bool is_copy_of(const rewriter *w, int32_t v, int32_t of)
{
    return w->key->record[v].op == OP_cast && w->layouts[v] == w->layouts[v]->plain && is_record(w, of) &&
           w->layouts[of]->plain == w->layouts[v] && w->key->record[of].dtype == w->key->record[v].dtype;
}

/* What v shows all of, in the same order. */
static int32_t whole_of(const rewriter *w, int32_t v)
{
    while (is_record(w, v) && w->key->record[v].inputs && w->layouts[v] == w->layouts[v]->plain) {
        const int32_t of = value_of(w, v, 0);
        if (!is_view_of(w, v, of) || w->layouts[of] != w->layouts[of]->plain ||
            w->layouts[of]->numel != w->layouts[v]->numel)
            break;
        v = of;
    }
    return v;
}

/* The order that such sizes and strides give: one layout for each. */
static const layout *order_of(int ndim, const int64_t *sizes, const int64_t *strides)
{
    int64_t s[BK_MAX_NDIM], t[BK_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < ndim; d++) {
        if (sizes[d] == 1)
            continue;
        if (n && t[n - 1] == sizes[d] * strides[d]) {
            s[n - 1] *= sizes[d];
            t[n - 1] = strides[d];
        } else {
            s[n] = sizes[d];
            t[n++] = strides[d];
        }
    }
    return layout_get(n, s, t);
}

static const layout *in_order(int64_t count) { return order_of(1, &count, (int64_t[]){ 1 }); }

/* The order of the rows of `width` elements that a layout shows; NULL when it shows other things. */
static const layout *order_of_rows(const layout *l, int64_t width)
{
    const int last = l->ndim - 1;
    int64_t strides[BK_MAX_NDIM];
    if (last < 0 || l->sizes[last] != width || l->strides[last] != 1)
        return NULL;
    for (int d = 0; d < last; d++) {
        if (l->strides[d] % width)
            return NULL;
        strides[d] = l->strides[d] / width;
    }
    return order_of(last, l->sizes, strides);
}

/* Whether v is a matrix of looked-up rows. */
static bool find_lookup(const rewriter *w, int32_t v, found *f)
{
    const layout *l = layout_of(w, v);
    if (!is_record(w, v) || l->ndim != 2 || l != l->plain)
        return false;
    int32_t at = whole_of(w, v);
    if (!is_record(w, at))
        return false;
    f->order = in_order(l->sizes[0]);
    if (!is_lookup(w, at)) {
        const int32_t shown = w->key->record[at].inputs ? value_of(w, at, 0) : at;
        if (shown == at || !is_copy_of(w, at, shown))
            return false;
        at = shown;
        if (!is_lookup(w, at)) {
            at = w->key->record[at].inputs ? value_of(w, at, 0) : at;
            if (!is_lookup(w, at) || !is_view_of(w, shown, at))
                return false;
            f->order = order_of_rows(w->layouts[shown], l->sizes[1]);
        }
    }
    f->table = value_of(w, at, 0);
    f->index = value_of(w, at, 1);
    return layout_of(w, f->table)->sizes[1] == l->sizes[1] && f->order && f->order->numel == l->sizes[0];
}

/* --- which products ----------------------------------------------------------------------------------------------- */

static bool pays(int64_t rows, int64_t table_rows, int64_t columns, int64_t width)
{
    return rows >= LOOKS_PER_ROW * table_rows && columns >= FEWEST_COLUMNS && width > 1 &&
           (double)rows * (double)columns * (double)width >= LEAST_WORK;
}

static bool is_untouched(const rewriter *w, int32_t i)
{
    const mark *m = &w->marks[i];
    return is_needed(w, i) && m->role == ROLE_NONE && !m->run && !m->completes;
}

static bool is_product(const rewriter *w, int32_t i)
{
    const record_key *key = &w->key->record[i];
    return key->op == OP_matmul && is_untouched(w, i) && key->attr.product.a->ndim == 2 &&
           key->attr.product.b->ndim == 2 && (key->dtype == BK_FLOAT32 || key->dtype == BK_FLOAT64);
}

static int places_for(rewriter *w, int32_t index, const layout *order)
{
    for (int p = 0; p < w->places_count; p++)
        if (w->places[p].index == index && w->places[p].order == order)
            return p;
    w->places[w->places_count] = (places){ .index = index, .order = order };
    return w->places_count++;
}

static void add_read(rewriter *w, int32_t v)
{
    if (v >= 0 && is_record(w, v))
        w->marks[v].uses++;
}

/* Record i becomes a lookup of this kind. */
static lookup *take(rewriter *w, int32_t i, int kind, int32_t product, const found *f)
{
    lookup *l = &w->lookups[w->lookup_count++];
    *l = (lookup){ .kind = (uint8_t)kind, .product = product, .table = f->table, .summed = -1 };
    l->places = places_for(w, f->index, f->order);
    w->marks[i].role = ROLE_LOOKUP;
    w->marks[i].set = w->lookup_count;
    add_read(w, f->table);
    add_read(w, f->index);
    note_of(w, FACT_LOOKED_UP, product);
    return l;
}

/* One reader less of v: what nobody reads any more is left out. */
static void drop_read(rewriter *w, int32_t v)
{
    while (is_record(w, v) && --w->marks[v].uses == 0 && !is_kept(w, v) && is_untouched(w, v)) {
        w->marks[v].role = ROLE_TERM;
        if (!w->key->record[v].inputs)
            return;
        for (int k = 1; k < w->key->record[v].inputs; k++)
            drop_read(w, value_of(w, v, k));
        v = value_of(w, v, 0);
    }
}

/* The addition of a row of biases that alone reads product i; else i. */
static int32_t with_biases(const rewriter *w, int32_t i, const int32_t *reader)
{
    const int32_t add = reader[i];
    if (w->marks[i].uses != 1 || is_kept(w, i) || add < 0 || w->key->record[add].op != EW_add ||
        !is_untouched(w, add) || value_of(w, add, 0) != i || w->layouts[add] != w->layouts[i] ||
        w->key->record[add].dtype != dtype_of(w, i))
        return i;
    const int32_t bias = value_of(w, add, 1);
    const layout *l = layout_of(w, bias);
    return l->ndim == 1 && l->numel == w->layouts[i]->sizes[1] && dtype_of(w, bias) == dtype_of(w, i) ? add : i;
}

/* Product i, if one of its factors was looked up. */
static void look_at_product(rewriter *w, int32_t i, const int32_t *reader)
{
    const record_key *key = &w->key->record[i];
    const int64_t turned = key->attr.product.turned;
    const int32_t a = value_of(w, i, 0), b = value_of(w, i, 1);
    found f;
    const bool first = find_lookup(w, a, &f);
    if (!first && !((turned & 3) == 1 && find_lookup(w, b, &f)))
        return;
    const int32_t rows = first ? a : b, other = first ? b : a;
    const layout *l = layout_of(w, rows), *o = layout_of(w, other);
    const int64_t width = w->layouts[i]->numel / l->sizes[1];
    if (first && !(turned & 1)) {
        if (!pays(l->sizes[0], layout_of(w, f.table)->sizes[0], l->sizes[1], w->layouts[i]->sizes[1]))
            return;
        const int32_t end = with_biases(w, i, reader);
        take(w, end, LOOKUP_ROWS, i, &f);
        w->marks[i].role = end != i ? ROLE_TERM : ROLE_LOOKUP;
    } else {
        if (turned & 2 || o->strides[1] != 1 || !pays(l->sizes[0], layout_of(w, f.table)->sizes[0], l->sizes[1], width))
            return;
        take(w, i, LOOKUP_WEIGHT, i, &f)->other = other;
    }
    drop_read(w, rows);
}

/* Places of the rows of a matrix that are shown, in other sizes and another order, where an index says: the order of
 * the index in which the rows stand. */
static const layout *order_shown(const layout *shown, int64_t width, const layout *index)
{
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    const layout *l = order_of_rows(shown, width), *plain = index->plain;
    int n = shown->ndim - 1;
    bool taken[BK_MAX_NDIM] = { false };
    if (!l || !shown->dense || n != plain->ndim)
        return NULL;
    for (int d = 0; d < n; d++) { /* the largest stride first */
        int next = -1;
        for (int e = 0; e < n; e++)
            if (!taken[e] && (next < 0 || shown->strides[e] > shown->strides[next]))
                next = e;
        taken[next] = true;
        if (shown->sizes[next] != plain->sizes[next])
            return NULL;
        sizes[d] = plain->sizes[next];
        strides[d] = plain->strides[next];
    }
    return order_of(n, sizes, strides);
}

static bool is_zeros(const rewriter *w, int32_t v)
{
    if (is_record(w, v) && w->key->record[v].op == OP_cast)
        v = value_of(w, v, 0);
    return !is_record(w, v) && w->key->leaf[v - w->key->records].bits & LEAF_ZERO;
}

/* Record i, if it adds up rows of a product at places, over zeros. */
static void look_at_sum(rewriter *w, int32_t i)
{
    const record_key *key = &w->key->record[i];
    if (op_get(key->op)->run != run_index_put || !key->attr.index.mode || key->attr.index.offset ||
        !is_untouched(w, i) || w->layouts[i] != w->layouts[i]->plain || !indexes_rows(&key->attr, w->layouts[i]) ||
        !is_zeros(w, value_of(w, i, 0)))
        return;
    const int32_t shown = value_of(w, i, 1);
    const int64_t width = w->layouts[i]->sizes[1];
    if (!is_record(w, shown) || w->marks[shown].uses != 1 || is_kept(w, shown) || !is_untouched(w, shown))
        return;
    const int32_t product = w->key->record[shown].op == OP_view ? value_of(w, shown, 0) : shown;
    if (!is_record(w, product) || !is_product(w, product) || w->marks[product].uses != 1 || is_kept(w, product) ||
        w->key->record[product].attr.product.turned & 1 || w->layouts[product]->ndim != 2 ||
        w->layouts[product]->sizes[1] != width || (shown != product && !is_view_of(w, shown, product)) ||
        w->key->record[product].dtype != key->dtype)
        return;
    const int32_t rows = value_of(w, product, 0);
    found f = { .table = -1, .index = value_of(w, i, 2) };
    f.order = order_shown(w->layouts[shown], width, layout_of(w, f.index));
    if (!f.order || f.order->numel != w->layouts[product]->sizes[0] || layout_of(w, rows)->strides[1] != 1 ||
        !pays(f.order->numel, w->layouts[i]->sizes[0], width, layout_of(w, rows)->sizes[1]))
        return;
    take(w, i, LOOKUP_TABLE, product, &f)->other = rows;
    w->marks[product].role = w->marks[shown].role = ROLE_TERM;
    drop_read(w, value_of(w, i, 0));
}

bool find_lookups(rewriter *w)
{
    const int32_t records = w->key->records;
    const bool any = w->indexes;
    w->lookups = desk_take((any ? MOST_LOOKUPS : 1) * sizeof *w->lookups);
    w->places = desk_take((any ? MOST_LOOKUPS : 1) * sizeof *w->places);
    int32_t *reader = desk_take((any ? (size_t)records : 1) * sizeof *reader);
    if (!w->places || !reader)
        w->lookups = NULL;
    if (!any || !w->lookups)
        return false;
    for (int32_t i = 0; i < records; i++) {
        reader[i] = -1;
        for (int k = 0; k < w->key->record[i].inputs && is_needed(w, i); k++)
            if (w->key->record[i].in[k] >= 0)
                reader[w->key->record[i].in[k]] = i;
    }
    for (int32_t i = 0; i < records && w->lookup_count < MOST_LOOKUPS; i++)
        if (is_product(w, i) && w->layouts[i]->ndim == 2)
            look_at_product(w, i, reader);
        else
            look_at_sum(w, i);
    return w->lookup_count > 0;
}

/* --- what they become --------------------------------------------------------------------------------------------- */

static int32_t emit_copy(rewriter *w, int32_t of, const layout *l, uint8_t dtype, int32_t i)
{
    if (of == NO_RECORD)
        return NO_RECORD;
    return emit(w, (record_key){ .op = OP_cast, .dtype = dtype, .inputs = 1, .in = { of } }, l, RECORD_NEEDED, i);
}

/* The places in the order of the rows, as a vector. */
static int32_t emit_places(rewriter *w, int number, int32_t i)
{
    places *p = &w->places[number];
    if (p->made)
        return p->record;
    const layout *l = layout_of(w, p->index), *plain = l->plain, *flat = layout_get(1, &l->numel, NULL);
    int32_t at = new_input(w, p->index);
    if (l != plain)
        at = emit_copy(w, at, plain, BK_INT64, i);
    if (p->order != in_order(l->numel)) {
        at = emit_view(w, at, plain, p->order, 0, BK_INT64, i);
        plain = p->order->plain;
        at = emit_copy(w, at, plain, BK_INT64, i);
    }
    if (flat && plain != flat)
        at = emit_view(w, at, plain, flat, 0, BK_INT64, i);
    p->made = true;
    return p->record = flat ? at : NO_RECORD;
}

/* A kernel over rows at places. */
static int32_t emit_at(rewriter *w, int op, int32_t rows, int32_t at, const layout *l, uint8_t bits, int32_t i)
{
    record_key key = { .op = (uint16_t)op, .dtype = w->key->record[i].dtype, .inputs = 2, .in = { rows, at } };
    return rows == NO_RECORD || at == NO_RECORD ? NO_RECORD : emit(w, key, l, bits, i);
}

/* (E W)[places], with biases added before. */
static int32_t emit_rows_of_table(rewriter *w, const lookup *u, int32_t at, int32_t i)
{
    const record_key *key = &w->key->record[u->product];
    const layout *table = layout_of(w, u->table);
    const int32_t b = value_of(w, u->product, 1);
    const layout *l = layout_get(2, (int64_t[]){ table->sizes[0], w->layouts[i]->sizes[1] }, NULL);
    int32_t rows = emit_product(w, key, new_input(w, u->table), table, new_input(w, b), layout_of(w, b), l,
                                RECORD_NEEDED, u->product);
    if (i != u->product && rows != NO_RECORD) {
        record_key add = w->key->record[i];
        add.in[0] = rows;
        add.in[1] = new_input(w, value_of(w, i, 1));
        rows = emit(w, add, l, RECORD_NEEDED, i);
    }
    record_key key_at = { .op = OP_index_select, .dtype = key->dtype, .inputs = 2, .in = { rows, at } };
    key_at.attr.index.layout = l;
    key_at.attr.index.dims = index_dims(1, 0);
    return rows == NO_RECORD || at == NO_RECORD ? NO_RECORD : emit(w, key_at, w->layouts[i], w->key->bits[i], i);
}

/* The rows of the gradient, added up by their places: `count` sums. */
static int32_t emit_summed(rewriter *w, lookup *u, int64_t count, int32_t at, int32_t i)
{
    const layout *l = layout_get(2, (int64_t[]){ count, layout_of(w, u->other)->sizes[1] }, NULL);
    for (int k = 0; k < w->lookup_count; k++) {
        const lookup *v = &w->lookups[k];
        if (v->summed >= 0 && v->other == u->other && v->places == u->places && w->out->layouts[v->summed] == l)
            return u->summed = v->summed;
    }
    return u->summed = emit_at(w, OP_index_sum, new_input(w, u->other), at, l, RECORD_NEEDED, i);
}

/* E^T S or S^T E. */
static int32_t emit_weight(rewriter *w, lookup *u, int32_t at, int32_t i)
{
    const record_key *key = &w->key->record[i];
    const layout *table = layout_of(w, u->table);
    const int32_t sums = emit_summed(w, u, table->sizes[0], at, i);
    const int32_t rows = emit_at(w, OP_index_keep, new_input(w, u->table), at, table->plain, RECORD_NEEDED, i);
    if (sums == NO_RECORD || rows == NO_RECORD)
        return NO_RECORD;
    const layout *l = w->out->layouts[sums];
    return value_of(w, i, 0) == u->other
               ? emit_product(w, key, sums, l, rows, table->plain, w->layouts[i], w->key->bits[i], i)
               : emit_product(w, key, rows, table->plain, sums, l, w->layouts[i], w->key->bits[i], i);
}

/* S W^T, where there is something to add up. */
static int32_t emit_table(rewriter *w, lookup *u, int32_t at, int32_t i)
{
    const record_key *key = &w->key->record[u->product];
    const int32_t sums = emit_summed(w, u, w->layouts[i]->sizes[0], at, i), b = value_of(w, u->product, 1);
    if (sums == NO_RECORD)
        return NO_RECORD;
    const int32_t rows = emit_product(w, key, sums, w->out->layouts[sums], new_input(w, b), layout_of(w, b),
                                      w->layouts[i], RECORD_NEEDED, u->product);
    return emit_at(w, OP_index_keep, rows, at, w->layouts[i], w->key->bits[i], i);
}

bool emit_lookup(rewriter *w, int32_t i)
{
    lookup *u = &w->lookups[w->marks[i].set - 1];
    const int32_t at = emit_places(w, u->places, i);
    w->map[i] = u->kind == LOOKUP_ROWS     ? emit_rows_of_table(w, u, at, i)
                : u->kind == LOOKUP_WEIGHT ? emit_weight(w, u, at, i)
                                           : emit_table(w, u, at, i);
    return w->map[i] != NO_RECORD;
}
