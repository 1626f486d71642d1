/* emit_nodes.c: the instructions of each kind of node. */
#include "cpu/emit_registers.h"

/* --- the instructions -------------------------------------------------------------------------------------------- */

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
    [IR_EXPONENT] = MAP38(0x42),
    [IR_SCALE] = MAP38(0x2c),
};
/* The factor that is overwritten by the result, and the term that is. */
static const lane_ops over_factor[IR_OP_COUNT] = { [IR_MULTIPLY_ADD] = MAP38(0xa8),
                                                   [IR_NEGATIVE_ADD] = MAP38(0xac),
                                                   [IR_MULTIPLY_SUBTRACT] = MAP38(0xaa) };
static const lane_ops over_term[IR_OP_COUNT] = { [IR_MULTIPLY_ADD] = MAP38(0xb8),
                                                 [IR_NEGATIVE_ADD] = MAP38(0xbc),
                                                 [IR_MULTIPLY_SUBTRACT] = MAP38(0xba) };
static const lane_ops rounding = { { { MAP_0F3A, PP_66, 0x08, false }, { MAP_0F3A, PP_66, 0x09, true } } };
static const lane_ops mantissa = { { { MAP_0F3A, PP_66, 0x26, false }, { MAP_0F3A, PP_66, 0x26, true } } };
static const lane_ops blend_by_mask = MAP38(0x65);
static const lane_ops blend_by_sign = { { { MAP_0F3A, PP_66, 0x4a, false }, { MAP_0F3A, PP_66, 0x4b, false } } };
static const lane_ops masked_load = { { { MAP_0F38, PP_66, 0x2c, false }, { MAP_0F38, PP_66, 0x2d, false } } };
static const lane_ops masked_store = { { { MAP_0F38, PP_66, 0x2e, false }, { MAP_0F38, PP_66, 0x2f, false } } };
static const lane_ops greater_int = { { { MAP_0F, PP_66, 0x66, false }, { MAP_0F38, PP_66, 0x37, false } } };
static const lane_ops bytes_to_lanes = { { { MAP_0F38, PP_66, 0x31, false }, { MAP_0F38, PP_66, 0x32, false } } };

static const vector_op kandw = { MAP_0F, PP_NONE, 0x41, false }, korw = { MAP_0F, PP_NONE, 0x45, false },
                       kxorw = { MAP_0F, PP_NONE, 0x47, false }, knotw = { MAP_0F, PP_NONE, 0x44, false };
static const vector_op load_bytes = { MAP_0F, PP_F2, 0x6f, false }, store_bytes = { MAP_0F, PP_F2, 0x7f, false },
                       load_8_bytes = { MAP_0F, PP_F3, 0x7e, true }, store_8_bytes = { MAP_0F, PP_66, 0xd6, true },
                       store_4_bytes = { MAP_0F, PP_66, 0x7e, false }, test_bytes = { MAP_0F38, PP_66, 0x26, false };
static const vector_op equal_int = { MAP_0F, PP_66, 0x76, false }, extract_half = { MAP_0F3A, PP_66, 0x39, false },
                       pack_words = { MAP_0F, PP_66, 0x6b, false }, pack_bytes = { MAP_0F, PP_66, 0x67, false },
                       shuffle = { MAP_0F, PP_NONE, 0xc6, false };
static const vector_op widen = { MAP_0F, PP_NONE, 0x5a, false }, narrow = { MAP_0F, PP_66, 0x5a, true };

/* --- nodes: memory ----------------------------------------------------------------------------------------------- */

/* AVX2 has no masked move of single bytes: the rest of them is copied between memory and the first slot one by one. */
static void copy_rest(emitter *e, int32_t place, bool out)
{
    int pointer = emitter_pointer(e, place);
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
        int bytes = emitter_take_passing(e);
        vector_form form = { .evex = true };
        if (e->tail)
            form.mask = TAIL_MASK, form.zeroing = true;
        operand from = emitter_at_place(e, n, 1);
        put_vector(e->b, e->tail || e->lanes == 16 ? load_bytes : load_8_bytes, form, bytes, 0, from, NO_IMMEDIATE);
        emitter_unlock(e);
        put_vector(e->b, test_bytes, (vector_form){ .evex = true }, emitter_take(e, i), bytes, in_register(bytes),
                   NO_IMMEDIATE);
        return;
    }
    if (e->tail)
        copy_rest(e, n->place, false);
    operand from = e->tail ? at_base(RSP, 0) : emitter_at_place(e, n, 1);
    int r = emitter_take(e, i);
    emitter_put(e, &bytes_to_lanes, IR_MASK, r, 0, from);
    emitter_put(e, &greater_int, IR_MASK, r, r, in_pool(e->header + ONES, false));
}

static void load_node(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    if (t == IR_MASK) {
        load_mask(e, i);
        return;
    }
    operand from = emitter_at_place(e, n, lane_of(e, t));
    int r = emitter_take(e, i);
    if (!e->tail) {
        emitter_put(e, &emit_load, t, r, 0, from);
    } else if (e->evex) {
        vector_form form = form_of(e, t);
        form.mask = TAIL_MASK;
        form.zeroing = true;
        put_vector(e->b, emit_load.of[is_wide(e, t)], form, r, 0, from, NO_IMMEDIATE);
    } else {
        emitter_put(e, &masked_load, t, r, TAIL_LANES + is_wide(e, t), from);
    }
}

/* Lanes become bytes of 0 and 1 in the low part of a register. */
static int bytes_of_mask(emitter *e, int mask)
{
    int r = emitter_take_passing(e);
    if (e->evex) {
        int ones = emitter_take_passing(e);
        put_vector(e->b, emit_broadcast.of[0], (vector_form){ .evex = true }, ones, 0, in_pool(e->header, false),
                   NO_IMMEDIATE);
        put_vector(e->b, load_bytes, (vector_form){ .evex = true, .mask = (uint8_t)mask, .zeroing = true }, r, 0,
                   in_register(ones), NO_IMMEDIATE);
        return r;
    }
    const bool wide = e->lane_bytes == 8;
    int high = emitter_take_passing(e);
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
    int bytes = bytes_of_mask(e, emitter_fetch(e, n->in[0]));
    if (e->evex) {
        vector_form form = { .evex = true, .mask = e->tail ? TAIL_MASK : 0 };
        put_vector(e->b, e->tail || e->lanes == 16 ? store_bytes : store_8_bytes, form, bytes, 0,
                   emitter_at_place(e, n, 1), NO_IMMEDIATE);
        return;
    }
    vector_op op = e->lanes == 8 ? store_8_bytes : store_4_bytes;
    op.wide = false;
    put_vector(e->b, op, VEX_128, bytes, 0, e->tail ? at_base(RSP, 0) : emitter_at_place(e, n, 1), NO_IMMEDIATE);
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
        int r = emitter_fetch(e, n->in[0]);
        operand to = emitter_at_place(e, n, lane_of(e, t));
        vector_form form = form_of(e, t);
        form.mask = e->evex && e->tail ? TAIL_MASK : 0;
        if (e->tail && !e->evex)
            emitter_put(e, &masked_store, t, r, TAIL_LANES + is_wide(e, t), to);
        else
            put_vector(e->b, emit_store.of[is_wide(e, t)], form, r, 0, to, NO_IMMEDIATE);
    }
    emitter_let_go(e, i);
}

/* --- nodes: values ----------------------------------------------------------------------------------------------- */

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
    int ra = emitter_fetch(e, a);
    operand last = emitter_source(e, b);
    emitter_let_go(e, i);
    put_vector(e->b, simple[n->op].of[is_wide(e, t)], form_of(e, t), emitter_take(e, i), ra, last,
               n->op == IR_COMPARE ? n->detail : NO_IMMEDIATE);
}

static void one_operand(emitter *e, int i)
{
    enum { UP_FROM_3_4 = 3 | 2 << 2 }; /* the interval, and NaN for what is negative */
    const ir_node *n = node_of(e, i);
    operand from = emitter_source(e, n->in[0]);
    emitter_let_go(e, i);
    ir_type t = (ir_type)n->type;
    int r = emitter_take(e, i);
    switch (n->op) {
    case IR_ROUND: put_vector(e->b, rounding.of[is_wide(e, t)], form_of(e, t), r, 0, from, n->detail); break;
    case IR_MANTISSA: put_vector(e->b, mantissa.of[is_wide(e, t)], form_of(e, t), r, 0, from, UP_FROM_3_4); break;
    case IR_WIDEN: put_vector(e->b, widen, form_of(e, IR_F64), r, 0, from, NO_IMMEDIATE); break;
    case IR_NARROW: put_vector(e->b, narrow, form_of(e, IR_F64), r, 0, from, NO_IMMEDIATE); break;
    default: emitter_put(e, &simple[n->op], t, r, 0, from);
    }
}

/* The destination is where other instructions have their first source. */
static void shift_node(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    const int way = n->op == IR_SHIFT_LEFT ? 6 : n->op == IR_SHIFT_RIGHT ? 2 : 4;
    int from = emitter_fetch(e, n->in[0]);
    emitter_let_go(e, i);
    put_vector(e->b, simple[n->op].of[is_wide(e, t)], form_of(e, t), way, emitter_take(e, i), in_register(from),
               n->detail);
}

/* The term in a register that may be overwritten. */
static int copy_of(emitter *e, int c, ir_type t)
{
    operand from = emitter_source(e, c);
    int r = emitter_take_passing(e);
    if (from.memory && from.repeated) {
        from.repeated = false;
        emitter_broadcast(e, t, r, from);
    } else {
        emitter_put(e, &emit_load, t, r, 0, from);
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
    const bool over_c = e->reg[c] >= 0 && emitter_ends_at(e, c, i) && c != a && c != b;
    const bool over_b = !over_c && e->reg[b] >= 0 && emitter_ends_at(e, b, i) && b != a && b != c;
    const bool over_a = !over_c && e->reg[a] >= 0 && emitter_ends_at(e, a, i) && a != b && a != c;
    const lane_ops *op = over_a || over_b ? over_factor : over_term;
    if (over_b || (!over_a && e->reg[a] < 0 && e->reg[b] >= 0))
        a = n->in[1], b = n->in[0];
    if (over_a || over_b) {
        r = emitter_fetch(e, a);
        other = emitter_fetch(e, b);
        last = emitter_source(e, c);
    } else {
        other = emitter_fetch(e, a);
        r = over_c ? emitter_fetch(e, c) : copy_of(e, c, t);
        last = emitter_source(e, b);
    }
    emitter_let_go(e, i);
    e->holds[CLASS_VECTOR][r] = (int16_t)i;
    e->reg[i] = (int8_t)r;
    emitter_put(e, &op[n->op], t, r, other, last);
}

/* Bits of b where c has ones, else of a, which is overwritten. */
static void pick_bits(emitter *e, int i)
{
    enum { B_WHERE_C = 0xd8 };
    static const lane_ops ternary_logic = { { { MAP_0F3A, PP_66, 0x25, false }, { MAP_0F3A, PP_66, 0x25, true } } };
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    int a = n->in[0], b = emitter_fetch(e, n->in[1]);
    const bool ends = e->reg[a] >= 0 && emitter_ends_at(e, a, i) && a != n->in[1] && a != n->in[2];
    int r = ends ? emitter_fetch(e, a) : copy_of(e, a, t);
    operand c = emitter_source(e, n->in[2]);
    emitter_let_go(e, i);
    e->holds[CLASS_VECTOR][r] = (int16_t)i;
    e->reg[i] = (int8_t)r;
    put_vector(e->b, ternary_logic.of[is_wide(e, t)], form_of(e, t), r, b, c, B_WHERE_C);
}

static void select_node(emitter *e, int i)
{
    const ir_node *n = node_of(e, i);
    ir_type t = (ir_type)n->type;
    int mask = emitter_fetch(e, n->in[0]), no = emitter_fetch(e, n->in[2]);
    operand yes = emitter_source(e, n->in[1]);
    emitter_let_go(e, i);
    int r = emitter_take(e, i);
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
    int a = emitter_fetch(e, n->in[0]), b = n->operands > 1 ? emitter_fetch(e, n->in[1]) : a;
    if (e->evex) {
        emitter_let_go(e, i);
        const vector_op *k = op == IR_BOTH ? &kandw : op == IR_EITHER ? &korw : op == IR_DIFFER ? &kxorw : &knotw;
        bool one = op == IR_NOT;
        put_vector(e->b, *k, one ? VEX_128 : VEX_256, emitter_take(e, i), one ? 0 : a, in_register(b), NO_IMMEDIATE);
        return;
    }
    if (op == IR_NOT) {
        int ones = emitter_take_passing(e);
        put_vector(e->b, equal_int, VEX_256, ones, ones, in_register(ones), NO_IMMEDIATE);
        b = ones;
    }
    emitter_let_go(e, i);
    emitter_put(e,
                &simple[op == IR_BOTH     ? IR_AND
                        : op == IR_EITHER ? IR_OR
                                          : IR_XOR],
                IR_MASK, emitter_take(e, i), a, in_register(b));
}

const node_fn node_writers[IR_OP_COUNT] = {
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
    [IR_EXPONENT] = one_operand,
    [IR_MANTISSA] = one_operand,
    [IR_SCALE] = two_operands,
    [IR_COMPARE] = two_operands,
    [IR_SELECT] = select_node,
    [IR_BOTH] = combine_masks,
    [IR_EITHER] = combine_masks,
    [IR_DIFFER] = combine_masks,
    [IR_NOT] = combine_masks,
    [IR_WIDEN] = one_operand,
    [IR_NARROW] = one_operand,
};
