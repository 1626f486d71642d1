/* repr.c: the printed form, as PyTorch prints it. */
#include "binds.h"
#include "core/format.h"
#include "core/memory.h"
#include "ops/settings.h"

/* "requires_grad=True", "grad_fn=<AddBackward0>", or nothing. */
static const char *grad_suffix(const bk_tensor *t, char text[static 80])
{
    if (!bk_requires_grad(t))
        return NULL;
    if (bk_is_leaf(t))
        return "requires_grad=True";
    const node *place = t->track->place;
    snprintf(text, 80, "grad_fn=<%s>", bk_is_leaf(t) || !place ? "" : op_get(place->op)->grad_name);
    return text;
}

PyObject *py_tensor_repr(PyObject *self)
{
    const bk_tensor *t = ((py_tensor *)self)->t;
    view v;
    char suffix[80];
    if (py_tensor_read(self, &v) < 0)
        return NULL;
    char *text = format_tensor(&v, &format_default, "tensor(", default_dtype(), grad_suffix(t, suffix));
    if (!text)
        return py_raise();
    PyObject *result = PyUnicode_FromString(text);
    mem_free(text);
    return result;
}
