/* test_lock.c: the library's lock shuts others out, also at the moment when a second thread first asks for it.
 *
 * That moment comes once in a process, so each round is a child of this one, in which no other thread has run yet. */
#include "core/lock.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

enum { ROUNDS = 60, THREADS = 3, TIMES = 30000 };

static volatile long counter; /* guarded by the lock alone */

static void *count(void *nested)
{
    for (int i = 0; i < TIMES; i++) {
        lock_take();
        if (nested)
            lock_take();
        counter = counter + 1;
        if (nested)
            lock_give();
        lock_give();
    }
    return NULL;
}

static bool counts_are_kept(int round)
{
    const pid_t child = fork();
    if (child == 0) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, count, i == round % THREADS ? (void *)&counter : NULL);
        count(round % 2 ? (void *)&counter : NULL);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        _exit(counter == (THREADS + 1) * (long)TIMES ? 0 : 1);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    bool right = true;
    for (int i = 0; i < ROUNDS; i++)
        right = counts_are_kept(i) && right;
    tap_ok(right, "threads that come while the first one holds the lock plainly are kept out");
    count(NULL);
    tap_ok(counter == TIMES && atomic_load(&lock.owner) == NULL, "the lock is free after its last give");
    return tap_done();
}
