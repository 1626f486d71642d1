/* test_ahead.c: the first steps of a plan run while its log is still recorded, and nobody can tell.
 *
 * Every program here begins as a loop that ran before, so that a worker runs ahead of it, and then goes on in its own
 * way. It gives the bits that it gives when nothing runs ahead, and the loop runs ahead again afterwards. A flush waits
 * for the worker (ahead_eagerly), so that all that can go wrong does. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weights.h"
#include "brisk.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/ahead.h"
#include "graph/rewrites.h"
#include "graph/run.h"
#include "sanitizers.h"
#include "tap.h"

enum { STEPS = 80, ROWS = 16, WIDTH = 64, WEIGHTS = 3, RESULTS = 6, MIDDLE = STEPS / 2 };

static int64_t rows = ROWS; /* of the models that are made; one: cores go through their steps together */

typedef struct model {
    bk_tensor *x, *other; /* time, rows, width */
    bk_tensor *w[WEIGHTS];
    bk_tensor *kept[4]; /* what a program holds on to; let go of at its end */
} model;

/* What a program does at step t besides: -1: the loop ends there. h is the state, *x what the step reads. */
typedef int (*turn)(model *m, int t, bk_tensor **h, bk_tensor **x);

static model make_model(void)
{
    model m = { .x = sample(3, (int64_t[]){ STEPS + 8, rows, WIDTH }, BK_FLOAT32, 1, 1),
                .other = sample(3, (int64_t[]){ STEPS + 8, rows, WIDTH }, BK_FLOAT32, 2, 1) };
    for (int k = 0; k < WEIGHTS; k++) {
        m.w[k] = sample(k < 2 ? 2 : 1, (int64_t[]){ WIDTH, WIDTH }, BK_FLOAT32, 3 + k, 0.05);
        bk_set_requires_grad(m.w[k], true);
    }
    return m;
}

static bk_tensor *step(const model *m, const bk_tensor *x, const bk_tensor *h)
{
    bk_tensor *of_x = bk_add(bk_matmul(x, bk_transpose(m->w[0], 0, 1)), m->w[2]);
    return bk_tanh(bk_add(of_x, bk_matmul(h, bk_transpose(m->w[1], 0, 1))));
}

/* The states of all steps. */
static bk_tensor *states(model *m, int length, turn at)
{
    bk_tensor *h = bk_zeros(2, (int64_t[]){ rows, WIDTH }, BK_FLOAT32), *all[STEPS + 8];
    int done = 0;
    for (int t = 0; t < length && h; t++) {
        bk_tensor *x = bk_select(m->x, 0, t);
        if (at && at(m, t, &h, &x) < 0)
            break;
        all[done++] = h = step(m, x, h);
    }
    return h ? bk_stack(all, done, 0) : NULL;
}

static void forget_gradients(model *m)
{
    for (int k = 0; k < WEIGHTS; k++)
        bk_set_grad(m->w[k], NULL);
}

/* Forward and backward; the loss, the gradients and what was held on to, as numbers of the caller's. */
typedef struct numbers {
    float *at[RESULTS + 4];
    int64_t count[RESULTS + 4];
    int parts;
} numbers;

static void note(numbers *out, bk_tensor *t)
{
    bk_scope_push();
    bk_tensor *copy = t ? bk_clone(bk_detach(t)) : NULL;
    const float *data = copy ? bk_data(copy) : NULL;
    out->count[out->parts] = data ? bk_numel(copy) : 0;
    out->at[out->parts] = malloc((size_t)out->count[out->parts] * sizeof(float) + 1);
    if (data)
        memcpy(out->at[out->parts], data, (size_t)out->count[out->parts] * sizeof(float));
    out->parts++;
    bk_scope_pop();
}

static void numbers_free(numbers *n)
{
    for (int k = 0; k < n->parts; k++)
        free(n->at[k]);
    n->parts = 0;
}

static bool same(const numbers *a, const numbers *b)
{
    bool equal = a->parts == b->parts;
    for (int k = 0; equal && k < a->parts; k++)
        equal = a->count[k] == b->count[k] && !memcmp(a->at[k], b->at[k], (size_t)a->count[k] * sizeof(float));
    return equal;
}

static numbers run(model *m, int length, turn at)
{
    numbers out = { .parts = 0 };
    bk_scope_push();
    bk_scope_push();
    bk_tensor *all = bk_retain(states(m, length, at));
    bk_scope_pop();
    bk_tensor *loss = all ? bk_mean(bk_square(all), 0, false) : NULL;
    bk_release(all);
    forget_gradients(m);
    if (loss)
        bk_backward(loss, NULL, false, false);
    note(&out, loss);
    for (int k = 0; k < WEIGHTS; k++)
        note(&out, bk_grad_of(m->w[k]));
    for (int k = 0; k < 4; k++)
        if (m->kept[k]) {
            note(&out, m->kept[k]);
            bk_release(m->kept[k]);
            m->kept[k] = NULL;
        }
    bk_scope_pop();
    return out;
}

static bool runs_lazily(void) { return !log_eager(); }

/* The loop until it has run ahead: a plan that was wrong lets some logs pass. */
static bool arm(model *m)
{
    for (int tries = 0; runs_lazily() && tries < 600; tries++) {
        const int64_t before = ahead_count().taken;
        numbers n = run(m, STEPS, NULL);
        numbers_free(&n);
        if (ahead_count().taken > before)
            return true;
    }
    return !runs_lazily();
}

/* --- programs that depart ----------------------------------------------------------------------------------------- */

static int ends_early(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)m, (void)h, (void)x;
    return t < MIDDLE ? 0 : -1;
}

static int has_another_op(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)m, (void)x;
    if (t == MIDDLE)
        *h = bk_relu(*h);
    return 0;
}

static int has_another_number(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)m, (void)x;
    if (t == MIDDLE)
        *h = bk_mul_s(*h, 0.5);
    return 0;
}

static int reads_elsewhere(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)h;
    if (t == MIDDLE)
        *x = bk_select(m->other, 0, t);
    return 0;
}

static int reads_another_step(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)h;
    if (t == MIDDLE)
        *x = bk_select(m->x, 0, t - 1);
    return 0;
}

static int keeps_a_state(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)x;
    if (t == 5)
        m->kept[0] = bk_retain(*h);
    return 0;
}

static int looks_at_a_value(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)m, (void)x;
    if (t == MIDDLE)
        bk_item(bk_sum(*h, 0, false));
    return 0;
}

static int writes_to_the_input(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)h;
    if (t == MIDDLE) {
        m->kept[0] = bk_clone(m->x);
        bk_retain(m->kept[0]);
        bk_fill_(bk_select(m->x, 0, 3), 7);     /* was read */
        bk_fill_(bk_select(m->x, 0, t + 9), 7); /* will be */
        *x = bk_select(m->x, 0, t);
    }
    return 0;
}

static int writes_an_element(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)h, (void)x;
    if (t == MIDDLE)
        for (int k = 0; k < 2; k++)
            bk_copy_(bk_select(bk_select(bk_select(m->x, 0, k ? t + 9 : 3), 0, rows - 1), 0, 1),
                     bk_full(0, NULL, 9, BK_FLOAT32));
    return 0;
}

static int writes_to_a_weight(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)h, (void)x;
    if (t == MIDDLE) {
        const bool was = bk_set_grad_enabled(false);
        bk_copy_(bk_detach(m->w[2]), bk_mul_s(m->w[2], 1.25));
        bk_set_grad_enabled(was);
    }
    return 0;
}

/* The address is asked for, and something written there: read by what is evaluated afterwards. */
static int writes_behind_our_back(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)h, (void)x;
    if (t == MIDDLE) {
        float *data = bk_data(m->x);
        for (int i = 0; i < rows * WIDTH; i++)
            data[3 * rows * WIDTH + i] = 0.25f;
    }
    return 0;
}

static int fails(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)x;
    if (t == MIDDLE && bk_matmul(*h, m->x) == NULL)
        bk_error_clear();
    return 0;
}

static int fails_and_ends(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    return t == MIDDLE && fails(m, t, h, x) == 0 ? -1 : 0;
}

static int goes_on_with_one_thread(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)m, (void)h, (void)x;
    return t == MIDDLE ? bk_set_num_threads(1) : 0;
}

static int goes_on_with_three_threads(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)m, (void)h, (void)x;
    return t == MIDDLE ? bk_set_num_threads(3) : 0;
}

/* A loop over memory, which asks for all threads while one is lent. */
static int prints_meanwhile(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)h, (void)x;
    if (t == MIDDLE)
        bk_free(bk_to_string(m->other));
    return 0;
}

static void *add_up(void *arg)
{
    model *m = arg;
    bk_scope_push();
    m->kept[1] = bk_retain(bk_sum(bk_mul(m->other, m->other), 0, false));
    bk_scope_pop();
    return NULL;
}

static int is_joined_by_another_thread(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    pthread_t other;
    (void)h, (void)x;
    if (t == MIDDLE && pthread_create(&other, NULL, add_up, m) == 0)
        pthread_join(other, NULL);
    return 0;
}

static void *sync_all(void *arg)
{
    (void)arg;
    bk_sync();
    return NULL;
}

static int is_flushed_by_another_thread(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    pthread_t other;
    (void)m, (void)h, (void)x;
    if (t == MIDDLE && pthread_create(&other, NULL, sync_all, NULL) == 0)
        pthread_join(other, NULL);
    return 0;
}

static int layouts_and_plans_go(model *m, int t, bk_tensor **h, bk_tensor **x)
{
    (void)m, (void)h, (void)x;
    if (t == MIDDLE)
        cache_clear();
    return 0;
}

static const struct {
    const char *name;
    turn turn;
    int length;
    bool departs; /* what was done ahead is of no use */
} programs[] = {
    { "is the same", NULL, STEPS, false },
    { "ends early", ends_early, STEPS, true },
    { "is one step shorter", NULL, STEPS - 1, true },
    { "is longer", NULL, STEPS + 1, true },
    { "has another op in one step", has_another_op, STEPS, true },
    { "has another op with a number in one step", has_another_number, STEPS, true },
    { "reads another tensor in one step", reads_elsewhere, STEPS, true },
    { "reads the input of another step", reads_another_step, STEPS, true },
    { "keeps an early state", keeps_a_state, STEPS, true },
    { "looks at a value on the way", looks_at_a_value, STEPS, true },
    { "writes to its input on the way", writes_to_the_input, STEPS, true },
    { "writes to elements of its input on the way", writes_an_element, STEPS, true },
    { "writes to a weight on the way", writes_to_a_weight, STEPS, true },
    { "asks where its input is, and writes there", writes_behind_our_back, STEPS, true },
    { "meets an error, and goes on", fails, STEPS, false },
    { "meets an error, and ends there", fails_and_ends, STEPS, true },
    { "goes on with one thread", goes_on_with_one_thread, STEPS, false },
    { "goes on with three threads", goes_on_with_three_threads, STEPS, false },
    { "prints something else meanwhile", prints_meanwhile, STEPS, false },
    { "is joined by another thread's records", is_joined_by_another_thread, STEPS, true },
    { "is flushed by another thread", is_flushed_by_another_thread, STEPS, true },
    { "clears the cache of plans on the way", layouts_and_plans_go, STEPS, false },
};

static void check_programs(void)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        numbers got[2];
        int64_t left = 0, taken = 0;
        for (int ahead = 0; ahead < 2; ahead++) {
            bk_scope_push();
            model m = make_model(); /* anew: programs write to it */
            rewrites_done = ahead ? REWRITE_ALL : REWRITE_ALL & ~(uint32_t)REWRITE_ahead;
            const bool armed = !ahead || arm(&m);
            const ahead_counts before = ahead_count();
            got[ahead] = run(&m, programs[i].length, programs[i].turn);
            left = ahead_count().left - before.left;
            taken = ahead_count().taken - before.taken;
            bk_set_num_threads(2);
            if (ahead)
                tap_ok(armed && (!runs_lazily() || (programs[i].departs ? left == 1 && !taken : taken == 1 && !left)),
                       "a loop of %d rows that %s is %s", (int)rows, programs[i].name,
                       programs[i].departs ? "computed anew" : "taken on from where the worker was");
            bk_scope_pop();
        }
        tap_ok(same(&got[0], &got[1]), "and has the bits that it has when nothing runs ahead");
        numbers_free(&got[0]);
        numbers_free(&got[1]);
    }
}

/* --- random cells ------------------------------------------------------------------------------------------------- */

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % below;
}

/* The cell of a seed: the next state in h[0], another in h[1]. */
static void drawn_step(const model *m, unsigned seed, const bk_tensor *x, bk_tensor *h[static 2])
{
    enum { OPS = 7 };
    bk_tensor *v[3 + OPS] = { (bk_tensor *)x, h[0], h[1] };
    int n = 3;
    for (int i = 0; i < OPS; i++, n++) {
        bk_tensor *a = v[draw(&seed, (unsigned)n)], *b = v[draw(&seed, (unsigned)n)];
        switch (draw(&seed, 8)) {
        case 0: v[n] = bk_add(a, b); break;
        case 1: v[n] = bk_mul(bk_tanh(a), b); break;
        case 2: v[n] = bk_sub(bk_sigmoid(a), bk_mul_s(b, 0.5)); break;
        case 3: v[n] = bk_matmul(a, bk_transpose(m->w[0], 0, 1)); break;
        case 4: v[n] = bk_add(bk_matmul(a, bk_transpose(m->w[1], 0, 1)), m->w[2]); break;
        case 5: v[n] = bk_tanh(bk_add(bk_matmul(a, m->w[0]), b)); break;
        case 6:
            v[n] =
                bk_cat((bk_tensor *[]){ bk_slice(a, 1, 0, WIDTH / 2, 1), bk_slice(b, 1, WIDTH / 2, WIDTH, 1) }, 2, 1);
            break;
        default: v[n] = bk_div(a, bk_add_s(bk_square(b), 1)); break;
        }
    }
    h[1] = bk_tanh(v[n - 2]);
    h[0] = bk_tanh(bk_add(bk_matmul(v[n - 1], bk_transpose(m->w[1], 0, 1)), v[n - 3]));
}

/* With an update of the input on the way, an op more, or an end, where the seed says so. */
static numbers run_drawn(model *m, unsigned cell, unsigned way)
{
    enum { LENGTH = 40 };
    numbers out = { .parts = 0 };
    const int at = (int)draw(&way, 2 * LENGTH), what = (int)draw(&way, 4);
    bk_scope_push();
    bk_tensor *h[2] = { bk_zeros(2, (int64_t[]){ rows, WIDTH }, BK_FLOAT32), bk_select(m->other, 0, 0) }, *all[LENGTH];
    int done = 0;
    for (int t = 0; t < LENGTH && !(t == at && what == 0); t++) {
        if (t == at && what == 1)
            bk_fill_(bk_select(m->x, 0, t / 2), 0.5);
        if (t == at && what == 2)
            h[1] = bk_relu(h[1]);
        if (t == at && what == 3)
            m->kept[0] = bk_retain(h[0]);
        drawn_step(m, cell, bk_select(m->x, 0, t), h);
        all[done++] = h[0];
    }
    bk_tensor *loss = done ? bk_mean(bk_square(bk_stack(all, done, 0)), 0, false) : NULL;
    forget_gradients(m);
    if (loss)
        bk_backward(loss, NULL, false, false);
    note(&out, loss);
    for (int k = 0; k < WEIGHTS; k++)
        note(&out, bk_grad_of(m->w[k]));
    if (m->kept[0])
        note(&out, m->kept[0]);
    bk_release(m->kept[0]);
    m->kept[0] = NULL;
    bk_scope_pop();
    return out;
}

static void check_random_cells(void)
{
    enum { CELLS = UNDER_TSAN ? 4 : UNDER_ASAN ? 12 : 40, TIMES = 8 };
    int different = 0;
    const ahead_counts before = ahead_count();
    for (unsigned cell = 1; cell <= CELLS; cell++) {
        numbers got[2][TIMES];
        for (int ahead = 0; ahead < 2; ahead++) {
            bk_scope_push();
            model m = make_model();
            rewrites_done = ahead ? REWRITE_ALL : REWRITE_ALL & ~(uint32_t)REWRITE_ahead;
            for (unsigned k = 0; k < TIMES; k++)
                got[ahead][k] = run_drawn(&m, cell * 977, cell * 31 + k * 7);
            bk_scope_pop();
        }
        for (int k = 0; k < TIMES; k++) {
            different += !same(&got[0][k], &got[1][k]);
            numbers_free(&got[0][k]);
            numbers_free(&got[1][k]);
        }
    }
    const ahead_counts after = ahead_count();
    tap_ok(!different && (!runs_lazily() || after.taken - before.taken >= CELLS / 2),
           "random cells of %d rows give the same bits (%d times not; %d were taken on, %d departed)", (int)rows,
           different, (int)(after.taken - before.taken), (int)(after.left - before.left));
}

/* --- other things ------------------------------------------------------------------------------------------------- */

static void check_that_it_pays(void)
{
    model m = make_model();
    bool all = arm(&m) && !runs_lazily();
    for (int tries = 0; !all && tries < 100; tries++) { /* on a busy machine it may think that nothing comes anymore */
        const ahead_counts before = ahead_count();
        numbers n = run(&m, STEPS, NULL);
        all = ahead_count().instructions - before.instructions >= 2 * STEPS - 2;
        numbers_free(&n);
    }
    tap_ok(all, "the worker goes through all steps of the loop");
}

/* Steps that read the rows of one long product, as those of a layer do, which the worker does not get through with. */
static numbers run_after_product(const bk_tensor *x, const bk_tensor *w, const bk_tensor *bias)
{
    enum { LENGTH = 256 };
    numbers out = { .parts = 0 };
    bk_scope_push();
    bk_tensor *all = bk_tanh(bk_add(bk_matmul(x, w), bias)), *h = bk_slice(all, 0, 0, 2, 1);
    for (int t = 1; t < LENGTH; t++)
        h = bk_tanh(bk_add(bk_matmul(h, w), bk_slice(all, 0, 2 * t, 2 * t + 2, 1)));
    note(&out, h);
    note(&out, all);
    bk_scope_pop();
    return out;
}

static void check_long_products(void)
{
    enum { LONG = UNDER_ASAN || UNDER_TSAN ? 2048 : 8192, SQUARE = 128, TIMES = 6 };
    static const int64_t most[] = { 1, LONG / 2, INT64_MAX };
    const bk_tensor *x = sample(2, (int64_t[]){ LONG, SQUARE }, BK_FLOAT32, 1, 1),
                    *w = sample(2, (int64_t[]){ SQUARE, SQUARE }, BK_FLOAT32, 2, 0.1),
                    *bias = sample(1, (int64_t[]){ SQUARE }, BK_FLOAT32, 3, 1);
    rewrites_done = REWRITE_ALL & ~(uint32_t)REWRITE_ahead;
    numbers wanted = run_after_product(x, w, bias);
    rewrites_done = REWRITE_ALL;
    for (int k = 0; k < 3; k++) {
        const ahead_counts before = ahead_count();
        int different = 0;
        ahead_most_rows = most[k];
        for (int tries = 0; tries < TIMES; tries++) {
            numbers got = run_after_product(x, w, bias);
            different += !same(&got, &wanted);
            numbers_free(&got);
        }
        const int64_t taken = ahead_count().taken - before.taken, halfway = ahead_count().halfway - before.halfway;
        tap_ok(!runs_lazily() || (taken > 0 && halfway == (most[k] < LONG ? taken : 0)),
               k < 2 ? "a flush goes on with a long product from the row where the worker is"
                     : "the worker gets through a long product some rows at a time");
        tap_ok(!different, "and elements have the bits that they have when nothing runs ahead");
    }
    ahead_most_rows = INT64_MAX;
    numbers_free(&wanted);
}

static void check_small_logs(void)
{
    model m = make_model();
    const ahead_counts before = ahead_count();
    ahead_eagerly = false;
    for (int i = 0; i < 6; i++) {
        numbers n = run(&m, 20, NULL);
        numbers_free(&n);
    }
    tap_ok(ahead_count().begun == before.begun, "nothing runs ahead of a short loop");
    ahead_eagerly = true;
    bk_set_num_threads(1);
    for (int i = 0; i < 6; i++) {
        numbers n = run(&m, STEPS, NULL);
        numbers_free(&n);
    }
    tap_ok(ahead_count().begun == before.begun, "nothing runs ahead with one thread");
    bk_set_num_threads(2);
}

/* What departs again and again is let pass more and more often. */
static void check_pauses(void)
{
    model m = make_model();
    arm(&m);
    const ahead_counts before = ahead_count();
    for (int i = 0; i < 100; i++) {
        numbers n = run(&m, STEPS, i % 2 ? has_another_op : NULL);
        numbers_free(&n);
    }
    tap_ok(ahead_count().left - before.left < 20,
           "a program that departs every other time is soon left alone (%d of 100)",
           (int)(ahead_count().left - before.left));
}

/* Where memory lies depends on what else was taken of the pool, and so on what ran ahead. */

static void let_be(void *owner) { (void)owner; }

/* A tensor over memory of the caller's, as if the pool had given it. */
static bk_tensor *tensor_over(float *data, int64_t rows, int64_t columns)
{
    const layout *l = layout_get(2, (int64_t[]){ rows, columns }, (int64_t[]){ columns, 1 });
    storage *s = storage_foreign(data, (size_t)(rows * columns) * sizeof *data, let_be, NULL);
    s->exports = 0;
    return tensor_from_node(node_data(BK_FLOAT32, l, s, (char *)data));
}

/* The gradient of a weight that steps read with tensors of their own, each behind the one before it, or before it. */
static bk_tensor *gradient_over(float *block, int steps, bool backwards)
{
    bk_tensor *w = sample(2, (int64_t[]){ WIDTH, WIDTH }, BK_FLOAT32, 5, 0.1), *sum = NULL;
    bk_set_requires_grad(w, true);
    for (int t = 0; t < steps; t++) {
        float *data = block + (backwards ? steps - 1 - t : t) * ROWS * WIDTH;
        for (int i = 0; i < ROWS * WIDTH; i++)
            data[i] = (float)sin(t * 31 + i * 7);
        bk_tensor *x = tensor_over(data, ROWS, WIDTH);
        bk_tensor *of_step = bk_tanh(bk_matmul(x, w));
        sum = sum ? bk_add(bk_mul_s(sum, 0.5), of_step) : of_step;
    }
    bk_backward(bk_sum(bk_mul(sum, sum), 0, false), NULL, false, false);
    return bk_grad_of(w);
}

static void check_neighbours(void)
{
    enum { TIMES = 50, ELEMENTS = TIMES * ROWS * WIDTH };
    float *block = malloc(ELEMENTS * sizeof *block), *other = malloc(ELEMENTS * sizeof *other);
    bk_scope_push();
    bk_tensor *a = gradient_over(block, TIMES, false), *b = gradient_over(other, TIMES, true);
    tap_ok(!memcmp(bk_data(a), bk_data(b), WIDTH * WIDTH * sizeof(float)),
           "tensors that happen to lie behind each other are added up in the order of others");
    bk_scope_pop();
    bk_sync();
    free(block);
    free(other);
}

static void check_fork(void)
{
    model m = make_model();
    arm(&m);
    numbers expected = run(&m, STEPS, NULL);
    bk_scope_push();
    bk_tensor *all = states(&m, STEPS, NULL); /* a worker is at it */
    fflush(stdout);
    const pid_t child = CAN_FORK ? fork() : -1;
    bk_tensor *loss = bk_mean(bk_square(all), 0, false);
    const float value = (float)bk_item(loss);
    if (child == 0)
        _exit(value == expected.at[0][0] ? 0 : 1);
    int status = 1;
    if (child > 0)
        waitpid(child, &status, 0);
    tap_ok(!CAN_FORK || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "a child that is forked on the way goes on");
    tap_ok(value == expected.at[0][0], "and so does its parent");
    bk_scope_pop();
    numbers_free(&expected);
}

static void check_interrupt(void)
{
    model m = make_model();
    arm(&m);
    numbers expected = run(&m, STEPS, NULL);
    bk_scope_push();
    bk_tensor *loss = bk_mean(bk_square(states(&m, STEPS, NULL)), 0, false);
    bk_interrupt(); /* before the flush, which forgets it: it is for what runs */
    tap_ok((float)bk_item(loss) == expected.at[0][0], "an interrupt while a worker runs ahead is for nobody");
    bk_scope_pop();
    numbers_free(&expected);
}

static void check_faults(void)
{
    model m = make_model();
    arm(&m);
    numbers expected = run(&m, STEPS, NULL);
    const int64_t used = pool_bytes_in_use();
    int faults = 0, silent = 0, wrong = 0;
    for (int64_t n = 1; n < 100000; n += 1 + n / 16) {
        bk_error_clear();
        mem_fail_after(n);
        numbers got = run(&m, STEPS, n % 2 ? NULL : has_another_op);
        const bool met = mem_fail_pending() == 0;
        mem_fail_after(0);
        silent += !got.count[0] && bk_error_code() != BK_MEMORY_ERROR;
        numbers_free(&got);
        bk_error_clear();
        bk_sync();
        got = run(&m, STEPS, NULL);
        wrong += !same(&got, &expected);
        numbers_free(&got);
        if (!met)
            break;
        faults++;
    }
    tap_ok(faults > 3 && !silent && !wrong, "%d allocations fail, and all is said (but %d) and right again (but %d)",
           faults, silent, wrong);
    forget_gradients(&m);
    bk_sync();
    tap_ok(pool_bytes_in_use() <= used, "no memory is lost");
    numbers_free(&expected);
}

/* Where the worker was is in the middle of what a team goes through. */
static void check_one_row(void)
{
    const double usual = team_meeting_ns;
    team_meeting_ns = 1e-3;
    rows = 1;
    check_programs();
    check_random_cells();
    rows = ROWS;
    team_meeting_ns = usual;
}

int main(void)
{
    bk_set_num_threads(2);
    ahead_eagerly = true;
    bk_scope_push();
    check_that_it_pays();
    check_programs();
    check_random_cells();
    check_one_row();
    check_long_products();
    check_small_logs();
    check_pauses();
    check_neighbours();
    check_fork();
    check_interrupt();
    if (runs_lazily()) {
        check_faults();
        ahead_eagerly = false; /* and now wherever the worker happens to be */
        check_programs();
    }
    bk_scope_pop();
    bk_sync();
    return tap_done();
}
