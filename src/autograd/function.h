/* function.h: custom functions on the tape.
 *
 * A call is one OP_function node with an edge per input; each output has an OP_output node that leads to it. */
#ifndef BK_AUTOGRAD_FUNCTION_H
#define BK_AUTOGRAD_FUNCTION_H
#include "core/node.h"

node *const *function_edges(const node *n);
int function_inputs(const node *n);
int function_outputs(const node *n);
/* Calls the user's backward; both arrays as in bk_function. */
int function_backward(node *n, bk_tensor *const *output_grads, bk_tensor **input_grads);
void function_free(node *n); /* its closure; the edges are the caller's to drop */

#endif
