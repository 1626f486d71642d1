/* convert.c: one argument from Python to C.
 *
 * Checking and converting are one step: a misfit leaves no trace, and the next overload is tried. */
#include "convert.h"
#include "compat.h"

#include <string.h>

static bool is_int_tensor(PyObject *o)
{
    return py_is_tensor(o) && dtypes[bk_dtype_of(((py_tensor *)o)->t)].category == CATEGORY_INT;
}

bool convert_is_int(PyObject *o)
{
    if (PyLong_CheckExact(o))
        return true;
    if (PyBool_Check(o))
        return false;
    if (py_is_tensor(o))
        return is_int_tensor(o) && bk_ndim(((py_tensor *)o)->t) == 0;
    if (!PyIndex_Check(o))
        return false;
    PyObject *index = PyNumber_Index(o); /* arrays have the slot but not always a value */
    if (!index)
        PyErr_Clear();
    Py_XDECREF(index);
    return index != NULL;
}

/* Sizes may be tensors of any number of dimensions that hold one number. */
static bool is_size(PyObject *o)
{
    return convert_is_int(o) || (is_int_tensor(o) && bk_numel(((py_tensor *)o)->t) == 1);
}

static int to_int64(PyObject *o, int64_t *out)
{
    if (small_int(o, out))
        return 0;
    if (!PyLong_CheckExact(o) && py_is_tensor(o)) {
        view v;
        if (!is_size(o)) {
            PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
            return -1;
        }
        if (py_tensor_read(o, &v))
            return -1;
        *out = dtype_load_int(v.dtype, v.data);
        return 0;
    }
    return py_int64_from(o, out);
}

/* What PyTorch takes a size for, of what is not in a list: the number of a dimension, say, is not. */
static bool names_a_size(const param *p)
{
    static const char *const names[] = { "n", "m", "k", "high", "low", "num_samples" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (PyUnicode_CompareWithASCIIString(p->name, names[i]) == 0)
            return true;
    return false;
}

static int to_int(const param *p, PyObject *o, arg *out)
{
    if (small_int(o, &out->i))
        return FIT;
    if (!convert_is_int(o) && !(is_size(o) && names_a_size(p)))
        return MISFIT;
    return to_int64(o, &out->i) ? FAILED : FIT;
}

static int to_float(PyObject *o, arg *out)
{
    if (PyFloat_CheckExact(o)) {
        out->d = PyFloat_AS_DOUBLE(o);
        return FIT;
    }
    py_number number;
    int r = py_number_from(o, &number);
    if (r == FIT)
        out->d = number.d;
    return r;
}

static int to_bool(PyObject *o, arg *out)
{
    bk_dtype dtype;
    if (PyBool_Check(o))
        out->b = o == Py_True;
    else if (numpy_scalar(o, &dtype) && dtype == BK_BOOL)
        out->b = PyObject_IsTrue(o) == 1;
    else
        return MISFIT;
    return FIT;
}

static int to_truth(PyObject *o, arg *out)
{
    const int truth = PyObject_IsTrue(o);
    out->b = truth > 0;
    return truth < 0 ? FAILED : FIT;
}

static int to_str(PyObject *o, arg *out)
{
    if (!PyUnicode_Check(o))
        return MISFIT;
    out->s = PyUnicode_AsUTF8(o);
    return out->s ? FIT : FAILED;
}

/* --- lists of ints ------------------------------------------------------------------------------------------- */

static int element_error(const param *p, Py_ssize_t i, PyObject *item, call_state *s)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Format(PyExc_TypeError,
                     "%U(): argument '%U' failed to unpack the object at pos %zd with error \"type must be tuple of "
                     "ints,but got %s\"",
                     s->function, p->name, i + 1, py_type_name(item));
    return FAILED;
}

static int too_many(const param *p, Py_ssize_t n, call_state *s)
{
    PyErr_Format(PyExc_ValueError, "%U(): argument '%U' has %zd elements; tensors have at most %d dimensions",
                 s->function, p->name, n, BK_MAX_NDIM);
    return FAILED;
}

int convert_spread(const param *p, PyObject *const *items, Py_ssize_t n, arg *out, call_state *s)
{
    if (n > 0 && !is_size(items[0]))
        return MISFIT; /* as PyTorch decides: by the first element alone */
    if (n > BK_MAX_NDIM)
        return too_many(p, n, s);
    out->ints.n = (int)n;
    for (Py_ssize_t i = 0; i < n; i++)
        if (to_int64(items[i], &out->ints.v[i]))
            return element_error(p, i, items[i], s);
    return FIT;
}

static int repeat_int(const param *p, arg *out)
{
    for (int i = 1; i < p->repeat; i++)
        out->ints.v[i] = out->ints.v[0];
    out->ints.n = p->repeat ? p->repeat : 1;
    return FIT;
}

/* The usual case: a tuple or list of plain ints, which no Python code can change meanwhile. */
static bool all_small(PyObject *o, Py_ssize_t n, arg *out)
{
    PyObject **items = PySequence_Fast_ITEMS(o);
    bool all = n <= BK_MAX_NDIM;
    for (Py_ssize_t i = 0; all && i < n; i++)
        all = small_int(items[i], &out->ints.v[i]);
    out->ints.n = (int)n;
    return all;
}

/* An element's __index__ may change a list under us: such elements are read from a tuple. */
static int to_ints_by_index(const param *p, PyObject *o, arg *out, call_state *s)
{
    PyObject *items = PyTuple_CheckExact(o) ? Py_NewRef(o) : PySequence_Tuple(o);
    if (!items)
        return FAILED;
    int r = convert_spread(p, &PyTuple_GET_ITEM(items, 0), PyTuple_GET_SIZE(items), out, s);
    Py_DECREF(items);
    return r;
}

static int to_ints(const param *p, PyObject *o, arg *out, call_state *s)
{
    if (!PyTuple_Check(o) && !PyList_Check(o)) {
        if (!p->lone || !is_size(o))
            return MISFIT;
        return to_int64(o, &out->ints.v[0]) ? FAILED : repeat_int(p, out);
    }
    int r = all_small(o, PySequence_Fast_GET_SIZE(o), out) ? FIT : to_ints_by_index(p, o, out, s);
    return r == FIT && out->ints.n == 1 && p->repeat ? repeat_int(p, out) : r;
}

/* --- lists of tensors ---------------------------------------------------------------------------------------- */

static bk_tensor **list_memory(Py_ssize_t n, call_state *s)
{
    if (s->lists == 0 && n <= LIST_ROOM)
        return s->room;
    bk_tensor **v = PyMem_Malloc(sizeof *v * (size_t)n);
    if (!v)
        PyErr_NoMemory();
    return v;
}

static int hold(PyObject *const *items, Py_ssize_t n, int index, arg *out, call_state *s)
{
    if (s->lists == MAX_LISTS) {
        PyErr_Format(PyExc_SystemError, "%U(): more than %d lists of tensors", s->function, MAX_LISTS);
        return FAILED;
    }
    bk_tensor **v = list_memory(n, s);
    if (!v)
        return FAILED;
    int held = s->lists++;
    s->held[held].v = v;
    s->held[held].n = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!py_is_tensor(items[i])) {
            PyErr_Format(PyExc_TypeError, "expected Tensor as element %zd in argument %d, but got %s", i, index,
                         py_type_name(items[i]));
            return FAILED;
        }
        v[i] = bk_retain(((py_tensor *)items[i])->t);
        s->held[held].n++;
    }
    out->tensors.n = (int)n;
    out->tensors.v = v;
    return FIT;
}

static int to_tensors(PyObject *o, int index, arg *out, call_state *s)
{
    if (!PyTuple_Check(o) && !PyList_Check(o))
        return MISFIT;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    PyObject **items = PySequence_Fast_ITEMS(o);
    if (n > 0 && !py_is_tensor(items[0]) && PyLong_Check(items[0]))
        return MISFIT; /* ints: an overload with int[] may want them */
    return hold(items, n, index, out, s);
}

void convert_release(call_state *s)
{
    for (int l = 0; l < s->lists; l++) {
        for (int i = 0; i < s->held[l].n; i++)
            bk_release(s->held[l].v[i]);
        if (s->held[l].v != s->room)
            PyMem_Free(s->held[l].v);
    }
    s->lists = 0;
}

/* --- the rest ------------------------------------------------------------------------------------------------- */

/* The readers of named values return -2 for another kind of object, -1 for an exception. */
static int outcome(int value) { return value >= 0 ? FIT : value == -2 ? MISFIT : FAILED; }

static int to_named(const param *p, PyObject *o, arg *out)
{
    int value;
    switch (p->type) {
    case ARG_DTYPE:
        value = dtype_from_python(o);
        out->dtype = (bk_dtype)value;
        return outcome(value);
    case ARG_LAYOUT:
        value = layout_from_python(o);
        out->layout = (layout_kind)value;
        return outcome(value);
    case ARG_MEMORY_FORMAT:
        value = memory_format_from_python(o);
        out->memory_format = (memory_format_kind)value;
        return outcome(value);
    case ARG_DEVICE: return outcome(device_from_python(o, &out->device));
    case ARG_GENERATOR: return py_generator_type && PyObject_TypeCheck(o, py_generator_type) ? FIT : MISFIT;
    default: return FIT; /* Object */
    }
}

int convert(const param *p, int index, PyObject *o, arg *out, call_state *s)
{
    out->object = o;
    out->given = true;
    if (p->type == ARG_TENSOR && py_is_tensor(o)) {
        out->tensor = ((py_tensor *)o)->t;
        return FIT;
    }
    if (o == Py_None && p->nullable) {
        out->given = false;
        out->tensor = NULL;
        return FIT;
    }
    switch (p->type) {
    case ARG_TENSOR: return MISFIT;
    case ARG_TENSORS: return to_tensors(o, index, out, s);
    case ARG_SCALAR: return py_number_from(o, &out->scalar);
    case ARG_INT: return to_int(p, o, out);
    case ARG_INTS: return to_ints(p, o, out, s);
    case ARG_FLOAT: return to_float(o, out);
    case ARG_BOOL: return to_bool(o, out);
    case ARG_TRUTH: return to_truth(o, out);
    case ARG_STR: return to_str(o, out);
    default: return to_named(p, o, out);
    }
}
