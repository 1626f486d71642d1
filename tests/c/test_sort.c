/* test_sort.c: sorting, selection, unique values and counting against plain loops. */
#include "cpu/sort.h"
#include "sample.h"
#include "tap.h"

static bool before(double a, double b) { return (isnan(b) && !isnan(a)) || a < b; }

/* One lane of a sample: its flat indices, start + i * step. */
typedef struct lane {
    int64_t start, step, n;
} lane;

static lane lane_of(const view *v, int dim, int64_t which)
{
    lane l = { 0, 1, v->sizes[dim] };
    for (int d = dim + 1; d < v->ndim; d++)
        l.step *= v->sizes[d];
    l.start = which / l.step * l.step * l.n + which % l.step;
    return l;
}

/* Stable insertion of indices: the order that a sort has to give. */
static void sorted_indices(const view *v, lane l, bool descending, int64_t *index)
{
    for (int64_t i = 0; i < l.n; i++) {
        double x = view_double(v, l.start + i * l.step);
        int64_t j = i;
        for (; j > 0; j--) {
            double y = view_double(v, l.start + index[j - 1] * l.step);
            if (descending ? !before(y, x) : !before(x, y))
                break;
            index[j] = index[j - 1];
        }
        index[j] = i;
    }
}

static bool orders_right(bk_dtype t, int64_t length, int mode)
{
    int64_t sizes[3] = { sample_int(1, 3), sample_int(1, 3), sample_int(1, 3) };
    int dim = (int)sample_int(0, 2);
    sizes[dim] = length;
    bool descending = sample_int(0, 1);
    sort_ties ties = sample_int(0, 1) ? TIES_STABLE : TIES_AS_PYTORCH;
    int64_t k = mode == 0 ? length : mode == 1 ? sample_int(0, length) : 1;
    int64_t out[3] = { sizes[0], sizes[1], sizes[2] }, *index = malloc((size_t)length * 8);
    out[dim] = k;
    sample s = sample_make(t, 3, sizes, sample_int(0, 1), true);
    sample v = sample_make(t, 3, out, false, false), p = sample_make(BK_INT64, 3, out, false, false);
    int64_t kth = sample_int(0, length - 1), lanes = view_numel(&s.v) / length;
    bool stable = mode == 3 || (mode == 0 && ties == TIES_STABLE); /* of others the order of equals is PyTorch's */
    bool right = (mode == 0   ? sort_run(&v.v, &p.v, &s.v, dim, descending, ties)
                  : mode == 1 ? topk_run(&v.v, &p.v, &s.v, k, dim, descending, true)
                  : mode == 2 ? kth_run(&v.v, &p.v, &s.v, kth, dim)
                              : median_run(&v.v, &p.v, &s.v, dim, false)) == 0;
    for (int64_t which = 0; which < lanes; which++) {
        lane l = lane_of(&s.v, dim, which), o = lane_of(&v.v, dim, which);
        sorted_indices(&s.v, l, mode < 2 && descending, index);
        int64_t first = mode == 2 ? kth : mode == 3 ? (length - 1) / 2 : 0;
        if (mode == 3 && isnan(view_double(&s.v, l.start + index[length - 1] * l.step)))
            for (first = 0; !isnan(view_double(&s.v, l.start + index[first] * l.step)); first++)
                ;
        for (int64_t i = 0; i < k; i++) {
            int64_t expected = index[first + i], at = view_int(&p.v, o.start + i * o.step);
            double x = view_double(&s.v, l.start + expected * l.step), y = view_double(&s.v, l.start + at * l.step);
            right &= stable ? at == expected : x == y || (isnan(x) && isnan(y));
            right &= same_double(view_double(&v.v, o.start + i * o.step), y);
        }
    }
    free(index);
    sample_free(&s);
    sample_free(&v);
    sample_free(&p);
    return right;
}

static void test_orders(void)
{
    static const char *const names[] = {
        "sort gives the order with NaN last, stable where asked, for any dtype and strides",
        "topk gives the first k of the order", "kthvalue gives the k-th of the order",
        "median gives the lower median, or the first NaN"
    };
    for (int mode = 0; mode < 4; mode++) {
        bool right = true;
        for (int i = 0; i < 600; i++)
            right &= orders_right((bk_dtype)(i % BK_DTYPE_COUNT),
                                  i % 20 == 7 ? sample_int(200, 1500) : sample_int(1, 90), mode);
        tap_ok(right, "%s", names[mode]);
    }
}

static void test_wide_values(void)
{
    int64_t n = 20000;
    double *x = malloc((size_t)n * 8), *y = malloc((size_t)n * 8);
    bool right = true;
    for (int64_t i = 0; i < n; i++)
        x[i] = ldexp((double)(int64_t)sample_bits(), (int)sample_int(-900, 900));
    view src = { (char *)x, BK_FLOAT64, 1, { n }, { 1 } }, dst = { (char *)y, BK_FLOAT64, 1, { n }, { 1 } };
    sort_run(&dst, NULL, &src, 0, false, TIES_STABLE);
    for (int64_t i = 1; i < n; i++)
        right &= y[i - 1] <= y[i];
    tap_ok(right, "doubles of all magnitudes come out ascending");
    int64_t *a = (int64_t *)x, *b = (int64_t *)y;
    right = true;
    for (int64_t i = 0; i < n; i++)
        a[i] = (int64_t)sample_bits();
    src.dtype = dst.dtype = BK_INT64;
    sort_run(&dst, NULL, &src, 0, true, TIES_STABLE);
    for (int64_t i = 1; i < n; i++)
        right &= b[i - 1] >= b[i];
    tap_ok(right, "int64 of all magnitudes come out descending");
    free(x);
    free(y);
}

static bool unique_right(bk_dtype t, bool consecutive)
{
    int64_t n = sample_int(0, 300);
    sample s = sample_make(t, 1, &n, sample_int(0, 1), false), v = sample_make(t, 1, &n, true, false);
    sample inverse = sample_make(BK_INT64, 1, &n, false, false), counts = sample_make(BK_INT64, 1, &n, false, false);
    int64_t found = unique_run(&v.v, &inverse.v, &counts.v, &s.v, consecutive), total = 0;
    bool right = found <= n && (found > 0) == (n > 0);
    for (int64_t i = 0; i < n; i++)
        right &= view_double(&v.v, view_int(&inverse.v, i)) == view_double(&s.v, i);
    for (int64_t k = 0; k < found; k++) {
        int64_t members = 0;
        for (int64_t i = 0; i < n; i++)
            members += view_int(&inverse.v, i) == k;
        total += members;
        right &= members == view_int(&counts.v, k);
        right &= k == 0 || (consecutive ? view_double(&v.v, k - 1) != view_double(&v.v, k)
                                        : view_double(&v.v, k - 1) < view_double(&v.v, k));
    }
    sample_free(&s);
    sample_free(&v);
    sample_free(&inverse);
    sample_free(&counts);
    return right && total == n;
}

static void test_unique(void)
{
    bool sorted = true, consecutive = true;
    for (int i = 0; i < 300; i++) {
        sorted &= unique_right((bk_dtype)(i % BK_DTYPE_COUNT), false);
        consecutive &= unique_right((bk_dtype)(i % BK_DTYPE_COUNT), true);
    }
    tap_ok(sorted, "unique values ascend, and inverse and counts lead back to the source");
    tap_ok(consecutive, "unique_consecutive drops repeats of the element before");
}

static void test_search(void)
{
    bool right = true;
    for (int i = 0; i < 300; i++) {
        bk_dtype t = (bk_dtype)(i % BK_DTYPE_COUNT);
        int64_t sizes[2] = { sample_int(1, 4), sample_int(0, 40) }, wanted[2] = { sizes[0], sample_int(0, 30) };
        bool after = sample_int(0, 1);
        sample rows = sample_make(t, 2, sizes, false, false), sorted = sample_make(t, 2, sizes, false, false);
        sample v = sample_make(t, 2, wanted, false, false), d = sample_make(BK_INT64, 2, wanted, false, false);
        sort_run(&sorted.v, NULL, &rows.v, 1, false, TIES_STABLE);
        searchsorted_run(&d.v, &sorted.v, &v.v, after);
        for (int64_t k = 0, n = view_numel(&v.v); k < n; k++) {
            int64_t row = k / wanted[1], expected = 0;
            for (int64_t j = 0; j < sizes[1]; j++) {
                double x = view_double(&sorted.v, row * sizes[1] + j), y = view_double(&v.v, k);
                expected += after ? x <= y : x < y;
            }
            right &= view_int(&d.v, k) == expected;
        }
        sample_free(&rows);
        sample_free(&sorted);
        sample_free(&v);
        sample_free(&d);
    }
    tap_ok(right, "searchsorted finds the place before or after equals, row by row");
}

static void test_counts(void)
{
    int64_t values[] = { 3, 0, 3, 1, 3 }, counts[4] = { 0 };
    double weights[] = { 0.5, 1, 2, 3, 4 }, sums[4] = { 0 }, bins[4] = { 0 };
    double x[] = { 0, 0.99, 1, 2.5, 4, -1, 5, NAN };
    view v = { (char *)values, BK_INT64, 1, { 5 }, { 1 } }, c = { (char *)counts, BK_INT64, 1, { 4 }, { 1 } };
    view w = { (char *)weights, BK_FLOAT64, 1, { 5 }, { 1 } }, s = { (char *)sums, BK_FLOAT64, 1, { 4 }, { 1 } };
    bincount_run(&c, &v, NULL);
    bincount_run(&s, &v, &w);
    tap_ok(counts[0] == 1 && counts[1] == 1 && counts[2] == 0 && counts[3] == 3, "bincount counts each value");
    tap_ok(sums[0] == 1 && sums[1] == 3 && sums[3] == 6.5, "bincount adds weights");
    view h = { (char *)bins, BK_FLOAT64, 1, { 4 }, { 1 } }, data = { (char *)x, BK_FLOAT64, 1, { 8 }, { 1 } };
    histc_run(&h, &data, 0, 4);
    tap_ok(bins[0] == 2 && bins[1] == 1 && bins[2] == 1 && bins[3] == 1, "histc counts both ends and nothing outside");
}

int main(void)
{
    test_orders();
    test_wide_values();
    test_unique();
    test_search();
    test_counts();
    return tap_done();
}
