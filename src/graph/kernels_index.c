/* kernels_index.c: reads and writes at indices and under masks, from kernel calls to functions over views.
 *
 * A write works in place on a whole cell: attr.index names the region of it that the handle showed. An index into
 * several dimensions at once is row-major over their sizes (ops/index.h). */
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/threads.h"
#include "cpu/element.h"
#include "cpu/index.h"
#include "cpu/move.h"
#include "cpu/walk.h"
#include "graph/kernels.h"
#include "graph/plan.h"
#include "ops/index.h"

static void region_of(view *to, const kernel_call *call)
{
    const int64_t at = call->attr->index.offset * (int64_t)dtype_size(call->out.dtype);
    layout_view(to, call->attr->index.layout, call->out.dtype, call->out.data + at);
}

/* A constant, which has no dimensions, repeated to the sizes of another view. */
static void sized_like(view *to, const view *v, const view *like)
{
    view_take(to, v->ndim ? v : like);
    if (!v->ndim) {
        to->data = v->data;
        to->dtype = v->dtype;
        for (int d = 0; d < like->ndim; d++)
            to->strides[d] = 0;
    }
}

/* --- along one dimension -------------------------------------------------------------------------------------- */

int run_gather(const kernel_call *call)
{
    view index;
    sized_like(&index, &call->in[1], &call->out);
    index_gather(&call->out, &call->in[0], (int)call->attr->index.dims, &index);
    return 0;
}

int run_scatter(const kernel_call *call)
{
    view to, value;
    region_of(&to, call);
    sized_like(&value, &call->in[1], &call->in[2]);
    index_scatter(&to, (int)call->attr->index.dims, &call->in[2], &value, (scatter_mode)call->attr->index.mode);
    return 0;
}

/* --- several dimensions ----------------------------------------------------------------------------------------- */

/* The dimensions of v that `first` names, then the others. */
static void dims_first(view *to, const view *v, uint32_t first)
{
    int n = 0;
    to->data = v->data;
    to->dtype = v->dtype;
    to->ndim = v->ndim;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < v->ndim; d++) {
            if ((first >> d & 1) != (pass == 0))
                continue;
            to->sizes[n] = v->sizes[d];
            to->strides[n++] = v->strides[d];
        }
}

/* The first `count` dimensions as one; false when they do not lie in each other. */
static bool merge_first(view *v, int count)
{
    int64_t size = 1;
    for (int d = 0; d < count; d++) {
        if (d + 1 < count && v->strides[d] != v->strides[d + 1] * v->sizes[d + 1])
            return false;
        size *= v->sizes[d];
    }
    v->sizes[0] = size;
    v->strides[0] = v->strides[count - 1];
    v->ndim -= count - 1;
    for (int d = 1; d < v->ndim; d++) {
        v->sizes[d] = v->sizes[d + count - 1];
        v->strides[d] = v->strides[d + count - 1];
    }
    return true;
}

/* An index into several dimensions as one index per dimension, in `room`: count * numel of them. */
static void split_index(const view *joint, const view *indexed, int count, int64_t *room, view parts[])
{
    int64_t n = view_numel(joint), step = 1;
    for (int k = count - 1; k >= 0; k--) {
        view_take(&parts[k], joint);
        parts[k].data = (char *)(room + k * n);
        step = 1;
        for (int d = joint->ndim - 1; d >= 0; d--) {
            parts[k].strides[d] = step;
            step *= joint->sizes[d];
        }
    }
    walk w;
    walk_start(&w, &joint, 1, 0);
    for (int64_t i = 0; i < n; i++, walk_skip(&w, 1)) {
        int64_t at = *(const int64_t *)w.p[0];
        for (int k = count - 1; k >= 0; k--) {
            room[k * n + i] = at % indexed->sizes[k];
            at /= indexed->sizes[k];
        }
    }
}

typedef struct access {
    view indexed, plain, index;
    bool putting, adding;
} access;

static void move_at(const access *a, const view *const *indices, int count)
{
    if (a->putting)
        index_put(&a->indexed, &a->plain, indices, count, a->adding);
    else
        index_get(&a->plain, &a->indexed, indices, count);
}

/* indexed: the indexed dimensions first; plain: the index's dimensions first. */
static int access_run(access *a, int count)
{
    const view *one = &a->index;
    if (count == 1 || merge_first(&a->indexed, count)) {
        move_at(a, &one, 1);
        return 0;
    }
    int64_t n = view_numel(&a->index);
    int64_t *room = mem_alloc((size_t)(n * count + 1) * sizeof *room);
    if (!room)
        return -1;
    view parts[BK_MAX_NDIM];
    const view *indices[BK_MAX_NDIM];
    split_index(&a->index, &a->indexed, count, room, parts);
    for (int k = 0; k < count; k++)
        indices[k] = &parts[k];
    move_at(a, indices, count);
    mem_free(room);
    return 0;
}

static uint32_t bits_from(int first, int count) { return dims_below(count) << first; }

static int access_dims(const view *indexed, const view *plain, const view *index, int64_t dims, bool putting,
                       bool adding)
{
    uint32_t bits = index_dims_bits(dims);
    access a;
    dims_first(&a.indexed, indexed, bits);
    dims_first(&a.plain, plain, bits_from(index_dims_at(dims), index->ndim));
    view_take(&a.index, index);
    a.putting = putting;
    a.adding = adding;
    return access_run(&a, __builtin_popcount(bits));
}

/* Dimensions [d, d + count) of v become one; false: they do not lie so. */
static bool merge_dims(view *v, int d, int count)
{
    for (int i = d; i < d + count - 1; i++)
        if (v->strides[i] != v->strides[i + 1] * v->sizes[i + 1])
            return false;
    v->strides[d] = v->strides[d + count - 1];
    for (int i = d + 1; i < d + count; i++)
        v->sizes[d] *= v->sizes[i];
    for (int i = d + count; i < v->ndim; i++) {
        v->sizes[i - count + 1] = v->sizes[i];
        v->strides[i - count + 1] = v->strides[i];
    }
    v->ndim -= count - 1;
    return true;
}

/* The dimension, when an index picks whole slices along one and puts them there, in `plain`; else -1. An index of more
 * dimensions becomes one of one, and so do those of `plain`. */
static int slices_along(view *index, view *plain, int64_t dims)
{
    const uint32_t bits = index_dims_bits(dims);
    const int d = __builtin_ctz(bits);
    if (!index->ndim || bits != 1u << d || index_dims_at(dims) != d)
        return -1;
    view one, merged;
    view_take(&one, index);
    view_take(&merged, plain);
    if (index->ndim > 1) {
        if (!merge_dims(&one, 0, index->ndim) || !merge_dims(&merged, d, index->ndim))
            return -1;
        view_take(index, &one);
        view_take(plain, &merged);
    }
    return d;
}

int run_index_get(const kernel_call *call)
{
    view index, out;
    view_take(&index, &call->in[1]);
    view_take(&out, &call->out);
    const int dim = slices_along(&index, &out, call->attr->index.dims);
    if (dim < 0)
        return access_dims(&call->in[0], &call->out, &call->in[1], call->attr->index.dims, false, false);
    index_select(&out, &call->in[0], dim, &index);
    return 0;
}

/* The sizes of x[index]. */
static void result_sizes(view *r, const view *indexed, const view *index, int64_t dims)
{
    r->ndim = 0;
    uint32_t bits = index_dims_bits(dims);
    int at = index_dims_at(dims), rest = 0;
    for (int d = 0; d <= indexed->ndim; d++) {
        if (rest == at && r->ndim == at)
            for (int k = 0; k < index->ndim; k++)
                r->sizes[r->ndim++] = index->sizes[k];
        if (d < indexed->ndim && !(bits >> d & 1)) {
            r->sizes[r->ndim++] = indexed->sizes[d];
            rest++;
        }
    }
}

int run_index_put(const kernel_call *call)
{
    int64_t dims = call->attr->index.dims;
    view to, index, result, value;
    region_of(&to, call);
    view_take(&index, &call->in[2]);
    result_sizes(&result, &to, &index, dims);
    sized_like(&value, &call->in[1], &result);
    const int dim = call->attr->index.mode ? slices_along(&index, &value, dims) : -1;
    if (dim < 0)
        return access_dims(&to, &value, &index, dims, true, call->attr->index.mode != 0);
    index_add(&to, dim, &index, &value);
    return 0;
}

int run_index_sum(const kernel_call *call) { return index_sum(&call->out, &call->in[1], &call->in[0]); }
int run_index_keep(const kernel_call *call) { return index_keep(&call->out, &call->in[1], &call->in[0]); }

/* --- masks ---------------------------------------------------------------------------------------------------------
 */

int run_mask_select(const kernel_call *call)
{
    view mask;
    sized_like(&mask, &call->in[1], &call->in[0]);
    return mask_select(&call->out, &call->in[0], &mask);
}

int run_mask_scatter(const kernel_call *call)
{
    view to, mask;
    region_of(&to, call);
    sized_like(&mask, &call->in[2], &to);
    return mask_scatter(&to, &mask, &call->in[1]);
}

/* --- views that overlap ----------------------------------------------------------------------------------------------
 */

#define ADD_RUN(id, suffix, held, compute)                                                                             \
    static void add_run_##suffix(char *d, int64_t ds, const char *s, int64_t ss, int64_t n)                            \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                \
            element_put_double(id, d + i * ds, element_double(id, d + i * ds) + element_double(id, s + i * ss));       \
    }
ELEMENT_FLOATS(ADD_RUN)

static void add_run(bk_dtype t, char *d, int64_t ds, const char *s, int64_t ss, int64_t n)
{
    switch (t) {
    case BK_FLOAT32: add_run_f32(d, ds, s, ss, n); break;
    case BK_FLOAT64: add_run_f64(d, ds, s, ss, n); break;
    case BK_FLOAT16: add_run_f16(d, ds, s, ss, n); break;
    default: add_run_bf16(d, ds, s, ss, n);
    }
}

/* Elements of the region may share an address: one thread, one after the other. */
enum { ACCUMULATED = 1 << 13 }; /* elements worth a thread's while */

typedef struct accumulation {
    view to, from;
} accumulation;

/* Indices [begin, end) of the first dimension. */
static void accumulate_piece(void *arg, int64_t begin, int64_t end)
{
    const accumulation *all = arg;
    accumulation a;
    view_take(&a.to, &all->to);
    view_take(&a.from, &all->from);
    a.to.data += begin * a.to.strides[0] * (int64_t)dtype_size(a.to.dtype);
    a.from.data += begin * a.from.strides[0] * (int64_t)dtype_size(a.from.dtype);
    a.to.sizes[0] = a.from.sizes[0] = end - begin;
    int64_t left = view_numel(&a.to);
    walk w;
    walk_start(&w, (const view *const[]){ &a.to, &a.from }, 2, 0);
    for (int64_t n; left > 0; left -= n, walk_skip(&w, n)) {
        n = walk_run(&w, left);
        add_run(a.to.dtype, w.p[0], walk_step(&w, 0), w.p[1], walk_step(&w, 1), n);
    }
}

/* Whether no two indices of the first dimension share an element. */
static bool first_is_apart(const view *v)
{
    int64_t reach = 0;
    for (int d = 1; d < v->ndim; d++)
        reach += (v->sizes[d] - 1) * (v->strides[d] < 0 ? -v->strides[d] : v->strides[d]);
    return (v->strides[0] < 0 ? -v->strides[0] : v->strides[0]) > reach;
}

int run_accumulate(const kernel_call *call)
{
    accumulation a;
    region_of(&a.to, call);
    sized_like(&a.from, &call->in[1], &a.to);
    int64_t elements = view_numel(&a.to);
    if (!elements)
        return 0;
    views_order((view *[]){ &a.to, &a.from }, 2);
    if (!a.to.ndim || !first_is_apart(&a.to)) {
        int64_t rows = a.to.ndim ? a.to.sizes[0] : 1;
        a.to.ndim += !a.to.ndim;
        a.to.sizes[0] = a.from.sizes[0] = rows;
        accumulate_piece(&a, 0, rows);
        return 0;
    }
    threads_for(a.to.sizes[0], 1 + ACCUMULATED * a.to.sizes[0] / elements, (double)elements, accumulate_piece, &a);
    return 0;
}

/* attr.i[0]: the dimensions that are turned around, a bit each. */
int run_flip(const kernel_call *call)
{
    view from;
    view_take(&from, &call->in[0]);
    if (!view_numel(&from))
        return 0;
    for (int d = 0; d < from.ndim; d++) {
        if (!(call->attr->i[0] >> d & 1))
            continue;
        from.data += (from.sizes[d] - 1) * from.strides[d] * (int64_t)dtype_size(from.dtype);
        from.strides[d] = -from.strides[d];
    }
    move_copy(&call->out, &from);
    return 0;
}
