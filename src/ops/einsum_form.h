/* einsum_form.h: the functions that PyTorch has for an einsum, as a row of composed.def that is made for it. */
#ifndef BK_OPS_EINSUM_FORM_H
#define BK_OPS_EINSUM_FORM_H
#include "core/layout.h"

enum { EINSUM_MOST = 6 }; /* operands of one that has a form */

typedef struct einsum_call {
    const char *equation;
    int count, output_count;
    const int8_t *output; /* labels: letters are 0..51, then dimensions under an ellipsis, counted from the last */
    struct {
        const layout *layout;
        int8_t label[BK_MAX_NDIM];
    } of[EINSUM_MOST];
    char order[EINSUM_MOST + 1]; /* in which a walk through our records comes to the operands, a digit each */
} einsum_call;

/* The number of its form (composed_form); -1: it has none. With the lock. */
int einsum_form(const einsum_call *c);

#endif
