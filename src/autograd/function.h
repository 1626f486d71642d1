/* function.h: custom functions on the tape.
 *
 * A call is one OP_function node with an edge per input. It is the place of its output; where there are several, each
 * has an OP_output node that leads to it. */
#ifndef BK_AUTOGRAD_FUNCTION_H
#define BK_AUTOGRAD_FUNCTION_H
#include "brisk.h"
#include "core/tensor.h"

enum { FEW_EDGES = 4 };

/* What an OP_function node has besides (node.extra). */
typedef struct closure {
    bk_function fn;
    void (*free_saved)(void *data); /* a front end's: NULL in a function of C, which keeps nothing to be let go of */
    struct hooks *hooks;            /* of the call; a result's are at its own place. NULL: none */
    int inputs, outputs;
    node **edges;  /* few, or behind the closure */
    node **places; /* of the outputs, while those lead here; not owned */
    node *few[FEW_EDGES], *few_places[FEW_EDGES];
} closure;

static inline closure *function_closure(const node *n) { return n->extra; }
static inline node *const *function_edges(const node *n) { return function_closure(n)->edges; }
static inline int function_inputs(const node *n) { return function_closure(n)->inputs; }
static inline int function_outputs(const node *n) { return function_closure(n)->outputs; }
static inline const char *function_name(const node *n) { return function_closure(n)->fn.name; }
/* The data of a call whose backward is this; NULL: it is another's. */
void *function_data(const node *n, int (*backward)(void *, bk_tensor *const *, int, bk_tensor **, int));
/* Calls the user's backward; both arrays as in bk_function. */
int function_backward(node *n, bk_tensor *const *output_grads, bk_tensor **input_grads);
/* bk_function_apply with what front ends need besides: free_saved(data) is called when a backward lets go of saved
 * values; same[i] says that output i is an input written to in place, whose own handle moves; *call_place is the call's
 * place on the tape (borrowed: fn.free is called when it goes), NULL when no output is on it. */
int function_record(const bk_function *fn, void (*free_saved)(void *data), bk_tensor *const *inputs, int input_count,
                    bk_tensor **outputs, const bool *same, int output_count, node **call_place);
/* What a function returns for an input that it was given: the same memory, on no tape yet. It is a view by the same
 * sizes, which gives dimensions of one element other strides. */
bk_tensor *function_input_again(const bk_tensor *t);
/* Another handle on output `number` of a call. */
int function_place_output(node *call, bk_tensor *out, int number);
/* Places t on the tape as the one result of fn, a function of the call's inputs that only its backward knows of. Owns
 * fn->data from here on. */
int function_beside(const node *call, const bk_function *fn, bk_tensor *t);

/* --- what a custom forward computes from its inputs ----------------------------------------------------------------
 *
 * Pending records tell by what they read. A flush, which makes them forget that, writes down first which forward's
 * inputs they go back to: its number, given to the inputs when it begins, passes along steps that have a gradient. Of
 * forwards inside each other the inner one's stays, which the outer one then takes for its own. */

typedef struct forward_run {
    uint32_t number;
    uint64_t start; /* what it records is later than this */
} forward_run;
/* A forward begins, or ends; between, each input on the tape is shown to it. */
extern int forwards_under_way;
extern uint32_t last_forward, first_forward;  /* numbers: the last one given, and the least that may be under way */
static inline forward_run forward_begin(void) /* under the lock, as what follows */
{
    forward_run run = { .number = ++last_forward, .start = next_sequence };
    if (!forwards_under_way++)
        first_forward = run.number;
    return run;
}
static inline void forward_end(void) { forwards_under_way--; }
static inline void forward_reads(forward_run run, const bk_tensor *input)
{
    input->cell->value->origin = run.number; /* what is read of it later takes this on */
    if (input->seen)
        input->seen->origin = run.number;
}
/* n, which an op has made of these values, will not know them any more. */
void forward_carry(node *n, int op, node *const *in, int count);
/* Whether value was computed in the forward, which is under way, from one of its inputs. */
bool forward_made(forward_run run, node *value);
void function_free_saved(node *n);
void function_output_gone(const node *place); /* an OP_output that is about to be freed */
void function_free(node *n);                  /* its closure; the edges are the caller's to drop */

#endif
