/* gates.c: the limits for LSTM and GRU, and how near brisk's layers and loops over cells come to them.
 *
 * The limit is the best plan that we know, forward and backward, as a straight program without a planner: the input's
 * product for all steps at once, each core taking its rows through all steps without waiting, weights packed once, the
 * cell a loop by hand over values that the product has just written, the gradients of the weights one product each over
 * all steps. It runs on the library's own products, so the distance to it is what recording, planning and running a
 * plan cost. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cells.h"
#include "cpu/isa.h"
#include "limit.h"

typedef struct kind {
    const char *name;
    bk_rnn_kind layer;
    int gates;
} kind;

static const kind kinds[] = { { "LSTM", BK_LSTM, 4 }, { "GRU", BK_GRU, 3 } };

/* Rows of all steps follow each other: row t * b + r is row r of step t. */
typedef struct recurrence {
    kind kind;
    sizes n;
    const cell_loops *loops;
    float *x, *wx, *wh, *bx, *bh, *bias; /* bias: what the sums of all steps begin with */
    float *gates, *more;                 /* values; an LSTM's cells and their tanh, or a GRU's candidates */
    float *cells, *outputs;              /* after a step before the first */
    float *sums, *own;                   /* gradients of the gates' sums; own: of those that a GRU's state makes */
    float *product, *carry;              /* of a step: the state's sums or the gradient of the state; of the cells */
    float *dwx, *dwh, *dbx, *dbh, *ones;
    float *packed_wx, *packed_wh, *packed_wh_turned;
} recurrence;

static const cell_loops *loops_here(void)
{
    switch (isa_current()) {
#ifdef HAVE_AVX512
    case ISA_AVX512: return &cells_avx512;
#endif
#ifdef HAVE_AVX2
    case ISA_AVX2: return &cells_avx2;
#endif
    default: return &cells_baseline;
    }
}

static recurrence recurrence_new(kind kind, sizes n)
{
    const int64_t rows = n.t * n.b, width = kind.gates * n.h;
    recurrence r = { .kind = kind, .n = n, .loops = loops_here() };
    r.x = numbers(rows * n.i, 1, 1);
    r.wx = numbers(width * n.i, 2, 0.05);
    r.wh = numbers(width * n.h, 3, 0.05);
    r.bx = numbers(width, 4, 0.05);
    r.bh = numbers(width, 5, 0.05);
    r.bias = numbers(width, 0, 0);
    for (int64_t k = 0; k < width; k++)
        r.bias[k] = r.bx[k] + (kind.layer == BK_LSTM ? r.bh[k] : 0);
    r.gates = numbers(rows * width, 0, 0);
    r.more = numbers(rows * n.h, 0, 0);
    r.cells = numbers((rows + n.b) * n.h, 0, 0);
    r.outputs = numbers((rows + n.b) * n.h, 0, 0);
    r.sums = numbers(rows * width, 0, 0);
    r.own = numbers(rows * width, 0, 0);
    r.product = numbers(n.b * width, 0, 0);
    r.carry = numbers(n.b * n.h, 0, 0);
    r.dwx = numbers(width * n.i, 0, 0);
    r.dwh = numbers(width * n.h, 0, 0);
    r.dbx = numbers(width, 0, 0);
    r.dbh = numbers(width, 0, 0);
    r.ones = numbers(rows, 0, 0);
    for (int64_t k = 0; k < rows; k++)
        r.ones[k] = 1;
    r.packed_wx = packed_room(n.i, width);
    r.packed_wh = packed_room(n.h, width);
    r.packed_wh_turned = packed_room(width, n.h);
    return r;
}

/* --- the limit ---------------------------------------------------------------------------------------------------- */

static void forward_rows(void *arg, int64_t begin, int64_t end)
{
    const recurrence *r = arg;
    const sizes n = r->n;
    const int64_t width = r->kind.gates * n.h, rows = end - begin;
    for (int64_t t = 0; t < n.t; t++) {
        const int64_t row = t * n.b + begin;
        const float *before = r->outputs + row * n.h;
        float *gates = r->gates + row * width, *own = r->product + begin * width;
        if (r->kind.layer == BK_LSTM)
            times_packed(rows, width, n.h, before, r->packed_wh, gates, true, NULL, 0);
        else
            times_packed(rows, width, n.h, before, r->packed_wh, own, false, r->bh, 0);
        for (int64_t k = 0; k < rows; k++) {
            const int64_t at = (row + k) * n.h, next = at + n.b * n.h;
            if (r->kind.layer == BK_LSTM)
                r->loops->lstm(n.h, &(lstm_cell){ gates + k * width, n.h, r->cells + at, r->cells + next, r->more + at,
                                                  r->outputs + next });
            else
                r->loops->gru(n.h, &(gru_cell){ gates + k * width, own + k * width, r->outputs + at, r->more + at,
                                                r->outputs + next });
        }
    }
}

static void backward_rows(void *arg, int64_t begin, int64_t end)
{
    const recurrence *r = arg;
    const sizes n = r->n;
    const int64_t width = r->kind.gates * n.h, rows = end - begin;
    const float scale = 2.f / (float)(n.t * n.b * n.h);
    const bool lstm = r->kind.layer == BK_LSTM;
    float *dh = r->product + begin * width, *carry = r->carry + begin * n.h; /* a GRU's: what passes its product */
    memset(dh, 0, (size_t)(rows * n.h) * sizeof *dh);
    memset(carry, 0, (size_t)(rows * n.h) * sizeof *carry);
    for (int64_t t = n.t - 1; t >= 0; t--) {
        const int64_t row = t * n.b + begin;
        const float *later = (lstm ? r->sums : r->own) + (row + n.b) * width;
        if (t + 1 < n.t)
            times_packed(rows, n.h, width, later, r->packed_wh_turned, dh, false, lstm ? NULL : carry, n.h);
        for (int64_t k = 0; k < rows; k++) {
            const int64_t at = (row + k) * n.h, next = at + n.b * n.h, gates = (row + k) * width;
            if (lstm)
                r->loops->lstm_back(n.h,
                                    &(lstm_slope){ r->gates + gates, r->cells + at, r->more + at, r->outputs + next,
                                                   dh + k * n.h, scale, carry + k * n.h, r->sums + gates });
            else
                r->loops->gru_back(n.h, &(gru_slope){ r->gates + gates, r->more + at, r->outputs + at,
                                                      r->outputs + next, dh + k * n.h, scale, r->sums + gates,
                                                      r->own + gates, carry + k * n.h });
        }
    }
}

static double run_limit(recurrence *r)
{
    const sizes n = r->n;
    const int64_t rows = n.t * n.b, width = r->kind.gates * n.h;
    const double work = (double)(rows * width) * (double)n.h;
    const float *own = r->kind.layer == BK_LSTM ? r->sums : r->own;
    gemm_pack(BK_FLOAT32, n.i, width, r->wx, 1, n.i, r->packed_wx);
    gemm_pack(BK_FLOAT32, n.h, width, r->wh, 1, n.h, r->packed_wh);
    gemm_pack(BK_FLOAT32, width, n.h, r->wh, n.h, 1, r->packed_wh_turned);
    times_packed(rows, width, n.i, r->x, r->packed_wx, r->gates, false, r->bias, 0);
    over_rows(n, work, forward_rows, r);
    const double loss = mean_square(r->outputs + n.b * n.h, rows, n.h);
    over_rows(n, work, backward_rows, r);
    rows_product(rows, width, n.i, r->sums, r->x, r->dwx, false);
    rows_product(rows, width, n.h, own, r->outputs, r->dwh, false);
    rows_product(rows, 1, width, r->ones, r->sums, r->dbx, false);
    if (own != r->sums)
        rows_product(rows, 1, width, r->ones, own, r->dbh, false);
    return loss;
}

/* --- the limit without gradients, of one row ---------------------------------------------------------------------- */

enum { MOST_MEMBERS = 8 };

typedef struct together {
    const recurrence *r;
    int members;
    struct {
        _Alignas(64) atomic_llong met; /* steps that a member is through with */
    } of[MOST_MEMBERS];
} together;

/* A member's columns of every step: as many of each gate, and all of their cells. */
static void forward_columns(void *arg, int64_t who, int64_t end)
{
    together *team = arg;
    const recurrence *r = team->r;
    const int64_t h = r->n.h, width = r->kind.gates * h, first = h * who / team->members,
                  last = h * (who + 1) / team->members;
    (void)end;
    for (int64_t t = 0; t < r->n.t; t++) {
        float *gates = r->gates + t * width;
        const gemm_task task = { .dtype = BK_FLOAT32,
                                 .m = 1,
                                 .n = width,
                                 .k = h,
                                 .a = r->outputs + t * h,
                                 .a_row = h,
                                 .a_col = 1,
                                 .packed_b = r->packed_wh,
                                 .c = gates,
                                 .c_row = width,
                                 .c_col = 1,
                                 .accumulate = true,
                                 .back = t % 2 != 0 };
        gemm_run_columns(&task, first, last, h);
        r->loops->lstm(last - first, &(lstm_cell){ gates + first, h, r->cells + t * h + first,
                                                   r->cells + (t + 1) * h + first, r->more + t * h + first,
                                                   r->outputs + (t + 1) * h + first });
        atomic_store_explicit(&team->of[who].met, t + 1, memory_order_release);
        for (int i = 0; i < team->members; i++)
            while (atomic_load_explicit(&team->of[i].met, memory_order_acquire) <= t)
                ;
    }
}

static void run_forward_limit(recurrence *r)
{
    const int64_t width = r->kind.gates * r->n.h;
    together team = { .r = r, .members = bk_get_num_threads() < MOST_MEMBERS ? bk_get_num_threads() : MOST_MEMBERS };
    times_packed(r->n.t, width, r->n.i, r->x, r->packed_wx, r->gates, false, r->bias, 0);
    threads_for(team.members, 1, 1e9, forward_columns, &team);
}

/* --- brisk -------------------------------------------------------------------------------------------------------- */

typedef struct model {
    bk_rnn_kind kind;
    sizes n;
    int64_t *counts;
    bk_tensor *x, *h0, *parts[4]; /* parts: the weights and biases */
} model;

static bk_tensor *weight(const float *data, int ndim, const int64_t *shape)
{
    bk_tensor *w = bk_from_data(data, ndim, shape, BK_FLOAT32);
    bk_set_requires_grad(w, true);
    return w;
}

static void differentiate(const model *m, bk_tensor *outputs)
{
    for (int k = 0; k < 4; k++)
        bk_set_grad(m->parts[k], NULL);
    bk_backward(bk_mean(bk_square(outputs), 0, false), NULL, false, false);
}

static void run_layer(const model *m)
{
    const bk_rnn_weights w = { m->parts[0], m->parts[1], m->parts[2], m->parts[3], NULL };
    bk_tensor *h = NULL, *c = NULL;
    bk_scope_push();
    differentiate(m, bk_rnn_layer(m->kind, m->x, m->counts, (int)m->n.t, m->h0, m->h0, &w, false, &h, &c));
    bk_scope_pop();
}

static void run_cells(const model *m)
{
    const bk_rnn_weights w = { m->parts[0], m->parts[1], m->parts[2], m->parts[3], NULL };
    const int64_t b = m->n.b;
    bk_scope_push();
    bk_tensor *h = m->h0, *c = m->h0, **steps = malloc((size_t)m->n.t * sizeof *steps);
    for (int64_t t = 0; t < m->n.t; t++)
        steps[t] = h = bk_rnn_step(m->kind, bk_slice(m->x, 0, t * b, (t + 1) * b, 1), h, c, &w, &c);
    differentiate(m, bk_cat(steps, (int)m->n.t, 0));
    free(steps);
    bk_scope_pop();
}

/* --- comparing them ----------------------------------------------------------------------------------------------- */

static model model_over(const recurrence *r)
{
    const sizes n = r->n;
    const int64_t width = r->kind.gates * n.h;
    model m = { .kind = r->kind.layer, .n = n, .counts = malloc((size_t)n.t * sizeof *m.counts) };
    for (int64_t t = 0; t < n.t; t++)
        m.counts[t] = n.b;
    m.x = bk_from_data(r->x, 2, (int64_t[]){ n.t * n.b, n.i }, BK_FLOAT32);
    m.h0 = bk_zeros(2, (int64_t[]){ n.b, n.h }, BK_FLOAT32);
    m.parts[0] = weight(r->wx, 2, (int64_t[]){ width, n.i });
    m.parts[1] = weight(r->wh, 2, (int64_t[]){ width, n.h });
    m.parts[2] = weight(r->bx, 1, &width);
    m.parts[3] = weight(r->bh, 1, &width);
    return m;
}

static void compare(kind kind, sizes n)
{
    recurrence r = recurrence_new(kind, n);
    const int64_t width = kind.gates * n.h;
    bk_scope_push();
    model m = model_over(&r);
    double limit[ROUNDS], layer[ROUNDS], cells[ROUNDS];
    const double begun = now_ms();
    for (int cold = 0; is_cold(cold, begun); cold++) {
        run_cells(&m);
        run_layer(&m);
    }
    run_limit(&r);
    for (int at = 0; at < ROUNDS; at++) { /* side by side, so that a slow moment meets all */
        const double start = now_ms();
        run_limit(&r);
        limit[at] = now_ms() - start;
        const double second = now_ms();
        run_cells(&m);
        cells[at] = now_ms() - second;
        const double third = now_ms();
        run_layer(&m);
        layer[at] = now_ms() - third;
    }
    const double apart = fmax(largest_difference(r.dwh, bk_data(bk_grad_of(m.parts[1])), width * n.h),
                              largest_difference(r.dbx, bk_data(bk_grad_of(m.parts[2])), width));
    const double best = lower_quartile(limit), of_layer = lower_quartile(layer), of_cells = lower_quartile(cells);
    printf("%-4s %5lld,%3lld,%3lld,%3lld  limit %8.3f ms   layer %8.3f ms, %4.2f times the limit   "
           "cells %8.3f ms, %4.2f times   gradients apart by %.0e\n",
           kind.name, (long long)n.t, (long long)n.b, (long long)n.i, (long long)n.h, best, of_layer, of_layer / best,
           of_cells, of_cells / best, apart);
    bk_scope_pop();
    free(m.counts); /* the limit's memory goes with the program */
}

/* An LSTM of one row without gradients; apart: how far its last state is from the limit's. */
static void compare_forward(sizes n)
{
    recurrence r = recurrence_new(kinds[0], n);
    const int64_t width = r.kind.gates * n.h;
    bk_scope_push();
    model m = model_over(&r);
    gemm_pack(BK_FLOAT32, n.i, width, r.wx, 1, n.i, r.packed_wx);
    gemm_pack(BK_FLOAT32, n.h, width, r.wh, 1, n.h, r.packed_wh);
    double limit[ROUNDS], layer[ROUNDS], apart = 0;
    const double begun = now_ms();
    const bool was = bk_set_grad_enabled(false);
    const bk_rnn_weights w = { m.parts[0], m.parts[1], m.parts[2], m.parts[3], NULL };
    for (int at = 0, cold = 0; at < ROUNDS; cold++) {
        const bool counts = !is_cold(cold, begun);
        double start = now_ms();
        run_forward_limit(&r);
        limit[at] = now_ms() - start;
        bk_scope_push();
        bk_tensor *h = NULL, *c = NULL;
        start = now_ms();
        bk_rnn_layer(m.kind, m.x, m.counts, (int)n.t, m.h0, m.h0, &w, false, &h, &c);
        bk_sync();
        layer[at] = now_ms() - start;
        apart = largest_difference(r.outputs + n.t * n.h, bk_data(h), n.h);
        bk_scope_pop();
        at += counts;
    }
    bk_set_grad_enabled(was);
    const double best = lower_quartile(limit), of_layer = lower_quartile(layer);
    printf("LSTM %5lld,%3lld,%3lld,%3lld  limit %8.3f ms   layer %8.3f ms, %4.2f times the limit   without gradients   "
           "states apart by %.0e\n",
           (long long)n.t, (long long)n.b, (long long)n.i, (long long)n.h, best, of_layer, of_layer / best, apart);
    bk_scope_pop();
    free(m.counts);
}

int main(int count, char **arguments)
{
    static const sizes cases[] = { { 100, 32, 128, 128 }, { 50, 64, 512, 512 }, { 200, 1, 128, 128 } };
    const bool asked = count == 5;
    sizes one = { 0 };
    if (asked)
        one = (sizes){ atoll(arguments[1]), atoll(arguments[2]), atoll(arguments[3]), atoll(arguments[4]) };
    printf("layers with gates, and loops over their cells, forward and backward; T, B, I, H:\n");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t c = 0; c < (asked ? 1 : sizeof cases / sizeof *cases); c++)
            compare(kinds[k], asked ? one : cases[c]);
    if (!asked)
        compare_forward(cases[2]);
    return 0;
}
