/* signature.c: compiles a signature text: one pass, left to right, no backtracking.
 *
 * The texts are ours, so a mistake in one is a SystemError that names it; tests compile every row. */
#include "signature.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

const char *const arg_type_names[ARG_TYPE_COUNT] = {
    [ARG_TENSOR] = "Tensor",
    [ARG_TENSORS] = "tuple of Tensors",
    [ARG_SCALAR] = "Number",
    [ARG_INT] = "int",
    [ARG_INTS] = "tuple of ints",
    [ARG_FLOAT] = "float",
    [ARG_BOOL] = "bool",
    [ARG_TRUTH] = "bool",
    [ARG_STR] = "str",
    [ARG_DTYPE] = "torch.dtype",
    [ARG_DEVICE] = "torch.device",
    [ARG_LAYOUT] = "torch.layout",
    [ARG_MEMORY_FORMAT] = "torch.memory_format",
    [ARG_GENERATOR] = "torch.Generator",
    [ARG_OBJECT] = "object",
};

static const struct {
    const char *text;
    arg_type type, list;
} type_words[] = {
    { "Tensor", ARG_TENSOR, ARG_TENSORS },          { "Scalar", ARG_SCALAR, ARG_TYPE_COUNT },
    { "Number", ARG_SCALAR, ARG_TYPE_COUNT },       { "int", ARG_INT, ARG_INTS },
    { "float", ARG_FLOAT, ARG_TYPE_COUNT },         { "bool", ARG_BOOL, ARG_TYPE_COUNT },
    { "Truth", ARG_TRUTH, ARG_TYPE_COUNT },         { "str", ARG_STR, ARG_TYPE_COUNT },
    { "dtype", ARG_DTYPE, ARG_TYPE_COUNT },         { "device", ARG_DEVICE, ARG_TYPE_COUNT },
    { "layout", ARG_LAYOUT, ARG_TYPE_COUNT },       { "memory_format", ARG_MEMORY_FORMAT, ARG_TYPE_COUNT },
    { "Generator", ARG_GENERATOR, ARG_TYPE_COUNT }, { "Object", ARG_OBJECT, ARG_TYPE_COUNT },
};

typedef struct reader {
    const char *at;
    const char *text; /* the whole, for messages */
} reader;

static int bad(const reader *r, const char *expected)
{
    PyErr_Format(PyExc_SystemError, "signature \"%s\": expected %s at \"%s\"", r->text, expected, r->at);
    return -1;
}

static void skip_space(reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

static bool accept(reader *r, char c)
{
    skip_space(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

/* A word of letters, digits and underscores; its length, 0 for none. */
static size_t word(reader *r, const char **start)
{
    skip_space(r);
    *start = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    return (size_t)(r->at - *start);
}

static bool is(const char *start, size_t length, const char *text)
{
    return strlen(text) == length && memcmp(start, text, length) == 0;
}

/* "int[2]?" */
static int read_type(reader *r, param *p)
{
    const char *start;
    size_t length = word(r, &start), i = 0, n = sizeof type_words / sizeof *type_words;
    while (i < n && !is(start, length, type_words[i].text))
        i++;
    if (i == n)
        return bad(r, "a type");
    p->type = (uint8_t)type_words[i].type;
    p->repeat = 0;
    if (accept(r, '[')) {
        p->type = (uint8_t)type_words[i].list;
        for (; isdigit((unsigned char)*r->at); r->at++)
            p->repeat = (uint8_t)(p->repeat * 10 + (*r->at - '0'));
        if (p->type == ARG_TYPE_COUNT || p->repeat > DEFAULT_INTS || !accept(r, ']'))
            return bad(r, "a list of ints or Tensors");
    }
    p->nullable = accept(r, '?');
    return 0;
}

static const struct {
    const char *ours, *numpy[MAX_SYNONYMS];
} synonyms[] = {
    { "dim", { "axis" } },
    { "keepdim", { "keepdims" } },
    { "input", { "x", "x1", "a" } },
    { "other", { "x2" } },
};

static int add_synonyms(param *p)
{
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        if (PyUnicode_CompareWithASCIIString(p->name, synonyms[i].ours) != 0)
            continue;
        for (int k = 0; k < MAX_SYNONYMS && synonyms[i].numpy[k]; k++)
            if (!(p->synonyms[k] = PyUnicode_InternFromString(synonyms[i].numpy[k])))
                return -1;
    }
    return 0;
}

static void free_param(param *p)
{
    Py_XDECREF(p->name);
    for (int k = 0; k < MAX_SYNONYMS; k++)
        Py_XDECREF(p->synonyms[k]);
}

static bool same_word(PyObject *ours, PyObject *keyword)
{
    return ours == keyword || (!PyUnicode_CHECK_INTERNED(keyword) && PyUnicode_Compare(ours, keyword) == 0);
}

/* Keywords in code are interned, as our names are: one pointer comparison each. */
int signature_find(const overload *o, PyObject *keyword)
{
    for (int i = o->hidden; i < o->n; i++)
        if (same_word(o->params[i].name, keyword))
            return o->params[i].withheld ? -1 : i;
    for (int i = o->hidden; i < o->n; i++)
        for (int k = 0; k < MAX_SYNONYMS && o->params[i].synonyms[k]; k++)
            if (same_word(o->params[i].synonyms[k], keyword))
                return i;
    return -1;
}

/* `self` reads `input` in the function, as PyTorch's documentation has it, unless it is a number. */
static int read_name(reader *r, bool method, param *p)
{
    const char *start;
    size_t length = word(r, &start);
    if (!length)
        return bad(r, "a name");
    bool input = !method && p->type != ARG_SCALAR && is(start, length, "self");
    p->name = input ? PyUnicode_FromString("input") : PyUnicode_FromStringAndSize(start, (Py_ssize_t)length);
    if (!p->name)
        return -1;
    PyUnicode_InternInPlace(&p->name);
    return add_synonyms(p);
}

static int read_number(reader *r, py_number *out)
{
    char *end_int, *end;
    long long i = strtoll(r->at, &end_int, 10);
    double d = PyOS_string_to_double(r->at, &end, NULL); /* strtod would follow the locale */
    if (PyErr_Occurred())
        return PyErr_Clear(), bad(r, "a number");
    *out = end_int == end ? (py_number){ NUMBER_INT, i, (double)i } : (py_number){ NUMBER_FLOAT, 0, d };
    r->at = end;
    return 0;
}

/* "1" (repeated as int[k] asks) or "(1, 2)" or "[]" */
static int read_ints(reader *r, const param *p, arg *out)
{
    py_number number;
    bool open = accept(r, '(') || accept(r, '[');
    if (!open) {
        if (read_number(r, &number))
            return -1;
        out->ints.n = p->repeat ? p->repeat : 1;
        for (int i = 0; i < out->ints.n; i++)
            out->ints.v[i] = number.i;
        return 0;
    }
    for (out->ints.n = 0; !accept(r, ')') && !accept(r, ']'); accept(r, ',')) {
        if (out->ints.n == DEFAULT_INTS || read_number(r, &number))
            return bad(r, "at most eight ints");
        out->ints.v[out->ints.n++] = number.i;
    }
    return 0;
}

static int read_bool(reader *r, bool *out)
{
    const char *start;
    size_t length = word(r, &start);
    *out = is(start, length, "True");
    return *out || is(start, length, "False") ? 0 : bad(r, "True or False");
}

/* A quoted text; it is interned so that it lives on. */
static int read_text(reader *r, const char **out)
{
    char quote = *r->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(r->at + 1, quote) : NULL;
    if (!end)
        return bad(r, "a quoted text");
    PyObject *text = PyUnicode_FromStringAndSize(r->at + 1, end - r->at - 1);
    if (!text)
        return -1;
    PyUnicode_InternInPlace(&text);
    *out = PyUnicode_AsUTF8(text); /* the reference is kept on purpose: signatures live as long as the module */
    r->at = end + 1;
    return *out ? 0 : -1;
}

static int read_default(reader *r, param *p, arg *out)
{
    skip_space(r);
    if (strncmp(r->at, "None", 4) == 0) {
        r->at += 4;
        p->nullable = true;
        return 0;
    }
    out->given = true;
    py_number number;
    switch (p->type) {
    case ARG_BOOL:
    case ARG_TRUTH: return read_bool(r, &out->b);
    case ARG_STR: return read_text(r, &out->s);
    case ARG_INTS: return read_ints(r, p, out);
    case ARG_SCALAR:
        if (*r->at == 'T' || *r->at == 'F') {
            bool b;
            int failed = read_bool(r, &b);
            out->scalar = (py_number){ NUMBER_BOOL, b, b };
            return failed;
        }
        return read_number(r, &out->scalar);
    case ARG_INT:
    case ARG_FLOAT:
        if (read_number(r, &number))
            return -1;
        if (p->type == ARG_INT)
            out->i = number.i;
        else
            out->d = number.d;
        return 0;
    default: return bad(r, "None");
    }
}

static int read_params(reader *r, bool method, param *params, arg *defaults, overload *o)
{
    bool star = false;
    while (!accept(r, ')')) {
        if (accept(r, '*')) {
            star = true;
        } else {
            if (o->n == MAX_PARAMS)
                return bad(r, "fewer parameters");
            param *p = &params[o->n];
            if (read_type(r, p) || read_name(r, method, p))
                return -1;
            p->required = !accept(r, '=');
            o->n++; /* counted before its default is read: what fails later is freed with it */
            if (!p->required && read_default(r, p, &defaults[o->n - 1]))
                return -1;
            o->positional += !star;
            o->required += !star && p->required;
            p->withheld = method && star && PyUnicode_CompareWithASCIIString(p->name, "out") == 0;
            o->withheld += p->withheld;
        }
        if (!accept(r, ',') && *r->at != ')')
            return bad(r, "a comma or ')'");
    }
    return 0;
}

int signature_compile(const char *text, bool method, overload *out)
{
    param params[MAX_PARAMS] = { 0 };
    arg defaults[MAX_PARAMS] = { 0 };
    reader r = { text + signature_name_length(text), text };
    *out = (overload){ .hidden = method, .spread = -1 };
    if (!accept(&r, '('))
        return bad(&r, "'('");
    if (read_params(&r, method, params, defaults, out) == 0) {
        int first = out->hidden;
        if (out->positional == first + 1 && params[first].type == ARG_INTS && !params[first].repeat)
            out->spread = (int8_t)first;
        for (int i = 0; i < out->n; i++)
            params[i].lone = params[i].repeat || i == out->spread;
        out->params = PyMem_Malloc(sizeof *params * out->n + 1);
        out->defaults = PyMem_Malloc(sizeof *defaults * out->n + 1);
        if (out->params && out->defaults) {
            memcpy(out->params, params, sizeof *params * out->n);
            memcpy(out->defaults, defaults, sizeof *defaults * out->n);
            return 0;
        }
        PyErr_NoMemory();
    }
    for (int i = 0; i < out->n; i++)
        free_param(&params[i]);
    PyMem_Free(out->params);
    PyMem_Free(out->defaults);
    *out = (overload){ 0 };
    return -1;
}

void signature_free(overload *o)
{
    for (int i = 0; i < o->n; i++)
        free_param(&o->params[i]);
    PyMem_Free(o->params);
    PyMem_Free(o->defaults);
    PyMem_Free(o->shown);
    *o = (overload){ 0 };
}

size_t signature_name_length(const char *text) { return strcspn(text, "( "); }

/* The default's text, from the signature: what stands between '=' and the comma that ends the parameter. */
static PyObject *default_text(const char *text, int index)
{
    const char *p = strchr(text, '(') + 1;
    int depth = 0;
    for (const char *from = NULL;; p++) {
        if (*p == '=' && depth == 0)
            from = p + 1;
        depth += *p == '(' || *p == '[';
        if (depth == 0 && (*p == ',' || *p == ')' || !*p)) {
            if (index == 0)
                return from ? PyUnicode_FromStringAndSize(from, p - from) : PyUnicode_FromString("");
            index--, from = NULL;
        } else {
            depth -= *p == ')' || *p == ']';
        }
    }
}

PyObject *signature_show(const overload *o, const char *text)
{
    PyObject *parts = PyList_New(0), *separator = PyUnicode_FromString(", "), *shown = NULL;
    for (int i = o->hidden; parts && separator && i <= o->n; i++) {
        bool star = i == o->positional && i + o->withheld < o->n;
        PyObject *s = star ? PyUnicode_FromString("*") : NULL;
        if (star && (!s || PyList_Append(parts, s)))
            goto done;
        Py_XDECREF(s);
        if (i == o->n)
            break;
        const param *p = &o->params[i];
        if (p->withheld)
            continue;
        PyObject *value = p->required ? NULL : default_text(text, i + (i >= o->positional));
        s = value ? PyUnicode_FromFormat("%s %U = %U", arg_type_names[p->type], p->name, value)
                  : PyUnicode_FromFormat("%s %U", arg_type_names[p->type], p->name);
        Py_XDECREF(value);
        int failed = !s || PyList_Append(parts, s);
        Py_XDECREF(s);
        if (failed)
            goto done;
    }
    PyObject *joined = parts && separator ? PyUnicode_Join(separator, parts) : NULL;
    shown = joined ? PyUnicode_FromFormat("(%U)", joined) : NULL;
    Py_XDECREF(joined);
done:
    Py_XDECREF(parts);
    Py_XDECREF(separator);
    return shown;
}
