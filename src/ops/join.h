/* join.h: joining tensors part by part, as they are made. */
#ifndef BK_OPS_JOIN_H
#define BK_OPS_JOIN_H
#include "core/tensor.h"

/* Memory for parts of this dtype. */
bk_tensor *join_begin(bk_dtype dtype, const layout *whole);
/* The part of `whole` that starts at `from` along dim takes the tensor's elements; nobody wrote there before. */
int join_part(bk_tensor *whole, int dim, int64_t from, const bk_tensor *part, const int64_t *sizes);

#endif
