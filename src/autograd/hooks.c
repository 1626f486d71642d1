/* hooks.c: the lists of hooks, and who keeps its gradient. */
#include "autograd/hooks.h"

#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"

hooks *hooks_at(node *place)
{
    hooks **slot = hooks_slot(place);
    if (!*slot)
        *slot = mem_alloc_zero(sizeof **slot);
    return *slot;
}

void hooks_free(hooks *h)
{
    for (int kind = 0; kind < HOOK_KINDS; kind++)
        if (h->lists[kind])
            h->calls->free(h->lists[kind]);
    mem_free(h);
}

void hooks_unpack_no_more(hooks *h)
{
    void *list = h->lists[HOOK_PACKED];
    h->lists[HOOK_PACKED] = NULL;
    if (list)
        h->calls->free(list);
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
