/* reduce.c: recording reductions. */
#include "cpu/reduce.h"

#include "core/error.h"
#include "core/lock.h"
#include "ops/elementwise.h"

/* The layout that is left of l when `dims` are reduced. */
static const layout *reduced_layout(const layout *l, uint32_t dims, bool keepdim)
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

static bk_tensor *record_reduction(int op, reduce_kind kind, operand in, bk_dtype dtype, uint32_t dims, bool keepdim)
{
    const layout *l = in.value->layout, *out = reduced_layout(l, dims, keepdim);
    node *n = out ? node_new(op, dtype, out) : NULL;
    if (!n)
        return NULL;
    n->inputs = 1;
    n->attr.reduce.dims = dims;
    n->attr.reduce.kind = kind;
    n->attr.reduce.from = l; /* what the gradient grows back to */
    node_input(n, 0, in.value, in.edge);
    return tensor_from_node(record_node(n));
}

bk_tensor *bk_sum(const bk_tensor *t, uint32_t dims, bool keepdim)
{
    if (!t)
        return NULL;
    lock_take();
    operand in;
    bk_tensor *r = NULL;
    if (tensor_read(t, &in)) {
        uint32_t all = (uint32_t)((1ull << t->layout->ndim) - 1);
        bk_dtype dtype = dtype_is_float(tensor_dtype(t)) ? tensor_dtype(t) : BK_INT64;
        r = record_reduction(OP_sum, REDUCE_SUM, in, dtype, dims ? dims : all, keepdim);
    }
    lock_give();
    return r;
}
