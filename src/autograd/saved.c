/* saved.c: what a rule reads where that is not simply what its node has kept: values of leaves that were written to
 * since they were read, and values that a front end has packed.
 *
 * A pass comes here seldom: whether it has to is asked in backward.c. */
#include "autograd/saved.h"

#include "autograd/rules.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "graph/log.h"
#include "ops/elementwise.h"

/* --- leaves that were written since they were read ------------------------------------------------------------------
 */

static int refuse_stale(const track *k, const node *saved, bool whole)
{
    char sizes[200];
    return error_int(
        BK_RUNTIME_ERROR,
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "[torch.%sTensor %s]%s is at version %u; expected version %u instead. Hint: enable anomaly detection to find "
        "the operation that failed to compute its gradient, with torch.autograd.set_detect_anomaly(True, "
        "check_nan=False).",
        dtypes[saved->dtype].type_name, layout_text(saved->layout, sizes),
        whole ? "" : ", which is output 0 of AsStrided,", k->cell->version, k->cell->expected);
}

/* What stands now where the edge's value was read. Owned. */
static node *current_value(const node *edge)
{
    if (edge->op == OP_leaf) {
        const track *k = edge->extra;
        node *whole = k->cell->value;
        return k->layout == whole->layout ? node_retain(whole) : node_view(whole, NULL, k->layout, k->offset);
    }
    node *base = current_value(edge->edge[0]); /* as deep as place_leaf_under went */
    node *n = !base                   ? NULL
              : edge->op == OP_expand ? node_expand(base, NULL, edge->layout)
                                      : node_view(base, NULL, edge->layout, edge->attr.region.offset);
    if (base)
        node_release(base);
    return n;
}

/* Whether a place among the elements of a view that share memory is on the way to the leaf: strides do not lead from
 * the leaf's memory to it. */
static bool is_apart(const node *edge)
{
    for (; edge->op == OP_view || edge->op == OP_expand; edge = edge->edge[0])
        if (edge->op == OP_view &&
            (view_leaves(edge) || (edge->edge[0]->op == OP_view && edge->edge[0]->layout->overlapping)))
            return true;
    return false;
}

/* A write through .data is not seen by the tape: its gradients are those of the new value, as PyTorch's are. */
static int take_current(node *n, int k)
{
    if (is_apart(n->edge[k]))
        return 0;
    if (n->flags & NODE_PENDING && log_flush() < 0) /* the log still needs the old one */
        return -1;
    node *now = current_value(n->edge[k]);
    if (!now)
        return -1;
    if (now->layout->plain == n->in[k]->layout->plain && now->dtype == n->in[k]->dtype) {
        node_drop_input(n, k);
        n->in[k] = node_retain(now);
    }
    node_release(now);
    return 0;
}

int saved_of_written(node *n, int k, const track *leaf, bool whole)
{
    if (leaf->cell->written > n->sequence)
        return refuse_stale(leaf, n->in[k], whole);
    lock_take();
    int status = take_current(n, k);
    lock_give();
    return status;
}

/* --- values that a front end has packed ------------------------------------------------------------------------------
 */

/* What stands for the value that was packed: of its sizes, dtype and, for a result, strides. */
static bk_tensor *unpacked(bk_tensor *t, const layout *l, bk_dtype dtype, bool same_strides)
{
    char got[200], want[200];
    if (t->layout->plain != l->plain)
        return error_null(BK_RUNTIME_ERROR, "a saved tensor of size %s was unpacked as one of size %s",
                          layout_text(l, want), layout_text(t->layout, got));
    if (same_strides && t->layout != l)
        return copy_as(t, l->dense ? l : l->plain, dtype);
    return tensor_dtype(t) == dtype ? t : bk_to(t, dtype);
}

/* The twin whose rule is running in this thread: the value that stands for its result, and the place of that. */
typedef struct stand_in {
    const node *twin;
    node *value, *place;
} stand_in;
static HOT_THREAD_LOCAL stand_in standing;

bk_tensor *rule_result(node *n)
{
    bool stands = n == standing.twin && standing.value;
    return stands ? tensor_at(standing.value, standing.place) : tensor_at(n, n);
}

/* n as it was, with the values that were unpacked. Owned. */
static node *twin_with(const node *n, bk_tensor *const slots[static MAX_INPUTS + 1])
{
    operand in = { 0 };
    node *twin = node_new(n->op, (bk_dtype)n->dtype, n->layout);
    if (!twin)
        return NULL;
    twin->attr = n->attr;
    twin->inputs = n->inputs;
    twin->line = n->line;
    for (int k = 0; k < MAX_INPUTS; k++) {
        if (slots[k] && tensor_read(slots[k], &in))
            twin->in[k] = node_retain(in.value);
        else if (n->in[k])
            twin->in[k] = node_retain(n->in[k]);
        if (n->edge[k])
            node_edge(twin, k, n->edge[k]);
    }
    return twin;
}

/* The rule of twin, whose result's value (NULL: nobody reads it) is at the place of n. */
static int run_rule(node *twin, node *n, node *value, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    stand_in before = standing;
    standing = (stand_in){ twin, value, n };
    int status = op_get(n->op)->gradient(twin, g, grads);
    standing = before;
    return status;
}

int saved_packed_rule(node *n, const hooks *h, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    bk_tensor *slots[MAX_INPUTS + 1] = { 0 }, **last = &slots[MAX_INPUTS];
    operand out = { 0 };
    scope_close();
    int status = h->calls->unpack(h->lists[HOOK_PACKED], slots);
    bk_scope_pop();
    lock_take();
    bool was = grad_set_enabled(false);
    const bk_tensor *result = status == 0 && *last ? unpacked(*last, n->layout, (bk_dtype)n->dtype, true) : NULL;
    if (status == 0 && *last && !(result && tensor_read(result, &out)))
        status = -1;
    node *twin = status == 0 ? twin_with(n, slots) : NULL;
    grad_set_enabled(was);
    lock_give();
    status = twin ? run_rule(twin, n, out.value, g, grads) : -1;
    lock_take();
    if (twin)
        node_release(twin);
    lock_give();
    for (int k = 0; k <= MAX_INPUTS; k++)
        bk_release(slots[k]);
    return status;
}
