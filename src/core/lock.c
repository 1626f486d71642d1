/* lock.c: waiting for the library's lock, sharing it, and carrying it over a fork.
 *
 * Invariants: while the lock is not shared only its first thread owns it, and `owner` alone says so. Once it is shared,
 * `taken` is true exactly while some thread is its owner. The child of a fork starts with the lock free
 * and the log whole: the forking thread holds the lock across the fork.
 *
 * The first thread's plain way is "store owner, then look at shared"; a processor may do the two in the other order.
 * The thread that sets `shared` therefore runs a barrier on every core that runs the process: after it, either the
 * first thread's store is seen here, or the first thread sees `shared` and steps back. Where the system has no such
 * barrier the lock is shared from the start. */
#define _GNU_SOURCE
#include "core/lock.h"

#include "core/interpreter.h"
#include "core/threads.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/membarrier.h>
#include <sys/syscall.h>
#endif

library_lock lock = { .shared = true, .plain = true };
HOT_THREAD_LOCAL char lock_thread;
interpreter_lock interpreter;

enum { SPINS = 1000, YIELDS = 100 }; /* a record takes tens of ns; a flush may take seconds */

static bool is_taken(void) { return atomic_load_explicit(&lock.taken, memory_order_relaxed); }
static bool is_owned(void) { return atomic_load_explicit(&lock.owner, memory_order_acquire); }

/* Returns when it was seen not to hold; sleeps without the interpreter's lock. */
static void wait_while(bool (*holds)(void))
{
    for (int tries = 0; tries < SPINS + YIELDS; tries++) {
        if (!holds())
            return;
        if (tries >= SPINS)
            sched_yield();
    }
    void *left = interpreter_leave(false);
    while (holds())
        nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
    interpreter_enter(left);
}

#if defined(__linux__) && defined(__NR_membarrier) && !defined(__SANITIZE_THREAD__)
static bool barrier_ready(void)
{
    return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}
static void barrier_everywhere(void) { syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); }
#else
static bool barrier_ready(void) { return false; }
static void barrier_everywhere(void) {}
#endif

/* The caller has `taken`, so it is the only one to do this. */
static void share(void)
{
    atomic_store(&lock.shared, true);
    barrier_everywhere();
    wait_while(is_owned);
}

void lock_take_slow(void)
{
    while (atomic_exchange_explicit(&lock.taken, true, memory_order_acquire))
        wait_while(is_taken);
    if (!atomic_load_explicit(&lock.shared, memory_order_relaxed))
        share();
    atomic_store_explicit(&lock.owner, &lock_thread, memory_order_relaxed);
    lock.plain = false;
}

/* No worker may be in the middle of something that only it could finish. */
static void before_fork(void)
{
    lock_take();
    threads_recall();
}
static void after_fork(void) { lock_give(); }

__attribute__((constructor)) static void set_up_lock(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
    if (!barrier_ready())
        return;
    lock.first = &lock_thread;
    atomic_store(&lock.shared, false);
}
