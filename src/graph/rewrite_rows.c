/* rewrite_rows.c: rows of many products with one weight that follow each other in memory.
 *
 * A step of a loop over few rows reads all of the weight for each of them; the rows of all steps at once read it once.
 * x[t] is a leaf or a view, at a distance from x[t - 1] that is always the same. Where the loop multiplies
 * cat([x[t], h]), the half that is known beforehand is taken out.
 *
 * Invariant: the parts of a run have one weight and one width, their rows lie at equal distances and all of them exist
 * before its first product. */
#include "graph/rewriter.h"

#include "graph/desk.h"

enum {
    FEW_ROWS = 8, /* of one product; with more it is as fast as all of them together */
    SHORTEST_RUN = 4,
    MOST_RUN_ROWS = 64, /* what is made at once should still be near when it is read */
    LOOKED_AT = 4       /* runs of a bucket */
};

/* Rows of a larger value. */
typedef struct rows_of {
    int32_t root;
    int64_t offset; /* in elements */
    bool found;
} rows_of;

static rows_of find_rows(const rewriter *w, int32_t v)
{
    const layout *l = layout_of(w, v);
    rows_of none = { 0 };
    if (l->ndim != 2 || l->sizes[1] < 2 || l->strides[1] != 1 || (l->sizes[0] > 1 && l->strides[0] != l->sizes[1]))
        return none;
    if (v >= w->key->records) {
        const leaf_key *leaf = &w->key->leaf[v - w->key->records];
        int64_t size = (int64_t)dtype_size((bk_dtype)leaf->dtype);
        if (leaf->bits & LEAF_CONSTANT || leaf->offset % size)
            return none;
        return (rows_of){ w->key->records + leaf->memory, leaf->offset / size, true };
    }
    if (w->key->record[v].op != OP_view)
        return none;
    int32_t of = value_of(w, v, 0);
    if (of >= w->key->records || w->layouts[of] != w->key->record[v].attr.region.layout)
        return none;
    return (rows_of){ of, w->key->record[v].attr.region.offset, true };
}

/* Update u writes a value into all rows of some columns. */
static bool writes_columns(const rewriter *w, int32_t u)
{
    const attr *a = &w->key->record[u].attr;
    const layout *l = w->layouts[u], *r = a->region.layout;
    return !a->region.add && l->ndim == 2 && l == l->plain && r->ndim == 2 && r->sizes[0] == l->sizes[0] &&
           r->strides[1] == 1 && (r->strides[0] == l->sizes[1] || r->sizes[0] == 1) &&
           a->region.offset + r->sizes[1] <= l->sizes[1] && layout_of(w, value_of(w, u, 1))->ndim == 2;
}

halves halves_of(const rewriter *w, int32_t product)
{
    const halves none = { .rest = -1 };
    const int32_t records = w->key->records;
    int32_t second = value_of(w, product, 0);
    if (second >= records || w->key->record[second].op != OP_update)
        return none;
    int32_t first = value_of(w, second, 0);
    if (first >= records || w->key->record[first].op != OP_update)
        return none;
    int32_t memory = value_of(w, first, 0);
    if (memory >= records || w->key->record[memory].op != OP_empty || !writes_columns(w, first) ||
        !writes_columns(w, second))
        return none;
    const attr *a = &w->key->record[first].attr, *b = &w->key->record[second].attr;
    int64_t wide_a = a->region.layout->sizes[1], wide_b = b->region.layout->sizes[1];
    bool in_order = a->region.offset == 0 && b->region.offset == wide_a;
    bool turned = b->region.offset == 0 && a->region.offset == wide_b;
    if ((!in_order && !turned) || wide_a + wide_b != w->layouts[second]->sizes[1])
        return none;
    int32_t x = value_of(w, first, 1), y = value_of(w, second, 1);
    if (find_rows(w, x).found)
        return (halves){ .known = x, .rest = y, .at = a->region.offset, .rest_at = b->region.offset };
    if (find_rows(w, y).found)
        return (halves){ .known = y, .rest = x, .at = b->region.offset, .rest_at = a->region.offset };
    return none;
}

static run *run_new(rewriter *w)
{
    if (w->run_count == w->run_capacity) {
        int capacity = w->run_capacity ? w->run_capacity * 2 : 16;
        run *grown = desk_grow(w->runs, (size_t)w->run_count * sizeof *grown, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        w->runs = grown;
        w->run_capacity = capacity;
    }
    return &w->runs[w->run_count++];
}

/* Whether the part is the next of the run. */
static bool continues(const run *r, const run *part)
{
    int64_t step = part->offset - r->offset, apart = step < 0 ? -step : step;
    if (r->root != part->root || r->weight != part->weight || r->turned != part->turned || r->rows != part->rows ||
        r->width != part->width || r->at != part->at || (r->count + 1) * r->rows > MOST_RUN_ROWS)
        return false;
    if (r->step)
        return step == r->step;
    return r->rows == 1 ? apart >= r->width : apart == r->rows * r->width;
}

/* The run that the part continues, or a new one; 0: out of memory. */
static int run_for(rewriter *w, const run *part)
{
    int *bucket = &w->run_bucket[((uint32_t)part->weight * 31u + (uint32_t)part->root) % BUCKETS];
    int number = *bucket;
    for (int looked = 0; number && looked < LOOKED_AT; number = w->runs[number - 1].next, looked++)
        if (continues(&w->runs[number - 1], part))
            return number;
    run *r = run_new(w);
    if (!r)
        return 0;
    *r = *part;
    r->next = *bucket;
    return *bucket = w->run_count;
}

/* Product i, or the joined one that begins with it. */
static bool look_at(rewriter *w, int32_t i)
{
    const mark *m = &w->marks[i];
    halves h = halves_of(w, i);
    int32_t x = h.rest < 0 ? value_of(w, i, 0) : h.known;
    rows_of rows = find_rows(w, x);
    const layout *l = layout_of(w, x);
    if (!rows.found || l->sizes[0] > FEW_ROWS || !l->sizes[0])
        return true;
    run part = { .root = rows.root, .offset = rows.offset, .rows = l->sizes[0], .width = l->sizes[1] };
    part.at = h.rest < 0 ? 0 : h.at;
    part.turned = w->key->record[i].attr.product.turned;
    part.low = x;
    part.product = -1;
    part.weight = m->role == ROLE_COLUMNS ? -1 - w->sets[m->set - 1].joined : value_of(w, i, 1);
    int number = run_for(w, &part);
    if (!number)
        return false;
    run *r = &w->runs[number - 1];
    if (r->count && !r->step)
        r->step = part.offset - r->offset;
    r->offset = part.offset;
    r->low = r->step < 0 ? x : r->low;
    w->marks[i].run = number;
    w->marks[i].place = r->count++;
    return true;
}

bool find_runs(rewriter *w)
{
    for (int32_t k = w->first_product; k < w->key->records; k++) {
        const int32_t i = w->products[k];
        const mark *m = &w->marks[i];
        bool whole = m->role == ROLE_NONE || (m->role == ROLE_COLUMNS && w->sets[m->set - 1].first == i);
        if (whole && !look_at(w, i))
            return false;
    }
    bool any = false;
    for (int32_t k = w->first_product; k < w->key->records; k++) {
        mark *m = &w->marks[w->products[k]];
        if (m->run && w->runs[m->run - 1].count < SHORTEST_RUN)
            m->run = 0;
        any |= m->run > 0;
    }
    w->run_count = any ? w->run_count : 0;
    return true;
}
