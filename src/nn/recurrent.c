/* recurrent.c: RNN, LSTM and GRU: one step, and a layer over a sequence.
 *
 * A layer's input is packed: the rows of step 0, then those of step 1, and so on, each step having as many rows as
 * sequences last that long (never more than the step before). A plain batch is the case of equal steps. The product
 * with the input is one for the whole sequence; the steps add the product with the state. */
#include "core/error.h"
#include "core/memory.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "ops/products.h"

/* Columns [i size, (i + 1) size) of the last dimension. */
static bk_tensor *gate(const bk_tensor *gates, int i, int64_t size)
{
    return gates ? bk_slice(gates, gates->layout->ndim - 1, i * size, (i + 1) * size, 1) : NULL;
}

/* The state's share of the gates. A weight without a bias is read transposed as it is, without a view for each step. */
static bk_tensor *state_share(const bk_tensor *h, const bk_rnn_weights *w)
{
    bk_dtype d = tensor_dtype(h);
    const layout *l = w->hidden->layout;
    bool plain = !w->hidden_bias && (d == BK_FLOAT32 || d == BK_FLOAT64) && tensor_dtype(w->hidden) == d &&
                 h->layout->ndim == 2 && l->ndim == 2 && h->layout->sizes[1] == l->sizes[1];
    return plain ? product_turned(h, w->hidden, TURNED_B) : bk_linear(h, w->hidden, w->hidden_bias);
}

/* The state after a step, from the input's share of the gates. */
static bk_tensor *advance(bk_rnn_kind kind, const bk_tensor *of_input, const bk_tensor *h, bk_tensor **c,
                          const bk_rnn_weights *w)
{
    bk_tensor *of_state = state_share(h, w);
    int64_t size = w->hidden->layout->sizes[0];
    if (kind == BK_RNN_TANH)
        return bk_tanh(bk_add(of_input, of_state));
    if (kind == BK_RNN_RELU)
        return bk_relu(bk_add(of_input, of_state));
    if (kind == BK_LSTM) {
        size /= 4;
        bk_tensor *gates = bk_add(of_input, of_state);
        bk_tensor *i = bk_sigmoid(gate(gates, 0, size)), *f = bk_sigmoid(gate(gates, 1, size));
        bk_tensor *g = bk_tanh(gate(gates, 2, size)), *o = bk_sigmoid(gate(gates, 3, size));
        *c = bk_add(bk_mul(f, *c), bk_mul(i, g));
        bk_tensor *next = bk_mul(o, bk_tanh(*c));
        return w->projection ? bk_linear(next, w->projection, NULL) : next;
    }
    size /= 3;
    bk_tensor *r = bk_sigmoid(bk_add(gate(of_input, 0, size), gate(of_state, 0, size)));
    bk_tensor *z = bk_sigmoid(bk_add(gate(of_input, 1, size), gate(of_state, 1, size)));
    bk_tensor *n = bk_tanh(bk_add(gate(of_input, 2, size), bk_mul(r, gate(of_state, 2, size))));
    return bk_add(bk_mul(bk_sub(h, n), z), n);
}

bk_tensor *bk_rnn_step(bk_rnn_kind kind, const bk_tensor *x, const bk_tensor *h, const bk_tensor *c,
                       const bk_rnn_weights *w, bk_tensor **c_out)
{
    if (!x || !h || (kind == BK_LSTM && !c))
        return NULL;
    bk_scope_push();
    bk_tensor *cell = (bk_tensor *)c;
    bk_tensor *next = advance(kind, bk_linear(x, w->input, w->input_bias), h, &cell, w);
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

static bk_tensor *rows(const bk_tensor *t, int64_t from, int64_t to)
{
    return t && (from || to != t->layout->sizes[0]) ? bk_slice(t, 0, from, to, 1) : (bk_tensor *)t;
}

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

static bk_tensor *run_steps(bk_rnn_kind kind, const bk_tensor *of_input, const int64_t *batch_sizes, int steps,
                            course *h, course *c, const bk_rnn_weights *w, bool reverse, bk_tensor **outputs)
{
    int64_t row = reverse ? of_input->layout->sizes[0] : 0;
    for (int k = 0; k < steps; k++) {
        int t = reverse ? steps - 1 - k : k;
        int64_t count = batch_sizes[t], from = reverse ? row - count : row;
        set_rows(h, count);
        set_rows(c, count);
        if (!h->now)
            return NULL;
        h->now = advance(kind, rows(of_input, from, from + count), h->now, &c->now, w);
        if (!(outputs[t] = h->now))
            return NULL;
        row = reverse ? from : from + count;
    }
    return bk_cat(outputs, steps, 0);
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
    bk_tensor **work = mem_alloc(sizeof *work * 3 * ((size_t)steps + 1));
    if (!work)
        return NULL;
    bk_scope_push();
    int64_t first = batch_sizes[reverse ? steps - 1 : 0];
    course h = start(h0, first, work + steps + 1), c = start(c0, first, work + 2 * (steps + 1));
    bk_rnn_weights own = *w;
    bk_tensor *of_input = join_biases(kind, &own) ? bk_linear(x, own.input, own.input_bias) : NULL;
    bk_tensor *out = of_input ? run_steps(kind, of_input, batch_sizes, steps, &h, &c, &own, reverse, work) : NULL;
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
