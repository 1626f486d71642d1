/* recurrent.c: RNN, LSTM and GRU: one step, and a layer over a sequence.
 *
 * A layer's input is packed: the rows of step 0, then those of step 1, and so on, each step having as many rows as
 * sequences last that long (never more than the step before). A plain batch is the case of equal steps. The product
 * with the input is one for the whole sequence; the steps add the product with the state. */
#include "autograd/composed.h"
#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "graph/repeat.h"
#include "ops/join.h"
#include "ops/products.h"

static bk_tensor *rows(const bk_tensor *t, int64_t from, int64_t to)
{
    return t && (from || to != t->layout->sizes[0]) ? bk_slice(t, 0, from, to, 1) : (bk_tensor *)t;
}

/* Columns [i size, (i + 1) size) of rows [from, to), in one view: a view of a view has one place more on the tape. Of a
 * vector there are no rows. */
static bk_tensor *gate_of_rows(const bk_tensor *gates, int64_t from, int64_t to, int i, int64_t size)
{
    if (!gates || gates->layout->ndim != 2)
        return gates ? bk_slice(gates, -1, i * size, (i + 1) * size, 1) : NULL;
    const int64_t *strides = gates->layout->strides;
    lock_take();
    const layout *l = layout_get(2, (int64_t[]){ to - from, size }, strides);
    bk_tensor *v = l ? tensor_view_of(gates, l, gates->offset + from * strides[0] + i * size * strides[1]) : NULL;
    lock_give();
    return made_by(v, VIEW_slice);
}

static bk_tensor *gate(const bk_tensor *gates, int i, int64_t size)
{
    return gates ? gate_of_rows(gates, 0, gates->layout->sizes[0], i, size) : NULL;
}

/* A linear layer. A weight without a bias is read transposed as it is, without a view for each step. */
static bk_tensor *linear(const bk_tensor *h, const bk_tensor *weight, const bk_tensor *bias)
{
    if (!h)
        return NULL;
    bk_dtype d = tensor_dtype(h);
    const layout *l = weight->layout;
    bool plain = !bias && (d == BK_FLOAT32 || d == BK_FLOAT64) && tensor_dtype(weight) == d && h->layout->ndim == 2 &&
                 l->ndim == 2 && h->layout->sizes[1] == l->sizes[1];
    return plain ? product_turned(h, weight, TURNED_B) : bk_linear(h, weight, bias);
}

/* The state after a step, from the input's share of the gates, rows [from, to) of it, and the state's. */
static bk_tensor *advance(bk_rnn_kind kind, const bk_tensor *of_input, int64_t from, int64_t to,
                          const bk_tensor *of_state, const bk_tensor *h, bk_tensor **c, const bk_rnn_weights *w)
{
    int64_t size = w->hidden->layout->sizes[0];
    if (kind == BK_GRU) {
        size /= 3;
        bk_tensor *r = bk_sigmoid(bk_add(gate_of_rows(of_input, from, to, 0, size), gate(of_state, 0, size)));
        bk_tensor *z = bk_sigmoid(bk_add(gate_of_rows(of_input, from, to, 1, size), gate(of_state, 1, size)));
        bk_tensor *n = bk_tanh(bk_add_scaled(gate_of_rows(of_input, from, to, 2, size), r, gate(of_state, 2, size)));
        return bk_add_scaled(n, bk_sub(h, n), z);
    }
    bk_tensor *gates = bk_add(rows(of_input, from, to), of_state);
    if (kind != BK_LSTM)
        return kind == BK_RNN_TANH ? bk_tanh(gates) : bk_relu(gates);
    size /= 4;
    bk_tensor *i = bk_sigmoid(gate(gates, 0, size)), *f = bk_sigmoid(gate(gates, 1, size));
    bk_tensor *g = bk_tanh(gate(gates, 2, size)), *o = bk_sigmoid(gate(gates, 3, size));
    *c = bk_add_scaled(bk_mul(i, g), f, *c);
    bk_tensor *next = bk_mul(o, bk_tanh(*c));
    return w->projection ? linear(next, w->projection, NULL) : next;
}

/* PyTorch's functions of a step, for who looks at the tape. */
static void name_step(bk_rnn_kind kind, bk_tensor *h, bk_tensor *c, const bk_tensor *const of[7], uint64_t start)
{
    static const char *const names[][2] = { [BK_RNN_TANH] = { "_rnn_cell_unbiased", "_rnn_cell" },
                                            [BK_RNN_RELU] = { "_rnn_cell_unbiased", "_rnn_cell" },
                                            [BK_LSTM] = { "_lstm_cell_c_unbiased", "_lstm_cell_c" },
                                            [BK_GRU] = { "_gru_cell_unbiased", "_gru_cell" } };
    static int rows[sizeof names / sizeof *names][2], row_of_h;
    const bool lstm = kind == BK_LSTM, biased = of[2] && of[5];
    if (!biased && (of[2] || of[5]))
        return;
    const bk_tensor *unbiased[] = { of[0], of[1], of[3], of[4], of[6] };
    composed_as(lstm ? c : h, names[kind][biased], &rows[kind][biased], start, biased ? of : unbiased,
                (biased ? 6 : 4) + lstm);
    if (lstm)
        composed_as(h, "_lstm_cell_h", &row_of_h, start, NULL, 0);
}

bk_tensor *bk_rnn_step(bk_rnn_kind kind, const bk_tensor *x, const bk_tensor *h, const bk_tensor *c,
                       const bk_rnn_weights *w, bk_tensor **c_out)
{
    if (!x || !h || (kind == BK_LSTM && !c))
        return NULL;
    bk_scope_push();
    uint64_t start = next_sequence;
    bk_tensor *cell = (bk_tensor *)c, *of_state = kind == BK_GRU ? NULL : linear(h, w->hidden, w->hidden_bias);
    bk_tensor *of_input = bk_linear(x, w->input, w->input_bias); /* after the other share, as in PyTorch */
    of_state = kind == BK_GRU ? linear(h, w->hidden, w->hidden_bias) : of_state;
    bk_tensor *next = of_input ? advance(kind, of_input, 0, of_input->layout->sizes[0], of_state, h, &cell, w) : NULL;
    if (next && grad_enabled() && !w->projection)
        name_step(kind, next, cell,
                  (const bk_tensor *[]){ x, w->input, w->input_bias, h, w->hidden, w->hidden_bias, c }, start);
    if (kind == BK_LSTM && c_out)
        *c_out = next ? bk_scope_keep(cell) : NULL;
    return scope_return(next);
}

/* The states of a layer in the course of a sequence. Those of sequences that have ended wait in `ended`. */
typedef struct course {
    bk_tensor *now, *first; /* first: those at the start, which a sequence read backwards joins late */
    bk_tensor **ended;
    int ended_count;
} course;

/* The state has `count` rows from here on. */
static void set_rows(course *s, int64_t count)
{
    if (!s->now)
        return;
    int64_t have = s->now->layout->sizes[0];
    if (count < have) {
        s->ended[s->ended_count++] = rows(s->now, count, have);
        s->now = rows(s->now, 0, count);
    } else if (count > have) {
        s->now = bk_cat((bk_tensor *[]){ s->now, rows(s->first, have, count) }, 2, 0);
    }
}

/* All states at their ends, in the order of the sequences. */
static bk_tensor *last_states(course *s)
{
    if (!s->ended_count || !s->now)
        return s->now;
    s->ended[s->ended_count++] = s->now;
    for (int i = 0, j = s->ended_count - 1; i < j; i++, j--) {
        bk_tensor *t = s->ended[i];
        s->ended[i] = s->ended[j];
        s->ended[j] = t;
    }
    return bk_cat(s->ended, s->ended_count, 0);
}

/* Steps that were recorded one after the other, as many records each. */
typedef struct run {
    int count, first, length; /* first: the first record of the last of them */
    uint32_t epoch;           /* of the log that they are in */
} run;

static void end_step(run *r, int first, uint32_t epoch)
{
    const bool whole = epoch == the_log.epoch; /* else the log was evaluated on the way */
    const int length = whole ? the_log.count - first : 0;
    const bool alike = r->epoch == epoch && r->length == length;
    *r = (run){ .count = whole ? alike ? r->count + 1 : 1 : 0, .first = first, .length = length, .epoch = epoch };
}

/* Whether t is what the last step has made. */
static bool is_made(const run *r, const bk_tensor *t)
{
    const node *n = t->cell->value;
    return tensor_whole(t) && n->flags & NODE_PENDING && n->slot >= r->first;
}

/* A state `times` steps later. */
static bk_tensor *later(const bk_tensor *t, const run *r, int times)
{
    return t ? tensor_from_node(node_retain(log_repeated(t->cell->value, r->length, times))) : NULL;
}

/* Goes on with up to `times` more steps. How many it were; -1: out of memory. */
static int repeat_steps(const run *r, int times, course *h, course *c, bk_tensor *outputs)
{
    enum { STEPS = 3 }; /* two to compare, and one that the first of them reads */
    if (r->count != STEPS || !is_made(r, h->now) || (c->now && !is_made(r, c->now)) || !is_made(r, outputs))
        return 0;
    lock_take();
    const int done = log_repeat(r->length, times);
    int status = done;
    if (done > 0) {
        node *written = node_retain(log_repeated(outputs->cell->value, r->length, done));
        status = tensor_move(outputs, written) < 0 ? -1 : done;
        c->now = later(c->now, r, done);
        h->now = later(h->now, r, done);
    }
    lock_give();
    return h->now ? status : -1;
}

/* How many steps follow step t that have as many rows. */
static int steps_alike(const int64_t *batch_sizes, int steps, int t, bool reverse)
{
    int last = t;
    while (last >= 0 && last < steps && batch_sizes[last] == batch_sizes[t])
        last += reverse ? -1 : 1;
    return (last > t ? last - t : t - last) - 1;
}

typedef struct sequence {
    const bk_tensor *of_input;
    const int64_t *batch_sizes;
    int steps;
    bool reverse;
    bk_tensor *outputs; /* rows as in of_input; NULL before the first step */
} sequence;

/* The rows of step t, which begin at `from`. -1: out of memory. */
static int run_step(bk_rnn_kind kind, sequence *s, int t, int64_t from, course *h, course *c, const bk_rnn_weights *w)
{
    const int64_t count = s->batch_sizes[t], total = s->of_input->layout->sizes[0];
    set_rows(h, count);
    set_rows(c, count);
    bk_tensor *of_state = linear(h->now, w->hidden, w->hidden_bias);
    h->now = of_state ? advance(kind, s->of_input, from, from + count, of_state, h->now, &c->now, w) : NULL;
    if (!h->now)
        return -1;
    const int64_t *sizes = h->now->layout->sizes;
    if (!s->outputs)
        s->outputs = join_begin(tensor_dtype(h->now), layout_get(2, (int64_t[]){ total, sizes[1] }, NULL));
    return s->outputs ? join_part(s->outputs, 0, from, h->now, sizes) : -1;
}

/* Steps that are like those before are recorded all at once. */
static bk_tensor *run_steps(bk_rnn_kind kind, sequence *s, course *h, course *c, const bk_rnn_weights *w)
{
    int64_t row = s->reverse ? s->of_input->layout->sizes[0] : 0;
    run r = { 0 };
    for (int k = 0; k < s->steps; k++) {
        const int t = s->reverse ? s->steps - 1 - k : k, begun = the_log.count;
        const int64_t count = s->batch_sizes[t];
        const uint32_t epoch = the_log.epoch;
        row -= s->reverse ? count : 0;
        if (run_step(kind, s, t, row, h, c, w) < 0)
            return NULL;
        row += s->reverse ? 0 : count;
        end_step(&r, begun, epoch);
        const int done = repeat_steps(&r, steps_alike(s->batch_sizes, s->steps, t, s->reverse), h, c, s->outputs);
        if (done < 0)
            return NULL;
        row += s->reverse ? -count * done : count * done;
        k += done;
    }
    tensor_written_by(s->outputs, WRITE_cat);
    return tensor_finished(s->outputs);
}

/* Both biases in one, where the gates are nothing but the sum of both shares: then no step has a bias to add, and none
 * a gradient of it. False: out of memory. */
static bool join_biases(bk_rnn_kind kind, bk_rnn_weights *w)
{
    if (kind == BK_GRU || !w->input_bias || !w->hidden_bias || dtype_size(tensor_dtype(w->input_bias)) < 4)
        return true;
    w->input_bias = bk_add(w->input_bias, w->hidden_bias);
    w->hidden_bias = NULL;
    return w->input_bias != NULL;
}

/* A course that starts with the first `count` rows of t. */
static course start(const bk_tensor *t, int64_t count, bk_tensor **ended)
{
    return (course){ .now = t ? rows(t, 0, count) : NULL, .first = (bk_tensor *)t, .ended = ended };
}

bk_tensor *bk_rnn_layer(bk_rnn_kind kind, const bk_tensor *x, const int64_t *batch_sizes, int steps,
                        const bk_tensor *h0, const bk_tensor *c0, const bk_rnn_weights *w, bool reverse,
                        bk_tensor **h_n, bk_tensor **c_n)
{
    if (!x || !h0 || (kind == BK_LSTM && !c0))
        return NULL;
    if (steps < 1)
        return error_null(BK_RUNTIME_ERROR, "Expected sequence length to be larger than 0 in RNN");
    bk_tensor **work = mem_alloc(sizeof *work * 2 * ((size_t)steps + 1));
    if (!work)
        return NULL;
    bk_scope_push();
    int64_t first = batch_sizes[reverse ? steps - 1 : 0];
    course h = start(h0, first, work), c = start(kind == BK_LSTM ? c0 : NULL, first, work + steps + 1);
    bk_rnn_weights own = *w;
    sequence s = { .batch_sizes = batch_sizes, .steps = steps, .reverse = reverse };
    s.of_input = join_biases(kind, &own) ? bk_linear(x, own.input, own.input_bias) : NULL;
    bk_tensor *out = s.of_input ? run_steps(kind, &s, &h, &c, &own) : NULL;
    bk_tensor *last_h = out ? last_states(&h) : NULL, *last_c = out && kind == BK_LSTM ? last_states(&c) : NULL;
    /* Of their own: the output holds the same rows. */
    bk_tensor *own_h = last_h ? bk_clone(last_h) : NULL, *own_c = last_c ? bk_clone(last_c) : NULL;
    bool good = own_h && (kind != BK_LSTM || own_c);
    *h_n = good ? bk_scope_keep(own_h) : NULL;
    if (kind == BK_LSTM)
        *c_n = good ? bk_scope_keep(own_c) : NULL;
    mem_free(work);
    return scope_return(good ? out : NULL);
}
