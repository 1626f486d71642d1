/* dlpack.c: memory shared by the DLPack protocol, in both directions.
 *
 * The structs are those of the DLPack specification (dmlc/dlpack, version 1.0, and the unversioned one before it). A
 * capsule is consumed by renaming it; whoever holds an unconsumed one frees it. */
#include "interop.h"
#include "gil.h"

#include "core/lock.h"
#include "ops/read.h"

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* strides in elements; NULL: row-major */
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_CPU = 1, DL_READ_ONLY = 1 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static const uint8_t codes[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = DL_FLOAT, [BK_FLOAT64] = DL_FLOAT, [BK_FLOAT16] = DL_FLOAT, [BK_BFLOAT16] = DL_BFLOAT,
    [BK_INT64] = DL_INT,     [BK_INT32] = DL_INT,     [BK_INT16] = DL_INT,     [BK_INT8] = DL_INT,
    [BK_UINT8] = DL_UINT,    [BK_BOOL] = DL_BOOL,
};

/* --- out -------------------------------------------------------------------------------------------------------- */

typedef struct exported {
    union {
        dl_managed plain;
        dl_versioned versioned;
    };
    storage *memory;
    int64_t sizes[BK_MAX_NDIM], strides[BK_MAX_NDIM];
} exported;

/* May be called from any thread, with or without the GIL. */
static void end_export(exported *e)
{
    lock_take();
    storage_unexport(e->memory);
    lock_give();
    PyMem_RawFree(e);
}
static void delete_plain(dl_managed *m) { end_export((exported *)m); }
static void delete_versioned(dl_versioned *m) { end_export((exported *)m); }

static const char PLAIN[] = "dltensor", VERSIONED[] = "dltensor_versioned";

static void free_unconsumed(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, PLAIN)) {
        dl_managed *m = PyCapsule_GetPointer(capsule, PLAIN);
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, VERSIONED)) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, VERSIONED);
        m->deleter(m);
    }
}

static dl_tensor describe(const bk_tensor *t, exported *e)
{
    const layout *l = t->layout;
    for (int d = 0; d < l->ndim; d++) {
        e->sizes[d] = l->sizes[d];
        e->strides[d] = l->strides[d];
    }
    size_t size = dtype_size(tensor_dtype(t));
    return (dl_tensor){ .data = t->cell->value->data + t->offset * (int64_t)size,
                        .device_type = DL_CPU,
                        .ndim = l->ndim,
                        .code = codes[tensor_dtype(t)],
                        .bits = (uint8_t)(8 * size),
                        .lanes = 1,
                        .shape = e->sizes,
                        .strides = e->strides };
}

static PyObject *export_capsule(bk_tensor *t, bool versioned)
{
    exported *e = PyMem_RawMalloc(sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    lock_take();
    e->memory = tensor_export(t);
    lock_give();
    if (!e->memory) {
        PyMem_RawFree(e);
        return py_raise();
    }
    if (versioned)
        e->versioned = (dl_versioned){ .major = 1, .deleter = delete_versioned, .tensor = describe(t, e) };
    else
        e->plain = (dl_managed){ .deleter = delete_plain, .tensor = describe(t, e) };
    PyObject *capsule = PyCapsule_New(e, versioned ? VERSIONED : PLAIN, free_unconsumed);
    if (!capsule)
        end_export(e);
    return capsule;
}

/* __dlpack__(stream, max_version, dl_device, copy) */
PyObject *py_dlpack(const arg *a)
{
    if (refuse_grad(a[0].tensor, PyExc_BufferError, EXPORT_GRAD) || py_flush() < 0)
        return NULL;
    bool versioned = false;
    if (a[2].given) {
        PyObject *major = PySequence_GetItem(a[2].object, 0);
        versioned = major && PyLong_AsLong(major) >= 1;
        Py_XDECREF(major);
        if (PyErr_Occurred())
            return NULL;
    }
    if (!(a[4].given && a[4].b))
        return export_capsule(a[0].tensor, versioned);
    bk_tensor *copy = bk_clone(a[0].tensor);
    PyObject *capsule = copy ? export_capsule(copy, versioned) : py_raise();
    bk_release(copy);
    return capsule;
}

PyObject *py_dlpack_device(const arg *a)
{
    (void)a;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static int dtype_of(const dl_tensor *t)
{
    for (int d = 0; d < BK_DTYPE_COUNT; d++)
        if (codes[d] == t->code && 8 * dtype_size((bk_dtype)d) == t->bits && t->lanes == 1)
            return d;
    PyErr_Format(PyExc_BufferError, "brisk has no dtype for DLPack's code %d with %d bits", t->code, t->bits);
    return -1;
}

static int view_of(const dl_tensor *t, view *out)
{
    int dtype = dtype_of(t);
    if (dtype < 0)
        return -1;
    if (t->device_type != DL_CPU || t->ndim > BK_MAX_NDIM) {
        PyErr_SetString(PyExc_BufferError, "brisk takes tensors of at most 8 dimensions on the CPU");
        return -1;
    }
    *out = (view){ .data = (char *)t->data + t->byte_offset, .dtype = (bk_dtype)dtype, .ndim = t->ndim };
    int64_t step = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        out->sizes[d] = t->shape[d];
        out->strides[d] = t->strides ? t->strides[d] : step;
        step *= t->shape[d];
        if (out->strides[d] < 0) {
            PyErr_SetString(PyExc_BufferError, "tensors with negative strides are not supported");
            return -1;
        }
    }
    return 0;
}

static void drop_plain(void *owner) { ((dl_managed *)owner)->deleter(owner); }
static void drop_versioned(void *owner) { ((dl_versioned *)owner)->deleter(owner); }
static void release_plain(void *owner)
{
    if (((dl_managed *)owner)->deleter)
        release_with_gil(drop_plain, owner);
}
static void release_versioned(void *owner)
{
    if (((dl_versioned *)owner)->deleter)
        release_with_gil(drop_versioned, owner);
}

static PyObject *refuse_capsule(void)
{
    PyErr_SetString(
        PyExc_RuntimeError,
        "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so "
        "you might have already constructed a tensor from it once.");
    return NULL;
}

static PyObject *consume(PyObject *capsule)
{
    bool versioned = PyCapsule_IsValid(capsule, VERSIONED);
    if (!versioned && !PyCapsule_IsValid(capsule, PLAIN))
        return refuse_capsule();
    void *managed = PyCapsule_GetPointer(capsule, versioned ? VERSIONED : PLAIN);
    view v;
    if (!managed || view_of(versioned ? &((dl_versioned *)managed)->tensor : &((dl_managed *)managed)->tensor, &v))
        return NULL;
    bk_tensor *t = bk_from_memory(v.data, v.ndim, v.sizes, v.strides, v.dtype,
                                  versioned ? release_versioned : release_plain, managed);
    if (!t)
        return py_raise();
    PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
    return py_wrap(t);
}

/* Exporters of before version 1.0 do not know the keyword. */
static PyObject *ask(PyObject *o)
{
    PyObject *method = PyObject_GetAttrString(o, "__dlpack__");
    PyObject *keywords = method ? Py_BuildValue("{s(ii)}", "max_version", 1, 0) : NULL, *none = PyTuple_New(0);
    PyObject *capsule = keywords && none ? PyObject_Call(method, none, keywords) : NULL;
    if (!capsule && method && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(none);
    Py_XDECREF(keywords);
    Py_XDECREF(method);
    return capsule;
}

/* from_dlpack(ext_tensor, device, copy) */
PyObject *py_from_dlpack(const arg *a)
{
    bool is_capsule = PyCapsule_CheckExact(a[0].object);
    if (!is_capsule && !PyObject_HasAttrString(a[0].object, "__dlpack__"))
        return refuse_capsule();
    PyObject *capsule = is_capsule ? Py_NewRef(a[0].object) : ask(a[0].object);
    PyObject *t = capsule ? consume(capsule) : NULL;
    Py_XDECREF(capsule);
    if (t && a[2].given && a[2].b)
        Py_SETREF(t, py_wrap(bk_clone(((py_tensor *)t)->t)));
    return t;
}
