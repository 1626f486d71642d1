/* fuse.c: two steps of a program become one: arithmetic that feeds arithmetic, and functions of the same operand that
 * share most of their way (a function and its slope, as in a forward and a backward pass: ew_twin).
 *
 * A step that adds, subtracts or multiplies costs less than the way of its operands through L1. Where such a step only
 * feeds another one, (x * y) + z and the like run as one pass with both roundings: results do not depend on it.
 *
 * The steps are read as values, one per step that writes a register; then pairs are joined, and the values get
 * registers anew. Invariant: a joined step runs at the place of its second half, so nothing between the halves may
 * write what the first half reads: no port, that is, since values are written once. */
#include "cpu/fuse.h"

#include <string.h>

#include "cpu/ew.h"

enum {
    MOST_STEPS = 2048, /* the tables are on the stack; what is longer runs as it is */
    REACH = 32,        /* steps between two halves: keeps the search linear */
};

typedef struct fuser {
    ew_program *p;
    const ew_table *kernels;
    int32_t reads[MOST_STEPS];  /* of the value of step i */
    int32_t reader[MOST_STEPS]; /* the last step that reads it */
    int32_t place[MOST_STEPS];  /* its register */
    bool gone[MOST_STEPS];
    bool twin[MOST_STEPS]; /* y is the place of a second result */
} fuser;

/* A register's value is named by the step that wrote it: -1 - i. Ports keep their numbers. */
static void name_values(fuser *f, int32_t *writer)
{
    ew_program *p = f->p;
    for (int i = 0; i < p->steps; i++) {
        ew_step *s = &p->step[i];
        int32_t *operands[] = { &s->x, &s->y, &s->z };
        for (int k = 0; k < 3; k++)
            if (*operands[k] >= p->ports) {
                int32_t w = writer[*operands[k] - p->ports];
                *operands[k] = -1 - w;
                f->reads[w]++;
                f->reader[w] = i;
            }
        f->reads[i] = 0;
        f->reader[i] = i;
        f->gone[i] = f->twin[i] = false;
        if (s->to >= p->ports) {
            writer[s->to - p->ports] = i;
            s->to = -1 - i;
        }
    }
}

static bool writes_port(const fuser *f, int i) { return f->p->step[i].to >= 0 || (f->twin[i] && f->p->step[i].y >= 0); }

/* --- twins ------------------------------------------------------------------------------------------------------ */

/* The kernel for both of the steps; *swapped: i is the second of them. */
static ew_kernel twin_of(const ew_table *t, const ew_step *i, const ew_step *j, bool *swapped)
{
    for (const ew_twin *w = t->twin; w < t->twin + EW_TWINS; w++)
        for (int c = 0; c < EW_PAIR_TYPES; c++) {
            ew_kernel first = t->op[w->first][c], second = t->op[w->second][c];
            *swapped = i->run == second;
            if ((i->run == first && j->run == second) || (i->run == second && j->run == first))
                return w->run[c];
        }
    return NULL;
}

/* Step j is done by step i: nobody reads the operand there any more. */
static void give_up(fuser *f, int i, int j)
{
    int32_t x = f->p->step[j].x;
    f->gone[j] = true;
    if (x >= 0)
        return;
    int32_t w = -1 - x;
    f->reads[w]--;
    if (f->reader[w] == j)
        f->reader[w] = i;
    for (int k = i + 1; k < j; k++)
        if (!f->gone[k] && (f->p->step[k].x == x || f->p->step[k].y == x || f->p->step[k].z == x))
            f->reader[w] = f->reader[w] > k ? f->reader[w] : k;
}

/* The second of two functions is computed at the place of the first. Its value may wait in a register; where it goes to
 * memory, nothing may be between the two. An operand in memory must still be there. */
static void twin(fuser *f, int i)
{
    ew_program *p = f->p;
    ew_step *s = &p->step[i];
    bool swapped, between = false;
    if (s->to == s->x)
        return;
    for (int j = i + 1; j < p->steps && j - i <= REACH; j++) {
        const ew_step *other = &p->step[j];
        if (f->gone[j])
            continue;
        ew_kernel run = other->x == s->x ? twin_of(f->kernels, s, other, &swapped) : NULL;
        if (run && (other->to < 0 || !between)) {
            s->run = run;
            s->kind = EW_STEP_TWIN;
            s->second = swapped ? s->op : other->op;
            s->op = swapped ? other->op : s->op;
            s->y = swapped ? s->to : other->to;
            s->to = swapped ? other->to : s->to;
            s->z = s->x;
            f->twin[i] = true;
            give_up(f, i, j);
            return;
        }
        if (s->x >= 0 && writes_port(f, j))
            return;
        between = true;
    }
}

/* --- pairs ------------------------------------------------------------------------------------------------------ */

typedef struct arithmetic {
    int op; /* EW_PAIR_add and so on; -1: something else */
    int compute;
    int32_t x, y;
} arithmetic;

static arithmetic arithmetic_of(const ew_step *s)
{
    const arithmetic other = { .op = -1 };
    if (s->kind != EW_STEP_OP || s->type >= EW_PAIR_TYPES)
        return other;
    switch (s->op) {
    case EW_add: return (arithmetic){ EW_PAIR_add, s->type, s->x, s->y };
    case EW_sub: return (arithmetic){ EW_PAIR_sub, s->type, s->x, s->y };
    case EW_mul: return (arithmetic){ EW_PAIR_mul, s->type, s->x, s->y };
    case EW_square: return (arithmetic){ EW_PAIR_mul, s->type, s->x, s->x };
    default: return other;
    }
}

/* The only reader of step i's value, if the two can be one; -1 otherwise. */
static int second_half(const fuser *f, int i)
{
    const ew_program *p = f->p;
    int j = f->reader[i];
    if (p->step[i].to >= 0 || f->reads[i] != 1 || j - i > REACH)
        return -1;
    for (int k = i + 1; k < j; k++)
        if (writes_port(f, k))
            return -1;
    return j;
}

static void join(fuser *f, int i)
{
    ew_program *p = f->p;
    arithmetic a = arithmetic_of(&p->step[i]);
    int j = a.op < 0 ? -1 : second_half(f, i);
    if (j < 0)
        return;
    arithmetic b = arithmetic_of(&p->step[j]);
    if (b.op < 0 || b.compute != a.compute || b.x == b.y)
        return;
    bool left = b.x == -1 - i;
    int second = b.op == EW_PAIR_sub && !left ? EW_PAIR_from : b.op;
    p->step[j] =
        ew_step_at(ew_step_pair(f->kernels, a.op, second, a.compute), p->step[j].to, a.x, a.y, left ? b.y : b.x);
    f->gone[i] = true;
    int32_t moved[] = { a.x, a.y };
    for (int k = 0; k < 2; k++)
        if (moved[k] < 0 && f->reader[-1 - moved[k]] < j)
            f->reader[-1 - moved[k]] = j;
}

/* --- registers -------------------------------------------------------------------------------------------------- */

/* A value's register is free again after its last reader. Nothing is computed in place: sizes may differ. */
static void place_values(fuser *f)
{
    ew_program *p = f->p;
    int32_t free[MOST_STEPS], free_count = 0, steps = 0;
    p->registers = 0;
    for (int i = 0; i < p->steps; i++) {
        if (f->gone[i])
            continue;
        ew_step s = p->step[i];
        int32_t *results[] = { &s.to, &s.y }, *operands[] = { &s.x, &s.z, &s.y };
        int result_count = f->twin[i] ? 2 : 1, operand_count = f->twin[i] ? 2 : 3, unread[2], unread_count = 0;
        for (int k = 0; k < result_count; k++)
            if (*results[k] < 0) {
                int32_t w = -1 - *results[k];
                f->place[w] = free_count ? free[--free_count] : p->registers++;
                *results[k] = p->ports + f->place[w];
                if (f->reader[w] == w)
                    unread[unread_count++] = f->place[w];
            }
        for (int k = 0; k < operand_count; k++)
            if (*operands[k] < 0) {
                int32_t w = -1 - *operands[k];
                *operands[k] = p->ports + f->place[w];
                if (f->reader[w] == i) {
                    free[free_count++] = f->place[w];
                    f->reader[w] = -1; /* given back once, however often this step reads it */
                }
            }
        while (unread_count)
            free[free_count++] = unread[--unread_count];
        p->step[steps++] = s;
    }
    p->steps = steps;
}

void program_fuse(ew_program *p)
{
    if (p->steps < 2 || p->steps > MOST_STEPS || p->registers > MOST_STEPS)
        return;
    fuser f;
    int32_t writer[MOST_STEPS];
    memset(writer, 0, (size_t)p->registers * sizeof *writer);
    f.p = p;
    f.kernels = ew_kernels();
    name_values(&f, writer);
    for (int i = 0; i < p->steps; i++)
        if (!f.gone[i])
            twin(&f, i);
    for (int i = 0; i < p->steps; i++)
        if (!f.gone[i])
            join(&f, i);
    place_values(&f);
}
