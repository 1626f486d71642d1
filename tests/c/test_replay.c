/* test_replay.c: backward passes of one form are learnt, replayed, and forgotten when layouts go; and every allocation
 * of a pass that is learnt or replayed fails once. */
#include <math.h>

#include "autograd/replay.h"
#include "brisk.h"
#include "core/memory.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "tap.h"

static bk_tensor *weight, *bias;

static bool make_parameters(void)
{
    float data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (float)((i * 7) % 11) / 16 - 0.3f;
    weight = bk_from_data(data, 2, (int64_t[]){ 8, 8 }, BK_FLOAT32);
    bias = bk_from_data(data, 1, (int64_t[]){ 8 }, BK_FLOAT32);
    return bk_set_requires_grad(weight, true) == 0 && bk_set_requires_grad(bias, true) == 0;
}

/* A loop over time from a start of this size; what its gradients sum to, or NaN. */
static double pass_of(int steps, double size)
{
    double result = NAN;
    bk_set_grad(weight, NULL);
    bk_set_grad(bias, NULL);
    bk_scope_push();
    bk_tensor *h = bk_mul_s(bk_ones(2, (int64_t[]){ 2, 8 }, BK_FLOAT32), size);
    h = h && bk_eval(h) == 0 ? h : NULL;
    bk_tensor *all[16];
    int t = 0;
    for (; h && t < steps; t++)
        all[t] = h = bk_tanh(bk_add(bk_matmul(h, bk_transpose(weight, 0, 1)), bias));
    bk_tensor *out = h ? bk_stack(all, steps, 0) : NULL;
    if (out && bk_backward(bk_sum(bk_mul(out, out), 0, false), NULL, false, false) == 0 && bk_grad_of(weight) &&
        bk_grad_of(bias)) {
        bk_tensor *g = bk_add(bk_sum(bk_grad_of(weight), 0, false), bk_sum(bk_grad_of(bias), 0, false));
        result = g && bk_eval(g) == 0 ? bk_item(g) : NAN;
    }
    bk_scope_pop();
    return result;
}

static void test_same_values(void)
{
    int wrong = 0;
    int64_t before = replay_count().replayed;
    double replayed[8], plain[8];
    for (int k = -2; k < 8; k++) /* two to learn from */
        replayed[k < 0 ? 0 : k] = pass_of(5, 0.1 * k);
    for (int k = 0; k < 8; k++) {
        replay_clear();
        plain[k] = pass_of(5, 0.1 * k);
        wrong += fabs(plain[k] - replayed[k]) > 1e-6 * fabs(plain[k]);
    }
    tap_ok(wrong == 0, "a replayed pass gives the gradients of one whose rules run");
    bool compared = log_eager() || flush_checks();
    tap_ok(compared || replay_count().replayed > before, "passes are replayed");
    replay_clear();
    tap_ok(replay_count().passes == 0 && replay_count().bytes == 0, "what is remembered can be forgotten");
}

/* As long as recurrences get: the pass must not be cut by the log's budget. */
static void test_long_loops(void)
{
    enum { STEPS = 10000 };
    int64_t before = replay_count().replayed;
    for (int round = 0; round < 3; round++) {
        bk_scope_push();
        bk_tensor *h = bk_full(2, (int64_t[]){ 1, 8 }, 0.5, BK_FLOAT32), *all = h;
        bk_scope_push();
        for (int t = 0; h && t < STEPS; t++) {
            h = bk_tanh(bk_add(bk_add(bk_matmul(h, bk_transpose(weight, 0, 1)), bias), bk_mul(h, bias)));
            all = t % 1000 ? all : bk_add(all, h);
        }
        bk_tensor *loss = bk_retain(bk_sum(bk_mul(all, all), 0, false));
        bk_scope_pop();
        bk_backward(loss, NULL, false, false);
        bk_release(loss);
        bk_scope_pop();
    }
    bool compared = log_eager() || flush_checks();
    tap_ok(compared || replay_count().replayed > before, "the pass over a loop of 10,000 steps is replayed");
    replay_clear();
}

static void test_memory_is_bounded(void)
{
    for (int round = 0; round < 3; round++)
        for (int64_t n = 2; n < 700; n++) {
            bk_tensor *x = bk_ones(1, &n, BK_FLOAT32);
            bk_set_requires_grad(x, true);
            bk_scope_push();
            bk_backward(bk_sum(bk_mul(x, x), 0, false), NULL, false, false);
            bk_scope_pop();
            bk_release(x);
        }
    tap_ok(replay_count().passes <= 256, "a few hundred passes are remembered, not more");
}

static void test_faults(void)
{
    double expected = pass_of(4, 0.5);
    int64_t nodes = nodes_live(), used = pool_bytes_in_use();
    int faults = 0, silent = 0, wrong = 0;
    for (int learning = 0; learning < 2; learning++)
        for (int64_t n = 1; n < 10000; n++) {
            replay_clear();
            pass_of(4, 0.5);
            if (!learning)
                pass_of(4, 0.5);
            cache_clear();
            bk_error_clear();
            mem_fail_after(n);
            double result = pass_of(4, 0.5);
            bool met = mem_fail_pending() == 0;
            mem_fail_after(0);
            if (!met)
                break;
            faults++;
            silent += result != result && bk_error_code() != BK_MEMORY_ERROR;
            bk_error_clear();
            bk_sync();
            for (int k = 0; k < 3; k++)
                wrong += !(fabs(pass_of(4, 0.5) - expected) <= 1e-6 * fabs(expected));
            bk_sync();
        }
    tap_ok(faults > 10, "%d allocations were made to fail", faults);
    tap_ok(silent == 0, "each failure is reported as out of memory (%d were not)", silent);
    tap_ok(wrong == 0, "after each failure passes give what they gave (%d times they did not)", wrong);
    bk_set_grad(weight, NULL);
    bk_set_grad(bias, NULL);
    tap_ok(nodes_live() <= nodes, "no node is leaked (%lld more)", (long long)(nodes_live() - nodes));
    tap_ok(pool_bytes_in_use() <= used, "no tensor memory is leaked");
}

int main(void)
{
    tap_ok(make_parameters(), "parameters are made");
    test_same_values();
    test_long_loops();
    test_memory_is_bounded();
    test_faults();
    bk_release(weight);
    bk_release(bias);
    return tap_done();
}
