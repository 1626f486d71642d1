/* test_emit.c: emitted code gives, bit for bit, what the interpreter gives.
 *
 * Programs are thrown at random over every op that has code (and some that have none), in every type, over ports that
 * are lines, one element for all, rows of fewer sizes and parts of wider rows, some outputs in the memory of an input,
 * at every level the machine has. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "brisk.h"
#include "core/memory.h"
#include "cpu/emit.h"
#include "graph/plan.h"
#include "tap.h"

enum { INPUTS = 5, OUTPUTS = 2, PORTS = INPUTS + OUTPUTS, REGISTERS = 9, STEPS = 30, MOST = 4200 };

static uint32_t state = 1;
static int dice(int sides)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (uint32_t)sides);
}

/* --- values ------------------------------------------------------------------------------------------------------ */

static const double special[] = { 0.0,      -0.0,      1,         -1,    INFINITY, -INFINITY, NAN,
                                  0x1p-149, -0x1p-130, 0x1p-126,  88.7,  89.1,     -104,      -103.9,
                                  3e38,     -3e38,     0x1p-1030, 1e300, 0.5,      2.5 };
enum { SPECIALS = sizeof special / sizeof *special };

static double throw_value(void)
{
    int kind = dice(16);
    if (kind == 0)
        return special[dice(SPECIALS)];
    double v = (dice(1 << 20) - (1 << 19)) / (double)(1 << 17);
    return kind < 3 ? v * 30 : kind < 5 ? floor(v) : v;
}

static void fill(void *to, bk_dtype d, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (d == BK_FLOAT32)
            ((float *)to)[i] = (float)throw_value();
        else if (d == BK_FLOAT64)
            ((double *)to)[i] = throw_value();
        else
            ((uint8_t *)to)[i] = (uint8_t)dice(2);
}

/* The same bits, or both NaN: which of two NaN an instruction gives is up to the compiler's order of operands. */
static bool same_bits(const void *a, const void *b, bk_dtype d, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (d == BK_FLOAT32) {
            float x = ((const float *)a)[i], y = ((const float *)b)[i];
            if (memcmp(&x, &y, sizeof x) && !(isnan(x) && isnan(y)))
                return printf("# element %d is %a, not %a\n", (int)i, x, y), false;
        } else if (d == BK_FLOAT64) {
            double x = ((const double *)a)[i], y = ((const double *)b)[i];
            if (memcmp(&x, &y, sizeof x) && !(isnan(x) && isnan(y)))
                return printf("# element %d is %a, not %a\n", (int)i, x, y), false;
        } else if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i]) {
            return printf("# element %d is %d, not %d\n", (int)i, ((const uint8_t *)a)[i], ((const uint8_t *)b)[i]),
                   false;
        }
    }
    return true;
}

/* --- programs ---------------------------------------------------------------------------------------------------- */

typedef struct program_data {
    ew_program p;
    ew_port port[PORTS];
    ew_step step[STEPS + OUTPUTS];
    bk_dtype dtype[PORTS + REGISTERS]; /* what a place holds now; of ports, for good */
    bool has[PORTS + REGISTERS];
    bool aliased; /* an output is written over an input */
} program_data;

/* A place of this dtype that has a value; -1 when there is none. */
static int32_t place_of(const program_data *d, bk_dtype dtype)
{
    int32_t found[PORTS + REGISTERS];
    int count = 0;
    for (int32_t i = 0; i < PORTS + REGISTERS; i++)
        if (d->has[i] && d->dtype[i] == dtype)
            found[count++] = i;
    return count ? found[dice(count)] : -1;
}

static bk_dtype dtype_of(compute_type c)
{
    return c == COMPUTE_F32 ? BK_FLOAT32 : c == COMPUTE_F64 ? BK_FLOAT64 : BK_BOOL;
}

/* The step with operands that exist, into `to`; false when some do not. */
static bool set_step(program_data *d, const ew_table *t, ew_op op, compute_type c, int32_t to)
{
    bk_dtype in = dtype_of(c), first = ew_infos[op].rule == EW_SELECT ? BK_BOOL : in;
    bk_dtype out = ew_gives_bool(op) ? BK_BOOL : in;
    int32_t x = place_of(d, first), y = place_of(d, in), z = place_of(d, in);
    if (!t->op[op][c] || x < 0 || y < 0 || (to < PORTS && d->dtype[to] != out))
        return false;
    for (int32_t r = PORTS; r < PORTS + REGISTERS; r++) /* in place only within one size, as the builder does it */
        if (r == to && ((x == r && first != out) || ((y == r || z == r) && in != out)))
            return false;
    d->step[d->p.steps++] = ew_step_at(ew_step_op(t, op, c), to, x, y, z);
    d->has[to] = true;
    d->dtype[to] = out;
    return true;
}

static bool set_cast(program_data *d, const ew_table *t, bk_dtype from, bk_dtype out, int32_t to)
{
    int32_t x = place_of(d, from);
    if (x < 0 || x == to || (to < PORTS && d->dtype[to] != out))
        return false;
    d->step[d->p.steps++] = ew_step_at(ew_step_cast(t, from, out), to, x, x, x);
    d->has[to] = true;
    d->dtype[to] = out;
    return true;
}

static bool has_code(ew_op op, compute_type c)
{
    ew_step s = ew_step_op(ew_table_of(ISA_BASELINE), op, c);
    return s.run && ir_knows(&s);
}

/* `types`: bits of float32, float64; bools are always there. Few of the ops have no code. */
static void throw_program(program_data *d, const ew_table *t, int types)
{
    static const bk_dtype dtypes_of[] = { BK_FLOAT32, BK_FLOAT32, BK_FLOAT64, BK_FLOAT32 };
    memset(d, 0, sizeof *d);
    d->p = (ew_program){ .ports = PORTS, .registers = REGISTERS, .port = d->port, .step = d->step };
    const bk_dtype main_type = dtypes_of[types];
    for (int i = 0; i < PORTS; i++)
        d->dtype[i] = dice(4) == 0 ? BK_BOOL : types == 3 && dice(2) ? BK_FLOAT64 : main_type;
    d->dtype[0] = main_type;
    for (int i = 0; i < INPUTS; i++)
        d->has[i] = true;
    const int steps = 1 + dice(STEPS - 1), strange = dice(3) == 0;
    for (int tries = 0; d->p.steps < steps && tries < 1000; tries++) {
        ew_op op = (ew_op)dice(EW_COUNT);
        compute_type c = (compute_type[]){ COMPUTE_F32, COMPUTE_F64, COMPUTE_BOOL }[dice(3)];
        if ((c == COMPUTE_F32 && !(types & 1)) || (c == COMPUTE_F64 && !(types & 2)))
            continue;
        if (op == EW_copysign) /* the sign of a NaN is open; single_ops has it */
            continue;
        if (!has_code(op, c) && !(strange && (op == EW_exp2 || op == EW_mish || op == EW_sin) && dice(2)))
            continue;
        int32_t to = dice(6) == 0 ? INPUTS + dice(OUTPUTS) : PORTS + dice(REGISTERS);
        if (dice(8) == 0)
            set_cast(d, t, (bk_dtype[]){ BK_BOOL, BK_FLOAT32, BK_FLOAT64 }[dice(types == 3 ? 3 : 2)], main_type, to);
        else
            set_step(d, t, op, c, to);
    }
    for (int o = INPUTS; o < PORTS; o++)
        if (!d->has[o] && !set_cast(d, t, d->dtype[o], d->dtype[o], o))
            set_cast(d, t, main_type, d->dtype[o], o);
}

/* --- running ----------------------------------------------------------------------------------------------------- */

typedef struct memory {
    char *ours[PORTS], *theirs[PORTS]; /* of the interpreter */
} memory;

static void take_memory(memory *m)
{
    for (int i = 0; i < PORTS; i++) {
        m->ours[i] = malloc(MOST * 8);
        m->theirs[i] = malloc(MOST * 8);
    }
}

static void give_memory(memory *m)
{
    for (int i = 0; i < PORTS; i++) {
        free(m->ours[i]);
        free(m->theirs[i]);
    }
}

static void give_code(ew_program *p, isa_level level)
{
    emit_session s;
    emit_begin(&s, level);
    emit_add(&s, p, true);
    emit_end(&s);
}

/* Rows and columns; inputs may be repeated in either or both, and what is not may be part of wider rows. */
static void throw_views(const program_data *d, int64_t rows, int64_t columns, view *views)
{
    for (int i = 0; i < PORTS; i++) {
        int64_t gap = dice(4) == 0 ? 3 : 0;
        views[i] =
            (view){ .dtype = d->dtype[i], .ndim = 2, .sizes = { rows, columns }, .strides = { columns + gap, 1 } };
        int how = i > 0 && i < INPUTS ? dice(8) : 8;
        if (how < 2 || how == 3)
            views[i].strides[1] = 0;
        if (how < 3)
            views[i].strides[0] = 0;
    }
}

static int64_t extent(const view *v)
{
    int64_t last = 0;
    for (int k = 0; k < 2; k++)
        last += (v->sizes[k] - 1) * v->strides[k];
    return last + 1;
}

/* An input that output o may be written over, as the planner does it: of its dtype, whole, and read by no step after
 * the first that writes o. -1: none. */
static int over(const program_data *d, const view *views, int o)
{
    int last[PORTS] = { 0 }, first = d->p.steps;
    for (int i = 0; i < d->p.steps; i++) {
        const ew_step *s = &d->step[i];
        const int32_t read[] = { s->x, s->y, s->z };
        for (int k = 0; k < 3; k++)
            if (read[k] >= 0 && read[k] < PORTS)
                last[read[k]] = i;
        if (s->to == o && i < first)
            first = i;
    }
    for (int i = 0; i < INPUTS; i++)
        if (last[i] <= first && d->dtype[i] == d->dtype[o] && views[i].strides[0] && views[i].strides[1])
            return i;
    return -1;
}

/* Runs it both ways, whole or in ranges; returns whether all memory is the same. */
static bool run_both(program_data *d, isa_level level, int64_t rows, int64_t columns, memory *m)
{
    view views[PORTS];
    bool writes[PORTS] = { 0 };
    throw_views(d, rows, columns, views);
    for (int i = 0; i < PORTS; i++) {
        writes[i] = i >= INPUTS;
        fill(m->ours[i], d->dtype[i], MOST);
        memcpy(m->theirs[i], m->ours[i], MOST * dtype_size(d->dtype[i]));
    }
    char *ours[PORTS], *theirs[PORTS];
    memcpy(ours, m->ours, sizeof ours);
    memcpy(theirs, m->theirs, sizeof theirs);
    const int o = INPUTS + dice(OUTPUTS), under = dice(3) ? -1 : over(d, views, o);
    if (under >= 0) {
        views[o] = views[under];
        ours[o] = ours[under];
        theirs[o] = theirs[under];
        d->aliased = true;
    }
    program_shape(&d->p, views, writes, NULL);
    int64_t numel = rows * columns;
    program_run(&d->p, theirs);
    give_code(&d->p, level);
    if (dice(2)) {
        program_run(&d->p, ours);
    } else {
        int64_t cut = numel ? dice((int)numel + 1) : 0;
        program_run_range(&d->p, ours, 0, cut);
        program_run_range(&d->p, ours, cut, numel);
    }
    bool same = true;
    for (int i = 0; i < PORTS; i++)
        if (!(extent(&views[i]) <= MOST && same_bits(ours[i], theirs[i], d->dtype[i], MOST)))
            printf("# port %d, rows %d of %d, strides %d %d\n", i, (int)rows, (int)columns, (int)views[i].strides[0],
                   (int)views[i].strides[1]),
                same = false;
    return same;
}

static void describe(const program_data *d)
{
    for (int i = 0; i < d->p.steps; i++) {
        const ew_step *s = &d->p.step[i];
        printf("# %s kind %d type %d: %d = %d %d %d\n", s->kind == EW_STEP_OP ? ew_infos[s->op].name : "-", s->kind,
               s->type, s->to, s->x, s->y, s->z);
    }
}

static void random_programs(isa_level level, int types, const char *name)
{
    memory m;
    take_memory(&m);
    int different = 0, coded = 0, straight = 0, aliased = 0;
    enum { ROUNDS = 3000 };
    for (int round = 0; round < ROUNDS; round++) {
        program_data d;
        throw_program(&d, ew_table_of(level), types);
        int64_t rows = dice(3) ? 1 : 1 + dice(12),
                columns = round < 700 ? round % 71 + (rows > 1) : 1 + dice(rows > 1 ? 300 : 4000);
        bool same = run_both(&d, level, rows, columns, &m);
        coded += emit_runs(&d.p);
        straight += emit_runs(&d.p) && d.p.straight;
        aliased += emit_runs(&d.p) && d.aliased;
        if (!same && !different++)
            describe(&d);
        emit_release(&d.p);
    }
    tap_ok(different == 0, "%s: programs in %s give the interpreter's bits (%d differ)", isa_name(level), name,
           different);
    int least = types == 3 && level == ISA_AVX2 ? ROUNDS / 20 : ROUNDS / 2; /* AVX2 has no masks of two widths */
    tap_ok(coded > least && straight > least / 4 && aliased > least / 20,
           "%s: and many of them are code (%d, straight %d, over an operand %d)", isa_name(level), coded, straight,
           aliased);
    give_memory(&m);
}

/* Every op by itself, over all pairs of special values and many others. */
static void single_ops(isa_level level, compute_type c, const char *name)
{
    enum { N = SPECIALS * SPECIALS * 4 };
    memory m;
    take_memory(&m);
    int ops = 0, different = 0;
    const bk_dtype in = dtype_of(c);
    for (int op = 0; op < EW_COUNT; op++) {
        if (!has_code((ew_op)op, c))
            continue;
        const bk_dtype dtype[4] = { ew_infos[op].rule == EW_SELECT ? BK_BOOL : in, in, in,
                                    ew_gives_bool((ew_op)op) ? BK_BOOL : in };
        view views[4];
        for (int i = 0; i < 4; i++) {
            views[i] = (view){ .dtype = dtype[i], .ndim = 1, .sizes = { N }, .strides = { 1 } };
            fill(m.ours[i], dtype[i], N);
            for (int k = 0; k < N / 2 && in != BK_BOOL; k++) {
                double v = special[i == 0 ? k % SPECIALS : i == 1 ? k / SPECIALS % SPECIALS : dice(SPECIALS)];
                if (dtype[i] == BK_FLOAT32)
                    ((float *)m.ours[i])[k] = (float)v;
                else if (dtype[i] == BK_FLOAT64)
                    ((double *)m.ours[i])[k] = v;
            }
        }
        ew_port port[4];
        ew_step step = ew_step_at(ew_step_op(ew_table_of(level), op, c), 3, 0, 1, 2);
        ew_program p = { .ports = 4, .steps = 1, .port = port, .step = &step };
        program_shape(&p, views, (bool[]){ [3] = true }, NULL);
        program_run(&p, (char *[]){ m.ours[0], m.ours[1], m.ours[2], m.theirs[3] });
        give_code(&p, level);
        program_run(&p, m.ours);
        ops += emit_runs(&p);
        if (!same_bits(m.ours[3], m.theirs[3], dtype[3], N) && ++different)
            printf("# %s differs\n", ew_infos[op].name);
        emit_release(&p);
    }
    tap_ok(!different && (ops > 20 || c == COMPUTE_BOOL), "%s: each of %d ops of %s gives the interpreter's bits",
           isa_name(level), ops, name);
    give_memory(&m);
}

/* A function and its slope of one operand are one step, of which one result waits in a register. */
static void twins(isa_level level)
{
    enum { X, Y, OUT, SLOPE, TWIN_PORTS, R0 = TWIN_PORTS, R1, N = 1234 };
    const ew_table *t = ew_table_of(level);
    ew_step step[] = { ew_step_at(ew_step_op(t, EW_add, COMPUTE_F32), R0, X, Y, 0),
                       ew_step_at(ew_step_op(t, EW_gelu, COMPUTE_F32), OUT, R0, 0, 0),
                       ew_step_at(ew_step_op(t, EW_exp2, COMPUTE_F32), R1, Y, 0, 0),
                       ew_step_at(ew_step_op(t, EW_gelu_slope, COMPUTE_F32), R0, R0, 0, 0),
                       ew_step_at(ew_step_op(t, EW_mul, COMPUTE_F32), SLOPE, R0, R1, 0) };
    ew_port port[TWIN_PORTS];
    ew_program p = { .ports = TWIN_PORTS, .registers = 2, .steps = 5, .port = port, .step = step };
    view views[TWIN_PORTS];
    memory m;
    take_memory(&m);
    for (int i = 0; i < TWIN_PORTS; i++) {
        views[i] = (view){ .dtype = BK_FLOAT32, .ndim = 1, .sizes = { N }, .strides = { 1 } };
        fill(m.ours[i], BK_FLOAT32, N);
        memcpy(m.theirs[i], m.ours[i], N * sizeof(float));
    }
    program_shape(&p, views, (bool[TWIN_PORTS]){ [OUT] = true, [SLOPE] = true }, NULL);
    bool twin = false;
    for (int i = 0; i < p.steps; i++)
        twin |= p.step[i].kind == EW_STEP_TWIN;
    program_run(&p, m.theirs);
    give_code(&p, level);
    program_run(&p, m.ours);
    tap_ok((twin || level != isa_current()) && emit_runs(&p) && same_bits(m.ours[OUT], m.theirs[OUT], BK_FLOAT32, N) &&
               same_bits(m.ours[SLOPE], m.theirs[SLOPE], BK_FLOAT32, N),
           "%s: gelu and its slope in one step give the interpreter's bits", isa_name(level));
    emit_release(&p);
    give_memory(&m);
}

/* --- bytes of instructions -----------------------------------------------------------------------------------------
 */

/* What an assembler writes for the same. */
static void known_encodings(void)
{
    const vector_form ymm = { .length = 1 }, xmm_e = { .evex = true }, zmm = { .evex = true, .length = 2 };
    const vector_form zmm_k2 = { .evex = true, .length = 2, .mask = 2 };
    const vector_form xmm_k6z = { .evex = true, .mask = 6, .zeroing = true };
    const vector_form zmm_k7z = { .evex = true, .length = 2, .mask = 7, .zeroing = true };
    operand far = at_index(R9, RAX, 4);
    far.displacement = 0x12345;
    const struct {
        const char *text;
        vector_op op;
        vector_form form;
        int reg, first;
        operand last;
        int immediate;
        uint8_t bytes[12];
    } rows[] = {
        { "vaddps ymm3, ymm12, ymm9",
          { MAP_0F, PP_NONE, 0x58, false },
          ymm,
          3,
          12,
          in_register(9),
          NO_IMMEDIATE,
          { 0xc4, 0xc1, 0x1c, 0x58, 0xd9 } },
        { "vaddps zmm17, zmm30, zmm9",
          { MAP_0F, PP_NONE, 0x58, false },
          zmm,
          17,
          30,
          in_register(9),
          NO_IMMEDIATE,
          { 0x62, 0xc1, 0x0c, 0x40, 0x58, 0xc9 } },
        { "vmulpd zmm1, zmm2, zmm31",
          { MAP_0F, PP_66, 0x59, true },
          zmm,
          1,
          2,
          in_register(31),
          NO_IMMEDIATE,
          { 0x62, 0x91, 0xed, 0x48, 0x59, 0xcf } },
        { "vfmadd213pd zmm8, zmm24, zmm4",
          { MAP_0F38, PP_66, 0xa8, true },
          zmm,
          8,
          24,
          in_register(4),
          NO_IMMEDIATE,
          { 0x62, 0x72, 0xbd, 0x40, 0xa8, 0xc4 } },
        { "vblendvps ymm1, ymm2, ymm3, ymm11",
          { MAP_0F3A, PP_66, 0x4a, false },
          ymm,
          1,
          2,
          in_register(3),
          0xb0,
          { 0xc4, 0xe3, 0x6d, 0x4a, 0xcb, 0xb0 } },
        { "vblendmps zmm5{k2}, zmm20, zmm6",
          { MAP_0F38, PP_66, 0x65, false },
          zmm_k2,
          5,
          20,
          in_register(6),
          NO_IMMEDIATE,
          { 0x62, 0xf2, 0x5d, 0x42, 0x65, 0xee } },
        { "vcmpgtps k5, zmm19, zmm2",
          { MAP_0F, PP_NONE, 0xc2, false },
          zmm,
          5,
          19,
          in_register(2),
          14,
          { 0x62, 0xf1, 0x64, 0x40, 0xc2, 0xea, 0x0e } },
        { "vpslld zmm21, zmm30, 23",
          { MAP_0F, PP_66, 0x72, false },
          zmm,
          6,
          21,
          in_register(30),
          23,
          { 0x62, 0x91, 0x55, 0x40, 0x72, 0xf6, 0x17 } },
        { "vptestmb k4, xmm7, xmm7",
          { MAP_0F38, PP_66, 0x26, false },
          xmm_e,
          4,
          7,
          in_register(7),
          NO_IMMEDIATE,
          { 0x62, 0xf2, 0x45, 0x08, 0x26, 0xe7 } },
        { "vmovdqu8 xmm9{k6}{z}, xmm1",
          { MAP_0F, PP_F2, 0x6f, false },
          xmm_k6z,
          9,
          0,
          in_register(1),
          NO_IMMEDIATE,
          { 0x62, 0x71, 0x7f, 0x8e, 0x6f, 0xc9 } },
        { "vmovups zmm4{k7}{z}, [r9 + rax*4 + 0x12345]",
          { MAP_0F, PP_NONE, 0x10, false },
          zmm_k7z,
          4,
          0,
          far,
          NO_IMMEDIATE,
          { 0x62, 0xd1, 0x7c, 0xcf, 0x10, 0xa4, 0x81, 0x45, 0x23, 0x01 } },
        { "vpternlogd zmm3, zmm4, zmm25, 0xd8",
          { MAP_0F3A, PP_66, 0x25, false },
          zmm,
          3,
          4,
          in_register(25),
          0xd8,
          { 0x62, 0x93, 0x5d, 0x48, 0x25, 0xd9, 0xd8 } },
    };
    int wrong = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        code_buffer b = { 0 };
        size_t length = sizeof rows[i].bytes;
        while (!rows[i].bytes[length - 1])
            length--;
        put_vector(&b, rows[i].op, rows[i].form, rows[i].reg, rows[i].first, rows[i].last, rows[i].immediate);
        if (b.size < length || b.size > length + 1 || memcmp(b.bytes, rows[i].bytes, length)) {
            printf("# %s\n", rows[i].text);
            wrong++;
        }
        code_free(&b);
    }
    tap_ok(wrong == 0, "instructions have the bytes that an assembler gives them");
}

/* --- who has code, and when ----------------------------------------------------------------------------------------
 */

/* (x y + z)^2 - y over n elements, and its first one. */
static float evaluate(int64_t n)
{
    bk_scope_push();
    bk_tensor *x = bk_full(1, &n, 1.5, BK_FLOAT32), *y = bk_full(1, &n, 2, BK_FLOAT32),
              *z = bk_full(1, &n, 3, BK_FLOAT32);
    bk_sync();
    bk_tensor *t = bk_sub(bk_square(bk_add(bk_mul(x, y), z)), y);
    bk_sync();
    float first = *(float *)bk_data(t);
    bk_scope_pop();
    return first;
}

static void when_code_is_made(void)
{
    if (isa_current() == ISA_BASELINE)
        return;
    emit_set_policy(EMIT_WHAT_PAYS);
    cache_clear();
    const emit_counts before = emit_count();
    bool right = evaluate(40) == 34 && evaluate(40) == 34 && evaluate(40) == 34;
    tap_ok(right && emit_count().made == before.made, "a plan that runs a few times and is small has no code made");
    for (int i = 0; i < 3000; i++)
        right &= evaluate(40) == 34;
    const int64_t made = emit_count().made - before.made;
    tap_ok(right && made > 0 && emit_count().bytes > before.bytes, "a plan that runs often has");
    for (int i = 0; i < 3000; i++)
        right &= evaluate(40) == 34;
    tap_ok(right && emit_count().made - before.made == made, "but once only");
    right = evaluate(41) == 34;
    tap_ok(right && emit_count().made - before.made == made && emit_count().pieces - before.pieces == made,
           "groups that are alike share code, whatever their sizes");
    cache_clear();
    tap_ok(emit_count().bytes == before.bytes && emit_count().pieces == before.pieces, "code goes with its plans");
    right = evaluate(1 << 20) == 34;
    tap_ok(right && emit_count().made > before.made + made, "a large group has code made for its first run");
    emit_set_policy(EMIT_NEVER);
    cache_clear();
    const int64_t then = emit_count().made;
    right = evaluate(40) == 34 && evaluate(40) == 34 && evaluate(1 << 20) == 34;
    tap_ok(right && emit_count().made == then, "without code the interpreter runs all");
    emit_set_policy(EMIT_WHAT_PAYS);
}

/* Each allocation of making code fails once: the program runs all the same, and nothing is left behind. */
static void without_memory(void)
{
    if (isa_current() == ISA_BASELINE)
        return;
    memory m;
    take_memory(&m);
    const emit_counts before = emit_count();
    const int64_t live = mem_live();
    int refused = 0, wrong = 0, coded = 0;
    for (int64_t n = 1; n < 10; n++) {
        program_data d;
        state = 5;
        throw_program(&d, ew_kernels(), 1);
        view views[PORTS];
        bool writes[PORTS] = { 0 };
        for (int i = 0; i < PORTS; i++) {
            views[i] = (view){ .dtype = d.dtype[i], .ndim = 1, .sizes = { 777 }, .strides = { 1 } };
            writes[i] = i >= INPUTS;
            fill(m.ours[i], d.dtype[i], MOST);
            memcpy(m.theirs[i], m.ours[i], MOST * dtype_size(d.dtype[i]));
        }
        program_shape(&d.p, views, writes, NULL);
        program_run(&d.p, m.theirs);
        mem_fail_after(n);
        give_code(&d.p, isa_current());
        refused += mem_fail_pending() == 0;
        mem_fail_after(0);
        coded += emit_runs(&d.p);
        program_run(&d.p, m.ours);
        for (int i = INPUTS; i < PORTS; i++)
            wrong += !same_bits(m.ours[i], m.theirs[i], d.dtype[i], MOST);
        emit_release(&d.p);
    }
    tap_ok(refused > 2 && coded > 0 && !wrong, "where memory for code is out (%d times), the interpreter runs",
           refused);
    tap_ok(emit_count().pieces == before.pieces && emit_count().bytes == before.bytes && mem_live() == live,
           "and nothing is left behind");
    give_memory(&m);
}

/* --- forks, and systems that allow no code ------------------------------------------------------------------------ */

static int refusals = -1; /* of memory that is to be run, so far; -1: none are made */

/* Stands before the C library's. */
int mprotect(void *at, size_t bytes, int protection)
{
    if (refusals >= 0 && protection & PROT_EXEC) {
        refusals++;
        errno = EACCES;
        return -1;
    }
    return (int)syscall(SYS_mprotect, at, bytes, protection);
}

static bool in_child(bool (*holds)(void))
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(holds() ? 0 : 1);
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

enum { LARGE = 1 << 20 }; /* has code for its first run */

static bool uses_the_parents_code(void)
{
    const emit_counts before = emit_count();
    return evaluate(LARGE) == 34 && emit_count().made == before.made && before.pieces > 0;
}

static bool makes_code(void)
{
    const emit_counts before = emit_count();
    cache_clear();
    return evaluate(LARGE) == 34 && evaluate(LARGE) == 34 && emit_count().made > before.made;
}

static bool does_without_code(void)
{
    cache_clear();
    const emit_counts before = emit_count();
    refusals = 0;
    bool right = evaluate(LARGE) == 34 && evaluate(LARGE) == 34;
    cache_clear();
    right &= evaluate(LARGE) == 34 && evaluate(LARGE - 1) == 34;
    return right && refusals == 1 && emit_count().bytes == before.bytes;
}

static void forks_and_refusals(void)
{
    if (isa_current() == ISA_BASELINE)
        return;
    cache_clear();
    bool right = evaluate(LARGE) == 34;
    tap_ok(right && in_child(uses_the_parents_code), "a forked child runs the code of its parent");
    tap_ok(in_child(makes_code), "and makes code of its own");
    tap_ok(in_child(does_without_code),
           "where no memory can be made executable all is interpreted, and it is asked once");
    const int64_t made = emit_count().made;
    tap_ok(evaluate(LARGE) == 34 && emit_count().made == made, "which the parent does not notice");
}

int main(void)
{
    bk_set_num_threads(2);
    known_encodings();
    for (isa_level level = ISA_AVX2; level <= isa_highest(); level++) {
        single_ops(level, COMPUTE_F32, "float32");
        single_ops(level, COMPUTE_F64, "float64");
        random_programs(level, 1, "float32");
        random_programs(level, 2, "float64");
        random_programs(level, 3, "both");
        twins(level);
    }
    when_code_is_made();
    without_memory();
    forks_and_refusals();
    return tap_done();
}
