/* read.c: values out of tensors: this is where evaluation happens. */
#include "ops/read.h"

#include <string.h>

#include "core/error.h"
#include "core/format.h"
#include "core/lock.h"
#include "core/memory.h"
#include "graph/ahead.h"
#include "graph/log.h"
#include "graph/packed.h"
#include "ops/settings.h"

int tensor_view(const bk_tensor *t, view *out)
{
    char *data = tensor_data(t);
    if (!data)
        return -1;
    out->data = data;
    out->dtype = tensor_dtype(t);
    view_shape(out, t->layout->ndim, t->layout->sizes, t->layout->strides);
    return 0;
}

int bk_eval(const bk_tensor *t)
{
    if (!t)
        return -1;
    lock_take();
    int status = tensor_data(t) ? 0 : -1;
    lock_give();
    return status;
}

/* A value that lives in its node, or in memory that other values share, moves to memory of its own. */
static int own_memory(cell *c)
{
    node *n = c->value;
    bool alone = n->refs == 1 && n->memory && n->memory->refs == 1;
    if (alone || (n->memory && (n->memory->exports || n->memory->pinned)))
        return 0;
    size_t size = dtype_size((bk_dtype)n->dtype), bytes = (size_t)n->layout->span * size;
    storage *s = storage_new(bytes);
    if (!s)
        return -1;
    memcpy(s->data, n->data, bytes);
    node *own = node_data((bk_dtype)n->dtype, n->layout, s, s->data);
    if (!own)
        return -1;
    cell_move(c, own, false); /* the same value at another address: views must look there */
    return 0;
}

int tensor_pin(bk_tensor *t)
{
    if (!tensor_data(t) || own_memory(t->cell) < 0)
        return -1;
    ahead_leave(); /* whoever has the address may write there */
    packed_drop(t->cell->value->memory);
    t->cell->value->memory->pinned = true;
    return 0;
}

storage *tensor_export(bk_tensor *t)
{
    if (log_flush() < 0 || !tensor_data(t) || own_memory(t->cell) < 0)
        return NULL;
    storage *s = t->cell->value->memory;
    packed_drop(s);
    s->exports++;
    s->refs++;
    return s;
}

void *bk_data(bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    void *data = tensor_pin(t) == 0 ? tensor_data(t) : NULL;
    lock_give();
    return data;
}

/* The address of the one element; NULL with PyTorch's error. */
static const char *only_element(const bk_tensor *t)
{
    if (t->layout->numel != 1)
        return error_null(BK_RUNTIME_ERROR, "a Tensor with %lld elements cannot be converted to Scalar",
                          (long long)t->layout->numel);
    return tensor_data(t);
}

double bk_item(const bk_tensor *t)
{
    if (!t)
        return 0;
    lock_take();
    const char *p = only_element(t);
    double v = p ? dtype_load_double(tensor_dtype(t), p) : 0;
    lock_give();
    return v;
}

int64_t bk_item_int(const bk_tensor *t)
{
    if (!t)
        return 0;
    lock_take();
    const char *p = only_element(t);
    int64_t v = p ? dtype_load_int(tensor_dtype(t), p) : 0;
    lock_give();
    return v;
}

char *bk_to_string(const bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    view v;
    char *text = NULL;
    if (tensor_view(t, &v) == 0)
        text = format_tensor(&v, &format_default, "tensor(", default_dtype(),
                             bk_requires_grad(t) ? "requires_grad=True" : NULL);
    lock_give();
    return text;
}

void bk_free(void *p) { mem_free(p); }
