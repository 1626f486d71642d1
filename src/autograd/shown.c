/* shown.c: where the functions of the tape lead to, and calling one of them. */
#include "autograd/shown.h"

#include <string.h>

#include "autograd/backward.h"
#include "autograd/function.h"
#include "autograd/parts.h"
#include "autograd/view_steps.h"
#include "core/error.h"
#include "core/handle.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "core/trail.h"

/* --- where it leads to ----------------------------------------------------------------------------------------------
 */

static write_op write_of(const node *n) { return (write_op)(n->attr.region.tape >> REGION_OP_SHIFT); }

static view_op view_of(const node *n) { return (view_op)(n->attr.region.tape >> REGION_OP_SHIFT); }

/* The op whose result a tensor took in place. */
static node *op_behind(node *n)
{
    n = place_behind_cast(n);
    while (place_is_copy(n) && write_of(n) == WRITE_part && n->edge[0]->op != OP_leaf)
        n = place_behind_cast(n->edge[0]);
    return n;
}

/* The op in place of a view, where n is a write to a base that PyTorch has as one function with it; else NULL. What
 * writes to all of the base needs nothing of what was there. */
static node *op_of_part(const node *n)
{
    const bool all = place_is_copy(n);
    node *op = (all || n->op == OP_update) && write_of(n) == WRITE_through ? n->edge[all ? 0 : 1] : NULL;
    return op && op->op != OP_function && op->op != OP_output && op->op != OP_leaf ? op : NULL;
}

/* The view that an op was done in place of. */
static node *part_of(const node *op)
{
    node **edges = NULL;
    int count = op->composed ? composed_edges(op, &edges) : 0;
    node *part = count > 0 ? edges[0] : op->edge[0];
    mem_free(edges);
    return part;
}

/* What an op in place of a view has written to. */
static node *base_of_part(const node *n, const node *op)
{
    node *base = n->op == OP_update ? n->edge[0] : part_of(op);
    while (n->op != OP_update && base && base->op == OP_view && !place_is_copy(base))
        base = base->edge[0];
    return base;
}

static composed_way *ways_new(int count) { return mem_alloc_zero((size_t)(count ? count : 1) * sizeof(composed_way)); }

static node *before_cast(node *edge)
{
    while (edge && place_is_cast_for_op(edge))
        edge = edge->edge[0];
    return edge;
}

/* Operands that are repeated, what only sees rows otherwise, and copies of a layer's states: no functions of PyTorch's.
 */
static bool is_unseen(const node *n)
{
    return n->op == OP_expand || composed_passes(n) ||
           (n->op == OP_view && !place_is_copy(n) && view_of(n) == VIEW_unseen);
}

static int ways_to(node *const *edges, int count, composed_way **out)
{
    *out = ways_new(count);
    for (int k = 0; *out && k < count; k++)
        (*out)[k].place = before_cast(edges[k]);
    return *out ? count : -1;
}

/* It has the base where the op had the view. */
static int ways_of_part(const node *n, composed_way **out)
{
    node *op = op_of_part(n), **edges = NULL;
    node *const *own;
    int count = op->composed ? composed_edges(op, &edges) : place_edges(op, &own);
    count = count < 0 ? -1 : ways_to(edges ? edges : own, count, out);
    if (count > 0)
        (*out)[0].place = base_of_part(n, op);
    mem_free(edges); /* borrowed places */
    return count;
}

static bool is_view_way(const composed_way *way)
{
    char name[64];
    if (!way->step || !way->place)
        return false;
    if (way->place->in_view || !way->place->composed)
        return !way->place->in_view;
    composed_step_name(way->place, way->step, name);
    return composed_is_view_name(name);
}

/* Where the only way of a function leads to; g, or NULL: a gradient of its result becomes that of what is there. */
static int follow(composed_way *at, bk_tensor **g)
{
    composed_way *below = NULL;
    bk_tensor **grads = NULL;
    int count = g && *g ? shown_call(at->place, at->step, g, &below, &grads) : shown_ways(at->place, at->step, &below);
    if (count == 1)
        *at = (composed_way){ below[0].step, below[0].number, below[0].place, at->argument };
    for (int k = 0; grads && k < count; k++)
        if (count == 1) {
            bk_release(*g);
            *g = grads[k];
        } else {
            bk_release(grads[k]);
        }
    if (count >= 0) {
        mem_free(grads);
        mem_free(below);
    }
    return count == 1 ? 0 : -1;
}

/* The first way of a write goes past what it was a view of, as far as that is one of views. g: its gradient; or NULL.
 */
static void go_below_view(int count, composed_way *ways, bk_tensor **g)
{
    node *view = count > 0 && !ways[0].step ? shown_end(ways[0].place) : NULL;
    composed_way at = { .place = view, .argument = view ? ways[0].argument : 0 };
    bool more = view && (view->in_view || shown_is_inner_view(view));
    while (more && follow(&at, g) == 0) {
        ways[0] = at;
        more = is_view_way(&at);
    }
}

static int plain_ways(node *place, int step, composed_way **out)
{
    if (place->composed)
        return composed_ways(place, step, out);
    node *const *edges, *n = op_behind(place);
    if (n->composed)
        return composed_ways(n, step, out);
    if (op_of_part(n))
        return ways_of_part(n, out);
    view_op ops[MAX_VIEW_STEPS];
    if (step + 1 < view_steps(n, ops)) {
        *out = ways_new(1);
        if (*out)
            **out = (composed_way){ .step = step + 1, .place = place };
        return *out ? 1 : -1;
    }
    int count = place_edges(n, &edges);
    if (place_is_copy(n) && write_of(n) == WRITE_copy) /* over what is on no tape */
        return ways_to((node *[]){ NULL, edges[0] }, 2, out);
    return ways_to(edges, count, out);
}

int shown_ways(node *place, int step, composed_way **out)
{
    if (place->in_view && !step) {
        *out = ways_new(1);
        if (*out)
            **out = (composed_way){ .step = 1, .place = place };
        return *out ? 1 : -1;
    }
    int count = plain_ways(place, place->in_view ? 0 : step, out);
    const bool strided = place->op == OP_view && !place_is_copy(place) && view_of(place) == VIEW_as_strided;
    if (place->in_view || (strided && place->edge[0]->in_view)) /* a view that was made anew, after a write */
        go_below_view(count, *out, NULL);
    return count;
}

bool shown_is_inner_view(const node *place)
{
    if (place->composed)
        return composed_is_view(place);
    if (place->op != OP_view || place_is_copy(place))
        return false;
    switch (view_of(place)) {
    case VIEW_view:
    case VIEW_reshape_alias:
    case VIEW_permute:
    case VIEW_transpose:
    case VIEW_squeeze:
    case VIEW_squeeze_dim: return true;
    default: return false;
    }
}

node *shown_end(node *place)
{
    while (place && is_unseen(place))
        place = before_cast(place->edge[0]);
    return place && place->op != OP_nowhere ? place : NULL;
}

int shown_results(const node *place)
{
    parts all;
    return place->op == OP_function ? function_outputs(place) : parts_of(place, &all) ? all.count : 1;
}

static bool is_several_views(const node *place)
{
    view_op ops[MAX_VIEW_STEPS];
    return !place->composed && op_behind((node *)place) == place && view_steps(place, ops) > 1;
}

bool shown_is_several(const node *place)
{
    if (place->composed)
        return composed_work(place) >= 0;
    return op_behind((node *)place) != place || op_of_part(place) || is_several_views(place);
}

bool shown_is_list(const node *place)
{
    return place->composed && composed_rows[place->composed - 1].arguments[0] == '*';
}

/* --- a pass through one function ------------------------------------------------------------------------------------
 */

/* Whether n is on the way from the part to its base. */
static bool is_of_part(const excursion *e, const node *n)
{
    const node *at = e->part;
    while (at && at != n && at != e->base && at->op == OP_view && !place_is_copy(at))
        at = at->edge[0];
    return at == n && n != e->base && n->op == OP_view;
}

bool excursion_ends(const excursion *e, const node *n)
{
    if (n == e->place || is_unseen(n) || is_of_part(e, n) || (place_is_cast_for_op(n) && !e->views))
        return false;
    return n->op == OP_leaf || n->sequence < e->since || (e->views && composed_shows(n));
}

int excursion_send(excursion *e, const node *to, bk_tensor *g)
{
    if (e->count == e->capacity) {
        int capacity = e->capacity ? 2 * e->capacity : 4;
        sent *out = mem_resize(e->out, (size_t)capacity * sizeof *out);
        if (!out)
            return -1;
        e->out = out;
        e->capacity = capacity;
    }
    e->out[e->count++] = (sent){ e->at, to, bk_retain(g) };
    return 0;
}

static void excursion_free(excursion *e)
{
    for (int i = 0; i < e->count; i++)
        bk_release(e->out[i].g);
    mem_free(e->out);
}

static int take(bk_tensor **slot, bk_tensor *g)
{
    if (!*slot) {
        *slot = bk_retain(g);
        return 0;
    }
    bk_tensor *sum = scope_own(bk_add(*slot, g));
    if (!sum)
        return -1;
    bk_release(*slot);
    *slot = sum;
    return 0;
}

/* What was sent to each of these places. One that is there several times has a gradient each, in the order of ranks (or
 * NULL), where as many were sent; else all is given to the first. */
static int gather(const excursion *e, node *const *places, const int *ranks, int count, bk_tensor **grads)
{
    for (int i = 0; i < e->count; i++) {
        int all = 0, met = 0, before = 0, first = -1, mine = -1;
        for (int j = 0; j < e->count; j++) {
            met += e->out[j].to == e->out[i].to;
            before += j < i && e->out[j].to == e->out[i].to;
        }
        for (int k = 0; k < count; k++) {
            int earlier = 0;
            if (shown_end(places[k]) != e->out[i].to)
                continue;
            for (int j = 0; j < count; j++)
                earlier += shown_end(places[j]) == e->out[i].to &&
                           (ranks && ranks[j] != ranks[k] ? ranks[j] < ranks[k] : j < k);
            first = first < 0 ? k : first;
            mine = earlier == before ? k : mine;
            all++;
        }
        int to = all == met ? mine : first;
        if (to >= 0 && take(&grads[to], e->out[i].g) < 0)
            return -1;
    }
    return 0;
}

/* Puts what was sent into the order of the walk that the places of arguments are found by. */
static int in_order_of_walk(excursion *e)
{
    trail crossings = { 0 };
    if (e->count < 2)
        return 0;
    bool good = composed_crossings(e->place, &crossings);
    for (int k = 0, at = 0; good && 2 * k < crossings.count; k++)
        for (int i = at; i < e->count; i++)
            if (e->out[i].from == crossings.v[2 * k] && e->out[i].to == crossings.v[2 * k + 1]) {
                sent next = e->out[i];
                memmove(&e->out[at + 1], &e->out[at], (size_t)(i - at) * sizeof next);
                e->out[at++] = next;
                break;
            }
    trail_free(&crossings);
    return good ? 0 : -1;
}

static int call_plain(node *place, bk_tensor *const *gradients, const composed_way *ways, int count, bk_tensor **grads)
{
    node *n = op_behind(place), **places = mem_alloc((size_t)(count + 1) * sizeof *places);
    excursion e = { .place = place, .since = n->sequence - (n->composed ? n->span : 0) };
    const node *op = op_of_part(n);
    if (op) {
        e.since = op->sequence - (op->composed ? op->span : 0);
        e.part = part_of(op);
        e.base = base_of_part(n, op);
    }
    for (int k = 0; places && k < count; k++)
        places[k] = ways[k].place;
    int status = places ? backward_through(&e, gradients) : -1;
    if (status == 0)
        status = gather(&e, places, NULL, count, grads);
    excursion_free(&e);
    mem_free(places);
    return status;
}

/* --- functions of several records -----------------------------------------------------------------------------------
 *
 * Where PyTorch has several functions for one of ours, all is computed at one of them (composed_work). Those before it
 * pass on what they are given, those behind it the gradient of the argument that they lead
 * to, in its sizes, but for transposes. */

/* The gradients of the arguments, lists included. */
static int call_arguments(node *place, bk_tensor *g, bk_tensor ***grads)
{
    node **edges = NULL;
    int ranks[8], count = composed_edges_ranked(place, &edges, ranks);
    *grads = count < 0 ? NULL : mem_alloc_zero((size_t)(count + 1) * sizeof **grads);
    excursion e = { .place = place, .since = place->sequence - place->span, .views = composed_shows_views(place) };
    int status = *grads ? backward_through(&e, &g) : -1;
    if (status == 0)
        status = in_order_of_walk(&e);
    if (status == 0)
        status = gather(&e, edges, count <= 8 ? ranks : NULL, count, *grads);
    excursion_free(&e);
    mem_free(edges);
    for (int k = 0; status < 0 && *grads && k < count; k++)
        bk_release((*grads)[k]);
    return status < 0 ? -1 : count;
}

static bk_tensor *turned(const node *place, int step, bk_tensor *g)
{
    return g && step && composed_turns(place, step) ? scope_own(bk_transpose(g, 0, 1)) : bk_retain(g);
}

static int call_composed(node *place, int step, bk_tensor *g, const composed_way *ways, int count, bk_tensor **grads)
{
    const int work = composed_work(place);
    if (step < work) { /* passed on its way there */
        grads[0] = bk_retain(g);
        return 0;
    }
    const bool later = step > work;
    bk_tensor **of = NULL, *behind = later ? turned(place, step, g) : NULL;
    int arguments = later ? 0 : call_arguments(place, g, &of), status = arguments < 0 || (later && !behind) ? -1 : 0;
    bool given = false; /* of an argument that is read twice, the first way has all */
    for (int k = 0; status == 0 && k < count; k++) {
        int a = ways[k].argument;
        bk_tensor *mine = a < 0 ? NULL : later ? (given ? NULL : behind) : of[a];
        given |= a >= 0;
        grads[k] = turned(place, ways[k].step, mine);
        status = mine && !grads[k] ? -1 : 0;
    }
    bk_release(behind);
    for (int a = 0; of && a < arguments; a++)
        bk_release(of[a]);
    mem_free(of);
    return status;
}

/* Joined rows: each part has its own. One that no gradient goes to comes last. */
static int call_join(bk_tensor *g, const composed_way *ways, int count, bk_tensor **grads)
{
    const layout *l = g->layout;
    const int64_t size = l->sizes[l->ndim - 1];
    bk_tensor *rows = bk_reshape(g, 2, (int64_t[]){ size ? l->numel / size : 0, size });
    int64_t at = 0;
    for (int k = 0; rows && k < count && ways[k].place; k++) {
        const int64_t end = at + ways[k].place->layout->sizes[0];
        grads[k] = scope_own(bk_slice(rows, 0, at, end, 1));
        if (!grads[k])
            return -1;
        at = end;
    }
    return rows ? 0 : -1;
}

/* --- calling --------------------------------------------------------------------------------------------------------
 */

/* A gradient as the function's rules expect it. Steps before the one where all is computed may have other sizes; what
 * comes behind that has those of an argument. */
static bk_tensor *fitted(const node *place, int step, bk_tensor *g)
{
    const layout *l = place->layout;
    if (g->layout->plain == l->plain || (place->composed && step && step > composed_work(place)))
        return g;
    if (step && g->layout->numel == l->numel)
        return bk_reshape(g, l->ndim, l->sizes);
    bk_tensor *zeros = bk_zeros(l->ndim, l->sizes, (bk_dtype)place->dtype), *sum = zeros ? bk_add(g, zeros) : NULL;
    if (sum && sum->layout->plain != l->plain)
        return error_null(BK_RUNTIME_ERROR, "the gradient has more dimensions than what it is the gradient of");
    return sum;
}

static int call_one(node *place, int step, bk_tensor *g, const composed_way *ways, int count, bk_tensor **grads)
{
    if (is_several_views(place)) {
        grads[0] = scope_own(view_step_gradient(place, step, g));
        return grads[0] ? 0 : -1;
    }
    if (place->composed && composed_work(place) < 0)
        return error_int(BK_RUNTIME_ERROR,
                         "%s can't be called: brisk computes what it and the functions below it do all at once",
                         place_grad_name(place));
    g = fitted(place, step, g);
    if (!g)
        return -1;
    if (composed_joins(place))
        return call_join(g, ways, count, grads);
    return place->composed ? call_composed(place, step, g, ways, count, grads)
                           : call_plain(place, &g, ways, count, grads);
}

int shown_call_result(node *place, int step, bk_tensor *const *gradients, composed_way **ways, bk_tensor ***grads)
{
    int count = plain_ways(place, step, ways), status = count < 0 ? -1 : 0;
    *grads = count < 0 ? NULL : mem_alloc_zero((size_t)(count + 1) * sizeof **grads);
    if (!*grads)
        status = -1;
    bk_scope_push();
    if (status == 0 && place->op == OP_function)
        status = call_plain(place, gradients, *ways, count, *grads);
    else if (status == 0 && gradients[0])
        status = call_one(place, step, gradients[0], *ways, count, *grads);
    bk_scope_pop();
    if (status == 0)
        return count;
    for (int k = 0; *grads && k < count; k++)
        bk_release((*grads)[k]);
    mem_free(*grads);
    mem_free(*ways);
    return -1;
}

/* Of a write in PyTorch's view of a result, the as_strided passes on what it is given. */
static int call_in_view(node *place, int step, bk_tensor *const *gradients, composed_way **ways, bk_tensor ***grads)
{
    if (step) {
        int count = shown_call_result(place, 0, gradients, ways, grads);
        if (count > 0)
            go_below_view(count, *ways, &(*grads)[0]);
        return count;
    }
    int count = shown_ways(place, 0, ways);
    *grads = count < 0 ? NULL : mem_alloc_zero(2 * sizeof **grads);
    if (*grads)
        (*grads)[0] = bk_retain(gradients[0]);
    else if (count >= 0)
        mem_free(*ways);
    return *grads ? count : -1;
}

int shown_call(node *place, int step, bk_tensor *const *gradients, composed_way **ways, bk_tensor ***grads)
{
    parts all;
    if (place->in_view)
        return call_in_view(place, step, gradients, ways, grads);
    return !step && parts_of(place, &all) ? parts_call(&all, place, gradients, ways, grads)
                                          : shown_call_result(place, step, gradients, ways, grads);
}
