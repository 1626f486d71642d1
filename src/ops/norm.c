/* norm.c: vector norms, and the logarithm of a sum of exponentials.
 *
 * The values are composed of other ops, without a tape; on the tape each is one node with its own formula, which gives
 * the subgradients that PyTorch gives where the parts would give NaN: 0 at a norm of 0, shares at ties. */
#include <math.h>

#include "core/error.h"
#include "core/lock.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

/* --- norms
 * ------------------------------------------------------------------------------------------------------------- */

/* float16 and bfloat16 are summed as float32 and rounded once. */
static const bk_tensor *wide(const bk_tensor *t)
{
    bk_dtype d = tensor_dtype(t);
    return d == BK_FLOAT16 || d == BK_BFLOAT16 ? bk_to(t, BK_FLOAT32) : t;
}

static bk_tensor *norm_value(const bk_tensor *t, double p, uint32_t dims, bool keepdim)
{
    const bk_tensor *x = wide(t);
    if (p == INFINITY)
        return bk_amax(bk_abs(x), dims, keepdim);
    if (p == -INFINITY)
        return bk_amin(bk_abs(x), dims, keepdim);
    if (p == 0)
        return x ? bk_to(bk_sum(bk_ne_s(x, 0), dims, keepdim), tensor_dtype(x)) : NULL;
    if (p == 1)
        return bk_sum(bk_abs(x), dims, keepdim);
    if (p == 2)
        return bk_sqrt(bk_sum(bk_square(x), dims, keepdim));
    return bk_pow_s(bk_sum(bk_pow_s(bk_abs(x), p), dims, keepdim), 1 / p);
}

/* Norms without an identity need an element. */
static int check_norm(const layout *l, double p, uint32_t dims)
{
    if (p >= 0 && p != INFINITY)
        return 0;
    if (!dims)
        return l->numel ? 0
                        : error_int(BK_RUNTIME_ERROR,
                                    "linalg.vector_norm cannot compute the %g norm on an empty tensor "
                                    "because the operation does not have an identity",
                                    p);
    for (int d = 0; d < l->ndim; d++)
        if (dims >> d & 1 && !l->sizes[d])
            return error_int(BK_RUNTIME_ERROR,
                             "linalg.vector_norm cannot compute the %g norm on the dimension %dbecause "
                             "this dimension is empty and the operation does not have an identity",
                             p, d);
    return 0;
}

static bk_tensor *norm(const bk_tensor *t, double p, uint32_t dims, bool keepdim)
{
    bool was = grad_set_enabled(false);
    bk_tensor *value = norm_value(t, p, dims, keepdim);
    value = value ? bk_to(value, tensor_dtype(t)) : NULL;
    grad_set_enabled(was);
    attr a = { .reduce = { .dims = some_dims(t->layout, dims), .from = t->layout } };
    a.d[2] = p;
    return record_named(OP_norm, t, value, a);
}

bk_tensor *bk_norm(const bk_tensor *t, double p, uint32_t dims, bool keepdim)
{
    if (!t)
        return NULL;
    if (!dtype_is_float(tensor_dtype(t)))
        return error_null(BK_RUNTIME_ERROR,
                          "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                          "%s",
                          dtypes[tensor_dtype(t)].type_name);
    if (check_norm(t->layout, p, dims) < 0)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(norm(t, p, dims, keepdim));
    lock_give();
    return r;
}

bk_tensor *bk_dist(const bk_tensor *a, const bk_tensor *b, double p)
{
    if (!a || !b)
        return NULL;
    bk_scope_push();
    bk_tensor *difference = bk_sub(a, b);
    if (difference && !dtype_is_float(tensor_dtype(difference)))
        difference = error_null(BK_RUNTIME_ERROR,
                                "norm(): input dtype should be either floating point or complex. Got %s "
                                "instead.",
                                dtypes[tensor_dtype(difference)].type_name);
    return scope_return(bk_norm(difference, p, 0, false));
}

/* --- the logarithm of a sum of exponentials
 * ------------------------------------------------------------------------------ */

/* An infinite maximum is subtracted as 0: inf - inf would be NaN. */
static bk_tensor *logsumexp_value(const bk_tensor *x, uint32_t dims, bool keepdim)
{
    if (reduced_count(x->layout, some_dims(x->layout, dims)) == 0)
        return bk_log(bk_sum(bk_exp(x), dims, keepdim));
    bk_tensor *top = bk_amax(x, dims, true);
    top = bk_where(bk_isinf(top), bk_zeros_like(top), top);
    bk_tensor *sum = bk_log(bk_sum(bk_exp(bk_sub(x, top)), dims, true));
    bk_tensor *r = bk_add(sum, top);
    const layout *l = reduced_layout(x->layout, some_dims(x->layout, dims), keepdim);
    return r && l ? bk_reshape(r, l->ndim, l->sizes) : NULL;
}

static bk_tensor *logsumexp(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    const bk_tensor *x = dtype_is_float(tensor_dtype(t)) ? t : bk_to(t, bk_get_default_dtype());
    if (!x)
        return NULL;
    bool was = grad_set_enabled(false);
    bk_tensor *value = logsumexp_value(wide(x), dims, keepdim);
    value = value ? bk_to(value, tensor_dtype(x)) : NULL;
    grad_set_enabled(was);
    return record_named(OP_logsumexp, x, value,
                        (attr){ .reduce = { .dims = some_dims(x->layout, dims), .from = x->layout } });
}

bk_tensor *bk_logsumexp(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    if (!t)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(logsumexp(t, dims, keepdim));
    lock_give();
    return r;
}
