/* emit_ir.h: elementwise steps as straight-line code over vectors, on the way to machine code.
 *
 * Nodes are in the order in which they are computed and name their operands by number. A node is what one instruction
 * does, so that what a kernel's expression rounds, the nodes round; a chain of steps has the nodes of its steps. */
#ifndef BK_CPU_EMIT_IR_H
#define BK_CPU_EMIT_IR_H
#include "cpu/program.h"

typedef enum ir_type { IR_F32, IR_F64, IR_MASK } ir_type;

typedef enum ir_op {
    IR_LOAD,   /* from a place, lane by lane */
    IR_REPEAT, /* from a place: one element for all lanes */
    IR_NUMBER, /* a constant */
    IR_STORE,  /* a to a place */
    /* arithmetic */
    IR_ADD,
    IR_SUB,
    IR_MUL,
    IR_DIV,
    IR_LEAST,    /* a < b ? a : b */
    IR_GREATEST, /* a > b ? a : b */
    IR_SQRT,
    IR_ROUND,             /* how: `detail`, as the processor numbers it */
    IR_MULTIPLY_ADD,      /* a * b + c, rounded once */
    IR_NEGATIVE_ADD,      /* -(a * b) + c */
    IR_MULTIPLY_SUBTRACT, /* a * b - c */
    /* bits and integers, in the lanes of a float type */
    IR_AND,
    IR_OR,
    IR_XOR,
    IR_PICK_BITS, /* those of b where c has ones, else those of a; AVX-512 only */
    IR_INT_ADD,
    IR_INT_SUB,
    IR_SHIFT_LEFT, /* by `detail` */
    IR_SHIFT_RIGHT,
    IR_SHIFT_ARITHMETIC, /* 32 bits only */
    IR_FLOAT_OF_INT,     /* 32 bits only */
    /* parts of a number; AVX-512 only */
    IR_EXPONENT, /* as a float: -infinity of 0, infinity of infinities */
    IR_MANTISSA, /* in [3/4, 3/2); of a negative number NaN */
    IR_SCALE,    /* a 2^b, b an integer, rounded once */
    /* masks */
    IR_COMPARE, /* of a and b; how: ir_comparison in `detail` */
    IR_SELECT,  /* a ? b : c */
    IR_BOTH,
    IR_EITHER,
    IR_DIFFER,
    IR_NOT,
    /* between widths */
    IR_WIDEN,  /* float32 to float64 */
    IR_NARROW, /* and back */
    IR_OP_COUNT
} ir_op;

/* As the processor numbers them; none of them traps on NaN in a way that anybody sees. */
enum { IR_EQ = 0, IR_LT = 1, IR_LE = 2, IR_NE = 4, IR_GE = 13, IR_GT = 14 };
enum { IR_FLOOR = 9, IR_CEIL = 10, IR_TRUNC = 11, IR_NEAREST = 4 };

enum { IR_NONE = -1, IR_MOST = 512 };

typedef struct ir_node {
    uint8_t op, type, detail, operands;
    uint8_t copy; /* of code for several vectors at a time: which of them */
    int16_t in[3];
    int32_t place; /* IR_LOAD, IR_REPEAT, IR_STORE */
    uint64_t bits; /* IR_NUMBER */
} ir_node;

typedef struct ir_code {
    ir_node node[IR_MOST];
    int16_t depth[IR_MOST]; /* cycles from the first operands to the result, about */
    int count, deepest;
    bool avx512; /* the level has what is marked so */
    bool full;   /* there were more nodes than fit */
    bool masks;  /* there are nodes of IR_MASK */
    bool types[2];
} ir_code;

/* What has been read or written so far of the program's places: nodes, or IR_NONE. */
typedef struct ir_places {
    const ew_program *program;
    const bool *repeated; /* per port */
    int16_t *value;
} ir_places;

/* No nodes yet. */
void ir_begin(ir_code *code, isa_level level);
/* The same for `copies` vectors at a time, node by node; false when there are too many nodes. */
bool ir_interleave(ir_code *out, const ir_code *code, int copies);
/* Can this step be written as nodes? */
bool ir_knows(const ew_step *s);
/* Adds the nodes of a step that ir_knows. */
void ir_add_step(ir_code *code, ir_places *at, const ew_step *s);
/* Adds the store of a register that later steps read. */
void ir_keep(ir_code *code, ir_places *at, int32_t place);

#endif
