/* return_types.h: results of two tensors, as the named tuples of torch.return_types. */
#ifndef BK_RETURN_TYPES_H
#define BK_RETURN_TYPES_H
#include "args.h"

typedef enum return_type {
    RETURN_MAX,
    RETURN_MIN,
    RETURN_MEDIAN,
    RETURN_NANMEDIAN,
    RETURN_MODE,
    RETURN_KTHVALUE,
    RETURN_SORT,
    RETURN_TOPK,
    RETURN_CUMMAX,
    RETURN_CUMMIN,
    RETURN_AMINMAX,
    RETURN_SLOGDET,
    RETURN_QR,
    RETURN_LINALG_SLOGDET,
    RETURN_LINALG_QR,
    RETURN_LU_FACTOR,
    RETURN_COUNT
} return_type;

/* Adds the submodule `return_types`. */
int return_types_init(PyObject *module);
/* Both results in the named tuple, or written into the two tensors of out. Steals both; NULL raises. */
PyObject *py_return_two(return_type type, bk_tensor *first, bk_tensor *second, const arg *out);
/* A plain tuple of two. Steals both. */
PyObject *py_tuple_two(bk_tensor *first, bk_tensor *second);

#endif
