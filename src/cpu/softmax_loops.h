/* softmax_loops.h: the loops of softmax.c, included once per compute type with T and NAME.
 *
 * Sums are taken in T over SLICE elements in LANES interleaved parts, slices in double: the order never changes. A NaN
 * or an infinite maximum makes every x - top a NaN, and so the sum. */

static T NAME(greatest)(const T *x, int64_t n)
{
    T top[LANES];
    for (int j = 0; j < LANES; j++)
        top[j] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            top[j] = x[i + j] > top[j] ? x[i + j] : top[j];
    for (; i < n; i++)
        top[0] = x[i] > top[0] ? x[i] : top[0];
    for (int j = 1; j < LANES; j++)
        top[0] = top[j] > top[0] ? top[j] : top[0];
    return top[0];
}

static T NAME(total)(const T *x, int64_t n)
{
    T sum[LANES] = { 0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            sum[j] += x[i + j];
    for (; i < n; i++)
        sum[0] += x[i];
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

/* One dense lane; y may be x. */
static void NAME(lane)(const softmax *s, void *to, const void *from, int64_t n)
{
    const T *x = from;
    T *y = to, top = NAME(greatest)(x, n), part[SLICE];
    double sum = 0;
    for (int64_t i = 0; i < n; i += SLICE) {
        int64_t m = n - i < SLICE ? n - i : SLICE;
        T *e = s->log ? part : y + i;
        for (int64_t j = 0; j < m; j++)
            e[j] = x[i + j] - top;
        s->exp(m, e, e, e, e);
        sum += (double)NAME(total)(e, m);
    }
    T last = s->log ? (T)log(sum) : (T)sum;
    if (s->log)
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] - top - last;
    else
        for (int64_t i = 0; i < n; i++)
            y[i] /= last;
}

/* `lanes` dense neighbours, n elements each at byte steps. */
static void NAME(abreast)(const softmax *s, char *to, const char *from, int64_t lanes)
{
    T top[ABREAST], part[ABREAST];
    double sum[ABREAST] = { 0 };
    memcpy(top, from, (size_t)lanes * sizeof(T));
    for (int64_t i = 1; i < s->n; i++) {
        const T *x = (const T *)(from + i * s->from_step);
        for (int64_t j = 0; j < lanes; j++)
            top[j] = x[j] > top[j] ? x[j] : top[j];
    }
    for (int64_t i = 0; i < s->n; i++) {
        const T *x = (const T *)(from + i * s->from_step);
        T *e = s->log ? part : (T *)(to + i * s->to_step);
        for (int64_t j = 0; j < lanes; j++)
            e[j] = x[j] - top[j];
        s->exp(lanes, e, e, e, e);
        for (int64_t j = 0; j < lanes; j++)
            sum[j] += (double)e[j];
    }
    for (int64_t j = 0; j < lanes; j++)
        part[j] = s->log ? (T)log(sum[j]) : (T)sum[j];
    for (int64_t i = 0; i < s->n; i++) {
        const T *x = (const T *)(from + i * s->from_step);
        T *y = (T *)(to + i * s->to_step);
        for (int64_t j = 0; j < lanes; j++)
            y[j] = s->log ? x[j] - top[j] - part[j] : y[j] / part[j];
    }
}
