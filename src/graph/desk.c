/* desk.c: see desk.h.
 *
 * Pieces are cut from one stretch of addresses, far longer than most plans need: pages that nobody touches cost
 * nothing. What does not fit is an allocation of its own.
 *
 * Invariant: what lies before `furnished` has pages, or somebody touches them. A worker that furnishes the desk is the
 * only one at it. */
#include "graph/desk.h"

#include <stdint.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

enum {
    ALIGNMENT = 16,
    BYTES = 1 << 26,    /* logs of very many records are rare enough to get fresh memory */
    RECORD_BYTES = 450, /* that planning a record of a loop takes, measured */
};

typedef struct block {
    struct block *next;
    size_t unused;
    char data[];
} block;

static struct {
    char *stretch; /* NULL: none as yet */
    size_t used, furnished;
    block *apart; /* what did not fit */
} desk;

/* A piece of its own: where nothing fits, where errors are to be found, and where allocations are to fail. */
static void *take_apart(size_t bytes)
{
    block *b = mem_try(sizeof *b + bytes);
    if (!b)
        return NULL;
    *b = (block){ .next = desk.apart };
    desk.apart = b;
    return b->data;
}

static bool has_stretch(void)
{
    if (!desk.stretch && !mem_apart())
        desk.stretch = mem_try(BYTES);
    return desk.stretch != NULL;
}

void *desk_try(size_t bytes)
{
    size_t size = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (mem_apart() || !has_stretch() || BYTES - desk.used < size)
        return take_apart(size);
    desk.used += size;
    return desk.stretch + desk.used - size;
}

void *desk_take(size_t bytes)
{
    void *p = desk_try(bytes);
    return p ? p : error_memory();
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

size_t desk_mark(void) { return desk.used; }
void desk_release(size_t mark) { desk.used = mark; }

void desk_clear(void)
{
    for (block *b = desk.apart, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    desk.apart = NULL;
    desk.furnished = desk.used > desk.furnished ? desk.used : desk.furnished;
    desk.used = 0;
}

/* --- pages ahead of their use ------------------------------------------------------------------------------------- */

static size_t wanted(int records)
{
    const size_t bytes = (size_t)records * RECORD_BYTES;
    return bytes < BYTES ? bytes : BYTES;
}

bool desk_wants(int records) { return !mem_apart() && has_stretch() && desk.furnished < wanted(records); }

void desk_furnish(int records, const atomic_bool *stop)
{
    if (desk_wants(records))
        desk.furnished = mem_touch(desk.stretch, desk.furnished, wanted(records), stop);
}

char *desk_stretch(int records, size_t *bytes)
{
    const size_t end = wanted(records);
    *bytes = 0;
    if (!desk_wants(records))
        return NULL;
    *bytes = end;
    desk.furnished = end;
    return desk.stretch;
}
