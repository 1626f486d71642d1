/* layer_steps.h: the functions that PyTorch has for the steps of a recurrent layer. */
#ifndef BK_AUTOGRAD_LAYER_STEPS_H
#define BK_AUTOGRAD_LAYER_STEPS_H
#include "autograd/product_steps.h"
#include "core/tensor.h"

/* What is told of a layer where a place is marked as one of its (node.reached): its bk_rnn_kind, and more. */
enum {
    LAYER_KIND = 3,
    LAYER_BIASED = 4,
    LAYER_PACKED = 8,
    LAYER_REVERSED = 16, /* it read the sequence backwards */
    LAYER_PROJECTED = 32,
    LAYER_GATHERED = 64, /* the sequence was not row-major */
    LAYER_CELL = 128     /* of an LSTM: this is about the state that its gates guard */
};

/* The results of a layer that was called when next_sequence was `start`; c: NULL but for an LSTM. */
void layer_mark(bk_tensor *out, bk_tensor *h, bk_tensor *c, uint8_t about, uint64_t start);

/* The same rows in three dimensions: what is shown instead of them. */
void layer_mark_steps(bk_tensor *steps, const bk_tensor *rows);

/* Whether the word of a row of composed.def says that a place is a layer's. */
bool layer_word(const char *word);
/* Whether it is no function of PyTorch's, but leads to one; whether it joins what it leads to. */
bool layer_passes(const char *word);
bool layer_joins(const char *word);
/* The three below are asked of places with such a word. What the function is called; NULL: as its record is. */
const char *layer_name(const char *word, const node *place);
/* Where it leads to; counts and frees as those of composed.h. */
int layer_edges(const char *word, node *place, node ***out);
/* Writes the steps below it, in the language of composed.def, of these edges (NULL: memory was out); false: it leads to
 * all of them. */
bool layer_steps(const char *word, node *place, node *const *edges, char out[static STEPS_ROOM]);

#endif
