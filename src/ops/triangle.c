/* triangle.c: tril, triu, and the coordinates of their elements. */
#include "core/error.h"
#include "core/lock.h"
#include "ops/create.h"
#include "ops/elementwise.h"

/* A diagonal past the matrix is the same as one at its corner. */
static int64_t clip_diagonal(int64_t diagonal, int64_t rows, int64_t columns)
{
    return diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
}

static bk_tensor *triangle(const bk_tensor *t, int64_t diagonal, int op)
{
    if (!t)
        return NULL;
    const layout *l = t->layout;
    if (l->ndim < 2)
        return error_null(BK_RUNTIME_ERROR, "%s: input tensor must have at least 2 dimensions", op_get(op)->name);
    lock_take();
    operand in;
    node *n = tensor_read(t, &in) ? node_new(op, tensor_dtype(t), l->plain) : NULL;
    if (n) {
        n->inputs = 1;
        node_input(n, 0, in.value, in.edge);
        n->attr.i[0] = clip_diagonal(diagonal, l->sizes[l->ndim - 2], l->sizes[l->ndim - 1]);
    }
    bk_tensor *result = tensor_from_node(record_node(n));
    lock_give();
    return result;
}

bk_tensor *bk_tril(const bk_tensor *t, int64_t diagonal) { return triangle(t, diagonal, OP_tril); }
bk_tensor *bk_triu(const bk_tensor *t, int64_t diagonal) { return triangle(t, diagonal, OP_triu); }

/* --- indices ------------------------------------------------------------------------------------------------ */

typedef struct area {
    int64_t rows, columns, offset;
    bool upper;
} area;

/* The columns [first, end) of one row. */
static void row_bounds(const area *a, int64_t row, int64_t *first, int64_t *end)
{
    int64_t meet = row + a->offset + !a->upper;
    meet = meet < 0 ? 0 : meet > a->columns ? a->columns : meet;
    *first = a->upper ? meet : 0;
    *end = a->upper ? a->columns : meet;
}

static void store_indices(const area *a, bk_dtype dtype, char *to, int64_t count)
{
    size_t size = dtype_size(dtype);
    char *columns = to + (size_t)count * size;
    for (int64_t row = 0; row < a->rows; row++) {
        int64_t first, end;
        row_bounds(a, row, &first, &end);
        for (int64_t column = first; column < end; column++, to += size, columns += size) {
            dtype_store_int(dtype, to, row);
            dtype_store_int(dtype, columns, column);
        }
    }
}

static bk_tensor *indices(area a, bk_dtype dtype)
{
    if (a.rows < 0 || a.columns < 0)
        return error_null(BK_RUNTIME_ERROR, "%s must be non-negative, got%lld", a.rows < 0 ? "row" : "column",
                          (long long)(a.rows < 0 ? a.rows : a.columns));
    a.offset = clip_diagonal(a.offset, a.rows, a.columns);
    int64_t count = 0;
    for (int64_t row = 0, first, end; row < a.rows; row++) {
        row_bounds(&a, row, &first, &end);
        count += end - first;
    }
    lock_take();
    const layout *l = layout_get(2, (int64_t[]){ 2, count }, NULL);
    storage *s = l ? storage_new((size_t)l->numel * dtype_size(dtype)) : NULL;
    if (s)
        store_indices(&a, dtype, s->data, count);
    bk_tensor *t = tensor_adopt(s, l, dtype);
    lock_give();
    return t;
}

bk_tensor *bk_tril_indices(int64_t rows, int64_t columns, int64_t offset, bk_dtype dtype)
{
    return indices((area){ rows, columns, offset, false }, dtype);
}

bk_tensor *bk_triu_indices(int64_t rows, int64_t columns, int64_t offset, bk_dtype dtype)
{
    return indices((area){ rows, columns, offset, true }, dtype);
}
