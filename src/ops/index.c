/* index.c: recording reads and writes at indices and under masks.
 *
 * Indices are checked here, when they are recorded, so that an error comes on the line that caused it. A write records
 * one node over the whole cell of the tensor it is made through, naming the region: no copy is made of a view. */
#include "ops/index.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "cpu/index.h"
#include "cpu/walk.h"
#include "graph/log.h"
#include "ops/elementwise.h"
#include "ops/numbers.h"
#include "ops/read.h"

/* --- nodes ----------------------------------------------------------------------------------------------------------
 */

static bk_tensor *record_read(int op, const bk_tensor *x, const bk_tensor *at, int64_t dims, const layout *l)
{
    operand in, where;
    if (!l || !tensor_read(x, &in) || !tensor_read(at, &where))
        return NULL;
    node *n = node_new(op, (bk_dtype)in.value->dtype, l);
    if (!n)
        return NULL;
    n->inputs = 2;
    n->attr.index.layout = in.value->layout;
    n->attr.index.dims = dims;
    node_input(n, 0, in.value, in.edge);
    node_input(n, 1, where.value, NULL);
    return tensor_from_node(record_node(n));
}

static int record_write(int op, bk_tensor *x, operand value, const bk_tensor *at, int64_t mode, int64_t dims);

/* x is on a tape of its own, as a part of its cell: the write goes to a copy, and the copy into x. */
static int write_copied(int op, bk_tensor *x, operand value, const bk_tensor *at, int64_t mode, int64_t dims)
{
    bk_scope_push();
    operand in;
    bk_tensor *c = copy_as(x, x->layout->plain, tensor_dtype(x));
    int status =
        c && record_write(op, c, value, at, mode, dims) == 0 && tensor_read(c, &in) ? tensor_write(x, in, false) : -1;
    bk_scope_pop();
    return status;
}

/* in[0] is all of x's cell; `at` may be NULL. */
static int record_write(int op, bk_tensor *x, operand value, const bk_tensor *at, int64_t mode, int64_t dims)
{
    operand where = { 0 };
    bool taped = grad_enabled() && (value.edge || (x->track && x->track->place));
    if (taped && !tensor_covers_cell(x))
        return write_copied(op, x, value, at, mode, dims);
    if (at && !tensor_read(at, &where))
        return -1;
    owned cast = operand_cast(value, tensor_dtype(x));
    node *old = x->cell->value, *n = cast.value ? node_new(op, (bk_dtype)old->dtype, old->layout) : NULL;
    if (n) {
        n->inputs = at ? 3 : 2;
        n->attr.index.layout = x->layout;
        n->attr.index.offset = x->offset;
        n->attr.index.mode = mode;
        n->attr.index.dims = dims;
        node_input(n, 0, old, grad_enabled() && x->track ? x->track->place : NULL);
        node_input(n, 1, cast.value, grad_enabled() ? cast.edge : NULL);
        if (at)
            node_input(n, 2, where.value, NULL);
        n = record_node(n);
    }
    owned_release(cast);
    return n ? tensor_move(x, n) : -1;
}

const layout *index_result(const layout *x, const layout *index, int64_t dims)
{
    int64_t sizes[2 * BK_MAX_NDIM];
    uint32_t bits = index_dims_bits(dims);
    int at = index_dims_at(dims), n = 0, rest = 0;
    for (int d = 0; d <= x->ndim; d++) {
        if (rest == at && n == at)
            for (int k = 0; k < index->ndim; k++)
                sizes[n++] = index->sizes[k];
        if (d < x->ndim && !(bits >> d & 1)) {
            sizes[n++] = x->sizes[d];
            rest++;
        }
    }
    return layout_get(n, sizes, NULL);
}

bk_tensor *index_read(int op, const bk_tensor *x, const bk_tensor *index, int64_t dims, const layout *l)
{
    return x && index ? record_read(op, x, index, dims, l) : NULL;
}

int index_write(int op, bk_tensor *x, const bk_tensor *index, operand value, int64_t dims, bool add)
{
    return record_write(op, x, value, index, add, dims);
}

bk_tensor *gather_read(const bk_tensor *x, int dim, const bk_tensor *index)
{
    return x && index ? record_read(OP_gather, x, index, dim, index->layout->plain) : NULL;
}

int scatter_write(int op, bk_tensor *x, int dim, const bk_tensor *index, operand value, int mode)
{
    return record_write(op, x, value, index, mode, dim);
}

bk_tensor *mask_read(const bk_tensor *x, const bk_tensor *mask, int64_t count)
{
    return x && mask ? record_read(OP_mask_select, x, mask, 0, layout_get(1, &count, NULL)) : NULL;
}

int mask_write(bk_tensor *x, const bk_tensor *mask, const bk_tensor *line)
{
    operand in;
    return tensor_read(line, &in) ? record_write(OP_mask_scatter, x, in, mask, 0, 0) : -1;
}

int overlap_add(bk_tensor *x, const bk_tensor *value)
{
    operand in;
    return tensor_read(value, &in) ? record_write(OP_accumulate, x, in, NULL, 0, 0) : -1;
}

/* --- values of indices
 * ------------------------------------------------------------------------------------------------ */

int64_t mask_total(const bk_tensor *mask)
{
    view v;
    return tensor_view(mask, &v) < 0 ? -1 : mask_count(&v);
}

int index_range(const bk_tensor *index, int64_t *low, int64_t *high)
{
    view v;
    *low = 0;
    *high = -1;
    if (!index || tensor_view(index, &v) < 0)
        return -1;
    int64_t left = view_numel(&v), least = INT64_MAX, most = INT64_MIN;
    if (!left)
        return 0;
    walk w;
    walk_start(&w, (const view *const[]){ &v }, 1, 0);
    for (int64_t n; left > 0; left -= n, walk_skip(&w, n)) {
        n = walk_run(&w, left);
        int64_t step = walk_step(&w, 0);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = *(const int64_t *)(w.p[0] + i * step);
            least = at < least ? at : least;
            most = at > most ? at : most;
        }
    }
    *low = least;
    *high = most;
    return 0;
}

int64_t index_first_bad(const bk_tensor *index, int64_t low, int64_t high)
{
    view v;
    int64_t left = tensor_view(index, &v) < 0 ? 0 : view_numel(&v);
    walk w;
    walk_start(&w, (const view *const[]){ &v }, 1, 0);
    for (; left > 0; left--, walk_skip(&w, 1)) {
        int64_t at = *(const int64_t *)w.p[0];
        if (at < low || at >= high)
            return at;
    }
    return 0;
}

bk_tensor *index_long(const bk_tensor *index) { return index ? bk_to(index, BK_INT64) : NULL; }

static bk_tensor *as_vector(const bk_tensor *t) { return bk_reshape(t, 1, (int64_t[]){ -1 }); }
static bk_tensor *at_least_1d(const bk_tensor *t) { return t->layout->ndim ? (bk_tensor *)t : as_vector(t); }

static bool is_index(const bk_tensor *t) { return tensor_dtype(t) == BK_INT64 || tensor_dtype(t) == BK_INT32; }

static int check_bounds(const bk_tensor *index, int64_t from, int64_t size, bk_error_kind kind, const char *op, int dim)
{
    int64_t low, high;
    if (index_range(index, &low, &high) < 0)
        return -1;
    if (low >= from && high < size)
        return 0;
    return error_int(kind, "%sindex %lld is out of bounds for dimension %d with size %lld", op,
                     (long long)index_first_bad(index, from, size), dim, (long long)size);
}

/* --- gather and scatter
 * ------------------------------------------------------------------------------------------------- */

static int check_gather(const bk_tensor *x, int dim, const bk_tensor *index)
{
    char a[200], b[200];
    const layout *l = x->layout, *i = index->layout;
    if (i->ndim != l->ndim)
        return error_int(BK_RUNTIME_ERROR, "Index tensor must have the same number of dimensions as input tensor");
    for (int d = 0; d < i->ndim; d++)
        if (d != dim && i->sizes[d] > l->sizes[d])
            return error_int(
                BK_RUNTIME_ERROR,
                "Size does not match at dimension %d expected index %s to be no larger than self %s apart from "
                "dimension %d",
                d, layout_text(i, a), layout_text(l, b), dim);
    return check_bounds(index, 0, l->sizes[dim], BK_RUNTIME_ERROR, "", dim);
}

static bk_tensor *gather(const bk_tensor *t, int at, const bk_tensor *index)
{
    int dim = layout_dim(t->layout, at);
    if (dim < 0)
        return NULL;
    if (!is_index(index))
        return error_null(BK_RUNTIME_ERROR, "gather(): Expected dtype int32/int64 for index");
    const layout *i = index->layout;
    if (!i->numel)
        return bk_empty(i->ndim, i->sizes, tensor_dtype(t));
    bk_tensor *x = at_least_1d(t), *flat = at_least_1d(index_long(index));
    if (!x || !flat || check_gather(x, dim, flat) < 0)
        return NULL;
    bk_tensor *r = gather_read(x, dim, flat);
    return r && !i->ndim ? bk_view(r, 0, NULL) : r;
}

bk_tensor *bk_gather(const bk_tensor *t, int dim, const bk_tensor *index)
{
    if (!t || !index)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(gather(t, dim, index));
    lock_give();
    return r;
}

static int check_scatter(const char *op, const bk_tensor *x, int dim, const bk_tensor *index, const bk_tensor *src)
{
    char a[200], b[200], c[200];
    const layout *l = x->layout, *i = index->layout;
    if (i->ndim != l->ndim)
        return error_int(BK_RUNTIME_ERROR, "Index tensor must have the same number of dimensions as self tensor");
    if (src && src->layout->ndim != i->ndim)
        return error_int(BK_RUNTIME_ERROR, "Index tensor must have the same number of dimensions as src tensor");
    bool fits = true;
    for (int d = 0; d < i->ndim; d++)
        fits &= (d == dim || i->sizes[d] <= l->sizes[d]) && (!src || i->sizes[d] <= src->layout->sizes[d]);
    if (!fits && src)
        return error_int(
            BK_RUNTIME_ERROR,
            "Expected index %s to be no larger than self %s apart from dimension %d and to be no larger size "
            "than src %s",
            layout_text(i, a), layout_text(l, b), dim, layout_text(src->layout, c));
    if (!fits)
        return error_int(BK_RUNTIME_ERROR, "Expected index %s to be no larger than self %s apart from dimension %d",
                         layout_text(i, a), layout_text(l, b), dim);
    if (src && tensor_dtype(src) != tensor_dtype(x))
        return error_int(BK_RUNTIME_ERROR, "%s(): Expected self.dtype to be equal to src.dtype", op);
    return check_bounds(index, 0, l->sizes[dim], BK_RUNTIME_ERROR, "", dim);
}

/* src narrowed to the sizes of the index. */
static bk_tensor *narrowed(const bk_tensor *src, const layout *index)
{
    if (src->layout->plain == index->plain)
        return (bk_tensor *)src;
    return tensor_view_of(src, layout_get(index->ndim, index->sizes, src->layout->strides), src->offset);
}

/* Elements that come from t itself, in any order, would be read after some were written. PyTorch looks at dense regions
 * only, and so do we. */
static int check_apart(const bk_tensor *t, const bk_tensor *src)
{
    if (!src || src->cell != t->cell || !t->layout->numel || !src->layout->numel || !t->layout->dense ||
        !src->layout->dense)
        return 0;
    if (t->offset + t->layout->span <= src->offset || src->offset + src->layout->span <= t->offset)
        return 0;
    return error_int(BK_RUNTIME_ERROR,
                     "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                     "single memory location. Please clone() the tensor before performing the operation.");
}

/* src == NULL: the number. */
static int scatter(int op, const char *name, bk_tensor *t, int at, const bk_tensor *index, const bk_tensor *src,
                   operand number, scatter_mode mode)
{
    int dim = layout_dim(t->layout, at);
    if (dim < 0)
        return -1;
    if (!is_index(index))
        return error_int(BK_RUNTIME_ERROR, "%s(): Expected dtype int32/int64 for index", name);
    if (tensor_check_write(t) < 0 || check_apart(t, src) < 0 || number_check(number, tensor_dtype(t)) < 0)
        return -1;
    if (!index->layout->numel)
        return 0;
    bk_tensor *x = at_least_1d(t), *flat = at_least_1d(index_long(index));
    const bk_tensor *from = src ? at_least_1d(src) : NULL;
    if (!x || !flat || (src && !from) || check_scatter(name, x, dim, flat, from) < 0)
        return -1;
    if (from) {
        from = narrowed(from, flat->layout);
        if (!from || !tensor_read(from, &number))
            return -1;
    }
    return scatter_write(op, x, dim, flat, number, mode);
}

static int scatter_locked(int op, const char *name, bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src,
                          operand number, scatter_mode mode)
{
    lock_take();
    bk_scope_push();
    int status = scatter(op, name, t, dim, index, src, number, mode);
    bk_scope_pop();
    lock_give();
    return status;
}

static int mode_of(const char *reduce)
{
    if (!reduce)
        return SCATTER_SET;
    if (!strcmp(reduce, "add"))
        return SCATTER_ADD;
    if (!strcmp(reduce, "multiply"))
        return SCATTER_MUL;
    return error_int(BK_RUNTIME_ERROR, "reduce argument must be either add or multiply.");
}

static int op_of(int mode)
{
    return mode == SCATTER_SET ? OP_scatter : mode == SCATTER_ADD ? OP_scatter_add : OP_scatter_reduce;
}

int bk_scatter_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src, const char *reduce)
{
    int mode = mode_of(reduce);
    if (!t || !index || !src || mode < 0)
        return -1;
    return scatter_locked(op_of(mode), "scatter", t, dim, index, src, number_int(0), (scatter_mode)mode);
}

int scatter_number(bk_tensor *t, int dim, const bk_tensor *index, operand number, const char *reduce)
{
    int mode = mode_of(reduce);
    if (!t || !index || mode < 0)
        return -1;
    return scatter_locked(op_of(mode), "scatter", t, dim, index, NULL, number, (scatter_mode)mode);
}

int bk_scatter_s_(bk_tensor *t, int dim, const bk_tensor *index, double value, const char *reduce)
{
    return scatter_number(t, dim, index, number_of(value), reduce);
}

int bk_scatter_add_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src)
{
    if (!t || !index || !src)
        return -1;
    return scatter_locked(OP_scatter_add, "scatter", t, dim, index, src, number_int(0), SCATTER_ADD);
}

/* What a reduction starts from when self takes no part. */
static operand identity(scatter_mode mode, bk_dtype dtype)
{
    static const int64_t bits[] = { [BK_INT64] = 63, [BK_INT32] = 31, [BK_INT16] = 15, [BK_INT8] = 7 };
    if (mode == SCATTER_ADD || mode == SCATTER_MUL)
        return number_int(mode == SCATTER_MUL);
    if (dtype_is_float(dtype))
        return number_float(mode == SCATTER_AMAX ? -__builtin_inf() : __builtin_inf());
    int64_t most = dtype == BK_BOOL ? 1 : dtype == BK_UINT8 ? 255 : (int64_t)(((uint64_t)1 << bits[dtype]) - 1);
    int64_t least = dtype == BK_BOOL || dtype == BK_UINT8 ? 0 : -most - 1;
    return number_int(mode == SCATTER_AMAX ? least : most);
}

/* What a mean divides by: how many elements went into each place. */
static int divide_by_counts(bk_tensor *t, int dim, const bk_tensor *index, bool include_self)
{
    bk_tensor *count = include_self ? bk_ones_like(t) : bk_zeros_like(t);
    bk_tensor *ones = bk_ones(index->layout->ndim, index->layout->sizes, tensor_dtype(t));
    if (!count || !ones || bk_scatter_add_(count, dim, index, ones) < 0)
        return -1;
    bk_tensor *divisor = bk_where(bk_eq_s(count, 0), bk_ones_like(t), count);
    operand in[MAX_INPUTS] = { { 0 } };
    if (!divisor || !tensor_read(t, &in[0]) || !tensor_read(divisor, &in[1]))
        return -1;
    return ew_apply_in_place(dtype_is_float(tensor_dtype(t)) ? EW_div : EW_floor_divide, t, in);
}

static int scatter_reduce(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src, const char *reduce,
                          bool include_self)
{
    static const struct {
        const char *name;
        scatter_mode mode;
    } names[] = {
        { "sum", SCATTER_ADD },   { "mean", SCATTER_ADD },  { "prod", SCATTER_MUL },
        { "amax", SCATTER_AMAX }, { "amin", SCATTER_AMIN },
    };
    size_t k = 0;
    while (k < sizeof names / sizeof *names && strcmp(names[k].name, reduce))
        k++;
    if (k == sizeof names / sizeof *names)
        return error_int(BK_RUNTIME_ERROR, "reduce argument must be either sum, prod, mean, amax or amin, got %s",
                         reduce);
    scatter_mode mode = names[k].mode;
    if (!include_self &&
        scatter(OP_scatter, "scatter_reduce", t, dim, index, NULL, identity(mode, tensor_dtype(t)), SCATTER_SET) < 0)
        return -1;
    if (scatter(op_of((int)mode), "scatter", t, dim, index, src, number_int(0), mode) < 0)
        return -1;
    return strcmp(reduce, "mean") ? 0 : divide_by_counts(t, dim, index, include_self);
}

int bk_scatter_reduce_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src, const char *reduce,
                       bool include_self)
{
    if (!t || !index || !src || !reduce)
        return -1;
    lock_take();
    bk_scope_push();
    int status = scatter_reduce(t, dim, index, src, reduce, include_self);
    bk_scope_pop();
    lock_give();
    return status;
}

/* --- slices along a dimension
 * --------------------------------------------------------------------------------------------- */

/* The index as an int64 vector. */
static bk_tensor *vector_index(const char *op, const bk_tensor *index, bk_error_kind kind, const char *types)
{
    if (index->layout->ndim > 1)
        return error_null(kind, "%s(): Index is supposed to be a vector", op);
    if (!is_index(index))
        return !strcmp(op, "index_fill_")
                   ? error_null(BK_INDEX_ERROR, "index_fill_(): Expected dtype int64 for index.")
                   : error_null(BK_RUNTIME_ERROR, "%s(): Expected dtype %s for index%s%s", op, types,
                                strcmp(op, "index_add_") ? "" : " but got: ",
                                strcmp(op, "index_add_") ? "" : dtypes[tensor_dtype(index)].type_name);
    return at_least_1d(index_long(index));
}

static bk_tensor *select_slices(const bk_tensor *t, int at, const bk_tensor *index)
{
    int dim = layout_dim(t->layout, at);
    bk_tensor *i = dim < 0 ? NULL : vector_index("index_select", index, BK_INDEX_ERROR, "int32 or int64");
    bk_tensor *x = i ? at_least_1d(t) : NULL;
    int64_t low, high;
    if (x && !t->layout->ndim && i->layout->numel != 1)
        return error_null(BK_RUNTIME_ERROR, "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
                          (long long)i->layout->numel);
    if (!x || index_range(i, &low, &high) < 0)
        return NULL;
    if (low < 0 || high >= x->layout->sizes[dim])
        return error_null(BK_INDEX_ERROR, "index out of range in self");
    int64_t dims = index_dims(1u << dim, dim);
    bk_tensor *r = index_read(OP_index_select, x, i, dims, index_result(x->layout, i->layout, dims));
    return r && !t->layout->ndim ? bk_view(r, 0, NULL) : r;
}

bk_tensor *bk_index_select(const bk_tensor *t, int dim, const bk_tensor *index)
{
    if (!t || !index)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(select_slices(t, dim, index));
    lock_give();
    return r;
}

bk_tensor *bk_embedding(const bk_tensor *weight, const bk_tensor *index)
{
    if (!weight || !index)
        return NULL;
    if (!is_index(index))
        return error_null(BK_RUNTIME_ERROR,
                          "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                          "Int; but got torch.%sTensor instead (while checking arguments for embedding)",
                          dtypes[tensor_dtype(index)].type_name);
    lock_take();
    bk_scope_push();
    bk_tensor *r = NULL, *i = index_long(index);
    int64_t low, high;
    if (weight->layout->ndim != 2)
        error_null(BK_RUNTIME_ERROR, "'weight' must be 2-D");
    else if (index_range(i, &low, &high) < 0)
        r = NULL;
    else if (low < 0 || high >= weight->layout->sizes[0])
        error_null(BK_INDEX_ERROR, "index out of range in self");
    else
        r = index_read(OP_embedding, weight, i, index_dims(1, 0),
                       index_result(weight->layout, i->layout, index_dims(1, 0)));
    r = scope_return(r);
    lock_give();
    return r;
}

/* " 3 4": the sizes but for one. */
static const char *slice_text(const layout *l, int dim, char text[static 200])
{
    size_t n = 0;
    text[0] = 0;
    for (int d = 0; d < l->ndim && n < 170; d++)
        if (d != dim)
            n += (size_t)snprintf(text + n, 200 - n, "%s%lld", n ? " " : "", (long long)l->sizes[d]);
    return text;
}

static int refuse_slices(const char *op, const layout *x, const layout *source, int dim)
{
    char a[200], b[200];
    return error_int(BK_RUNTIME_ERROR,
                     "%s(): Source/destination tensor must have same slice shapes. Destination slice shape: %s at "
                     "dimension %d and source slice shape: %s at dimension 0.",
                     op, slice_text(x, dim, a), dim, slice_text(source, dim, b));
}

static int check_slices(const char *op, const bk_tensor *x, int dim, const bk_tensor *i, const bk_tensor *src)
{
    char a[200], b[200];
    bool adds = !strcmp(op, "index_add_");
    int64_t have = src->layout->ndim ? src->layout->sizes[dim] : 1, want = i->layout->numel;
    if (tensor_dtype(src) != tensor_dtype(x))
        return error_int(
            BK_RUNTIME_ERROR,
            adds ? "%s(): self (%s) and source (%s) must have the same scalar type"
                 : "%s(): self and source expected to have the same dtype, but got (self) %s and (source) %s",
            op, dtypes[tensor_dtype(x)].type_name, dtypes[tensor_dtype(src)].type_name);
    if (src->layout->ndim != x->layout->ndim)
        return error_int(BK_RUNTIME_ERROR,
                         "%s(): When source and destination are not scalars, their dimensionality must "
                         "match. Source dimensionality (%d), destination dimensionality (%d)",
                         op, src->layout->ndim, x->layout->ndim);
    if (have != want && adds)
        return error_int(BK_RUNTIME_ERROR,
                         "index_add_(): Number of indices (%lld) should be equal to source.size(dim): "
                         "(%lld), for dim: %d",
                         (long long)want, (long long)have, dim);
    for (int d = 0; d < x->layout->ndim; d++)
        if (d != dim && x->layout->sizes[d] != src->layout->sizes[d])
            return adds ? error_int(BK_RUNTIME_ERROR,
                                    "source tensor shape must match self tensor shape, excluding the specified "
                                    "dimension. Got self.shape = %s source.shape = %s",
                                    layout_text(x->layout, a), layout_text(src->layout, b))
                        : refuse_slices(op, x->layout, src->layout, dim);
    if (have != want)
        return error_int(BK_INDEX_ERROR, "%s(): Number of indices (%lld) should be equal to source.size(dim) (%lld)",
                         op, (long long)want, (long long)have);
    return 0;
}

/* src == NULL: the number, which index_fill_ writes. */
static int write_slices(int op, const char *name, bk_tensor *t, int at, const bk_tensor *index, const bk_tensor *src,
                        operand number)
{
    int dim = layout_dim(t->layout, at);
    bk_tensor *i =
        dim < 0 ? NULL : vector_index(name, index, BK_INDEX_ERROR, op == OP_index_add ? "int32/int64" : "int64");
    if (!i || tensor_check_write(t) < 0 || (!number.value && number_check(number, tensor_dtype(t)) < 0))
        return -1;
    bk_tensor *x = at_least_1d(t);
    const bk_tensor *from = src ? at_least_1d(src) : NULL;
    if (!x || (src && !from) || (from && check_slices(name, x, dim, i, from) < 0) || check_apart(t, src) < 0)
        return -1;
    int64_t size = x->layout->sizes[dim];
    bk_error_kind kind = op == OP_index_add ? BK_RUNTIME_ERROR : BK_INDEX_ERROR;
    if (check_bounds(i, src ? 0 : -size, size, kind, op == OP_index_copy ? "index_copy_(): " : "", dim) < 0)
        return -1;
    if (from && !tensor_read(from, &number))
        return -1;
    return index_write(op, x, i, number, index_dims(1u << dim, dim), op == OP_index_add);
}

static int write_slices_locked(int op, const char *name, bk_tensor *t, int dim, const bk_tensor *index,
                               const bk_tensor *src, operand number)
{
    lock_take();
    bk_scope_push();
    int status = write_slices(op, name, t, dim, index, src, number);
    bk_scope_pop();
    lock_give();
    return status;
}

int bk_index_add_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source, double alpha)
{
    if (!t || !index || !source)
        return -1;
    bk_scope_push();
    const bk_tensor *scaled = alpha == 1 ? source : bk_to(bk_mul_s(source, alpha), tensor_dtype(source));
    int status = scaled ? write_slices_locked(OP_index_add, "index_add_", t, dim, index, scaled, number_int(0)) : -1;
    bk_scope_pop();
    return status;
}

int bk_index_copy_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source)
{
    return t && index && source
               ? write_slices_locked(OP_index_copy, "index_copy_", t, dim, index, source, number_int(0))
               : -1;
}

int index_fill_number(bk_tensor *t, int dim, const bk_tensor *index, operand number)
{
    return t && index ? write_slices_locked(OP_index_fill, "index_fill_", t, dim, index, NULL, number) : -1;
}

int bk_index_fill_(bk_tensor *t, int dim, const bk_tensor *index, double value)
{
    return index_fill_number(t, dim, index, number_of(value));
}

int bk_index_fill_t_(bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *value)
{
    operand in;
    if (!t || !index || !value)
        return -1;
    if (value->layout->ndim)
        return error_int(BK_RUNTIME_ERROR,
                         "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
                         value->layout->ndim);
    bk_scope_push();
    lock_take();
    bool good = tensor_read(value, &in) && value_check(in, tensor_dtype(t)) == 0;
    const bk_tensor *cast = good ? bk_to(value, tensor_dtype(t)) : NULL;
    int status = cast && tensor_read(cast, &in)
                     ? write_slices_locked(OP_index_fill, "index_fill_", t, dim, index, NULL, in)
                     : -1;
    lock_give();
    bk_scope_pop();
    return status;
}

/* --- take and put: a tensor as if it were 1-d
 * ---------------------------------------------------------------------------- */

/* Indices counted from the end become plain ones where several dimensions are indexed at once. */
static bk_tensor *flat_index(const bk_tensor *index, int64_t numel)
{
    int64_t low, high;
    bk_tensor *i = index_long(index);
    if (index_range(i, &low, &high) < 0)
        return NULL;
    if (low < -numel || high >= numel)
        return error_null(BK_INDEX_ERROR, "out of range: tried to access index %lld on a tensor of %lld elements.",
                          (long long)index_first_bad(i, -numel, numel), (long long)numel);
    return low < 0 ? bk_where(bk_lt_s(i, 0), bk_add_s(i, (double)numel), i) : i;
}

static uint32_t all_dims(const bk_tensor *x) { return dims_below(x->layout->ndim); }

bk_tensor *bk_take(const bk_tensor *t, const bk_tensor *index)
{
    if (!t || !index)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *x = at_least_1d(t), *i = NULL, *r = NULL;
    if (tensor_dtype(index) != BK_INT64)
        error_null(BK_RUNTIME_ERROR, "take(): Expected a long tensor for index, but got %s",
                   dtypes[tensor_dtype(index)].type_name);
    else
        i = flat_index(index, t->layout->numel);
    if (x && i)
        r = index_read(OP_take, x, i, index_dims(all_dims(x), 0), i->layout->plain);
    r = scope_return(r);
    lock_give();
    return r;
}

int bk_put_(bk_tensor *t, const bk_tensor *index, const bk_tensor *source, bool accumulate)
{
    if (!t || !index || !source)
        return -1;
    if (index->layout->numel != source->layout->numel)
        return error_int(BK_INDEX_ERROR,
                         "put_(): Expected source and index to have the same number of elements, but got "
                         "source.numel() = %lld, index.numel() = %lld",
                         (long long)source->layout->numel, (long long)index->layout->numel);
    if (tensor_dtype(t) != tensor_dtype(source))
        return error_int(BK_RUNTIME_ERROR,
                         "put_(): self and source expected to have the same dtype, but got self.dtype = %s "
                         "and source.dtype = %s",
                         dtypes[tensor_dtype(t)].type_name, dtypes[tensor_dtype(source)].type_name);
    if (tensor_check_write(t) < 0)
        return -1;
    lock_take();
    bk_scope_push();
    bk_tensor *x = at_least_1d(t), *i = flat_index(index, t->layout->numel);
    bk_tensor *from = i ? bk_reshape(source, i->layout->ndim, i->layout->sizes) : NULL;
    operand in;
    int status = x && from && tensor_read(from, &in)
                     ? index_write(OP_put, x, i, in, index_dims(all_dims(x), 0), accumulate)
                     : -1;
    bk_scope_pop();
    lock_give();
    return status;
}

/* --- out of place
 * ---------------------------------------------------------------------------------------------------------- */

/* Each is the write into a copy, for most of them a row-major one; a failed one leaves nothing. */
static bk_tensor *row_major_copy(const bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    bk_tensor *c = copy_as(t, t->layout->plain, tensor_dtype(t));
    lock_give();
    return c;
}

static bk_tensor *changed(bk_tensor *copy, int status)
{
    if (status == 0 || !copy)
        return tensor_finished(copy);
    scope_drop(copy);
    return NULL;
}

bk_tensor *bk_scatter(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src, const char *reduce)
{
    bk_tensor *c = row_major_copy(t);
    return changed(c, bk_scatter_(c, dim, index, src, reduce));
}

bk_tensor *scattered(const bk_tensor *t, int dim, const bk_tensor *index, operand number, const char *reduce)
{
    bk_tensor *c = row_major_copy(t);
    return changed(c, scatter_number(c, dim, index, number, reduce));
}

bk_tensor *bk_scatter_s(const bk_tensor *t, int dim, const bk_tensor *index, double value, const char *reduce)
{
    return scattered(t, dim, index, number_of(value), reduce);
}

bk_tensor *bk_scatter_add(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src)
{
    bk_tensor *c = row_major_copy(t);
    return changed(c, bk_scatter_add_(c, dim, index, src));
}

bk_tensor *bk_scatter_reduce(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *src,
                             const char *reduce, bool include_self)
{
    bk_tensor *c = row_major_copy(t);
    return changed(c, bk_scatter_reduce_(c, dim, index, src, reduce, include_self));
}

bk_tensor *bk_index_add(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source, double alpha)
{
    bk_tensor *c = row_major_copy(t);
    return changed(c, bk_index_add_(c, dim, index, source, alpha));
}

bk_tensor *bk_index_copy(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *source)
{
    bk_tensor *c = row_major_copy(t);
    return changed(c, bk_index_copy_(c, dim, index, source));
}

bk_tensor *index_filled(const bk_tensor *t, int dim, const bk_tensor *index, operand number)
{
    bk_tensor *c = bk_clone(t);
    return changed(c, index_fill_number(c, dim, index, number));
}

bk_tensor *bk_index_fill(const bk_tensor *t, int dim, const bk_tensor *index, double value)
{
    return index_filled(t, dim, index, number_of(value));
}

bk_tensor *bk_index_fill_t(const bk_tensor *t, int dim, const bk_tensor *index, const bk_tensor *value)
{
    bk_tensor *c = bk_clone(t);
    return changed(c, bk_index_fill_t_(c, dim, index, value));
}

bk_tensor *bk_put(const bk_tensor *t, const bk_tensor *index, const bk_tensor *source, bool accumulate)
{
    bk_tensor *c = bk_clone(t);
    return changed(c, bk_put_(c, index, source, accumulate));
}
