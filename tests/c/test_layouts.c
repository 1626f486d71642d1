/* test_layouts.c: a program whose shapes never repeat has bounded memory, and what it still holds is right. */
#include "brisk.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "tap.h"

enum { KEPT = 50, SHAPES = 400000 };

static bk_tensor *shaped(int64_t i)
{
    const int64_t sizes[] = { i % 7 + 1, 1, i / 7 % 11 + 1, 1, i / 77 + 1, 0 };
    return bk_zeros(6, sizes, BK_FLOAT32);
}

/* Views and results of shapes made long ago, with a tape among them. */
static void test_held(void)
{
    bk_scope_push();
    bk_tensor *views[KEPT], *x = bk_arange(0, 3000, 1, BK_FLOAT32), *w = bk_full(1, (int64_t[]){ 37 }, 2, BK_FLOAT32);
    bk_set_requires_grad(w, true);
    bk_tensor *loss = bk_sum(bk_mul(bk_mul(w, w), bk_slice(x, 0, 3, 3 + 37 * 5, 5)), 0, false);
    for (int i = 0; i < KEPT; i++)
        views[i] = bk_slice(x, 0, i, i + 3 * (i + 40), 3);
    bk_sync();
    uint32_t most = 0;
    int64_t allocations = 0;
    for (int64_t i = 0; i < SHAPES; i++) {
        bk_scope_push();
        bk_tensor *t = bk_add_s(shaped(i), 1);
        if (i % 20 == 0)
            bk_eval(t);
        bk_scope_pop();
        most = layouts_live() > most ? layouts_live() : most;
        if (i == SHAPES / 2)
            allocations = mem_live();
    }
    bk_sync();
    tap_ok(most < 200000, "at most %u layouts were there at a time, of %d", most, SHAPES);
    tap_ok(mem_live() < allocations + 200000, "allocations do not add up (%lld, halfway %lld)", (long long)mem_live(),
           (long long)allocations);
    int wrong = 0;
    for (int i = 0; i < KEPT; i++) {
        double n = i + 40, expected = n * i + 3 * n * (n - 1) / 2;
        wrong += bk_item(bk_sum(views[i], 0, false)) != expected;
        wrong += bk_item(bk_sum(bk_mul_s(views[i], 2), 0, false)) != 2 * expected;
    }
    tap_ok(wrong == 0, "views made before are what they were");
    bool ok = bk_backward(loss, NULL, false, false) == 0;
    double sum = 37 * 3 + 5 * 37 * 36 / 2.0;
    tap_ok(ok && bk_item(bk_sum(bk_grad_of(w), 0, false)) == 4 * sum, "so is the tape");
    bk_scope_pop();
}

static void test_identity(void)
{
    const int64_t sizes[] = { 5, 6 };
    const layout *l = layout_get(2, sizes, NULL), *turned = layout_turned(l);
    uint32_t id = l->id;
    layout_hold(turned);
    for (int i = 0; i < 3; i++) {
        for (int64_t k = 1; k < 100000; k++)
            layout_get(1, &(int64_t){ k + i * 100000 + 1000 }, NULL);
        bk_scope_push();
        bk_eval(bk_zeros(1, &(int64_t){ i + 1 }, BK_FLOAT32));
        bk_scope_pop();
    }
    tap_ok(layout_get(2, (int64_t[]){ 6, 5 }, (int64_t[]){ 1, 6 }) == turned, "a layout that is held stays");
    tap_ok(layout_get(2, (int64_t[]){ 6, 5 }, NULL) == turned->plain, "and its plain with it");
    tap_ok(layout_get(2, sizes, NULL)->id != id, "one that nobody used is gone, and its number is not given again");
    tap_ok(layouts_live() < 250000, "layouts that were only looked up are swept away (%u left)", layouts_live());
}

int main(void)
{
    test_held();
    test_identity();
    return tap_done();
}
