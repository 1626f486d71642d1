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
    RESULTS = 4,            /* that are looked for */
    LEAST_RESULT = 1 << 20, /* bytes */
    MOST_BYTES = 1 << 26,
};

static struct {
    int records;
    size_t bytes;           /* of temporaries */
    size_t result[RESULTS]; /* bytes */
    int results;
    bool lent;
    atomic_bool stop;
} pages;

void pages_stop(void)
{
    if (pages.lent)
        threads_recall();
    pages.lent = false;
}

static void lend(threads_fn fn)
{
    atomic_store(&pages.stop, false);
    pages.lent = threads_lend(fn, NULL, &pages.stop);
}

/* --- for planning --------------------------------------------------------------------------------------------------
 */

static void touch_for_planning(void *unused, int64_t begin, int64_t end)
{
    (void)unused, (void)begin, (void)end;
    desk_furnish(pages.records, &pages.stop);
    arena_furnish(pages.bytes, &pages.stop);
}

/* How long the log will get nobody knows: there is another look when it is half as long again. Of what is recorded on
 * the tape about two fifths are still there when its backward begins. */
void pages_for_planning(op_log *log)
{
    if (log->count < PAGES_RECORDS) {
        log->look = PAGES_RECORDS;
        pages.bytes = 0;
        return;
    }
    const node *last = log->nodes[log->count - 1];
    const bool taped = last && last->flags & NODE_TAPED;
    pages_stop();
    pages.records = log->count * (taped ? WITH_BACKWARD : 1);
    pages.bytes = taped ? (size_t)log->bytes / 5 * 2 : pages.bytes;
    if (threads_at_hand() < 2)
        return;
    log->look = log->count + log->count / 2;
    if (desk_wants(pages.records) || arena_wants(pages.bytes))
        lend(touch_for_planning);
}

/* --- results -------------------------------------------------------------------------------------------------------
 */

/* Bytes of memory that the result of a record will have; 0: none of its own, or little. */
static size_t memory_for(const op_log *log, int i)
{
    const node *n = log->nodes[i];
    const int64_t bytes = n ? n->layout->span * (int64_t)dtype_size((bk_dtype)n->dtype) : 0;
    int32_t base = i;
    if (bytes < LEAST_RESULT)
        return 0;
    while (base >= 0 && log->keys[base].op == OP_update) /* a stack: empty memory that was written part by part */
        base = log->keys[base].in[0];
    return base < 0 || op_get(log->keys[base].op)->kind == KIND_VIEW ? 0 : (size_t)bytes;
}

/* The largest results are few, and mostly among the last records. */
static void find_results(const op_log *log, const uint8_t *bits)
{
    size_t all = 0;
    pages.results = 0;
    for (int i = log->count - 1; i >= 0 && pages.results < RESULTS; i--) {
        const size_t bytes = bits[i] & RECORD_KEPT ? memory_for(log, i) : 0;
        if (bytes && all + bytes <= MOST_BYTES) {
            pages.result[pages.results++] = bytes;
            all += bytes;
        }
    }
}

static char *touched_block(size_t bytes)
{
    char *block = pool_try(bytes);
    if (block)
        mem_touch(block, 0, bytes, &pages.stop);
    return block;
}

/* Blocks of the pool that come back to it with pages: whoever takes the memory of a result next finds them. */
static void touch_for_running(void *unused, int64_t begin, int64_t end)
{
    (void)unused, (void)begin, (void)end;
    char *blocks[RESULTS];
    for (int i = 0; i < pages.results; i++)
        blocks[i] = touched_block(pages.result[i]);
    for (int i = 0; i < pages.results; i++)
        pool_give(blocks[i], pages.result[i]);
    arena_furnish(pages.bytes, &pages.stop);
}

void pages_for_running(const op_log *log, const uint8_t *bits)
{
    pages_stop();
    if (log->count < PAGES_RECORDS || threads_at_hand() < 2 || mem_fail_pending())
        return;
    find_results(log, bits);
    pages.bytes += pages.bytes / 2; /* as far as the log may have got since the last look */
    lend(touch_for_running);        /* also where there is nothing to touch: the run needs a worker that is awake */
}
