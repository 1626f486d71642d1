/* lines.c: the running frame's code object and instruction, as cheaply as the interpreter lets us.
 *
 * On CPython 3.11 the frame is read where it lies: 2 ns. The frame API of other versions makes an object for every
 * call, which would cost more than recording the op, so there records carry a line only while lines are kept: the
 * number itself, in place of the instruction. */
#define Py_BUILD_CORE 1
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"
#define HAVE_FRAMES 1
#endif

#include "lines.h"

static PyObject *kept;    /* address -> the code object there, which records of any age may name; NULL: not yet */
static PyObject *package; /* the directory of our own code, whose lines say nothing to users */

static bool is_ours(PyCodeObject *code)
{
    return package && PyUnicode_Tailmatch(code->co_filename, package, 0, PY_SSIZE_T_MAX, -1) == 1;
}

#ifdef HAVE_FRAMES
static void note_line(source_line *line)
{
    PyThreadState *thread = _PyThreadState_GET();
    _PyInterpreterFrame *frame = thread && thread->cframe ? thread->cframe->current_frame : NULL;
    if (!frame)
        return;
    line->code = frame->f_code;
    line->at = (int32_t)((const char *)frame->prev_instr - (const char *)frame->f_code);
}

static void note_users_line(source_line *line)
{
    PyThreadState *thread = _PyThreadState_GET();
    _PyInterpreterFrame *frame = thread && thread->cframe ? thread->cframe->current_frame : NULL;
    for (; frame; frame = frame->previous) {
        line->code = frame->f_code;
        line->at = (int32_t)((const char *)frame->prev_instr - (const char *)frame->f_code);
        if (!is_ours(frame->f_code))
            return;
    }
}
#else
static void note_users_line(source_line *line)
{
    PyFrameObject *frame = PyGILState_Check() ? PyEval_GetFrame() : NULL;
    bool ours = true;
    Py_XINCREF(frame);
    while (frame && ours) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        line->code = code;
        line->at = PyFrame_GetLineNumber(frame);
        ours = is_ours(code);
        Py_DECREF(code); /* the frame holds it */
        PyFrameObject *back = ours ? PyFrame_GetBack(frame) : NULL;
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
}
#endif

/* The line of the user's that asked, also through functions of ours. */
static void note_line_and_keep(source_line *line)
{
    note_users_line(line);
    if (!line->code)
        return;
    PyObject *address = PyLong_FromVoidPtr((void *)line->code);
    if (!address || PyDict_SetItem(kept, address, (PyObject *)line->code) < 0)
        PyErr_Clear();
    Py_XDECREF(address);
}

static PyObject *find_package(void)
{
    PyObject *module = PyImport_ImportModule("brisk"), *path = NULL, *first = NULL, *directory = NULL;
    if (module)
        path = PyObject_GetAttrString(module, "__path__");
    if (path)
        first = PySequence_GetItem(path, 0);
    if (first)
        directory = PyUnicode_FromFormat("%U/", first);
    Py_XDECREF(first);
    Py_XDECREF(path);
    Py_XDECREF(module);
    return directory;
}

int lines_keep(bool on)
{
    if (on && !kept && !(kept = PyDict_New())) /* never emptied: records made meanwhile may outlive the mode */
        return -1;
    if (on && !package && !(package = find_package()))
        return -1;
#ifdef HAVE_FRAMES
    line_hook = on ? note_line_and_keep : note_line;
#else
    line_hook = on ? note_line_and_keep : NULL;
#endif
    return 0;
}

/* Of a code object that is there. */
static PyObject *describe(const source_line *line)
{
    PyCodeObject *code = (PyCodeObject *)line->code;
#ifdef HAVE_FRAMES
    int number = PyCode_Addr2Line(code, line->at - (int)offsetof(PyCodeObject, co_code_adaptive));
#else
    int number = line->at;
#endif
    return Py_BuildValue("(OiO)", code->co_filename, number, code->co_name);
}

#ifdef HAVE_FRAMES
/* Whether `code` is at this address, or contains what is: comprehensions and functions that are not made yet. */
static bool contains(PyCodeObject *code, const void *address, int depth)
{
    enum { DEEPEST = 8 };
    if (code == address)
        return true;
    for (Py_ssize_t i = 0; depth < DEEPEST && i < PyTuple_GET_SIZE(code->co_consts); i++) {
        PyObject *constant = PyTuple_GET_ITEM(code->co_consts, i);
        if (PyCode_Check(constant) && contains((PyCodeObject *)constant, address, depth + 1))
            return true;
    }
    return false;
}

static bool is_running(const void *address)
{
    PyThreadState *thread = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; thread; thread = PyThreadState_Next(thread)) {
        _PyInterpreterFrame *frame = thread->cframe ? thread->cframe->current_frame : NULL;
        for (; frame; frame = frame->previous)
            if (contains(frame->f_code, address, 0))
                return true;
    }
    return false;
}

static bool is_function(const void *address)
{
    PyObject *gc = PyImport_ImportModule("gc"), *all = gc ? PyObject_CallMethod(gc, "get_objects", NULL) : NULL;
    bool found = false;
    for (Py_ssize_t i = 0; all && PyList_Check(all) && !found && i < PyList_GET_SIZE(all); i++) {
        PyObject *o = PyList_GET_ITEM(all, i);
        found = PyFunction_Check(o) && contains((PyCodeObject *)PyFunction_GET_CODE(o), address, 0);
    }
    Py_XDECREF(all);
    Py_XDECREF(gc);
    PyErr_Clear();
    return found;
}
#endif

PyObject *lines_describe(const source_line *line)
{
    PyObject *address = line->code && kept ? PyLong_FromVoidPtr((void *)line->code) : NULL;
    bool known = address && PyDict_GetItem(kept, address);
    Py_XDECREF(address);
    if (known)
        return describe(line);
    Py_RETURN_NONE;
}

PyObject *lines_find(const source_line *line)
{
    PyObject *found = NULL;
#ifdef HAVE_FRAMES
    if (line->code && (is_running(line->code) || is_function(line->code)))
        found = describe(line);
    if (!found)
        PyErr_Clear();
#else
    (void)line;
#endif
    return found;
}

void lines_init(void)
{
#ifdef HAVE_FRAMES
    line_hook = note_line;
#endif
}
