/* test_reduce.c: reductions and scans against loops over single elements. */
#include "cpu/reduce.h"
#include "cpu/scan.h"
#include "sample.h"
#include "tap.h"

/* Calls visit for each element of src with the flat index of its output and its rank within that output. */
typedef void (*visit_fn)(void *state, int64_t output, int64_t rank, int64_t flat);

static void visit(const view *src, uint32_t dims, visit_fn fn, void *state)
{
    for (int64_t i = 0, n = view_numel(src); i < n; i++) {
        int64_t flat = i, output = 0, rank = 0, output_unit = 1, rank_unit = 1;
        for (int d = src->ndim - 1; d >= 0; d--) {
            int64_t at = flat % src->sizes[d];
            flat /= src->sizes[d];
            if (dims >> d & 1) {
                rank += at * rank_unit;
                rank_unit *= src->sizes[d];
            } else {
                output += at * output_unit;
                output_unit *= src->sizes[d];
            }
        }
        fn(state, output, rank, i);
    }
}

typedef struct naive {
    const view *src;
    reduce_kind kind;
    double *value, *mean;
    int64_t *count, *index;
} naive;

static void naive_step(void *state, int64_t o, int64_t rank, int64_t flat)
{
    naive *s = state;
    double x = view_double(s->src, flat), old = s->value[o];
    bool first = s->count[o]++ == 0;
    switch (s->kind) {
    case REDUCE_SUM: s->value[o] = first ? x : old + x; break;
    case REDUCE_PROD: s->value[o] = first ? x : old * x; break;
    case REDUCE_ANY: s->value[o] = (!first && old != 0) || x != 0; break;
    case REDUCE_ALL: s->value[o] = (first || old != 0) && x != 0; break;
    case REDUCE_MOMENTS:
        s->value[o] = first ? x : old + x;
        s->mean[o] = s->value[o] / (double)s->count[o];
        break;
    default: {
        bool max = s->kind == REDUCE_MAX || s->kind == REDUCE_ARGMAX;
        if (first || (max ? x > old : x < old) || (isnan(x) && !isnan(old))) {
            s->value[o] = x;
            s->index[o] = rank;
        }
    }
    }
}

static bool near(double a, double b, bk_dtype t)
{
    if (same_double(a, b))
        return true;
    double eps = t == BK_FLOAT64    ? 1e-13
                 : t == BK_FLOAT32  ? 2e-6
                 : t == BK_FLOAT16  ? 2e-3
                 : t == BK_BFLOAT16 ? 1e-2
                                    : 0;
    return fabs(a - b) <= eps * (fabs(a) + fabs(b) + 10);
}

static bk_dtype result_dtype(reduce_kind kind, bk_dtype t)
{
    if (kind == REDUCE_ANY || kind == REDUCE_ALL)
        return BK_BOOL;
    if (kind == REDUCE_ARGMAX || kind == REDUCE_ARGMIN)
        return BK_INT64;
    return (kind == REDUCE_SUM || kind == REDUCE_PROD) && !dtype_is_float(t) ? BK_INT64 : t;
}

static bool reduces(reduce_kind kind, bk_dtype t, int ndim, const int64_t *sizes, uint32_t dims, bool contiguous)
{
    sample s = sample_make(t, ndim, sizes, contiguous, kind != REDUCE_SUM && kind != REDUCE_PROD);
    int64_t n = view_numel(&s.v), out_sizes[BK_MAX_NDIM];
    for (int64_t i = 0; i < n && kind == REDUCE_PROD; i++) /* factors that stay exact: 1, -1 and a few 2 */
        dtype_store_int(t, view_at(&s.v, i),
                        sample_int(0, n / 3 + 60) == 0      ? 2
                        : t == BK_UINT8 || sample_int(0, 1) ? 1
                                                            : -1);
    for (int d = 0; d < ndim; d++)
        out_sizes[d] = dims >> d & 1 ? 1 : sizes[d];
    sample r = sample_make(result_dtype(kind, t), ndim, out_sizes, false, false);
    int64_t outputs = view_numel(&r.v);
    bool nothing = n == 0 && outputs > 0;
    naive e = {
        &s.v, kind, calloc((size_t)outputs + 1, 8), NULL, calloc((size_t)outputs + 1, 8), calloc((size_t)outputs + 1, 8)
    };
    bool right = true;
    if (!nothing || kind == REDUCE_SUM || kind == REDUCE_PROD || kind == REDUCE_ANY || kind == REDUCE_ALL) {
        visit(&s.v, dims, naive_step, &e);
        right = reduce_run(kind, &r.v, &s.v, dims) == 0;
        for (int64_t o = 0; o < outputs; o++) {
            double expected = nothing ? kind == REDUCE_PROD || kind == REDUCE_ALL : e.value[o];
            if (kind == REDUCE_ARGMAX || kind == REDUCE_ARGMIN)
                right &= view_int(&r.v, o) == e.index[o];
            else
                right &= near(view_double(&r.v, o), expected, t);
        }
    }
    free(e.value);
    free(e.count);
    free(e.index);
    sample_free(&s);
    sample_free(&r);
    return right;
}

static const char *const kind_names[] = { "sum", "prod", "max", "min", "any", "all", "argmax", "argmin" };

static void test_kinds(void)
{
    for (int kind = REDUCE_SUM; kind < REDUCE_MOMENTS; kind++) {
        bool right = true;
        for (int i = 0; i < 1500; i++) {
            int64_t sizes[BK_MAX_NDIM];
            int ndim = sample_sizes(sizes);
            uint32_t dims = ndim ? (uint32_t)sample_bits() >> (32 - ndim) : 0;
            right &= reduces((reduce_kind)kind, (bk_dtype)(i % BK_DTYPE_COUNT), ndim, sizes, dims, sample_int(0, 1));
        }
        tap_ok(right, "%s over any dimensions of any dtype agrees with a plain loop", kind_names[kind]);
    }
}

static void test_large(void)
{
    static const int64_t shapes[][3] = { { 1, 1, 300000 }, { 1, 200000, 3 }, { 3, 1, 100000 }, { 1, 3000, 200 },
                                         { 70000, 1, 7 },  { 2, 500, 1500 }, { 5, 70000, 1 } };
    for (int kind = REDUCE_SUM; kind < REDUCE_MOMENTS; kind++) {
        bool right = true;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (uint32_t dims = 1; dims < 8; dims++)
                right &= reduces((reduce_kind)kind, (bk_dtype)(dims % BK_DTYPE_COUNT), 3, shapes[i], dims, true);
        tap_ok(right, "%s of large shapes, cut into chunks, agrees with a plain loop", kind_names[kind]);
    }
}

static void test_moments(void)
{
    bool right = true;
    for (int i = 0; i < 400; i++) {
        int64_t sizes[3] = { sample_int(1, 6), sample_int(1, i % 7 ? 30 : 3000), sample_int(1, i % 5 ? 30 : 1500) },
                out[3];
        uint32_t dims = (uint32_t)sample_int(1, 7);
        sample s = sample_make((bk_dtype)(i % 4), 3, sizes, i & 4, false);
        for (int d = 0; d < 3; d++)
            out[d] = dims >> d & 1 ? 1 : sizes[d];
        sample mean = sample_make(BK_FLOAT64, 3, out, false, false), m2 = sample_make(BK_FLOAT64, 3, out, false, false);
        int64_t outputs = view_numel(&mean.v);
        naive e = {
            &s.v, REDUCE_MOMENTS, calloc((size_t)outputs, 8), calloc((size_t)outputs, 8), calloc((size_t)outputs, 8),
            NULL
        };
        visit(&s.v, dims, naive_step, &e);
        right &= reduce_moments(&mean.v, &m2.v, &s.v, dims) == 0;
        double *spread = calloc((size_t)outputs, 8);
        for (int64_t k = 0, n = view_numel(&s.v); k < n; k++) {
            int64_t flat = k, o = 0, unit = 1;
            for (int d = 2; d >= 0; d--) {
                o += dims >> d & 1 ? 0 : flat % sizes[d] * unit;
                unit *= out[d];
                flat /= sizes[d];
            }
            double x = view_double(&s.v, k) - e.mean[o];
            spread[o] += x * x;
        }
        for (int64_t o = 0; o < outputs; o++)
            right &= fabs(view_double(&mean.v, o) - e.mean[o]) < 1e-5 &&
                     fabs(view_double(&m2.v, o) - spread[o]) <= 1e-5 * spread[o] + 1e-9;
        free(spread);
        free(e.value);
        free(e.mean);
        free(e.count);
        sample_free(&s);
        sample_free(&mean);
        sample_free(&m2);
    }
    tap_ok(right, "mean and second moment agree with two passes in double");
}

/* The rows of a matrix are summed several at once; a row alone is not. */
static bool rows_sum_as_alone(bk_dtype t, int64_t rows, int64_t n)
{
    sample s = sample_make(t, 2, (int64_t[]){ rows, n }, true, false);
    sample all = sample_make(BK_FLOAT32, 2, (int64_t[]){ rows, 1 }, true, false);
    bool same = reduce_run(REDUCE_SUM, &all.v, &s.v, 2) == 0;
    for (int64_t r = 0; r < rows; r++) {
        float sum;
        view row = { s.v.data + r * n * (int64_t)dtype_size(t), t, 1, { n }, { 1 } };
        view alone = { (char *)&sum, BK_FLOAT32, 1, { 1 }, { 1 } };
        same &= reduce_run(REDUCE_SUM, &alone, &row, 1) == 0 && (double)sum == view_double(&all.v, r);
    }
    sample_free(&s);
    sample_free(&all);
    return same;
}

static void test_rows(void)
{
    bool same = true;
    for (int64_t n = 1; n < 1200; n += n < 140 ? 1 : 37)
        for (int64_t rows = 1; rows < 20; rows += 3)
            same &= rows_sum_as_alone(n % 2   ? BK_FLOAT32
                                      : n % 4 ? BK_BFLOAT16
                                              : BK_FLOAT16,
                                      rows, n) &&
                    rows_sum_as_alone(BK_FLOAT32, rows, n);
    tap_ok(same, "the sum of a row does not depend on how many rows are summed with it");
}

static void test_accuracy(void)
{
    int64_t n = 4000000;
    float *x = malloc((size_t)n * 4);
    double exact = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(sample_bits() >> 40) * 0x1p-24f;
        exact += x[i];
    }
    float sum;
    view src = { (char *)x, BK_FLOAT32, 1, { n }, { 1 } }, dst = { (char *)&sum, BK_FLOAT32, 1, { 1 }, { 1 } };
    reduce_run(REDUCE_SUM, &dst, &src, 1);
    tap_ok(fabs(sum - exact) <= exact * 6e-8, "a sum of 4 million floats is the exact sum, rounded");
    for (int64_t i = 0; i < n; i++)
        x[i] += 1000;
    double mean, m2;
    view m = { (char *)&mean, BK_FLOAT64, 1, { 1 }, { 1 } }, v = { (char *)&m2, BK_FLOAT64, 1, { 1 }, { 1 } };
    reduce_moments(&m, &v, &src, 1);
    tap_ok(fabs(m2 / (double)n - 1.0 / 12) < 2e-4, "the variance of numbers far from zero does not cancel");
    free(x);
}

/* --- scans ------------------------------------------------------------------------------------------------- */

static double scan_next(scan_kind kind, double acc, double x, int64_t rank)
{
    if (rank == 0)
        return x;
    return kind == SCAN_SUM ? acc + x : kind == SCAN_PROD ? acc * x : log(exp(acc) + exp(x));
}

static bool scans_right(scan_kind kind, bk_dtype t)
{
    int64_t sizes[BK_MAX_NDIM];
    int ndim = sample_sizes(sizes);
    if (ndim == 0)
        return true;
    int dim = (int)sample_int(0, ndim - 1);
    bk_dtype to = dtype_is_float(t) ? t : BK_INT64;
    sample s = sample_make(t, ndim, sizes, sample_int(0, 1), false), r = sample_make(to, ndim, sizes, false, false);
    int64_t n = view_numel(&s.v), inner = 1;
    for (int64_t i = 0; i < n && kind == SCAN_PROD; i++)
        dtype_store_int(t, view_at(&s.v, i), t == BK_UINT8 || sample_int(0, 1) ? 1 : -1);
    for (int d = dim + 1; d < ndim; d++)
        inner *= sizes[d];
    double *acc = malloc((size_t)(n + 1) * 8);
    scan_run(kind, &r.v, &s.v, dim);
    bool right = true;
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = i / inner % sizes[dim];
        acc[i] = scan_next(kind, rank ? acc[i - inner] : 0, view_double(&s.v, i), rank);
        right &= near(view_double(&r.v, i), acc[i], t);
    }
    free(acc);
    sample_free(&s);
    sample_free(&r);
    return right;
}

static bool running_extremes_right(bool max, bk_dtype t)
{
    int64_t sizes[3] = { sample_int(1, 5), sample_int(1, 30), sample_int(1, 30) }, inner = 1;
    int dim = (int)sample_int(0, 2);
    sample s = sample_make(t, 3, sizes, sample_int(0, 1), true), v = sample_make(t, 3, sizes, false, false);
    sample p = sample_make(BK_INT64, 3, sizes, false, false);
    for (int d = dim + 1; d < 3; d++)
        inner *= sizes[d];
    scan_extreme(max, &v.v, &p.v, &s.v, dim);
    bool right = true;
    for (int64_t i = 0, n = view_numel(&s.v); i < n; i++) {
        int64_t rank = i / inner % sizes[dim], place = 0;
        double best = view_double(&s.v, i - rank * inner);
        for (int64_t k = 1; k <= rank; k++) {
            double x = view_double(&s.v, i - (rank - k) * inner);
            if (isnan(x) || (!isnan(best) && (max ? x >= best : x <= best))) {
                best = x;
                place = k;
            }
        }
        right &= same_double(view_double(&v.v, i), best) && view_int(&p.v, i) == place;
    }
    sample_free(&s);
    sample_free(&v);
    sample_free(&p);
    return right;
}

static void test_scans(void)
{
    bool sums = true, products = true, logs = true, extremes = true;
    for (int i = 0; i < 600; i++) {
        sums &= scans_right(SCAN_SUM, (bk_dtype)(i % BK_DTYPE_COUNT));
        products &= scans_right(SCAN_PROD, (bk_dtype)(i % BK_DTYPE_COUNT));
        logs &= scans_right(SCAN_LOGSUMEXP, (bk_dtype)(i % 2));
        extremes &= running_extremes_right(i & 1, (bk_dtype)(i / 2 % BK_DTYPE_COUNT));
    }
    tap_ok(sums, "cumsum along any dimension of any dtype agrees with a plain loop");
    tap_ok(products, "cumprod along any dimension of any dtype agrees with a plain loop");
    tap_ok(logs, "logcumsumexp agrees with log of summed exps");
    tap_ok(extremes, "cummax and cummin name the last of equal extremes, and NaN stays");
}

int main(void)
{
    test_kinds();
    test_large();
    test_moments();
    test_accuracy();
    test_rows();
    test_scans();
    return tap_done();
}
