/* legacy.c: the constructors that came before torch.tensor: Tensor(2, 3), Tensor([1, 2]), LongTensor(...). */
#include "factories.h"

#include "ops/create.h"

static bk_tensor *uninitialised(int n, const int64_t *sizes, bk_dtype dtype)
{
    bk_tensor *t = bk_empty(n, sizes, dtype);
    if (!t)
        py_raise();
    return t;
}

/* Tensor(2, 3) or Tensor(Size([2, 3])): the items are sizes. */
static bk_tensor *by_sizes(PyObject *items, bk_dtype dtype)
{
    int64_t sizes[BK_MAX_NDIM];
    Py_ssize_t n = PyTuple_GET_SIZE(items);
    if (n > BK_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "tensors have at most %d dimensions, not %zd", BK_MAX_NDIM, n);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (py_int64_from(PyTuple_GET_ITEM(items, i), &sizes[i]))
            return NULL;
    return uninitialised((int)n, sizes, dtype);
}

static bool is_int(PyObject *o) { return PyLong_Check(o) && !PyBool_Check(o); }

static bk_tensor *by_tensor(PyObject *o, bk_dtype dtype, bool any)
{
    bk_tensor *t = ((py_tensor *)o)->t;
    if (!any && tensor_dtype(t) != dtype) {
        PyErr_Format(PyExc_TypeError, "expected %s (got %s)", bk_dtype_name(dtype), bk_dtype_name(tensor_dtype(t)));
        return NULL;
    }
    bk_tensor *same = made_by(bk_view(t, t->layout->ndim, t->layout->sizes), VIEW_alias);
    if (!same)
        py_raise();
    return same;
}

/* `any`: Tensor(t) takes tensors of every dtype as they are. NULL with an exception set. */
static bk_tensor *legacy(PyObject *args, bk_dtype dtype, bool any)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n == 0)
        return uninitialised(1, (int64_t[]){ 0 }, dtype);
    PyObject *first = PyTuple_GET_ITEM(args, 0);
    if (n > 1 || is_int(first))
        return by_sizes(args, dtype);
    if (Py_TYPE(first) == py_size_type)
        return by_sizes(first, dtype);
    if (py_is_tensor(first))
        return by_tensor(first, dtype, any);
    if (!PySequence_Check(first) && !PyObject_CheckBuffer(first)) {
        PyErr_Format(PyExc_TypeError, "new(): data must be a sequence (got %s)", py_type_name(first));
        return NULL;
    }
    return tensor_from_python(first, (int)dtype);
}

PyObject *py_tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs; /* device=, and what a subclass's __init__ takes */
    bk_tensor *t = legacy(args, bk_get_default_dtype(), true);
    return t ? py_wrap_as(type, t) : NULL;
}

PyObject *py_legacy_new(const arg *a)
{
    if (!PyTuple_Check(a[1].object))
        return PyErr_Format(PyExc_TypeError, "expected a tuple, not %s", py_type_name(a[1].object));
    bk_tensor *t = legacy(a[1].object, a[0].dtype, false);
    return t ? py_wrap(t) : NULL;
}

/* Tensor._make_subclass(cls, data, require_grad): data's memory as an instance of cls. A parameter is computed when it
 * is made: else the log of a program's first step would begin with initial values, and the second need another plan. */
PyObject *py_make_subclass(const arg *a)
{
    PyTypeObject *type = (PyTypeObject *)a[0].object;
    if (!PyType_Check(a[0].object) || !PyType_IsSubtype(type, py_tensor_type))
        return PyErr_Format(PyExc_TypeError, "cls must be a subclass of Tensor (got %s)", py_type_name(a[0].object));
    if (a[2].b && !dtype_is_float(tensor_dtype(a[1].tensor)))
        return PyErr_Format(PyExc_RuntimeError,
                            "Only Tensors of floating point and complex dtype can require gradients");
    if (a[2].b && a[1].tensor->cell->value->flags & NODE_PENDING && py_flush() < 0)
        return NULL;
    bk_tensor *t = bk_detach(a[1].tensor);
    if (t && a[2].b && bk_set_requires_grad(t, true) < 0) {
        bk_release(t);
        t = NULL;
    }
    return py_wrap_as(type, t);
}
