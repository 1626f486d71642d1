/* programs.c: the programs of a plan's groups, and the views that these bind them to.
 *
 * A loop's steps compute the same over other memory: groups of the same steps, with ports of the same layouts, share
 * one program, which is made, gets machine code, and lies in the caches once. What differs is what the ports are bound
 * to.
 *
 * Invariant: a program is known by all that it is made from, so who finds one would have made its equal. */
#include "graph/builder.h"

#include <string.h>

#include "core/memory.h"
#include "graph/desk.h"

enum { SHARED_STEPS = 16, SHARED_PORTS = 32 }; /* longer ones are not looked for */

typedef struct known_program {
    uint64_t hash;
    program_text text; /* ports and steps are below */
    int number;        /* among the plan's */
    int next;          /* 1 + the next one in its bucket */
    plan_view ports[SHARED_PORTS];
    bool writes[SHARED_PORTS];
    ew_step steps[SHARED_STEPS];
} known_program;

/* A port's strides over the group's sizes: zero where an operand is repeated, as a constant is everywhere. */
void port_view(view *to, bk_dtype dtype, const layout *l, const layout *plain)
{
    int lead = plain->ndim - l->ndim;
    to->data = NULL;
    to->dtype = dtype;
    to->ndim = plain->ndim;
    for (int d = 0; d < plain->ndim; d++) {
        to->sizes[d] = plain->sizes[d];
        to->strides[d] = d >= lead && l->sizes[d - lead] == plain->sizes[d] ? l->strides[d - lead] : 0;
    }
}

static int32_t final_place(const program_text *text, int32_t place)
{
    return place < 0 ? text->port_count + ~place : place;
}

static ew_program *make(const program_text *text)
{
    size_t ports = (size_t)text->port_count, steps = (size_t)text->step_count;
    ew_program *q = mem_alloc_zero(sizeof *q + ports * sizeof(ew_port) + steps * sizeof(ew_step));
    view *views = q ? desk_take(ports * sizeof *views) : NULL;
    if (!views) {
        mem_free(q);
        return NULL;
    }
    q->port = (ew_port *)(q + 1);
    q->step = (ew_step *)(q->port + ports);
    q->ports = text->port_count;
    q->steps = text->step_count;
    q->registers = text->registers;
    for (size_t s = 0; s < steps; s++) {
        ew_step t = text->steps[s];
        q->step[s] = ew_step_at(t, final_place(text, t.to), final_place(text, t.x), final_place(text, t.y),
                                final_place(text, t.z));
    }
    for (size_t i = 0; i < ports; i++)
        port_view(&views[i], text->ports[i].dtype, text->ports[i].layout, text->plain);
    view rows;
    port_view(&rows, BK_FLOAT32, text->plain, text->plain);
    program_shape(q, views, text->writes, text->leader >= 0 ? &views[text->leader] : text->by_rows ? &rows : NULL);
    return q;
}

static ew_program *make_for(program_table *t, plan *made, const program_text *text)
{
    if (made->program_count == t->room) {
        int room = t->room ? t->room * 2 : 8;
        shared_program *grown = mem_resize(made->programs, (size_t)room * sizeof *grown);
        if (!grown)
            return NULL;
        made->programs = grown;
        t->room = room;
    }
    ew_program *q = make(text);
    if (q)
        made->programs[made->program_count++] = (shared_program){ q, 1 };
    return q;
}

/* --- those that are known ----------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9E3779B97F4A7C15ull;
    return h ^ h >> 32;
}

static uint64_t hash_of(const program_text *text)
{
    uint64_t h = mix((uint64_t)text->port_count << 32 | (uint32_t)text->step_count, (uintptr_t)text->plain);
    for (int i = 0; i < text->port_count; i++)
        h = mix(h, text->ports[i].layout->id);
    for (int i = 0; i < text->step_count; i++) {
        const ew_step *s = &text->steps[i];
        h = mix(h, (uint64_t)s->op << 56 ^ (uint64_t)(uint32_t)s->to << 32 ^ (uint64_t)(uint32_t)s->x << 16 ^
                       (uint32_t)s->y);
    }
    return h;
}

static bool is_text_of(const program_text *a, const known_program *known)
{
    const program_text *b = &known->text;
    if (a->plain != b->plain || a->port_count != b->port_count || a->step_count != b->step_count ||
        a->registers != b->registers || a->by_rows != b->by_rows || a->leader != b->leader)
        return false;
    for (int i = 0; i < a->port_count; i++)
        if (a->ports[i].layout != known->ports[i].layout || a->ports[i].dtype != known->ports[i].dtype ||
            a->writes[i] != known->writes[i])
            return false;
    return !memcmp(a->steps, known->steps, (size_t)a->step_count * sizeof *a->steps);
}

/* To be found again. */
static bool remember(program_table *t, const plan *made, const program_text *text, uint64_t hash)
{
    if (t->count == t->capacity) {
        int capacity = t->capacity ? t->capacity * 2 : 8;
        known_program *grown = desk_grow(t->known, (size_t)t->count * sizeof *grown, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        t->known = grown;
        t->capacity = capacity;
    }
    known_program *k = &t->known[t->count++];
    int *bucket = &t->bucket[hash % (sizeof t->bucket / sizeof *t->bucket)];
    *k = (known_program){ .hash = hash, .text = *text, .number = made->program_count - 1, .next = *bucket };
    memcpy(k->ports, text->ports, (size_t)text->port_count * sizeof *k->ports);
    memcpy(k->writes, text->writes, (size_t)text->port_count * sizeof *k->writes);
    memcpy(k->steps, text->steps, (size_t)text->step_count * sizeof *k->steps);
    *bucket = t->count;
    return true;
}

const ew_program *program_for(program_table *t, plan *made, const program_text *text)
{
    if (text->step_count > SHARED_STEPS || text->port_count > SHARED_PORTS)
        return make_for(t, made, text);
    uint64_t hash = hash_of(text);
    for (int k = t->bucket[hash % (sizeof t->bucket / sizeof *t->bucket)]; k; k = t->known[k - 1].next) {
        const known_program *known = &t->known[k - 1];
        if (known->hash != hash || !is_text_of(text, known))
            continue;
        made->programs[known->number].groups++;
        return made->programs[known->number].program;
    }
    const ew_program *q = make_for(t, made, text);
    return q && remember(t, made, text, hash) ? q : NULL;
}

/* --- views -------------------------------------------------------------------------------------------------------- */

plan_view *plan_views(plan *made, int count)
{
    enum { BLOCK = 160 }; /* about a page */
    view_block *b = made->views;
    if (!b || b->capacity - b->count < count) {
        int capacity = count > BLOCK ? count : BLOCK;
        b = mem_alloc(sizeof *b + (size_t)capacity * sizeof *b->views);
        if (!b)
            return NULL;
        *b = (view_block){ .next = made->views, .capacity = capacity };
        made->views = b;
    }
    b->count += count;
    return b->views + b->count - count;
}
