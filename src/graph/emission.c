/* emission.c: when the groups of a plan get machine code.
 *
 * Making it costs about as much as some ten runs of a small group, so a plan that runs once goes without: its groups
 * take code that other plans have made, and have their own made only where a single run is worth it. A plan that runs
 * again gets all of it. */
#include "cpu/emit.h"
#include "graph/plan.h"

/* A run this long is worth the code: a piece is made in 5 to 10 us, and saves a fifth of the run and more. */
static const double LONG_RUN_NS = 100e3;

void plan_emit(plan *p, bool again)
{
    const emit_policy policy = emit_get_policy();
    p->emitted = again || policy != EMIT_WHAT_PAYS;
    if (policy == EMIT_NEVER)
        return;
    int programs = 0;
    const int64_t made = emit_count().made;
    emit_session session;
    emit_begin(&session, isa_current());
    for (int i = 0; i < p->code_count; i++) {
        const plan_program *q = plan_program_of(&p->code[i]);
        if (q) {
            emit_add(&session, q->program, p->emitted || q->program->work_ns >= LONG_RUN_NS);
            programs += q->program->emitted != NULL;
        }
    }
    emit_end(&session);
    if (programs)
        report_code(programs, emit_count().made - made);
}
