/* test_create.c: ranges, triangles, random tensors and generators through the public API; who lets go of them. */
#include <pthread.h>
#include <string.h>

#include "brisk.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/node.h"
#include "tap.h"

static bool prints(bk_tensor *t, const char *expected)
{
    char *text = bk_to_string(t);
    bool same = text && !strcmp(text, expected);
    if (!same)
        printf("# got %s (%s)\n", text ? text : "nothing", bk_error() ? bk_error() : "no error");
    bk_free(text);
    return same;
}

static void ranges(void)
{
    bk_scope_push();
    tap_ok(prints(bk_arange_int(5, 0, -2, BK_INT64), "tensor([5, 3, 1])"), "arange counts down");
    tap_ok(prints(bk_arange(0, 1, 0.25, BK_FLOAT32), "tensor([0.0000, 0.2500, 0.5000, 0.7500])"), "arange of floats");
    tap_ok(!bk_arange(0, 1, 0, BK_FLOAT32) && !strcmp(bk_error(), "step must be nonzero"), "a step of zero is refused");
    bk_error_clear();
    tap_ok(prints(bk_linspace(-1, 1, 5, BK_FLOAT32), "tensor([-1.0000, -0.5000,  0.0000,  0.5000,  1.0000])"),
           "linspace includes both ends");
    tap_ok(prints(bk_eye(2, 3, BK_INT32), "tensor([[1, 0, 0],\n        [0, 1, 0]], dtype=torch.int32)"),
           "eye need not be square");
    bk_tensor *out[2], *x = bk_arange_int(0, 2, 1, BK_INT64), *y = bk_arange_int(0, 3, 1, BK_INT64);
    tap_ok(bk_meshgrid((bk_tensor *[]){ x, y }, 2, true, out) == 0 && bk_sizes(out[0])[0] == 3 &&
               bk_strides(out[0])[0] == 0,
           "meshgrid repeats without copying");
    bk_scope_pop();
}

static void triangles(void)
{
    bk_scope_push();
    bk_tensor *m = bk_view(bk_arange_int(1, 10, 1, BK_INT64), 2, (int64_t[]){ 3, 3 });
    tap_ok(prints(bk_tril(m, 0), "tensor([[1, 0, 0],\n        [4, 5, 0],\n        [7, 8, 9]])"), "tril");
    tap_ok(prints(bk_triu(bk_transpose(m, 0, 1), 1), "tensor([[0, 4, 7],\n        [0, 0, 8],\n        [0, 0, 0]])"),
           "triu of a transpose");
    tap_ok(prints(bk_tril(m, INT64_MIN), "tensor([[0, 0, 0],\n        [0, 0, 0],\n        [0, 0, 0]])"),
           "a diagonal far outside");
    bk_scope_pop();
}

static void random_numbers(void)
{
    bk_scope_push();
    bk_manual_seed(0);
    tap_ok(prints(bk_rand(1, (int64_t[]){ 3 }, BK_FLOAT32, NULL), "tensor([0.4963, 0.7682, 0.0885])"),
           "rand gives PyTorch's numbers");
    bk_manual_seed(0);
    tap_ok(prints(bk_randn(1, (int64_t[]){ 3 }, BK_FLOAT32, NULL), "tensor([ 1.5410, -0.2934, -2.1788])"),
           "randn gives PyTorch's numbers");
    bk_generator *g = bk_generator_new();
    char state[BK_GENERATOR_STATE_BYTES];
    bk_generator_manual_seed(g, 0);
    bk_generator_get_state(g, state);
    bk_tensor *first = bk_randint(0, 10, 1, (int64_t[]){ 4 }, BK_INT64, g);
    bk_generator_set_state(g, state, sizeof state);
    bk_tensor *again = bk_zeros(1, (int64_t[]){ 8 }, BK_INT64), *half = bk_slice(again, 0, 0, 8, 2);
    bk_random_range_(half, 0, 10, g);
    tap_ok(prints(first, "tensor([4, 9, 3, 0])") && prints(again, "tensor([4, 0, 9, 0, 3, 0, 0, 0])"),
           "a state set again gives the same numbers, through a view too");
    bk_generator_free(g);
    bk_scope_pop();
}

static void *leaves_scopes_open(void *arg)
{
    bk_scope_push();
    bk_tensor *x = bk_ones(1, (int64_t[]){ 3 }, BK_FLOAT32);
    bk_scope_push();
    return bk_add(x, x) && bk_sync() == 0 ? arg : NULL;
}

static void threads_that_end(void)
{
    enum { THREADS = 40 };
    int64_t live = 0, nodes = 0;
    bool right = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        void *result = NULL;
        right &= pthread_create(&thread, NULL, leaves_scopes_open, &live) == 0 && pthread_join(thread, &result) == 0;
        right &= result != NULL;
        if (i == THREADS / 2) {
            live = mem_live();
            nodes = nodes_live();
        }
    }
    tap_ok(right && mem_live() == live && nodes_live() == nodes, "a thread that ends lets go of its scopes");
}

int main(void)
{
    threads_that_end();
    ranges();
    triangles();
    random_numbers();
    return tap_done();
}
