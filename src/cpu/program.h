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
    int32_t reg;                  /* PORT_FIXED and PORT_GATHER: the register */
    int64_t strides[BK_MAX_NDIM]; /* over the collapsed iteration space, in bytes */
} ew_port;

/* Operands are places in one table of addresses: registers first, then ports. */
typedef struct ew_step {
    ew_kernel run;
    int32_t to, x, y, z;
} ew_step;

typedef struct ew_program {
    int ndim; /* collapsed; the last dimension is the inner one */
    int64_t sizes[BK_MAX_NDIM];
    int64_t numel, inner;
    int64_t rows_per_tile, columns_per_tile; /* one of them is 1 or the whole inner dimension */
    int registers, ports, steps;
    int64_t register_bytes;
    int lines_per_step; /* of the next tile, asked for before each step; 0 where memory is near */
    ew_port *port;
    ew_step *step;
    double work_ns;
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

#endif
