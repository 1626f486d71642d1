/* layer_steps.c: a recurrent layer is taken apart as PyTorch does it, when somebody looks at it.
 *
 * PyTorch joins the states of all steps (stack; cat of packed sequences); a step reads a part of one product with the
 * input (unbind; narrow) and the state before. The records of nn/recurrent.c are the same but for three things: steps
 * are written to rows of one tensor, two biases may be added up before the product, and products in 16 bits are cast.
 *
 * Only the results are marked (composed.h) when a layer is recorded. Who looks at a place comes to the next ones, which
 * are marked then: each step once, and none before somebody comes to it.
 *
 * Invariant: a marked place is (by the word of its row) the states after all steps ("outputs"), some joined to one
 * ("joined"), a last state that is a copy ("last"), the state after a step ("state": h, or c if LAYER_CELL), or the
 * product with the input ("input"). All that was recorded since `start`, which its span tells, is the layer's. */
#include "autograd/layer_steps.h"

#include <stdio.h>
#include <string.h>

#include "autograd/composed.h"
#include "core/handle.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/trail.h"
#include "ops/products.h"

static const char PREFIX[] = "layer_";

static bool is(const char *word, const char *which) { return strcmp(word + strlen(PREFIX), which) == 0; }

bool layer_word(const char *word) { return strncmp(word, PREFIX, strlen(PREFIX)) == 0; }

bool layer_passes(const char *word) { return layer_word(word) && is(word, "last"); }

bool layer_joins(const char *word) { return layer_word(word) && (is(word, "outputs") || is(word, "joined")); }

static bk_rnn_kind kind_of(const node *place) { return (bk_rnn_kind)(place->reached & LAYER_KIND); }

static bool has(const node *place, int what) { return place->reached & what; }

static uint64_t start_of(const node *place) { return place->sequence - place->span; }

/* Whether n was recorded by the layer that place is of. */
static bool is_inside(const node *place, const node *n)
{
    return n && n->op != OP_leaf && n->op != OP_function && n->op != OP_output && n->sequence >= start_of(place);
}

static bool is_view(const node *n) { return n && n->op == OP_view && !place_is_copy(n); }

static node *below(const node *n) { return n ? n->edge[0] : NULL; }

/* What a view that the layer made is of. */
static node *viewed(node *n) { return is_view(n) ? n->edge[0] : n; }

/* --- marks ----------------------------------------------------------------------------------------------------------
 */

enum row { OUTPUTS, JOINED, LAST, STATE, INPUT, BOTH_WAYS };

static int row_number(enum row which)
{
    static const char *const names[] = { [OUTPUTS] = "_layer_outputs", [JOINED] = "_layer_joined",
                                         [LAST] = "_layer_last",       [STATE] = "_layer_state",
                                         [INPUT] = "_layer_input",     [BOTH_WAYS] = "_layer_both_ways" };
    static int rows[sizeof names / sizeof *names];
    rows[which] = rows[which] ? rows[which] : composed_find(names[which]) + 1; /* the same for all threads */
    return rows[which] - 1;
}

static void mark(node *n, enum row which, uint8_t about, uint64_t start)
{
    n->composed = (uint16_t)(row_number(which) + 1);
    n->reached = about;
    n->span = (uint32_t)(n->sequence - start);
}

/* A packed layer that is read forwards joins the states of sequences that ended, be it those of one step. */
static void mark_last(bk_tensor *t, uint8_t about, uint64_t start)
{
    if (about & LAYER_PACKED && !(about & LAYER_REVERSED)) {
        composed_mark(t, row_number(JOINED), start, about);
        return;
    }
    composed_mark(t, row_number(LAST), start, about);
    composed_mark_below(t, row_number(STATE), start, about);
}

void layer_mark(bk_tensor *out, bk_tensor *h, bk_tensor *c, uint8_t about, uint64_t start)
{
    composed_mark(out, row_number(OUTPUTS), start, about);
    mark_last(h, about, start);
    if (c)
        mark_last(c, about | LAYER_CELL, start);
}

void layer_mark_steps(bk_tensor *steps, const bk_tensor *rows)
{
    if (!steps || !tensor_tracked(steps))
        return;
    lock_take();
    const node *from = tensor_edge(rows);
    const bool outputs = from && from->composed == row_number(OUTPUTS) + 1;
    if (from && from->composed)
        composed_mark(steps, row_number(outputs ? OUTPUTS : BOTH_WAYS), start_of(from), from->reached);
    lock_give();
}

/* n is the state after another step of the layer, some rows of that, or several; or from outside. */
static node *marked_state(const node *place, node *n, uint8_t cell)
{
    node *whole = is_inside(place, n) ? viewed(n) : n;
    if (is_inside(place, whole))
        mark(whole, whole->op == OP_update ? JOINED : STATE, (uint8_t)((place->reached & ~LAYER_CELL) | cell),
             start_of(place));
    return n;
}

/* --- records of a step (nn/recurrent.c) -----------------------------------------------------------------------------
 */

/* Both biases are added up before the first step (join_biases). */
static bool has_one_bias(const node *place)
{
    return has(place, LAYER_BIASED) && kind_of(place) != BK_GRU && dtype_size((bk_dtype)place->dtype) >= 4;
}

typedef struct affine {
    node *input, *weight, *bias;
} affine;

/* As it was before it was cast to what products are computed in. */
static node *uncast(node *n, uint8_t dtype) { return n && n->op == OP_cast && n->dtype != dtype ? n->edge[0] : n; }

static affine affine_at(node *n, bool biased, uint8_t dtype)
{
    affine a = { 0 };
    if (n && n->op == OP_cast)
        n = n->edge[0];
    if (n && biased) {
        a.bias = uncast(n->edge[1], dtype);
        n = n->edge[0];
    }
    if (!n || n->op != OP_matmul)
        return a;
    a.input = uncast(n->edge[0], dtype);
    a.weight = uncast(n->edge[1], dtype);
    if (!(n->attr.product.turned & TURNED_B))
        a.weight = below(a.weight);
    return a;
}

/* What a step reads of both products, and the cell state before. */
typedef struct shares {
    node *of_input, *of_state, *c; /* of_input: the step's rows, or all */
} shares;

static shares shares_of(const node *place)
{
    shares s = { 0 };
    if (kind_of(place) == BK_GRU) { /* n + z (h - n), n = tanh(of_input + r of_state) */
        const node *sum = below(place->edge[0]);
        s.of_input = below(sum);
        s.of_state = sum ? viewed(sum->edge[2]) : NULL;
        return s;
    }
    const node *gates = place->edge[0];
    if (kind_of(place) == BK_LSTM) { /* i g + f c */
        gates = viewed(below(place->edge[1]));
        s.c = place->edge[2];
    }
    if (gates) {
        s.of_input = gates->edge[0];
        s.of_state = gates->edge[1];
    }
    return s;
}

/* The state h of an LSTM: o tanh(c), and that may be projected. */
static node *before_projection(node *place, node **weight)
{
    if (!has(place, LAYER_PROJECTED))
        return place;
    affine a = affine_at(place, false, place->dtype);
    *weight = a.weight;
    return a.input;
}

/* Of the two biases that were added up, the one of the input or of the state. */
static node *bias_of(const node *input, int k)
{
    const node *sum = input ? affine_at((node *)input, true, input->dtype).bias : NULL;
    return sum ? sum->edge[k] : NULL;
}

/* --- where they lead to ---------------------------------------------------------------------------------------------
 */

static bool is_lstm_h(const node *place) { return kind_of(place) == BK_LSTM && !has(place, LAYER_CELL); }

enum { X, X_WEIGHT, X_BIAS, INPUT_EDGES };

/* The sequence itself, where it became rows for the layer: by a view, or one of a copy if it was gathered. */
static node *before_rows(node *n, bool gathered)
{
    if (!is_view(n) || n->attr.region.tape >> REGION_OP_SHIFT != VIEW_unseen)
        return n;
    n = n->edge[0];
    return gathered && n->op == OP_cast && n->layout->contiguous ? n->edge[0] : n;
}

/* That in three dimensions; NULL: it is row-major, or not there. */
static const layout *sequence_layout(const node *x)
{
    const layout *l = place_layout(x);
    return l && l->ndim == 3 ? l : NULL;
}

static void input_edges(const node *place, node *edges[static INPUT_EDGES])
{
    affine a = affine_at((node *)place, has(place, LAYER_BIASED), place->dtype);
    edges[X] = has(place, LAYER_PACKED) ? a.input : before_rows(a.input, has(place, LAYER_GATHERED));
    edges[X_WEIGHT] = a.weight;
    edges[X_BIAS] = has_one_bias(place) ? bias_of(place, 0) : a.bias;
}

enum { H, H_WEIGHT, H_BIAS, OF_INPUT, C, STATE_EDGES };
enum { LSTM_C, LSTM_PROJECTION };

/* The product with the input, if PyTorch has it on the tape: its bias may be all of the sum that is. */
static node *marked_input(const node *place, node *n)
{
    node *edges[INPUT_EDGES];
    if (!is_inside(place, n))
        return NULL;
    mark(n, INPUT, place->reached, start_of(place));
    input_edges(n, edges);
    return edges[X] || edges[X_WEIGHT] || edges[X_BIAS] ? n : NULL;
}

static void state_edges(node *place, node *edges[static STATE_EDGES])
{
    if (is_lstm_h(place)) {
        node *h = before_projection(place, &edges[LSTM_PROJECTION]);
        edges[LSTM_C] = h ? marked_state(place, below(h->edge[1]), LAYER_CELL) : NULL;
        return;
    }
    shares s = shares_of(place);
    node *input = viewed(s.of_input);
    affine a = affine_at(s.of_state, has(place, LAYER_BIASED) && !has_one_bias(place), place->dtype);
    node *h = kind_of(place) == BK_GRU ? below(place->edge[1]) : a.input;
    edges[H] = marked_state(place, h, 0);
    edges[H_WEIGHT] = a.weight;
    edges[H_BIAS] = has_one_bias(place) ? bias_of(input, 1) : a.bias;
    edges[OF_INPUT] = marked_input(place, input);
    edges[C] = marked_state(place, s.c, LAYER_CELL);
}

/* What was joined, in its order: the last part is what was written last, but for steps that were read backwards. */
static int joined_edges(node *place, bool backwards, node ***out)
{
    trail parts = { 0 };
    node *n = viewed(place);
    bool good = true;
    if (n->op == OP_cast) /* a copy of the last states */
        n = n->edge[0];
    for (; good && n && n->op == OP_update; n = n->edge[0])
        good = trail_push(&parts, n->edge[1]);
    if (good && n) /* one that is all there is */
        good = trail_push(&parts, place_is_copy(n) ? n->edge[0] : n);
    for (int i = 0, j = parts.count - 1; !backwards && i < j; i++, j--) {
        node *part = parts.v[i];
        parts.v[i] = parts.v[j];
        parts.v[j] = part;
    }
    for (int i = 0; good && i < parts.count; i++)
        marked_state(place, parts.v[i], place->reached & LAYER_CELL);
    if (!good)
        trail_free(&parts);
    *out = good ? parts.v : NULL;
    return good ? parts.count : -1;
}

int layer_edges(const char *word, node *place, node ***out)
{
    int count;
    lock_take();
    if (layer_joins(word)) {
        count = joined_edges(place, is(word, "outputs") && has(place, LAYER_REVERSED), out);
    } else {
        *out = mem_alloc_zero(STATE_EDGES * sizeof **out);
        count = !*out ? -1 : is(word, "input") ? INPUT_EDGES : STATE_EDGES;
        if (*out && is(word, "input"))
            input_edges(place, *out);
        else if (*out && is(word, "state"))
            state_edges(place, *out);
    }
    lock_give();
    return count;
}

/* --- text: digits are numbers of the edges above ---------------------------------------------------------------------
 */

const char *layer_name(const char *word, const node *place)
{
    if (is(word, "outputs") && !has(place, LAYER_PACKED))
        return "StackBackward0";
    if (layer_joins(word))
        return "CatBackward0";
    if (is(word, "input"))
        return has(place, LAYER_BIASED) ? "AddmmBackward0" : "MmBackward0";
    if (is_lstm_h(place))
        return has(place, LAYER_PROJECTED) ? "MmBackward0" : "MulBackward0";
    return kind_of(place) == BK_LSTM || kind_of(place) == BK_GRU ? "AddBackward0" : NULL;
}

typedef struct piece {
    char text[80];
} piece;

/* The product with a state, which is written as `h`. */
static piece of_state(const node *place, const char *h)
{
    piece p;
    snprintf(p.text, sizeof p.text,
             has(place, LAYER_BIASED) ? "AddmmBackward0(2,%s,TBackward0(1))" : "MmBackward0(%s,TBackward0(1))", h);
    return p;
}

/* The part of the product with the input that a step reads. */
static piece of_input(const node *place, const node *input)
{
    piece p = { "-" };
    const node *rows = shares_of(place).of_input;
    const int64_t size = input ? place->layout->sizes[0] * input->layout->sizes[1] : 0;
    if (input && has(place, LAYER_PACKED))
        snprintf(p.text, sizeof p.text, "SliceBackward0(3)");
    else if (input)
        snprintf(p.text, sizeof p.text, "3&1#%lld",
                 is_view(rows) && size ? (long long)(rows->attr.region.offset / size) : 0);
    return p;
}

/* Packed sequences that are read backwards begin with rows of a state, be it all. */
static bool is_cut_first(const node *place, const node *state)
{
    return has(place, LAYER_PACKED) && has(place, LAYER_REVERSED) && !is_inside(place, state);
}

static void gru_steps(const node *place, node *const *edges, char out[static STEPS_ROOM])
{
    const int cut = is_cut_first(place, edges[H]); /* a name before the one of n */
    const int n = 3 + cut, split_input = 5 + cut;
    const piece input = of_input(place, edges[OF_INPUT]);
    const int split_state = split_input + 2 + (input.text[0] == 'S');
    const piece state = of_state(place, cut ? "&3" : "0");
    snprintf(out, STEPS_ROOM,
             "MulBackward0(SubBackward0(%s,TanhBackward0(AddBackward0(UnsafeSplitBackward0#2(%s),"
             "MulBackward0(UnsafeSplitBackward0#2(%s),SigmoidBackward0(AddBackward0(&%d,&%d)))))),"
             "SigmoidBackward0(AddBackward0(&%d#1,&%d#1))),&%d",
             cut ? "SliceBackward0(0)" : "0", input.text, state.text, split_state, split_input, split_state,
             split_input, n);
}

static void state_steps(const node *place, node *const *edges, char out[static STEPS_ROOM])
{
    if (is_lstm_h(place)) {
        const bool projected = has(place, LAYER_PROJECTED);
        snprintf(out, STEPS_ROOM, "%sSigmoidBackward0(0&3#3),TanhBackward0(0)%s", projected ? "MulBackward0(" : "",
                 projected ? "),TBackward0(1)" : "");
        return;
    }
    if (kind_of(place) == BK_GRU) {
        gru_steps(place, edges, out);
        return;
    }
    const piece input = of_input(place, edges[OF_INPUT]);
    const piece state = of_state(place, is_cut_first(place, edges[H]) ? "SliceBackward0(0)" : "0");
    if (kind_of(place) == BK_LSTM)
        snprintf(out, STEPS_ROOM,
                 "MulBackward0(SigmoidBackward0(UnsafeSplitBackward0#1(AddBackward0(%s,%s))),%s),"
                 "MulBackward0(SigmoidBackward0(&3),TanhBackward0(&3#2))",
                 state.text, input.text, is_cut_first(place, edges[C]) ? "SliceBackward0(4)" : "4");
    else
        snprintf(out, STEPS_ROOM, "AddBackward0(%s,%s)", state.text, input.text);
}

/* Of a batch PyTorch's linear layer sees a sequence in three dimensions. */
static void input_steps(const node *place, node *const *edges, char out[static STEPS_ROOM])
{
    const bool biased = has(place, LAYER_BIASED), gathered = has(place, LAYER_GATHERED);
    char product[STEPS_ROOM / 2];
    if (has(place, LAYER_PACKED)) {
        snprintf(out, STEPS_ROOM, biased ? "2,0,TBackward0(1)" : "0,TBackward0(1)");
    } else if (biased && !gathered) {
        snprintf(out, STEPS_ROOM, "UnbindBackward0(ViewBackward0(AddmmBackward0(2,ViewBackward0(0),TBackward0(1))))");
    } else {
        product_by_weight(sequence_layout(edges[X]), edges[X_WEIGHT], product, sizeof product);
        snprintf(out, STEPS_ROOM,
                 biased ? "UnbindBackward0(AddBackward0(UnsafeViewBackward0(%s),2))"
                        : "UnbindBackward0(UnsafeViewBackward0(%s))",
                 product);
    }
}

bool layer_steps(const char *word, node *place, node *const *edges, char out[static STEPS_ROOM])
{
    static node *const nowhere[STATE_EDGES];
    const bool state = is(word, "state");
    if (!state && !is(word, "input"))
        return false;
    lock_take(); /* layouts are asked for */
    (state ? state_steps : input_steps)(place, edges ? edges : nowhere, out);
    lock_give();
    return true;
}
