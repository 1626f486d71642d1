/* emit_registers.c: registers, slots on the stack, and the addresses of places. */
#include "cpu/emit_registers.h"

#include <string.h>

const lane_ops emit_load = PS_PD(0x10), emit_store = PS_PD(0x11);
const lane_ops emit_broadcast = { { { MAP_0F38, PP_66, 0x18, false }, { MAP_0F38, PP_66, 0x19, true } } };

static const vector_op kmovw_load = { MAP_0F, PP_NONE, 0x90, false }, kmovw_store = { MAP_0F, PP_NONE, 0x91, false };

/* --- addresses --------------------------------------------------------------------------------------------------- */

/* The register that holds the address of the place; a place without one uses SCRATCH until the next. */
int emitter_pointer(emitter *e, int32_t place)
{
    for (int i = 0; i < e->pointers; i++)
        if (e->place[i] == place)
            return pointer_registers[i];
    put_load(e->b, SCRATCH, at_base(TABLE, place * 8));
    return SCRATCH;
}

operand emitter_at_place(emitter *e, const ir_node *n, int size)
{
    operand o = at_index(emitter_pointer(e, n->place), INDEX, size);
    o.displacement = n->copy * e->lanes * size;
    return o;
}
static operand at_slot(int slot) { return at_base(RSP, SLOT_BYTES * (slot + 1)); }

/* --- registers --------------------------------------------------------------------------------------------------- */

void emitter_put(emitter *e, const lane_ops *op, ir_type t, int reg, int first, operand last)
{
    put_vector(e->b, op->of[is_wide(e, t)], form_of(e, t), reg, first, last, NO_IMMEDIATE);
}

/* AVX2's has no W bit. */
void emitter_broadcast(emitter *e, ir_type t, int reg, operand from)
{
    vector_op op = emit_broadcast.of[is_wide(e, t)];
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
        emitter_put(e, &emit_store, t, e->reg[v], 0, at_slot(e->slot[v]));
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

int emitter_take(emitter *e, int v)
{
    reg_class c = class_of(e, v);
    int r = free_register(e, c);
    e->holds[c][r] = (int16_t)v;
    e->reg[v] = (int8_t)r;
    return r;
}

/* For the length of one node. */
int emitter_take_passing(emitter *e)
{
    int r = free_register(e, CLASS_VECTOR);
    e->locked[CLASS_VECTOR][r] = true;
    return r;
}

void emitter_unlock(emitter *e) { memset(e->locked, 0, sizeof e->locked); }

void emitter_read_invariant(emitter *e, int v, int r)
{
    const ir_node *n = node_of(e, v);
    ir_type t = (ir_type)n->type;
    if (n->op == IR_REPEAT)
        emitter_broadcast(e, t, r, at_base(emitter_pointer(e, n->place), 0));
    else if (e->evex)
        emitter_broadcast(e, t, r, in_pool(e->pool[v], false));
    else
        emitter_put(e, &emit_load, t, r, 0, in_pool(e->pool[v], false));
}

int emitter_fetch(emitter *e, int v)
{
    reg_class c = class_of(e, v);
    if (e->reg[v] < 0) {
        int r = emitter_take(e, v);
        if (is_invariant(node_of(e, v)))
            emitter_read_invariant(e, v, r);
        else if (c == CLASS_MASK)
            put_vector(e->b, kmovw_load, VEX_128, r, 0, at_slot(e->slot[v]), NO_IMMEDIATE);
        else
            emitter_put(e, &emit_load, (ir_type)node_of(e, v)->type, r, 0, at_slot(e->slot[v]));
    }
    e->locked[c][e->reg[v]] = true;
    return e->reg[v];
}

/* The value as the last operand of an instruction: in memory if that is where it is. */
operand emitter_source(emitter *e, int v)
{
    const ir_node *n = node_of(e, v);
    if (e->reg[v] < 0 && class_of(e, v) == CLASS_VECTOR) {
        if (n->op == IR_NUMBER)
            return in_pool(e->pool[v], e->evex);
        if (!is_invariant(n))
            return at_slot(e->slot[v]);
    }
    return in_register(emitter_fetch(e, v));
}

/* Node i has its operands: those that it was the last to use leave their registers. */
void emitter_let_go(emitter *e, int i)
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
    emitter_unlock(e);
}

bool emitter_ends_at(const emitter *e, int v, int i)
{
    const ir_node *n = node_of(e, i);
    for (int k = 0; k < n->operands; k++)
        if (n->in[k] == v && e->after[i][k] != NEVER && e->after[i][k] != i)
            return false;
    return !e->pinned[v];
}
