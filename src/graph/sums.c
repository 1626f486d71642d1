/* sums.c: a sum of products is one product, however it was written down.
 *
 * The gradient of a weight that many steps read is a chain of additions: dz_1^T h_1 + dz_2^T h_2 + ..., and that of a
 * bias the same with sums over rows. Neither the terms nor the partial sums are made. The additions collect the
 * factors, and now and then a stretch of them is added to the result in one product whose inner dimension is all their
 * rows: the result is read and written once for many terms, while the factors are still near.
 *
 * Invariant: a term and an addition within a chain have no reader but the chain, and no memory. What a term reads stays
 * as it is until the addition that ends its stretch: that is the term's place in the order of uses. */
#include "graph/builder.h"

#include "graph/desk.h"
#include "graph/kernels.h"
#include "graph/run_sum.h"

enum {
    SHORTEST = 3, /* terms: two are added as the second is finished */
    STRETCH_BYTES = 1 << 20,
    STRETCH_ROWS = 256, /* at least: the inner dimension of a product at full speed */
    MOST_STRETCHES = 4, /* of bytes, where others have cut */
};

/* --- terms ---------------------------------------------------------------------------------------------------------
 */

static bool only_read_once(const planner *p, int32_t v) { return v < p->key->records && p->uses[v] == 1; }

/* Factor k of a product of matrices as the product reads it; NULL when memory is out. */
static const layout *factor(const attr *a, int k)
{
    const layout *l = k ? a->product.b : a->product.a;
    return a->product.turned >> k & 1 ? layout_turned(l) : l;
}

static bool is_product(const planner *p, int32_t v)
{
    const record_key *key = &p->key->record[v];
    if (op_get(key->op)->run != run_matmul || p->values[v].layout->ndim != 2 || key->attr.product.a->ndim != 2 ||
        key->attr.product.b->ndim != 2)
        return false;
    const layout *a = factor(&key->attr, 0), *b = factor(&key->attr, 1);
    /* rows of both factors are what is summed over, and lie in memory as rows: they can be strung together */
    return a && b && a->strides[0] == 1 && b->strides[1] == 1 && a->sizes[0] > 1 && b->sizes[1] > 1 && a->sizes[1] > 0;
}

static bool is_sum_of_rows(const planner *p, int32_t v)
{
    const attr *a = &p->key->record[v].attr;
    const layout *from = a->reduce.from;
    return op_get(p->key->record[v].op)->run == run_reduce && a->reduce.kind == REDUCE_SUM && a->reduce.dims == 1 &&
           from->ndim == 2 && from->strides[1] == 1 && from->sizes[1] > 1 && from->sizes[0] > 0 &&
           p->values[v].dtype == p->values[input_of(p, v, 0)].dtype;
}

/* The product or sum of rows that v is, or is a view of as the addition reads it; -1 when it is none, or others read
 * it. */
static int32_t term_of(const planner *p, int32_t v)
{
    if (!only_read_once(p, v))
        return -1;
    int32_t t = v;
    if (p->key->record[v].op == OP_view) {
        t = input_of(p, v, 0);
        if (!only_read_once(p, t) || !is_sum_of_rows(p, t) || p->key->record[v].attr.region.offset != 0)
            return -1;
    }
    bool adds_up = (p->values[v].dtype == BK_FLOAT32 || p->values[v].dtype == BK_FLOAT64) &&
                   p->values[v].layout == p->values[v].layout->plain;
    return adds_up && (is_product(p, t) || is_sum_of_rows(p, t)) ? t : -1;
}

static bool alike(const planner *p, int32_t a, int32_t b)
{
    return p->key->record[a].op == p->key->record[b].op && p->values[a].layout == p->values[b].layout;
}

/* --- chains --------------------------------------------------------------------------------------------------------
 */

/* A sum as long as the one before it and one more. */
static bool continues(const planner *p, int32_t before, int32_t term)
{
    return term >= 0 && only_read_once(p, before) && p->sums[before].length && alike(p, p->sums[before].term, term);
}

static void add_term(planner *p, int32_t i, int32_t before, int32_t term)
{
    p->sums[i].before = before;
    p->sums[i].term = term;
    p->sums[i].length = p->sums[before].length + 1;
}

/* A term by itself is a sum of one. */
static void begin(planner *p, int32_t term)
{
    p->sums[term].before = -1;
    p->sums[term].term = term;
    p->sums[term].length = 1;
}

/* Whether addition i adds a term to a sum. */
static void look_at(planner *p, int32_t i)
{
    const layout *l = p->values[i].layout;
    if (l != l->plain)
        return;
    int32_t a = input_of(p, i, 0), b = input_of(p, i, 1);
    if (a == b || p->values[a].layout != l || p->values[b].layout != l)
        return;
    int32_t x = term_of(p, a), y = term_of(p, b);
    if (continues(p, a, y)) {
        add_term(p, i, a, y);
    } else if (continues(p, b, x)) {
        add_term(p, i, b, x);
    } else if (x >= 0 && y >= 0 && alike(p, x, y)) {
        begin(p, x);
        add_term(p, i, x, y);
    }
}

static int64_t rows_of(const planner *p, int32_t term)
{
    const attr *a = &p->key->record[term].attr;
    return is_product(p, term) ? factor(a, 1)->sizes[0] : a->reduce.from->sizes[0];
}

static int64_t bytes_per_row(const planner *p, int32_t term)
{
    const attr *a = &p->key->record[term].attr;
    int64_t width = is_product(p, term) ? factor(a, 0)->sizes[0] + factor(a, 1)->sizes[1] : a->reduce.from->sizes[1];
    return width * (int64_t)dtype_size((bk_dtype)p->values[term].dtype);
}

static void take_view(planner *p, int32_t i, int32_t k)
{
    int32_t v = input_of(p, i, k);
    if (v < p->key->records && p->key->record[v].op == OP_view)
        p->sums[v].role = SUM_INNER;
}

/* Whether a stretch of so many rows ends before this term. Sums that have a factor in common, as those of a layer's
 * weight and bias have, are cut at the same terms: then the factor lies in one piece for all of them, and what computes
 * it is interrupted once. */
static bool ends_before(const planner *p, int32_t term, int64_t rows)
{
    const int64_t bytes = rows * bytes_per_row(p, term);
    bool known = false, cut = false;
    for (int k = 0; k < p->key->record[term].inputs; k++) {
        const int32_t v = input_of(p, term, k);
        known |= v < p->key->records && p->sums[v].is_factor;
        cut |= v < p->key->records && p->sums[v].cuts;
    }
    return rows >= STRETCH_ROWS && (cut || bytes >= (known ? MOST_STRETCHES : 1) * STRETCH_BYTES);
}

/* What the term reads is read where it is added. */
static void note_factors(planner *p, int32_t term, int32_t end, bool cuts)
{
    for (int k = 0; k < p->key->record[term].inputs; k++) {
        const int32_t v = input_of(p, term, k);
        if (p->values[v].last_use < end)
            p->values[v].last_use = end;
        if (v < p->key->records) {
            p->sums[v].is_factor = true;
            p->sums[v].cuts |= cuts;
        }
    }
}

/* From the last addition to the first term: which terms are added together, and where. */
static void settle(planner *p, int32_t root)
{
    int32_t end = root, *link = &p->sums[root].terms;
    int64_t rows = 0;
    p->sums[root].role = SUM_END;
    p->sums[root].root = root;
    for (int32_t i = root; i >= 0; i = p->sums[i].before) {
        int32_t term = p->sums[i].term;
        const bool cuts = i != end && i != term && ends_before(p, term, rows);
        if (cuts) {
            *link = -1;
            p->sums[i].role = SUM_END;
            p->sums[i].root = root;
            link = &p->sums[i].terms;
            end = i;
            rows = 0;
        } else if (i != end && i != term) {
            p->sums[i].role = SUM_INNER;
        }
        if (i != term)
            for (int k = 0; k < 2; k++)
                take_view(p, i, k);
        note_factors(p, term, end, cuts);
        p->sums[term].role = SUM_TERM;
        p->sums[term].at = end;
        *link = term;
        link = &p->sums[term].terms;
        rows += rows_of(p, term);
        p->sums[end].first = i == term;
    }
    *link = -1;
    note(p, FACT_SUMMED, root);
}

bool find_sums(planner *p)
{
    p->sums = desk_take_zero((size_t)p->key->records * sizeof *p->sums);
    if (!p->sums || !(rewrites_done & REWRITE_sums))
        return p->sums != NULL;
    for (int k = 0; k < p->additions.count; k++)
        look_at(p, p->additions.at[k]);
    for (int products = 1; products >= 0; products--) /* which are wider */
        for (int k = p->additions.count - 1; k >= 0; k--) {
            const int32_t i = p->additions.at[k];
            if (p->sums[i].length >= SHORTEST && !p->sums[i].role && is_product(p, p->sums[i].term) == products)
                settle(p, i);
        }
    return true;
}

/* --- planning them ---------------------------------------------------------------------------------------------------
 */

/* Memory of the result, which its first stretch needs already. */
static bool place_root(planner *p, int32_t root)
{
    value *x = &p->values[root];
    if (x->buffer >= 0)
        return true;
    int32_t b = buffer_new(p, BUFFER_TEMPORARY, x->layout->span * (int64_t)dtype_size((bk_dtype)x->dtype));
    if (b < 0)
        return false;
    value_place(p, root, b, 0, x->layout);
    return true;
}

/* What running the sum takes besides. */
static bool place_scratch(planner *p, int32_t i, int32_t at)
{
    int64_t count = 0, row = bytes_per_row(p, p->sums[i].terms);
    for (int32_t t = p->sums[i].terms; t >= 0; t = p->sums[t].terms)
        count += p->key->record[t].inputs;
    int32_t scratch = buffer_new(p, BUFFER_TEMPORARY, SUM_ROWS * row);
    int32_t table = buffer_new(p, BUFFER_TEMPORARY, count * (int64_t)sizeof(sum_rows));
    if (scratch < 0 || table < 0)
        return false;
    p->drafts[at].scratch = scratch;
    p->drafts[at].table = table;
    buffer_touch(p, scratch, at);
    buffer_touch(p, table, at);
    return true;
}

plan_view term_rows(const planner *p, int32_t term, int k)
{
    const record_key *key = &p->key->record[term];
    plan_view v = view_of(p, input_of(p, term, k));
    const bool turned = key->inputs == 2 && key->attr.product.turned >> k & 1;
    if (turned != (key->inputs == 2 && k == 0)) /* the first factor of a product is read down its columns */
        v.layout = layout_turned(v.layout);
    return v;
}

bool plan_sum(planner *p, int32_t i)
{
    if (p->sums[i].role != SUM_END)
        return true;
    int32_t root = p->sums[i].root;
    if (!place_root(p, root))
        return false;
    for (int32_t t = p->sums[i].terms; t >= 0; t = p->sums[t].terms)
        for (int k = 0; k < p->key->record[t].inputs; k++)
            if (!materialise(p, input_of(p, t, k)))
                return false;
    draft *d = draft_new(p, DO_SUM, i);
    if (!d)
        return false;
    int32_t at = p->draft_count - 1;
    for (int32_t t = p->sums[i].terms; t >= 0; t = p->sums[t].terms)
        for (int k = 0; k < p->key->record[t].inputs; k++)
            touch(p, input_of(p, t, k), at);
    d->out = view_of(p, root);
    touch(p, root, at);
    p->values[root].born = at;
    return place_scratch(p, i, at);
}
