/* alike.h: the short way of an elementwise op, inline for whoever knows the op when compiling.
 *
 * Operands of one dtype, the first settled or falling and the others of its layout or repeated to it, or numbers (also
 * as the first of two) of no higher category: nothing to promote or cast. This is nearly every op of nearly every
 * program, and worth half the cost of recording one; that the operators of Python come here without another call is
 * worth a tenth of theirs. */
#ifndef BK_OPS_ALIKE_H
#define BK_OPS_ALIKE_H
#include "graph/append.h"
#include "ops/elementwise.h"

/* What an op gives for operands that all have this dtype, or NO_RESULT where dtypes have to be resolved. */
enum { NO_RESULT = 0xff };
extern uint8_t plain_result[EW_COUNT][BK_DTYPE_COUNT];

node *number_node(operand o, bk_dtype dtype); /* a constant */
/* Whether an operand of layout l is repeated to the sizes of the first one, which decides the result's layout. */
bool fits_under(const layout *l, const layout *first);

/* A 16-bit float is multiplied and divided by a number at the precision the op is computed in, and so are those that
 * have one for a parameter; what is added is rounded first. So it is in PyTorch. */
static inline bool keeps_precision(int op)
{
    switch (op) {
    case EW_mul:
    case EW_div:
    case EW_leaky_relu:
    case EW_elu:
    case EW_celu:
    case EW_softplus:
    case EW_lerp: return true;
    default: return false;
    }
}
static inline bk_dtype number_precision(int op, bk_dtype d)
{
    return (d == BK_FLOAT16 || d == BK_BFLOAT16) && keeps_precision(op) ? BK_FLOAT32 : d;
}

/* Whether an operand takes the short way beside a first one of this dtype and layout. */
static inline bool goes_with(int op, const operand *in, bk_dtype dtype, const layout *l)
{
    const node *n = in->value;
    if (n)
        return n->dtype == dtype && (n->layout == l || fits_under(n->layout, l));
    return in->category <= (dtype_category)dtypes[dtype].category && (in->category != CATEGORY_BOOL || op != EW_sub);
}

/* NULL without an error (*failed is false) where there is more to it. */
static inline __attribute__((always_inline)) node *record_alike(int op, int arity, const operand *in, bool *failed)
{
    int lead = arity == 2 && !in[0].value;
    const node *first = in[lead].value;
    if (!first)
        return NULL;
    const layout *l = first->layout, *to = l->falling ? l->plain : l->settled ? l : NULL;
    if (!to || first->flags & NODE_CONSTANT ||
        (l->numel == 1 && first->data && !in[lead].edge)) /* it may be computed at once */
        return NULL;
    bk_dtype dtype = (bk_dtype)first->dtype;
    uint8_t result = plain_result[op][dtype];
    if (result == NO_RESULT)
        return NULL;
    for (int k = 1; k < arity; k++)
        if (!goes_with(op, &in[k - (k == lead)], dtype, l))
            return NULL;
    *failed = true;
    node *n = node_new_here(op, (bk_dtype)result, to);
    if (!n)
        return NULL;
    n->inputs = (uint8_t)arity;
    for (int k = 0; k < arity; k++) {
        if (in[k].value) {
            node_input(n, k, in[k].value, in[k].edge && op_get(op)->gradient ? in[k].edge : NULL);
            continue;
        }
        n->in[k] = number_node(in[k], k || op == EW_mul ? number_precision(op, dtype) : dtype);
        if (!n->in[k]) {
            node_release(n);
            return NULL;
        }
    }
    if (append_record(n, op, (bk_dtype)result, to, arity, true) < 0) {
        node_release(n);
        return NULL;
    }
    return n;
}

/* ew_apply of an op with two operands. */
static inline __attribute__((always_inline)) bk_tensor *ew_apply_here(int op, const operand *in)
{
    bool failed = false;
    const node *first = in[0].value ? in[0].value : in[1].value;
    node *n = first && first->layout->ndim ? record_alike(op, 2, in, &failed) : NULL;
    return n ? tensor_from_node(n) : failed ? NULL : ew_apply(op, in);
}

#endif
