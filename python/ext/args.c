/* args.c: the callables made from rows, and the parser that fills their arguments.
 *
 * A PyMethodDef function does not know which row it serves, so functions and methods are two small types of our own
 * that hold their rows and are called by vectorcall. The method type is a method descriptor: `x.sum(0)` calls it with
 * (x, 0) and no bound method is made, so function and method meet the same array of arguments. The function type
 * does not bind, as builtins don't: a class attribute `act = brisk.relu` stays a function.
 *
 * Invariant: overloads is NULL or holds n compiled signatures, in the rows' order. */
#include "convert.h"
#include "explain.h"
#include "out.h"
#include "autograd/composed.h"
#include "autograd/slopeless.h"

#include <string.h>
#include <stddef.h>

static PyTypeObject *function_type, *method_type;
PyTypeObject *py_generator_type;

/* --- parsing ------------------------------------------------------------------------------------------------- */

static int parse_keywords(const overload *o, PyObject *const *values, PyObject *names, int filled, arg *args,
                          uint32_t *seen, call_state *s)
{
    Py_ssize_t n = PyTuple_GET_SIZE(names);
    for (Py_ssize_t k = 0; k < n; k++) {
        int i = signature_find(o, PyTuple_GET_ITEM(names, k));
        if (i < filled || (*seen >> i & 1)) /* unknown (-1), or already there */
            return MISFIT;
        int r = convert(&o->params[i], i, values[k], &args[i], s);
        if (r != FIT)
            return r;
        *seen |= 1u << i;
    }
    return FIT;
}

/* FIT with all of args[0..o->n) filled; MISFIT; or FAILED with an exception. */
static int parse(const overload *o, PyObject *const *given, Py_ssize_t n, PyObject *names, arg *args, call_state *s)
{
    int r, plain = (int)n, filled = (int)n;
    if (__builtin_expect(n > o->positional, 0)) {
        if (o->spread < 0)
            return MISFIT;
        plain = o->spread; /* x.view(2, 3): all that is left is one int[] */
        filled = plain + 1;
        args[plain].object = NULL;
        args[plain].given = true;
        if ((r = convert_spread(&o->params[plain], given + plain, n - plain, &args[plain], s)) != FIT)
            return r;
    }
    for (int i = 0; i < plain; i++)
        if (__builtin_expect((r = convert(&o->params[i], i, given[i], &args[i], s)) != FIT, 0))
            return r;
    uint32_t seen = 0;
    if (names && (r = parse_keywords(o, given + n, names, filled, args, &seen, s)) != FIT)
        return r;
    for (int i = filled; i < o->n; i++)
        if (!(seen >> i & 1)) {
            if (o->params[i].required)
                return MISFIT;
            memcpy(&args[i], &o->defaults[i], DEFAULT_BYTES);
        }
    return FIT;
}

/* --- calling ------------------------------------------------------------------------------------------------- */

static void free_overloads(overload *o, int n)
{
    for (int i = 0; i < n; i++)
        signature_free(&o[i]);
    PyMem_Free(o);
}

/* --- functions that look like one on the tape (autograd/composed.h) */

/* What a row says about the arguments; false where no call of the overload fits it. A list of tensors is none of them.
 */
static bool read_row(int row, const overload *o, shown_row *out)
{
    const char *c = composed_rows[row].arguments;
    *out = (shown_row){ .row = (int16_t)row, .ndim = -1 };
    for (; *c && !strchr("*=>:|", *c); c++) {
        const int k = composed_argument(*c);
        out->flat |= *c == '?';
        if (strchr("^+!%?", *c))
            continue;
        if (*c == '~' || k >= o->n || o->params[k].type != ARG_TENSOR)
            return false;
        out->may_miss |= (uint8_t)((*c >= 'a') << out->count);
        out->argument[out->count++] = (uint8_t)k;
    }
    out->list = *c == '*';
    if (*c == ':')
        out->ndim = c[1] == 's' ? SHOWN_STRIDED : (int8_t)(c[1] - '0');
    return true;
}

static int read_rows(const char *function, overload *o)
{
    const int first = composed_find(function);
    int end = first;
    while (end >= 0 && end < composed_count && strcmp(composed_rows[end].function, function) == 0)
        end++;
    if (first < 0)
        return 0;
    o->shown = PyMem_Malloc((size_t)(end - first) * sizeof *o->shown);
    if (!o->shown)
        return PyErr_NoMemory(), -1;
    for (int row = first; row < end; row++)
        o->shown_count += read_row(row, o, &o->shown[o->shown_count]);
    return 0;
}

static bool lies_so(const shown_row *row, const layout *l)
{
    return row->ndim == SHOWN_STRIDED ? !l->contiguous : l->ndim == row->ndim;
}

/* Whether the arguments of a row are there; which of them require gradients. */
static inline bool row_fits(const shown_row *row, const arg *args, uint8_t *reached)
{
    *reached = 0;
    for (int i = 0; i < row->count; i++) {
        const bk_tensor *t = args[row->argument[i]].tensor;
        if (!t && !(row->may_miss >> i & 1))
            return false;
        *reached |= (uint8_t)((t && tensor_tracked(t)) << i);
    }
    while (row->list && *reached < UINT8_MAX && *reached < args[0].tensors.n &&
           !tensor_tracked(args[0].tensors.v[*reached]))
        ++*reached;
    return row->ndim < 0 || lies_so(row, args[0].tensor->layout);
}

/* A write of what no gradient follows: one function of all arguments on the tape. */
__attribute__((noinline)) static PyObject *call_slopeless(const overload *o, const shown_row *row, const arg *args)
{
    const composed *shown = &composed_rows[row->row];
    bk_tensor *of[8];
    for (int i = 0; i < row->count; i++)
        of[i] = args[row->argument[i]].tensor;
    if (tensor_check_leaf(of[0]) < 0)
        return py_raise();
    const bool was = bk_set_grad_enabled(false);
    PyObject *result = o->call(args);
    bk_set_grad_enabled(was);
    if (result && slopeless_written(shown->function, shown->name, of, row->count) < 0) {
        Py_DECREF(result);
        return py_raise();
    }
    return result;
}

static PyObject *call_composed(const overload *o, const arg *args)
{
    uint8_t reached = 0;
    const shown_row *row = o->shown, *end = row + o->shown_count;
    if (!grad_enabled())
        return o->call(args);
    while (row < end && !row_fits(row, args, &reached)) /* before the call, which may write to them */
        row++;
    if (row < end && row->flat && reached && !(args[0].tensor->flags & TENSOR_VIEW))
        return call_slopeless(o, row, args);
    uint64_t start = next_sequence;
    PyObject *result = o->call(args);
    if (!result || row == end)
        return result;
    if (py_is_tensor(result))
        composed_mark(((py_tensor *)result)->t, row->row, start, reached);
    for (Py_ssize_t i = 0; PyTuple_Check(result) && i < PyTuple_GET_SIZE(result); i++) {
        PyObject *one = PyTuple_GET_ITEM(result, i);
        if (py_is_tensor(one))
            composed_mark_several(((py_tensor *)one)->t, row->row, start, reached, (int)i);
    }
    return result;
}

static void find_out(const char *function, overload *o)
{
    o->out = 0;
    while (o->out < o->n && PyUnicode_CompareWithASCIIString(o->params[o->out].name, "out") != 0)
        o->out++;
    if (o->out < o->n)
        o->out_row = (uint8_t)out_row_of(function, o->params[o->out].type == ARG_TENSORS);
}

/* A call that may have an out. */
static PyObject *call_with_out(const builtin *f, const overload *o, arg *args)
{
    if (o->out == o->n || !args[o->out].given)
        return o->shown_count ? call_composed(o, args) : o->call(args);
    args[o->out].out_row = o->out_row;
    return out_goes_with(PyUnicode_AsUTF8(f->name), args, o->n, &args[o->out]) ? o->call(args) : NULL;
}

static int compile(builtin *f)
{
    const int count = f->n + f->older;
    overload *all = PyMem_Calloc((size_t)count, sizeof *all);
    if (!all)
        return PyErr_NoMemory(), -1;
    int n = 0;
    for (const binding *row = f->rows; n < count; row++) {
        if (!(row->where & f->where))
            continue;
        if (signature_compile(row->signature, f->where == AS_METHOD, &all[n])) {
            free_overloads(all, n);
            return -1;
        }
        all[n].call = row->call;
        find_out(PyUnicode_AsUTF8(f->name), &all[n]);
        if (read_rows(PyUnicode_AsUTF8(f->name), &all[n++])) {
            free_overloads(all, n);
            return -1;
        }
    }
    f->overloads = all;
    return 0;
}

/* --- older orders of arguments */

/* "\n\tadd(Tensor input, Tensor other)" after a text, which is stolen. */
static PyObject *append_overload(PyObject *text, const builtin *f, int i, const binding *row)
{
    PyObject *shown = text ? signature_show(&f->overloads[i], row->signature) : NULL;
    PyObject *longer = shown ? PyUnicode_FromFormat("%U\n\t%U%U", text, f->name, shown) : NULL;
    Py_XDECREF(shown);
    Py_XDECREF(text);
    return longer;
}

/* Once in a process, whatever the function: so does PyTorch. */
static int warn_of_order(const builtin *f, int older)
{
    static bool warned;
    if (warned)
        return 0;
    warned = true;
    PyObject *meant = PyUnicode_FromFormat("This overload of %U is deprecated:", f->name);
    PyObject *others = PyUnicode_FromString("\nConsider using one of the following signatures instead:");
    int i = 0;
    for (const binding *row = f->rows; i <= older; row++) {
        if (!(row->where & f->where))
            continue;
        if (i < f->n)
            others = append_overload(others, f, i, row);
        else if (i == older)
            meant = append_overload(meant, f, i, row);
        i++;
    }
    int r = meant && others ? PyErr_WarnFormat(PyExc_UserWarning, 1, "%U%U", meant, others) : -1;
    Py_XDECREF(meant);
    Py_XDECREF(others);
    return r;
}

static PyObject *call_older(const builtin *f, PyObject *const *given, Py_ssize_t n, PyObject *names)
{
    arg args[MAX_PARAMS];
    call_state s = { .function = f->name };
    for (int i = f->n; i < f->n + f->older; i++) {
        const overload *o = &f->overloads[i];
        int r = parse(o, given, n, names, args, &s);
        PyObject *result = r == FIT && warn_of_order(f, i) == 0 ? call_with_out(f, o, args) : NULL;
        convert_release(&s);
        if (r != MISFIT)
            return result;
    }
    return explain(f, given, n, names);
}

static PyObject *call(PyObject *self, PyObject *const *given, size_t nargsf, PyObject *names)
{
    builtin *f = (builtin *)self;
    if (__builtin_expect(!f->overloads, 0) && compile(f))
        return NULL;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    arg args[MAX_PARAMS];
    call_state s;
    s.function = f->name;
    s.lists = 0;
    for (const overload *o = f->overloads, *end = o + f->n; o < end; o++) {
        int r = parse(o, given, n, names, args, &s);
        PyObject *result = r != FIT              ? NULL
                           : names || n > o->out ? call_with_out(f, o, args)
                           : !o->shown_count     ? o->call(args)
                                                 : call_composed(o, args);
        if (__builtin_expect(s.lists != 0, 0))
            convert_release(&s);
        if (r != MISFIT)
            return result;
    }
    return call_older(f, given, n, names);
}

/* --- the two types ------------------------------------------------------------------------------------------- */

static void builtin_dealloc(PyObject *self)
{
    builtin *f = (builtin *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (f->overloads)
        free_overloads(f->overloads, f->n + f->older);
    Py_DECREF(f->name);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *bind(PyObject *f, PyObject *object, PyObject *type)
{
    (void)type;
    return object ? PyMethod_New(f, object) : Py_NewRef(f);
}

static PyObject *builtin_repr(PyObject *self)
{
    builtin *f = (builtin *)self;
    if (f->where == AS_FUNCTION)
        return PyUnicode_FromFormat("<built-in function %U>", f->name);
    return PyUnicode_FromFormat("<method '%U' of '%s' objects>", f->name, ((PyTypeObject *)f->owner)->tp_name);
}

/* A text is a global name, which pickle stores and copy takes for the object itself; a method is an attribute. */
static PyObject *builtin_reduce(PyObject *self, PyObject *none)
{
    (void)none;
    builtin *f = (builtin *)self;
    if (f->where == AS_FUNCTION)
        return Py_NewRef(f->name);
    PyObject *builtins = PyImport_ImportModule("builtins"); /* a new reference on every version */
    PyObject *get = builtins ? PyObject_GetAttrString(builtins, "getattr") : NULL;
    PyObject *r = get ? Py_BuildValue("O(OO)", get, f->owner, f->name) : NULL;
    Py_XDECREF(get);
    Py_XDECREF(builtins);
    return r;
}

static PyObject *get_name(PyObject *self, void *c) { return (void)c, Py_NewRef(((builtin *)self)->name); }

static PyObject *get_qualname(PyObject *self, void *c)
{
    (void)c;
    builtin *f = (builtin *)self;
    if (f->where == AS_FUNCTION)
        return Py_NewRef(f->name);
    PyObject *owner = PyObject_GetAttrString(f->owner, "__qualname__");
    PyObject *full = owner ? PyUnicode_FromFormat("%U.%U", owner, f->name) : NULL;
    Py_XDECREF(owner);
    return full;
}

static PyObject *get_module(PyObject *self, void *c)
{
    (void)c;
    builtin *f = (builtin *)self;
    return PyObject_GetAttrString(f->owner, f->where == AS_FUNCTION ? "__name__" : "__module__");
}

/* The overloads as error texts show them; also compiles them, which is how a test checks every row. */
static PyObject *get_overloads(PyObject *self, void *c)
{
    (void)c;
    builtin *f = (builtin *)self;
    if (!f->overloads && compile(f))
        return NULL;
    PyObject *list = PyList_New(0);
    int i = 0;
    for (const binding *row = f->rows; list && i < f->n + f->older; row++) {
        if (!(row->where & f->where))
            continue;
        PyObject *shown = signature_show(&f->overloads[i++], row->signature);
        if (!shown || PyList_Append(list, shown))
            Py_CLEAR(list);
        Py_XDECREF(shown);
    }
    return list;
}

/* Each overload on a line of its own, then the rows' lines of text. */
static PyObject *get_doc(PyObject *self, void *c)
{
    builtin *f = (builtin *)self;
    PyObject *shown = get_overloads(self, c), *doc = shown ? PyUnicode_FromString("") : NULL;
    for (Py_ssize_t i = 0; doc && i < PyList_GET_SIZE(shown); i++)
        Py_SETREF(doc, PyUnicode_FromFormat("%U%U%U\n", doc, f->name, PyList_GET_ITEM(shown, i)));
    int i = 0;
    for (const binding *row = f->rows; doc && i < f->n + f->older; row++) {
        i += (row->where & f->where) != 0;
        if (row->doc && (row->where & f->where))
            Py_SETREF(doc, PyUnicode_FromFormat("%U\n%s", doc, row->doc));
    }
    Py_XDECREF(shown);
    return doc;
}

static PyGetSetDef builtin_attributes[] = {
    { "__name__", get_name, NULL, NULL, NULL },       { "__qualname__", get_qualname, NULL, NULL, NULL },
    { "__module__", get_module, NULL, NULL, NULL },   { "__doc__", get_doc, NULL, NULL, NULL },
    { "overloads", get_overloads, NULL, NULL, NULL }, { 0 },
};

static PyMethodDef builtin_methods[] = { { "__reduce__", builtin_reduce, METH_NOARGS, NULL }, { 0 } };

static PyMemberDef builtin_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(builtin, vectorcall), READONLY, NULL },
    { 0 },
};

static PyType_Slot function_slots[] = {
    { Py_tp_dealloc, builtin_dealloc },
    { Py_tp_call, PyVectorcall_Call },
    { Py_tp_repr, builtin_repr },
    { Py_tp_getset, builtin_attributes },
    { Py_tp_methods, builtin_methods },
    { Py_tp_members, builtin_members },
    { 0, NULL },
};
static PyType_Slot method_slots[] = {
    { Py_tp_dealloc, builtin_dealloc }, { Py_tp_call, PyVectorcall_Call },
    { Py_tp_repr, builtin_repr },       { Py_tp_getset, builtin_attributes },
    { Py_tp_methods, builtin_methods }, { Py_tp_members, builtin_members },
    { Py_tp_descr_get, bind },          { 0, NULL },
};

enum {
    BUILTIN_FLAGS = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE |
    Py_TPFLAGS_HAVE_VECTORCALL
};

static PyType_Spec function_spec = { "brisk.builtin_function", sizeof(builtin), 0, BUILTIN_FLAGS, function_slots };
static PyType_Spec method_spec = { "brisk.builtin_method", sizeof(builtin), 0,
                                   BUILTIN_FLAGS | Py_TPFLAGS_METHOD_DESCRIPTOR, method_slots };

int args_init(PyObject *module)
{
    if (py_add_type(module, &function_spec, &function_type))
        return -1;
    return py_add_type(module, &method_spec, &method_type);
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

/* The callable holds its owner without a reference count: both live as long as the process. */
static int add(PyObject *owner, int where, const binding *rows, int n, int older)
{
    PyObject *name = PyUnicode_FromStringAndSize(rows->signature, (Py_ssize_t)signature_name_length(rows->signature));
    if (!name)
        return -1;
    PyUnicode_InternInPlace(&name);
    builtin *f = PyObject_New(builtin, where == AS_FUNCTION ? function_type : method_type);
    if (!f) {
        Py_DECREF(name);
        return -1;
    }
    f->vectorcall = call;
    f->rows = rows;
    f->n = n;
    f->older = older;
    f->where = where;
    f->name = name;
    f->overloads = NULL;
    f->owner = owner;
    int r = PyObject_SetAttr(owner, name, (PyObject *)f);
    Py_DECREF(f);
    return r;
}

static int add_all(PyObject *owner, int where, const binding *rows, size_t n)
{
    for (size_t i = 0, next; i < n; i = next) {
        size_t length = signature_name_length(rows[i].signature);
        int count = 0, older = 0;
        const binding *first = NULL;
        for (next = i; next < n && signature_name_length(rows[next].signature) == length &&
                       memcmp(rows[next].signature, rows[i].signature, length) == 0;
             next++)
            if (rows[next].where & where) {
                first = first ? first : &rows[next];
                *(rows[next].where & AS_OLDER ? &older : &count) += 1;
            }
        if (count && add(owner, where, first, count, older))
            return -1;
    }
    return 0;
}

int args_add_functions(PyObject *module, const binding *rows, size_t n)
{
    return add_all(module, AS_FUNCTION, rows, n);
}

int args_add_methods(PyTypeObject *type, const binding *rows, size_t n)
{
    return add_all((PyObject *)type, AS_METHOD, rows, n);
}
