/* linalg.c: from views of batches to loops over single matrices.
 *
 * The scratch of the whole batch is taken before the first matrix, so that nothing can fail on a thread. */
#include "cpu/linalg.h"

#include <string.h>

#include "core/memory.h"
#include "core/threads.h"
#include "cpu/isa.h"

static const linalg_kernels *kernels_of(bk_dtype dtype)
{
#if defined(__x86_64__)
    static const linalg_kernels *const levels[] = {
        [ISA_BASELINE] = linalg_kernels_baseline,
        [ISA_AVX2] = linalg_kernels_avx2,
        [ISA_AVX512] = linalg_kernels_avx512,
    };
    const linalg_kernels *level = levels[isa_current()];
#else
    const linalg_kernels *level = linalg_kernels_baseline;
#endif
    return &level[dtype == BK_FLOAT64];
}

static int64_t rows_of(const view *v) { return v->sizes[v->ndim - 2]; }
static int64_t columns_of(const view *v) { return v->sizes[v->ndim - 1]; }

/* Element 0 of the i-th of a batch, whose members have `inner` dimensions. */
static char *member(const view *v, int64_t i, int inner)
{
    char *p = v->data;
    for (int d = v->ndim - inner - 1; d >= 0; d--) {
        p += i % v->sizes[d] * v->strides[d] * (int64_t)dtype_size(v->dtype);
        i /= v->sizes[d];
    }
    return p;
}

/* A matrix in memory; turned: seen transposed. */
typedef struct matrix {
    char *data;
    int64_t rows, columns, row_stride, column_stride;
} matrix;

static matrix matrix_of(const view *v, int64_t i, bool turned)
{
    int64_t rows = rows_of(v), columns = columns_of(v), down = v->strides[v->ndim - 2], right = v->strides[v->ndim - 1];
    char *data = member(v, i, 2);
    return turned ? (matrix){ data, columns, rows, right, down } : (matrix){ data, rows, columns, down, right };
}

static void load(void *to, matrix m, bk_dtype dtype)
{
    int64_t at = 0;
    for (int64_t r = 0; r < m.rows; r++)
        for (int64_t c = 0; c < m.columns; c++, at++)
            if (dtype == BK_FLOAT64)
                ((double *)to)[at] = ((const double *)m.data)[r * m.row_stride + c * m.column_stride];
            else
                ((float *)to)[at] = ((const float *)m.data)[r * m.row_stride + c * m.column_stride];
}

/* The first m.columns of each row of `width` numbers. */
static void store(matrix m, const void *from, int64_t width, bk_dtype dtype)
{
    for (int64_t r = 0; r < m.rows; r++)
        for (int64_t c = 0; c < m.columns; c++)
            if (dtype == BK_FLOAT64)
                ((double *)m.data)[r * m.row_stride + c * m.column_stride] = ((const double *)from)[r * width + c];
            else
                ((float *)m.data)[r * m.row_stride + c * m.column_stride] = ((const float *)from)[r * width + c];
}

/* --- batches --------------------------------------------------------------------------------------------------------
 */

typedef struct job {
    const view *out, *second, *in, *factor, *pivots;
    const linalg_kernels *kernels;
    bk_dtype dtype;
    int how;
    char *scratch;
    size_t each, work; /* bytes of scratch for a matrix, and where those of blocks begin */
} job;

static char *work_of(const job *j, int64_t i) { return j->scratch + j->each * (size_t)i + j->work; }

static size_t padded(int64_t numbers, bk_dtype dtype) { return ((size_t)numbers * dtype_size(dtype) + 63) / 64 * 64; }

/* fn over the matrices of the batch, each with `numbers` of scratch, as much as its blocks need (`work`), and about
 * `steps` multiplications. */
static int run_batch(job *j, int64_t batch, int64_t numbers, int64_t work, double steps, threads_fn fn)
{
    j->kernels = kernels_of(j->dtype);
    j->work = padded(numbers, j->dtype);
    j->each = j->work + padded(work, j->dtype);
    size_t bytes = j->each * (size_t)batch + 64;
    j->scratch = pool_take(bytes);
    if (!j->scratch)
        return -1;
    threads_for(batch, 1, 0.3 * steps * (double)batch, fn, j);
    pool_give(j->scratch, bytes);
    return 0;
}

/* One block needs none. */
static int64_t work_for(int64_t rows, int64_t columns)
{
    return rows > LINALG_BLOCK || columns > LINALG_BLOCK ? linalg_work(rows, columns) : 0;
}

static int64_t batch_of(const view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim - 2; d++)
        n *= v->sizes[d];
    return n;
}

static void some_lu(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t rows = rows_of(j->in), columns = columns_of(j->in), count = rows < columns ? rows : columns;
    for (int64_t i = begin; i < end; i++) {
        char *a = j->scratch + j->each * (size_t)i;
        int32_t *pivots = (int32_t *)(a + (size_t)(rows * columns) * dtype_size(j->dtype));
        load(a, matrix_of(j->in, i, false), j->dtype);
        block_lu(j->kernels, j->dtype, a, rows, columns, pivots, work_of(j, i));
        store(matrix_of(j->out, i, false), a, columns, j->dtype);
        if (j->second) {
            int32_t *to = (int32_t *)member(j->second, i, 1);
            for (int64_t k = 0; k < count; k++)
                to[k * j->second->strides[j->second->ndim - 1]] = pivots[k];
        }
    }
}

int linalg_lu(const view *lu, const view *pivots, const view *a)
{
    int64_t m = rows_of(a), n = columns_of(a);
    job j = { .out = lu, .second = pivots, .in = a, .dtype = lu->dtype };
    return run_batch(&j, batch_of(a), m * n + m + n, work_for(m, n),
                     0.7 * (double)m * (double)n * (double)(m < n ? m : n), some_lu);
}

static void some_cholesky(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t n = columns_of(j->in);
    for (int64_t i = begin; i < end; i++) {
        char *u = j->scratch + j->each * (size_t)i;
        load(u, matrix_of(j->in, i, true), j->dtype);
        block_cholesky(j->kernels, j->dtype, u, n, work_of(j, i));
        size_t size = dtype_size(j->dtype);
        for (int64_t r = 1; r < n; r++)
            memset(u + (size_t)(r * n) * size, 0, (size_t)r * size);
        store(matrix_of(j->out, i, true), u, n, j->dtype);
    }
}

int linalg_cholesky(const view *l, const view *a)
{
    double n = (double)columns_of(a);
    job j = { .out = l, .in = a, .dtype = l->dtype };
    int64_t work = work_for(columns_of(a), columns_of(a));
    return run_batch(&j, batch_of(a), columns_of(a) * columns_of(a), work, n * n * n / 3, some_cholesky);
}

static void some_qr(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t rows = rows_of(j->in), columns = columns_of(j->in), k = columns_of(j->out);
    size_t size = dtype_size(j->dtype);
    for (int64_t i = begin; i < end; i++) {
        char *a = j->scratch + j->each * (size_t)i, *q = a + (size_t)(rows * columns) * size;
        load(a, matrix_of(j->in, i, false), j->dtype);
        if (rows <= LINALG_BLOCK || columns <= LINALG_BLOCK)
            j->kernels->qr(a, rows, columns, q, k, q + (size_t)(rows * k) * size);
        else
            block_qr(j->kernels, j->dtype, a, rows, columns, q, k, work_of(j, i));
        store(matrix_of(j->out, i, false), q, k, j->dtype);
        if (!j->second)
            continue;
        for (int64_t r = 1; r < rows; r++)
            memset(a + (size_t)(r * columns) * size, 0, (size_t)(r < columns ? r : columns) * size);
        store(matrix_of(j->second, i, false), a, columns, j->dtype);
    }
}

int linalg_qr(const view *q, const view *r, const view *a)
{
    int64_t m = rows_of(a), n = columns_of(a), k = columns_of(q);
    job j = { .out = q, .second = r, .in = a, .dtype = q->dtype };
    return run_batch(&j, batch_of(a), m * n + m * k + m + 2 * n + 2 * k, work_for(m, n > k ? n : k),
                     4.0 * (double)m * (double)n * (double)k, some_qr);
}

/* --- systems --------------------------------------------------------------------------------------------------------
 */

/* What was transposed is a triangle of the other kind; x T = b is T^T x^T = b^T. */
static void some_triangles(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    bool right = j->how & TRIANGLE_RIGHT, turned = !(j->how & TRIANGLE_TRANSPOSED) == right;
    bool upper = !(j->how & TRIANGLE_UPPER) == turned;
    int64_t n = rows_of(j->factor), columns = right ? rows_of(j->in) : columns_of(j->in);
    for (int64_t i = begin; i < end; i++) {
        char *t = j->scratch + j->each * (size_t)i, *x = t + (size_t)(n * n) * dtype_size(j->dtype);
        load(t, matrix_of(j->factor, i, turned), j->dtype);
        load(x, matrix_of(j->in, i, right), j->dtype);
        block_solve(j->kernels, j->dtype, t, n, x, columns, upper, j->how & TRIANGLE_UNIT, work_of(j, i));
        store(matrix_of(j->out, i, right), x, columns, j->dtype);
    }
}

int linalg_solve_triangular(const view *x, const view *t, const view *b, int how)
{
    int64_t n = rows_of(t), numbers = rows_of(b) * columns_of(b);
    job j = { .out = x, .in = b, .factor = t, .dtype = x->dtype, .how = how };
    int64_t work = work_for(n, numbers / (n ? n : 1));
    return run_batch(&j, batch_of(x), n * n + numbers, work, (double)n * (double)numbers, some_triangles);
}

/* Exchanges rows as the factorisation did, or (back) as it would be undone. */
static void exchange_rows(char *x, size_t row, const int32_t *pivots, int64_t stride, int64_t n, bool back)
{
    for (int64_t step = 0; step < n; step++) {
        int64_t k = back ? n - 1 - step : step, with = pivots[k * stride] - 1;
        if (with == k || with < 0 || with >= n)
            continue;
        for (size_t at = 0; at < row; at += 4) {
            uint32_t a, b;
            memcpy(&a, x + (size_t)k * row + at, 4);
            memcpy(&b, x + (size_t)with * row + at, 4);
            memcpy(x + (size_t)k * row + at, &b, 4);
            memcpy(x + (size_t)with * row + at, &a, 4);
        }
    }
}

static void some_systems(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    bool turned = j->how;
    int64_t n = rows_of(j->in), columns = columns_of(j->in), stride = j->pivots->strides[j->pivots->ndim - 1];
    size_t size = dtype_size(j->dtype);
    for (int64_t i = begin; i < end; i++) {
        char *lu = j->scratch + j->each * (size_t)i, *x = lu + (size_t)(n * n) * size;
        const int32_t *pivots = (const int32_t *)member(j->pivots, i, 1);
        load(lu, matrix_of(j->factor, i, turned), j->dtype);
        load(x, matrix_of(j->in, i, false), j->dtype);
        if (!turned)
            exchange_rows(x, (size_t)columns * size, pivots, stride, n, false);
        block_solve(j->kernels, j->dtype, lu, n, x, columns, false, !turned, work_of(j, i)); /* L, or U^T */
        block_solve(j->kernels, j->dtype, lu, n, x, columns, true, turned, work_of(j, i));   /* U, or L^T */
        if (turned)
            exchange_rows(x, (size_t)columns * size, pivots, stride, n, true);
        store(matrix_of(j->out, i, false), x, columns, j->dtype);
    }
}

int linalg_lu_solve(const view *x, const view *lu, const view *pivots, const view *b, bool transposed)
{
    int64_t n = rows_of(b), columns = columns_of(b);
    job j = { .out = x, .in = b, .factor = lu, .pivots = pivots, .dtype = x->dtype, .how = transposed };
    double steps = 2.0 * (double)n * (double)n * (double)columns;
    return run_batch(&j, batch_of(x), n * n + n * columns, work_for(n, columns), steps, some_systems);
}
