/* kernels.c: from a kernel call of the plan to functions over views. */
#include "graph/kernels.h"

#include "cpu/gemm.h"
#include "cpu/triangle.h"
#include "graph/plan.h"

/* (..., m, k) x (..., k, n): batch dimensions are equal in number; a size of 1 or a stride of 0 repeats. */
int run_matmul(const kernel_call *call)
{
    const view *a = &call->in[0], *b = &call->in[1], *c = &call->out;
    int last = c->ndim - 1;
    gemm_task task = { .dtype = c->dtype,
                       .m = c->sizes[last - 1],
                       .n = c->sizes[last],
                       .k = a->sizes[last],
                       .a = a->data,
                       .a_row = a->strides[last - 1],
                       .a_col = a->strides[last],
                       .b = b->data,
                       .b_row = b->strides[last - 1],
                       .b_col = b->strides[last],
                       .c = c->data,
                       .c_row = c->strides[last - 1],
                       .c_col = c->strides[last],
                       .addend = call->addend,
                       .addend_row = call->addend_row,
                       .epilogue = call->epilogue,
                       .epilogue_arg = call->epilogue_arg };
    if (call->packs)
        gemm_pack(task.dtype, task.k, task.n, task.b, task.b_row, task.b_col, call->packed);
    task.packed_b = call->packed;
    if (c->ndim == 2)
        return gemm_run(&task);
    gemm_batch batch;
    batch.ndim = c->ndim - 2;
    for (int d = 0; d < batch.ndim; d++) {
        batch.sizes[d] = c->sizes[d];
        batch.a[d] = a->sizes[d] == 1 ? 0 : a->strides[d];
        batch.b[d] = b->sizes[d] == 1 ? 0 : b->strides[d];
        batch.c[d] = c->strides[d];
    }
    return gemm_run_batch(&task, &batch);
}

/* Products whose rows are contiguous and more than a number each: others are computed as something else, and are
 * finished all at once. */
bool matmul_finishes_rows(const kernel_call *call)
{
    const view *c = &call->out;
    const int last = c->ndim - 1;
    return view_numel(c) > 0 && c->sizes[last] > 1 && c->strides[last] == 1 && call->in[0].sizes[last] > 0;
}

/* attr: the diagonal; tril and triu differ by their op. */
int run_triangle(const kernel_call *call)
{
    triangle_copy(&call->out, &call->in[0], call->attr->i[0], call->op == OP_triu);
    return 0;
}
