/* factories.h: what functions that make tensors share: their options, and the layouts of memory formats. */
#ifndef BK_FACTORIES_H
#define BK_FACTORIES_H
#include "binds.h"

/* The keywords every such function ends with, in the order of the enum. */
#define OPTIONS                                                                                                        \
    "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, bool? requires_grad=False"
#define LIKE_OPTIONS OPTIONS ", memory_format? memory_format=None"
enum { OPTION_DTYPE, OPTION_LAYOUT, OPTION_DEVICE, OPTION_PIN, OPTION_GRAD, OPTION_FORMAT };

static inline bk_dtype option_dtype(const arg *options, bk_dtype otherwise)
{
    return options[OPTION_DTYPE].given ? options[OPTION_DTYPE].dtype : otherwise;
}
/* The same where there is an out, which follows the sizes and precedes the options: it has its own dtype. */
static inline bk_dtype made_dtype(const arg *options, bk_dtype otherwise)
{
    const arg *out = options - 1;
    return option_dtype(options, out->given ? tensor_dtype(out->tensor) : otherwise);
}
/* 0, or -1 with PyTorch's exception for a device or layout that we do not have. */
int options_check(const arg *options);
/* The tensor as asked for: with requires_grad set, or written into out (NULL: the function has none). Steals t. */
PyObject *options_apply(bk_tensor *t, const arg *options, const arg *out);

/* The layout of t's sizes in a memory format; preserve keeps the order of t's strides. NULL with an exception set. */
const layout *format_layout(const layout *l, const arg *format, memory_format_kind otherwise);
/* A tensor of that layout filled with a number, whose value must fit the dtype. NULL with the library's error set. */
bk_tensor *filled(const layout *l, const py_number *value, bk_dtype dtype);
/* The dtype a Python number has as a tensor. */
bk_dtype number_dtype(const py_number *n);

/* Data as torch.tensor copies it; dtype -1 infers. NULL with an exception set. */
bk_tensor *tensor_from_python(PyObject *data, int dtype);

#endif
