/* char_lstm.c: a recurrent network learns a text letter by letter, and writes one of its own.
 * examples/python/char_lstm.py is the same program: with the same seed both print the same losses and the same letters.
 */
#include <brisk.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EMBEDDED = 16, HIDDEN = 64, STEPS = 24, STREAMS = 4, ROUNDS = 201, WRITTEN = 48 };

static const char text[] = "the quick brown fox jumps over the lazy dog while the slow brown bear sleeps under the old "
                           "tree and the small grey mouse runs across the long green field to the quiet river bank; ";
static char letters[64]; /* those that occur, in order: a letter's place is its class */
static int64_t letter_count;

enum { EMBEDDING, INPUT, RECURRENT, INPUT_BIAS, RECURRENT_BIAS, OUTPUT, OUTPUT_BIAS, PARAMS };
static bk_tensor *params[PARAMS];
static bk_adam_state states[PARAMS];

static void find_letters(void)
{
    for (int c = 0; c < 128; c++)
        if (c && strchr(text, c))
            letters[letter_count++] = (char)c;
}

/* As PyTorch draws an Embedding, an LSTM and a Linear. */
static int make_params(void)
{
    double lstm = 1 / sqrt(HIDDEN), linear = 1 / sqrt(HIDDEN);
    const int64_t sizes[PARAMS][2] = {
        { letter_count, EMBEDDED }, { 4 * HIDDEN, EMBEDDED }, { 4 * HIDDEN, HIDDEN }, { 4 * HIDDEN }, { 4 * HIDDEN },
        { letter_count, HIDDEN },   { letter_count },
    };
    for (int i = 0; i < PARAMS; i++) {
        double bound = i >= OUTPUT ? linear : lstm;
        params[i] = bk_empty(sizes[i][1] ? 2 : 1, sizes[i], BK_FLOAT32);
        int drawn = i == EMBEDDING ? bk_normal_(params[i], 0, 1, NULL) : bk_uniform_(params[i], -bound, bound, NULL);
        if (drawn < 0 || bk_set_requires_grad(params[i], true) < 0)
            return -1;
    }
    return 0;
}

/* The classes of the letters of STREAMS parts of the text, (STEPS, STREAMS), from `offset` on in each. */
static bk_tensor *classes(int64_t offset)
{
    int64_t found[STEPS * STREAMS], part = (int64_t)(sizeof text - 1) / STREAMS;
    for (int t = 0; t < STEPS; t++)
        for (int s = 0; s < STREAMS; s++)
            found[t * STREAMS + s] = strchr(letters, text[s * part + offset + t]) - letters;
    return bk_from_data(found, 1, (int64_t[]){ STEPS * STREAMS }, BK_INT64);
}

/* Scores of the next letters, from the rows of `steps` steps of `streams` each; state is read and replaced. */
static bk_tensor *forward(const bk_tensor *rows, int steps, int64_t streams, bk_tensor *state[2])
{
    const bk_rnn_weights w = { .input = params[INPUT],
                               .hidden = params[RECURRENT],
                               .input_bias = params[INPUT_BIAS],
                               .hidden_bias = params[RECURRENT_BIAS] };
    int64_t batch_sizes[STEPS];
    for (int t = 0; t < steps; t++)
        batch_sizes[t] = streams;
    bk_tensor *h = NULL, *c = NULL, *x = bk_embedding(params[EMBEDDING], rows);
    bk_tensor *out = bk_rnn_layer(BK_LSTM, x, batch_sizes, steps, state[0], state[1], &w, false, &h, &c);
    state[0] = h;
    state[1] = c;
    return bk_linear(out, params[OUTPUT], params[OUTPUT_BIAS]);
}

static void start(bk_tensor *state[2], int64_t streams)
{
    for (int i = 0; i < 2; i++)
        state[i] = bk_zeros(2, (int64_t[]){ streams, HIDDEN }, BK_FLOAT32);
}

/* One step; the loss, or NAN with the error set. */
static double learn(int round)
{
    const bk_adam_options adam = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 };
    int64_t part = (int64_t)(sizeof text - 1) / STREAMS, offset = (int64_t)round * 7 % (part - STEPS - 1);
    double value = NAN;
    bk_tensor *state[2];
    bk_scope_push();
    for (int i = 0; i < PARAMS; i++)
        bk_set_grad(params[i], NULL);
    start(state, STREAMS);
    bk_tensor *scores = forward(classes(offset), STEPS, STREAMS, state);
    bk_tensor *loss = bk_cross_entropy(scores, classes(offset + 1), NULL, -100, 0, BK_REDUCE_MEAN);
    if (loss && bk_backward(loss, NULL, false, false) == 0 && bk_adam_step(params, states, PARAMS, &adam) == 0)
        value = bk_item(loss);
    bk_scope_pop();
    return value;
}

/* Letters drawn one after the other, each by the scores after those before it. */
static int write_text(void)
{
    char written[WRITTEN + 1] = "t";
    bool before = bk_set_grad_enabled(false);
    bk_scope_push();
    bk_tensor *state[2];
    start(state, 1);
    for (int i = 1; i < WRITTEN; i++) {
        int64_t last = strchr(letters, written[i - 1]) - letters;
        bk_tensor *scores = forward(bk_from_data(&last, 1, (int64_t[]){ 1 }, BK_INT64), 1, 1, state);
        bk_tensor *drawn = bk_multinomial(bk_softmax(scores, 1), 1, false, NULL);
        if (!drawn)
            break;
        written[i] = letters[bk_item_int(drawn)];
    }
    bk_scope_pop();
    bk_set_grad_enabled(before);
    printf("%s\n", written);
    return strlen(written) == WRITTEN ? 0 : -1;
}

int main(void)
{
    find_letters();
    bk_manual_seed(3);
    int status = make_params();
    for (int round = 0; round < ROUNDS && status == 0; round++) {
        double loss = learn(round);
        if (loss != loss)
            status = -1;
        else if (round % 40 == 0)
            printf("step %3d  loss %.5f\n", round, loss);
    }
    if (status == 0)
        status = write_text();
    if (status < 0)
        fprintf(stderr, "%s\n", bk_error());
    bk_adam_state_release(states, PARAMS);
    for (int i = 0; i < PARAMS; i++)
        bk_release(params[i]);
    return status < 0;
}
