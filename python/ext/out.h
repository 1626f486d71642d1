/* out.h: results that are written into tensors of the caller's: out=. */
#ifndef BK_OUT_H
#define BK_OUT_H
#include "args.h"

/* The row of a function in out.c, by its name; 0, the usual one, where it has none. pair: of two tensors or more. */
int out_row_of(const char *function, bool pair);
/* Whether out may be written beside the n arguments: none of them asks for a gradient, which goes through no out=, nor
 * is memory of out's where that matters. false raises. */
bool out_goes_with(const char *function, const arg *args, int n, const arg *out);

/* The result as a Python object: itself, or written into out, which is then the one returned. Steals result. */
PyObject *py_out(bk_tensor *result, const arg *out);
/* The same for an elementwise result: an out that is one of the n operands is not resized, and with same_dtype nothing
 * is cast into it. */
PyObject *py_elementwise_out(bk_tensor *result, const arg *operands, int n, const arg *out, bool same_dtype);
/* The row's result into argument number arity. */
PyObject *py_row_out(int op, bk_tensor *result, const arg *a);
/* Two results into the two tensors of out; false raises, and nothing is written. Steals neither. */
bool py_out_two(const bk_tensor *first, const bk_tensor *second, const arg *out);
/* (function, result, into) of a function that is written in Python; tuples of results have tuples of outs. */
PyObject *py_fill_out(const arg *a);

#endif
