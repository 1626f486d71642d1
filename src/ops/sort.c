/* sort.c: orders and selections along one dimension.
 *
 * A kernel gives values and, as its second result, their places; neither is on the tape. What the tape sees is a pick
 * of the operand at those places: its gradient goes back there. */
#include "core/error.h"
#include "core/lock.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/sort.h"

/* --- recording
 * --------------------------------------------------------------------------------------------------------- */

/* Values and places by the kernel of `op`; values are picked again where the tape needs to know. */
static bk_tensor *choose(int op, int pick, const bk_tensor *t, const layout *l, attr a, bk_tensor **indices)
{
    operand in;
    if (!l || !tensor_read(t, &in))
        return NULL;
    bool taped = in.edge;
    bk_tensor *values = record_choice(op, in, tensor_dtype(t), l, a, indices);
    return values && taped ? record_pick(pick, t, *indices, (int)a.i[0]) : values;
}

static bk_tensor *choose_scoped(int op, int pick, const bk_tensor *t, const layout *l, attr a, bk_tensor **indices)
{
    lock_take();
    bk_scope_push();
    bk_tensor *places = NULL, *values = choose(op, pick, t, l, a, &places);
    values = scope_return_two(values, places, indices);
    lock_give();
    return values;
}

/* --- sort and topk
 * ------------------------------------------------------------------------------------------------------- */

bk_tensor *sort_with(const bk_tensor *t, int at, bool descending, sort_ties ties, bk_tensor **indices)
{
    int dim = t ? layout_dim(t->layout, at) : -1;
    if (dim < 0)
        return NULL;
    return choose_scoped(OP_sort, OP_pick_sort, t, layout_packed(t->layout), (attr){ .i = { dim, descending, ties } },
                         indices);
}

bk_tensor *bk_sort(const bk_tensor *t, int at, bool descending, bk_tensor **indices)
{
    return sort_with(t, at, descending, TIES_STABLE, indices);
}

bk_tensor *bk_topk(const bk_tensor *t, int64_t k, int at, bool largest, bool sorted, bk_tensor **indices)
{
    int dim = t ? layout_dim(t->layout, at) : -1;
    if (dim < 0)
        return NULL;
    if (k < 0 || k > (t->layout->ndim ? t->layout->sizes[dim] : 1))
        return error_null(BK_RUNTIME_ERROR, "selected index k out of range");
    if (tensor_dtype(t) == BK_BOOL)
        return error_null(BK_RUNTIME_ERROR, "topk does not support bool dtypes on CPU");
    const layout *l = t->layout->ndim ? resized_layout(t->layout, dim, k) : t->layout;
    return choose_scoped(OP_topk, OP_pick_topk, t, l, (attr){ .i = { dim, k, largest, sorted } }, indices);
}

/* --- one of each lane
 * ------------------------------------------------------------------------------------------------------ */

static int check_lane(const bk_tensor *t, int at, const char *name)
{
    int dim = t ? layout_dim(t->layout, at) : -1;
    if (dim < 0 || check_not_empty(t->layout, 1u << dim, true, name) < 0)
        return -1;
    return dim;
}

bk_tensor *bk_kthvalue(const bk_tensor *t, int64_t k, int at, bool keepdim, bk_tensor **indices)
{
    int dim = check_lane(t, at, "kthvalue");
    if (dim < 0)
        return NULL;
    if (k < 1 || k > (t->layout->ndim ? t->layout->sizes[dim] : 1))
        return error_null(BK_RUNTIME_ERROR, "kthvalue(): selected number k out of range for dimension %d", dim);
    if (tensor_dtype(t) == BK_BOOL && t->layout->ndim)
        return error_null(BK_NOT_IMPLEMENTED, "\"kthvalue_cpu\" not implemented for 'Bool'");
    return choose_scoped(OP_kthvalue, OP_pick_kthvalue, t, reduced_layout(t->layout, 1u << dim, keepdim),
                         (attr){ .i = { dim, k - 1 } }, indices);
}

static int check_median_dtype(const bk_tensor *t)
{
    if (tensor_dtype(t) == BK_BOOL)
        return error_int(BK_NOT_IMPLEMENTED, "\"median_cpu\" not implemented for 'Bool'");
    return 0;
}

bk_tensor *bk_median_dim(const bk_tensor *t, int at, bool keepdim, bk_tensor **indices)
{
    int dim = check_lane(t, at, "median");
    if (dim < 0 || check_median_dtype(t) < 0)
        return NULL;
    return choose_scoped(OP_median_dim, OP_pick_median, t, reduced_layout(t->layout, 1u << dim, keepdim),
                         (attr){ .i = { dim } }, indices);
}

bk_tensor *bk_mode(const bk_tensor *t, int at, bool keepdim, bk_tensor **indices)
{
    int dim = check_lane(t, at, "mode");
    if (dim < 0)
        return NULL;
    return choose_scoped(OP_mode, OP_pick_mode, t, reduced_layout(t->layout, 1u << dim, keepdim),
                         (attr){ .i = { dim } }, indices);
}

/* The lower median of what is not NaN. */
bk_tensor *bk_nanmedian_dim(const bk_tensor *t, int at, bool keepdim, bk_tensor **indices)
{
    int dim = check_lane(t, at, "nanmedian");
    if (dim < 0 || check_median_dtype(t) < 0)
        return NULL;
    return choose_scoped(OP_median_dim, OP_pick_nanmedian, t, reduced_layout(t->layout, 1u << dim, keepdim),
                         (attr){ .i = { dim, true } }, indices);
}

/* Of all elements: ties share the gradient, as those of a maximum do. */
static bk_tensor *whole_median(const bk_tensor *t, bool nan)
{
    if (t->layout->numel == 0)
        return dtype_is_float(tensor_dtype(t)) ? bk_full(0, NULL, __builtin_nan(""), tensor_dtype(t))
                                               : bk_full_int(0, NULL, INT64_MIN, tensor_dtype(t));
    bool was = grad_set_enabled(false);
    bk_tensor *flat = bk_reshape(t, 1, (int64_t[]){ -1 });
    bk_tensor *value = nan ? bk_nanmedian_dim(flat, 0, false, NULL) : bk_median_dim(flat, 0, false, NULL);
    grad_set_enabled(was);
    return record_named(OP_median, t, value, (attr){ .reduce = { .dims = all_dims(t->layout), .from = t->layout } });
}

static bk_tensor *whole_median_scoped(const bk_tensor *t, bool nan)
{
    if (!t || check_median_dtype(t) < 0)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(whole_median(t, nan));
    lock_give();
    return r;
}

bk_tensor *bk_median(const bk_tensor *t) { return whole_median_scoped(t, false); }
bk_tensor *bk_nanmedian(const bk_tensor *t) { return whole_median_scoped(t, true); }
