/* explain.c: why a call fits none of a callable's overloads.
 *
 * Not on any fast path: the call is looked at again from the start, in the order in which PyTorch complains. When the
 * number of arguments, or the types of the positional ones, leave one overload that could be meant, the text says what
 * is wrong with it; else all are listed. A method's self is left out of all counts and positions. */
#include "explain.h"
#include "convert.h"

#include <string.h>

typedef struct request {
    const builtin *f;
    PyObject *const *given; /* positional, then the keywords' values */
    Py_ssize_t n;
    PyObject *names; /* or NULL */
    Py_ssize_t keywords;
} request;

static PyObject *type_error(const request *q, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *rest = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (rest)
        PyErr_Format(PyExc_TypeError, "%U()%U", q->f->name, rest);
    Py_XDECREF(rest);
    return NULL;
}

/* --- one overload -------------------------------------------------------------------------------------------- */

static bool takes_nothing(const overload *o) { return o->n == o->hidden + o->withheld; }

/* In the words of the interpreter, to which PyTorch leaves such calls. */
static PyObject *takes_no(const request *q, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    PyObject *what = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (what)
        PyErr_Format(PyExc_TypeError, "%s.%U() takes no%U", q->f->where == AS_METHOD ? "TensorBase" : "torch",
                     q->f->name, what);
    Py_XDECREF(what);
    return NULL;
}

static PyObject *too_many(const overload *o, const request *q)
{
    int most = o->positional - o->hidden, least = o->required - o->hidden;
    const char *were = q->n - o->hidden == 1 ? "was" : "were";
    if (takes_nothing(o))
        return takes_no(q, " arguments (%zd given)", q->n - o->hidden);
    if (least < most)
        return type_error(q, " takes from %d to %d positional arguments but %zd %s given", least, most,
                          q->n - o->hidden, were);
    return type_error(q, " takes %d positional argument%s but %zd %s given", most, most == 1 ? "" : "s",
                      q->n - o->hidden, were);
}

/* The keyword's place among the names, or -1. */
static Py_ssize_t keyword_for(const overload *o, int param, const request *q)
{
    for (Py_ssize_t k = 0; k < q->keywords; k++)
        if (signature_find(o, PyTuple_GET_ITEM(q->names, k)) == param)
            return k;
    return -1;
}

static PyObject *missing(const overload *o, const request *q)
{
    PyObject *list = PyUnicode_FromString("");
    int count = 0;
    for (int i = 0; list && i < o->n; i++)
        if (o->params[i].required && i >= q->n && keyword_for(o, i, q) < 0)
            Py_SETREF(list, PyUnicode_FromFormat("%U%s\"%U\"", list, count++ ? ", " : "", o->params[i].name));
    if (list)
        type_error(q, " missing %d required positional arguments: %U", count, list);
    Py_XDECREF(list);
    return NULL;
}

static PyObject *wrong_type(const overload *o, int i, bool positional, PyObject *value, const request *q)
{
    const param *p = &o->params[i];
    if (positional)
        return type_error(q, ": argument '%U' (position %d) must be %s, not %s", p->name, i - o->hidden + 1,
                          arg_type_names[p->type], py_type_name(value));
    return type_error(q, ": argument '%U' must be %s, not %s", p->name, arg_type_names[p->type], py_type_name(value));
}

static PyObject *stray_keyword(const overload *o, const request *q)
{
    for (Py_ssize_t k = 0; k < q->keywords; k++) {
        PyObject *name = PyTuple_GET_ITEM(q->names, k);
        int i = signature_find(o, name);
        if (i < 0)
            return type_error(q, " got an unexpected keyword argument '%U'", name);
        if ((i < q->n && i < o->positional) || keyword_for(o, i, q) != k)
            return type_error(q, " got multiple values for argument '%U'", name);
    }
    return type_error(q, " could not be called with these arguments");
}

static bool fits(const param *p, int i, PyObject *value, const request *q)
{
    call_state s = { .function = q->f->name };
    arg out;
    int r = convert(p, i, value, &out, &s);
    convert_release(&s);
    if (r == FAILED)
        PyErr_Clear();
    return r != MISFIT;
}

static PyObject *explain_one(const overload *o, const request *q)
{
    bool spread = o->spread >= 0 && q->n > o->positional && convert_is_int(q->given[o->spread]);
    if (takes_nothing(o) && q->keywords)
        return takes_no(q, " keyword arguments");
    if (q->n > o->positional && !spread)
        return too_many(o, q);
    for (int i = 0; i < o->n; i++) {
        bool positional = i < q->n && i < o->positional;
        Py_ssize_t k = positional ? -1 : keyword_for(o, i, q);
        if (!positional && k < 0) {
            if (o->params[i].required)
                return missing(o, q);
            continue;
        }
        PyObject *value = positional ? q->given[i] : q->given[q->n + k];
        if (!(spread && i == o->spread) && !fits(&o->params[i], i, value, q))
            return wrong_type(o, i, positional, value, q);
    }
    return stray_keyword(o, q);
}

/* --- all of them --------------------------------------------------------------------------------------------- */

/* "Tensor, !str!, dim=int": types, between exclamation marks where they do not fit `against`. */
static PyObject *show_given(const request *q, const overload *against)
{
    int hidden = q->f->overloads->hidden;
    PyObject *text = PyUnicode_FromString("");
    for (Py_ssize_t i = hidden; text && i < q->n + q->keywords; i++) {
        PyObject *name = i < q->n ? NULL : PyTuple_GET_ITEM(q->names, i - q->n);
        int at = name && against ? signature_find(against, name) : (int)i;
        bool wrong = against && (at < 0 || at >= against->n || !fits(&against->params[at], at, q->given[i], q));
        PyObject *shown = PyUnicode_FromFormat(wrong ? "!%s!" : "%s", py_type_name(q->given[i]));
        const char *comma = i > hidden ? ", " : "";
        if (shown)
            Py_SETREF(text, name ? PyUnicode_FromFormat("%U%s%U=%U", text, comma, name, shown)
                                 : PyUnicode_FromFormat("%U%s%U", text, comma, shown));
        Py_XDECREF(shown);
    }
    return text;
}

static PyObject *unknown_keywords(const overload *o, const request *q)
{
    PyObject *text = PyUnicode_FromString("");
    for (Py_ssize_t k = 0; text && k < q->keywords; k++) {
        PyObject *name = PyTuple_GET_ITEM(q->names, k);
        if (signature_find(o, name) < 0)
            Py_SETREF(text, PyUnicode_FromFormat("%U%s%U", text, PyUnicode_GET_LENGTH(text) ? ", " : "", name));
    }
    return text;
}

/* What keeps an overload of the right number of parameters from fitting; "" for the others. */
static PyObject *reason(const overload *o, const request *q)
{
    if (q->n + q->keywords != o->n - o->withheld)
        return PyUnicode_FromString("");
    PyObject *unknown = unknown_keywords(o, q), *text;
    if (!unknown)
        return NULL;
    if (PyUnicode_GET_LENGTH(unknown)) {
        text = PyUnicode_FromFormat("      didn't match because some of the keywords were incorrect: %U\n", unknown);
    } else {
        PyObject *types = show_given(q, o);
        text = types ? PyUnicode_FromFormat(
                           "      didn't match because some of the arguments have invalid types: (%U)\n", types)
                     : NULL;
        Py_XDECREF(types);
    }
    Py_DECREF(unknown);
    return text;
}

static PyObject *explain_all(const request *q)
{
    const builtin *f = q->f;
    PyObject *given = show_given(q, NULL), *list = PyUnicode_FromString("");
    int i = 0;
    for (const binding *row = f->rows; list && i < f->n; row++) {
        if (!(row->where & f->where))
            continue;
        const overload *o = &f->overloads[i++];
        PyObject *shown = signature_show(o, row->signature), *why = reason(o, q);
        Py_SETREF(list, shown && why ? PyUnicode_FromFormat("%U * %U\n%U", list, shown, why) : NULL);
        Py_XDECREF(shown);
        Py_XDECREF(why);
    }
    if (given && list)
        type_error(q, " received an invalid combination of arguments - got (%U), but expected one of:\n%U", given,
                   list);
    Py_XDECREF(given);
    Py_XDECREF(list);
    return NULL;
}

static bool count_fits(const overload *o, const request *q)
{
    Py_ssize_t n = q->n + q->keywords;
    int least = 0;
    for (int i = 0; i < o->n; i++)
        least += o->params[i].required;
    return n >= least && (n <= o->n - o->withheld || o->spread >= 0);
}

static bool positional_fits(const overload *o, const request *q)
{
    bool fit = q->n <= o->positional;
    for (int i = 0; fit && i < q->n; i++)
        fit = fits(&o->params[i], i, q->given[i], q);
    return fit;
}

/* Nothing is missing and every keyword is known: only a keyword's type can be wrong. */
static bool names_fit(const overload *o, const request *q)
{
    bool fit = positional_fits(o, q);
    for (int i = (int)q->n; fit && i < o->n; i++)
        fit = !o->params[i].required || keyword_for(o, i, q) >= 0;
    for (Py_ssize_t k = 0; fit && k < q->keywords; k++)
        fit = signature_find(o, PyTuple_GET_ITEM(q->names, k)) >= 0;
    return fit;
}

/* The one overload among those that pass the test, or NULL when there are none or several. */
static const overload *only(bool (*test)(const overload *, const request *), const request *q)
{
    const overload *found = NULL;
    for (const overload *o = q->f->overloads, *end = o + q->f->n; o < end; o++)
        if (test(o, q)) {
            if (found)
                return NULL;
            found = o;
        }
    return found;
}

PyObject *explain(const builtin *f, PyObject *const *given, Py_ssize_t n, PyObject *names)
{
    request q = { f, given, n, names, names ? PyTuple_GET_SIZE(names) : 0 };
    if (f->where == AS_METHOD && n == 0)
        return type_error(&q, " needs a Tensor to be called on");
    const overload *meant = f->n == 1 ? f->overloads : only(count_fits, &q);
    meant = meant ? meant : only(positional_fits, &q);
    meant = meant ? meant : only(names_fit, &q);
    return meant ? explain_one(meant, &q) : explain_all(&q);
}
