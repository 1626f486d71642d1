/* test_rewrites.c: products that become one: which do, and that nobody can tell but by the time.
 *
 * Each form is checked through the report of its plan, so that a later change cannot lose a rewrite silently. Random
 * cells run forward and backward with each rewrite switched off, with all of them, and eagerly: equal within rounding,
 * since sums of products may be added up in another order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights.h"
#include "brisk.h"
#include "core/scope.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "graph/rewrite.h"
#include "tap.h"

enum { MOST_WEIGHTS = 16, RESULTS = MOST_WEIGHTS + 2 };

typedef struct sizes {
    int64_t t, b, i, h;
} sizes;

/* What a cell is made of, and the results of running it. */
typedef struct world {
    sizes n;
    bk_dtype dtype;
    bool wants_x; /* the input gets a gradient too */
    bk_tensor *x, *w[MOST_WEIGHTS];
    int weights;
    unsigned seed;
} world;

typedef bk_tensor *(*form)(world *w);

/* The next weight of the world: the same ones in the same order each time. */
static bk_tensor *weight(world *w, int ndim, int64_t rows, int64_t columns)
{
    bk_tensor *t = sample(ndim, ndim == 1 ? &columns : (int64_t[]){ rows, columns }, w->dtype, w->weights + 2, 0.2);
    bk_set_requires_grad(t, true);
    return w->w[w->weights++] = bk_retain(t); /* outlives the scope of the form */
}

static bk_tensor *zeros(const world *w) { return bk_zeros(2, (int64_t[]){ w->n.b, w->n.h }, w->dtype); }
static bk_tensor *at(const world *w, int64_t t) { return bk_select(w->x, 0, t); }
static bk_tensor *side_by_side(bk_tensor *a, bk_tensor *b) { return bk_cat((bk_tensor *[]){ a, b }, 2, 1); }
static bk_tensor *times_turned(bk_tensor *a, bk_tensor *b) { return bk_matmul(a, bk_transpose(b, 0, 1)); }

static bk_tensor *stacked(const world *w, bk_tensor **steps)
{
    bk_tensor *all = bk_stack(steps, (int)w->n.t, 0);
    free(steps);
    return all;
}

/* --- forms ---------------------------------------------------------------------------------------------------------
 */

/* Gates one by one, each finished before the next begins. */
static bk_tensor *gates_over_cat(world *w)
{
    bk_tensor *g[4], *bias[4], *h = zeros(w), *c = zeros(w), **out = malloc((size_t)w->n.t * sizeof *out);
    for (int k = 0; k < 4; k++) {
        g[k] = weight(w, 2, w->n.h, w->n.i + w->n.h);
        bias[k] = weight(w, 1, 0, w->n.h);
    }
    for (int64_t t = 0; t < w->n.t; t++) {
        bk_tensor *both = side_by_side(at(w, t), h);
        bk_tensor *i = bk_sigmoid(bk_linear(both, g[0], bias[0])), *f = bk_sigmoid(bk_linear(both, g[1], bias[1]));
        bk_tensor *n = bk_tanh(bk_linear(both, g[2], bias[2])), *o = bk_sigmoid(bk_linear(both, g[3], bias[3]));
        c = bk_add(bk_mul(f, c), bk_mul(i, n));
        out[t] = h = bk_mul(o, bk_tanh(c));
    }
    return stacked(w, out);
}

/* All gates of one layer over cat([h, x[t]]), then cut apart. */
static bk_tensor *one_layer_over_cat(world *w)
{
    bk_tensor *g = weight(w, 2, 2 * w->n.h, w->n.i + w->n.h), *h = zeros(w);
    bk_tensor **out = malloc((size_t)w->n.t * sizeof *out);
    for (int64_t t = 0; t < w->n.t; t++) {
        bk_tensor *both = times_turned(side_by_side(h, at(w, t)), g);
        bk_tensor *z = bk_sigmoid(bk_slice(both, 1, 0, w->n.h, 1));
        bk_tensor *n = bk_tanh(bk_slice(both, 1, w->n.h, 2 * w->n.h, 1));
        out[t] = h = bk_add(bk_mul(z, h), bk_mul(bk_add_s(bk_neg(z), 1), n));
    }
    return stacked(w, out);
}

/* A GRU whose gates have two weights each, not transposed, over time from its end. */
static bk_tensor *backwards_gru(world *w)
{
    bk_tensor *of_x[3], *of_h[3], *h = zeros(w), **out = malloc((size_t)w->n.t * sizeof *out);
    for (int k = 0; k < 3; k++) {
        of_x[k] = weight(w, 2, w->n.i, w->n.h);
        of_h[k] = weight(w, 2, w->n.h, w->n.h);
    }
    for (int64_t t = w->n.t - 1; t >= 0; t--) {
        bk_tensor *x = at(w, t);
        bk_tensor *z = bk_sigmoid(bk_add(bk_matmul(x, of_x[0]), bk_matmul(h, of_h[0])));
        bk_tensor *r = bk_sigmoid(bk_add(bk_matmul(x, of_x[1]), bk_matmul(h, of_h[1])));
        bk_tensor *n = bk_tanh(bk_add(bk_matmul(x, of_x[2]), bk_mul(r, bk_matmul(h, of_h[2]))));
        out[t] = h = bk_add(bk_mul(z, h), bk_mul(bk_add_s(bk_neg(z), 1), n));
    }
    return stacked(w, out);
}

/* No recurrence at all: three layers over each of many inputs. */
static bk_tensor *heads(world *w)
{
    bk_tensor *layer[3], **out = malloc((size_t)w->n.t * sizeof *out);
    for (int k = 0; k < 3; k++)
        layer[k] = weight(w, 2, w->n.h, w->n.i);
    for (int64_t t = 0; t < w->n.t; t++) {
        bk_tensor *x = bk_exp(bk_mul_s(at(w, t), 0.1));
        bk_tensor *q = times_turned(x, layer[0]), *k = times_turned(x, layer[1]), *v = times_turned(x, layer[2]);
        out[t] = bk_mul(bk_tanh(bk_mul(q, k)), v);
    }
    return stacked(w, out);
}

/* One weight that rows of one sequence are multiplied with as it is and transposed. */
static bk_tensor *both_ways(world *w)
{
    bk_tensor *layer = weight(w, 2, w->n.i, w->n.i), **out = malloc((size_t)w->n.t * sizeof *out);
    for (int64_t t = 0; t < w->n.t; t++) {
        bk_tensor *x = at(w, t), *as_it_is = bk_tanh(bk_matmul(x, layer));
        out[t] = t % 2 ? as_it_is : bk_mul(bk_tanh(bk_linear(x, layer, bk_select(layer, 0, 0))), as_it_is);
    }
    return stacked(w, out);
}

/* --- random cells --------------------------------------------------------------------------------------------------
 */

static int chance(world *w, int below)
{
    w->seed = w->seed * 1664525u + 1013904223u;
    return (int)((w->seed >> 12) % (unsigned)below);
}

typedef struct step {
    int kind, x, y, weight;
} step;
enum { OPS = 9, CARRIES = 2, OP_KINDS = 9 };

/* A value of the batch's rows and h columns, from those before it. */
static bk_tensor *apply(world *w, const step *o, bk_tensor **v, bk_tensor *x)
{
    bk_tensor *p = v[o->x], *q = v[o->y], *u = w->w[o->weight];
    int64_t h = w->n.h;
    switch (o->kind) {
    case 0: return bk_tanh(p);
    case 1: return bk_add(bk_mul(bk_sigmoid(p), q), p);
    case 2: return times_turned(p, u); /* weights 0, 1: (h, h) */
    case 3: return bk_add(bk_matmul(p, u), bk_matmul(q, w->w[!o->weight]));
    case 4: return times_turned(x, w->w[2 + o->weight]);                  /* 2, 3: (h, i) */
    case 5: return times_turned(side_by_side(x, p), w->w[4 + o->weight]); /* 4, 5: (h, i + h) */
    case 6: return times_turned(side_by_side(p, x), w->w[4 + o->weight]);
    case 7: {
        bk_tensor *both = times_turned(p, w->w[6]); /* 6: (2 h, h) */
        return bk_mul(bk_slice(both, 1, 0, h, 1), bk_tanh(bk_slice(both, 1, h, 2 * h, 1)));
    }
    default: return bk_add(bk_matmul(p, u), bk_add(bk_matmul(q, u), bk_matmul(p, w->w[!o->weight])));
    }
}

static bk_tensor *random_cell(world *w)
{
    step ops[OPS];
    for (int k = 0; k < OPS; k++)
        ops[k] = (step){ chance(w, OP_KINDS), chance(w, CARRIES + k), chance(w, CARRIES + k), chance(w, 2) };
    for (int k = 0; k < 7; k++)
        weight(w, 2, k == 6 ? 2 * w->n.h : w->n.h,
               k == 2 || k == 3   ? w->n.i
               : k == 4 || k == 5 ? w->n.i + w->n.h
                                  : w->n.h);
    bk_tensor *v[CARRIES + OPS], **out = malloc((size_t)w->n.t * sizeof *out);
    v[0] = zeros(w);
    v[1] = bk_add_s(zeros(w), 0.5);
    for (int64_t t = 0; t < w->n.t; t++) {
        for (int k = 0; k < OPS; k++)
            v[CARRIES + k] = apply(w, &ops[k], v, at(w, t));
        v[0] = bk_tanh(v[CARRIES + OPS - 1]);
        v[1] = bk_tanh(v[CARRIES + OPS - 2]);
        out[t] = v[0];
    }
    return stacked(w, out);
}

/* --- running them --------------------------------------------------------------------------------------------------
 */

static plan_report report;

/* The outputs, then the gradients of the weights and of x. Returns how many. */
static int run(form f, const world *like, bk_tensor **results)
{
    world w = *like;
    bk_scope_push();
    w.x = sample(3, (int64_t[]){ w.n.t, w.n.b, w.n.i }, w.dtype, 1, 1);
    bk_set_requires_grad(w.x, w.wants_x);
    bk_scope_push();
    bk_tensor *out = scope_return(f(&w));
    bk_backward(bk_sum(bk_square(out), 0, false), NULL, false, false);
    report = report_last();
    int count = 0;
    results[count++] = bk_retain(bk_clone(bk_detach(out)));
    for (int k = 0; k < w.weights; k++)
        if (bk_grad_of(w.w[k])) /* not every weight of a random cell is used */
            results[count++] = bk_retain(bk_clone(bk_grad_of(w.w[k])));
    if (w.wants_x && bk_grad_of(w.x))
        results[count++] = bk_retain(bk_clone(bk_grad_of(w.x)));
    bk_sync();
    for (int k = 0; k < w.weights; k++)
        bk_release(w.w[k]);
    bk_scope_pop();
    return count;
}

static bool close_to(bk_tensor *a, bk_tensor *b) { return within(a, b, 1e-12, 5e-5); }

static bool all_close(form f, const world *w, bk_tensor **expected, int count)
{
    bk_tensor *results[RESULTS];
    bool good = run(f, w, results) == count;
    for (int k = 0; k < count; k++) {
        good = good && close_to(results[k], expected[k]);
        bk_release(results[k]);
    }
    return good;
}

/* With all rewrites, without each, and without any: as eagerly. */
static bool nobody_can_tell(form f, const world *w)
{
    bk_tensor *eager[RESULTS];
    bool was = log_is_eager, good = true;
    log_is_eager = true;
    int count = run(f, w, eager);
    log_is_eager = was;
    for (int k = -2; k < REWRITE_COUNT; k++) {
        rewrites_done = k == -2 ? REWRITE_ALL : k == -1 ? 0 : REWRITE_ALL & ~(1u << k);
        good = all_close(f, w, eager, count) && good;
    }
    rewrites_done = REWRITE_ALL;
    for (int k = 0; k < count; k++)
        bk_release(eager[k]);
    return good;
}

static const struct {
    const char *name;
    form run;
    sizes n;
    int joined, added, narrowed, rows; /* facts at least, without a gradient for x */
} forms[] = {
    { "an LSTM of four layers over cat", gates_over_cat, { 10, 16, 24, 32 }, 10, 9, 9, 0 },
    { "an LSTM of four layers over cat, one row", gates_over_cat, { 10, 1, 24, 32 }, 10, 9, 9, 1 },
    { "one layer over cat that is cut apart", one_layer_over_cat, { 10, 16, 24, 32 }, 0, 0, 9, 0 },
    { "one layer over cat that is cut apart, two rows", one_layer_over_cat, { 10, 2, 24, 32 }, 0, 0, 9, 1 },
    { "a GRU with two weights for each gate, backwards", backwards_gru, { 10, 16, 24, 32 }, 19, 9, 0, 0 },
    { "a GRU with two weights for each gate, backwards, one row", backwards_gru, { 10, 1, 24, 32 }, 19, 9, 0, 1 },
    { "three layers over each of many inputs", heads, { 6, 20, 24, 32 }, 6, 0, 0, 0 },
    { "a weight as it is and transposed, one row", both_ways, { 10, 1, 24, 32 }, 0, 0, 0, 2 },
};
enum { FORMS = sizeof forms / sizeof *forms };

static void fires(void)
{
    for (int f = 0; f < FORMS; f++) {
        world w = { .n = forms[f].n, .dtype = BK_FLOAT32 };
        bk_tensor *results[RESULTS];
        cache_clear();
        int count = run(forms[f].run, &w, results);
        for (int k = 0; k < count; k++)
            bk_release(results[k]);
        const int *c = report.count;
        tap_ok(log_is_eager || (c[FACT_JOINED] >= forms[f].joined && c[FACT_ADDED] >= forms[f].added &&
                                c[FACT_NARROWED] >= forms[f].narrowed && c[FACT_ROWS] >= forms[f].rows),
               "%s: %d joined, %d added up, %d narrowed, %d runs of rows", forms[f].name, forms[f].joined,
               forms[f].added, forms[f].narrowed, forms[f].rows);
    }
}

static void compares(void)
{
    static const sizes shapes[] = {
        { 1, 3, 5, 4 }, { 5, 1, 2, 2 }, { 7, 5, 12, 33 }, { 12, 16, 32, 32 }, { 40, 1, 9, 7 }
    };
    for (int f = 0; f < FORMS; f++) {
        bool good = true;
        for (size_t s = 0; s < 4 * sizeof shapes / sizeof *shapes; s++) {
            world w = { .n = shapes[s / 4], .dtype = s % 2 ? BK_FLOAT64 : BK_FLOAT32, .wants_x = s / 2 % 2 };
            good = nobody_can_tell(forms[f].run, &w) && good;
        }
        tap_ok(good, "%s: as eagerly with each rewrite and without", forms[f].name);
    }
}

static void random_cells(void)
{
    enum { CELLS = 60 };
    int bad = 0;
    for (unsigned seed = 0; seed < CELLS; seed++) {
        world w = { .n = { 6 + seed % 5, 1 + seed % 4 * 3, 4, 5 }, .seed = seed * 7919 + 1, .dtype = BK_FLOAT64 };
        w.wants_x = seed % 3 == 0;
        if (!nobody_can_tell(random_cell, &w) && !bad++)
            printf("# the first one that differs: %u\n", seed);
    }
    tap_ok(!bad, "%d random cells: as eagerly with each rewrite and without", CELLS);
}

/* Columns and rows of a joined product have the bits of the single ones. */
static void keeps_bits(void)
{
    world w = { .n = { 8, 1, 24, 32 }, .dtype = BK_FLOAT32 };
    bk_tensor *joined[RESULTS], *single[RESULTS];
    cache_clear();
    int count = run(heads, &w, joined);
    rewrites_done = 0;
    cache_clear();
    run(heads, &w, single);
    rewrites_done = REWRITE_ALL;
    cache_clear();
    bool same = !memcmp(bk_data(joined[0]), bk_data(single[0]), (size_t)bk_numel(joined[0]) * sizeof(float));
    for (int k = 0; k < count; k++) {
        bk_release(joined[k]);
        bk_release(single[k]);
    }
    tap_ok(same, "products joined by columns and rows keep their bits");
}

/* A weight that is written to between its uses, and products that somebody holds. */
static void writes_between(void)
{
    bool good = true, was = log_is_eager;
    bk_tensor *results[2][3];
    for (int eager = 0; eager < 2; eager++) {
        log_is_eager = eager || was;
        bk_scope_push();
        bk_tensor *a = sample(2, (int64_t[]){ 6, 6 }, BK_FLOAT64, 1, 1),
                  *b = sample(2, (int64_t[]){ 6, 6 }, BK_FLOAT64, 2, 1);
        bk_tensor *x = sample(2, (int64_t[]){ 3, 6 }, BK_FLOAT64, 3, 1), *sum = x, *held = NULL;
        for (int k = 0; k < 8; k++) {
            bk_tensor *p = bk_matmul(x, a), *q = bk_matmul(x, b);
            held = k == 4 ? p : held;
            sum = bk_add(sum, bk_mul(p, q));
            if (k % 2)
                bk_copy_(bk_select(k % 4 == 1 ? a : b, 0, 0), bk_select(sum, 0, 0));
            x = bk_tanh(sum);
        }
        results[eager][0] = bk_retain(sum);
        results[eager][1] = bk_retain(held);
        results[eager][2] = bk_retain(a);
        bk_sync();
        bk_scope_pop();
    }
    log_is_eager = was;
    for (int k = 0; k < 3; k++) {
        good = close_to(results[0][k], results[1][k]) && good;
        bk_release(results[0][k]);
        bk_release(results[1][k]);
    }
    tap_ok(good, "weights that are written to between their uses, and a product that is held");
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* What the steps of a loop read of a larger value, and what else happens to it. */
enum { PARTS, PART_HELD, PARTS_OVERLAP, WHOLE_TOO, SOURCE_WRITTEN, ROWS_OF_PRODUCTS, TWICE, TWO, PART_WAYS };

static bk_tensor *reads_parts(int way, bk_tensor **held)
{
    enum { T = 6 };
    const int64_t b = way == ROWS_OF_PRODUCTS ? 1 : 3;
    bk_tensor *x = bk_clone(sample(3, (int64_t[]){ T, b, 5 }, BK_FLOAT64, 1, 1));
    bk_tensor *w = sample(2, (int64_t[]){ 5, 5 }, BK_FLOAT64, 2, 0.3),
              *h = bk_zeros(2, (int64_t[]){ b, 5 }, BK_FLOAT64);
    bk_sync();
    bk_tensor *first =
        way == TWICE || way == TWO ? bk_add(bk_mul_s(x, 2), bk_mul_s(x, way == TWICE ? 2 : 3)) : bk_add_s(x, 1);
    bk_tensor *e =
        bk_mul_s(bk_mul(first, bk_expand(bk_select(bk_select(w, 0, 0), 0, 0), 3, (int64_t[]){ T, b, 5 })), 3);
    if (way == SOURCE_WRITTEN)
        bk_fill_(x, 9);
    for (int64_t t = T - 1; t >= 0; t--) {
        bk_tensor *part = bk_select(e, 0, t);
        if (way == PART_HELD && t == 2)
            *held = bk_retain(part);
        if (way == PARTS_OVERLAP && t)
            part = bk_add(part, bk_select(bk_slice(e, 0, t - 1, t + 1, 1), 0, 1));
        part = way == ROWS_OF_PRODUCTS ? bk_matmul(part, w) : part;
        h = bk_tanh(bk_add(part, bk_matmul(h, w)));
    }
    return way == WHOLE_TOO ? bk_add(h, bk_select(bk_cumsum(e, 0), 0, 1)) : h;
}

static bk_tensor *result_of(int way, bk_tensor **held)
{
    bk_scope_push();
    bk_tensor *result = scope_return(reads_parts(way, held));
    bk_sync();
    report = report_last();
    return result;
}

static void part_by_part(void)
{
    static const char *const names[PART_WAYS] = {
        "parts alone",
        "one is held",
        "parts that overlap",
        "all of it",
        "what it was made of is written",
        "rows of products",
        "the same value twice, as of y * y",
        "two values, of which a part would read more",
    };
    static const int found[PART_WAYS] = { [PARTS] = 3, [SOURCE_WRITTEN] = 3, [TWICE] = 5, [TWO] = 2 };
    const bool was = log_is_eager;
    for (int way = 0; way < PART_WAYS; way++) {
        bk_scope_push();
        bk_tensor *lazy_part = NULL, *eager_part = NULL, *lazy = result_of(way, &lazy_part);
        const int parts = report.count[FACT_PARTS];
        log_is_eager = true;
        bool same = close_to(lazy, result_of(way, &eager_part));
        log_is_eager = was;
        same = same && (!lazy_part || close_to(lazy_part, eager_part));
        bk_release(lazy_part);
        bk_release(eager_part);
        tap_ok(same, "what is read part by part: %s", names[way]);
        tap_ok(was || parts == found[way], "%s: %d operations are computed so", names[way], found[way]);
        bk_scope_pop();
    }
}

static bool same_bits_in_parts(form f, const world *w)
{
    bk_tensor *parts[RESULTS], *whole[RESULTS];
    bool same = true;
    cache_clear();
    int count = run(f, w, parts);
    same = log_is_eager || report.count[FACT_PARTS] > 0;
    rewrites_done = REWRITE_ALL & ~(uint32_t)REWRITE_parts;
    cache_clear();
    run(f, w, whole);
    rewrites_done = REWRITE_ALL;
    for (int k = 0; k < count; k++) {
        same = same && !memcmp(bk_data(parts[k]), bk_data(whole[k]), (size_t)bk_numel(parts[k]) * sizeof(float));
        bk_release(parts[k]);
        bk_release(whole[k]);
    }
    return same;
}

/* Everything again, with parts of anything. */
static void in_parts(void)
{
    parts_least_bytes = 0;
    cache_clear();
    part_by_part();
    compares();
    random_cells();
    world w = { .n = { 10, 16, 24, 32 }, .dtype = BK_FLOAT32 };
    tap_ok(same_bits_in_parts(gates_over_cat, &w),
           "the gradient of a loss over all steps, part by part: the same bits");
    parts_least_bytes = 1 << 20;
    cache_clear();
}

/* Products of the same matrices, with so many records between the first and the second of each. */
static bk_tensor *products_across(int records)
{
    enum { ROWS = 8, TIMES = 5 };
    bk_tensor *part[TIMES], *sum = NULL, *filler;
    for (int k = 0; k < TIMES; k++)
        part[k] = sample(2, (int64_t[]){ ROWS, 16 }, BK_FLOAT32, 10 + k, 1);
    bk_tensor *w = sample(2, (int64_t[]){ 16, 16 }, BK_FLOAT32, 2, 0.3),
              *u = sample(2, (int64_t[]){ 16, 16 }, BK_FLOAT32, 3, 0.3);
    bk_sync();
    for (int k = 0; k < TIMES; k++) {
        bk_tensor *first = bk_tanh(bk_matmul(part[k], w));
        sum = sum ? bk_add(sum, first) : first;
    }
    filler = part[0];
    for (int i = 0; i < records; i++)
        filler = bk_mul_s(filler, 1.01);
    for (int k = 0; k < TIMES; k++)
        sum = bk_add(sum, bk_tanh(bk_matmul(part[k], u)));
    return bk_add(sum, filler);
}

static int joined_across(int records)
{
    bk_scope_push();
    bk_tensor *result = scope_return(products_across(records));
    bk_sync();
    bk_release(result);
    return report_last().count[FACT_JOINED];
}

static void joins_what_is_near(void)
{
    const int near = joined_across(10), far = joined_across(1000);
    tap_ok(log_is_eager || near == 5, "products that share their first factor are joined");
    tap_ok(log_is_eager || far == 0, "but not where the one is read long after the other");
}

/* Characters and the gradients of their table and of what multiplies it: 20 rows, in which 18 are looked up 384 times,
 * in another order than the product reads them. */
static bk_tensor *characters(bk_dtype dtype)
{
    enum { V = 20, K = 64, N = 48, B = 16, T = 24 };
    bk_tensor *places = bk_remainder_s(bk_reshape(bk_arange(0, B * T, 1, BK_INT64), 2, (int64_t[]){ B, T }), V - 2);
    bk_tensor *table = sample(2, (int64_t[]){ V, K }, dtype, 1, 1), *w = sample(2, (int64_t[]){ N, K }, dtype, 2, 0.2),
              *b = sample(1, (int64_t[]){ N }, dtype, 3, 1);
    for (int k = 0; k < 3; k++)
        bk_set_requires_grad((bk_tensor *[]){ table, w, b }[k], true);
    bk_sync();
    bk_tensor *y = bk_linear(bk_transpose(bk_embedding(table, places), 0, 1), w, b);
    bk_backward(bk_sum(bk_square(y), 0, false), NULL, false, false);
    report = report_last();
    bk_tensor *all[] = { y, bk_grad_of(table), bk_grad_of(w), bk_grad_of(b) };
    for (int k = 0; k < 4; k++)
        all[k] = bk_reshape(all[k], 1, (int64_t[]){ -1 });
    return bk_cat(all, 4, 0);
}

static bk_tensor *characters_of(bk_dtype dtype)
{
    bk_scope_push();
    return scope_return(characters(dtype));
}

static void looked_up(void)
{
    const bool was = log_is_eager;
    const int threads = bk_get_num_threads();
    for (bk_dtype dtype = BK_FLOAT32; dtype <= BK_FLOAT64; dtype++) {
        bk_scope_push();
        cache_clear();
        bk_tensor *lazy = characters_of(dtype);
        tap_ok(was || report.count[FACT_LOOKED_UP] == 3,
               "products of looked-up rows, and gradients, are made in the table");
        bk_set_num_threads(3);
        bk_tensor *others = characters_of(dtype);
        bk_set_num_threads(threads);
        tap_ok(!memcmp(bk_data(lazy), bk_data(others), (size_t)bk_numel(lazy) * bk_dtype_size(dtype)),
               "their bits do not depend on the number of threads");
        log_is_eager = true;
        tap_ok(close_to(lazy, characters_of(dtype)), "they are those of eager mode");
        log_is_eager = was;
        bk_scope_pop();
    }
}

int main(void)
{
    fires();
    joins_what_is_near();
    compares();
    random_cells();
    keeps_bits();
    writes_between();
    in_parts();
    looked_up();
    return tap_done();
}
