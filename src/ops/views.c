/* views.c: the views that are named for what they do: parts, turned and merged dimensions, windows, diagonals. */
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/read.h"
#include "ops/view_lists.h"

static bk_tensor *alias(const bk_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    const layout *l = layout_get(ndim, sizes, strides);
    return l ? tensor_view_of(t, l, t->offset + offset) : NULL;
}

int64_t bk_storage_offset(const bk_tensor *t) { return t->offset; }

/* --- merged and split dimensions
 * ---------------------------------------------------------------------------------------- */

bk_tensor *bk_flatten(const bk_tensor *t, int start_dim, int end_dim)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    int first = layout_dim(l, start_dim), last = first < 0 ? -1 : layout_dim(l, end_dim);
    if (last < 0)
        return NULL;
    if (first > last)
        return error_null(BK_RUNTIME_ERROR, "flatten() has invalid args: start_dim cannot come after end_dim");
    if (l->ndim == 0)
        return bk_reshape(t, 1, (int64_t[]){ 1 });
    if (first == last)
        return tensor_same(t);
    int64_t sizes[BK_MAX_NDIM], product = 1;
    int n = 0;
    for (int d = 0; d < l->ndim; d++) {
        if (d < first || d > last) {
            sizes[n++] = l->sizes[d];
            continue;
        }
        product *= l->sizes[d];
        if (d == last)
            sizes[n++] = product;
    }
    return bk_reshape(t, n, sizes);
}

bk_tensor *bk_unflatten(const bk_tensor *t, int dim, int count, const int64_t *sizes)
{
    if (!t)
        return NULL;
    char text[200];
    const layout *l = t->layout;
    if (l->ndim == 0 && (dim == 0 || dim == -1))
        return error_null(BK_RUNTIME_ERROR,
                          "unflatten got an unexpected error:\nDimension specified as %d but tensor has no "
                          "dimensions (for the coordinates of a flat index use torch.unravel_index(index, shape))",
                          dim);
    int d = layout_dim(l, dim);
    if (d < 0)
        return NULL;
    if (!count)
        return error_null(BK_RUNTIME_ERROR, "unflatten: sizes must be non-empty");
    if (l->ndim - 1 + count > BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions", BK_MAX_NDIM);
    int64_t to[BK_MAX_NDIM], known = 1;
    int unknown = -1, n = 0;
    for (int k = 0; k < count; k++) {
        if (sizes[k] == -1 && unknown >= 0)
            return error_null(BK_RUNTIME_ERROR, "only one dimension can be inferred");
        if (sizes[k] == -1)
            unknown = k;
        else
            known *= sizes[k];
    }
    int64_t have = l->sizes[d], missing = unknown >= 0 && known > 0 ? have / known : 1;
    if (known < 0 || known * missing != have)
        return error_null(BK_RUNTIME_ERROR,
                          "unflatten: Provided sizes %s don't multiply up to the size of dim %d (%lld) in "
                          "the input tensor",
                          sizes_text(count, sizes, text), d, (long long)have);
    for (int k = 0; k < l->ndim; k++) {
        if (k != d)
            to[n++] = l->sizes[k];
        for (int s = 0; k == d && s < count; s++)
            to[n++] = s == unknown ? missing : sizes[s];
    }
    return bk_view(t, n, to);
}

/* --- turned dimensions
 * ------------------------------------------------------------------------------------------------------ */

/* Wraps the dims of movedim; false with the error set when one is out of range or repeated. */
static bool wrap_dims(const layout *l, int count, const int *dims, const char *name, int out[static BK_MAX_NDIM])
{
    char text[200];
    int64_t given[BK_MAX_NDIM];
    uint32_t seen = 0;
    for (int k = 0; k < count; k++) {
        given[k] = dims[k];
        out[k] = layout_dim(l, dims[k]);
        if (out[k] < 0)
            return false;
    }
    for (int k = 0; k < count; k++) {
        if (seen >> out[k] & 1)
            return error_null(BK_RUNTIME_ERROR, "movedim: repeated dim in `%s` (%s)", name,
                              sizes_text(count, given, text)),
                   false;
        seen |= 1u << out[k];
    }
    return true;
}

bk_tensor *bk_movedim(const bk_tensor *t, int count, const int *source, const int *destination)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    int from[BK_MAX_NDIM], to[BK_MAX_NDIM], order[BK_MAX_NDIM];
    if (count > BK_MAX_NDIM || !wrap_dims(l, count, source, "source", from) ||
        !wrap_dims(l, count, destination, "destination", to))
        return NULL;
    uint32_t placed = 0, moved = 0;
    for (int k = 0; k < count; k++) {
        order[to[k]] = from[k];
        placed |= 1u << to[k];
        moved |= 1u << from[k];
    }
    for (int d = 0, next = 0; d < l->ndim; d++) {
        if (placed >> d & 1)
            continue;
        while (moved >> next & 1)
            next++;
        order[d] = next++;
    }
    return bk_permute(t, l->ndim, order);
}

bk_tensor *bk_t(const bk_tensor *t)
{
    if (!t)
        return NULL;
    if (t->layout->ndim > 2)
        return error_null(BK_RUNTIME_ERROR, "t() expects a tensor with <= 2 dimensions, but self is %dD",
                          t->layout->ndim);
    const layout *l = t->layout;
    if (l->ndim == 2)
        return made_by(bk_transpose(t, 0, 1), VIEW_t);
    bk_tensor *v = made_by(alias(t, l->ndim, l->sizes, l->strides, 0), VIEW_t);
    return v && tensor_shares(t) ? apart_close(v, bk_t(apart_open(t))) : v;
}

bk_tensor *bk_squeeze_dims(const bk_tensor *t, int count, const int *dims)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    uint32_t drop = 0;
    for (int k = 0; k < count; k++) {
        int d = layout_dim(l, dims[k]);
        if (d < 0)
            return NULL;
        if (drop >> d & 1)
            return error_null(BK_RUNTIME_ERROR, "dim %d appears multiple times in the list of dims", d);
        drop |= 1u << d;
    }
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < l->ndim; d++) {
        if (drop >> d & 1 && l->sizes[d] == 1)
            continue;
        sizes[n] = l->sizes[d];
        strides[n++] = l->strides[d];
    }
    lock_take();
    bk_tensor *v = made_by(alias(t, n, sizes, strides, 0), VIEW_squeeze_dims);
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_squeeze_dims(apart_open(t), count, dims)) : v;
}

/* --- parts
 * ---------------------------------------------------------------------------------------------------------------------
 */

bk_tensor *bk_narrow(const bk_tensor *t, int dim, int64_t start, int64_t length)
{
    if (!t)
        return NULL;
    if (!t->layout->ndim)
        return error_null(BK_RUNTIME_ERROR, "narrow() cannot be applied to a 0-dim tensor.");
    int d = layout_dim(t->layout, dim);
    if (d < 0)
        return NULL;
    int64_t size = t->layout->sizes[d];
    if (length < 0)
        return error_null(BK_RUNTIME_ERROR, "narrow(): length must be non-negative.");
    if (start < -size || start > size)
        return error_null(BK_INDEX_ERROR, "start out of range (expected to be in range of [%lld, %lld], but got %lld)",
                          (long long)-size, (long long)size, (long long)start);
    if (start < 0)
        start += size;
    if (start > size - length)
        return error_null(BK_RUNTIME_ERROR, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                          (long long)start, (long long)length, (long long)size);
    return bk_slice(t, d, start, start + length, 1);
}

static void release_all(bk_tensor **out, int count)
{
    for (int k = 0; k < count; k++)
        scope_drop(out[k]);
}

int view_list_for(const bk_tensor *t, const int64_t *sizes, int count)
{
    if (!tensor_tracked(t) || !grad_enabled())
        return 0;
    lock_take();
    int first = view_list_keep(sizes, count);
    lock_give();
    return first;
}

int bk_split_sizes(const bk_tensor *t, int count, const int64_t *sizes, int dim, bk_tensor **out)
{
    if (!t)
        return -1;
    char text[200];
    if (!t->layout->ndim)
        return error_int(BK_RUNTIME_ERROR, "split expects at least a 1-dimensional tensor");
    int d = layout_dim(t->layout, dim);
    if (d < 0)
        return -1;
    int64_t sum = 0, size = t->layout->sizes[d];
    for (int k = 0; k < count; k++) {
        if (sizes[k] < 0)
            return error_int(BK_RUNTIME_ERROR,
                             "split_with_sizes expects split_sizes have only non-negative entries, but got "
                             "split_sizes=%s",
                             sizes_text(count < 8 ? count : 8, sizes, text));
        sum += sizes[k];
    }
    if (sum != size)
        return error_int(BK_RUNTIME_ERROR,
                         "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size "
                         "at dimension %d), but got split_sizes=%s",
                         (long long)size, dim, sizes_text(count < 8 ? count : 8, sizes, text));
    int64_t at = 0;
    int first = view_list_for(t, sizes, count);
    for (int k = 0; k < count; at += sizes[k++]) {
        out[k] = made_as_part(bk_slice(t, d, at, at + sizes[k], 1), VIEW_split_sizes, first + k);
        if (!out[k]) {
            release_all(out, k);
            return -1;
        }
    }
    return 0;
}

int bk_unbind(const bk_tensor *t, int dim, bk_tensor **out)
{
    if (!t)
        return -1;
    if (!t->layout->ndim)
        return error_int(BK_INDEX_ERROR, "Dimension specified as %d but tensor has no dimensions", dim);
    int d = layout_dim(t->layout, dim);
    if (d < 0)
        return -1;
    for (int64_t k = 0; k < t->layout->sizes[d]; k++) {
        out[k] = made_as_part(bk_select(t, d, k), VIEW_unbind, k);
        if (!out[k]) {
            release_all(out, (int)k);
            return -1;
        }
    }
    return 0;
}

/* --- windows and diagonals
 * -------------------------------------------------------------------------------------------------------- */

bk_tensor *bk_unfold(const bk_tensor *t, int dim, int64_t size, int64_t step)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    int d = layout_dim(l, dim), n = l->ndim;
    if (d < 0)
        return NULL;
    int64_t length = n ? l->sizes[d] : 1, stride = n ? l->strides[d] : 1;
    if (size < 0)
        return error_null(BK_RUNTIME_ERROR, "size is %lld but must be >= 0", (long long)size);
    if (size > length)
        return error_null(BK_RUNTIME_ERROR, "maximum size for tensor at dimension %d is %lld but size is %lld", d,
                          (long long)length, (long long)size);
    if (step <= 0)
        return error_null(BK_RUNTIME_ERROR, "step is %lld but must be > 0", (long long)step);
    if (n == BK_MAX_NDIM)
        return error_null(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions", BK_MAX_NDIM);
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    memcpy(sizes, l->sizes, sizeof sizes);
    memcpy(strides, l->strides, sizeof strides);
    if (n) {
        sizes[d] = (length - size) / step + 1;
        strides[d] = step * stride;
    }
    sizes[n] = size;
    strides[n] = stride;
    lock_take();
    bk_tensor *v = made_by(alias(t, n + 1, sizes, strides, 0), VIEW_unfold);
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_unfold(apart_open(t), dim, size, step)) : v;
}

bk_tensor *bk_diagonal(const bk_tensor *t, int64_t offset, int dim1, int dim2)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    int a = layout_dim(l, dim1), b = a < 0 ? -1 : layout_dim(l, dim2);
    if (b < 0)
        return NULL;
    if (a == b)
        return error_null(BK_RUNTIME_ERROR, "diagonal dimensions cannot be identical %d, %d", dim1, dim2);
    int64_t rows = l->sizes[a] + (offset < 0 ? offset : 0), columns = l->sizes[b] - (offset > 0 ? offset : 0);
    int64_t length = rows < columns ? rows : columns;
    if (length < 0)
        length = 0;
    int64_t start = length ? (offset > 0 ? offset * l->strides[b] : -offset * l->strides[a]) : 0;
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    int n = 0;
    for (int d = 0; d < l->ndim; d++) {
        if (d == a || d == b)
            continue;
        sizes[n] = l->sizes[d];
        strides[n++] = l->strides[d];
    }
    sizes[n] = length;
    strides[n++] = l->strides[a] + l->strides[b];
    lock_take();
    bk_tensor *v = made_by(alias(t, n, sizes, strides, start), VIEW_diagonal);
    lock_give();
    return v && tensor_shares(t) ? apart_close(v, bk_diagonal(apart_open(t), offset, dim1, dim2)) : v;
}

/* --- other dtypes over the same memory -------------------------------------------------------------------------
 *
 * A cell has one dtype. Its memory seen as another is a cell of its own over that memory, and to each the other is a
 * foreign owner: reads are evaluated at once and writes go to the memory, as with NumPy's arrays, until one is gone. */

static void release_other(void *memory) { storage_unexport(memory); }

/* One of its references and one of its exports are ours; others may come from tensors, arrays, or an address. */
static bool other_held(void *memory)
{
    storage *s = memory;
    return s->refs > 1 || s->pinned || (storage_shared(s) && s->exports > 1);
}

/* A handle on t's memory, with offset and layout in elements of the new dtype. */
static bk_tensor *see_as(const bk_tensor *t, bk_dtype dtype, const layout *l, int64_t offset)
{
    const layout *all = t->cell->value->layout;
    const int64_t bytes = all->span * (int64_t)dtype_size(tensor_dtype(t)), size = (int64_t)dtype_size(dtype);
    const layout *line = layout_get(1, (int64_t[]){ bytes / size }, (int64_t[]){ 1 });
    storage *memory = l && line ? tensor_export((bk_tensor *)t) : NULL;
    if (!memory)
        return NULL;
    char *data = t->cell->value->data;
    storage *seen = storage_foreign(data, (size_t)bytes, release_other, memory);
    if (!seen) {
        storage_unexport(memory);
        return NULL;
    }
    seen->reachable = other_held;
    bk_tensor *whole = tensor_from_node(node_data(dtype, line, seen, data));
    bk_tensor *v = whole ? cell_tensor(whole->cell, l, offset) : NULL;
    scope_drop(whole);
    return v;
}

/* PyTorch's conditions, in its order and words. `ratio`: how many elements of one dtype make one of the other. */
static int check_view_dtype(const bk_tensor *t, bk_dtype dtype, int64_t ratio, bool wider)
{
    const layout *l = t->layout;
    const char *from = dtypes[tensor_dtype(t)].type_name, *to = dtypes[dtype].type_name;
    const int last = l->ndim - 1;
    if (l->ndim == 0)
        return error_int(BK_RUNTIME_ERROR, "self.dim() cannot be 0 to view %s as %s (different element sizes)", from,
                         to);
    if (wider && l->sizes[last] % ratio)
        return error_int(
            BK_RUNTIME_ERROR,
            "self.size(-1) must be divisible by %lld to view %s as %s (different element sizes), but got %lld",
            (long long)ratio, from, to, (long long)l->sizes[last]);
    if (wider && t->offset % ratio)
        return error_int(
            BK_RUNTIME_ERROR,
            "self.storage_offset() must be divisible by %lld to view %s as %s (different element sizes), but "
            "got %lld",
            (long long)ratio, from, to, (long long)t->offset);
    if (l->strides[last] != 1)
        return error_int(BK_RUNTIME_ERROR,
                         "self.stride(-1) must be 1 to view %s as %s (different element sizes), but got %lld", from, to,
                         (long long)l->strides[last]);
    for (int d = 0; wider && d < last; d++)
        if (l->strides[d] % ratio)
            return error_int(
                BK_RUNTIME_ERROR,
                "self.stride(%d) must be divisible by %lld to view %s as %s (different element sizes), but got "
                "%lld",
                d, (long long)ratio, from, to, (long long)l->strides[d]);
    return 0;
}

bk_tensor *bk_view_dtype(const bk_tensor *t, bk_dtype dtype)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    const int64_t old = (int64_t)dtype_size(tensor_dtype(t)), new = (int64_t)dtype_size(dtype);
    if (old != new && check_view_dtype(t, dtype, old > new ? old / new : new / old, new > old) < 0)
        return NULL;
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    for (int d = 0; d < l->ndim; d++) {
        const bool last = d == l->ndim - 1;
        sizes[d] = last ? l->sizes[d] * old / new : l->sizes[d];
        strides[d] = last && old != new ? 1 : l->strides[d] * old / new;
    }
    lock_take();
    bk_tensor *v = dtype == tensor_dtype(t)
                       ? tensor_alias(t, l, t->offset, false) /* not on the tape either: so it is in PyTorch */
                       : see_as(t, dtype, layout_get(l->ndim, sizes, strides), t->offset * old / new);
    lock_give();
    return v;
}
