/* gil.h: whether this thread has the interpreter.
 *
 * The library calls back into Python (custom functions, hooks, owners of memory) mostly on a thread that came from
 * there and still holds the GIL. Asking Python for it costs more than recording an op, so functions that Python calls
 * say that they have it, and whoever gives it away for a while says so too. */
#ifndef BK_EXT_GIL_H
#define BK_EXT_GIL_H
#include <Python.h>
#include <stdbool.h>

#include "core/lock.h"

extern HOT_THREAD_LOCAL bool gil_known; /* this thread certainly holds it */

static inline bool gil_held(void) { return gil_known || PyGILState_Check(); }

/* Between these, around code that may call back. */
static inline bool gil_say(bool held)
{
    bool was = gil_known;
    gil_known = held;
    return was;
}
static inline void gil_unsay(bool was) { gil_known = was; }

/* Around a callback's body. */
typedef struct gil_state {
    bool known;
    PyGILState_STATE state;
} gil_state;

static inline gil_state gil_take(void)
{
    if (gil_known)
        return (gil_state){ .known = true };
    return (gil_state){ .state = PyGILState_Ensure() };
}

static inline void gil_give(gil_state s)
{
    if (!s.known)
        PyGILState_Release(s.state);
}

/* Lets go of an object of Python's. The last reference may go in a thread that does not hold the GIL, inside the
 * library's lock: waiting for the GIL there could wait for ever, so that it is done later. */
void release_with_gil(void (*release)(void *owner), void *owner);

#endif
