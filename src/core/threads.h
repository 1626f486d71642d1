/* threads.h: one pool of workers for all parallel loops.
 *
 * The split of a loop depends only on n and grain, never on the number of threads, so results don't either. The
 * pool starts at its first use, spins about 0.5 ms after work and then sleeps; a forked child starts it anew. */
#ifndef BK_CORE_THREADS_H
#define BK_CORE_THREADS_H
#include <stdatomic.h>

#include "brisk.h"

typedef void (*threads_fn)(void *arg, int64_t begin, int64_t end);

/* Calls fn on pieces [i*grain, min((i+1)*grain, n)) that cover [0, n), on up to bk_get_num_threads() threads, the
 * caller among them; a run of neighbouring pieces may come as one call [i*grain, j*grain). Returns when all are
 * done. `work_ns` is the caller's guess of the whole work: less than 4 us stays on the caller's thread, less than 32
 * while the workers are far away, and less than 100 while they sleep, unless it comes often. */
void threads_for(int64_t n, int64_t grain, double work_ns, threads_fn fn, void *arg);

/* There will be a loop in some 50 us, as long as waking takes: workers that sleep begin to spin. */
void threads_rouse(void);

/* Lends a worker to fn(arg, 0, 1) and returns at once; fn ends soon when *stop is true, and stays lent until it is
 * recalled. False: there is none to lend. */
bool threads_lend(threads_fn fn, void *arg, atomic_bool *stop);
/* Sets *stop and waits for the end of fn, if one is lent; every loop does so first. */
void threads_recall(void);

/* Whether a worker spins, so that it answers at once. */
bool threads_are_awake(void);
/* Whether a worker's core is known to share a cache with the caller's, and to be no other program's: distance.c finds
 * out. */
bool threads_are_near(void);
void threads_set_near(bool near);

/* How many threads a loop would have now: 1 within a loop. */
int threads_at_hand(void);

/* In a loop that waits for another core. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Asks for a cache line, and for the right to write to it: compilers know the instruction for some processors only.
 * Those that lack it do nothing. */
static inline void cpu_prefetch_to_write(const char *at)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("prefetchw %0" : : "m"(*at));
#else
    __builtin_prefetch(at, 1, 3);
#endif
}

#endif
