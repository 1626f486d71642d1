/* emission.c: when the groups of a plan get machine code.
 *
 * Making a piece takes some 10 us, several times that while the emitter itself is cold. So it is made when the runs
 * that it serves would have saved about that much: at once for long groups and for those that a loop repeats many
 * times, later for small ones, never for what runs a few times. Who guesses like this pays at most about twice what
 * knowing would have cost. Code that other plans have made is taken from the first run on. */
#include "cpu/emit.h"
#include "graph/plan.h"

enum { KEYS = 256 };
static const double COST_NS = 40e3;

/* What code saves in a run: a part of the steps' work, and the calls of their kernels. */
static double gain_of(const ew_program *p) { return 0.4 * p->work_ns + 10 * p->steps; }

/* Gives programs the code that there is; adds up what it would save for those without, alike ones together. Keys of
 * different pieces may fall together: then they are made a little too soon. */
static void weigh(plan *p, emit_session *session, double *gain)
{
    for (int i = 0; i < p->program_count; i++) {
        const shared_program *q = &p->programs[i];
        const uint64_t key = emit_add(session, q->program, false);
        if (key)
            gain[key / 2 % KEYS] += q->groups * gain_of(q->program);
    }
}

static void make(plan *p, emit_session *session, const double *gain)
{
    const bool always = emit_get_policy() == EMIT_ALWAYS;
    const int64_t before = emit_count().made;
    int with = 0, without = 0;
    for (int i = 0; i < p->program_count; i++) {
        const shared_program *q = &p->programs[i];
        uint64_t key = emit_add(session, q->program, false);
        if (key && (always || (double)p->runs * gain[key / 2 % KEYS] >= COST_NS))
            key = emit_add(session, q->program, true);
        with += q->program->emitted ? q->groups : 0;
        without += key != 0;
    }
    p->emitted = !without;
    if (with)
        report_code(with, emit_count().made - before);
}

void plan_emit(plan *p)
{
    p->runs++;
    if (emit_get_policy() == EMIT_NEVER || (p->runs & (p->runs - 1)))
        return; /* the answer changes little between powers of two */
    double gain[KEYS] = { 0 };
    emit_session session;
    emit_begin(&session, isa_current());
    weigh(p, &session, gain);
    make(p, &session, gain);
    emit_end(&session);
}
