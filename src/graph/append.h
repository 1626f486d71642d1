/* append.h: appending a record to the log, inline for whoever records most.
 *
 * A record is a hundred instructions; as a call of a function that does not know its op it is a third more. */
#ifndef BK_GRAPH_APPEND_H
#define BK_GRAPH_APPEND_H
#include "graph/log.h"

static const int64_t SOFT_BYTES = (int64_t)1 << 30, HARD_BYTES = (int64_t)1 << 32;
enum { NO_LEAF = INT32_MAX }; /* out of memory */

/* What is rare, in log.c. */
int32_t log_add_leaf(op_log *log, node *n);
int log_room_for(op_log *log, const node *n, int64_t bytes);
int log_take_back(op_log *log, const node *n, int inputs);
int log_check_inference(const node *n);

static inline uint64_t log_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9E3779B97F4A7C15ull;
    return h ^ (h >> 29);
}

/* The hash of a log with one record more, as append_record has it. */
static inline uint64_t log_mix_record(uint64_t h, const record_key *key)
{
    h ^= (uint64_t)key->op << 48 | (uint64_t)key->dtype << 40 | (uint64_t)key->inputs << 32 | key->layout;
    for (int k = 0; k < key->inputs; k++)
        h = log_mix(h, (uint64_t)(uint32_t)key->in[k]);
    for (int i = 0; key->op >= EW_COUNT && i < 4; i++)
        h = log_mix(h, (uint64_t)key->attr.i[i]);
    return h;
}

/* What a record adds to memory in use: a view nothing; an update is mostly done in place, so only its region counts. */
static inline int64_t record_bytes(int op, bk_dtype dtype, const layout *l, const attr *a)
{
    const int64_t numel = op == OP_update ? a->region.layout->numel : l->numel;
    return op == OP_view || op == OP_expand ? 0 : numel * (int64_t)dtype_size(dtype);
}

static inline int64_t new_bytes(const node *n) { return record_bytes(n->op, (bk_dtype)n->dtype, n->layout, &n->attr); }

/* How keys name an input, which has one reader more. */
static inline int32_t input_number(op_log *log, node *in)
{
    if (in->flags & NODE_PENDING) {
        log->keys[in->slot].readers++;
        return in->slot;
    }
    if (__builtin_expect(in->memory && in->memory->exports, 0) && storage_shared(in->memory))
        log->reads_shared = true;
    int32_t number = __builtin_expect(in->epoch == log->epoch, 1) ? -1 - in->slot : log_add_leaf(log, in);
    in->uses++;
    return number;
}

static inline void count_edges(const node *n)
{
    for (int k = 0; k < MAX_INPUTS; k++)
        if (n->edge[k] && n->edge[k]->flags & NODE_PENDING)
            n->edge[k]->inner_edges++;
}

/* Appends n, a row of ops.def or not; what the caller knows of it need not be read again. */
static inline __attribute__((always_inline)) int append_record(node *n, int op, bk_dtype dtype, const layout *l,
                                                               int inputs, bool row)
{
    op_log *log = &the_log;
    int64_t bytes = row ? l->numel * (int64_t)dtype_size(dtype) : new_bytes(n);
    if (__builtin_expect(inference_seen, 0) && log_check_inference(n) < 0)
        return -1;
    if (__builtin_expect(log->count >= log->room || log->bytes + bytes >= SOFT_BYTES, 0) &&
        log_room_for(log, n, bytes) < 0)
        return -1;
    int at = log->count;
    record_key *key = &log->keys[at];
    record_clear(key, sizeof *key);
    uint32_t id = l->id;
    key->op = (uint16_t)op;
    key->dtype = (uint8_t)dtype;
    key->inputs = (uint8_t)inputs;
    key->layout = id;
    uint64_t h = log->hash ^ ((uint64_t)op << 48 | (uint64_t)dtype << 40 | (uint64_t)inputs << 32 | id);
    for (int k = 0; k < inputs; k++) {
        int32_t number = input_number(log, n->in[k]);
        if (__builtin_expect(number == NO_LEAF, 0))
            return log_take_back(log, n, k);
        key->in[k] = number;
        h = log_mix(h, (uint64_t)(uint32_t)number);
    }
    for (int i = 0; !row && i < 4; i++) { /* rows have no attributes */
        h = log_mix(h, (uint64_t)n->attr.i[i]);
        key->attr.i[i] = n->attr.i[i];
    }
    log->hash = h;
    log->bytes += bytes;
    if (n->flags & NODE_TAPED)
        count_edges(n);
    n->slot = at;
    n->flags |= NODE_PENDING;
    log->nodes[at] = node_retain(n);
    log->count = at + 1;
    return 0;
}

#endif
