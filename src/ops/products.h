/* products.h: matrix products before they are rounded to their dtype. */
#ifndef BK_OPS_PRODUCTS_H
#define BK_OPS_PRODUCTS_H
#include "core/tensor.h"

/* The dtype that products of d are computed in: the kernels' own as they are, the others in a wider one. */
bk_dtype product_dtype(bk_dtype d);
/* a b in the dtype of product_dtype: matrices, or batches of them with the same ndim whose sizes broadcast. */
bk_tensor *product_wide(const bk_tensor *a, const bk_tensor *b);
/* The same of factors that are read transposed, which takes no views of them. */
enum { TURNED_A = 1, TURNED_B = 2 };
bk_tensor *product_turned(const bk_tensor *a, const bk_tensor *b, int turned);
/* x weight^T + bias of matrices and a vector: sizes fit, and all are of one dtype that products are computed in. */
bk_tensor *product_affine(const bk_tensor *x, const bk_tensor *weight, const bk_tensor *bias);

/* The checks of mm, bmm and mv with their errors; false with the error set. */
bool check_product_dtype(const bk_tensor *a, const bk_tensor *b);
bool check_mm(const bk_tensor *a, const bk_tensor *b);
bool check_bmm(const bk_tensor *a, const bk_tensor *b);
bool check_mv(const bk_tensor *input, const bk_tensor *matrix, const bk_tensor *vector);

#endif
