/* interop.c: memory shared with NumPy and the buffer protocol, in both directions.
 *
 * Out: an array stands on a `memory` object, which holds the storage of the tensor's cell; while it lives the storage
 * counts as exported, so that reads are evaluated at once and writes go to that very memory. In: the storage holds the
 * Python object whose memory it is; once nobody else holds that object the memory counts as ours.
 *
 * NumPy is imported by the first call that returns an array, never by `import brisk`. */
#include "interop.h"
#include "arrays.h"
#include "factories.h"
#include "gil.h"

#include <string.h>

#include "core/lock.h"
#include "core/memory.h"
#include "ops/read.h"

/* --- out: the memory object -----------------------------------------------------------------------------------------
 */

/* NumPy's __array_struct__, as its documentation lays it out. */
typedef struct array_struct {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_intptr_t *shape, *strides;
    void *data;
    PyObject *descr;
} array_struct;

enum { C_CONTIGUOUS = 0x1, ALIGNED = 0x100, NOTSWAPPED = 0x200, WRITEABLE = 0x400 };

typedef struct memory_object {
    PyObject_HEAD storage *memory;
    array_struct described;
    Py_intptr_t shape[BK_MAX_NDIM], strides[BK_MAX_NDIM];
} memory_object;

static PyTypeObject *memory_type;

static const struct {
    char kind;          /* __array_struct__'s */
    const char *format; /* the struct module's; NULL: it has none */
    int number;         /* NumPy's */
} codes[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = { 'f', "f", 11 },
    [BK_FLOAT64] = { 'f', "d", 12 },
    [BK_FLOAT16] = { 'f', "e", 23 },
    [BK_BFLOAT16] = { 0, NULL, 0 },
    [BK_INT64] = { 'i', "q", sizeof(long) == 8 ? 7 : 9 },
    [BK_INT32] = { 'i', "i", 5 },
    [BK_INT16] = { 'i', "h", 3 },
    [BK_INT8] = { 'i', "b", 1 },
    [BK_UINT8] = { 'u', "B", 2 },
    [BK_BOOL] = { 'b', "?", 0 },
};

static void unexport(storage *s)
{
    lock_take();
    storage_unexport(s);
    lock_give();
}

/* Evaluates without the GIL where that pays, then takes the memory. NULL with an exception set. */
static storage *export(bk_tensor *t)
{
    if (py_flush() < 0)
        return NULL;
    lock_take();
    storage *s = tensor_export(t);
    lock_give();
    if (!s)
        py_raise();
    return s;
}

static PyObject *memory_new(bk_tensor *t)
{
    storage *s = export(t);
    memory_object *m = s ? (memory_object *)memory_type->tp_alloc(memory_type, 0) : NULL;
    if (!m) {
        if (s)
            unexport(s);
        return NULL;
    }
    m->memory = s;
    const layout *l = t->layout;
    bk_dtype dtype = tensor_dtype(t);
    int64_t size = (int64_t)dtype_size(dtype);
    for (int d = 0; d < l->ndim; d++) {
        m->shape[d] = (Py_intptr_t)l->sizes[d];
        m->strides[d] = (Py_intptr_t)(l->strides[d] * size);
    }
    m->described = (array_struct){ .two = 2,
                                   .nd = l->ndim,
                                   .typekind = codes[dtype].kind,
                                   .itemsize = (int)size,
                                   .flags = (l->contiguous ? C_CONTIGUOUS : 0) | ALIGNED | NOTSWAPPED | WRITEABLE,
                                   .shape = m->shape,
                                   .strides = m->strides,
                                   .data = t->cell->value->data + t->offset * size };
    return (PyObject *)m;
}

static void memory_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    storage *s = ((memory_object *)o)->memory;
    if (s)
        unexport(s);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *memory_struct(PyObject *o, void *closure)
{
    (void)closure;
    return PyCapsule_New(&((memory_object *)o)->described, NULL, NULL);
}

static PyGetSetDef memory_attributes[] = { { "__array_struct__", memory_struct, NULL, NULL, NULL }, { 0 } };
static PyType_Slot memory_slots[] = { { Py_tp_dealloc, memory_dealloc },
                                      { Py_tp_getset, memory_attributes },
                                      { 0, NULL } };
static PyType_Spec memory_spec = { "brisk._memory", sizeof(memory_object), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots };

/* --- out: arrays
 * ------------------------------------------------------------------------------------------------------ */

static PyObject *numpy_function(const char *name, PyObject **cached)
{
    if (*cached)
        return *cached;
    PyObject *numpy = PyImport_ImportModule("numpy");
    *cached = numpy ? PyObject_GetAttrString(numpy, name) : NULL;
    Py_XDECREF(numpy);
    return *cached;
}

/* The places of NumPy's C functions in its table, which are the same in every version since 1.7; without it, arrays are
 * made by asarray, at ten times the cost. */
enum { API_ARRAY_TYPE = 2, API_DESCR_FROM_TYPE = 45, API_NEW_FROM_DESCR = 94, API_SET_BASE = 282 };

static void **array_api(void)
{
    static void **api;
    static bool tried;
    static const char *const places[] = { "numpy._core._multiarray_umath", "numpy.core._multiarray_umath" };
    for (size_t i = 0; !tried && !api && i < sizeof places / sizeof *places; i++) {
        PyObject *module = PyImport_ImportModule(places[i]);
        PyObject *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
        api = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
        Py_XDECREF(capsule);
        Py_XDECREF(module);
        PyErr_Clear();
    }
    tried = true;
    return api;
}

/* Steals the reference to the memory. */
static PyObject *array_by_api(void **api, memory_object *m, int type_number)
{
    PyObject *(*descr_from_type)(int) = (PyObject * (*)(int)) api[API_DESCR_FROM_TYPE];
    PyObject *(*new_from_descr)(PyTypeObject *, PyObject *, int, const Py_intptr_t *, const Py_intptr_t *, void *, int,
                                PyObject *) =
        (PyObject * (*)(PyTypeObject *, PyObject *, int, const Py_intptr_t *, const Py_intptr_t *, void *, int,
                        PyObject *)) api[API_NEW_FROM_DESCR];
    int (*set_base)(PyObject *, PyObject *) = (int (*)(PyObject *, PyObject *))api[API_SET_BASE];
    const array_struct *a = &m->described;
    PyObject *descr = descr_from_type(type_number); /* stolen by what comes next */
    PyObject *array = descr ? new_from_descr(api[API_ARRAY_TYPE], descr, a->nd, a->shape, a->strides, a->data,
                                             a->flags & (ALIGNED | WRITEABLE), NULL)
                            : NULL;
    if (!array)
        Py_DECREF(m);
    else if (set_base(array, (PyObject *)m) < 0)
        Py_CLEAR(array);
    return array;
}

static PyObject *array_of(bk_tensor *t)
{
    static PyObject *asarray;
    bk_dtype dtype = tensor_dtype(t);
    if (!codes[dtype].kind)
        return PyErr_Format(PyExc_TypeError, "Got unsupported ScalarType %s", dtypes[dtype].type_name);
    PyObject *convert = numpy_function("asarray", &asarray), *memory = convert ? memory_new(t) : NULL;
    void **api = memory ? array_api() : NULL;
    if (api)
        return array_by_api(api, (memory_object *)memory, codes[dtype].number);
    PyObject *array = memory ? PyObject_CallOneArg(convert, memory) : NULL;
    Py_XDECREF(memory);
    return array;
}

int refuse_grad(const bk_tensor *t, PyObject *exception, const char *message)
{
    if (!py_asks_gradient(t))
        return 0;
    PyErr_SetString(exception, message);
    return -1;
}

static const char NUMPY_GRAD[] =
    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.";
const char EXPORT_GRAD[] = "Can't export tensors that require gradient, use tensor.detach()";

static PyObject *py_numpy(const arg *a)
{
    if (!a[1].b && refuse_grad(a[0].tensor, PyExc_RuntimeError, NUMPY_GRAD))
        return NULL;
    return array_of(a[0].tensor);
}

/* __array__(dtype=None, copy=None): NumPy's question to anything that is not an array. */
static PyObject *py_array(const arg *a)
{
    if (refuse_grad(a[0].tensor, PyExc_RuntimeError, NUMPY_GRAD))
        return NULL;
    PyObject *array = array_of(a[0].tensor);
    if (array && a[1].given) {
        Py_SETREF(array, PyObject_CallMethod(array, "astype", "O", a[1].object));
    }
    if (array && a[2].given && a[2].object == Py_True)
        Py_SETREF(array, PyObject_CallMethod(array, "copy", NULL));
    return array;
}

/* What a NumPy function of tensors gives back is a tensor; PyTorch makes it uint8 where it is bool. */
static PyObject *py_array_wrap(const arg *a)
{
    PyObject *array = Py_NewRef(a[1].object), *kind = PyObject_GetAttrString(array, "dtype");
    PyObject *name = kind ? PyObject_GetAttrString(kind, "name") : NULL;
    if (name && PyUnicode_CompareWithASCIIString(name, "bool") == 0)
        Py_SETREF(array, PyObject_CallMethod(array, "astype", "s", "uint8"));
    PyObject *t = name && array ? tensor_on_array(array) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(kind);
    Py_XDECREF(array);
    return t;
}

/* --- out: the buffer protocol
 * -------------------------------------------------------------------------------------------- */

typedef struct lent {
    storage *memory;
    Py_ssize_t shape[BK_MAX_NDIM], strides[BK_MAX_NDIM];
} lent;

static int lend(PyObject *self, Py_buffer *b, int flags)
{
    bk_tensor *t = ((py_tensor *)self)->t;
    const layout *l = t->layout;
    bk_dtype dtype = tensor_dtype(t);
    b->obj = NULL;
    if (refuse_grad(t, PyExc_BufferError, EXPORT_GRAD))
        return -1;
    if (!codes[dtype].format || (!(flags & PyBUF_STRIDES & ~PyBUF_ND) && !l->contiguous)) {
        PyErr_Format(PyExc_BufferError, "a %s tensor that is %scontiguous cannot be lent like this",
                     bk_dtype_name(dtype), l->contiguous ? "" : "not ");
        return -1;
    }
    lent *p = PyMem_Malloc(sizeof *p);
    if (!p)
        return PyErr_NoMemory(), -1;
    p->memory = export(t);
    if (!p->memory) {
        PyMem_Free(p);
        return -1;
    }
    Py_ssize_t size = (Py_ssize_t)dtype_size(dtype);
    for (int d = 0; d < l->ndim; d++) {
        p->shape[d] = (Py_ssize_t)l->sizes[d];
        p->strides[d] = (Py_ssize_t)l->strides[d] * size;
    }
    *b = (Py_buffer){ .buf = t->cell->value->data + t->offset * size,
                      .obj = Py_NewRef(self),
                      .len = (Py_ssize_t)l->numel * size,
                      .itemsize = size,
                      .format = flags & PyBUF_FORMAT ? (char *)codes[dtype].format : NULL,
                      .ndim = l->ndim,
                      .shape = flags & PyBUF_ND ? p->shape : NULL,
                      .strides = flags & PyBUF_STRIDES & ~PyBUF_ND ? p->strides : NULL,
                      .internal = p };
    return 0;
}

static void take_back(PyObject *self, Py_buffer *b)
{
    (void)self;
    lent *p = b->internal;
    unexport(p->memory);
    PyMem_Free(p);
}

PyBufferProcs py_tensor_buffer = { lend, take_back };

/* --- in
 * --------------------------------------------------------------------------------------------------------------------
 */

typedef struct late_release {
    void (*release)(void *owner);
    void *owner;
} late_release;

static int release_later(void *p)
{
    late_release *late = p;
    late->release(late->owner);
    mem_free(late);
    return 0;
}

void release_with_gil(void (*release)(void *owner), void *owner)
{
    if (gil_held()) {
        release(owner);
        return;
    }
    late_release *late = mem_alloc(sizeof *late);
    if (!late)
        return; /* the object leaks: there is no memory to say so */
    *late = (late_release){ release, owner };
    if (Py_AddPendingCall(release_later, late) < 0)
        mem_free(late);
}

static void drop_object(void *owner) { Py_DECREF((PyObject *)owner); }
static void release_object(void *owner) { release_with_gil(drop_object, owner); }

PyObject *tensor_on_object(const view *v, PyObject *owner, bool (*reachable)(void *))
{
    lock_take();
    bk_tensor *t = bk_from_memory(v->data, v->ndim, v->sizes, v->strides, v->dtype, release_object, owner);
    if (t) {
        Py_INCREF(owner);
        t->cell->value->memory->reachable = reachable;
    }
    lock_give();
    return py_wrap(t);
}

/* An array that owns its memory and that only we hold cannot be written by anybody else. */
static bool array_reachable(void *owner)
{
    if (Py_REFCNT((PyObject *)owner) > 1)
        return true;
    PyObject *base = PyObject_GetAttrString(owner, "base");
    bool shared = base != Py_None;
    Py_XDECREF(base);
    if (!base)
        PyErr_Clear();
    return shared;
}

static int check_strides(const view *v)
{
    for (int d = 0; d < v->ndim; d++)
        if (v->strides[d] < 0 && v->sizes[d] > 1) {
            PyErr_SetString(PyExc_ValueError,
                            "At least one stride in the given numpy array is negative, and tensors with negative "
                            "strides are not currently supported. (You can probably work around this by making a copy "
                            "of your array  with array.copy().) ");
            return -1;
        }
    return 0;
}

static int warn_read_only(const char *what)
{
    static bool warned;
    if (warned)
        return 0;
    warned = true;
    return PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "The given %s is not writable, and PyTorch does not support non-writable tensors. This "
                            "means you can write to the underlying (supposedly non-writable) %s using the tensor. You "
                            "may want to copy the %s to protect its data or make it writable before converting it to "
                            "a tensor. This type of warning will be suppressed for the rest of this program.",
                            what, what, what);
}

PyObject *tensor_on_array(PyObject *o)
{
    array a;
    if (array_open(o, &a) <= 0)
        return NULL;
    view v;
    view_take(&v, &a.view);
    bool writable = !a.holds_buffer || !a.buffer.readonly;
    array_close(&a);
    if (check_strides(&v) || (!writable && warn_read_only("NumPy array")))
        return NULL;
    for (int d = 0; d < v.ndim; d++)
        if (v.strides[d] < 0)
            v.strides[d] = 1; /* of a size below 2: any stride will do */
    return tensor_on_object(&v, o, array_reachable);
}

static PyObject *py_from_numpy(const arg *a)
{
    if (!array_is_numpy(a[0].object))
        return PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %s)", py_type_name(a[0].object));
    return tensor_on_array(a[0].object);
}

/* The tensor as dtype (-1: as it is); steals it. */
static PyObject *as_dtype(PyObject *tensor, int dtype)
{
    if (!tensor || dtype < 0 || (int)tensor_dtype(((py_tensor *)tensor)->t) == dtype)
        return tensor;
    PyObject *cast = py_wrap(bk_to(((py_tensor *)tensor)->t, (bk_dtype)dtype));
    Py_DECREF(tensor);
    return cast;
}

/* What can be shared is: tensors and arrays. Everything else is copied. */
static PyObject *as_tensor(PyObject *data, int dtype)
{
    if (py_is_tensor(data))
        return as_dtype(Py_NewRef(data), dtype);
    if (array_is_numpy(data))
        return as_dtype(tensor_on_array(data), dtype);
    bk_tensor *t = tensor_from_python(data, dtype);
    return t ? py_wrap(t) : NULL;
}

static PyObject *py_as_tensor(const arg *a)
{
    if (a[2].given && device_check(a[2].device))
        return NULL;
    return as_tensor(a[0].object, a[1].given ? (int)a[1].dtype : -1);
}

/* asarray(obj, dtype, device, copy, requires_grad) */
static PyObject *py_asarray(const arg *a)
{
    PyObject *o = a[0].object;
    int dtype = a[1].given ? (int)a[1].dtype : -1;
    bool shareable = py_is_tensor(o) || array_is_numpy(o), must_share = a[3].given && !a[3].b;
    if (a[2].given && device_check(a[2].device))
        return NULL;
    if (must_share && !shareable)
        return PyErr_Format(PyExc_ValueError, "can't alias arbitrary sequence into a tensor.");
    PyObject *t = as_tensor(o, dtype);
    if (t && shareable && a[3].given && a[3].b)
        Py_SETREF(t, py_wrap(bk_clone(((py_tensor *)t)->t)));
    if (t && a[4].b && bk_set_requires_grad(((py_tensor *)t)->t, true) < 0) {
        Py_DECREF(t);
        return py_raise();
    }
    return t;
}

/* How many elements of the buffer are wanted, after `offset` bytes; -1 with PyTorch's exception. */
static int64_t buffer_count(const Py_buffer *b, int64_t size, int64_t count, int64_t offset)
{
    if (b->len <= 0 || count == 0)
        PyErr_Format(PyExc_ValueError, "both buffer length (%zd) and count (%lld) must not be 0", b->len,
                     (long long)count);
    else if (offset < 0 || offset >= b->len)
        PyErr_Format(PyExc_ValueError,
                     "offset (%lld bytes) must be non-negative and no greater than buffer length (%zd bytes) minus 1",
                     (long long)offset, b->len);
    else if (count > 0 && count > (b->len - offset) / size)
        PyErr_Format(PyExc_ValueError,
                     "requested buffer length (%lld * %lld bytes) after offset (%lld bytes) must not be greater than "
                     "actual buffer length (%zd bytes)",
                     (long long)count, (long long)size, (long long)offset, b->len);
    else if (count < 0 && (b->len - offset) % size)
        PyErr_Format(PyExc_ValueError,
                     "buffer length (%lld bytes) after offset (%lld bytes) must be a multiple of element size (%lld)",
                     (long long)(b->len - offset), (long long)offset, (long long)size);
    else
        return count > 0 ? count : (b->len - offset) / size;
    return -1;
}

/* frombuffer(buffer, dtype, count, offset, requires_grad) */
static PyObject *py_frombuffer(const arg *a)
{
    Py_buffer b;
    PyObject *o = a[0].object;
    if (!PyObject_CheckBuffer(o))
        return PyErr_Format(PyExc_ValueError, "object does not implement Python buffer protocol.");
    if (PyObject_GetBuffer(o, &b, PyBUF_SIMPLE))
        return NULL;
    int64_t n = buffer_count(&b, (int64_t)dtype_size(a[1].dtype), a[2].i, a[3].i);
    view v = { .data = (char *)b.buf + a[3].i, .dtype = a[1].dtype, .ndim = 1, .sizes = { n }, .strides = { 1 } };
    bool writable = !b.readonly;
    PyBuffer_Release(&b);
    if (n < 0 || (!writable && warn_read_only("buffer")))
        return NULL;
    PyObject *t = tensor_on_object(&v, o, NULL);
    if (t && a[4].b && bk_set_requires_grad(((py_tensor *)t)->t, true) < 0) {
        Py_DECREF(t);
        return py_raise();
    }
    return t;
}

/* Above an array's priority: NumPy's numbers and functions leave the result to tensors. */
static int set_array_priority(void)
{
    PyObject *priority = PyLong_FromLong(1000);
    int status = priority ? PyObject_SetAttrString((PyObject *)py_tensor_type, "__array_priority__", priority) : -1;
    Py_XDECREF(priority);
    return status;
}

int interop_init(PyObject *module)
{
    return py_add_type(module, &memory_spec, &memory_type) < 0 ? -1 : set_array_priority();
}

const binding interop_rows[] = {
    { AS_METHOD, "numpy(Tensor self, *, bool force=False)", py_numpy, "A NumPy array on the same memory." },
    { AS_METHOD, "__array__(Tensor self, Object? dtype=None, Object? copy=None)", py_array, NULL },
    { AS_METHOD, "__array_wrap__(Tensor self, Object array, Object? context=None, bool return_scalar=False)",
      py_array_wrap, NULL },
    { AS_FUNCTION, "from_numpy(Object ndarray)", py_from_numpy, "A tensor on the memory of a NumPy array." },
    { AS_FUNCTION, "as_tensor(Object data, dtype? dtype=None, device? device=None)", py_as_tensor,
      "A tensor of the data, on the same memory where that is possible." },
    { AS_FUNCTION,
      "asarray(Object obj, *, dtype? dtype=None, device? device=None, bool? copy=None, "
      "bool requires_grad=False)",
      py_asarray, NULL },
    { AS_FUNCTION, "frombuffer(Object buffer, *, dtype dtype, int count=-1, int offset=0, bool requires_grad=False)",
      py_frombuffer, "A tensor on the memory of any buffer." },
    { AS_METHOD,
      "__dlpack__(Tensor self, *, Object? stream=None, Object? max_version=None, Object? dl_device=None, "
      "bool? copy=None)",
      py_dlpack, NULL },
    { AS_METHOD, "__dlpack_device__(Tensor self)", py_dlpack_device, NULL },
    { AS_FUNCTION, "from_dlpack(Object ext_tensor, *, Object? device=None, bool? copy=None)", py_from_dlpack,
      "A tensor on the memory of a DLPack exporter." },
};
const size_t interop_row_count = sizeof interop_rows / sizeof *interop_rows;
