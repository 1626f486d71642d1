/* view_steps.c: an index is taken apart into selects, slices and new dimensions, when somebody looks at it.
 *
 * The place of a view has its sizes and strides and those of what it is a view of, and knows what was done last and
 * (its span) what was done to each dimension: it is dropped (select), made (unsqueeze) or cut (slice), in one step, or
 * stays. Of a view by other means it is the shortest way from one list of dimensions to the other. */
#include "autograd/view_steps.h"

#include <string.h>

#include "core/handle.h"
#include "ops/view_lists.h"

enum { FAR = 200, WIDTH = BK_MAX_NDIM + 1 };

/* A way that ends with this change, from dimensions so far of the view and of the whole. */
typedef struct change {
    view_op op; /* VIEW_alias: it stays */
    int of_view, of_whole;
} change;
static const change changes[] = {
    [INDEX_KEEP] = { VIEW_alias, 1, 1 },
    [INDEX_SLICE] = { VIEW_slice, 1, 1 },
    [INDEX_SELECT] = { VIEW_select, 0, 1 },
    [INDEX_NEW] = { VIEW_unsqueeze, 1, 0 },
};
enum { CHANGES = sizeof changes / sizeof *changes };

/* The fewest steps to the first dimensions of the view from those of the whole; `ended`: of which the last is known. */
typedef struct distances {
    const layout *view, *whole;
    view_op last;
    uint8_t any[WIDTH][WIDTH], ended[WIDTH][WIDTH];
} distances;

static bool is_cut(int64_t size, int64_t stride, int64_t from_size, int64_t from_stride)
{
    if (size > from_size || (from_stride ? stride % from_stride : stride))
        return false;
    int64_t step = from_stride ? stride / from_stride : 1; /* of one element it is less than x[None] would have */
    return step == 1 || (step > 0 && (size > 1 ? size - 1 : 1) * step < from_size);
}

/* Whether the i-th dimension of the view may have come from the j-th of the whole by this change. */
static bool fits(const distances *d, const change *c, int i, int j)
{
    if (i < c->of_view || j < c->of_whole)
        return false;
    const int64_t size = c->of_view ? d->view->sizes[i - 1] : 1, stride = c->of_view ? d->view->strides[i - 1] : 0;
    const int64_t from = c->of_whole ? d->whole->sizes[j - 1] : 1, by = c->of_whole ? d->whole->strides[j - 1] : 0;
    switch (c->op) {
    case VIEW_alias: return size == from && stride == by;
    case VIEW_slice: return is_cut(size, stride, from, by);
    default: return size == 1;
    }
}

static uint8_t steps_by(const distances *d, const change *c, int i, int j, bool ended)
{
    if (!fits(d, c, i, j))
        return FAR;
    int k = i - c->of_view, l = j - c->of_whole;
    if (c->op == VIEW_alias)
        return ended ? d->ended[k][l] : d->any[k][l];
    return ended && c->op != d->last ? FAR : (uint8_t)(d->any[k][l] + 1);
}

static const change *best_change(const distances *d, int i, int j, bool ended)
{
    const change *best = NULL;
    int least = FAR;
    for (int k = 0; k < CHANGES; k++) {
        int steps = steps_by(d, &changes[k], i, j, ended);
        if (steps < least) {
            least = steps;
            best = &changes[k];
        }
    }
    return best;
}

static void measure(distances *d)
{
    for (int i = 0; i <= d->view->ndim; i++)
        for (int j = 0; j <= d->whole->ndim; j++) {
            const change *any = best_change(d, i, j, false), *ended = best_change(d, i, j, true);
            bool start = !i && !j;
            d->any[i][j] = start ? 0 : any ? steps_by(d, any, i, j, false) : FAR;
            d->ended[i][j] = ended ? steps_by(d, ended, i, j, true) : FAR;
        }
}

/* One of the functions, as it was called: on dimension `dim` of what was there by then. */
typedef struct view_step {
    view_op op;
    int dim, of_whole; /* -1: of none */
    int64_t start, step, size;
} view_step;

static view_step step_of_change(const distances *d, const change *c, int i, int j)
{
    view_step s = { .op = c->op, .dim = i - c->of_view, .of_whole = j - 1, .step = 1, .size = 1 };
    if (c->op == VIEW_unsqueeze)
        s.of_whole = -1;
    if (c->op == VIEW_slice) {
        int64_t by = d->whole->strides[j - 1];
        s.size = d->view->sizes[i - 1];
        s.step = by && s.size > 1 ? d->view->strides[i - 1] / by : 1;
    }
    return s;
}

/* What an index did, from the first dimension on. */
static index_changes changes_of(const node *place)
{
    view_list list = place->span < VIEW_LISTS_FIRST ? (view_list){ 0 } : view_list_at(place->span);
    if (list.count == 2)
        return (index_changes)(uint64_t)list.v[1] << 64 | (uint64_t)list.v[0];
    return place->span;
}

/* The steps as the index was written, the last first; 0: they are not known. */
static int written_steps(const distances *d, index_changes left, view_step out[static MAX_VIEW_STEPS])
{
    int i = 0, j = 0, n = 0;
    for (; i < d->view->ndim || j < d->whole->ndim; left >>= INDEX_BITS) {
        const change *c = &changes[(unsigned)left & ((1U << INDEX_BITS) - 1)];
        i += c->of_view;
        j += c->of_whole;
        if (i > d->view->ndim || j > d->whole->ndim || !fits(d, c, i, j))
            return 0;
        if (c->op != VIEW_alias) {
            memmove(out + 1, out, (size_t)n++ * sizeof *out);
            out[0] = step_of_change(d, c, i, j);
        }
    }
    return !left && n && out[0].op == d->last ? n : 0;
}

/* The steps, the last first; how many, 1 for whatever is no index. */
static int find_steps(const node *place, view_step out[static MAX_VIEW_STEPS])
{
    out[0] = (view_step){ .of_whole = -1 };
    if (place->op != OP_view || place_is_copy(place))
        return 1;
    distances d = { .view = place->layout, .whole = place->attr.region.layout };
    d.last = (view_op)(place->attr.region.tape >> REGION_OP_SHIFT);
    int i = d.view->ndim, j = d.whole->ndim, n = place->composed ? 0 : written_steps(&d, changes_of(place), out);
    if (n)
        return n;
    out[0] = (view_step){ .op = d.last, .of_whole = -1 };
    measure(&d);
    if (d.ended[i][j] >= FAR)
        return 1;
    while (i || j) {
        const change *c = best_change(&d, i, j, n == 0);
        if (c->op != VIEW_alias)
            out[n++] = step_of_change(&d, c, i, j);
        i -= c->of_view;
        j -= c->of_whole;
    }
    return n;
}

bool view_is_part(const node *place)
{
    view_op op = place->op == OP_view && !place_is_copy(place) ? (view_op)(place->attr.region.tape >> REGION_OP_SHIFT)
                                                               : VIEW_view;
    return op == VIEW_split || op == VIEW_split_sizes || op == VIEW_unsafe_split || op == VIEW_unsafe_split_sizes ||
           op == VIEW_unbind;
}

int view_part(const node *place)
{
    view_op op = (view_op)(place->attr.region.tape >> REGION_OP_SHIFT);
    bool listed = op == VIEW_split_sizes || op == VIEW_unsafe_split_sizes;
    return listed ? view_list_at(place->span).number : (int)place->span;
}

int view_steps(const node *place, view_op out[static MAX_VIEW_STEPS])
{
    view_step steps[MAX_VIEW_STEPS];
    int n = find_steps(place, steps);
    for (int k = 0; k < n; k++)
        out[k] = steps[k].op;
    return n;
}

/* --- gradients ------------------------------------------------------------------------------------------------------
 */

/* Where each cut begins: the offset is a sum over their strides, of which the largest has the first share. */
static void find_starts(const node *place, view_step *steps, int n)
{
    const layout *whole = place->attr.region.layout;
    int64_t left = place->attr.region.offset;
    for (int done = 0; done < n; done++) {
        view_step *next = NULL;
        for (int k = 0; k < n; k++) {
            bool later = steps[k].of_whole < 0 || steps[k].start >= 0;
            if (!later && (!next || whole->strides[steps[k].of_whole] > whole->strides[next->of_whole]))
                next = &steps[k];
        }
        if (!next)
            return;
        int64_t stride = whole->strides[next->of_whole], most = whole->sizes[next->of_whole] - 1;
        most -= next->size > 0 ? (next->size - 1) * next->step : 0;
        next->start = stride && left / stride < most ? left / stride : stride && most > 0 ? most : 0;
        left -= next->start * stride;
    }
}

static int find_calls(const node *place, view_step steps[static MAX_VIEW_STEPS])
{
    int n = find_steps(place, steps);
    for (int k = 0; k < n; k++)
        steps[k].start = -1;
    find_starts(place, steps, n);
    return n;
}

void view_step_numbers(const node *place, int step, int64_t out[static 4])
{
    view_step steps[MAX_VIEW_STEPS];
    find_calls(place, steps);
    const view_step *s = &steps[step];
    int64_t end = s->start + (s->size ? (s->size - 1) * s->step + 1 : 0);
    int64_t whole = s->of_whole < 0 ? 0 : place->attr.region.layout->sizes[s->of_whole];
    out[0] = s->dim;
    out[1] = s->start;
    out[2] = end + s->step - 1 >= whole ? INT64_MAX : end;
    out[3] = s->step;
}

int view_step_sizes(const node *place, int step, int64_t out[static MAX_VIEW_STEPS])
{
    view_step steps[MAX_VIEW_STEPS];
    const layout *whole = place->attr.region.layout;
    int n = find_steps(place, steps), ndim = whole->ndim;
    memcpy(out, whole->sizes, (size_t)ndim * sizeof *out);
    for (int k = n - 1; k > step; k--) {
        const view_step *s = &steps[k];
        int more = s->op == VIEW_unsqueeze, less = s->op == VIEW_select;
        memmove(out + s->dim + more, out + s->dim + less, (size_t)(ndim - s->dim - less) * sizeof *out);
        ndim += more - less;
        if (!less)
            out[s->dim] = s->size;
    }
    return ndim;
}

static bk_tensor *take_step(const view_step *s, bk_tensor *t)
{
    switch (s->op) {
    case VIEW_select: return bk_select(t, s->dim, s->start);
    case VIEW_unsqueeze: return bk_unsqueeze(t, s->dim);
    default: return bk_slice(t, s->dim, s->start, s->start + (s->size ? (s->size - 1) * s->step + 1 : 0), s->step);
    }
}

bk_tensor *view_step_gradient(const node *place, int step, bk_tensor *g)
{
    view_step steps[MAX_VIEW_STEPS];
    const layout *whole = place->attr.region.layout;
    int n = find_calls(place, steps);
    bk_tensor *before = bk_zeros(whole->ndim, whole->sizes, tensor_dtype(g));
    for (int k = n - 1; before && k > step; k--)
        before = take_step(&steps[k], before);
    if (!before || steps[step].op == VIEW_unsqueeze)
        return before ? bk_reshape(g, before->layout->ndim, before->layout->sizes) : NULL;
    bk_tensor *all = bk_zeros(before->layout->ndim, before->layout->sizes, tensor_dtype(g));
    bk_tensor *part = all ? take_step(&steps[step], all) : NULL;
    return part && bk_copy_(part, g) == 0 ? all : NULL;
}
