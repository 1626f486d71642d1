/* log.c: the op log.
 *
 * Invariant: records are in the order of recording, so inputs stand before their readers; each holds one reference to
 * its node. A record's key is complete when it is appended, up to what only the flush knows (who still needs it). */
#include "graph/log.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/memory.h"
#include "graph/ahead.h"
#include "graph/append.h"
#include "graph/plan.h"

op_log the_log = { .epoch = 1, .look = FIRST_LOOK };

/* A loop that never reads a value must not grow without bound. Past the soft limit the log is flushed where it comes
 * round to the line it began with, so that the pieces of a repeated loop look alike and hit the cache. */
enum { MOST_RECORDS = 1 << 19 };
int log_most_records = MOST_RECORDS;
static int soft_records(void) { return log_most_records - log_most_records / 2; }

bool log_is_eager;

__attribute__((constructor)) static void read_settings(void)
{
    const char *text = getenv("BRISK_EAGER");
    log_is_eager = text && *text && strcmp(text, "0") != 0;
}

void log_make_room(op_log *log)
{
    log->room = log->capacity < soft_records() ? log->capacity : soft_records();
    if (log->look < log->room)
        log->room = log->look;
}

bool log_has_room(int records, int64_t bytes)
{
    return the_log.count + records < log_most_records && the_log.bytes + bytes < HARD_BYTES;
}

static bool resize(void *array, size_t item, int count)
{
    void **at = array, *grown = mem_resize(*at, item * (size_t)count);
    if (grown)
        *at = grown;
    return grown != NULL;
}

/* Addresses for the longest log: pages that nobody touches cost nothing, those of copies would. */
bool log_reserve(op_log *log, int records)
{
    int capacity = log->capacity ? log->capacity : mem_apart() ? 1024 : MOST_RECORDS;
    while (capacity < log->count + records)
        capacity *= 2;
    if (capacity == log->capacity)
        return true;
    if (!resize(&log->nodes, sizeof *log->nodes, capacity) || !resize(&log->layouts, sizeof *log->layouts, capacity) ||
        !resize(&log->keys, sizeof *log->keys, capacity))
        return false;
    log->capacity = capacity;
    log_make_room(log);
    return true;
}

char *log_stretch(int records, size_t *bytes)
{
    *bytes = (size_t)records * sizeof *the_log.keys;
    return !mem_apart() && log_reserve(&the_log, records) ? (char *)the_log.keys : NULL;
}

bool log_reserve_leaves(op_log *log, int leaves)
{
    int capacity = log->leaf_capacity ? log->leaf_capacity : 256;
    while (capacity < log->leaf_count + leaves)
        capacity *= 2;
    if (capacity == log->leaf_capacity)
        return true;
    if (!resize(&log->leaves, sizeof *log->leaves, capacity))
        return false;
    log->leaf_capacity = capacity;
    return true;
}

/* The number of a leaf that the log meets for the first time, as keys have it. A leaf is held by the records that read
 * it, so the table needs no reference. */
__attribute__((noinline)) int32_t log_add_leaf(op_log *log, node *n)
{
    if (!log_reserve_leaves(log, 1))
        return NO_LEAF;
    n->epoch = log->epoch;
    n->slot = log->leaf_count;
    n->uses = 0;
    log->read_bytes += n->layout->numel * (int64_t)dtype_size((bk_dtype)n->dtype);
    log->leaves[log->leaf_count++] = n;
    return -1 - n->slot;
}

static bool at_loop_start(const op_log *log, const node *n)
{
    const node *first = log->nodes[0];
    return first && n->line.code == first->line.code && n->line.at == first->line.at;
}

static bool over_budget(const op_log *log, const node *n)
{
    if ((log->count < soft_records() && log->bytes < SOFT_BYTES) ||
        n->op == OP_second) /* goes with the record before it */
        return false;
    return at_loop_start(log, n) || log->count >= log_most_records || log->bytes > HARD_BYTES;
}

/* What the machine cannot hold is refused on the line that asks for it, not when it is computed. */
static int check_size(const node *n, int64_t bytes)
{
    if (bytes <= mem_machine_bytes() || op_get(n->op)->kind == KIND_VIEW)
        return 0;
    return error_int(BK_RUNTIME_ERROR, "DefaultCPUAllocator: can't allocate memory: you tried to allocate %lld bytes.",
                     (long long)bytes);
}

/* An op may have read other operands before the one, or the copy of one, that is to be recorded now. */
static int flush_amid(op_log *log)
{
    log->amid = true;
    int status = log_flush();
    log->amid = false;
    return status;
}

/* The checks that a record of usual size in a log of usual length need not make. */
__attribute__((noinline)) int log_room_for(op_log *log, const node *n, int64_t bytes)
{
    if (check_size(n, bytes) < 0 || log_look() < 0)
        return -1;
    if (log->count && over_budget(log, n) && flush_amid(log) < 0)
        return -1;
    if (log->count >= log->look)
        ahead_look(log);
    if (!log_reserve(log, 1))
        return -1;
    log_make_room(log);
    return 0;
}

/* Of a record that could not be appended: its inputs up to one that found no room. */
__attribute__((noinline)) int log_take_back(op_log *log, const node *n, int inputs)
{
    ahead_leave(); /* the log has leaves that nobody holds for it */
    for (int k = 0; k < inputs; k++) {
        if (n->in[k]->flags & NODE_PENDING)
            log->keys[n->in[k]->slot].readers--;
        else
            n->in[k]->uses--;
    }
    return -1;
}

bool inference_seen;

/* Whether a gradient of n would read what was made in inference mode. */
static bool saves_inference(const node *n)
{
    const op_info *info = op_get(n->op);
    for (int k = 0; k < MAX_INPUTS && n->flags & NODE_TAPED; k++)
        for (int j = 0; n->edge[k] && j < n->inputs; j++)
            if (info->needs[k] >> j & 1 && n->in[j]->flags & NODE_INFERENCE)
                return true;
    return false;
}

__attribute__((noinline)) int log_check_inference(const node *n)
{
    if (!saves_inference(n))
        return 0;
    return error_int(BK_RUNTIME_ERROR,
                     "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                     "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
                     "normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
                     "`torch.inference_mode()`.");
}

int log_append(node *n) { return append_record(n, n->op, (bk_dtype)n->dtype, n->layout, n->inputs, n->op < EW_COUNT); }

int log_evaluate(node *n)
{
    if (node_evaluated(n))
        return 0;
    if (log_flush() < 0)
        return -1;
    if (!node_evaluated(n))
        return error_int(BK_RUNTIME_ERROR, "brisk: a value was lost (this is a bug in brisk)");
    return 0;
}

int bk_sync(void)
{
    lock_take();
    int status = log_flush();
    lock_give();
    return status;
}
