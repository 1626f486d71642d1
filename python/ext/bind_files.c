/* bind_files.c: the file formats for Python: archives as capsules, and pickles as Python objects.
 *
 * The pickle machine of the library builds Python objects here. What names mean, and what may be called, is decided by
 * an object with four methods, which brisk/serialization.py has: find(module, name), call(callee, args, keywords),
 * build(object, state) and persistent(id). Containers and numbers are made without asking. */
#include "binds.h"

#include "core/error.h"
#include "core/memory.h"
#include "files/pickle.h"
#include "files/tensors.h"
#include "files/zip.h"

/* --- sources and sinks ----------------------------------------------------------------------------------------------
 */

/* A source on a file descriptor or on the bytes of a buffer, which `hold` keeps alive. */
static int source_from(PyObject *o, source *in, Py_buffer *hold)
{
    hold->obj = NULL;
    if (PyLong_Check(o)) {
        long fd = PyLong_AsLong(o);
        return fd == -1 && PyErr_Occurred() ? -1 : source_of_fd(in, (int)fd) < 0 ? (py_raise(), -1) : 0;
    }
    if (PyObject_GetBuffer(o, hold, PyBUF_SIMPLE))
        return -1;
    *in = source_of_memory(hold->buf, (size_t)hold->len);
    return 0;
}

enum { WRITE_BYTES = 1 << 20 }; /* given to a file object at a time: it may keep what it gets, so it gets copies */

static int write_to_object(void *context, const void *bytes, size_t count)
{
    for (const char *p = bytes; count;) {
        size_t n = count < WRITE_BYTES ? count : WRITE_BYTES;
        PyObject *result = PyObject_CallFunction(context, "y#", p, (Py_ssize_t)n);
        if (!result)
            return error_int(BK_CALLBACK_ERROR, "write() failed");
        Py_DECREF(result);
        p += n;
        count -= n;
    }
    return 0;
}

/* A sink on a path, or on the write method of a file object, borrowed. */
static int sink_from(PyObject *o, sink *out)
{
    if (!PyUnicode_Check(o)) {
        *out = sink_of_callback(write_to_object, o);
        return 0;
    }
    PyObject *path = PyUnicode_EncodeFSDefault(o);
    int status = path ? sink_open(out, PyBytes_AS_STRING(path)) : -1;
    if (path && status < 0)
        py_raise();
    Py_XDECREF(path);
    return status;
}

/* --- archives
 * --------------------------------------------------------------------------------------------------------- */

typedef struct py_zip {
    zip_reader zip;
    Py_buffer hold;
} py_zip;

static void zip_capsule_free(PyObject *capsule)
{
    py_zip *z = PyCapsule_GetPointer(capsule, "brisk.zip");
    zip_close(&z->zip);
    if (z->hold.obj)
        PyBuffer_Release(&z->hold);
    PyMem_Free(z);
}

static PyObject *py_zip_open(const arg *a)
{
    source in;
    py_zip *z = PyMem_Malloc(sizeof *z);
    if (!z)
        return PyErr_NoMemory();
    int status = source_from(a[0].object, &in, &z->hold);
    if (status == 0 && zip_open(&z->zip, in) < 0) {
        if (z->hold.obj)
            PyBuffer_Release(&z->hold);
        py_raise();
        status = -1;
    }
    if (status < 0) {
        PyMem_Free(z);
        return NULL;
    }
    return PyCapsule_New(z, "brisk.zip", zip_capsule_free);
}

static PyObject *py_zip_names(const arg *a)
{
    const py_zip *z = PyCapsule_GetPointer(a[0].object, "brisk.zip");
    PyObject *list = z ? PyList_New(0) : NULL;
    for (int64_t i = 0; list && i < z->zip.count; i++) {
        PyObject *name =
            PyUnicode_DecodeUTF8(z->zip.entries[i].name, (Py_ssize_t)strlen(z->zip.entries[i].name), "surrogateescape");
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* The entry of that name; NULL with an exception set. */
static const zip_entry *entry_from(const arg *a, py_zip **z)
{
    *z = PyCapsule_GetPointer(a[0].object, "brisk.zip");
    const zip_entry *e = *z ? zip_find(&(*z)->zip, a[1].s) : NULL;
    if (*z && !e)
        PyErr_Format(PyExc_RuntimeError, "the archive has no entry %s", a[1].s);
    return e;
}

static PyObject *py_zip_read(const arg *a)
{
    py_zip *z;
    const zip_entry *e = entry_from(a, &z);
    PyObject *bytes = e ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)e->size) : NULL;
    if (bytes && zip_read(&z->zip, e, PyBytes_AS_STRING(bytes)) < 0) {
        Py_DECREF(bytes);
        return py_raise();
    }
    return bytes;
}

typedef struct entry_reading {
    const zip_reader *zip;
    const zip_entry *entry;
} entry_reading;

static int read_entry(void *context, void *memory, uint64_t bytes)
{
    const entry_reading *r = context;
    (void)bytes;
    PyThreadState *thread = PyEval_SaveThread();
    int status = zip_read(r->zip, r->entry, memory);
    PyEval_RestoreThread(thread);
    return status;
}

/* (archive, name, dtype): the entry as a tensor of one dimension. */
static PyObject *py_zip_tensor(const arg *a)
{
    py_zip *z;
    const zip_entry *e = entry_from(a, &z);
    if (!e)
        return NULL;
    size_t size = bk_dtype_size(a[2].dtype);
    int64_t count = (int64_t)(e->size / size);
    if (e->size % size)
        return PyErr_Format(PyExc_RuntimeError, "%s is no whole number of elements long", e->name);
    return py_wrap(tensor_filled(1, &count, a[2].dtype, read_entry, &(entry_reading){ &z->zip, e }));
}

typedef struct py_zip_writer {
    zip_writer zip;
    PyObject *target;
    bool open;
} py_zip_writer;

static void writer_capsule_free(PyObject *capsule)
{
    py_zip_writer *w = PyCapsule_GetPointer(capsule, "brisk.zip_writer");
    if (w->open)
        zip_finish(&w->zip, false);
    Py_DECREF(w->target);
    PyMem_Free(w);
}

static PyObject *py_zip_create(const arg *a)
{
    py_zip_writer *w = PyMem_Calloc(1, sizeof *w);
    if (!w)
        return PyErr_NoMemory();
    if (sink_from(a[0].object, &w->zip.out) < 0) {
        PyMem_Free(w);
        return NULL;
    }
    w->open = true;
    w->target = Py_NewRef(a[0].object);
    return PyCapsule_New(w, "brisk.zip_writer", writer_capsule_free);
}

/* (archive, name, bytes or storage) */
static PyObject *py_zip_add(const arg *a)
{
    py_zip_writer *w = PyCapsule_GetPointer(a[0].object, "brisk.zip_writer");
    const void *data;
    size_t count;
    Py_buffer b = { 0 };
    if (!w)
        return NULL;
    int storage = py_storage_bytes(a[2].object, &data, &count);
    if (storage < 0 || (!storage && PyObject_GetBuffer(a[2].object, &b, PyBUF_SIMPLE)))
        return NULL;
    int status = zip_add(&w->zip, a[1].s, storage ? data : b.buf, storage ? count : (size_t)b.len);
    if (b.obj)
        PyBuffer_Release(&b);
    if (status < 0)
        return py_raise();
    Py_RETURN_NONE;
}

static PyObject *py_zip_finish(const arg *a)
{
    py_zip_writer *w = PyCapsule_GetPointer(a[0].object, "brisk.zip_writer");
    if (!w)
        return NULL;
    w->open = false;
    if (zip_finish(&w->zip, a[1].b) < 0)
        return py_raise();
    Py_RETURN_NONE;
}

/* --- pickles
 * ------------------------------------------------------------------------------------------------------------ */

static void *failed(void) { return error_null(BK_CALLBACK_ERROR, "a Python object could not be made"); }
static void *passed(PyObject *o) { return o ? o : failed(); }

/* The same where the data is to blame: a key that cannot be hashed, text that is no UTF-8. */
static void *failed_by_data(void)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError))
        return failed();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *shown = text ? PyUnicode_AsUTF8(text) : NULL;
    error_null(BK_VALUE_ERROR, "the pickle is broken: %s", shown ? shown : "an object could not be made");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return NULL;
}

static void *make_atom(void *context, const pickle_atom *a)
{
    (void)context;
    Py_ssize_t n = (Py_ssize_t)a->length;
    switch (a->kind) {
    case PICKLE_NONE: return Py_NewRef(Py_None);
    case PICKLE_BOOL: return PyBool_FromLong((long)a->i);
    case PICKLE_INT: return passed(PyLong_FromLongLong(a->i));
    case PICKLE_LONG: return passed(_PyLong_FromByteArray((const unsigned char *)a->text, a->length, 1, 1));
    case PICKLE_FLOAT: return passed(PyFloat_FromDouble(a->d));
    case PICKLE_TEXT: {
        PyObject *text = PyUnicode_DecodeUTF8(a->text, n, "surrogatepass");
        return text ? text : failed_by_data();
    }
    case PICKLE_BYTES: return passed(PyBytes_FromStringAndSize(a->text, n));
    default: return passed(PyByteArray_FromStringAndSize(a->text, n));
    }
}

enum { KEY_PARTS = 1000 };

/* Counts the parts of a key down. Tuples of tuples that share their parts take time 2^depth to hash: such a key comes
 * from somebody hostile. */
static bool key_is_small(PyObject *key, int *parts)
{
    if (--*parts < 0)
        return false;
    if (PyTuple_Check(key))
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
            if (!key_is_small(PyTuple_GET_ITEM(key, i), parts))
                return false;
    return true;
}

static int check_key(PyObject *key)
{
    int parts = KEY_PARTS;
    if (key_is_small(key, &parts))
        return 0;
    return error_int(BK_VALUE_ERROR, "a key of a dict or set has more than %d parts", KEY_PARTS);
}

static int fill_list(PyObject *list, void *const *items, size_t n)
{
    if (!PyList_Check(list))
        return error_int(BK_VALUE_ERROR, "the pickle is broken: items are added to what is no list");
    for (size_t i = 0; i < n; i++)
        if (PyList_Append(list, items[i]) < 0)
            return failed_by_data(), -1;
    return 0;
}

static int fill_dict(PyObject *dict, void *const *items, size_t n)
{
    if (!PyDict_Check(dict))
        return error_int(BK_VALUE_ERROR, "the pickle is broken: items are set in what is no dict");
    bool plain = PyDict_CheckExact(dict);
    for (size_t i = 0; i < n; i += 2) {
        if (check_key(items[i]) < 0)
            return -1;
        int status =
            plain ? PyDict_SetItem(dict, items[i], items[i + 1]) : PyObject_SetItem(dict, items[i], items[i + 1]);
        if (status < 0)
            return failed_by_data(), -1;
    }
    return 0;
}

static int fill_set(PyObject *set, void *const *items, size_t n)
{
    if (!PyAnySet_Check(set))
        return error_int(BK_VALUE_ERROR, "the pickle is broken: items are added to what is no set");
    for (size_t i = 0; i < n; i++) {
        if (check_key(items[i]) < 0)
            return -1;
        if (PySet_Add(set, items[i]) < 0)
            return failed_by_data(), -1;
    }
    return 0;
}

static int fill(void *context, pickle_kind kind, void *target, void *const *items, size_t n)
{
    (void)context;
    return kind == PICKLE_LIST   ? fill_list(target, items, n)
           : kind == PICKLE_DICT ? fill_dict(target, items, n)
                                 : fill_set(target, items, n);
}

static void *make_tuple(void *const *items, size_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, Py_NewRef(items[i]));
    return passed(tuple);
}

static void *make_group(void *context, pickle_kind kind, void *const *items, size_t n)
{
    if (kind == PICKLE_TUPLE)
        return make_tuple(items, n);
    PyObject *o = kind == PICKLE_LIST   ? PyList_New(0)
                  : kind == PICKLE_DICT ? PyDict_New()
                  : kind == PICKLE_SET  ? PySet_New(NULL)
                                        : PyFrozenSet_New(NULL);
    if (!o)
        return failed();
    if (fill(context, kind, o, items, n) < 0)
        Py_CLEAR(o);
    return o;
}

static void *make_name(void *context, const char *module, const char *name)
{
    return passed(PyObject_CallMethod(context, "find", "ss", module, name));
}

static void *make_named(void *context, void *module, void *name)
{
    if (!PyUnicode_Check((PyObject *)module) || !PyUnicode_Check((PyObject *)name))
        return error_null(BK_VALUE_ERROR, "the pickle is broken: a name is no text");
    return passed(PyObject_CallMethod(context, "find", "OO", module, name));
}

static void *call(void *context, pickle_call how, void *callee, void *args, void *keywords)
{
    if (!PyTuple_Check((PyObject *)args) || (keywords && !PyDict_Check((PyObject *)keywords)))
        return error_null(BK_VALUE_ERROR, "the pickle is broken: arguments are no tuple");
    return passed(PyObject_CallMethod(context, how == CALL_REDUCE ? "call" : "new", "OOO", callee, args,
                                      keywords ? keywords : Py_None));
}

static int build(void *context, void *object, void *state)
{
    PyObject *result = PyObject_CallMethod(context, "build", "OO", object, state);
    if (!result)
        return failed(), -1;
    Py_DECREF(result);
    return 0;
}

static void *persistent(void *context, void *id)
{
    return passed(PyObject_CallMethod(context, "persistent", "(O)", id));
}
static void *retain(void *context, void *value) { return (void)context, Py_NewRef(value); }
static void release(void *context, void *value) { (void)context, Py_DECREF((PyObject *)value); }

/* What is wrong with a pickle is an UnpicklingError; everything else stays what it is. */
static PyObject *raise_unpickling(void)
{
    if (bk_error_code() != BK_VALUE_ERROR)
        return py_raise();
    PyObject *module = PyImport_ImportModule("pickle");
    PyObject *type = module ? PyObject_GetAttrString(module, "UnpicklingError") : NULL;
    if (type)
        PyErr_SetString(type, bk_error());
    bk_error_clear();
    Py_XDECREF(type);
    Py_XDECREF(module);
    return NULL;
}

/* (bytes, start, hooks): the value of the pickle there, and where it ends. */
static PyObject *py_unpickle(const arg *a)
{
    Py_buffer b;
    if (PyObject_GetBuffer(a[0].object, &b, PyBUF_SIMPLE))
        return NULL;
    const pickle_maker maker = { a[2].object, make_atom, make_group, fill,   make_name, make_named,
                                 call,        build,     persistent, retain, release };
    size_t used = 0, start = a[1].i < 0 || a[1].i > b.len ? (size_t)b.len : (size_t)a[1].i;
    PyObject *value = pickle_run((const unsigned char *)b.buf + start, (size_t)b.len - start, &maker, &used);
    PyBuffer_Release(&b);
    return value ? Py_BuildValue("Nn", value, (Py_ssize_t)(start + used)) : raise_unpickling();
}

/* --- safetensors
 * -------------------------------------------------------------------------------------------------------- */

static PyObject *dict_from(bk_tensors *m)
{
    PyObject *dict = m ? PyDict_New() : py_raise();
    for (size_t i = 0; dict && i < m->count; i++) {
        PyObject *t = py_wrap(bk_retain(m->rows[i].tensor));
        if (!t || PyDict_SetItemString(dict, m->rows[i].name, t) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(t);
    }
    bk_tensors_free(m);
    return dict;
}

static PyObject *py_load_safetensors(const arg *a)
{
    source in;
    Py_buffer hold;
    if (source_from(a[0].object, &in, &hold) < 0)
        return NULL;
    bk_tensors *m = safetensors_load(in);
    if (hold.obj)
        PyBuffer_Release(&hold);
    return dict_from(m);
}

/* A dict of tensors as a map; NULL with an exception set. */
static bk_tensors *tensors_from(PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    bk_tensors *m = PyDict_Check(dict) ? bk_tensors_new() : NULL;
    if (!m) {
        PyErr_Format(PyExc_ValueError, "expected a dict of tensors, not %s", py_type_name(dict));
        return NULL;
    }
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_Check(key) && py_is_tensor(value) ? PyUnicode_AsUTF8(key) : NULL;
        if (!name && !PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "expected names and tensors, found %s: %s", py_type_name(key),
                         py_type_name(value));
        if (name && bk_tensors_set(m, name, ((py_tensor *)value)->t) < 0)
            py_raise();
        if (PyErr_Occurred()) {
            bk_tensors_free(m);
            return NULL;
        }
    }
    return m;
}

/* (path or write, dict, metadata: key, value, ...) */
static PyObject *py_save_safetensors(const arg *a)
{
    sink out;
    bk_tensors *m = tensors_from(a[1].object);
    PyObject *pairs = m ? PySequence_Tuple(a[2].object) : NULL;
    Py_ssize_t n = pairs ? PyTuple_GET_SIZE(pairs) : 0;
    const char **metadata = pairs ? PyMem_Calloc((size_t)n + 1, sizeof *metadata) : NULL;
    int status = metadata ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < n; i++)
        status = (metadata[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(pairs, i))) ? 0 : -1;
    if (status == 0 && (status = sink_from(a[0].object, &out)) == 0 &&
        (status = safetensors_save(m, metadata, out)) < 0)
        py_raise();
    PyMem_Free(metadata);
    Py_XDECREF(pairs);
    bk_tensors_free(m);
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* --- NumPy's files
 * ------------------------------------------------------------------------------------------------------ */

static PyObject *done(int status)
{
    if (status < 0)
        return py_raise();
    Py_RETURN_NONE;
}

static PyObject *py_load_npy(const arg *a) { return py_wrap(bk_load_npy(a[0].s)); }
static PyObject *py_save_npy(const arg *a) { return done(bk_save_npy(a[0].s, a[1].tensor)); }
static PyObject *py_load_npz(const arg *a) { return dict_from(bk_load_npz(a[0].s)); }

static PyObject *py_save_npz(const arg *a)
{
    bk_tensors *m = tensors_from(a[1].object);
    PyObject *answer = m ? done(bk_save_npz(a[0].s, m)) : NULL;
    bk_tensors_free(m);
    return answer;
}

const binding files_rows[] = {
    { AS_FUNCTION, "_zip_open(Object source)", py_zip_open, NULL },
    { AS_FUNCTION, "_zip_names(Object zip)", py_zip_names, NULL },
    { AS_FUNCTION, "_zip_read(Object zip, str name)", py_zip_read, NULL },
    { AS_FUNCTION, "_zip_tensor(Object zip, str name, dtype dtype)", py_zip_tensor, NULL },
    { AS_FUNCTION, "_zip_create(Object target)", py_zip_create, NULL },
    { AS_FUNCTION, "_zip_add(Object zip, str name, Object data)", py_zip_add, NULL },
    { AS_FUNCTION, "_zip_finish(Object zip, bool commit)", py_zip_finish, NULL },
    { AS_FUNCTION, "_unpickle(Object data, int start, Object hooks)", py_unpickle, NULL },
    { AS_FUNCTION, "_load_safetensors(Object source)", py_load_safetensors, NULL },
    { AS_FUNCTION, "_save_safetensors(Object target, Object tensors, Object metadata)", py_save_safetensors, NULL },
    { AS_FUNCTION, "_load_npy(str path)", py_load_npy, NULL },
    { AS_FUNCTION, "_save_npy(str path, Tensor tensor)", py_save_npy, NULL },
    { AS_FUNCTION, "_load_npz(str path)", py_load_npz, NULL },
    { AS_FUNCTION, "_save_npz(str path, Object tensors)", py_save_npz, NULL },
};
const size_t files_row_count = sizeof files_rows / sizeof *files_rows;
