/* create.h: filled tensors of any layout. */
#ifndef BK_OPS_CREATE_H
#define BK_OPS_CREATE_H
#include "core/tensor.h"

bk_tensor *fill_layout(const layout *l, double value, bk_dtype dtype);
/* A node that repeats a constant, whose reference it takes over. */
node *fill_node(const layout *l, node *constant);

#endif
