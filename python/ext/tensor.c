/* tensor.c: brisk.Tensor: the object around a handle, and its operators.
 *
 * Invariant: a handle has at most one Python object (handle->front), so identity is as in PyTorch: x.grad is x.grad.
 * Objects without a __dict__ cannot be part of a cycle and are not shown to the garbage collector; a freelist keeps
 * them warm: making and dropping one costs about 10 ns. */
#include "arrays.h"
#include "autograd/composed.h"
#include "binds.h"
#include "compat.h"
#include "gil.h"
#include "interop.h"

#include <stddef.h>
#include <structmember.h>

#include "core/lock.h"
#include "ops/alike.h"
#include "ops/read.h"

PyTypeObject *py_tensor_type;

/* --- life ------------------------------------------------------------------------------------------------------ */

/* What a tensor without attributes has for a __dict__. CPython 3.11 remembers where a method was found only for objects
 * whose dictionary is there, which makes every x.method() of a tensor 10 ns quicker: there it is one empty dictionary,
 * lent to all and never written. From 3.12 on a missing one (NULL) will do. */
static PyObject *no_attrs;

static int no_attrs_init(void)
{
#if PY_VERSION_HEX < 0x030C0000
    no_attrs = PyDict_New();
    return no_attrs ? 0 : -1;
#else
    return 0;
#endif
}

enum { WARM_OBJECTS = 256 };
static py_tensor *warm[WARM_OBJECTS];
static int warm_count;

PyObject *py_wrap(bk_tensor *t)
{
    if (!t)
        return py_raise();
    if (t->front) {
        PyObject *same = Py_NewRef((PyObject *)t->front);
        bk_release(t);
        return same;
    }
    py_tensor *o;
    if (warm_count) {
        o = warm[--warm_count];
        revive((PyObject *)o); /* its reference to the type it has kept, and that it has nothing else */
    } else {
        o = PyObject_GC_New(py_tensor, py_tensor_type);
        if (!o) {
            bk_release(t);
            return NULL;
        }
        o->attrs = no_attrs;
        o->weak = NULL;
        o->tracked = false;
    }
    o->t = t;
    t->front = o;
    if (__builtin_expect(py_saved_hooks, 0) && py_pack_new(t) < 0)
        Py_CLEAR(o);
    return (PyObject *)o;
}

PyObject *py_wrap_as(PyTypeObject *type, bk_tensor *t)
{
    if (!t)
        return py_raise();
    if (type == py_tensor_type)
        return py_wrap(t);
    py_tensor *o = (py_tensor *)type->tp_alloc(type, 0);
    if (!o) {
        bk_release(t);
        return NULL;
    }
    o->t = t;
    o->attrs = no_attrs;
    t->front = o;
    return (PyObject *)o;
}

static void attrs_clear(py_tensor *o)
{
    if (o->attrs == no_attrs)
        return;
    PyObject *old = o->attrs;
    o->attrs = no_attrs;
    Py_XDECREF(old);
}

HOT_THREAD_LOCAL bool gil_known;

static inline void handle_drop(bk_tensor *t)
{
    if (!t)
        return;
    t->front = NULL;
    bool was = gil_say(true); /* what only this tensor held may be Python's */
    bk_release(t);
    gil_unsay(was);
}

/* Of an object that has attributes or weak references, or had; or is of another class. */
static __attribute__((noinline)) void full_dealloc(PyObject *self)
{
    py_tensor *o = (py_tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (o->weak)
        PyObject_ClearWeakRefs(self);
    attrs_clear(o);
    handle_drop(o->t);
    type->tp_free(self);
    Py_DECREF(type);
}

static void tensor_dealloc(PyObject *self)
{
    py_tensor *o = (py_tensor *)self;
    bool plain = Py_TYPE(self) == py_tensor_type && !o->tracked && !o->weak && o->attrs == no_attrs;
    if (!plain || warm_count == WARM_OBJECTS) {
        full_dealloc(self);
        return;
    }
    handle_drop(o->t);
    if (warm_count == WARM_OBJECTS) /* what went with the handle may have given back others */
        o->t = NULL, full_dealloc(self);
    else
        warm[warm_count++] = o;
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    if (((py_tensor *)self)->attrs != no_attrs)
        Py_VISIT(((py_tensor *)self)->attrs);
    return py_visit_place(((py_tensor *)self)->t, visit, arg);
}

static int tensor_clear(PyObject *self)
{
    attrs_clear((py_tensor *)self);
    return 0;
}

void py_collectable(PyObject *tensor)
{
    py_tensor *o = (py_tensor *)tensor;
    if (o->tracked || Py_TYPE(tensor) != py_tensor_type)
        return;
    if (!PyObject_GC_IsTracked(tensor))
        PyObject_GC_Track(tensor);
    o->tracked = true;
}

/* What is about to give an object a __dict__ sees that it has none; afterwards it can be part of a cycle. One whose
 * class has just become Tensor's is known to the garbage collector already, as objects of other classes are. */
static void attrs_open(py_tensor *o)
{
    if (o->attrs == no_attrs)
        o->attrs = NULL;
}

static void attrs_close(py_tensor *o)
{
    PyObject *self = (PyObject *)o;
    if (!o->attrs)
        o->attrs = no_attrs;
    if (o->attrs != no_attrs)
        py_collectable(self);
    else if (Py_TYPE(self) == py_tensor_type)
        o->tracked = PyObject_GC_IsTracked(self);
}

static int tensor_setattr(PyObject *self, PyObject *name, PyObject *value)
{
    attrs_open((py_tensor *)self);
    int status = PyObject_GenericSetAttr(self, name, value);
    attrs_close((py_tensor *)self);
    return status;
}

static PyObject *get_dict(PyObject *self, void *context)
{
    attrs_open((py_tensor *)self);
    PyObject *dict = PyObject_GenericGetDict(self, context);
    attrs_close((py_tensor *)self);
    return dict;
}

static int set_dict(PyObject *self, PyObject *dict, void *context)
{
    attrs_open((py_tensor *)self);
    int status = PyObject_GenericSetDict(self, dict, context);
    attrs_close((py_tensor *)self);
    return status;
}

int py_add_attributes(PyTypeObject *type, PyGetSetDef *d)
{
    for (; d->name; d++) {
        PyObject *descriptor = PyDescr_NewGetSet(type, d);
        int status = descriptor ? PyObject_SetAttrString((PyObject *)type, d->name, descriptor) : -1;
        Py_XDECREF(descriptor);
        if (status < 0)
            return -1;
    }
    return 0;
}

/* --- evaluation --------------------------------------------------------------------------------------------------- */

int py_flush(void)
{
    int status = bk_sync();
    if (status < 0)
        py_raise();
    return status;
}

int py_tensor_read(PyObject *tensor, view *out)
{
    const bk_tensor *t = ((py_tensor *)tensor)->t;
    if (!node_evaluated(t->cell->value) && py_flush() < 0)
        return -1;
    lock_take();
    int status = tensor_view(t, out);
    lock_give();
    if (status < 0)
        py_raise();
    return status;
}

/* --- operands ----------------------------------------------------------------------------------------------------- */

operand py_number_operand(const py_number *n)
{
    return n->kind == NUMBER_FLOAT ? number_float(n->d)
           : n->kind == NUMBER_INT ? number_int(n->i)
                                   : number_bool(n->i != 0);
}

bool py_operand(const arg *a, operand *out)
{
    if (a->object && py_is_tensor(a->object)) {
        if (tensor_read(((py_tensor *)a->object)->t, out))
            return true;
        py_raise();
        return false;
    }
    *out = py_number_operand(&a->scalar);
    return true;
}

bool py_reads_apart(const bk_tensor *written, const arg *a, int n)
{
    int status = 0;
    lock_take();
    for (int k = 0; k < n && status == 0; k++) {
        operand in;
        if (!a[k].given || !a[k].object || !py_is_tensor(a[k].object))
            continue;
        const bk_tensor *t = ((py_tensor *)a[k].object)->t;
        if (t != written && t->cell == written->cell)
            status = tensor_read(t, &in) ? overlap_check(written, in.value) : -1;
    }
    lock_give();
    if (status < 0)
        py_raise();
    return status == 0;
}

static __attribute__((noinline)) int other_operand(PyObject *o, operand *out)
{
    if (py_is_tensor(o))
        return tensor_read(((py_tensor *)o)->t, out) ? 1 : -1;
    py_number n;
    int found = py_number_from(o, &n);
    if (found > 0)
        *out = py_number_operand(&n);
    return found;
}

/* A tensor or a Python number; 0 when it is neither, so that the other operand's class is asked. */
static inline int operand_from(PyObject *o, operand *out)
{
    if (Py_TYPE(o) == py_tensor_type)
        return tensor_read(((py_tensor *)o)->t, out) ? 1 : -1;
    int64_t i;
    if (PyFloat_CheckExact(o)) {
        *out = number_float(PyFloat_AS_DOUBLE(o));
        return 1;
    }
    if (small_int(o, &i)) {
        *out = number_int(i);
        return 1;
    }
    return other_operand(o, out);
}

PyObject *py_in_place(const arg *self, int status)
{
    if (status < 0)
        return py_raise();
    return py_saved_hooks && py_pack_new(self->tensor) < 0 ? NULL : Py_NewRef(self->object);
}

PyObject *py_write_back(const arg *self, bk_tensor *result)
{
    lock_take();
    int status = write_result(self->tensor, result);
    bk_release(result);
    lock_give();
    return py_in_place(self, status);
}

/* --- operators ------------------------------------------------------------------------------------------------------
 */

static inline __attribute__((always_inline)) PyObject *binary(int op, PyObject *a, PyObject *b)
{
    operand in[2];
    lock_take();
    int x = operand_from(a, &in[0]), y = x > 0 ? operand_from(b, &in[1]) : x;
    bk_tensor *t = NULL;
    if (x > 0 && y > 0)
        t = op == EW_pow || (op == EW_div && !in[0].value) ? ew_apply_python(op, in) : ew_apply_here(op, in);
    lock_give();
    if (t)
        return py_wrap(t);
    if (x == 0 || y == 0)
        Py_RETURN_NOTIMPLEMENTED;
    return PyErr_Occurred() ? NULL : py_raise();
}

static PyObject *unary(int op, PyObject *a)
{
    operand in[1];
    lock_take();
    bk_tensor *t = tensor_read(((py_tensor *)a)->t, &in[0]) ? ew_apply_python(op, in) : NULL;
    lock_give();
    return py_wrap(t);
}

static PyObject *in_place(int op, PyObject *a, PyObject *b)
{
    if (!py_is_tensor(a))
        Py_RETURN_NOTIMPLEMENTED;
    operand in[MAX_INPUTS] = { { 0 } };
    lock_take();
    int x = operand_from(a, &in[0]), y = x > 0 ? operand_from(b, &in[1]) : x;
    int status = x > 0 && y > 0 ? ew_apply_python_in_place(op, ((py_tensor *)a)->t, in) : -1;
    lock_give();
    if (x == 0 || y == 0)
        Py_RETURN_NOTIMPLEMENTED;
    if (PyErr_Occurred())
        return NULL;
    return status < 0 ? py_raise() : Py_NewRef(a);
}

#define OPERATORS(X)                                                                                                   \
    X(add)                                                                                                             \
    X(sub)                                                                                                             \
    X(mul)                                                                                                             \
    X(div)                                                                                                             \
    X(floor_divide)                                                                                                    \
    X(remainder)                                                                                                       \
    X(bitwise_and)                                                                                                     \
    X(bitwise_or)                                                                                                      \
    X(bitwise_xor)                                                                                                     \
    X(bitwise_left_shift)                                                                                              \
    X(bitwise_right_shift)
#define DEFINE(name)                                                                                                   \
    static PyObject *nb_##name(PyObject *a, PyObject *b) { return binary(EW_##name, a, b); }                           \
    static PyObject *nb_inplace_##name(PyObject *a, PyObject *b) { return in_place(EW_##name, a, b); }
OPERATORS(DEFINE)
#undef DEFINE

/* A number before a tensor is the second operand, as in PyTorch. */
static PyObject *nb_plus(PyObject *a, PyObject *b) { return py_is_tensor(a) ? nb_add(a, b) : nb_add(b, a); }
static PyObject *nb_times(PyObject *a, PyObject *b) { return py_is_tensor(a) ? nb_mul(a, b) : nb_mul(b, a); }

/* Operators whose gradients PyTorch has names for. */
enum {
    POW_TENSORS,
    POW_OF_NUMBER,
    POW_BY_NUMBER,
    NUMBER_MINUS,
    STACK_BY_STACK,
    MATRIX_BY_STACK,
    VECTOR_BY_STACK,
    STACK_BY_OTHER,
    MATRIX_VECTOR,
    VECTORS,
    REST_OF_TENSORS,
    REST_BY_NUMBER,
    NAMED_OPERATORS
};

/* What an operator gave, under the name of its gradient: `reached` says which operands have one. */
static PyObject *named(PyObject *result, int how, uint8_t reached, uint64_t start)
{
    static const char *const functions[] = {
        "__pow__",          "__rpow__",        "_pow_number", "__rsub__", "_stack_by_stack", "_matrix_by_stack",
        "_vector_by_stack", "_stack_by_other", "mv",          "dot",      "__mod__",         "_mod_number"
    };
    static int rows[NAMED_OPERATORS]; /* from 1; 0: not looked for yet */
    if (!result || !py_is_tensor(result) || !bk_requires_grad(((py_tensor *)result)->t))
        return result;
    if (!rows[how])
        rows[how] = composed_find(functions[how]) + 1;
    composed_mark(((py_tensor *)result)->t, rows[how] - 1, start, reached);
    return result;
}

static bool wants_gradient(PyObject *o) { return py_is_tensor(o) && bk_requires_grad(((py_tensor *)o)->t); }

/* Whether a power is recorded as a root or a reciprocal, which have names of their own. */
static bool is_root_or_reciprocal(PyObject *number)
{
    static PyObject *minus_one; /* one object for all, as Python has small numbers */
    if (!minus_one)
        minus_one = PyLong_FromLong(-1);
    double n = PyFloat_CheckExact(number) ? PyFloat_AS_DOUBLE(number) : 0;
    return number == minus_one || n == -1 || n == 0.5 || n == -0.5;
}

/* a: whether the base wanted a gradient before it was written to. */
static PyObject *named_power(PyObject *r, bool a, PyObject *b, uint64_t start)
{
    if (!py_is_tensor(b))
        return is_root_or_reciprocal(b) ? named(r, POW_BY_NUMBER, 1, start) : r;
    return named(r, POW_TENSORS, (uint8_t)(a | wants_gradient(b) << 1), start);
}

static PyObject *nb_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    uint64_t start = next_sequence;
    PyObject *r = binary(EW_pow, a, b);
    return py_is_tensor(a) ? named_power(r, wants_gradient(a), b, start) : named(r, POW_OF_NUMBER, 1, start);
}

static PyObject *nb_minus(PyObject *a, PyObject *b)
{
    if (py_is_tensor(a))
        return nb_sub(a, b);
    uint64_t start = next_sequence;
    return named(nb_sub(a, b), NUMBER_MINUS, 1, start);
}

/* a: whether the dividend wanted a gradient before it was written to. */
static PyObject *named_rest(PyObject *r, bool a, PyObject *b, uint64_t start)
{
    return py_is_tensor(b) ? named(r, REST_OF_TENSORS, (uint8_t)(a | wants_gradient(b) << 1), start)
                           : named(r, REST_BY_NUMBER, 1, start);
}

static PyObject *nb_rest(PyObject *a, PyObject *b)
{
    uint64_t start = next_sequence;
    return named_rest(nb_remainder(a, b), wants_gradient(a), b, start);
}

static PyObject *nb_inplace_rest(PyObject *a, PyObject *b)
{
    uint64_t start = next_sequence;
    bool wanted = wants_gradient(a);
    return named_rest(nb_inplace_remainder(a, b), wanted, b, start);
}

static PyObject *nb_inplace_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    uint64_t start = next_sequence;
    bool wanted = wants_gradient(a);
    return named_power(in_place(EW_pow, a, b), wanted, b, start);
}

static PyObject *nb_negative(PyObject *a) { return unary(EW_neg, a); }
static PyObject *nb_positive(PyObject *a)
{
    if (tensor_dtype(((py_tensor *)a)->t) != BK_BOOL)
        return Py_NewRef(a);
    PyErr_SetString(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return NULL;
}
static PyObject *nb_absolute(PyObject *a) { return unary(EW_abs, a); }
static PyObject *nb_invert(PyObject *a)
{
    if (!dtype_is_float(tensor_dtype(((py_tensor *)a)->t)))
        return unary(EW_bitwise_not, a);
    PyErr_SetString(PyExc_TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return NULL;
}

/* Vectors, matrices and stacks of these have different functions in PyTorch, each of which has a row; -1: those of the
 * records themselves. */
static int product_row(const bk_tensor *x, const bk_tensor *y)
{
    const layout *a = x->layout, *b = y->layout;
    if (b->ndim > 2)
        return a->ndim > 2 ? STACK_BY_STACK : a->ndim == 2 ? MATRIX_BY_STACK : VECTOR_BY_STACK;
    if (a->ndim > 2)
        return a == a->plain || tensor_tracked(y) ? -1 : STACK_BY_OTHER;
    return b->ndim == 2 ? -1 : a->ndim == 2 ? MATRIX_VECTOR : VECTORS;
}

PyObject *py_matmul_of(const bk_tensor *a, const bk_tensor *b)
{
    uint64_t start = next_sequence;
    PyObject *r = py_wrap(bk_matmul(a, b));
    int how = product_row(a, b);
    return how < 0 ? r : named(r, how, (uint8_t)(tensor_tracked(a) | tensor_tracked(b) << 1), start);
}

static PyObject *nb_matmul(PyObject *a, PyObject *b)
{
    if (!py_is_tensor(a) || !py_is_tensor(b))
        Py_RETURN_NOTIMPLEMENTED;
    return py_matmul_of(((py_tensor *)a)->t, ((py_tensor *)b)->t);
}

static PyObject *compare(PyObject *a, PyObject *b, int how)
{
    static const int ops[] = { [Py_LT] = EW_lt, [Py_LE] = EW_le, [Py_EQ] = EW_eq,
                               [Py_NE] = EW_ne, [Py_GT] = EW_gt, [Py_GE] = EW_ge };
    if (!array_is_numpy(b))
        return binary(ops[how], a, b);
    PyObject *array = tensor_on_array(b); /* NumPy leaves comparisons to us, too */
    PyObject *r = array ? binary(ops[how], a, array) : NULL;
    Py_XDECREF(array);
    return r;
}

/* --- numbers out
 * ------------------------------------------------------------------------------------------------------ */

/* The one element, evaluated; NULL with an exception set. */
static const char *element(PyObject *self, const char *what)
{
    const bk_tensor *t = ((py_tensor *)self)->t;
    if (t->layout->numel != 1) {
        PyErr_Format(PyExc_RuntimeError, what, (long long)t->layout->numel);
        return NULL;
    }
    const node *n = t->cell->value;
    if (!node_evaluated(n) && py_flush() < 0)
        return NULL;
    return t->cell->value->data + t->offset * (int64_t)dtype_size(tensor_dtype(t));
}

/* A number that a Python conversion asks for. */
static const char *python_element(PyObject *self)
{
    if (((py_tensor *)self)->t->layout->numel == 1)
        return element(self, "");
    PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    return NULL;
}

static int nb_bool(PyObject *self)
{
    const bk_tensor *t = ((py_tensor *)self)->t;
    if (t->layout->numel == 0) {
        PyErr_SetString(PyExc_RuntimeError, "Boolean value of Tensor with no values is ambiguous");
        return -1;
    }
    const char *p = element(self, "Boolean value of Tensor with more than one value is ambiguous");
    if (!p)
        return -1;
    return dtype_is_float(tensor_dtype(t)) ? dtype_load_double(tensor_dtype(t), p) != 0
                                           : dtype_load_int(tensor_dtype(t), p) != 0;
}

static PyObject *tensor_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    const char *p = element(self, "a Tensor with %lld elements cannot be converted to Scalar");
    if (!p)
        return NULL;
    bk_dtype d = tensor_dtype(((py_tensor *)self)->t);
    return d == BK_FLOAT32 ? PyFloat_FromDouble(*(const float *)p) : py_item(d, p); /* element loops end here */
}

/* The number forgets where it came from. */
static int warn_of_number(PyObject *self)
{
    static bool warned;
    if (warned || !bk_requires_grad(((py_tensor *)self)->t))
        return 0;
    warned = true;
    return PyErr_WarnEx(PyExc_UserWarning,
                        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
                        "Consider using tensor.detach() first.",
                        1);
}

static PyObject *nb_float(PyObject *self)
{
    const char *p = warn_of_number(self) < 0 ? NULL : python_element(self);
    return p ? PyFloat_FromDouble(dtype_load_double(tensor_dtype(((py_tensor *)self)->t), p)) : NULL;
}

static PyObject *nb_int(PyObject *self)
{
    const char *p = warn_of_number(self) < 0 ? NULL : python_element(self);
    if (!p)
        return NULL;
    bk_dtype d = tensor_dtype(((py_tensor *)self)->t);
    return dtype_is_float(d) ? PyLong_FromDouble(dtype_load_double(d, p)) : PyLong_FromLongLong(dtype_load_int(d, p));
}

static PyObject *nb_index(PyObject *self)
{
    const bk_tensor *t = ((py_tensor *)self)->t;
    if (dtype_is_float(tensor_dtype(t)) || t->layout->numel != 1) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return nb_int(self);
}

/* --- sequence
 * ---------------------------------------------------------------------------------------------------------- */

static Py_ssize_t tensor_length(PyObject *self)
{
    const layout *l = ((py_tensor *)self)->t->layout;
    if (l->ndim)
        return (Py_ssize_t)l->sizes[0];
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}

static PyObject *tensor_iter(PyObject *self)
{
    const bk_tensor *t = ((py_tensor *)self)->t;
    if (!t->layout->ndim) {
        PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
        return NULL;
    }
    PyObject *rows = PyTuple_New((Py_ssize_t)t->layout->sizes[0]);
    for (int64_t i = 0; rows && i < t->layout->sizes[0]; i++) {
        PyObject *row = py_wrap(made_as_part(bk_select(t, 0, i), VIEW_unbind, i));
        if (!row) {
            Py_DECREF(rows);
            return NULL;
        }
        PyTuple_SET_ITEM(rows, i, row);
    }
    PyObject *iterator = rows ? PyObject_GetIter(rows) : NULL;
    Py_XDECREF(rows);
    return iterator;
}

static Py_hash_t tensor_hash(PyObject *self) { return _Py_HashPointer(self); }

/* --- the type
 * ------------------------------------------------------------------------------------------------------------ */

static PyObject *get_shape(PyObject *self, void *unused)
{
    (void)unused;
    const layout *l = ((py_tensor *)self)->t->layout;
    return py_size(l->ndim, l->sizes);
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return py_dtype(tensor_dtype(((py_tensor *)self)->t));
}

static PyObject *get_device(PyObject *self, void *unused)
{
    (void)self, (void)unused;
    return py_device_new((py_device){ .type = 0, .index = -1 });
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((py_tensor *)self)->t->layout->ndim);
}

static PyGetSetDef attributes[] = {
    { "shape", get_shape, NULL, "The sizes, as a Size.", NULL },
    { "dtype", get_dtype, NULL, "The element type.", NULL },
    { "device", get_device, NULL, "Where the tensor is.", NULL },
    { "ndim", get_ndim, NULL, "The number of dimensions.", NULL },
    { "__dict__", get_dict, set_dict, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef methods[] = {
    { "item", tensor_item, METH_NOARGS, "The one element as a Python number." },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(py_tensor, attrs), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(py_tensor, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, "Elements of one dtype in a grid. Recorded when it is made, evaluated when a value is asked for." },
    { Py_tp_new, py_tensor_new },
    { Py_tp_dealloc, tensor_dealloc },
    { Py_tp_traverse, tensor_traverse },
    { Py_tp_clear, tensor_clear },
    { Py_tp_setattro, tensor_setattr },
    { Py_tp_getset, attributes },
    { Py_tp_methods, methods },
    { Py_tp_members, members },
    { Py_tp_repr, py_tensor_repr },
    { Py_tp_hash, tensor_hash },
    { Py_tp_richcompare, compare },
    { Py_tp_iter, tensor_iter },
    { Py_nb_add, nb_plus },
    { Py_nb_subtract, nb_minus },
    { Py_nb_multiply, nb_times },
    { Py_nb_true_divide, nb_div },
    { Py_nb_floor_divide, nb_floor_divide },
    { Py_nb_remainder, nb_rest },
    { Py_nb_power, nb_power },
    { Py_nb_and, nb_bitwise_and },
    { Py_nb_or, nb_bitwise_or },
    { Py_nb_xor, nb_bitwise_xor },
    { Py_nb_lshift, nb_bitwise_left_shift },
    { Py_nb_rshift, nb_bitwise_right_shift },
    { Py_nb_matrix_multiply, nb_matmul },
    { Py_nb_inplace_add, nb_inplace_add },
    { Py_nb_inplace_subtract, nb_inplace_sub },
    { Py_nb_inplace_multiply, nb_inplace_mul },
    { Py_nb_inplace_true_divide, nb_inplace_div },
    { Py_nb_inplace_floor_divide, nb_inplace_floor_divide },
    { Py_nb_inplace_remainder, nb_inplace_rest },
    { Py_nb_inplace_power, nb_inplace_power },
    { Py_nb_inplace_and, nb_inplace_bitwise_and },
    { Py_nb_inplace_or, nb_inplace_bitwise_or },
    { Py_nb_inplace_xor, nb_inplace_bitwise_xor },
    { Py_nb_inplace_lshift, nb_inplace_bitwise_left_shift },
    { Py_nb_inplace_rshift, nb_inplace_bitwise_right_shift },
    { Py_nb_negative, nb_negative },
    { Py_nb_positive, nb_positive },
    { Py_nb_absolute, nb_absolute },
    { Py_nb_invert, nb_invert },
    { Py_nb_bool, nb_bool },
    { Py_nb_int, nb_int },
    { Py_nb_float, nb_float },
    { Py_nb_index, nb_index },
    { Py_mp_length, tensor_length },
    { Py_mp_subscript, py_tensor_getitem },
    { Py_mp_ass_subscript, py_tensor_setitem },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brisk.Tensor",
    .basicsize = sizeof(py_tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int tensor_init(PyObject *module)
{
    if (no_attrs_init() < 0 || py_add_type(module, &spec, &py_tensor_type) < 0)
        return -1;
    py_tensor_type->tp_as_buffer = &py_tensor_buffer;
    PyObject *name = PyUnicode_FromString("Tensor"); /* in CPython's messages, as in PyTorch's, without the module */
    int status = name ? PyObject_SetAttrString((PyObject *)py_tensor_type, "__name__", name) : -1;
    Py_XDECREF(name);
    return status;
}
