/* test_fuse.c: joined steps give, bit for bit, what the steps give one after the other. */
#include <stdlib.h>
#include <string.h>

#include "cpu/program.h"
#include "tap.h"

enum { N = 3000, INPUTS = 3, PORTS = 5, REGISTERS = 4, STEPS = 24 };

static uint32_t state = 1;
static int dice(int sides)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 16) % (uint32_t)sides);
}

typedef struct program_data {
    ew_program p;
    ew_port port[PORTS];
    ew_step step[STEPS];
} program_data;

/* An operand that has a value by now: a port, or a register. */
static int32_t written(const bool *has)
{
    for (;;) {
        int32_t at = dice(PORTS + REGISTERS);
        if (has[at])
            return at;
    }
}

/* Steps over three inputs, two outputs and some registers; both outputs are written in the end, and may be earlier. */
static void throw_steps(program_data *d, const ew_table *t, compute_type c)
{
    static const ew_op ops[] = { EW_add, EW_sub, EW_mul,  EW_square, EW_add,
                                 EW_sub, EW_mul, EW_tanh, EW_gelu,   EW_gelu_slope };
    bool has[PORTS + REGISTERS] = { true, true, true };
    d->p = (ew_program){ .ports = PORTS, .registers = REGISTERS, .port = d->port, .step = d->step };
    int steps = 3 + dice(STEPS - 3);
    for (int i = 0; i < steps; i++) {
        ew_op op = ops[dice(10)];
        int32_t to = i >= steps - 2 ? INPUTS + steps - 1 - i
                     : dice(8) == 0 ? INPUTS + dice(2)
                                    : PORTS + dice(REGISTERS);
        int32_t x = written(has), y = ew_infos[op].arity == 2 ? written(has) : 0;
        d->step[i] = ew_step_at(ew_step_op(t, op, c), to, x, y, 0);
        has[to] = true;
    }
    d->p.steps = steps;
}

/* Each step over the whole arrays. */
static void run_plainly(const program_data *d, char *const *bases, size_t size)
{
    char *place[PORTS + REGISTERS];
    memcpy(place, bases, PORTS * sizeof *place);
    for (int r = 0; r < REGISTERS; r++)
        place[PORTS + r] = malloc(N * size);
    for (const ew_step *s = d->step; s < d->step + d->p.steps; s++)
        s->run(N, place[s->to], place[s->x], place[s->y], place[s->z]);
    for (int r = 0; r < REGISTERS; r++)
        free(place[PORTS + r]);
}

static void fill(void *to, compute_type c)
{
    for (int i = 0; i < N; i++) {
        double v = (dice(2001) - 1000) / 700.0;
        if (c == COMPUTE_F32)
            ((float *)to)[i] = (float)v;
        else
            ((double *)to)[i] = v;
    }
}

static void random_programs(compute_type c, bk_dtype dtype)
{
    size_t size = dtype_size(dtype);
    char *plain[PORTS], *joined[PORTS];
    view views[PORTS];
    bool writes[PORTS] = { [3] = true, [4] = true };
    for (int i = 0; i < PORTS; i++) {
        plain[i] = malloc(N * size);
        joined[i] = i < INPUTS ? plain[i] : malloc(N * size);
        views[i] = (view){ .dtype = dtype, .ndim = 1, .sizes = { N }, .strides = { 1 } };
    }
    for (int i = 0; i < INPUTS; i++)
        fill(plain[i], c);
    int different = 0, saved = 0;
    for (int round = 0; round < 2000; round++) {
        program_data d;
        throw_steps(&d, ew_kernels(), c);
        int steps = d.p.steps;
        run_plainly(&d, plain, size);
        program_shape(&d.p, views, writes, NULL);
        program_run(&d.p, joined);
        saved += steps - d.p.steps;
        for (int i = INPUTS; i < PORTS; i++)
            different += memcmp(plain[i], joined[i], N * size) != 0;
    }
    tap_ok(different == 0, "programs with joined steps give the bits of single steps in %s", dtypes[dtype].name);
    tap_ok(saved > 500, "and many steps of %s are joined", dtypes[dtype].name);
    for (int i = 0; i < PORTS; i++) {
        free(plain[i]);
        if (i >= INPUTS)
            free(joined[i]);
    }
}

/* t = tanh(x y + c); out = t s - y^2 d: eight steps of which three pairs are made, over registers that are reused. */
static void an_expression(void)
{
    const ew_table *t = ew_kernels();
#define STEP(name, ...) ew_step_at(ew_step_op(t, EW_##name, COMPUTE_F32), __VA_ARGS__)
    enum { X, Y, C, D, OUT, R0, R1 };
    ew_port port[5];
    ew_step step[] = {
        STEP(mul, R0, X, Y, 0),   STEP(add, R0, R0, C, 0),   STEP(tanh, R0, R0, 0, 0), STEP(sigmoid, R1, X, 0, 0),
        STEP(mul, R0, R0, R1, 0), STEP(square, R1, Y, 0, 0), STEP(mul, R1, R1, D, 0),  STEP(sub, OUT, R0, R1, 0),
    };
    ew_program p = { .ports = 5, .registers = 2, .steps = 8, .port = port, .step = step };
    view views[5];
    for (int i = 0; i < 5; i++)
        views[i] = (view){ .dtype = BK_FLOAT32, .ndim = 1, .sizes = { N }, .strides = { i != C && i != D } };
    program_shape(&p, views, (bool[]){ [OUT] = true }, NULL);
    tap_ok(p.steps == 5, "tanh(x*y + c)*sigmoid(x) - y**2*d takes five passes");
}

int main(void)
{
    random_programs(COMPUTE_F32, BK_FLOAT32);
    random_programs(COMPUTE_F64, BK_FLOAT64);
    an_expression();
    return tap_done();
}
