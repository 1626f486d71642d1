/* bind_index.c: reading and writing at indices and under masks. */
#include "binds.h"

#include "core/lock.h"
#include "core/memory.h"
#include "ops/index.h"

enum { BOTH = AS_FUNCTION | AS_METHOD };

static int dim_or_flat(const arg *a) { return a->given ? (int)a->i : BK_MAX_NDIM; }
static const char *text_or_null(const arg *a) { return a->given ? a->s : NULL; }

static PyObject *py_gather(const arg *a) { return py_out(bk_gather(a[0].tensor, (int)a[1].i, a[2].tensor), &a[4]); }
static PyObject *py_take_along_dim(const arg *a)
{
    return py_out(bk_take_along_dim(a[0].tensor, a[1].tensor, dim_or_flat(&a[2])), &a[3]);
}
static PyObject *py_index_select(const arg *a)
{
    return py_out(bk_index_select(a[0].tensor, (int)a[1].i, a[2].tensor), &a[3]);
}
static PyObject *py_take(const arg *a) { return py_out(bk_take(a[0].tensor, a[1].tensor), &a[2]); }
static PyObject *py_embedding(const arg *a) { return py_wrap(bk_embedding(a[0].tensor, a[1].tensor)); }

/* --- scatter
 * ------------------------------------------------------------------------------------------------------------ */

static PyObject *py_scatter(const arg *a)
{
    return py_out(bk_scatter(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor, text_or_null(&a[4])), &a[5]);
}
static PyObject *py_scatter_s(const arg *a)
{
    operand n = py_number_operand(&a[3].scalar);
    return py_out(scattered(a[0].tensor, (int)a[1].i, a[2].tensor, n, text_or_null(&a[4])), &a[5]);
}
static PyObject *py_scatter_(const arg *a)
{
    return py_in_place(&a[0], bk_scatter_(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor, text_or_null(&a[4])));
}
static PyObject *py_scatter_s_(const arg *a)
{
    operand n = py_number_operand(&a[3].scalar);
    return py_in_place(&a[0], scatter_number(a[0].tensor, (int)a[1].i, a[2].tensor, n, text_or_null(&a[4])));
}
static PyObject *py_scatter_add(const arg *a)
{
    return py_out(bk_scatter_add(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor), &a[4]);
}
static PyObject *py_scatter_add_(const arg *a)
{
    return py_in_place(&a[0], bk_scatter_add_(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor));
}
static PyObject *py_scatter_reduce(const arg *a)
{
    return py_out(bk_scatter_reduce(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor, a[4].s, a[5].b), &a[6]);
}
static PyObject *py_scatter_reduce_(const arg *a)
{
    return py_in_place(&a[0], bk_scatter_reduce_(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor, a[4].s, a[5].b));
}

/* --- slices
 * ---------------------------------------------------------------------------------------------------------------- */

static PyObject *py_index_add(const arg *a)
{
    return py_out(bk_index_add(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor, a[4].scalar.d), &a[5]);
}
static PyObject *py_index_add_(const arg *a)
{
    return py_in_place(&a[0], bk_index_add_(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor, a[4].scalar.d));
}
static PyObject *py_index_copy(const arg *a)
{
    return py_out(bk_index_copy(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor), &a[4]);
}
static PyObject *py_index_copy_(const arg *a)
{
    return py_in_place(&a[0], bk_index_copy_(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor));
}
static PyObject *py_index_fill(const arg *a)
{
    return py_wrap(index_filled(a[0].tensor, (int)a[1].i, a[2].tensor, py_number_operand(&a[3].scalar)));
}
static PyObject *py_index_fill_t(const arg *a)
{
    return py_wrap(bk_index_fill_t(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor));
}
static PyObject *py_index_fill_t_(const arg *a)
{
    return py_in_place(&a[0], bk_index_fill_t_(a[0].tensor, (int)a[1].i, a[2].tensor, a[3].tensor));
}
static PyObject *py_index_fill_(const arg *a)
{
    operand n = py_number_operand(&a[3].scalar);
    return py_in_place(&a[0], index_fill_number(a[0].tensor, (int)a[1].i, a[2].tensor, n));
}
static PyObject *py_put(const arg *a) { return py_wrap(bk_put(a[0].tensor, a[1].tensor, a[2].tensor, a[3].b)); }
static PyObject *py_put_(const arg *a)
{
    return py_in_place(&a[0], bk_put_(a[0].tensor, a[1].tensor, a[2].tensor, a[3].b));
}

/* The tensors of a tuple or list, None as NULL, borrowed from it; -1 with an exception set. Of anything else that can
 * be iterated over, nobody would hold the items. */
static int optional_tensors(PyObject *o, bk_tensor *v[static BK_MAX_NDIM])
{
    if (!PyTuple_Check(o) && !PyList_Check(o)) {
        PyErr_Format(PyExc_TypeError, "index_put_(): argument 'indices' must be tuple of Tensors, not %s",
                     py_type_name(o));
        return -1;
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    if (n > BK_MAX_NDIM) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor (got %zd)", n);
        n = -1;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PySequence_Fast_GET_ITEM(o, k);
        if (item != Py_None && !py_is_tensor(item)) {
            PyErr_Format(PyExc_TypeError, "index_put_(): argument 'indices' must be tuple of Tensors, not %s",
                         py_type_name(item));
            n = -1;
        } else {
            v[k] = item == Py_None ? NULL : ((py_tensor *)item)->t;
        }
    }
    return (int)n;
}

static PyObject *py_index_put(const arg *a)
{
    bk_tensor *v[BK_MAX_NDIM];
    int n = optional_tensors(a[1].object, v);
    return n < 0 ? NULL : py_wrap(bk_index_put(a[0].tensor, v, n, a[2].tensor, a[3].b));
}
static PyObject *py_index_put_(const arg *a)
{
    bk_tensor *v[BK_MAX_NDIM];
    int n = optional_tensors(a[1].object, v);
    return n < 0 ? NULL : py_in_place(&a[0], bk_index_put_(a[0].tensor, v, n, a[2].tensor, a[3].b));
}

/* --- masks
 * -------------------------------------------------------------------------------------------------------------------
 */

static PyObject *py_masked_fill(const arg *a)
{
    lock_take();
    bk_tensor *t = masked_filled(a[0].tensor, a[1].tensor, py_number_operand(&a[2].scalar));
    lock_give();
    return py_wrap(t);
}
static PyObject *py_masked_fill_t(const arg *a)
{
    return py_wrap(bk_masked_fill_t(a[0].tensor, a[1].tensor, a[2].tensor));
}
static PyObject *py_masked_fill_(const arg *a)
{
    lock_take();
    int status = masked_fill_operand(a[0].tensor, a[1].tensor, py_number_operand(&a[2].scalar));
    lock_give();
    return py_in_place(&a[0], status);
}
static PyObject *py_masked_fill_t_(const arg *a)
{
    return py_in_place(&a[0], bk_masked_fill_t_(a[0].tensor, a[1].tensor, a[2].tensor));
}
static PyObject *py_masked_select(const arg *a) { return py_out(bk_masked_select(a[0].tensor, a[1].tensor), &a[2]); }
static PyObject *py_masked_scatter(const arg *a)
{
    return py_wrap(bk_masked_scatter(a[0].tensor, a[1].tensor, a[2].tensor));
}
static PyObject *py_masked_scatter_(const arg *a)
{
    return py_in_place(&a[0], bk_masked_scatter_(a[0].tensor, a[1].tensor, a[2].tensor));
}

/* --- places
 * --------------------------------------------------------------------------------------------------------------------
 */

/* A tuple of the columns of a matrix. */
static PyObject *columns(bk_tensor *matrix)
{
    if (!matrix)
        return py_raise();
    Py_ssize_t n = (Py_ssize_t)bk_sizes(matrix)[1];
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t k = 0; tuple && k < n; k++) {
        PyObject *o = py_wrap(bk_select(matrix, 1, k));
        if (!o)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, k, o);
    }
    bk_release(matrix);
    return tuple;
}

/* A tensor of no dimension counts as one of one element where places are named by column. */
static bk_tensor *places_of(const bk_tensor *t)
{
    if (bk_ndim(t))
        return bk_nonzero(t);
    bk_tensor *flat = bk_reshape(t, 1, (int64_t[]){ 1 }), *r = bk_nonzero(flat);
    bk_release(flat);
    return r;
}

static PyObject *py_nonzero(const arg *a)
{
    return a[1].given && a[1].b ? columns(places_of(a[0].tensor)) : py_out(bk_nonzero(a[0].tensor), &a[2]);
}
static PyObject *py_argwhere(const arg *a) { return py_wrap(bk_nonzero(a[0].tensor)); }
PyObject *py_where_places(const arg *a) { return columns(places_of(a[0].tensor)); }

static PyObject *py_unravel_index(const arg *a)
{
    bk_tensor *v[BK_MAX_NDIM];
    int n = a[1].ints.n;
    if (bk_unravel_index(a[0].tensor, n, a[1].ints.v, v) < 0)
        return py_raise();
    PyObject *tuple = PyTuple_New(n);
    for (int k = 0; k < n; k++) {
        PyObject *o = py_wrap(v[k]);
        if (tuple && o)
            PyTuple_SET_ITEM(tuple, k, o);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

const binding index_rows[] = {
    { BOTH, "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False, Tensor? out=None)", py_gather,
      NULL },
    { BOTH, "take_along_dim(Tensor self, Tensor indices, int? dim=None, *, Tensor? out=None)", py_take_along_dim,
      NULL },
    { BOTH, "index_select(Tensor self, int dim, Tensor index, *, Tensor? out=None)", py_index_select, NULL },
    { BOTH, "take(Tensor self, Tensor index, *, Tensor? out=None)", py_take, NULL },
    { AS_FUNCTION,
      "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)",
      py_embedding, NULL },

    { BOTH, "scatter(Tensor self, int dim, Tensor index, Tensor src, *, str? reduce=None, Tensor? out=None)",
      py_scatter, NULL },
    { BOTH, "scatter(Tensor self, int dim, Tensor index, Scalar value, *, str? reduce=None, Tensor? out=None)",
      py_scatter_s, NULL },
    { AS_METHOD, "scatter_(Tensor self, int dim, Tensor index, Tensor src, *, str? reduce=None)", py_scatter_, NULL },
    { AS_METHOD, "scatter_(Tensor self, int dim, Tensor index, Scalar value, *, str? reduce=None)", py_scatter_s_,
      NULL },
    { BOTH, "scatter_add(Tensor self, int dim, Tensor index, Tensor src, *, Tensor? out=None)", py_scatter_add, NULL },
    { AS_METHOD, "scatter_add_(Tensor self, int dim, Tensor index, Tensor src)", py_scatter_add_, NULL },
    { BOTH,
      "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True, Tensor? "
      "out=None)",
      py_scatter_reduce, NULL },
    { AS_METHOD,
      "scatter_reduce_(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)",
      py_scatter_reduce_, NULL },

    { BOTH, "index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1, Tensor? out=None)",
      py_index_add, NULL },
    { AS_METHOD, "index_add_(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1)", py_index_add_,
      NULL },
    { BOTH, "index_copy(Tensor self, int dim, Tensor index, Tensor source, *, Tensor? out=None)", py_index_copy, NULL },
    { AS_METHOD, "index_copy_(Tensor self, int dim, Tensor index, Tensor source)", py_index_copy_, NULL },
    { BOTH, "index_fill(Tensor self, int dim, Tensor index, Tensor value)", py_index_fill_t, NULL },
    { BOTH, "index_fill(Tensor self, int dim, Tensor index, Scalar value)", py_index_fill, NULL },
    { AS_METHOD, "index_fill_(Tensor self, int dim, Tensor index, Tensor value)", py_index_fill_t_, NULL },
    { AS_METHOD, "index_fill_(Tensor self, int dim, Tensor index, Scalar value)", py_index_fill_, NULL },
    { BOTH, "index_put(Tensor self, Object indices, Tensor values, bool accumulate=False)", py_index_put, NULL },
    { BOTH, "index_put_(Tensor self, Object indices, Tensor values, bool accumulate=False)", py_index_put_, NULL },
    { BOTH, "put(Tensor self, Tensor index, Tensor source, bool accumulate=False)", py_put, NULL },
    { AS_METHOD, "put_(Tensor self, Tensor index, Tensor source, bool accumulate=False)", py_put_, NULL },

    { BOTH, "masked_fill(Tensor self, Tensor mask, Tensor value)", py_masked_fill_t, NULL },
    { BOTH, "masked_fill(Tensor self, Tensor mask, Scalar value)", py_masked_fill, NULL },
    { AS_METHOD, "masked_fill_(Tensor self, Tensor mask, Tensor value)", py_masked_fill_t_, NULL },
    { AS_METHOD, "masked_fill_(Tensor self, Tensor mask, Scalar value)", py_masked_fill_, NULL },
    { BOTH, "masked_select(Tensor self, Tensor mask, *, Tensor? out=None)", py_masked_select, NULL },
    { BOTH, "masked_scatter(Tensor self, Tensor mask, Tensor source)", py_masked_scatter, NULL },
    { AS_METHOD, "masked_scatter_(Tensor self, Tensor mask, Tensor source)", py_masked_scatter_, NULL },

    { BOTH, "nonzero(Tensor self, *, bool as_tuple=False, Tensor? out=None)", py_nonzero, NULL },
    { BOTH, "argwhere(Tensor self)", py_argwhere, NULL },
    { AS_FUNCTION, "unravel_index(Tensor indices, int[1] shape)", py_unravel_index, NULL },
};
const size_t index_row_count = sizeof index_rows / sizeof *index_rows;
