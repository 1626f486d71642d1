/* create.c: tensors from nothing, from numbers and from memory. */
#include <string.h>

#include "autograd/replay.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "ops/create.h"
#include "ops/elementwise.h"

const layout *checked_layout(int ndim, const int64_t *sizes)
{
    char text[200];
    for (int d = 0; d < ndim && d < BK_MAX_NDIM; d++)
        if (sizes[d] < 0)
            return error_null(BK_RUNTIME_ERROR, "Trying to create tensor with negative dimension %lld: %s",
                              (long long)sizes[d], sizes_text(ndim < BK_MAX_NDIM ? ndim : BK_MAX_NDIM, sizes, text));
    return layout_get(ndim, sizes, NULL);
}

/* One element stands in its node, as if it had been computed. */
static node *element_node(const layout *l, const node *constant)
{
    node *n = node_new(OP_data, (bk_dtype)constant->dtype, l);
    if (n) {
        n->data = (char *)&n->attr;
        memcpy(n->data, constant->data, dtype_size((bk_dtype)constant->dtype));
        replay_made(n, OP_data, 0, NULL);
    }
    return n;
}

/* A filled tensor is a copy of a constant, so that it fuses with what reads it. */
static node *copy_node(const layout *l, node *constant)
{
    node *n = node_new(OP_cast, (bk_dtype)constant->dtype, l);
    if (n) {
        n->inputs = 1;
        node_input(n, 0, constant, NULL);
    }
    return record_node(n);
}

node *fill_node(const layout *l, node *constant)
{
    node *n = !constant || !l ? NULL : l->numel == 1 ? element_node(l, constant) : copy_node(l, constant);
    if (constant)
        node_release(constant);
    return n;
}

bk_tensor *fill_layout(const layout *l, double value, bk_dtype dtype)
{
    lock_take();
    bk_tensor *t = tensor_from_node(fill_node(l, node_constant_double(dtype, value)));
    lock_give();
    return t;
}

bk_tensor *bk_full(int ndim, const int64_t *sizes, double value, bk_dtype dtype)
{
    lock_take();
    const layout *l = checked_layout(ndim, sizes);
    bk_tensor *t = l ? fill_layout(l, value, dtype) : NULL;
    lock_give();
    return t;
}

bk_tensor *bk_full_int(int ndim, const int64_t *sizes, int64_t value, bk_dtype dtype)
{
    lock_take();
    const layout *l = checked_layout(ndim, sizes);
    bk_tensor *t = l ? tensor_from_node(fill_node(l, node_constant_int(dtype, value))) : NULL;
    lock_give();
    return t;
}

bk_tensor *bk_zeros(int ndim, const int64_t *sizes, bk_dtype dtype) { return bk_full(ndim, sizes, 0, dtype); }
bk_tensor *bk_ones(int ndim, const int64_t *sizes, bk_dtype dtype) { return bk_full(ndim, sizes, 1, dtype); }
bk_tensor *bk_scalar(double value, bk_dtype dtype) { return bk_full(0, NULL, value, dtype); }

bk_tensor *bk_empty(int ndim, const int64_t *sizes, bk_dtype dtype)
{
    lock_take();
    const layout *l = checked_layout(ndim, sizes);
    bk_tensor *t = l ? tensor_from_node(record_node(node_new(OP_empty, dtype, l))) : NULL;
    lock_give();
    return t;
}

int strides_check(int ndim, const int64_t *sizes, const int64_t *strides)
{
    char a[200], b[200];
    for (int d = 0; d < ndim; d++)
        if (sizes[d] < 0 || strides[d] < 0)
            return error_int(BK_RUNTIME_ERROR, "Storage size calculation overflowed with sizes=%s and strides=%s",
                             sizes_text(ndim, sizes, a), sizes_text(ndim, strides, b));
    return 0;
}

bk_tensor *bk_empty_strided(int ndim, const int64_t *sizes, const int64_t *strides, bk_dtype dtype)
{
    lock_take();
    bk_tensor *t = NULL;
    bool good = checked_layout(ndim, sizes) && strides_check(ndim, sizes, strides) == 0;
    const layout *l = good ? layout_get(ndim, sizes, strides) : NULL;
    storage *s = l ? storage_new((size_t)l->span * dtype_size(dtype)) : NULL;
    if (s)
        t = tensor_from_node(node_data(dtype, l, s, s->data));
    lock_give();
    return t;
}

/* --- like another tensor: its sizes, and the order of its strides ------------------------------------------- */

bk_tensor *bk_empty_like(const bk_tensor *t, bk_dtype dtype)
{
    if (!t)
        return NULL;
    lock_take();
    const layout *l = layout_packed(t->layout);
    bk_tensor *e = l ? tensor_from_node(record_node(node_new(OP_empty, dtype, l))) : NULL;
    lock_give();
    return e;
}

bk_tensor *bk_full_like(const bk_tensor *t, double value, bk_dtype dtype)
{
    return t ? fill_layout(layout_packed(t->layout), value, dtype) : NULL;
}

bk_tensor *bk_zeros_like(const bk_tensor *t) { return t ? bk_full_like(t, 0, tensor_dtype(t)) : NULL; }
bk_tensor *bk_ones_like(const bk_tensor *t) { return t ? bk_full_like(t, 1, tensor_dtype(t)) : NULL; }

/* --- from memory ------------------------------------------------------------------------------------------- */

bk_tensor *tensor_adopt(storage *s, const layout *l, bk_dtype dtype)
{
    if (!l && s)
        storage_release(s);
    return s && l ? tensor_from_node(node_data(dtype, l, s, s->data)) : NULL;
}

bk_tensor *bk_from_data(const void *data, int ndim, const int64_t *sizes, bk_dtype dtype)
{
    lock_take();
    bk_tensor *t = NULL;
    const layout *l = checked_layout(ndim, sizes);
    storage *s = l ? storage_new((size_t)l->numel * dtype_size(dtype)) : NULL;
    if (s && s->bytes)
        memcpy(s->data, data, s->bytes);
    t = tensor_adopt(s, l, dtype);
    lock_give();
    return t;
}

bk_tensor *bk_from_memory(void *data, int ndim, const int64_t *sizes, const int64_t *strides, bk_dtype dtype,
                          void (*release)(void *owner), void *owner)
{
    lock_take();
    bk_tensor *t = NULL;
    const layout *l = layout_get(ndim, sizes, strides);
    storage *s = l ? storage_foreign(data, (size_t)l->span * dtype_size(dtype), release, owner) : NULL;
    if (s)
        t = tensor_from_node(node_data(dtype, l, s, data));
    lock_give();
    return t;
}
