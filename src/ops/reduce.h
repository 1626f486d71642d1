/* reduce.h: what the files of reductions, scans and sorts share. */
#ifndef BK_OPS_REDUCE_H
#define BK_OPS_REDUCE_H
#include "core/tensor.h"
#include "core/scope.h"
#include "cpu/reduce.h"

/* A bit for each dimension of l. */
static inline uint32_t all_dims(const layout *l) { return dims_below(l->ndim); }
/* dims == 0 stands for all of them. */
static inline uint32_t some_dims(const layout *l, uint32_t dims) { return dims ? dims & all_dims(l) : all_dims(l); }
/* How many elements each result is made of. */
int64_t reduced_count(const layout *l, uint32_t dims);
/* The layout that is left of l when `dims` are reduced. */
const layout *reduced_layout(const layout *l, uint32_t dims, bool keepdim);
/* Row-major sizes of l, with `size` at dim. */
const layout *resized_layout(const layout *l, int dim, int64_t size);
/* PyTorch's errors for extremes of nothing: a named dimension must not be empty, all of them need an element. */
int check_not_empty(const layout *l, uint32_t dims, bool named, const char *op);

bk_tensor *record_reduction(int op, reduce_kind kind, operand in, bk_dtype dtype, uint32_t dims, bool keepdim);
/* A node of one input with the given attributes, on the tape if its op has a gradient. */
bk_tensor *record_one(int op, operand in, bk_dtype dtype, const layout *l, attr a);
/* A kernel with two results of equal layout: values, and in *indices (int64) their places. Neither is on the tape. Both
 * are recorded before either may be evaluated. */
bk_tensor *record_choice(int op, operand in, bk_dtype dtype, const layout *l, attr a, bk_tensor **indices);
/* `value`, computed from t without a tape, on the tape under an op whose gradient is a rule over t: for composed ops
 * whose own formula is better than that of their parts. */
bk_tensor *record_named(int op, const bk_tensor *t, const bk_tensor *value, attr a);

/* bk_cov with weights for the observations, either of which may be NULL; *freedom: what it divides by; below 0
 * it divides by 0. */
bk_tensor *moments_cov(const bk_tensor *t, double correction, const bk_tensor *frequencies,
                       const bk_tensor *importances, double *freedom);

/* x at indices along dim (sizes as the indices', or without dim where the node's ndim is less), with op's name on the
 * tape. */
bk_tensor *record_pick(int op, const bk_tensor *t, const bk_tensor *indices, int dim);

/* Its reverse: zeros of the sizes of `like`, to which g is added at the indices. */
bk_tensor *record_place(const bk_tensor *g, const bk_tensor *indices, int dim, const layout *like);

/* Ends the innermost scope with two results made inside it; *out (if wanted) takes the second. Both or none. */
static inline bk_tensor *scope_return_two(bk_tensor *first, bk_tensor *second, bk_tensor **out)
{
    bool good = first && second;
    if (out)
        *out = good ? bk_scope_keep(second) : NULL;
    return scope_return(good ? first : NULL);
}

#endif
