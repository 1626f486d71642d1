/* memory.h: every allocation of the library goes through here.
 *
 * mem_alloc and mem_free stand for malloc and free, counted, and failing on demand: BRISK_FAIL_ALLOC=n fails the
 * n-th allocation, which is how the tests reach every out-of-memory path. Tensor data comes from pool_take, a
 * caching size-class pool: fresh pages cost about 2 us per 4 KB to touch, reused ones nothing. */
#ifndef BK_CORE_MEMORY_H
#define BK_CORE_MEMORY_H
#include <stdatomic.h>

#include "brisk.h"

#if defined(__SANITIZE_ADDRESS__)
#define MEM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEM_ASAN 1
#endif
#endif

/* All return NULL with the error set when memory is out. */
void *mem_alloc(size_t bytes);
void *mem_alloc_zero(size_t bytes);
void *mem_try(size_t bytes);             /* for who can do without: NULL leaves the error as it is */
void *mem_resize(void *p, size_t bytes); /* p is untouched when it fails */
void mem_free(void *p);
int64_t mem_live(void);  /* allocations not freed: the leak tests compare it */
int64_t mem_count(void); /* allocations made so far: there are none in the steady state */
/* Fails the n-th allocation from now (1 is the next); 0 switches it off. */
void mem_fail_after(int64_t n);
int64_t mem_fail_pending(void); /* how far the failing one is; 0: it has failed, or none is to */
/* Whether each piece of memory is to be an allocation of its own: where errors are to be found, and where allocations
 * are to fail. */
static inline bool mem_apart(void)
{
#ifdef MEM_ASAN
    return true;
#else
    return mem_fail_pending() > 0;
#endif
}

/* 64-byte aligned blocks. `bytes` must be the same for take and give. */
void *pool_take(size_t bytes);
void *pool_try(size_t bytes); /* the same for who can do without: NULL leaves the error as it is */
void pool_give(void *p, size_t bytes);
void pool_count(int64_t bytes); /* memory that is no block of the pool, but counts as taken from it, or given back */
/* Touches the pages from byte `from` to byte `to` of memory that nobody uses, until *stop is set; how far it got. */
size_t mem_touch(char *memory, size_t from, size_t to, const atomic_bool *stop);
int64_t mem_machine_bytes(void); /* memory and swap of the machine: more than that is never to be had */
void pool_trim(void);            /* gives cached blocks back to the system */
int64_t pool_bytes_in_use(void);
int64_t pool_bytes_peak(void); /* the most that was ever in use */
int64_t pool_bytes_cached(void);

/* Under AddressSanitizer a free record is unreadable behind its link, so that a use after the give is reported. */
#ifdef MEM_ASAN
#include <sanitizer/asan_interface.h>
static inline void mem_hide(void *p, size_t bytes) { __asan_poison_memory_region(p, bytes); }
static inline void mem_show(void *p, size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
#else
static inline void mem_hide(void *p, size_t bytes) { (void)p, (void)bytes; }
static inline void mem_show(void *p, size_t bytes) { (void)p, (void)bytes; }
#endif

/* Fixed-size records without malloc in the steady state: a take and a give cost 2 ns. */
typedef struct freelist {
    size_t size; /* bytes per record; 0 until the first take */
    void *free;  /* LIFO: the warmest record first */
    void *slabs;
} freelist;

void *freelist_take_slow(freelist *f, size_t size);
int64_t freelist_in_use(const freelist *f); /* counts them: for those who look for leaks */
/* Calls see(record) for every record in use, and for free ones: what these hold was given back, or is zero. */
void freelist_each(const freelist *f, void (*see)(const void *record));
/* For who has seen that f->free is there. */
static inline void *freelist_take_free(freelist *f)
{
    void *r = f->free;
    f->free = *(void **)r;
    mem_show(r, f->size);
    return r;
}
static inline void *freelist_take(freelist *f, size_t size)
{
    return __builtin_expect(f->free == NULL, 0) ? freelist_take_slow(f, size) : freelist_take_free(f);
}
static inline void freelist_give(freelist *f, void *r)
{
    *(void **)r = f->free;
    mem_hide((void **)r + 1, f->size - sizeof(void *));
    f->free = r;
}

/* Zeroes a record of a size known when compiling. For the 100 to 250 bytes of nodes and handles compilers choose
 * `rep stos`, whose start costs more than all the stores. */
typedef long long zero_block __attribute__((vector_size(16), aligned(8), may_alias));
typedef long long zero_word __attribute__((may_alias));
static inline __attribute__((always_inline)) void record_clear(void *record, const size_t bytes)
{
    zero_block *block = (zero_block *)record;
#if defined(__clang__)
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 32
#endif
    for (size_t i = 0; i < bytes / sizeof *block; i++)
        block[i] = (zero_block){ 0, 0 };
    if (bytes % sizeof *block)
        *(zero_word *)((char *)record + bytes - 8) = 0;
}

#endif
