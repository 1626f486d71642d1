/* explain.h: why a call fits none of a callable's overloads, in PyTorch's words. */
#ifndef BK_EXPLAIN_H
#define BK_EXPLAIN_H
#include "signature.h"
#include <structmember.h>

typedef struct builtin {
    PyObject_HEAD vectorcallfunc vectorcall;
    overload *overloads; /* compiled at first use */
    const binding *rows; /* those of this name begin here; others of `where` not ours lie between */
    int n;               /* overloads */
    int older;           /* and after these, orders of arguments that are warned of */
    int where;           /* AS_FUNCTION or AS_METHOD */
    PyObject *name;
    PyObject *owner; /* the module or the type; not counted */
} builtin;

/* Raises the TypeError for a call that no overload fits; NULL. */
PyObject *explain(const builtin *f, PyObject *const *given, Py_ssize_t n, PyObject *names);

#endif
