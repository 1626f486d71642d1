/* matmul.c: recording products. */
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"

/* Two operands of equal ndim >= 2 whose inner sizes agree and whose batch sizes broadcast. */
static bk_tensor *record_product(operand a, operand b)
{
    const layout *la = a.value->layout, *lb = b.value->layout;
    int64_t sizes[BK_MAX_NDIM];
    int last = la->ndim - 1;
    for (int d = 0; d < last - 1; d++)
        sizes[d] = la->sizes[d] == 1 ? lb->sizes[d] : la->sizes[d];
    sizes[last - 1] = la->sizes[last - 1];
    sizes[last] = lb->sizes[last];
    const layout *l = layout_get(la->ndim, sizes, NULL);
    node *n = l ? node_new(OP_matmul, (bk_dtype)a.value->dtype, l) : NULL;
    if (!n)
        return NULL;
    n->inputs = 2;
    node_input(n, 0, a.value, a.edge);
    node_input(n, 1, b.value, b.edge);
    return tensor_from_node(record_node(n));
}

/* t with leading dimensions of size 1 up to ndim. */
static const bk_tensor *raise(const bk_tensor *t, int ndim)
{
    while (t && t->layout->ndim < ndim)
        t = bk_unsqueeze(t, 0);
    return t;
}

static bool check_product(const bk_tensor *a, const bk_tensor *b)
{
    char x[200], y[200];
    const layout *la = a->layout, *lb = b->layout;
    if (!la->ndim || !lb->ndim)
        return error_null(BK_RUNTIME_ERROR, "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                          la->ndim, lb->ndim), false;
    if (tensor_dtype(a) != tensor_dtype(b))
        return error_null(BK_RUNTIME_ERROR, "expected m1 and m2 to have the same dtype, but got: %s != %s",
                          dtypes[tensor_dtype(a)].name, dtypes[tensor_dtype(b)].name), false;
    int64_t inner_a = la->sizes[la->ndim - 1], inner_b = lb->sizes[lb->ndim > 1 ? lb->ndim - 2 : 0];
    if (inner_a != inner_b)
        return error_null(BK_RUNTIME_ERROR, "mat1 and mat2 shapes cannot be multiplied (%s and %s)", layout_text(la, x),
                          layout_text(lb, y)), false;
    return true;
}

static bool check_batch(const layout *a, const layout *b)
{
    char x[200], y[200];
    for (int d = 0; d < a->ndim - 2; d++)
        if (a->sizes[d] != b->sizes[d] && a->sizes[d] != 1 && b->sizes[d] != 1)
            return error_null(BK_RUNTIME_ERROR, "matmul: batch sizes of %s and %s do not broadcast", layout_text(a, x),
                              layout_text(b, y)), false;
    return true;
}

/* The kernels' own dtypes are multiplied as they are, the others in a wider one. */
static bk_dtype product_dtype(bk_dtype d)
{
    return dtypes[d].category == CATEGORY_FLOAT ? (d == BK_FLOAT64 ? d : BK_FLOAT32) : BK_INT64;
}

static bk_tensor *product(const bk_tensor *a, const bk_tensor *b)
{
    bool vector_a = a->layout->ndim == 1, vector_b = b->layout->ndim == 1;
    if (vector_b)
        b = bk_unsqueeze(b, 1);
    int ndim = a->layout->ndim > b->layout->ndim ? a->layout->ndim : b->layout->ndim;
    bk_dtype dtype = tensor_dtype(a), wide = product_dtype(dtype);
    a = raise(bk_to(a, wide), ndim);
    b = raise(bk_to(b, wide), ndim);
    operand in[2];
    if (!a || !b || !check_batch(a->layout, b->layout) || !tensor_read(a, &in[0]) || !tensor_read(b, &in[1]))
        return NULL;
    bk_tensor *c = bk_to(record_product(in[0], in[1]), dtype);
    if (vector_b && c)
        c = bk_squeeze(c, -1);
    return vector_a && c ? bk_squeeze(c, vector_b ? -1 : -2) : c;
}

bk_tensor *bk_matmul(const bk_tensor *a, const bk_tensor *b)
{
    if (!a || !b)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *c = scope_return(check_product(a, b) ? product(a, b) : NULL);
    lock_give();
    return c;
}
