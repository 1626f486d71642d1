/* bind_shape.c: what a tensor's sizes are, and views and copies with other ones. */
#include "binds.h"

#include <string.h>

#include "core/scope.h"
#include "core/error.h"
#include "core/layout.h"
#include "core/memory.h"
#include "ops/elementwise.h"
#include "ops/create.h"
#include "ops/view_lists.h"

/* --- lists ----------------------------------------------------------------------------------------------------------
 */

static int *dims_of(const arg *a, int dims[static BK_MAX_NDIM])
{
    for (int k = 0; k < a->ints.n; k++)
        dims[k] = (int)a->ints.v[k];
    return dims;
}

/* A tuple of handles, whose references it takes over. */
static PyObject *tuple_of(bk_tensor **v, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = tuple ? py_wrap(v[k]) : (bk_release(v[k]), NULL);
        if (tuple && !o)
            Py_CLEAR(tuple);
        if (tuple)
            PyTuple_SET_ITEM(tuple, k, o);
    }
    return tuple;
}

/* Views along dim between neighbouring bounds. */
static PyObject *parts(const bk_tensor *t, int dim, const int64_t *bounds, Py_ssize_t n, view_op op, int first)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t k = 0; tuple && k < n; k++) {
        int64_t end = bounds[k + 1] < bounds[k] ? bounds[k] : bounds[k + 1];
        PyObject *o = py_wrap(made_as_part(bk_slice(t, dim, bounds[k], end, 1), op, op == VIEW_slice ? 0 : first + k));
        if (!o)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, k, o);
    }
    return tuple;
}

/* The dimension of a tensor that has some; -1 with an exception set. */
static int sized_dim(const bk_tensor *t, int64_t dim, const char *op)
{
    if (!t->layout->ndim) {
        PyErr_Format(PyExc_RuntimeError, "%s expects at least a 1-dimensional tensor", op);
        return -1;
    }
    int d = layout_dim(t->layout, dim);
    if (d < 0)
        py_raise();
    return d;
}

/* --- facts
 * ------------------------------------------------------------------------------------------------------------ */

static PyObject *py_size_of(const arg *a)
{
    const layout *l = a[0].tensor->layout;
    if (!a[1].given)
        return py_size(l->ndim, l->sizes);
    if (!l->ndim)
        return PyErr_Format(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions",
                            (long long)a[1].i);
    int d = layout_dim(l, a[1].i);
    return d < 0 ? py_raise() : PyLong_FromLongLong(l->sizes[d]);
}

static PyObject *py_stride(const arg *a)
{
    const layout *l = a[0].tensor->layout;
    if (a[1].given) {
        if (!l->ndim)
            return PyErr_Format(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions",
                                (long long)a[1].i);
        int d = layout_dim(l, a[1].i);
        return d < 0 ? py_raise() : PyLong_FromLongLong(l->strides[d]);
    }
    PyObject *tuple = PyTuple_New(l->ndim);
    for (int d = 0; tuple && d < l->ndim; d++)
        PyTuple_SET_ITEM(tuple, d, PyLong_FromLongLong(l->strides[d]));
    return tuple;
}

static PyObject *py_dim(const arg *a) { return PyLong_FromLong(a[0].tensor->layout->ndim); }
static PyObject *py_numel(const arg *a) { return PyLong_FromLongLong(a[0].tensor->layout->numel); }
static PyObject *py_storage_offset(const arg *a) { return PyLong_FromLongLong(bk_storage_offset(a[0].tensor)); }
static PyObject *py_element_size(const arg *a) { return PyLong_FromSize_t(dtype_size(tensor_dtype(a[0].tensor))); }

/* --- views
 * -------------------------------------------------------------------------------------------------------------- */

static PyObject *py_view(const arg *a) { return py_wrap(bk_view(a[0].tensor, a[1].ints.n, a[1].ints.v)); }
static PyObject *py_view_dtype(const arg *a) { return py_wrap(bk_view_dtype(a[0].tensor, a[1].dtype)); }
static PyObject *py_reshape(const arg *a) { return py_wrap(bk_reshape(a[0].tensor, a[1].ints.n, a[1].ints.v)); }
static PyObject *py_expand(const arg *a) { return py_wrap(bk_expand(a[0].tensor, a[1].ints.n, a[1].ints.v)); }
static PyObject *py_view_as(const arg *a)
{
    return py_wrap(bk_view(a[0].tensor, bk_ndim(a[1].tensor), bk_sizes(a[1].tensor)));
}
static PyObject *py_reshape_as(const arg *a)
{
    return py_wrap(bk_reshape(a[0].tensor, bk_ndim(a[1].tensor), bk_sizes(a[1].tensor)));
}
static PyObject *py_expand_as(const arg *a)
{
    return py_wrap(bk_expand(a[0].tensor, bk_ndim(a[1].tensor), bk_sizes(a[1].tensor)));
}

static PyObject *py_permute(const arg *a)
{
    int dims[BK_MAX_NDIM];
    return py_wrap(bk_permute(a[0].tensor, a[1].ints.n, dims_of(&a[1], dims)));
}

static PyObject *py_transpose(const arg *a) { return py_wrap(bk_transpose(a[0].tensor, (int)a[1].i, (int)a[2].i)); }
static PyObject *py_adjoint(const arg *a)
{
    int n = bk_ndim(a[0].tensor);
    if (n == 1)
        return PyErr_Format(PyExc_RuntimeError,
                            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.");
    return n ? py_wrap(bk_transpose(a[0].tensor, -2, -1)) : Py_NewRef(a[0].object);
}

/* What reversed(x) iterates over. */
static PyObject *py_reversed(const arg *a)
{
    return bk_ndim(a[0].tensor) ? py_wrap(bk_flip(a[0].tensor, 1, (int[]){ 0 })) : Py_NewRef(a[0].object);
}
static PyObject *py_t(const arg *a) { return py_wrap(bk_t(a[0].tensor)); }
static PyObject *py_unsqueeze(const arg *a) { return py_wrap(bk_unsqueeze(a[0].tensor, (int)a[1].i)); }

/* self turned into the view, which is stolen. */
static PyObject *become(const arg *self, bk_tensor *view)
{
    int status = tensor_become(self->tensor, view);
    bk_release(view);
    return py_in_place(self, status);
}

static PyObject *py_t_(const arg *a) { return become(&a[0], bk_t(a[0].tensor)); }
static PyObject *py_transpose_(const arg *a)
{
    return become(&a[0], bk_transpose(a[0].tensor, (int)a[1].i, (int)a[2].i));
}
static PyObject *py_unsqueeze_(const arg *a) { return become(&a[0], bk_unsqueeze(a[0].tensor, (int)a[1].i)); }
static PyObject *py_squeeze_all_(const arg *a)
{
    return become(&a[0], made_by(bk_squeeze(a[0].tensor, BK_MAX_NDIM), VIEW_squeeze_all_));
}
static PyObject *py_squeeze_(const arg *a)
{
    int dims[BK_MAX_NDIM] = { 0 };
    bool several = a[1].object && PySequence_Check(a[1].object);
    bk_tensor *r = bk_squeeze_dims(a[0].tensor, a[1].ints.n, dims_of(&a[1], dims));
    return become(&a[0], made_by(r, several ? VIEW_squeeze_dims_ : VIEW_squeeze_own));
}

static PyObject *py_squeeze_all(const arg *a) { return py_wrap(bk_squeeze(a[0].tensor, BK_MAX_NDIM)); }

static PyObject *py_squeeze(const arg *a)
{
    int dims[BK_MAX_NDIM];
    bk_tensor *r = bk_squeeze_dims(a[0].tensor, a[1].ints.n, dims_of(&a[1], dims));
    bool several = a[1].object && PySequence_Check(a[1].object); /* which PyTorch has another function for */
    return py_wrap(several ? r : made_by(r, VIEW_squeeze_dim));
}

static PyObject *py_flatten(const arg *a) { return py_wrap(bk_flatten(a[0].tensor, (int)a[1].i, (int)a[2].i)); }
static PyObject *py_ravel(const arg *a)
{
    bk_scope_push();
    bk_tensor *r = bk_reshape(bk_contiguous(a[0].tensor), 1, (int64_t[]){ -1 });
    if (r)
        bk_scope_keep(r);
    bk_scope_pop();
    return py_wrap(r);
}
static PyObject *py_unflatten(const arg *a)
{
    return py_wrap(bk_unflatten(a[0].tensor, (int)a[1].i, a[2].ints.n, a[2].ints.v));
}

static PyObject *py_movedim(const arg *a)
{
    int from[BK_MAX_NDIM], to[BK_MAX_NDIM];
    if (a[1].ints.n != a[2].ints.n)
        return PyErr_Format(
            PyExc_RuntimeError,
            "movedim: Invalid source or destination dims: source (%d dims) should contain the same number of "
            "dims as destination (%d dims)",
            a[1].ints.n, a[2].ints.n);
    return py_wrap(bk_movedim(a[0].tensor, a[1].ints.n, dims_of(&a[1], from), dims_of(&a[2], to)));
}

static PyObject *py_narrow(const arg *a) { return py_wrap(bk_narrow(a[0].tensor, (int)a[1].i, a[2].i, a[3].i)); }

static PyObject *py_select(const arg *a)
{
    const layout *l = a[0].tensor->layout;
    char text[200];
    int d = l->ndim ? layout_dim(l, a[1].i) : -2;
    if (d >= 0 && (a[2].i < -l->sizes[d] || a[2].i >= l->sizes[d]))
        return PyErr_Format(PyExc_IndexError, "select(): index %lld out of range for tensor of size %s at dimension %d",
                            (long long)a[2].i, layout_text(l, text), d);
    return d == -1 ? py_raise() : py_wrap(bk_select(a[0].tensor, (int)a[1].i, a[2].i));
}

static PyObject *py_unfold(const arg *a) { return py_wrap(bk_unfold(a[0].tensor, (int)a[1].i, a[2].i, a[3].i)); }
static PyObject *py_diagonal(const arg *a)
{
    return py_wrap(bk_diagonal(a[0].tensor, a[1].i, (int)a[2].i, (int)a[3].i));
}

/* NULL with an exception set. */
static bk_tensor *strided(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    char sizes[200], strides[200];
    if (a[1].ints.n != a[2].ints.n)
        return PyErr_Format(PyExc_RuntimeError, "mismatch in length of strides and shape"), NULL;
    for (int d = 0; d < a[2].ints.n; d++)
        if (a[2].ints.v[d] < 0)
            return PyErr_Format(PyExc_RuntimeError,
                                "as_strided: Negative strides are not supported at the moment, got strides: %s",
                                sizes_text(a[2].ints.n, a[2].ints.v, strides)),
                   NULL;
    int64_t offset = a[3].given ? a[3].i : bk_storage_offset(t), span = t->cell->value->layout->span;
    int64_t bytes = (int64_t)dtype_size(tensor_dtype(t));
    const layout *l = strides_check(a[1].ints.n, a[1].ints.v, a[2].ints.v) < 0
                          ? NULL
                          : layout_get(a[1].ints.n, a[1].ints.v, a[2].ints.v);
    if (l && l->numel && offset >= 0 && offset + l->span > span)
        return PyErr_Format(
                   PyExc_RuntimeError,
                   "setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %lld requiring a storage size "
                   "of %lld are out of bounds for storage of size %lld",
                   sizes_text(l->ndim, l->sizes, sizes), sizes_text(l->ndim, l->strides, strides), (long long)offset,
                   (long long)bytes, (long long)((offset + l->span) * bytes), (long long)(span * bytes)),
               NULL;
    bk_tensor *v = l ? bk_as_strided(t, l->ndim, l->sizes, l->strides, offset) : NULL;
    return v ? v : (py_raise(), NULL);
}

static PyObject *py_as_strided(const arg *a)
{
    bk_tensor *v = strided(a);
    return v ? py_wrap(v) : NULL;
}

static PyObject *py_as_strided_(const arg *a)
{
    bk_tensor *v = strided(a);
    return v ? become(&a[0], v) : NULL;
}

/* --- parts
 * ---------------------------------------------------------------------------------------------------------------- */

/* Views of `step` slices each. */
static PyObject *even_parts(const bk_tensor *t, int dim, int64_t step)
{
    int64_t size = t->layout->sizes[dim], n = size ? (size + step - 1) / step : 1;
    int64_t *bounds = mem_alloc((size_t)(n + 1) * sizeof *bounds);
    if (!bounds)
        return PyErr_NoMemory();
    for (int64_t k = 0; k <= n; k++)
        bounds[k] = k * step < size ? k * step : size;
    PyObject *r = parts(t, dim, bounds, (Py_ssize_t)n, VIEW_split, 0);
    mem_free(bounds);
    return r;
}

static PyObject *py_split(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    int d = sized_dim(t, a[2].i, "split");
    if (d < 0)
        return NULL;
    int64_t size = t->layout->sizes[d];
    if (a[1].i < 0)
        return PyErr_Format(PyExc_RuntimeError, "split expects split_size be non-negative, but got split_size=%lld",
                            (long long)a[1].i);
    if (a[1].i == 0 && size)
        return PyErr_Format(PyExc_RuntimeError,
                            "split_size can only be 0 if dimension size is 0, but got dimension size of %lld",
                            (long long)size);
    return even_parts(t, d, a[1].i ? a[1].i : 1);
}

/* A Python sequence of ints; NULL with an exception set. room for one more before the first. */
static int64_t *int_list(PyObject *o, Py_ssize_t *n)
{
    PyObject *fast = PySequence_Fast(o, "split expects an int or a list of ints");
    if (!fast)
        return NULL;
    *n = PySequence_Fast_GET_SIZE(fast);
    int64_t *v = mem_alloc((size_t)(*n + 2) * sizeof *v);
    if (!v)
        PyErr_NoMemory();
    for (Py_ssize_t k = 0; v && k < *n; k++)
        if (py_int64_from(PySequence_Fast_GET_ITEM(fast, k), &v[k + 1]) < 0) {
            mem_free(v);
            v = NULL;
        }
    Py_DECREF(fast);
    return v;
}

/* "[1, 1]" of any length. */
static PyObject *refuse_sizes(const int64_t *v, Py_ssize_t n, int64_t size, int64_t dim, bool negative)
{
    char text[200];
    sizes_text((int)(n < 16 ? n : 16), v, text);
    if (negative)
        return PyErr_Format(PyExc_RuntimeError,
                            "split_with_sizes expects split_sizes have only non-negative entries, but got "
                            "split_sizes=%s",
                            text);
    return PyErr_Format(PyExc_RuntimeError,
                        "split_with_sizes expects split_sizes to sum exactly to %lld (input tensor's size "
                        "at dimension %lld), but got split_sizes=%s",
                        (long long)size, (long long)dim, text);
}

static PyObject *py_split_sizes(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    int d = sized_dim(t, a[2].i, "split");
    Py_ssize_t n;
    int64_t *v = d < 0 ? NULL : int_list(a[1].object, &n);
    if (!v)
        return NULL;
    int64_t sum = 0;
    bool negative = false;
    for (Py_ssize_t k = 1; k <= n; k++) {
        negative |= v[k] < 0;
        sum += v[k];
    }
    PyObject *r = NULL;
    if (negative || sum != t->layout->sizes[d]) {
        refuse_sizes(v + 1, n, t->layout->sizes[d], a[2].i, negative);
    } else {
        int first = view_list_for(t, v + 1, (int)n);
        v[0] = 0;
        for (Py_ssize_t k = 1; k <= n; k++)
            v[k] += v[k - 1];
        r = parts(t, d, v, n, VIEW_split_sizes, first);
    }
    mem_free(v);
    return r;
}

static PyObject *py_chunk(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    int d = sized_dim(t, a[2].i, "chunk");
    if (d < 0)
        return NULL;
    if (a[1].i <= 0)
        return PyErr_Format(PyExc_RuntimeError, "chunk expects `chunks` to be greater than 0, got: %lld",
                            (long long)a[1].i);
    int64_t size = t->layout->sizes[d], step = (size + a[1].i - 1) / a[1].i;
    if (step)
        return even_parts(t, d, step);
    int64_t *none = mem_alloc_zero((size_t)(a[1].i + 1) * sizeof *none);
    PyObject *r = none ? parts(t, d, none, (Py_ssize_t)a[1].i, VIEW_split, 0) : PyErr_NoMemory();
    mem_free(none);
    return r;
}

/* As parts of which PyTorch does not know that they share memory. */
static PyObject *as_unsafe(PyObject *views)
{
    for (Py_ssize_t k = 0; views && k < PyTuple_GET_SIZE(views); k++) {
        bk_tensor *t = ((py_tensor *)PyTuple_GET_ITEM(views, k))->t;
        t->made_by = t->made_by == VIEW_split ? VIEW_unsafe_split : VIEW_unsafe_split_sizes;
    }
    return views;
}

static PyObject *py_unsafe_split(const arg *a) { return as_unsafe(py_split(a)); }
static PyObject *py_unsafe_split_sizes(const arg *a) { return as_unsafe(py_split_sizes(a)); }
static PyObject *py_unsafe_chunk(const arg *a) { return as_unsafe(py_chunk(a)); }

static PyObject *py_tensor_split(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    int d = sized_dim(t, a[2].i, "tensor_split");
    if (d < 0)
        return NULL;
    if (a[1].i <= 0)
        return PyErr_Format(PyExc_RuntimeError, "number of sections must be larger than 0, got %lld",
                            (long long)a[1].i);
    int64_t size = t->layout->sizes[d], n = a[1].i;
    int64_t *bounds = mem_alloc((size_t)(n + 1) * sizeof *bounds);
    if (!bounds)
        return PyErr_NoMemory();
    bounds[0] = 0;
    for (int64_t k = 0; k < n; k++)
        bounds[k + 1] = bounds[k] + size / n + (k < size % n);
    PyObject *r = parts(t, d, bounds, (Py_ssize_t)n, VIEW_slice, 0);
    mem_free(bounds);
    return r;
}

static PyObject *py_tensor_split_at(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    int d = sized_dim(t, a[2].i, "tensor_split");
    Py_ssize_t n;
    int64_t *v = d < 0 ? NULL : int_list(a[1].object, &n);
    if (!v)
        return NULL;
    int64_t size = t->layout->sizes[d];
    v[0] = 0;
    v[n + 1] = size;
    for (Py_ssize_t k = 1; k <= n; k++) {
        v[k] = v[k] < 0 ? v[k] + size : v[k];
        v[k] = v[k] < 0 ? 0 : v[k] > size ? size : v[k];
    }
    PyObject *r = parts(t, d, v, n + 1, VIEW_slice, 0);
    mem_free(v);
    return r;
}

static PyObject *py_unbind(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    int d = layout_dim(t->layout, a[1].i);
    if (d < 0)
        return py_raise();
    if (!t->layout->ndim)
        return PyErr_Format(PyExc_IndexError, "Dimension specified as %lld but tensor has no dimensions",
                            (long long)a[1].i);
    int64_t n = t->layout->sizes[d];
    bk_tensor **v = mem_alloc((size_t)(n + 1) * sizeof *v);
    if (!v)
        return PyErr_NoMemory();
    PyObject *r = bk_unbind(t, d, v) < 0 ? py_raise() : tuple_of(v, (Py_ssize_t)n);
    mem_free(v);
    return r;
}

/* --- joining
 * ---------------------------------------------------------------------------------------------------------------- */

static PyObject *py_cat(const arg *a) { return py_out(bk_cat(a[0].tensors.v, a[0].tensors.n, (int)a[1].i), &a[2]); }
static PyObject *py_stack(const arg *a) { return py_out(bk_stack(a[0].tensors.v, a[0].tensors.n, (int)a[1].i), &a[2]); }

/* t with at least n dimensions: new ones stand first, and for three of them also last. */
static bk_tensor *at_least(const bk_tensor *t, int n)
{
    const layout *l = t->layout;
    if (l->ndim >= n)
        return bk_view(t, l->ndim, l->sizes) ? bk_retain((bk_tensor *)(uintptr_t)t) : NULL;
    int64_t one = 1;
    if (n == 1)
        return bk_reshape(t, 1, &one);
    if (n == 2)
        return l->ndim ? bk_unsqueeze(t, 0) : bk_reshape(t, 2, (int64_t[]){ 1, 1 });
    if (l->ndim == 2)
        return bk_unsqueeze(t, -1);
    if (!l->ndim)
        return bk_reshape(t, 3, (int64_t[]){ 1, 1, 1 });
    bk_scope_push();
    return scope_return(bk_unsqueeze(bk_unsqueeze(t, 0), -1));
}

typedef bk_tensor *(*prepare)(const bk_tensor *t);
static bk_tensor *one_d(const bk_tensor *t) { return at_least(t, 1); }
static bk_tensor *two_d(const bk_tensor *t) { return at_least(t, 2); }
static bk_tensor *three_d(const bk_tensor *t) { return at_least(t, 3); }
static bk_tensor *column(const bk_tensor *t)
{
    return bk_ndim(t) < 2 ? bk_reshape(t, 2, (int64_t[]){ bk_numel(t), 1 }) : at_least(t, 2);
}

static PyObject *join_prepared(const char *name, const arg *list, prepare how, int dim, const arg *out)
{
    int n = list->tensors.n;
    if (!n)
        return PyErr_Format(PyExc_RuntimeError, "%s expects a non-empty TensorList", name);
    bk_scope_push();
    bk_tensor **v = mem_alloc((size_t)n * sizeof *v), *r = NULL;
    bool good = v != NULL;
    for (int k = 0; good && k < n; k++)
        good = (v[k] = how(list->tensors.v[k])) != NULL;
    if (good)
        r = bk_cat(v, n, dim == 1 && bk_ndim(v[0]) == 1 ? 0 : dim);
    mem_free(v);
    if (r)
        bk_scope_keep(r);
    bk_scope_pop();
    return py_out(r, out);
}

static PyObject *py_hstack(const arg *a) { return join_prepared("hstack", &a[0], one_d, 1, &a[1]); }
static PyObject *py_vstack(const arg *a) { return join_prepared("vstack", &a[0], two_d, 0, &a[1]); }
static PyObject *py_dstack(const arg *a) { return join_prepared("dstack", &a[0], three_d, 2, &a[1]); }
static PyObject *py_column_stack(const arg *a) { return join_prepared("column_stack", &a[0], column, 1, &a[1]); }
static PyObject *py_block_diag(const arg *a) { return py_wrap(bk_block_diag(a[0].tensors.v, a[0].tensors.n)); }

static PyObject *many_at_least(const arg *list, int n)
{
    PyObject *tuple = PyTuple_New(list->tensors.n);
    for (int k = 0; tuple && k < list->tensors.n; k++) {
        PyObject *o = py_wrap(at_least(list->tensors.v[k], n));
        if (!o)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, k, o);
    }
    return tuple;
}

static PyObject *py_atleast_1d(const arg *a) { return py_wrap(at_least(a[0].tensor, 1)); }
static PyObject *py_atleast_2d(const arg *a) { return py_wrap(at_least(a[0].tensor, 2)); }
static PyObject *py_atleast_3d(const arg *a) { return py_wrap(at_least(a[0].tensor, 3)); }
static PyObject *py_atleast_1d_of(const arg *a) { return many_at_least(&a[0], 1); }
static PyObject *py_atleast_2d_of(const arg *a) { return many_at_least(&a[0], 2); }
static PyObject *py_atleast_3d_of(const arg *a) { return many_at_least(&a[0], 3); }

/* --- copies
 * ------------------------------------------------------------------------------------------------------------------ */

static PyObject *py_flip(const arg *a)
{
    int dims[BK_MAX_NDIM];
    return py_wrap(bk_flip(a[0].tensor, a[1].ints.n, dims_of(&a[1], dims)));
}

static PyObject *flip_one(const arg *a, int dim, int least, const char *name)
{
    if (bk_ndim(a[0].tensor) < least)
        return PyErr_Format(PyExc_RuntimeError, "Input must be >= %d-d.", least);
    (void)name;
    return py_wrap(bk_flip(a[0].tensor, 1, &dim));
}
static PyObject *py_fliplr(const arg *a) { return flip_one(a, 1, 2, "fliplr"); }
static PyObject *py_flipud(const arg *a) { return flip_one(a, 0, 1, "flipud"); }

static PyObject *py_roll(const arg *a)
{
    int dims[BK_MAX_NDIM];
    return py_wrap(bk_roll(a[0].tensor, a[1].ints.n, a[1].ints.v, a[2].given ? a[2].ints.n : 0, dims_of(&a[2], dims)));
}

static PyObject *py_rot90(const arg *a)
{
    if (a[2].given && a[2].ints.n != 2)
        return PyErr_Format(PyExc_RuntimeError, "expected total rotation dims == 2, but got dims = %d", a[2].ints.n);
    return py_wrap(
        bk_rot90(a[0].tensor, a[1].i, a[2].given ? (int)a[2].ints.v[0] : 0, a[2].given ? (int)a[2].ints.v[1] : 1));
}

static PyObject *py_repeat(const arg *a) { return py_wrap(bk_repeat(a[0].tensor, a[1].ints.n, a[1].ints.v)); }
static PyObject *py_tile(const arg *a) { return py_wrap(bk_tile(a[0].tensor, a[1].ints.n, a[1].ints.v)); }
static int dim_or_flat(const arg *a) { return a->given ? (int)a->i : BK_MAX_NDIM; }
/* Each index as often as is counted for it. */
static PyObject *py_repeat_counts(const arg *a)
{
    bk_scope_push();
    bk_tensor *all = bk_arange_int(0, bk_numel(a[0].tensor), 1, BK_INT64);
    bk_tensor *r = all ? bk_repeat_interleave(all, a[0].tensor, 0) : NULL;
    if (r)
        bk_scope_keep(r);
    bk_scope_pop();
    return py_wrap(r);
}

static PyObject *py_repeat_interleave(const arg *a)
{
    return py_wrap(bk_repeat_interleave_s(a[0].tensor, a[1].i, dim_or_flat(&a[2])));
}
static PyObject *py_repeat_interleave_by(const arg *a)
{
    return py_wrap(bk_repeat_interleave(a[0].tensor, a[1].tensor, dim_or_flat(&a[2])));
}
static PyObject *py_diag(const arg *a) { return py_out(bk_diag(a[0].tensor, a[1].i), &a[2]); }
static PyObject *py_diag_embed(const arg *a)
{
    return py_wrap(bk_diag_embed(a[0].tensor, a[1].i, (int)a[2].i, (int)a[3].i));
}

static PyObject *py_diagflat(const arg *a)
{
    bk_scope_push();
    bk_tensor *r = bk_diag_embed(bk_view(bk_contiguous(a[0].tensor), 1, (int64_t[]){ -1 }), a[1].i, 0, 1);
    if (r)
        bk_scope_keep(r);
    bk_scope_pop();
    return py_wrap(r);
}

static PyObject *py_contiguous(const arg *a) { return py_wrap(bk_contiguous(a[0].tensor)); }
static PyObject *py_clone(const arg *a)
{
    bool plain = a[1].given && a[1].memory_format == FORMAT_CONTIGUOUS;
    const bk_tensor *t = a[0].tensor;
    return py_wrap(plain ? copy_as(t, t->layout->plain, tensor_dtype(t)) : bk_clone(t));
}

enum { BOTH = AS_FUNCTION | AS_METHOD };

const binding shape_rows[] = {
    { AS_METHOD, "size(Tensor self, int? dim=None)", py_size_of, "The sizes, or one of them." },
    { AS_METHOD, "stride(Tensor self, int? dim=None)", py_stride, "The strides in elements, or one of them." },
    { AS_METHOD, "dim(Tensor self)", py_dim, NULL },
    { AS_METHOD, "ndimension(Tensor self)", py_dim, NULL },
    { BOTH, "numel(Tensor self)", py_numel, NULL },
    { AS_METHOD, "nelement(Tensor self)", py_numel, NULL },
    { AS_METHOD, "storage_offset(Tensor self)", py_storage_offset, NULL },
    { AS_METHOD, "element_size(Tensor self)", py_element_size, NULL },

    { AS_METHOD, "view(Tensor self, dtype dtype)", py_view_dtype, NULL },
    { AS_METHOD, "view(Tensor self, int[] size)", py_view, NULL },
    { AS_METHOD, "view_as(Tensor self, Tensor other)", py_view_as, NULL },
    { BOTH, "reshape(Tensor self, int[] shape)", py_reshape, NULL },
    { AS_METHOD, "reshape_as(Tensor self, Tensor other)", py_reshape_as, NULL },
    { AS_METHOD, "expand(Tensor self, int[] size)", py_expand, NULL },
    { AS_METHOD, "expand_as(Tensor self, Tensor other)", py_expand_as, NULL },
    { BOTH, "broadcast_to(Tensor self, int[] size)", py_expand, NULL },
    { BOTH, "permute(Tensor self, int[] dims)", py_permute, NULL },
    { BOTH, "transpose(Tensor self, int dim0, int dim1)", py_transpose, NULL },
    { BOTH, "swapaxes(Tensor self, int axis0, int axis1)", py_transpose, NULL },
    { BOTH, "swapdims(Tensor self, int dim0, int dim1)", py_transpose, NULL },
    { AS_METHOD, "transpose_(Tensor self, int dim0, int dim1)", py_transpose_, NULL },
    { AS_METHOD, "swapaxes_(Tensor self, int axis0, int axis1)", py_transpose_, NULL },
    { AS_METHOD, "swapdims_(Tensor self, int dim0, int dim1)", py_transpose_, NULL },
    { BOTH, "t(Tensor self)", py_t, NULL },
    { AS_METHOD, "t_(Tensor self)", py_t_, NULL },
    { BOTH, "adjoint(Tensor self)", py_adjoint, NULL },
    { AS_METHOD, "__reversed__(Tensor self)", py_reversed, NULL },
    { BOTH, "movedim(Tensor self, int[1] source, int[1] destination)", py_movedim, NULL },
    { BOTH, "moveaxis(Tensor self, int[1] source, int[1] destination)", py_movedim, NULL },
    { BOTH, "squeeze(Tensor self)", py_squeeze_all, NULL },
    { BOTH, "squeeze(Tensor self, int[1] dim)", py_squeeze, NULL },
    { AS_METHOD, "squeeze_(Tensor self)", py_squeeze_all_, NULL },
    { AS_METHOD, "squeeze_(Tensor self, int[1] dim)", py_squeeze_, NULL },
    { BOTH, "unsqueeze(Tensor self, int dim)", py_unsqueeze, NULL },
    { AS_METHOD, "unsqueeze_(Tensor self, int dim)", py_unsqueeze_, NULL },
    { BOTH, "flatten(Tensor self, int start_dim=0, int end_dim=-1)", py_flatten, NULL },
    { BOTH, "ravel(Tensor self)", py_ravel, NULL },
    { BOTH, "unflatten(Tensor self, int dim, int[] sizes)", py_unflatten, NULL },
    { BOTH, "narrow(Tensor self, int dim, int start, int length)", py_narrow, NULL },
    { BOTH, "select(Tensor self, int dim, int index)", py_select, NULL },
    { AS_METHOD, "unfold(Tensor self, int dimension, int size, int step)", py_unfold, NULL },
    { BOTH, "diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1)", py_diagonal, NULL },
    { BOTH, "as_strided(Tensor self, int[] size, int[] stride, int? storage_offset=None)", py_as_strided, NULL },
    { AS_METHOD, "as_strided_(Tensor self, int[] size, int[] stride, int? storage_offset=None)", py_as_strided_, NULL },

    { BOTH, "split(Tensor self, int split_size, int dim=0)", py_split, NULL },
    { BOTH, "split(Tensor self, int split_size_or_sections, int dim=0)", py_split, NULL },
    { BOTH, "split(Tensor self, Object split_size_or_sections, int dim=0)", py_split_sizes, NULL },
    { BOTH, "split(Tensor self, Object split_size, int dim=0)", py_split_sizes, NULL },
    { BOTH, "split_with_sizes(Tensor self, Object split_sizes, int dim=0)", py_split_sizes, NULL },
    { BOTH, "chunk(Tensor self, int chunks, int dim=0)", py_chunk, NULL },
    { AS_FUNCTION, "_unsafe_split(Tensor self, int split_size, int dim=0)", py_unsafe_split, NULL },
    { AS_FUNCTION, "_unsafe_split(Tensor self, Object split_sizes, int dim=0)", py_unsafe_split_sizes, NULL },
    { AS_FUNCTION, "_unsafe_chunk(Tensor self, int chunks, int dim=0)", py_unsafe_chunk, NULL },
    { BOTH, "tensor_split(Tensor self, int sections, int dim=0)", py_tensor_split, NULL },
    { BOTH, "tensor_split(Tensor self, Object indices, int dim=0)", py_tensor_split_at, NULL },
    { BOTH, "unbind(Tensor self, int dim=0)", py_unbind, NULL },

    { AS_FUNCTION, "cat(Tensor[] tensors, int dim=0, *, Tensor? out=None)", py_cat, NULL },
    { AS_FUNCTION, "concat(Tensor[] tensors, int dim=0, *, Tensor? out=None)", py_cat, NULL },
    { AS_FUNCTION, "concatenate(Tensor[] tensors, int dim=0, *, Tensor? out=None)", py_cat, NULL },
    { AS_FUNCTION, "stack(Tensor[] tensors, int dim=0, *, Tensor? out=None)", py_stack, NULL },
    { AS_FUNCTION, "hstack(Tensor[] tensors, *, Tensor? out=None)", py_hstack, NULL },
    { AS_FUNCTION, "vstack(Tensor[] tensors, *, Tensor? out=None)", py_vstack, NULL },
    { AS_FUNCTION, "row_stack(Tensor[] tensors, *, Tensor? out=None)", py_vstack, NULL },
    { AS_FUNCTION, "dstack(Tensor[] tensors, *, Tensor? out=None)", py_dstack, NULL },
    { AS_FUNCTION, "column_stack(Tensor[] tensors, *, Tensor? out=None)", py_column_stack, NULL },
    { AS_FUNCTION, "_block_diag(Tensor[] tensors)", py_block_diag, NULL },
    { AS_FUNCTION, "atleast_1d(Tensor self)", py_atleast_1d, NULL },
    { AS_FUNCTION, "atleast_1d(Tensor[] tensors)", py_atleast_1d_of, NULL },
    { AS_FUNCTION, "atleast_2d(Tensor self)", py_atleast_2d, NULL },
    { AS_FUNCTION, "atleast_2d(Tensor[] tensors)", py_atleast_2d_of, NULL },
    { AS_FUNCTION, "atleast_3d(Tensor self)", py_atleast_3d, NULL },
    { AS_FUNCTION, "atleast_3d(Tensor[] tensors)", py_atleast_3d_of, NULL },

    { BOTH, "flip(Tensor self, int[] dims)", py_flip, NULL },
    { BOTH, "fliplr(Tensor self)", py_fliplr, NULL },
    { BOTH, "flipud(Tensor self)", py_flipud, NULL },
    { BOTH, "roll(Tensor self, int[1] shifts, int[1]? dims=None)", py_roll, NULL },
    { BOTH, "rot90(Tensor self, int k=1, int[]? dims=None)", py_rot90, NULL },
    { AS_METHOD, "repeat(Tensor self, int[] repeats)", py_repeat, NULL },
    { BOTH, "tile(Tensor self, int[] dims)", py_tile, NULL },
    { AS_FUNCTION, "repeat_interleave(Tensor repeats, *, int? output_size=None)", py_repeat_counts, NULL },
    { BOTH, "repeat_interleave(Tensor self, int repeats, int? dim=None, *, int? output_size=None)",
      py_repeat_interleave, NULL },
    { BOTH, "repeat_interleave(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None)",
      py_repeat_interleave_by, NULL },
    { BOTH, "diag(Tensor self, int diagonal=0, *, Tensor? out=None)", py_diag, NULL },
    { BOTH, "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1)", py_diag_embed, NULL },
    { BOTH, "diagflat(Tensor self, int offset=0)", py_diagflat, NULL },
    { AS_METHOD, "contiguous(Tensor self, *, memory_format? memory_format=None)", py_contiguous, NULL },
    { BOTH, "clone(Tensor self, *, memory_format? memory_format=None)", py_clone, NULL },
};
const size_t shape_row_count = sizeof shape_rows / sizeof *shape_rows;

/* --- attributes
 * ---------------------------------------------------------------------------------------------------------------- */

static bk_tensor *handle(PyObject *self) { return ((py_tensor *)self)->t; }

static PyObject *get_T(PyObject *self, void *unused)
{
    (void)unused;
    int dims[BK_MAX_NDIM], n = bk_ndim(handle(self));
    for (int d = 0; d < n; d++)
        dims[d] = n - 1 - d;
    return py_wrap(bk_permute(handle(self), n, dims));
}

static PyObject *get_mT(PyObject *self, void *unused)
{
    (void)unused;
    int n = bk_ndim(handle(self));
    if (n == 0)
        return Py_NewRef(self);
    if (n < 2)
        return PyErr_Format(PyExc_RuntimeError,
                            "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.", n);
    return py_wrap(bk_transpose(handle(self), -2, -1));
}

static PyObject *get_H(PyObject *self, void *unused)
{
    (void)unused;
    int n = bk_ndim(handle(self));
    if (n != 2 && n != 0)
        return PyErr_Format(PyExc_RuntimeError,
                            "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s", n,
                            n > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    return n ? py_wrap(bk_transpose(handle(self), 0, 1)) : Py_NewRef(self);
}

static PyObject *get_itemsize(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(dtype_size(tensor_dtype(handle(self))));
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(bk_numel(handle(self)) * (int64_t)dtype_size(tensor_dtype(handle(self))));
}

PyGetSetDef shape_attributes[] = {
    { "T", get_T, NULL, "The dimensions in reverse.", NULL },
    { "mT", get_mT, NULL, "The last two dimensions swapped.", NULL },
    { "H", get_H, NULL, "The adjoint of a matrix.", NULL },
    { "mH", get_mT, NULL, "The adjoint of matrices.", NULL },
    { "itemsize", get_itemsize, NULL, "Bytes per element.", NULL },
    { "nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
