/* rewrite.c: fewer and larger products, before anything is planned.
 *
 * Local rewrites of the log, none of which knows of loops:
 *   - products that share their first factor are columns of one product with a joined weight: x Wi, x Wf, ... of gates
 *     that were written one by one;
 *   - products that are added up, y1 W1 + y2 W2 + ..., are one product over all inner dimensions: the gradient of what
 *     those gates read. It needs the very same joined weight;
 *   - a product of which only some columns are read is a product with these columns of the weight: the gradient of
 *     cat([x, h]) where x wants none;
 *   - few rows each of many products with one weight, which follow each other in memory, are one product: x[t] W of all
 *     steps, also where it is half of cat([x[t], h]) W (rewrite_rows.c);
 *   - products with a common factor that are added up are one product (rewrite_factors.c);
 *   - what makes one number of a step stands behind the steps (rewrite_numbers.c);
 *   - rows that are looked up many times in a small table are multiplied in the table (rewrite_lookups.c);
 *   - what is large and only read part by part is computed part by part (rewrite_parts.c).
 * A joined weight is made of ordinary records (memory and writes into it), parts of a result are views, and what is to
 * stand side by side is written into its place: planning then finds that it can be computed there.
 *
 * Invariant: every record that is kept has a record with the same value and layout. Columns and rows of a joined
 * product have the bits of the single ones; sums of products are added up in another order, and halves apart. */
#include "graph/rewriter.h"

#include <string.h>

#include "graph/desk.h"
#include "graph/kernels.h"

enum {
    MOST_ROWS = 256,  /* more are better off finished row by row */
    FEWEST_USES = 4,  /* of a joined weight: it takes a copy */
    MOST_APART = 512, /* records: what one product makes and another part of the log reads goes through memory */
};

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

/* Product v. */
static bool is_free_to_join(const rewriter *w, int32_t v)
{
    if (is_kept(w, v) || w->layouts[v]->ndim != 2)
        return false;
    const layout *l = w->layouts[v], *b = layout_of(w, value_of(w, v, 1));
    return b->ndim == 2 && !(w->key->record[v].attr.product.turned & 1) && l->sizes[0] >= 1 && l->sizes[1] > 1 &&
           b->numel && (b->strides[1] == 1 || b->strides[0] == 1);
}

/* From the last record to the first: who reads a record stands after it. */
static void count_reads(rewriter *w)
{
    for (int32_t i = w->key->records - 1; i >= 0; i--) {
        const record_key *key = &w->key->record[i];
        if (!is_needed(w, i))
            continue;
        if (key->op == OP_matmul && is_free_to_join(w, i)) {
            w->marks[i].product = true;
            w->products[--w->first_product] = i;
        }
        if (key->op == EW_add)
            w->additions[--w->first_addition] = i;
        w->indexes |= op_get(key->op)->run == run_index_get || op_get(key->op)->run == run_index_put;
        w->largest = w->layouts[i]->numel > w->largest ? w->layouts[i]->numel : w->largest;
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
        set *grown = desk_grow(w->sets, (size_t)w->set_count * sizeof *grown, (size_t)capacity * sizeof *grown);
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

/* Whether product i can be columns of the same product as those that stand from `first` on, the first of them with
 * its weight. */
static bool goes_with(const rewriter *w, int32_t first, int32_t i)
{
    int32_t weight = value_of(w, i, 1);
    return i - first <= MOST_APART && (weight >= w->key->records || weight < first) &&
           fit_together(w, first, i, columns_dim(&w->key->record[i]));
}

/* Product i, if it shares its first factor with earlier ones. */
static bool look_for_columns(rewriter *w, int32_t i)
{
    if (w->marks[i].uses != w->marks[i].elementwise_uses || w->layouts[i]->sizes[0] > MOST_ROWS)
        return true;
    int32_t *open = &w->open[value_of(w, i, 0)], weight = value_of(w, i, 1);
    int32_t alone = *open < 0 ? -1 - *open : -1;
    set *s = *open > 0 ? &w->sets[*open - 1] : NULL;
    if (s && s->count < MOST_PARTS && goes_with(w, s->first, i) && !has_weight(s, weight)) {
        add_part(s, weight, i);
    } else if (alone >= 0 && goes_with(w, alone, i) && value_of(w, alone, 1) != weight) {
        if (!(s = set_new(w)))
            return false;
        s->first = alone;
        add_part(s, value_of(w, alone, 1), alone);
        add_part(s, weight, i);
        *open = w->set_count;
    } else {
        *open = -1 - i;
    }
    return true;
}

/* A product that only an addition reads, of a factor that can be computed beside others. */
static bool is_term(const rewriter *w, int32_t v)
{
    if (!is_free_product(w, v) || w->marks[v].uses != 1 || w->layouts[v]->sizes[0] > MOST_ROWS)
        return false;
    int32_t a = value_of(w, v, 0);
    return a < w->key->records && op_get(w->key->record[a].op)->kind == KIND_ELEMENTWISE && !is_kept(w, a) &&
           w->layouts[a] == w->layouts[a]->plain && w->layouts[a]->sizes[1] > 1;
}

static bool is_inner(const rewriter *w, int32_t v)
{
    return v < w->key->records && w->marks[v].length && w->marks[v].uses == 1 && !is_kept(w, v);
}

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
    if (l != l->plain || l->ndim != 2)
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
        joined_weight *grown =
            desk_grow(w->joined, (size_t)w->joined_count * sizeof *grown, (size_t)capacity * sizeof *grown);
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

bool is_narrow(const rewriter *w, int32_t i)
{
    const mark *m = &w->marks[i];
    return rewrites_done & REWRITE_narrow && m->uses && m->uses == m->column_uses && !is_kept(w, i) &&
           m->high - m->low > 1 && m->high - m->low < w->layouts[i]->sizes[1];
}

/* Finds out what is to be done; *any: whether there is something. */
static bool decide(rewriter *w, bool *any)
{
    const int32_t end = w->key->records;
    for (int32_t k = w->first_product; rewrites_done & REWRITE_joins && k < end; k++)
        if (!look_for_columns(w, w->products[k]))
            return false;
    for (int32_t k = w->first_addition; rewrites_done & REWRITE_added && k < end; k++)
        look_for_sum(w, w->additions[k]);
    /* the longest sums: what a later addition continues is no end */
    for (int32_t k = end - 1; k >= w->first_addition; k--) {
        const int32_t i = w->additions[k];
        if (w->marks[i].length < 2 || w->marks[i].role)
            continue;
        for (int32_t v = i; w->marks[v].length > 1; v = w->marks[v].before)
            w->marks[v].role = ROLE_TERM; /* seen */
        if (!settle_sum(w, i))
            return false;
    }
    for (int32_t k = w->first_addition; k < end; k++)
        w->marks[w->additions[k]].role = ROLE_NONE;
    for (int s = 0; s < w->set_count; s++)
        if (w->sets[s].count > 1 && !find_joined(w, &w->sets[s]))
            return false;
    for (int s = 0; s < w->set_count; s++)
        if (w->sets[s].joined >= 0 && w->joined[w->sets[s].joined].uses >= FEWEST_USES && is_free(w, &w->sets[s])) {
            take_set(w, s);
            *any = true;
        }
    for (int32_t k = w->first_product; k < end; k++) {
        mark *m = &w->marks[w->products[k]];
        if (!m->role && is_narrow(w, w->products[k])) {
            m->role = ROLE_NARROW;
            *any = true;
        }
    }
    bool good = !(rewrites_done & REWRITE_rows) || find_runs(w);
    *any |= w->run_count > 0;
    if (good && rewrites_done & REWRITE_lookups) {
        *any |= find_lookups(w);
        good = w->lookups != NULL;
    }
    *any |= good && rewrites_done & REWRITE_parts && find_parts(w);
    return good;
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
    w->marks = desk_take_zero(records * sizeof *w->marks);
    w->same_leaf = desk_take(leaves * sizeof *w->same_leaf);
    w->open = desk_take_zero((records + leaves) * sizeof *w->open);
    w->products = desk_take(records * sizeof *w->products);
    w->additions = desk_take(records * sizeof *w->additions);
    w->first_product = w->first_addition = w->key->records;
    return w->marks && w->same_leaf && w->open && w->products && w->additions && share_leaves(w->key, w->same_leaf);
}

bool rewrite(rewritten *out, const op_log *log, const plan_key *key, plan_report *report)
{
    *out = (rewritten){ .key = *key };
    out->layouts = desk_take((size_t)key->records * sizeof *out->layouts);
    if (!out->layouts)
        return false;
    for (int i = 0; i < key->records; i++)
        out->layouts[i] = log->nodes[i] ? log->nodes[i]->layout : log->layouts[i];
    if (!rewrites_done || !has_products(key))
        return true;
    if (!put_off_numbers(out, report) || !share_factors(out, report))
        return false;
    const rewritten sorted = *out;
    rewritten anew = { 0 };
    rewriter w = { .key = &sorted.key,
                   .log = log,
                   .layouts = sorted.layouts,
                   .origin = sorted.origin,
                   .report = report,
                   .out = &anew };
    const size_t before = desk_mark();
    bool any = false,
         good = reserve(&w, w.key->records + w.key->records / 4 + 64); /* before what is not needed later */
    const size_t behind = desk_mark();
    const int room = w.capacity;
    good = good && rewriter_init(&w);
    if (good) {
        count_reads(&w);
        good = decide(&w, &any);
    }
    if (good && any) {
        good = write_anew(&w);
        *out = anew;
        for (int i = 0; good && sorted.origin && i < anew.key.records; i++)
            out->origin[i] = sorted.origin[out->origin[i]];
    }
    if (!any || w.capacity == room)
        desk_release(any ? behind : before);
    return good;
}
