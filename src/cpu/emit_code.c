/* emit_code.c: a loop over vectors for straight-line nodes.
 *
 * The loop takes as many elements at a time as the widest type has lanes in a vector; narrower types fill part of
 * theirs. Where nodes form long chains, two vectors go side by side. The rest of the elements goes through the same
 * nodes once more, with loads and stores that leave out the lanes beyond the end. Constants and repeated operands are
 * read before the loop as far as registers reach, the others as they are needed. */
#include "cpu/emit_registers.h"

#include <string.h>

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

/* Constants and repeated operands keep registers of their own, from the last one down, the most used first: as many as
 * what is `alive` at once leaves, but some, for most of the others are read from memory as cheaply. */
static void pin(emitter *e, int alive)
{
    const int most = e->evex ? 16 : 5, least = e->evex ? 6 : 5, left = e->registers - alive;
    int16_t uses[LONGEST_NODES] = { 0 };
    for (int i = 0; i < e->ir->count; i++)
        for (int k = 0; k < node_of(e, i)->operands; k++)
            uses[node_of(e, i)->in[k]]++;
    for (int room = left > most ? most : left < least ? least : left; room > 0; room--) {
        int best = -1;
        for (int v = 0; v < e->ir->count; v++)
            if (is_invariant(node_of(e, v)) && !e->pinned[v] && uses[v] && (best < 0 || uses[v] > uses[best]))
                best = v;
        if (best < 0)
            return;
        e->pinned[best] = true;
        e->registers--;
        e->reg[best] = (int8_t)e->registers;
        emitter_read_invariant(e, best, e->registers);
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
    emitter_unlock(e);
    plan_uses(e);
}

static void write_nodes(emitter *e, bool tail)
{
    e->tail = tail;
    reset(e);
    for (int i = 0; i < e->ir->count; i++) {
        const node_fn write = is_written(e, i) ? node_writers[node_of(e, i)->op] : NULL;
        if (write)
            write(e, i);
        emitter_unlock(e);
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
        put_alu_number(e->b, ALU_AND, SCRATCH, (1 << e->lanes) - 1); /* bytes have more lanes than doubles */
        put_mask_from(e->b, TAIL_MASK, SCRATCH);
        return;
    }
    put_move(e->b, COUNTER, COUNT);
    put_negate(e->b, COUNTER);
    put_load_address(e->b, SCRATCH, in_pool(e->header + ONES, false));
    emitter_put(e, &emit_load, IR_F32, TAIL_LANES, 0, at_index(SCRATCH, COUNTER, 4));
    if (e->ir->types[IR_F64] || e->lane_bytes == 8)
        put_vector(e->b, emit_load.of[1], VEX_256, TAIL_LANES + 1, 0, at_index(SCRATCH, COUNTER, 8), NO_IMMEDIATE);
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
    return ir->deepest > DEEP && most_alive(ir) <= (evex ? 14 : 4) ? 2 : 1;
}

/* What is asked for one by one, between much that is computed, does not queue up. */
static void look_ahead(emitter *e, int places, int step)
{
    enum { MUCH = 48, LINE = 64 };
    const int lines = step * e->lane_bytes < LINE ? 1 : step * e->lane_bytes / LINE;
    for (int k = 0; k < EMIT_AHEAD && e->ir->count >= MUCH; k++) {
        put_load(e->b, SCRATCH, at_base(TABLE, (places + k) * 8));
        for (int i = 0; i < lines; i++) {
            operand at = at_index(SCRATCH, INDEX, e->lane_bytes);
            at.displacement = i * LINE;
            put_prefetch(e->b, at);
        }
    }
}

static void write_function(emitter *e, int copies, int alive, int places)
{
    code_buffer *b = e->b;
    const int step = e->lanes * copies;
    size_t frame;
    open_frame(e, &frame);
    point(e);
    pin(e, alive);
    put_set(b, INDEX, 0);
    put_alu_number(b, ALU_SUB, COUNT, step);
    size_t few = put_jump_if(b, IF_LESS);
    put_padding(b, 16);
    size_t again = b->size;
    write_nodes(e, false);
    look_ahead(e, places, step);
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

size_t emit_function(code_buffer *b, const ir_code *ir, isa_level level, int places)
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
    write_function(&e, fits ? copies : 1, most_alive(e.ir), places);
    return entry;
}
