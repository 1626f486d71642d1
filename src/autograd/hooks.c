/* hooks.c: the lists of hooks, and who keeps its gradient. */
#include "autograd/hooks.h"

#include "core/lock.h"
#include "core/error.h"
#include "core/memory.h"

static bool is_leaf_place(const node *n) { return n->op == OP_leaf; }

hooks *hooks_of(const node *place)
{
    if (is_leaf_place(place))
        return ((const track *)place->extra)->hooks;
    return place->op == OP_function ? NULL : place->extra; /* a function's results have places of their own */
}

hooks *hooks_at(node *place)
{
    hooks *h = hooks_of(place);
    if (h)
        return h;
    h = mem_alloc_zero(sizeof *h);
    if (is_leaf_place(place))
        ((track *)place->extra)->hooks = h;
    else
        place->extra = h;
    return h;
}

void hooks_free(hooks *h)
{
    if (h->list)
        h->free(h->list);
    mem_free(h);
}

int hooks_keep(node *place, track *k)
{
    hooks *h = hooks_at(place);
    if (!h)
        return -1;
    k->next_keeper = h->keepers;
    h->keepers = k;
    return 0;
}

void hooks_forget(node *place, const track *k)
{
    hooks *h = hooks_of(place);
    track **at = h ? &h->keepers : NULL;
    while (at && *at && *at != k)
        at = &(*at)->next_keeper;
    if (at && *at)
        *at = k->next_keeper;
}

/* --- keeping gradients
 * ------------------------------------------------------------------------------------------------- */

static int retain_grad(bk_tensor *t)
{
    node *place = tensor_edge(t);
    if (!place)
        return error_int(BK_RUNTIME_ERROR, "can't retain_grad on Tensor that has requires_grad=False");
    if (bk_is_leaf(t))
        return 0; /* keeps it anyway */
    bool view = t->flags & TENSOR_VIEW || t->track->place != place;
    track *k = view ? tensor_keeper(t) : t->track;
    if (!k || k->retain_grad)
        return k ? 0 : -1;
    k->retain_grad = true;
    return hooks_keep(place, k);
}

int bk_retain_grad(bk_tensor *t)
{
    if (!t)
        return -1;
    lock_take();
    int status = retain_grad(t);
    lock_give();
    return status;
}

bool bk_retains_grad(const bk_tensor *t)
{
    const track *k = t->flags & TENSOR_VIEW ? t->keeps : t->keeps ? t->keeps : t->track;
    return k && k->retain_grad && !bk_is_leaf(t);
}
