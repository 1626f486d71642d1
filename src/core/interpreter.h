/* interpreter.h: what a front end whose interpreter has a lock of its own wants done around long runs and waits.
 *
 * A run takes the interpreter's lock back while it holds the library's. That is sound because nobody waits for the
 * library's lock with the interpreter's held: a wait that is not over in microseconds gives it up first (lock.c). */
#ifndef BK_CORE_INTERPRETER_H
#define BK_CORE_INTERPRETER_H
#include <stdbool.h>

typedef struct interpreter_lock {
    /* Gives it up, if this thread holds it, to run or to wait. NULL: there was nothing to do. */
    void *(*leave)(bool runs);
    void (*enter)(void *left); /* takes it back; `left` is what leave returned */
} interpreter_lock;

extern interpreter_lock interpreter; /* NULLs: there is none */

static inline void *interpreter_leave(bool runs) { return interpreter.leave ? interpreter.leave(runs) : NULL; }
static inline void interpreter_enter(void *left)
{
    if (left)
        interpreter.enter(left);
}

#endif
