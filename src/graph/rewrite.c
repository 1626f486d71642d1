/* rewrite.c: fewer and larger products, before anything is planned.
 *
 * Three local rewrites of the log, none of which knows of loops:
 *   - products that share their first factor are columns of one product with a joined weight: x Wi, x Wf, ... of gates
 *     that were written one by one;
 *   - products that are added up, y1 W1 + y2 W2 + ..., are one product over all inner dimensions: the gradient of what
 *     those gates read. It needs the very same joined weight;
 *   - a product of which only some columns are read is a product with these columns of the weight: the gradient of
 *     cat([x, h]) where x wants none.
 * A joined weight is made of ordinary records (memory and writes into it), parts of a result are views, and what is to
 * stand side by side is written into its place: planning then finds that it can be computed there.
 *
 * Invariant: every record that is kept has a record with the same value and layout. Columns of a joined product have
 * the bits of the single ones; sums of products are added up in another order. */
#include "graph/rewrite.h"

#include <string.h>

#include "core/memory.h"
#include "graph/builder.h"

enum {
    MOST_PARTS = 8,  /* products that become one */
    MOST_ROWS = 256, /* more are better off finished row by row */
    FEWEST_USES = 4, /* of a joined weight: it takes a copy */
};

int rewrites_done = REWRITE_ALL;
{
    if (getenv("RW"))
        rewrites_done = atoi(getenv("RW"));
}

/* What becomes of a record. */
enum {
    ROLE_NONE,
    ROLE_COLUMNS, /* a product: columns of a joined one */
    ROLE_TERM,    /* a product or an addition that a sum of products takes in */
    ROLE_SUM,     /* the addition that ends it */
    ROLE_NARROW,  /* a product of which some columns are made */
};

typedef struct mark {
    int32_t uses, elementwise_uses;
    int32_t column_uses; /* reads of some of its columns, from `low` to `high` */
    int32_t low, high;
    int32_t set;          /* 1 + the set that it is part or the end of */
    int32_t completes;    /* 1 + the sum whose factors are all there once it is made */
    int32_t before, term; /* an addition: what it adds to, the product that it adds; the first adds it to anything */
    uint8_t length;       /* products added up so far, this one included */
    uint8_t role;
} mark;

typedef struct part {
    int32_t weight; /* as value */
    int32_t record; /* the product */
    int64_t at;     /* where its share of the joined weight begins */
} part;

/* Products that become one. */
typedef struct set {
    int32_t first; /* the record before which the joined one is made */
    int32_t result, base;
    int32_t beside; /* a sum: its factors side by side, once they are written so */
    int joined;     /* its weight's number */
    int count;
    bool adds;
    part parts[MOST_PARTS]; /* by weight */
} set;

typedef struct joined_weight {
    int32_t weights[MOST_PARTS];
    int count, dim; /* they follow each other along this dimension */
    int uses;
    int32_t record; /* -1 until it is made */
    const layout *layout;
    int next; /* in its bucket */
} joined_weight;

enum { BUCKETS = 64 };

typedef struct rewriter {
    const plan_key *key;
    const layout **layouts; /* per record of the log */
    const op_log *log;
    mark *marks;
    int32_t *same_leaf;
    int32_t *open; /* per value: 1 + the latest set of products that read it first */
    set *sets;
    int set_count, set_capacity;
    joined_weight *joined;
    int joined_count, joined_capacity;
    int bucket[BUCKETS];
    plan_report *report;
    /* what is made */
    rewritten *out;
    int capacity;
    int32_t *map; /* per record of the log */
} rewriter;

static void note_of(rewriter *w, plan_fact fact, int32_t record)
{
    report_fact(w->report, fact, record, op_get(w->key->record[record].op)->name);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static int32_t value_of(const rewriter *w, int32_t record, int k)
{
    int32_t in = w->key->record[record].in[k];
    return in >= 0 ? in : w->key->records + w->same_leaf[-1 - in];
}

static const layout *layout_of(const rewriter *w, int32_t v)
{
    return v < w->key->records ? w->layouts[v] : w->log->leaves[v - w->key->records]->layout;
}

static bool is_needed(const rewriter *w, int32_t i) { return w->key->bits[i] & RECORD_NEEDED; }
static bool is_kept(const rewriter *w, int32_t i) { return w->key->bits[i] & RECORD_KEPT; }

/* A product of matrices that is not held afterwards, in which several could be joined. */
static bool is_product(const rewriter *w, int32_t v)
{
    if (v >= w->key->records || w->key->record[v].op != OP_matmul || is_kept(w, v) || w->layouts[v]->ndim != 2)
        return false;
    const layout *l = w->layouts[v], *b = layout_of(w, value_of(w, v, 1));
    return b->ndim == 2 && !(w->key->record[v].attr.product.turned & 1) && l->sizes[0] >= 1 && l->sizes[1] > 1 &&
           b->numel && (b->strides[1] == 1 || b->strides[0] == 1);
}

/* --- who reads what ----------------------------------------------------------------------------------------------- */

/* View i shows whole columns of a matrix, and only elementwise records read it. */
static bool shows_columns(const rewriter *w, int32_t i, const layout *of)
{
    const layout *l = w->layouts[i];
    return w->key->record[i].op == OP_view && !is_kept(w, i) && w->marks[i].uses == w->marks[i].elementwise_uses &&
           of->ndim == 2 && of == of->plain && l->ndim == 2 && l->sizes[0] == of->sizes[0] && l->strides[1] == 1 &&
           l->strides[0] == of->strides[0] && l->numel && of->sizes[1] <= INT32_MAX &&
           w->key->record[i].attr.region.offset + l->sizes[1] <= of->sizes[1];
}

static void read_columns(mark *m, int32_t low, int32_t high)
{
    m->low = !m->column_uses || low < m->low ? low : m->low;
    m->high = !m->column_uses || high > m->high ? high : m->high;
    m->column_uses++;
}

/* From the last record to the first: who reads a record stands after it. */
static void count_reads(rewriter *w)
{
    for (int32_t i = w->key->records - 1; i >= 0; i--) {
        const record_key *key = &w->key->record[i];
        if (!is_needed(w, i))
            continue;
        for (int k = 0; k < key->inputs; k++) {
            if (key->in[k] < 0)
                continue;
            mark *m = &w->marks[key->in[k]];
            m->uses++;
            m->elementwise_uses += op_get(key->op)->kind == KIND_ELEMENTWISE;
            int32_t at = (int32_t)key->attr.region.offset;
            if (key->op == OP_view && shows_columns(w, i, w->layouts[key->in[k]]))
                read_columns(m, at, at + (int32_t)w->layouts[i]->sizes[1]);
        }
    }
}

/* --- sets --------------------------------------------------------------------------------------------------------- */

static set *set_new(rewriter *w)
{
    if (w->set_count == w->set_capacity) {
        int capacity = w->set_capacity ? w->set_capacity * 2 : 32;
        set *grown = mem_resize(w->sets, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        w->sets = grown;
        w->set_capacity = capacity;
    }
    set *s = &w->sets[w->set_count++];
    *s = (set){ .base = -1, .joined = -1, .beside = -1 };
    return s;
}

/* Whether two products' weights could be parts of one: alike but for the dimension along which they are joined. */
static bool fit_together(const rewriter *w, int32_t x, int32_t y, int dim)
{
    const record_key *a = &w->key->record[x], *b = &w->key->record[y];
    const layout *l = layout_of(w, value_of(w, x, 1)), *m = layout_of(w, value_of(w, y, 1));
    return a->dtype == b->dtype && a->attr.product.turned == b->attr.product.turned &&
           l->sizes[!dim] == m->sizes[!dim] && (l->strides[1] == 1) == (m->strides[1] == 1);
}

static bool has_weight(const set *s, int32_t weight)
{
    for (int k = 0; k < s->count; k++)
        if (s->parts[k].weight == weight)
            return true;
    return false;
}

/* Parts stand in the order of their weights, so that the same ones are joined alike wherever they meet. */
static void add_part(set *s, int32_t weight, int32_t record)
{
    int at = s->count++;
    for (; at > 0 && s->parts[at - 1].weight > weight; at--)
        s->parts[at] = s->parts[at - 1];
    s->parts[at] = (part){ .weight = weight, .record = record };
}

static int columns_dim(const record_key *key) { return key->attr.product.turned & 2 ? 0 : 1; }

/* Product i, if it shares its first factor with earlier ones. */
static bool look_for_columns(rewriter *w, int32_t i)
{
    if (!is_product(w, i) || w->marks[i].uses != w->marks[i].elementwise_uses || w->layouts[i]->sizes[0] > MOST_ROWS)
        return true;
    int32_t *open = &w->open[value_of(w, i, 0)], weight = value_of(w, i, 1);
    set *s = *open ? &w->sets[*open - 1] : NULL;
    bool early = s && (weight >= w->key->records || weight < s->first);
    if (!s || s->count == MOST_PARTS || !early || has_weight(s, weight) ||
        !fit_together(w, s->parts[0].record, i, columns_dim(&w->key->record[i]))) {
        if (!(s = set_new(w)))
            return false;
        s->first = i;
        *open = w->set_count;
    }
    add_part(s, weight, i);
    return true;
}

/* A product that only an addition reads, of a factor that can be computed beside others. */
static bool is_term(const rewriter *w, int32_t v)
{
    if (!is_product(w, v) || w->marks[v].uses != 1 || w->layouts[v]->sizes[0] > MOST_ROWS)
        return false;
    int32_t a = value_of(w, v, 0);
    return a < w->key->records && op_get(w->key->record[a].op)->kind == KIND_ELEMENTWISE && !is_kept(w, a) &&
           w->layouts[a] == w->layouts[a]->plain && w->layouts[a]->sizes[1] > 1;
}

static bool is_inner(const rewriter *w, int32_t v)
{
    return v < w->key->records && w->marks[v].length && w->marks[v].uses == 1 && !is_kept(w, v);
}

static int rows_dim(const record_key *key) { return key->attr.product.turned & 2 ? 1 : 0; }

static void extend(rewriter *w, int32_t i, int32_t before, int32_t term, int length)
{
    w->marks[i].before = before;
    w->marks[i].term = term;
    w->marks[i].length = (uint8_t)length;
}

/* Addition i, if it adds a product to something, or to a sum of products. */
static void look_for_sum(rewriter *w, int32_t i)
{
    const layout *l = w->layouts[i];
    if (w->key->record[i].op != EW_add || l != l->plain || l->ndim != 2)
        return;
    int32_t x = value_of(w, i, 0), y = value_of(w, i, 1);
    if (x == y || layout_of(w, x) != l || layout_of(w, y) != l)
        return;
    for (int turn = 0; turn < 2; turn++) {
        int32_t before = turn ? y : x, term = turn ? x : y;
        if (!is_term(w, term))
            continue;
        int dim = rows_dim(&w->key->record[term]);
        if (is_inner(w, before) && w->marks[before].length < MOST_PARTS &&
            fit_together(w, w->marks[before].term, term, dim)) {
            extend(w, i, before, term, w->marks[before].length + 1);
            return;
        }
        if (is_term(w, before) && fit_together(w, before, term, dim)) {
            extend(w, before, -1, before, 1);
            extend(w, i, before, term, 2);
            return;
        }
        extend(w, i, before, term, 1);
    }
}

/* The sum that ends with addition i becomes a set. */
static bool settle_sum(rewriter *w, int32_t i)
{
    set *s = set_new(w);
    if (!s)
        return false;
    s->adds = true;
    s->first = s->result = i;
    for (int32_t v = i; v >= 0; v = w->marks[v].before) {
        const mark *m = &w->marks[v];
        int32_t weight = value_of(w, m->term, 1);
        if (has_weight(s, weight)) { /* y W + z W: another rewrite's business */
            w->set_count--;
            return true;
        }
        add_part(s, weight, m->term);
        if (m->length == 1) {
            s->base = v == m->term ? -1 : m->before;
            break;
        }
    }
    return true;
}

/* --- joined weights ----------------------------------------------------------------------------------------------- */

static uint64_t hash_parts(const set *s)
{
    uint64_t h = (uint64_t)s->count;
    for (int k = 0; k < s->count; k++)
        h = (h ^ (uint64_t)s->parts[k].weight) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 32;
}

static bool is_joined_of(const joined_weight *j, const set *s, int dim)
{
    if (j->count != s->count || j->dim != dim)
        return false;
    for (int k = 0; k < s->count; k++)
        if (j->weights[k] != s->parts[k].weight)
            return false;
    return true;
}

static bool find_joined(rewriter *w, set *s)
{
    const record_key *key = &w->key->record[s->parts[0].record];
    int dim = s->adds ? rows_dim(key) : columns_dim(key), *bucket = &w->bucket[hash_parts(s) % BUCKETS];
    int64_t at = 0;
    for (int k = 0; k < s->count; k++) {
        s->parts[k].at = at;
        at += layout_of(w, s->parts[k].weight)->sizes[dim];
    }
    for (int j = *bucket; j; j = w->joined[j - 1].next)
        if (is_joined_of(&w->joined[j - 1], s, dim)) {
            s->joined = j - 1;
            w->joined[j - 1].uses++;
            return true;
        }
    if (w->joined_count == w->joined_capacity) {
        int capacity = w->joined_capacity ? w->joined_capacity * 2 : 8;
        joined_weight *grown = mem_resize(w->joined, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        w->joined = grown;
        w->joined_capacity = capacity;
    }
    joined_weight *j = &w->joined[w->joined_count];
    *j = (joined_weight){ .count = s->count, .dim = dim, .uses = 1, .record = -1, .next = *bucket };
    for (int k = 0; k < s->count; k++)
        j->weights[k] = s->parts[k].weight;
    const layout *l = layout_of(w, s->parts[0].weight);
    int64_t sizes[2] = { l->sizes[0], l->sizes[1] };
    sizes[dim] = at;
    j->layout = layout_get(2, sizes, l->strides[1] == 1 ? NULL : (int64_t[]){ 1, sizes[0] });
    s->joined = w->joined_count++;
    *bucket = w->joined_count;
    return j->layout != NULL;
}

/* --- deciding ----------------------------------------------------------------------------------------------------- */

/* Whether none of its products went to another set. */
static bool is_free(const rewriter *w, const set *s)
{
    for (int k = 0; k < s->count; k++)
        if (w->marks[s->parts[k].record].role)
            return false;
    return true;
}

static void take_set(rewriter *w, int number)
{
    set *s = &w->sets[number];
    for (int k = 0; k < s->count; k++) {
        w->marks[s->parts[k].record].role = s->adds ? ROLE_TERM : ROLE_COLUMNS;
        w->marks[s->parts[k].record].set = number + 1;
    }
    if (!s->adds) {
        note_of(w, FACT_JOINED, s->first);
        return;
    }
    for (int32_t v = s->result; v != s->base && v >= 0 && w->marks[v].role != ROLE_TERM; v = w->marks[v].before)
        w->marks[v].role = ROLE_TERM;
    w->marks[s->result].role = ROLE_SUM;
    w->marks[s->result].set = number + 1;
    int32_t last = -1;
    for (int k = 0; k < s->count; k++)
        last = value_of(w, s->parts[k].record, 0) > last ? value_of(w, s->parts[k].record, 0) : last;
    if (!w->marks[last].completes)
        w->marks[last].completes = number + 1;
    note_of(w, FACT_ADDED, s->result);
}

static bool is_narrow(const rewriter *w, int32_t i)
{
    const mark *m = &w->marks[i];
    return rewrites_done & REWRITE_NARROW && m->uses && m->uses == m->column_uses && !is_kept(w, i) &&
           m->high - m->low > 1 && m->high - m->low < w->layouts[i]->sizes[1];
}

/* Finds out what is to be done; *any: whether there is something. */
static bool decide(rewriter *w, bool *any)
{
    for (int32_t i = 0; i < w->key->records; i++) {
        if (!is_needed(w, i))
            continue;
        if (rewrites_done & REWRITE_JOIN && !look_for_columns(w, i))
            return false;
        if (rewrites_done & REWRITE_ADD)
            look_for_sum(w, i);
    }
    /* the longest sums: what a later addition continues is no end */
    for (int32_t i = w->key->records - 1; i >= 0; i--) {
        if (w->marks[i].length < 2 || w->marks[i].role)
            continue;
        for (int32_t v = i; w->marks[v].length > 1; v = w->marks[v].before)
            w->marks[v].role = ROLE_TERM; /* seen */
        if (!settle_sum(w, i))
            return false;
    }
    for (int32_t i = 0; i < w->key->records; i++)
        w->marks[i].role = ROLE_NONE;
    for (int s = 0; s < w->set_count; s++)
        if (w->sets[s].count > 1 && !find_joined(w, &w->sets[s]))
            return false;
    for (int s = 0; s < w->set_count; s++)
        if (w->sets[s].joined >= 0 && w->joined[w->sets[s].joined].uses >= FEWEST_USES && is_free(w, &w->sets[s])) {
            take_set(w, s);
            *any = true;
        }
    for (int32_t i = 0; i < w->key->records; i++)
        if (is_needed(w, i) && !w->marks[i].role && is_product(w, i) && is_narrow(w, i)) {
            w->marks[i].role = ROLE_NARROW;
            *any = true;
        }
    return true;
}

/* --- writing the new log ------------------------------------------------------------------------------------------ */

enum { NO_RECORD = INT32_MAX }; /* out of memory */

static bool reserve(rewriter *w)
{
    rewritten *out = w->out;
    if (out->key.records < w->capacity)
        return true;
    size_t capacity = (size_t)w->capacity * 3 / 2 + 64;
    record_key *record = mem_resize(out->key.record, capacity * sizeof *record);
    out->key.record = record ? record : out->key.record;
    uint8_t *bits = mem_resize(out->key.bits, capacity);
    out->key.bits = bits ? bits : out->key.bits;
    const layout **layouts = mem_resize(out->layouts, capacity * sizeof *layouts);
    out->layouts = layouts ? layouts : out->layouts;
    int32_t *origin = mem_resize(out->origin, capacity * sizeof *origin);
    out->origin = origin ? origin : out->origin;
    w->capacity = (int)capacity;
    return record && bits && layouts && origin;
}

/* A record of the new log, which serves record `origin`; its number, or NO_RECORD. */
static int32_t emit(rewriter *w, record_key key, const layout *l, uint8_t bits, int32_t origin)
{
    rewritten *out = w->out;
    if (!l || !reserve(w))
        return NO_RECORD;
    key.layout = l->id;
    out->key.record[out->key.records] = key;
    out->key.bits[out->key.records] = bits;
    out->layouts[out->key.records] = l;
    out->origin[out->key.records] = origin;
    return out->key.records++;
}

static int32_t new_input(const rewriter *w, int32_t v)
{
    return v < w->key->records ? w->map[v] : -1 - (v - w->key->records);
}

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

static int32_t emit_view(rewriter *w, int32_t of, const layout *whole, const layout *l, int64_t offset, uint8_t dtype,
                         int32_t origin)
{
    record_key key = { .op = OP_view, .dtype = dtype, .inputs = 1, .in = { of } };
    key.attr.region.layout = whole;
    key.attr.region.offset = offset;
    return of == NO_RECORD ? NO_RECORD : emit(w, key, l, RECORD_NEEDED, origin);
}

static int32_t emit_product(rewriter *w, const record_key *like, int32_t a, const layout *la, int32_t b,
                            const layout *lb, const layout *l, uint8_t bits, int32_t origin)
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
    const layout *l = layout_get(2, (int64_t[]){ rows, columns }, NULL);
    int32_t b = emit_joined(w, s), a = value_of(w, i, 0);
    int32_t product =
        emit_product(w, key, new_input(w, a), layout_of(w, a), b, w->joined[s->joined].layout, l, RECORD_NEEDED, i);
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

static bool emit_same(rewriter *w, int32_t i)
{
    record_key key = w->key->record[i];
    for (int k = 0; k < key.inputs; k++)
        if (key.in[k] >= 0)
            key.in[k] = w->map[key.in[k]];
    w->map[i] = emit(w, key, w->layouts[i], w->key->bits[i], i);
    if (w->map[i] == NO_RECORD)
        return false;
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
    default: break;
    }
    if (in >= 0 && w->marks[in].role == ROLE_NARROW)
        return emit_narrow_view(w, i, in);
    return emit_same(w, i);
}

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static bool has_products(const plan_key *key)
{
    int found = 0;
    for (int i = 0; i < key->records && found < 2; i++)
        found += key->record[i].op == OP_matmul && key->bits[i] & RECORD_NEEDED;
    return found > 1;
}

static bool rewriter_init(rewriter *w)
{
    size_t records = (size_t)w->key->records, leaves = (size_t)w->key->leaves;
    w->marks = mem_alloc_zero(records * sizeof *w->marks + 1);
    w->same_leaf = mem_alloc(leaves * sizeof *w->same_leaf + 1);
    w->open = mem_alloc_zero((records + leaves) * sizeof *w->open + 1);
    return w->marks && w->same_leaf && w->open && share_leaves(w->key, w->same_leaf);
}

/* The log written anew; records that nobody needs are left out. */
static bool write_anew(rewriter *w)
{
    w->out->key.leaves = w->key->leaves;
    w->out->key.leaf = w->key->leaf;
    w->map = mem_alloc((size_t)w->key->records * sizeof *w->map + 1);
    bool good = w->map != NULL;
    for (int32_t i = 0; good && i < w->key->records; i++)
        good = !is_needed(w, i) || emit_record(w, i);
    return good;
}

bool rewrite(rewritten *out, const op_log *log, const plan_key *key, plan_report *report)
{
    *out = (rewritten){ .key = *key };
    out->layouts = mem_alloc((size_t)key->records * sizeof *out->layouts + 1);
    if (!out->layouts)
        return false;
    for (int i = 0; i < key->records; i++)
        out->layouts[i] = log->nodes[i]->layout;
    if (!rewrites_done || !has_products(key))
        return true;
    rewriter w = { .key = key, .log = log, .layouts = out->layouts, .report = report, .out = out };
    bool any = false, good = rewriter_init(&w);
    if (good) {
        count_reads(&w);
        good = decide(&w, &any);
    }
    if (good && any) {
        *out = (rewritten){ .anew = true };
        good = write_anew(&w);
    }
    if (out->anew)
        mem_free(w.layouts);
    mem_free(w.marks);
    mem_free(w.same_leaf);
    mem_free(w.open);
    mem_free(w.sets);
    mem_free(w.joined);
    mem_free(w.map);
    if (!good)
        rewritten_free(out);
    return good;
}

void rewritten_free(rewritten *r)
{
    mem_free(r->layouts);
    if (!r->anew)
        return;
    mem_free(r->key.record);
    mem_free(r->key.bits);
    mem_free(r->origin);
}
