/* linalg.h: factorisations of matrices and solutions of linear systems.
 *
 * Views end in the two dimensions of a matrix; those before are a batch, one matrix after the other on as many threads
 * as there are. Inputs have any strides: each is copied into rows without gaps, worked on there, and the result copied
 * out. All are float32 or float64. Functions return 0, or -1 when memory is out. */
#ifndef BK_CPU_LINALG_H
#define BK_CPU_LINALG_H
#include "cpu/view.h"

/* P A = L U by rows with partial pivoting: L below the diagonal of lu (its own diagonal is 1), U on and above it.
 * pivots[k] (int32, counted from 1, may be NULL) is the row that was exchanged with row k. A pivot of 0 leaves a 0 on
 * the diagonal of U. */
int linalg_lu(const view *lu, const view *pivots, const view *a);
/* Solves A x = b, or A^T x = b, from linalg_lu's results. */
int linalg_lu_solve(const view *x, const view *lu, const view *pivots, const view *b, bool transposed);
/* A = L L^T of the lower triangle of a. Where a leading minor is not positive the diagonal of L is NaN from there on.
 */
int linalg_cholesky(const view *l, const view *a);
/* A = Q R by reflections, as LAPACK signs them: q (rows x k) and r (k x columns, may be NULL), where k is the number of
 * columns of q. */
int linalg_qr(const view *q, const view *r, const view *a);

enum { TRIANGLE_UPPER = 1, TRIANGLE_RIGHT = 2, TRIANGLE_TRANSPOSED = 4, TRIANGLE_UNIT = 8 };
/* op(T) x = b or (RIGHT) x op(T) = b, where only one triangle of t is read, and its diagonal unless UNIT. */
int linalg_solve_triangular(const view *x, const view *t, const view *b, int how);

/* The loops of one ISA level and dtype: what is done within a block, over rows `stride` numbers apart. */
typedef struct linalg_kernels {
    /* Columns [first, first + count) from row `first` on; whole rows, of `stride` numbers, are exchanged. */
    void (*lu)(void *a, int64_t rows, int64_t stride, int64_t first, int64_t count, int32_t *pivots);
    /* A = U^T U of the upper triangle; -1, the diagonal NaN from there on, where it is not positive-definite. */
    int (*cholesky)(void *u, int64_t n, int64_t stride);
    void (*solve)(const void *t, int64_t n, int64_t t_stride, void *x, int64_t columns, int64_t x_stride, bool upper,
                  bool unit);
    /* a becomes R, q takes the product of the reflections; work: rows + 2 max(columns, q_columns) numbers, then taus */
    void (*qr)(void *a, int64_t rows, int64_t columns, void *q, int64_t q_columns, void *work);
    /* The reflections of columns [first, first + count), applied to these; their vectors stay below the diagonal. */
    void (*reflect)(void *a, int64_t rows, int64_t stride, int64_t first, int64_t count, void *taus, void *work);
    /* v: these vectors as a matrix, rows - first by count, ones and zeros included. */
    void (*vectors)(const void *a, int64_t rows, int64_t stride, int64_t first, int64_t count, void *v);
    /* t such that the product of the reflections is I - v t v^T, from v^T v and the taus; both signs turned: -t. */
    void (*join)(const void *products, const void *taus, int64_t count, void *t);
    /* to = -from, or its transpose, n by columns. */
    void (*negate)(void *to, const void *from, int64_t stride, int64_t n, int64_t columns);
    void (*transpose)(void *to, const void *from, int64_t stride, int64_t n);
} linalg_kernels;

/* Whole matrices, in blocks whose products gemm computes. Rows have no gaps; work: see linalg_work. */
enum { LINALG_BLOCK = 32 };
int64_t linalg_work(int64_t rows, int64_t columns);
void block_lu(const linalg_kernels *k, bk_dtype dtype, char *a, int64_t rows, int64_t columns, int32_t *pivots,
              char *work);
void block_cholesky(const linalg_kernels *k, bk_dtype dtype, char *u, int64_t n, char *work);
void block_solve(const linalg_kernels *k, bk_dtype dtype, const char *t, int64_t n, char *x, int64_t columns,
                 bool upper, bool unit, char *work);
void block_qr(const linalg_kernels *k, bk_dtype dtype, char *a, int64_t rows, int64_t columns, char *q,
              int64_t q_columns, char *work);
extern const linalg_kernels linalg_kernels_baseline[2], linalg_kernels_avx2[2], linalg_kernels_avx512[2];

#endif
