/* attention.c: scaled dot-product attention, over recorded ops. */
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"

#include <math.h>

/* 0 where the mask (true: attend) is set, -inf elsewhere; a mask of floats is added as it is. */
static bk_tensor *masked(bk_tensor *scores, const bk_tensor *mask)
{
    if (tensor_dtype(mask) != BK_BOOL)
        return bk_add(scores, mask);
    return bk_masked_fill(scores, bk_logical_not(mask), -INFINITY);
}

/* true on and below the diagonal: no row sees what comes after it. */
static bk_tensor *causal_mask(int64_t rows, int64_t columns)
{
    return bk_tril(bk_ones(2, (int64_t[]){ rows, columns }, BK_BOOL), 0);
}

bk_tensor *bk_attention(const bk_tensor *q, const bk_tensor *k, const bk_tensor *v, const bk_tensor *mask,
                        double dropout_p, bool causal, double scale)
{
    if (!q || !k || !v)
        return NULL;
    const layout *l = q->layout;
    if (l->ndim < 2 || k->layout->ndim < 2 || v->layout->ndim < 2)
        return error_null(BK_RUNTIME_ERROR,
                          "scaled_dot_product_attention: Expected query, key, and value to all be at "
                          "least 2 dimensional, but got %dD, %dD and %dD",
                          l->ndim, k->layout->ndim, v->layout->ndim);
    if (mask && causal)
        return error_null(BK_RUNTIME_ERROR,
                          "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
    if (tensor_dtype(q) != tensor_dtype(k) || tensor_dtype(q) != tensor_dtype(v))
        return error_null(BK_RUNTIME_ERROR,
                          "Expected query, key, and value to have the same dtype, but got query.dtype: "
                          "%s key.dtype: %s and value.dtype: %s instead.",
                          bk_dtype_name(tensor_dtype(q)), bk_dtype_name(tensor_dtype(k)),
                          bk_dtype_name(tensor_dtype(v)));
    bk_scope_push();
    double factor = isnan(scale) ? 1 / sqrt((double)l->sizes[l->ndim - 1]) : scale;
    bk_tensor *scores = bk_matmul(bk_mul_s(q, factor), bk_transpose(k, -2, -1));
    if (causal)
        mask = causal_mask(l->sizes[l->ndim - 2], k->layout->sizes[k->layout->ndim - 2]);
    if (scores && mask)
        scores = masked(scores, mask);
    if (causal && !mask)
        scores = NULL; /* out of memory: no mask is not the same */
    bk_tensor *weights = scores ? bk_softmax(scores, -1) : NULL;
    if (weights && dropout_p > 0)
        weights = bk_dropout(weights, dropout_p, true, BK_DROPOUT);
    return scope_return(bk_matmul(weights, v));
}
