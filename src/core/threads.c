/* threads.c: the worker pool behind every parallel loop.
 *
 * One job at a time: the caller publishes it by making `word` odd, works on it itself, and closes it by making the
 * word even again. Workers that come late find the job closed and leave; the caller waits only for those inside.
 * Waking a worker costs 0.05 to 0.4 us while it spins and 20 to 80 us from a futex, hence the spin after each job and
 * the two thresholds below.
 *
 * Invariants: the job's fields change only while the word is even and nobody is inside. Worker: inside++, then read the
 * word; caller: close the word, then read inside; both sequentially consistent, so one of the two sees the other.
 * `busy` belongs to at most one caller; whoever finds it taken runs its loop inline, so no caller waits for another.
 * A worker that is lent has a job of its own: whoever lends it holds busy and goes his way, until somebody recalls it,
 * which the next loop does. */
#define _GNU_SOURCE
#include "core/threads.h"
#include "core/error.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

enum { MAX_THREADS = 256 };
enum { NOT_LENT, LENT, RECALLED };
enum { UNKNOWN, NEAR, FAR };
static const double AWAKE_MIN_NS = 4e3;    /* work that pays for a second thread while the pool spins */
static const double FAR_MIN_NS = 32e3;     /* and while it is far away: what it reads and writes has to travel, too */
static const double ASLEEP_MIN_NS = 100e3; /* and while it sleeps: of one loop, or of several close together */
static const int64_t CLOSE_NS = 1000 * 1000;
static const int64_t SPIN_NS = 500 * 1000;

/* Each thread starts on its own stretch of pieces, the same one in every loop of that shape, so that what it wrote in
 * one loop is in its cache in the next; then it helps the others. */
typedef struct span {
    _Alignas(64) atomic_llong next;
    int64_t end;
} span;

static struct pool {
    _Alignas(64) atomic_uint word; /* odd: a job is open */
    _Alignas(64) atomic_int inside;
    _Alignas(64) atomic_int sleeping;
    atomic_bool busy;
    atomic_bool stopping;
    atomic_int lent;     /* NOT_LENT, LENT, RECALLED: who lends a worker holds busy until it is back */
    atomic_bool *stop;   /* what it was lent to ends when this is set */
    atomic_int distance; /* UNKNOWN, NEAR, FAR */
    atomic_int wanted;   /* threads, the caller among them; 0: not decided yet */
    atomic_int workers;  /* running; only the holder of busy changes it */
    pthread_t handles[MAX_THREADS];

    threads_fn fn;
    void *arg;
    int64_t n, grain;
    int spans;
    span span[MAX_THREADS];
} pool;

static _Thread_local bool in_loop; /* this thread runs a piece: nested loops stay on it */

/* --- waiting ------------------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#ifdef __linux__
static void word_sleep(unsigned seen) { syscall(SYS_futex, &pool.word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0); }
static void word_wake(void) { syscall(SYS_futex, &pool.word, FUTEX_WAKE_PRIVATE, MAX_THREADS, NULL, NULL, 0); }
static void word_reset(void) {}
#else
static pthread_mutex_t sleep_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_cond = PTHREAD_COND_INITIALIZER;

static void word_sleep(unsigned seen)
{
    pthread_mutex_lock(&sleep_mutex);
    while (atomic_load(&pool.word) == seen)
        pthread_cond_wait(&sleep_cond, &sleep_mutex);
    pthread_mutex_unlock(&sleep_mutex);
}

static void word_wake(void)
{
    pthread_mutex_lock(&sleep_mutex);
    pthread_cond_broadcast(&sleep_cond);
    pthread_mutex_unlock(&sleep_mutex);
}

static void word_reset(void) /* a fork may have copied them while a thread held them */
{
    pthread_mutex_init(&sleep_mutex, NULL);
    pthread_cond_init(&sleep_cond, NULL);
}
#endif

/* Returns once the word differs from `seen`: spins for SPIN_NS, then sleeps. */
static void word_next(unsigned seen)
{
    int64_t deadline = now_ns() + SPIN_NS;
    for (int round = 1; atomic_load_explicit(&pool.word, memory_order_acquire) == seen; round++) {
        cpu_relax();
        if (round % 64 || now_ns() < deadline)
            continue;
        atomic_fetch_add(&pool.sleeping, 1);
        if (atomic_load(&pool.word) == seen)
            word_sleep(seen);
        atomic_fetch_sub(&pool.sleeping, 1);
    }
}

/* --- the job ------------------------------------------------------------------------------------------------- */

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Runs what is left of one span, an eighth of it at a time so that others can take the rest. */
static void run_span(span *s, int64_t pieces)
{
    int64_t run = pieces / pool.spans / 8;
    if (run < 1)
        run = 1;
    for (;;) {
        int64_t first = atomic_fetch_add_explicit(&s->next, run, memory_order_relaxed);
        if (first >= s->end)
            return;
        int64_t last = min_i64(first + run, s->end);
        pool.fn(pool.arg, first * pool.grain, min_i64(last * pool.grain, pool.n));
    }
}

static void run_job(int index)
{
    int64_t pieces = (pool.n - 1) / pool.grain + 1;
    in_loop = true;
    for (int i = 0; i < pool.spans; i++)
        run_span(&pool.span[(index + i) % pool.spans], pieces);
    in_loop = false;
}

/* Stopping is asked for by a flag and then a new word: the flag is read after the word, or the new word would be taken
 * for seen and slept on. */
static void *worker_main(void *index)
{
    unsigned done = 0; /* the word last looked at: each job is joined once */
    for (;;) {
        atomic_fetch_add(&pool.inside, 1);
        unsigned word = atomic_load(&pool.word);
        bool stop = atomic_load(&pool.stopping);
        if (!stop && word != done && word % 2)
            run_job((int)(intptr_t)index);
        atomic_fetch_sub(&pool.inside, 1);
        if (stop)
            return NULL;
        done = word;
        word_next(done);
    }
}

static void open_job(int64_t n, int64_t grain, threads_fn fn, void *arg, bool wake)
{
    int64_t pieces = (n - 1) / grain + 1;
    pool.fn = fn;
    pool.arg = arg;
    pool.n = n;
    pool.grain = grain;
    pool.spans = (int)min_i64(pool.workers + 1, pieces);
    int64_t each = pieces / pool.spans, extra = pieces % pool.spans, at = 0;
    for (int i = 0; i < pool.spans; i++) {
        atomic_store_explicit(&pool.span[i].next, at, memory_order_relaxed);
        at += each + (i < extra);
        pool.span[i].end = at;
    }
    atomic_fetch_add(&pool.word, 1);
    if (wake && atomic_load(&pool.sleeping))
        word_wake();
}

static void close_job(void)
{
    atomic_fetch_add(&pool.word, 1);
    for (int round = 1; atomic_load(&pool.inside); round++) {
        if (round % 4096)
            cpu_relax();
        else
            sched_yield(); /* more threads than cores: the worker may need ours */
    }
}

/* --- life of the pool ---------------------------------------------------------------------------------------- */

/* The child of a fork has no workers, and perhaps a job that can't end: it starts from nothing. */
static void reset_in_child(void)
{
    word_reset();
    atomic_store(&pool.word, 0);
    atomic_store(&pool.inside, 0);
    atomic_store(&pool.sleeping, 0);
    atomic_store(&pool.busy, false);
    atomic_store(&pool.stopping, false);
    atomic_store(&pool.lent, NOT_LENT);
    pool.workers = 0;
}

static void register_fork_handler(void) { pthread_atfork(NULL, NULL, reset_in_child); }

static void stop_workers(void)
{
    atomic_store(&pool.stopping, true);
    atomic_fetch_add(&pool.word, 2);
    word_wake();
    for (int i = 0; i < pool.workers; i++)
        pthread_join(pool.handles[i], NULL);
    pool.workers = 0;
    atomic_store(&pool.stopping, false);
}

/* Brings the number of workers to `count`, or to what the system grants. Signals stay with the program's threads. */
static void start_workers(int count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    if (pool.workers)
        stop_workers();
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool.workers < count &&
           !pthread_create(&pool.handles[pool.workers], NULL, worker_main, (void *)(intptr_t)(pool.workers + 1)))
        pool.workers++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Nobody may run on while the process takes its memory down. `busy` stays taken: later loops run inline. */
__attribute__((destructor)) static void stop_at_exit(void)
{
    threads_recall();
    if (!atomic_exchange(&pool.busy, true) && pool.workers)
        stop_workers();
}

static int available_cpus(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static int default_threads(void)
{
    const char *text = getenv("BRISK_NUM_THREADS");
    long n = text ? strtol(text, NULL, 10) : 0;
    if (n < 1)
        n = available_cpus();
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

int bk_get_num_threads(void)
{
    int n = atomic_load_explicit(&pool.wanted, memory_order_relaxed);
    if (n)
        return n;
    int expected = 0;
    atomic_compare_exchange_strong(&pool.wanted, &expected, default_threads());
    return atomic_load(&pool.wanted);
}

int bk_set_num_threads(int n)
{
    if (n < 1)
        return error_int(BK_RUNTIME_ERROR, "set_num_threads expects a positive integer");
    atomic_store(&pool.wanted, n > MAX_THREADS ? MAX_THREADS : n); /* the pool follows at its next loop */
    return 0;
}

/* --- loops --------------------------------------------------------------------------------------------------- */

/* Whether loops that were too short to wake the pool for have come one after the other for so long that it will pay.
 * Only the holder of busy calls it. */
static bool comes_often(double work_ns)
{
    static double missed_ns;
    static int64_t last;
    int64_t now = now_ns();
    missed_ns = now - last < CLOSE_NS ? missed_ns + work_ns : work_ns;
    last = now;
    return missed_ns >= ASLEEP_MIN_NS;
}

int threads_at_hand(void) { return in_loop ? 1 : bk_get_num_threads(); }

bool threads_are_near(void) { return atomic_load_explicit(&pool.distance, memory_order_relaxed) == NEAR; }
void threads_set_near(bool near) { atomic_store_explicit(&pool.distance, near ? NEAR : FAR, memory_order_relaxed); }
static bool are_far(void) { return atomic_load_explicit(&pool.distance, memory_order_relaxed) == FAR; }

static bool is_awake(int threads) { return pool.workers == threads - 1 && atomic_load(&pool.sleeping) < pool.workers; }

bool threads_are_awake(void)
{
    return !in_loop && atomic_load_explicit(&pool.sleeping, memory_order_relaxed) < pool.workers;
}

static bool is_short(double work_ns) { return work_ns < AWAKE_MIN_NS || (work_ns < FAR_MIN_NS && are_far()); }

void threads_for(int64_t n, int64_t grain, double work_ns, threads_fn fn, void *arg)
{
    if (n <= 0)
        return;
    int threads = n <= grain || is_short(work_ns) || in_loop ? 1 : bk_get_num_threads();
    if (threads > 1 && atomic_load_explicit(&pool.lent, memory_order_relaxed))
        threads_recall();
    if (threads == 1 || atomic_exchange(&pool.busy, true)) {
        fn(arg, 0, n);
        return;
    }
    bool awake = is_awake(threads), wake = work_ns >= ASLEEP_MIN_NS || (!awake && comes_often(work_ns));
    if (!awake && !wake) {
        atomic_store(&pool.busy, false);
        fn(arg, 0, n);
        return;
    }
    if (pool.workers != threads - 1)
        start_workers(threads - 1);
    open_job(n, grain, fn, arg, wake);
    run_job(0);
    close_job();
    atomic_store(&pool.busy, false);
}

/* Workers that sleep look at the word again, find nothing, and spin. */
void threads_rouse(void)
{
    if (in_loop || !atomic_load(&pool.sleeping) || atomic_exchange(&pool.busy, true))
        return;
    atomic_fetch_add(&pool.word, 2);
    word_wake();
    atomic_store(&pool.busy, false);
}

/* --- a worker on its own ------------------------------------------------------------------------------------- */

bool threads_lend(threads_fn fn, void *arg, atomic_bool *stop)
{
    const int threads = threads_at_hand();
    if (threads == 1 || atomic_exchange(&pool.busy, true))
        return false;
    if (pool.workers != threads - 1)
        start_workers(threads - 1);
    if (!pool.workers) {
        atomic_store(&pool.busy, false);
        return false;
    }
    pool.stop = stop;
    open_job(1, 1, fn, arg, true);
    atomic_store(&pool.lent, LENT);
    return true;
}

/* Whoever comes second waits for the first. */
void threads_recall(void)
{
    int lent = LENT;
    if (atomic_compare_exchange_strong(&pool.lent, &lent, RECALLED)) {
        atomic_store(pool.stop, true);
        close_job();
        atomic_store(&pool.busy, false);
        atomic_store(&pool.lent, NOT_LENT);
        return;
    }
    while (lent == RECALLED) {
        cpu_relax();
        lent = atomic_load(&pool.lent);
    }
}
