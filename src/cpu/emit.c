/* emit.c: which steps of a program become code, where code lives, and who shares it.
 *
 * Code is found by what it computes: the steps with their places, and which ports are repeated. So the groups of all
 * time steps of a loop share one piece, also with other plans. A piece is freed with the last program that has it.
 *
 * Pages are written first and made executable then, never both at once, and never written again: other threads may be
 * running what is in them. So the pieces of one session share a block of pages of their own. Invariant: a block is
 * mapped as long as one of its pieces is alive; all blocks together stay below MOST_BYTES, beyond which nothing is
 * made. */
#include "cpu/emit.h"

#include <stdlib.h>
#include <string.h>

#include "core/memory.h"

#if defined(__x86_64__) && (defined(__linux__) || defined(__FreeBSD__))
#include <sys/mman.h>
#include <unistd.h>
#define CAN_EMIT 1
#else
#define CAN_EMIT 0
#endif

enum {
    BUCKETS = 1024,
    MOST_STEPS = 2048, /* longer programs are interpreted: tables are on the stack */
    MOST_PLACES = 4096,
    DEEPEST = 100,
    FEW = 12, /* nodes */
};
static const int64_t MOST_BYTES = (int64_t)32 << 20;

typedef struct code_block {
    uint8_t *bytes;
    size_t mapped;
    int64_t pieces;
} code_block;

static struct {
    emitted *bucket[BUCKETS];
    emit_counts counts;
    int policy;   /* + 1; 0: not asked yet */
    bool refused; /* the system lets no memory become executable: it is not asked again */
} table;

emit_counts emit_count(void) { return table.counts; }
void emit_set_policy(emit_policy policy) { table.policy = (int)policy + 1; }

emit_policy emit_get_policy(void)
{
    if (!table.policy) {
        const char *text = getenv("BRISK_EMIT");
        emit_set_policy(!text || !*text ? EMIT_WHAT_PAYS : !strcmp(text, "0") ? EMIT_NEVER : EMIT_ALWAYS);
    }
    return (emit_policy)(table.policy - 1);
}

/* --- which steps ------------------------------------------------------------------------------------------------- */

/* Kernels of bools take a vector of bytes at a time: code, which has a lane for each, is no faster. */
static bool has_numbers(const ew_program *p)
{
    for (int i = 0; i < p->steps; i++)
        if (p->step[i].kind != EW_STEP_OP || p->step[i].type != COMPUTE_BOOL)
            return true;
    return false;
}

/* Marks the steps that will be code: runs of two or more that have one, or a program of one. */
static int choose(const ew_program *p, bool *code)
{
    int chosen = 0;
    if (!has_numbers(p))
        return 0;
    for (int i = 0, end; i < p->steps; i = end) {
        for (end = i; end < p->steps && ir_knows(&p->step[end]); end++)
            ;
        const bool pays = end - i > 1 || end - i == p->steps;
        end += end == i;
        for (int k = i; k < end; k++)
            code[k] = pays;
        chosen += pays ? end - i : 0;
    }
    return chosen;
}

/* Every row of every port can be read and written where it lies, and nothing else is gained by tiles of several rows.
 */
static bool runs_straight(const ew_program *p)
{
    enum { LONG_ROW = 64 };
    bool gathers = false;
    for (int i = 0; i < p->ports; i++) {
        const ew_port *port = &p->port[i];
        int64_t stride = port->strides[p->ndim - 1];
        if (stride != port->size && (stride || port->writes || port->size < 4))
            return false;
        gathers |= port->mode == PORT_GATHER;
    }
    return p->rows_per_tile == 1 || (gathers && p->inner >= LONG_ROW);
}

static bool same_for_all_rows(const ew_program *p, const ew_port *port)
{
    for (int d = 0; d < p->ndim - 1; d++)
        if (port->strides[d])
            return false;
    return true;
}

/* Ports of which the code reads one element per row. What the interpreter reads, too, is laid out in full. */
static void find_repeated(ew_program *p, const bool *code)
{
    for (int i = 0; i < p->ports; i++) {
        ew_port *port = &p->port[i];
        port->repeated = !port->writes && port->size >= 4 && port->mode != PORT_LINE &&
                         port->strides[p->ndim - 1] == 0 &&
                         (p->straight || p->rows_per_tile == 1 || same_for_all_rows(p, port));
    }
    for (int i = 0; i < p->steps; i++) {
        const ew_step *s = &p->step[i];
        const int32_t read[] = { s->x, s->y, s->z };
        for (int k = 0; k < 3 && !code[i]; k++)
            if (read[k] < p->ports)
                p->port[read[k]].repeated = false;
    }
}

/* --- parts ------------------------------------------------------------------------------------------------------- */

static bool writes_to(const ew_step *s, int32_t place)
{
    return s->to == place || (s->kind == EW_STEP_TWIN && s->y == place);
}

/* Whether a step from `from` on reads the place before it is written anew. */
static bool read_later(const ew_program *p, int from, int32_t place)
{
    for (int i = from; i < p->steps; i++) {
        const ew_step *s = &p->step[i];
        int arity = s->kind == EW_STEP_OP ? ew_infos[s->op].arity : s->kind == EW_STEP_PAIR ? 3 : 1;
        if (s->x == place || (arity > 1 && s->y == place) || (arity > 2 && s->z == place))
            return true;
        if (writes_to(s, place))
            return false;
    }
    return false;
}

/* Once, however often it was written. */
static void keep_register(ir_code *ir, ir_places *at, int end, int32_t place)
{
    const ew_program *p = at->program;
    if (place < p->ports)
        return;
    if (at->value[place] != IR_NONE && read_later(p, end, place))
        ir_keep(ir, at, place);
    at->value[place] = IR_NONE;
}

/* The nodes of steps [first, end), and of the registers that later steps read; fewer steps if they go too deep. A few
 * nodes are no part of their own: passing tiles to it would cost more than it saves. */
static int write_ir(ir_code *ir, isa_level level, const ew_program *p, const bool *repeated, int first, int end)
{
    int16_t value[MOST_PLACES];
    memset(value, -1, (size_t)(p->ports + p->registers) * sizeof *value);
    ir_places at = { p, repeated, value };
    ir_begin(ir, level);
    int cut = end, before_cut = 0;
    for (int i = first; i < end; i++) {
        int before = ir->count;
        ir_add_step(ir, &at, &p->step[i]);
        if (ir->deepest > DEEPEST && before > FEW && cut == end) {
            cut = i;
            before_cut = before;
        }
        if ((cut < end && ir->count - before_cut > FEW) || (ir->full && i > first))
            return write_ir(ir, level, p, repeated, first, cut < i ? cut : i);
    }
    if (end == p->steps)
        return end;
    for (int i = first; i < end; i++) {
        keep_register(ir, &at, end, p->step[i].to);
        if (p->step[i].kind == EW_STEP_TWIN)
            keep_register(ir, &at, end, p->step[i].y);
    }
    return end;
}

/* A register that a part reads is not yet free for values of another size, which would overwrite elements that later
 * rounds of its loop read. The place of one that is; -1 if there is none. */
static int32_t clash(const ir_code *ir)
{
    for (int i = 0; i < ir->count; i++) {
        const ir_node *n = &ir->node[i];
        for (int k = 0; n->op == IR_STORE && k < ir->count; k++)
            if (ir->node[k].op == IR_LOAD && ir->node[k].place == n->place && ir->node[k].type != n->type)
                return n->place;
    }
    return -1;
}

/* Writes the nodes of as many of the steps [first, end) as can be in one part; returns where it ends. */
static int fit_part(ir_code *ir, isa_level level, const ew_program *p, const bool *repeated, int first, int end)
{
    for (;;) {
        end = write_ir(ir, level, p, repeated, first, end);
        int32_t place = end - first < p->steps ? clash(ir) : -1;
        int at = first + 1;
        while (at < end && !writes_to(&p->step[at], place))
            at++;
        if (place < 0 || at == end)
            return end;
        end = at;
    }
}

/* Adds a part to the list, or lengthens the last one that the interpreter runs. */
static void add_part(emitted *e, int first, int end, size_t entry)
{
    emitted_part *last = e->part_count ? &e->part[e->part_count - 1] : NULL;
    if (!entry && last && !last->run) {
        last->end = end;
        return;
    }
    /* until the code has its place, `run` is where it begins in the buffer */
    e->part[e->part_count++] = (emitted_part){ (emitted_fn)(uintptr_t)entry, first, end };
}

static void write_parts(emit_session *s, emitted *e, const ew_program *p, const bool *code)
{
    ir_code ir;
    for (int i = 0, end; i < p->steps; i = end) {
        for (end = i + 1; end < p->steps && code[end] == code[i]; end++)
            ;
        size_t entry = 0;
        if (code[i]) {
            end = fit_part(&ir, s->level, p, e->repeated, i, end);
            if (!emit_can(&ir, s->level)) {
                e->refused = true;
                return;
            }
            entry = emit_function(&s->code, &ir, s->level, p->ports + p->registers);
        }
        add_part(e, i, end, entry);
    }
}

/* --- the table --------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const ew_program *p)
{
    uint64_t h = (uint64_t)p->ports, word;
    const char *at = (const char *)p->step;
    for (size_t n = (size_t)p->steps * sizeof(ew_step) / 8; n; n--, at += 8) {
        memcpy(&word, at, 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 32;
    }
    for (int i = 0; i < p->ports; i++)
        h = h * 31 + p->port[i].repeated;
    return (h ^ h >> 29) | 1; /* never 0 */
}

static bool same_code(const emitted *e, const ew_program *p, uint64_t hash)
{
    if (e->hash != hash || e->ports != p->ports || e->steps != p->steps ||
        memcmp(e->step, p->step, (size_t)p->steps * sizeof(ew_step)))
        return false;
    for (int i = 0; i < p->ports; i++)
        if (e->repeated[i] != p->port[i].repeated)
            return false;
    return true;
}

static emitted **bucket_of(uint64_t hash) { return &table.bucket[hash / 2 % BUCKETS]; }

static emitted *find(const ew_program *p, uint64_t hash)
{
    emitted *e = *bucket_of(hash);
    while (e && !same_code(e, p, hash))
        e = e->next;
    return e;
}

/* One block: the record, its parts, the steps, the flags. */
static emitted *new_record(const ew_program *p, uint64_t hash)
{
    size_t steps = (size_t)p->steps, ports = (size_t)p->ports;
    size_t bytes = sizeof(emitted) + steps * (sizeof(emitted_part) + sizeof(ew_step)) + ports;
    emitted *e = mem_try(bytes);
    if (!e)
        return NULL;
    *e = (emitted){ .hash = hash, .ports = p->ports, .steps = p->steps };
    e->part = (emitted_part *)(e + 1);
    e->step = (ew_step *)(e->part + steps);
    e->repeated = (bool *)(e->step + steps);
    memcpy(e->step, p->step, steps * sizeof(ew_step));
    for (size_t i = 0; i < ports; i++)
        e->repeated[i] = p->port[i].repeated;
    return e;
}

static void drop_block(code_block *b)
{
#if CAN_EMIT
    if (b && --b->pieces == 0) {
        table.counts.bytes -= (int64_t)b->mapped;
        munmap(b->bytes, b->mapped);
        mem_free(b);
    }
#else
    (void)b;
#endif
}

void emit_release(ew_program *p)
{
    emitted *e = p->emitted;
    p->emitted = NULL;
    if (!e || --e->refs)
        return;
    emitted **link = bucket_of(e->hash);
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    table.counts.pieces--;
    drop_block(e->block);
    mem_free(e);
}

/* --- sessions ---------------------------------------------------------------------------------------------------- */

void emit_begin(emit_session *s, isa_level level) { *s = (emit_session){ .level = level }; }

static emitted *make_code(emit_session *s, const ew_program *p, uint64_t hash, const bool *code)
{
    emitted *e = table.counts.bytes + (int64_t)s->code.size < MOST_BYTES ? new_record(p, hash) : NULL;
    if (!e)
        return NULL;
    write_parts(s, e, p, code);
    e->fresh = s->fresh;
    s->fresh = e;
    e->next = *bucket_of(hash);
    *bucket_of(hash) = e;
    table.counts.pieces++;
    table.counts.made++;
    return e;
}

uint64_t emit_add(emit_session *s, ew_program *p, bool make)
{
    bool code[MOST_STEPS];
    if (!CAN_EMIT || table.refused || p->emitted || s->level == ISA_BASELINE || p->steps > MOST_STEPS ||
        p->ports + p->registers > MOST_PLACES || !p->numel)
        return 0;
    const int chosen = choose(p, code);
    if (!chosen)
        return 0;
    p->straight = chosen == p->steps && runs_straight(p);
    find_repeated(p, code);
    const uint64_t hash = hash_of(p);
    emitted *e = find(p, hash);
    if (!e && make)
        e = make_code(s, p, hash, code);
    if (e)
        e->refs++;
    p->emitted = e;
    return e ? 0 : hash;
}

/* The buffer's bytes as pages that can be run; NULL when the system refuses. */
static code_block *map_code(const code_buffer *code)
{
#if CAN_EMIT
    code_block *b = code->failed || !code->size ? NULL : mem_try(sizeof *b);
    if (!b)
        return NULL;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (code->size + page - 1) / page * page;
    void *bytes = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes != MAP_FAILED) {
        memcpy(bytes, code->bytes, code->size);
        if (mprotect(bytes, mapped, PROT_READ | PROT_EXEC) == 0) {
            *b = (code_block){ .bytes = bytes, .mapped = mapped };
            table.counts.bytes += (int64_t)mapped;
            return b;
        }
        table.refused = true;
        munmap(bytes, mapped);
    }
    mem_free(b);
#else
    (void)code;
#endif
    return NULL;
}

void emit_end(emit_session *s)
{
    code_block *block = map_code(&s->code);
    for (emitted *e = s->fresh; e; e = e->fresh) {
        e->block = e->refused ? NULL : block;
        for (int i = 0; e->block && i < e->part_count; i++)
            if (e->part[i].run)
                e->part[i].run = (emitted_fn)(uintptr_t)(block->bytes + (uintptr_t)e->part[i].run);
        if (e->block)
            block->pieces++;
    }
    if (block && !block->pieces) {
        block->pieces = 1;
        drop_block(block);
    }
    s->fresh = NULL;
    code_free(&s->code);
}
