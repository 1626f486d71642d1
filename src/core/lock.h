/* lock.h: the one lock of the library.
 *
 * It guards the log, the freelists and every reference count. It is held for a record (tens of ns) or a flush, never
 * while a callback of the user runs, so whoever waits for it waits for C code only. A thread may take it again. */
#ifndef BK_CORE_LOCK_H
#define BK_CORE_LOCK_H
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct library_lock {
    atomic_bool taken;
    const void *_Atomic owner; /* the address of a thread-local: names a thread for as long as it lives */
    int depth;
} library_lock;

/* Thread-locals that every record touches are read without a call: they are few and small enough for the static block
 * that a library loaded at run time shares with others. */
#if defined(__linux__) && defined(__GNUC__)
#define HOT_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define HOT_THREAD_LOCAL _Thread_local
#endif

extern library_lock lock;
extern HOT_THREAD_LOCAL char lock_thread;

void lock_take_slow(void);

static inline void lock_take(void)
{
    if (atomic_load_explicit(&lock.owner, memory_order_relaxed) == &lock_thread) {
        lock.depth++;
        return;
    }
    if (atomic_exchange_explicit(&lock.taken, true, memory_order_acquire))
        lock_take_slow();
    atomic_store_explicit(&lock.owner, &lock_thread, memory_order_relaxed);
    lock.depth = 1;
}

static inline void lock_give(void)
{
    if (--lock.depth)
        return;
    atomic_store_explicit(&lock.owner, NULL, memory_order_relaxed);
    atomic_store_explicit(&lock.taken, false, memory_order_release);
}

#endif
