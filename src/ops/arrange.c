/* arrange.c: the same elements in another order, or repeated, or placed on diagonals.
 *
 * Everything here is composed of views and copies, so gradients come from those; only flip has a kernel, since a layout
 * has no negative strides. */
#include <string.h>

#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/read.h"

/* --- order
 * ------------------------------------------------------------------------------------------------------------------ */

static bk_tensor *flip(const bk_tensor *t, int64_t bits)
{
    operand in;
    const layout *l = layout_packed(t->layout);
    node *n = l && tensor_read(t, &in) ? node_new(OP_flip, (bk_dtype)in.value->dtype, l) : NULL;
    if (!n)
        return NULL;
    n->inputs = 1;
    n->attr.i[0] = bits;
    node_input(n, 0, in.value, in.edge);
    return tensor_from_node(record_node(n));
}

bk_tensor *bk_flip(const bk_tensor *t, int count, const int *dims)
{
    if (!t)
        return NULL;
    int64_t bits = 0;
    for (int k = 0; k < count; k++) {
        int d = layout_dim(t->layout, dims[k]);
        if (d < 0)
            return NULL;
        if (bits >> d & 1)
            return error_null(BK_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        bits |= (int64_t)1 << d;
    }
    lock_take();
    static int row;
    uint64_t start = next_sequence;
    bk_tensor *r = t->layout->ndim ? flip(t, bits) : composed_as(bk_clone(t), "_flip_of_one", &row, start, &t, 1);
    lock_give();
    return r;
}

static bk_tensor *roll_one(const bk_tensor *t, int64_t shift, int dim)
{
    int64_t size = t->layout->ndim ? t->layout->sizes[dim] : 1;
    int64_t by = size ? ((shift % size) + size) % size : 0;
    if (!by)
        return copy_as(t, t->layout->plain, tensor_dtype(t));
    bk_tensor *parts[2] = { bk_slice(t, dim, size - by, size, 1), bk_slice(t, dim, 0, size - by, 1) };
    return bk_cat(parts, 2, dim);
}

static bk_tensor *roll(const bk_tensor *t, int count, const int64_t *shifts, int dim_count, const int *dims)
{
    if (!count)
        return error_null(BK_RUNTIME_ERROR, "`shifts` required");
    if (dim_count == 0 && count == 1) {
        bk_tensor *flat = roll_one(bk_reshape(t, 1, (int64_t[]){ -1 }), shifts[0], 0);
        return flat ? tensor_as_own(bk_view(flat, t->layout->ndim, t->layout->sizes)) : NULL;
    }
    if (dim_count != count)
        return error_null(BK_RUNTIME_ERROR, "shifts and dimensions must align. shifts: %d, dims:%d", count, dim_count);
    if (!t->layout->ndim)
        return error_null(BK_INDEX_ERROR, "Dimension specified as %d but tensor has no dimensions", dims[0]);
    if (!t->layout->numel) /* PyTorch does not look at the dimensions then */
        return bk_clone(t);
    const bk_tensor *r = t;
    for (int k = 0; r && k < count; k++) {
        int d = layout_dim(t->layout, dims[k]);
        r = d < 0 ? NULL : roll_one(r, shifts[k], d);
    }
    return (bk_tensor *)r;
}

bk_tensor *bk_roll(const bk_tensor *t, int count, const int64_t *shifts, int dim_count, const int *dims)
{
    if (!t)
        return NULL;
    bk_scope_push();
    return scope_return(roll(t, count, shifts, dim_count, dims));
}

bk_tensor *bk_rot90(const bk_tensor *t, int64_t k, int dim0, int dim1)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    if (l->ndim < 2)
        return error_null(BK_RUNTIME_ERROR, "expected total dims >= 2, but got total dims = %d", l->ndim);
    int a = layout_dim(l, dim0), b = a < 0 ? -1 : layout_dim(l, dim1);
    if (b < 0)
        return NULL;
    if (a == b)
        return error_null(BK_RUNTIME_ERROR, "expected rotation dims to be different, but got dim0 = %d and dim1 = %d",
                          dim0, dim1);
    bk_scope_push();
    bk_tensor *r;
    switch ((k % 4 + 4) % 4) {
    case 1: r = tensor_as_own(bk_transpose(bk_flip(t, 1, &b), a, b)); break;
    case 2: r = bk_flip(t, 2, (int[]){ a, b }); break;
    case 3: r = tensor_as_own(bk_transpose(bk_flip(t, 1, &a), a, b)); break;
    default: r = copy_as(t, l->plain, tensor_dtype(t));
    }
    return scope_return(r);
}

/* --- repetition
 * ---------------------------------------------------------------------------------------------------------------- */

/* Repeats as many of the first dimensions as the room for dimensions allows; clears those repeats. */
static bk_tensor *repeat_some(const bk_tensor *t, int64_t *repeats)
{
    const layout *l = t->layout;
    int64_t split[BK_MAX_NDIM], wide[BK_MAX_NDIM], sizes[BK_MAX_NDIM];
    int n = 0, spare = BK_MAX_NDIM - l->ndim;
    for (int d = 0; d < l->ndim; d++) {
        sizes[d] = l->sizes[d];
        if (repeats[d] != 1 && spare > 0) {
            split[n] = 1;
            wide[n++] = repeats[d];
            sizes[d] *= repeats[d];
            repeats[d] = 1;
            spare--;
        }
        split[n] = wide[n] = l->sizes[d];
        n++;
    }
    bk_tensor *repeated = bk_expand(bk_reshape(t, n, split), n, wide);
    bk_tensor *dense = repeated ? copy_as(repeated, repeated->layout->plain, tensor_dtype(t)) : NULL;
    return dense ? bk_view(dense, l->ndim, sizes) : NULL;
}

bk_tensor *bk_repeat(const bk_tensor *t, int count, const int64_t *repeats)
{
    if (!t)
        return NULL;
    if (count < t->layout->ndim)
        return error_null(BK_RUNTIME_ERROR,
                          "Number of dimensions of repeat dims can not be smaller than number of dimensions "
                          "of tensor");
    if (count > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions, got %d", BK_MAX_NDIM, count);
    int64_t sizes[BK_MAX_NDIM], left[BK_MAX_NDIM];
    bool more = false;
    for (int d = 0; d < count; d++) {
        int from = d - (count - t->layout->ndim);
        sizes[d] = from < 0 ? 1 : t->layout->sizes[from];
        left[d] = repeats[d];
        if (repeats[d] < 0)
            return error_null(BK_RUNTIME_ERROR, "Repeats cannot be negative, got %lld", (long long)repeats[d]);
        more |= repeats[d] != 1;
    }
    bk_scope_push();
    bk_tensor *r = bk_reshape(t, count, sizes);
    if (!more && r)
        r = copy_as(r, r->layout->plain, tensor_dtype(t));
    while (r && more) {
        if (count == BK_MAX_NDIM) { /* no room for another dimension: by index */
            for (int d = 0; r && d < count; d++)
                if (left[d] != 1) {
                    bk_tensor *parts[left[d] > 0 ? left[d] : 1];
                    for (int64_t k = 0; k < left[d]; k++)
                        parts[k] = r;
                    r = left[d] ? bk_cat(parts, (int)left[d], d) : bk_slice(r, d, 0, 0, 1);
                }
            break;
        }
        r = repeat_some(r, left);
        more = false;
        for (int d = 0; d < count; d++)
            more |= left[d] != 1;
    }
    return scope_return(tensor_as_own(r));
}

bk_tensor *bk_tile(const bk_tensor *t, int count, const int64_t *repeats)
{
    if (!t || count >= t->layout->ndim)
        return bk_repeat(t, count, repeats);
    int64_t all[BK_MAX_NDIM];
    int lead = t->layout->ndim - count;
    for (int d = 0; d < t->layout->ndim; d++)
        all[d] = d < lead ? 1 : repeats[d - lead];
    return bk_repeat(t, t->layout->ndim, all);
}

/* layout_dim for ops that need a dimension: a tensor without one has none to name. */
static int own_dim(const layout *l, int dim)
{
    return l->ndim ? layout_dim(l, dim)
                   : error_int(BK_INDEX_ERROR, "Dimension specified as %d but tensor has no dimensions", dim);
}

bk_tensor *bk_repeat_interleave_s(const bk_tensor *t, int64_t repeats, int dim)
{
    if (!t)
        return NULL;
    if (repeats < 0)
        return error_null(BK_RUNTIME_ERROR, "Repeats must be non-negative");
    if (dim != BK_MAX_NDIM && !t->layout->ndim)
        return error_null(BK_INDEX_ERROR, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    bk_scope_push();
    bool flat = dim == BK_MAX_NDIM;
    const bk_tensor *x = flat && t->layout->ndim != 1 ? bk_reshape(t, 1, (int64_t[]){ -1 }) : t;
    int d = x ? own_dim(x->layout, flat ? 0 : dim) : -1;
    bk_tensor *r = NULL;
    if (d >= 0) {
        int64_t sizes[BK_MAX_NDIM];
        int n = x->layout->ndim;
        for (int k = 0; k <= n && n < BK_MAX_NDIM; k++)
            sizes[k] = k == d + 1 ? repeats : x->layout->sizes[k <= d ? k : k - 1];
        bk_tensor *wide = bk_expand(bk_unsqueeze(x, d + 1), n + 1, sizes);
        r = wide ? bk_flatten(copy_as(wide, wide->layout->plain, tensor_dtype(t)), d, d + 1) : NULL;
    }
    return scope_return(r);
}

/* [2, 0, 1] -> 0 0 2 */
static bk_tensor *repeated_places(const bk_tensor *repeats)
{
    bk_tensor *counts = bk_contiguous(index_long(repeats));
    view v;
    if (!counts || tensor_view(counts, &v) < 0)
        return NULL;
    const int64_t *count = (const int64_t *)v.data;
    int64_t n = view_numel(&v), total = 0, at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (count[i] < 0)
            return error_null(BK_RUNTIME_ERROR, "repeats can not be negative");
        total += count[i];
    }
    int64_t *places = mem_alloc((size_t)(total + 1) * sizeof *places);
    if (!places)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < count[i]; k++)
            places[at++] = i;
    bk_tensor *r = bk_from_data(places, 1, &total, BK_INT64);
    mem_free(places);
    return r;
}

bk_tensor *bk_repeat_interleave(const bk_tensor *t, const bk_tensor *repeats, int dim)
{
    if (!t || !repeats)
        return NULL;
    if (dtype_is_float(tensor_dtype(repeats)))
        return error_null(BK_NOT_IMPLEMENTED, "\"repeat_interleave_cpu\" not implemented for '%s'",
                          dtypes[tensor_dtype(repeats)].type_name);
    if (repeats->layout->ndim > 1)
        return error_null(BK_RUNTIME_ERROR, "repeat_interleave only accept 1D vector as repeat");
    if (repeats->layout->numel == 1)
        return bk_repeat_interleave_s(t, bk_item_int(repeats), dim);
    bk_scope_push();
    bool flat = dim == BK_MAX_NDIM;
    const bk_tensor *x = flat ? bk_reshape(t, 1, (int64_t[]){ -1 }) : t;
    int d = x ? own_dim(x->layout, flat ? 0 : dim) : -1;
    bk_tensor *r = NULL;
    if (d >= 0 && repeats->layout->numel != x->layout->sizes[d])
        error_null(BK_RUNTIME_ERROR,
                   "repeats must have the same size as input along dim, but got repeats.size(0) = %lld and "
                   "input.size(%d) = %lld",
                   (long long)repeats->layout->numel, d, (long long)x->layout->sizes[d]);
    else if (d >= 0)
        r = bk_index_select(x, d, repeated_places(repeats));
    return scope_return(r);
}

/* --- diagonals
 * ---------------------------------------------------------------------------------------------------------------------
 */

bk_tensor *bk_diag_embed(const bk_tensor *t, int64_t offset, int dim1, int dim2)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    int n = l->ndim + 1;
    if (n > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions", BK_MAX_NDIM);
    int a = dim1 < 0 ? dim1 + n : dim1, b = dim2 < 0 ? dim2 + n : dim2;
    if (!l->ndim || a < 0 || b < 0 || a >= n || b >= n)
        return error_null(BK_INDEX_ERROR, "Dimension out of range (expected to be in range of [%d, %d], but got %d)",
                          -n, n - 1, a < 0 || a >= n ? dim1 : dim2);
    if (a == b)
        return error_null(BK_RUNTIME_ERROR, "diagonal dimensions cannot be identical %d, %d", dim1, dim2);
    int64_t sizes[BK_MAX_NDIM], length = l->sizes[l->ndim - 1] + (offset < 0 ? -offset : offset);
    for (int d = 0, from = 0; d < n; d++)
        sizes[d] = d == a || d == b ? length : l->sizes[from++];
    bk_scope_push();
    bk_tensor *r = bk_zeros(n, sizes, tensor_dtype(t)), *diagonal = bk_diagonal(r, offset, a, b);
    return scope_return(diagonal && bk_copy_(diagonal, t) == 0 ? tensor_finished(r) : NULL);
}

bk_tensor *bk_diag(const bk_tensor *t, int64_t offset)
{
    if (!t)
        return NULL;
    if (t->layout->ndim == 1)
        return bk_diag_embed(t, offset, 0, 1);
    if (t->layout->ndim != 2)
        return error_null(BK_RUNTIME_ERROR, "diag(): Supports 1D or 2D tensors. Got %dD", t->layout->ndim);
    bk_scope_push();
    bk_tensor *d = bk_diagonal(t, offset, 0, 1);
    return scope_return(d ? copy_as(d, d->layout->plain, tensor_dtype(t)) : NULL);
}

bk_tensor *bk_block_diag(bk_tensor *const *tensors, int count)
{
    int64_t sizes[2] = { 0, 0 }, row = 0, column = 0;
    bk_dtype dtype = BK_FLOAT32;
    if (!count)
        return bk_empty(2, (int64_t[]){ 1, 0 }, BK_FLOAT32);
    for (int k = 0; k < count; k++) {
        if (!tensors[k])
            return NULL;
        const layout *l = tensors[k]->layout;
        if (l->ndim > 2)
            return error_null(BK_RUNTIME_ERROR,
                              "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %d has "
                              "%d dimensions",
                              k, l->ndim);
        sizes[0] += l->ndim == 2 ? l->sizes[0] : 1;
        sizes[1] += l->ndim ? l->sizes[l->ndim - 1] : 1;
        dtype = k ? dtype_promote(dtype, tensor_dtype(tensors[k])) : tensor_dtype(tensors[k]);
    }
    bk_scope_push();
    bk_tensor *r = bk_zeros(2, sizes, dtype);
    for (int k = 0; r && k < count; k++) {
        const layout *l = tensors[k]->layout;
        int64_t rows = l->ndim == 2 ? l->sizes[0] : 1, columns = l->ndim ? l->sizes[l->ndim - 1] : 1;
        bk_tensor *block = bk_slice(bk_slice(r, 0, row, row + rows, 1), 1, column, column + columns, 1);
        if (!block || bk_copy_(block, tensors[k]) < 0)
            r = NULL;
        row += rows;
        column += columns;
    }
    return scope_return(tensor_finished(r));
}

/* --- coordinates
 * ----------------------------------------------------------------------------------------------------------------------
 */

bk_tensor *bk_take_along_dim(const bk_tensor *t, const bk_tensor *index, int dim)
{
    if (!t || !index)
        return NULL;
    if (tensor_dtype(index) != BK_INT64)
        return error_null(BK_RUNTIME_ERROR, "torch.take_along_dim(): dtype of indices should be Long but got %s",
                          dtypes[tensor_dtype(index)].type_name);
    bk_scope_push();
    if (dim == BK_MAX_NDIM)
        return scope_return(bk_gather(bk_reshape(t, 1, (int64_t[]){ -1 }), 0, bk_reshape(index, 1, (int64_t[]){ -1 })));
    const layout *l = t->layout, *i = index->layout;
    int d = layout_dim(l, dim);
    bk_tensor *r = NULL;
    if (d >= 0 && l->ndim != i->ndim) {
        error_null(BK_RUNTIME_ERROR,
                   "torch.take_along_dim(): input and indices should have the same number of dimensions, but "
                   "got %d dimensions for input, and %d dimensions for indices",
                   l->ndim, i->ndim);
    } else if (d >= 0) {
        int64_t from[BK_MAX_NDIM], to[BK_MAX_NDIM];
        for (int k = 0; k < l->ndim; k++) {
            from[k] = k == d || l->sizes[k] != 1 ? l->sizes[k] : i->sizes[k];
            to[k] = k == d || i->sizes[k] != 1 ? i->sizes[k] : l->sizes[k];
        }
        r = bk_gather(bk_expand(t, l->ndim, from), d, bk_expand(index, l->ndim, to));
    }
    return scope_return(r);
}

int bk_unravel_index(const bk_tensor *t, int ndim, const int64_t *sizes, bk_tensor **out)
{
    if (!t)
        return -1;
    if (dtypes[tensor_dtype(t)].category != CATEGORY_INT)
        return error_int(BK_TYPE_ERROR, "expected 'indices' to be integer dtype, but got torch.%s",
                         dtypes[tensor_dtype(t)].name);
    int64_t steps[BK_MAX_NDIM], step = 1, count = ndim;
    char text[200];
    for (int d = 0; d < ndim; d++)
        if (sizes[d] < 0) {
            sizes_text(ndim, sizes, text);
            text[0] = '(';
            text[strlen(text) - 1] = ')';
            return error_int(BK_VALUE_ERROR, "'shape' cannot have negative values, but got %s", text);
        }
    for (int d = ndim - 1; d >= 0; d--) {
        steps[d] = step;
        step *= sizes[d];
    }
    bk_scope_push();
    bk_tensor *whole = bk_floor_divide(bk_unsqueeze(t, -1), bk_from_data(steps, 1, &count, BK_INT64));
    whole = bk_remainder(whole, bk_from_data(sizes, 1, &count, BK_INT64));
    int status = whole ? bk_unbind(whole, -1, out) : -1;
    for (int d = 0; status == 0 && d < ndim; d++)
        bk_scope_keep(out[d]);
    bk_scope_pop();
    return status;
}
