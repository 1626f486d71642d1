/* function.c: putting the results of a user's function on the tape. */
#include "autograd/function.h"

#include <string.h>

#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/trail.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "ops/elementwise.h"

static freelist closures; /* of those with few edges */

void *function_data(const node *n, int (*backward)(void *, bk_tensor *const *, int, bk_tensor **, int))
{
    const closure *c = n->extra;
    return c->fn.backward == backward ? c->fn.data : NULL;
}

/* Of a function of C; a front end has made them fit. */
static int check_gradients(const closure *c, bk_tensor *const *grads)
{
    char got[200], want[200];
    for (int i = 0; i < c->inputs; i++)
        if (grads[i] && c->edges[i] && grads[i]->layout->plain != c->edges[i]->layout->plain)
            return error_int(
                BK_RUNTIME_ERROR,
                "Function %s returned an invalid gradient at index %d - got %s but expected shape compatible with %s",
                c->fn.name, i, layout_text(grads[i]->layout, got), layout_text(c->edges[i]->layout, want));
    return 0;
}

int function_backward(node *n, bk_tensor *const *output_grads, bk_tensor **input_grads)
{
    const closure *c = n->extra;
    scope_close();
    int status = c->fn.backward(c->fn.data, output_grads, c->outputs, input_grads, c->inputs);
    bk_scope_pop();
    if (c->free_saved)
        return status;
    if (status < 0 && !bk_error())
        error_int(BK_RUNTIME_ERROR, "Function %s failed, and did not say why", c->fn.name);
    return status < 0 ? status : check_gradients(c, input_grads);
}

void function_free(node *n)
{
    closure *c = n->extra;
    if (c->fn.free)
        c->fn.free(c->fn.data);
    if (c->hooks)
        hooks_free(c->hooks);
    if (c->edges == c->few)
        freelist_give(&closures, c);
    else
        mem_free(c);
}

static closure *closure_new(int inputs, int outputs)
{
    bool few = inputs <= FEW_EDGES && outputs <= FEW_EDGES;
    size_t room = (size_t)(inputs + outputs) * sizeof(node *);
    closure *c = few ? freelist_take(&closures, sizeof *c) : mem_alloc(sizeof *c + room);
    if (!c)
        return NULL;
    record_clear(c, sizeof *c);
    c->inputs = inputs;
    c->outputs = outputs;
    c->edges = few ? c->few : (node **)(c + 1);
    c->places = few ? c->few_places : c->edges + inputs;
    if (!few)
        memset(c->edges, 0, room);
    return c;
}

/* The call's node, with an edge for every input that wants a gradient, if one does. */
static node *call_node(const bk_function *fn, bk_tensor *const *inputs, int count, int outputs, bool *wanted)
{
    bool on = grad_enabled();
    node *n = node_new(OP_function, BK_FLOAT32, layout_get(0, NULL, NULL));
    closure *c = n ? closure_new(count, outputs) : NULL;
    if (!c) {
        if (n)
            node_release(n);
        return NULL;
    }
    n->extra = c;
    n->flags = NODE_TAPED;
    for (int i = 0; i < count; i++) {
        node *edge = on && inputs[i] ? tensor_edge(inputs[i]) : NULL;
        if (!edge)
            continue;
        c->edges[i] = node_retain(edge);
        edge->tape_refs++;
        *wanted = true;
    }
    n->sequence = next_sequence++; /* later than the inputs' places, some of which were made just now */
    if (*wanted)
        c->fn = *fn; /* from here on the node owns fn->data */
    return n;
}

bk_tensor *function_input_again(const bk_tensor *t)
{
    const layout *l = t->layout;
    int64_t strides[BK_MAX_NDIM];
    if (!l->settled && layout_view_strides(l, l->ndim, l->sizes, strides))
        l = layout_get(l->ndim, l->sizes, strides);
    return l ? tensor_beside(t, l, t->offset) : NULL;
}

static bool is_among(const bk_tensor *out, bk_tensor *const *inputs, int count)
{
    for (int i = 0; i < count; i++)
        if (inputs[i] == out)
            return true;
    return false;
}

/* The place of an output: one for all that stand for it, so that its hooks see what each of them sends. Owned. */
static node *output_place(node *call, const bk_tensor *out, int number)
{
    closure *c = call->extra;
    if (c->outputs == 1) {
        call->dtype = (uint8_t)tensor_dtype(out);
        call->layout = out->layout;
        return node_retain(call);
    }
    if (c->places[number])
        return node_retain(c->places[number]);
    node *place = node_new(OP_output, tensor_dtype(out), out->layout);
    if (!place)
        return NULL;
    place->attr.i[0] = number;
    place->edge[0] = node_retain(call);
    call->tape_refs++;
    place->flags = NODE_TAPED;
    c->places[number] = place;
    return place;
}

void function_output_gone(const node *place)
{
    closure *c = place->edge[0] ? place->edge[0]->extra : NULL;
    if (c && c->places[place->attr.i[0]] == place)
        c->places[place->attr.i[0]] = NULL;
}

int function_place_output(node *call, bk_tensor *out, int number)
{
    node *place = output_place(call, out, number);
    int status = place ? tensor_set_place(out, place) : -1;
    if (place)
        node_release(place);
    return status;
}

static int place_slot(node *call, bk_tensor **slot, int number, bk_tensor *const *inputs, int input_count, bool same)
{
    if (!same && is_among(*slot, inputs, input_count)) {
        bk_tensor *again = scope_own(function_input_again(*slot));
        if (!again)
            return -1;
        bk_release(*slot);
        *slot = again;
    }
    return function_place_output(call, *slot, number);
}

int function_record(const bk_function *fn, void (*free_saved)(void *data), bk_tensor *const *inputs, int input_count,
                    bk_tensor **outputs, const bool *same, int output_count, node **call_place)
{
    lock_take();
    bool wanted = false;
    node *call = call_node(fn, inputs, input_count, output_count, &wanted);
    int status = call ? 0 : -1;
    if (wanted)
        ((closure *)call->extra)->free_saved = free_saved;
    for (int i = 0; status == 0 && wanted && i < output_count; i++)
        if (outputs[i] && dtype_is_float(tensor_dtype(outputs[i])))
            status = place_slot(call, &outputs[i], i, inputs, input_count, same && same[i]);
    if (call_place)
        *call_place = wanted && call && call->refs > 1 ? call : NULL;
    if (call)
        node_release(call);
    lock_give();
    if (!wanted && fn->free)
        fn->free(fn->data);
    return status;
}

int function_beside(const node *call, const bk_function *fn, bk_tensor *t)
{
    const closure *of = call->extra;
    node *n = node_new(OP_function, BK_FLOAT32, layout_get(0, NULL, NULL));
    closure *c = n ? closure_new(of->inputs, 1) : NULL;
    if (!c) {
        if (n)
            node_release(n);
        fn->free(fn->data);
        return -1;
    }
    c->fn = *fn;
    n->extra = c;
    n->flags = NODE_TAPED;
    for (int i = 0; i < of->inputs; i++)
        if (of->edges[i]) {
            c->edges[i] = node_retain(of->edges[i]);
            of->edges[i]->tape_refs++;
        }
    int status = function_place_output(n, t, 0);
    node_release(n);
    return status;
}

/* --- what a value was computed from --------------------------------------------------------------------------------
 */

/* Whether a step passes on how its input changes. That of a step function is 0. */
static bool has_gradient(int op, int k)
{
    const char *row = op < EW_COUNT ? ew_infos[op].gradient[k] : "";
    return *row ? strcmp(row, "NONDIFF") != 0 && strcmp(row, "bk_zeros_like(g)") != 0 : op_get(op)->gradient != NULL;
}

int forwards_under_way;
uint32_t last_forward, first_forward;

void forward_carry(node *n, int op, node *const *in, int count)
{
    for (int k = 0; k < count; k++)
        if (in[k] && in[k]->origin >= first_forward && in[k]->origin > n->origin && has_gradient(op, k) &&
            dtype_is_float((bk_dtype)in[k]->dtype))
            n->origin = in[k]->origin;
}

static bool meet_number(trail *met, node *n) { return !dtype_is_float((bk_dtype)n->dtype) || trail_meet(met, n); }

bool forward_made(forward_run run, node *value)
{
    trail met = { 0 };
    lock_take();
    bool good = meet_number(&met, value), found = false;
    for (int i = 0; good && i < met.count && !found; i++) {
        const node *n = met.v[i];
        found = n->origin >= run.number;
        if (found || n->sequence < run.start || op_get(n->op)->kind == KIND_SOURCE)
            continue;
        for (int k = 0; good && k < n->inputs; k++)
            if (n->in[k] && has_gradient(n->op, k))
                good = meet_number(&met, n->in[k]);
    }
    trail_unmark(&met);
    trail_free(&met);
    lock_give();
    return found || !good;
}

int bk_function_apply(const bk_function *fn, bk_tensor *const *inputs, int input_count, bk_tensor **outputs,
                      int output_count)
{
    if (!fn->backward) {
        if (fn->free)
            fn->free(fn->data);
        return error_int(BK_RUNTIME_ERROR, "Function %s has no backward", fn->name);
    }
    return function_record(fn, NULL, inputs, input_count, outputs, NULL, output_count, NULL);
}

void function_free_saved(node *n)
{
    const closure *c = n->extra;
    if (c->free_saved)
        c->free_saved(c->fn.data);
}

void callback_failed(void) { error_int(BK_CALLBACK_ERROR, "a callback failed"); }
