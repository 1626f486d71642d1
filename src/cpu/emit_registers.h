/* emit_registers.h: the state of writing a function: where values are, and how an instruction gets at them.
 *
 * Registers are given out in one pass in the order of the nodes. When none is free, the value whose next use is
 * farthest goes to the stack: for straight-line code nothing is better. Invariant: a value that will be used is in a
 * register, in its slot, or can be read again from the constants or the repeated operand it is.
 *
 * A mask is a mask register with AVX-512; with AVX2 a vector of which the sign bits count. */
#ifndef BK_CPU_EMIT_REGISTERS_H
#define BK_CPU_EMIT_REGISTERS_H
#include "cpu/emit_code.h"

enum {
    LONGEST_NODES = IR_MOST,
    NEVER = INT16_MAX,
    VECTORS = 32,
    MASKS = 8,
    TAIL_MASK = 7,       /* k7: the lanes that there are */
    TAIL_LANES = 0,      /* AVX2: the same as vectors, for lanes of 4 and of 8 bytes, in registers 0 and 1 */
    SAVED_BYTES = 5 * 8, /* registers pushed behind the frame pointer */
    SLOT_BYTES = 64,     /* the first slot is for elements of one byte on their way in and out of memory */
    ONES = 64,           /* AVX2: before the constants stand so many bytes of ones, then ZEROS of zeros */
    ZEROS = 32,
    POINTERS = 8,
};

/* Addresses of places; what is beyond them is read from the table each time, into SCRATCH. */
static const uint8_t pointer_registers[POINTERS] = { RCX, RDX, R8, R9, R10, R11, RBX, R12 };
enum { TABLE = RSI, COUNT = RDI, INDEX = RAX, SCRATCH = R15, COUNTER = R14, PASSING = R13 };

typedef enum reg_class { CLASS_VECTOR, CLASS_MASK } reg_class;

typedef struct emitter {
    code_buffer *b;
    const ir_code *ir;
    bool evex, tail;
    int lanes, lane_bytes; /* lane_bytes: those of masks, AVX2 */
    int registers;
    int32_t header;              /* where the pool begins: what every function has */
    int32_t pool[LONGEST_NODES]; /* where a constant is in the buffer */
    int32_t place[POINTERS];     /* what the pointer registers point to */
    int pointers;
    int16_t next[LONGEST_NODES];     /* the node that uses the value next, or NEVER */
    int16_t after[LONGEST_NODES][3]; /* the use after this operand's */
    int8_t reg[LONGEST_NODES];       /* -1: in none */
    int16_t slot[LONGEST_NODES];     /* -1: has none */
    bool pinned[LONGEST_NODES];
    int16_t holds[2][VECTORS]; /* by class: a value, or FREE, or RESERVED */
    bool locked[2][VECTORS];
    int slots, most_slots;
} emitter;

enum { FREE = -1, RESERVED = -2 };

/* The same instruction for lanes of 4 and of 8 bytes. */
typedef struct lane_ops {
    vector_op of[2];
} lane_ops;

/* clang-format off */
#define PS_PD(code)        { { { MAP_0F, PP_NONE, code, false }, { MAP_0F, PP_66, code, true } } }
#define MAP38(code)        { { { MAP_0F38, PP_66, code, false }, { MAP_0F38, PP_66, code, true } } }
#define INTS(four, eight)  { { { MAP_0F, PP_66, four, false }, { MAP_0F, PP_66, eight, true } } }
/* clang-format on */

extern const lane_ops emit_load, emit_store, emit_broadcast;
static const vector_form VEX_128 = { .length = 0 }, VEX_256 = { .length = 1 };

/* --- what values are ------------------------------------------------------------------------------------------------
 */

static inline const ir_node *node_of(const emitter *e, int v) { return &e->ir->node[v]; }
static inline reg_class class_of(const emitter *e, int v)
{
    return e->evex && node_of(e, v)->type == IR_MASK ? CLASS_MASK : CLASS_VECTOR;
}
static inline int lane_of(const emitter *e, ir_type t) { return t == IR_F32 ? 4 : t == IR_F64 ? 8 : e->lane_bytes; }
static inline bool is_wide(const emitter *e, ir_type t) { return lane_of(e, t) == 8; }
static inline vector_form form_of(const emitter *e, ir_type t)
{
    int bytes = e->lanes * lane_of(e, t);
    return (vector_form){ .evex = e->evex, .length = bytes == 64 ? 2 : bytes == 32 };
}
static inline bool is_invariant(const ir_node *n) { return n->op == IR_NUMBER || n->op == IR_REPEAT; }

/* --- where they are ---------------------------------------------------------------------------------------------- */

/* The register that holds the address of the place; a place without one uses SCRATCH until the next. */
int emitter_pointer(emitter *e, int32_t place);
/* The elements of a load or store. */
operand emitter_at_place(emitter *e, const ir_node *n, int size);
void emitter_put(emitter *e, const lane_ops *op, ir_type t, int reg, int first, operand last);
void emitter_broadcast(emitter *e, ir_type t, int reg, operand from);

/* A register for the value; for the length of one node; the one that the value is in, read if need be. The last two are
 * locked until emitter_unlock. */
int emitter_take(emitter *e, int v);
int emitter_take_passing(emitter *e);
int emitter_fetch(emitter *e, int v);
void emitter_unlock(emitter *e);
/* The value as the last operand of an instruction: in memory if that is where it is. */
operand emitter_source(emitter *e, int v);
/* Reads a constant or a repeated operand. */
void emitter_read_invariant(emitter *e, int v, int r);
/* Node i has its operands: those that it was the last to use leave their registers. Unlocks. */
void emitter_let_go(emitter *e, int i);
bool emitter_ends_at(const emitter *e, int v, int i);

/* --- writing nodes (emit_nodes.c) -------------------------------------------------------------------------------- */

typedef void (*node_fn)(emitter *e, int i);
extern const node_fn node_writers[IR_OP_COUNT]; /* NULL for those that are read where they are used */

#endif
