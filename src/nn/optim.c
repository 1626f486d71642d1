/* optim.c: the steps of the common optimisers, in PyTorch's formulas and their order of rounding.
 *
 * A step is recorded, not computed: it joins the plan of whatever is evaluated next, and all parameters of a call are
 * written before the caller goes on. What depends on the number of steps is a number, so that plans are found again. */
#include <math.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/compose.h"
#include "ops/elementwise.h"

/* --- bricks ------------------------------------------------------------------------------------------------------- */

static bk_tensor *times(const bk_tensor *x, double factor) { return ew_with(EW_mul, x, number_float(factor)); }

/* x + factor y */
static bk_tensor *plus(const bk_tensor *x, const bk_tensor *y, double factor)
{
    operand in[MAX_INPUTS] = { { 0 }, { 0 }, number_float(factor) };
    if (!operand_of(x, &in[0]) || !operand_of(y, &in[1]))
        return NULL;
    return factor == 1 ? ew_apply(EW_add, in) : ew_apply(EW_add_scaled, in);
}

/* x + factor a / b */
static bk_tensor *plus_quotient(const bk_tensor *x, const bk_tensor *a, const bk_tensor *b, double factor)
{
    return plus(x, bk_div(a, b), factor);
}

/* x + weight (y - x) */
static bk_tensor *toward(const bk_tensor *x, const bk_tensor *y, double weight)
{
    operand in[MAX_INPUTS] = { { 0 }, { 0 }, number_float(weight) };
    return operand_of(x, &in[0]) && operand_of(y, &in[1]) ? ew_apply(EW_lerp, in) : NULL;
}

/* decay x + (1 - decay) y^2 */
static bk_tensor *decayed_square(const bk_tensor *x, const bk_tensor *y, double decay)
{
    return plus(times(x, decay), bk_square(y), 1 - decay);
}

/* State that does not exist yet, as zeros that outlive the step. */
static bk_tensor *made(bk_tensor **state, const bk_tensor *like)
{
    if (!*state) {
        bk_tensor *zeros = bk_zeros_like(like);
        *state = zeros ? scope_own(zeros) : NULL;
    }
    return *state;
}

/* What the step goes along: the gradient, or its opposite, pulled towards smaller weights. */
static bk_tensor *direction(const bk_tensor *param, bool maximize, double weight_decay)
{
    const bk_tensor *grad = bk_grad_of(param);
    bk_tensor *g = maximize ? bk_neg(grad) : tensor_same(grad);
    return weight_decay != 0 ? plus(g, param, weight_decay) : g;
}

/* Calls one(k) for each parameter that has a gradient, in a scope and without a tape. */
typedef int (*step_one)(bk_tensor *param, void *states, int k, const void *options);

static int step_all(bk_tensor *const *params, void *states, int count, const void *options, step_one one)
{
    lock_take();
    bool was = grad_set_enabled(false);
    int status = 0;
    for (int k = 0; status == 0 && k < count; k++) {
        if (!params[k] || !bk_grad_of(params[k]))
            continue;
        bk_scope_push();
        status = one(params[k], states, k, options);
        bk_scope_pop();
    }
    grad_set_enabled(was);
    lock_give();
    return status;
}

static void release_all(bk_tensor **tensors, int count)
{
    for (int k = 0; k < count; k++) {
        if (tensors[k])
            bk_release(tensors[k]);
        tensors[k] = NULL;
    }
}

/* --- SGD ---------------------------------------------------------------------------------------------------------- */

/* The first momentum is the first direction itself, whatever the dampening. */
static bk_tensor *with_momentum(bk_tensor *g, bk_tensor **momentum, const bk_sgd_options *o)
{
    if (!*momentum) {
        bk_tensor *first = bk_clone(g);
        *momentum = first ? scope_own(first) : NULL;
    } else if (write_result(*momentum, plus(times(*momentum, o->momentum), g, 1 - o->dampening)) < 0) {
        return NULL;
    }
    return o->nesterov ? plus(g, *momentum, o->momentum) : *momentum;
}

static int sgd_one(bk_tensor *param, void *states, int k, const void *options)
{
    const bk_sgd_options *o = options;
    bk_tensor *g = direction(param, o->maximize, o->weight_decay);
    if (g && o->momentum != 0)
        g = with_momentum(g, (bk_tensor **)states + k, o);
    return write_result(param, plus(param, g, -o->lr));
}

int bk_sgd_step(bk_tensor *const *params, bk_tensor **momentum, int count, const bk_sgd_options *options)
{
    return step_all(params, momentum, count, options, sgd_one);
}

/* --- Adam and AdamW ----------------------------------------------------------------------------------------------- */

static int adam_one(bk_tensor *param, void *states, int k, const void *options)
{
    const bk_adam_options *o = options;
    bk_adam_state *s = (bk_adam_state *)states + k;
    if (!made(&s->mean, param) || !made(&s->square, param) || (o->amsgrad && !made(&s->largest, param)))
        return -1;
    double steps = s->steps + 1, correction = 1 - pow(o->beta1, steps), root = sqrt(1 - pow(o->beta2, steps));
    if (o->decoupled && o->weight_decay != 0 && write_result(param, times(param, 1 - o->lr * o->weight_decay)) < 0)
        return -1;
    bk_tensor *g = direction(param, o->maximize, o->decoupled ? 0 : o->weight_decay);
    if (write_result(s->mean, toward(s->mean, g, 1 - o->beta1)) < 0 ||
        write_result(s->square, decayed_square(s->square, g, o->beta2)) < 0)
        return -1;
    if (o->amsgrad && write_result(s->largest, bk_maximum(s->largest, s->square)) < 0)
        return -1;
    bk_tensor *size = ew_with(EW_div, bk_sqrt(o->amsgrad ? s->largest : s->square), number_float(root));
    size = ew_with(EW_add, size, number_float(o->eps));
    s->steps = steps;
    return write_result(param, plus_quotient(param, s->mean, size, -(o->lr / correction)));
}

int bk_adam_step(bk_tensor *const *params, bk_adam_state *states, int count, const bk_adam_options *options)
{
    return step_all(params, states, count, options, adam_one);
}

void bk_adam_state_release(bk_adam_state *states, int count)
{
    for (int k = 0; k < count; k++) {
        bk_tensor *held[] = { states[k].mean, states[k].square, states[k].largest };
        release_all(held, 3);
        states[k] = (bk_adam_state){ 0 };
    }
}

/* --- RMSprop ------------------------------------------------------------------------------------------------------ */

static int rmsprop_one(bk_tensor *param, void *states, int k, const void *options)
{
    const bk_rmsprop_options *o = options;
    bk_rmsprop_state *s = (bk_rmsprop_state *)states + k;
    if (!made(&s->square, param) || (o->centered && !made(&s->mean, param)) ||
        (o->momentum > 0 && !made(&s->momentum, param)))
        return -1;
    bk_tensor *g = direction(param, o->maximize, o->weight_decay);
    if (write_result(s->square, decayed_square(s->square, g, o->alpha)) < 0)
        return -1;
    bk_tensor *size = s->square;
    if (o->centered) {
        if (write_result(s->mean, toward(s->mean, g, 1 - o->alpha)) < 0)
            return -1;
        size = bk_sub(size, bk_square(s->mean));
    }
    size = ew_with(EW_add, bk_sqrt(size), number_float(o->eps));
    if (!(o->momentum > 0))
        return write_result(param, plus_quotient(param, g, size, -o->lr));
    if (write_result(s->momentum, plus_quotient(times(s->momentum, o->momentum), g, size, 1)) < 0)
        return -1;
    return write_result(param, plus(param, s->momentum, -o->lr));
}

int bk_rmsprop_step(bk_tensor *const *params, bk_rmsprop_state *states, int count, const bk_rmsprop_options *options)
{
    return step_all(params, states, count, options, rmsprop_one);
}

void bk_rmsprop_state_release(bk_rmsprop_state *states, int count)
{
    for (int k = 0; k < count; k++) {
        bk_tensor *held[] = { states[k].square, states[k].mean, states[k].momentum };
        release_all(held, 3);
        states[k] = (bk_rmsprop_state){ 0 };
    }
}
