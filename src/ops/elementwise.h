/* elementwise.h: recording rows of ops.def. */
#ifndef BK_OPS_ELEMENTWISE_H
#define BK_OPS_ELEMENTWISE_H
#include "core/tensor.h"

/* Records op over its operands: promotion, broadcasting, casts, the node. NULL with the error set. */
bk_tensor *ew_apply(int op, const operand *in);
/* t.op_(...): the result is written into t, which is in[0]. */
int ew_apply_in_place(int op, bk_tensor *t, const operand *in);

/* One element, all operands there, nothing taped: computed now, held in the node itself. NULL without an error where
 * that is not so. Owned. */
node *elementwise_now(int op, bk_dtype dtype, node *const *in, const layout *plain);

/* The same as a Python user means it: operators' special cases (powers, integer division) apply. */
bk_tensor *ew_apply_python(int op, const operand *in);
int ew_apply_python_in_place(int op, bk_tensor *t, const operand *in);

/* t takes the result of an op, which must have its sizes and a dtype that can be cast to its own. */
int write_result(bk_tensor *t, const bk_tensor *result);

/* Refuses to write t from a value that is read from a part of the same memory. */
int overlap_check(const bk_tensor *t, const node *read);

/* PyTorch's result dtype for a mix of tensors and numbers. */
bk_dtype operands_promote(const operand *in, int count);
/* The sizes that all operands broadcast to, row-major; NULL with PyTorch's error. */
const layout *operands_broadcast(const operand *in, int count);
const layout *layout_broadcast(const layout *a, const layout *b);

/* The strides PyTorch gives the result of an elementwise loop over operands of these strides: their common order. */
const layout *strides_of_result(const layout *const *in, int count, const layout *plain);
/* The same of operands as they are, of any sizes. */
const layout *strides_of_loop(const operand *in, int count, const layout *plain);
/* The same where all operands have the result's sizes and no number is among them. */
const layout *strides_of_equals(const layout *const *in, int count, const layout *plain);

/* Owned (value, edge) pairs: the operand as another dtype, repeated to other sizes. value == NULL on failure. */
typedef struct owned {
    node *value, *edge;
} owned;
void owned_release(owned o);
owned operand_cast(operand in, bk_dtype dtype);
owned operand_expand(operand in, const layout *plain);
static inline operand owned_operand(owned o) { return (operand){ .value = o.value, .edge = o.edge }; }

/* The elements of t in memory of their own (ops/shape.c). */
bk_tensor *copy_as(const bk_tensor *t, const layout *l, bk_dtype dtype);
/* t takes the elements of in, cast and repeated to t's dtype and sizes (ops/shape.c). */
int tensor_assign(bk_tensor *t, operand in, write_op op);

/* A node with its inputs set, appended to the log; releases it and returns NULL on failure. */
node *record_node(node *n);

#endif
