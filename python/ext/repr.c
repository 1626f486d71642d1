/* repr.c: the printed form, as PyTorch prints it. */
#include "binds.h"

#include <string.h>

#include "core/format.h"
#include "core/memory.h"
#include "ops/settings.h"

static format_options options; /* set_printoptions; zero until first used */

static format_options *printoptions(void)
{
    if (!options.linewidth)
        options = format_default;
    return &options;
}

/* "requires_grad=True", "grad_fn=<AddBackward0>", or nothing. */
static const char *grad_suffix(const bk_tensor *t, char text[static 80])
{
    if (!py_asks_gradient(t))
        return NULL;
    if (bk_is_leaf(t))
        return "requires_grad=True";
    PyObject *f = py_grad_fn(t);
    snprintf(text, 80, "grad_fn=<%s>", f ? Py_TYPE(f)->tp_name : "");
    Py_XDECREF(f);
    return text;
}

PyObject *py_tensor_repr(PyObject *self)
{
    const bk_tensor *t = ((py_tensor *)self)->t;
    view v;
    char suffix[80];
    if (py_tensor_read(self, &v) < 0)
        return NULL;
    char *text = format_tensor(&v, printoptions(), "tensor(", default_dtype(), grad_suffix(t, suffix));
    if (!text)
        return py_raise();
    PyObject *result = PyUnicode_FromString(text);
    mem_free(text);
    return result;
}

/* A number is formatted as a number; everything else only plainly. */
PyObject *py_tensor_format(const arg *a)
{
    if (a[0].tensor->layout->ndim == 0 && Py_TYPE(a[0].object) == py_tensor_type) {
        PyObject *item = PyObject_CallMethod(a[0].object, "item", NULL);
        PyObject *text = item ? PyObject_Format(item, a[1].object) : NULL;
        Py_XDECREF(item);
        return text;
    }
    if (*a[1].s)
        return PyErr_Format(PyExc_TypeError, "unsupported format string passed to %s.__format__",
                            py_type_name(a[0].object));
    return PyObject_Str(a[0].object);
}

static void set_profile(const char *name, format_options *o)
{
    static const struct {
        const char *name;
        format_options options;
    } profiles[] = {
        { "default", { .precision = 4, .threshold = 1000, .edgeitems = 3, .linewidth = 80 } },
        { "short", { .precision = 2, .threshold = 1000, .edgeitems = 2, .linewidth = 80 } },
        { "full", { .precision = 4, .threshold = INT64_MAX, .edgeitems = 3, .linewidth = 80 } },
    };
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (strcmp(profiles[i].name, name) == 0)
            *o = profiles[i].options;
}

/* (precision, threshold, edgeitems, linewidth, profile, sci_mode) */
PyObject *py_set_printoptions(const arg *a)
{
    format_options *o = printoptions();
    if (a[4].given)
        set_profile(a[4].s, o);
    if (a[0].given)
        o->precision = (int)a[0].i;
    if (a[1].given)
        o->threshold = a[1].scalar.d < 0x1p62 ? (int64_t)a[1].scalar.d : INT64_MAX;
    if (a[2].given)
        o->edgeitems = (int)a[2].i;
    if (a[3].given)
        o->linewidth = (int)a[3].i;
    o->sci_mode = a[5].given ? a[5].b : -1;
    Py_RETURN_NONE;
}

/* The same six, to be set again later. */
PyObject *py_get_printoptions(const arg *a)
{
    (void)a;
    const format_options *o = printoptions();
    PyObject *sci = o->sci_mode < 0 ? Py_None : o->sci_mode ? Py_True : Py_False;
    double threshold = o->threshold == INT64_MAX ? Py_HUGE_VAL : (double)o->threshold;
    return Py_BuildValue("{s:i,s:d,s:i,s:i,s:O}", "precision", o->precision, "threshold", threshold, "edgeitems",
                         o->edgeitems, "linewidth", o->linewidth, "sci_mode", sci);
}
