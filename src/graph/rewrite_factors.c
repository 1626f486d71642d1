/* rewrite_factors.c: products with a common factor that are added up are one product: y1 W + y2 W = (y1 + y2) W.
 *
 * Where a layer is called with the same input in every step, as attention projects its keys, the gradient of its weight
 * is such a sum: a product for each step, where an addition does.
 *
 * Invariant: of a sum, the additions but the last and all products are read by it alone and not held afterwards. The
 * other factors are dense and of one layout, so that they are added up element by element. */
#include "graph/rewriter.h"

#include <string.h>

#include "graph/desk.h"

enum {
    NARROWEST = 32, /* elements that a product adds up or makes for each of the factor's: fewer are no cheaper to add */
    MOST_DEEP = 3,  /* views and the like between equal factors */
};

/* Products that are added up. */
typedef struct chain {
    int32_t last; /* the addition that is all of them */
    int32_t sum;  /* of the factors so far, in the new log */
    int differs;  /* the factor that they do not have in common */
} chain;

typedef struct finder {
    const plan_key *key;
    const layout **layouts;
    int32_t *same_leaf; /* per leaf the first that shows the same memory, once somebody asks */
    int32_t *chain_of;  /* per record: 1 + the sum that the addition or the product belongs to; 0: none */
    chain *chains;
    int count, capacity;
} finder;

/* Whether two inputs are the same value, or computed alike of the same values. */
static bool are_equal(const finder *f, int32_t a, int32_t b, int deep)
{
    if (a < 0 && b < 0)
        return f->same_leaf[-1 - a] == f->same_leaf[-1 - b];
    if (a == b || a < 0 || b < 0 || !deep)
        return a == b;
    const record_key *x = &f->key->record[a], *y = &f->key->record[b];
    bool same = same_operation(x, y);
    for (int k = 0; same && k < x->inputs; k++)
        same = are_equal(f, x->in[k], y->in[k], deep - 1);
    return same;
}

/* A product of matrices that nobody but one record reads. */
static bool is_term(const finder *f, int32_t v)
{
    if (v < 0)
        return false;
    const record_key *p = &f->key->record[v];
    return p->op == OP_matmul && p->readers == 1 && !(f->key->bits[v] & RECORD_KEPT) &&
           (p->dtype == BK_FLOAT32 || p->dtype == BK_FLOAT64) && f->layouts[v]->ndim == 2 &&
           f->layouts[v] == f->layouts[v]->plain && !reads_forced(f->key, v);
}

/* Whether factor k of a product can be added to others before. */
static bool adds_up(const finder *f, int32_t product, int k)
{
    const record_key *p = &f->key->record[product];
    const layout *l = k ? p->attr.product.b : p->attr.product.a, *other = k ? p->attr.product.a : p->attr.product.b;
    return l == l->plain && l->ndim == 2 && other->ndim == 2 && l->numel && p->in[k] >= 0 &&
           other->numel >= NARROWEST * other->sizes[0] && other->numel >= NARROWEST * other->sizes[1];
}

/* The factor in which products x and y differ, and all of what else there is they have in common; -1: they are apart.
 */
static int difference(const finder *f, int32_t x, int32_t y)
{
    const record_key *p = &f->key->record[x], *q = &f->key->record[y];
    if (!same_operation(p, q))
        return -1;
    for (int k = 0; k < 2; k++)
        if (are_equal(f, p->in[!k], q->in[!k], MOST_DEEP) && adds_up(f, x, k) && q->in[k] >= 0)
            return k;
    return -1;
}

static chain *chain_new(finder *f)
{
    if (!f->chain_of && !(f->chain_of = desk_take_zero((size_t)f->key->records * sizeof *f->chain_of)))
        return NULL;
    if (f->count == f->capacity) {
        const int capacity = f->capacity ? f->capacity * 2 : 16;
        chain *grown = desk_grow(f->chains, (size_t)f->count * sizeof *grown, (size_t)capacity * sizeof *grown);
        if (!grown)
            return NULL;
        f->chains = grown;
        f->capacity = capacity;
    }
    return &f->chains[f->count++];
}

/* The sum that ends with addition v, if another addition can go on with it: 1 + its number. */
static int32_t chain_before(const finder *f, int32_t v)
{
    const bool inner = v >= 0 && f->chain_of && f->key->record[v].op == EW_add && f->key->record[v].readers == 1 &&
                       !(f->key->bits[v] & RECORD_KEPT);
    return inner ? f->chain_of[v] : 0;
}

/* Whether input k of addition i of a sum is one of its products. */
static bool is_product_of(const finder *f, int32_t i, int k)
{
    const int32_t v = f->key->record[i].in[k];
    return f->key->record[v].op == OP_matmul && f->chain_of[v] == f->chain_of[i];
}

static void join(finder *f, int32_t number, int32_t i, int32_t term)
{
    f->chain_of[i] = f->chain_of[term] = number;
    f->chains[number - 1].last = i;
}

/* Addition i. False: out of memory. */
static bool look_at(finder *f, int32_t i)
{
    const record_key *add = &f->key->record[i];
    if (f->layouts[i] != f->layouts[i]->plain)
        return true;
    for (int turn = 0; turn < 2; turn++) {
        const int32_t before = add->in[turn], term = add->in[!turn], number = chain_before(f, before);
        if (number && is_term(f, term) && f->layouts[term] == f->layouts[i] &&
            difference(f, f->key->record[before].in[!is_product_of(f, before, 0)], term) ==
                f->chains[number - 1].differs) {
            join(f, number, i, term);
            return true;
        }
    }
    const int32_t x = add->in[0], y = add->in[1];
    if (x == y || !is_term(f, x) || !is_term(f, y) || f->layouts[x] != f->layouts[i] || f->layouts[y] != f->layouts[i])
        return true;
    if (!f->same_leaf) {
        f->same_leaf = desk_take((size_t)f->key->leaves * sizeof *f->same_leaf);
        if (!f->same_leaf || !share_leaves(f->key, f->same_leaf))
            return false;
    }
    const int differs = difference(f, x, y);
    if (differs < 0)
        return true;
    chain *c = chain_new(f);
    if (!c)
        return false;
    *c = (chain){ .sum = -1, .differs = differs };
    join(f, f->count, i, x);
    f->chain_of[y] = f->count;
    return true;
}

/* --- the new log -------------------------------------------------------------------------------------------------- */

typedef struct writer {
    const finder *f;
    const int32_t *origin; /* of the log that is read, or NULL */
    rewritten out;
    int32_t *map;
} writer;

static int32_t write(writer *w, const record_key *key, const layout *l, uint8_t bits, int32_t i)
{
    const int32_t at = w->out.key.records++;
    w->out.key.record[at] = *key;
    w->out.key.bits[at] = bits;
    w->out.layouts[at] = l;
    w->out.origin[at] = w->origin ? w->origin[i] : i;
    return at;
}

static int32_t mapped(const writer *w, int32_t in) { return in >= 0 ? w->map[in] : in; }

/* Addition i of a sum: its terms' factors are added up, and the last one multiplies. */
static void write_addition(writer *w, int32_t i)
{
    const finder *f = w->f;
    const record_key *add = &f->key->record[i];
    chain *c = &f->chains[f->chain_of[i] - 1];
    int32_t terms[2], count = 0;
    for (int k = 0; k < 2; k++)
        if (is_product_of(f, i, k))
            terms[count++] = add->in[k];
    record_key sum = *add, product = f->key->record[terms[0]];
    const layout *l = c->differs ? product.attr.product.b : product.attr.product.a;
    sum.layout = l->id;
    sum.in[0] = c->sum >= 0 ? c->sum : w->map[f->key->record[terms[1]].in[c->differs]];
    sum.in[1] = w->map[product.in[c->differs]];
    c->sum = write(w, &sum, l, RECORD_NEEDED, i);
    if (c->last != i)
        return;
    product.in[c->differs] = c->sum;
    product.in[!c->differs] = mapped(w, product.in[!c->differs]);
    w->map[i] = write(w, &product, f->layouts[i], f->key->bits[i], i);
}

static bool write_log(writer *w)
{
    const finder *f = w->f;
    const size_t most = (size_t)f->key->records + (size_t)f->count; /* a product more for each sum */
    w->map = desk_take((size_t)f->key->records * sizeof *w->map);
    w->out.key.record = desk_take(most * sizeof *w->out.key.record);
    w->out.key.bits = desk_take(most);
    w->out.layouts = desk_take(most * sizeof *w->out.layouts);
    w->out.origin = desk_take(most * sizeof *w->out.origin);
    w->out.key.records = 0;
    if (!w->map || !w->out.key.record || !w->out.key.bits || !w->out.layouts || !w->out.origin)
        return false;
    for (int32_t i = 0; i < f->key->records; i++) {
        if (!(f->key->bits[i] & RECORD_NEEDED))
            continue;
        record_key key = f->key->record[i];
        if (f->chain_of[i] && key.op == OP_matmul)
            continue;
        if (f->chain_of[i]) {
            write_addition(w, i);
            continue;
        }
        for (int k = 0; k < key.inputs; k++)
            key.in[k] = mapped(w, key.in[k]);
        w->map[i] = write(w, &key, f->layouts[i], f->key->bits[i], i);
    }
    return true;
}

bool share_factors(rewritten *log, plan_report *report)
{
    finder f = { .key = &log->key, .layouts = log->layouts };
    if (!(rewrites_done & REWRITE_factors))
        return true;
    for (int32_t i = 0; i < log->key.records; i++)
        if (log->key.record[i].op == EW_add && log->key.bits[i] & RECORD_NEEDED && !look_at(&f, i))
            return false;
    if (!f.count)
        return true;
    writer w = { .f = &f, .origin = log->origin, .out = *log };
    if (!write_log(&w))
        return false;
    for (int k = 0; k < f.count; k++)
        report_fact(report, FACT_FACTORED, log->origin ? log->origin[f.chains[k].last] : f.chains[k].last, "add");
    *log = w.out;
    return true;
}
