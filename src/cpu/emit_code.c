/* emit_code.c: registers and instructions for straight-line nodes, in a loop over vectors.
 *
 * The loop takes as many elements at a time as the widest type has lanes in a vector; narrower types fill part of
 * theirs. The rest of the elements goes through the same nodes once more, with loads and stores that leave out the
 * lanes beyond the end. Constants and repeated operands are read before the loop as far as registers reach, the others
 * as they are needed.
 *
 * Registers are given out in one pass in the order of the nodes. When none is free, the value whose next use is
 * farthest goes to the stack: for straight-line code nothing is better. Invariant: a value that will be used is in a
 * register, in its slot, or can be read again from the constants or the repeated operand it is.
 *
 * A mask is a mask register with AVX-512; with AVX2 a vector of which the sign bits count. */
#include "cpu/emit_code.h"

#include <string.h>

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

/* --- instructions ---------------------------------------------------------------------------------------------------
 */

/* The same instruction for lanes of 4 and of 8 bytes. */
typedef struct lane_ops {
    vector_op of[2];
} lane_ops;

#define PS_PD(code)                                                                                                    \
    {                                                                                                                  \
        {                                                                                                              \
            { MAP_0F, PP_NONE, code, false }, { MAP_0F, PP_66, code, true }                                            \
        }                                                                                                              \
    }
#define MAP38(code)                                                                                                    \
    {                                                                                                                  \
        {                                                                                                              \
            { MAP_0F38, PP_66, code, false }, { MAP_0F38, PP_66, code, true }                                          \
        }                                                                                                              \
    }
#define INTS(narrow, wide_)                                                                                            \
    {                                                                                                                  \
        {                                                                                                              \
            { MAP_0F, PP_66, narrow, false }, { MAP_0F, PP_66, wide_, true }                                           \
        }                                                                                                              \
    }

static const lane_ops simple[IR_OP_COUNT] = {
    [IR_ADD] = PS_PD(0x58),
    [IR_SUB] = PS_PD(0x5c),
    [IR_MUL] = PS_PD(0x59),
    [IR_DIV] = PS_PD(0x5e),
    [IR_LEAST] = PS_PD(0x5d),
    [IR_GREATEST] = PS_PD(0x5f),
    [IR_SQRT] = PS_PD(0x51),
    [IR_AND] = INTS(0xdb, 0xdb),
    [IR_OR] = INTS(0xeb, 0xeb),
    [IR_XOR] = INTS(0xef, 0xef),
    [IR_INT_ADD] = INTS(0xfe, 0xd4),
    [IR_INT_SUB] = INTS(0xfa, 0xfb),
    [IR_SHIFT_LEFT] = INTS(0x72, 0x73),
    [IR_SHIFT_RIGHT] = INTS(0x72, 0x73),
    [IR_SHIFT_ARITHMETIC] = INTS(0x72, 0x72),
    [IR_FLOAT_OF_INT] = PS_PD(0x5b),
    [IR_COMPARE] = PS_PD(0xc2),
};
/* The factor that is overwritten by the result, and the term that is. */
static const lane_ops over_factor[IR_OP_COUNT] = { [IR_MULTIPLY_ADD] = MAP38(0xa8),
                                                   [IR_NEGATIVE_ADD] = MAP38(0xac),
                                                   [IR_MULTIPLY_SUBTRACT] = MAP38(0xaa) };
static const lane_ops over_term[IR_OP_COUNT] = { [IR_MULTIPLY_ADD] = MAP38(0xb8),
                                                 [IR_NEGATIVE_ADD] = MAP38(0xbc),
                                                 [IR_MULTIPLY_SUBTRACT] = MAP38(0xba) };
static const lane_ops rounding = { { { MAP_0F3A, PP_66, 0x08, false }, { MAP_0F3A, PP_66, 0x09, true } } };
static const lane_ops load = PS_PD(0x10), store = PS_PD(0x11);
static const lane_ops broadcast = { { { MAP_0F38, PP_66, 0x18, false }, { MAP_0F38, PP_66, 0x19, true } } };
static const lane_ops blend_by_mask = MAP38(0x65);
static const lane_ops blend_by_sign = { { { MAP_0F3A, PP_66, 0x4a, false }, { MAP_0F3A, PP_66, 0x4b, false } } };
static const lane_ops masked_load = { { { MAP_0F38, PP_66, 0x2c, false }, { MAP_0F38, PP_66, 0x2d, false } } };
static const lane_ops masked_store = { { { MAP_0F38, PP_66, 0x2e, false }, { MAP_0F38, PP_66, 0x2f, false } } };
static const lane_ops greater_int = { { { MAP_0F, PP_66, 0x66, false }, { MAP_0F38, PP_66, 0x37, false } } };
static const lane_ops bytes_to_lanes = { { { MAP_0F38, PP_66, 0x31, false }, { MAP_0F38, PP_66, 0x32, false } } };

static const vector_op kandw = { MAP_0F, PP_NONE, 0x41, false }, korw = { MAP_0F, PP_NONE, 0x45, false },
                       kxorw = { MAP_0F, PP_NONE, 0x47, false }, knotw = { MAP_0F, PP_NONE, 0x44, false },
                       kmovw_load = { MAP_0F, PP_NONE, 0x90, false }, kmovw_store = { MAP_0F, PP_NONE, 0x91, false };
static const vector_op load_bytes = { MAP_0F, PP_F2, 0x6f, false }, store_bytes = { MAP_0F, PP_F2, 0x7f, false },
                       load_8_bytes = { MAP_0F, PP_F3, 0x7e, true }, store_8_bytes = { MAP_0F, PP_66, 0xd6, true },
                       store_4_bytes = { MAP_0F, PP_66, 0x7e, false }, test_bytes = { MAP_0F38, PP_66, 0x26, false };
static const vector_op equal_int = { MAP_0F, PP_66, 0x76, false }, extract_half = { MAP_0F3A, PP_66, 0x39, false },
                       pack_words = { MAP_0F, PP_66, 0x6b, false }, pack_bytes = { MAP_0F, PP_66, 0x67, false },
                       shuffle = { MAP_0F, PP_NONE, 0xc6, false };
static const vector_op widen = { MAP_0F, PP_NONE, 0x5a, false }, narrow = { MAP_0F, PP_66, 0x5a, true };

static const vector_form VEX_128 = { .length = 0 }, VEX_256 = { .length = 1 };

/* --- what values are
 * -------------------------------------------------------------------------------------------------- */

static const ir_node *node_of(const emitter *e, int v) { return &e->ir->node[v]; }
static reg_class class_of(const emitter *e, int v)
{
    return e->evex && node_of(e, v)->type == IR_MASK ? CLASS_MASK : CLASS_VECTOR;
}
static int lane_of(const emitter *e, ir_type t) { return t == IR_F32 ? 4 : t == IR_F64 ? 8 : e->lane_bytes; }
static bool is_wide(const emitter *e, ir_type t) { return lane_of(e, t) == 8; }
static vector_form form_of(const emitter *e, ir_type t)
{
    int bytes = e->lanes * lane_of(e, t);
    return (vector_form){ .evex = e->evex, .length = bytes == 64 ? 2 : bytes == 32 };
}
static bool is_invariant(const ir_node *n) { return n->op == IR_NUMBER || n->op == IR_REPEAT; }

/* --- addresses
 * -------------------------------------------------------------------------------------------------------- */

/* The register that holds the address of the place; a place without one uses SCRATCH until the next. */
static int pointer_to(emitter *e, int32_t place)
{
    for (int i = 0; i < e->pointers; i++)
        if (e->place[i] == place)
            return pointer_registers[i];
    put_load(e->b, SCRATCH, at_base(TABLE, place * 8));
    return SCRATCH;
}

static operand at_place(emitter *e, const ir_node *n, int size)
{
    operand o = at_index(pointer_to(e, n->place), INDEX, size);
    o.displacement = n->copy * e->lanes * size;
    return o;
}
static operand at_slot(int slot) { return at_base(RSP, SLOT_BYTES * (slot + 1)); }

/* --- registers
 * -------------------------------------------------------------------------------------------------------- */

static void put_v(emitter *e, const lane_ops *op, ir_type t, int reg, int first, operand last)
{
    put_vector(e->b, op->of[is_wide(e, t)], form_of(e, t), reg, first, last, NO_IMMEDIATE);
}

/* AVX2's has no W bit. */
static void put_broadcast(emitter *e, ir_type t, int reg, operand from)
{
    vector_op op = broadcast.of[is_wide(e, t)];
    op.wide &= e->evex;
    put_vector(e->b, op, form_of(e, t), reg, 0, from, NO_IMMEDIATE);
}

static void spill(emitter *e, int v)
{
    ir_type t = (ir_type)node_of(e, v)->type;
    if (e->slot[v] >= 0)
        return;
    e->slot[v] = (int16_t)e->slots++;
    if (class_of(e, v) == CLASS_MASK)
        put_vector(e->b, kmovw_store, VEX_128, e->reg[v], 0, at_slot(e->slot[v]), NO_IMMEDIATE);
    else
        put_v(e, &store, t, e->reg[v], 0, at_slot(e->slot[v]));
}

static void evict(emitter *e, reg_class c, int r)
{
    int v = e->holds[c][r];
    if (!is_invariant(node_of(e, v)))
        spill(e, v);
    e->reg[v] = -1;
    e->holds[c][r] = FREE;
}

/* A register that nobody needs, if need be by emptying one. */
static int free_register(emitter *e, reg_class c)
{
    int count = c == CLASS_MASK ? MASKS : e->registers, farthest = -1;
    for (int r = 0; r < count; r++) {
        if (e->holds[c][r] == FREE && !e->locked[c][r])
            return r;
        if (e->holds[c][r] < 0 || e->locked[c][r] || e->pinned[e->holds[c][r]])
            continue;
        if (farthest < 0 || e->next[e->holds[c][r]] > e->next[e->holds[c][farthest]])
            farthest = r;
    }
    evict(e, c, farthest);
    return farthest;
}

static int take(emitter *e, int v)
{
    reg_class c = class_of(e, v);
    int r = free_register(e, c);
    e->holds[c][r] = (int16_t)v;
    e->reg[v] = (int8_t)r;
    return r;
}

/* For the length of one node. */
static int take_passing(emitter *e)
{
    int r = free_register(e, CLASS_VECTOR);
    e->locked[CLASS_VECTOR][r] = true;
    return r;
}

static void unlock(emitter *e) { memset(e->locked, 0, sizeof e->locked); }

static void read_invariant(emitter *e, int v, int r)
{
    const ir_node *n = node_of(e, v);
    ir_type t = (ir_type)n->type;
    if (n->op == IR_REPEAT)
        put_broadcast(e, t, r, at_base(pointer_to(e, n->place), 0));
    else if (e->evex)
        put_broadcast(e, t, r, in_pool(e->pool[v], false));
    else
        put_v(e, &load, t, r, 0, in_pool(e->pool[v], false));
}

static int fetch(emitter *e, int v)
{
    reg_class c = class_of(e, v);
    if (e->reg[v] < 0) {
        int r = take(e, v);
        if (is_invariant(node_of(e, v)))
            read_invariant(e, v, r);
        else if (c == CLASS_MASK)
            put_vector(e->b, kmovw_load, VEX_128, r, 0, at_slot(e->slot[v]), NO_IMMEDIATE);
        else
            put_v(e, &load, (ir_type)node_of(e, v)->type, r, 0, at_slot(e->slot[v]));
    }
    e->locked[c][e->reg[v]] = true;
    return e->reg[v];
}

/* The value as the last operand of an instruction: in memory if that is where it is. */
static operand source(emitter *e, int v)
{
    const ir_node *n = node_of(e, v);
    if (e->reg[v] < 0 && class_of(e, v) == CLASS_VECTOR) {
        if (n->op == IR_NUMBER)
            return in_pool(e->pool[v], e->evex);
        if (!is_invariant(n))
            return at_slot(e->slot[v]);
    }
    return in_register(fetch(e, v));
}

/* Node i has its operands: those that it was the last to use leave their registers. */
static void let_go(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    for (int k = 0; k < n->operands; k++)
        e->next[n->in[k]] = NEVER;
    for (int k = n->operands - 1; k >= 0; k--)
        if (e->after[i][k] != i)
            e->next[n->in[k]] = e->after[i][k];
    for (int k = 0; k < n->operands; k++) {
        int v = n->in[k];
        if (e->next[v] == NEVER && e->reg[v] >= 0 && !e->pinned[v]) {
            e->holds[class_of(e, v)][e->reg[v]] = FREE;
            e->reg[v] = -1;
        }
    }
    unlock(e);
}

static bool ends_at(const emitter *e, int v, int i)
{
    const ir_node *n = node_of(e, i);
    for (int k = 0; k < n->operands; k++)
        if (n->in[k] == v && e->after[i][k] != NEVER && e->after[i][k] != i)
            return false;
    return !e->pinned[v];
}

/* --- nodes: memory
 * ------------------------------------------------------------------------------------------------------ */

/* AVX2 has no masked move of single bytes: the rest of them is copied between memory and the first slot one by one. */
static void copy_rest(emitter *e, int32_t place, bool out)
{
    int pointer = pointer_to(e, place);
    put_load_address(e->b, SCRATCH, at_index(pointer, INDEX, 1));
    put_set(e->b, COUNTER, e->lanes);
    put_alu(e->b, ALU_CMP, COUNT, COUNTER);
    size_t enough = put_jump_if(e->b, IF_GREATER_EQUAL);
    put_move(e->b, COUNTER, COUNT);
    bind_jump(e->b, enough);
    operand memory = at_index(SCRATCH, COUNTER, 1), slot = at_index(RSP, COUNTER, 1);
    memory.displacement = slot.displacement = -1;
    size_t again = e->b->size;
    put_load_part(e->b, PASSING, out ? slot : memory, 1);
    put_store_part(e->b, out ? memory : slot, PASSING, 1);
    put_alu_number(e->b, ALU_SUB, COUNTER, 1);
    put_jump_back_if(e->b, IF_NOT_EQUAL, again);
}

static void load_mask(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    if (e->evex) {
        int bytes = take_passing(e);
        vector_form form = { .evex = true };
        if (e->tail)
            form.mask = TAIL_MASK, form.zeroing = true;
        operand from = at_place(e, n, 1);
        put_vector(e->b, e->tail || e->lanes == 16 ? load_bytes : load_8_bytes, form, bytes, 0, from, NO_IMMEDIATE);
        unlock(e);
        put_vector(e->b, test_bytes, (vector_form){ .evex = true }, take(e, i), bytes, in_register(bytes),
                   NO_IMMEDIATE);
        return;
    }
    if (e->tail)
        copy_rest(e, n->place, false);
    operand from = e->tail ? at_base(RSP, 0) : at_place(e, n, 1);
    int r = take(e, i);
    put_v(e, &bytes_to_lanes, IR_MASK, r, 0, from);
    put_v(e, &greater_int, IR_MASK, r, r, in_pool(e->header + ONES, false));
}

static void load_node(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    if (t == IR_MASK) {
        load_mask(e, i);
        return;
    }
    operand from = at_place(e, n, lane_of(e, t));
    int r = take(e, i);
    if (!e->tail) {
        put_v(e, &load, t, r, 0, from);
    } else if (e->evex) {
        vector_form form = form_of(e, t);
        form.mask = TAIL_MASK;
        form.zeroing = true;
        put_vector(e->b, load.of[is_wide(e, t)], form, r, 0, from, NO_IMMEDIATE);
    } else {
        put_v(e, &masked_load, t, r, TAIL_LANES + is_wide(e, t), from);
    }
}

/* Lanes become bytes of 0 and 1 in the low part of a register. */
static int bytes_of_mask(emitter *e, int mask)
{
    int r = take_passing(e);
    if (e->evex) {
        int ones = take_passing(e);
        put_vector(e->b, broadcast.of[0], (vector_form){ .evex = true }, ones, 0, in_pool(e->header, false),
                   NO_IMMEDIATE);
        put_vector(e->b, load_bytes, (vector_form){ .evex = true, .mask = (uint8_t)mask, .zeroing = true }, r, 0,
                   in_register(ones), NO_IMMEDIATE);
        return r;
    }
    const bool wide = e->lane_bytes == 8;
    int high = take_passing(e);
    put_vector(e->b, simple[IR_SHIFT_RIGHT].of[wide], VEX_256, 2, r, in_register(mask), wide ? 63 : 31);
    put_vector(e->b, extract_half, VEX_256, r, 0, in_register(high), 1);
    if (wide)
        put_vector(e->b, shuffle, VEX_128, r, r, in_register(high), 0x88);
    else
        put_vector(e->b, pack_words, VEX_128, r, r, in_register(high), NO_IMMEDIATE);
    if (wide)
        put_vector(e->b, pack_words, VEX_128, r, r, in_register(r), NO_IMMEDIATE);
    put_vector(e->b, pack_bytes, VEX_128, r, r, in_register(r), NO_IMMEDIATE);
    return r;
}

static void store_mask(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    int bytes = bytes_of_mask(e, fetch(e, n->in[0]));
    if (e->evex) {
        vector_form form = { .evex = true, .mask = e->tail ? TAIL_MASK : 0 };
        put_vector(e->b, e->tail || e->lanes == 16 ? store_bytes : store_8_bytes, form, bytes, 0, at_place(e, n, 1),
                   NO_IMMEDIATE);
        return;
    }
    vector_op op = e->lanes == 8 ? store_8_bytes : store_4_bytes;
    op.wide = false;
    put_vector(e->b, op, VEX_128, bytes, 0, e->tail ? at_base(RSP, 0) : at_place(e, n, 1), NO_IMMEDIATE);
    if (e->tail)
        copy_rest(e, n->place, true);
}

static void store_node(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    if (t == IR_MASK) {
        store_mask(e, i);
    } else {
        int r = fetch(e, n->in[0]);
        operand to = at_place(e, n, lane_of(e, t));
        vector_form form = form_of(e, t);
        form.mask = e->evex && e->tail ? TAIL_MASK : 0;
        if (e->tail && !e->evex)
            put_v(e, &masked_store, t, r, TAIL_LANES + is_wide(e, t), to);
        else
            put_vector(e->b, store.of[is_wide(e, t)], form, r, 0, to, NO_IMMEDIATE);
    }
    let_go(e, i);
}

/* --- nodes: values
 * ------------------------------------------------------------------------------------------------------ */

static bool commutes(int op)
{
    return op == IR_ADD || op == IR_MUL || op == IR_AND || op == IR_OR || op == IR_XOR || op == IR_INT_ADD;
}

static void two_operands(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    int a = n->in[0], b = n->in[1];
    if (commutes(n->op) && e->reg[a] < 0 && e->reg[b] >= 0)
        a = n->in[1], b = n->in[0];
    ir_type t = (ir_type)node_of(e, a)->type;
    int ra = fetch(e, a);
    operand last = source(e, b);
    let_go(e, i);
    put_vector(e->b, simple[n->op].of[is_wide(e, t)], form_of(e, t), take(e, i), ra, last,
               n->op == IR_COMPARE ? n->detail : NO_IMMEDIATE);
}

static void one_operand(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    operand from = source(e, n->in[0]);
    let_go(e, i);
    ir_type t = (ir_type)n->type;
    int r = take(e, i);
    switch (n->op) {
    case IR_ROUND: put_vector(e->b, rounding.of[is_wide(e, t)], form_of(e, t), r, 0, from, n->detail); break;
    case IR_WIDEN: put_vector(e->b, widen, form_of(e, IR_F64), r, 0, from, NO_IMMEDIATE); break;
    case IR_NARROW: put_vector(e->b, narrow, form_of(e, IR_F64), r, 0, from, NO_IMMEDIATE); break;
    default: put_v(e, &simple[n->op], t, r, 0, from);
    }
}

/* The destination is where other instructions have their first source. */
static void shift_node(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    const int way = n->op == IR_SHIFT_LEFT ? 6 : n->op == IR_SHIFT_RIGHT ? 2 : 4;
    int from = fetch(e, n->in[0]);
    let_go(e, i);
    put_vector(e->b, simple[n->op].of[is_wide(e, t)], form_of(e, t), way, take(e, i), in_register(from), n->detail);
}

/* The term in a register that may be overwritten. */
static int copy_of_term(emitter *e, int c, ir_type t)
{
    operand from = source(e, c);
    int r = take_passing(e);
    if (from.memory && from.repeated) {
        from.repeated = false;
        put_broadcast(e, t, r, from);
    } else {
        put_v(e, &load, t, r, 0, from);
    }
    return r;
}

/* A multiply-add overwrites one of its operands: one that ends here, else a copy of the term. */
static void multiply_add(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    int a = n->in[0], b = n->in[1], c = n->in[2], r, other;
    operand last;
    const bool over_c = e->reg[c] >= 0 && ends_at(e, c, i) && c != a && c != b;
    const bool over_b = !over_c && e->reg[b] >= 0 && ends_at(e, b, i) && b != a && b != c;
    const bool over_a = !over_c && e->reg[a] >= 0 && ends_at(e, a, i) && a != b && a != c;
    const lane_ops *op = over_a || over_b ? over_factor : over_term;
    if (over_b || (!over_a && e->reg[a] < 0 && e->reg[b] >= 0))
        a = n->in[1], b = n->in[0];
    if (over_a || over_b) {
        r = fetch(e, a);
        other = fetch(e, b);
        last = source(e, c);
    } else {
        other = fetch(e, a);
        r = over_c ? fetch(e, c) : copy_of_term(e, c, t);
        last = source(e, b);
    }
    let_go(e, i);
    e->holds[CLASS_VECTOR][r] = (int16_t)i;
    e->reg[i] = (int8_t)r;
    put_v(e, &op[n->op], t, r, other, last);
}

/* Bits of b where c has ones, else of a, which is overwritten. */
static void pick_bits(emitter *e, int i)
{
    enum { B_WHERE_C = 0xd8 };
    static const lane_ops ternary_logic = { { { MAP_0F3A, PP_66, 0x25, false }, { MAP_0F3A, PP_66, 0x25, true } } };
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    int a = n->in[0], b = fetch(e, n->in[1]);
    const bool ends = e->reg[a] >= 0 && ends_at(e, a, i) && a != n->in[1] && a != n->in[2];
    int r = ends ? fetch(e, a) : copy_of_term(e, a, t);
    operand c = source(e, n->in[2]);
    let_go(e, i);
    e->holds[CLASS_VECTOR][r] = (int16_t)i;
    e->reg[i] = (int8_t)r;
    put_vector(e->b, ternary_logic.of[is_wide(e, t)], form_of(e, t), r, b, c, B_WHERE_C);
}

static void select_node(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    int mask = fetch(e, n->in[0]), no = fetch(e, n->in[2]);
    operand yes = source(e, n->in[1]);
    let_go(e, i);
    int r = take(e, i);
    vector_form form = form_of(e, t);
    if (e->evex) {
        form.mask = (uint8_t)mask;
        put_vector(e->b, blend_by_mask.of[is_wide(e, t)], form, r, no, yes, NO_IMMEDIATE);
    } else {
        put_vector(e->b, blend_by_sign.of[is_wide(e, t)], form, r, no, yes, mask << 4);
    }
}

static void combine_masks(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    const int op = n->op;
    int a = fetch(e, n->in[0]), b = n->operands > 1 ? fetch(e, n->in[1]) : a;
    if (e->evex) {
        let_go(e, i);
        const vector_op *k = op == IR_BOTH ? &kandw : op == IR_EITHER ? &korw : op == IR_DIFFER ? &kxorw : &knotw;
        bool one = op == IR_NOT;
        put_vector(e->b, *k, one ? VEX_128 : VEX_256, take(e, i), one ? 0 : a, in_register(b), NO_IMMEDIATE);
        return;
    }
    if (op == IR_NOT) {
        int ones = take_passing(e);
        put_vector(e->b, equal_int, VEX_256, ones, ones, in_register(ones), NO_IMMEDIATE);
        b = ones;
    }
    let_go(e, i);
    put_v(e,
          &simple[op == IR_BOTH     ? IR_AND
                  : op == IR_EITHER ? IR_OR
                                    : IR_XOR],
          IR_MASK, take(e, i), a, in_register(b));
}

typedef void (*node_fn)(emitter *e, int i);
static const node_fn writers[IR_OP_COUNT] = {
    [IR_LOAD] = load_node,
    [IR_STORE] = store_node,
    [IR_ADD] = two_operands,
    [IR_SUB] = two_operands,
    [IR_MUL] = two_operands,
    [IR_DIV] = two_operands,
    [IR_LEAST] = two_operands,
    [IR_GREATEST] = two_operands,
    [IR_SQRT] = one_operand,
    [IR_ROUND] = one_operand,
    [IR_MULTIPLY_ADD] = multiply_add,
    [IR_NEGATIVE_ADD] = multiply_add,
    [IR_MULTIPLY_SUBTRACT] = multiply_add,
    [IR_AND] = two_operands,
    [IR_OR] = two_operands,
    [IR_XOR] = two_operands,
    [IR_PICK_BITS] = pick_bits,
    [IR_INT_ADD] = two_operands,
    [IR_INT_SUB] = two_operands,
    [IR_SHIFT_LEFT] = shift_node,
    [IR_SHIFT_RIGHT] = shift_node,
    [IR_SHIFT_ARITHMETIC] = shift_node,
    [IR_FLOAT_OF_INT] = one_operand,
    [IR_COMPARE] = two_operands,
    [IR_SELECT] = select_node,
    [IR_BOTH] = combine_masks,
    [IR_EITHER] = combine_masks,
    [IR_DIFFER] = combine_masks,
    [IR_NOT] = combine_masks,
    [IR_WIDEN] = one_operand,
    [IR_NARROW] = one_operand,
};

/* --- the function
 * ------------------------------------------------------------------------------------------------------- */

/* The rest of the elements goes one vector at a time. */
static bool is_written(const emitter *e, int i) { return !e->tail || !node_of(e, i)->copy; }

static void plan_uses(emitter *e)
{
    for (int v = 0; v < e->ir->count; v++)
        e->next[v] = NEVER;
    for (int i = e->ir->count - 1; i >= 0; i--)
        for (int k = node_of(e, i)->operands - 1; k >= 0 && is_written(e, i); k--) {
            int v = node_of(e, i)->in[k];
            e->after[i][k] = e->next[v];
            e->next[v] = (int16_t)i;
        }
}

static void write_pool(emitter *e)
{
    static const int64_t ones_and_zeros[(ONES + ZEROS) / 8] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    static const uint32_t byte_ones = 0x01010101;
    put_padding(e->b, 64);
    e->header = (int32_t)e->b->size;
    if (e->evex)
        put_bytes(e->b, (uint64_t[]){ byte_ones }, 8);
    else
        put_bytes(e->b, ones_and_zeros, ONES + ZEROS);
    for (int v = 0; v < e->ir->count; v++) {
        const ir_node *n = node_of(e, v);
        if (n->op != IR_NUMBER)
            continue;
        e->pool[v] = (int32_t)e->b->size;
        uint64_t bits = n->type == IR_F32 ? n->bits | n->bits << 32 : n->bits;
        for (int i = 0; i < (e->evex ? 1 : 4); i++)
            put_bytes(e->b, &bits, 8);
    }
    put_padding(e->b, 64);
}

static void open_frame(emitter *e, size_t *frame)
{
    put_push(e->b, RBP);
    put_move(e->b, RBP, RSP);
    for (int r = R12; r <= R15; r++)
        put_push(e->b, r);
    put_push(e->b, RBX);
    put_alu_number(e->b, ALU_SUB, RSP, 0);
    *frame = e->b->size;
    put_alu_number(e->b, ALU_AND, RSP, -64);
}

static void close_frame(emitter *e, size_t frame)
{
    put_load_address(e->b, RSP, at_base(RBP, -SAVED_BYTES));
    put_pop(e->b, RBX);
    for (int r = R15; r >= R12; r--)
        put_pop(e->b, r);
    put_pop(e->b, RBP);
    put_return(e->b);
    int32_t bytes = SLOT_BYTES * (e->most_slots + 2);
    if (!e->b->failed)
        memcpy(e->b->bytes + frame - 4, &bytes, 4);
}

static void point(emitter *e)
{
    for (int i = 0; i < e->ir->count && e->pointers < POINTERS; i++) {
        const ir_node *n = node_of(e, i);
        if (n->op != IR_LOAD && n->op != IR_STORE)
            continue;
        bool known = false;
        for (int k = 0; k < e->pointers; k++)
            known |= e->place[k] == n->place;
        if (known)
            continue;
        put_load(e->b, pointer_registers[e->pointers], at_base(TABLE, n->place * 8));
        e->place[e->pointers++] = n->place;
    }
}

/* Constants and repeated operands keep registers of their own, from the last one down, the most used first. */
static void pin(emitter *e)
{
    int16_t uses[LONGEST_NODES] = { 0 };
    for (int i = 0; i < e->ir->count; i++)
        for (int k = 0; k < node_of(e, i)->operands; k++)
            uses[node_of(e, i)->in[k]]++;
    for (int room = e->evex ? 16 : 5; room > 0; room--) {
        int best = -1;
        for (int v = 0; v < e->ir->count; v++)
            if (is_invariant(node_of(e, v)) && !e->pinned[v] && uses[v] && (best < 0 || uses[v] > uses[best]))
                best = v;
        if (best < 0)
            return;
        e->pinned[best] = true;
        e->registers--;
        e->reg[best] = (int8_t)e->registers;
        read_invariant(e, best, e->registers);
    }
}

static void reset(emitter *e)
{
    for (int v = 0; v < e->ir->count; v++) {
        e->slot[v] = -1;
        if (!e->pinned[v])
            e->reg[v] = -1;
    }
    for (int r = 0; r < VECTORS; r++)
        e->holds[CLASS_VECTOR][r] = e->holds[CLASS_MASK][r] = FREE;
    e->holds[CLASS_MASK][0] = e->holds[CLASS_MASK][TAIL_MASK] = RESERVED;
    if (e->tail && !e->evex)
        e->holds[CLASS_VECTOR][TAIL_LANES] = e->holds[CLASS_VECTOR][TAIL_LANES + 1] = RESERVED;
    e->slots = 0;
    unlock(e);
    plan_uses(e);
}

static void write_nodes(emitter *e, bool tail)
{
    e->tail = tail;
    reset(e);
    for (int i = 0; i < e->ir->count; i++) {
        const node_fn write = is_written(e, i) ? writers[node_of(e, i)->op] : NULL;
        if (write)
            write(e, i);
        unlock(e);
        if (write && e->next[i] == NEVER && e->reg[i] >= 0) { /* nobody reads it */
            e->holds[class_of(e, i)][e->reg[i]] = FREE;
            e->reg[i] = -1;
        }
    }
    if (e->slots > e->most_slots)
        e->most_slots = e->slots;
}

/* Which lanes there are, COUNT of them: a mask register, or vectors read from ones followed by zeros. */
static void count_lanes(emitter *e)
{
    if (e->evex) {
        put_set(e->b, SCRATCH, -1);
        put_low_bits(e->b, SCRATCH, SCRATCH, COUNT);
        put_mask_from(e->b, TAIL_MASK, SCRATCH);
        return;
    }
    put_move(e->b, COUNTER, COUNT);
    put_negate(e->b, COUNTER);
    put_load_address(e->b, SCRATCH, in_pool(e->header + ONES, false));
    put_v(e, &load, IR_F32, TAIL_LANES, 0, at_index(SCRATCH, COUNTER, 4));
    if (e->ir->types[IR_F64] || e->lane_bytes == 8)
        put_vector(e->b, load.of[1], VEX_256, TAIL_LANES + 1, 0, at_index(SCRATCH, COUNTER, 8), NO_IMMEDIATE);
}

bool emit_can(const ir_code *ir, isa_level level)
{
    bool mixed = ir->types[IR_F32] && ir->types[IR_F64];
    return !ir->full && (level == ISA_AVX512 || (level == ISA_AVX2 && !(mixed && ir->masks)));
}

/* Vectors that are alive at once, constants and repeated operands aside. */
static int most_alive(const ir_code *ir)
{
    int16_t last[LONGEST_NODES];
    int alive = 0, most = 0;
    for (int i = 0; i < ir->count; i++)
        for (int k = 0; k < ir->node[i].operands; k++)
            last[ir->node[i].in[k]] = (int16_t)i;
    for (int i = 0; i < ir->count; i++) {
        const ir_node *n = &ir->node[i];
        for (int k = 0; k < n->operands; k++)
            if (last[n->in[k]] == i && !is_invariant(&ir->node[n->in[k]])) {
                alive--;
                last[n->in[k]] = -1;
            }
        alive += n->op != IR_STORE && !is_invariant(n);
        most = alive > most ? alive : most;
    }
    return most;
}

/* A chain of operations waits for each of its results, so two vectors go side by side while registers last. */
static int copies_of(const ir_code *ir, bool evex)
{
    enum { DEEP = 24 };
    return ir->deepest > DEEP && most_alive(ir) <= (evex ? 12 : 4) ? 2 : 1;
}

static void write_function(emitter *e, int copies)
{
    code_buffer *b = e->b;
    const int step = e->lanes * copies;
    size_t frame;
    open_frame(e, &frame);
    point(e);
    pin(e);
    put_set(b, INDEX, 0);
    put_alu_number(b, ALU_SUB, COUNT, step);
    size_t few = put_jump_if(b, IF_LESS);
    put_padding(b, 16);
    size_t again = b->size;
    write_nodes(e, false);
    put_alu_number(b, ALU_ADD, INDEX, step);
    put_alu(b, ALU_CMP, INDEX, COUNT);
    put_jump_back_if(b, IF_LESS_EQUAL, again);
    bind_jump(b, few);
    put_alu_number(b, ALU_ADD, COUNT, step);
    put_alu(b, ALU_SUB, COUNT, INDEX);
    size_t none = put_jump_if(b, IF_EQUAL);
    again = b->size;
    count_lanes(e);
    write_nodes(e, true);
    if (copies > 1) {
        put_alu_number(b, ALU_ADD, INDEX, e->lanes);
        put_alu_number(b, ALU_SUB, COUNT, e->lanes);
        put_jump_back_if(b, IF_GREATER, again);
    }
    bind_jump(b, none);
    close_frame(e, frame);
}

size_t emit_function(code_buffer *b, const ir_code *ir, isa_level level)
{
    ir_code doubled;
    const bool evex = level == ISA_AVX512;
    const int widest = ir->types[IR_F64] ? 8 : 4, copies = copies_of(ir, evex);
    emitter e = { .b = b, .evex = evex, .lanes = (evex ? 64 : 32) / widest, .lane_bytes = widest };
    const bool fits = copies > 1 && ir_interleave(&doubled, ir, copies);
    e.ir = fits ? &doubled : ir;
    e.registers = evex ? 32 : 16;
    memset(e.reg, -1, sizeof e.reg);
    write_pool(&e);
    const size_t entry = b->size;
    write_function(&e, fits ? copies : 1);
    return entry;
}
