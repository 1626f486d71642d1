/* emit.h: machine code for fused groups, shared by all programs that are alike.
 *
 * Interpreting a group costs a pass through L1 per step; its code keeps what lies between the steps in the processor's
 * registers. The interpreter (program.c) is what runs where there is no code: on other processors, at the baseline
 * level, where no memory may be made executable, for steps that have no code, and in plans that run once and are small.
 * Results have the same bits either way.
 *
 * All of this is called with the library's lock held; running the code needs none. */
#ifndef BK_CPU_EMIT_H
#define BK_CPU_EMIT_H
#include "cpu/emit_code.h"
#include "cpu/program.h"

/* Steps [first, end) of a program: one function, or (NULL) as the interpreter runs them. */
typedef struct emitted_part {
    emitted_fn run;
    int32_t first, end;
} emitted_part;

typedef struct emitted {
    struct emitted *next;  /* in its bucket */
    struct emitted *fresh; /* among those of a session, whose code has no place yet */
    uint64_t hash;
    size_t bytes;             /* of this record */
    int64_t refs;             /* programs */
    struct code_block *block; /* where the code is; NULL: it could not be made executable, and is not run */
    bool refused;             /* it has no code: its nodes do not go together at this level, or are too many */
    int32_t ports, steps, part_count;
    emitted_part *part;
    ew_step *step; /* the key: these and which ports are repeated */
    bool *repeated;
} emitted;

/* BRISK_EMIT=0: never; =1: every program at once; else, and by default, what pays. */
typedef enum emit_policy { EMIT_NEVER, EMIT_WHAT_PAYS, EMIT_ALWAYS } emit_policy;
emit_policy emit_get_policy(void);
void emit_set_policy(emit_policy policy);

/* Programs get their code together: it becomes executable when the session ends. */
typedef struct emit_session {
    isa_level level;
    code_buffer code;
    emitted *fresh;
} emit_session;

void emit_begin(emit_session *s, isa_level level);
/* Gives the program the code that there is; else, if `make`, makes it. Returns 0 when it has code, or can have none;
 * else what it would be found by. A program may be asked for again. */
uint64_t emit_add(emit_session *s, ew_program *p, bool make);
void emit_end(emit_session *s);
/* A program goes, and with the last one its code. */
void emit_release(ew_program *p);

static inline bool emit_runs(const ew_program *p) { return p->emitted && p->emitted->block; }

/* What there is: distinct pieces of code, their bytes, and how many were made so far. */
typedef struct emit_counts {
    int64_t pieces, bytes, made;
} emit_counts;
emit_counts emit_count(void);

#endif
