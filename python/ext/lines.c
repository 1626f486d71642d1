/* lines.c: the running frame's code object and instruction, as cheaply as the interpreter lets us.
 *
 * On CPython 3.11 the frame is read where it lies: 2 ns. The frame API of other versions makes an object for every
 * call, which would cost more than recording the op, so there records carry no line. */
#define Py_BUILD_CORE 1
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include "internal/pycore_frame.h"
#include "internal/pycore_pystate.h"
#define HAVE_FRAMES 1
#endif

#include "lines.h"

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

static PyObject *kept; /* a set of code objects, whose addresses records hold */

static void note_line_and_keep(source_line *line)
{
    static const void *last;
    note_line(line);
    if (!line->code || line->code == last || !kept)
        return;
    if (PySet_Add(kept, (PyObject *)line->code) < 0)
        PyErr_Clear();
    last = line->code;
}
#endif

int lines_keep(bool on)
{
#ifdef HAVE_FRAMES
    if (on && !kept && !(kept = PySet_New(NULL))) /* never emptied: records made meanwhile may outlive the mode */
        return -1;
    line_hook = on ? note_line_and_keep : note_line;
#else
    (void)on;
#endif
    return 0;
}

#ifdef HAVE_FRAMES
/* Of a code object that is there. */
static PyObject *describe(const source_line *line)
{
    PyCodeObject *code = (PyCodeObject *)line->code;
    int byte = line->at - (int)offsetof(PyCodeObject, co_code_adaptive);
    return Py_BuildValue("(OiO)", code->co_filename, PyCode_Addr2Line(code, byte), code->co_name);
}

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
#ifdef HAVE_FRAMES
    if (line->code && kept && PySet_Contains(kept, (PyObject *)line->code) == 1)
        return describe(line);
#else
    (void)line;
#endif
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
