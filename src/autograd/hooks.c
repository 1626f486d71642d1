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
    h->keeper = k;
    return 0;
}

void hooks_forget(node *place, const track *k)
{
    hooks *h = hooks_of(place);
    if (h && h->keeper == k)
        h->keeper = NULL;
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
    if (t->track->place != place)
        return error_int(BK_NOT_IMPLEMENTED, "brisk: retain_grad() of a view");
    t->track->retain_grad = true;
    return hooks_keep(place, t->track);
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

bool bk_retains_grad(const bk_tensor *t) { return t->track && t->track->retain_grad && !bk_is_leaf(t); }
