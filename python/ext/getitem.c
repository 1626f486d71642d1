/* getitem.c: x[...] and x[...] = v for integers and slices. */
#include "binds.h"
#include "core/lock.h"
#include "ops/elementwise.h"

/* One item of the key applied to dimension *dim; NULL with an exception set. */
static bk_tensor *apply_item(bk_tensor *t, PyObject *item, int *dim)
{
    if (PySlice_Check(item)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(item, &start, &stop, &step) < 0)
            return NULL;
        bk_tensor *v = bk_slice(t, (*dim)++, start, stop, step);
        return v ? v : (bk_tensor *)py_raise();
    }
    if (item == Py_None) {
        bk_tensor *v = bk_unsqueeze(t, (*dim)++);
        return v ? v : (bk_tensor *)py_raise();
    }
    int64_t i;
    if (py_int64_from(item, &i) < 0)
        return NULL;
    bk_tensor *v = bk_select(t, *dim, i);
    return v ? v : (bk_tensor *)py_raise();
}

static bk_tensor *index_view(PyObject *self, PyObject *key)
{
    bk_tensor *t = bk_retain(((py_tensor *)self)->t);
    int dim = 0;
    Py_ssize_t n = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 1;
    for (Py_ssize_t i = 0; t && i < n; i++) {
        bk_tensor *next = apply_item(t, PyTuple_Check(key) ? PyTuple_GET_ITEM(key, i) : key, &dim);
        bk_release(t);
        t = next;
    }
    return t;
}

PyObject *py_tensor_getitem(PyObject *self, PyObject *key)
{
    bk_tensor *t = index_view(self, key);
    return t ? py_wrap(t) : NULL;
}

int py_tensor_setitem(PyObject *self, PyObject *key, PyObject *value)
{
    bk_tensor *t = index_view(self, key);
    if (!t)
        return -1;
    arg a = { .object = value };
    operand in;
    lock_take();
    bool good = py_is_tensor(value) || py_number_from(value, &a.scalar) > 0;
    int status = good && py_operand(&a, &in) ? tensor_assign(t, in, "setitem") : -1;
    lock_give();
    bk_release(t);
    if (status < 0 && !PyErr_Occurred())
        py_raise();
    return status;
}
