/* reduce_loops.h: the reductions of one dtype; reduce_kernels.c includes it once for each.
 *
 * Parameters: DTYPE; N(name) makes a name of this dtype; HELD is the element in memory; FAMILY says what it computes
 * in; WIDEN makes lanes of a loaded vector. From the family follow LANE, what vectors compute in, BITS, the type they
 * add in (unsigned for integers: they wrap), MASK, what comparing them gives, and ACC, in which blocks are joined. */

#if FAMILY == FLOAT_LANES || FAMILY == DOUBLE_LANES
#define ACC          double
#define WRAP         double
#define GET          element_double
#define LOWEST(t)    (-(t)INFINITY)
#define HIGHEST(t)   ((t)INFINITY)
#define IS_NAN(x)    ((x) != (x)) /* of elements and of vectors */
#define NONZERO_BITS (sizeof(MASK) == 4 ? (MASK)INT32_MAX : (MASK)INT64_MAX)
#else
#define ACC          int64_t
#define WRAP         uint64_t
#define GET          element_int
#define LOWEST(t)    (sizeof(t) == 4 ? (t)INT32_MIN : (t)INT64_MIN)
#define HIGHEST(t)   (sizeof(t) == 4 ? (t)INT32_MAX : (t)INT64_MAX)
#define IS_NAN(x)    0
#define NONZERO_BITS ((MASK) - 1)
#endif

#if FAMILY == FLOAT_LANES
#define LANE float
#define BITS float
#define MASK int32_t
#elif FAMILY == DOUBLE_LANES
#define LANE double
#define BITS double
#define MASK int64_t
#elif FAMILY == INT32_LANES
#define LANE int32_t
#define BITS uint32_t
#define MASK int32_t
#else
#define LANE int64_t
#define BITS uint64_t
#define MASK int64_t
#endif
#define NARROW (FAMILY == INT32_LANES) /* products of lanes do not fit */

typedef LANE N(vec) __attribute__((vector_size(VECTOR_BYTES)));
typedef BITS N(bits) __attribute__((vector_size(VECTOR_BYTES)));
typedef MASK N(mask) __attribute__((vector_size(VECTOR_BYTES)));
typedef HELD N(held) __attribute__((vector_size(VECTOR_BYTES / sizeof(LANE) * sizeof(HELD))));
enum { N(width) = VECTOR_BYTES / sizeof(LANE) };

/* --- one element, one vector ------------------------------------------------------------------------------- */

ELEMENT_INLINE ACC N(get)(reduce_kind kind, const char *p)
{
    if (kind == REDUCE_ANY || kind == REDUCE_ALL)
        return element_nonzero(DTYPE, p);
    return (ACC)GET(DTYPE, p);
}

ELEMENT_INLINE N(vec) N(load)(reduce_kind kind, const char *p)
{
    N(held) h;
    memcpy(&h, p, sizeof h);
    N(vec) x = WIDEN(N(vec), N(mask), h);
    if (kind == REDUCE_ANY || kind == REDUCE_ALL) /* all bits but the sign of a zero */
        x = (N(vec))((((N(mask))x & NONZERO_BITS) != 0) & (N(mask))((N(vec)){ 0 } + 1));
    return x;
}

ELEMENT_INLINE ACC N(identity)(reduce_kind kind)
{
    switch (kind) {
    case REDUCE_SUM: return 0;
    case REDUCE_MAX: return LOWEST(ACC);
    case REDUCE_MIN: return HIGHEST(ACC);
    default: return kind != REDUCE_ANY;
    }
}

ELEMENT_INLINE ACC N(join)(reduce_kind kind, ACC a, ACC b)
{
    switch (kind) {
    case REDUCE_SUM: return (ACC)((WRAP)a + (WRAP)b);
    case REDUCE_PROD: return (ACC)((WRAP)a * (WRAP)b);
    case REDUCE_MAX:
    case REDUCE_ANY: return ((a > b) | IS_NAN(a)) ? a : b;
    default: return ((a < b) | IS_NAN(a)) ? a : b;
    }
}

ELEMENT_INLINE N(vec) N(join_vec)(reduce_kind kind, N(vec) a, N(vec) b)
{
    if (kind == REDUCE_SUM)
        return (N(vec))((N(bits))a + (N(bits))b);
    if (kind == REDUCE_PROD)
        return (N(vec))((N(bits))a * (N(bits))b);
    N(mask) first = kind == REDUCE_MAX || kind == REDUCE_ANY ? a > b : a < b;
    first |= IS_NAN(a);
    return (N(vec))(((N(mask))a & first) | ((N(mask))b & ~first));
}

ELEMENT_INLINE ACC N(across)(reduce_kind kind, N(vec) v)
{
    ACC lane[N(width)];
    for (int i = 0; i < N(width); i++)
        lane[i] = (ACC)v[i];
    for (int half = N(width) / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = N(join)(kind, lane[i], lane[i + half]);
    return lane[0];
}

/* --- rows -------------------------------------------------------------------------------------------------- */

ELEMENT_INLINE ACC N(strided)(reduce_kind kind, const char *p, int64_t n, int64_t step)
{
    ACC total = N(identity)(kind);
    for (int64_t i = 0; i < n; i++)
        total = N(join)(kind, total, N(get)(kind, p + i * step));
    return total;
}

/* A multiple of 4 vectors, at least one: four chains of lanes, so that their latency overlaps. */
ELEMENT_INLINE N(vec) N(block)(reduce_kind kind, const char *p, int64_t n)
{
    enum { V = N(width) * sizeof(HELD) };
    N(vec) a = N(load)(kind, p), b = N(load)(kind, p + V);
    N(vec) c = N(load)(kind, p + 2 * V), d = N(load)(kind, p + 3 * V);
    for (int64_t i = 4 * N(width); i < n; i += 4 * N(width)) {
        const char *q = p + i * (int64_t)sizeof(HELD);
        a = N(join_vec)(kind, a, N(load)(kind, q));
        b = N(join_vec)(kind, b, N(load)(kind, q + V));
        c = N(join_vec)(kind, c, N(load)(kind, q + 2 * V));
        d = N(join_vec)(kind, d, N(load)(kind, q + 3 * V));
    }
    return N(join_vec)(kind, N(join_vec)(kind, a, b), N(join_vec)(kind, c, d));
}

/* As many vectors as there are, at least one, in a chain. */
ELEMENT_INLINE N(vec) N(few)(reduce_kind kind, const char *p, int64_t n)
{
    N(vec) v = N(load)(kind, p);
    for (int64_t i = 2 * N(width); i <= n; i += N(width))
        v = N(join_vec)(kind, v, N(load)(kind, p + (i - N(width)) * (int64_t)sizeof(HELD)));
    return v;
}

/* Goes on from `total`: a row that comes in pieces of REDUCE_BLOCK gives what it gives as a whole. */
ELEMENT_INLINE ACC N(dense_on)(reduce_kind kind, ACC total, const char *p, int64_t n)
{
    enum { GROUP = 4 * N(width) };
    if (NARROW && kind == REDUCE_PROD)
        return N(join)(kind, total, N(strided)(kind, p, n, sizeof(HELD)));
    while (n >= GROUP) {
        int64_t m = n < REDUCE_BLOCK ? n / GROUP * GROUP : REDUCE_BLOCK;
        total = N(join)(kind, total, N(across)(kind, N(block)(kind, p, m)));
        p += m * (int64_t)sizeof(HELD);
        n -= m;
    }
    if (n >= N(width)) {
        total = N(join)(kind, total, N(across)(kind, N(few)(kind, p, n)));
        p += n / N(width) * (int64_t)sizeof(N(held));
        n %= N(width);
    }
    return N(join)(kind, total, N(strided)(kind, p, n, sizeof(HELD)));
}

ELEMENT_INLINE ACC N(dense)(reduce_kind kind, const char *p, int64_t n)
{
    return N(dense_on)(kind, N(identity)(kind), p, n);
}

/* Rows of a few elements: a constant length lets the compiler unroll, and rows overlap in the pipeline. */
ELEMENT_INLINE void N(short_rows)(reduce_kind kind, const char *p, int64_t outputs, int64_t output_step, int64_t n,
                                  int64_t step, ACC *a)
{
    for (int64_t o = 0; o < outputs; o++)
        a[o] = N(strided)(kind, p + o * output_step, n, step);
}

#if FAMILY == FLOAT_LANES && VECTOR_BYTES >= 32
typedef double N(eight) __attribute__((vector_size(64)));
typedef float N(half) __attribute__((vector_size(32)));

/* `across` of the sums of eight rows, added to total. */
ELEMENT_INLINE void N(across_eight)(const N(vec) * v, N(eight) * total)
{
    N(eight) row[8], two[4], four[2];
    for (int i = 0; i < 8; i++) {
        N(half) h[sizeof *v / sizeof(N(half))];
        memcpy(h, &v[i], sizeof h);
        row[i] = __builtin_convertvector(h[0], N(eight));
        if (sizeof h > sizeof *h)
            row[i] += __builtin_convertvector(h[sizeof h / sizeof *h - 1], N(eight));
    }
    for (int i = 0; i < 4; i++)
        two[i] = __builtin_shufflevector(row[2 * i], row[2 * i + 1], 0, 1, 2, 3, 8, 9, 10, 11) +
                 __builtin_shufflevector(row[2 * i], row[2 * i + 1], 4, 5, 6, 7, 12, 13, 14, 15);
    for (int i = 0; i < 2; i++)
        four[i] = __builtin_shufflevector(two[2 * i], two[2 * i + 1], 0, 1, 4, 5, 8, 9, 12, 13) +
                  __builtin_shufflevector(two[2 * i], two[2 * i + 1], 2, 3, 6, 7, 10, 11, 14, 15);
    *total += __builtin_shufflevector(four[0], four[1], 0, 2, 4, 6, 8, 10, 12, 14) +
              __builtin_shufflevector(four[0], four[1], 1, 3, 5, 7, 9, 11, 13, 15);
}

/* The sums of eight rows: what dense_on gives for each, but what is done across lanes is done for all at once. Of rows
 * of a few vectors that is most of the work. */
ELEMENT_INLINE void N(eight_rows)(const char *p, int64_t output_step, int64_t n, ACC *a)
{
    enum { GROUP = 4 * N(width) };
    N(eight) total = { 0 };
    N(vec) v[8];
    for (int64_t m; n >= N(width); p += m * (int64_t)sizeof(HELD), n -= m) {
        m = n >= GROUP ? n / GROUP * GROUP : n / N(width) * N(width);
        for (int i = 0; i < 8; i++)
            v[i] =
                n >= GROUP ? N(block)(REDUCE_SUM, p + i * output_step, m) : N(few)(REDUCE_SUM, p + i * output_step, m);
        N(across_eight)(v, &total);
    }
    for (int i = 0; i < 8; i++)
        a[i] = total[i] + N(strided)(REDUCE_SUM, p + i * output_step, n, sizeof(HELD));
}

/* How many of the rows were summed. */
ELEMENT_INLINE int64_t N(rows_by_eight)(reduce_kind kind, const char *p, int64_t outputs, int64_t output_step,
                                        int64_t n, int64_t step, int64_t before, ACC *a)
{
    enum { MANY = REDUCE_BLOCK / 2 }; /* elements of a row, of which the lanes are a small part */
    int64_t o = 0;
    if (kind == REDUCE_SUM && !before && step == sizeof(HELD) && n >= N(width) && n < MANY)
        for (; o + 8 <= outputs; o += 8)
            N(eight_rows)(p + o * output_step, output_step, n, a + o);
    return o;
}
#else
ELEMENT_INLINE int64_t N(rows_by_eight)(reduce_kind kind, const char *p, int64_t outputs, int64_t output_step,
                                        int64_t n, int64_t step, int64_t before, ACC *a)
{
    (void)kind, (void)p, (void)outputs, (void)output_step, (void)n, (void)step, (void)before, (void)a;
    return 0;
}
#endif

ELEMENT_INLINE void N(rows)(reduce_kind kind, const char *p, int64_t outputs, int64_t output_step, int64_t n,
                            int64_t step, int64_t before, ACC *a)
{
    if (kind == REDUCE_SUM && before == 0 && n == 2)
        N(short_rows)(kind, p, outputs, output_step, 2, step, a);
    else if (kind == REDUCE_SUM && before == 0 && n == 3)
        N(short_rows)(kind, p, outputs, output_step, 3, step, a);
    else if (before == 0 && n < N(width))
        N(short_rows)(kind, p, outputs, output_step, n, step, a);
    else
        for (int64_t o = N(rows_by_eight)(kind, p, outputs, output_step, n, step, before, a); o < outputs; o++) {
            const char *row = p + o * output_step;
            ACC start = before ? a[o] : N(identity)(kind);
            a[o] = step == sizeof(HELD) ? N(dense_on)(kind, start, row, n)
                                        : N(join)(kind, start, N(strided)(kind, row, n, step));
        }
}

/* --- columns ----------------------------------------------------------------------------------------------- */

/* lane[c] joined with four rows at once: a quarter of the traffic to the lanes, and a shorter chain of roundings. */
ELEMENT_INLINE void N(four_rows)(reduce_kind kind, const char *p, int64_t row_step, int64_t n, LANE *lane)
{
    const char *q = p + row_step, *r = q + row_step, *s = r + row_step;
    int64_t c = 0;
    for (; c + N(width) <= n; c += N(width)) {
        int64_t at = c * (int64_t)sizeof(HELD);
        N(vec) pq = N(join_vec)(kind, N(load)(kind, p + at), N(load)(kind, q + at));
        N(vec) rs = N(join_vec)(kind, N(load)(kind, r + at), N(load)(kind, s + at));
        N(vec) old;
        memcpy(&old, lane + c, sizeof old);
        old = N(join_vec)(kind, old, N(join_vec)(kind, pq, rs));
        memcpy(lane + c, &old, sizeof old);
    }
    for (; c < n; c++)
        for (int row = 0; row < 4; row++)
            lane[c] = (LANE)N(join)(kind, lane[c], N(get)(kind, p + row * row_step + c * (int64_t)sizeof(HELD)));
}

ELEMENT_INLINE void N(one_row)(reduce_kind kind, const char *p, int64_t n, int64_t step, LANE *lane)
{
    for (int64_t c = 0; c < n; c++)
        lane[c] = (LANE)N(join)(kind, lane[c], N(get)(kind, p + c * step));
}

/* At most REDUCE_TILE columns and REDUCE_ROWS rows, into fresh lanes. */
ELEMENT_INLINE void N(tile)(reduce_kind kind, const char *p, int64_t rows, int64_t row_step, int64_t n, int64_t step,
                            LANE *lane)
{
    for (int64_t c = 0; c < n; c++)
        lane[c] = kind == REDUCE_MAX ? LOWEST(LANE) : kind == REDUCE_MIN ? HIGHEST(LANE) : (LANE)N(identity)(kind);
    int64_t r = 0;
    for (; step == sizeof(HELD) && r + 4 <= rows; r += 4)
        N(four_rows)(kind, p + r * row_step, row_step, n, lane);
    for (; r < rows; r++)
        N(one_row)(kind, p + r * row_step, n, step, lane);
}

ELEMENT_INLINE void N(columns)(reduce_kind kind, const char *p, int64_t rows, int64_t row_step, int64_t n, int64_t step,
                               int64_t before, ACC *a)
{
    _Alignas(64) LANE lane[REDUCE_TILE];
    for (int64_t r = 0; r < rows; r += REDUCE_ROWS, before += REDUCE_ROWS) {
        int64_t m = rows - r < REDUCE_ROWS ? rows - r : REDUCE_ROWS;
        if (NARROW && kind == REDUCE_PROD) {
            for (int64_t c = 0; c < n; c++) {
                ACC column = N(strided)(kind, p + r * row_step + c * step, m, row_step);
                a[c] = before ? N(join)(kind, a[c], column) : column;
            }
            continue;
        }
        N(tile)(kind, p + r * row_step, m, row_step, n, step, lane);
        for (int64_t c = 0; c < n; c++)
            a[c] = before ? N(join)(kind, a[c], (ACC)lane[c]) : (ACC)lane[c];
    }
}

/* --- extremes with their places ---------------------------------------------------------------------------- */

ELEMENT_INLINE bool N(beats)(reduce_kind extreme, ACC x, ACC best)
{
    return (extreme == REDUCE_MAX ? x > best : x < best) | (IS_NAN(x) & !IS_NAN(best));
}

ELEMENT_INLINE void N(arg_strided)(reduce_kind extreme, const char *p, int64_t n, int64_t step, int64_t before, ACC *a,
                                   int64_t *b)
{
    ACC best = before ? *a : N(get)(extreme, p);
    int64_t place = before ? *b : 0;
    for (int64_t i = 0; i < n; i++) {
        ACC x = N(get)(extreme, p + i * step);
        bool beats = N(beats)(extreme, x, best);
        best = beats ? x : best;
        place = beats ? before + i : place;
    }
    *a = best;
    *b = place;
}

/* The extreme of each block by vectors; only in the last block that improved it is the place looked up. */
ELEMENT_INLINE void N(arg_dense)(reduce_kind extreme, const char *p, int64_t n, int64_t before, ACC *a, int64_t *b)
{
    int64_t found = -1;
    for (int64_t i = 0; i < n; i += ARG_BLOCK) {
        int64_t m = n - i < ARG_BLOCK ? n - i : ARG_BLOCK;
        ACC x = N(dense)(extreme, p + i * (int64_t)sizeof(HELD), m);
        if (before + i == 0 || N(beats)(extreme, x, *a)) {
            *a = x;
            found = i;
        }
    }
    if (found < 0)
        return;
    for (int64_t i = found;; i++) {
        ACC x = N(get)(extreme, p + i * (int64_t)sizeof(HELD));
        if (x == *a || IS_NAN(x)) {
            *b = before + i;
            return;
        }
    }
}

ELEMENT_INLINE void N(arg_rows)(reduce_kind extreme, const char *p, int64_t outputs, int64_t output_step, int64_t n,
                                int64_t step, int64_t before, ACC *a, int64_t *b)
{
    for (int64_t o = 0; o < outputs; o++, p += output_step)
        if (step == sizeof(HELD) && n >= 4 * N(width))
            N(arg_dense)(extreme, p, n, before, a + o, b + o);
        else
            N(arg_strided)(extreme, p, n, step, before, a + o, b + o);
}

/* Lanes of the extreme and of its row, for the compiler to vectorise: no branches. */
ELEMENT_INLINE void N(arg_tile)(reduce_kind extreme, const char *p, int64_t rows, int64_t row_step, int64_t n,
                                int64_t step, LANE *best, MASK *place)
{
    for (int64_t c = 0; c < n; c++) {
        best[c] = (LANE)GET(DTYPE, p + c * step);
        place[c] = 0;
    }
    for (int64_t r = 1; r < rows; r++)
        for (int64_t c = 0; c < n; c++) {
            LANE x = (LANE)GET(DTYPE, p + r * row_step + c * step), old = best[c];
            int beats = (extreme == REDUCE_MAX ? x > old : x < old) | (IS_NAN(x) & !IS_NAN(old));
            best[c] = beats ? x : old;
            place[c] = beats ? (MASK)r : place[c];
        }
}

ELEMENT_INLINE void N(arg_columns)(reduce_kind extreme, const char *p, int64_t rows, int64_t row_step, int64_t n,
                                   int64_t step, int64_t before, ACC *a, int64_t *b)
{
    LANE best[REDUCE_TILE];
    MASK place[REDUCE_TILE];
    for (int64_t r = 0; r < rows; r += REDUCE_ROWS, before += REDUCE_ROWS) {
        int64_t m = rows - r < REDUCE_ROWS ? rows - r : REDUCE_ROWS;
        if (step == sizeof(HELD))
            N(arg_tile)(extreme, p + r * row_step, m, row_step, n, sizeof(HELD), best, place);
        else
            N(arg_tile)(extreme, p + r * row_step, m, row_step, n, step, best, place);
        for (int64_t c = 0; c < n; c++)
            if (before == 0 || N(beats)(extreme, (ACC)best[c], a[c])) {
                a[c] = (ACC)best[c];
                b[c] = before + place[c];
            }
    }
}

/* --- moments ----------------------------------------------------------------------------------------------- */

#if FAMILY == FLOAT_LANES || FAMILY == DOUBLE_LANES

/* Squares of differences from a centre near the mean, corrected for the distance: no cancellation. */
ELEMENT_INLINE double N(spread)(const char *p, int64_t n, LANE centre)
{
    int64_t i = 0;
    N(vec) a = { 0 }, b = { 0 };
    for (; i + 2 * N(width) <= n; i += 2 * N(width)) {
        N(vec) x = N(load)(REDUCE_SUM, p + i * (int64_t)sizeof(HELD)) - centre;
        N(vec) y = N(load)(REDUCE_SUM, p + (i + N(width)) * (int64_t)sizeof(HELD)) - centre;
        a += x * x;
        b += y * y;
    }
    double total = N(across)(REDUCE_SUM, a + b);
    for (; i < n; i++) {
        double x = GET(DTYPE, p + i * (int64_t)sizeof(HELD)) - centre;
        total += x * x;
    }
    return total;
}

ELEMENT_INLINE double N(spread_strided)(const char *p, int64_t n, int64_t step, LANE centre)
{
    double total = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = GET(DTYPE, p + i * step) - centre;
        total += x * x;
    }
    return total;
}

static void N(moment_rows)(const char *p, int64_t outputs, int64_t output_step, int64_t n, int64_t step, int64_t before,
                           void *a, void *b)
{
    for (int64_t o = 0; o < outputs; o++, p += output_step)
        for (int64_t i = 0; i < n; i += REDUCE_BLOCK) {
            int64_t m = n - i < REDUCE_BLOCK ? n - i : REDUCE_BLOCK;
            const char *q = p + i * step;
            bool dense = step == sizeof(HELD);
            double mean = (dense ? N(dense)(REDUCE_SUM, q, m) : N(strided)(REDUCE_SUM, q, m, step)) / (double)m;
            LANE centre = (LANE)mean;
            double m2 = dense ? N(spread)(q, m, centre) : N(spread_strided)(q, m, step, centre);
            m2 -= (double)m * (mean - centre) * (mean - centre);
            moments_join((double *)a + o, (double *)b + o, before + i, mean, m2, m);
        }
}

static void N(moment_columns)(const char *p, int64_t rows, int64_t row_step, int64_t n, int64_t step, int64_t before,
                              void *a, void *b)
{
    LANE mean[REDUCE_TILE], m2[REDUCE_TILE];
    for (int64_t r = 0; r < rows; r += MOMENT_ROWS, before += MOMENT_ROWS) {
        int64_t m = rows - r < MOMENT_ROWS ? rows - r : MOMENT_ROWS;
        const char *q = p + r * row_step;
        N(tile)(REDUCE_SUM, q, m, row_step, n, step, mean);
        for (int64_t c = 0; c < n; c++) {
            mean[c] /= (LANE)m;
            m2[c] = 0;
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t c = 0; c < n; c++) {
                LANE x =
                    (LANE)GET(DTYPE, q + i * row_step + c * (step == sizeof(HELD) ? (int64_t)sizeof(HELD) : step)) -
                    mean[c];
                m2[c] += x * x;
            }
        for (int64_t c = 0; c < n; c++)
            moments_join((double *)a + c, (double *)b + c, before, mean[c], m2[c], m);
    }
}

#endif

#undef N
#undef DTYPE
#undef HELD
#undef FAMILY
#undef WIDEN
#undef LANE
#undef BITS
#undef MASK
#undef ACC
#undef WRAP
#undef GET
#undef LOWEST
#undef HIGHEST
#undef NARROW
#undef IS_NAN
#undef NONZERO_BITS
