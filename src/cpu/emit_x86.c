/* emit_x86.c: bytes of instructions.
 *
 * Memory operands always carry a displacement (of one byte where it is 0, of four otherwise): the forms without one
 * exclude some base registers, and EVEX scales the one-byte form. Invariant: a buffer whose `failed` is set may be
 * written to as before, and is not to be run. */
#include "cpu/emit_x86.h"

#include <string.h>

#include "core/memory.h"

/* --- bytes ------------------------------------------------------------------------------------------------------- */

/* Room for one instruction more. Without memory for it the buffer begins again from its start, or in `spare`. */
static void make_room(code_buffer *b, size_t count)
{
    if (__builtin_expect(b->size + count <= b->capacity, 1))
        return;
    const size_t wanted = b->capacity ? b->capacity * 2 : 4096;
    uint8_t *grown = b->failed ? NULL : mem_try(wanted);
    if (grown) {
        if (b->bytes) {
            memcpy(grown, b->bytes, b->size);
            mem_free(b->bytes);
        }
        b->bytes = grown;
        b->capacity = wanted;
        return;
    }
    b->failed = true;
    b->size = 0;
    if (!b->bytes) {
        b->bytes = b->spare;
        b->capacity = sizeof b->spare;
    }
}

/* In room that has been made. */
static void put(code_buffer *b, int byte) { b->bytes[b->size++] = (uint8_t)byte; }
static void put_32(code_buffer *b, int32_t v)
{
    memcpy(b->bytes + b->size, &v, 4);
    b->size += 4;
}

enum { LONGEST = 16 }; /* an instruction has at most 15 bytes */

void put_bytes(code_buffer *b, const void *bytes, size_t count)
{
    make_room(b, count);
    memcpy(b->bytes + b->size, bytes, count);
    b->size += count;
}

void put_padding(code_buffer *b, size_t multiple)
{
    make_room(b, multiple);
    while (b->size % multiple)
        put(b, 0x90);
}

void code_free(code_buffer *b)
{
    if (b->bytes && b->bytes != b->spare)
        mem_free(b->bytes);
    *b = (code_buffer){ 0 };
}

/* --- operands ---------------------------------------------------------------------------------------------------- */

static int low(int reg) { return reg & 7; }
static int bit3(int reg) { return reg >> 3 & 1; }
static int bit4(int reg) { return reg >> 4 & 1; }

/* `after`: bytes of the instruction behind the operand. */
static void put_operand(code_buffer *b, int reg, operand o, int after)
{
    if (!o.memory) {
        put(b, 0xc0 | low(reg) << 3 | low(o.reg));
        return;
    }
    if (o.pooled) {
        put(b, low(reg) << 3 | 5);
        put_32(b, o.displacement - (int32_t)(b->size + 4 + (size_t)after));
        return;
    }
    const bool far = o.displacement != 0, sib = o.index != NO_REGISTER || low(o.base) == RSP;
    put(b, (far ? 0x80 : 0x40) | low(reg) << 3 | (sib ? 4 : low(o.base)));
    if (sib) {
        int scale = o.scale == 8 ? 3 : o.scale == 4 ? 2 : o.scale == 2 ? 1 : 0;
        put(b, scale << 6 | (o.index == NO_REGISTER ? 4 : low(o.index)) << 3 | low(o.base));
    }
    if (far)
        put_32(b, o.displacement);
    else
        put(b, 0);
}

static int base_bit(operand o) { return !o.memory ? bit3(o.reg) : o.pooled ? 0 : bit3(o.base); }
static int index_bit(operand o)
{
    return !o.memory ? bit4(o.reg) : o.pooled || o.index == NO_REGISTER ? 0 : bit3(o.index);
}

/* --- vector instructions ----------------------------------------------------------------------------------------- */

static void put_vex(code_buffer *b, vector_op op, vector_form form, int reg, int first, operand last)
{
    int x = last.memory ? index_bit(last) : 0;
    put(b, 0xc4);
    put(b, !bit3(reg) << 7 | !x << 6 | !base_bit(last) << 5 | op.map);
    put(b, op.wide << 7 | (~first & 15) << 3 | form.length << 2 | op.pp);
}

static void put_evex(code_buffer *b, vector_op op, vector_form form, int reg, int first, operand last)
{
    put(b, 0x62);
    put(b, !bit3(reg) << 7 | !index_bit(last) << 6 | !base_bit(last) << 5 | !bit4(reg) << 4 | op.map);
    put(b, op.wide << 7 | (~first & 15) << 3 | 4 | op.pp);
    put(b, form.zeroing << 7 | form.length << 5 | (last.memory && last.repeated) << 4 | !bit4(first) << 3 | form.mask);
}

void put_vector(code_buffer *b, vector_op op, vector_form form, int reg, int first, operand last, int immediate)
{
    make_room(b, LONGEST);
    (form.evex ? put_evex : put_vex)(b, op, form, reg, first, last);
    put(b, op.code);
    put_operand(b, reg, last, immediate != NO_IMMEDIATE);
    if (immediate != NO_IMMEDIATE)
        put(b, immediate);
}

/* --- general registers ------------------------------------------------------------------------------------------- */

static void put_rex(code_buffer *b, bool wide, int reg, operand o)
{
    int x = o.memory && index_bit(o);
    put(b, 0x40 | wide << 3 | bit3(reg) << 2 | x << 1 | base_bit(o));
}

void put_push(code_buffer *b, int reg)
{
    make_room(b, LONGEST);
    put_rex(b, false, 0, in_register(reg));
    put(b, 0x50 | low(reg));
}

void put_pop(code_buffer *b, int reg)
{
    make_room(b, LONGEST);
    put_rex(b, false, 0, in_register(reg));
    put(b, 0x58 | low(reg));
}

void put_load(code_buffer *b, int reg, operand from)
{
    make_room(b, LONGEST);
    put_rex(b, true, reg, from);
    put(b, 0x8b);
    put_operand(b, reg, from, 0);
}

void put_load_address(code_buffer *b, int reg, operand of)
{
    make_room(b, LONGEST);
    put_rex(b, true, reg, of);
    put(b, 0x8d);
    put_operand(b, reg, of, 0);
}

void put_prefetch(code_buffer *b, operand of)
{
    make_room(b, LONGEST);
    put_rex(b, false, 0, of);
    put(b, 0x0f);
    put(b, 0x18);
    put_operand(b, 2, of, 0);
}

void put_load_part(code_buffer *b, int reg, operand from, int bytes)
{
    make_room(b, LONGEST);
    put_rex(b, false, reg, from);
    put(b, 0x0f);
    put(b, bytes == 1 ? 0xb6 : 0xb7);
    put_operand(b, reg, from, 0);
}

void put_store_part(code_buffer *b, operand to, int reg, int bytes)
{
    make_room(b, LONGEST);
    if (bytes == 2)
        put(b, 0x66);
    put_rex(b, false, reg, to);
    put(b, bytes == 1 ? 0x88 : 0x89);
    put_operand(b, reg, to, 0);
}

void put_move(code_buffer *b, int to, int from) { put_load(b, to, in_register(from)); }

void put_set(code_buffer *b, int reg, int32_t value)
{
    make_room(b, LONGEST);
    put_rex(b, true, 0, in_register(reg));
    put(b, 0xc7);
    put_operand(b, 0, in_register(reg), 4);
    put_32(b, value);
}

void put_alu(code_buffer *b, alu_op op, int to, int from)
{
    make_room(b, LONGEST);
    put_rex(b, true, to, in_register(from));
    put(b, (int)op << 3 | 3);
    put_operand(b, to, in_register(from), 0);
}

void put_alu_number(code_buffer *b, alu_op op, int to, int32_t value)
{
    make_room(b, LONGEST);
    put_rex(b, true, 0, in_register(to));
    put(b, 0x81);
    put_operand(b, (int)op, in_register(to), 4);
    put_32(b, value);
}

void put_negate(code_buffer *b, int reg)
{
    make_room(b, LONGEST);
    put_rex(b, true, 0, in_register(reg));
    put(b, 0xf7);
    put_operand(b, 3, in_register(reg), 0);
}

void put_shift_left(code_buffer *b, int reg, int by)
{
    make_room(b, LONGEST);
    put_rex(b, true, 0, in_register(reg));
    put(b, 0xc1);
    put_operand(b, 4, in_register(reg), 1);
    put(b, by);
}

void put_low_bits(code_buffer *b, int to, int from, int count)
{
    const vector_op bzhi = { MAP_0F38, PP_NONE, 0xf5, true };
    put_vector(b, bzhi, (vector_form){ .evex = false }, to, count, in_register(from), NO_IMMEDIATE);
}

void put_mask_from(code_buffer *b, int mask, int from)
{
    const vector_op kmovd = { MAP_0F, PP_F2, 0x92, false };
    put_vector(b, kmovd, (vector_form){ .evex = false }, mask, 0, in_register(from), NO_IMMEDIATE);
}

void put_return(code_buffer *b)
{
    make_room(b, LONGEST);
    put(b, 0xc5); /* vzeroupper: what follows may be SSE code */
    put(b, 0xf8);
    put(b, 0x77);
    put(b, 0xc3);
}

/* --- jumps ------------------------------------------------------------------------------------------------------- */

size_t put_jump_if(code_buffer *b, condition c)
{
    make_room(b, LONGEST);
    put(b, 0x0f);
    put(b, 0x80 | (int)c);
    put_32(b, 0);
    return b->size;
}

void bind_jump(code_buffer *b, size_t jump)
{
    int32_t by = (int32_t)(b->size - jump);
    if (!b->failed)
        memcpy(b->bytes + jump - 4, &by, 4);
}

void put_jump_back_if(code_buffer *b, condition c, size_t to)
{
    make_room(b, LONGEST);
    put(b, 0x0f);
    put(b, 0x80 | (int)c);
    put_32(b, (int32_t)to - (int32_t)(b->size + 4));
}
