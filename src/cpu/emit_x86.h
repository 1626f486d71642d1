/* emit_x86.h: an encoder of the few x86-64 instructions that elementwise loops are made of.
 *
 * Vector instructions are written in the level's own form: VEX for AVX2, EVEX for AVX-512 (which has 32 registers,
 * masks, and constants repeated as they are read). Code is position independent: it may be moved as a whole. */
#ifndef BK_CPU_EMIT_X86_H
#define BK_CPU_EMIT_X86_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, NO_REGISTER };

/* Prefixes and maps as VEX and EVEX number them. */
enum { PP_NONE, PP_66, PP_F3, PP_F2 };
enum { MAP_0F = 1, MAP_0F38, MAP_0F3A };

typedef struct code_buffer {
    uint8_t *bytes;
    size_t size, capacity;
    bool failed;        /* memory ran out: what was written is lost */
    uint8_t spare[128]; /* more than is ever put at once */
} code_buffer;

/* The last operand of an instruction: a register, or memory. */
typedef struct operand {
    bool memory;
    bool repeated; /* EVEX: one element of memory for all lanes */
    bool pooled;   /* memory: `displacement` is a place in the buffer, reached from the instruction pointer */
    int reg;
    int base, index, scale; /* scale: 1, 2, 4 or 8 */
    int32_t displacement;
} operand;

static inline operand in_register(int reg) { return (operand){ .reg = reg, .index = NO_REGISTER }; }
static inline operand at_base(int base, int32_t displacement)
{
    return (operand){ .memory = true, .base = base, .index = NO_REGISTER, .scale = 1, .displacement = displacement };
}
static inline operand at_index(int base, int index, int scale)
{
    return (operand){ .memory = true, .base = base, .index = index, .scale = scale };
}
static inline operand in_pool(int32_t offset, bool repeated)
{
    return (operand){ .memory = true, .pooled = true, .repeated = repeated, .displacement = offset };
}

/* One vector instruction: `reg` is the destination in most, `first` the first source (0 where there is none). */
typedef struct vector_op {
    uint8_t map, pp, code;
    bool wide; /* the W bit */
} vector_op;

typedef struct vector_form {
    bool evex;
    uint8_t length; /* 0, 1, 2: 16, 32, 64 bytes */
    uint8_t mask;   /* EVEX: k1 to k7, or 0 */
    bool zeroing;   /* EVEX: lanes outside the mask become 0 rather than stay */
} vector_form;

enum { NO_IMMEDIATE = -1 };
void put_vector(code_buffer *b, vector_op op, vector_form form, int reg, int first, operand last, int immediate);

/* General registers, 64 bits unless the name says otherwise. */
void put_push(code_buffer *b, int reg);
void put_pop(code_buffer *b, int reg);
void put_load(code_buffer *b, int reg, operand from);
void put_load_address(code_buffer *b, int reg, operand of);
void put_prefetch(code_buffer *b, operand of);                        /* into L2 */
void put_load_part(code_buffer *b, int reg, operand from, int bytes); /* 1 or 2, the rest zero */
void put_store_part(code_buffer *b, operand to, int reg, int bytes);
void put_move(code_buffer *b, int to, int from);
void put_set(code_buffer *b, int reg, int32_t value);
typedef enum alu_op { ALU_ADD = 0, ALU_AND = 4, ALU_SUB = 5, ALU_XOR = 6, ALU_CMP = 7 } alu_op;
void put_alu(code_buffer *b, alu_op op, int to, int from);
void put_alu_number(code_buffer *b, alu_op op, int to, int32_t value);
void put_negate(code_buffer *b, int reg);
void put_shift_left(code_buffer *b, int reg, int by);
void put_low_bits(code_buffer *b, int to, int from, int count); /* bzhi: the lowest `count` (a register) bits */
void put_mask_from(code_buffer *b, int mask, int from);         /* kmovd */
void put_return(code_buffer *b);

/* Jumps: forward ones are written first and bound to a place later. */
typedef enum condition {
    IF_EQUAL = 4,
    IF_NOT_EQUAL = 5,
    IF_LESS = 12,
    IF_GREATER_EQUAL = 13,
    IF_LESS_EQUAL = 14,
    IF_GREATER = 15
} condition;
size_t put_jump_if(code_buffer *b, condition c); /* returns what bind_jump takes */
void bind_jump(code_buffer *b, size_t jump);
void put_jump_back_if(code_buffer *b, condition c, size_t to);

void put_bytes(code_buffer *b, const void *bytes, size_t count);
void put_padding(code_buffer *b, size_t multiple);
void code_free(code_buffer *b);

#endif
