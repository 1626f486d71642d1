/* module.c: the module brisk._C. */
#include "binds.h"
#include "autograd/replay.h"
#include "core/memory.h"
#include "graph/plan.h"
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
    return Py_BuildValue("{s:s,s:i,s:s,s:s,s:i,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "isa", bk_isa(), "threads",
                         bk_get_num_threads(), "BLAS", "none is used: products are brisk's own", "compiler",
                         __VERSION__, "layouts", (int)layouts_live(), "plans cached", (long long)c.plans, "plan bytes",
                         (long long)c.bytes, "plan hits", (long long)c.hits, "plan misses", (long long)c.misses,
                         "backward passes cached", (long long)r.passes, "backward pass bytes", (long long)r.bytes,
                         "backward passes replayed", (long long)r.replayed, "memory in use",
                         (long long)pool_bytes_in_use(), "memory cached", (long long)pool_bytes_cached());
}

static PyObject *set_num_threads(PyObject *module, PyObject *n)
{
    (void)module;
    long count = PyLong_AsLong(n);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (count < 1) {
        PyErr_SetString(PyExc_RuntimeError, "expected a positive number of threads");
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

static PyMethodDef functions[] = {
    { "info", info, METH_NOARGS, "What this build runs on." },
    { "set_num_threads", set_num_threads, METH_O, "How many threads evaluate." },
    { "get_num_threads", get_num_threads, METH_NOARGS, "How many threads evaluate." },
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
        device_init(module) < 0 || limits_init(module) < 0 || random_init(module) < 0 || interop_init(module) < 0 ||
        storage_init(module) < 0 || info_init(module) < 0 || grad_fn_init(module) < 0 || function_init(module) < 0 ||
        args_init(module) < 0 || module_object_init(module) < 0 || layer_forward_init(module) < 0 ||
        return_types_init(module) < 0 || add_rows(module) < 0 || elementwise_forget_names(module) < 0 ||
        add_functional(module) < 0 || add_optim(module) < 0 || interpreter_init() < 0 ||
        py_add_attributes(py_tensor_type, autograd_attributes) < 0 ||
        py_add_attributes(py_tensor_type, shape_attributes) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    lines_init();
    return module;
}
