/* test_teams.c: recurrences over few rows, which cores go through together: who computes what must not show.
 *
 * Teams are made where none would pay, of as many members as there are threads; they have more threads than the machine
 * has cores, so that members lose theirs in the midst. Cells are some that people write, and random ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights.h"
#include "brisk.h"
#include "core/scope.h"
#include "graph/log.h"
#include "graph/plan.h"
#include "graph/run.h"
#include "tap.h"

enum { WEIGHTS = 4, RESULTS = WEIGHTS + 2, STATES = 2 };

typedef struct sizes {
    int64_t t, b, h;
} sizes;

typedef struct model {
    sizes n;
    bk_tensor *x, *w[WEIGHTS]; /* x: time, batch, h; w: (h, h), (2h, h), (4h, h), (h) */
    unsigned seed;             /* of a random cell */
} model;

/* The next state in h[0]; h[1] is another. */
typedef void (*cell)(const model *m, const bk_tensor *x, bk_tensor *h[static STATES]);

static bk_tensor *times(const bk_tensor *h, const bk_tensor *w) { return bk_matmul(h, bk_transpose(w, 0, 1)); }
static bk_tensor *part(const bk_tensor *t, int64_t k, int64_t width)
{
    return bk_slice(t, 1, k * width, (k + 1) * width, 1);
}

/* --- cells -------------------------------------------------------------------------------------------------------- */

static void plain(const model *m, const bk_tensor *x, bk_tensor *h[static STATES])
{
    h[0] = bk_tanh(bk_add(bk_add(x, m->w[3]), times(h[0], m->w[0])));
}

static void gated(const model *m, const bk_tensor *x, bk_tensor *h[static STATES])
{
    bk_tensor *both = times(h[0], m->w[1]);
    bk_tensor *z = bk_sigmoid(bk_add(x, part(both, 0, m->n.h)));
    h[0] = bk_add(bk_mul(z, h[0]), bk_mul(bk_add_s(bk_neg(z), 1), bk_relu(part(both, 1, m->n.h))));
}

static void lstm(const model *m, const bk_tensor *x, bk_tensor *h[static STATES])
{
    bk_tensor *all = bk_add(bk_cat((bk_tensor *[]){ (bk_tensor *)x, h[1], (bk_tensor *)x, (bk_tensor *)x }, 4, 1),
                            times(h[0], m->w[2]));
    bk_tensor *i = bk_sigmoid(part(all, 0, m->n.h)), *f = bk_sigmoid(part(all, 1, m->n.h));
    bk_tensor *g = bk_tanh(part(all, 2, m->n.h)), *o = bk_sigmoid(part(all, 3, m->n.h));
    h[1] = bk_add(bk_mul(f, h[1]), bk_mul(i, g));
    h[0] = bk_mul(o, bk_tanh(h[1]));
}

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % below;
}

/* Every step draws the same cell. */
static void drawn(const model *m, const bk_tensor *x, bk_tensor *h[static STATES])
{
    enum { OPS = 9 };
    const int64_t width = m->n.h, half = width / 2;
    bk_tensor *v[3 + OPS] = { (bk_tensor *)x, h[0], h[1] };
    unsigned seed = m->seed;
    for (int i = 0, n = 3; i < OPS; i++, n++) {
        bk_tensor *a = v[draw(&seed, (unsigned)n)], *b = v[draw(&seed, (unsigned)n)];
        switch (draw(&seed, 9)) {
        case 0: v[n] = bk_add(a, b); break;
        case 1: v[n] = bk_mul(bk_tanh(a), b); break;
        case 2: v[n] = bk_sub(bk_sigmoid(a), bk_mul_s(b, 0.5)); break;
        case 3: v[n] = bk_add(bk_matmul(a, m->w[0]), m->w[3]); break;
        case 4: v[n] = bk_add(times(a, m->w[0]), b); break;
        case 5: a = times(bk_tanh(a), m->w[1]), v[n] = bk_mul(part(a, 0, width), bk_sigmoid(part(a, 1, width))); break;
        case 6: a = times(a, m->w[2]), v[n] = bk_add(part(a, 3, width), bk_tanh(part(a, 1, width))); break;
        case 7:
            v[n] = bk_cat((bk_tensor *[]){ bk_slice(a, 1, half, width, 1), bk_slice(b, 1, 0, half, 1) }, 2, 1);
            break;
        default: v[n] = bk_matmul(bk_cat((bk_tensor *[]){ a, b }, 2, 1), m->w[1]); break;
        }
    }
    h[0] = bk_tanh(bk_add(v[2 + OPS], v[1 + OPS]));
    h[1] = bk_tanh(v[draw(&seed, 3 + OPS)]);
}

typedef struct form {
    const char *name;
    cell step;
} form;
static const form forms[] = { { "a recurrence", plain }, { "a gated one", gated }, { "an LSTM", lstm } };
enum { FORMS = sizeof forms / sizeof *forms };

/* --- running them ------------------------------------------------------------------------------------------------- */

static model model_of(sizes n, bk_dtype dtype, unsigned seed)
{
    model m = { .n = n, .seed = seed };
    m.x = sample(3, (int64_t[]){ n.t, n.b, n.h }, dtype, 1, 1);
    static const int rows[] = { 1, 2, 4 };
    for (int k = 0; k < 3; k++)
        m.w[k] = sample(2, (int64_t[]){ rows[k] * n.h, n.h }, dtype, k + 2, 1 / sqrt((double)n.h));
    m.w[3] = sample(1, &n.h, dtype, 9, 0.2);
    for (int k = 0; k < WEIGHTS; k++)
        bk_set_requires_grad(m.w[k], true);
    return m;
}

static plan_report report;

/* The outputs, and the gradients of the weights. */
static void run_loop(cell step, sizes n, bk_dtype dtype, unsigned seed, bk_tensor **results)
{
    bk_scope_push();
    model m = model_of(n, dtype, seed);
    bk_tensor *h[STATES], **steps = malloc((size_t)n.t * sizeof *steps);
    bk_scope_push();
    for (int k = 0; k < STATES; k++)
        h[k] = bk_zeros(2, (int64_t[]){ n.b, n.h }, dtype);
    for (int64_t t = 0; t < n.t; t++) {
        step(&m, bk_select(m.x, 0, t), h);
        steps[t] = h[0];
    }
    bk_tensor *out = scope_return(bk_stack(steps, (int)n.t, 0));
    bk_backward(bk_sum(bk_square(out), 0, false), NULL, false, false);
    report = report_last();
    for (int k = 0; k < WEIGHTS; k++) {
        bk_tensor *grad = bk_grad_of(m.w[k]);
        results[k] = bk_retain(grad ? bk_clone(grad) : bk_zeros(0, NULL, dtype));
    }
    results[WEIGHTS] = bk_retain(bk_clone(bk_detach(out)));
    bk_sync();
    free(steps);
    bk_scope_pop();
}

static bool close_to(bk_tensor *a, bk_tensor *b) { return within(a, b, 1e-11, 1e-3); }

static bool same_bits(bk_tensor *a, bk_tensor *b)
{
    return bk_numel(a) == bk_numel(b) &&
           !memcmp(bk_data(a), bk_data(b), (size_t)bk_numel(a) * bk_dtype_size(bk_dtype_of(a)));
}

typedef bool (*comparison)(bk_tensor *a, bk_tensor *b);

static bool agree(bk_tensor **a, bk_tensor **b, comparison equal)
{
    bool good = true;
    for (int k = 0; k <= WEIGHTS; k++)
        good = equal(a[k], b[k]) && good;
    return good;
}

static void release(bk_tensor **results)
{
    for (int k = 0; k <= WEIGHTS; k++)
        bk_release(results[k]);
}

/* One thread, two, three, five: the same bits each time. */
static bool same_with_any_team(cell step, sizes n, bk_dtype dtype, unsigned seed)
{
    static const int threads[] = { 2, 3, 2, 5, 2 };
    bk_tensor *alone[RESULTS], *team[RESULTS];
    const int before = bk_get_num_threads();
    bk_set_num_threads(1);
    run_loop(step, n, dtype, seed, alone);
    bool same = true;
    for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
        bk_set_num_threads(threads[k]);
        run_loop(step, n, dtype, seed, team);
        same = agree(alone, team, same_bits) && same;
        release(team);
    }
    bk_set_num_threads(before);
    release(alone);
    return same;
}

static bool lazy_is_eager(cell step, sizes n, bk_dtype dtype, unsigned seed)
{
    bk_tensor *lazy[RESULTS], *eager[RESULTS];
    const bool was = log_is_eager;
    run_loop(step, n, dtype, seed, lazy);
    log_is_eager = true;
    run_loop(step, n, dtype, seed, eager);
    log_is_eager = was;
    const bool good = agree(lazy, eager, close_to);
    release(lazy);
    release(eager);
    return good;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static const sizes shapes[] = { { 60, 1, 128 }, { 40, 1, 64 },  { 30, 3, 128 }, { 50, 1, 33 },
                                { 40, 2, 160 }, { 12, 1, 300 }, { 2, 1, 128 },  { 5, 1, 7 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void written_cells(void)
{
    for (int f = 0; f < FORMS; f++) {
        bool same = true, lazy = true;
        for (int s = 0; s < SHAPES; s++)
            for (int d = 0; d < 2; d++) {
                const bk_dtype dtype = d ? BK_FLOAT64 : BK_FLOAT32;
                same = same_with_any_team(forms[f].step, shapes[s], dtype, 0) && same;
                lazy = lazy_is_eager(forms[f].step, shapes[s], dtype, 0) && lazy;
            }
        tap_ok(same, "%s over few rows: the same bits with any number of threads", forms[f].name);
        tap_ok(lazy, "%s over few rows: as eagerly, within rounding", forms[f].name);
    }
}

static void drawn_cells(void)
{
    enum { CELLS = 40 };
    bool same = true, lazy = true;
    for (unsigned seed = 1; seed <= CELLS; seed++) {
        const sizes n = { 6, 1 + seed % 3, seed % 4 ? 128 : 48 };
        same = same_with_any_team(drawn, n, BK_FLOAT64, seed) && same;
        lazy = lazy_is_eager(drawn, n, BK_FLOAT64, seed) && lazy;
    }
    tap_ok(same, "random cells over few rows: the same bits with any number of threads");
    tap_ok(lazy, "random cells over few rows: as eagerly, within rounding");
}

static void fires(void)
{
    for (int f = 0; f < FORMS; f++) {
        bk_tensor *results[RESULTS];
        cache_clear();
        run_loop(forms[f].step, shapes[0], BK_FLOAT32, 0, results);
        release(results);
        tap_ok(log_is_eager || (report.count[FACT_TEAM] >= 2 && !report.count[FACT_REGION]),
               "%s over one row: its steps are stretches for teams, there and back", forms[f].name);
    }
}

/* x W + b, with a bias of one dimension less, added from either side; the product kept or not. */
static bk_tensor *affine(int64_t k, int64_t n, int how)
{
    bk_scope_push();
    bk_tensor *w = sample(2, (int64_t[]){ k, n }, BK_FLOAT32, 1, 1),
              *x = sample(2, (int64_t[]){ 1, k }, BK_FLOAT32, 2, 1);
    bk_tensor *b = sample(how & 1 ? 1 : 2, how & 1 ? &n : (int64_t[]){ 1, n }, BK_FLOAT32, 3, 1);
    bk_tensor *z = bk_matmul(x, w), *y = how & 2 ? bk_add(b, z) : bk_add(z, b);
    bk_tensor *result = bk_retain(how & 4 ? bk_cat((bk_tensor *[]){ y, z }, 2, 1) : bk_mul_s(y, 1));
    bk_scope_pop(); /* nobody holds the product */
    bk_sync();
    return result;
}

static void begins_with_a_bias(void)
{
    bool same = true;
    for (int how = 0; how < 8; how++)
        for (int64_t k = 1; k < 400; k = k * 3 + 5)
            for (int64_t n = 2; n < 200; n = n * 3 + 1) {
                const bool was = log_is_eager;
                bk_tensor *lazy = affine(k, n, how);
                log_is_eager = true;
                bk_tensor *eager = affine(k, n, how);
                log_is_eager = was;
                same = same_bits(lazy, eager) && same;
                bk_release(lazy);
                bk_release(eager);
            }
    tap_ok(same, "a vector times a matrix and a bias: the bits of a product and a sum");
}

/* Without gradients h + h W may be written over h, of which a product needs every element until its last column. */
static bk_tensor *over_itself(bool later, int threads)
{
    enum { T = 80, H = 160 };
    const int before = bk_get_num_threads();
    bk_set_num_threads(threads);
    bk_scope_push();
    bk_tensor *w = sample(2, (int64_t[]){ H, H }, BK_FLOAT32, 1, 0.02);
    bk_tensor *h = bk_retain(bk_mul_s(sample(2, (int64_t[]){ 1, H }, BK_FLOAT32, 2, 1), 1));
    for (int t = 0; t < T; t++) { /* nobody holds a state that has been */
        bk_scope_push();
        bk_tensor *z = times(h, w);
        bk_tensor *next = bk_retain(later ? bk_add(bk_tanh(z), bk_mul_s(h, 0.9)) : bk_add(h, z));
        bk_scope_pop();
        bk_release(h);
        h = next;
    }
    bk_sync();
    bk_scope_pop();
    bk_set_num_threads(before);
    return h;
}

static void writes_over_a_factor(void)
{
    for (int later = 0; later < 2; later++) {
        const bool was = log_is_eager;
        log_is_eager = true;
        bk_tensor *eager = over_itself(later, 1);
        log_is_eager = was;
        bool good = true;
        for (int round = 0; round < 20; round++) {
            bk_tensor *lazy = over_itself(later, 1 + round % 3);
            good = close_to(lazy, eager) && good;
            bk_release(lazy);
        }
        bk_release(eager);
        tap_ok(good, "a state that is written over while it is a factor%s",
               later ? ", by what follows its product" : "");
    }
}

/* A copy to another dtype between products of few rows: it is no copy of bytes. */
static bk_tensor *cast_between(void)
{
    enum { T = 6, H = 40 };
    bk_scope_push();
    bk_tensor *w = sample(3, (int64_t[]){ T, H, H }, BK_FLOAT32, 1, 0.2), *parts[T];
    bk_tensor *x = sample(3, (int64_t[]){ T, 1, H }, BK_FLOAT16, 2, 1);
    for (int64_t t = 0; t < T; t++)
        parts[t] = bk_matmul(bk_to(bk_select(x, 0, t), BK_FLOAT32), bk_select(w, 0, t));
    bk_tensor *result = bk_retain(bk_cat(parts, T, 0));
    bk_scope_pop();
    bk_sync();
    return result;
}

static void casts(void)
{
    const bool was = log_is_eager;
    bk_tensor *lazy = cast_between();
    log_is_eager = true;
    bk_tensor *eager = cast_between();
    log_is_eager = was;
    tap_ok(close_to(lazy, eager), "a stretch of few rows with casts in it");
    bk_release(lazy);
    bk_release(eager);
}

/* Long enough for the others to wake up. */
static void comes_together(void)
{
    bk_tensor *results[RESULTS];
    const int64_t before = run_count().teams;
    const int threads = bk_get_num_threads();
    bk_set_num_threads(2);
    for (int round = 0; round < 200 && run_count().teams == before && !log_is_eager; round++) {
        run_loop(lstm, (sizes){ 100, 1, 128 }, BK_FLOAT32, 0, results);
        release(results);
    }
    bk_set_num_threads(threads);
    tap_ok(log_is_eager || run_count().teams > before, "several cores do go through a stretch together");
}

int main(void)
{
    fires();
    begins_with_a_bias();
    const double usual = team_meeting_ns;
    team_meeting_ns = 1e-3;
    comes_together();
    written_cells();
    drawn_cells();
    writes_over_a_factor();
    casts();
    team_meeting_ns = usual;
    return tap_done();
}
