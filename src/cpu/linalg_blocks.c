/* linalg_blocks.c: factorisations a block at a time, so that nearly all of their arithmetic is products of matrices.
 *
 * gemm adds but does not subtract: of each product one factor, the smaller one, is negated in a copy. The order of
 * every sum follows from the sizes alone. */
#include "cpu/gemm.h"
#include "cpu/linalg.h"

/* A part of a matrix: rows `stride` numbers apart. */
typedef struct part {
    char *data;
    int64_t stride;
} part;

static part at(part m, bk_dtype dtype, int64_t row, int64_t column)
{
    return (part){ m.data + (row * m.stride + column) * (int64_t)dtype_size(dtype), m.stride };
}

/* c += a b, or c = a b; a is m by k, seen transposed if `turned`. */
static void multiply(bk_dtype dtype, part c, part a, bool turned, part b, int64_t m, int64_t n, int64_t k, bool add)
{
    if (m <= 0 || n <= 0)
        return;
    gemm_run(&(gemm_task){
        .dtype = dtype,
        .m = m,
        .n = n,
        .k = k,
        .a = a.data,
        .a_row = turned ? 1 : a.stride,
        .a_col = turned ? a.stride : 1,
        .b = b.data,
        .b_row = b.stride,
        .b_col = 1,
        .c = c.data,
        .c_row = c.stride,
        .c_col = 1,
        .accumulate = add,
    });
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Numbers of scratch that matrices of this size need: a row of blocks, its vectors, and what joins them. */
int64_t linalg_work(int64_t rows, int64_t columns)
{
    return LINALG_BLOCK * (2 * columns + rows + 3 * LINALG_BLOCK) + 3 * rows + 2 * columns;
}

void block_lu(const linalg_kernels *k, bk_dtype dtype, char *a, int64_t rows, int64_t columns, int32_t *pivots,
              char *work)
{
    part whole = { a, columns };
    int64_t count = least(rows, columns);
    for (int64_t first = 0, width; first < count; first += width) {
        width = least(LINALG_BLOCK, count - first);
        int64_t next = first + width, right = columns - next;
        k->lu(a, rows, columns, first, width, pivots);
        if (right <= 0)
            return;
        part above = at(whole, dtype, first, next), negative = { work, right };
        k->solve(at(whole, dtype, first, first).data, width, columns, above.data, right, columns, false, true);
        if (next >= rows)
            return;
        k->negate(work, above.data, columns, width, right);
        multiply(dtype, at(whole, dtype, next, next), at(whole, dtype, next, first), false, negative, rows - next,
                 right, width, true);
    }
}

/* Of what is right and below of a block only the upper triangle is computed, a row of blocks at a time. */
void block_cholesky(const linalg_kernels *k, bk_dtype dtype, char *u, int64_t n, char *work)
{
    part whole = { u, n };
    size_t block = (size_t)(LINALG_BLOCK * LINALG_BLOCK) * dtype_size(dtype);
    int failed = 0;
    for (int64_t first = 0, width; first < n; first += width) {
        width = least(LINALG_BLOCK, n - first);
        int64_t next = first + width, right = n - next;
        part corner = at(whole, dtype, first, first), above = at(whole, dtype, first, next);
        part negative = { work + block, right };
        if (failed) /* a NaN on the diagonal spreads over what is left of it */
            k->negate(corner.data, at(whole, dtype, first - 1, first - 1).data, 0, 1, 1);
        failed = k->cholesky(corner.data, width, n) < 0;
        if (right <= 0)
            return;
        k->transpose(work, corner.data, n, width);
        k->solve(work, width, width, above.data, right, n, false, false);
        k->negate(negative.data, above.data, n, width, right);
        for (int64_t i = 0; i < right; i += LINALG_BLOCK)
            multiply(dtype, at(whole, dtype, next + i, next + i), at(above, dtype, 0, i), true,
                     at(negative, dtype, 0, i), least(LINALG_BLOCK, right - i), right - i, width, true);
    }
}

void block_solve(const linalg_kernels *k, bk_dtype dtype, const char *t, int64_t n, char *x, int64_t columns,
                 bool upper, bool unit, char *work)
{
    part whole = { (char *)t, n }, out = { x, columns }, negative = { work, columns };
    for (int64_t done = 0, width; done < n; done += width) {
        width = least(LINALG_BLOCK, n - done);
        int64_t first = upper ? n - done - width : done, left = n - done - width;
        int64_t other = upper ? 0 : first + width; /* the rows that are still to be solved for */
        part mine = at(out, dtype, first, 0);
        k->solve(at(whole, dtype, first, first).data, width, n, mine.data, columns, columns, upper, unit);
        if (left <= 0)
            return;
        k->negate(work, mine.data, columns, width, columns);
        multiply(dtype, at(out, dtype, other, 0), at(whole, dtype, other, first), false, negative, left, columns, width,
                 true);
    }
}

/* --- reflections ------------------------------------------------------------------------------------------------ */

typedef struct reflector {
    const linalg_kernels *k;
    bk_dtype dtype;
    part vectors, joined, products, between;
    char *taus, *rest;
} reflector;

/* m += v (-t) v^T m, with t seen transposed where Q^T is meant; m: `rows` by n. */
static void apply(const reflector *r, part m, int64_t rows, int64_t n, int64_t count, bool transposed)
{
    part first = { r->between.data, n };
    part second = { r->between.data + (size_t)(count * n) * dtype_size(r->dtype), n };
    multiply(r->dtype, first, r->vectors, true, m, count, n, rows, false);
    multiply(r->dtype, second, r->joined, transposed, first, count, n, count, false);
    multiply(r->dtype, m, r->vectors, false, second, rows, n, count, true);
}

/* The reflections of a block as I - v t v^T. */
static void join(reflector *r, const char *a, int64_t rows, int64_t columns, int64_t first, int64_t count)
{
    r->vectors.stride = r->joined.stride = r->products.stride = count;
    r->k->vectors(a, rows, columns, first, count, r->vectors.data);
    multiply(r->dtype, r->products, r->vectors, true, r->vectors, count, count, rows - first, false);
    r->k->join(r->products.data, r->taus + (size_t)first * dtype_size(r->dtype), count, r->joined.data);
}

static reflector make_reflector(const linalg_kernels *k, bk_dtype dtype, int64_t rows, int64_t widest, char *work)
{
    size_t size = dtype_size(dtype), block = (size_t)(LINALG_BLOCK * LINALG_BLOCK) * size;
    char *vectors = work + 2 * block, *between = vectors + (size_t)(LINALG_BLOCK * rows) * size;
    char *taus = between + (size_t)(2 * LINALG_BLOCK * widest) * size;
    return (reflector){
        k, dtype, { vectors, 0 }, { work, 0 }, { work + block, 0 }, { between, 0 }, taus, taus + (size_t)rows * size
    };
}

static void set_identity(bk_dtype dtype, char *q, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows * columns; i++)
        if (dtype == BK_FLOAT64)
            ((double *)q)[i] = i / columns == i % columns;
        else
            ((float *)q)[i] = i / columns == i % columns;
}

void block_qr(const linalg_kernels *k, bk_dtype dtype, char *a, int64_t rows, int64_t columns, char *q,
              int64_t q_columns, char *work)
{
    int64_t count = least(rows, columns), last = 0;
    reflector r = make_reflector(k, dtype, rows, columns > q_columns ? columns : q_columns, work);
    part whole = { a, columns }, product = { q, q_columns };
    for (int64_t first = 0, width; first < count; first += width) {
        width = least(LINALG_BLOCK, count - first);
        last = first;
        k->reflect(a, rows, columns, first, width, r.taus, r.rest);
        if (first + width >= columns)
            break;
        join(&r, a, rows, columns, first, width);
        apply(&r, at(whole, dtype, first, first + width), rows - first, columns - first - width, width, true);
    }
    set_identity(dtype, q, rows, q_columns);
    for (int64_t first = last; first >= 0; first -= LINALG_BLOCK) {
        int64_t width = least(LINALG_BLOCK, count - first);
        join(&r, a, rows, columns, first, width);
        apply(&r, at(product, dtype, first, first), rows - first, q_columns - first, width, false);
    }
}
