/* test_ops_index.c: x[...] read and written, masks, gather and scatter, and their gradients, from C. */
#include <string.h>

#include "brisk.h"
#include "core/tensor.h"
#include "graph/log.h"
#include "tap.h"

static bk_tensor *counting(int rows, int columns)
{
    float v[64];
    for (int i = 0; i < rows * columns; i++)
        v[i] = (float)i;
    return bk_from_data(v, 2, (int64_t[]){ rows, columns }, BK_FLOAT32);
}

static bk_tensor *ints(int n, const int64_t *v) { return bk_from_data(v, 1, (int64_t[]){ n }, BK_INT64); }

static bool shows(const bk_tensor *t, const char *text)
{
    char *s = t ? bk_to_string(t) : NULL;
    bool same = s && !strcmp(s, text);
    if (!same)
        printf("# %s, wanted %s\n", s ? s : bk_error(), text);
    bk_free(s);
    return same;
}

static bk_index at(int64_t i) { return (bk_index){ .kind = BK_INDEX_INT, .start = i }; }
static bk_index all(void) { return (bk_index){ .kind = BK_INDEX_SLICE, .stop = INT64_MAX, .step = 1 }; }
static bk_index by(const bk_tensor *t) { return (bk_index){ .kind = BK_INDEX_TENSOR, .tensor = t }; }

static void reads(void)
{
    bk_scope_push();
    bk_tensor *x = counting(3, 4), *rows = ints(2, (int64_t[]){ 2, -1 }), *columns = ints(2, (int64_t[]){ 0, 3 });
    tap_ok(shows(bk_index_get(x, (bk_index[]){ at(1) }, 1), "tensor([4., 5., 6., 7.])"), "x[1]");
    tap_ok(shows(bk_index_get(x, (bk_index[]){ at(1), at(-1) }, 2), "tensor(7.)"), "x[1, -1]");
    tap_ok(shows(bk_index_get(x, (bk_index[]){ all(), by(columns) }, 2),
                 "tensor([[ 0.,  3.],\n        [ 4.,  7.],\n        [ 8., 11.]])"),
           "x[:, [0, 3]]");
    tap_ok(shows(bk_index_get(x, (bk_index[]){ by(rows), by(columns) }, 2), "tensor([ 8., 11.])"),
           "x[[2, -1], [0, 3]]");
    tap_ok(shows(bk_index_get(x, (bk_index[]){ by(bk_gt_s(x, 8.5)) }, 1), "tensor([ 9., 10., 11.])"), "x[x > 8.5]");
    tap_ok(!bk_index_get(x, (bk_index[]){ by(ints(1, (int64_t[]){ 9 })) }, 1) &&
               !strcmp(bk_error(), "index 9 is out of bounds for dimension 0 with size 3"),
           "an index out of range is an error when it is recorded");
    bk_error_clear();
    bk_scope_pop();
}

static void writes(void)
{
    bk_scope_push();
    bk_tensor *x = counting(2, 3), *before = bk_mul_s(x, 1);
    bk_index_set_s(x, (bk_index[]){ by(bk_gt_s(x, 2.5)) }, 1, 0);
    tap_ok(shows(x, "tensor([[0., 1., 2.],\n        [0., 0., 0.]])"), "x[mask] = number");
    tap_ok(shows(before, "tensor([[0., 1., 2.],\n        [3., 4., 5.]])"), "whoever read before keeps the old value");
    bk_tensor *part = bk_slice(x, 1, 1, 3, 1);
    bk_index_set(part, (bk_index[]){ at(1), by(ints(2, (int64_t[]){ 1, 0 })) }, 2,
                 bk_index_get(x, (bk_index[]){ at(0) }, 1) ? bk_slice(bk_select(x, 0, 0), 0, 1, 3, 1) : NULL);
    tap_ok(shows(x, "tensor([[0., 1., 2.],\n        [0., 2., 1.]])"),
           "a write at indices through a view of the same memory");
    bk_scatter_add_(x, 1, bk_zeros(2, (int64_t[]){ 2, 3 }, BK_INT64), bk_clone(x));
    tap_ok(shows(x, "tensor([[3., 1., 2.],\n        [3., 2., 1.]])"), "repeated places add up");
    bk_scope_pop();
}

/* d/dx of sum(f(x) * f(x)). */
static bk_tensor *gradient(bk_tensor *x, bk_tensor *(*f)(const bk_tensor *))
{
    bk_set_requires_grad(x, true);
    bk_tensor *y = f(x);
    return y && bk_backward(bk_sum(bk_mul(y, y), 0, false), NULL, false, false) == 0 ? bk_grad_of(x) : NULL;
}

static bk_tensor *windows(const bk_tensor *x) { return bk_unfold(bk_flatten(x, 0, -1), 0, 2, 1); }
static bk_tensor *twice_first(const bk_tensor *x)
{
    return bk_index_get(x, (bk_index[]){ by(ints(3, (int64_t[]){ 0, 0, 1 })) }, 1);
}
static bk_tensor *large_ones(const bk_tensor *x) { return bk_masked_select(x, bk_gt_s(x, 1.5)); }
static bk_tensor *overwritten(const bk_tensor *x)
{
    bk_tensor *y = bk_mul_s(x, 1);
    return bk_index_set(y, (bk_index[]){ all(), by(ints(1, (int64_t[]){ 0 })) }, 2, bk_slice(x, 1, 1, 2, 1)) == 0
               ? y
               : NULL;
}

static void gradients(void)
{
    bk_scope_push();
    tap_ok(shows(gradient(counting(2, 2), windows), "tensor([[0., 4.],\n        [8., 6.]])"), "windows that overlap");
    tap_ok(shows(gradient(counting(2, 2), twice_first), "tensor([[0., 4.],\n        [4., 6.]])"), "a row read twice");
    tap_ok(shows(gradient(counting(2, 2), large_ones), "tensor([[0., 0.],\n        [4., 6.]])"),
           "elements under a mask");
    tap_ok(shows(gradient(counting(2, 2), overwritten), "tensor([[ 0.,  4.],\n        [ 0., 12.]])"),
           "a column written over");
    bk_scope_pop();
}

static void elements(void)
{
    bk_scope_push();
    bk_tensor *x = counting(2, 2);
    bk_eval(x);
    bk_tensor *v = bk_select(bk_select(x, 0, 0), 0, 0);
    uint64_t records = x->cell->stamp;
    bk_copy_(v, bk_scalar(5, BK_FLOAT32));
    tap_ok(shows(x, "tensor([[5., 1.],\n        [2., 3.]])"), "an element written through a view of it");
    tap_ok(tensor_open(x) != NULL && x->cell->stamp != records,
           "memory that nobody else holds is open to direct writes");
    bk_tensor *reader = bk_mul_s(x, 2);
    tap_ok(log_eager() || tensor_open(x) == NULL, "memory that a pending record reads is not");
    tap_ok(shows(reader, "tensor([[10.,  2.],\n        [ 4.,  6.]])"), "and the record reads what was there");
    bk_scope_pop();
}

int main(void)
{
    reads();
    writes();
    gradients();
    elements();
    return tap_done();
}
