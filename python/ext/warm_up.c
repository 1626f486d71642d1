/* warm_up.c: pages that a first call will need are touched while Python imports the rest of the package.
 *
 * A page that nobody has touched yet takes 1.2 us on a virtual machine. The first training step of a loop over time
 * touches 900 to 3,700 of them, which was half of what it took; and during the 35 ms of an import the other cores have
 * nothing to do. So a thread of its own touches memory of the heap, of the log, of the planner's desk and of the arena,
 * and reads this library's code, whose pages are mapped as they are first read.
 *
 * Invariants: the thread has ended when the import returns, since programs fork; a child that is forked meanwhile does
 * not wait for it. It changes no byte that it touches: nobody needs to know that it is there. */
#define _GNU_SOURCE
#include "pybrisk.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <link.h>
#endif

#include "core/memory.h"
#include "graph/arena.h"
#include "graph/desk.h"
#include "graph/log.h"

/* About what a loop of 1,000 steps needs, forward and backward. */
enum { HEAP_BYTES = 10 << 20, ARENA_BYTES = 2 << 20, RECORDS = 1 << 14, PAGE_BYTES = 4096 };

typedef struct stretch {
    char *first;
    size_t bytes;
} stretch;

static struct {
    stretch heap, arena, desk, log, code;
    pthread_t thread;
    pid_t started_by; /* 0: nobody */
} warm;

static void touch(stretch s)
{
    for (size_t at = 0; s.first && at < s.bytes; at += PAGE_BYTES)
        atomic_fetch_or_explicit((_Atomic char *)(s.first + at), 0, memory_order_relaxed);
}

static void look_at(stretch s)
{
    for (size_t at = 0; at < s.bytes; at += PAGE_BYTES)
        (void)*(volatile const char *)(s.first + at);
}

static void *touch_all(void *unused)
{
    touch(warm.desk);
    touch(warm.log);
    touch(warm.arena);
    look_at(warm.code);
    touch(warm.heap);
    return unused;
}

#ifdef __linux__
static int take_code(struct dl_phdr_info *object, size_t size, void *unused)
{
    const char *here = (const char *)&warm;
    bool ours = false;
    stretch code = { 0 };
    (void)size, (void)unused;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        char *first = (char *)object->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD)
            continue;
        ours = ours || (here >= first && here < first + part->p_memsz);
        if (part->p_flags & PF_X)
            code = (stretch){ first, part->p_memsz };
    }
    if (ours)
        warm.code = code;
    return ours;
}
static void find_code(void) { dl_iterate_phdr(take_code, NULL); }
#else
static void find_code(void) {}
#endif

/* A large block that was freed once makes glibc take blocks of its size from the heap, and keep as much of that at the
 * end: without it, what is touched here would be a mapping of its own, which free gives back. */
static char *heap_block(void)
{
    void *volatile larger = malloc(HEAP_BYTES + PAGE_BYTES); /* volatile: compilers drop a malloc that is only freed */
    free(larger);
    return malloc(HEAP_BYTES);
}

static bool start_thread(void)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const bool started = !pthread_create(&warm.thread, NULL, touch_all, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

/* Not where allocations are to fail, nor where another allocator keeps what is freed from being used again. */
static bool pays(void) { return bk_get_num_threads() > 1 && !mem_apart(); }

void warm_up_begin(void)
{
    if (!pays())
        return;
    warm.heap = (stretch){ heap_block(), HEAP_BYTES };
    warm.arena = (stretch){ arena_stretch(ARENA_BYTES), ARENA_BYTES };
    warm.desk.first = desk_stretch(RECORDS, &warm.desk.bytes);
    warm.log.first = log_stretch(RECORDS, &warm.log.bytes);
    find_code();
    warm.started_by = start_thread() ? getpid() : 0;
    if (!warm.started_by)
        free(warm.heap.first);
}

void warm_up_end(void)
{
    if (!warm.started_by)
        return;
    if (warm.started_by == getpid())
        pthread_join(warm.thread, NULL);
    warm.started_by = 0;
    free(warm.heap.first);
}
