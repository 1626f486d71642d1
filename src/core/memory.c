/* memory.c: counted allocation, the pool of tensor memory, freelists.
 *
 * A block of the pool belongs to a size class: multiples of 64 bytes up to 512, then eight classes per doubling, so
 * that above 512 bytes at most an eighth of the request is waste. A block given back is kept in its class and handed
 * out again, the warmest first; while it is cached, its own first bytes hold its links.
 *
 * Invariants: every block is in use by a caller or cached in exactly one class list; a cached block of LARGE_BYTES or
 * more is also in the age list. in_use and cached are the sums of the class sizes of those two sets.
 * Under AddressSanitizer nothing is cached: each block is an allocation of its own and of the exact size. */
#include "core/memory.h"
#include "core/error.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#include <sys/sysinfo.h>
#endif

enum {
    ALIGNMENT = 64,
    STEPS = 8,          /* classes per doubling */
    LINEAR_BYTES = 512, /* STEPS * ALIGNMENT: up to here the classes are the multiples of the alignment */
    LINEAR_BITS = 9,    /* LINEAR_BYTES == 1 << LINEAR_BITS */
    MAX_BITS = 46,      /* the largest class: 64 TB, half of a process's addresses */
    CLASSES = (MAX_BITS - LINEAR_BITS + 1) * STEPS,
    LARGE_BYTES = 64 * 1024,       /* blocks from here on are trimmed one by one, by age */
    HUGE_BYTES = 2 * 1024 * 1024,  /* a huge page; blocks from here on are mapped, not malloc'ed */
    MANY_BYTES = 64 * 1024 * 1024, /* that are worth huge pages: see map_huge */
    PAGE_BYTES = 4096,             /* or more */
    SLAB_BYTES = 64 * 1024,        /* a freelist grows by one slab: about 400 nodes */
    RECORD_ALIGNMENT = 16,
    LINE_BYTES = 64, /* what a record of two lines or more begins with */
};
#ifdef MEM_ASAN
enum { CACHING = false };
#else
enum { CACHING = true };
#endif
static const int64_t CACHE_FLOOR = (int64_t)1 << 30; /* the cache may always hold this much */

/* --- failing on demand ------------------------------------------------------------------------------------- */

static _Atomic int64_t fail_countdown; /* the allocation that brings it to 0 fails; 0 is off */

void mem_fail_after(int64_t n) { atomic_store(&fail_countdown, n); }

int64_t mem_fail_pending(void) { return atomic_load(&fail_countdown); }

static bool must_fail(void)
{
    if (__builtin_expect(atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0, 1))
        return false;
    return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

/* --- counted malloc ---------------------------------------------------------------------------------------- */

static _Atomic int64_t live, made;

static void *counted(void *p)
{
    if (!p)
        return error_memory();
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    return p;
}

void *mem_try(size_t bytes)
{
    void *p = must_fail() ? NULL : malloc(bytes ? bytes : 1);
    return p ? counted(p) : NULL;
}

/* malloc(0) may be NULL, which would read as a failure. */
static size_t at_least_one(size_t bytes) { return bytes ? bytes : 1; }

void *mem_alloc(size_t bytes) { return counted(must_fail() ? NULL : malloc(at_least_one(bytes))); }

void *mem_alloc_zero(size_t bytes) { return counted(must_fail() ? NULL : calloc(1, at_least_one(bytes))); }

void *mem_resize(void *p, size_t bytes)
{
    if (!p)
        return mem_alloc(bytes);
    void *moved = must_fail() ? NULL : realloc(p, at_least_one(bytes));
    return moved ? moved : error_memory();
}

void mem_free(void *p)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

int64_t mem_count(void) { return atomic_load_explicit(&made, memory_order_relaxed); }
int64_t mem_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }

/* --- size classes ------------------------------------------------------------------------------------------ */

/* `bytes` is at most 1 << MAX_BITS. */
static int class_of(size_t bytes)
{
    if (bytes <= LINEAR_BYTES)
        return bytes ? (int)((bytes - 1) / ALIGNMENT) : 0;
    uint64_t last = bytes - 1;
    int doubling = 63 - __builtin_clzll(last) - LINEAR_BITS;
    int step = (int)(last >> (doubling + LINEAR_BITS - 3)) & (STEPS - 1);
    return STEPS + doubling * STEPS + step;
}

static size_t class_bytes(int c)
{
    if (c < STEPS)
        return (size_t)(c + 1) * ALIGNMENT;
    size_t base = (size_t)LINEAR_BYTES << (c / STEPS - 1);
    return base + base / STEPS * (size_t)(c % STEPS + 1);
}

/* --- memory from the system -------------------------------------------------------------------------------- */

#if defined(__linux__) && !defined(MEM_ASAN)
/* Maps a huge page more than asked for, and gives back what lies before and behind the aligned block. Memory that the
 * machine has used before is touched in a fifth of the time with huge pages; but the host of a virtual machine took 5
 * ms to find one that it had not, which fresh ones mostly are. So only much memory is to have them. */
static void *map_huge(size_t bytes)
{
    size_t padded = bytes + HUGE_BYTES;
    char *map = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)map & (HUGE_BYTES - 1);
    if (before)
        munmap(map, before);
    munmap(map + before + bytes, padded - before - bytes);
    if (bytes >= MANY_BYTES)
        madvise(map + before, bytes, MADV_HUGEPAGE); /* advice only: a kernel without huge pages refuses it */
    return map + before;
}
static void unmap_huge(void *p, size_t bytes) { munmap(p, bytes); }
#else
static void *map_huge(size_t bytes)
{
    void *p;
    return posix_memalign(&p, HUGE_BYTES, bytes) ? NULL : p;
}
static void unmap_huge(void *p, size_t bytes)
{
    (void)bytes;
    free(p);
}
#endif

static void *system_take(size_t bytes)
{
    if (bytes >= HUGE_BYTES)
        return map_huge(bytes);
    void *p;
    return posix_memalign(&p, ALIGNMENT, at_least_one(bytes)) ? NULL : p;
}

static void system_give(void *p, size_t bytes)
{
    if (bytes >= HUGE_BYTES)
        unmap_huge(p, bytes);
    else
        free(p);
}

/* One by one: asking the system for all of them at once would hold up whoever maps memory meanwhile. */
size_t mem_touch(char *memory, size_t from, size_t to, const atomic_bool *stop)
{
    for (; from < to && !atomic_load_explicit(stop, memory_order_relaxed); from += PAGE_BYTES)
        *(volatile char *)(memory + from) = 0;
    return from;
}

static int64_t machine_bytes = INT64_MAX;

int64_t mem_machine_bytes(void) { return machine_bytes; }

__attribute__((constructor)) static void read_machine(void)
{
#ifdef __linux__
    struct sysinfo info;
    if (sysinfo(&info) == 0)
        machine_bytes = ((int64_t)info.totalram + (int64_t)info.totalswap) * (int64_t)info.mem_unit;
#endif
}

/* --- the pool ---------------------------------------------------------------------------------------------- */

typedef struct block {
    struct block *next;          /* in its class, or in a list of blocks to give to the system */
    struct block *prev;          /* the rest is kept for large blocks alone */
    struct block *newer, *older; /* among all large blocks */
    int class;
} block;

static struct {
    atomic_bool locked; /* held for some ten instructions, so waiting means spinning */
    block *classes[CLASSES];
    block *newest, *oldest;
    int64_t in_use, cached, peak;
} pool;

static void wait_unlocked(void)
{
    for (int spins = 0; atomic_load_explicit(&pool.locked, memory_order_relaxed); spins++)
        if (spins >= 1000)
            sched_yield(); /* the holder lost its core */
}

static void lock(void)
{
    while (atomic_exchange_explicit(&pool.locked, true, memory_order_acquire))
        wait_unlocked();
}

static void unlock(void) { atomic_store_explicit(&pool.locked, false, memory_order_release); }

/* A child of fork must not inherit a lock whose holder exists in the parent alone. */
__attribute__((constructor)) static void start(void)
{
    pthread_atfork(lock, unlock, unlock);
    const char *n = getenv("BRISK_FAIL_ALLOC");
    if (n)
        mem_fail_after(strtoll(n, NULL, 10));
}

static bool is_large(int c) { return class_bytes(c) >= LARGE_BYTES; }

static void link_large(block *b, int c)
{
    b->class = c;
    b->prev = NULL;
    if (b->next)
        b->next->prev = b;
    b->newer = NULL;
    b->older = pool.newest;
    *(pool.newest ? &pool.newest->newer : &pool.oldest) = b;
    pool.newest = b;
}

static void unlink_large(block *b)
{
    *(b->prev ? &b->prev->next : &pool.classes[b->class]) = b->next;
    if (b->next)
        b->next->prev = b->prev;
    *(b->newer ? &b->newer->older : &pool.newest) = b->older;
    *(b->older ? &b->older->newer : &pool.oldest) = b->newer;
}

static void cache_put(block *b, int c)
{
    b->next = pool.classes[c];
    pool.classes[c] = b;
    if (is_large(c))
        link_large(b, c);
}

static block *cache_get(int c)
{
    block *b = pool.classes[c];
    if (!b)
        return NULL;
    if (is_large(c))
        unlink_large(b);
    else
        pool.classes[c] = b->next;
    return b;
}

/* Takes blocks out of the cache until it holds at most `keep` bytes: the oldest large ones, then small ones. The
 * blocks are given to the system after the lock is released, since unmapping takes microseconds per megabyte. */
static block *detach_until(int64_t keep)
{
    block *out = NULL;
    while (pool.cached > keep && pool.oldest) {
        block *b = pool.oldest;
        unlink_large(b);
        pool.cached -= (int64_t)class_bytes(b->class);
        b->next = out;
        out = b;
    }
    for (int c = 0; pool.cached > keep && !is_large(c); c++)
        for (block *b; pool.cached > keep && (b = cache_get(c)) != NULL;) {
            pool.cached -= (int64_t)class_bytes(c);
            b->class = c;
            b->next = out;
            out = b;
        }
    return out;
}

static void give_all(block *b)
{
    for (block *next; b; b = next) {
        next = b->next;
        system_give(b, class_bytes(b->class));
    }
}

static int64_t cache_limit(void) { return pool.peak / 2 > CACHE_FLOOR ? pool.peak / 2 : CACHE_FLOOR; }

void pool_trim(void)
{
    lock();
    block *out = detach_until(0);
    unlock();
    give_all(out);
}

static void count_use(int64_t bytes)
{
    pool.in_use += bytes;
    if (pool.in_use > pool.peak)
        pool.peak = pool.in_use;
}

void pool_count(int64_t bytes)
{
    lock();
    count_use(bytes);
    unlock();
}

/* The class's cache was empty. */
static void *take_fresh(size_t bytes)
{
    void *p = system_take(bytes);
    if (!p) {
        pool_trim();
        p = system_take(bytes);
    }
    if (!p)
        return NULL;
    lock();
    count_use((int64_t)bytes);
    unlock();
    return p;
}

void *pool_try(size_t bytes)
{
    if (must_fail() || bytes > (size_t)1 << MAX_BITS)
        return NULL;
    int c = class_of(bytes);
    size_t size = CACHING ? class_bytes(c) : bytes;
    lock();
    block *b = cache_get(c);
    if (b) {
        pool.cached -= (int64_t)size;
        count_use((int64_t)size);
    }
    unlock();
    return b ? b : take_fresh(size);
}

void *pool_take(size_t bytes)
{
    void *p = pool_try(bytes);
    return p ? p : error_memory();
}

static void give_uncached(void *p, size_t bytes)
{
    lock();
    pool.in_use -= (int64_t)bytes;
    unlock();
    system_give(p, bytes);
}

void pool_give(void *p, size_t bytes)
{
    if (!p)
        return;
    if (!CACHING) {
        give_uncached(p, bytes);
        return;
    }
    int c = class_of(bytes);
    int64_t size = (int64_t)class_bytes(c);
    block *out = NULL;
    lock();
    cache_put(p, c);
    pool.in_use -= size;
    pool.cached += size;
    if (__builtin_expect(pool.cached > CACHE_FLOOR, 0))
        out = detach_until(cache_limit());
    unlock();
    give_all(out);
}

int64_t pool_bytes_in_use(void)
{
    lock();
    int64_t n = pool.in_use;
    unlock();
    return n;
}

int64_t pool_bytes_peak(void)
{
    lock();
    int64_t n = pool.peak;
    unlock();
    return n;
}

int64_t pool_bytes_cached(void)
{
    lock();
    int64_t n = pool.cached;
    unlock();
    return n;
}

/* --- freelists --------------------------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Slabs live as long as the process and are not counted by mem_live: freelist_in_use tells of leaks. Under
 * AddressSanitizer a slab holds one record, so that writing past a record is reported. */
static const size_t SLAB_HEADER = LINE_BYTES; /* the link to the next */

static size_t slab_bytes(const freelist *f)
{
    size_t bytes = round_up(SLAB_HEADER + f->size, LINE_BYTES);
#ifndef MEM_ASAN
    if (bytes < SLAB_BYTES)
        bytes = SLAB_BYTES;
#endif
    return bytes;
}

static bool add_slab(freelist *f)
{
    size_t bytes = slab_bytes(f);
    char *slab = must_fail() ? NULL : aligned_alloc(LINE_BYTES, bytes);
    if (!slab)
        return false;
    memset(slab, 0, bytes);
    *(void **)slab = f->slabs;
    f->slabs = slab;

    void **link = &f->free; /* in order of address, as the prefetcher likes it */
    for (char *p = slab + SLAB_HEADER; p + f->size <= slab + bytes; p += f->size) {
        *link = p;
        link = (void **)p;
    }
    *link = NULL;
    return true;
}

/* The list is empty, and stays as it is when memory is out. */
void *freelist_take_slow(freelist *f, size_t size)
{
    if (f->size == 0)
        f->size = round_up(size ? size : 1, size > 2 * LINE_BYTES ? LINE_BYTES : RECORD_ALIGNMENT);
    return add_slab(f) ? freelist_take(f, size) : error_memory();
}

#ifdef MEM_ASAN
static bool is_hidden(const void *record) { return __asan_address_is_poisoned((void *const *)record + 1); }
#else
static bool is_hidden(const void *record) { return (void)record, false; }
#endif

int64_t freelist_in_use(const freelist *f)
{
    int64_t count = 0;
    for (const char *slab = f->slabs; slab; slab = *(void *const *)slab)
        count += (int64_t)((slab_bytes(f) - SLAB_HEADER) / f->size);
    for (const void *record = f->free; record; record = *(void *const *)record)
        count--;
    return count;
}

void freelist_each(const freelist *f, void (*see)(const void *record))
{
    for (const char *slab = f->slabs; slab; slab = *(void *const *)slab)
        for (const char *p = slab + SLAB_HEADER; p + f->size <= slab + slab_bytes(f); p += f->size)
            if (!is_hidden(p))
                see(p);
}
