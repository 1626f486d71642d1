/* interpreter.c: the GIL and Ctrl-C around evaluations.
 *
 * A long evaluation, and a long wait for another thread's, run without the GIL (core/interpreter.h). Python notices
 * signals only between instructions of its own, so while the main thread evaluates, SIGINT also stops the evaluation,
 * which keeps its place; KeyboardInterrupt is raised by the call that was waiting. This is done only while the handler
 * is Python's own: one of the program's may want everything to go on, and runs when the evaluation is done. */
#include "binds.h"
#include "pybrisk.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "core/interpreter.h"
#include "gil.h"
#include "core/lock.h"

typedef struct left {
    PyThreadState *thread;
    bool watches; /* SIGINT is ours */
    bool known;   /* what gil_known was */
} left_state;

static _Thread_local left_state left; /* one is enough: nobody leaves twice */
static struct sigaction python_handler;
static PyObject *getsignal, *default_handler, *sigint;
static bool closing; /* the interpreter goes down: nobody gives up the GIL any more, for nobody would get it back */

static void stop_and_pass_on(int signal, siginfo_t *info, void *context)
{
    bk_interrupt();
    if (python_handler.sa_flags & SA_SIGINFO)
        python_handler.sa_sigaction(signal, info, context);
    else if (python_handler.sa_handler != SIG_DFL && python_handler.sa_handler != SIG_IGN)
        python_handler.sa_handler(signal);
}

/* Python runs handlers in the main thread only. */
static bool is_main_thread(void)
{
#ifdef __linux__
    return syscall(SYS_gettid) == getpid();
#else
    return false;
#endif
}

static bool handler_is_pythons(void)
{
    PyObject *handler = getsignal ? PyObject_CallOneArg(getsignal, sigint) : NULL;
    bool is = handler && handler == default_handler;
    if (!handler)
        PyErr_Clear();
    Py_XDECREF(handler);
    return is;
}

static bool watch(void)
{
    if (!is_main_thread() || PyErr_Occurred() || !handler_is_pythons())
        return false;
    struct sigaction ours = { .sa_sigaction = stop_and_pass_on, .sa_flags = SA_SIGINFO };
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGINT, NULL, &python_handler) == 0 && sigaction(SIGINT, &ours, NULL) == 0;
}

static void *leave(bool runs)
{
    if (closing || left.thread || !gil_held())
        return NULL;
    left.watches = runs && watch();
    left.known = gil_say(false);
    left.thread = PyEval_SaveThread();
    return &left;
}

static void enter(void *state)
{
    left_state *l = state;
    PyThreadState *thread = l->thread;
    if (l->watches)
        sigaction(SIGINT, &python_handler, NULL);
    l->thread = NULL;
    PyEval_RestoreThread(thread);
    gil_unsay(l->known);
}

/* Who evaluates now still gets the GIL back; who comes later keeps it. */
static PyObject *close_interpreter(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    lock_take();
    closing = true;
    lock_give();
    Py_RETURN_NONE;
}

static PyMethodDef close_method = { "_close", close_interpreter, METH_NOARGS, NULL };

static int close_at_exit(void)
{
    PyObject *atexit = PyImport_ImportModule("atexit"),
             *function = atexit ? PyCFunction_New(&close_method, NULL) : NULL;
    PyObject *done = function ? PyObject_CallMethod(atexit, "register", "O", function) : NULL;
    Py_XDECREF(atexit);
    Py_XDECREF(function);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int interpreter_init(void)
{
    PyObject *module = PyImport_ImportModule("_signal");
    if (!module)
        return -1;
    getsignal = PyObject_GetAttrString(module, "getsignal");
    default_handler = PyObject_GetAttrString(module, "default_int_handler");
    sigint = PyObject_GetAttrString(module, "SIGINT");
    Py_DECREF(module);
    if (!getsignal || !default_handler || !sigint || close_at_exit() < 0)
        return -1;
    interpreter = (interpreter_lock){ .leave = leave, .enter = enter };
    return 0;
}
