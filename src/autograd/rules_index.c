/* rules_index.c: gradients of reads and writes at indices and under masks.
 *
 * Reading and writing are each other's gradients: what was read at some indices is added back at them, what was written
 * is read from them, and the old value under a write gets nothing. */
#include "autograd/rules.h"
#include "core/tensor.h"
#include "cpu/index.h"
#include "ops/create.h"
#include "ops/elementwise.h"
#include "ops/index.h"

static bk_tensor *saved(const node *n, int k) { return tensor_at(n->in[k], n->edge[k]); }

/* The region that the write n worked on, within g. */
static bk_tensor *region_in(const node *n, bk_tensor *g)
{
    bk_tensor *whole = rule_conform(g, n->layout);
    return whole ? tensor_alias(whole, n->attr.index.layout, whole->offset + n->attr.index.offset, true) : NULL;
}

/* A tensor that starts as g, and the same region of it, to be written. */
static bk_tensor *old_value_gradient(const node *n, bk_tensor *g, bk_tensor **region)
{
    bk_tensor *whole = rule_conform(g, n->layout);
    operand in;
    if (!whole || !tensor_read(whole, &in))
        return NULL;
    bk_tensor *old = tensor_at(in.value, in.edge);
    *region = old ? tensor_alias(old, n->attr.index.layout, n->attr.index.offset, true) : NULL;
    return *region ? old : NULL;
}

int grad_gather(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    const attr *a = &n->attr;
    bk_tensor *z = fill_layout(a->index.layout->plain, 0, tensor_dtype(g)), *index = saved(n, 1);
    operand in;
    if (!z || !index || !tensor_read(g, &in) ||
        scatter_write(OP_scatter_add, z, (int)a->index.dims, index, in, SCATTER_ADD) < 0)
        return -1;
    grads[0] = z;
    return 0;
}

int grad_scatter(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    const attr *a = &n->attr;
    int dim = (int)a->index.dims;
    bk_tensor *index = saved(n, 2), *region = NULL;
    if (!index)
        return -1;
    if (n->edge[1] && !(grads[1] = gather_read(region_in(n, g), dim, index)))
        return -1;
    if (n->edge[0] && a->index.mode == SCATTER_ADD)
        grads[0] = g;
    else if (n->edge[0] && (!(grads[0] = old_value_gradient(n, g, &region)) ||
                            scatter_write(OP_scatter, region, dim, index, number_int(0), SCATTER_SET) < 0))
        return -1;
    return 0;
}

/* Equal candidates share the gradient of a maximum or minimum. */
static int extreme_gradients(const node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS], const bk_tensor *self,
                             const bk_tensor *src, const bk_tensor *index, const bk_tensor *out)
{
    int dim = (int)n->attr.index.dims;
    bk_dtype dtype = tensor_dtype(g);
    bk_tensor *mine = bk_to(bk_eq(self, out), dtype);
    bk_tensor *theirs = bk_to(bk_eq(src, gather_read(out, dim, index)), dtype);
    bk_tensor *count = bk_scatter_add(mine, dim, index, theirs);
    bk_tensor *share = count ? bk_div(g, count) : NULL;
    if (!share)
        return -1;
    if (n->edge[0] && !(grads[0] = bk_mul(share, mine)))
        return -1;
    if (n->edge[1] && !(grads[1] = bk_mul(gather_read(share, dim, index), theirs)))
        return -1;
    return 0;
}

/* A factor's gradient is the product of the others: by division, except for the one zero among them. */
static int product_gradients(const node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS], const bk_tensor *self,
                             const bk_tensor *src, const bk_tensor *index, const bk_tensor *out)
{
    int dim = (int)n->attr.index.dims;
    if (n->edge[0]) {
        bk_tensor *filled = bk_masked_fill(self, bk_eq_s(self, 0), 1);
        bk_tensor *product = bk_scatter_reduce(filled, dim, index, src, "prod", true);
        grads[0] = product ? bk_div(bk_mul(g, product), filled) : NULL;
        if (!grads[0])
            return -1;
    }
    if (n->edge[1]) {
        bk_tensor *zero = bk_eq_s(src, 0), *none = bk_zeros_like(self);
        bk_tensor *zeros = bk_scatter_add(none, dim, index, bk_to(zero, tensor_dtype(none)));
        bk_tensor *single = bk_logical_and(zero, bk_eq_s(gather_read(zeros, dim, index), 1));
        bk_tensor *others = bk_scatter_reduce(self, dim, index, bk_masked_fill(src, single, 1), "prod", true);
        bk_tensor *alone = gather_read(bk_mul(g, others), dim, index);
        bk_tensor *usual = bk_div(gather_read(bk_mul(g, out), dim, index), bk_masked_fill(src, zero, 1));
        grads[1] = bk_where(single, alone, usual);
        if (!grads[1])
            return -1;
    }
    return 0;
}

int grad_scatter_reduce(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *src = saved(n, 1), *index = saved(n, 2), *whole = saved(n, 0), *made = rule_result(n);
    if (!src || !index || !whole || !made)
        return -1;
    const attr *a = &n->attr;
    bk_tensor *self = tensor_alias(whole, a->index.layout, a->index.offset, true);
    bk_tensor *out = tensor_alias(made, a->index.layout, a->index.offset, true), *at = region_in(n, g);
    if (!self || !out || !at)
        return -1;
    int status = a->index.mode == SCATTER_MUL ? product_gradients(n, at, grads, self, src, index, out)
                                              : extreme_gradients(n, at, grads, self, src, index, out);
    if (status < 0 || !n->edge[0] || tensor_whole(self))
        return status;
    bk_tensor *region = NULL, *old = old_value_gradient(n, g, &region);
    if (!old || bk_copy_(region, grads[0]) < 0)
        return -1;
    grads[0] = old;
    return 0;
}

int grad_index_get(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *z = fill_layout(n->attr.index.layout->plain, 0, tensor_dtype(g)), *index = saved(n, 1);
    operand in;
    if (!z || !index || !tensor_read(g, &in) || index_write(OP_index_put, z, index, in, n->attr.index.dims, true) < 0)
        return -1;
    grads[0] = z;
    return 0;
}

int grad_index_put(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    const attr *a = &n->attr;
    bk_tensor *index = saved(n, 2), *region = NULL;
    if (!index)
        return -1;
    if (n->edge[1]) {
        region = region_in(n, g);
        const layout *l = region ? index_result(region->layout, index->layout, a->index.dims) : NULL;
        bk_tensor *read = l ? index_read(OP_index_get, region, index, a->index.dims, l) : NULL;
        grads[1] = read ? rule_sum_to(read, n->edge[1]->layout) : NULL;
        if (!grads[1])
            return -1;
    }
    if (n->edge[0] && a->index.mode)
        grads[0] = g;
    else if (n->edge[0] && (!(grads[0] = old_value_gradient(n, g, &region)) ||
                            index_write(OP_index_put, region, index, number_int(0), a->index.dims, false) < 0))
        return -1;
    return 0;
}

int grad_mask_select(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *z = fill_layout(n->attr.index.layout->plain, 0, tensor_dtype(g)), *mask = saved(n, 1);
    if (!z || !mask || mask_write(z, mask, g) < 0)
        return -1;
    grads[0] = z;
    return 0;
}

int grad_mask_scatter(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *mask = saved(n, 2), *region = region_in(n, g);
    if (!mask || !region)
        return -1;
    if (n->edge[1] && !(grads[1] = mask_read(region, mask, n->edge[1]->layout->numel)))
        return -1;
    if (n->edge[0] && (!(grads[0] = old_value_gradient(n, g, &region)) || bk_masked_fill_(region, mask, 0) < 0))
        return -1;
    return 0;
}

int grad_accumulate(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    if (n->edge[1] && !(grads[1] = region_in(n, g)))
        return -1;
    if (n->edge[0])
        grads[0] = g;
    return 0;
}

int grad_flip(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    int dims[BK_MAX_NDIM], count = 0;
    for (int d = 0; d < n->layout->ndim; d++)
        if (n->attr.i[0] >> d & 1)
            dims[count++] = d;
    grads[0] = bk_flip(g, count, dims);
    return grads[0] ? 0 : -1;
}
