/* lock.h: the one lock of the library.
 *
 * It guards the log, the freelists and every reference count. It is held for a record (tens of ns) or a flush, never
 * while a callback of the user runs, so whoever waits for it waits for C code only. A thread may take it again.
 *
 * Nearly every program uses the library from one thread, where an atomic exchange would be a third of the cost of a
 * record. So the thread that loads the library takes and gives the lock with plain stores, until another thread asks
 * for it (lock.c). */
#ifndef BK_CORE_LOCK_H
#define BK_CORE_LOCK_H
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct library_lock {
    const void *_Atomic owner; /* the address of a thread-local: names a thread for as long as it lives */
    const void *first;         /* the thread that plain stores are enough for */
    atomic_bool shared;        /* another thread has come: `taken` decides, for good */
    bool plain;                /* how the owner took it: false for good with the first that had to ask */
    int again;                 /* how often its owner has taken it again */
    atomic_bool taken;
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
    const void *me = &lock_thread;
    if (atomic_load_explicit(&lock.owner, memory_order_relaxed) == me) {
        lock.again++;
        return;
    }
    if (__builtin_expect(lock.first == me && !atomic_load_explicit(&lock.shared, memory_order_relaxed), 1)) {
        atomic_store_explicit(&lock.owner, me, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst); /* the store first: lock.c makes the machine keep to it as well */
        if (__builtin_expect(!atomic_load_explicit(&lock.shared, memory_order_relaxed), 1))
            return;
        atomic_store_explicit(&lock.owner, NULL, memory_order_release);
    }
    lock_take_slow();
}

static inline void lock_give(void)
{
    if (__builtin_expect(lock.again, 0)) {
        lock.again--;
        return;
    }
    if (__builtin_expect(lock.plain, 1)) {
        atomic_store_explicit(&lock.owner, NULL, memory_order_release);
        return;
    }
    atomic_store_explicit(&lock.owner, NULL, memory_order_relaxed);
    atomic_store_explicit(&lock.taken, false, memory_order_release);
}

#endif
