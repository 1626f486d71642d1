/* args.h: functions and methods from rows of {signature, C function}.
 *
 * A signature reads like PyTorch's: "sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, dtype? dtype=None)".
 * Types: Tensor, Tensor[], Scalar (or Number), int, int[], int[k] (an int stands for k of them), float, bool, str,
 * dtype, device, layout, memory_format, Generator, Object; a ? after the type admits None. Neighbouring rows of one
 * name are overloads: the first that fits is called. As a method the first parameter is the object; in the
 * function `self` is called `input`; methods have no `out`. NumPy's keywords (axis, keepdims, x, x1, x2, a) are
 * understood. A lone int[] may be passed spread out: x.view(2, 3), zeros(2, 3). */
#ifndef BK_ARGS_H
#define BK_ARGS_H
#include "pybrisk.h"

#include <stddef.h>

typedef struct arg {
    PyObject *object; /* what the caller passed, borrowed; NULL for a default */
    bool given;       /* there is a value: false for None, passed or by default */
    uint8_t out_row;  /* of an out that is given: what the function asks of it (out.c) */
    union {
        bk_tensor *tensor; /* Tensor; NULL for None, borrowed */
        struct {
            int n;
            bk_tensor **v;
        } tensors;        /* Tensor[]: alive until the function returns */
        int64_t i;        /* int */
        double d;         /* float */
        bool b;           /* bool */
        py_number scalar; /* Scalar */
        struct {
            int n;
            int64_t v[BK_MAX_NDIM];
        } ints;           /* int[] */
        const char *s;    /* str */
        bk_dtype dtype;   /* dtype */
        py_device device; /* device: not yet checked to exist */
        layout_kind layout;
        memory_format_kind memory_format;
    };
} arg;

/* Defaults list few numbers: a default is the start of an arg, up to these. */
enum { DEFAULT_INTS = 8, DEFAULT_BYTES = offsetof(arg, ints.v) + DEFAULT_INTS * sizeof(int64_t) };

typedef PyObject *(*bound_fn)(const arg *args);

/* AS_OLDER, beside these: an order of arguments that is warned of, and listed in no error. It comes after all others of
 * its name. */
enum { AS_FUNCTION = 1, AS_METHOD = 2, AS_OLDER = 4 };

typedef struct binding {
    int where; /* AS_FUNCTION, AS_METHOD or both, and AS_OLDER */
    const char *signature;
    bound_fn call;
    const char *doc; /* one line, or NULL */
} binding;

/* The Generator type, once it exists; until then a Generator argument fits nothing but None. */
extern PyTypeObject *py_generator_type;

/* Adds a callable for each name among the rows: to a module the functions, to a type the methods. The rows must
 * live as long as the module. Signatures are compiled at a callable's first use. */
int args_add_functions(PyObject *module, const binding *rows, size_t n);
int args_add_methods(PyTypeObject *type, const binding *rows, size_t n);

#endif
