/* shape.c: other sizes and strides over the same memory.
 *
 * A view is a handle on the same cell; nothing is recorded until it is read. */
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/numbers.h"
#include "ops/create.h"
#include "ops/elementwise.h"
#include "ops/numbers.h"

/* A differentiable view under grad mode; under no_grad a view starts on a tape of its own. */
static bk_tensor *alias(const bk_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    const layout *l = layout_get(ndim, sizes, strides);
    return l ? tensor_view_of(t, l, t->offset + offset) : NULL;
}

bk_tensor *bk_as_strided(const bk_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *v = NULL;
    const layout *l = strides_check(ndim, sizes, strides) < 0 ? NULL : layout_get(ndim, sizes, strides);
    if (l && offset < 0)
        error_null(BK_RUNTIME_ERROR, "Tensor: invalid storage offset %lld", (long long)offset);
    else if (l && l->numel && offset + l->span > t->cell->value->layout->span)
        error_null(BK_RUNTIME_ERROR, "setStorage: sizes and strides are out of bounds for storage of %lld elements",
                   (long long)t->cell->value->layout->span);
    else if (l)
        v = made_by(tensor_view_of(t, l, offset), VIEW_as_strided);
    next_sequence++; /* edge_straight */
    lock_give();
    return v;
}

bk_tensor *bk_select(const bk_tensor *t, int dim, int64_t index)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *v = NULL;
    const layout *l = t->layout;
    int d = l->ndim ? layout_dim(l, dim) : error_int(BK_INDEX_ERROR, "select() cannot be applied to a 0-dim tensor.");
    if (d >= 0 && (index < -l->sizes[d] || index >= l->sizes[d])) {
        error_null(BK_INDEX_ERROR, "index %lld is out of bounds for dimension %d with size %lld", (long long)index, d,
                   (long long)l->sizes[d]);
    } else if (d >= 0) {
        int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
        int n = 0;
        for (int i = 0; i < l->ndim; i++) {
            if (i == d)
                continue;
            sizes[n] = l->sizes[i];
            strides[n++] = l->strides[i];
        }
        v = made_by(alias(t, n, sizes, strides, (index < 0 ? index + l->sizes[d] : index) * l->strides[d]),
                    VIEW_select);
    }
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_select(apart_open(t), dim, index)) : v;
}

static int64_t clip(int64_t at, int64_t size)
{
    if (at < 0)
        at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

bk_tensor *bk_slice(const bk_tensor *t, int dim, int64_t start, int64_t end, int64_t step)
{
    if (!t)
        return NULL;
    if (step <= 0)
        return error_null(BK_VALUE_ERROR, "slice step must be positive");
    lock_take();
    bk_tensor *v = NULL;
    const layout *l = t->layout;
    int d = l->ndim ? layout_dim(l, dim) : error_int(BK_INDEX_ERROR, "slice() cannot be applied to a 0-dim tensor.");
    if (d >= 0) {
        int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
        memcpy(sizes, l->sizes, sizeof sizes);
        memcpy(strides, l->strides, sizeof strides);
        int64_t first = clip(start, l->sizes[d]), last = clip(end, l->sizes[d]);
        if (last < first)
            last = first;
        sizes[d] = (last - first + step - 1) / step;
        strides[d] = l->strides[d] * step;
        v = made_by(alias(t, l->ndim, sizes, strides, first * l->strides[d]), VIEW_slice);
    }
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_slice(apart_open(t), dim, start, end, step)) : v;
}

bk_tensor *bk_permute(const bk_tensor *t, int ndim, const int *dims)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    if (ndim != l->ndim)
        return error_null(BK_RUNTIME_ERROR,
                          "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
                          "the desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
                          l->ndim, ndim);
    lock_take();
    bk_tensor *v = NULL;
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    uint32_t seen = 0;
    int d = 0;
    for (; d < ndim; d++) {
        int from = layout_dim(l, dims[d]);
        if (from < 0)
            break;
        if (seen >> from & 1) {
            error_null(BK_RUNTIME_ERROR, "permute(): duplicate dims are not allowed.");
            break;
        }
        seen |= 1u << from;
        sizes[d] = l->sizes[from];
        strides[d] = l->strides[from];
    }
    if (d == ndim)
        v = made_by(alias(t, ndim, sizes, strides, 0), VIEW_permute);
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_permute(apart_open(t), ndim, dims)) : v;
}

bk_tensor *bk_transpose(const bk_tensor *t, int dim0, int dim1)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *v = NULL;
    int a = layout_dim(t->layout, dim0), b = a < 0 ? -1 : layout_dim(t->layout, dim1);
    if (a >= 0 && b >= 0) {
        int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
        memcpy(sizes, t->layout->sizes, sizeof sizes);
        memcpy(strides, t->layout->strides, sizeof strides);
        if (t->layout->ndim) {
            sizes[a] = t->layout->sizes[b];
            strides[a] = t->layout->strides[b];
            sizes[b] = t->layout->sizes[a];
            strides[b] = t->layout->strides[a];
        }
        v = made_by(alias(t, t->layout->ndim, sizes, strides, 0), VIEW_transpose);
    }
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_transpose(apart_open(t), dim0, dim1)) : v;
}

bk_tensor *bk_expand(const bk_tensor *t, int ndim, const int64_t *sizes)
{
    if (!t)
        return NULL;
    char want[200], have[200];
    const layout *l = t->layout;
    bool is_bool = tensor_dtype(t) == BK_BOOL; /* PyTorch has no BoolTensor to name */
    if (ndim < l->ndim)
        return error_null(BK_RUNTIME_ERROR,
                          "expand(%s%s%s{%s}, size=%s): the number of sizes provided (%d) must be greater or equal "
                          "to the number of dimensions in the tensor (%d)",
                          is_bool ? "CPU" : "torch.", dtypes[tensor_dtype(t)].type_name, is_bool ? "Type" : "Tensor",
                          layout_text(l, have), sizes_text(ndim, sizes, want), ndim, l->ndim);
    if (ndim > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions, got %d", BK_MAX_NDIM, ndim);
    lock_take();
    bk_tensor *v = NULL;
    int64_t to[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    int d = ndim - 1;
    for (; d >= 0; d--) {
        int from = d - (ndim - l->ndim);
        int64_t size = from < 0 ? 1 : l->sizes[from];
        to[d] = sizes[d] == -1 && from >= 0 ? size : sizes[d];
        strides[d] = size == 1 && to[d] != 1 ? 0
                     : from >= 0             ? l->strides[from]
                     : d == ndim - 1         ? 0
                                             : to[d + 1] * strides[d + 1]; /* a new dimension of one element */
        if (to[d] < 0 || (size != 1 && to[d] != size)) {
            if (to[d] < 0 && from < 0)
                error_null(BK_RUNTIME_ERROR,
                           "The expanded size of the tensor (%lld) isn't allowed in a leading, "
                           "non-existing dimension %d",
                           (long long)sizes[d], d);
            else
                error_null(
                    BK_RUNTIME_ERROR,
                    "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
                    "dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                    (long long)to[d], (long long)size, d, sizes_text(ndim, sizes, want), layout_text(l, have));
            break;
        }
    }
    if (d < 0)
        v = made_by(alias(t, ndim, to, strides, 0), VIEW_expand);
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_expand(apart_open(t), ndim, sizes)) : v;
}

/* --- view and reshape ----------------------------------------------------------------------------------------------
 */

/* Fills in a -1; false with PyTorch's error when the sizes do not fit. */
static bool infer_sizes(const layout *l, int ndim, const int64_t *sizes, int64_t out[static BK_MAX_NDIM])
{
    char text[200];
    int unknown = -1;
    int64_t known = 1;
    if (ndim > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions, got %d", BK_MAX_NDIM, ndim),
               false;
    for (int d = 0; d < ndim; d++) {
        out[d] = sizes[d];
        if (sizes[d] == -1) {
            if (unknown >= 0)
                return error_null(BK_RUNTIME_ERROR, "only one dimension can be inferred"), false;
            unknown = d;
        } else if (sizes[d] < 0) {
            return error_null(BK_RUNTIME_ERROR, "invalid shape dimension %lld at index %d of shape %s",
                              (long long)sizes[d], d, sizes_text(ndim, sizes, text)),
                   false;
        } else {
            known *= sizes[d];
        }
    }
    bool fits = unknown >= 0 ? known > 0 && l->numel % known == 0 : known == l->numel;
    if (unknown >= 0 && known == 0 && l->numel == 0)
        return error_null(BK_RUNTIME_ERROR,
                          "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 "
                          "can be any value and is ambiguous",
                          sizes_text(ndim, sizes, text)),
               false;
    if (!fits)
        return error_null(BK_RUNTIME_ERROR, "shape '%s' is invalid for input of size %lld",
                          sizes_text(ndim, sizes, text), (long long)l->numel),
               false;
    if (unknown >= 0)
        out[unknown] = l->numel / known;
    return true;
}

bk_tensor *bk_view(const bk_tensor *t, int ndim, const int64_t *sizes)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *v = NULL;
    int64_t to[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    if (infer_sizes(t->layout, ndim, sizes, to)) {
        if (layout_view_strides(t->layout, ndim, to, strides))
            v = alias(t, ndim, to, strides, 0);
        else
            error_null(BK_RUNTIME_ERROR,
                       "view size is not compatible with input tensor's size and stride (at least one "
                       "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
    }
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_view(apart_open(t), ndim, sizes)) : v;
}

bk_tensor *bk_reshape(const bk_tensor *t, int ndim, const int64_t *sizes)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *v = NULL;
    int64_t to[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    if (infer_sizes(t->layout, ndim, sizes, to)) {
        if (layout_view_strides(t->layout, ndim, to, strides)) {
            v = alias(t, ndim, to, strides, 0);
            if (v && tensor_shares(t))
                v = apart_close(v, bk_view(apart_open(t), ndim, to));
            if (!t->layout->contiguous)
                made_by(v, VIEW_reshape_alias);
        } else {
            bk_scope_push();
            bk_tensor *dense = bk_contiguous(t);
            v = scope_return(dense ? tensor_as_own(made_by(bk_view(dense, ndim, to), VIEW_unsafe_view)) : NULL);
        }
    }
    lock_give();
    return v;
}

/* dim == BK_MAX_NDIM: every dimension of size 1. */
bk_tensor *bk_squeeze(const bk_tensor *t, int dim)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *v = NULL;
    const layout *l = t->layout;
    int only = dim == BK_MAX_NDIM ? BK_MAX_NDIM : layout_dim(l, dim);
    if (only >= 0) {
        int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
        int n = 0;
        for (int d = 0; d < l->ndim; d++) {
            if (l->sizes[d] == 1 && (only == BK_MAX_NDIM || only == d))
                continue;
            sizes[n] = l->sizes[d];
            strides[n++] = l->strides[d];
        }
        v = made_by(alias(t, n, sizes, strides, 0), only == BK_MAX_NDIM ? VIEW_squeeze : VIEW_squeeze_dim);
    }
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_squeeze(apart_open(t), dim)) : v;
}

bk_tensor *bk_unsqueeze(const bk_tensor *t, int dim)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    int at = dim < 0 ? dim + l->ndim + 1 : dim;
    if (at < 0 || at > l->ndim)
        return error_null(BK_INDEX_ERROR, "Dimension out of range (expected to be in range of [%d, %d], but got %d)",
                          -l->ndim - 1, l->ndim, dim);
    if (l->ndim == BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions", BK_MAX_NDIM);
    lock_take();
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    for (int d = 0, from = 0; d <= l->ndim; d++) {
        sizes[d] = d == at ? 1 : l->sizes[from];
        strides[d] = d == at ? (at < l->ndim ? l->sizes[at] * l->strides[at] : 1) : l->strides[from];
        from += d != at;
    }
    bk_tensor *v = made_by(alias(t, l->ndim + 1, sizes, strides, 0), VIEW_unsqueeze);
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_unsqueeze(apart_open(t), dim)) : v;
}

/* --- copies ---------------------------------------------------------------------------------------------------------
 */

bk_tensor *copy_as(const bk_tensor *t, const layout *l, bk_dtype dtype)
{
    operand in;
    if (!l || !tensor_read(t, &in))
        return NULL;
    node *n = node_new(OP_cast, dtype, l);
    if (!n)
        return NULL;
    n->inputs = 1;
    n->attr.i[0] = in.value->dtype;
    node_input(n, 0, in.value, dtype_is_float(dtype) ? in.edge : NULL);
    return tensor_from_node(record_node(n));
}

bk_tensor *bk_clone(const bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *c = copy_as(t, layout_packed(t->layout), tensor_dtype(t));
    lock_give();
    return c;
}

bk_tensor *bk_to(const bk_tensor *t, bk_dtype dtype)
{
    if (!t)
        return NULL;
    if (dtype == tensor_dtype(t))
        return tensor_same(t);
    lock_take();
    bk_tensor *c = copy_as(t, layout_packed(t->layout), dtype);
    lock_give();
    return c;
}

bk_tensor *bk_contiguous(const bk_tensor *t)
{
    if (!t || t->layout->contiguous)
        return tensor_same(t);
    lock_take();
    bk_tensor *c = copy_as(t, t->layout->plain, tensor_dtype(t));
    lock_give();
    return c;
}

bk_tensor *bk_detach(const bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *v = tensor_alias(t, t->layout, t->offset, false);
    lock_give();
    return v;
}

/* Whether sizes repeat to others without those growing. */
static bool repeats_to(const layout *l, const layout *plain)
{
    if (l->ndim > plain->ndim)
        return false;
    for (int d = 0; d < l->ndim; d++)
        if (l->sizes[d] != 1 && l->sizes[d] != plain->sizes[plain->ndim - l->ndim + d])
            return false;
    return true;
}

/* A number may be written where elements share memory; a tensor only to memory that it is not read from. */
static int check_assign(const bk_tensor *t, operand in)
{
    if (!in.value)
        return tensor_check_leaf(t) < 0 ? -1 : number_check(in, tensor_dtype(t));
    return tensor_check_write(t) < 0 ? -1 : overlap_check(t, in.value);
}

/* t takes the elements of an operand, cast and repeated to t's dtype and sizes. */
int tensor_assign(bk_tensor *t, operand in, write_op op)
{
    char a[200], b[200];
    if (check_assign(t, in) < 0)
        return -1;
    if (in.value && !repeats_to(in.value->layout, t->layout)) {
        const layout *both = layout_broadcast(t->layout, in.value->layout);
        return !both ? -1
                     : error_int(BK_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s",
                                 layout_text(t->layout, a), layout_text(both, b));
    }
    owned cast = operand_cast(in, tensor_dtype(t));
    if (!cast.value)
        return -1;
    owned wide = operand_expand(owned_operand(cast), t->layout->plain);
    owned_release(cast);
    if (!wide.value)
        return -1;
    int status = tensor_overwrite(t, owned_operand(wide));
    owned_release(wide);
    if (status == 0)
        tensor_written_by(t, op);
    return status;
}

int bk_copy_(bk_tensor *t, const bk_tensor *from)
{
    if (!t || !from)
        return -1;
    lock_take();
    operand in;
    int status = tensor_read(from, &in) ? tensor_assign(t, in, WRITE_copy) : -1;
    lock_give();
    return status;
}

static int write_number(bk_tensor *t, operand number, write_op op)
{
    if (!t)
        return -1;
    lock_take();
    int status = tensor_assign(t, number, op);
    lock_give();
    return status;
}

int bk_fill_(bk_tensor *t, double value) { return write_number(t, number_float(value), WRITE_fill); }
int bk_zero_(bk_tensor *t) { return write_number(t, number_int(0), WRITE_zero); }
