/* attention.c: scaled dot-product attention, over recorded ops. */
#include "core/error.h"
#include "core/scope.h"
#include "core/tensor.h"

#include <math.h>

/* -inf where the mask says so; a mask of floats is added as it is. */
static bk_tensor *masked(bk_tensor *scores, const bk_tensor *mask)
{
    return tensor_dtype(mask) == BK_BOOL ? bk_masked_fill(scores, mask, -INFINITY) : bk_add(scores, mask);
}

/* true above the diagonal: no row sees what comes after it. */
static bk_tensor *causal_mask(int64_t rows, int64_t columns)
{
    return bk_triu(bk_ones(2, (int64_t[]){ rows, columns }, BK_BOOL), 1);
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
    /* The mask first: then scores are scaled and masked as the product finishes them. */
    const bool masks = causal || mask;
    if (causal)
        mask = causal_mask(l->sizes[l->ndim - 2], k->layout->sizes[k->layout->ndim - 2]);
    else if (mask && tensor_dtype(mask) == BK_BOOL)
        mask = bk_logical_not(mask); /* true: attend */
    bk_tensor *scores = bk_mul_s(bk_matmul(q, bk_transpose(k, -2, -1)), factor);
    if (masks)
        scores = scores && mask ? masked(scores, mask) : NULL; /* out of memory: no mask is not the same */
    bk_tensor *weights = scores ? bk_softmax(scores, -1) : NULL;
    if (weights && dropout_p > 0)
        weights = bk_dropout(weights, dropout_p, true, BK_DROPOUT);
    return scope_return(bk_matmul(weights, v));
}
