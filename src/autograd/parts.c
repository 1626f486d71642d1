/* parts.c: which places are results of one function, and what that gives when it is called. */
#include "autograd/parts.h"

#include <string.h>

#include "autograd/view_steps.h"
#include "core/error.h"
#include "core/handle.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "ops/view_lists.h"

/* --- which belong together ------------------------------------------------------------------------------------------
 */

/* Whether the view has the sizes of the whole but in dimension dim, which it does not have at all if it drops it. */
static bool is_along(const layout *view, const layout *whole, int dim, bool drops)
{
    for (int d = 0, at = 0; d < whole->ndim; d++) {
        if (d == dim && drops)
            continue;
        if (d != dim && (view->sizes[at] != whole->sizes[d] || view->strides[at] != whole->strides[d]))
            return false;
        at++;
    }
    return true;
}

static bool rows_apart(const node *place, parts *out)
{
    const layout *view = place->layout, *whole = place->attr.region.layout;
    for (int d = 0; view->ndim + 1 == whole->ndim && d < whole->ndim; d++)
        if (is_along(view, whole, d, true) && place->attr.region.offset == out->number * whole->strides[d]) {
            out->dim = d;
            out->count = (int)whole->sizes[d];
            out->each = 1;
            return true;
        }
    return false;
}

/* The first part has the size of all but the last, and where another one begins tells it. */
static bool even_parts(const node *place, parts *out)
{
    const layout *view = place->layout, *whole = place->attr.region.layout;
    int dim = 0;
    while (dim < whole->ndim && (dim >= view->ndim || view->sizes[dim] == whole->sizes[dim]))
        dim++;
    bool all = dim == whole->ndim;
    dim = all ? 0 : dim;
    if (view->ndim != whole->ndim || !whole->ndim || !is_along(view, whole, dim, false))
        return false;
    const int64_t by = whole->strides[dim], size = whole->sizes[dim];
    out->dim = dim;
    out->each = out->number && by ? place->attr.region.offset / by / out->number : view->sizes[dim];
    out->count = all || out->each <= 0 ? 1 : (int)((size + out->each - 1) / out->each);
    return out->number < out->count;
}

static bool listed_parts(const node *place, parts *out)
{
    const layout *view = place->layout, *whole = place->attr.region.layout;
    view_list list = view_list_at(place->span);
    int64_t sum = 0;
    for (int k = 0; k < list.count; k++)
        sum += list.v[k];
    out->count = list.count;
    out->sizes = list.v;
    for (int d = 0; list.v && view->ndim == whole->ndim && d < whole->ndim; d++)
        if (whole->sizes[d] == sum && view->sizes[d] == list.v[list.number] && is_along(view, whole, d, false)) {
            out->dim = d;
            return true;
        }
    return false;
}

static bool views_of(const node *place, parts *out)
{
    const view_op op = (view_op)(place->attr.region.tape >> REGION_OP_SHIFT);
    *out = (parts){ .base = place->edge[0], .kind = op, .call = place->call, .number = view_part(place) };
    switch (op) {
    case VIEW_unbind: return rows_apart(place, out);
    case VIEW_split:
    case VIEW_unsafe_split: return even_parts(place, out);
    default: return listed_parts(place, out);
    }
}

bool parts_of(const node *place, parts *out)
{
    if (!place->composed)
        return view_is_part(place) && views_of(place, out);
    *out = (parts){ .kind = place->composed, .call = place->call, .count = composed_results(place) };
    out->number = out->count > 1 ? composed_output(place) : 0;
    return out->count > 1;
}

bool parts_have(const parts *all, const node *place, int *number)
{
    parts own;
    if (!parts_of(place, &own) || !parts_same(all, &own))
        return false;
    *number = own.number;
    return true;
}

/* --- places that are known ------------------------------------------------------------------------------------------
 *
 * A table by the number of the call; places of one call follow each other, but for what else came to lie there. */

int parts_known, parts_hooked;
static node **table;
static uint32_t capacity; /* a power of two */

static uint32_t slot_of(uint32_t call) { return (call * 0x9E3779B1u) & (capacity - 1); }

static void put(node *place)
{
    uint32_t at = slot_of(place->call);
    while (table[at])
        at = (at + 1) & (capacity - 1);
    table[at] = place;
}

static bool grow(void)
{
    node **old = table;
    uint32_t before = capacity;
    node **more = mem_try((capacity ? 2 * capacity : 64) * sizeof *more);
    if (!more)
        return false;
    capacity = capacity ? 2 * capacity : 64;
    memset(more, 0, capacity * sizeof *more);
    table = more;
    for (uint32_t i = 0; i < before; i++)
        if (old[i])
            put(old[i]);
    mem_free(old);
    return true;
}

bool parts_know(node *place)
{
    for (uint32_t at = capacity ? slot_of(place->call) : 0; capacity && table[at]; at = (at + 1) & (capacity - 1))
        if (table[at] == place)
            return true;
    if (2 * (uint32_t)parts_known >= capacity && !grow())
        return false;
    put(place);
    parts_known++;
    return true;
}

static bool has_hooks(const node *place)
{
    const hooks *h = hooks_of(place);
    return h && (h->lists[HOOK_TENSOR] || h->lists[HOOK_BEFORE] || h->lists[HOOK_AFTER]);
}

void parts_forget(const node *place)
{
    uint32_t at = capacity ? slot_of(place->call) : 0;
    while (capacity && table[at] && table[at] != place)
        at = (at + 1) & (capacity - 1);
    if (!capacity || !table[at])
        return;
    table[at] = NULL;
    parts_known--;
    parts_hooked -= has_hooks(place);
    for (uint32_t next = (at + 1) & (capacity - 1); table[next]; next = (next + 1) & (capacity - 1)) {
        node *moved = table[next];
        table[next] = NULL;
        put(moved);
    }
}

node *parts_find(const parts *all, int number)
{
    int found;
    node *place = NULL;
    lock_take();
    for (uint32_t at = capacity ? slot_of(all->call) : 0; capacity && table[at] && !place;
         at = (at + 1) & (capacity - 1))
        if (parts_have(all, table[at], &found) && found == number)
            place = node_retain(table[at]);
    lock_give();
    return place;
}

static void let_go(node *place)
{
    lock_take();
    node_release(place);
    lock_give();
}

/* --- hooks ----------------------------------------------------------------------------------------------------------
 */

void parts_hook(node *place, hook_kind kind, void *list)
{
    hooks *h = hooks_of(place);
    parts all;
    bool had = has_hooks(place);
    h->lists[kind] = list;
    if (had || kind > HOOK_AFTER || place->op == OP_leaf || !parts_of(place, &all))
        return;
    parts_hooked += parts_know(place);
}

bool parts_hooks(const parts *all, hooks *out)
{
    int number;
    *out = (hooks){ 0 };
    lock_take();
    for (uint32_t at = capacity ? slot_of(all->call) : 0; capacity && table[at]; at = (at + 1) & (capacity - 1)) {
        const hooks *h = parts_have(all, table[at], &number) ? hooks_of(table[at]) : NULL;
        for (int kind = HOOK_TENSOR; h && kind <= HOOK_AFTER; kind++)
            if (h->lists[kind]) {
                out->calls = h->calls;
                out->lists[kind] = kind == HOOK_TENSOR ? NULL : h->lists[kind];
            }
    }
    lock_give();
    return out->calls;
}

/* --- calling --------------------------------------------------------------------------------------------------------
 */

/* A gradient of part k in its sizes; zeros where there is none. */
static bk_tensor *part_gradient(const parts *all, const node *place, bk_tensor *g, int k)
{
    const layout *whole = place->attr.region.layout;
    int64_t sizes[BK_MAX_NDIM];
    int ndim = whole->ndim, dim = all->dim;
    memcpy(sizes, whole->sizes, (size_t)ndim * sizeof *sizes);
    if (all->kind == VIEW_unbind)
        memmove(sizes + dim, sizes + dim + 1, (size_t)(--ndim - dim) * sizeof *sizes);
    else
        sizes[dim] = all->sizes ? all->sizes[k] : k == all->count - 1 ? whole->sizes[dim] - k * all->each : all->each;
    bk_tensor *zeros = bk_zeros(ndim, sizes, (bk_dtype)place->dtype);
    if (!g || !zeros)
        return zeros;
    bool fits = g->layout->ndim == ndim && !memcmp(g->layout->sizes, sizes, (size_t)ndim * sizeof *sizes);
    g = fits ? g : bk_add(g, zeros);
    return g ? bk_to(g, (bk_dtype)place->dtype) : NULL;
}

static bk_tensor *joined(const parts *all, const node *place, bk_tensor *const *gradients)
{
    bk_tensor **each = mem_alloc((size_t)all->count * sizeof *each), *sum = NULL;
    bool good = each != NULL;
    for (int k = 0; good && k < all->count; k++)
        good = (each[k] = part_gradient(all, place, gradients[k], k));
    if (good)
        sum = (all->kind == VIEW_unbind ? bk_stack : bk_cat)(each, all->count, all->dim);
    mem_free(each);
    return sum;
}

/* Adds what the function gives for one of the results to the gradients. */
static int add_result(node *place, bk_tensor *g, bk_tensor **grads, int count)
{
    composed_way *ways = NULL;
    bk_tensor **more = NULL;
    if (shown_call_result(place, 0, &g, &ways, &more) < 0)
        return -1;
    int status = 0;
    for (int k = 0; k < count; k++) {
        bk_tensor *sum = grads[k] && more[k] ? scope_own(bk_add(grads[k], more[k])) : bk_retain(more[k]);
        status = more[k] && !sum ? -1 : status;
        if (sum) {
            bk_release(grads[k]);
            grads[k] = sum;
        }
        bk_release(more[k]);
    }
    mem_free(ways);
    mem_free(more);
    return status;
}

static int call_results(const parts *all, node *place, bk_tensor *const *gradients, bk_tensor **grads, int count)
{
    int status = 0;
    for (int k = 0; status == 0 && k < all->count; k++) {
        node *result = !gradients[k] ? NULL : k == all->number ? node_retain(place) : parts_find(all, k);
        if (gradients[k] && !result)
            status = error_int(BK_RUNTIME_ERROR, "%s can't be called with a gradient of result %d, which is gone",
                               place_grad_name(place), k);
        else if (gradients[k])
            status = add_result(result, gradients[k], grads, count);
        if (result)
            let_go(result);
    }
    return status;
}

int parts_call(const parts *all, node *place, bk_tensor *const *gradients, composed_way **ways, bk_tensor ***grads)
{
    bool any = false;
    for (int k = 0; k < all->count; k++)
        any |= gradients[k] != NULL;
    int count = shown_ways(place, 0, ways), status = count < 0 ? -1 : 0;
    *grads = count < 0 ? NULL : mem_alloc_zero((size_t)(count + 1) * sizeof **grads);
    bk_scope_push();
    if (*grads && any && all->base)
        status = ((*grads)[0] = scope_own(joined(all, place, gradients))) ? 0 : -1;
    else if (*grads && any)
        status = call_results(all, place, gradients, *grads, count);
    bk_scope_pop();
    if (*grads && status == 0)
        return count;
    for (int k = 0; *grads && k < count; k++)
        bk_release((*grads)[k]);
    mem_free(*grads);
    if (count >= 0)
        mem_free(*ways);
    return -1;
}
