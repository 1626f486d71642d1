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

/* The sums of g and of g (x - mean), as if each were taken by itself. */
static double NAME(sums_of_gradient)(int64_t n, const T *x, const T *g, T mean, double *less)
{
    double all = 0;
    *less = 0;
    for (int64_t first = 0, last; first < n; first = last) {
        last = n - first < SLICE ? n : first + SLICE;
        T sum[LANES] = { 0 }, product[LANES] = { 0 };
        int64_t i = first;
        for (; i + LANES <= last; i += LANES)
            for (int j = 0; j < LANES; j++) {
                sum[j] += g[i + j];
                product[j] += g[i + j] * (x[i + j] - mean);
            }
        for (int64_t k = i; k < last; k++) {
            sum[k - i] += g[k];
            product[k - i] += g[k] * (x[k] - mean);
        }
        for (int half = LANES / 2; half; half /= 2)
            for (int j = 0; j < half; j++) {
                sum[j] += sum[j + half];
                product[j] += product[j + half];
            }
        *less += (double)sum[0];
        all += (double)product[0];
    }
    return all;
}

/* 1 / sqrt(the mean square of x - mean, plus eps) */
static T NAME(scale_of)(int64_t n, const T *x, T mean, double eps)
{
    return (T)(1 / __builtin_sqrt(NAME(sum_of_squares)(n, x, x, mean) / (double)n + eps));
}

static void NAME(combine)(int64_t n, T *to, const T *x, const T *g, T mean, T less, T more, T s)
{
    EW_INDEPENDENT for (int64_t k = 0; k < n; k++) to[k] = (g[k] - less - (x[k] - mean) * more) * s;
}

static void NAME(moments)(int64_t n, int count, void *const *x, bool centred, double eps, const row_moments *m)
{
    T *mean = m->mean, *s = m->scale;
    if (m->known)
        return;
    for (int r = 0; r < count; r++)
        mean[r] = centred ? (T)(NAME(sum_of)(n, x[r], x[r], 0) / (double)n) : 0;
    for (int r = 0; r < count; r++)
        s[r] = NAME(scale_of)(n, x[r], mean[r], eps);
}

static void NAME(scaled)(int64_t n, int count, void *const *to, void *const *from, const row_moments *m)
{
    const T *mean = m->mean, *s = m->scale;
    for (int r = 0; r < count; r++) {
        T *y = to[r];
        const T *x = from[r];
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++) y[k] = (x[k] - mean[r]) * s[r];
    }
}

static void NAME(standardise)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps,
                              const row_moments *m)
{
    (void)g;
    NAME(moments)(n, count, x, true, eps, m);
    NAME(scaled)(n, count, to, x, m);
}

static void NAME(unit)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps,
                       const row_moments *m)
{
    (void)g;
    NAME(moments)(n, count, x, false, eps, m);
    NAME(scaled)(n, count, to, x, m);
}

/* s (g - less - y more / n), y = (x - mean) s and more = sum(g y) */
static void NAME(scaled_back)(int64_t n, int count, void *const *to, void *const *x, void *const *g, bool centred,
                              const row_moments *m)
{
    const T *mean = m->mean, *s = m->scale;
    T less[ROWS_TOGETHER] = { 0 }, more[ROWS_TOGETHER];
    for (int r = 0; r < count; r++) {
        double sum = 0, product = centred ? NAME(sums_of_gradient)(n, x[r], g[r], mean[r], &sum)
                                          : NAME(sum_of_products)(n, x[r], g[r], mean[r]);
        less[r] = (T)(sum / (double)n);
        more[r] = (T)(product / (double)n * (double)s[r] * (double)s[r]);
    }
    for (int r = 0; r < count; r++)
        NAME(combine)(n, to[r], x[r], g[r], mean[r], less[r], more[r], s[r]);
}

static void NAME(standardise_back)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps,
                                   const row_moments *m)
{
    NAME(moments)(n, count, x, true, eps, m);
    NAME(scaled_back)(n, count, to, x, g, true, m);
}

static void NAME(unit_back)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps,
                            const row_moments *m)
{
    NAME(moments)(n, count, x, false, eps, m);
    NAME(scaled_back)(n, count, to, x, g, false, m);
}

/* --- softmax ------------------------------------------------------------------------------------------------------
 *
 * Rows are short more often than not: whole stretches of LANES have loops of constant length, and the last of a row is
 * copied to where it can be filled up. */

enum { NAME(WIDE) = LINE_BYTES / sizeof(T), NAME(LINES) = LANES / NAME(WIDE) };

ROW_INLINE void NAME(keep_greater)(T *top, const T *x, const int n)
{
    for (int j = 0; j < n; j++)
        top[j] = x[j] > top[j] ? x[j] : top[j];
}

/* The `n` elements there are, fewer than LANES, and a filler. */
ROW_INLINE void NAME(fill_up)(T *all, const T *x, int64_t n, T filler)
{
    for (int j = 0; j < LANES; j++)
        all[j] = filler;
    memcpy(all, x, (size_t)n * sizeof(T));
}

/* Of a row of NaN nothing: the greatest number, which makes a NaN of what it is taken from where it is infinite. */
ROW_INLINE T NAME(greatest)(int64_t n, const T *x)
{
    T top[LANES], rest[LANES];
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        top[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        NAME(keep_greater)(top, x + i, LANES);
    if (i < n) {
        NAME(fill_up)(rest, x + i, n - i, -INFINITY);
        NAME(keep_greater)(top, rest, LANES);
    }
    NAME(keep_greater)(top, top + 32, 32);
    NAME(keep_greater)(top, top + 16, 16);
    NAME(keep_greater)(top, top + 8, 8);
    NAME(keep_greater)(top, top + 4, 4);
    NAME(keep_greater)(top, top + 2, 2);
    return top[1] > top[0] ? top[1] : top[0];
}

ROW_INLINE void NAME(add_lanes)(NAME(line) * sum, const T *x)
{
    for (int l = 0; l < NAME(LINES); l++)
        sum[l] += *(const NAME(loose) *)(x + l * NAME(WIDE));
}

/* The lanes, half by half. */
ROW_INLINE double NAME(joined)(NAME(line) * sum)
{
    for (int l = 0; l < NAME(LINES) / 2; l++)
        sum[l] += sum[l + NAME(LINES) / 2];
    for (int l = 0; l < NAME(LINES) / 4; l++)
        sum[l] += sum[l + NAME(LINES) / 4];
    if (NAME(LINES) == 8)
        sum[0] += sum[1];
    return (double)NAME(line_sum)(sum);
}

ROW_INLINE void NAME(exp_lanes)(T *to, const T *x, T top, const int n)
{
    EW_INDEPENDENT for (int j = 0; j < n; j++) to[j] = v_exp(x[j] - top);
}

/* exp(x - top), and the sum of it. */
ROW_INLINE double NAME(exp_row)(int64_t n, T *to, const T *x, T top)
{
    double all = 0;
    for (int64_t i = 0, last; i < n; i = last) {
        last = n - i < SLICE ? n : i + SLICE;
        NAME(line) sum[NAME(LINES)] = { { 0 } };
        T rest[LANES];
        for (; i + LANES <= last; i += LANES) {
            NAME(exp_lanes)(to + i, x + i, top, LANES);
            NAME(add_lanes)(sum, to + i);
        }
        if (i < last) {
            NAME(fill_up)(rest, x + i, last - i, top);
            for (int j = 0; j < last - i; j += NAME(WIDE))
                NAME(exp_lanes)(rest + j, rest + j, top, NAME(WIDE));
            memcpy(to + i, rest, (size_t)(last - i) * sizeof(T));
            NAME(fill_up)(rest, to + i, last - i, 0);
            NAME(add_lanes)(sum, rest);
        }
        all += NAME(joined)(sum);
    }
    return all;
}

static void NAME(softmax_row)(int64_t n, void *to_, const void *x, const void *g, double eps)
{
    T *to = to_, sum = (T)NAME(exp_row)(n, to, x, NAME(greatest)(n, x));
    int64_t i = 0;
    (void)g, (void)eps;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l += NAME(WIDE))
            *(NAME(loose) *)(to + i + l) /= sum;
    EW_INDEPENDENT for (int64_t k = i; k < n; k++) to[k] /= sum;
}

ROW_INLINE double NAME(product_row)(int64_t n, const T *x, const T *g)
{
    double all = 0;
    for (int64_t i = 0, last; i < n; i = last) {
        last = n - i < SLICE ? n : i + SLICE;
        NAME(line) sum[NAME(LINES)] = { { 0 } };
        T rest[LANES];
        for (; i + LANES <= last; i += LANES)
            for (int l = 0; l < NAME(LINES); l++)
                sum[l] +=
                    *(const NAME(loose) *)(g + i + l * NAME(WIDE)) * *(const NAME(loose) *)(x + i + l * NAME(WIDE));
        if (i < last) {
            for (int j = 0; j < LANES; j++)
                rest[j] = 0;
            for (int64_t k = i; k < last; k++)
                rest[k - i] = g[k] * x[k];
            NAME(add_lanes)(sum, rest);
        }
        all += NAME(joined)(sum);
    }
    return all;
}

static void NAME(softmax_back_row)(int64_t n, void *to_, const void *x_, const void *g_, double eps)
{
    T *to = to_;
    const T *x = x_, *g = g_, sum = (T)NAME(product_row)(n, x, g);
    int64_t i = 0;
    (void)eps;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l += NAME(WIDE))
            *(NAME(loose) *)(to + i + l) =
                *(const NAME(loose) *)(x + i + l) * (*(const NAME(loose) *)(g + i + l) - sum);
    EW_INDEPENDENT for (int64_t k = i; k < n; k++) to[k] = x[k] * (g[k] - sum);
}

static void NAME(softmax)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps,
                          const row_moments *m)
{
    (void)m;
    for (int r = 0; r < count; r++)
        NAME(softmax_row)(n, to[r], x[r], g[r], eps);
}

static void NAME(softmax_back)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps,
                               const row_moments *m)
{
    (void)m;
    for (int r = 0; r < count; r++)
        NAME(softmax_back_row)(n, to[r], x[r], g[r], eps);
}
