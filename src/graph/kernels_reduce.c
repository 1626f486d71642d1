/* kernels_reduce.c: reductions, scans and softmax, from calls of the plan to functions over views. */
#include "cpu/reduce.h"

#include "core/memory.h"
#include "cpu/move.h"
#include "cpu/rows.h"
#include "cpu/scan.h"
#include "cpu/softmax.h"
#include "graph/kernels.h"
#include "graph/plan.h"

/* A result recorded without its reduced dimensions, with size 1 at them. */
void kept_dims(view *to, const view *v, int ndim, uint32_t dims)
{
    if (v->ndim == ndim) {
        view_take(to, v);
        return;
    }
    to->data = v->data;
    to->dtype = v->dtype;
    to->ndim = ndim;
    for (int d = 0, from = 0; d < ndim; d++) {
        bool reduced = dims >> d & 1;
        to->sizes[d] = reduced ? 1 : v->sizes[from];
        to->strides[d] = reduced ? 0 : v->strides[from];
        from += !reduced;
    }
}

static void kept_out(view *to, const kernel_call *call)
{
    kept_dims(to, &call->out, call->in[0].ndim, (uint32_t)call->attr->reduce.dims);
}

int run_reduce(const kernel_call *call)
{
    view dst;
    kept_out(&dst, call);
    return reduce_run((reduce_kind)call->attr->reduce.kind, &dst, &call->in[0], (uint32_t)call->attr->reduce.dims);
}

int run_mean(const kernel_call *call)
{
    view dst;
    kept_out(&dst, call);
    return reduce_mean(&dst, &call->in[0], (uint32_t)call->attr->reduce.dims);
}

/* attr.d[2]: what to divide by. */
int run_var(const kernel_call *call)
{
    view dst;
    kept_out(&dst, call);
    return reduce_variance(NULL, &dst, &call->in[0], (uint32_t)call->attr->reduce.dims, call->attr->d[2],
                           call->op == OP_std);
}

int run_extreme(const kernel_call *call)
{
    bool max = call->attr->reduce.kind == REDUCE_ARGMAX;
    uint32_t dims = (uint32_t)call->attr->reduce.dims;
    view values, indices;
    kept_out(&values, call);
    if (call->has_second)
        kept_dims(&indices, &call->second, call->in[0].ndim, dims);
    if (call->in[0].ndim == 0) { /* its own extreme, at place 0 */
        move_copy(&values, &call->in[0]);
        if (call->has_second)
            *(int64_t *)indices.data = 0;
        return 0;
    }
    return reduce_extreme(max, &values, call->has_second ? &indices : NULL, &call->in[0], __builtin_ctz(dims));
}

/* The first input is there for its gradient: the value was composed of other ops. */
int run_named(const kernel_call *call)
{
    move_copy(&call->out, &call->in[1]);
    return 0;
}

/* --- scans -----------------------------------------------------------------------------------------------------------
 */

static void turn(view *v, int dim)
{
    if (!v->ndim || !v->sizes[dim])
        return;
    v->data += (v->sizes[dim] - 1) * v->strides[dim] * (int64_t)dtype_size(v->dtype);
    v->strides[dim] = -v->strides[dim];
}

/* attr: dim, kind, from the end. */
int run_scan(const kernel_call *call)
{
    const attr *a = call->attr;
    view dst, src;
    view_take(&dst, &call->out);
    view_take(&src, &call->in[0]);
    if (a->i[2]) {
        turn(&dst, (int)a->i[0]);
        turn(&src, (int)a->i[0]);
    }
    scan_run((scan_kind)a->i[1], &dst, &src, (int)a->i[0]);
    return 0;
}

/* The places are computed with the values, wanted or not. */
int run_scan_extreme(const kernel_call *call)
{
    const attr *a = call->attr;
    view places;
    size_t bytes = (size_t)view_numel(&call->out) * sizeof(int64_t);
    view_take(&places, call->has_second ? &call->second : &call->out); /* row-major, as recorded */
    if (!call->has_second) {
        places.dtype = BK_INT64;
        places.data = pool_take(bytes);
        if (!places.data)
            return -1;
    }
    scan_extreme(a->i[1] == SCAN_MAX, &call->out, &places, &call->in[0], (int)a->i[0]);
    if (!call->has_second)
        pool_give(places.data, bytes);
    return 0;
}

/* Gradients have g first. */
int run_rows(const kernel_call *call)
{
    row_op op = call->op == OP_standardise        ? ROW_STANDARDISE
                : call->op == OP_standardise_back ? ROW_STANDARDISE_BACK
                : call->op == OP_unit_rows        ? ROW_UNIT
                : call->op == OP_unit_rows_back   ? ROW_UNIT_BACK
                                                  : ROW_SOFTMAX_BACK;
    bool back = call->inputs == 2;
    return rows_run(op, &call->out, &call->in[back], back ? &call->in[0] : NULL, (int)call->attr->i[0],
                    call->attr->d[1], call->moments);
}

int run_softmax(const kernel_call *call)
{
    const view *x = &call->in[0];
    bool last = x->ndim && (uint32_t)call->attr->reduce.dims == 1u << (x->ndim - 1);
    if (last && (x->dtype == BK_FLOAT32 || x->dtype == BK_FLOAT64))
        return rows_run(call->op == OP_softmax ? ROW_SOFTMAX : ROW_LOG_SOFTMAX, &call->out, x, NULL, 1, 0, NULL);
    return softmax_run(&call->out, &call->in[0], __builtin_ctz((uint32_t)call->attr->reduce.dims),
                       call->op == OP_log_softmax);
}
