/* subscript.c: x[...] read and written.
 *
 * First the views: integers, slices, None and the ellipsis make one handle on the same memory. Tensors among the items
 * are noted on the way, with the dimensions of that view which they index; together they become one index
 * (ops/index.h), whose dimensions stand where the indexed ones stood when those are neighbours, and first when they are
 * not. */
#include <string.h>

#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/numbers.h"
#include "ops/read.h"
#include "ops/view_lists.h"

enum { ITEM_ROOM = 2 * BK_MAX_NDIM };

typedef struct pick {
    const bk_tensor *tensor; /* NULL: a bool, which indexes a dimension of size 1 */
    bool truth;
    bool mask;
    int dim, count; /* the dimensions of the view that it indexes */
} pick;

typedef struct subscript {
    const layout *from;
    int ndim, at; /* dimensions made so far; the next of `from` */
    int64_t sizes[ITEM_ROOM], strides[ITEM_ROOM], offset;
    view_op last;          /* what PyTorch would have done last to make the view */
    int items;             /* dimensions kept, cut, dropped and made so far */
    index_changes changes; /* INDEX_... of each, the first lowest */
    pick picks[ITEM_ROOM];
    int pick_count;
} subscript;

static bool is_mask(const bk_tensor *t) { return tensor_dtype(t) == BK_BOOL || tensor_dtype(t) == BK_UINT8; }

/* How many dimensions of x an item uses up. */
static int dims_used(const bk_index *item)
{
    switch (item->kind) {
    case BK_INDEX_INT:
    case BK_INDEX_SLICE: return 1;
    case BK_INDEX_TENSOR: return is_mask(item->tensor) ? item->tensor->layout->ndim : 1;
    default: return 0;
    }
}

/* --- the view
 * ------------------------------------------------------------------------------------------------------------ */

/* A view has 32 dimensions at most, and so has what it is a view of: an item beyond these makes or drops none. */
static void note_change(subscript *s, int item, index_changes change)
{
    if (item < 2 * BK_MAX_NDIM)
        s->changes |= change << INDEX_BITS * item;
}
_Static_assert(2 * BK_MAX_NDIM * INDEX_BITS <= 8 * sizeof(index_changes), "there is room for all items");

static int keep_dims(subscript *s, int count)
{
    for (; count > 0; count--, s->at++, s->items++) {
        if (s->ndim == ITEM_ROOM || s->at >= s->from->ndim)
            return error_int(BK_INDEX_ERROR, "too many indices for tensor of dimension %d", s->from->ndim);
        s->sizes[s->ndim] = s->from->sizes[s->at];
        s->strides[s->ndim++] = s->from->strides[s->at];
    }
    return 0;
}

static int insert_dim(subscript *s)
{
    if (s->ndim == ITEM_ROOM)
        return error_int(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions", BK_MAX_NDIM);
    const layout *l = s->from;
    s->sizes[s->ndim] = 1;
    s->strides[s->ndim++] = s->at < l->ndim ? l->sizes[s->at] * l->strides[s->at] : 1;
    s->last = VIEW_unsqueeze;
    note_change(s, s->items++, INDEX_NEW);
    return 0;
}

static int take_int(subscript *s, int64_t index)
{
    const layout *l = s->from;
    if (s->at >= l->ndim)
        return error_int(BK_INDEX_ERROR, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                                         "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
    int64_t size = l->sizes[s->at];
    if (index < -size || index >= size)
        return error_int(BK_INDEX_ERROR, "index %lld is out of bounds for dimension %d with size %lld",
                         (long long)index, s->at, (long long)size);
    s->offset += (index < 0 ? index + size : index) * l->strides[s->at++];
    s->last = VIEW_select;
    note_change(s, s->items++, INDEX_SELECT);
    return 0;
}

static int64_t clip(int64_t at, int64_t size)
{
    if (at < 0)
        at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

static int take_slice(subscript *s, const bk_index *item)
{
    if (s->at >= s->from->ndim)
        return error_int(BK_INDEX_ERROR, "slice() cannot be applied to a 0-dim tensor.");
    if (item->step <= 0)
        return error_int(BK_VALUE_ERROR, item->step ? "step must be greater than zero" : "slice step cannot be zero");
    int64_t size = s->from->sizes[s->at], stride = s->from->strides[s->at];
    int64_t first = clip(item->start, size), last = clip(item->stop, size);
    if (last < first)
        last = first;
    if (keep_dims(s, 1) < 0)
        return -1;
    s->sizes[s->ndim - 1] = (last - first + item->step - 1) / item->step;
    s->strides[s->ndim - 1] = stride * item->step;
    s->offset += first * stride;
    if (first > 0 || last < size || item->step != 1) {
        s->last = VIEW_slice;
        note_change(s, s->items - 1, INDEX_SLICE);
    }
    return 0;
}

static int add_pick(subscript *s, pick p, int count)
{
    p.dim = s->ndim - count;
    p.count = count;
    s->picks[s->pick_count++] = p;
    return 0;
}

static int take_truth(subscript *s, bool truth)
{
    return insert_dim(s) < 0 ? -1 : add_pick(s, (pick){ .truth = truth }, 1);
}

static int take_mask(subscript *s, const bk_tensor *mask)
{
    char a[200], b[200];
    int n = mask->layout->ndim;
    for (int d = 0; d < n; d++)
        if (s->at + d >= s->from->ndim || mask->layout->sizes[d] != s->from->sizes[s->at + d])
            return error_int(
                BK_INDEX_ERROR,
                "The shape of the mask %s at index %d does not match the shape of the indexed tensor %s at index "
                "%d",
                layout_text(mask->layout, a), d, layout_text(s->from, b), s->at + d);
    return keep_dims(s, n) < 0 ? -1 : add_pick(s, (pick){ .tensor = mask, .mask = true }, n);
}

static int take_tensor(subscript *s, const bk_tensor *t)
{
    if (dtype_is_float(tensor_dtype(t)))
        return error_int(BK_INDEX_ERROR, "tensors used as indices must be long, int, byte or bool tensors");
    view v;
    if (t->layout->ndim == 0) { /* a number: it picks a view */
        if (tensor_view(t, &v) < 0)
            return -1;
        int64_t value = dtype_load_int(v.dtype, v.data);
        return is_mask(t) ? take_truth(s, value != 0) : take_int(s, value);
    }
    if (is_mask(t))
        return take_mask(s, t);
    if (tensor_dtype(t) != BK_INT64 && tensor_dtype(t) != BK_INT32)
        return error_int(BK_INDEX_ERROR, "tensors used as indices must be long, int, byte or bool tensors");
    return keep_dims(s, 1) < 0 ? -1 : add_pick(s, (pick){ .tensor = t }, 1);
}

static int take_item(subscript *s, const bk_index *item, int spare)
{
    switch (item->kind) {
    case BK_INDEX_INT: return take_int(s, item->start);
    case BK_INDEX_SLICE: return take_slice(s, item);
    case BK_INDEX_NONE: return insert_dim(s);
    case BK_INDEX_ELLIPSIS: return keep_dims(s, spare);
    case BK_INDEX_BOOL: return take_truth(s, item->start != 0);
    case BK_INDEX_TENSOR: return take_tensor(s, item->tensor);
    }
    return -1;
}

/* The view part: a handle on x's memory; the tensors left to apply are in s. */
static bk_tensor *open_view(subscript *s, const bk_tensor *x, const bk_index *items, int count)
{
    *s = (subscript){ .from = x->layout, .last = VIEW_alias };
    int used = 0;
    for (int i = 0; i < count; i++)
        used += dims_used(&items[i]);
    if (used > x->layout->ndim && !(x->layout->ndim == 0 && count == 1))
        return error_null(BK_INDEX_ERROR, "too many indices for tensor of dimension %d", x->layout->ndim);
    int spare = x->layout->ndim - used;
    for (int i = 0; i < count; i++) {
        if (s->pick_count == ITEM_ROOM || take_item(s, &items[i], spare) < 0)
            return NULL;
        if (items[i].kind == BK_INDEX_ELLIPSIS)
            spare = 0;
    }
    if (keep_dims(s, s->from->ndim - s->at) < 0)
        return NULL;
    const layout *l = layout_get(s->ndim, s->sizes, s->strides);
    int known = (int)(s->changes & (VIEW_LISTS_FIRST - 1));
    if (s->changes >= VIEW_LISTS_FIRST)
        known = view_list_for(x, (int64_t[]){ (int64_t)s->changes, (int64_t)(s->changes >> 64) }, 2);
    bk_tensor *v = l ? made_as_part(tensor_view_of(x, l, x->offset + s->offset), s->last, known) : NULL;
    subscript again;
    return v && tensor_shares(x) ? apart_close(v, open_view(&again, apart_open(x), items, count)) : v;
}

/* --- one index out of many
 * -------------------------------------------------------------------------------------------------- */

typedef struct joint {
    const bk_tensor *index;
    int64_t dims;
} joint;

static int64_t sizes_product(const layout *l, const pick *p)
{
    int64_t n = 1;
    for (int d = p->dim; d < p->dim + p->count; d++)
        n *= l->sizes[d];
    return n;
}

/* The pick as int64 places within its dimensions; `plain`: none may count from the end. */
static const bk_tensor *places(const pick *p, const layout *l, int number, bool plain)
{
    if (!p->tensor) {
        int64_t n = p->truth;
        return bk_zeros(1, &n, BK_INT64);
    }
    if (p->mask)
        return mask_places(p->tensor);
    int64_t low, high, size = l->sizes[p->dim];
    const bk_tensor *i = index_long(p->tensor);
    if (index_range(i, &low, &high) < 0)
        return NULL;
    if (low < -size || high >= size)
        return error_null(BK_INDEX_ERROR, "index %lld is out of bounds for dimension %d with size %lld",
                          (long long)index_first_bad(i, -size, size), number, (long long)size);
    return low < 0 && plain ? bk_where(bk_lt_s(i, 0), bk_add_s(i, (double)size), i) : i;
}

static const bk_tensor *cannot_broadcast(const bk_tensor *const *parts, int count)
{
    char text[900] = "", one[200];
    for (int k = 0; k < count; k++) {
        strcat(text, k ? ", " : "");
        if (strlen(text) + 202 < sizeof text)
            strcat(text, layout_text(parts[k]->layout, one));
    }
    bk_error_clear();
    return error_null(BK_INDEX_ERROR, "shape mismatch: indexing tensors could not be broadcast together with shapes %s",
                      text);
}

static const bk_tensor *join_parts(const subscript *s, const layout *l, const bk_tensor *const *parts)
{
    const bk_tensor *index = parts[0];
    for (int k = 1; k < s->pick_count; k++) {
        operand in[2] = { { 0 } };
        if (!tensor_read(index, &in[0]) || !tensor_read(parts[k], &in[1]))
            return NULL;
        if (!operands_broadcast(in, 2))
            return cannot_broadcast(parts, s->pick_count);
        index = bk_add(bk_mul_s(index, (double)sizes_product(l, &s->picks[k])), parts[k]);
        if (!index)
            return NULL;
    }
    return index;
}

static bool join(const subscript *s, const layout *l, joint *out)
{
    const bk_tensor *parts[ITEM_ROOM] = { 0 };
    uint32_t bits = 0;
    int number = 0;
    for (int k = 0; k < s->pick_count; k++) {
        const pick *p = &s->picks[k];
        parts[k] = places(p, l, p->dim, s->pick_count > 1);
        if (!parts[k])
            return false;
        bits |= dims_below(p->count) << p->dim;
        number += p->count;
    }
    int first = __builtin_ctz(bits);
    bool neighbours = bits >> first == dims_below(number);
    out->dims = index_dims(bits, neighbours ? first : 0);
    out->index = join_parts(s, l, parts);
    return out->index != NULL;
}

/* Whether the index alone decides the sizes of the result: PyTorch need not broadcast it. */
static bool all_single_around(const layout *l, int at, int count)
{
    bool single = true;
    for (int d = 0; d < l->ndim; d++)
        single &= l->sizes[d] == 1 || (d >= at && d < at + count);
    return single;
}

/* The strides that PyTorch's loop over (x, index) gives its result. */
static const layout *joint_layout(const layout *x, const layout *index, int64_t dims)
{
    const layout *plain = index_result(x, index, dims);
    int at = index_dims_at(dims), n = 0;
    if (!plain || (plain->numel ? x == x->plain : all_single_around(plain, at, index->ndim)))
        return plain;
    uint32_t bits = index_dims_bits(dims);
    int64_t read[BK_MAX_NDIM] = { 0 }, steps[BK_MAX_NDIM] = { 0 };
    /* Around it the index has dimensions of one element, whose strides only matter where the result has one, too. */
    for (int d = 0; d < plain->ndim; d++)
        if (plain->sizes[d] == 1)
            steps[d] = d < at && index->ndim ? index->strides[0] * index->sizes[0] : 1;
    for (int k = 0; k < index->ndim; k++)
        steps[at + k] = index->strides[k];
    for (int d = 0; d < x->ndim; d++) {
        if (bits >> d & 1)
            continue;
        read[n < at ? n : n + index->ndim] = x->strides[d];
        n++;
    }
    const layout *in[2] = { layout_get(plain->ndim, plain->sizes, read), layout_get(plain->ndim, plain->sizes, steps) };
    return in[0] && in[1] ? strides_of_result(in, 2, plain) : NULL;
}

/* A mask over every dimension of the view needs no index. */
static const bk_tensor *whole_mask(const subscript *s, const layout *l)
{
    const pick *p = &s->picks[0];
    return s->pick_count == 1 && p->mask && p->count == l->ndim ? p->tensor : NULL;
}

/* --- reading
 * ------------------------------------------------------------------------------------------------------------------ */

static bk_tensor *read_at(const subscript *s, const bk_tensor *v)
{
    const bk_tensor *mask = whole_mask(s, v->layout);
    if (mask) {
        int64_t count = mask_total(mask);
        return count < 0 ? NULL : mask_read(v, mask, count);
    }
    joint j;
    if (!join(s, v->layout, &j))
        return NULL;
    return index_read(OP_index_get, v, j.index, j.dims, joint_layout(v->layout, j.index->layout, j.dims));
}

bk_tensor *bk_index_get(const bk_tensor *t, const bk_index *items, int count)
{
    if (!t)
        return NULL;
    lock_take();
    subscript s;
    bk_scope_push();
    bk_tensor *v = open_view(&s, t, items, count);
    bool whole = v && v->layout == t->layout && v->offset == t->offset; /* no view, to PyTorch */
    bk_tensor *r = scope_return(v && s.pick_count ? read_at(&s, whole ? t : v) : v);
    lock_give();
    return r;
}

/* --- writing
 * ------------------------------------------------------------------------------------------------------------------ */

/* Leading dimensions of size 1 do not count in an assignment. PyTorch shows the view without them. */
static bk_tensor *without_leading_ones(const bk_tensor *t)
{
    int lead = 0;
    while (lead < t->layout->ndim && t->layout->sizes[lead] == 1)
        lead++;
    return lead ? bk_view(t, t->layout->ndim - lead, t->layout->sizes + lead) : (bk_tensor *)t;
}

/* value repeated to these sizes, itself if it has them. */
static bk_tensor *repeated(bk_tensor *value, const layout *to)
{
    if (!value || value->layout->plain == to->plain)
        return value;
    return bk_expand(value, to->ndim, to->sizes);
}

static int assign_view(bk_tensor *v, const bk_tensor *value, operand number)
{
    if (!value)
        return tensor_assign(v, number, WRITE_copy);
    if (value->layout->ndim == 0)
        return bk_copy_(v, value);
    bk_tensor *wide = repeated(without_leading_ones(value), v->layout);
    return wide ? bk_copy_(v, wide) : -1;
}

/* A mask repeated over the dimensions that it does not index. */
static bk_tensor *spread_mask(const pick *p, const layout *l)
{
    int64_t sizes[BK_MAX_NDIM];
    for (int d = 0; d < l->ndim; d++)
        sizes[d] = d >= p->dim && d < p->dim + p->count ? l->sizes[d] : 1;
    bk_tensor *m = bk_reshape(p->tensor, l->ndim, sizes);
    return m && tensor_dtype(m) != BK_BOOL ? bk_to(m, BK_BOOL) : m;
}

static int fill_under(const subscript *s, bk_tensor *v, const bk_tensor *value, operand number)
{
    bk_tensor *m = spread_mask(&s->picks[0], v->layout);
    bk_tensor *zero_d = value ? bk_view(value, 0, NULL) : NULL;
    if (!m || (value && !zero_d) || (zero_d && !tensor_read(zero_d, &number)))
        return -1;
    return masked_fill_operand(v, m, number);
}

/* value repeated to the sizes of the part that is indexed. */
static bk_tensor *fit_value(const bk_tensor *value, const layout *result)
{
    char a[200], b[200];
    bk_tensor *wide = value->layout->ndim <= result->ndim ? repeated((bk_tensor *)value, result) : NULL;
    if (wide)
        return wide;
    bk_error_clear();
    return error_null(BK_RUNTIME_ERROR,
                      "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
                      layout_text(value->layout, a), layout_text(result, b));
}

/* value, which fits, is of the dtype that is written. */
static int check_put(const bk_tensor *v, const bk_tensor *value)
{
    if (value && tensor_dtype(value) != tensor_dtype(v))
        return error_int(
            BK_RUNTIME_ERROR,
            "Index put requires the source and destination dtypes match, got %s for the destination and %s for "
            "the source.",
            dtypes[tensor_dtype(v)].type_name, dtypes[tensor_dtype(value)].type_name);
    return 0;
}

static int write_under(bk_tensor *v, const bk_tensor *mask, const bk_tensor *value)
{
    int64_t count = mask_total(mask);
    const layout *l = count < 0 ? NULL : layout_get(1, &count, NULL);
    bk_tensor *line = l ? fit_value(value, l) : NULL;
    return line && check_put(v, line) == 0 ? mask_write(v, mask, line) : -1;
}

/* PyTorch has one name for a write under a mask and one by indices, another one for what a part was written to, and
 * does not show that a value was repeated. */
static int named_write(int status, bk_tensor *v, bool of_number, uint8_t reached, uint64_t start)
{
    static const char *const names[] = { "_put_values", "_put_number", "_put_to_part" };
    static int rows[3];
    bool part = v->flags & TENSOR_VIEW;
    int how = part && !of_number ? 2 : of_number;
    if (status < 0 || !reached || !grad_enabled())
        return status;
    rows[how] = rows[how] ? rows[how] : composed_find(names[how]) + 1;
    if (of_number) /* the walk meets it first */
        reached = (uint8_t)(reached >> 1 | (reached & 1) << 1);
    (part ? composed_mark_base : composed_mark)(v, rows[how] - 1, start, reached);
    return status;
}

/* What is written: a value or, where it is NULL, a number. start: when the function began whose result is written to;
 * 0: now. */
typedef struct written {
    const bk_tensor *value;
    operand number;
    bool add;
    uint64_t start;
} written;

static int write_at(const subscript *s, bk_tensor *v, const written *w)
{
    const bk_tensor *value = w->value;
    operand number = w->number;
    bool one = !value || value->layout->numel == 1;
    uint64_t start = w->start ? w->start : next_sequence;
    uint8_t reached = (uint8_t)(tensor_tracked(v) | (value && tensor_tracked(value)) << 1);
    if (one && !w->add && s->pick_count == 1 && s->picks[0].mask)
        return named_write(fill_under(s, v, value, number), v, true, reached, start);
    if (tensor_check_write(v) < 0)
        return -1;
    const bk_tensor *mask = w->add || !value ? NULL : whole_mask(s, v->layout);
    if (mask)
        return named_write(write_under(v, mask, value), v, false, reached, start);
    joint j;
    if (!join(s, v->layout, &j))
        return -1;
    const layout *result = index_result(v->layout, j.index->layout, j.dims);
    bk_tensor *fit = value && result ? fit_value(value, result) : NULL;
    if (!result || (value && !fit) || check_put(v, fit) < 0 || (fit && !tensor_read(fit, &number)))
        return -1;
    int status = index_write(OP_index_put, v, j.index, number, j.dims, w->add);
    bool as_recorded = !(v->flags & TENSOR_VIEW) && fit == value && !w->start;
    return as_recorded ? status : named_write(status, v, false, reached, start);
}

static int assign(bk_tensor *t, const bk_index *items, int count, const written *w)
{
    subscript s;
    bk_tensor *v = open_view(&s, t, items, count);
    if (v && v->layout == t->layout && v->offset == t->offset)
        v = t; /* all of it: no view, to PyTorch */
    return !v ? -1 : s.pick_count ? write_at(&s, v, w) : assign_view(v, w->value, w->number);
}

static int put(bk_tensor *t, const bk_index *items, int count, const written *w)
{
    lock_take();
    bk_scope_push();
    int status = assign(t, items, count, w);
    bk_scope_pop();
    lock_give();
    return status;
}

int bk_index_set(bk_tensor *t, const bk_index *items, int count, const bk_tensor *value)
{
    if (!t || !value)
        return -1;
    lock_take();
    bk_scope_push();
    const bk_tensor *line = without_leading_ones(value);
    int status = line ? assign(t, items, count, &(written){ .value = line }) : -1;
    bk_scope_pop();
    lock_give();
    return status;
}

int index_assign_number(bk_tensor *t, const bk_index *items, int count, operand number)
{
    if (!t)
        return -1;
    number = number_narrowed(number, tensor_dtype(t));
    if (number_check(number, tensor_dtype(t)) < 0) /* as in PyTorch, before the subscript is looked at */
        return -1;
    return put(t, items, count, &(written){ .number = number });
}

int bk_index_set_s(bk_tensor *t, const bk_index *items, int count, double value)
{
    return index_assign_number(t, items, count, number_of(value));
}

static int index_put(bk_tensor *t, bk_tensor *const *indices, int count, const written *w)
{
    if (count > BK_MAX_NDIM)
        return error_int(BK_INDEX_ERROR, "too many indices for tensor of dimension %d (got %d)", t->layout->ndim,
                         count);
    bk_index items[BK_MAX_NDIM];
    for (int k = 0; k < count; k++)
        items[k] = indices[k] ? (bk_index){ .kind = BK_INDEX_TENSOR, .tensor = indices[k] }
                              : (bk_index){ .kind = BK_INDEX_SLICE, .stop = INT64_MAX, .step = 1 };
    return put(t, items, count, w);
}

int bk_index_put_(bk_tensor *t, bk_tensor *const *indices, int count, const bk_tensor *values, bool accumulate)
{
    return t && values ? index_put(t, indices, count, &(written){ .value = values, .add = accumulate }) : -1;
}

bk_tensor *bk_index_put(const bk_tensor *t, bk_tensor *const *indices, int count, const bk_tensor *values,
                        bool accumulate)
{
    written w = { .value = values, .add = accumulate, .start = next_sequence };
    bk_tensor *c = values ? bk_clone(t) : NULL;
    if (c && index_put(c, indices, count, &w) < 0) {
        scope_drop(c);
        return NULL;
    }
    return tensor_finished(c);
}
