/* distance.c: see distance.h.
 *
 * Cores that share a cache answer each other in about 0.1 us, others take several times as long, and a virtual
 * machine's may be moved from one to the other while a program runs. What meets in every step of a loop is then slower
 * by half, though each core computes as before: a benchmark has to say which of both it saw, and the pool shares less.
 */
#include "core/distance.h"

#include <sched.h>
#include <time.h>

#include "core/threads.h"

enum { CALLS = 16 };                /* that are short, from one look at the clock to the next */
static const double WATCH_NS = 5e7; /* from one look at the distance to the next */
static const double FAR_NS = 250;

/* How often is asked: in series, of which the fastest counts, within some time: a core may be another program's. */
typedef struct questions {
    int series, trips;
    double patience_ns;
} questions;
static const questions all = { 40, 50, 5e7 }, a_few = { 3, 4, 2e4 };

typedef struct line {
    _Alignas(64) atomic_int asked;
    _Alignas(64) atomic_int answered;
    atomic_bool stop;
} line;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void answer(void *arg, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    line *l = arg;
    while (!atomic_load_explicit(&l->stop, memory_order_relaxed))
        atomic_store_explicit(&l->answered, atomic_load_explicit(&l->asked, memory_order_acquire),
                              memory_order_release);
}

/* False: there was no answer in time. */
static bool ask(line *l, int number, double deadline)
{
    atomic_store_explicit(&l->asked, number, memory_order_release);
    for (int looks = 1; atomic_load_explicit(&l->answered, memory_order_acquire) != number; looks++)
        if (looks % 1024 == 0) { /* a new thread begins on the core of the one that made it */
            sched_yield();
            if (now_ns() > deadline)
                return false;
        }
    return true;
}

/* 0: there is no worker, or no answer. */
static double fastest_trip(questions q)
{
    line l = { .asked = 0 };
    if (!threads_lend(answer, &l, &l.stop))
        return 0;
    const double deadline = now_ns() + q.patience_ns;
    double best = 0;
    bool good = true;
    for (int s = 0, number = 0; good && s < q.series; s++) {
        const double start = now_ns();
        for (int k = 0; good && k < q.trips; k++)
            good = ask(&l, ++number, deadline);
        const double trip = (now_ns() - start) / q.trips;
        if (good && (!best || trip < best))
            best = trip;
    }
    threads_recall();
    return best;
}

double distance_ns(void) { return fastest_trip(all); }

void distance_watch(bool is_long)
{
    static int calls;
    static double next;
    if (!threads_are_awake() || (!is_long && calls++ % CALLS) || now_ns() < next)
        return;
    const double trip = fastest_trip(a_few);
    threads_set_near(trip && trip < FAR_NS);
    next = now_ns() + WATCH_NS;
}
