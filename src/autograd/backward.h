/* backward.h: the reverse pass without its evaluation, for front ends that evaluate in their own way. */
#ifndef BK_AUTOGRAD_BACKWARD_H
#define BK_AUTOGRAD_BACKWARD_H
#include "brisk.h"

struct node;

typedef struct backward_call {
    bk_tensor *const *outputs;
    bk_tensor *const *gradients; /* NULL, or one for each output (NULL: ones) */
    int output_count;
    bk_tensor *const *inputs; /* NULL: every leaf */
    int input_count;
    bk_tensor **results; /* the inputs' gradients (owned; NULL: not used); NULL: the inputs' leaves take them */
    bool retain_graph, create_graph;
    bool inputs_are_ends; /* an input that was computed from another one stands for itself: nothing goes on behind it */
} backward_call;

int backward_record(const backward_call *call);
/* A pass through one function, of which these are the gradients of the results: no hooks, and saved values stay. */
struct excursion;
int backward_through(struct excursion *e, bk_tensor *const *gradients);
/* A leaf takes a gradient (NULL: none), and who waits for that runs. */
int backward_take(struct node *leaf, bk_tensor *g);
/* A number for the pass that is running in this thread, the innermost one; 0: none. Whether it comes to a place. */
uint64_t backward_number(void);
bool backward_reaches(const struct node *place);
/* The number of the pass that a user has asked for; 0: none. */
uint64_t backward_task(void);
/* Hears that a pass is over. NULL: off. */
extern void (*pass_over)(uint64_t number);
/* Whether passes of this thread go through places that only tangents pass; returns what it was. */
bool backward_take_tangents(bool on);
/* Whether the pass that is running on this thread is one for tangents. */
bool backward_for_tangents(void);
/* The values that the gradients wanted at a place read: bit k for input k, NEEDS_OUT for the result. */
uint8_t place_values_read(const struct node *n);
/* Where a place leads to: one for each input that could have a gradient, NULL where none goes. The count. */
int place_edges(const struct node *n, struct node *const **edges);
/* The leaf that a place leads to through views only; NULL: none. */
const struct node *place_leaf_under(const struct node *edge);
/* Looks at what each gradient function of a pass has computed; -1: the pass fails, and the hook keeps the error. NULL:
 * off.
 */
extern int (*anomaly_check)(const struct node *n, bk_tensor *const *grads, int count);
/* Hears at which place a pass has failed, with the error set, which it leaves as it is. NULL: off. */
extern void (*anomaly_failed)(const struct node *n);
/* A callback has failed and keeps its own error. */
void callback_failed(void);

#endif
