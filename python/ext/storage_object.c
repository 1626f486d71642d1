/* storage_object.c: brisk.UntypedStorage: the memory that tensors share, as an object.
 *
 * It stands for a cell, so it follows the memory through every write. Invariant: a cell has at most one such object
 * (cell->front), which is what lets copies and pickles see that two tensors share their memory. */
#include "binds.h"

#include <string.h>

#include "core/lock.h"
#include "graph/log.h"
#include "ops/create.h"

typedef struct storage_object {
    PyObject_HEAD cell *cell;
} storage_object;

static PyTypeObject *storage_type;

static cell *cell_of(PyObject *o) { return ((storage_object *)o)->cell; }

static PyObject *storage_of(cell *c)
{
    if (c->front)
        return Py_NewRef((PyObject *)c->front);
    storage_object *o = (storage_object *)storage_type->tp_alloc(storage_type, 0);
    if (!o)
        return NULL;
    lock_take();
    c->refs++;
    c->front = o;
    lock_give();
    o->cell = c;
    return (PyObject *)o;
}

static void storage_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    cell *c = cell_of(o);
    if (c) {
        lock_take();
        c->front = NULL;
        cell_release(c);
        lock_give();
    }
    type->tp_free(o);
    Py_DECREF(type);
}

static size_t byte_count(const cell *c)
{
    return (size_t)c->value->layout->span * dtype_size((bk_dtype)c->value->dtype);
}

/* The cell's value, evaluated; NULL with an exception set. */
static const node *evaluated(const cell *c)
{
    if (!node_evaluated(c->value) && py_flush() < 0)
        return NULL;
    return c->value;
}

int py_storage_bytes(PyObject *o, const void **data, size_t *count)
{
    if (Py_TYPE(o) != storage_type)
        return 0;
    const node *n = evaluated(cell_of(o));
    if (!n)
        return -1;
    *data = n->data;
    *count = byte_count(cell_of(o));
    return 1;
}

static PyObject *storage_nbytes(PyObject *o, PyObject *none)
{
    return (void)none, PyLong_FromSize_t(byte_count(cell_of(o)));
}
static Py_ssize_t storage_length(PyObject *o) { return (Py_ssize_t)byte_count(cell_of(o)); }

static PyObject *storage_data_ptr(PyObject *o, PyObject *none)
{
    (void)none;
    cell *c = cell_of(o);
    lock_take();
    bk_tensor *whole = cell_tensor(c, c->value->layout, 0);
    void *p = whole ? bk_data(whole) : NULL;
    bk_release(whole);
    lock_give();
    return p ? PyLong_FromVoidPtr(p) : py_raise();
}

static PyObject *storage_tolist(PyObject *o, PyObject *none)
{
    (void)none;
    const node *n = evaluated(cell_of(o));
    PyObject *bytes = n ? PyBytes_FromStringAndSize(n->data, (Py_ssize_t)byte_count(cell_of(o))) : NULL;
    PyObject *list = bytes ? PySequence_List(bytes) : NULL;
    Py_XDECREF(bytes);
    return list;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* A cell of its own with the same layout, whose memory `from` fills. NULL with an exception set. */
static PyObject *storage_copy(const layout *l, bk_dtype dtype, const void *from)
{
    lock_take();
    storage *s = storage_new((size_t)l->span * dtype_size(dtype));
    if (s && s->bytes)
        memcpy(s->data, from, s->bytes);
    bk_tensor *t = tensor_adopt(s, l, dtype);
    lock_give();
    if (!t)
        return py_raise();
    PyObject *copy = storage_of(t->cell);
    bk_release(t);
    return copy;
}

static PyObject *storage_clone(PyObject *o, PyObject *none)
{
    (void)none;
    const node *n = evaluated(cell_of(o));
    return n ? storage_copy(n->layout, (bk_dtype)n->dtype, n->data) : NULL;
}

/* copy.deepcopy remembers by itself what it has copied. */
static PyObject *storage_deepcopy(PyObject *o, PyObject *memo) { return (void)memo, storage_clone(o, NULL); }

static PyObject *ints(int n, const int64_t *v)
{
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(v[i]);
        if (item)
            PyTuple_SET_ITEM(tuple, i, item);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *storage_reduce(PyObject *o, PyObject *none)
{
    (void)none;
    const node *n = evaluated(cell_of(o));
    PyObject *module = n ? PyImport_ImportModule("brisk._C") : NULL;
    PyObject *make = module ? PyObject_GetAttrString(module, "_storage_from_bytes") : NULL;
    PyObject *result = NULL;
    if (make)
        result = Py_BuildValue("N(NNNy#)", make, py_dtype((bk_dtype)n->dtype), ints(n->layout->ndim, n->layout->sizes),
                               ints(n->layout->ndim, n->layout->strides), n->data, (Py_ssize_t)byte_count(cell_of(o)));
    Py_XDECREF(module);
    return result;
}

/* (dtype, sizes, strides, bytes) */
PyObject *py_storage_from_bytes(const arg *a)
{
    const layout *l = a[1].ints.n == a[2].ints.n ? layout_get(a[1].ints.n, a[1].ints.v, a[2].ints.v) : NULL;
    Py_buffer b;
    if (!l)
        return bk_error() ? py_raise() : PyErr_Format(PyExc_ValueError, "a storage has as many strides as sizes");
    if (PyObject_GetBuffer(a[3].object, &b, PyBUF_SIMPLE))
        return NULL;
    PyObject *o = NULL;
    if ((size_t)b.len == (size_t)l->span * dtype_size(a[0].dtype))
        o = storage_copy(l, a[0].dtype, b.buf);
    else
        PyErr_Format(PyExc_ValueError, "the storage has %zd bytes, its sizes ask for %zu", b.len,
                     (size_t)l->span * dtype_size(a[0].dtype));
    PyBuffer_Release(&b);
    return o;
}

/* --- between tensors and their storages ------------------------------------------------------------------------------
 */

PyObject *py_untyped_storage(const arg *a) { return storage_of(a[0].tensor->cell); }

/* (storage, offset, sizes, strides): a tensor in that memory. */
PyObject *py_tensor_on_storage(const arg *a)
{
    if (Py_TYPE(a[0].object) != storage_type)
        return PyErr_Format(PyExc_TypeError, "expected an UntypedStorage, not %s", py_type_name(a[0].object));
    if (a[2].ints.n != a[3].ints.n)
        return PyErr_Format(PyExc_RuntimeError, "mismatch in length of strides and shape");
    lock_take();
    bk_tensor *t = cell_tensor_checked(cell_of(a[0].object), a[2].ints.n, a[2].ints.v, a[3].ints.v, a[1].i);
    lock_give();
    return py_wrap(t);
}

static PyMethodDef storage_methods[] = {
    { "nbytes", storage_nbytes, METH_NOARGS, "How many bytes it has." },
    { "size", storage_nbytes, METH_NOARGS, "How many bytes it has." },
    { "data_ptr", storage_data_ptr, METH_NOARGS, "The address of the first byte, which stays there." },
    { "tolist", storage_tolist, METH_NOARGS, "The bytes." },
    { "clone", storage_clone, METH_NOARGS, "A copy." },
    { "__deepcopy__", storage_deepcopy, METH_O, NULL },
    { "__reduce__", storage_reduce, METH_NOARGS, NULL },
    { 0 },
};

static PyType_Slot storage_slots[] = {
    { Py_tp_doc, "The memory that tensors share, as bytes." },
    { Py_tp_dealloc, storage_dealloc },
    { Py_tp_methods, storage_methods },
    { Py_sq_length, storage_length },
    { 0, NULL },
};
static PyType_Spec storage_spec = { "brisk.UntypedStorage", sizeof(storage_object), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, storage_slots };

int storage_init(PyObject *module) { return py_add_type(module, &storage_spec, &storage_type); }
