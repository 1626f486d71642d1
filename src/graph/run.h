/* run.h: what running a plan's parts has in common: where its buffers are. */
#ifndef BK_GRAPH_RUN_H
#define BK_GRAPH_RUN_H
#include "core/threads.h"
#include "cpu/gemm.h"
#include "graph/plan.h"

typedef struct binding {
    char *base;
    storage *memory; /* BUFFER_RESULT: ours until the kept nodes have taken it; BUFFER_LEAF: borrowed */
    bool packed;     /* a packed factor, kept from an earlier run */
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

/* Whether a product reads its second factor from where it is packed: one that is loose only where that makes it begin
 * with a cache line. The factor is the same for all products that share its packed form, and so is the answer. */
static inline bool reads_packed(const instruction *in, const binding *bound)
{
    if (in->kernel.packed < 0 || !in->kernel.loose)
        return in->kernel.packed >= 0 && bound[in->kernel.packed].base;
    const plan_view *b = &in->kernel.in[1];
    const uintptr_t row = (uintptr_t)b->layout->strides[0] * dtype_size(b->dtype);
    return ((uintptr_t)address(bound, b) | row) % 64 != 0;
}

/* Whether it has to be packed there first. */
static inline bool packs_factor(const instruction *in, const binding *bound)
{
    return in->kernel.packs && reads_packed(in, bound) && !bound[in->kernel.packed].packed;
}

/* Field by field: made as a value it would be cleared and copied first, by stores and loads of other widths, which took
 * 90 ns. */
static inline void product_task(gemm_task *t, const instruction *in, const binding *bound)
{
    const plan_view *a = &in->kernel.in[0], *b = &in->kernel.in[1], *c = &in->kernel.out, *more = &in->kernel.addend;
    t->dtype = c->dtype;
    t->m = c->layout->sizes[0];
    t->n = c->layout->sizes[1];
    t->k = b->layout->sizes[0];
    t->a = address(bound, a);
    t->a_row = a->layout->strides[0];
    t->a_col = a->layout->strides[1];
    t->b = address(bound, b);
    t->b_row = b->layout->strides[0];
    t->b_col = b->layout->strides[1];
    t->c = address(bound, c);
    t->c_row = c->layout->strides[0];
    t->c_col = c->layout->strides[1];
    t->packed_b = reads_packed(in, bound) ? bound[in->kernel.packed].base : NULL;
    t->addend = more->buffer >= 0 ? address(bound, more) : NULL;
    t->addend_row = in->kernel.addend_row;
    t->accumulate = t->back = false;
    t->epilogue = NULL;
    t->epilogue_arg = NULL;
}

/* Of some of its rows. */
static inline void rows_task(gemm_task *t, const instruction *in, const binding *bound, int64_t begin, int64_t end)
{
    product_task(t, in, bound);
    const int64_t size = (int64_t)dtype_size(t->dtype);
    t->m = end - begin;
    t->a = (const char *)t->a + begin * t->a_row * size;
    t->c = (char *)t->c + begin * t->c_row * size;
    t->addend = t->addend ? (const char *)t->addend + begin * t->addend_row * size : NULL;
}

/* run.c */
int run_instruction(const instruction *in, const binding *bound);
void run_copy(const instruction *in, const binding *bound);
/* A product outside of regions that can be run some rows at a time, the first ones first. */
bool has_rows(const instruction *in);
int run_rows_of(const instruction *in, const binding *bound, int64_t begin, int64_t end);

/* Asks for what the region's instructions before `code` will need of rows [begin, end), from *next on. */
enum { ASKS_AHEAD = 4 }; /* instructions: half a microsecond at least */
static inline void ask_before(const plan_region *r, const binding *bound, int32_t code, int32_t *next, int64_t begin,
                              int64_t end)
{
    for (; *next < r->ask_count && r->asks[*next].code < code; ++*next) {
        const plan_ask *a = &r->asks[*next];
        const char *row = bound[a->buffer].base + a->at + begin * a->step;
        for (int64_t i = begin; i < end; i++, row += a->step)
            for (int32_t at = 0; at < a->width; at += 64)
                if (a->writes)
                    cpu_prefetch_to_write(row + at);
                else
                    __builtin_prefetch(row + at, 0, 3);
    }
}

/* run_region.c. -1: out of memory. */
void pack_factor(const instruction *in, const binding *bound);
bool is_small_product(const instruction *in);
int run_small_product(const instruction *in, const binding *bound);
/* The first of the region's asks that instruction `code` or a later one has. */
int32_t first_ask(const plan_region *r, int32_t code);
/* From instruction `first` of the region on. */
int run_region(const plan *p, const plan_region *r, int32_t first, const binding *bound);
/* Instruction i by one thread, which packs what it has to; `r` is the region that it is in, or NULL. */
int run_alone(const plan *p, const plan_region *r, int32_t i, const binding *bound);
/* run_share.c: the rows [begin, end) of `rows`, whole groups of them; and when all are through, after the region's last
 * sum of the value. */
void share_run(const instruction *in, const binding *bound, int64_t rows, int64_t begin, int64_t end);
void share_end(const instruction *in, const binding *bound);
/* run_blocks.c: the same as run_region for a region of blocks. */
int run_blocks(const plan *p, const plan_region *r, const binding *bound);

/* run_team.c: the same where cores go through it together; how many did. */
int run_team(const plan *p, const plan_region *r, int32_t first, const binding *bound);
extern double team_meeting_ns; /* work between two meetings that pays for a member: tests have teams where none pays */
static inline int64_t team_columns(const instruction *in)
{
    switch (in->kind) {
    case DO_PROGRAM: return in->elementwise.program->numel;
    case DO_COPY: return in->copy.to.layout->numel;
    default: return in->kernel.out.layout->sizes[1];
    }
}
/* Columns [*begin, *end) of `columns`: those of a member of a team. Both run_team.c and teams.c rely on it: where
 * instructions have as many columns, a member has the same of each; where they have a multiple of the team's width, the
 * same of each width. */
static inline void team_share(int64_t columns, int member, int size, int64_t *begin, int64_t *end)
{
    const int64_t units = (columns + GEMM_COLUMNS - 1) / GEMM_COLUMNS;
    *begin = units * member / size * GEMM_COLUMNS;
    *end = member + 1 == size ? columns : units * (member + 1) / size * GEMM_COLUMNS;
}
/* A copy that members share by columns; else the first member does it. */
static inline bool copies_columns(const instruction *in)
{
    const layout *to = in->copy.to.layout, *from = in->copy.from.layout;
    return in->copy.to.dtype == in->copy.from.dtype && to->contiguous && from->contiguous && to->plain == from->plain;
}

#endif
