/* kernels.c: from a kernel call of the plan to functions over views. */
#include "graph/kernels.h"

#include "cpu/gemm.h"
#include "cpu/reduce.h"
#include "cpu/triangle.h"
#include "graph/plan.h"

/* (..., m, k) x (..., k, n): batch dimensions are equal in number; a size of 1 or a stride of 0 repeats. */
int run_matmul(const kernel_call *call)
{
    const view *a = &call->in[0], *b = &call->in[1], *c = &call->out;
    int last = c->ndim - 1;
    gemm_task task = { .dtype = c->dtype, .m = c->sizes[last - 1], .n = c->sizes[last], .k = a->sizes[last],
                       .a = a->data, .a_row = a->strides[last - 1], .a_col = a->strides[last],
                       .b = b->data, .b_row = b->strides[last - 1], .b_col = b->strides[last],
                       .c = c->data, .c_row = c->strides[last - 1], .c_col = c->strides[last] };
    if (c->ndim == 2)
        return gemm_run(&task);
    gemm_batch batch = { .ndim = c->ndim - 2 };
    for (int d = 0; d < batch.ndim; d++) {
        batch.sizes[d] = c->sizes[d];
        batch.a[d] = a->sizes[d] == 1 ? 0 : a->strides[d];
        batch.b[d] = b->sizes[d] == 1 ? 0 : b->strides[d];
        batch.c[d] = c->strides[d];
    }
    return gemm_run_batch(&task, &batch);
}

/* attr: the dimensions reduced and the kind; the output is recorded without them, and seen here with size 1. */
int run_reduce(const kernel_call *call)
{
    uint32_t dims = (uint32_t)call->attr->reduce.dims;
    const view *src = &call->in[0];
    view dst = call->out;
    if (call->out.ndim != src->ndim) {
        dst.ndim = src->ndim;
        for (int d = 0, from = 0; d < src->ndim; d++) {
            bool reduced = dims >> d & 1;
            dst.sizes[d] = reduced ? 1 : call->out.sizes[from];
            dst.strides[d] = reduced ? 0 : call->out.strides[from];
            from += !reduced;
        }
    }
    return reduce_run((reduce_kind)call->attr->reduce.kind, &dst, src, dims);
}

/* attr: the diagonal; tril and triu differ by their op. */
int run_triangle(const kernel_call *call)
{
    triangle_copy(&call->out, &call->in[0], call->attr->i[0], call->op == OP_triu);
    return 0;
}
