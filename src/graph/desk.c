/* desk.c: see desk.h.
 *
 * Pieces are cut from a block. What does not fit gets a block of its own, and the desk is made that much larger when it
 * is cleared. Invariant: the kept block is the first of the list, and the only one after a clear. */
#include "graph/desk.h"

#include <stdint.h>
#include <string.h>

#include "core/memory.h"

enum { ALIGNMENT = 16, FIRST_BYTES = 1 << 16, KEPT_BYTES = 1 << 26 };

typedef struct block {
    struct block *next;
    size_t bytes, used;
    size_t unused;
    char data[];
} block;

static struct {
    block *kept;  /* NULL: none as yet */
    block *other; /* for what did not fit */
    size_t taken; /* bytes, since it was cleared */
} desk;

/* A piece of its own: where nothing fits, where errors are to be found, and where allocations are to fail. */
static void *take_apart(size_t bytes)
{
    block *b = mem_alloc(sizeof *b + bytes);
    if (!b)
        return NULL;
    *b = (block){ .next = desk.other, .bytes = bytes, .used = bytes };
    desk.other = b;
    return b->data;
}

static bool is_apart(void)
{
#ifdef MEM_ASAN
    return true;
#else
    return mem_fail_pending() > 0;
#endif
}

void *desk_take(size_t bytes)
{
    size_t size = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    block *b = desk.kept;
    desk.taken += size;
    if (!b || b->bytes - b->used < size || is_apart())
        return take_apart(size);
    b->used += size;
    return b->data + b->used - size;
}

void *desk_take_zero(size_t bytes)
{
    void *p = desk_take(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *desk_grow(void *p, size_t had, size_t bytes)
{
    void *grown = desk_take(bytes);
    return grown && had ? memcpy(grown, p, had) : grown;
}

/* As large as what was taken, and a quarter more; logs of very many records are rare enough to get fresh memory. */
static void enlarge(void)
{
    size_t bytes = desk.taken + desk.taken / 4 < FIRST_BYTES ? FIRST_BYTES : desk.taken + desk.taken / 4;
    if (is_apart() || bytes > KEPT_BYTES || (desk.kept && desk.kept->bytes >= bytes))
        return;
    block *b = mem_try(sizeof *b + bytes);
    if (!b)
        return;
    mem_free(desk.kept);
    *b = (block){ .bytes = bytes };
    desk.kept = b;
}

void desk_clear(void)
{
    bool small = desk.other != NULL;
    for (block *b = desk.other, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    desk.other = NULL;
    if (small)
        enlarge();
    if (desk.kept)
        desk.kept->used = 0;
    desk.taken = 0;
}
