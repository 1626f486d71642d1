/* return_types.c: the named tuples that functions of two results return.
 *
 * They are CPython's struct sequences; only the repr is our own, a line for each field, as PyTorch writes it. */
#include "return_types.h"

#include <string.h>

#include "binds.h"

static const struct {
    const char *name, *first, *second;
} rows[RETURN_COUNT] = {
    [RETURN_MAX] = { "torch.return_types.max", "values", "indices" },
    [RETURN_MIN] = { "torch.return_types.min", "values", "indices" },
    [RETURN_MEDIAN] = { "torch.return_types.median", "values", "indices" },
    [RETURN_NANMEDIAN] = { "torch.return_types.nanmedian", "values", "indices" },
    [RETURN_MODE] = { "torch.return_types.mode", "values", "indices" },
    [RETURN_KTHVALUE] = { "torch.return_types.kthvalue", "values", "indices" },
    [RETURN_SORT] = { "torch.return_types.sort", "values", "indices" },
    [RETURN_TOPK] = { "torch.return_types.topk", "values", "indices" },
    [RETURN_CUMMAX] = { "torch.return_types.cummax", "values", "indices" },
    [RETURN_CUMMIN] = { "torch.return_types.cummin", "values", "indices" },
    [RETURN_AMINMAX] = { "torch.return_types.aminmax", "min", "max" },
    [RETURN_SLOGDET] = { "torch.return_types.slogdet", "sign", "logabsdet" },
    [RETURN_QR] = { "torch.return_types.qr", "Q", "R" },
    [RETURN_LINALG_SLOGDET] = { "torch.return_types.linalg_slogdet", "sign", "logabsdet" },
    [RETURN_LINALG_QR] = { "torch.return_types.linalg_qr", "Q", "R" },
    [RETURN_LU_FACTOR] = { "torch.return_types.linalg_lu_factor", "LU", "pivots" },
};

static PyTypeObject *types[RETURN_COUNT];

static PyObject *named_repr(PyObject *self)
{
    for (int t = 0; t < RETURN_COUNT; t++)
        if (types[t] == Py_TYPE(self))
            return PyUnicode_FromFormat("%s(\n%s=%R,\n%s=%R)", rows[t].name, rows[t].first,
                                        PyStructSequence_GetItem(self, 0), rows[t].second,
                                        PyStructSequence_GetItem(self, 1));
    return NULL;
}

int return_types_init(PyObject *module)
{
    PyObject *names = PyModule_New("brisk.return_types");
    if (!names)
        return -1;
    for (int t = 0; t < RETURN_COUNT; t++) {
        PyStructSequence_Field fields[] = { { rows[t].first, NULL }, { rows[t].second, NULL }, { NULL, NULL } };
        PyStructSequence_Desc description = { rows[t].name, NULL, fields, 2 };
        types[t] = PyStructSequence_NewType(&description);
        if (!types[t])
            return -1;
        types[t]->tp_repr = named_repr;
        PyType_Modified(types[t]);
        if (PyModule_AddObjectRef(names, strrchr(rows[t].name, '.') + 1, (PyObject *)types[t]) < 0)
            return -1;
    }
    return PyModule_AddObject(module, "return_types", names);
}

/* Both as objects; false with both given up. */
static bool wrap_two(bk_tensor *first, bk_tensor *second, PyObject *out[2])
{
    if (!first || !second) {
        bk_release(first);
        bk_release(second);
        py_raise();
        return false;
    }
    out[0] = py_wrap(first);
    out[1] = py_wrap(second);
    if (out[0] && out[1])
        return true;
    Py_XDECREF(out[0]);
    Py_XDECREF(out[1]);
    return false;
}

PyObject *py_tuple_two(bk_tensor *first, bk_tensor *second)
{
    PyObject *items[2];
    if (!wrap_two(first, second, items))
        return NULL;
    PyObject *tuple = PyTuple_Pack(2, items[0], items[1]);
    Py_DECREF(items[0]);
    Py_DECREF(items[1]);
    return tuple;
}

/* The two tensors of out, filled. */
static bool fill_two(bk_tensor *first, bk_tensor *second, const arg *out, PyObject *items[2])
{
    bool good = first && second;
    if (!good)
        py_raise();
    good = good && py_out_two(first, second, out);
    bk_release(first);
    bk_release(second);
    items[0] = good ? PySequence_GetItem(out->object, 0) : NULL;
    items[1] = good ? PySequence_GetItem(out->object, 1) : NULL;
    return items[0] && items[1];
}

PyObject *py_return_two(return_type type, bk_tensor *first, bk_tensor *second, const arg *out)
{
    PyObject *items[2];
    if (!(out && out->given ? fill_two(first, second, out, items) : wrap_two(first, second, items)))
        return NULL;
    PyObject *pair = PyStructSequence_New(types[type]);
    if (!pair) {
        Py_DECREF(items[0]);
        Py_DECREF(items[1]);
        return NULL;
    }
    PyStructSequence_SetItem(pair, 0, items[0]);
    PyStructSequence_SetItem(pair, 1, items[1]);
    return pair;
}
