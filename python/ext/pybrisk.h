/* pybrisk.h: what the files of the extension share: the tensor object, errors, the small types and data conversion.
 *
 * Conventions are CPython's: a function that returns a PyObject * returns a new reference, or NULL with an exception
 * set; a function that returns int returns 0, or -1 with an exception set, unless it says otherwise. */
#ifndef BK_PYBRISK_H
#define BK_PYBRISK_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "brisk.h"
#include "cpu/view.h"

/* --- tensors ----------------------------------------------------------------------------------------------- */

typedef struct py_tensor {
    PyObject_HEAD bk_tensor *t;
    PyObject *attrs; /* __dict__ */
    PyObject *weak;
    bool tracked; /* the garbage collector knows it; those of other classes it always knows */
} py_tensor;

extern PyTypeObject *py_tensor_type; /* brisk.Tensor; Parameter and users' classes derive from it */

static inline bool py_is_tensor(PyObject *o)
{
    return Py_TYPE(o) == py_tensor_type || PyType_IsSubtype(Py_TYPE(o), py_tensor_type);
}

PyObject *py_wrap(bk_tensor *t); /* steals t; NULL raises the library's error */
/* The garbage collector is to look at it, which may be part of a cycle. */
void py_collectable(PyObject *tensor);
int py_visit_place(const bk_tensor *t, visitproc visit, void *arg); /* cycles.c */
int py_tensor_read(PyObject *tensor, view *out); /* evaluates; the view is valid while the tensor is untouched */

/* --- errors.c ---------------------------------------------------------------------------------------------- */

int errors_init(PyObject *module);
PyObject *py_raise(void); /* the library's error as a Python exception; always NULL */
/* The name error texts use for an object's type: "Tensor", "torch.dtype", "numpy.ndarray", "str". */
const char *py_type_name(PyObject *o);

/* --- types.c: dtype, layout, memory_format ----------------------------------------------------------------- */

typedef struct py_dtype_object {
    PyObject_HEAD int code; /* a bk_dtype, or BK_DTYPE_COUNT and up for the dtypes that only have a name */
} py_dtype_object;

typedef enum layout_kind { LAYOUT_STRIDED, LAYOUT_SPARSE_COO, LAYOUT_SPARSE_CSR, LAYOUT_COUNT } layout_kind;

typedef enum memory_format_kind {
    FORMAT_CONTIGUOUS,
    FORMAT_PRESERVE,
    FORMAT_CHANNELS_LAST,
    FORMAT_CHANNELS_LAST_3D,
    FORMAT_COUNT
} memory_format_kind;

extern PyTypeObject *py_dtype_type, *py_layout_type, *py_memory_format_type;

PyObject *py_dtype(bk_dtype dtype); /* the singleton */
/* All three return the value, -1 with an exception set, or -2 without one when the object is of another kind. */
int dtype_from_python(PyObject *o); /* a dtype, or Python's float, int and bool */
int layout_from_python(PyObject *o);
int memory_format_from_python(PyObject *o);

/* --- size.c ------------------------------------------------------------------------------------------------ */

extern PyTypeObject *py_size_type;
PyObject *py_size(int n, const int64_t *sizes);

/* --- device.c ---------------------------------------------------------------------------------------------- */

typedef struct py_device {
    uint8_t type; /* a row of the table in device.c; 0 is cpu */
    int8_t index; /* -1: none named */
} py_device;

extern PyTypeObject *py_device_type;
PyObject *py_device_new(py_device d);
/* A device, a text such as "cuda:1", or an int. Returns 0; -1 with an exception set; -2 when it is another kind. */
int device_from_python(PyObject *o, py_device *out);
/* Raises what PyTorch raises when a device is used that this machine or build does not have. */
int device_check(py_device d);

/* --- limits.c ---------------------------------------------------------------------------------------------- */

extern PyTypeObject *py_finfo_type, *py_iinfo_type;

/* --- numbers.c: Python's and NumPy's numbers ---------------------------------------------------------------- */

typedef enum number_kind { NUMBER_BOOL, NUMBER_INT, NUMBER_FLOAT } number_kind;

typedef struct py_number {
    int kind;  /* number_kind */
    int64_t i; /* the value of a bool or int; of a float, 0 */
    double d;  /* the value of every kind */
} py_number;

/* True when o is a NumPy scalar of a dtype we have; never imports NumPy. */
bool numpy_scalar(PyObject *o, bk_dtype *dtype);
/* bool, int, float, NumPy scalars and tensors of no dimension. Returns 1; 0 when it is none; -1 with an exception. */
int py_number_from(PyObject *o, py_number *out);
/* An int by __index__; raises ValueError "Overflow when unpacking long long" past 64 bits. */
int py_int64_from(PyObject *o, int64_t *out);

/* --- from_python.c, to_python.c ----------------------------------------------------------------------------- */

typedef struct py_data {
    bk_dtype dtype;
    int ndim;
    int64_t sizes[BK_MAX_NDIM];
    void *data;   /* contiguous, from pool_take; NULL when there are no elements */
    size_t bytes; /* what pool_give needs */
} py_data;

/* Numbers, nested sequences, arrays and buffers, copied. dtype is a bk_dtype, or -1 to infer it as torch.tensor does.
 */
int py_data_from(PyObject *obj, int dtype, py_data *out);

PyObject *py_item(bk_dtype dtype, const void *p);
PyObject *py_tolist(const view *v); /* nested lists; a number when there are no dimensions */

/* --- module set-up ------------------------------------------------------------------------------------------ */

/* Each adds its types and objects to the module. */
int types_init(PyObject *module);
int size_init(PyObject *module);
int device_init(PyObject *module);
int grad_mode_init(PyObject *module);
int limits_init(PyObject *module);
int args_init(PyObject *module);

/* warm_up.c: begun when the extension is there, ended with the import of the package. */
void warm_up_begin(void);
void warm_up_end(void);

/* Makes a type from its spec, stores it in *type and adds it to the module under the last part of its name. */
int py_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type);

#endif
