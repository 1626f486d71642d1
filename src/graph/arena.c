/* arena.c: see arena.h.
 *
 * A plan that is begun while another has the stretch, or one that needs more, has a block of the pool.
 *
 * Invariant: what lies before `furnished` has pages, or somebody touches them. */
#include "graph/arena.h"

#include <stdint.h>

#include "core/memory.h"

enum {
    BYTES = 1 << 26, /* addresses: pages that nobody touches cost nothing */
    ALIGNMENT = 64,
};

static struct {
    char *stretch; /* NULL: none as yet */
    size_t used, furnished;
    bool taken;
} arena;

static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

static void note_furnished(void) { arena.furnished = arena.used > arena.furnished ? arena.used : arena.furnished; }

static bool has_stretch(void)
{
    if (!arena.stretch && !mem_apart()) {
        char *memory = mem_try(BYTES + ALIGNMENT);
        arena.stretch = memory ? memory + (-(uintptr_t)memory & (ALIGNMENT - 1)) : NULL;
    }
    return arena.stretch && !mem_apart();
}

char *arena_take(size_t bytes)
{
    if (arena.taken || bytes > BYTES || !has_stretch())
        return pool_take(bytes);
    arena.taken = true;
    arena.used = rounded(bytes);
    pool_count((int64_t)bytes);
    return arena.stretch;
}

void arena_give(char *memory, size_t bytes)
{
    if (memory != arena.stretch) {
        pool_give(memory, bytes);
        return;
    }
    note_furnished();
    arena.taken = false;
    pool_count(-(int64_t)bytes);
}

char *arena_more(size_t bytes)
{
    if (!arena.taken || BYTES - arena.used < rounded(bytes))
        return pool_try(bytes);
    char *more = arena.stretch + arena.used;
    arena.used += rounded(bytes);
    pool_count((int64_t)bytes);
    return more;
}

void arena_less(char *more, size_t bytes)
{
    if (arena.stretch && more >= arena.stretch && more < arena.stretch + BYTES) {
        note_furnished();
        arena.used -= rounded(bytes);
        pool_count(-(int64_t)bytes);
    } else {
        pool_give(more, bytes);
    }
}

bool arena_wants(size_t bytes)
{
    return !arena.taken && !mem_apart() && arena.furnished < BYTES && arena.furnished < bytes;
}

void arena_furnish(size_t bytes, const atomic_bool *stop)
{
    if (arena_wants(bytes) && has_stretch())
        arena.furnished = mem_touch(arena.stretch, arena.furnished, bytes < BYTES ? bytes : BYTES, stop);
}

char *arena_stretch(size_t bytes)
{
    if (!arena_wants(bytes) || !has_stretch())
        return NULL;
    arena.furnished = bytes;
    return arena.stretch;
}
