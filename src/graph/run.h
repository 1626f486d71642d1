/* run.h: what running a plan's parts has in common: where its buffers are. */
#ifndef BK_GRAPH_RUN_H
#define BK_GRAPH_RUN_H
#include "graph/plan.h"

typedef struct binding {
    char *base;
    storage *memory; /* BUFFER_RESULT: ours until the kept nodes have taken it; BUFFER_LEAF: borrowed */
} binding;

static inline char *address(const binding *bound, const plan_view *v)
{
    return bound[v->buffer].base + v->offset * (int64_t)dtype_size(v->dtype);
}

static inline void bind_ports(const plan_program *in, const binding *bound, char **bases)
{
    for (int i = 0; i < in->program->ports; i++)
        bases[i] = in->ports[i].buffer < 0 ? NULL : address(bound, &in->ports[i]);
}

/* run_region.c. -1: out of memory. */
bool is_small_product(const instruction *in);
int run_small_product(const instruction *in, const binding *bound);
int run_region(const plan *p, const plan_region *r, const binding *bound);
/* run_blocks.c: the same for a region of blocks. */
int run_blocks(const plan *p, const plan_region *r, const binding *bound);

#endif
