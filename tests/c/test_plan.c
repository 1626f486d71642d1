/* test_plan.c: each rewrite of the planner fires where it should, and changes no bit of a result.
 *
 * A program is run lazily and then eagerly, op by op, on the same operands; the report of the lazy plan says what was
 * done. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "brisk.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "graph/desk.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "graph/run_sum.h"
#include "tap.h"

static bk_tensor *sample(int ndim, const int64_t *sizes, bk_dtype dtype, int seed)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= sizes[d];
    float *data = malloc((size_t)n * sizeof *data + 1);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)sin((double)(i * 7 + seed * 131)) * 1.5f;
    bk_tensor *t = bk_to(bk_from_data(data, ndim, sizes, BK_FLOAT32), dtype);
    free(data);
    bk_sync();
    return t;
}

static bool same_bits(const bk_tensor *a, const bk_tensor *b)
{
    if (!a || !b || bk_numel(a) != bk_numel(b))
        return false;
    bk_tensor *x = bk_contiguous(a), *y = bk_contiguous(b);
    return !memcmp(bk_data(x), bk_data(y), (size_t)bk_numel(a) * bk_dtype_size(bk_dtype_of(a)));
}

typedef struct operands {
    bk_tensor *x, *y, *row, *w, *wide;
} operands;

typedef bk_tensor *(*program)(const operands *o);

/* Nothing but the result is held. */
static bk_tensor *result_of(program run, const operands *o)
{
    bk_scope_push();
    bk_tensor *result = scope_return(run(o));
    bk_eval(result);
    return result;
}

static plan_report report;

static bool lazy_is_eager(program run, const operands *o)
{
    if (log_is_eager)
        return true;
    bk_scope_push();
    bk_tensor *lazy = result_of(run, o);
    report = report_last();
    log_is_eager = true;
    bk_tensor *eager = result_of(run, o);
    log_is_eager = false;
    bool same = same_bits(lazy, eager);
    bk_scope_pop();
    return same;
}

static int fired(plan_fact fact) { return log_is_eager ? 1 : report.count[fact]; }

/* --- blocks of rows --------------------------------------------------------------------------------------------- */

static int wanted; /* the gradient for x, or for the row: bk_grad has evaluated both */

static bk_tensor *gradients_of(bk_tensor *y, const operands *o)
{
    bk_tensor *loss = bk_mean(bk_square(y), 0, false), *in[] = { o->x, o->row }, *g[2];
    if (bk_grad(&loss, NULL, 1, in, 2, false, false, g) < 0)
        return NULL;
    return g[wanted];
}
static bk_tensor *a_norm(const operands *o)
{
    bk_tensor *y = bk_layer_norm(o->x, 1, &o->row->layout->sizes[0], o->row, o->row, 1e-5);
    return gradients_of(bk_gelu(y), o);
}
static bk_tensor *a_norm_by_hand(const operands *o)
{
    bk_tensor *centred = bk_sub(o->x, bk_mean(o->x, 2, true));
    bk_tensor *y = bk_mul(centred, bk_rsqrt(bk_add_s(bk_mean(bk_square(centred), 2, true), 1e-5)));
    return gradients_of(bk_mul(y, o->row), o);
}
static bk_tensor *a_softmax(const operands *o) { return gradients_of(bk_softmax(bk_mul(o->x, o->row), 1), o); }
static bk_tensor *sums_both_ways(const operands *o)
{
    bk_tensor *y = bk_exp(o->x);
    return bk_add(bk_sum(y, 2, true), bk_add(bk_sum(y, 1, false), bk_sum(bk_mul(y, y), 0, false)));
}

static void blocks(void)
{
    static const struct {
        const char *name;
        program run;
    } programs[] = { { "a norm and its gradient", a_norm },
                     { "a norm of single ops", a_norm_by_hand },
                     { "a softmax", a_softmax },
                     { "sums over rows and columns", sums_both_ways } };
    static const int64_t sizes[][2] = { { 300, 256 }, { 1000, 70 }, { 70, 1100 }, { 40, 3000 }, { 9, 9000 } };
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        bool same = true;
        int times = 0;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int k = 0; k < 4; k++) {
                bk_scope_push();
                bk_dtype t = k & 1 ? BK_FLOAT64 : BK_FLOAT32;
                wanted = k >> 1;
                operands o = { .x = sample(2, sizes[s], t, 1), .row = sample(1, &sizes[s][1], t, 3) };
                bk_set_requires_grad(o.x, true), bk_set_requires_grad(o.row, true);
                same = lazy_is_eager(programs[p].run, &o) && same;
                times += fired(FACT_BLOCKS) > 0;
                bk_scope_pop();
            }
        tap_ok(same, "%s: the same bits as eagerly", programs[p].name);
        tap_ok(log_is_eager || times >= 8, "%s: runs block by block", programs[p].name);
    }
}

/* --- reductions ------------------------------------------------------------------------------------------------- */

static bk_tensor *dot(const operands *o) { return bk_sum(bk_mul(o->x, o->y), 0, false); }
static bk_tensor *mean_square(const operands *o) { return bk_mean(bk_square(bk_sub(o->x, o->y)), 0, false); }
static bk_tensor *row_sums(const operands *o) { return bk_sum(bk_exp(o->x), 2, false); }
static bk_tensor *row_means(const operands *o) { return bk_mean(bk_sub(bk_exp(o->x), o->row), 2, true); }
static bk_tensor *column_sums(const operands *o) { return bk_sum(bk_mul(bk_add(o->x, o->row), o->y), 1, false); }
static bk_tensor *greatest(const operands *o) { return bk_amax(bk_mul(o->x, o->y), 2, false); }
static bk_tensor *any_positive(const operands *o) { return bk_any(bk_gt(bk_mul(o->x, o->y), o->row), 1, false); }
static bk_tensor *both(const operands *o)
{
    bk_tensor *z = bk_mul(o->x, o->y), *sum = bk_sum(z, 2, false), *mean = bk_mean(z, 2, false);
    return bk_add(bk_mul(sum, mean), bk_prod(bk_cos(z), 2, false));
}
static bk_tensor *and_kept(const operands *o)
{
    bk_tensor *z = bk_mul(o->x, o->y), *s = bk_sum(z, 2, true);
    return bk_div(z, s);
}
static bk_tensor *of_transposed(const operands *o)
{
    return bk_sum(bk_exp(bk_add(bk_transpose(o->x, 0, 1), bk_transpose(o->y, 0, 1))), 2, false);
}

static const struct {
    const char *name;
    program run;
} reductions[] = {
    { "a sum of products", dot },
    { "a mean of squares", mean_square },
    { "sums of rows", row_sums },
    { "means of rows less a row", row_means },
    { "sums of columns", column_sums },
    { "the greatest of each row", greatest },
    { "whether any is true, by column", any_positive },
    { "several reductions in one pass", both },
    { "a reduction whose values are kept", and_kept },
    { "a reduction of transposed operands", of_transposed },
};

static void reduces(void)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 3, 5 }, { 33, 100 }, { 7, 3000 }, { 70, 1100 }, { 2000, 130 } };
    static const bk_dtype types[] = { BK_FLOAT32, BK_FLOAT64, BK_BFLOAT16, BK_FLOAT16 };
    for (size_t p = 0; p < sizeof reductions / sizeof *reductions; p++) {
        bool same = true;
        int least_fired = 1, most_fired = 0;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
                bk_scope_push();
                operands o = { .x = sample(2, sizes[s], types[t], 1), .y = sample(2, sizes[s], types[t], 2) };
                o.row = sample(1, &sizes[s][1], types[t], 3);
                same = lazy_is_eager(reductions[p].run, &o) && same;
                int f = fired(FACT_REDUCED);
                least_fired = f < least_fired ? f : least_fired;
                most_fired = f > most_fired ? f : most_fired;
                bk_scope_pop();
            }
        tap_ok(same, "%s: the same bits as eagerly", reductions[p].name);
        tap_ok(most_fired > 0, "%s: reduced as the values are made", reductions[p].name);
    }
}

static void threads(void)
{
    bk_scope_push();
    operands o = { .x = sample(2, (int64_t[]){ 300, 1000 }, BK_FLOAT32, 1),
                   .y = sample(2, (int64_t[]){ 300, 1000 }, BK_FLOAT32, 2),
                   .row = sample(1, (int64_t[]){ 1000 }, BK_FLOAT32, 3) };
    bool same = true;
    int before = bk_get_num_threads();
    for (size_t p = 0; p < sizeof reductions / sizeof *reductions; p++) {
        bk_tensor *results[3];
        for (int t = 0; t < 3; t++) {
            bk_set_num_threads(t + 1);
            results[t] = result_of(reductions[p].run, &o);
        }
        same = same_bits(results[0], results[1]) && same_bits(results[0], results[2]) && same;
    }
    bk_set_num_threads(before);
    tap_ok(same, "fused reductions do not depend on the number of threads");
    bk_scope_pop();
}

/* --- epilogues -------------------------------------------------------------------------------------------------- */

static bk_tensor *layer(const operands *o) { return bk_tanh(bk_add(bk_matmul(o->x, o->w), o->wide)); }
static bk_tensor *scaled(const operands *o) { return bk_mul_s(bk_matmul(o->x, o->w), 0.5); }
static bk_tensor *recurrence(const operands *o)
{
    bk_tensor *h = bk_mul_s(o->x, 0.3);
    for (int t = 0; t < 4; t++) /* h ends with the step that reads it, but every row of the product needs it */
        h = bk_tanh(bk_add(bk_add(bk_matmul(o->x, o->w), o->wide), bk_mul(bk_matmul(h, o->w), h)));
    return h;
}
static bk_tensor *with_columns(const operands *o)
{
    bk_tensor *z = bk_sigmoid(bk_matmul(o->x, o->w));
    return bk_mul(bk_sub(z, bk_amax(z, 2, true)), bk_transpose(bk_contiguous(bk_transpose(z, 0, 1)), 0, 1));
}
static bk_tensor *stacked(const operands *o)
{
    bk_tensor *parts[] = { bk_relu(bk_add(bk_matmul(o->x, o->w), o->wide)), bk_exp(bk_matmul(o->y, o->w)) };
    return bk_stack(parts, 2, 0);
}

static bk_tensor *biased(const operands *o) { return bk_add(bk_matmul(o->x, o->w), o->wide); }
static bk_tensor *plus_matrix(const operands *o)
{
    bk_tensor *sum = bk_add(o->y, bk_matmul(o->x, o->w)); /* several read it */
    return bk_mul(bk_tanh(sum), bk_sub(sum, o->wide));
}
static bk_tensor *over_operands(const operands *o)
{
    bk_tensor *a = bk_exp(o->x), *b = bk_cumsum(a, 0), *c = bk_cumsum(b, 0), *d = bk_cumsum(c, 0);
    bk_tensor *z = bk_matmul(a, o->w); /* each of b, c and d ends here, and the sums want their memory */
    bk_tensor *e = bk_mul(c, d), *s = bk_add(z, b), *t = bk_add(s, c);
    return bk_cat((bk_tensor *[]){ bk_cumsum(bk_mul(e, s), 0), bk_cumsum(bk_sub(t, s), 0), bk_cumsum(t, 1) }, 3, 1);
}
static bk_tensor *columns_of(const operands *o)
{
    bk_tensor *parts[] = { bk_add(bk_matmul(o->x, o->w), o->y), bk_add(bk_matmul(o->y, o->w), o->wide) };
    return bk_cat(parts, 2, 1);
}

static const struct {
    const char *name;
    program run;
    bool adds; /* its kernel adds what the program adds to the product */
} products[] = {
    { "a layer", layer, true },
    { "a scaled product", scaled, false },
    { "a recurrence", recurrence, true },
    { "a product less its rows' greatest", with_columns, false },
    { "layers in a stack", stacked, true },
    { "a product and biases", biased, true },
    { "a product and a matrix", plus_matrix, true },
    { "sums over operands that end", over_operands, true },
    { "sums side by side", columns_of, true },
};

static void finishes(void)
{
    static const int64_t sizes[][2] = { { 1, 1 },     { 1, 70 },   { 5, 33 },  { 40, 64 },
                                        { 300, 130 }, { 700, 48 }, { 3, 520 }, { 30, 300 } };
    for (size_t p = 0; p < sizeof products / sizeof *products; p++) {
        bool same = true;
        int most_fired = 0, most_added = 0;
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int t = 0; t < 2; t++) {
                bk_dtype type = t ? BK_FLOAT64 : BK_FLOAT32;
                int64_t n = sizes[s][1];
                bk_scope_push();
                operands o = { .x = sample(2, sizes[s], type, 1), .y = sample(2, sizes[s], type, 2) };
                o.w = bk_mul_s(sample(2, (int64_t[]){ n, n }, type, 3), 0.1);
                o.wide = sample(1, &n, type, 4);
                bk_sync();
                same = lazy_is_eager(products[p].run, &o) && same;
                most_fired = fired(FACT_EPILOGUE) > most_fired ? fired(FACT_EPILOGUE) : most_fired;
                most_added = fired(FACT_ADDEND) > most_added ? fired(FACT_ADDEND) : most_added;
                bk_scope_pop();
            }
        tap_ok(same, "%s: the same bits as eagerly", products[p].name);
        tap_ok(most_fired > 0, "%s: finished while the rows are at hand", products[p].name);
        tap_ok(log_is_eager || (most_added > 0) == products[p].adds, "%s: what is added to a product is %s",
               products[p].name, products[p].adds ? "added by its kernel" : "not there");
    }
}

/* --- memory that changes hands ---------------------------------------------------------------------------------- */

static void writes_in_place(void)
{
    bk_scope_push();
    int64_t n = 5000;
    bk_tensor *x = sample(1, &n, BK_FLOAT32, 1), *y = sample(1, &n, BK_FLOAT32, 2), *old = bk_clone(x);
    bk_sync();
    const char *before = x->cell->value->data;
    bk_copy_(x, bk_sub(x, bk_mul_s(y, 0.25)));
    bk_eval(x);
    tap_ok(log_is_eager || x->cell->value->data == before, "x -= a * y is computed in the memory of x");
    tap_ok(same_bits(x, bk_sub(old, bk_mul_s(y, 0.25))), "x -= a * y is what it was out of place");

    bk_tensor *alias = bk_mul_s(x, 1), *view = bk_detach(x);
    bk_eval(alias);
    bk_tensor *z = bk_add(x, y);
    bk_eval(z);
    tap_ok(z->cell->value->data != x->cell->value->data && same_bits(alias, view), "what somebody holds is left alone");

    bk_tensor *w = bk_clone(x);
    bk_eval(w);
    bk_tensor *back = bk_flip(w, 1, (int[]){ 0 }), *reversed = bk_slice(w, 0, 0, n, 1);
    bk_copy_(w, bk_add(bk_mul(w, reversed), back));
    tap_ok(same_bits(w, bk_add(bk_mul(x, x), bk_flip(x, 1, (int[]){ 0 }))),
           "a result over an operand that is read in other ways too");
    bk_scope_pop();
}

static bk_tensor *two_results(const operands *o)
{
    bk_tensor *a = bk_mul(o->x, o->y), *s = bk_sum(a, 1, true); /* a lives in memory; b and c want it when it ends */
    bk_tensor *b = bk_sub(a, s), *c = bk_add(a, s);
    return bk_cat((bk_tensor *[]){ bk_cumsum(b, 0), bk_cumsum(c, 0), bk_cumsum(bk_mul(b, c), 0) }, 3, 0);
}

static void takes_over(void)
{
    bk_scope_push();
    operands o = { .x = sample(2, (int64_t[]){ 50, 60 }, BK_FLOAT32, 1),
                   .y = sample(2, (int64_t[]){ 50, 60 }, BK_FLOAT32, 2) };
    tap_ok(lazy_is_eager(two_results, &o), "two results of a group and one operand that ends in it");
    bk_scope_pop();
}

static bk_tensor *placed_and_seen(const operands *o)
{
    bk_tensor *a = bk_exp(o->x), *wide = bk_cat((bk_tensor *[]){ a, o->y }, 2, 1); /* a is computed within wide */
    bk_tensor *seen = bk_cumsum(bk_slice(bk_transpose(a, 0, 1), 0, 1, 40, 1), 0), *before = bk_clone(a);
    bk_fill_(bk_slice(a, 0, 3, 9, 1), 7);
    return bk_cat((bk_tensor *[]){ wide, bk_transpose(seen, 0, 1), a, before }, 4, 1);
}

static void sees_what_was_placed(void)
{
    bk_scope_push();
    operands o = { .x = sample(2, (int64_t[]){ 50, 60 }, BK_FLOAT32, 1),
                   .y = sample(2, (int64_t[]){ 50, 60 }, BK_FLOAT32, 2) };
    tap_ok(lazy_is_eager(placed_and_seen, &o), "a value within another is viewed and written as if it lay by itself");
    bk_scope_pop();
}

/* --- what is equal, and what is packed ---------------------------------------------------------------------------- */

static bk_tensor *twice(const operands *o)
{
    bk_tensor *a = bk_exp(bk_mul(o->x, o->y)), *b = bk_exp(bk_mul(o->x, o->y));
    return bk_cumsum(bk_add(bk_cumsum(a, 0), bk_mul_s(b, 2)), 1);
}

/* Two long chains: one record that is not found again would leave the rest of the second one to be computed. */
enum { LINKS = 3000 };

static bk_tensor *chain_twice(const operands *o)
{
    bk_tensor *a = bk_slice(o->x, 0, 0, 2, 1), *b = a;
    for (int k = 0; k < LINKS; k++)
        a = bk_sin(a);
    for (int k = 0; k < LINKS; k++)
        b = bk_sin(b);
    return bk_add(bk_cumsum(a, 0), bk_mul_s(b, 2));
}

static bk_tensor *steps(const operands *o)
{
    bk_tensor *h = o->x, *w = bk_transpose(o->w, 0, 1);
    for (int t = 0; t < 3; t++)
        h = bk_tanh(bk_matmul(h, w));
    return bk_add(h, bk_matmul(o->y, bk_transpose(o->w, 0, 1)));
}

static void shares(void)
{
    bk_scope_push();
    operands o = { .x = sample(2, (int64_t[]){ 40, 60 }, BK_FLOAT32, 1),
                   .y = sample(2, (int64_t[]){ 40, 60 }, BK_FLOAT32, 2) };
    o.w = bk_mul_s(sample(2, (int64_t[]){ 60, 60 }, BK_FLOAT32, 3), 0.1);
    bk_sync();
    tap_ok(lazy_is_eager(twice, &o) && fired(FACT_SHARED) > 0, "what is computed twice is computed once");
    tap_ok(lazy_is_eager(chain_twice, &o) && (log_is_eager || fired(FACT_SHARED) == LINKS),
           "and so is a long chain, to its last record");
    tap_ok(lazy_is_eager(steps, &o) && fired(FACT_PACKED) > 0, "a weight of several products is packed once");
    bk_tensor *a = bk_mul(o.x, o.y), *b = bk_mul(o.x, o.y), *c = bk_mul(o.x, o.y);
    bk_sync();
    bk_zero_(a);
    bk_sync();
    tap_ok(same_bits(b, c) && !same_bits(a, b), "equal values that two tensors hold stay two values");
    bk_scope_pop();
}

/* Both biases of a loop's steps, whose gradients are one sum. */
static void sums_that_are_kept_twice(void)
{
    enum { T = 12, ROWS = 8, WIDTH = 6 };
    bk_scope_push();
    bk_tensor *x = sample(3, (int64_t[]){ T, ROWS, WIDTH }, BK_FLOAT32, 1), *bias[2];
    for (int k = 0; k < 2; k++) {
        bias[k] = sample(1, (int64_t[]){ WIDTH }, BK_FLOAT32, 2 + k);
        bk_set_requires_grad(bias[k], true);
    }
    bk_tensor *loss = NULL;
    for (int t = 0; t < T; t++) {
        bk_tensor *h = bk_tanh(bk_add(bk_add(bk_select(x, 0, t), bias[0]), bias[1]));
        loss = loss ? bk_add(loss, bk_sum(h, 0, false)) : bk_sum(h, 0, false);
    }
    bk_backward(loss, NULL, false, false);
    bk_sync();
    const plan_report r = report_last();
    tap_ok(log_is_eager || (r.count[FACT_SUMMED] == 1 && r.count[FACT_SHARED] > 2 * (T - 1)),
           "gradients of two biases are one sum, to its last term");
    bk_tensor *first = bk_grad_of(bias[0]), *second = bk_grad_of(bias[1]);
    const bool same = same_bits(first, second);
    bk_zero_(first);
    bk_sync();
    tap_ok(same && !same_bits(first, second), "and stay two values");
    bk_scope_pop();
}

static void gradients_of_a_stack(void)
{
    enum { T = 40 };
    bk_scope_push();
    bk_tensor *w = sample(2, (int64_t[]){ 4, 5 }, BK_FLOAT32, 1), *parts[T];
    bk_set_requires_grad(w, true);
    for (int t = 0; t < T; t++)
        parts[t] = bk_tanh(bk_mul_s(w, 0.1 * t));
    bk_backward(bk_sum(bk_square(bk_stack(parts, T, 0)), 0, false), NULL, false, false);
    tap_ok(log_is_eager || report_last().count[FACT_OLD_HELD] == 0, "the gradients of a stack's parts copy nothing");
    bk_scope_pop();
}

static void parts_of_a_stack(void)
{
    enum { T = 12 };
    bk_scope_push();
    bk_tensor *w = sample(2, (int64_t[]){ 3, 4 }, BK_FLOAT32, 1), *parts[T];
    bk_set_requires_grad(w, true);
    for (int t = 0; t < T; t++)
        parts[t] = bk_mul_s(w, t);
    int before = the_log.count;
    bk_tensor *outer = bk_stack(parts, T, 0);
    tap_ok(log_is_eager || the_log.count == before + 1 + T, "a stack is memory and one record for each part");
    bk_tensor *inner = bk_stack(parts, T, 1), *last = bk_stack(parts, T, -1);
    tap_ok(same_bits(bk_permute(inner, 3, (int[]){ 1, 0, 2 }), outer) &&
               same_bits(bk_permute(last, 3, (int[]){ 2, 0, 1 }), outer),
           "stacks along other dimensions have the same parts");
    bk_scope_pop();
}

static plan_report of_heads; /* of the backward pass */

/* The gradient of a projection that is read as heads: parts of its columns, each in other sizes and turned. */
static bk_tensor *gradient_of_heads(const operands *o)
{
    enum { ROWS = 6, TIME = 5, HEADS = 2, WIDTH = 4, COLUMNS = HEADS * WIDTH };
    bk_tensor *x = bk_clone(o->x), *sum = NULL;
    bk_set_requires_grad(x, true);
    bk_tensor *all = bk_mul(x, o->y);
    for (int k = 0; k < 3; k++) {
        bk_tensor *part = bk_slice(all, 2, k * COLUMNS, (k + 1) * COLUMNS, 1);
        bk_tensor *heads = bk_transpose(bk_view(part, 4, (int64_t[]){ ROWS, TIME, HEADS, WIDTH }), 1, 2);
        bk_tensor *own = bk_sum(bk_tanh(bk_mul_s(heads, k + 1)), 0, false);
        sum = sum ? bk_add(sum, own) : own;
    }
    bk_backward(sum, NULL, false, false);
    if (!log_is_eager)
        of_heads = report_last();
    return bk_clone(bk_grad_of(x));
}

static void gradients_of_heads(void)
{
    const int64_t sizes[] = { 6, 5, 24 };
    bk_scope_push();
    operands o = { .x = sample(3, sizes, BK_FLOAT32, 1), .y = sample(3, sizes, BK_FLOAT32, 2) };
    tap_ok(lazy_is_eager(gradient_of_heads, &o),
           "the gradient of parts in other sizes and orders is that of eager mode");
    tap_ok(log_is_eager || (of_heads.count[FACT_COPIED] == 0 && of_heads.count[FACT_UNFILLED] == 1),
           "the gradients of parts are computed where they belong, in memory that nobody filled");
    bk_scope_pop();
}

/* --- numbers in every element --------------------------------------------------------------------------------------
 */

static bk_tensor *repeated_numbers(const operands *o)
{
    bk_tensor *t = bk_tanh(o->x), *zeros = bk_zeros_like(t), *two = bk_full_like(t, 2, bk_dtype_of(t));
    bk_tensor *s = bk_softmax(t, -1), *low = bk_where(bk_lt_s(s, 0.01), zeros, s);
    bk_tensor *rows = bk_cumsum(two, 0), *far = bk_mul(bk_softmax(low, -1), two);
    bk_tensor *out = bk_clone(zeros);
    if (bk_copy_(bk_narrow(out, 0, 3, 4), bk_narrow(far, 0, 0, 4)) < 0)
        return NULL;
    return bk_add(bk_add(out, rows), bk_sum(bk_mul(two, low), 1, false));
}

static void numbers_in_every_element(void)
{
    bool same = true;
    bk_scope_push();
    for (int dtype = 0; dtype < 2; dtype++) {
        operands o = { .x = sample(2, (int64_t[]){ 50, 50 }, dtype ? BK_FLOAT64 : BK_FLOAT32, 1) };
        same = lazy_is_eager(repeated_numbers, &o) && same;
    }
    tap_ok(same, "a number in every element is the same for groups, kernels, parts and reductions that read it");
    bk_scope_pop();
}

/* --- copies in another order -------------------------------------------------------------------------------------- */

static bk_tensor *heads(const operands *o) { return bk_matmul(o->x, o->y); }
static bk_tensor *by_token(bk_tensor *t) { return bk_contiguous(bk_transpose(t, 1, 2)); }

static bk_tensor *joined_heads(const operands *o)
{
    return bk_reshape(bk_transpose(heads(o), 1, 2), 3, (int64_t[]){ 3, 9, 5 * 16 });
}
static bk_tensor *scaled_heads(const operands *o) { return bk_tanh(by_token(bk_mul_s(heads(o), 0.3))); }
static bk_tensor *heads_side_by_side(const operands *o)
{
    bk_tensor *parts[] = { joined_heads(o), bk_mul_s(o->row, 2), joined_heads(&(operands){ .x = o->wide, .y = o->y }) };
    return bk_exp(bk_cat(parts, 3, 2));
}
static bk_tensor *heads_last(const operands *o)
{
    bk_tensor *t = bk_contiguous(bk_permute(heads(o), 4, (int[]){ 2, 1, 0, 3 }));
    return bk_copy_(t, bk_add(t, bk_tanh(t))) < 0 ? NULL : t;
}
static bk_tensor *heads_read_twice(const operands *o)
{
    bk_tensor *t = heads(o);
    return bk_add(bk_sum(bk_square(t), 0, false), by_token(t));
}
static bk_tensor *turned_heads(const operands *o) { return bk_contiguous(bk_transpose(heads(o), 2, 3)); }
static bk_tensor *copied_product(const operands *o)
{
    return bk_contiguous(bk_transpose(bk_matmul(bk_select(bk_select(o->x, 0, 0), 0, 0), o->w), 0, 1));
}

static void copies_in_another_order(void)
{
    static const struct {
        program run;
        int ordered;
    } programs[] = { { joined_heads, 1 },     { scaled_heads, 1 }, { heads_side_by_side, 2 }, { heads_last, 1 },
                     { heads_read_twice, 0 }, { turned_heads, 0 }, { copied_product, 0 } };
    bool same = true, found = true;
    bk_scope_push();
    for (int dtype = 0; dtype < 2; dtype++) {
        const bk_dtype type = dtype ? BK_FLOAT64 : BK_FLOAT32;
        operands o = { .x = sample(4, (int64_t[]){ 3, 5, 9, 7 }, type, 1),
                       .y = sample(4, (int64_t[]){ 3, 5, 7, 16 }, type, 2),
                       .wide = sample(4, (int64_t[]){ 3, 5, 9, 7 }, type, 3),
                       .row = sample(3, (int64_t[]){ 3, 9, 11 }, type, 4),
                       .w = sample(2, (int64_t[]){ 7, 16 }, type, 5) };
        for (size_t k = 0; k < sizeof programs / sizeof *programs; k++) {
            same = lazy_is_eager(programs[k].run, &o) && same;
            found = found && (log_is_eager || report.count[FACT_ORDERED] == programs[k].ordered);
        }
    }
    tap_ok(same, "what is made in the order of its copy is that of eager mode");
    tap_ok(found, "products of a batch that are only read through a copy of their rows are made in its order");
    bk_scope_pop();
}

/* The gradients of four layers that read the same rows at each step, which are written side by side for the gradient of
 * what they read. */
static bk_tensor *four_layers(const operands *o)
{
    enum { T = 120, WIDTH = 64 };
    bk_tensor *w[4], *b[4], *h = NULL, *c = NULL;
    for (int k = 0; k < 4; k++) {
        w[k] = bk_detach(bk_mul_s(o->w, 0.2 + 0.1 * k));
        b[k] = bk_detach(bk_mul_s(o->row, 0.1 * k));
        bk_set_requires_grad(w[k], true);
        bk_set_requires_grad(b[k], true);
    }
    bk_sync();
    for (int t = 0; t < T; t++) {
        bk_tensor *x = bk_select(o->x, 0, t), *both = bk_cat((bk_tensor *[]){ x, h ? h : bk_select(o->y, 0, 0) }, 2, 1);
        bk_tensor *gate[4];
        for (int k = 0; k < 4; k++)
            gate[k] = bk_linear(both, w[k], b[k]);
        bk_tensor *in = bk_mul(bk_sigmoid(gate[0]), bk_tanh(gate[1]));
        c = c ? bk_add(bk_mul(bk_sigmoid(gate[2]), c), in) : in;
        h = bk_mul(bk_sigmoid(gate[3]), bk_tanh(c));
    }
    bk_backward(bk_sum(bk_square(h), 0, false), NULL, false, false);
    bk_tensor *grads[4];
    for (int k = 0; k < 4; k++)
        grads[k] = bk_clone(bk_grad_of(w[k]));
    return bk_stack(grads, 4, 0);
}

static void sums_of_joined_gradients(void)
{
    enum { T = 120, ROWS = 16, WIDTH = 64 };
    bk_scope_push();
    operands o = { .x = sample(3, (int64_t[]){ T, ROWS, WIDTH }, BK_FLOAT32, 1),
                   .y = sample(3, (int64_t[]){ 1, ROWS, WIDTH }, BK_FLOAT32, 2),
                   .row = sample(1, (int64_t[]){ WIDTH }, BK_FLOAT32, 4),
                   .w = sample(2, (int64_t[]){ WIDTH, 2 * WIDTH }, BK_FLOAT32, 3) };
    int64_t before = run_sum_copied();
    bk_tensor *lazy = result_of(four_layers, &o);
    int64_t rows = run_sum_copied() - before;
    tap_ok(log_is_eager || rows <= 2 * T * ROWS, "most gradients side by side are summed where they lie");
    bk_set_num_threads(1);
    tap_ok(same_bits(lazy, result_of(four_layers, &o)), "their sums do not depend on the number of threads");
    bk_set_num_threads(2);
    bk_scope_pop();
}

/* Tiles of a matrix, 4 by 3 of them, by the numbers of their places in the order in which gradients come to them. */
typedef struct tiling {
    int count, places[13];
    bool covered;
} tiling;

static const tiling *tiles;
static plan_report of_tiles;

static bk_tensor *gradient_of_tiles(const operands *o)
{
    const layout *l = layout_get(2, (int64_t[]){ 5, 4 }, (int64_t[]){ 12, 1 });
    bk_tensor *x = bk_clone(o->x), *sum = NULL;
    bk_set_requires_grad(x, true);
    bk_tensor *y = bk_exp(x);
    for (int k = tiles->count - 1; k >= 0; k--) { /* the reverse pass comes to the last one first */
        const int row = tiles->places[k] / 3 * 5, column = tiles->places[k] % 3 * 4;
        bk_tensor *part = bk_tanh(tensor_alias(y, l, row * 12 + column, true)), *own = bk_sum(part, 0, false);
        sum = sum ? bk_add(sum, own) : own;
    }
    bk_backward(sum, NULL, false, false);
    if (!log_is_eager)
        of_tiles = report_last();
    return bk_clone(bk_grad_of(x));
}

static void gradients_of_tiles(void)
{
    static const tiling tilings[] = {
        { 12, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 }, true },
        { 12, { 2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9 }, true },
        { 12, { 6, 7, 8, 9, 10, 11, 3, 4, 5, 0, 1, 2 }, true },
        { 12, { 0, 2, 1, 3, 5, 4, 6, 7, 8, 9, 10, 11 }, false }, /* one between others may have been written */
        { 12, { 0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11 }, false },
        { 11, { 0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11 }, false },
        { 13, { 0, 1, 2, 3, 4, 5, 4, 6, 7, 8, 9, 10, 11 }, false },
    };
    bk_scope_push();
    operands o = { .x = sample(2, (int64_t[]){ 20, 12 }, BK_FLOAT32, 1) };
    bool same = true, found = true;
    for (size_t k = 0; k < sizeof tilings / sizeof *tilings; k++) {
        tiles = &tilings[k];
        same = lazy_is_eager(gradient_of_tiles, &o) && same;
        found = found && (of_tiles.count[FACT_UNFILLED] > 0) == tiles->covered;
    }
    tap_ok(same, "the gradient of tiles that cover a matrix, or leave gaps, or meet, is that of eager mode");
    tap_ok(log_is_eager || found, "zeros are not filled in that tiles cover, one row of tiles after the other");
    bk_scope_pop();
}

static void forgets(void)
{
    bk_scope_push();
    bk_tensor *x = bk_ones(1, (int64_t[]){ 3 }, BK_FLOAT32), *y = bk_add_s(x, 1);
    bk_sync();
    const int64_t plans = cache_count().plans;
    bk_tensor *pending = bk_mul(y, y);
    tap_ok(bk_forget_plans() == 0 && cache_count().plans == 0 && plans > 0,
           "plans are forgotten when they are told to");
    tap_ok(bk_item(bk_sum(pending, 0, false)) == 12 && cache_count().plans > 0,
           "what was recorded is not, and is planned");
    bk_scope_pop();
}

static void keeps_a_desk(void)
{
    enum { RECORDS = 1000 };
    atomic_bool stop = true;
    desk_clear();
    char *kept = desk_take_zero(100);
    const size_t mark = desk_mark();
    char *table = desk_take(5000);
    desk_release(mark);
    char *later = desk_take(5000);
    kept[99] = 7;
    memset(later, 1, 5000);
    tap_ok(table && later && kept[98] == 0 && kept[99] == 7,
           "what is released early leaves the rest of the desk alone");
    const bool wanted = desk_wants(RECORDS);
    desk_clear();
    desk_furnish(RECORDS, &stop);
    tap_ok(desk_wants(RECORDS) == wanted, "a worker that is told to stop touches no more pages");
    stop = false;
    if (wanted)
        desk_furnish(RECORDS, &stop);
    tap_ok(!desk_wants(RECORDS), "pages that a worker has touched are touched once");
}

int main(void)
{
    keeps_a_desk();
    forgets();
    blocks();
    reduces();
    threads();
    finishes();
    writes_in_place();
    takes_over();
    sees_what_was_placed();
    shares();
    sums_that_are_kept_twice();
    gradients_of_a_stack();
    parts_of_a_stack();
    gradients_of_heads();
    numbers_in_every_element();
    copies_in_another_order();
    gradients_of_tiles();
    sums_of_joined_gradients();
    return tap_done();
}
