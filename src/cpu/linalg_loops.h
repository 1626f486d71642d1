/* linalg_loops.h: the loops of linalg_kernels.c, included once per type with T, SQRT, ABS and NAME.
 *
 * Every inner loop adds a multiple of one row to another: rows have no gaps, so it runs on whole vectors, and no sum
 * changes its order with the length of a vector. */

/* to -= factor * from */
static inline void NAME(subtract)(T *restrict to, const T *restrict from, T factor, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        to[j] -= factor * from[j];
}

static void NAME(exchange)(T *a, T *b, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        T kept = a[j];
        a[j] = b[j];
        b[j] = kept;
    }
}

/* The greatest number of a column is looked for while the column is made: its lines are in L1 then. */
static void NAME(lu)(void *matrix, int64_t rows, int64_t stride, int64_t first, int64_t count, int32_t *pivots)
{
    T *a = matrix;
    int64_t end = first + count, pivot = first;
    for (int64_t i = first + 1; i < rows; i++)
        if (ABS(a[i * stride + first]) > ABS(a[pivot * stride + first]))
            pivot = i;
    for (int64_t k = first; k < end; k++) {
        pivots[k] = (int32_t)pivot + 1;
        if (pivot != k)
            NAME(exchange)(a + k * stride, a + pivot * stride, stride);
        T top = a[k * stride + k], greatest = -1;
        pivot = k + 1;
        for (int64_t i = k + 1; i < rows; i++) {
            T *row = a + i * stride + k;
            if (top != 0)
                NAME(subtract)(row + 1, a + k * stride + k + 1, row[0] /= top, end - k - 1);
            if (k + 1 < end && ABS(row[1]) > greatest) {
                greatest = ABS(row[1]);
                pivot = i;
            }
        }
    }
}

static int NAME(cholesky)(void *matrix, int64_t n, int64_t stride)
{
    T *u = matrix;
    for (int64_t k = 0; k < n; k++) {
        T *row = u + k * stride, square = row[k];
        if (!(square > 0)) { /* not positive-definite: nothing below is of use */
            for (int64_t i = k; i < n; i++)
                u[i * stride + i] = (T)NAN;
            return -1;
        }
        T root = row[k] = SQRT(square);
        for (int64_t j = k + 1; j < n; j++)
            row[j] /= root;
        for (int64_t i = k + 1; i < n; i++)
            NAME(subtract)(u + i * stride + i, row + i, row[i], n - i);
    }
    return 0;
}

/* t x = x, the last or first row first. */
static void NAME(solve)(const void *triangle, int64_t n, int64_t t_stride, void *in_place, int64_t columns,
                        int64_t x_stride, bool upper, bool unit)
{
    const T *t = triangle;
    T *x = in_place;
    for (int64_t step = 0; step < n; step++) {
        int64_t k = upper ? n - 1 - step : step, first = upper ? 0 : k + 1, end = upper ? k : n;
        T *row = x + k * x_stride, diagonal = t[k * t_stride + k];
        for (int64_t j = 0; !unit && j < columns; j++)
            row[j] /= diagonal;
        for (int64_t i = first; i < end; i++)
            NAME(subtract)(x + i * x_stride, row, t[i * t_stride + k], columns);
    }
}

static void NAME(negate)(void *to, const void *from, int64_t stride, int64_t n, int64_t columns)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < columns; j++)
            ((T *)to)[i * columns + j] = -((const T *)from)[i * stride + j];
}

static void NAME(transpose)(void *to, const void *from, int64_t stride, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            ((T *)to)[j * n + i] = ((const T *)from)[i * stride + j];
}

/* The reflection I - tau v v^T, v[0] = 1, that sends x to a multiple of its first unit vector, which x[0] becomes.
 * Scaled, so that no square overflows. */
static T NAME(reflection)(T *x, int64_t stride, int64_t n, T *v)
{
    T largest = 0, sum = 0, alpha = x[0];
    for (int64_t i = 1; i < n; i++)
        largest = ABS(x[i * stride]) > largest ? ABS(x[i * stride]) : largest;
    v[0] = 1;
    if (n < 2 || largest == 0) {
        for (int64_t i = 1; i < n; i++)
            v[i] = 0;
        return 0;
    }
    largest = ABS(alpha) > largest ? ABS(alpha) : largest;
    for (int64_t i = 0; i < n; i++)
        sum += x[i * stride] / largest * (x[i * stride] / largest);
    T beta = largest * SQRT(sum);
    beta = alpha > 0 ? -beta : beta;
    for (int64_t i = 1; i < n; i++)
        v[i] = x[i * stride] / (alpha - beta);
    x[0] = beta;
    return (beta - alpha) / beta;
}

/* a -= tau v (v^T a), over rows of `width` numbers, `stride` apart. */
static void NAME(reflect)(T *a, int64_t stride, int64_t rows, int64_t width, const T *v, T tau, T *sums)
{
    for (int64_t j = 0; j < width; j++)
        sums[j] = 0;
    for (int64_t i = 0; i < rows; i++)
        NAME(subtract)(sums, a + i * stride, -v[i], width);
    for (int64_t i = 0; i < rows; i++)
        NAME(subtract)(a + i * stride, sums, tau * v[i], width);
}

static void NAME(qr)(void *matrix, int64_t rows, int64_t columns, void *product, int64_t q_columns, void *work)
{
    T *a = matrix, *q = product, *v = work, *sums = v + rows,
      *taus = sums + (columns > q_columns ? columns : q_columns);
    int64_t count = rows < columns ? rows : columns;
    for (int64_t k = 0; k < count; k++) {
        taus[k] = NAME(reflection)(a + k * columns + k, columns, rows - k, v);
        NAME(reflect)(a + k * columns + k + 1, columns, rows - k, columns - k - 1, v, taus[k], sums);
        for (int64_t i = 1; i < rows - k; i++) /* kept where R has zeros */
            a[(k + i) * columns + k] = v[i];
    }
    for (int64_t i = 0; i < rows * q_columns; i++)
        q[i] = i / q_columns == i % q_columns;
    for (int64_t k = count - 1; k >= 0; k--) {
        v[0] = 1;
        for (int64_t i = 1; i < rows - k; i++)
            v[i] = a[(k + i) * columns + k];
        NAME(reflect)(q + k * q_columns, q_columns, rows - k, q_columns, v, taus[k], sums);
    }
}

/* --- blocks of reflections ------------------------------------------------------------------------------------- */

static void NAME(reflections)(void *matrix, int64_t rows, int64_t stride, int64_t first, int64_t count, void *sizes,
                              void *work)
{
    T *a = matrix, *taus = sizes, *v = work, *sums = v + rows;
    for (int64_t k = first; k < first + count; k++) {
        taus[k] = NAME(reflection)(a + k * stride + k, stride, rows - k, v);
        NAME(reflect)(a + k * stride + k + 1, stride, rows - k, first + count - k - 1, v, taus[k], sums);
        for (int64_t i = 1; i < rows - k; i++) /* kept where R has zeros */
            a[(k + i) * stride + k] = v[i];
    }
}

static void NAME(vectors)(const void *matrix, int64_t rows, int64_t stride, int64_t first, int64_t count, void *out)
{
    const T *a = matrix;
    T *v = out;
    for (int64_t i = 0; i < rows - first; i++)
        for (int64_t j = 0; j < count; j++)
            v[i * count + j] = i > j ? a[(first + i) * stride + first + j] : i == j;
}

/* Column j of t is tau[j] (e_j - t v^T v_j), over the columns before j. */
static void NAME(join)(const void *products, const void *sizes, int64_t count, void *out)
{
    const T *vv = products, *taus = sizes;
    T *t = out; /* negative */
    for (int64_t j = 0; j < count; j++) {
        for (int64_t i = 0; i < count; i++) {
            T sum = 0;
            for (int64_t l = i; i < j && l < j; l++)
                sum += t[i * count + l] * vv[l * count + j];
            t[i * count + j] = i < j ? -taus[j] * sum : i == j ? -taus[j] : 0;
        }
    }
}
