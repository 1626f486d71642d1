/* test_faults.c: every allocation fails once, and nothing is lost, leaked or half done.
 *
 * The scenario below is run again and again with its first, second, third ... allocation failing, until it gets through
 * without meeting the fault. Whatever fails must say so; afterwards the same scenario must give the right result. */
#include <math.h>

#include "brisk.h"
#include "core/memory.h"
#include "core/node.h"
#include "graph/plan.h"
#include "tap.h"

static int pass_on(void *data, bk_tensor *const *g, int outputs, bk_tensor **grads, int inputs)
{
    (void)data, (void)outputs, (void)inputs;
    grads[0] = bk_retain(g[0]);
    return grads[0] ? 0 : -1;
}

/* Touches recording, planning, running, views, updates, joins, products and the tape. */
static double scenario(void)
{
    double result = NAN;
    bk_scope_push();
    float data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (float)i / 64;
    bk_tensor *x = bk_from_data(data, 2, (int64_t[]){ 8, 8 }, BK_FLOAT32);
    bk_tensor *w = bk_from_data(data, 2, (int64_t[]){ 8, 8 }, BK_FLOAT32);
    if (x && w && bk_set_requires_grad(w, true) == 0) {
        bk_tensor *out = bk_zeros(3, (int64_t[]){ 3, 8, 8 }, BK_FLOAT32), *h = x;
        for (int t = 0; t < 3 && h; t++) {
            h = bk_tanh(bk_add(bk_matmul(h, bk_transpose(w, 0, 1)), bk_select(x, 0, t)));
            bk_tensor *slot = bk_select(out, 0, t);
            if (!slot || !h || bk_copy_(slot, h) < 0)
                h = NULL;
        }
        bk_tensor *both[2] = { out, bk_mul_s(out, 0.5) };
        bk_tensor *y = h && both[1] ? bk_cat(both, 2, 0) : NULL;
        bk_function fn = { .name = "same", .backward = pass_on };
        bk_tensor *z = y ? bk_retain(y) : NULL;
        if (z && bk_function_apply(&fn, &y, 1, &z, 1) == 0 &&
            bk_backward(bk_sum(bk_mul(z, z), 0, false), NULL, false, false) == 0) {
            bk_tensor *g = bk_grad_of(w) ? bk_sum(bk_grad_of(w), 0, false) : NULL;
            if (g && bk_eval(g) == 0)
                result = bk_item(g);
        }
        bk_release(z);
    }
    bk_scope_pop();
    return result;
}

int main(void)
{
    double expected = scenario();
    tap_ok(expected == expected, "the scenario works when nothing fails");
    int64_t nodes = nodes_live(), used = pool_bytes_in_use();
    int silent = 0, wrong = 0, faults = 0;
    for (int64_t n = 1; n < 100000; n++) {
        cache_clear();
        bk_error_clear();
        mem_fail_after(n);
        double result = scenario();
        bool met = mem_fail_pending() == 0;
        mem_fail_after(0);
        if (!met)
            break;
        faults++;
        if (result != result && bk_error_code() != BK_MEMORY_ERROR)
            silent++;
        bk_error_clear();
        bk_sync();
        double again = scenario();
        if (!(fabs(again - expected) <= 1e-6 * fabs(expected)))
            wrong++;
        bk_sync();
    }
    tap_ok(faults > 20, "%d allocations were made to fail", faults);
    tap_ok(silent == 0, "each failure that was met is reported as out of memory (%d were not)", silent);
    tap_ok(wrong == 0, "after each failure the library works as before (%d times it did not)", wrong);
    bk_sync();
    tap_ok(nodes_live() == nodes, "no node is leaked (%lld more)", (long long)(nodes_live() - nodes));
    tap_ok(pool_bytes_in_use() == used, "no tensor memory is leaked (%lld bytes more)",
           (long long)(pool_bytes_in_use() - used));
    return tap_done();
}
