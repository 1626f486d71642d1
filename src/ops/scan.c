/* scan.c: running sums, products and extremes along one dimension, and differences of neighbours. */
#include "cpu/scan.h"

#include "core/error.h"
#include "core/lock.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/scan.h"

bk_tensor *scan_record(const bk_tensor *t, scan_kind kind, int at, bool reverse)
{
    static const int ops[] = { [SCAN_SUM] = OP_cumsum, [SCAN_PROD] = OP_cumprod, [SCAN_LOGSUMEXP] = OP_logcumsumexp };
    if (!t)
        return NULL;
    bk_dtype dtype = tensor_dtype(t);
    int dim = layout_dim(t->layout, at);
    if (dim < 0)
        return NULL;
    if (kind == SCAN_LOGSUMEXP && !dtype_is_float(dtype))
        return error_null(BK_NOT_IMPLEMENTED, "\"logcumsumexp_out_cpu\" not implemented for '%s'",
                          dtypes[dtype].type_name);
    lock_take();
    operand in;
    bk_tensor *r = NULL;
    if (tensor_read(t, &in))
        r = record_one(ops[kind], in, dtype_is_float(dtype) ? dtype : BK_INT64, t->layout->plain,
                       (attr){ .i = { dim, kind, reverse } });
    lock_give();
    return r;
}

bk_tensor *bk_cumsum(const bk_tensor *t, int dim) { return scan_record(t, SCAN_SUM, dim, false); }
bk_tensor *bk_cumprod(const bk_tensor *t, int dim) { return scan_record(t, SCAN_PROD, dim, false); }
bk_tensor *bk_logcumsumexp(const bk_tensor *t, int dim) { return scan_record(t, SCAN_LOGSUMEXP, dim, false); }

static bk_tensor *running_extreme(const bk_tensor *t, scan_kind kind, int at, bk_tensor **indices)
{
    operand in;
    int dim = layout_dim(t->layout, at);
    if (dim < 0 || !tensor_read(t, &in))
        return NULL;
    bool taped = in.edge;
    bk_tensor *values =
        record_choice(OP_scan_extreme, in, tensor_dtype(t), t->layout->plain, (attr){ .i = { dim, kind } }, indices);
    return values && taped ? record_pick(kind == SCAN_MAX ? OP_pick_cummax : OP_pick_cummin, t, *indices, dim) : values;
}

static bk_tensor *running_extreme_scoped(const bk_tensor *t, scan_kind kind, int dim, bk_tensor **indices)
{
    if (!t)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *places = NULL, *values = running_extreme(t, kind, dim, &places);
    values = scope_return_two(values, places, indices);
    lock_give();
    return values;
}

bk_tensor *bk_cummax(const bk_tensor *t, int dim, bk_tensor **indices)
{
    return running_extreme_scoped(t, SCAN_MAX, dim, indices);
}

bk_tensor *bk_cummin(const bk_tensor *t, int dim, bk_tensor **indices)
{
    return running_extreme_scoped(t, SCAN_MIN, dim, indices);
}

/* --- differences
 * ------------------------------------------------------------------------------------------------------- */

static bk_tensor *difference(const bk_tensor *t, int dim)
{
    int64_t n = t->layout->sizes[dim];
    bk_tensor *later = bk_slice(t, dim, 1, n, 1), *earlier = bk_slice(t, dim, 0, n ? n - 1 : 0, 1);
    return tensor_dtype(t) == BK_BOOL ? bk_logical_xor(later, earlier) : bk_sub(later, earlier);
}

/* A copy; on the tape as PyTorch makes it, by a write. */
static bk_tensor *copied(const bk_tensor *t)
{
    if (!grad_enabled() || !tensor_tracked(t))
        return bk_clone(t);
    bk_tensor *copy = bk_zeros_like(t);
    if (copy && bk_copy_(copy, t) < 0) {
        scope_drop(copy);
        return NULL;
    }
    return copy;
}

bk_tensor *bk_diff(const bk_tensor *t, int64_t times, int at)
{
    if (!t)
        return NULL;
    if (t->layout->ndim == 0)
        return error_null(BK_RUNTIME_ERROR, "diff expects input to be at least one-dimensional");
    int dim = layout_dim(t->layout, at);
    if (dim < 0)
        return NULL;
    if (times < 0)
        return error_null(BK_RUNTIME_ERROR, "order must be non-negative but got %lld", (long long)times);
    if (times == 0 || !t->layout->sizes[dim])
        return copied(t);
    bk_scope_push();
    bk_tensor *r = (bk_tensor *)t;
    for (int64_t i = 0; r && i < times && (i == 0 || r->layout->sizes[dim]); i++)
        r = difference(r, dim);
    return scope_return(r);
}
