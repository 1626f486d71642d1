/* format.h: the printed form of a tensor, character for character as PyTorch prints it. */
#ifndef BK_CORE_FORMAT_H
#define BK_CORE_FORMAT_H
#include "cpu/view.h"

/* set_printoptions */
typedef struct format_options {
    int precision;     /* digits behind the point */
    int64_t threshold; /* more elements than this are summarised; INT64_MAX: never */
    int edgeitems;     /* elements at each end of a summarised dimension */
    int linewidth;
    int sci_mode; /* 1 always, 0 never, -1 by the numbers */
} format_options;

extern const format_options format_default;

/* `prefix` opens the text and sets the indentation: "tensor(" for most. `default_float` is the dtype that need not be
 * named. `extra` is the last item, such as "requires_grad=True" or "grad_fn=<AddBackward0>", or NULL. The text comes
 * from mem_alloc; NULL when memory is out. */
char *format_tensor(const view *v, const format_options *o, const char *prefix, bk_dtype default_float,
                    const char *extra);

#endif
