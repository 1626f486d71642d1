/* test_layers.c: the layers of the C library: known values, and every allocation failing once. */
#include <math.h>
#include <stdlib.h>

#include "brisk.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/plan.h"
#include "graph/repeat.h"
#include "tap.h"

/* 0, 1, 2 ... scaled, in the given sizes. */
static bk_tensor *ramp(int ndim, const int64_t *sizes, double scale)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= sizes[d];
    return bk_reshape(bk_mul_s(bk_arange(0, (double)n, 1, BK_FLOAT32), scale), ndim, sizes);
}

static double total(const bk_tensor *t)
{
    bk_tensor *sum = bk_sum(t, 0, false);
    return sum && bk_eval(sum) == 0 ? bk_item(sum) : NAN;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-4 * (1 + fabs(b)); }

static void norms(void)
{
    bk_scope_push();
    bk_tensor *x = ramp(2, (int64_t[]){ 3, 4 }, 1);
    tap_ok(near(total(bk_layer_norm(x, 1, (int64_t[]){ 4 }, NULL, NULL, 1e-5)), 0), "a layer norm has mean 0");
    bk_tensor *y = bk_rms_norm(x, 1, (int64_t[]){ 4 }, NULL, 0);
    tap_ok(near(total(bk_mul(y, y)), 12), "the squares of an RMS norm have mean 1");
    tap_ok(!bk_layer_norm(x, 1, (int64_t[]){ 5 }, NULL, NULL, 1e-5) && bk_error_code() == BK_RUNTIME_ERROR,
           "another size is refused");
    bk_error_clear();
    bk_tensor *mean = bk_zeros(1, (int64_t[]){ 4 }, BK_FLOAT32), *var = bk_ones(1, (int64_t[]){ 4 }, BK_FLOAT32);
    bk_batch_norm(x, mean, var, NULL, NULL, true, 0.5, 1e-5);
    tap_ok(near(total(mean), (4 + 5 + 6 + 7) * 0.5) && near(total(var), 4 * (0.5 + 0.5 * 16)),
           "a batch norm moves its running statistics");
    bk_scope_pop();
}

static void convolutions(void)
{
    bk_scope_push();
    bk_tensor *x = ramp(4, (int64_t[]){ 1, 1, 4, 4 }, 1), *w = bk_ones(4, (int64_t[]){ 1, 1, 2, 2 }, BK_FLOAT32);
    int64_t one[] = { 1, 1 }, two[] = { 2, 2 }, none[] = { 0, 0 };
    tap_ok(near(total(bk_conv(x, w, NULL, two, none, one, 1)), 120), "windows without overlap sum the image");
    tap_ok(near(total(bk_conv(x, w, NULL, one, one, one, 1)), 480), "padded windows count each element four times");
    bk_tensor *up = bk_conv_transpose(x, w, NULL, two, none, none, 1, one);
    tap_ok(up && bk_sizes(up)[3] == 8 && near(total(up), 480), "a transposed one of stride 2 is twice as large");
    tap_ok(near(total(bk_pad(x, 2, (int64_t[]){ 1, -1, 0, 2 }, 1)), 120 - (3 + 7 + 11 + 15) + 4 + 8),
           "padding adds before, cuts after");
    bk_scope_pop();
}

/* One layer over three steps, and the same steps by hand. */
static void recurrence(void)
{
    bk_scope_push();
    static const int gates[] = { 1, 1, 4, 3 };
    for (int kind = BK_RNN_TANH; kind <= BK_GRU; kind++) {
        int64_t rows = gates[kind] * 3, counts[] = { 2, 2, 2 };
        bk_rnn_weights w = { ramp(2, (int64_t[]){ rows, 2 }, 0.05), ramp(2, (int64_t[]){ rows, 3 }, -0.02),
                             ramp(1, (int64_t[]){ rows }, 0.1), NULL, NULL };
        bk_tensor *x = ramp(2, (int64_t[]){ 6, 2 }, 0.1), *h = bk_zeros(2, (int64_t[]){ 2, 3 }, BK_FLOAT32), *c = h;
        bk_tensor *last_h = NULL, *last_c = NULL;
        bk_tensor *out = bk_rnn_layer(kind, x, counts, 3, h, c, &w, false, &last_h, &last_c);
        double sum = 0;
        for (int t = 0; t < 3; t++) {
            bk_tensor *next_c = NULL;
            h = bk_rnn_step(kind, bk_slice(x, 0, 2 * t, 2 * t + 2, 1), h, c, &w, &next_c);
            c = kind == BK_LSTM ? next_c : c;
            sum += total(h);
        }
        tap_ok(near(total(out), sum) && near(total(last_h), total(h)), "a layer of kind %d is its steps", kind);
        tap_ok(kind != BK_LSTM || near(total(last_c), total(c)), "and ends with their cells");
    }
    bk_scope_pop();
}

/* A weight that is read again and again stays packed, until somebody writes to it. */
static void packed_weight(void)
{
    bk_scope_push();
    bk_tensor *x = bk_ones(2, (int64_t[]){ 40, 64 }, BK_FLOAT32), *w = bk_ones(2, (int64_t[]){ 48, 64 }, BK_FLOAT32);
    bk_sync();
    const int64_t before = pool_bytes_in_use();
    bool same = true;
    for (int i = 0; i < 10; i++) {
        bk_scope_push();
        same = same && total(bk_linear(x, w, NULL)) == 40 * 48 * 64;
        bk_scope_pop();
    }
    tap_ok(same && pool_bytes_in_use() > before, "a weight that was packed a few times is kept so");
    bk_tensor *first = bk_select(bk_select(w, 0, 0), 0, 0);
    bk_fill_(first, 11);
    bk_sync();
    tap_ok(pool_bytes_in_use() == before, "and let go of when it is written");
    tap_ok(total(bk_linear(x, w, NULL)) == 40 * (48 * 64 + 10), "then products read what was written");
    bk_scope_pop();
}

/* The sum of a layer's outputs over many steps, and that of the gradient of its input. */
static double of_many_steps(bk_rnn_kind kind, const int64_t *counts, int steps, int64_t rows, bool reverse, bool grad)
{
    static const int gates[] = { 1, 1, 4, 3 };
    bk_scope_push();
    const int64_t all = gates[kind] * 3;
    bk_rnn_weights w = { ramp(2, (int64_t[]){ all, 2 }, 0.01), ramp(2, (int64_t[]){ all, 3 }, -0.02),
                         ramp(1, (int64_t[]){ all }, 0.03), ramp(1, (int64_t[]){ all }, 0.02), NULL };
    bk_tensor *x = ramp(2, (int64_t[]){ rows, 2 }, 0.01), *h = ramp(2, (int64_t[]){ counts[0], 3 }, 0.1);
    bk_tensor *last_h = NULL, *last_c = NULL;
    bk_set_requires_grad(x, grad);
    bk_tensor *out = bk_rnn_layer(kind, x, counts, steps, h, h, &w, reverse, &last_h, &last_c);
    double sum = total(bk_mul(out, out)) + 3 * total(last_h) + (kind == BK_LSTM ? 5 * total(last_c) : 0);
    if (grad && bk_backward(bk_sum(bk_mul(out, last_h ? out : NULL), 0, false), NULL, false, false) == 0)
        sum += 7 * total(bk_mul(bk_grad_of(x), x));
    bk_scope_pop();
    return sum;
}

/* Evaluated op by op, no step is recorded as a repetition of those before. */
static void repeated_steps(void)
{
    static const int64_t even[40] = { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                                      2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2 };
    static const int64_t ragged[20] = { 5, 5, 5, 5, 5, 5, 5, 4, 4, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1 };
    for (int kind = BK_RNN_TANH; kind <= BK_GRU; kind++)
        for (int way = 0; way < 4; way++) {
            const bool reverse = way & 1, grad = way & 2;
            double lazy[2], eager[2];
            const int64_t before = log_repeats();
            lazy[0] = of_many_steps(kind, even, 40, 80, reverse, grad);
            tap_ok(log_repeats() - before >= 36 || log_is_eager, "most steps of kind %d are recorded at once%s%s", kind,
                   reverse ? ", backwards" : "", grad ? ", with gradients" : "");
            lazy[1] = of_many_steps(kind, ragged, 20, 61, reverse, grad);
            const bool was = log_is_eager;
            log_is_eager = true;
            eager[0] = of_many_steps(kind, even, 40, 80, reverse, grad);
            eager[1] = of_many_steps(kind, ragged, 20, 61, reverse, grad);
            log_is_eager = was;
            tap_ok(fabs(lazy[0] / eager[0] - 1) < 1e-5 && fabs(lazy[1] / eager[1] - 1) < 1e-5,
                   "steps of kind %d recorded at once are those recorded one by one%s%s", kind,
                   reverse ? ", backwards" : "", grad ? ", with gradients" : "");
        }
}

/* tanh(a[i] + state), whose state is that of the step before, `steps` times, and then by repetition up to `all`. */
static double chain(int steps, int all, int *repeated)
{
    bk_scope_push();
    bk_tensor *state = bk_ones(1, (int64_t[]){ 8 }, BK_FLOAT32), *a = ramp(2, (int64_t[]){ all, 8 }, 0.01);
    bk_sync();
    a = bk_mul_s(a, 2);
    for (int i = 0; i < steps; i++)
        state = bk_tanh(bk_add(bk_select(a, 0, i), state));
    const node *last = state->cell->value;
    *repeated = log_repeat(3, all - steps);
    double sum = total(tensor_from_node(node_retain(log_repeated(last, 3, *repeated))));
    bk_scope_pop();
    return sum;
}

/* tanh(a[i] + the state of two steps before), the same way. */
static double chain_of_two(int steps, int all, int *repeated)
{
    bk_scope_push();
    bk_tensor *state = bk_ones(1, (int64_t[]){ 8 }, BK_FLOAT32), *before = bk_zeros(1, (int64_t[]){ 8 }, BK_FLOAT32);
    bk_tensor *a = ramp(2, (int64_t[]){ all, 8 }, 0.01);
    bk_sync();
    a = bk_mul_s(a, 2);
    for (int i = 0; i < steps; i++) {
        bk_tensor *next = bk_tanh(bk_add(bk_select(a, 0, i), before));
        before = state;
        state = next;
    }
    const node *last = state->cell->value;
    *repeated = log_repeat(3, all - steps);
    double sum = total(tensor_from_node(node_retain(log_repeated(last, 3, *repeated))));
    bk_scope_pop();
    return sum;
}

/* The nodes that 60 steps of an LSTM without gradients have before they are evaluated, and those left afterwards. */
static int64_t nodes_of_steps(int64_t *left)
{
    int64_t counts[60];
    const int64_t before = nodes_live();
    for (int t = 0; t < 60; t++)
        counts[t] = 2;
    bk_scope_push();
    bk_rnn_weights w = { ramp(2, (int64_t[]){ 12, 2 }, 0.01), ramp(2, (int64_t[]){ 12, 3 }, -0.02), NULL, NULL, NULL };
    bk_tensor *x = ramp(2, (int64_t[]){ 120, 2 }, 0.01), *h = ramp(2, (int64_t[]){ 2, 3 }, 0.1), *h_n, *c_n;
    bk_tensor *out = bk_rnn_layer(BK_LSTM, x, counts, 60, h, h, &w, false, &h_n, &c_n);
    const int64_t nodes = nodes_live() - before;
    if (!out || !(total(bk_add(bk_sum(out, 0, false), bk_sum(bk_mul(h_n, c_n), 0, false))) < 1e9))
        tap_ok(false, "the layer has an output");
    bk_scope_pop();
    *left = nodes_live() - before;
    return nodes;
}

static void nameless_steps(void)
{
    int64_t left = 0;
    if (log_is_eager)
        return;
    nodes_of_steps(&left); /* constants stay warm */
    const int64_t nodes = nodes_of_steps(&left);
    tap_ok(nodes < 10 * 16, "without gradients only the first steps and the last have nodes: %d", (int)nodes);
    tap_ok(left == 0, "what steps without nodes held is let go of with them");
}

static void repetition(void)
{
    int none, few, most;
    if (log_is_eager) /* nothing stays in the log that could be repeated */
        return;
    const double one_by_one = chain(20, 20, &none), at_once = chain(3, 20, &most);
    tap_ok(!none && most == 17 && one_by_one == at_once, "a step is repeated with what it reads and where");
    chain(2, 20, &few);
    tap_ok(!few, "a step whose state comes from elsewhere is not");
    const int64_t before = nodes_live();
    const double two_by_one = chain_of_two(20, 20, &none), two_at_once = chain_of_two(5, 20, &most);
    tap_ok(most == 15 && two_by_one == two_at_once && nodes_live() == before,
           "so is one that reads what stands two steps before");
}

static void rest(void)
{
    bk_scope_push();
    bk_tensor *q = ramp(2, (int64_t[]){ 3, 2 }, 0.1), *v = bk_ones(2, (int64_t[]){ 3, 2 }, BK_FLOAT32);
    tap_ok(near(total(bk_attention(q, q, v, NULL, 0, true, NAN)), 6), "attention mixes with weights that sum to 1");
    bk_tensor *o = bk_zeros(2, (int64_t[]){ 5, 3 }, BK_FLOAT32);
    bk_tensor *product = bk_orthogonal_(o, 2, NULL) == 0 ? bk_matmul(bk_transpose(o, 0, 1), o) : NULL;
    bk_tensor *error = bk_sub(product, bk_mul_s(bk_eye(3, 3, BK_FLOAT32), 4));
    tap_ok(total(bk_abs(error)) < 1e-4, "an orthogonal matrix is one, times its gain");
    bk_scope_pop();
}

/* PyTorch's numbers for seed 0: the sums of sizes of a weight (3, 4, 2). */
static void initial_values(void)
{
    static const double sums[] = { 14.067774474620819, 7.182672966271639, 9.304958058521152, 10.971714176237583 };
    for (int i = 0; i < 4; i++) {
        bk_scope_push();
        bk_manual_seed(0);
        bk_tensor *w = bk_empty(3, (int64_t[]){ 3, 4, 2 }, BK_FLOAT32);
        int status = i == 0   ? bk_xavier_uniform_(w, 2, NULL)
                     : i == 1 ? bk_xavier_normal_(w, 1, NULL)
                     : i == 2 ? bk_kaiming_uniform_(w, sqrt(2), false, NULL)
                              : bk_kaiming_normal_(w, sqrt(2), true, NULL);
        tap_ok(status == 0 && near(total(bk_abs(w)), sums[i]), "initial values are PyTorch's (%d)", i);
        bk_scope_pop();
    }
    bk_tensor *bias = bk_empty(1, (int64_t[]){ 3 }, BK_FLOAT32);
    tap_ok(bk_xavier_uniform_(bias, 1, NULL) < 0, "a bias has no inputs and outputs");
    bk_error_clear();
    bk_release(bias);
}

/* A little of every layer, with gradients. */
static double scenario(void)
{
    double result = NAN;
    bk_scope_push();
    int64_t one[] = { 1 }, counts[] = { 2, 1, 1, 1, 1, 1, 1 };
    bk_tensor *x = ramp(3, (int64_t[]){ 2, 3, 5 }, 0.1), *w = ramp(3, (int64_t[]){ 4, 3, 3 }, 0.02);
    if (x && w && bk_set_requires_grad(w, true) == 0) {
        bk_tensor *y = bk_conv(x, w, NULL, one, one, one, 1);
        y = bk_group_norm(y, 2, bk_ones(1, (int64_t[]){ 4 }, BK_FLOAT32), NULL, 1e-5);
        y = bk_attention(y, y, y, NULL, 0, true, NAN); /* (2, 4, 5) */
        bk_rnn_weights weights = { ramp(2, (int64_t[]){ 12, 5 }, 0.01), ramp(2, (int64_t[]){ 12, 3 }, 0.01), NULL, NULL,
                                   NULL };
        bk_tensor *h0 = bk_zeros(2, (int64_t[]){ 2, 3 }, BK_FLOAT32), *h = NULL, *c = NULL;
        bk_tensor *in = y ? bk_reshape(y, 2, (int64_t[]){ 8, 5 }) : NULL;
        bool ready = weights.input && weights.hidden && h0;
        bk_tensor *out = ready ? bk_rnn_layer(BK_LSTM, in, counts, 7, h0, h0, &weights, false, &h, &c) : NULL;
        bk_tensor *sum = out && h && c ? bk_add(bk_sum(out, 0, false), bk_sum(c, 0, false)) : NULL;
        if (sum && bk_backward(sum, NULL, false, false) == 0 && bk_grad_of(w))
            result = total(bk_mul(bk_grad_of(w), w));
    }
    bk_scope_pop();
    return result;
}

static void faults(void)
{
    double expected = scenario();
    tap_ok(expected == expected, "the scenario works when nothing fails");
    bk_sync();
    int64_t nodes = nodes_live(), used = pool_bytes_in_use();
    int wrong = 0, met = 0;
    for (int64_t n = 1; n < 100000; n++) {
        cache_clear();
        bk_error_clear();
        mem_fail_after(n);
        double result = scenario();
        bool reached = mem_fail_pending() == 0;
        mem_fail_after(0);
        if (!reached)
            break;
        met++;
        wrong += result == result ? !near(result, expected) : bk_error_code() != BK_MEMORY_ERROR;
        bk_error_clear();
        bk_sync();
    }
    tap_ok(met > 20 && !wrong, "%d allocations failed; each gave an error or the right result (%d did not)", met,
           wrong);
    tap_ok(near(scenario(), expected), "afterwards everything works");
    bk_sync();
    tap_ok(nodes_live() == nodes && pool_bytes_in_use() == used, "nothing is leaked");
}

int main(void)
{
    norms();
    convolutions();
    recurrence();
    repeated_steps();
    repetition();
    nameless_steps();
    packed_weight();
    rest();
    initial_values();
    faults();
    return tap_done();
}
