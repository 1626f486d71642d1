/* test_linalg.c: what factorisations are put together again, for sizes around the blocks they are computed in. */
#include <math.h>

#include "brisk.h"
#include "cpu/linalg.h"
#include "tap.h"

static const int64_t sizes[] = { 1, 2, LINALG_BLOCK - 1, LINALG_BLOCK, LINALG_BLOCK + 1, 2 * LINALG_BLOCK, 101 };
enum { SIZES = sizeof sizes / sizeof *sizes };

static bk_tensor *draw(int64_t rows, int64_t columns, bk_dtype dtype)
{
    return bk_to(bk_randn(2, (int64_t[]){ rows, columns }, BK_FLOAT64, NULL), dtype);
}

static bk_tensor *turned(const bk_tensor *a) { return bk_transpose(a, 0, 1); }

/* The greatest distance of two tensors, in units of the dtype's epsilon times `scale`. */
static double distance(const bk_tensor *a, const bk_tensor *b, double scale)
{
    double epsilon = bk_dtype_of(a) == BK_FLOAT64 ? 0x1p-52 : 0x1p-23;
    return bk_item(bk_max(bk_abs(bk_sub(a, b)))) / (epsilon * scale);
}

/* |A x - b| over |A| |x| n, as in the tests of LAPACK: an answer is as good as rounding lets it be below about 10. */
static double residual(const bk_tensor *a, const bk_tensor *x, const bk_tensor *b)
{
    double scale = bk_item(bk_max(bk_abs(a))) * bk_item(bk_max(bk_abs(x))) * (double)bk_sizes(a)[0];
    return distance(bk_matmul(a, x), b, scale > 0 ? scale : 1);
}

static double worst_qr(int64_t m, int64_t n, bk_dtype dtype)
{
    bk_tensor *a = draw(m, n, dtype), *r, *q = bk_qr(a, BK_QR_REDUCED, &r), *whole;
    bk_tensor *complete = bk_qr(a, BK_QR_COMPLETE, &whole);
    int64_t k = m < n ? m : n;
    double worst = distance(bk_matmul(q, r), a, 4.0 * (double)(m + n));
    worst = fmax(worst, distance(bk_matmul(turned(q), q), bk_eye(k, k, dtype), 4.0 * (double)m));
    worst = fmax(worst, distance(bk_matmul(complete, whole), a, 4.0 * (double)(m + n)));
    worst = fmax(worst, distance(bk_matmul(turned(complete), complete), bk_eye(m, m, dtype), 4.0 * (double)m));
    return fmax(worst, distance(bk_triu(r, 0), r, 1));
}

static double worst_solve(int64_t n, int64_t columns, bk_dtype dtype)
{
    bk_tensor *a = draw(n, n, dtype), *b = draw(n, columns, dtype), *pivots, *lu = bk_lu_factor(a, &pivots);
    double worst = residual(a, bk_solve(a, b, true, false), b);
    worst = fmax(worst, residual(turned(a), bk_lu_solve(lu, pivots, b, true, true), b));
    bk_tensor *diagonal = bk_mul_s(bk_eye(n, n, dtype), 2 * (double)n);
    for (int how = 0; how < 4; how++) {
        bk_tensor *t = bk_add(how & 1 ? bk_triu(a, 0) : bk_tril(a, 0), diagonal);
        bk_tensor *whole = how & 2 ? bk_add(t, bk_mul_s(how & 1 ? bk_tril(a, -1) : bk_triu(a, 1), 7)) : t;
        worst = fmax(worst, residual(t, bk_solve_triangular(whole, b, how & 1, true, false), b));
    }
    return worst;
}

static double worst_cholesky(int64_t n, bk_dtype dtype)
{
    bk_tensor *a = draw(n, n, dtype), *s = bk_add(bk_matmul(a, turned(a)), bk_eye(n, n, dtype));
    bk_tensor *l = bk_cholesky(s, false, false), *u = bk_cholesky(s, true, false);
    double worst = distance(bk_matmul(l, turned(l)), s, (double)(n * n) + 4);
    return fmax(fmax(worst, distance(turned(u), l, 1)), distance(bk_tril(l, 0), l, 1));
}

static void compose(bk_dtype dtype, const char *name)
{
    double qr = 0, solve = 0, cholesky = 0;
    for (int i = 0; i < SIZES; i++) {
        for (int j = 0; j < SIZES; j++) {
            bk_scope_push();
            qr = fmax(qr, worst_qr(sizes[i], sizes[j], dtype));
            solve = fmax(solve, worst_solve(sizes[i], sizes[j], dtype));
            bk_scope_pop();
        }
        bk_scope_push();
        cholesky = fmax(cholesky, worst_cholesky(sizes[i], dtype));
        bk_scope_pop();
    }
    if (!tap_ok(qr < 2 && solve < 10 && cholesky < 2, "what is factored in %s can be put together again", name))
        printf("# qr %g, systems %g, cholesky %g\n", qr, solve, cholesky);
}

/* The first minor that is not positive is at `at`: everything before is as it would be alone, NaN follows. */
static void breaks(void)
{
    bool good = true;
    for (int64_t at = 0; at < 80; at += 13) {
        bk_scope_push();
        bk_tensor *a = bk_eye(80, 80, BK_FLOAT64);
        bk_copy_(bk_select(bk_select(a, 0, at), 0, at), bk_full(0, NULL, -1, BK_FLOAT64));
        bk_tensor *diagonal = bk_diagonal(bk_cholesky(a, false, false), 0, 0, 1);
        for (int64_t i = 0; i < 80; i++) {
            double x = bk_item(bk_select(diagonal, 0, i));
            good = good && (i < at ? x == 1 : isnan(x));
        }
        bk_scope_pop();
    }
    tap_ok(good, "where a matrix is not positive-definite, NaN stands on the diagonal from there on");
}

static void threads(void)
{
    bool same = true;
    bk_scope_push();
    bk_tensor *a = draw(300, 300, BK_FLOAT32), *one = NULL;
    for (int n = 1; n <= 3; n++) {
        bk_set_num_threads(n);
        bk_tensor *r, *q = bk_qr(bk_clone(a), BK_QR_REDUCED, &r), *x = bk_inverse(bk_clone(a), false);
        bk_tensor *all = bk_add(bk_add(q, r), x);
        same = same && (!one || bk_item(bk_sum(bk_ne(all, one), 0, false)) == 0);
        one = one ? one : all;
    }
    bk_scope_pop();
    tap_ok(same, "no bit of a factorisation depends on the number of threads");
}

static void singular(void)
{
    bk_scope_push();
    bk_tensor *a = draw(70, 70, BK_FLOAT64), *pivots;
    bk_copy_(bk_select(a, 1, 50), bk_select(a, 1, 3));
    bk_tensor *lu = bk_lu_factor(a, &pivots);
    double least = bk_item(bk_min(bk_abs(bk_diagonal(lu, 0, 0, 1))));
    tap_ok(least < 1e-13, "a pivot of a singular matrix is nothing but rounding");
    bk_scope_pop();
}

int main(void)
{
    bk_manual_seed(3);
    compose(BK_FLOAT32, "float32");
    compose(BK_FLOAT64, "float64");
    breaks();
    singular();
    threads();
    return tap_done();
}
