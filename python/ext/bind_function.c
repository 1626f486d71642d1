/* bind_function.c: autograd.Function: calls of a forward and a backward of the user's own.
 *
 * Everything between Python's call of apply and the user's code is here, because for small tensors that is what a
 * custom function costs. The ctx, and what is saved in it, is function_context.c. */
#include "function_context.h"

#include "autograd/backward.h"
#include "core/lock.h"
#include "gil.h"

static PyTypeObject *context_type, *apply_type;
static PyObject *base_setup, *binder, *forwarder;
static PyObject *mapper; /* asked first about calls while functions are mapped */
static int mapped;       /* how many are */

typedef enum user_method { FORWARD, BACKWARD, SETUP, USER_METHODS } user_method;
static const char *const method_texts[] = { "forward", "backward", "setup_context" };
static PyObject *method_names[USER_METHODS];

/* 0: it has been changed since somebody looked something up in it. */
static unsigned int version_of(const PyTypeObject *type)
{
#ifdef Py_TPFLAGS_VALID_VERSION_TAG
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG))
        return 0;
#endif
    return type->tp_version_tag;
}

/* What Class.apply is: a class method that each class has in its own dict, bound already, so that a call of it makes no
 * object for the binding. For another class (super().apply, a class that was made without Function's knowing) it binds
 * anew. It keeps the ctx of calls that are over for those to come: making and dropping an object of a class of Python's
 * costs more than recording an op. */
typedef struct apply_method {
    PyObject_HEAD PyObject *type;
    PyTypeObject *ctx_type; /* what Class._backward_cls was at the first call; NULL: there was none */
    vectorcallfunc vectorcall;
    /* The functions behind the static methods of the class, as long as its version says that they are what they were:
     * until then the class holds them. */
    PyObject *method[USER_METHODS]; /* NULL: not asked for yet */
    unsigned int version;
    int spares;
    context *spare; /* owned, linked by `next` */
} apply_method;
enum { MOST_SPARES = 1024 };

PyTypeObject *context_function(const context *c) { return (PyTypeObject *)((apply_method *)c->home)->type; }

/* A method of the user's class, as the class would give it: its metaclass has nothing of these names. */
static PyObject *method_lookup(PyTypeObject *type, user_method which, apply_method *home)
{
    PyObject *found = _PyType_Lookup(type, method_names[which]);
    if (!found)
        return PyObject_GetAttr((PyObject *)type, method_names[which]); /* raises */
    descrgetfunc get = Py_TYPE(found)->tp_descr_get;
    PyObject *method = get ? get(found, NULL, (PyObject *)type) : Py_NewRef(found);
    unsigned int version = version_of(type);
    if (!method || !version || !Py_IS_TYPE(found, &PyStaticMethod_Type) || !home || home->type != (PyObject *)type)
        return method;
    if (home->version != version)
        memset(home->method, 0, sizeof home->method);
    home->version = version;
    home->method[which] = method;
    return method;
}

static inline PyObject *method_of(PyTypeObject *type, user_method which, apply_method *home)
{
    bool same = home && home->type == (PyObject *)type && home->version == version_of(type) && home->method[which];
    return same ? Py_NewRef(home->method[which]) : method_lookup(type, which, home);
}

/* --- backward
 * --------------------------------------------------------------------------------------------------------- */

static PyObject *gradient_in(const meta *m, bk_tensor *g, bool materialize)
{
    if (g)
        return py_wrap(bk_retain(g));
    if (!materialize || !m->layout)
        Py_RETURN_NONE;
    return py_wrap(bk_zeros(m->layout->ndim, m->layout->sizes, m->dtype));
}

/* A function of Python's is called without asking what it is. */
static inline PyObject *call(PyObject *function, PyObject *const *args, size_t n)
{
    if (PyFunction_Check(function))
        return ((PyFunctionObject *)function)->vectorcall(function, args, n, NULL);
    return PyObject_Vectorcall(function, args, n, NULL);
}

static PyObject *call_users_backward(context *c, bk_tensor *const *grads)
{
    enum { FEW = 4 };
    const int all = c->output_count + 2; /* room for a bound method's self, and the ctx */
    PyObject *few[FEW], **argv = all <= FEW ? few : PyMem_Malloc((size_t)all * sizeof *argv), *result = NULL;
    if (!argv)
        return PyErr_NoMemory();
    int n = 2;
    argv[1] = (PyObject *)c;
    for (; n < all; n++) {
        const meta *m = &c->outputs[n - 2];
        if (!(argv[n] = gradient_in(m, m->taped ? grads[n - 2] : NULL, c->materialize)))
            break;
    }
    PyObject *function = n == all ? method_of(context_function(c), BACKWARD, (apply_method *)c->home) : NULL;
    if (function) {
        result = call(function, argv + 1, (size_t)(n - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET);
        Py_DECREF(function);
    }
    while (--n >= 2)
        Py_DECREF(argv[n]);
    if (argv != few)
        PyMem_Free(argv);
    return result;
}

static int refuse_gradient(const context *c, int i, const char *why)
{
    PyErr_Format(PyExc_RuntimeError, "Function %sBackward returned an invalid gradient at index %d - %s",
                 context_function(c)->tp_name, i, why);
    return -1;
}

/* The dimensions of g that a broadcast to its sizes has added to or repeated of m's; NULL without an error: it is none.
 */
static PyObject *broadcast_dims(const layout *g, const layout *m)
{
    int extra = g->ndim - m->ndim;
    PyObject *dims = extra < 0 ? NULL : PyList_New(0);
    for (int d = 0; dims && d < g->ndim; d++) {
        bool same = d >= extra && g->sizes[d] == m->sizes[d - extra];
        if (!same && d >= extra && m->sizes[d - extra] != 1) {
            Py_CLEAR(dims);
            break;
        }
        PyObject *number = same ? NULL : PyLong_FromLong(d);
        if (!same && (!number || PyList_Append(dims, number) < 0))
            Py_CLEAR(dims);
        Py_XDECREF(number);
    }
    return dims;
}

/* A gradient of other sizes is summed where it was broadcast, or refused. */
static bk_tensor *fitted(const context *c, int i, PyObject *g)
{
    const meta *m = &c->inputs[i];
    char why[500], got[200], want[200];
    bk_tensor *t = handle_of(g), *out = NULL;
    if (t->layout->plain == m->layout->plain)
        return bk_to(t, m->dtype);
    PyObject *dims = broadcast_dims(t->layout, m->layout);
    if (!dims && !PyErr_Occurred()) {
        snprintf(why, sizeof why, "got %s but expected shape compatible with %s", layout_text(t->layout, got),
                 layout_text(m->layout, want));
        refuse_gradient(c, i, why);
        return NULL;
    }
    PyObject *size = dims ? py_size(m->layout->ndim, m->layout->sizes) : NULL;
    PyObject *sum = size ? PyObject_CallMethod(g, "sum", "O", dims) : NULL;
    PyObject *shaped = sum ? PyObject_CallMethod(sum, "reshape", "(O)", size) : NULL;
    if (shaped)
        out = bk_to(handle_of(shaped), m->dtype);
    Py_XDECREF(dims);
    Py_XDECREF(size);
    Py_XDECREF(sum);
    Py_XDECREF(shaped);
    return out;
}

static int take_gradient(const context *c, int i, PyObject *g, bk_tensor **out)
{
    *out = NULL;
    if (g == Py_None || !c->inputs[i].layout)
        return 0;
    if (!py_is_tensor(g)) {
        PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s)", py_type_name(g));
        return -1;
    }
    const meta *m = &c->inputs[i];
    if (!m->taped)
        return 0;
    bk_tensor *t = handle_of(g);
    *out = t->layout->plain == m->layout->plain && tensor_dtype(t) == m->dtype ? bk_retain(t) : fitted(c, i, g);
    return *out ? 0 : -1;
}

static int check_count(const context *c, PyObject *const *results, Py_ssize_t n)
{
    bool good = n >= c->input_count;
    for (Py_ssize_t i = c->input_count; i < n; i++)
        good = good && results[i] == Py_None;
    if (!good)
        PyErr_Format(PyExc_RuntimeError,
                     "function %sBackward returned an incorrect number of gradients (expected %d, got %zd)",
                     context_function(c)->tp_name, c->input_count, n);
    for (int i = 0; good && i < c->input_count; i++)
        if (!c->inputs[i].layout && results[i] != Py_None) {
            PyErr_Format(PyExc_RuntimeError,
                         "function %sBackward returned a gradient different than None at position %d, but the "
                         "corresponding forward input was not a Variable",
                         context_function(c)->tp_name, i + 1);
            good = false;
        }
    return good ? 0 : -1;
}

static int run_backward(context *c, bk_tensor *const *output_grads, bk_tensor **input_grads)
{
    PyObject *answer = call_users_backward(c, output_grads);
    if (!answer)
        return -1;
    bool several = PyTuple_Check(answer);
    PyObject *const *results = several ? ((PyTupleObject *)answer)->ob_item : &answer;
    int status = check_count(c, results, several ? PyTuple_GET_SIZE(answer) : 1);
    int k = 0; /* among the tensors */
    for (int i = 0; status == 0 && i < c->input_count; i++)
        if (c->inputs[i].layout)
            status = take_gradient(c, i, results[i], &input_grads[k++]);
    Py_DECREF(answer);
    return status;
}

static int on_backward(void *data, bk_tensor *const *output_grads, int outputs, bk_tensor **input_grads, int inputs)
{
    (void)outputs, (void)inputs;
    if (((context *)data)->forwarded && backward_for_tangents()) /* tangents do not come by this way */
        return 0;
    gil_state gil = gil_take();
    int status = run_backward(data, output_grads, input_grads);
    if (status < 0) {
        if (!PyErr_Occurred())
            py_raise();
        callback_failed();
    }
    gil_give(gil);
    return status;
}

PyObject *py_function_context(const node *call) { return function_data(call, on_backward); }

/* Whether nobody will ask what became of c, which nobody has any more. */
static bool is_spare(const context *c, const apply_method *home)
{
    const PyTypeObject *type = Py_TYPE(c);
    return home && !c->weak && type == home->ctx_type && !type->tp_finalize && !type->tp_del &&
           type->tp_basicsize == sizeof(context) && home->spares < MOST_SPARES;
}

/* Of a ctx whose call is over: this is the last reference. */
static void put_by(context *c)
{
    apply_method *home = (apply_method *)c->home;
    if (!is_spare(c, home)) {
        Py_DECREF(c);
        return;
    }
    context_renew(c); /* may run code of the user, who still cannot come by c */
    c->home = NULL;
    c->next = home->spare;
    home->spare = c;
    home->spares++;
    Py_DECREF(home);
}

/* What a ctx has saved may be the last to hold another call, and so on along a chain of any length: those wait until it
 * is put by. */
static void let_go(void *data)
{
    static context *waiting;
    static bool busy;
    context *c = data;
    if (Py_REFCNT(c) > 1) {
        Py_DECREF(c);
        return;
    }
    c->next = waiting;
    waiting = c;
    if (busy)
        return;
    busy = true;
    while ((c = waiting)) {
        waiting = c->next;
        put_by(c);
    }
    busy = false;
}

static bool find_ctx_type(apply_method *home)
{
    PyObject *found = PyObject_GetAttrString(home->type, "_backward_cls");
    if (found && !(PyType_Check(found) && PyType_IsSubtype((PyTypeObject *)found, context_type))) {
        PyErr_Format(PyExc_TypeError, "%R is no type of a ctx", found);
        Py_CLEAR(found);
    }
    home->ctx_type = (PyTypeObject *)found;
    return found;
}

static context *context_take(apply_method *home)
{
    context *c = home->spare;
    if (c) {
        home->spare = c->next;
        home->spares--;
    } else if ((!home->ctx_type && !find_ctx_type(home)) || !(c = context_new(home->ctx_type))) {
        return NULL;
    }
    c->home = Py_NewRef((PyObject *)home);
    return c;
}

static void on_free(void *data)
{
    ((context *)data)->call = NULL;
    release_with_gil(let_go, data);
}

/* A backward that does not keep the graph lets go of what was saved. */
static void on_free_saved(void *data)
{
    context *c = data;
    gil_state gil = gil_take();
    c->freed = true;
    context_drop_saved(c);
    gil_give(gil);
}

/* --- apply
 * ------------------------------------------------------------------------------------------------------------ */

/* Writes down what the inputs are; the forward begins. */
static int begin_forward(context *c, arguments args)
{
    c->input_count = args.count;
    c->inputs = args.count < FEW_METAS ? c->few_metas : PyMem_Calloc((size_t)args.count, sizeof *c->inputs);
    if (!c->inputs) {
        PyErr_NoMemory();
        return -1;
    }
    lock_take();
    c->forward = forward_begin();
    for (int i = 0; i < args.count; i++) {
        c->inputs[i] = (meta){ 0 };
        if (!py_is_tensor(args.item[i]))
            continue;
        const bk_tensor *t = handle_of(args.item[i]);
        c->inputs[i] = (meta){ layout_hold(t->layout), tensor_dtype(t), bk_requires_grad(t) };
        if (c->inputs[i].taped)
            forward_reads(c->forward, t);
    }
    lock_give();
    return 0;
}

/* The ctx is to be differentiated. */
static int describe_outputs(context *c, PyObject *const *outputs, int count)
{
    int all = c->input_count + count;
    if (all > FEW_METAS) {
        bool few = c->inputs == c->few_metas;
        meta *metas = PyMem_Realloc(few ? NULL : c->inputs, (size_t)all * sizeof *metas);
        if (!metas) {
            PyErr_NoMemory();
            return -1;
        }
        if (few)
            memcpy(metas, c->few_metas, (size_t)c->input_count * sizeof *metas);
        c->inputs = metas;
    }
    c->outputs = c->inputs + c->input_count;
    c->output_count = count;
    for (int i = 0; i < count; i++) {
        c->outputs[i] = (meta){ 0 };
        if (!py_is_tensor(outputs[i]))
            continue;
        const bk_tensor *t = handle_of(outputs[i]);
        bool taped = dtype_is_float(tensor_dtype(t)) && !among(c->non_differentiable, outputs[i]);
        c->outputs[i] = (meta){ layout_hold(t->layout), tensor_dtype(t), taped };
    }
    return 0;
}

static __attribute__((noinline)) PyObject *call_copied(PyObject *function, PyObject *first, arguments args)
{
    PyObject *argv[args.count + 1];
    argv[0] = first;
    for (int i = 0; i < args.count; i++)
        argv[i + 1] = args.item[i];
    return call(function, argv, (size_t)args.count + 1);
}

/* The call of a function with one argument before the others. */
static inline PyObject *call_with(PyObject *function, PyObject *first, arguments args)
{
    if (!args.room)
        return call_copied(function, first, args);
    PyObject **at = (PyObject **)args.item - 1, *was = *at;
    *at = first;
    PyObject *out = call(function, at, (size_t)args.count + 1);
    *at = was;
    return out;
}

/* What forward returns, run on no tape. setup is NULL when forward takes the ctx itself; else it gets `all`, the
 * arguments as a tuple. */
static PyObject *call_users_forward(context *c, PyObject *setup, arguments args, PyObject *all)
{
    PyObject *forward = method_of(context_function(c), FORWARD, (apply_method *)c->home), *out = NULL;
    bool was = grad_set_enabled(false);
    if (forward)
        out = setup ? call(forward, args.item, (size_t)args.count) : call_with(forward, (PyObject *)c, args);
    if (out && setup) {
        PyObject *done = PyObject_CallFunctionObjArgs(setup, (PyObject *)c, all, out, NULL);
        if (!done)
            Py_CLEAR(out);
        Py_XDECREF(done);
    }
    grad_set_enabled(was);
    Py_XDECREF(forward);
    return out;
}

static int check_dirty(const context *c, arguments args, PyObject *const *outputs, int count)
{
    for (Py_ssize_t i = 0; c->dirty && i < PyTuple_GET_SIZE(c->dirty); i++) {
        PyObject *o = PyTuple_GET_ITEM(c->dirty, i);
        bool returned = false;
        for (int k = 0; k < count; k++)
            returned = returned || outputs[k] == o;
        if (!py_is_tensor(o)) {
            PyErr_Format(PyExc_RuntimeError, "mark_dirty can only accept variables, but argument %zd is of type %s", i,
                         py_type_name(o));
            return -1;
        }
        if (!is_input(args, o) &&
            PyErr_WarnEx(PyExc_UserWarning,
                         "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that have been "
                         "mutated should be passed to ctx.mark_dirty().",
                         1) < 0)
            return -1;
        if (!returned && is_input(args, o)) {
            PyErr_SetString(PyExc_RuntimeError,
                            "Some elements marked as dirty during the forward method were not returned as output. The "
                            "inputs that are modified inplace must all be outputs of the Function.");
            return -1;
        }
        if (is_input(args, o) && bk_grad_enabled() && bk_requires_grad(handle_of(o)) && bk_is_leaf(handle_of(o))) {
            PyErr_SetString(PyExc_RuntimeError,
                            "a leaf Variable that requires grad has been used in an in-place operation.");
            return -1;
        }
        if (is_input(args, o) && tensor_check_leaf(handle_of(o)) < 0) { /* a view of one */
            py_raise();
            return -1;
        }
    }
    return 0;
}

static int check_non_differentiable(const context *c)
{
    for (Py_ssize_t i = 0; c->non_differentiable && i < PyTuple_GET_SIZE(c->non_differentiable); i++)
        if (!py_is_tensor(PyTuple_GET_ITEM(c->non_differentiable, i))) {
            PyErr_Format(PyExc_RuntimeError, "mark_non_differentiable only accepts variable arguments, but got %s",
                         py_type_name(PyTuple_GET_ITEM(c->non_differentiable, i)));
            return -1;
        }
    return 0;
}

/* Puts the taped outputs on the tape; out[k] becomes the object to return (new references). */
static int record(context *c, arguments args, PyObject *const *outputs, PyObject **out)
{
    int tensors = 0, count = c->output_count;
    bk_tensor *in[c->input_count + 1], *placed[count + 1];
    bool same[count + 1];
    for (int i = 0; i < c->input_count; i++)
        if (c->inputs[i].layout)
            in[tensors++] = handle_of(args.item[i]);
    for (int k = 0; k < count; k++) {
        same[k] = among(c->dirty, outputs[k]);
        placed[k] = c->outputs[k].taped ? bk_retain(handle_of(outputs[k])) : NULL;
    }
    bk_function fn = {
        .name = context_function(c)->tp_name, .backward = on_backward, .free = on_free, .data = Py_NewRef((PyObject *)c)
    };
    int status = function_record(&fn, on_free_saved, in, tensors, placed, same, count, &c->call);
    if (status < 0)
        py_raise();
    for (int k = 0; k < count; k++) {
        if (status < 0) {
            bk_release(placed[k]);
            out[k] = NULL;
            continue;
        }
        if (placed[k])
            out[k] = py_wrap(placed[k]);
        else if (is_input(args, outputs[k]) && c->outputs[k].layout && !same[k])
            out[k] = apart(outputs[k]); /* an input, returned as not differentiable */
        else
            out[k] = Py_NewRef(outputs[k]);
        if (!out[k])
            status = -1;
        else if (placed[k])
            context_show_output(c, out[k]);
    }
    return status;
}

/* Without a tape: inputs that are returned as they are become other tensors on the same memory. */
static int pass_through(const context *c, arguments args, PyObject *const *outputs, int count, PyObject **out)
{
    for (int k = 0; k < count; k++) {
        bool again = py_is_tensor(outputs[k]) && is_input(args, outputs[k]) && !among(c->dirty, outputs[k]);
        out[k] = again ? apart(outputs[k]) : Py_NewRef(outputs[k]);
        if (!out[k])
            return -1;
    }
    return 0;
}

/* Whether the call is to be on the tape. */
static bool is_wanted(const context *c)
{
    bool wanted = false;
    for (int i = 0; i < c->input_count; i++)
        wanted |= c->inputs[i].taped;
    return wanted && bk_grad_enabled();
}

/* Whether forward has returned one new tensor, marked nothing, and been given few things: nearly all do. */
static bool is_plain(const context *c, arguments args, PyObject *result)
{
    return !c->dirty && !c->non_differentiable && c->inputs == c->few_metas && py_is_tensor(result) &&
           dtype_is_float(tensor_dtype(handle_of(result))) && !is_input(args, result);
}

/* What wrap_any comes to then. */
static PyObject *wrap_plain(context *c, arguments args, PyObject *result)
{
    bk_tensor *in[FEW_METAS], *placed = handle_of(result);
    int tensors = 0;
    if (!is_wanted(c))
        return Py_NewRef(result);
    c->outputs = c->inputs + c->input_count;
    c->output_count = 1;
    c->outputs[0] = (meta){ layout_hold(placed->layout), tensor_dtype(placed), true };
    if (context_keep_saved(c, args, &result, 1) < 0)
        return NULL;
    for (int i = 0; i < c->input_count; i++)
        if (c->inputs[i].layout)
            in[tensors++] = handle_of(args.item[i]);
    bk_function fn = {
        .name = context_function(c)->tp_name, .backward = on_backward, .free = on_free, .data = Py_NewRef((PyObject *)c)
    };
    if (function_record(&fn, on_free_saved, in, tensors, &placed, NULL, 1, &c->call) < 0)
        return py_raise();
    context_show_output(c, result);
    return Py_NewRef(result);
}

static __attribute__((noinline)) PyObject *wrap_any(context *c, arguments args, PyObject *result)
{
    bool single = !PyTuple_Check(result), wanted = is_wanted(c);
    int count = single ? 1 : (int)PyTuple_GET_SIZE(result);
    PyObject *outputs[count + 1], *out[count + 1];
    for (int k = 0; k < count; k++) {
        outputs[k] = single ? result : PyTuple_GET_ITEM(result, k);
        out[k] = NULL;
    }
    int status = check_dirty(c, args, outputs, count) < 0 || check_non_differentiable(c) < 0 ? -1 : 0;
    for (Py_ssize_t i = 0; status == 0 && c->dirty && i < PyTuple_GET_SIZE(c->dirty); i++)
        tensor_count_write(handle_of(PyTuple_GET_ITEM(c->dirty, i))); /* whether or not it was one, as in PyTorch */
    if (status == 0 && !wanted)
        status = pass_through(c, args, outputs, count, out);
    else if (status == 0)
        status = describe_outputs(c, outputs, count) < 0 || context_keep_saved(c, args, outputs, count) < 0
                     ? -1
                     : record(c, args, outputs, out);
    PyObject *answer = NULL;
    if (status == 0 && !single && (answer = PyTuple_New(count)) != NULL)
        for (int k = 0; k < count; k++)
            PyTuple_SET_ITEM(answer, k, Py_NewRef(out[k]));
    else if (status == 0 && single)
        answer = Py_NewRef(out[0]);
    for (int k = 0; k < count; k++)
        Py_XDECREF(out[k]);
    return answer;
}

static inline PyObject *wrap_outputs(context *c, arguments args, PyObject *result)
{
    return is_plain(c, args, result) ? wrap_plain(c, args, result) : wrap_any(c, args, result);
}

static PyObject *tuple_of(PyObject *const *args, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    return tuple;
}

/* All arguments by position: keywords, and the defaults that setup_context is to see, are Python's to sort out. */
static PyObject *by_position(PyObject *type, PyObject *const *args, Py_ssize_t n, PyObject *names, bool setup)
{
    PyObject *given = tuple_of(args, n), *keywords = given ? PyDict_New() : NULL, *all = NULL;
    bool good = keywords;
    for (Py_ssize_t i = 0; good && names && i < PyTuple_GET_SIZE(names); i++)
        good = PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), args[n + i]) == 0;
    if (good)
        all = PyObject_CallFunctionObjArgs(binder, type, setup ? Py_True : Py_False, given, keywords, NULL);
    Py_XDECREF(given);
    Py_XDECREF(keywords);
    return all;
}

/* In forward mode a function with a jvp of its own gives its outputs their tangents. Steals the answer. */
static __attribute__((noinline)) PyObject *with_tangents(context *c, arguments args, PyObject *answer)
{
    PyObject *given = tuple_of(args.item, args.count), *duals = NULL;
    c->in_jvp = true;
    if (given)
        duals = PyObject_CallFunctionObjArgs(forwarder, (PyObject *)c, given, answer,
                                             c->materialize ? Py_True : Py_False, NULL);
    c->in_jvp = false;
    c->forwarded = duals && duals != answer;
    Py_XDECREF(given);
    Py_DECREF(answer);
    return duals;
}

static PyObject *apply_bound(apply_method *home, PyObject *setup, arguments args, PyObject *all)
{
    context *c = context_take(home);
    if (!c)
        return NULL;
    PyObject *answer = NULL, *result = NULL;
    if (begin_forward(c, args) == 0) {
        result = call_users_forward(c, setup, args, all);
        if (result)
            answer = wrap_outputs(c, args, result);
        lock_take();
        forward_end();
        lock_give();
    }
    if (answer && forward_is_open())
        answer = with_tangents(c, args, answer);
    Py_XDECREF(result);
    let_go(c);
    return answer;
}

/* What a custom function with a vmap of its own gives in a mapped function; NotImplemented: it is called as ever. */
static __attribute__((noinline)) PyObject *ask_mapper(PyObject *type, PyObject *const *args, Py_ssize_t n,
                                                      PyObject *names, bool setup)
{
    PyObject *all = by_position(type, args, n, names, setup);
    PyObject *answer = all ? PyObject_CallFunctionObjArgs(mapper, type, all, NULL) : NULL;
    Py_XDECREF(all);
    return answer;
}

static PyObject *apply(apply_method *home, PyObject *type, PyObject *const *args, size_t flagged, PyObject *names)
{
    Py_ssize_t n = PyVectorcall_NARGS(flagged);
    PyObject *setup = method_of((PyTypeObject *)type, SETUP, home), *answer = NULL;
    if (!setup)
        return NULL;
    bool own_setup = setup != base_setup;
    if (__builtin_expect(mapped, 0) && (answer = ask_mapper(type, args, n, names, own_setup)) != Py_NotImplemented) {
        Py_DECREF(setup);
        return answer;
    }
    Py_CLEAR(answer);
    if (names || own_setup) {
        PyObject *all = by_position(type, args, n, names, own_setup);
        if (all)
            answer = apply_bound(
                home, own_setup ? setup : NULL,
                (arguments){ .item = ((PyTupleObject *)all)->ob_item, .count = (int)PyTuple_GET_SIZE(all) }, all);
        Py_XDECREF(all);
    } else {
        arguments given = { args, (int)n, flagged & PY_VECTORCALL_ARGUMENTS_OFFSET };
        answer = apply_bound(home, NULL, given, NULL);
    }
    Py_DECREF(setup);
    return answer;
}

/* --- what Class.apply is
 * ----------------------------------------------------------------------------------------------- */

static PyObject *apply_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    PyObject *type = Py_NewRef(((apply_method *)self)->type); /* forward may do what it likes to the class */
    PyObject *answer = apply((apply_method *)self, type, args, n, names);
    Py_DECREF(type);
    return answer;
}

static PyObject *apply_new(PyObject *type)
{
    apply_method *m = (apply_method *)apply_type->tp_alloc(apply_type, 0);
    if (!m)
        return NULL;
    m->type = Py_NewRef(type);
    m->vectorcall = apply_call;
    return (PyObject *)m;
}

static PyObject *apply_get(PyObject *self, PyObject *object, PyObject *type)
{
    PyObject *of = type ? type : (PyObject *)Py_TYPE(object);
    return of == ((apply_method *)self)->type ? Py_NewRef(self) : apply_new(of);
}

static int apply_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((apply_method *)self)->type);
    Py_VISIT(((apply_method *)self)->ctx_type);
    for (context *c = ((apply_method *)self)->spare; c; c = c->next)
        Py_VISIT((PyObject *)c);
    return 0;
}

static int apply_clear(PyObject *self)
{
    apply_method *m = (apply_method *)self;
    context *spare = m->spare;
    m->spare = NULL;
    m->spares = 0;
    while (spare) {
        context *c = spare;
        spare = c->next;
        Py_DECREF(c);
    }
    Py_CLEAR(m->ctx_type);
    Py_CLEAR(m->type);
    return 0;
}

static void apply_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    apply_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *apply_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<bound method Function.apply of %R>", ((apply_method *)self)->type);
}

static PyObject *apply_compare(PyObject *a, PyObject *b, int op)
{
    if ((op != Py_EQ && op != Py_NE) || !Py_IS_TYPE(b, apply_type))
        Py_RETURN_NOTIMPLEMENTED;
    bool same = ((apply_method *)a)->type == ((apply_method *)b)->type;
    return PyBool_FromLong(same == (op == Py_EQ));
}

static Py_hash_t apply_hash(PyObject *self) { return PyObject_Hash(((apply_method *)self)->type); }

static PyObject *apply_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *builtins = PyEval_GetBuiltins(), *get = PyDict_GetItemString(builtins, "getattr");
    return get ? Py_BuildValue("(O(Os))", get, ((apply_method *)self)->type, "apply") : NULL;
}

static PyObject *apply_name(PyObject *self, void *qualified)
{
    (void)self;
    return PyUnicode_FromString(qualified ? "Function.apply" : "apply");
}

static PyMethodDef apply_methods[] = { { "__reduce__", apply_reduce, METH_NOARGS, NULL }, { NULL, NULL, 0, NULL } };
static PyGetSetDef apply_attributes[] = {
    { "__name__", apply_name, NULL, NULL, NULL },
    { "__qualname__", apply_name, NULL, NULL, (void *)1 },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyMemberDef apply_members[] = {
    { "__self__", T_OBJECT_EX, offsetof(apply_method, type), READONLY, NULL },
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(apply_method, vectorcall), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};
static PyType_Slot apply_slots[] = {
    { Py_tp_dealloc, apply_dealloc },
    { Py_tp_traverse, apply_traverse },
    { Py_tp_clear, apply_clear },
    { Py_tp_call, PyVectorcall_Call },
    { Py_tp_descr_get, apply_get },
    { Py_tp_repr, apply_repr },
    { Py_tp_richcompare, apply_compare },
    { Py_tp_hash, apply_hash },
    { Py_tp_methods, apply_methods },
    { Py_tp_getset, apply_attributes },
    { Py_tp_members, apply_members },
    { Py_tp_doc, "Calls forward and puts its results on the tape." },
    { 0, NULL },
};
static PyType_Spec apply_spec = { "brisk._C._Apply", sizeof(apply_method), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                                      Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  apply_slots };

/* --- the type
 * ---------------------------------------------------------------------------------------------------------- */

static PyType_Slot slots[] = {
    { Py_tp_dealloc, context_dealloc },
    { Py_tp_traverse, context_traverse },
    { Py_tp_clear, context_clear },
    { Py_tp_methods, context_methods },
    { Py_tp_getset, context_attributes },
    { Py_tp_members, context_members },
    { Py_tp_doc, "What a custom function keeps for its backward." },
    { 0, NULL },
};
static PyType_Spec spec = { "brisk._C._FunctionBase", sizeof(context), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots };

/* (setup_context of a class that has none of its own, what binds arguments, what calls jvp) */
static PyObject *py_function_setup(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *setup, *bind, *forward;
    if (!PyArg_ParseTuple(args, "OOO", &setup, &bind, &forward))
        return NULL;
    Py_XSETREF(forwarder, Py_NewRef(forward));
    Py_XSETREF(base_setup, Py_NewRef(setup));
    Py_XSETREF(binder, Py_NewRef(bind));
    Py_RETURN_NONE;
}

/* (what is asked about calls of custom functions, by how many more mapped functions want that) */
static PyObject *py_ask_about_custom_calls(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *ask;
    int by;
    if (!PyArg_ParseTuple(args, "Oi", &ask, &by))
        return NULL;
    Py_XSETREF(mapper, Py_NewRef(ask));
    mapped += by;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_function_setup", py_function_setup, METH_VARARGS, NULL },
    { "_ask_about_custom_calls", py_ask_about_custom_calls, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int function_init(PyObject *module)
{
    for (int i = 0; i < USER_METHODS; i++)
        if (!(method_names[i] = PyUnicode_InternFromString(method_texts[i])))
            return -1;
    if (PyModule_AddFunctions(module, functions) < 0 || py_add_type(module, &spec, &context_type) < 0 ||
        py_add_type(module, &apply_spec, &apply_type) < 0)
        return -1;
    PyObject *method = apply_new((PyObject *)context_type);
    int status = method ? PyObject_SetAttrString((PyObject *)context_type, "apply", method) : -1;
    Py_XDECREF(method);
    return status;
}
