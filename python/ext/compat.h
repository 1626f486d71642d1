/* compat.h: what depends on the CPython version, each with a portable fallback. */
#ifndef BK_COMPAT_H
#define BK_COMPAT_H
#include "pybrisk.h"

/* The value of an exact int that fits one digit (below 2^30), which nearly all are: 1 ns where the call takes 5. */
static inline bool small_int(PyObject *o, int64_t *out)
{
    if (!PyLong_CheckExact(o))
        return false;
#if PY_VERSION_HEX >= 0x030C0000 && !defined(Py_LIMITED_API)
    if (!PyUnstable_Long_IsCompact((PyLongObject *)o))
        return false;
    *out = PyUnstable_Long_CompactValue((PyLongObject *)o);
    return true;
#elif PY_VERSION_HEX >= 0x030A0000 && !defined(PYPY_VERSION)
    Py_ssize_t sign = Py_SIZE(o); /* the number of digits, negative for a negative int; zero has none */
    if ((size_t)(sign + 1) > 2)
        return false;
    *out = sign * (int64_t)((PyLongObject *)o)->ob_digit[0];
    return true;
#else
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    return !overflow;
#endif
}

/* An object from a freelist of ours lives again. */
static inline void revive(PyObject *o)
{
#if defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS) || defined(Py_GIL_DISABLED)
    _Py_NewReference(o);
#else
    Py_SET_REFCNT(o, 1);
#endif
}

/* An empty-slotted tuple of a subclass. From 3.14 a tuple caches its hash, and only tuple's own constructor marks it
 * unset. */
static inline PyObject *alloc_tuple(PyTypeObject *type, Py_ssize_t n)
{
    PyObject *tuple = type->tp_alloc(type, n);
#if PY_VERSION_HEX >= 0x030E0000
    if (tuple)
        ((PyTupleObject *)tuple)->ob_hash = -1;
#endif
    return tuple;
}

#endif
