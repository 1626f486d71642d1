/* module.c: the module brisk._C. */
#include "binds.h"
#include "autograd/replay.h"
#include "core/distance.h"
#include "core/memory.h"
#include "graph/ahead.h"
#include "graph/plan.h"
#include "graph/rewrites.h"
#include "lines.h"
#include "module_object.h"
#include "return_types.h"

extern PyGetSetDef autograd_attributes[], shape_attributes[];

/* What `brisk info` shows. */
static PyObject *info(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    cache_counts c = cache_count();
    replay_counts r = replay_count();
    ahead_counts a = ahead_count();
    return Py_BuildValue("{s:s,s:i,s:s,s:s,s:i,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "isa", bk_isa(),
                         "threads", bk_get_num_threads(), "BLAS", "none is used: products are brisk's own", "compiler",
                         __VERSION__, "layouts", (int)layouts_live(), "plans cached", (long long)c.plans, "plan bytes",
                         (long long)c.bytes, "plan hits", (long long)c.hits, "plan misses", (long long)c.misses,
                         "backward passes cached", (long long)r.passes, "backward pass bytes", (long long)r.bytes,
                         "backward passes replayed", (long long)r.replayed, "plans run ahead", (long long)a.taken,
                         "plans run ahead in vain", (long long)a.left, "memory in use", (long long)pool_bytes_in_use(),
                         "memory in use at most", (long long)pool_bytes_peak(), "memory cached",
                         (long long)pool_bytes_cached());
}

static PyObject *set_num_threads(PyObject *module, PyObject *n)
{
    (void)module;
    if (!PyLong_Check(n))
        return PyErr_Format(PyExc_RuntimeError, "set_num_threads expects an int, but got %s", py_type_name(n));
    long count = PyLong_AsLong(n);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (count < 1) {
        PyErr_SetString(PyExc_RuntimeError, "set_num_threads expects a positive integer");
        return NULL;
    }
    if (bk_set_num_threads((int)count) < 0)
        return py_raise();
    Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLong(bk_get_num_threads());
}

/* --- for tests -----------------------------------------------------------------------------------------------------
 */

static PyObject *names_of(uint32_t rewrites)
{
    PyObject *names = PyList_New(0);
    for (int k = 0; names && k < REWRITE_COUNT; k++) {
        PyObject *name = rewrites >> k & 1 ? PyUnicode_FromString(rewrite_name(k)) : NULL;
        if (rewrites >> k & 1 && (!name || PyList_Append(names, name) < 0))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

/* What follows is planned without these rewrites and with all others. */
static PyObject *plan_without(PyObject *module, PyObject *names)
{
    (void)module;
    const char *text = PyUnicode_AsUTF8(names), *unknown;
    if (!text || bk_sync() < 0)
        return text ? py_raise() : NULL;
    uint32_t done = rewrites_without(text, &unknown);
    if (unknown) {
        PyObject *name = PyUnicode_FromStringAndSize(unknown, (Py_ssize_t)strcspn(unknown, ","));
        if (name)
            PyErr_Format(PyExc_ValueError, "no rewrite is called %U", name);
        Py_XDECREF(name);
        return NULL;
    }
    rewrites_done = done;
    Py_RETURN_NONE;
}

static PyObject *rewrites(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return names_of(REWRITE_ALL);
}

/* What has been found in all plans so far, by the names of report.h. */
static PyObject *plan_facts(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *facts = PyDict_New();
    for (int f = 0; facts && f < FACT_COUNT; f++) {
        PyObject *count = PyLong_FromLongLong(report_total((plan_fact)f));
        if (!count || PyDict_SetItemString(facts, report_name((plan_fact)f), count) < 0)
            Py_CLEAR(facts);
        Py_XDECREF(count);
    }
    return facts;
}

static PyObject *evaluate_at_once(PyObject *module, PyObject *on)
{
    (void)module;
    int eager = PyObject_IsTrue(on);
    if (eager < 0 || bk_sync() < 0)
        return eager < 0 ? NULL : py_raise();
    log_is_eager = eager;
    Py_RETURN_NONE;
}

static PyObject *forget_plans(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (bk_forget_plans() < 0)
        return py_raise();
    Py_RETURN_NONE;
}

/* For tests: a flush in the middle of ops. */
static PyObject *log_limit(PyObject *module, PyObject *records)
{
    (void)module;
    const long most = PyLong_AsLong(records), before = log_most_records;
    if (most < 1 || most > 1 << 28)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "a log of at most %ld records", most);
    if (bk_sync() < 0)
        return py_raise();
    log_most_records = (int)most;
    log_make_room(&the_log);
    return PyLong_FromLong(before);
}

static PyObject *distance(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyFloat_FromDouble(distance_ns());
}

static PyObject *warmed_up(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    warm_up_end();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "info", info, METH_NOARGS, "What this build runs on." },
    { "set_num_threads", set_num_threads, METH_O, "How many threads evaluate." },
    { "get_num_threads", get_num_threads, METH_NOARGS, "How many threads evaluate." },
    { "_distance_ns", distance, METH_NOARGS, "What a message to another core and back takes; 0: there is none." },
    { "_plan_without", plan_without, METH_O, "Leaves rewrites out of what is planned from here on: 'teams,sums'." },
    { "_rewrites", rewrites, METH_NOARGS, "The names of all rewrites." },
    { "_plan_facts", plan_facts, METH_NOARGS, "How often each fact was found in the plans made so far." },
    { "_log_limit", log_limit, METH_O, "How many records a log may have before it is evaluated; what it was." },
    { "_forget_plans", forget_plans, METH_NOARGS, "Evaluates, and forgets all plans and passes." },
    { "_warmed_up", warmed_up, METH_NOARGS, "The end of what _C has begun for the first call: called once." },
    { "_evaluate_at_once", evaluate_at_once, METH_O, "Whether each operation is evaluated when it is recorded." },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "brisk._C", NULL, -1, functions, NULL, NULL, NULL, NULL
};

static int add_rows(PyObject *module)
{
#define ADD(topic)                                                                                                     \
    if (args_add_functions(module, topic##_rows, topic##_row_count) < 0 ||                                             \
        args_add_methods(py_tensor_type, topic##_rows, topic##_row_count) < 0)                                         \
        return -1;
    ROW_LISTS(ADD)
#undef ADD
    return 0;
}

/* brisk._C._nn: the rows that are functions of nn.functional only. */
static int add_functional(PyObject *module)
{
    PyObject *nn = PyImport_AddModule("brisk._C._nn"); /* in sys.modules, so that it can be imported from; borrowed */
    if (!nn || args_add_functions(nn, functional_rows, functional_row_count) < 0 ||
        args_add_functions(nn, layers_rows, layers_row_count) < 0 ||
        args_add_functions(nn, losses_rows, losses_row_count) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "_nn", nn);
}

static int add_optim(PyObject *module)
{
    PyObject *optim = PyImport_AddModule("brisk._C._optim");
    if (!optim || args_add_functions(optim, optim_rows, optim_row_count) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "_optim", optim);
}

PyMODINIT_FUNC PyInit__C(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (errors_init(module) < 0 || tensor_init(module) < 0 || types_init(module) < 0 || size_init(module) < 0 ||
        device_init(module) < 0 || grad_mode_init(module) < 0 || limits_init(module) < 0 || random_init(module) < 0 ||
        interop_init(module) < 0 || storage_init(module) < 0 || info_init(module) < 0 || grad_fn_init(module) < 0 ||
        function_init(module) < 0 || checkpoint_init(module) < 0 || args_init(module) < 0 ||
        module_object_init(module) < 0 || layer_forward_init(module) < 0 || return_types_init(module) < 0 ||
        add_rows(module) < 0 || elementwise_forget_names(module) < 0 || add_functional(module) < 0 ||
        add_optim(module) < 0 || interpreter_init() < 0 || py_add_attributes(py_tensor_type, autograd_attributes) < 0 ||
        py_add_attributes(py_tensor_type, shape_attributes) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    lines_init();
    warm_up_begin();
    return module;
}
