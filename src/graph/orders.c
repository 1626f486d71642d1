/* orders.c: copies that only change the order of elements, and are not made.
 *
 * Heads of attention are computed one after the other and read token by token: (x @ y).transpose(1, 2).contiguous().
 * A product of a batch can as well write its rows where the copy would put them. So the copy is the value that gets
 * memory, of its own or in a region that it is to be written into, and the product, or what is computed from it element
 * by element, is made there with the strides that this gives it.
 *
 * Invariant: of the product, the view and the copy only the copy is read by others; it is born with the product. */
#include "graph/builder.h"

#include "graph/kernels.h"

static bool is_made_once(const planner *p, int32_t v)
{
    return v < p->key->records && p->uses[v] == 1 && p->values[v].last_use != INT32_MAX && !p->sums[v].role &&
           p->same[v] == v;
}

static bool is_batched_product(const planner *p, int32_t v)
{
    return v < p->key->records && op_get(p->key->record[v].op)->run == run_matmul && p->values[v].layout->ndim > 2;
}

/* A product of a batch, or what is computed from one in its shape. */
static bool is_source(const planner *p, int32_t v)
{
    const home *h = &p->homes[v];
    const layout *l = p->values[v].layout;
    if (l != l->plain || !l->numel || h->owner || h->within || h->unfilled)
        return false;
    if (is_batched_product(p, v))
        return true;
    bool found = false;
    if (op_get(p->key->record[v].op)->kind == KIND_ELEMENTWISE)
        for (int k = 0; k < p->key->record[v].inputs && !found; k++) {
            const int32_t from = input_of(p, v, k);
            found = is_batched_product(p, from) && p->values[from].layout == l;
        }
    return found;
}

/* The strides of `base` for which its view has those of `copy`, where the view shows all of it in another order. */
static bool turned_strides(const layout *base, const layout *seen, const layout *copy, int64_t *strides)
{
    if (seen->numel != base->numel)
        return false;
    for (int d = 0; d < base->ndim; d++) {
        int e = 0;
        strides[d] = base->strides[d];
        if (base->sizes[d] == 1)
            continue;
        while (e < seen->ndim && !(seen->sizes[e] == base->sizes[d] && seen->strides[e] == base->strides[d]))
            e++;
        if (e == seen->ndim)
            return false;
        strides[d] = copy->strides[e];
    }
    return true;
}

/* Copy i of a view of a source: rows stay rows, or writing them would cost more than the copy. */
static void find_order(planner *p, int32_t i)
{
    const value *x = &p->values[i];
    const int32_t v = input_of(p, i, 0);
    if (v >= p->key->records || p->key->record[v].op != OP_view || !is_made_once(p, v) || p->homes[v].waits)
        return;
    const int32_t from = input_of(p, v, 0);
    const attr *a = &p->key->record[v].attr;
    int64_t strides[BK_MAX_NDIM];
    if (x->dtype != p->values[v].dtype || x->layout != x->layout->plain || p->sums[i].role || p->homes[i].unfilled)
        return;
    if (!is_made_once(p, from) || !is_source(p, from) || p->values[from].dtype != x->dtype || a->region.offset ||
        a->region.layout != p->values[from].layout)
        return;
    const layout *base = p->values[from].layout;
    if (!turned_strides(base, p->values[v].layout, x->layout, strides) || strides[base->ndim - 1] != 1 ||
        base->sizes[base->ndim - 1] == 1)
        return;
    p->homes[v].waits = true;
    p->homes[i].source = from + 1;
    p->homes[from].copied = true;
    note(p, FACT_ORDERED, i);
}

void find_orders(planner *p)
{
    for (int k = 0; rewrites_done & REWRITE_orders && k < p->casts.count; k++)
        find_order(p, p->casts.at[k]);
}

const layout *source_layout(const planner *p, int32_t i, const layout *l)
{
    const layout *base = p->values[p->homes[i].source - 1].layout;
    int64_t strides[BK_MAX_NDIM];
    turned_strides(base, p->values[input_of(p, i, 0)].layout, l, strides);
    return layout_get(base->ndim, base->sizes, strides);
}

void settle_source(planner *p, int32_t i, const layout *l)
{
    const int32_t from = p->homes[i].source - 1, born = p->values[from].born;
    value_place(p, from, p->values[i].buffer, p->values[i].offset, l);
    touch(p, from, born);
    if (is_batched_product(p, from))
        p->drafts[born].out = view_of(p, from);
}
