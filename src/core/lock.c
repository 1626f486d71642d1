/* lock.c: waiting for the library's lock, and carrying it over a fork.
 *
 * Invariant: `taken` is true exactly while some thread is its owner with depth >= 1. The child of a fork starts with
 * the lock free and the log whole: the forking thread holds the lock across the fork. */
#include "core/lock.h"

#include <pthread.h>
#include <time.h>

library_lock lock;
HOT_THREAD_LOCAL char lock_thread;

enum { SPINS = 1000, YIELDS = 100 }; /* a record takes tens of ns; a flush may take seconds */

void lock_take_slow(void)
{
    for (int tries = 0; atomic_exchange_explicit(&lock.taken, true, memory_order_acquire); tries++) {
        if (tries < SPINS)
            continue;
        if (tries < SPINS + YIELDS)
            sched_yield();
        else
            nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
    }
}

static void before_fork(void) { lock_take(); }
static void after_fork(void) { lock_give(); }

__attribute__((constructor)) static void hold_lock_over_fork(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}
