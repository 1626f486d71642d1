/* convert.h: one argument from Python to C, by the type its parameter asks for. */
#ifndef BK_CONVERT_H
#define BK_CONVERT_H
#include "signature.h"

enum { FAILED = -1, MISFIT = 0, FIT = 1 };

/* What a call needs beside its arguments: the lists of Tensor[] arguments, with a reference to each tensor, so that
 * they outlive a list that changes meanwhile. */
enum { LIST_ROOM = 32, MAX_LISTS = 3 };
typedef struct call_state {
    PyObject *function; /* its name, for messages */
    int lists;
    struct {
        int n;
        bk_tensor **v;
    } held[MAX_LISTS];
    bk_tensor *room[LIST_ROOM]; /* serves the first list when it is short */
} call_state;

/* FIT; MISFIT when the object is of another type (no exception); FAILED with an exception when it is of the type
 * but its value cannot be taken. `index` is the parameter's place. */
int convert(const param *p, int index, PyObject *o, arg *out, call_state *s);
/* The spread form of an int[]: n arguments, each an int. */
int convert_spread(const param *p, PyObject *const *items, Py_ssize_t n, arg *out, call_state *s);
/* True for what an int parameter takes: ints, NumPy's ints, integer tensors of no dimension; not bools. */
bool convert_is_int(PyObject *o);
void convert_release(call_state *s);

#endif
