/* create.h: filled tensors of any layout. */
#ifndef BK_OPS_CREATE_H
#define BK_OPS_CREATE_H
#include "core/tensor.h"

bk_tensor *fill_layout(const layout *l, double value, bk_dtype dtype);
/* A tensor on memory that holds its elements, whose reference it takes over; NULL when either is NULL. */
bk_tensor *tensor_adopt(storage *s, const layout *l, bk_dtype dtype);
/* The row-major layout of these sizes; NULL with PyTorch's error for a negative one. */
const layout *checked_layout(int ndim, const int64_t *sizes);
/* A node that repeats a constant, whose reference it takes over. */
node *fill_node(const layout *l, node *constant);

/* Refuses negative sizes and strides, which are beyond any memory. */
int strides_check(int ndim, const int64_t *sizes, const int64_t *strides);

#endif
