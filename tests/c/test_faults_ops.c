/* test_faults_ops.c: each op, with its gradient, while each of its allocations in turn fails.
 *
 * Rows of ops.def are here by themselves; other ops have a line in OTHERS. Inputs are made before the faults begin, so
 * that what fails is the op: recording, its composed parts, the tape, planning, running. What a fault may not do: go
 * unreported, leak, or make the same op give something else afterwards. */
#include <math.h>
#include <string.h>

#include "brisk.h"
#include "core/memory.h"
#include "core/node.h"
#include "graph/plan.h"
#include "tap.h"

static bk_tensor *x, *y, *z, *mask, *places, *vector, *ints;

/* x x^T and something on the diagonal: positive-definite. */
static bk_tensor *square(void) { return bk_add(bk_matmul(x, bk_transpose(x, 0, 1)), bk_eye(4, 4, BK_FLOAT32)); }

#define OTHERS(X)                                                                                                      \
    X(sum, bk_sum(x, 2, true))                                                                                         \
    X(mean, bk_mean(x, 0, false))                                                                                      \
    X(prod, bk_prod(x, 1, false))                                                                                      \
    X(var, bk_var(x, 2, 1, false))                                                                                     \
    X(std, bk_std(x, 0, 1, false))                                                                                     \
    X(norm, bk_norm(x, 2, 2, false))                                                                                   \
    X(logsumexp, bk_logsumexp(x, 2, false))                                                                            \
    X(amax, bk_amax(x, 2, false))                                                                                      \
    X(argmax, bk_argmax(x, 2, false))                                                                                  \
    X(max_dim, bk_max_dim(x, 1, false, NULL))                                                                          \
    X(softmax, bk_softmax(x, 1))                                                                                       \
    X(log_softmax, bk_log_softmax(x, 0))                                                                               \
    X(cumsum, bk_cumsum(x, 1))                                                                                         \
    X(cumprod, bk_cumprod(x, 0))                                                                                       \
    X(logcumsumexp, bk_logcumsumexp(x, 1))                                                                             \
    X(sort, bk_sort(x, 1, true, NULL))                                                                                 \
    X(topk, bk_topk(x, 2, 1, true, true, NULL))                                                                        \
    X(median, bk_median(x))                                                                                            \
    X(mode, bk_mode(x, 1, false, NULL))                                                                                \
    X(unique, bk_unique(x, false, NULL, NULL))                                                                         \
    X(bincount, bk_bincount(ints, NULL, 0))                                                                            \
    X(nonzero, bk_nonzero(x))                                                                                          \
    X(count_nonzero, bk_count_nonzero(x, 2))                                                                           \
    X(histc, bk_histc(x, 4, 0, 0))                                                                                     \
    X(reshape, bk_reshape(bk_transpose(x, 0, 1), 1, (int64_t[]){ 24 }))                                                \
    X(permute, bk_mul(bk_permute(x, 2, (int[]){ 1, 0 }), bk_transpose(y, 0, 1)))                                       \
    X(expand, bk_mul(bk_expand(bk_select(x, 1, 0), 2, (int64_t[]){ 4, 6 }), y))                                        \
    X(cat, bk_cat((bk_tensor *[]){ x, y, x }, 3, 1))                                                                   \
    X(stack, bk_stack((bk_tensor *[]){ x, y }, 2, 0))                                                                  \
    X(flip, bk_flip(x, 1, (int[]){ 1 }))                                                                               \
    X(roll, bk_roll(x, 1, (int64_t[]){ 2 }, 1, (int[]){ 0 }))                                                          \
    X(repeat, bk_repeat(x, 2, (int64_t[]){ 2, 3 }))                                                                    \
    X(repeat_interleave, bk_repeat_interleave_s(x, 3, 1))                                                              \
    X(unfold, bk_unfold(x, 1, 3, 2))                                                                                   \
    X(diag_embed, bk_diag_embed(x, 0, -2, -1))                                                                         \
    X(tril, bk_tril(x, 0))                                                                                             \
    X(gather, bk_gather(x, 1, places))                                                                                 \
    X(scatter, bk_scatter(x, 1, places, y, NULL))                                                                      \
    X(scatter_add, bk_scatter_add(x, 1, places, y))                                                                    \
    X(scatter_reduce, bk_scatter_reduce(x, 1, places, y, "amax", true))                                                \
    X(index_select, bk_index_select(x, 0, ints))                                                                       \
    X(index_add, bk_index_add(x, 0, ints, bk_slice(y, 0, 0, 3, 1), 2))                                                 \
    X(index_get, bk_index_get(x, &(bk_index){ .kind = BK_INDEX_TENSOR, .tensor = mask }, 1))                           \
    X(index_put, bk_index_put(x, (bk_tensor *[]){ ints }, 1, bk_slice(y, 0, 0, 3, 1), true))                           \
    X(take, bk_take(x, ints))                                                                                          \
    X(masked_select, bk_masked_select(x, mask))                                                                        \
    X(masked_fill, bk_masked_fill(x, mask, 3))                                                                         \
    X(masked_scatter, bk_masked_scatter(x, mask, y))                                                                   \
    X(matmul, bk_matmul(x, bk_transpose(y, 0, 1)))                                                                     \
    X(mv, bk_mv(x, vector))                                                                                            \
    X(outer, bk_outer(vector, vector))                                                                                 \
    X(addmm, bk_addmm(bk_matmul(x, bk_transpose(y, 0, 1)), x, bk_transpose(y, 0, 1), 0.5, 2))                          \
    X(linear, bk_linear(x, y, NULL))                                                                                   \
    X(einsum, bk_einsum("ij,kj,j->ik", (bk_tensor *[]){ x, y, vector }, 3))                                            \
    X(kron, bk_kron(x, y))                                                                                             \
    X(cdist, bk_cdist(x, y, 2, 0))                                                                                     \
    X(inverse, bk_inverse(square(), true))                                                                             \
    X(solve, bk_solve(square(), x, true, true))                                                                        \
    X(det, bk_det(square()))                                                                                           \
    X(slogdet, bk_slogdet(square(), NULL))                                                                             \
    X(cholesky, bk_cholesky(square(), false, true))                                                                    \
    X(qr, bk_qr(bk_transpose(x, 0, 1), BK_QR_REDUCED, NULL))                                                           \
    X(lu_factor, bk_lu_factor(square(), NULL))                                                                         \
    X(solve_triangular, bk_solve_triangular(square(), x, true, true, false))                                           \
    X(glu, bk_glu(x, 1))                                                                                               \
    X(dropout, bk_dropout(x, 0.5, true, BK_DROPOUT))                                                                   \
    X(to, bk_to(bk_to(x, BK_FLOAT64), BK_FLOAT16))                                                                     \
    X(isclose, bk_isclose(x, y, 1e-5, 1e-8, false))

#define UNARY(name, ...)                                                                                               \
    static bk_tensor *do_##name(void) { return bk_##name(x); }
#define BINARY(name, ...)                                                                                              \
    static bk_tensor *do_##name(void) { return bk_##name(x, y); }
#define TERNARY(name, ...)                                                                                             \
    static bk_tensor *do_##name(void) { return bk_##name(strcmp(#name, "where") ? x : mask, y, z); }
#include "brisk/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#define OTHER(name, call)                                                                                              \
    static bk_tensor *other_##name(void) { return call; }
OTHERS(OTHER)
#undef OTHER

static const struct op_case {
    const char *name;
    bk_tensor *(*run)(void);
} cases[] = {
#define UNARY(name, ...)   { #name, do_##name },
#define BINARY(name, ...)  { #name, do_##name },
#define TERNARY(name, ...) { #name, do_##name },
#include "brisk/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
#define OTHER(name, call) { #name, other_##name },
    OTHERS(OTHER)
#undef OTHER
};

/* The result, and x's gradient where there is one, in one number; *failed when something said so. Ops that refuse these
 * inputs (bitwise ones of floats) do so every time, and before they allocate. */
static double attempt(const struct op_case *c, bool *failed)
{
    double total = 0;
    bk_manual_seed(1);
    bk_scope_push();
    bk_tensor *r = c->run(), *wide = r ? bk_sum(bk_to(r, BK_FLOAT64), 0, false) : NULL;
    *failed = !wide || bk_eval(wide) < 0;
    if (!*failed)
        total = bk_item(wide);
    if (!*failed && bk_requires_grad(wide)) {
        *failed = bk_backward(wide, NULL, false, false) < 0 || !bk_grad_of(x);
        bk_tensor *g = *failed ? NULL : bk_sum(bk_grad_of(x), 0, false);
        *failed = *failed || !g || bk_eval(g) < 0;
        total += *failed ? 0 : bk_item(g);
    }
    bk_scope_pop();
    bk_set_grad(x, NULL);
    return total;
}

static bool same(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b) || (isnan(a) && isnan(b)) || a == b; }

typedef struct tally {
    int faults, silent, wrong, leaks;
} tally;

static void test_op(const struct op_case *c, tally *t)
{
    bool failed;
    double expected = attempt(c, &failed);
    bool refuses = failed;
    bk_error_clear();
    bk_sync();
    int64_t nodes = nodes_live(), used = pool_bytes_in_use();
    for (int64_t n = 1; n < 10000; n++) {
        cache_clear();
        mem_fail_after(n);
        double got = attempt(c, &failed);
        bool met = mem_fail_pending() == 0;
        mem_fail_after(0);
        if (!met)
            break;
        t->faults++;
        if (failed ? bk_error_code() != BK_MEMORY_ERROR && !refuses : !same(got, expected))
            t->silent++;
        bk_error_clear();
        bk_sync();
        if (!same(attempt(c, &failed), expected) || failed != refuses)
            t->wrong++;
        bk_error_clear();
    }
    bk_sync();
    t->leaks += nodes_live() != nodes || pool_bytes_in_use() != used;
}

int main(void)
{
    float data[24];
    for (int i = 0; i < 24; i++)
        data[i] = (float)((i * 7) % 24 + 1) / 26;
    const int64_t sizes[] = { 4, 6 };
    x = bk_from_data(data, 2, sizes, BK_FLOAT32);
    y = bk_from_data(data + 0, 2, sizes, BK_FLOAT32);
    z = bk_from_data(data, 2, sizes, BK_FLOAT32);
    vector = bk_from_data(data, 1, sizes + 1, BK_FLOAT32);
    mask = bk_gt_s(x, 0.5);
    places = bk_to(bk_mul_s(x, 5.9), BK_INT64);
    ints = bk_from_data((int64_t[]){ 3, 0, 3 }, 1, (int64_t[]){ 3 }, BK_INT64);
    bk_sync();
    bk_set_requires_grad(x, true);
    tally all = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tally before = all;
        test_op(&cases[i], &all);
        if (all.silent + all.wrong + all.leaks != before.silent + before.wrong + before.leaks)
            tap_ok(false, "%s: %d silent, %d wrong afterwards, %d leaks", cases[i].name, all.silent - before.silent,
                   all.wrong - before.wrong, all.leaks - before.leaks);
    }
    tap_ok(all.faults > 1000, "%d allocations of %zu ops were made to fail", all.faults, sizeof cases / sizeof *cases);
    tap_ok(all.silent == 0, "each failure is reported as out of memory, or changes nothing");
    tap_ok(all.wrong == 0, "after each failure the op works as before");
    tap_ok(all.leaks == 0, "no node and no memory is leaked");
    return tap_done();
}
