/* linalg.h: what the gradients of linear algebra are made of. */
#ifndef BK_OPS_LINALG_H
#define BK_OPS_LINALG_H
#include "core/tensor.h"
#include "cpu/linalg.h"

/* All take matrices (batches of them, of equal sizes) of one dtype, and record without looking at values. */
/* op(T) x = b or x op(T) = b: TRIANGLE_* */
bk_tensor *triangle_solve(const bk_tensor *t, const bk_tensor *b, int how);
/* A x = b or A^T x = b, from what lu_record gave. The gradient of A goes to `edge` (NULL: none). */
bk_tensor *lu_solve_record(const bk_tensor *lu, const bk_tensor *pivots, const bk_tensor *b, bool transposed,
                           node *edge);
/* A, put together again from its factors. */
bk_tensor *lu_product(const bk_tensor *lu, const bk_tensor *pivots);
/* n x n, for every matrix of a batch like t. */
bk_tensor *identity_like(const bk_tensor *t);
/* 1 or -1, the sign of the permutation; int64. */
bk_tensor *pivots_sign(const bk_tensor *pivots);
/* x with its rows exchanged as the factorisation exchanged those of A, or (back) put where they were. */
bk_tensor *permute_rows(const bk_tensor *pivots, const bk_tensor *x, bool back);
/* Without checks that need values. */
bk_tensor *solve_unchecked(const bk_tensor *a, const bk_tensor *b, bool transposed);
bk_tensor *inverse_unchecked(const bk_tensor *a);

#endif
