/* count.c: what occurs, how often and where.
 *
 * Results whose size depends on values are computed at once: the operand is evaluated, the result is plain data. */
#include <math.h>
#include <string.h>

#include "autograd/slopeless.h"
#include "core/error.h"
#include "core/lock.h"
#include "cpu/index.h"
#include "cpu/move.h"
#include "cpu/sort.h"
#include "ops/elementwise.h"
#include "ops/numbers.h"
#include "ops/read.h"
#include "ops/reduce.h"

/* Fresh row-major memory as a tensor, and the view to fill it by. */
static bk_tensor *fresh(const layout *l, bk_dtype dtype, view *out)
{
    storage *s = l ? storage_new((size_t)l->numel * dtype_size(dtype)) : NULL;
    if (!s)
        return NULL;
    out->data = s->data;
    out->dtype = dtype;
    view_shape(out, l->ndim, l->sizes, l->strides);
    return tensor_from_node(node_data(dtype, l, s, s->data));
}

static const layout *line(int64_t n) { return layout_get(1, &n, NULL); }

/* --- unique
 * -------------------------------------------------------------------------------------------------------------- */

typedef struct unique_views {
    view values, inverse, counts, src;
} unique_views;

/* The first n of a scratch line, in memory of their own. */
static bk_tensor *shortened(const view *scratch, int64_t n)
{
    view out, from;
    view_take(&from, scratch);
    bk_tensor *t = fresh(line(n), scratch->dtype, &out);
    if (t) {
        from.sizes[0] = n;
        move_copy(&out, &from);
    }
    return t;
}

static bk_tensor *unique(const bk_tensor *t, bool consecutive, bk_tensor **inverse, bk_tensor **counts)
{
    int64_t n = t->layout->numel;
    unique_views u;
    bk_tensor *flat = bk_reshape(t, 1, (int64_t[]){ -1 });
    if (!flat || tensor_view(flat, &u.src) < 0)
        return NULL;
    bk_tensor *values = fresh(line(n), tensor_dtype(t), &u.values), *counted = fresh(line(n), BK_INT64, &u.counts);
    bk_tensor *places = fresh(t->layout->plain, BK_INT64, &u.inverse);
    if (!values || !counted || !places)
        return NULL;
    u.inverse.ndim = 1;
    u.inverse.sizes[0] = n;
    u.inverse.strides[0] = 1;
    int64_t found = unique_run(&u.values, &u.inverse, &u.counts, &u.src, consecutive);
    if (found < 0)
        return NULL;
    if (inverse)
        *inverse = places;
    if (counts)
        *counts = shortened(&u.counts, found);
    return counts && !*counts ? NULL : shortened(&u.values, found);
}

/* Ends the scope with all that was asked for, or with nothing. */
static bk_tensor *return_unique(bk_tensor *values, bk_tensor **inverse, bk_tensor **counts)
{
    if (inverse)
        *inverse = values ? bk_scope_keep(*inverse) : NULL;
    if (counts)
        *counts = values ? bk_scope_keep(*counts) : NULL;
    return scope_return(values);
}

bk_tensor *bk_unique(const bk_tensor *t, bool consecutive, bk_tensor **inverse, bk_tensor **counts)
{
    if (!t)
        return NULL;
    lock_take();
    bk_scope_push();
    bool was = grad_set_enabled(false);
    bk_tensor *values = unique(t, consecutive, inverse, counts);
    grad_set_enabled(was);
    values = return_unique(values, inverse, counts);
    values = slopeless_as(values, consecutive ? "unique_consecutive" : "unique", &t, 1);
    lock_give();
    return values;
}

/* --- unique slices
 * ------------------------------------------------------------------------------------------------------- */

/* The rank of each row in the lexicographic order of all; equal rows have equal ranks. Columns refine the ranks one by
 * one, until all rows differ. */
static bk_tensor *row_ranks(const bk_tensor *rows)
{
    int64_t n = rows->layout->sizes[0], different = 1;
    bk_tensor *ranks = bk_zeros(1, &n, BK_INT64);
    for (int64_t c = 0; ranks && c < rows->layout->sizes[1] && different < n; c++) {
        bk_tensor *column = NULL, *refined = NULL;
        bk_scope_push();
        if (unique(bk_select(rows, 1, c), false, &column, NULL)) {
            bk_tensor *both = bk_add(bk_mul_s(ranks, (double)n), column);
            bk_tensor *found = both ? unique(both, false, &refined, NULL) : NULL;
            different = found ? found->layout->numel : n;
            refined = found ? refined : NULL;
        }
        ranks = scope_return(refined);
    }
    return ranks;
}

/* A row of each kind: the first one that has it. */
static bk_tensor *first_rows(const bk_tensor *kinds, int64_t count)
{
    int64_t n = kinds->layout->numel;
    bk_tensor *backwards = bk_arange_int(n - 1, -1, -1, BK_INT64);
    return bk_scatter(bk_zeros(1, &count, BK_INT64), 0, bk_flip(kinds, 1, (int[]){ 0 }), backwards, NULL);
}

static int check_slices(const layout *l, int dim)
{
    if (!l->ndim)
        return error_int(BK_INDEX_ERROR, "Dimension specified as %d but tensor has no dimensions", dim);
    for (int d = 0; d < l->ndim; d++)
        if (d != dim && !l->sizes[d])
            return error_int(BK_RUNTIME_ERROR,
                             "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
                             "applied");
    return 0;
}

static bk_tensor *unique_slices(const bk_tensor *t, int dim, bool consecutive, bk_tensor **inverse, bk_tensor **counts)
{
    bk_tensor *kinds;
    if (check_slices(t->layout, dim) < 0)
        return NULL;
    int64_t n = t->layout->sizes[dim];
    bk_tensor *rows =
        bk_reshape(bk_movedim(t, 1, &dim, (int[]){ 0 }), 2, (int64_t[]){ n, n ? t->layout->numel / n : 0 });
    bk_tensor *ranks = rows ? row_ranks(rows) : NULL;
    bk_tensor *found = ranks ? unique(ranks, consecutive, &kinds, counts) : NULL;
    if (!found)
        return NULL;
    if (inverse)
        *inverse = kinds;
    return bk_index_select(t, dim, first_rows(kinds, found->layout->numel));
}

bk_tensor *bk_unique_dim(const bk_tensor *t, int at, bool consecutive, bk_tensor **inverse, bk_tensor **counts)
{
    int dim = t ? layout_dim(t->layout, at) : -1;
    if (dim < 0)
        return NULL;
    lock_take();
    bk_scope_push();
    bool was = grad_set_enabled(false);
    bk_tensor *values = unique_slices(t, dim, consecutive, inverse, counts);
    grad_set_enabled(was);
    values = return_unique(values, inverse, counts);
    values = slopeless_as(values, consecutive ? "unique_consecutive" : "unique_dim", &t, 1);
    lock_give();
    return values;
}

/* --- counts of integers
 * ----------------------------------------------------------------------------------------------------- */

/* The least and the largest element, evaluated; 0 and -1 of none. */
static int range_of(const bk_tensor *t, int64_t *least, int64_t *largest)
{
    *least = 0;
    *largest = -1;
    if (!t->layout->numel)
        return 0;
    bk_tensor *lo = bk_min(t), *hi = bk_max(t);
    if (!lo || !hi || bk_eval(lo) < 0 || bk_eval(hi) < 0)
        return -1;
    *least = bk_item_int(lo);
    *largest = bk_item_int(hi);
    return 0;
}

static int check_bincount(const bk_tensor *t, const bk_tensor *weights, int64_t minlength, int64_t *largest)
{
    int64_t least = 0;
    if (dtype_is_float(tensor_dtype(t)) || tensor_dtype(t) == BK_BOOL)
        return error_int(BK_NOT_IMPLEMENTED, "\"bincount_cpu\" not implemented for '%s'",
                         dtypes[tensor_dtype(t)].type_name);
    if (minlength < 0)
        return error_int(BK_RUNTIME_ERROR, "minlength should be >= 0");
    if (t->layout->ndim == 1 && range_of(t, &least, largest) < 0)
        return -1;
    if (t->layout->ndim != 1 || least < 0)
        return error_int(BK_RUNTIME_ERROR, "bincount only supports 1-d non-negative integral inputs.");
    if (weights && (weights->layout->ndim != 1 || weights->layout->numel != t->layout->numel))
        return error_int(BK_RUNTIME_ERROR, "weights should be 1-d and have the same length as input");
    return 0;
}

static bk_tensor *bincount(const bk_tensor *t, const bk_tensor *weights, int64_t minlength)
{
    int64_t largest = -1;
    if (check_bincount(t, weights, minlength, &largest) < 0)
        return NULL;
    int64_t bins = largest + 1 < minlength ? minlength : largest + 1;
    bk_dtype dtype = !weights ? BK_INT64 : tensor_dtype(weights) == BK_FLOAT32 ? BK_FLOAT32 : BK_FLOAT64;
    view src, by, out;
    if (tensor_view(bk_to(t, BK_INT64), &src) < 0 || (weights && tensor_view(bk_to(weights, dtype), &by) < 0))
        return NULL;
    bk_tensor *r = fresh(line(bins), dtype, &out);
    if (r) {
        memset(out.data, 0, (size_t)bins * dtype_size(dtype));
        bincount_run(&out, &src, weights ? &by : NULL);
    }
    return r;
}

bk_tensor *bk_bincount(const bk_tensor *t, const bk_tensor *weights, int64_t minlength)
{
    if (!t)
        return NULL;
    lock_take();
    bk_scope_push();
    bool was = grad_set_enabled(false);
    bk_tensor *r = scope_return(bincount(t, weights, minlength));
    grad_set_enabled(was);
    lock_give();
    return r;
}

/* --- histograms
 * ----------------------------------------------------------------------------------------------------------------- */

static int histc_range(const bk_tensor *t, double *low, double *high)
{
    if (*low == *high && t->layout->numel) {
        bk_tensor *lo = bk_min(t), *hi = bk_max(t);
        if (!lo || !hi || bk_eval(lo) < 0 || bk_eval(hi) < 0)
            return -1;
        *low = bk_item(lo);
        *high = bk_item(hi);
    }
    if (*low == *high) {
        *low -= 1;
        *high += 1;
    }
    if (!isfinite(*low) || !isfinite(*high))
        return error_int(BK_RUNTIME_ERROR, "torch.histc: range of [%g, %g] is not finite", *low, *high);
    if (*low >= *high)
        return error_int(BK_RUNTIME_ERROR, "torch.histc: max must be larger than min");
    const bk_dtype dtype = tensor_dtype(t);
    return number_check(number_float(*low), dtype) < 0 || number_check(number_float(*high), dtype) < 0 ? -1 : 0;
}

static bk_tensor *histc(const bk_tensor *t, int64_t bins, double low, double high)
{
    view src, out;
    if (histc_range(t, &low, &high) < 0 || tensor_view(t, &src) < 0)
        return NULL;
    bk_tensor *r = fresh(line(bins), tensor_dtype(t), &out);
    if (r) {
        memset(out.data, 0, (size_t)bins * dtype_size(out.dtype));
        histc_run(&out, &src, low, high);
    }
    return r;
}

bk_tensor *bk_histc(const bk_tensor *t, int64_t bins, double low, double high)
{
    if (!t)
        return NULL;
    if (bins <= 0)
        return error_null(BK_RUNTIME_ERROR, "torch.histogram(): bins must be > 0, but got %lld for dimension 0",
                          (long long)bins);
    if (!dtype_is_float(tensor_dtype(t)))
        return error_null(BK_NOT_IMPLEMENTED, "\"histogram_cpu\" not implemented for '%s'",
                          dtypes[tensor_dtype(t)].type_name);
    lock_take();
    bk_scope_push();
    bool was = grad_set_enabled(false);
    bk_tensor *r = scope_return(histc(t, bins, low, high));
    grad_set_enabled(was);
    lock_give();
    return r;
}

/* --- places
 * --------------------------------------------------------------------------------------------------------------------
 */

/* [count, ndim] with one column after the other, as PyTorch lays it out. */
bk_tensor *bk_nonzero(const bk_tensor *t)
{
    if (!t)
        return NULL;
    lock_take();
    bk_scope_push();
    view src, out;
    bk_tensor *r = NULL;
    if (tensor_view(t, &src) == 0) {
        int64_t sizes[2] = { nonzero_count(&src), src.ndim };
        int64_t strides[2] = { 1, sizes[0] ? sizes[0] : 1 };
        r = fresh(layout_get(2, sizes, strides), BK_INT64, &out);
        if (r && nonzero(&out, &src) < 0)
            r = error_memory();
    }
    r = scope_return(r);
    lock_give();
    return r;
}

static int check_search(const bk_tensor *sorted, const bk_tensor *values)
{
    char a[200], b[200];
    const layout *ls = sorted->layout, *lv = values->layout;
    if (ls->ndim == 0)
        return error_int(BK_RUNTIME_ERROR,
                         "torch.searchsorted(): boundaries tensor should have positive dimension, but got "
                         "0 dimension");
    if (lv->ndim == 0 && ls->ndim != 1)
        return error_int(BK_RUNTIME_ERROR,
                         "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
                         "dimension is 1, but we got boundaries tensor dim(%d) and input value's dim(%d) numel(%lld)",
                         ls->ndim, lv->ndim, (long long)lv->numel);
    bool fits = ls->ndim == 1 || ls->ndim == lv->ndim;
    for (int d = 0; fits && ls->ndim > 1 && d < ls->ndim - 1; d++)
        fits = ls->sizes[d] == lv->sizes[d];
    if (!fits)
        return error_int(
            BK_RUNTIME_ERROR,
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor "
            "%s and input value tensor %s",
            layout_text(ls, a), layout_text(lv, b));
    return 0;
}

static bk_tensor *search(const bk_tensor *sorted, const bk_tensor *values, bool right)
{
    operand in[2];
    bk_dtype common = dtype_promote(tensor_dtype(sorted), tensor_dtype(values));
    if (common == BK_BOOL && values->layout->numel)
        return error_null(BK_NOT_IMPLEMENTED, "\"searchsorted_out_cpu\" not implemented for 'Bool'");
    sorted = bk_to(sorted, common);
    values = bk_to(values, common);
    if (!sorted || !values || !tensor_read(sorted, &in[0]) || !tensor_read(values, &in[1]))
        return NULL;
    node *n = node_new(OP_searchsorted, BK_INT64, values->layout->plain);
    if (!n)
        return NULL;
    n->inputs = 2;
    n->attr.i[0] = right;
    node_input(n, 0, in[0].value, NULL);
    node_input(n, 1, in[1].value, NULL);
    return tensor_from_node(record_node(n));
}

bk_tensor *bk_searchsorted(const bk_tensor *sorted, const bk_tensor *values, bool right)
{
    if (!sorted || !values || check_search(sorted, values) < 0)
        return NULL;
    lock_take();
    bk_scope_push();
    bk_tensor *r = scope_return(search(sorted, values, right));
    lock_give();
    return r;
}

/* Each element is looked up among the sorted ones: it is there if it equals the first that is not less. */
static bk_tensor *is_in(const bk_tensor *t, const bk_tensor *among, bool invert)
{
    bk_dtype common = dtype_promote(tensor_dtype(t), tensor_dtype(among));
    const layout *l = t->layout;
    if (among->layout->numel == 0)
        return bk_full_int(l->ndim, l->sizes, invert, BK_BOOL);
    bk_tensor *flat = bk_to(bk_reshape(t, 1, (int64_t[]){ -1 }), common);
    bk_tensor *sorted = bk_sort(bk_to(bk_reshape(among, 1, (int64_t[]){ -1 }), common), 0, false, NULL);
    bk_tensor *at = bk_searchsorted(sorted, flat, false);
    at = bk_clamp_max_s(at, (double)(among->layout->numel - 1));
    bk_tensor *found = record_pick(OP_pick, sorted, at, 0);
    return bk_reshape(invert ? bk_ne(found, flat) : bk_eq(found, flat), l->ndim, l->sizes);
}

bk_tensor *bk_isin(const bk_tensor *t, const bk_tensor *among, bool invert)
{
    if (!t || !among)
        return NULL;
    if (tensor_dtype(t) == BK_BOOL || tensor_dtype(among) == BK_BOOL)
        return error_null(BK_RUNTIME_ERROR, "Unsupported input type encountered for isin(): Bool");
    lock_take();
    bk_scope_push();
    bool was = grad_set_enabled(false);
    bk_tensor *r = scope_return(is_in(t, among, invert));
    grad_set_enabled(was);
    lock_give();
    return r;
}
