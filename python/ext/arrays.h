/* arrays.h: NumPy arrays and other buffers, read as views. */
#ifndef BK_ARRAYS_H
#define BK_ARRAYS_H
#include "pybrisk.h"

typedef struct array {
    view view;
    bk_dtype asks; /* the dtype torch.tensor gives it: its own for NumPy's, that of Python's numbers for the rest */
    bool holds_buffer;
    Py_buffer buffer;
    PyObject *owner; /* what __array__ returned */
} array;

bool array_is_numpy(PyObject *o);
/* 1: opened, to be closed; 0: not an array; -1: an array we cannot read, with an exception set. */
int array_open(PyObject *o, array *out);
void array_close(array *a);
/* Copies the elements, converted to dtype, in row-major order to `to`; returns the end of what it wrote. */
char *array_copy(const array *a, bk_dtype dtype, char *to);

#endif
