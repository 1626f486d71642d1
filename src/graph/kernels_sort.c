/* kernels_sort.c: orders, selections and picks, from calls of the plan to functions over views. */
#include "cpu/index.h"
#include "cpu/mode.h"
#include "cpu/move.h"
#include "cpu/sort.h"
#include "graph/kernels.h"
#include "graph/plan.h"

/* --- orders: attr.i[0] is the dimension ------------------------------------------------------------------------------
 */

static const view *second(const kernel_call *call) { return call->has_second ? &call->second : NULL; }

int run_sort(const kernel_call *call)
{
    const int64_t *a = call->attr->i;
    return sort_run(&call->out, second(call), &call->in[0], (int)a[0], a[1], (sort_ties)a[2]);
}

int run_topk(const kernel_call *call)
{
    const int64_t *a = call->attr->i;
    if (call->in[0].ndim == 0) /* itself, or nothing: its sizes cannot say so, and both are written */
        return sort_run(&call->out, second(call), &call->in[0], 0, false, TIES_STABLE);
    return a[1] ? topk_run(&call->out, second(call), &call->in[0], a[1], (int)a[0], a[2], a[3]) : 0;
}

/* Those that leave one element of each lane. */
int run_select(const kernel_call *call)
{
    const view *src = &call->in[0];
    int dim = (int)call->attr->i[0];
    view values, places, *indices = NULL;
    kept_dims(&values, &call->out, src->ndim, 1u << dim);
    if (call->has_second) {
        kept_dims(&places, &call->second, src->ndim, 1u << dim);
        indices = &places;
    }
    switch (call->op) {
    case OP_kthvalue: return kth_run(&values, indices, src, call->attr->i[1], dim);
    case OP_median_dim: return median_run(&values, indices, src, dim, call->attr->i[1]);
    default: return mode_run(&values, indices, src, dim);
    }
}

/* --- picks: attr.reduce.dims has the dimension's bit
 * ------------------------------------------------------------------- */

/* A 0-d view as one of one dimension. */
static void raised(view *to, const view *v)
{
    view_take(to, v);
    if (v->ndim == 0)
        view_shape(to, 1, (int64_t[VIEW_FEW]){ 1 }, (int64_t[VIEW_FEW]){ 1 });
}

/* x at places along dim. */
int run_pick(const kernel_call *call)
{
    uint32_t dims = (uint32_t)call->attr->reduce.dims;
    view src, dst, places;
    raised(&src, &call->in[0]);
    kept_dims(&dst, &call->out, src.ndim, dims);
    kept_dims(&places, &call->in[1], src.ndim, dims);
    index_gather(&dst, &src, __builtin_ctz(dims), &places);
    return 0;
}

/* Zeros, to which a gradient is added at places along dim. */
int run_place(const kernel_call *call)
{
    uint32_t dims = (uint32_t)call->attr->reduce.dims;
    view dst, g, places;
    raised(&dst, &call->out);
    kept_dims(&g, &call->in[0], dst.ndim, dims);
    kept_dims(&places, &call->in[1], dst.ndim, dims);
    move_fill(&call->out, &(int64_t){ 0 });
    index_scatter(&dst, __builtin_ctz(dims), &places, &g, SCATTER_ADD);
    return 0;
}

int run_searchsorted(const kernel_call *call)
{
    searchsorted_run(&call->out, &call->in[0], &call->in[1], call->attr->i[0]);
    return 0;
}
