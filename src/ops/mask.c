/* mask.c: masks, and the places where something is true.
 *
 * Filling under a mask is `where`: it stays lazy and fuses. Taking out what a mask selects needs the count, so the mask
 * is evaluated and the rest stays lazy. */
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "cpu/index.h"
#include "ops/compose.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/numbers.h"
#include "ops/read.h"

static bool is_mask(const bk_tensor *t) { return tensor_dtype(t) == BK_BOOL; }

/* where(mask, value, x), in x's dtype. */
static bk_tensor *filled(const bk_tensor *x, const bk_tensor *mask, operand value)
{
    operand in[MAX_INPUTS] = { { 0 } };
    if (!is_mask(mask))
        return error_null(BK_RUNTIME_ERROR, "masked_fill_ only supports boolean masks, but got mask with dtype %s",
                          dtypes[tensor_dtype(mask)].c_name);
    if (value.value && value.value->layout->ndim)
        return error_null(BK_RUNTIME_ERROR,
                          "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with %d "
                          "dimension(s).",
                          value.value->layout->ndim);
    if (value_check(value, tensor_dtype(x)) < 0)
        return NULL;
    owned cast = operand_cast(value, tensor_dtype(x));
    if (!cast.value)
        return NULL;
    in[1] = owned_operand(cast);
    bk_tensor *r = tensor_read(mask, &in[0]) && tensor_read(x, &in[2]) ? ew_apply(EW_where, in) : NULL;
    owned_release(cast);
    return r;
}

/* Row-major: PyTorch fills a copy of x. */
bk_tensor *masked_filled(const bk_tensor *x, const bk_tensor *mask, operand value)
{
    bk_scope_push();
    bk_tensor *t = filled(x, mask, value);
    return scope_return(t ? laid_as(t, t->layout->plain) : NULL);
}

int masked_fill_operand(bk_tensor *x, const bk_tensor *mask, operand value)
{
    if (tensor_check_write(x) < 0)
        return -1;
    bk_scope_push();
    bk_tensor *r = filled(x, mask, value);
    char a[200], b[200];
    operand in;
    int status = -1;
    if (r && r->layout->plain != x->layout->plain)
        error_int(BK_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s",
                  layout_text(x->layout, a), layout_text(r->layout, b));
    else if (r && tensor_read(r, &in))
        status = tensor_write(x, in, false);
    bk_scope_pop();
    return status;
}

bk_tensor *bk_masked_fill(const bk_tensor *t, const bk_tensor *mask, double value)
{
    if (!t || !mask)
        return NULL;
    lock_take();
    bk_tensor *r = masked_filled(t, mask, number_of(value));
    lock_give();
    return r;
}

bk_tensor *bk_masked_fill_t(const bk_tensor *t, const bk_tensor *mask, const bk_tensor *value)
{
    if (!t || !mask || !value)
        return NULL;
    lock_take();
    operand in;
    bk_tensor *r = tensor_read(value, &in) ? masked_filled(t, mask, in) : NULL;
    lock_give();
    return r;
}

int bk_masked_fill_(bk_tensor *t, const bk_tensor *mask, double value)
{
    if (!t || !mask)
        return -1;
    lock_take();
    int status = masked_fill_operand(t, mask, number_of(value));
    lock_give();
    return status;
}

int bk_masked_fill_t_(bk_tensor *t, const bk_tensor *mask, const bk_tensor *value)
{
    if (!t || !mask || !value)
        return -1;
    lock_take();
    operand in;
    int status = tensor_read(value, &in) ? masked_fill_operand(t, mask, in) : -1;
    lock_give();
    return status;
}

/* --- select and scatter
 * ------------------------------------------------------------------------------------------------ */

static bk_tensor *select_masked(const bk_tensor *t, const bk_tensor *mask)
{
    if (!is_mask(mask))
        return error_null(BK_RUNTIME_ERROR, "masked_select: expected BoolTensor for mask");
    operand in[2] = { { 0 } };
    if (!tensor_read(t, &in[0]) || !tensor_read(mask, &in[1]))
        return NULL;
    const layout *l = operands_broadcast(in, 2);
    if (!l)
        return NULL;
    bk_tensor *x = bk_expand(t, l->ndim, l->sizes), *m = bk_expand(mask, l->ndim, l->sizes);
    int64_t count = x && m ? mask_total(m) : -1;
    return count < 0 ? NULL : mask_read(x, m, count);
}

bk_tensor *bk_masked_select(const bk_tensor *t, const bk_tensor *mask)
{
    if (!t || !mask)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(select_masked(t, mask));
    lock_give();
    return r;
}

static int scatter_masked(bk_tensor *t, const bk_tensor *mask, const bk_tensor *source)
{
    if (tensor_check_write(t) < 0)
        return -1;
    if (!is_mask(mask))
        return error_int(BK_RUNTIME_ERROR, "masked_scatter_ only supports boolean masks, but got mask with dtype %s",
                         dtypes[tensor_dtype(mask)].type_name);
    if (tensor_dtype(source) != tensor_dtype(t))
        return error_int(BK_RUNTIME_ERROR,
                         "masked_scatter_: expected self and source to have same dtypes but got %s and %s",
                         dtypes[tensor_dtype(t)].type_name, dtypes[tensor_dtype(source)].type_name);
    bk_tensor *m = bk_expand(mask, t->layout->ndim, t->layout->sizes);
    int64_t count = m ? mask_total(m) : -1;
    if (count < 0)
        return -1;
    if (count > source->layout->numel)
        return error_int(BK_RUNTIME_ERROR, "Number of elements of source < number of ones in mask");
    bk_tensor *line = bk_slice(bk_reshape(source, 1, (int64_t[]){ -1 }), 0, 0, count, 1);
    return line ? mask_write(t, m, line) : -1;
}

int bk_masked_scatter_(bk_tensor *t, const bk_tensor *mask, const bk_tensor *source)
{
    if (!t || !mask || !source)
        return -1;
    lock_take();
    bk_scope_push();
    int status = scatter_masked(t, mask, source);
    bk_scope_pop();
    lock_give();
    return status;
}

bk_tensor *bk_masked_scatter(const bk_tensor *t, const bk_tensor *mask, const bk_tensor *source)
{
    if (!t || !mask || !source)
        return NULL;
    lock_take();
    bk_scope_push();
    operand in[2] = { { 0 } };
    const layout *l = tensor_read(t, &in[0]) && tensor_read(mask, &in[1]) ? operands_broadcast(in, 2) : NULL;
    bk_tensor *wide = l ? bk_expand(t, l->ndim, l->sizes) : NULL;
    bk_tensor *c = wide ? copy_as(wide, l, tensor_dtype(t)) : NULL;
    c = scope_return(c && scatter_masked(c, mask, source) == 0 ? tensor_finished(c) : NULL);
    lock_give();
    return c;
}

/* --- places
 * --------------------------------------------------------------------------------------------------------------- */

/* Memory for results that are computed at once. */
static bk_tensor *made_now(int ndim, const int64_t *sizes, const int64_t *strides, bk_dtype dtype, view *v)
{
    const layout *l = layout_get(ndim, sizes, strides);
    storage *s = l ? storage_new((size_t)l->numel * dtype_size(dtype)) : NULL;
    bk_tensor *t = s ? tensor_from_node(node_data(dtype, l, s, s->data)) : NULL;
    return t && tensor_view(t, v) == 0 ? t : NULL;
}

/* The flat, row-major places of what is set. */
bk_tensor *mask_places(const bk_tensor *mask)
{
    view from, to;
    bk_tensor *flat = bk_reshape(mask, 1, (int64_t[]){ -1 });
    if (!flat || tensor_view(flat, &from) < 0)
        return NULL;
    int64_t n = nonzero_count(&from);
    bk_tensor *r = made_now(2, (int64_t[]){ n, 1 }, NULL, BK_INT64, &to);
    return r && nonzero(&to, &from) == 0 ? bk_view(r, 1, &n) : NULL;
}
