/* test_loops.c: loops over time, written step by step: what the planner makes of them, and that it changes nothing.
 *
 * Each loop runs forward and backward, lazily and then eagerly, op by op. Sums over time may be added up in another
 * order, so results are compared within rounding; they may not depend on the number of threads at all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights.h"
#include "brisk.h"
#include "core/scope.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "tap.h"

enum { WEIGHTS = 9, RESULTS = WEIGHTS + 2 };

typedef struct sizes {
    int64_t t, b, i, h;
} sizes;

typedef struct cell {
    bk_tensor *x, *w[WEIGHTS]; /* x: time, batch, inputs */
    sizes n;
    bool batch_first;
} cell;

typedef bk_tensor *(*loop)(const cell *c);

static bk_tensor *at(const cell *c, int64_t t) { return bk_select(c->x, c->batch_first ? 1 : 0, t); }
static bk_tensor *start(const cell *c) { return bk_zeros(2, (int64_t[]){ c->n.b, c->n.h }, bk_dtype_of(c->x)); }
static bk_tensor *outputs(const cell *c, bk_tensor **h)
{
    bk_tensor *all = bk_stack(h, (int)c->n.t, c->batch_first ? 1 : 0);
    free(h);
    return all;
}
static bk_tensor **steps(const cell *c) { return malloc((size_t)c->n.t * sizeof(bk_tensor *)); }

/* --- cells ---------------------------------------------------------------------------------------------------------
 */

/* h = tanh(x[t] @ Wx.t() + b + h @ Wh.t()) */
static bk_tensor *plain(const cell *c)
{
    bk_tensor **out = steps(c), *h = start(c);
    for (int64_t t = 0; t < c->n.t; t++) {
        bk_tensor *z = bk_add(bk_matmul(at(c, t), bk_transpose(c->w[0], 0, 1)), c->w[2]);
        out[t] = h = bk_tanh(bk_add(z, bk_matmul(h, bk_transpose(c->w[1], 0, 1))));
    }
    return outputs(c, out);
}

/* an LSTM of four layers over x[t] and h side by side */
static bk_tensor *four_layers(const cell *c)
{
    bk_tensor **out = steps(c), *h = start(c), *s = start(c);
    for (int64_t t = 0; t < c->n.t; t++) {
        bk_tensor *both = bk_cat((bk_tensor *[]){ at(c, t), h }, 2, 1), *g[4];
        for (int k = 0; k < 4; k++)
            g[k] = bk_linear(both, c->w[2 * k], c->w[2 * k + 1]);
        s = bk_add(bk_mul(bk_sigmoid(g[0]), s), bk_mul(bk_sigmoid(g[1]), bk_tanh(g[2])));
        out[t] = h = bk_mul(bk_sigmoid(g[3]), bk_tanh(s));
    }
    return outputs(c, out);
}

/* z, a = chunk(w[t] + U h); h = z h + (1 - z) relu(a) */
static bk_tensor *light(const cell *c)
{
    bk_tensor **out = steps(c), *h = start(c), *w = bk_linear(c->x, c->w[0], c->w[1]);
    cell projected = *c;
    projected.x = w;
    for (int64_t t = 0; t < c->n.t; t++) {
        bk_tensor *both = bk_add(at(&projected, t), bk_matmul(h, bk_transpose(c->w[2], 0, 1)));
        bk_tensor *z = bk_sigmoid(bk_slice(both, 1, 0, c->n.h, 1));
        bk_tensor *a = bk_relu(bk_slice(both, 1, c->n.h, 2 * c->n.h, 1));
        out[t] = h = bk_add(bk_mul(z, h), bk_mul(bk_add_s(bk_neg(z), 1), a));
    }
    return outputs(c, out);
}

/* teacher forcing, a branch, a loss at every step, and rows that meet: the mean over the batch is a state too */
static bk_tensor *mixed(const cell *c)
{
    bk_tensor **out = steps(c), *h = start(c), *mean = bk_mean(h, 1, true);
    for (int64_t t = 0; t < c->n.t; t++) {
        bk_tensor *z = bk_linear(at(c, t), c->w[0], c->w[2]);
        z = bk_add(z, bk_matmul(t % 3 ? h : bk_mul_s(h, 0.5), c->w[1]));
        if (t % 2)
            z = bk_add(z, mean);
        out[t] = h = bk_tanh(z);
        mean = bk_mean(h, 1, true);
    }
    return outputs(c, out);
}

typedef struct form {
    const char *name;
    loop run;
    int weights;
    struct {
        int rows, columns; /* in units: 1 is h, 2 is i, 4 is i + h, 3 is 2 h; rows 0: a vector */
    } w[WEIGHTS];
} form;

static const form forms[] = {
    { "a recurrence", plain, 3, { { 1, 2 }, { 1, 1 }, { 0, 1 } } },
    { "an LSTM of four layers",
      four_layers,
      8,
      { { 1, 4 }, { 0, 1 }, { 1, 4 }, { 0, 1 }, { 1, 4 }, { 0, 1 }, { 1, 4 }, { 0, 1 } } },
    { "a light GRU", light, 3, { { 3, 2 }, { 0, 3 }, { 3, 1 } } },
    { "a loop with branches", mixed, 3, { { 1, 2 }, { 1, 1 }, { 0, 1 } } },
};
enum { FORMS = sizeof forms / sizeof *forms };

/* --- running them --------------------------------------------------------------------------------------------------
 */

static int64_t units(const sizes *n, int u) { return u == 1 ? n->h : u == 2 ? n->i : u == 3 ? 2 * n->h : n->i + n->h; }

static cell cell_of(const form *f, sizes n, bk_dtype dtype, bool batch_first)
{
    cell c = { .n = n, .batch_first = batch_first };
    c.x = sample(3, batch_first ? (int64_t[]){ n.b, n.t, n.i } : (int64_t[]){ n.t, n.b, n.i }, dtype, 1, 1);
    for (int k = 0; k < f->weights; k++) {
        int64_t rows = units(&n, f->w[k].rows), columns = units(&n, f->w[k].columns);
        c.w[k] = f->w[k].rows ? sample(2, (int64_t[]){ rows, columns }, dtype, k + 2, 0.15)
                              : sample(1, &columns, dtype, k + 2, 0.15);
        bk_set_requires_grad(c.w[k], true);
    }
    return c;
}

static plan_report report;

/* The outputs, the loss, and the gradients of the weights and of x. */
static void run_loop(const form *f, sizes n, bk_dtype dtype, bool batch_first, bk_tensor **results)
{
    bk_scope_push();
    cell c = cell_of(f, n, dtype, batch_first);
    bk_scope_push(); /* what the loop made is let go of, as in a function */
    bk_tensor *out = scope_return(f->run(&c)), *loss = bk_sum(bk_square(out), 0, false);
    bk_backward(loss, NULL, false, false);
    report = report_last();
    for (int k = 0; k < f->weights; k++)
        results[k] = bk_retain(bk_clone(bk_grad_of(c.w[k])));
    results[f->weights] = bk_retain(bk_clone(bk_detach(out)));
    bk_sync();
    bk_scope_pop();
}

static bool close_to(bk_tensor *a, bk_tensor *b) { return within(a, b, 1e-13, 2e-5); }

static bool same_bits(bk_tensor *a, bk_tensor *b)
{
    return bk_numel(a) == bk_numel(b) &&
           !memcmp(bk_data(a), bk_data(b), (size_t)bk_numel(a) * bk_dtype_size(bk_dtype_of(a)));
}

static void release(bk_tensor **results, int count)
{
    for (int k = 0; k < count; k++)
        bk_release(results[k]);
}

static bool lazy_is_eager(const form *f, sizes n, bk_dtype dtype, bool batch_first)
{
    bk_tensor *lazy[RESULTS], *eager[RESULTS];
    bool was = log_is_eager, good = true;
    run_loop(f, n, dtype, batch_first, lazy);
    plan_report kept = report;
    log_is_eager = true;
    run_loop(f, n, dtype, batch_first, eager);
    log_is_eager = was;
    report = kept;
    for (int k = 0; k <= f->weights; k++)
        good = close_to(lazy[k], eager[k]) && good;
    release(lazy, f->weights + 1);
    release(eager, f->weights + 1);
    return good;
}

static const sizes shapes[] = { { 1, 3, 5, 4 },     { 2, 1, 8, 8 },     { 3, 2, 1, 7 },
                                { 7, 5, 12, 33 },   { 40, 16, 32, 32 }, { 100, 1, 24, 40 },
                                { 12, 64, 48, 64 }, { 300, 4, 8, 16 },  { 150, 16, 40, 48 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void compares(void)
{
    for (int f = 0; f < FORMS; f++) {
        bool good = true;
        for (int s = 0; s < SHAPES; s++)
            for (int v = 0; v < 4; v++)
                good = lazy_is_eager(&forms[f], shapes[s], v % 2 ? BK_FLOAT64 : BK_FLOAT32, v / 2) && good;
        tap_ok(good, "%s: as eagerly, within rounding, for all shapes", forms[f].name);
    }
}

static void threads(void)
{
    int before = bk_get_num_threads();
    for (int f = 0; f < FORMS; f++) {
        bool same = true;
        for (int s = 0; s < SHAPES; s++) {
            bk_tensor *one[RESULTS], *more[RESULTS];
            bk_set_num_threads(1);
            run_loop(&forms[f], shapes[s], BK_FLOAT32, false, one);
            for (int n = 2; n <= 6; n += n == 3 ? 3 : 1) { /* 6: more than sums have groups of rows */
                bk_set_num_threads(n);
                run_loop(&forms[f], shapes[s], BK_FLOAT32, false, more);
                for (int k = 0; k <= forms[f].weights; k++)
                    same = same_bits(one[k], more[k]) && same;
                release(more, forms[f].weights + 1);
            }
            release(one, forms[f].weights + 1);
        }
        tap_ok(same, "%s: does not depend on the number of threads", forms[f].name);
    }
    bk_set_num_threads(before);
}

/* --- what is done ---------------------------------------------------------------------------------------------------
 */

static bool fires(int f, plan_fact fact, int least)
{
    static const sizes usual = { 20, 16, 24, 32 };
    bk_tensor *results[RESULTS];
    cache_clear(); /* a plan that is found tells nothing */
    run_loop(&forms[f], usual, BK_FLOAT32, false, results);
    release(results, forms[f].weights + 1);
    return log_is_eager || report.count[fact] >= least;
}

static void sums(void)
{
    static const int least[FORMS] = { 3, 8, 1, 2 };
    for (int f = 0; f < FORMS; f++)
        tap_ok(fires(f, FACT_SUMMED, least[f]), "%s: the gradients of its weights are added up many steps at a time",
               forms[f].name);
}

static void regions(void)
{
    for (int f = 0; f < FORMS - 1; f++) {
        tap_ok(fires(f, FACT_REGION, 2), "%s: each core takes its rows through many steps", forms[f].name);
        tap_ok(fires(f, FACT_ALIKE, 8), "%s: the groups of its steps share programs", forms[f].name);
    }
}

static void shares(void)
{
    static const int least[FORMS] = { 3, 8, 1, 0 };
    for (int f = 0; f < FORMS; f++)
        tap_ok(fires(f, FACT_SHARED_SUM, least[f]), "%s: each core adds up the rows that it has computed",
               forms[f].name);
}

static void copies(void)
{
    for (int f = 0; f < FORMS; f++) {
        fires(f, FACT_GROUP, 0);
        int made = report.count[FACT_COPIED] + report.count[FACT_OLD_HELD];
        /* in every step x[t] and h side by side, or the gradient of w[t], which a product reads too; four weights */
        int allowed = forms[f].run == four_layers ? 44 : forms[f].run == light ? 20 : 0;
        tap_ok(log_is_eager || made <= allowed, "%s: nothing is copied%s", forms[f].name,
               allowed ? " but what has no other place" : "");
    }
}

/* Values that live in the stack that is made of them, which others read and write before and after. */
static void stacks(void)
{
    bool good = true, was = log_is_eager;
    bk_tensor *results[2][4];
    for (int eager = 0; eager < 2; eager++) {
        bk_scope_push();
        log_is_eager = eager || was;
        bk_tensor *x = sample(2, (int64_t[]){ 6, 10 }, BK_FLOAT32, 1, 1), *parts[5], *kept = NULL;
        for (int k = 0; k < 5; k++) {
            parts[k] = bk_exp(k ? bk_mul_s(parts[k - 1], -0.5) : x);
            kept = k == 2 ? parts[k] : kept;
        }
        parts[4] = parts[1]; /* one value, two places */
        bk_tensor *all = bk_stack(parts, 5, 0), *total = bk_cumsum(all, 0);
        bk_tensor *later = bk_cumsum(bk_add(parts[0], parts[3]), 1);
        bk_zero_(bk_select(all, 0, 0));
        bk_copy_(parts[1], bk_add(parts[1], x));
        results[eager][0] = bk_retain(all);
        results[eager][1] = bk_retain(bk_add(total, bk_cumsum(all, 1)));
        results[eager][2] = bk_retain(bk_add(later, bk_mul(parts[0], parts[1])));
        results[eager][3] = bk_retain(bk_add(kept, parts[3]));
        bk_sync();
        bk_scope_pop();
    }
    log_is_eager = was;
    for (int k = 0; k < 4; k++)
        good = same_bits(results[0][k], results[1][k]) && good;
    release(results[0], 4);
    release(results[1], 4);
    tap_ok(good, "parts of a stack that are read, written and stacked twice stay what they are");
}

/* What lives in a stack is written to after it was stacked: the stack keeps what it was made of. */
static void writes_after(void)
{
    static const int64_t nine[2] = { 3, 3 };
    bk_tensor *index = bk_from_data((int64_t[]){ 2, 1 }, 1, (int64_t[]){ 2 }, BK_INT64);
    bool good = true, was = log_is_eager;
    bk_tensor *results[2][2];
    for (int eager = 0; eager < 2; eager++) {
        log_is_eager = eager || was;
        bk_scope_push();
        bk_tensor *x = sample(2, nine, BK_FLOAT32, 1, 1), *parts[2] = { x, bk_add_s(bk_mul_s(x, 0), 1) };
        bk_tensor *all = bk_stack(parts, 2, 0);
        bk_index_fill_(parts[1], 0, index, 0);
        results[eager][0] = bk_retain(all);
        results[eager][1] = bk_retain(parts[1]);
        bk_sync();
        bk_scope_pop();
    }
    log_is_eager = was;
    for (int k = 0; k < 2; k++)
        good = same_bits(results[0][k], results[1][k]) && good;
    release(results[0], 2);
    release(results[1], 2);
    bk_release(index);
    tap_ok(good, "a part of a stack that is written to afterwards leaves the stack alone");
}

/* The gradients of parts: apart, side by side, one over the other, and not everywhere. */
static void parts_of_zeros(void)
{
    static const int64_t cuts[][3][2] = { { { 0, 4 }, { 4, 8 }, { 8, 12 } },
                                          { { 8, 12 }, { 4, 8 }, { 0, 4 } },
                                          { { 0, 4 }, { 2, 6 }, { 8, 12 } },
                                          { { 0, 4 }, { 5, 9 }, { 5, 9 } },
                                          { { 0, 12 }, { 0, 4 }, { 4, 12 } } };
    bool good = true, was = log_is_eager;
    for (size_t c = 0; c < 2 * sizeof cuts / sizeof *cuts; c++) {
        bk_tensor *grad[2];
        int dim = (int)(c % 2);
        for (int eager = 0; eager < 2; eager++) {
            log_is_eager = eager || was;
            bk_scope_push();
            bk_tensor *x = sample(2, (int64_t[]){ 12, 12 }, BK_FLOAT32, 3, 1), *sum = bk_zeros(0, NULL, BK_FLOAT32);
            bk_set_requires_grad(x, true);
            bk_tensor *y = bk_exp(x);
            for (int k = 0; k < 3; k++) {
                bk_tensor *part = bk_tanh(bk_slice(y, dim, cuts[c / 2][k][0], cuts[c / 2][k][1], 1));
                sum = bk_add(sum, bk_sum(bk_mul(part, part), 0, false));
            }
            bk_backward(sum, NULL, false, false);
            grad[eager] = bk_retain(bk_grad_of(x));
            bk_scope_pop();
        }
        log_is_eager = was;
        good = close_to(grad[0], grad[1]) && good;
        release(grad, 2);
    }
    tap_ok(good, "gradients of parts that meet or leave gaps");
    tap_ok(fires(2, FACT_UNFILLED, 20), "zeros that the gradients of parts cover are not filled in");
}

/* A second order read of a partial sum: it is a value like any other. */
static void reads_within(void)
{
    bool good = true;
    for (int kept = 0; kept < 2; kept++) {
        bk_tensor *sum[2], *inner[2];
        bool was = log_is_eager;
        for (int eager = 0; eager < 2; eager++) {
            bk_scope_push();
            bk_tensor *a[6], *partial = NULL;
            log_is_eager = eager || was;
            for (int k = 0; k < 6; k++)
                a[k] = sample(2, (int64_t[]){ 9, 10 }, BK_FLOAT32, k, 1);
            bk_tensor *total = bk_matmul(bk_transpose(a[0], 0, 1), a[1]);
            for (int k = 1; k < 5; k++) {
                total = bk_add(total, bk_matmul(bk_transpose(a[k], 0, 1), a[k + 1]));
                if (k == 3)
                    partial = kept ? total : bk_mul_s(total, 2);
            }
            bk_zero_(a[1]); /* a term read it before */
            sum[eager] = bk_retain(total);
            inner[eager] = bk_retain(partial);
            bk_sync();
            bk_scope_pop();
        }
        log_is_eager = was;
        good = close_to(sum[0], sum[1]) && close_to(inner[0], inner[1]) && good;
        release(sum, 2);
        release(inner, 2);
    }
    tap_ok(good, "a sum of products whose partial sums are read, and whose factors are overwritten");
}

/* Rows of one buffer, each computed from the row before the last one. */
static void rows_of_a_buffer(void)
{
    enum { T = 50 };
    bk_scope_push();
    bk_tensor *buffer = bk_zeros(2, (int64_t[]){ T, 8 }, BK_FLOAT32), *w = bk_ones(1, (int64_t[]){ 8 }, BK_FLOAT32);
    bk_set_requires_grad(w, true);
    for (int64_t t = 0; t < T; t++) {
        bk_scope_push();
        bk_tensor *row = t < 2 ? w : bk_add(bk_mul_s(bk_select(buffer, 0, t - 2), 0.5), w);
        bk_copy_(bk_select(buffer, 0, t), row);
        bk_scope_pop();
    }
    bk_backward(bk_sum(buffer, 0, false), NULL, false, false);
    tap_ok(log_is_eager || report_last().count[FACT_OLD_HELD] == 0,
           "rows that read rows before the last write copy no buffer");
    bk_scope_pop();
}

int main(void)
{
    compares();
    threads();
    sums();
    regions();
    shares();
    copies();
    stacks();
    writes_after();
    parts_of_zeros();
    reads_within();
    rows_of_a_buffer();
    return tap_done();
}
