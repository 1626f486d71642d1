/* backward.c: the reverse pass: at each place of the walk, its rule or function runs, and what it gives is sent on.
 *
 * The lock is not held while functions and hooks run: they may call anything. Nothing here recurses. */
#include <stdlib.h>
#include <string.h>

#include "autograd/backward.h"
#include "autograd/function.h"
#include "autograd/hooks.h"
#include "autograd/parts.h"
#include "autograd/periods.h"
#include "autograd/replay.h"
#include "autograd/rules.h"
#include "autograd/saved.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "graph/log.h"
#include "ops/elementwise.h"

int (*anomaly_check)(const node *n, bk_tensor *const *grads, int count);
void (*anomaly_failed)(const node *n);
void (*pass_over)(uint64_t number);

static HOT_THREAD_LOCAL pass *running;

/* How many inputs of a place could have a gradient, those that want none included; from which on is *first. */
static int place_edge_count(const node *n, int *first)
{
    bool power_of_number = n->op == EW_pow && !n->composed; /* one of two tensors has a row of composed.def */
    const uint8_t never = op_get(n->op)->constants | power_of_number << 1;
    write_op op = n->op == OP_update ? (write_op)(n->attr.region.tape >> REGION_OP_SHIFT) : WRITE_part;
    int count = 0, inputs = op == WRITE_zero || op == WRITE_fill || op == WRITE_part_filled ? 1 : n->inputs;
    *first = 0;
    if (n->op == OP_function)
        return function_inputs(n);
    for (int k = 0; n->op != OP_leaf && k < MAX_INPUTS; k++)
        if (n->edge[k] || (k < inputs && !(never >> k & 1)))
            count = k + 1;
    while (*first < count && never >> *first & 1 && !n->edge[*first])
        ++*first;
    return count - *first;
}

int place_edges(const node *n, node *const **edges)
{
    int first, count = place_edge_count(n, &first);
    *edges = (n->op == OP_function ? function_edges(n) : n->edge) + first;
    return count;
}

/* The places of tensors on the tape, each held. */
static node **places(bk_tensor *const *tensors, int count, node *few[static FEW_PLACES])
{
    node **p = count <= FEW_PLACES ? few : mem_alloc_zero((size_t)count * sizeof *p);
    for (int i = 0; p && i < count; i++) {
        p[i] = tensor_edge(tensors[i]);
        if (p[i])
            node_retain(p[i]);
    }
    return p;
}

static void places_free(node **p, int count)
{
    for (int i = 0; p && i < count; i++)
        if (p[i])
            node_release(p[i]);
    if (count > FEW_PLACES)
        mem_free(p);
}

static void step_clear(step *s)
{
    if (s->grad)
        bk_release(s->grad);
    s->grad = NULL;
    if (s->outputs) {
        for (int i = 0; i < shown_results(s->node); i++)
            bk_release(s->outputs[i]);
        mem_free(s->outputs);
        s->outputs = NULL;
    }
}

static void pass_free(pass *p)
{
    lock_take();
    for (int i = 0; i < p->count; i++) {
        if (i + NODES_AHEAD < p->count)
            __builtin_prefetch(p->steps[i + NODES_AHEAD].node);
        step_clear(&p->steps[i]);
        if (p->numbered)
            p->steps[i].node->visit = p->steps[i].visit;
        p->steps[i].node->flags &= (uint8_t)~NODE_WALKED;
        node_release_value(p->steps[i].node);
    }
    places_free(p->outputs, p->call->output_count);
    places_free(p->inputs, p->call->input_count);
    pass_forget(p);
    lock_give();
    if (pass_over)
        pass_over(p->number);
}

/* --- sending -------------------------------------------------------------------------------------------------------
 */

/* More gradient for the edge's node; g is borrowed. fresh: nobody else will look at that handle. */
static int send_as(pass *p, node *edge, bk_tensor *g, bool fresh)
{
    step *s = &p->steps[edge->visit];
    if (!s->wanted && !p->only)
        return 0;
    if (tensor_dtype(g) != edge->dtype &&
        !(g = bk_to(g, (bk_dtype)edge->dtype))) /* a number of more precision met it */
        return -1;
    if (!s->wanted)
        return excursion_send(p->only, edge, g);
    if (!s->grad) {
        s->grad = bk_retain(g);
        s->own = fresh;
        return 0;
    }
    bk_tensor *sum = bk_add(s->grad, g);
    if (!sum)
        return -1;
    bk_release(s->grad);
    s->grad = bk_retain(sum);
    s->own = true;
    return 0;
}

static int send(pass *p, node *edge, bk_tensor *g) { return send_as(p, edge, g, false); }

/* The same of a reference that is given away. */
static int send_own(pass *p, node *edge, bk_tensor *g)
{
    step *s = &p->steps[edge->visit];
    if (s->wanted && !s->grad && tensor_dtype(g) == edge->dtype) {
        s->grad = g;
        s->own = false;
        return 0;
    }
    int status = send(p, edge, g);
    bk_release(g);
    return status;
}

/* T reads of x[t] fill one buffer, slice by slice. */
static int send_view(pass *p, node *n, bk_tensor *g)
{
    step *s = &p->steps[n->edge[0]->visit];
    bk_tensor *reordered;
    if (!s->wanted && !p->only)
        return 0;
    if (reorder_gradient(n, g, &reordered))
        return reordered ? send(p, n->edge[0], reordered) : -1;
    bool into = s->grad && s->own && s->grad->layout == n->attr.region.layout;
    bk_tensor *sum = add_view_gradient(n, g, into ? s->grad : NULL);
    if (!sum)
        return -1;
    if (into)
        return 0;
    if (s->grad || !s->wanted)
        return send(p, n->edge[0], sum);
    s->grad = bk_retain(sum);
    s->own = true;
    return 0;
}

/* Zeros, of which a second derivative knows nothing. */
static int send_constant(pass *p, node *edge, const layout *whole)
{
    bk_tensor *zeros = rule_zeros(whole, (bk_dtype)edge->dtype);
    return zeros ? send(p, edge, zeros) : -1;
}

bk_tensor *track_gradient(const track *k, const bk_tensor *g)
{
    operand in;
    const layout *l = k->place ? layout_packed(g->layout) : k->layout->dense ? k->layout : k->layout->plain;
    bool fits = l && g->layout == l && g->cell->value->layout->numel == l->numel; /* all of its memory */
    if (!fits)
        g = l ? copy_as(g, l, tensor_dtype(g)) : NULL;
    return g && tensor_read(g, &in) ? tensor_own_at(in.value, in.edge) : NULL;
}

/* in_place: more goes into the tensor that is there. */
static int accumulate(track *k, bk_tensor *g, bool in_place)
{
    if (k->grad && in_place) {
        operand in[MAX_INPUTS] = { { 0 } };
        return tensor_read(k->grad, &in[0]) && tensor_read(g, &in[1]) ? ew_apply_in_place(EW_add, k->grad, in) : -1;
    }
    bk_tensor *sum = k->grad ? bk_add(k->grad, g) : g, *grad = sum ? track_gradient(k, sum) : NULL;
    if (!grad)
        return -1;
    if (sum == g && tensor_tracked(grad) && tensor_place_copy(grad, k->place ? WRITE_clone : WRITE_copy) < 0) {
        bk_release(grad);
        return -1;
    }
    bk_release(k->grad);
    k->grad = grad;
    return 0;
}

/* The gradient of a result moves to its slot, unless another came before it. */
static int take_result(bk_tensor **slot, bk_tensor **g)
{
    if (!*slot || !*g) {
        *slot = *g ? *g : *slot;
        *g = NULL;
        return 0;
    }
    bk_tensor *sum = bk_add(*slot, *g);
    if (!sum)
        return -1;
    bk_release(*slot);
    *slot = bk_retain(sum);
    return 0;
}

/* One of a function's gradients. */
static int collect_output(pass *p, step *s)
{
    const node *n = s->node;
    step *call = &p->steps[n->edge[0]->visit];
    if (!call->outputs) {
        call->outputs = mem_alloc_zero((size_t)function_outputs(call->node) * sizeof *call->outputs);
        if (!call->outputs)
            return -1;
    }
    return take_result(&call->outputs[n->attr.i[0]], &s->grad);
}

static int look_at(const node *n, bk_tensor *const *grads, int count)
{
    if (!anomaly_check)
        return 0;
    scope_close(); /* it is the front end's code, which owns what it makes */
    int status = anomaly_check(n, grads, count);
    bk_scope_pop();
    return status;
}

/* --- hooks
 * ------------------------------------------------------------------------------------------------------------ */

/* Hooks see a gradient when it is complete, and may replace it; NULL: nobody has sent any. */
static int run_hooks(step *s, const hooks *h)
{
    int status = 0;
    if (h->lists[HOOK_TENSOR]) {
        scope_close();
        status = h->calls->tensor(h->lists[HOOK_TENSOR], &s->grad);
        bk_scope_pop();
        s->own = false;
    }
    for (track *k = s->grad ? h->keepers : NULL; k && status == 0; k = k->next_keeper)
        status = accumulate(k, s->grad, false);
    return status;
}

/* The gradients of the results at a step, each NULL where nobody has sent any; NULL: out of memory. */
static bk_tensor **results_of(step *s, int *count)
{
    *count = s->node->op == OP_function ? function_outputs(s->node) : 1;
    if (*count > 1 && !s->outputs)
        s->outputs = mem_alloc_zero((size_t)*count * sizeof *s->outputs);
    return *count > 1 ? s->outputs : &s->grad;
}

static int run_before(step *s, const hooks *h)
{
    int count;
    if (!h->lists[HOOK_BEFORE])
        return 0;
    bk_tensor **results = results_of(s, &count);
    if (!results)
        return -1;
    scope_close();
    int status = h->calls->before(h->lists[HOOK_BEFORE], results, count);
    bk_scope_pop();
    return status;
}

/* grads: those of the inputs, each a reference of its own. */
static int run_after(step *s, bk_tensor **grads, int input_count)
{
    const hooks *h = hooks_of(s->node);
    if (!h || !h->lists[HOOK_AFTER])
        return 0;
    int count;
    bk_tensor **results = results_of(s, &count);
    if (!results)
        return -1;
    scope_close();
    int status = h->calls->after(h->lists[HOOK_AFTER], grads, input_count, results, count);
    bk_scope_pop();
    return status;
}

static int run_accumulated(step *s, const hooks *h)
{
    if (!h || !h->lists[HOOK_ACCUMULATED])
        return 0;
    lock_take();
    bk_tensor *leaf = track_tensor(s->node->extra);
    lock_give();
    if (!leaf)
        return -1;
    scope_close();
    int status = h->calls->accumulated(h->lists[HOOK_ACCUMULATED], leaf);
    bk_scope_pop();
    return status;
}

static int send_leaf(step *s, const hooks *h, bool create_graph)
{
    if (s->grad && accumulate(s->node->extra, s->grad, !create_graph) < 0)
        return -1;
    return h && (run_accumulated(s, h) < 0 || run_after(s, NULL, 0) < 0) ? -1 : 0;
}

/* --- functions -----------------------------------------------------------------------------------------------------
 */

/* A front end's function is called also where no gradient comes, as in PyTorch: its backward may make one of none. */
static int send_function(pass *p, step *s)
{
    node *n = s->node;
    int count = function_inputs(n), outputs;
    if (!s->grad && !s->outputs && !function_closure(n)->free_saved)
        return 0;
    bk_tensor **results = results_of(s, &outputs);
    if (!results)
        return -1;
    enum { FEW = 8 };
    bk_tensor *few[FEW] = { 0 }, **grads = count <= FEW ? few : mem_alloc_zero((size_t)count * sizeof *grads);
    if (!grads)
        return -1;
    int status = function_backward(n, results, grads);
    if (status == 0 && anomaly_check)
        status = look_at(n, grads, count);
    if (status == 0 && function_closure(n)->hooks && !p->only)
        status = run_after(s, grads, count);
    for (int i = 0; i < count; i++) {
        node *edge = function_edges(n)[i];
        if (status == 0 && grads[i] && edge)
            status = send_own(p, edge, grads[i]);
        else
            bk_release(grads[i]);
    }
    if (grads != few)
        mem_free(grads);
    return status;
}

static int refuse_second_time(void)
{
    return error_int(
        BK_RUNTIME_ERROR,
        "Trying to backward through the graph a second time (or directly access saved tensors after they "
        "have already been freed). Saved intermediate values of the graph are freed when you call .backward() "
        "or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
        "time or if you need to access saved tensors after calling backward.");
}

uint8_t place_values_read(const node *n)
{
    const op_info *info = op_get(n->op);
    uint8_t needs = 0;
    for (int k = 0; k < MAX_INPUTS; k++)
        needs |= n->edge[k] ? info->needs[k] : 0;
    return needs;
}

/* Whether the gradients that are wanted of n read values at all. */
static bool reads_saved(const node *n) { return place_values_read(n) != 0; }

/* --- leaves that were written since they were read ------------------------------------------------------------------
 */

const node *place_leaf_under(const node *edge)
{
    for (int depth = 0; depth < 4 && (edge->op == OP_view || edge->op == OP_expand); depth++) {
        if (edge->op == OP_view && edge->attr.region.add) /* a copy: what is written to the leaf is not seen there */
            return NULL;
        edge = edge->edge[0];
    }
    return edge->op == OP_leaf ? edge : NULL;
}

/* Of the values that the gradients wanted of n read, those of leaves must be what they were when n was recorded. */
static int check_leaves(node *n)
{
    uint8_t needs = place_values_read(n);
    for (int k = 0; k < n->inputs; k++) {
        const node *place = needs & 1 << k && n->edge[k] ? place_leaf_under(n->edge[k]) : NULL;
        const track *leaf = place ? place->extra : NULL;
        if (!leaf || !leaf->cell || leaf->cell->moved <= n->sequence)
            continue;
        if (n->edge[k] != place && place->attr.leaf.exchanged > n->sequence) /* a view of what its memory was before */
            continue;
        if (saved_of_written(n, k, leaf, n->edge[k] == place) < 0)
            return -1;
    }
    return 0;
}

/* Whether the pass wants what goes to this place (NULL: nowhere). Hooks see no other gradients, as in PyTorch. */
static bool wants(const pass *p, const node *to) { return to && p->steps[to->visit].wanted; }

/* What a rule gives is the scope's. */
static int run_after_rule(const pass *p, step *s, bk_tensor *grads[static MAX_INPUTS])
{
    for (int k = 0; k < MAX_INPUTS; k++)
        grads[k] = grads[k] && wants(p, s->node->edge[k]) ? bk_retain(grads[k]) : NULL;
    int first, count = place_edge_count(s->node, &first), status = run_after(s, grads + first, count);
    for (int k = 0; k < MAX_INPUTS; k++)
        if (grads[k])
            status = scope_add(grads[k]) ? status : -1;
    return status;
}

static int apply_rule(node *n, bk_tensor *g, bk_tensor *grads[static MAX_INPUTS])
{
    const hooks *h = n->extra;
    if (h && h->lists[HOOK_PACKED])
        return saved_packed_rule(n, h, g, grads);
    return check_leaves(n) < 0 ? -1 : op_get(n->op)->gradient(n, g, grads);
}

static int send_rule(pass *p, step *s)
{
    node *n = s->node;
    bk_tensor *grads[MAX_INPUTS] = { 0 };
    if (n->flags & NODE_FREED && reads_saved(n) && !hooks_have_packed(n))
        return refuse_second_time();
    if (s->grad && apply_rule(n, s->grad, grads) < 0)
        return -1;
    if ((anomaly_check && look_at(n, grads, MAX_INPUTS) < 0) ||
        (n->extra && !p->only && run_after_rule(p, s, grads) < 0))
        return -1;
    for (int k = 0; k < MAX_INPUTS; k++)
        if (grads[k] && n->edge[k] && send_as(p, n->edge[k], grads[k], n->op == OP_update && update_clears(n)) < 0)
            return -1;
    return 0;
}

/* The results of the inputs at this place: handles of their own. */
static int deliver(pass *p, step *s)
{
    operand in;
    for (int i = 0; i < p->call->input_count; i++) {
        if (p->inputs[i] != s->node)
            continue;
        bk_tensor *result = tensor_read(s->grad, &in) ? tensor_own_at(in.value, in.edge) : NULL;
        if (!result)
            return -1;
        p->call->results[i] = result;
    }
    return 0;
}

/* The function at a step is one of several records to PyTorch's users: its hooks see the gradients of its arguments,
 * which are sent on from here. What PyTorch has further functions for is gone through, too. */
static int send_several(pass *p, step *s)
{
    enum { MOST = 16 }; /* as many as a row of composed.def has functions */
    struct {
        int step;
        bk_tensor *g;
    } left[MOST] = { { 0, bk_retain(s->grad) } };
    int status = 0;
    for (int n = 1; n > 0;) {
        int step = left[--n].step;
        bk_tensor *g = left[n].g, **grads = NULL;
        composed_way *ways = NULL;
        int count = status < 0 ? 0 : shown_call_result(s->node, step, &g, &ways, &grads);
        for (int k = 0; k < count && !shown_is_list(s->node); k++)
            if (grads[k] && !ways[k].step && !wants(p, shown_end(ways[k].place))) {
                bk_release(grads[k]);
                grads[k] = NULL;
            }
        status = count < 0 ? -1 : status == 0 && !step ? run_after(s, grads, count) : status;
        bk_release(g);
        for (int k = 0; k < count; k++) {
            node *to = shown_end(ways[k].place);
            if (status == 0 && grads[k] && ways[k].step && n < MOST) {
                left[n].step = ways[k].step;
                left[n++].g = grads[k];
            } else if (status == 0 && grads[k] && to) {
                status = send_own(p, to, grads[k]);
            } else {
                bk_release(grads[k]);
            }
        }
        if (count >= 0) {
            mem_free(ways);
            mem_free(grads);
        }
    }
    return status;
}

/* What is done with a complete gradient before the function runs. */
static int arrive(pass *p, step *s)
{
    const hooks *h = p->only ? NULL : hooks_of(s->node);
    bool end = s->asked && p->call->inputs_are_ends; /* its hooks run where the caller sends the gradient on */
    if (h && !end && run_hooks(s, h) < 0)
        return -1;
    return s->grad && s->asked && p->call->results ? deliver(p, s) : 0;
}

/* --- functions whose results are several places ----------------------------------------------------------------------
 *
 * Only where somebody has put hooks around one. Who reads a result was recorded after all of them: at the first of
 * their steps the gradients of all are complete. */

/* The next step of these, which are numbered one after the other, but for one that was made anew; NULL: s is the last.
 */
static step *next_of(pass *p, const parts *all, step *s, int *number)
{
    uint64_t first = s->sequence - ((s->sequence - all->call) & CALL_MASK);
    for (step *next = s + 1; next < p->steps + p->count; next++) {
        if (next->node->op == OP_leaf)
            continue;
        if (next->sequence < first)
            break;
        if (next->leads && parts_have(all, next->node, number))
            return next;
    }
    return NULL;
}

/* A result that the pass does not come to has no gradient, which its hooks see, as in PyTorch. */
static int arrive_nowhere(const pass *p, const parts *all, int number, bk_tensor **g)
{
    int status = 0;
    node *place = parts_find(all, number);
    const hooks *h = place && !step_of(p, place) ? hooks_of(place) : NULL;
    if (h && h->lists[HOOK_TENSOR]) {
        scope_close();
        status = h->calls->tensor(h->lists[HOOK_TENSOR], g);
        bk_scope_pop();
    }
    lock_take();
    if (place)
        node_release(place);
    lock_give();
    return status;
}

/* The gradients of all results, at the first step; the others are done with. */
static bk_tensor **gather_results(pass *p, step *s, const parts *all)
{
    int number = all->number, status = 0;
    s->outputs = mem_alloc_zero((size_t)all->count * sizeof *s->outputs);
    for (step *at = s; s->outputs && at && status == 0; at = next_of(p, all, at, &number)) {
        status = at != s ? arrive(p, at) : 0;
        status = status < 0 ? -1 : take_result(&s->outputs[number], &at->grad);
        at->done = true;
    }
    for (int k = 0; s->outputs && k < all->count && status == 0; k++)
        status = arrive_nowhere(p, all, k, &s->outputs[k]);
    return status < 0 ? NULL : s->outputs;
}

static int run_parts(pass *p, step *s, const parts *all)
{
    hooks h;
    bk_tensor **results = gather_results(p, s, all), **grads = NULL;
    composed_way *ways = NULL;
    if (!results)
        return -1;
    scope_close();
    bool before = parts_hooks(all, &h) && h.lists[HOOK_BEFORE];
    int status = before ? h.calls->before(h.lists[HOOK_BEFORE], results, all->count) : 0;
    bk_scope_pop();
    int count = status < 0 ? -1 : parts_call(all, s->node, results, &ways, &grads);
    scope_close();
    if (count >= 0 && parts_hooks(all, &h) && h.lists[HOOK_AFTER])
        status = h.calls->after(h.lists[HOOK_AFTER], grads, count, results, all->count);
    bk_scope_pop();
    for (int k = 0; k < count; k++) {
        node *end = shown_end(ways[k].place);
        if (status == 0 && grads[k] && end)
            status = send_own(p, end, grads[k]);
        else
            bk_release(grads[k]);
    }
    if (count >= 0) {
        mem_free(ways);
        mem_free(grads);
    }
    return count < 0 ? -1 : status;
}

static int run_step(pass *p, step *s)
{
    parts all;
    hooks around;
    const hooks *h = p->only ? NULL : hooks_of(s->node);
    if (s->done)
        return 0;
    if (arrive(p, s) < 0)
        return -1;
    if (s->node->op == OP_leaf ? p->call->results != NULL : !s->leads)
        return 0;
    if (parts_hooked && !p->only && s->node->op != OP_leaf && parts_of(s->node, &all) && parts_hooks(&all, &around))
        return run_parts(p, s, &all);
    if (h && run_before(s, h) < 0)
        return -1;
    if (h && h->lists[HOOK_AFTER] && s->grad && shown_is_several(s->node))
        return send_several(p, s);
    switch (s->node->op) {
    case OP_leaf: return send_leaf(s, h, p->call->create_graph);
    case OP_forward: return s->grad && p->tangents ? send(p, s->node->edge[0], s->grad) : 0;
    case OP_nowhere: return 0;
    case OP_output: return s->grad ? collect_output(p, s) : 0;
    case OP_function: return send_function(p, s);
    case OP_view:
        if (h && h->lists[HOOK_AFTER] && !(s->grad && s->node->attr.region.tape & REGION_FRESH))
            return send_rule(p, s);
        if (!s->grad)
            return 0;
        if (s->node->attr.region.tape & REGION_FRESH) /* no gradient flows on, but zeros do */
            return send_constant(p, s->node->edge[0], s->node->attr.region.layout);
        return send_view(p, s->node, s->grad);
    default: return send_rule(p, s);
    }
}

/* Saved values go, edges stay: a second backward fails only where it would read one. */
static void free_saved(node *n)
{
    if (n->op == OP_function) {
        function_free_saved(n);
        return;
    }
    if (n->extra && n->flags & NODE_PACKED)
        hooks_unpack_no_more(n->extra);
    if (n->flags & NODE_PENDING) {
        n->flags |= NODE_FREED; /* the log still needs its inputs */
        return;
    }
    n->flags |= NODE_FREED;
    if (!reads_saved(n))
        return;
    for (int k = 0; k < MAX_INPUTS; k++)
        node_drop_input(n, k);
}

/* Nothing is left to be done at a step. */
static inline void leave(const pass *p, step *s)
{
    step_clear(s);
    if (!p->call->retain_graph && !p->call->create_graph && s->leads)
        free_saved(s->node);
}

int pass_run(pass *p, int from, int to)
{
    for (int i = from; i < to; i++) {
        step *s = &p->steps[i];
        if (!s->wanted)
            continue;
        bk_scope_push();
        int status = run_step(p, s);
        bk_scope_pop();
        if (status < 0) {
            if (anomaly_failed)
                anomaly_failed(s->node->op == OP_output ? s->node->edge[0] : s->node);
            return -1;
        }
        lock_take();
        leave(p, s);
        lock_give();
    }
    return 0;
}

void pass_skip(pass *p, int from, int to)
{
    for (int i = from; i < to; i++)
        if (p->steps[i].wanted)
            leave(p, &p->steps[i]);
}

/* --- the entry -----------------------------------------------------------------------------------------------------
 */

static bk_tensor *first_gradient(const bk_tensor *t, const bk_tensor *gradient)
{
    char a[200], b[200];
    if (!gradient) {
        if (t->layout->numel != 1)
            return error_null(BK_RUNTIME_ERROR, "grad can be implicitly created only for scalar outputs");
        return bk_ones_like(t);
    }
    if (gradient->layout->plain != t->layout->plain)
        return error_null(
            BK_RUNTIME_ERROR,
            "Mismatch in shape: grad_output[0] has a shape of torch.Size(%s) and output[0] has a shape of "
            "torch.Size(%s).",
            layout_text(gradient->layout, a), layout_text(t->layout, b));
    return bk_to(gradient, tensor_dtype(t));
}

static int start(pass *p)
{
    const backward_call *c = p->call;
    for (int i = 0; i < c->output_count; i++) {
        bk_tensor *g = first_gradient(c->outputs[i], c->gradients ? c->gradients[i] : NULL);
        if (!g || send(p, p->outputs[i], g) < 0)
            return -1;
    }
    return 0;
}

static int prepare(pass *p)
{
    const backward_call *c = p->call;
    p->outputs = places(c->outputs, c->output_count, p->few_outputs);
    p->inputs = places(c->inputs, c->input_count, p->few_inputs);
    if (!p->outputs || !p->inputs)
        return -1;
    for (int i = 0; i < c->output_count; i++)
        if (!p->outputs[i])
            return error_int(BK_RUNTIME_ERROR,
                             "element %d of tensors does not require grad and does not have a grad_fn", i);
    for (int i = 0; i < c->input_count; i++)
        if (!p->inputs[i])
            return error_int(BK_RUNTIME_ERROR, c->results ? "One of the differentiated Tensors does not require grad"
                                                          : "can't retain_grad on Tensor that has requires_grad=False");
    for (int i = 0; i < c->input_count && !c->results; i++)
        if (bk_retain_grad(c->inputs[i]) < 0) /* what is no leaf takes its gradient too */
            return -1;
    return pass_collect(p) ? 0 : -1;
}

static HOT_THREAD_LOCAL bool tangents;

bool backward_take_tangents(bool on)
{
    bool was = tangents;
    tangents = on;
    return was;
}

/* What was recorded before is appended; the values that it reads go as if its rules had run. */
static int run_again(pass *p, int inner)
{
    if (replay_run(p) < 0)
        return -1;
    lock_take();
    for (int i = 0; i < inner && !p->call->retain_graph; i++) {
        if (i + NODES_AHEAD < inner)
            __builtin_prefetch(p->steps[i + NODES_AHEAD].node);
        if (p->steps[i].leads)
            free_saved(p->steps[i].node);
    }
    lock_give();
    return 0;
}

static int run_rules(pass *p, int inner, replay_way way)
{
    const bool learns = way == REPLAY_LEARN || way == REPLAY_LEARN_BY_PERIODS;
    int status = start(p);
    if (status == 0)
        status =
            way == REPLAY_PERIODS || way == REPLAY_LEARN_BY_PERIODS ? periods_run(p, inner) : pass_run(p, 0, inner);
    if (way == REPLAY_PERIODS)
        lock_give();
    return learns && replay_learnt(p, status == 0) < 0 ? -1 : status;
}

static int run_pass(pass *p, replay_way way)
{
    int inner = way == REPLAY_NONE ? p->count : pass_first_leaf(p);
    int status = way == REPLAY_KNOWN ? run_again(p, inner) : run_rules(p, inner, way);
    return status < 0 ? -1 : pass_run(p, inner, p->count);
}

bool backward_for_tangents(void) { return running && running->tangents; }

uint64_t backward_number(void) { return running ? running->number : 0; }

/* What a pass through one function is a part of. */
uint64_t backward_task(void)
{
    const pass *p = running;
    while (p && p->only && p->around)
        p = p->around;
    return p ? p->number : 0;
}

bool backward_reaches(const node *place)
{
    const step *s = running ? step_of(running, place) : NULL;
    return s && s->wanted;
}

int backward_record(const backward_call *call)
{
    step few[FEW_STEPS];
    pass p = { .call = call,
               .steps = few,
               .few = few,
               .capacity = FEW_STEPS,
               .number = next_sequence,
               .around = running,
               .tangents = tangents };
    running = &p;
    for (int i = 0; call->results && i < call->input_count; i++)
        call->results[i] = NULL;
    lock_take();
    int status = prepare(&p);
    replay_way way = status == 0 ? replay_look(&p) : REPLAY_NONE;
    lock_give();
    bool was = grad_set_enabled(call->create_graph);
    bk_scope_push();
    if (status == 0)
        status = run_pass(&p, way);
    bk_scope_pop();
    grad_set_enabled(was);
    running = p.around;
    pass_free(&p);
    for (int i = 0; status < 0 && call->results && i < call->input_count; i++) {
        bk_release(call->results[i]);
        call->results[i] = NULL;
    }
    return status;
}

/* The results' gradients at the first step. */
static int start_through(pass *p, bk_tensor *const *gradients)
{
    int count;
    step *s = step_of(p, p->only->place);
    bk_tensor **results = results_of(s, &count);
    for (int i = 0; results && i < count; i++)
        results[i] = bk_retain(gradients[i]);
    return results ? 0 : -1;
}

static int run_through(pass *p, bk_tensor *const *gradients)
{
    lock_take();
    p->outputs[0] = node_retain(p->only->place);
    int status = pass_collect(p) ? 0 : -1;
    lock_give();
    status = status < 0 ? -1 : start_through(p, gradients);
    for (int i = 0; status == 0 && i < p->count; i++) {
        p->only->at = p->steps[i].node;
        status = pass_run(p, i, i + 1);
    }
    return status;
}

int backward_through(excursion *e, bk_tensor *const *gradients)
{
    step few[FEW_STEPS];
    const backward_call call = { .output_count = 1, .retain_graph = true, .create_graph = grad_enabled() };
    pass p = { .call = &call,
               .steps = few,
               .few = few,
               .capacity = FEW_STEPS,
               .number = next_sequence,
               .around = running,
               .only = e };
    p.outputs = p.few_outputs;
    running = &p;
    bk_scope_push();
    int status = run_through(&p, gradients);
    bk_scope_pop();
    running = p.around;
    pass_free(&p);
    return status;
}

/* A gradient that nobody has checked in the sizes of a leaf. */
static bk_tensor *in_sizes_of(const track *k, bk_tensor *g)
{
    char own[200], met[200];
    const layout *l = k->layout;
    if (g->layout->plain == l->plain)
        return g;
    bk_tensor *zeros = bk_zeros(l->ndim, l->sizes, tensor_dtype(g)), *sum = zeros ? bk_add(zeros, g) : NULL;
    if (sum && sum->layout->plain != l->plain)
        return error_null(BK_RUNTIME_ERROR, "output with shape %s doesn't match the broadcast shape %s",
                          layout_text(l, own), layout_text(sum->layout, met));
    return sum;
}

/* A leaf that is called takes the gradient, as at the end of a pass. */
int backward_take(node *leaf, bk_tensor *g)
{
    step s = { .node = leaf };
    const hooks *h = hooks_of(leaf);
    bk_scope_push();
    s.grad = g ? in_sizes_of(leaf->extra, g) : NULL;
    int status = g && !s.grad ? -1 : 0;
    if (s.grad)
        status = accumulate(leaf->extra, s.grad, !grad_enabled());
    if (status == 0)
        status = run_accumulated(&s, h);
    bk_scope_pop();
    return status;
}

int bk_backward(bk_tensor *t, const bk_tensor *gradient, bool retain_graph, bool create_graph)
{
    if (!t)
        return -1;
    bk_tensor *const gradients[] = { (bk_tensor *)gradient };
    backward_call call = { .outputs = &t,
                           .gradients = gradients,
                           .output_count = 1,
                           .retain_graph = retain_graph,
                           .create_graph = create_graph };
    return backward_record(&call) < 0 ? -1 : bk_sync();
}

int bk_grad(bk_tensor *const *outputs, bk_tensor *const *gradients, int output_count, bk_tensor *const *inputs,
            int input_count, bool retain_graph, bool create_graph, bk_tensor **results)
{
    for (int i = 0; i < output_count + input_count; i++)
        if (!(i < output_count ? outputs[i] : inputs[i - output_count]))
            return -1;
    if (!input_count)
        return error_int(BK_RUNTIME_ERROR, "`inputs` argument to `grad()` cannot be empty.");
    backward_call call = { outputs, gradients,    output_count, inputs, input_count,
                           results, retain_graph, create_graph, false };
    return backward_record(&call) < 0 ? -1 : bk_sync();
}
