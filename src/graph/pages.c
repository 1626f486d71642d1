/* pages.c: see pages.h.
 *
 * Invariant: what a worker touches is nobody's: the desk while nothing is planned, blocks of the pool that it has taken
 * itself, the arena while nothing runs. */
#include "graph/pages.h"

#include <stdatomic.h>

#include "core/memory.h"
#include "core/threads.h"
#include "graph/arena.h"
#include "graph/desk.h"
#include "graph/plan.h"

enum {
    WITH_BACKWARD = 3,      /* records that a log on the tape may come to, for each that it has */
    SAVED = 4,              /* one in so many values of a log on the tape is read by the backward, at least */
    RESULTS = 4,            /* that are looked for */
    LEAST_RESULT = 1 << 20, /* bytes */
    MOST_BYTES = 1 << 26,
    FOR_SUMS = 1 << 21, /* bytes at most of what waits to be added up (sums.c) */
    PAGE_BYTES = 4096,
};

static struct {
    int records;
    size_t bytes;
    const op_log *log;
    const uint8_t *bits;
    bool lent;
    atomic_bool stop;
} pages;

void pages_stop(void)
{
    if (pages.lent)
        threads_recall();
    pages.lent = false;
}

static bool lend(threads_fn fn)
{
    atomic_store(&pages.stop, false);
    return pages.lent = threads_lend(fn, NULL, &pages.stop);
}

/* --- for planning --------------------------------------------------------------------------------------------------
 */

static void touch_for_planning(void *unused, int64_t begin, int64_t end)
{
    (void)unused, (void)begin, (void)end;
    desk_furnish(pages.records, &pages.stop);
    arena_furnish(pages.bytes, &pages.stop);
}

/* How long the log will get nobody knows: there is another look when it is half as long again. */
void pages_for_planning(op_log *log)
{
    if (log->count < PAGES_RECORDS) {
        log->look = PAGES_RECORDS;
        return;
    }
    const node *last = log->nodes[log->count - 1];
    const bool taped = last && last->flags & NODE_TAPED;
    pages_stop();
    pages.records = log->count * (taped ? WITH_BACKWARD : 1);
    pages.bytes = taped ? (size_t)log->bytes / SAVED : 0;
    if (threads_at_hand() < 2)
        return;
    log->look = log->count + log->count / 2;
    if (desk_wants(pages.records) || arena_wants(pages.bytes))
        lend(touch_for_planning);
}

/* --- results -------------------------------------------------------------------------------------------------------
 */

static int64_t bytes_of(const op_log *log, int i)
{
    const layout *l = log->nodes[i] ? log->nodes[i]->layout : log->layouts[i];
    return l->span * (int64_t)dtype_size((bk_dtype)log->keys[i].dtype);
}

static bool is_view(const op_log *log, int i) { return op_get(log->keys[i].op)->kind == KIND_VIEW; }

/* Bytes of memory that the result of a record will have; 0: none of its own, or little. */
static size_t memory_for(const op_log *log, int i)
{
    const int64_t bytes = bytes_of(log, i);
    int32_t base = i;
    if (bytes < LEAST_RESULT)
        return 0;
    while (base >= 0 && log->keys[base].op == OP_update) /* a stack: empty memory that was written part by part */
        base = log->keys[base].in[0];
    return base < 0 || is_view(log, base) ? 0 : (size_t)bytes;
}

static char *touched_block(size_t bytes)
{
    char *block = pool_try(bytes);
    for (size_t at = 0; block && at < bytes && !atomic_load_explicit(&pages.stop, memory_order_relaxed);
         at += PAGE_BYTES)
        *(volatile char *)(block + at) = 0;
    return block;
}

/* Blocks of the pool that come back to it with pages: whoever takes the memory of a result next finds them. */
static void touch_results(void)
{
    char *blocks[RESULTS];
    size_t sizes[RESULTS], all = 0;
    int count = 0;
    for (int i = pages.log->count - 1; i >= 0 && count < RESULTS; i--) {
        const size_t bytes = pages.bits[i] & RECORD_KEPT ? memory_for(pages.log, i) : 0;
        if (!bytes || all + bytes > MOST_BYTES)
            continue;
        blocks[count] = touched_block(sizes[count] = bytes);
        all += bytes;
        count++;
    }
    while (count-- > 0)
        pool_give(blocks[count], sizes[count]);
}

/* --- temporaries ---------------------------------------------------------------------------------------------------
 */

typedef struct life {
    int32_t last;   /* the last reader of the record, or of what shows its memory */
    bool elsewhere; /* its memory is no temporary's */
    int64_t ended;  /* bytes of temporaries that this record is the last to read */
} life;

/* What record i reads lives so long. What is written into something, a stack, will be computed there; and what a result
 * shows, or has changed, is that result's memory. */
static void note_inputs(const op_log *log, const uint8_t *bits, life *lives, int i)
{
    const record_key *key = &log->keys[i];
    const bool writes = key->op == OP_update, shows = writes || op_get(key->op)->kind == KIND_VIEW;
    for (int k = 0; k < key->inputs; k++) {
        if (key->in[k] < 0)
            continue;
        life *in = &lives[key->in[k]];
        const int32_t until = shows ? lives[i].last : i;
        in->last = in->last < until ? until : in->last;
        in->elsewhere |= (writes && k == 1) || (shows && (bits[i] & RECORD_KEPT || lives[i].elsewhere));
    }
}

static int64_t temporary_bytes(const op_log *log, const uint8_t *bits, const life *lives, int i)
{
    const bool own = bits[i] & RECORD_NEEDED && !(bits[i] & RECORD_KEPT) && !lives[i].elsewhere && !is_view(log, i) &&
                     log->keys[i].op != OP_update;
    return own ? bytes_of(log, i) : 0;
}

/* The most that is alive at a time, if each value has memory from its record to its last reader's. Most of what is not
 * alive for long will never be in memory, but there is little of that at a time. */
size_t pages_of_temporaries(const op_log *log, const uint8_t *bits)
{
    life *lives = mem_try(sizeof *lives * (size_t)log->count);
    if (!lives)
        return 0;
    int64_t alive = 0, most = 0;
    for (int i = 0; i < log->count; i++)
        lives[i] = (life){ .last = i };
    for (int i = log->count - 1; i >= 0; i--) {
        if (bits[i] & RECORD_NEEDED)
            note_inputs(log, bits, lives, i);
        lives[lives[i].last].ended += temporary_bytes(log, bits, lives, i);
    }
    for (int i = 0; i < log->count; i++) {
        alive += temporary_bytes(log, bits, lives, i);
        most = alive > most ? alive : most;
        alive -= lives[i].ended;
    }
    mem_free(lives);
    return (size_t)most;
}

static void touch_for_running(void *unused, int64_t begin, int64_t end)
{
    (void)unused, (void)begin, (void)end;
    touch_results();
    const size_t bytes = pages_of_temporaries(pages.log, pages.bits);
    arena_furnish(bytes + (bytes < FOR_SUMS ? bytes : FOR_SUMS), &pages.stop);
}

void pages_for_running(const op_log *log, const uint8_t *bits)
{
    pages_stop();
    if (log->count < PAGES_RECORDS || threads_at_hand() < 2 || mem_fail_pending())
        return;
    pages.log = log;
    pages.bits = bits;
    lend(touch_for_running);
}
