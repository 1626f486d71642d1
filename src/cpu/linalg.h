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

/* The loops of one ISA level and dtype, over rows without gaps. */
typedef struct linalg_kernels {
    void (*lu)(void *a, int64_t rows, int64_t columns, int32_t *pivots);
    void (*cholesky)(void *u, int64_t n); /* A = U^T U of the upper triangle */
    void (*solve)(const void *t, int64_t n, void *x, int64_t columns, bool upper, bool unit);
    /* a becomes R, q takes the product of the reflections; work: rows + 2 max(columns, q_columns) numbers, then taus */
    void (*qr)(void *a, int64_t rows, int64_t columns, void *q, int64_t q_columns, void *work);
} linalg_kernels;
extern const linalg_kernels linalg_kernels_baseline[2], linalg_kernels_avx2[2], linalg_kernels_avx512[2];

#endif
