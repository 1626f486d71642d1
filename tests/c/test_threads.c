/* test_threads.c: parallel loops cover their range once, whoever calls them and wherever from. */
#include "core/distance.h"
#include "core/threads.h"
#include "sanitizers.h"
#include "tap.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double LARGE_NS = 1e9; /* work that is always shared */
enum { MOST = 5000 };

typedef struct range {
    int64_t n, grain;
    atomic_int seen[MOST];
    atomic_int odd_pieces; /* pieces that begin or end where no piece should */
} range;

static void mark(void *arg, int64_t begin, int64_t end)
{
    range *r = arg;
    if (begin % r->grain || (end % r->grain && end != r->n) || begin >= end)
        atomic_fetch_add(&r->odd_pieces, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&r->seen[i], 1);
}

static bool covered_once(const range *r)
{
    for (int64_t i = 0; i < MOST; i++)
        if (atomic_load(&r->seen[i]) != (i < r->n))
            return false;
    return atomic_load(&r->odd_pieces) == 0;
}

/* Over a range of the caller's: AddressSanitizer's allocator has locks, which a fork would copy as they are held. */
static bool loop_covers_in(range *r, int64_t n, int64_t grain, double work_ns)
{
    memset(r, 0, sizeof *r);
    r->n = n;
    r->grain = grain;
    threads_for(n, grain, work_ns, mark, r);
    return covered_once(r);
}

static bool loop_covers(int64_t n, int64_t grain, double work_ns)
{
    range *r = malloc(sizeof *r);
    const bool right = loop_covers_in(r, n, grain, work_ns);
    free(r);
    return right;
}

static bool many_loops_cover(void)
{
    static const int64_t sizes[] = { 0, 1, 2, 3, 7, 64, 1000, MOST }, grains[] = { 1, 2, 3, 64, 999, MOST, MOST + 1 };
    bool right = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof grains / sizeof *grains; j++)
            for (int work = 0; work < 3; work++)
                right = loop_covers(sizes[i], grains[j], work == 0 ? 0 : work == 1 ? 30e3 : LARGE_NS) && right;
    return right;
}

static void test_coverage(void)
{
    static const int counts[] = { 1, 2, 3, 8, 2 };
    bool right = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        right = bk_set_num_threads(counts[i]) == 0 && bk_get_num_threads() == counts[i] && many_loops_cover() && right;
    tap_ok(right, "every index is visited once, with any number of threads");
}

static void test_bad_count(void)
{
    bk_set_num_threads(2);
    const bool refused = bk_set_num_threads(0) == -1 && bk_error_code() == BK_RUNTIME_ERROR;
    bk_error_clear();
    tap_ok(refused && bk_get_num_threads() == 2, "no threads at all is an error");
}

static void sleep_ms(int ms) { nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL); }

static void test_sleeping_pool(void)
{
    bool right = true;
    for (int i = 0; i < 20; i++) {
        sleep_ms(i % 3);
        right = loop_covers(1000, 10, LARGE_NS) && right;
    }
    tap_ok(right, "a pool that has gone to sleep wakes up");
}

/* Two pieces that wait for one another: they end only if two threads run them. */
static void meet(void *arg, int64_t begin, int64_t end)
{
    atomic_int *arrived = arg;
    atomic_fetch_add(arrived, (int)(end - begin));
    while (atomic_load(arrived) < 2)
        sleep_ms(1);
}

static void test_two_threads_work(void)
{
    atomic_int arrived = 0;
    bk_set_num_threads(2);
    threads_for(2, 1, LARGE_NS, meet, &arrived);
    tap_ok(atomic_load(&arrived) == 2, "two pieces run at the same time");
}

static void nest(void *arg, int64_t begin, int64_t end)
{
    atomic_int *wrong = arg;
    for (int64_t i = begin; i < end; i++)
        if (!loop_covers(100, 3, LARGE_NS))
            atomic_fetch_add(wrong, 1);
}

static void test_nested(void)
{
    atomic_int wrong = 0;
    threads_for(50, 1, LARGE_NS, nest, &wrong);
    tap_ok(atomic_load(&wrong) == 0, "a loop inside a loop runs");
}

static void *loop_often(void *arg)
{
    atomic_int *wrong = arg;
    for (int i = 0; i < 300; i++)
        if (!loop_covers(200 + i, 1 + i % 7, i % 5 ? LARGE_NS : 30e3))
            atomic_fetch_add(wrong, 1);
    return NULL;
}

static void test_concurrent_callers(void)
{
    enum { CALLERS = 4 };
    atomic_int wrong = 0;
    pthread_t callers[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], NULL, loop_often, &wrong);
    for (int i = 0; i < 20; i++)
        bk_set_num_threads(1 + i % 4);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    bk_set_num_threads(2);
    tap_ok(atomic_load(&wrong) == 0, "several threads loop at once, while the number of threads changes");
}

/* A worker that looks for work just as the pool is taken down must not sleep on the word that was to wake it. */
static void test_pool_changes(void)
{
    bool right = true;
    for (int i = 0; i < 3000; i++) {
        bk_set_num_threads(2 + i % 3);
        right = loop_covers(8, 1, LARGE_NS) && right;
    }
    bk_set_num_threads(2);
    tap_ok(right, "a pool that is resized again and again never hangs");
}

static bool child_succeeds(void)
{
    static range own;
    const pid_t child = fork();
    if (child == 0) {
        bool right = true;
        for (int i = 0; i < 20; i++)
            right = loop_covers_in(&own, 1000, 10, LARGE_NS) && right;
        if (!CAN_EXIT_CHILD)
            _exit(right ? 0 : 1);
        exit(right ? 0 : 1);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_fork(void)
{
    fflush(stdout);
    bool right = loop_covers(1000, 10, LARGE_NS);
    right = child_succeeds() && right; /* while the workers spin */
    sleep_ms(5);
    right = child_succeeds() && right; /* while they sleep */
    tap_ok(right && loop_covers(1000, 10, LARGE_NS), "a forked child has a pool of its own, and the parent keeps its");
}

static void *loop_until_told(void *arg)
{
    static range own;
    atomic_int *told = arg;
    for (int i = 0; !atomic_load(told); i++)
        if (!loop_covers_in(&own, 200 + i % 300, 1 + i % 7, i % 5 ? LARGE_NS : 30e3))
            return arg;
    return NULL;
}

static void test_fork_during_loop(void)
{
    fflush(stdout);
    atomic_int told = 0;
    pthread_t caller;
    void *wrong;
    pthread_create(&caller, NULL, loop_until_told, &told);
    bool right = true;
    for (int i = 0; i < 10; i++)
        right = child_succeeds() && right;
    atomic_store(&told, 1);
    pthread_join(caller, &wrong);
    tap_ok(right && !wrong, "a fork while another thread loops");
}

static void test_distance(void)
{
    const int before = bk_get_num_threads();
    bk_set_num_threads(1);
    tap_ok(distance_ns() == 0, "alone there is nobody to ask how far he is");
    bk_set_num_threads(2);
    const double far = distance_ns(); /* 0 where another program holds the worker's core */
    tap_ok(far >= 0 && far < 1e8, "a worker answers, or is not waited for");
    tap_ok(loop_covers(1000, 7, LARGE_NS), "and works afterwards");
    bk_set_num_threads(before);
}

static void count_strangers(void *arg, int64_t begin, int64_t end)
{
    static _Thread_local bool is_caller;
    atomic_int *strangers = arg;
    if (begin < 0) {
        is_caller = true;
        return;
    }
    atomic_fetch_add(strangers, is_caller ? 0 : (int)(end - begin));
    sleep_ms(1); /* long enough for a worker to take the next piece */
}

static void test_far_workers(void)
{
    const int before = bk_get_num_threads();
    atomic_int strangers = 0;
    bk_set_num_threads(2);
    threads_set_near(false);
    count_strangers(&strangers, -1, 0);
    for (int tries = 0; tries < 10; tries++) { /* now and then a worker has no core */
        loop_covers(1000, 7, LARGE_NS);        /* it spins */
        threads_for(8, 1, 10e3, count_strangers, &strangers);
    }
    threads_set_near(true);
    tap_ok(atomic_load(&strangers) == 0, "a loop of 10 us is not shared with a worker that is far away");
    bk_set_num_threads(before);
}

int main(void)
{
    test_coverage();
    test_bad_count();
    test_sleeping_pool();
    test_two_threads_work();
    test_nested();
    test_concurrent_callers();
    test_pool_changes();
    test_distance();
    test_far_workers();
    if (CAN_FORK) {
        test_fork();
        test_fork_during_loop();
    }
    return tap_done();
}
