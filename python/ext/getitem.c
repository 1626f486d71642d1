/* getitem.c: x[...] and x[...] = v.
 *
 * Integer keys come first and stay out of everything else: a[i] and a[i, j] are handles made from a remembered layout,
 * and a[i, j] = number goes straight to memory that nobody else holds. All other keys become a list of bk_index. */
#include "autograd/composed.h"
#include "binds.h"

#include "compat.h"
#include "core/lock.h"
#include "core/memory.h"
#include "graph/log.h"
#include "ops/elementwise.h"
#include "ops/index.h"

enum { MAX_ITEMS = 2 * BK_MAX_NDIM };

/* --- integers only ------------------------------------------------------------------------------------------------ */

/* Where integers lead: the layout and offset of the view. */
typedef struct place {
    const layout *layout;
    int64_t offset;
} place;

/* One more integer; false when it is not one or does not fit, which the general way reports. */
static inline bool step_into(place *p, PyObject *item)
{
    int64_t i;
    if (!p->layout->ndim || !small_int(item, &i))
        return false;
    int64_t size = p->layout->sizes[0];
    if (i < 0)
        i += size;
    if ((uint64_t)i >= (uint64_t)size)
        return false;
    p->offset += i * p->layout->strides[0];
    p->layout = layout_rest(p->layout);
    return p->layout != NULL;
}

static inline bool integer_place(const bk_tensor *t, PyObject *key, place *p)
{
    *p = (place){ t->layout, t->offset };
    if (!PyTuple_CheckExact(key))
        return step_into(p, key);
    Py_ssize_t n = PyTuple_GET_SIZE(key);
    for (Py_ssize_t k = 0; k < n; k++)
        if (!step_into(p, PyTuple_GET_ITEM(key, k)))
            return false;
    return true;
}

/* The number that a direct write stores: Python's own numbers, and tensors of no dimension that are there already. */
static inline bool plain_number(PyObject *o, operand *out)
{
    if (PyFloat_CheckExact(o)) {
        *out = number_float(PyFloat_AS_DOUBLE(o));
        return true;
    }
    if (PyLong_CheckExact(o)) {
        int overflow;
        *out = number_int(PyLong_AsLongLongAndOverflow(o, &overflow));
        return !overflow;
    }
    if (Py_TYPE(o) != py_tensor_type)
        return false;
    const bk_tensor *t = ((py_tensor *)o)->t;
    const node *n = t->cell->value;
    if (t->layout->ndim || !node_evaluated(n) || tensor_tracked(t))
        return false;
    bk_dtype d = (bk_dtype)n->dtype;
    const char *p = n->data + t->offset * (int64_t)dtype_size(d);
    *out = dtype_is_float(d) ? number_float(dtype_load_double(d, p)) : number_int(dtype_load_int(d, p));
    return true;
}

/* 1: written; 0: it takes an update. */
static int write_element(bk_tensor *t, PyObject *key, PyObject *value)
{
    place p;
    operand number;
    bk_dtype d = tensor_dtype(t);
    bool exact = d == BK_FLOAT32 || d == BK_FLOAT64 || d == BK_INT64; /* the narrow ones have ranges to check */
    if (!exact || !integer_place(t, key, &p) || p.layout->ndim || !plain_number(value, &number))
        return 0;
    if (number.category == CATEGORY_FLOAT && d == BK_INT64)
        return 0; /* has a range, too */
    char *memory = tensor_open(t);
    if (!memory)
        return 0;
    char *at = memory + p.offset * (int64_t)dtype_size(d);
    if (Py_TYPE(value) == py_tensor_type)
        node_mix(t->cell->value, ((py_tensor *)value)->t->cell->value);
    if (number.category == CATEGORY_FLOAT)
        dtype_store_double(d, at, number.d);
    else
        dtype_store_int(d, at, number.i);
    return 1;
}

/* --- keys of every kind ---------------------------------------------------------------------------------------------
 */

typedef struct items {
    int count;
    bk_index item[MAX_ITEMS];
    bk_tensor *made[MAX_ITEMS]; /* tensors made of lists and arrays */
    int made_count;
} items;

static void items_release(items *s)
{
    for (int k = 0; k < s->made_count; k++)
        bk_release(s->made[k]);
}

static int refuse_item(PyObject *o)
{
    PyErr_Format(
        PyExc_IndexError,
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)",
        py_type_name(o));
    return -1;
}

static int add(items *s, bk_index item)
{
    if (s->count == MAX_ITEMS) {
        PyErr_SetString(PyExc_IndexError, "too many indices for tensor");
        return -1;
    }
    s->item[s->count++] = item;
    return 0;
}

static int add_tensor(items *s, const bk_tensor *t)
{
    if (!node_evaluated(t->cell->value) && py_flush() < 0)
        return -1;
    return add(s, (bk_index){ .kind = BK_INDEX_TENSOR, .tensor = t });
}

/* Lists, ranges and arrays of integers or bools. */
static int add_sequence(items *s, PyObject *o)
{
    if (PyUnicode_Check(o)) {
        PyErr_SetString(PyExc_TypeError, "new(): invalid data type 'str'");
        return -1;
    }
    py_data data;
    if (s->count == MAX_ITEMS)
        return add(s, (bk_index){ 0 });
    if (py_data_from(o, -1, &data) < 0)
        return -1;
    bool empty = data.bytes == 0;
    bk_tensor *t = bk_from_data(data.data, data.ndim, data.sizes, empty ? BK_INT64 : data.dtype);
    if (data.data)
        pool_give(data.data, data.bytes);
    if (!t) {
        py_raise();
        return -1;
    }
    s->made[s->made_count++] = t;
    return add_tensor(s, t);
}

static int add_slice(items *s, PyObject *o)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(o, &start, &stop, &step) < 0)
        return -1;
    if (step < 0) {
        PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
        return -1;
    }
    return add(s, (bk_index){ .kind = BK_INDEX_SLICE, .start = start, .stop = stop, .step = step });
}

static int add_int(items *s, PyObject *o)
{
    int64_t i;
    if (py_int64_from(o, &i) < 0)
        return -1;
    return add(s, (bk_index){ .kind = BK_INDEX_INT, .start = i });
}

static int add_item(items *s, PyObject *o)
{
    bk_dtype dtype;
    if (PyBool_Check(o))
        return add(s, (bk_index){ .kind = BK_INDEX_BOOL, .start = o == Py_True });
    if (PyLong_Check(o))
        return add_int(s, o);
    if (PySlice_Check(o))
        return add_slice(s, o);
    if (o == Py_None)
        return add(s, (bk_index){ .kind = BK_INDEX_NONE });
    if (o == Py_Ellipsis)
        return add(s, (bk_index){ .kind = BK_INDEX_ELLIPSIS });
    if (py_is_tensor(o))
        return add_tensor(s, ((py_tensor *)o)->t);
    if (numpy_scalar(o, &dtype)) {
        int truth = dtype == BK_BOOL ? PyObject_IsTrue(o) : 0;
        if (truth < 0)
            return -1;
        return dtype == BK_BOOL        ? add(s, (bk_index){ .kind = BK_INDEX_BOOL, .start = truth })
               : dtype_is_float(dtype) ? refuse_item(o)
                                       : add_int(s, o);
    }
    if (PySequence_Check(o))
        return add_sequence(s, o);
    return PyIndex_Check(o) ? add_int(s, o) : refuse_item(o);
}

/* A list that holds more than numbers stands for a tuple, as in PyTorch. */
static bool is_tuple_like(PyObject *key)
{
    if (!PyList_Check(key) || PyList_GET_SIZE(key) >= 32)
        return false;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(key); k++) {
        PyObject *o = PyList_GET_ITEM(key, k);
        if (py_is_tensor(o) || PySlice_Check(o) || o == Py_Ellipsis || o == Py_None || PySequence_Check(o))
            return true;
    }
    return false;
}

static int warn_list(void)
{
    return PyErr_WarnEx(
        PyExc_UserWarning,
        "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead "
        "of x[seq]",
        1);
}

static int items_from(PyObject *key, items *s)
{
    s->count = s->made_count = 0;
    bool list = is_tuple_like(key);
    if (list && warn_list() < 0)
        return -1;
    if (!list && !PyTuple_Check(key))
        return add_item(s, key);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(key);
    for (Py_ssize_t k = 0; k < n; k++)
        if (add_item(s, PySequence_Fast_GET_ITEM(key, k)) < 0)
            return -1;
    return 0;
}

/* --- the slots
 * ----------------------------------------------------------------------------------------------------------- */

PyObject *py_tensor_getitem(PyObject *self, PyObject *key)
{
    bk_tensor *t = ((py_tensor *)self)->t, *r = NULL;
    place p;
    lock_take();
    bool simple = !tensor_shares(t) && integer_place(t, key, &p);
    if (simple)
        r = made_by(tensor_view_of(t, p.layout, p.offset), p.layout == t->layout ? VIEW_alias : VIEW_select);
    lock_give();
    if (simple)
        return py_wrap(r);
    items s;
    uint64_t start = next_sequence;
    if (items_from(key, &s) == 0) {
        r = bk_index_get(t, s.item, s.count);
        if (!r)
            py_raise();
    }
    if (r && PySlice_Check(key) && r->made_by == VIEW_alias) /* x[:], unlike x[:, :] */
        made_by(r, VIEW_slice);
    if (r && !(r->flags & TENSOR_VIEW) && bk_requires_grad(r)) { /* by tensors */
        static int row;
        row = row ? row : composed_find("__getitem__") + 1;
        composed_mark(r, row - 1, start, 1);
    }
    items_release(&s);
    return r ? py_wrap(r) : NULL;
}

static int assign(bk_tensor *t, const items *s, PyObject *value)
{
    if (py_is_tensor(value))
        return bk_index_set(t, s->item, s->count, ((py_tensor *)value)->t) < 0 ? (py_raise(), -1) : 0;
    arg a = { .object = value };
    operand number;
    int found = py_number_from(value, &a.scalar);
    if (found < 0 && PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_SetString(PyExc_ValueError, "Overflow when unpacking long long");
    if (found < 0)
        return -1;
    if (!found) {
        PyErr_Format(PyExc_TypeError, "can't assign a %s to a torch.%sTensor", py_type_name(value),
                     dtypes[tensor_dtype(t)].type_name);
        return -1;
    }
    if (!py_operand(&a, &number))
        return -1;
    return index_assign_number(t, s->item, s->count, number) < 0 ? (py_raise(), -1) : 0;
}

int py_tensor_setitem(PyObject *self, PyObject *key, PyObject *value)
{
    bk_tensor *t = ((py_tensor *)self)->t;
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
        return -1;
    }
    lock_take();
    int done = write_element(t, key, value);
    lock_give();
    if (done)
        return 0;
    items s;
    int status = items_from(key, &s) == 0 ? assign(t, &s, value) : -1;
    items_release(&s);
    return status;
}
