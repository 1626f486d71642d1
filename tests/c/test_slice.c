/* test_slice.c: the data structures proved end to end: recording, fusing, writing through views, gradients. */
#include <math.h>
#include <string.h>

#include "brisk.h"
#include "core/node.h"
#include "graph/plan.h"
#include "tap.h"

static bk_tensor *floats(int n, const float *v) { return bk_from_data(v, 1, (int64_t[]){ n }, BK_FLOAT32); }

static float at(bk_tensor *t, int64_t i)
{
    bk_tensor *e = bk_select(t, 0, i);
    float v = (float)bk_item(e);
    return v;
}

static void sums(void)
{
    bk_scope_push();
    bk_tensor *a = floats(3, (float[]){ 1, 2, 3 }), *b = floats(3, (float[]){ 10, 20, 30 });
    char *text = bk_to_string(bk_add(a, b));
    tap_ok(text && !strcmp(text, "tensor([11., 22., 33.])"), "a + b prints as PyTorch prints it");
    bk_free(text);
    bk_tensor *c = a;
    for (int i = 0; i < 1000; i++)
        c = bk_add(c, b);
    tap_ok(at(c, 1) == 20002, "a chain of a thousand sums is one fused program");
    bk_tensor *m = bk_from_data((float[]){ 1, 2, 3, 4 }, 2, (int64_t[]){ 2, 2 }, BK_FLOAT32);
    bk_tensor *p = bk_tanh(bk_mul_s(bk_matmul(m, bk_transpose(m, 0, 1)), 0.1));
    bk_tensor *e = bk_select(bk_select(p, 0, 1), 0, 0);
    tap_ok(fabs(bk_item(e) - tanh(1.1)) < 1e-6, "a product with its transpose, scaled and squashed");
    bk_scope_pop();
}

static void writes(void)
{
    bk_scope_push();
    bk_tensor *x = floats(5, (float[]){ 0, 1, 2, 3, 4 });
    bk_tensor *before = bk_mul_s(x, 1), *view = bk_slice(x, 0, 1, 3, 1);
    bk_fill_(view, 9);
    tap_ok(at(x, 1) == 9 && at(x, 2) == 9 && at(x, 3) == 3, "a write through a view is seen by its base");
    tap_ok(at(before, 1) == 1, "whoever read before keeps the old value");
    tap_ok(bk_copy_(bk_slice(x, 0, 1, 5, 1), bk_slice(x, 0, 0, 4, 1)) < 0 && bk_error_code() == BK_RUNTIME_ERROR,
           "an overlapping copy is refused, as PyTorch refuses it");
    bk_error_clear();
    tap_ok(bk_copy_(bk_slice(x, 0, 0, 4, 2), bk_slice(x, 0, 1, 4, 2)) == 0 && at(x, 0) == 9 && at(x, 2) == 3,
           "interleaved parts are copied");
    bk_scope_pop();
}

static void gradients(void)
{
    bk_scope_push();
    bk_tensor *x = floats(3, (float[]){ 1, 2, 3 });
    bk_set_requires_grad(x, true);
    bk_tensor *y = bk_mul(x, x);
    bk_fill_(bk_slice(y, 0, 0, 1, 1), 7);
    bk_backward(bk_sum(y, 0, false), NULL, false, false);
    bk_tensor *g = bk_grad_of(x);
    tap_ok(g && at(g, 0) == 0 && at(g, 1) == 4 && at(g, 2) == 6, "backward through a write into a view");

    bk_set_grad(x, NULL);
    bk_tensor *z = bk_exp(x);
    bk_zero_(bk_detach(z));
    tap_ok(at(z, 0) == 0, "y.detach().zero_() is seen by y");
    bk_backward(bk_sum(bk_mul_s(z, 2), 0, false), NULL, false, false);
    g = bk_grad_of(x);
    tap_ok(g && fabs(at(g, 0) - 2 * exp(1)) < 1e-5, "and the tape keeps the value it saved");
    bk_scope_pop();
}

static void leaf_updates(void)
{
    bk_scope_push();
    bk_tensor *w = floats(2, (float[]){ 1, 2 });
    bk_set_requires_grad(w, true);
    for (int step = 0; step < 3; step++) {
        bk_backward(bk_sum(bk_mul(w, w), 0, false), NULL, false, false);
        bool was = bk_set_grad_enabled(false);
        bk_copy_(w, bk_sub(w, bk_mul_s(bk_grad_of(w), 0.25)));
        bk_set_grad_enabled(was);
        bk_set_grad(w, NULL);
    }
    tap_ok(at(w, 0) == 0.125f && at(w, 1) == 0.25f, "a leaf is updated under no_grad and trained on");
    tap_ok(bk_fill_(w, 1) < 0 && strstr(bk_error(), "leaf Variable"), "a taped write to a leaf is refused");
    bk_error_clear();
    bk_scope_pop();
}

static int pass_on(void *data, bk_tensor *const *g, int outputs, bk_tensor **grads, int inputs)
{
    (void)data, (void)outputs, (void)inputs;
    grads[0] = bk_mul_s(g[0], 3); /* a callback owns what it makes */
    return 0;
}

static void functions(void)
{
    bk_scope_push();
    bk_tensor *x = floats(2, (float[]){ 1, 2 });
    bk_set_requires_grad(x, true);
    bk_tensor *out = bk_retain(x);
    bk_function fn = { .name = "triple", .backward = pass_on };
    tap_ok(bk_function_apply(&fn, &x, 1, &out, 1) == 0 && out != x, "a custom function may return its input");
    bk_backward(bk_sum(bk_mul(out, out), 0, false), NULL, false, false);
    tap_ok(at(bk_grad_of(x), 1) == 12, "its backward is the one that counts");
    bk_release(out);
    bk_scope_pop();
}

static bool refuses(bk_tensor *y, const char *words)
{
    bool refused = bk_requires_grad(y) && bk_backward(bk_sum(y, 0, false), NULL, false, false) < 0;
    bool said = bk_error() && strstr(bk_error(), words);
    bk_error_clear();
    return refused && said;
}

static void slopeless(void)
{
    bk_scope_push();
    bk_tensor *x = floats(3, (float[]){ 3, 1, 1 }), *counts;
    tap_ok(!bk_requires_grad(bk_unique(x, false, NULL, &counts)), "what has no derivative of no leaf is on no tape");
    bk_set_requires_grad(x, true);
    tap_ok(refuses(bk_unique(x, false, NULL, NULL), "'_unique2' is not implemented"), "unique has no derivative");
    tap_ok(refuses(bk_unique_dim(x, 0, false, NULL, NULL), "'unique_dim'"), "nor has it by a dimension");
    tap_ok(refuses(bk_heaviside(x, x), "derivative for aten::heaviside is not implemented"), "nor has a step");
    bk_scope_pop();
}

static int give_two(void *data, bk_tensor *const *g, int outputs, bk_tensor **grads, int inputs)
{
    (void)data, (void)g, (void)outputs, (void)inputs;
    grads[0] = bk_ones(1, (int64_t[]){ 2 }, BK_FLOAT32);
    return 0;
}

static int fail_silently(void *data, bk_tensor *const *g, int outputs, bk_tensor **grads, int inputs)
{
    (void)data, (void)outputs, (void)inputs;
    grads[0] = bk_mul_s(g[0], 2);
    return -1;
}

static void count_free(void *data) { ++*(int *)data; }

static bool function_fails(int (*backward)(void *, bk_tensor *const *, int, bk_tensor **, int), const char *words)
{
    int freed = 0;
    bk_scope_push();
    bk_tensor *x = floats(3, (float[]){ 1, 2, 3 }), *out = bk_ones(1, (int64_t[]){ 3 }, BK_FLOAT32);
    bk_set_requires_grad(x, true);
    bk_function fn = { .name = "Wrong", .backward = backward, .free = count_free, .data = &freed };
    bool failed =
        bk_function_apply(&fn, &x, 1, &out, 1) < 0 || bk_backward(bk_sum(out, 0, false), NULL, false, false) < 0;
    bool said = bk_error() && strstr(bk_error(), words), none = !bk_grad_of(x);
    bk_error_clear();
    bk_scope_pop();
    bk_sync(); /* what is recorded holds its tape */
    return failed && said && none && freed == 1;
}

static void wrong_functions(void)
{
    tap_ok(function_fails(give_two, "index 0 - got [2] but expected shape compatible with [3]"),
           "a gradient of other sizes is refused");
    tap_ok(function_fails(fail_silently, "Function Wrong failed"), "a backward that fails without a word is named");
    tap_ok(function_fails(NULL, "Function Wrong has no backward"), "a function needs a backward");
    bk_scope_push();
    bk_tensor *x = floats(1, (float[]){ 1 }), *results[1];
    bk_set_requires_grad(x, true);
    bk_tensor *y = bk_mul(x, x);
    tap_ok(bk_grad(&y, NULL, 1, NULL, 0, false, false, results) < 0 && strstr(bk_error(), "cannot be empty"),
           "gradients by nothing are refused");
    bk_error_clear();
    tap_ok(bk_backward(y, NULL, false, false) == 0, "and the tape is as it was");
    bk_scope_pop();
}

/* h[t+1] = tanh(h[t] w) written into one preallocated tensor. */
static void recurrence(void)
{
    enum { T = 50, H = 8 };
    bk_scope_push();
    float start[H], weight[H * H];
    for (int i = 0; i < H; i++)
        start[i] = (float)i / H;
    for (int i = 0; i < H * H; i++)
        weight[i] = (float)sin(i) * 0.3f;
    bk_tensor *w = bk_from_data(weight, 2, (int64_t[]){ H, H }, BK_FLOAT32);
    bk_tensor *hs = bk_zeros(3, (int64_t[]){ T + 1, 1, H }, BK_FLOAT32);
    bk_copy_(bk_select(hs, 0, 0), floats(H, start));
    bk_sync();
    for (int t = 0; t < T; t++) {
        bk_scope_push();
        bk_copy_(bk_select(hs, 0, t + 1), bk_tanh(bk_matmul(bk_select(hs, 0, t), w)));
        bk_scope_pop();
    }
    int64_t copies = run_count().instructions[DO_COPY];
    bk_eval(hs);
    copies = run_count().instructions[DO_COPY] - copies;
    float h[H];
    memcpy(h, start, sizeof h);
    for (int t = 0; t < T; t++) {
        float next[H];
        for (int j = 0; j < H; j++) {
            double s = 0;
            for (int i = 0; i < H; i++)
                s += (double)h[i] * weight[i * H + j];
            next[j] = (float)tanh(s);
        }
        memcpy(h, next, sizeof h);
    }
    bk_tensor *last = bk_select(bk_select(hs, 0, T), 0, 0);
    tap_ok(fabsf(at(last, 3) - h[3]) < 1e-4f, "hs[t+1] = f(hs[t]) computes what the loop says");
    tap_ok(copies == 0, "hs[t+1] = f(hs[t]) copies nothing");
    bk_scope_pop();
}

int main(void)
{
    int64_t nodes = nodes_live();
    sums();
    writes();
    gradients();
    leaf_updates();
    functions();
    slopeless();
    wrong_functions();
    recurrence();
    bk_sync();
    tap_ok(nodes_live() - nodes < 64, "nothing but warm constants is left");
    return tap_done();
}
