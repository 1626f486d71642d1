/* interop.h: memory that Python objects and tensors share. */
#ifndef BK_INTEROP_H
#define BK_INTEROP_H
#include "binds.h"

/* A tensor on memory that a Python object keeps alive (a reference is taken). reachable(owner) says whether
 * others than us hold it; NULL: they may. NULL with an exception set. */
PyObject *tensor_on_object(const view *v, PyObject *owner, bool (*reachable)(void *owner));
/* A tensor on a NumPy array's memory. NULL with an exception set. */
PyObject *tensor_on_array(PyObject *o);
/* Runs release(owner) with the GIL: now, or when the interpreter comes round to it. */

/* Refuses what PyTorch refuses to hand out: -1 with an exception of that type. */
int refuse_grad(const bk_tensor *t, PyObject *exception, const char *message);

extern const char EXPORT_GRAD[];

/* dlpack.c */
PyObject *py_dlpack(const arg *a);
PyObject *py_dlpack_device(const arg *a);
PyObject *py_from_dlpack(const arg *a);

#endif
