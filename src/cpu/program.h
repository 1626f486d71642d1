/* program.h: a fused group of elementwise ops, ready to run.
 *
 * Tiles of a few hundred elements pass through the steps, each a SIMD kernel from the op table; what lies between two
 * steps stays in registers: tile-sized pieces of L1. Ports are the memory it reads and writes. */
#ifndef BK_CPU_PROGRAM_H
#define BK_CPU_PROGRAM_H
#include "cpu/ew.h"
#include "cpu/view.h"

typedef enum port_mode {
    PORT_LINE,   /* dense in iteration order: the tile is a piece of the memory itself */
    PORT_FIXED,  /* the same values for every tile: read into a register once */
    PORT_GATHER, /* anything else: read into (or written from) a register tile by tile */
} port_mode;

typedef struct ew_port {
    uint8_t mode;
    uint8_t size; /* bytes per element */
    bool writes;
    bool repeated;                /* emitted code reads one element of it for all of a tile */
    int32_t reg;                  /* PORT_FIXED and PORT_GATHER: the register */
    int64_t strides[BK_MAX_NDIM]; /* over the collapsed iteration space, in bytes */
} ew_port;

/* What a step does; its kernel is the one that the table has for it. */
typedef enum ew_step_kind {
    EW_STEP_OTHER,
    EW_STEP_OP,    /* `op` in compute type `type` */
    EW_STEP_PAIR,  /* `op` and `second`: EW_PAIR_add and so on */
    EW_STEP_CAST,  /* dtype `op` to dtype `second` */
    EW_STEP_ROUND, /* to dtype `op` */
    EW_STEP_TWIN,  /* `op` to `to`, `second` to y: an ew_twin */
} ew_step_kind;

/* Operands are places in one table of addresses: ports first, then registers. */
typedef struct ew_step {
    ew_kernel run;
    int32_t to, x, y, z;
    uint8_t kind, op, second, type;
    uint32_t unused; /* so that steps can be compared as memory */
} ew_step;

/* Without operands. */
static inline ew_step ew_step_op(const ew_table *t, int op, int type)
{
    return (ew_step){ .run = t->op[op][type], .kind = EW_STEP_OP, .op = (uint8_t)op, .type = (uint8_t)type };
}
static inline ew_step ew_step_pair(const ew_table *t, int first, int second, int type)
{
    return (ew_step){ .run = t->pair[first][second][type],
                      .kind = EW_STEP_PAIR,
                      .op = (uint8_t)first,
                      .second = (uint8_t)second,
                      .type = (uint8_t)type };
}
static inline ew_step ew_step_cast(const ew_table *t, bk_dtype from, bk_dtype to)
{
    return (ew_step){ .run = t->cast[from][to], .kind = EW_STEP_CAST, .op = (uint8_t)from, .second = (uint8_t)to };
}
static inline ew_step ew_step_round(const ew_table *t, bk_dtype to)
{
    return (ew_step){ .run = t->round_to[to], .kind = EW_STEP_ROUND, .op = (uint8_t)to };
}
static inline ew_step ew_step_at(ew_step s, int32_t to, int32_t x, int32_t y, int32_t z)
{
    s.to = to;
    s.x = x;
    s.y = y;
    s.z = z;
    return s;
}

typedef struct ew_program {
    int ndim; /* collapsed; the last dimension is the inner one */
    int64_t numel, inner;
    int64_t rows_per_tile, columns_per_tile; /* one of them is 1 or the whole inner dimension */
    int registers, ports, steps;
    int64_t register_bytes;
    int lines_per_step; /* of the next tile, asked for before each step; 0 where memory is near */
    ew_port *port;
    ew_step *step;
    double work_ns;
    struct emitted *emitted; /* its machine code (emit.h); NULL: the steps are interpreted */
    bool straight;           /* with code: runs over whole rows where they lie, no registers between */
    int64_t sizes[BK_MAX_NDIM];
} ew_program;

/* Fills in the iteration space and the port modes from the views that the ports will be bound to (data unset), all of
 * the same sizes; `writes[p]` tells outputs. Steps and registers are the caller's. Ports that are not lines take
 * registers from program->registers on. Elements are walked in the order of the leader's memory; NULL: of the first
 * output's. */
void program_shape(ew_program *p, const view *ports, const bool *writes, const view *leader);
/* bases[p] is the address of port p's first element. */
void program_run(const ew_program *p, char *const *bases);
/* Elements [begin, end) of that order, on the calling thread: for whoever consumes them at once, or has just made what
 * they are made of. */
void program_run_range(const ew_program *p, char *const *bases, int64_t begin, int64_t end);
/* The same while memory that is needed next comes into the cache, at the pace of the elements, where code that computes
 * enough can ask for it. */
typedef struct ew_ahead {
    char *at[2];     /* from here */
    int64_t step[2]; /* bytes for each element */
} ew_ahead;
void program_run_ahead(const ew_program *p, char *const *bases, int64_t begin, int64_t end, const ew_ahead *ahead);

#endif
