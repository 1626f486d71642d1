/* reduce.c: recording reductions: sums, products, extremes, truth.
 *
 * dims is a bit per dimension, 0 for all. Results are row-major, as PyTorch's are, whatever the operand's strides. */
#include "ops/reduce.h"

#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "ops/elementwise.h"

/* --- layouts -------------------------------------------------------------------------------------------------------
 */

int bk_dims_mask(const bk_tensor *t, int count, const int64_t *dims, uint32_t *mask)
{
    if (!t)
        return -1;
    *mask = 0;
    for (int k = 0; k < count; k++) {
        int d = layout_dim(t->layout, dims[k]);
        if (d < 0)
            return -1;
        if (*mask >> d & 1)
            return error_int(BK_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        *mask |= 1u << d;
    }
    *mask &= all_dims(t->layout); /* a 0-d tensor has none: the whole */
    return 0;
}

int64_t reduced_count(const layout *l, uint32_t dims)
{
    int64_t n = 1;
    for (int d = 0; d < l->ndim; d++)
        n *= dims >> d & 1 ? l->sizes[d] : 1;
    return n;
}

const layout *reduced_layout(const layout *l, uint32_t dims, bool keepdim)
{
    int64_t sizes[BK_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < l->ndim; d++) {
        bool reduced = dims >> d & 1;
        if (!reduced || keepdim)
            sizes[n++] = reduced ? 1 : l->sizes[d];
    }
    return layout_get(n, sizes, NULL);
}

const layout *resized_layout(const layout *l, int dim, int64_t size)
{
    int64_t sizes[BK_MAX_NDIM];
    for (int d = 0; d < l->ndim; d++)
        sizes[d] = d == dim ? size : l->sizes[d];
    return layout_get(l->ndim, sizes, NULL);
}

int check_not_empty(const layout *l, uint32_t dims, bool named, const char *op)
{
    if (!named)
        return l->numel ? 0
                        : error_int(BK_RUNTIME_ERROR,
                                    "%s(): Expected reduction dim to be specified for input.numel() == "
                                    "0. Specify the reduction dim with the 'dim' argument.",
                                    op);
    for (int d = 0; d < l->ndim; d++)
        if (dims >> d & 1 && !l->sizes[d])
            return error_int(BK_INDEX_ERROR, "%s(): Expected reduction dim %d to have non-zero size.", op, d);
    return 0;
}

/* --- nodes ---------------------------------------------------------------------------------------------------------
 */

static node *one_input(int op, operand in, bk_dtype dtype, const layout *l, attr a)
{
    node *n = l ? node_new(op, dtype, l) : NULL;
    if (!n)
        return NULL;
    n->inputs = 1;
    n->attr = a;
    node_input(n, 0, in.value, op_get(op)->gradient ? in.edge : NULL);
    return record_node(n);
}

bk_tensor *record_one(int op, operand in, bk_dtype dtype, const layout *l, attr a)
{
    return tensor_from_node(one_input(op, in, dtype, l, a));
}

bk_tensor *record_choice(int op, operand in, bk_dtype dtype, const layout *l, attr a, bk_tensor **indices)
{
    node *first = one_input(op, in, dtype, l, a);
    node *second = first ? one_input(OP_second, (operand){ .value = first }, BK_INT64, l, (attr){ 0 }) : NULL;
    if (!second) {
        if (first)
            node_release(first);
        return NULL;
    }
    bk_tensor *values = tensor_from_node(first);
    *indices = tensor_from_node(second);
    return *indices ? values : NULL;
}

static bk_tensor *record_two(int op, operand a, operand b, const layout *l, attr at)
{
    node *n = l ? node_new(op, (bk_dtype)a.value->dtype, l) : NULL;
    if (!n)
        return NULL;
    n->inputs = 2;
    n->attr = at;
    node_input(n, 0, a.value, a.edge);
    node_input(n, 1, b.value, NULL);
    return tensor_from_node(record_node(n));
}

bk_tensor *record_named(int op, const bk_tensor *t, const bk_tensor *value, attr a)
{
    operand in, done;
    if (!t || !value || !tensor_read(t, &in) || !tensor_read(value, &done))
        return NULL;
    return in.edge ? record_two(op, in, done, value->layout, a) : (bk_tensor *)value;
}

bk_tensor *record_pick(int op, const bk_tensor *t, const bk_tensor *indices, int dim)
{
    operand in, at;
    if (!t || !indices || !tensor_read(t, &in) || !tensor_read(indices, &at))
        return NULL;
    return record_two(op, in, at, indices->layout, (attr){ .reduce = { .dims = 1u << dim, .from = t->layout } });
}

bk_tensor *record_place(const bk_tensor *g, const bk_tensor *indices, int dim, const layout *like)
{
    operand in, at;
    if (!g || !indices || !tensor_read(g, &in) || !tensor_read(indices, &at))
        return NULL;
    return record_two(OP_place, in, at, like->plain, (attr){ .reduce = { .dims = 1u << dim, .from = like->plain } });
}

bk_tensor *record_reduction(int op, reduce_kind kind, operand in, bk_dtype dtype, uint32_t dims, bool keepdim)
{
    const layout *l = in.value->layout; /* what the gradient grows back to */
    return record_one(op, in, dtype, reduced_layout(l, dims, keepdim),
                      (attr){ .reduce = { .dims = dims, .kind = kind, .from = l } });
}

static bk_tensor *reduction(int op, reduce_kind kind, const bk_tensor *t, bk_dtype dtype, uint32_t dims, bool keepdim)
{
    lock_take();
    operand in;
    bk_tensor *r = NULL;
    if (tensor_read(t, &in))
        r = record_reduction(op, kind, in, dtype, some_dims(t->layout, dims), keepdim);
    lock_give();
    return r;
}

/* --- sums and products -----------------------------------------------------------------------------------------------
 */

/* Integers and bool are counted in int64. */
static bk_dtype sum_dtype(bk_dtype d) { return dtype_is_float(d) ? d : BK_INT64; }

bk_tensor *bk_sum(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    return t ? reduction(dims ? OP_sum_dim : OP_sum, REDUCE_SUM, t, sum_dtype(tensor_dtype(t)), dims, keepdim) : NULL;
}

bk_tensor *bk_prod(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    return t ? reduction(dims ? OP_prod_dim : OP_prod, REDUCE_PROD, t, sum_dtype(tensor_dtype(t)), dims, keepdim)
             : NULL;
}

bk_tensor *bk_mean(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    if (!t)
        return NULL;
    if (!dtype_is_float(tensor_dtype(t)))
        return error_null(BK_RUNTIME_ERROR,
                          "mean(): could not infer output dtype. Input dtype must be either a floating "
                          "point or complex dtype. Got: %s",
                          dtypes[tensor_dtype(t)].type_name);
    return reduction(dims ? OP_mean_dim : OP_mean, REDUCE_SUM, t, tensor_dtype(t), dims, keepdim);
}

/* x with 0 for NaN. */
static bk_tensor *without_nan(const bk_tensor *t) { return bk_where(bk_isnan(t), bk_zeros_like(t), t); }

bk_tensor *bk_nansum(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    if (!t || !dtype_is_float(tensor_dtype(t)))
        return bk_sum(t, dims, keepdim);
    bk_scope_push();
    return scope_return(bk_sum(without_nan(t), dims, keepdim));
}

bk_tensor *bk_nanmean(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    if (!t)
        return NULL;
    if (!dtype_is_float(tensor_dtype(t)))
        return error_null(BK_RUNTIME_ERROR,
                          "nanmean(): expected input to have floating point or complex dtype but got %s",
                          dtypes[tensor_dtype(t)].type_name);
    bk_scope_push();
    static int row;
    bk_tensor *count = bk_sum(bk_logical_not(bk_isnan(t)), dims, keepdim);
    uint64_t start = next_sequence;
    bk_tensor *total = composed_as(bk_nansum(t, dims, keepdim), "nansum", &row, start, &t, 1);
    return scope_return(bk_div(total, count));
}

bk_tensor *bk_count_nonzero(const bk_tensor *t, uint32_t dims)
{
    if (!t)
        return NULL;
    bk_scope_push();
    return scope_return(bk_sum(bk_ne_s(t, 0), dims, false));
}

/* --- extremes --------------------------------------------------------------------------------------------------------
 */

static bk_tensor *whole_extreme(int op, reduce_kind kind, const bk_tensor *t, const char *name)
{
    if (!t || check_not_empty(t->layout, 0, false, name) < 0)
        return NULL;
    return reduction(op, kind, t, tensor_dtype(t), 0, false);
}

bk_tensor *bk_max(const bk_tensor *t) { return whole_extreme(OP_max, REDUCE_MAX, t, "max"); }
bk_tensor *bk_min(const bk_tensor *t) { return whole_extreme(OP_min, REDUCE_MIN, t, "min"); }

bk_tensor *bk_amax(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    if (!t || check_not_empty(t->layout, dims, dims != 0, "amax") < 0)
        return NULL;
    return reduction(OP_amax, REDUCE_MAX, t, tensor_dtype(t), dims, keepdim);
}

bk_tensor *bk_amin(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    if (!t || check_not_empty(t->layout, dims, dims != 0, "amin") < 0)
        return NULL;
    return reduction(OP_amin, REDUCE_MIN, t, tensor_dtype(t), dims, keepdim);
}

static bk_tensor *place_of(reduce_kind kind, const bk_tensor *t, uint32_t dims, bool keepdim, const char *name)
{
    if (!t)
        return NULL;
    if (tensor_dtype(t) == BK_BOOL)
        return error_null(BK_RUNTIME_ERROR, "%s(): does not support bool input", name);
    if (!dims && t->layout->numel == 0)
        return error_null(BK_INDEX_ERROR, "%s(): Expected reduction dim to be specified for input.numel() == 0.", name);
    if (dims && check_not_empty(t->layout, dims, true, name) < 0)
        return NULL;
    return reduction(OP_argextreme, kind, t, BK_INT64, dims, keepdim);
}

bk_tensor *bk_argmax(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    return place_of(REDUCE_ARGMAX, t, dims, keepdim, "argmax");
}

bk_tensor *bk_argmin(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    return place_of(REDUCE_ARGMIN, t, dims, keepdim, "argmin");
}

/* The extremes along dim and their places. What the tape sees is a pick at those places. */
static bk_tensor *extreme(reduce_kind kind, const bk_tensor *t, int at, bool keepdim, bk_tensor **indices)
{
    bool max = kind == REDUCE_ARGMAX;
    operand in;
    int dim = layout_dim(t->layout, at);
    if (dim < 0 || check_not_empty(t->layout, 1u << dim, true, max ? "max" : "min") < 0 || !tensor_read(t, &in))
        return NULL;
    bool taped = in.edge;
    in.edge = NULL;
    bk_tensor *values =
        record_choice(OP_extreme, in, tensor_dtype(t), reduced_layout(t->layout, 1u << dim, keepdim),
                      (attr){ .reduce = { .dims = 1u << dim, .kind = kind, .from = t->layout } }, indices);
    return values && taped ? record_pick(max ? OP_pick_max : OP_pick_min, t, *indices, dim) : values;
}

static bk_tensor *extreme_scoped(reduce_kind kind, const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices)
{
    if (!t)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *places = NULL, *values = extreme(kind, t, dim, keepdim, &places);
    values = scope_return_two(values, places, indices);
    lock_give();
    return values;
}

bk_tensor *bk_max_dim(const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices)
{
    return extreme_scoped(REDUCE_ARGMAX, t, dim, keepdim, indices);
}

bk_tensor *bk_min_dim(const bk_tensor *t, int dim, bool keepdim, bk_tensor **indices)
{
    return extreme_scoped(REDUCE_ARGMIN, t, dim, keepdim, indices);
}

/* --- truth -----------------------------------------------------------------------------------------------------------
 */

/* uint8 was PyTorch's bool once and stays itself. */
static bk_dtype truth_dtype(bk_dtype d) { return d == BK_UINT8 ? BK_UINT8 : BK_BOOL; }

bk_tensor *bk_any(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    return t ? reduction(OP_truth, REDUCE_ANY, t, truth_dtype(tensor_dtype(t)), dims, keepdim) : NULL;
}

bk_tensor *bk_all(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    return t ? reduction(OP_truth, REDUCE_ALL, t, truth_dtype(tensor_dtype(t)), dims, keepdim) : NULL;
}
