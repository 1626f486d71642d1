/* node.c: the life of nodes and of the memory they point into.
 *
 * Invariant: refs counts every pointer to a node: inputs and edges of other nodes, cells, tracks, the log. A node with
 * no references left is in the freelist. Everything here runs under the library's lock. */
#include "core/node.h"

#include <string.h>

#include "autograd/function.h"
#include "autograd/hooks.h"
#include "autograd/parts.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/tensor.h"
#include "graph/packed.h"

freelist nodes = { 0 };
uint64_t next_sequence = 1; /* 0 is for leaves */
static freelist storages = { 0 };
void (*line_hook)(source_line *line);

int64_t nodes_live(void) { return freelist_in_use(&nodes); }

static void keep_layouts(const void *record)
{
    const node *n = record;
    layout_keep(n->layout);
    for (int i = 0; i < 4; i++) /* whichever of these are layouts */
        layout_keep((const void *)(uintptr_t)n->attr.i[i]);
}

void nodes_keep_layouts(void) { freelist_each(&nodes, keep_layouts); }

/* --- storage ------------------------------------------------------------------------------------------------- */

storage *storage_new(size_t bytes)
{
    storage *s = freelist_take(&storages, sizeof *s);
    if (!s)
        return NULL;
    *s = (storage){ .refs = 1, .bytes = bytes, .data = pool_take(bytes ? bytes : 1) };
    if (!s->data) {
        freelist_give(&storages, s);
        return NULL;
    }
    return s;
}

storage *storage_adopt(void *data, size_t bytes)
{
    storage *s = freelist_take(&storages, sizeof *s);
    if (s)
        *s = (storage){ .refs = 1, .bytes = bytes, .data = data };
    else
        pool_give(data, bytes);
    return s;
}

storage *storage_foreign(void *data, size_t bytes, void (*release)(void *), void *owner)
{
    storage *s = freelist_take(&storages, sizeof *s);
    if (s)
        *s = (storage){ .refs = 1, .exports = 1, .data = data, .bytes = bytes, .release = release, .owner = owner };
    return s;
}

bool storage_shared(storage *s)
{
    if (s->reachable && !s->reachable(s->owner)) {
        s->reachable = NULL; /* nobody can come to hold it again */
        s->exports--;
    }
    return s->exports > 0;
}

void storage_unexport(storage *s)
{
    s->exports--;
    storage_release(s);
}

void storage_release(storage *s)
{
    if (--s->refs)
        return;
    packed_drop(s);
    if (s->release)
        s->release(s->owner);
    else
        pool_give(s->data, s->bytes ? s->bytes : 1);
    freelist_give(&storages, s);
}

/* --- nodes --------------------------------------------------------------------------------------------------- */

node *node_new(int op, bk_dtype dtype, const layout *l) { return node_new_here(op, dtype, l); }

node *node_data(bk_dtype dtype, const layout *l, storage *s, char *data)
{
    node *n = node_new(OP_data, dtype, l);
    if (!n) {
        storage_release(s);
        return NULL;
    }
    n->memory = s;
    n->data = data;
    return n;
}

/* One reference less. */
static void drop(node *n, node **work)
{
    if (n && --n->refs == 0)
        node_link(n, work);
}

static void drop_edges(node *const *edges, int count, node **work)
{
    for (int k = 0; k < count; k++) {
        if (edges[k])
            edges[k]->tape_refs--;
        drop(edges[k], work);
    }
}

static void unlink_node(node *n, node **work)
{
    if (n->op == OP_output)
        function_output_gone(n);
    if (parts_known && (n->composed || n->extra))
        parts_forget(n);
    for (int k = 0; k < MAX_INPUTS; k++)
        drop(n->in[k], work);
    drop_edges(n->edge, MAX_INPUTS, work);
    if (n->op == OP_function)
        drop_edges(function_edges(n), function_inputs(n), work);
    if (n->memory)
        storage_release(n->memory);
    if (n->extra)
        node_extra_release(n);
    freelist_give(&nodes, n);
}

void nodes_free(node *aside)
{
    for (node *work = aside; work;) {
        node *next = work;
        work = (node *)(uintptr_t)next->sequence;
        unlink_node(next, &work);
    }
}

void node_free(node *n)
{
    n->sequence = 0;
    nodes_free(n);
}

static bool gradient_reads_result(const node *n)
{
    const op_info *info = op_get(n->op);
    for (int k = 0; k < MAX_INPUTS; k++)
        if (n->edge[k] && info->needs[k] & NEEDS_OUT)
            return true;
    return false;
}

void node_forget_value(node *n)
{
    if (n->flags & NODE_PENDING || (!(n->flags & NODE_FREED) && gradient_reads_result(n) && !hooks_have_packed(n)))
        return;
    storage_release(n->memory);
    n->memory = NULL;
    n->data = NULL;
}

/* --- constants ------------------------------------------------------------------------------------------------ */

enum { WARM_CONSTANTS = 256 };
static node *warm[WARM_CONSTANTS];

node *node_constant_bits(bk_dtype dtype, uint64_t bits)
{
    uint64_t h = (bits ^ (bits >> 32) ^ ((uint64_t)dtype << 7)) * 0x9E3779B97F4A7C15ull;
    node **slot = &warm[h >> 56];
    if (*slot && (*slot)->dtype == dtype && (uint64_t)(*slot)->attr.i[0] == bits)
        return node_retain(*slot);
    const layout *l = layout_get(0, NULL, NULL);
    node *n = l ? node_new(OP_constant, dtype, l) : NULL;
    if (!n)
        return NULL;
    n->flags = NODE_CONSTANT;
    n->attr.i[0] = (int64_t)bits;
    n->data = (char *)&n->attr;
    if (*slot)
        node_release(*slot);
    *slot = node_retain(n);
    return n;
}

node *node_constant_double(bk_dtype dtype, double value)
{
    uint64_t bits = 0;
    dtype_store_double(dtype, &bits, value);
    return node_constant_bits(dtype, bits);
}

node *node_constant_int(bk_dtype dtype, int64_t value)
{
    uint64_t bits = 0;
    dtype_store_int(dtype, &bits, value);
    return node_constant_bits(dtype, bits);
}
