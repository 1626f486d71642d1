/* rows_loops.h: the row kernels, included once per type with T and NAME.
 *
 * Sums are taken in T over SLICE elements in LANES interleaved parts, slices in double: the order is the same at every
 * ISA level. `to` may be x or g: every element is read before it is written, and sums before all of them. */

/* The sum of `term`, a value made of x[k] and g[k]. */
#define SUM(fn, term)                                                                                                  \
    static double NAME(fn)(int64_t n, const T *x, const T *g, T mean)                                                  \
    {                                                                                                                  \
        double all = 0;                                                                                                \
        (void)g, (void)mean;                                                                                           \
        for (int64_t first = 0, last; first < n; first = last) {                                                       \
            last = n - first < SLICE ? n : first + SLICE;                                                              \
            T sum[LANES] = { 0 };                                                                                      \
            int64_t i = first;                                                                                         \
            for (; i + LANES <= last; i += LANES)                                                                      \
                for (int j = 0; j < LANES; j++) {                                                                      \
                    int64_t k = i + j;                                                                                 \
                    sum[j] += term;                                                                                    \
                }                                                                                                      \
            for (int64_t k = i; k < last; k++)                                                                         \
                sum[k - i] += term;                                                                                    \
            for (int half = LANES / 2; half; half /= 2)                                                                \
                for (int j = 0; j < half; j++)                                                                         \
                    sum[j] += sum[j + half];                                                                           \
            all += (double)sum[0];                                                                                     \
        }                                                                                                              \
        return all;                                                                                                    \
    }
SUM(sum_of, x[k])
SUM(sum_of_squares, (x[k] - mean) * (x[k] - mean))
SUM(sum_of_products, g[k] * (x[k] - mean))
#undef SUM

/* 1 / sqrt(the mean square of x - mean, plus eps) */
static T NAME(scale_of)(int64_t n, const T *x, T mean, double eps)
{
    return (T)(1 / __builtin_sqrt(NAME(sum_of_squares)(n, x, x, mean) / (double)n + eps));
}

static void NAME(combine)(int64_t n, T *to, const T *x, const T *g, T mean, T less, T more, T s)
{
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++) to[k] = (g[k] - less - (x[k] - mean) * more) * s;
}

static void NAME(means)(int64_t n, int count, void *const *x, T *mean)
{
    for (int r = 0; r < count; r++)
        mean[r] = (T)(NAME(sum_of)(n, x[r], x[r], 0) / (double)n);
}

static void NAME(scaled)(int64_t n, int count, void *const *to, void *const *from, const T *mean, double eps)
{
    T s[ROWS_TOGETHER];
    for (int r = 0; r < count; r++)
        s[r] = NAME(scale_of)(n, from[r], mean[r], eps);
    for (int r = 0; r < count; r++) {
        T *y = to[r];
        const T *x = from[r];
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++) y[k] = (x[k] - mean[r]) * s[r];
    }
}

/* s (g - less - y more / n), y = (x - mean) s and more = sum(g y) */
static void NAME(scaled_back)(int64_t n, int count, void *const *to, void *const *x, void *const *g, const T *mean,
                              const T *less, double eps)
{
    T s[ROWS_TOGETHER], more[ROWS_TOGETHER];
    for (int r = 0; r < count; r++)
        s[r] = NAME(scale_of)(n, x[r], mean[r], eps);
    for (int r = 0; r < count; r++)
        more[r] = (T)(NAME(sum_of_products)(n, x[r], g[r], mean[r]) / (double)n * (double)s[r] * (double)s[r]);
    for (int r = 0; r < count; r++)
        NAME(combine)(n, to[r], x[r], g[r], mean[r], less[r], more[r], s[r]);
}

static void NAME(standardise)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps)
{
    T mean[ROWS_TOGETHER];
    (void)g;
    NAME(means)(n, count, x, mean);
    NAME(scaled)(n, count, to, x, mean, eps);
}

static void NAME(standardise_back)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps)
{
    T mean[ROWS_TOGETHER], less[ROWS_TOGETHER];
    NAME(means)(n, count, x, mean);
    NAME(means)(n, count, g, less);
    NAME(scaled_back)(n, count, to, x, g, mean, less, eps);
}

static void NAME(unit)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps)
{
    (void)g;
    NAME(scaled)(n, count, to, x, (T[ROWS_TOGETHER]){ 0 }, eps);
}

static void NAME(unit_back)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps)
{
    NAME(scaled_back)(n, count, to, x, g, (T[ROWS_TOGETHER]){ 0 }, (T[ROWS_TOGETHER]){ 0 }, eps);
}

/* Of a row of NaN nothing: the greatest number, which makes a NaN of what it is taken from where it is infinite. */
static T NAME(greatest)(int64_t n, const T *x)
{
    T top[LANES];
    for (int j = 0; j < LANES; j++)
        top[j] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            top[j] = x[i + j] > top[j] ? x[i + j] : top[j];
    for (int64_t k = i; k < n; k++)
        top[k - i] = x[k] > top[k - i] ? x[k] : top[k - i];
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            top[j] = top[j + half] > top[j] ? top[j + half] : top[j];
    return top[0];
}

static void NAME(softmax)(int64_t n, int count, void *const *to_, void *const *x_, void *const *g, double eps)
{
    T top[ROWS_TOGETHER], sum[ROWS_TOGETHER];
    (void)g, (void)eps;
    for (int r = 0; r < count; r++)
        top[r] = NAME(greatest)(n, x_[r]);
    for (int r = 0; r < count; r++) {
        T *to = to_[r];
        const T *x = x_[r];
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++) to[k] = v_exp(x[k] - top[r]);
    }
    for (int r = 0; r < count; r++)
        sum[r] = (T)NAME(sum_of)(n, to_[r], to_[r], 0);
    for (int r = 0; r < count; r++) {
        T *to = to_[r];
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++) to[k] /= sum[r];
    }
}

static void NAME(softmax_back)(int64_t n, int count, void *const *to_, void *const *x_, void *const *g_, double eps)
{
    T sum[ROWS_TOGETHER];
    (void)eps;
    for (int r = 0; r < count; r++)
        sum[r] = (T)NAME(sum_of_products)(n, x_[r], g_[r], 0);
    for (int r = 0; r < count; r++) {
        T *to = to_[r];
        const T *x = x_[r], *g = g_[r];
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++) to[k] = x[k] * (g[k] - sum[r]);
    }
}
