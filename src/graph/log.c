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
#include "graph/plan.h"

op_log the_log = { .epoch = 1 };

/* A loop that never reads a value must not grow without bound. Past the soft limit the log is flushed where it comes
 * round to the line it began with, so that the pieces of a repeated loop look alike and hit the cache. */
enum { SOFT_RECORDS = 1 << 17, HARD_RECORDS = 1 << 18 };
static const int64_t SOFT_BYTES = (int64_t)1 << 30;

bool log_is_eager;

__attribute__((constructor)) static void read_settings(void)
{
    const char *text = getenv("BRISK_EAGER");
    log_is_eager = text && *text && strcmp(text, "0") != 0;
}

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 29);
}

void log_make_room(op_log *log) { log->room = log->capacity < SOFT_RECORDS ? log->capacity : SOFT_RECORDS; }

static bool grow(op_log *log)
{
    int capacity = log->capacity ? log->capacity * 2 : 1024;
    node **nodes = mem_resize(log->nodes, (size_t)capacity * sizeof *nodes);
    if (nodes)
        log->nodes = nodes;
    record_key *keys = nodes ? mem_resize(log->keys, (size_t)capacity * sizeof *keys) : NULL;
    if (!keys)
        return false;
    log->keys = keys;
    log->capacity = capacity;
    log_make_room(log);
    return true;
}

/* The number of a leaf that the log meets for the first time, as keys have it. A leaf is held by the records that read
 * it, so the table needs no reference. */
enum { NO_LEAF = INT32_MAX }; /* out of memory */
static __attribute__((noinline)) int32_t add_leaf(op_log *log, node *n)
{
    if (log->leaf_count == log->leaf_capacity) {
        int capacity = log->leaf_capacity ? log->leaf_capacity * 2 : 256;
        node **leaves = mem_resize(log->leaves, (size_t)capacity * sizeof *leaves);
        if (!leaves)
            return NO_LEAF;
        log->leaves = leaves;
        log->leaf_capacity = capacity;
    }
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
    return n->line.code == first->line.code && n->line.at == first->line.at;
}

static bool over_budget(const op_log *log, const node *n)
{
    if ((log->count < SOFT_RECORDS && log->bytes < SOFT_BYTES) ||
        n->op == OP_second) /* goes with the record before it */
        return false;
    return at_loop_start(log, n) || log->count >= HARD_RECORDS || log->bytes > 4 * SOFT_BYTES;
}

/* What the machine cannot hold is refused on the line that asks for it, not when it is computed. */
static int check_size(const node *n, int64_t bytes)
{
    if (bytes <= mem_machine_bytes() || op_get(n->op)->kind == KIND_VIEW)
        return 0;
    return error_int(BK_RUNTIME_ERROR, "DefaultCPUAllocator: can't allocate memory: you tried to allocate %lld bytes.",
                     (long long)bytes);
}

/* What a record adds to memory in use: a view nothing; an update is mostly done in place, so only its region counts. */
static inline int64_t new_bytes(const node *n)
{
    const layout *l = n->op == OP_update ? n->attr.region.layout : n->layout;
    return n->op == OP_view || n->op == OP_expand ? 0 : l->numel * (int64_t)dtype_size((bk_dtype)n->dtype);
}

/* The checks that a record of usual size in a log of usual length need not make. */
static __attribute__((noinline)) int make_room(op_log *log, const node *n, int64_t bytes)
{
    if (check_size(n, bytes) < 0 || log_look() < 0)
        return -1;
    if (log->count && over_budget(log, n) && log_flush() < 0)
        return -1;
    return log->count < log->capacity || grow(log) ? 0 : -1;
}

static void hash_attr(op_log *log, record_key *key, const node *n)
{
    for (int i = 0; i < 4; i++)
        log->hash = mix(log->hash, (uint64_t)n->attr.i[i]);
    key->attr = n->attr;
}

/* How keys name an input, which has one reader more. */
static inline int32_t input_number(op_log *log, node *in)
{
    if (in->flags & NODE_PENDING) {
        log->keys[in->slot].readers++;
        return in->slot;
    }
    if (__builtin_expect(in->memory && in->memory->exports, 0) && storage_shared(in->memory))
        log->reads_shared = true;
    int32_t number = __builtin_expect(in->epoch == log->epoch, 1) ? -1 - in->slot : add_leaf(log, in);
    in->uses++;
    return number;
}

/* Of a record that could not be appended: its inputs up to one that found no room. */
static __attribute__((noinline)) int take_back(op_log *log, const node *n, int inputs)
{
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

int log_append(node *n)
{
    op_log *log = &the_log;
    int64_t bytes = new_bytes(n);
    if (__builtin_expect(inference_seen, 0) && saves_inference(n))
        return error_int(
            BK_RUNTIME_ERROR,
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
            "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
            "normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
            "`torch.inference_mode()`.");
    if (__builtin_expect(log->count >= log->room || log->bytes + bytes >= SOFT_BYTES, 0) &&
        make_room(log, n, bytes) < 0)
        return -1;
    record_key *key = &log->keys[log->count];
    int inputs = n->inputs;
    record_clear(key, sizeof *key);
    key->op = n->op;
    key->dtype = n->dtype;
    key->inputs = n->inputs;
    key->layout = n->layout->id;
    uint64_t h =
        log->hash ^ ((uint64_t)n->op << 48 | (uint64_t)n->dtype << 40 | (uint64_t)inputs << 32 | n->layout->id);
    for (int k = 0; k < inputs; k++) {
        int32_t number = input_number(log, n->in[k]);
        if (__builtin_expect(number == NO_LEAF, 0))
            return take_back(log, n, k);
        key->in[k] = number;
        h = mix(h, (uint64_t)(uint32_t)number);
    }
    log->hash = h;
    if (n->op >= EW_COUNT) /* rows of ops.def have no attributes */
        hash_attr(log, key, n);
    log->bytes += bytes;
    log->taped |= (n->flags & NODE_TAPED) != 0;
    n->slot = log->count;
    n->flags |= NODE_PENDING;
    log->nodes[log->count++] = node_retain(n);
    return 0;
}

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
