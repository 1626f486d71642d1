/* device.c: brisk.device, where a tensor lives.
 *
 * Every device PyTorch names can be written down, compared and pickled; only cpu can hold tensors. Programs decide by
 * torch.cuda.is_available(), so the others must parse, and fail only where they are used: device_check. */
#include "pybrisk.h"

#include <string.h>

PyTypeObject *py_device_type;

enum { CPU = 0, CUDA = 1 };

static const char *const names[] = { "cpu",    "cuda", "ipu",  "xpu",  "mkldnn", "opengl",       "opencl",
                                     "ideep",  "hip",  "ve",   "fpga", "maia",   "xla",          "lazy",
                                     "vulkan", "mps",  "meta", "hpu",  "mtia",   "privateuseone" };
enum { NAMES = sizeof names / sizeof *names };

typedef struct device_object {
    PyObject_HEAD py_device d;
} device_object;

static py_device device_of(PyObject *o) { return ((device_object *)o)->d; }

PyObject *py_device_new(py_device d)
{
    device_object *o = PyObject_New(device_object, py_device_type);
    if (o)
        o->d = d;
    return (PyObject *)o;
}

/* --- reading ------------------------------------------------------------------------------------------------ */

static int find_name(const char *text, size_t length)
{
    for (int i = 0; i < NAMES; i++)
        if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0)
            return i;
    return -1;
}

static int unknown_name(const char *text)
{
    char list[256] = "";
    for (int i = 0; i < NAMES; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    PyErr_Format(PyExc_RuntimeError, "Expected one of %s device type at start of device string: %s", list, text);
    return -1;
}

/* The digits after the colon: no sign, no leading zero, at most 127. -1: not such a number. */
static int parse_index(const char *digits)
{
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 3 || digits[n] || (digits[0] == '0' && n > 1))
        return -1;
    int index = atoi(digits);
    return index <= INT8_MAX ? index : -1;
}

static int parse(const char *text, py_device *out)
{
    if (!*text) {
        PyErr_SetString(PyExc_RuntimeError, "Device string must not be empty");
        return -1;
    }
    size_t length = strcspn(text, ":");
    int type = find_name(text, length), index = text[length] ? parse_index(text + length + 1) : -1;
    if (text[length] && index < 0) {
        PyErr_Format(PyExc_RuntimeError, "Invalid device string: '%s'", text);
        return -1;
    }
    if (type < 0)
        return unknown_name(text);
    *out = (py_device){ (uint8_t)type, (int8_t)index };
    return 0;
}

/* A bare number means that accelerator; there is none. */
static int from_number(void)
{
    PyErr_SetString(PyExc_RuntimeError, "Cannot access accelerator device when none is available.");
    return -1;
}

int device_from_python(PyObject *o, py_device *out)
{
    if (Py_TYPE(o) == py_device_type) {
        *out = device_of(o);
        return 0;
    }
    if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        return text ? parse(text, out) : -1;
    }
    return PyLong_Check(o) && !PyBool_Check(o) ? from_number() : -2;
}

int device_check(py_device d)
{
    if (d.type == CPU)
        return 0;
    if (d.type == CUDA)
        PyErr_SetString(PyExc_AssertionError, "Torch not compiled with CUDA enabled");
    else
        PyErr_Format(PyExc_NotImplementedError, "brisk has no tensors on device '%s'", names[d.type]);
    return -1;
}

/* --- the type ----------------------------------------------------------------------------------------------- */

static PyObject *invalid(PyObject *first)
{
    return PyErr_Format(PyExc_TypeError,
                        "device() received an invalid combination of arguments - got (%s), but expected one of:\n"
                        " * (torch.device device)\n * (str type, int index = -1)\n",
                        first ? py_type_name(first) : "");
}

static int add_index(PyObject *index, py_device *d, const char *text)
{
    long i = PyLong_AsLong(index);
    if (i == -1 && PyErr_Occurred())
        return -1;
    if (d->index >= 0)
        PyErr_Format(PyExc_RuntimeError,
                     "type (string) must not include an index because index was passed explicitly: %s", text);
    else if (i < 0)
        PyErr_SetString(PyExc_RuntimeError, "Device index must not be negative");
    else if (i > INT8_MAX)
        PyErr_Format(PyExc_RuntimeError, "Device index %ld is too large", i);
    else
        d->index = (int8_t)i;
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    static char *by_type[] = { "type", "index", NULL }, *by_device[] = { "device", NULL };
    PyObject *first = NULL, *index = NULL;
    bool named = kwargs && PyDict_GetItemString(kwargs, "device");
    if (named ? !PyArg_ParseTupleAndKeywords(args, kwargs, "|O:device", by_device, &first)
              : !PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:device", by_type, &first, &index))
        return NULL;
    py_device d;
    int r = first ? device_from_python(first, &d) : -2;
    if (r == -2 || (index && index != Py_None && !PyUnicode_Check(first)))
        return invalid(first);
    if (r < 0)
        return NULL;
    if (index && index != Py_None && add_index(index, &d, PyUnicode_AsUTF8(first)))
        return NULL;
    return py_device_new(d);
}

static PyObject *device_repr(PyObject *o)
{
    py_device d = device_of(o);
    if (d.index < 0)
        return PyUnicode_FromFormat("device(type='%s')", names[d.type]);
    return PyUnicode_FromFormat("device(type='%s', index=%d)", names[d.type], d.index);
}

static PyObject *device_str(PyObject *o)
{
    py_device d = device_of(o);
    if (d.index < 0)
        return PyUnicode_FromString(names[d.type]);
    return PyUnicode_FromFormat("%s:%d", names[d.type], d.index);
}

static Py_hash_t device_hash(PyObject *o) { return (device_of(o).type << 8) + (device_of(o).index + 1); }

static PyObject *device_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(a) != py_device_type || Py_TYPE(b) != py_device_type)
        Py_RETURN_NOTIMPLEMENTED;
    if (op != Py_EQ && op != Py_NE)
        return PyErr_Format(PyExc_TypeError, "comparison not implemented");
    bool same = device_of(a).type == device_of(b).type && device_of(a).index == device_of(b).index;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static PyObject *get_type(PyObject *o, void *c) { return (void)c, PyUnicode_FromString(names[device_of(o).type]); }

static PyObject *get_index(PyObject *o, void *c)
{
    (void)c;
    if (device_of(o).index < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(device_of(o).index);
}

static PyObject *device_reduce(PyObject *o, PyObject *none)
{
    (void)none;
    py_device d = device_of(o);
    if (d.index < 0)
        return Py_BuildValue("O(s)", py_device_type, names[d.type]);
    return Py_BuildValue("O(si)", py_device_type, names[d.type], d.index);
}

/* As a context it makes itself the default device, which for cpu it already is. */
static PyObject *device_enter(PyObject *o, PyObject *none)
{
    (void)none;
    return device_check(device_of(o)) ? NULL : Py_NewRef(o);
}

static PyObject *device_exit(PyObject *o, PyObject *args)
{
    (void)o, (void)args;
    Py_RETURN_NONE;
}

static PyGetSetDef device_attributes[] = {
    { "type", get_type, NULL, "the kind of device: 'cpu'", NULL },
    { "index", get_index, NULL, "which of its kind, or None", NULL },
    { 0 },
};

static PyMethodDef device_methods[] = {
    { "__reduce__", device_reduce, METH_NOARGS, NULL },
    { "__enter__", device_enter, METH_NOARGS, NULL },
    { "__exit__", device_exit, METH_VARARGS, NULL },
    { 0 },
};

static PyType_Slot device_slots[] = {
    { Py_tp_doc, "Where a tensor lives. Every device can be named; tensors live on cpu." },
    { Py_tp_new, device_new },
    { Py_tp_repr, device_repr },
    { Py_tp_str, device_str },
    { Py_tp_hash, device_hash },
    { Py_tp_richcompare, device_compare },
    { Py_tp_getset, device_attributes },
    { Py_tp_methods, device_methods },
    { 0, NULL },
};

static PyType_Spec device_spec = { "brisk.device", sizeof(device_object), 0, Py_TPFLAGS_DEFAULT, device_slots };

int device_init(PyObject *module) { return py_add_type(module, &device_spec, &py_device_type); }
