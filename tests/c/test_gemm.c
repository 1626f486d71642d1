/* test_gemm.c: matrix products against a plain loop in higher precision, over shapes, strides and types.
 *
 * Floating-point operands are small integers in most tests, so that every order of summation gives the exact result;
 * the tests of summation order use random fractions and compare bits. BRISK_ISA chooses the instruction set. */
#include "cpu/gemm.h"
#include "core/memory.h"
#include "core/threads.h"
#include "sanitizers.h"
#include "tap.h"
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bk_dtype types[] = { BK_FLOAT32, BK_FLOAT64, BK_INT64 };
enum { TYPES = 3 };

static uint64_t seed = 88172645463325252u;
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static double get(bk_dtype type, const void *p, int64_t i)
{
    return type == BK_FLOAT32   ? ((const float *)p)[i]
           : type == BK_FLOAT64 ? ((const double *)p)[i]
                                : (double)((const int64_t *)p)[i];
}

static void set(bk_dtype type, void *p, int64_t i, double v)
{
    if (type == BK_FLOAT32)
        ((float *)p)[i] = (float)v;
    else if (type == BK_FLOAT64)
        ((double *)p)[i] = v;
    else
        ((int64_t *)p)[i] = (int64_t)v;
}

/* A matrix somewhere inside an allocation, at strides of one of these patterns. */
typedef enum pattern {
    ROWS,
    COLUMNS,
    PADDED,
    PADDED_COLUMNS,
    SPREAD,
    REVERSED,
    SAME_ROW,
    SAME_COLUMN,
    PATTERNS
} pattern;

typedef struct matrix {
    bk_dtype type;
    char *memory;
    int64_t count; /* elements of the allocation */
    void *first;
    int64_t rows, cols, row, col; /* sizes, strides */
} matrix;

static matrix matrix_make(bk_dtype type, int64_t rows, int64_t cols, pattern p)
{
    matrix m = { .type = type, .rows = rows, .cols = cols };
    const int64_t strides[PATTERNS][2] = {
        [ROWS] = { cols, 1 },       [COLUMNS] = { 1, rows },
        [PADDED] = { cols + 3, 1 }, [PADDED_COLUMNS] = { 1, rows + 5 },
        [SPREAD] = { 3 * cols, 3 }, [REVERSED] = { -cols, -1 },
        [SAME_ROW] = { 0, 1 },      [SAME_COLUMN] = { 1, 0 },
    };
    m.row = strides[p][0];
    m.col = strides[p][1];
    m.count = 3 * (rows + 5) * (cols + 5);
    const int64_t size = (int64_t)bk_dtype_size(type);
    m.memory = malloc((size_t)(m.count * size));
    m.first = m.memory + (p == REVERSED ? rows * cols : 0) * size;
    for (int64_t i = 0; i < m.count; i++)
        set(type, m.memory, i, (double)(next_random() % 15) - 7);
    return m;
}

static double at(const matrix *m, int64_t i, int64_t j) { return get(m->type, m->first, i * m->row + j * m->col); }

static void fill_fractions(matrix *m)
{
    for (int64_t i = 0; i < m->count; i++)
        set(m->type, m->memory, i, (double)(next_random() % 2000001) / 1e6 - 1);
}

static gemm_task task_of(const matrix *a, const matrix *b, const matrix *c)
{
    return (gemm_task){ .dtype = a->type,
                        .m = a->rows,
                        .n = b->cols,
                        .k = a->cols,
                        .a = a->first,
                        .a_row = a->row,
                        .a_col = a->col,
                        .b = b->first,
                        .b_row = b->row,
                        .b_col = b->col,
                        .c = c->first,
                        .c_row = c->row,
                        .c_col = c->col };
}

/* The elements as doubles, row by row or (when `by_columns`) column by column. */
static double *unpack(const matrix *m, bool by_columns)
{
    double *dense = malloc(sizeof *dense * (size_t)(m->rows * m->cols + 1));
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->cols; j++)
            dense[by_columns ? j * m->rows + i : i * m->cols + j] = at(m, i, j);
    return dense;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Whether c is `before` (if accumulated) plus a b, and nothing outside c has changed. */
static bool product_is_right(const matrix *a, const matrix *b, const matrix *c, const char *before, bool accumulate)
{
    const int64_t m = a->rows, n = b->cols, k = a->cols;
    const size_t bytes = (size_t)c->count * bk_dtype_size(c->type);
    double *rows = unpack(a, false), *columns = unpack(b, true);
    char *expected = malloc(bytes);
    memcpy(expected, before, bytes);
    char *first = expected + ((char *)c->first - c->memory);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const int64_t place = i * c->row + j * c->col;
            const double old = accumulate ? get(c->type, first, place) : 0;
            set(c->type, first, place, old + dot(rows + i * k, columns + j * k, k));
        }
    free(rows);
    free(columns);
    bool right = true;
    for (int64_t i = 0; i < c->count; i++)
        right = right && get(c->type, expected, i) == get(c->type, c->memory, i);
    free(expected);
    return right;
}

static atomic_int finished[4096];
static void count_rows(void *arg, int64_t begin, int64_t end)
{
    (void)arg;
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&finished[i], 1);
}

static bool each_row_finished_once(int64_t m)
{
    bool once = true;
    for (int64_t i = 0; i < m; i++)
        once = once && atomic_exchange(&finished[i], 0) == 1;
    return once;
}

typedef struct variant {
    pattern a, b, c;
    bool accumulate, packed;
} variant;

static bool check(bk_dtype type, int64_t m, int64_t n, int64_t k, variant v)
{
    matrix a = matrix_make(type, m, k, v.a), b = matrix_make(type, k, n, v.b), c = matrix_make(type, m, n, v.c);
    const size_t bytes = (size_t)c.count * bk_dtype_size(type);
    char *before = malloc(bytes), *packed = NULL;
    memcpy(before, c.memory, bytes);
    gemm_task task = task_of(&a, &b, &c);
    task.accumulate = v.accumulate;
    task.epilogue = count_rows;
    if (v.packed) {
        packed = aligned_alloc(64, (gemm_packed_bytes(type, k, n) + 127) / 64 * 64);
        gemm_pack(type, k, n, b.first, b.row, b.col, packed);
        task.packed_b = packed;
        task.b = NULL;
    }
    bool right = gemm_run(&task) == 0;
    right = product_is_right(&a, &b, &c, before, v.accumulate) && right;
    right = each_row_finished_once(m) && right;
    if (!right)
        printf("# type %d, m %d n %d k %d, patterns %d %d %d, accumulate %d, packed %d\n", (int)type, (int)m, (int)n,
               (int)k, v.a, v.b, v.c, v.accumulate, v.packed);
    free(before);
    free(packed);
    free(a.memory);
    free(b.memory);
    free(c.memory);
    return right;
}

static void test_shapes(void)
{
    static const int64_t sizes[] = { 0, 1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 16, 17, 31, 33, 65 };
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int t = 0; t < TYPES; t++) {
        bool right = true;
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < COUNT; j++)
                for (int l = 0; l < COUNT; l++)
                    for (int packed = 0; packed < 2; packed++)
                        right = check(types[t], sizes[i], sizes[j], sizes[l],
                                      (variant){ .packed = packed, .accumulate = (i + j + l) % 2 }) &&
                                right;
        tap_ok(right, t == 0 ? "small shapes, float32" : t == 1 ? "small shapes, float64" : "small shapes, int64");
    }
}

static void test_block_edges(void)
{
    static const int64_t shapes[][3] = {
        { 253, 33, 257 }, { 252, 64, 256 }, { 511, 130, 20 },   { 29, 300, 513 },  { 64, 129, 255 }, { 1, 1000, 300 },
        { 3, 515, 259 },  { 1000, 3, 40 },  { 700, 1, 4099 },   { 1, 1, 12289 },   { 5, 1, 9000 },   { 2, 2, 8193 },
        { 300, 2, 70 },   { 28, 160, 600 }, { 130, 128, 1024 }, { 60, 1024, 129 }, { 6, 128, 512 },  { 600, 70, 300 },
    };
    for (int t = 0; t < TYPES; t++) {
        bool right = true;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int how = 0; how < 4; how++)
                right = check(types[t], shapes[i][0], shapes[i][1], shapes[i][2],
                              (variant){ .packed = how & 1, .accumulate = how >> 1 }) &&
                        right;
        tap_ok(right, "shapes around the edges of blocks");
    }
}

/* More of b than L2 holds beside the rest, so that it is packed on the way and sums wait in a buffer. */
static void test_large_factor(void)
{
    static const pattern outputs[] = { ROWS, PADDED, SPREAD };
    bool right = true;
    for (int t = 0; t < TYPES; t++)
        for (size_t c = 0; c < sizeof outputs / sizeof *outputs; c++)
            for (int how = 0; how < 4; how++)
                right = check(types[t], 150, 530, 600,
                              (variant){ .a = c ? ROWS : COLUMNS,
                                         .b = how & 1 ? COLUMNS : ROWS,
                                         .c = outputs[c],
                                         .accumulate = how >> 1 }) &&
                        right;
    tap_ok(right, "a factor that is packed on the way, into sums and into c");
}

/* Tiles pack the next slice of b meanwhile: many a little each, few all of it; a short step of k leaves most of the
 * next one's rows; for all threads, and for one block alone. */
static void test_carried_slices(void)
{
    static const int64_t shapes[][3] = { { 250, 530, 600 }, { 270, 1024, 517 }, { 100, 330, 1100 }, { 64, 1056, 257 } };
    bool right = true;
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int how = 0; how < 4; how++)
                right = check(types[t], shapes[i][0], shapes[i][1], shapes[i][2],
                              (variant){ .a = how & 1 ? COLUMNS : ROWS, .b = how >> 1 ? PADDED : ROWS }) &&
                        right;
    tap_ok(right, "slices of b that are packed while the one before is multiplied");
}

/* Rows of a that many panels read, or columns 4 KB apart, are packed. */
static void test_packed_rows(void)
{
    static const int64_t shapes[][3] = {
        { 37, 1700, 530 }, { 150, 1601, 40 }, { 29, 330, 1024 }, { 27, 170, 512 }, { 1024, 530, 20 }
    };
    bool right = true;
    for (int t = 0; t < TYPES; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int how = 0; how < 2; how++)
                right = check(types[t], shapes[i][0], shapes[i][1], shapes[i][2],
                              (variant){ .a = how ? COLUMNS : ROWS, .accumulate = !how }) &&
                        right;
    tap_ok(right, "rows of a that are packed, tile by tile");
}

static void test_strides(void)
{
    static const int64_t shapes[][3] = { { 17, 35, 9 }, { 1, 40, 33 }, { 40, 1, 33 },   { 1, 1, 50 },
                                         { 70, 6, 20 }, { 6, 70, 20 }, { 33, 97, 260 }, { 64, 64, 64 } };
    static const pattern outputs[] = { ROWS, COLUMNS, PADDED, PADDED_COLUMNS, SPREAD, REVERSED };
    for (int t = 0; t < TYPES; t++) {
        bool right = true;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int a = 0; a < PATTERNS; a++)
                for (int b = 0; b < PATTERNS; b++)
                    for (size_t c = 0; c < sizeof outputs / sizeof *outputs; c++)
                        for (int how = 0; how < (a == b ? 4 : 1); how++)
                            right = check(types[t], shapes[i][0], shapes[i][1], shapes[i][2],
                                          (variant){ a, b, outputs[c], how & 1, how >> 1 }) &&
                                    right;
        tap_ok(right, "every pattern of strides");
    }
}

/* --- bits ---------------------------------------------------------------------------------------------------- */

/* Rows [first, first + rows) of a b, computed as a product of their own; NULL packed: from b as it is. */
static void run_rows(const matrix *a, const matrix *b, int64_t first, int64_t rows, const void *packed, void *c)
{
    const int64_t size = (int64_t)bk_dtype_size(a->type);
    gemm_task task = { .dtype = a->type,
                       .m = rows,
                       .n = b->cols,
                       .k = a->cols,
                       .packed_b = packed,
                       .a = (char *)a->first + first * a->row * size,
                       .a_row = a->row,
                       .a_col = a->col,
                       .b = b->first,
                       .b_row = b->row,
                       .b_col = b->col,
                       .c = c,
                       .c_row = b->cols,
                       .c_col = 1 };
    gemm_run(&task);
}

/* The same within a loop, where a product has one thread: a half of the rows each. */
typedef struct halves {
    const matrix *a, *b;
    char *c;
} halves;

static void run_half(void *arg, int64_t begin, int64_t end)
{
    const halves *h = arg;
    const int64_t first = h->a->rows * begin / 2, last = h->a->rows * end / 2;
    run_rows(h->a, h->b, first, last - first, NULL, h->c + first * h->b->cols * (int64_t)bk_dtype_size(h->a->type));
}

static bool bits_are_stable(bk_dtype type, int64_t m, int64_t n, int64_t k, pattern pa, pattern pb)
{
    matrix a = matrix_make(type, m, k, pa), b = matrix_make(type, k, n, pb);
    fill_fractions(&a);
    fill_fractions(&b);
    const size_t row_bytes = (size_t)n * bk_dtype_size(type), bytes = (size_t)m * row_bytes;
    char *one = malloc(bytes), *other = malloc(bytes);
    char *packed = aligned_alloc(64, (gemm_packed_bytes(type, k, n) + 127) / 64 * 64);
    bk_set_num_threads(1);
    run_rows(&a, &b, 0, m, NULL, one);
    bk_set_num_threads(2);
    run_rows(&a, &b, 0, m, NULL, other);
    bool same = memcmp(one, other, bytes) == 0;
    gemm_pack(type, k, n, b.first, b.row, b.col, packed);
    run_rows(&a, &b, 0, m, packed, other);
    same = same && memcmp(one, other, bytes) == 0;
    threads_for(2, 1, 1e9, run_half, &(halves){ &a, &b, other });
    same = same && memcmp(one, other, bytes) == 0;
    for (int64_t at = 0, rows = 1; at < m; at += rows, rows = rows % 17 + 1) {
        rows = rows < m - at ? rows : m - at;
        run_rows(&a, &b, at, rows, NULL, other);
        same = same && memcmp(one + (size_t)at * row_bytes, other, (size_t)rows * row_bytes) == 0;
    }
    free(one);
    free(other);
    free(packed);
    free(a.memory);
    free(b.memory);
    return same;
}

static void test_bits(void)
{
    static const int64_t shapes[][3] = { { 300, 200, 300 }, { 100, 500, 600 }, { 500, 1, 5000 },  { 90, 5, 400 },
                                         { 2, 3000, 700 },  { 33, 64, 64 },    { 1, 1, 100000 },  { 64, 512, 512 },
                                         { 150, 530, 600 }, { 60, 1700, 530 }, { 29, 330, 1024 }, { 200, 800, 513 },
                                         { 1024, 530, 40 } };
    for (int t = 0; t < (UNDER_ASAN ? 1 : 2); t++) {
        bool same = true;
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int how = 0; how < 4; how++)
                same = bits_are_stable(types[t], shapes[i][0], shapes[i][1], shapes[i][2], how & 1 ? COLUMNS : ROWS,
                                       how & 2 ? COLUMNS : ROWS) &&
                       same;
        tap_ok(same, "threads, packing and the number of rows change no bit");
    }
}

/* c += a^T b with rows of both along k, as gradients of weights are: k is cut between threads. */
static bool cut_k_is_stable(bk_dtype type, int64_t m, int64_t n, int64_t k, pattern c_order)
{
    matrix a = matrix_make(type, m, k, PADDED_COLUMNS), b = matrix_make(type, k, n, PADDED);
    matrix c = matrix_make(type, m, n, c_order);
    const size_t bytes = (size_t)c.count * bk_dtype_size(type);
    char *before = malloc(bytes), *one = malloc(bytes);
    fill_fractions(&a);
    fill_fractions(&b);
    fill_fractions(&c);
    memcpy(before, c.memory, bytes);
    bool same = true;
    for (int threads = 1; threads <= 5; threads++) {
        memcpy(c.memory, before, bytes);
        bk_set_num_threads(threads);
        gemm_task task = task_of(&a, &b, &c);
        task.accumulate = true;
        gemm_run(&task);
        if (threads == 1)
            memcpy(one, c.memory, bytes);
        same = same && memcmp(one, c.memory, bytes) == 0;
    }
    bk_set_num_threads(2);
    free(before);
    free(one);
    free(a.memory);
    free(b.memory);
    free(c.memory);
    return same;
}

static void test_cut_k(void)
{
    bool same = true;
    for (int t = 0; t < 2; t++)
        for (pattern order = ROWS; order <= PADDED_COLUMNS; order++) {
            same = cut_k_is_stable(types[t], 60, 70, 2600, order) && same;
            same = cut_k_is_stable(types[t], 15, 200, 4097, order) && same;
            same = cut_k_is_stable(types[t], 130, 260, 1024, order) && same;
        }
    tap_ok(same, "a long k over a small c adds up to the same bits on any number of threads");
}

/* Columns of a product of few rows, range by range, from b as it is or packed the same way; c begins as it was. Where
 * they come out even every second range is computed by one call, then the others, from the last one to the first. */
static void run_ranges(gemm_task t, int64_t width, char *packed)
{
    if (t.n % (2 * width) == 0) {
        for (int64_t at = 0; packed && at < t.n; at += width)
            gemm_pack_columns(&t, at, at + width, packed);
        t.packed_b = packed;
        gemm_run_columns(&t, 0, width, 2 * width);
        t.back = true;
        gemm_run_columns(&t, width, 2 * width, 2 * width);
        return;
    }
    for (int64_t at = 0; at < t.n; at += width) {
        const int64_t end = at + width < t.n ? at + width : t.n;
        if (packed)
            gemm_pack_columns(&t, at, end, packed);
        t.packed_b = packed;
        gemm_run_columns(&t, at, end, t.n);
    }
}

static bool columns_are_the_whole(bk_dtype type, int64_t m, int64_t n, int64_t k, pattern pb, int how)
{
    matrix a = matrix_make(type, m, k, how & 4 ? COLUMNS : ROWS), b = matrix_make(type, k, n, pb);
    matrix c = matrix_make(type, m, n, PADDED), d = matrix_make(type, m, n, PADDED);
    fill_fractions(&a);
    fill_fractions(&b);
    memcpy(d.memory, c.memory, (size_t)c.count * bk_dtype_size(type));
    char *packed = how & 1 ? aligned_alloc(64, (gemm_packed_bytes(type, k, n) + 127) / 64 * 64) : NULL;
    gemm_task whole = task_of(&a, &b, &c), parts = task_of(&a, &b, &d);
    matrix more = matrix_make(type, m, n, how & 8 ? PADDED : SAME_ROW);
    whole.accumulate = parts.accumulate = how & 2;
    if (how % 5 == 0 && type != BK_INT64) {
        whole.addend = parts.addend = more.first;
        whole.addend_row = parts.addend_row = more.row;
    }
    bool same = true;
    if (packed || pb != COLUMNS) {
        gemm_run(&whole);
        run_ranges(parts, how & 8 ? 64 : 2 * n + 64, packed);
        same = !memcmp(c.memory, d.memory, (size_t)c.count * bk_dtype_size(type));
    }
    free(packed);
    free(a.memory);
    free(b.memory);
    free(c.memory);
    free(d.memory);
    free(more.memory);
    return same;
}

static void test_columns(void)
{
    static const int64_t heights[] = { 1, 2, 3, 8 }, widths[] = { 2, 31, 33, 128, 384, 389 },
                         depths[] = { 1, 128, 257, 600 };
    for (int t = 0; t < TYPES; t++) {
        bool same = true;
        for (size_t h = 0; h < sizeof heights / sizeof *heights; h++)
            for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
                for (size_t j = 0; j < sizeof depths / sizeof *depths; j++)
                    for (int how = 0; how < 16; how++)
                        same = columns_are_the_whole(types[t], heights[h], widths[i], depths[j],
                                                     how % 3 == 0   ? ROWS
                                                     : how % 3 == 1 ? PADDED
                                                                    : COLUMNS,
                                                     how) &&
                               same;
        tap_ok(same, "ranges of the columns of few rows have the bits of the whole product");
    }
}

/* Rows in runs: run r begins at r * apart, `gap` elements lie between rows, and a may be one row for all. */
static bool rows_are_right(bk_dtype type, int64_t m, int64_t n, int64_t runs, int64_t rows, int64_t gap, bool add,
                           bool same_a)
{
    const int64_t a_row = m + gap, b_row = n + gap, apart = rows + 2;
    matrix a = matrix_make(type, runs * apart, a_row, ROWS), b = matrix_make(type, runs * apart, b_row, ROWS);
    matrix c = matrix_make(type, m, n, ROWS), before = matrix_make(type, m, n, ROWS);
    memcpy(c.first, before.first, (size_t)(m * n) * bk_dtype_size(type));
    gemm_rows t = { .dtype = type, .m = m, .n = n, .runs = runs, .rows = rows, .accumulate = add };
    t.a = a.first;
    t.b = b.first;
    t.c = c.first;
    t.a_row = same_a ? 0 : a_row;
    t.a_run = same_a ? 0 : apart * a_row;
    t.b_row = b_row;
    t.b_run = apart * b_row;
    gemm_add_rows(&t);
    bool right = true;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = add ? get(type, before.first, i * n + j) : 0;
            for (int64_t k = 0; k < runs * rows; k++) {
                const int64_t run = k / rows, row = k % rows;
                sum += get(type, a.first, run * t.a_run + row * t.a_row + i) *
                       get(type, b.first, run * t.b_run + row * t.b_row + j);
            }
            right = get(type, c.first, i * n + j) == sum && right;
        }
    free(a.memory);
    free(b.memory);
    free(c.memory);
    free(before.memory);
    return right;
}

static void test_runs(void)
{
    static const int64_t widths[] = { 1, 2, 13, 14, 15, 31, 32, 33, 64, 70 };
    enum { WIDTHS = sizeof widths / sizeof *widths };
    for (int t = 0; t < 2; t++) {
        bool right = true;
        for (int i = 0; i < WIDTHS; i++)
            for (int j = 0; j < WIDTHS; j++)
                for (int v = 0; v < 4; v++)
                    right =
                        rows_are_right(types[t], widths[i], widths[j], v ? 9 : 1, 1 + 3 * v, v, v % 2, v == 2) && right;
        right = rows_are_right(types[t], 20, 40, 200, 8, 0, true, false) && right; /* several blocks */
        right = rows_are_right(types[t], 20, 40, 5, 512, 0, false, false) && right;
        right = rows_are_right(types[t], 20, 40, 7, 200, 1, true, false) && right;
        tap_ok(right, "sums over rows in runs, %s", t ? "float64" : "float32");
    }
}

static void test_precision(void)
{
    bool close = true;
    for (int64_t n = 1; n < 40; n += 19) {
        matrix a = matrix_make(BK_FLOAT32, 20, 3000, ROWS), b = matrix_make(BK_FLOAT32, 3000, n, ROWS);
        matrix c = matrix_make(BK_FLOAT32, 20, n, ROWS);
        fill_fractions(&a);
        fill_fractions(&b);
        gemm_task task = task_of(&a, &b, &c);
        gemm_run(&task);
        for (int64_t i = 0; i < 20; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < 3000; k++)
                    sum += at(&a, i, k) * at(&b, k, j);
                close = close && fabs(sum - at(&c, i, j)) < 1e-4;
            }
        free(a.memory);
        free(b.memory);
        free(c.memory);
    }
    tap_ok(close, "fractions come within rounding of the double sum");
}

static void test_not_a_number(void)
{
    bool right = true;
    for (int64_t n = 1; n < 70; n += 4) {
        matrix a = matrix_make(BK_FLOAT32, 19, 30, ROWS), b = matrix_make(BK_FLOAT32, 30, n, ROWS);
        matrix c = matrix_make(BK_FLOAT32, 19, n, ROWS);
        for (int64_t i = 0; i < b.count; i++)
            set(BK_FLOAT32, b.memory, i, 1);
        set(BK_FLOAT32, a.first, 3 * 30 + 29, NAN);
        set(BK_FLOAT32, a.first, 7 * 30, INFINITY);
        for (int64_t j = 0; j < n; j++)
            set(BK_FLOAT32, c.first, 5 * n + j, NAN); /* what c held before must not matter */
        gemm_task task = task_of(&a, &b, &c);
        gemm_run(&task);
        for (int64_t i = 0; i < 19; i++)
            for (int64_t j = 0; j < n; j++) {
                const double v = at(&c, i, j);
                right = right && (i == 3 ? isnan(v) : i == 7 ? v == INFINITY : isfinite(v));
            }
        free(a.memory);
        free(b.memory);
        free(c.memory);
    }
    tap_ok(right, "NaN and infinity stay in their rows");
}

static void test_wrapping(void)
{
    int64_t a[2] = { INT64_MAX, 3 }, b[4] = { 2, INT64_MIN, 5, 1 }, c[2];
    gemm_task task = { .dtype = BK_INT64,
                       .m = 1,
                       .n = 2,
                       .k = 2,
                       .a = a,
                       .a_row = 2,
                       .a_col = 1,
                       .b = b,
                       .b_row = 2,
                       .b_col = 1,
                       .c = c,
                       .c_row = 2,
                       .c_col = 1 };
    gemm_run(&task);
    tap_ok(c[0] == 13 && c[1] == INT64_MIN + 3, "int64 wraps around");
}

/* --- batches ------------------------------------------------------------------------------------------------- */

/* A batch of 3 x 2 products; strides of b over the batch may be 0. */
static bool check_batch(bk_dtype type, int64_t m, int64_t n, int64_t k, bool shared_b)
{
    enum { OUTER = 3, INNER = 2, COUNT = OUTER * INNER };
    matrix a = matrix_make(type, COUNT * m, k, ROWS), b = matrix_make(type, COUNT * k, n, ROWS);
    matrix c = matrix_make(type, COUNT * m, n, ROWS);
    const int64_t size = (int64_t)bk_dtype_size(type);
    gemm_task task = task_of(&a, &b, &c);
    task.m = m;
    gemm_batch batch = { .ndim = 2,
                         .sizes = { OUTER, INNER },
                         .a = { INNER * m * k, m * k },
                         .b = { shared_b ? 0 : INNER * k * n, shared_b ? 0 : k * n },
                         .c = { INNER * m * n, m * n } };
    bool right = gemm_run_batch(&task, &batch) == 0;
    for (int64_t i = 0; i < COUNT; i++) {
        matrix x = a, y = b, z = c;
        x.rows = m;
        y.rows = k;
        x.first = (char *)a.first + i * m * k * size;
        y.first = (char *)b.first + (shared_b ? 0 : i * k * n * size);
        z.first = (char *)c.first + i * m * n * size;
        right = product_is_right(&x, &y, &z, c.memory, false) && right;
    }
    free(a.memory);
    free(b.memory);
    free(c.memory);
    return right;
}

static void test_batches(void)
{
    bool right = true;
    for (int t = 0; t < TYPES; t++)
        for (int shared = 0; shared < 2; shared++) {
            right = check_batch(types[t], 5, 7, 3, shared) && right;
            right = check_batch(types[t], 70, 90, 80, shared) && right;
            right = check_batch(types[t], 1, 33, 20, shared) && right;
            right = check_batch(types[t], 33, 1, 20, shared) && right;
            right = check_batch(types[t], 4, 4, 0, shared) && right;
        }
    tap_ok(right, "batches, with one b and with many");
}

static void test_empty_batch(void)
{
    float x = 3;
    gemm_task task = { .dtype = BK_FLOAT32, .m = 1, .n = 1, .k = 1, .a = &x, .b = &x, .c = &x };
    tap_ok(gemm_run_batch(&task, &(gemm_batch){ .ndim = 1, .sizes = { 0 } }) == 0 && x == 3, "an empty batch");
}

/* Every allocation of a product fails once. */
static bool same_without_memory(bk_dtype type, int64_t m, int64_t n, int64_t k, pattern a_order, pattern b_order)
{
    matrix a = matrix_make(type, m, k, a_order), b = matrix_make(type, k, n, b_order);
    matrix c = matrix_make(type, m, n, ROWS), bare = matrix_make(type, m, n, ROWS);
    const size_t bytes = (size_t)(m * n) * bk_dtype_size(type);
    fill_fractions(&a);
    gemm_task task = task_of(&a, &b, &c);
    gemm_run(&task);
    bool right = true;
    task = task_of(&a, &b, &bare);
    for (int n_th = 1, met = 1; met && n_th < 10; n_th++) {
        memset(task.c, 0xff, bytes);
        mem_fail_after(n_th);
        gemm_run(&task);
        met = mem_fail_pending() == 0;
        mem_fail_after(0);
        right = right && !bk_error() && memcmp(task.c, task_of(&a, &b, &c).c, bytes) == 0;
    }
    free(a.memory);
    free(b.memory);
    free(c.memory);
    free(bare.memory);
    return right;
}

static void test_out_of_memory(void)
{
    bool right = true;
    for (int t = 0; t < TYPES; t++) {
        right = same_without_memory(types[t], 300, 300, 300, COLUMNS, COLUMNS) && right;
        right = same_without_memory(types[t], 150, 530, 600, ROWS, ROWS) && right;
        right = same_without_memory(types[t], 60, 1700, 530, ROWS, ROWS) && right;
        right = same_without_memory(types[t], 90, 100, 1100, COLUMNS, ROWS) && right;
        right = same_without_memory(types[t], 200, 1, 9000, ROWS, ROWS) && right;
        right = same_without_memory(types[t], 700, 1, 5000, SPREAD, SPREAD) && right;
    }
    tap_ok(right, "without memory for copies every product has the same bits");
}

int main(void)
{
    for (int threads = UNDER_ASAN ? 3 : 1; threads <= 3; threads++) {
        bk_set_num_threads(threads);
        test_block_edges();
        test_large_factor();
        test_packed_rows();
        test_carried_slices();
        test_batches();
    }
    test_shapes();
    test_strides();
    test_bits();
    test_cut_k();
    test_columns();
    test_runs();
    test_precision();
    test_not_a_number();
    test_wrapping();
    test_empty_batch();
    test_out_of_memory();
    return tap_done();
}
