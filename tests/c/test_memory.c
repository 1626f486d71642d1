/* test_memory.c: allocation that is counted and fails on demand, the pool, the freelists. */
#include "core/memory.h"

#include "sanitizers.h"
#include "tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static bool failed_with_memory_error(const void *p)
{
    bool yes = p == NULL && bk_error_code() == BK_MEMORY_ERROR;
    bk_error_clear();
    return yes;
}

static void test_counted_allocation(void)
{
    int64_t before = mem_live();
    char *a = mem_alloc(10), *zero = mem_alloc_zero(100), *empty = mem_alloc(0);
    tap_ok(a && zero && empty, "allocations succeed, also of no bytes");
    bool cleared = true;
    for (int i = 0; i < 100; i++)
        cleared &= zero[i] == 0;
    tap_ok(cleared, "mem_alloc_zero clears");
    tap_ok(mem_live() == before + 3, "live allocations are counted");
    memcpy(a, "brisk", 6);
    a = mem_resize(a, 100000);
    tap_ok(a && strcmp(a, "brisk") == 0 && mem_live() == before + 3, "resizing keeps the bytes and the count");
    char *fresh = mem_resize(NULL, 8);
    tap_ok(fresh && mem_live() == before + 4, "resizing NULL allocates");
    mem_free(a);
    mem_free(zero);
    mem_free(empty);
    mem_free(fresh);
    mem_free(NULL);
    tap_ok(mem_live() == before, "everything freed brings the count back");
}

static void test_failing_on_demand(void)
{
    int64_t before = mem_live();
    mem_fail_after(2);
    void *first = mem_alloc(8), *second = mem_alloc(8), *third = mem_alloc(8);
    tap_ok(first && third && failed_with_memory_error(second), "exactly the n-th allocation fails, with an error");

    char *kept = mem_alloc(4);
    memcpy(kept, "abc", 4);
    mem_fail_after(1);
    tap_ok(failed_with_memory_error(mem_resize(kept, 1000)) && strcmp(kept, "abc") == 0,
           "a failed resize leaves the memory alone");
    mem_fail_after(1);
    tap_ok(failed_with_memory_error(mem_alloc_zero(8)), "mem_alloc_zero fails on demand");

    void *cached = pool_take(1000);
    pool_give(cached, 1000);
    mem_fail_after(1);
    tap_ok(failed_with_memory_error(pool_take(1000)), "pool_take fails on demand, also when a block is cached");
    mem_fail_after(3);
    mem_fail_after(0);
    void *p[4];
    bool all = true;
    for (int i = 0; i < 4; i++)
        all &= (p[i] = mem_alloc(1)) != NULL;
    tap_ok(all, "mem_fail_after(0) switches it off");
    for (int i = 0; i < 4; i++)
        mem_free(p[i]);
    mem_free(first);
    mem_free(third);
    mem_free(kept);
    tap_ok(mem_live() == before, "failed allocations are not counted");
}

static void test_pool_blocks(void)
{
    static const size_t sizes[] = { 0,     1,       63,         64,     65,         511,    512,        513,
                                    576,   577,     1000,       1024,   1025,       4096,   65535,      65536,
                                    65537, 1 << 20, 2 * MB - 1, 2 * MB, 2 * MB + 1, 5 * MB, 16 * MB + 3 };
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *p[COUNT];
    int64_t before = pool_bytes_in_use();
    bool aligned = true, huge = true, intact = true, frugal = true;
    for (int i = 0; i < COUNT; i++) {
        int64_t in_use = pool_bytes_in_use();
        p[i] = pool_take(sizes[i]);
        int64_t taken = pool_bytes_in_use() - in_use;
        frugal &= taken >= (int64_t)sizes[i] && taken <= (int64_t)(sizes[i] + sizes[i] / 8 + 64);
        aligned &= (uintptr_t)p[i] % 64 == 0;
        huge &= sizes[i] < 2 * MB || (uintptr_t)p[i] % (2 * MB) == 0;
        memset(p[i], i + 1, sizes[i]);
    }
    for (int i = 0; i < COUNT; i++)
        for (size_t k = 0; k < sizes[i]; k += sizes[i] / 50 + 1)
            intact &= p[i][k] == i + 1;
    tap_ok(aligned, "blocks are aligned to 64 bytes");
    tap_ok(huge, "blocks of 2 MB and more are aligned to 2 MB");
    tap_ok(intact, "blocks do not overlap");
    tap_ok(frugal, "a block is at most an eighth and 64 bytes larger than asked for");
    for (int i = 0; i < COUNT; i++)
        pool_give(p[i], sizes[i]);
    pool_give(NULL, 100);
    tap_ok(pool_bytes_in_use() == before, "blocks given back are no longer in use");
    tap_ok(failed_with_memory_error(pool_take(SIZE_MAX)), "a size beyond all memory is an error");
}

/* What the pool keeps; under AddressSanitizer it keeps nothing on purpose. */
static void test_pool_cache(void)
{
#ifndef MEM_ASAN
    pool_trim();
    tap_ok(pool_bytes_cached() == 0, "a trimmed pool caches nothing");
    void *a = pool_take(3 * MB), *b = pool_take(3 * MB), *small = pool_take(100);
    pool_give(a, 3 * MB);
    pool_give(b, 3 * MB);
    pool_give(small, 100);
    tap_ok(pool_bytes_cached() == (int64_t)(6 * MB + 128), "blocks given back are cached");
    tap_ok(pool_take(3 * MB - 5) == b, "the warmest block of the class comes first");
    tap_ok(pool_take(3 * MB) == a && pool_take(120) == small, "then the others");
    pool_give(b, 3 * MB - 5);
    pool_give(a, 3 * MB);
    pool_give(small, 120);
    pool_trim();
    tap_ok(pool_bytes_cached() == 0, "trimming gives large and small blocks back");

    /* Untouched pages cost nothing, so gigabytes can be asked for here. */
    enum { COUNT = 20 };
    void *p[COUNT];
    size_t bytes = 64 * MB;
    for (int i = 0; i < COUNT; i++)
        p[i] = pool_take(bytes);
    for (int i = 0; i < COUNT; i++)
        pool_give(p[i], bytes);
    tap_ok(pool_bytes_cached() == (int64_t)1 << 30, "the cache is bounded");
    tap_ok(pool_take(bytes) == p[COUNT - 1], "and gives up its oldest blocks first");
    pool_give(p[COUNT - 1], bytes);
    pool_trim();
#endif
}

/* The sanitizers need more addresses than this test allows. */
static void test_pool_trims_before_it_gives_up(void)
{
    if (UNDER_ASAN || UNDER_TSAN)
        return;
    void *p = pool_take(512 * MB);
    pool_give(p, 512 * MB);
    struct rlimit saved, tight;
    getrlimit(RLIMIT_AS, &saved);
    tight = saved;
    tight.rlim_cur = 600 * MB; /* enough for one of the two blocks */
    setrlimit(RLIMIT_AS, &tight);
    void *other = pool_take(300 * MB);
    void *none = pool_take((size_t)1 << 40);
    setrlimit(RLIMIT_AS, &saved);
    tap_ok(other != NULL && pool_bytes_cached() == 0, "when memory is out the cache is given up");
    tap_ok(failed_with_memory_error(none), "and when that does not help, it is an error");
    pool_give(other, 300 * MB);
    pool_trim();
}

static void *churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    bool *clean = mem_alloc(sizeof *clean);
    *clean = true;
    struct {
        unsigned *p;
        size_t bytes;
        unsigned mark;
    } held[32] = { 0 };
    for (int i = 0; i < 50000; i++) {
        seed = seed * 1664525u + 1013904223u;
        int k = seed >> 27;
        if (held[k].p) {
            *clean &= *held[k].p == held[k].mark;
            pool_give(held[k].p, held[k].bytes);
        }
        held[k].bytes = 4 + (seed >> 8) % (i % 100 ? 3000 : 200000);
        held[k].p = pool_take(held[k].bytes);
        held[k].mark = *held[k].p = seed;
    }
    for (int k = 0; k < 32; k++)
        pool_give(held[k].p, held[k].bytes);
    return clean;
}

static void test_threads(void)
{
    enum { THREADS = 4 };
    pthread_t t[THREADS];
    int64_t in_use = pool_bytes_in_use(), live = mem_live();
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, churn, (void *)(i + 1));
    bool all = true;
    for (int i = 0; i < THREADS; i++) {
        void *clean;
        pthread_join(t[i], &clean);
        all &= *(bool *)clean;
        mem_free(clean);
    }
    tap_ok(all, "threads that take and give at once never share a block");
    tap_ok(pool_bytes_in_use() == in_use && mem_live() == live, "and the counts are exact");
}

static void test_fork(void)
{
    pid_t child = fork();
    if (child == 0) {
        void *p = pool_take(1000);
        pool_give(p, 1000);
        _exit(p ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_ok(status == 0, "a forked child can use the pool");
}

/* The variable is read when a program starts, so the test starts one: itself, as main's `child`. */
static void test_failing_by_environment(const char *program)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("BRISK_FAIL_ALLOC", "2", 1);
        execl(program, program, "child", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    tap_ok(status == 0, "BRISK_FAIL_ALLOC=2 fails the second allocation");
}

static int child(void)
{
    void *first = mem_alloc(1), *second = mem_alloc(1), *third = mem_alloc(1);
    bool right = first && !second && third;
    mem_free(first);
    mem_free(third);
    return right ? 0 : 1;
}

static void test_freelist(void)
{
    enum { COUNT = 5000, BYTES = 40 };
    static freelist list, empty, big; /* their slabs live as long as they do */
    int64_t live = mem_live();
    static char *r[COUNT];
    bool aligned = true, intact = true;
    for (int i = 0; i < COUNT; i++) {
        r[i] = freelist_take(&list, BYTES);
        aligned &= (uintptr_t)r[i] % 16 == 0;
        memset(r[i], i & 127, BYTES);
    }
    for (int i = 0; i < COUNT; i++)
        intact &= r[i][0] == (i & 127) && r[i][BYTES - 1] == (i & 127);
    tap_ok(aligned && intact, "records are aligned and do not overlap");
    tap_ok(list.size == 48 && freelist_in_use(&list) == COUNT, "records are rounded up to 16 bytes and counted");
    freelist_give(&list, r[7]);
    tap_ok(freelist_take(&list, BYTES) == (void *)r[7], "the record given last is taken first");
    for (int i = 0; i < COUNT; i++)
        freelist_give(&list, r[i]);
    tap_ok(freelist_in_use(&list) == 0 && mem_live() == live, "nothing is in use at the end");

    mem_fail_after(1);
    tap_ok(failed_with_memory_error(freelist_take(&empty, 24)) && freelist_in_use(&empty) == 0,
           "a freelist fails on demand");
    tap_ok(freelist_take(&empty, 24) != NULL, "and works again afterwards");
    char *large = freelist_take(&big, 100000);
    memset(large, 1, 100000);
    tap_ok(large != NULL, "a record may be larger than a slab");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child();
    test_counted_allocation();
    test_failing_on_demand();
    test_pool_blocks();
    test_pool_cache();
    test_pool_trims_before_it_gives_up();
    test_threads();
    test_fork();
    test_failing_by_environment(argv[0]);
    test_freelist();
    return tap_done();
}
