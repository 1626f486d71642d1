/* test_periods.c: the rules of a tape that repeats itself run for some of its periods, and nobody can tell: gradients
 * have the same bits, the log has the same plan. And the texts that plans keep of such logs are those of these logs
 * alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/periods.h"
#include "autograd/replay.h"
#include "brisk.h"
#include "core/memory.h"
#include "graph/desk.h"
#include "graph/key_text.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "graph/rewrites.h"
#include "tap.h"

enum { WIDTH = 6, ROWS = 2, MOST_STEPS = 400, PARAMETERS = 4 };

/* --- loops ----------------------------------------------------------------------------------------------------------
 */

static bk_tensor *w, *u, *bias, *x; /* what has gradients */

static bk_tensor *matrix(int rows, int columns, int seed)
{
    float data[MOST_STEPS * ROWS * WIDTH];
    for (int i = 0; i < rows * columns; i++)
        data[i] = (float)((i * 7 + seed * 5) % 23) / 40 - 0.28f;
    bk_tensor *t = bk_from_data(data, 2, (int64_t[]){ rows, columns }, BK_FLOAT32);
    bk_set_requires_grad(t, true);
    return t;
}

static bk_tensor *row(int t) { return bk_narrow(x, 0, (int64_t)t * ROWS, ROWS); }
static bk_tensor *linear(bk_tensor *a, bk_tensor *m) { return bk_add(bk_matmul(a, bk_transpose(m, 0, 1)), bias); }
static bk_tensor *before(bk_tensor **h, int t, int steps) { return t >= steps ? h[t - steps] : h[0]; }

/* h[t + 1], from what was before. */
typedef bk_tensor *(*step_of_loop)(bk_tensor **h, int t, int steps);

static bk_tensor *plain(bk_tensor **h, int t, int steps)
{
    (void)steps;
    return bk_tanh(bk_add(linear(row(t), w), linear(h[t], u)));
}

static bk_tensor *gated(bk_tensor **h, int t, int steps)
{
    (void)steps;
    bk_tensor *z = bk_sigmoid(linear(h[t], u));
    return bk_add(bk_mul(z, h[t]), bk_mul(bk_add_s(bk_neg(z), 1), bk_tanh(linear(row(t), w))));
}

static bk_tensor *two_back(bk_tensor **h, int t, int steps)
{
    (void)steps;
    return bk_tanh(bk_add(linear(h[t], u), bk_mul(before(h, t, 2), linear(before(h, t, 3), w))));
}

static bk_tensor *half_and_half(bk_tensor **h, int t, int steps)
{
    return t < steps / 2 ? plain(h, t, steps) : gated(h, t, steps);
}

static bk_tensor *once_different(bk_tensor **h, int t, int steps)
{
    return t == steps / 3 ? bk_sin(plain(h, t, steps)) : plain(h, t, steps);
}

static bk_tensor *numbers_that_change(bk_tensor **h, int t, int steps)
{
    return bk_mul_s(plain(h, t, steps), 1 + 0.001 * (t % 5));
}

static bk_tensor *sides(bk_tensor **h, int t, int steps)
{
    (void)steps;
    bk_tensor *both = bk_cat((bk_tensor *[]){ bk_narrow(row(t), 1, 0, 2), bk_narrow(h[t], 1, 2, WIDTH - 2) }, 2, 1);
    return bk_tanh(bk_mul(linear(both, w), linear(h[t], u)));
}

static bk_tensor *every_third(bk_tensor **h, int t, int steps)
{
    return t % 3 ? plain(h, t, steps) : bk_relu(bk_add(gated(h, t, steps), h[t]));
}

static bk_tensor *backwards(bk_tensor **h, int t, int steps)
{
    return bk_tanh(bk_add(linear(row(steps - 1 - t), w), linear(h[t], u)));
}

static bk_tensor *off_the_tape(bk_tensor **h, int t, int steps)
{
    bk_tensor *scale = bk_detach(bk_sigmoid(h[t]));
    return bk_mul(t % 7 ? scale : bk_cos(scale), plain(h, t, steps)); /* records between those of the tape */
}

/* What the loss is made of. */
enum { STACKED, LAST, ADDED_UP, SOME };

static bk_tensor *loss_of(bk_tensor **h, int steps, int kind)
{
    bk_tensor *sum = NULL;
    if (kind == STACKED)
        return bk_sum(bk_square(bk_stack(h + 1, steps, 0)), 0, false);
    for (int t = 1; t <= steps; t++) {
        if ((kind == LAST && t < steps) || (kind == SOME && t % 10 && t < steps))
            continue;
        bk_tensor *part = bk_sum(bk_square(h[t]), 0, false);
        sum = sum ? bk_add(sum, part) : part;
    }
    return sum;
}

/* The gradients of a pass over a loop; false: it failed. */
typedef struct gradients {
    float of[PARAMETERS][MOST_STEPS * ROWS * WIDTH];
} gradients;

static bool run(step_of_loop c, int steps, int kind, bool evaluated, gradients *g)
{
    static bk_tensor *h[MOST_STEPS + 1];
    bk_tensor *parameters[PARAMETERS] = { w, u, bias, x };
    memset(g, 0, sizeof *g);
    for (int k = 0; k < PARAMETERS; k++)
        bk_set_grad(parameters[k], NULL);
    bk_scope_push();
    h[0] = bk_full(2, (int64_t[]){ ROWS, WIDTH }, 0.25, BK_FLOAT32);
    bool good = h[0];
    for (int t = 0; good && t < steps; t++)
        good = (h[t + 1] = c(h, t, steps)) != NULL;
    bk_tensor *loss = good ? loss_of(h, steps, kind) : NULL;
    good = loss && (!evaluated || bk_eval(loss) == 0) && bk_backward(loss, NULL, false, false) == 0;
    for (int k = 0; good && k < PARAMETERS; k++) {
        bk_tensor *of = bk_grad_of(parameters[k]);
        const float *data = of ? bk_data(of) : NULL;
        if (of && !data)
            good = false;
        if (data)
            memcpy(g->of[k], data, (size_t)bk_numel(of) * sizeof *data);
    }
    bk_scope_pop();
    return good;
}

static gradients first, second, third, rules;

typedef struct loop {
    const char *name;
    step_of_loop c;
    int kind;
    bool repeats; /* its passes have periods that follow */
} loop;

static const loop loops[] = {
    { "a plain loop", plain, STACKED, true },
    { "a loop of which the last state counts", plain, LAST, true },
    { "a loop with a loss in every step", gated, ADDED_UP, false },
    { "a loop of which some states count", plain, SOME, false },
    { "gates", gated, STACKED, true },
    { "states of two and three steps before", two_back, STACKED, true },
    { "two loops, one after the other", half_and_half, STACKED, true },
    { "a step that differs", once_different, STACKED, true },
    { "numbers that change", numbers_that_change, STACKED, true },
    { "columns beside each other", sides, STACKED, true },
    { "periods of three steps", every_third, STACKED, true },
    { "time that runs backwards", backwards, STACKED, true },
    { "records off the tape in between", off_the_tape, STACKED, true },
};

static void forget(void)
{
    replay_clear();
    cache_clear();
}

static void test_loop(const loop *l, int steps, bool evaluated)
{
    const bool compared = log_eager() || flush_checks();
    const uint32_t done = rewrites_done;
    const int64_t before = periods_followed();
    forget();
    bool good = run(l->c, steps, l->kind, evaluated, &first);
    const int64_t periods = periods_followed() - before, misses = cache_count().misses;
    const replay_counts known = replay_count();
    good = good && run(l->c, steps, l->kind, evaluated, &second);
    const bool learnt = replay_count().learnt > known.learnt, alike = periods_followed() == before + 2 * periods;
    good = good && run(l->c, steps, l->kind, evaluated, &third);
    const bool replayed = replay_count().replayed > known.replayed;
    const int64_t planned = cache_count().misses - misses;
    rewrites_done &= ~(uint32_t)REWRITE_repeats;
    forget();
    good = good && run(l->c, steps, l->kind, evaluated, &rules);
    rewrites_done = done;
    const bool same = !memcmp(&first, &rules, sizeof first) && !memcmp(&second, &rules, sizeof first) &&
                      !memcmp(&third, &rules, sizeof first);
    tap_ok(good && same, "%s over %d steps%s: the same gradients, bit by bit", l->name, steps,
           evaluated ? ", evaluated first" : "");
    if (steps >= 200 && l->repeats)
        tap_ok(compared || (learnt && alike && replayed), "%s: what follows is learnt, and replayed", l->name);
    if (steps >= 200 && l->repeats)
        tap_ok(compared || (periods > 0 && planned == 0), "%s: periods follow from others (%lld), as the same log",
               l->name, (long long)periods);
}

static void test_loops(void)
{
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        for (int evaluated = 0; evaluated < 2; evaluated++)
            for (int steps = 1; steps <= 240; steps = steps < 4 ? steps + 1 : steps * 2 + 3)
                test_loop(&loops[i], steps, evaluated);
}

/* --- memory that runs out ------------------------------------------------------------------------------------------
 */

static void test_faults(void)
{
    forget();
    run(gated, 40, STACKED, false, &rules);
    bk_sync();
    const int64_t nodes = nodes_live();
    int faults = 0, silent = 0, wrong = 0;
    for (int way = 0; way < 3; way++) /* the last learns what the pass before it has recorded */
        for (int64_t n = 1; n < 10000; n++) {
            const bool evaluated = way == 1;
            forget();
            if (way == 2)
                run(gated, 40, STACKED, evaluated, &first);
            bk_error_clear();
            mem_fail_after(n);
            const bool good = run(gated, 40, STACKED, evaluated, &first);
            const bool met = mem_fail_pending() == 0;
            mem_fail_after(0);
            if (!met)
                break;
            faults++;
            silent += !good && bk_error_code() != BK_MEMORY_ERROR;
            bk_error_clear();
            bk_sync();
            forget();
            wrong += !run(gated, 40, STACKED, evaluated, &second) || memcmp(&second, &rules, sizeof rules);
        }
    tap_ok(faults > 10 && silent == 0 && wrong == 0,
           "%d allocations fail: %d unnoticed, %d times passes gave something else afterwards", faults, silent, wrong);
    tap_ok(nodes_live() <= nodes, "no node is leaked (%lld more)", (long long)(nodes_live() - nodes));
}

/* --- texts of keys --------------------------------------------------------------------------------------------------
 */

enum { LONG = 1000 };

/* Steps of `period` records each, of which some read what stands before and move on in a sequence. */
static void fill(record_key *r, int count, int period, int odd)
{
    for (int i = 0; i < count; i++) {
        r[i] = (record_key){ .layout = (uint32_t)(i % period), .op = (uint16_t)(3 + i % period), .inputs = 2 };
        r[i].in[0] = i - 1 - period;
        r[i].in[1] = i % period == 1 ? -1 : i;
        r[i].attr.i[1] = i % period ? 0 : (int64_t)(i / period) << 20; /* beyond 32 bits */
        if (odd && i % odd == 0)
            r[i].readers = i % 7;
    }
}

static void test_texts(void)
{
    static record_key r[LONG];
    int wrong = 0, found = 0;
    for (int period = 1; period < 60; period += 7)
        for (int odd = 0; odd < 400; odd += 133) {
            fill(r, LONG, period, odd);
            key_text *text = key_text_new(r, LONG);
            wrong += !text || !key_text_is(text, r);
            for (int i = 0; text && i < LONG; i += 3)
                for (size_t k = 0; k < sizeof *r; k += 5) {
                    ((unsigned char *)&r[i])[k] ^= 1;
                    found += key_text_is(text, r);
                    ((unsigned char *)&r[i])[k] ^= 1;
                }
            if (period == 8 && !odd)
                tap_ok(text && key_text_bytes(text) < (int64_t)sizeof r / 8, "a text of periods is short");
            mem_free(text);
            desk_clear();
        }
    tap_ok(wrong == 0, "a text is that of the records it was made of");
    tap_ok(found == 0, "and not that of records of which a bit differs");
    key_text *none = key_text_new(r, 0);
    tap_ok(none && key_text_is(none, r), "there may be no records");
    mem_free(none);
    desk_clear();
}

int main(void)
{
    w = matrix(WIDTH, WIDTH, 1);
    u = matrix(WIDTH, WIDTH, 2);
    bias = matrix(1, WIDTH, 3);
    x = matrix(MOST_STEPS * ROWS, WIDTH, 4);
    test_texts();
    test_loops();
    if (!log_eager())
        test_faults();
    for (int k = 0; k < PARAMETERS; k++)
        bk_release((bk_tensor *[]){ w, u, bias, x }[k]);
    return tap_done();
}
