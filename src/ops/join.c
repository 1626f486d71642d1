/* join.c: cat and stack.
 *
 * Joining is writing: an empty tensor and one update per part, so that the planner can compute the parts in place and
 * the gradient of each part is a view. */
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "graph/log.h"
#include "ops/elementwise.h"
#include "ops/join.h"

/* A 1-d empty tensor joins with anything: PyTorch's old rule. */
static bool skipped(const bk_tensor *t) { return t->layout->ndim == 1 && t->layout->numel == 0; }

static bool check_part(const layout *first, const layout *part, int dim, int number)
{
    if (part->ndim != first->ndim)
        return error_null(BK_RUNTIME_ERROR, "Tensors must have same number of dimensions: got %d and %d", first->ndim,
                          part->ndim),
               false;
    for (int d = 0; d < first->ndim; d++)
        if (d != dim && part->sizes[d] != first->sizes[d])
            return error_null(
                       BK_RUNTIME_ERROR,
                       "Sizes of tensors must match except in dimension %d. Expected size %lld but got size %lld "
                       "for tensor number %d in the list.",
                       dim, (long long)first->sizes[d], (long long)part->sizes[d], number),
                   false;
    return true;
}

static bk_dtype joint_dtype(bk_tensor *const *tensors, int count)
{
    bk_dtype d = tensor_dtype(tensors[0]);
    for (int i = 1; i < count; i++)
        d = dtype_promote(d, tensor_dtype(tensors[i]));
    return d;
}

/* What is joined of images or volumes whose channels come last keeps their format. */
static const layout *joint_format(bk_tensor *const *tensors, int count, const layout *plain)
{
    for (int i = 0; i < count; i++)
        if (!layout_looks_channels_last(tensors[i]->layout) || tensors[i]->layout->ndim != plain->ndim)
            return plain;
    return layout_channels_last(plain);
}

/* The layout of the whole; NULL with the error set. */
static const layout *joint_layout(bk_tensor *const *tensors, int count, int64_t at, int *dim)
{
    const layout *first = NULL;
    int64_t length = 0;
    for (int i = 0; i < count; i++) {
        const layout *l = tensors[i]->layout;
        if (skipped(tensors[i]))
            continue;
        if (!first) {
            if (l->ndim == 0)
                return error_null(BK_RUNTIME_ERROR, "zero-dimensional tensor (at position %d) cannot be concatenated",
                                  i);
            first = l;
            *dim = layout_dim(l, at);
            if (*dim < 0)
                return NULL;
        }
        if (!check_part(first, l, *dim, i))
            return NULL;
        length += l->sizes[*dim];
    }
    if (!first)
        return tensors[0]->layout->plain;
    int64_t sizes[BK_MAX_NDIM];
    memcpy(sizes, first->sizes, sizeof sizes);
    sizes[*dim] = length;
    const layout *plain = layout_get(first->ndim, sizes, NULL);
    return plain && plain->ndim > 3 ? joint_format(tensors, count, plain) : plain;
}

bk_tensor *join_begin(bk_dtype dtype, const layout *whole)
{
    return whole ? tensor_from_node(record_node(node_new(OP_empty, dtype, whole))) : NULL;
}

/* What the tape is told of a part that was written. */
static void mark_part(bk_tensor *whole, const node *before, const bk_tensor *part)
{
    node *written = whole->cell->value; /* the part itself, when it is all there is */
    node *place = whole->track ? whole->track->place : NULL;
    if (written->op == OP_update && written->in[0] == before)
        written->attr.region.tape |= REGION_FRESH; /* parts are disjoint: no gradient below has to be zeroed here */
    if (place && place->op == OP_view && skipped(part))
        place->attr.region.tape |= REGION_FRESH; /* the part itself: its gradient is a constant */
}

/* Part of whole: l, from an offset on. */
static int write_part(bk_tensor *whole, const layout *l, int64_t offset, const bk_tensor *part)
{
    bk_tensor *region = tensor_alias(whole, l, offset, true);
    operand in;
    if (!region || !tensor_read(part, &in))
        return -1;
    const node *before = whole->cell->value;
    bool taped = whole->track && whole->track->place; /* parts without elements were: they stay on the tape */
    owned cast = operand_cast(in, tensor_dtype(whole));
    int status = !cast.value              ? -1
                 : taped || skipped(part) ? tensor_overwrite(region, owned_operand(cast))
                                          : tensor_write(region, owned_operand(cast), false);
    owned_release(cast);
    if (status == 0)
        mark_part(whole, before, part);
    return status;
}

int join_part(bk_tensor *whole, int dim, int64_t from, const bk_tensor *part, const int64_t *sizes)
{
    const layout *l = layout_get(whole->layout->ndim, sizes, whole->layout->strides);
    return l ? write_part(whole, l, from * whole->layout->strides[dim], part) : -1;
}

/* An empty tensor of one dimension has no place among parts of more, but what is joined is on the tape if it is. Its
 * gradient is a constant: zeros that depend on nothing. */
static int write_nothing(bk_tensor *whole, int dim, int64_t from, const bk_tensor *part)
{
    int64_t sizes[BK_MAX_NDIM];
    if (!tensor_tracked(part))
        return 0;
    memcpy(sizes, whole->layout->sizes, sizeof sizes);
    sizes[dim] = 0;
    bk_tensor *empty = bk_as_strided(part, whole->layout->ndim, sizes, whole->layout->strides, 0);
    return empty ? join_part(whole, dim, from, empty, sizes) : -1;
}

/* Of tensors as joint_layout has checked them. */
static bk_tensor *join(bk_tensor *const *tensors, int count, int dim, const layout *l, write_op op)
{
    if (!l)
        return NULL;
    bk_tensor *whole = join_begin(joint_dtype(tensors, count), l);
    int64_t from = 0;
    for (int i = 0; whole && i < count; i++) {
        if (skipped(tensors[i]) && l->ndim != 1) {
            if (write_nothing(whole, dim, from, tensors[i]) < 0)
                return NULL;
            continue;
        }
        if (join_part(whole, dim, from, tensors[i], tensors[i]->layout->sizes) < 0)
            return NULL;
        from += tensors[i]->layout->sizes[dim];
    }
    if (whole)
        tensor_written_by(whole, op);
    return whole;
}

static bool check_list(bk_tensor *const *tensors, int count, const char *op)
{
    if (count <= 0)
        return !strcmp(op, "stack") ? error_null(BK_RUNTIME_ERROR, "stack expects a non-empty TensorList"),
               false : (error_null(BK_VALUE_ERROR, "%s: expected a non-empty list of Tensors", op), false);
    for (int i = 0; i < count; i++)
        if (!tensors[i])
            return false;
    return true;
}

bk_tensor *bk_cat(bk_tensor *const *tensors, int count, int dim)
{
    if (!check_list(tensors, count, "torch.cat()"))
        return NULL;
    lock_take();
    bk_scope_push();
    int at = 0;
    const layout *l = joint_layout(tensors, count, dim, &at);
    bk_tensor *t = scope_return(tensor_finished(join(tensors, count, at, l, WRITE_cat)));
    lock_give();
    return t;
}

/* The layout of `count` tensors stacked along dim: PyTorch joins them along dim and splits it, but for a new last
 * dimension, where what it joins has that dimension already. */
static const layout *stacked_layout(bk_tensor *const *tensors, bk_tensor *const *raised, int count, int dim)
{
    const layout *first = tensors[0]->layout;
    if (dim == first->ndim)
        return joint_layout(raised, count, dim, &dim);
    const layout *l = joint_layout(tensors, count, dim, &dim);
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
    for (int d = 0; d <= first->ndim; d++)
        sizes[d] = d == dim ? count : first->sizes[d - (d > dim)];
    bool splits = l && l != l->plain && layout_view_strides(l, first->ndim + 1, sizes, strides);
    return l ? layout_get(first->ndim + 1, sizes, splits ? strides : NULL) : NULL;
}

/* Part i of a stack is written where whole[i] along dim shows it: no part needs the new dimension itself. */
static bk_tensor *stack_parts(bk_tensor *const *tensors, int count, int dim, const layout *l)
{
    bk_tensor *whole = join_begin(joint_dtype(tensors, count), l);
    const layout *first = tensors[0]->layout;
    int64_t strides[BK_MAX_NDIM];
    for (int d = 0; whole && d < first->ndim; d++)
        strides[d] = l->strides[d + (d >= dim)];
    const layout *part = whole ? layout_get(first->ndim, first->sizes, strides) : NULL;
    for (int i = 0; part && i < count; i++)
        if (write_part(whole, part, i * l->strides[dim], tensors[i]) < 0)
            return NULL;
    if (part)
        tensor_written_by(whole, WRITE_stack);
    return part ? whole : NULL;
}

bk_tensor *bk_stack(bk_tensor *const *tensors, int count, int dim)
{
    if (!check_list(tensors, count, "stack"))
        return NULL;
    char a[200], b[200];
    const layout *first = tensors[0]->layout;
    for (int i = 1; i < count; i++)
        if (tensors[i]->layout->plain != first->plain)
            return error_null(BK_RUNTIME_ERROR,
                              "stack expects each tensor to be equal size, but got %s at entry 0 and %s "
                              "at entry %d",
                              layout_text(first, a), layout_text(tensors[i]->layout, b), i);
    lock_take();
    bk_scope_push();
    int at = dim < 0 ? dim + first->ndim + 1 : dim, i = 0;
    bool inner = count > 1 && at >= 0 && at < first->ndim && first->ndim < BK_MAX_NDIM;
    const layout *l = inner ? stacked_layout(tensors, NULL, count, at) : NULL;
    bk_tensor *raised[inner ? 1 : count], *t = l ? stack_parts(tensors, count, at, l) : NULL;
    while (!inner && i < count && (raised[i] = bk_unsqueeze(tensors[i], dim)))
        i++;
    if (i == count)
        t = join(raised, count, at, stacked_layout(tensors, raised, count, at), WRITE_stack);
    t = scope_return(tensor_finished(t));
    lock_give();
    return t;
}
