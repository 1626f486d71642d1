/* quantile.c: quantiles, by rank among the sorted elements of each lane. */
#include <math.h>
#include <string.h>

#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "ops/elementwise.h"
#include "ops/read.h"
#include "ops/reduce.h"

typedef struct quantiles {
    const bk_tensor *q; /* 0-d or 1-d, of the operand's dtype */
    int dim;            /* -1: over all elements */
    bool keepdim, ignore_nan;
    bk_quantile_rule rule;
    const char *name;
} quantiles;

/* Every q in [0, 1]; -1 with PyTorch's error. */
static int check_range(const quantiles *s)
{
    view v;
    if (tensor_view(s->q, &v) < 0)
        return -1;
    size_t step = v.ndim ? (size_t)v.strides[0] * dtype_size(v.dtype) : 0;
    for (int64_t i = 0; i < view_numel(&v); i++) {
        double q = dtype_load_double(v.dtype, v.data + (size_t)i * step);
        if (!(q >= 0 && q <= 1))
            return error_int(BK_RUNTIME_ERROR,
                             v.ndim ? "%s() q values must be in the range [0, 1]"
                                    : "%s() q must be in the range [0, 1] but got %g",
                             s->name, q);
    }
    return 0;
}

static int check(const bk_tensor *t, const quantiles *s)
{
    if (t->layout->numel == 0)
        return error_int(BK_RUNTIME_ERROR, "%s() input tensor must be non-empty", s->name);
    if (s->q->layout->ndim > 1)
        return error_int(BK_RUNTIME_ERROR, "%s() q must be a scalar or 1D tensor", s->name);
    if (tensor_dtype(t) != BK_FLOAT32 && tensor_dtype(t) != BK_FLOAT64)
        return error_int(BK_RUNTIME_ERROR, "%s() input tensor must be either float or double dtype", s->name);
    if (tensor_dtype(s->q) != tensor_dtype(t))
        return error_int(BK_RUNTIME_ERROR, "%s() q tensor must be same dtype as the input tensor", s->name);
    return check_range(s);
}

static bk_tensor *named_ranks(bk_tensor *ranks, const bk_tensor *q, int how, uint64_t start)
{
    static const char *const names[] = { "_ranks", "_ranks_repeated", "_ranks_by_count" };
    static int rows[3];
    return composed_as(ranks, names[how], &rows[how], start, &q, 1);
}

/* Ranks as numbers with a fraction, in the operand's dtype: [..., q] against lanes along the last dimension. */
static bk_tensor *ranks_of(const bk_tensor *lanes, const quantiles *s)
{
    const layout *l = lanes->layout;
    int last = l->ndim - 1;
    int64_t sizes[BK_MAX_NDIM];
    memcpy(sizes, l->sizes, sizeof sizes);
    sizes[last] = s->q->layout->numel;
    uint64_t start = next_sequence;
    bk_tensor *q = bk_reshape(s->q, 1, (int64_t[]){ -1 });
    bk_tensor *nan = bk_isnan(lanes);
    if (s->ignore_nan) {
        bk_tensor *count = bk_sum(bk_logical_not(nan), 1u << last, true);
        return named_ranks(bk_clamp_min_s(bk_mul(q, bk_sub_s(count, 1)), 0), s->q, 2, start);
    }
    bk_tensor *top = bk_full(0, NULL, (double)(l->sizes[last] - 1), tensor_dtype(lanes));
    bk_tensor *ranks = bk_expand(bk_mul_s(q, (double)(l->sizes[last] - 1)), l->ndim, sizes);
    ranks = bk_where(bk_any(nan, 1u << last, true), top, ranks); /* a lane with a NaN gives it: it sorts last */
    return named_ranks(ranks, s->q, ranks && ranks->layout->plain != s->q->layout->plain, start);
}

static bk_tensor *at_ranks(const bk_tensor *sorted, bk_tensor *ranks)
{
    return record_pick(OP_pick, sorted, bk_contiguous(bk_to(ranks, BK_INT64)), sorted->layout->ndim - 1);
}

static bk_tensor *interpolate(const bk_tensor *sorted, bk_tensor *ranks, bk_quantile_rule rule)
{
    if (!ranks)
        return NULL;
    switch (rule) {
    case BK_QUANTILE_LOWER: return at_ranks(sorted, bk_floor(ranks));
    case BK_QUANTILE_HIGHER: return at_ranks(sorted, bk_ceil(ranks));
    case BK_QUANTILE_NEAREST: return at_ranks(sorted, bk_round(ranks));
    case BK_QUANTILE_MIDPOINT:
    case BK_QUANTILE_LINEAR: break;
    }
    const bk_tensor *fixed = tensor_tracked(ranks) ? bk_detach(ranks) : ranks;
    bk_tensor *weights =
        rule == BK_QUANTILE_MIDPOINT ? bk_full(0, NULL, 0.5, tensor_dtype(sorted)) : bk_sub(ranks, bk_floor(fixed));
    bk_tensor *below = at_ranks(sorted, bk_floor(ranks)), *above = at_ranks(sorted, bk_ceil(ranks));
    static int row;
    uint64_t start = next_sequence;
    return composed_as(bk_lerp(below, above, weights), "lerp", &row, start,
                       (const bk_tensor *[]){ below, above, weights }, 3);
}

/* [..., q] to what the caller asked for: q first (a view) unless it was a single number. */
static bk_tensor *arrange(bk_tensor *r, const quantiles *s)
{
    if (!r || s->q->layout->ndim == 0)
        return r ? tensor_as_own(made_by(bk_squeeze(r, -1), VIEW_squeeze_own)) : NULL;
    static int row;
    uint64_t start = next_sequence;
    int order[BK_MAX_NDIM], last = r->layout->ndim - 1;
    for (int d = 0; d <= last; d++)
        order[d] = d ? d - 1 : last;
    return composed_as(bk_permute(r, last + 1, order), "_quantiles_first", &row, start, (const bk_tensor *[]){ r }, 1);
}

/* t with the lanes along the last dimension. */
static bk_tensor *lanes_last(const bk_tensor *t, int dim)
{
    int ndim = t->layout->ndim, order[BK_MAX_NDIM], n = 0;
    if (ndim == 1 || (ndim && dim == ndim - 1))
        return tensor_same(t);
    if (dim < 0)
        return bk_reshape(t, 1, (int64_t[]){ -1 });
    if (!ndim)
        return bk_unsqueeze(t, 0);
    for (int d = 0; d < ndim; d++)
        if (d != dim)
            order[n++] = d;
    order[n] = dim;
    static int row;
    uint64_t start = next_sequence;
    return composed_as(bk_permute(t, ndim, order), "_lanes_last", &row, start, &t, 1);
}

/* The sorted lanes in the sizes of the result, to which they are the last dimension. */
static bk_tensor *by_result(const bk_tensor *sorted, const bk_tensor *t, const quantiles *s)
{
    int64_t sizes[BK_MAX_NDIM + 1];
    int n = 0;
    for (int d = 0; d < t->layout->ndim; d++)
        if (s->keepdim || (s->dim >= 0 && d != s->dim))
            sizes[n++] = s->dim >= 0 && d != s->dim ? t->layout->sizes[d] : 1;
    sizes[n] = sorted->layout->sizes[sorted->layout->ndim - 1];
    return bk_view(sorted, n + 1, sizes);
}

/* PyTorch writes to what it interpolates from, and moves dimensions of that in place. */
static uint32_t writes_of(const quantiles *s)
{
    const bool interpolates = s->rule == BK_QUANTILE_LINEAR || s->rule == BK_QUANTILE_MIDPOINT;
    return interpolates + (s->q->layout->ndim ? 3 : 1);
}

static bk_tensor *compute(const bk_tensor *t, const quantiles *s)
{
    bk_tensor *lanes = lanes_last(t, s->dim), *sorted = lanes ? bk_sort(lanes, -1, false, NULL) : NULL;
    sorted = sorted ? by_result(sorted, t, s) : NULL;
    bk_tensor *r = sorted ? arrange(interpolate(sorted, ranks_of(sorted, s), s->rule), s) : NULL;
    return tensor_written_often(r, writes_of(s));
}

static bk_tensor *quantile(const bk_tensor *t, quantiles *s, int dim)
{
    if (!t || !s->q)
        return NULL;
    if (dim != BK_MAX_NDIM) {
        s->dim = layout_dim(t->layout, dim);
        if (s->dim < 0)
            return NULL;
    }
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(check(t, s) < 0 ? NULL : compute(t, s));
    lock_give();
    return r;
}

bk_tensor *bk_quantile(const bk_tensor *t, const bk_tensor *q, int dim, bool keepdim, bk_quantile_rule rule)
{
    return quantile(t, &(quantiles){ q, -1, keepdim, false, rule, "quantile" }, dim);
}

bk_tensor *bk_nanquantile(const bk_tensor *t, const bk_tensor *q, int dim, bool keepdim, bk_quantile_rule rule)
{
    return quantile(t, &(quantiles){ q, -1, keepdim, true, rule, "nanquantile" }, dim);
}
