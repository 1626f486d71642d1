/* plan.h: what a log becomes: a flat program over numbered buffers.
 *
 * A plan owns no tensor memory and names no node: record i of any log with the same key is its i-th, leaf l its l-th.
 * Running it asks for memory, binds the buffers, and gives the kept records their data. */
#ifndef BK_GRAPH_PLAN_H
#define BK_GRAPH_PLAN_H
#include <string.h>

#include "cpu/program.h"
#include "cpu/reduce.h"
#include "graph/key_text.h"
#include "graph/log.h"
#include "graph/report.h"

/* What the flush found out about a record; part of the key. */
enum {
    RECORD_NEEDED = 1, /* somebody needs its value */
    RECORD_KEPT = 2,   /* its value outlives the flush */
    RECORD_TAPED = 4,  /* its place on the tape is reachable */
    RECORD_SAVES = 8   /* << k: the tape keeps the value of input k */
};

/* What the flush found out about a leaf; part of the key. */
enum {
    LEAF_HELD = 1,   /* somebody may read its memory after the flush: no writing into it */
    LEAF_FORCED = 2, /* writes must go into its memory */
    LEAF_CONSTANT = 4,
    LEAF_ZERO = 16, /* a constant that is zero */
    LEAF_WHOLE = 8  /* it fills memory of the pool: who takes it over keeps nothing else alive */
};

typedef struct leaf_key {
    uint32_t layout;
    uint8_t dtype;
    uint8_t bits;
    uint16_t unused;
    int32_t memory; /* the first leaf in the same storage: itself, or an earlier one that it aliases */
    int32_t unused2;
    int64_t offset; /* bytes from that leaf's first element */
} leaf_key;

typedef struct plan_key {
    uint64_t recorded; /* a hash of the records */
    uint32_t rewrites; /* those that are done */
    int records, leaves;
    record_key *record;
    uint8_t *bits;
    leaf_key *leaf;
} plan_key;

enum {
    BUFFER_LEAF,
    BUFFER_TEMPORARY,
    BUFFER_RESULT,
    BUFFER_LOCAL, /* of a region: each thread has a block of it */
    BUFFER_KEPT   /* a packed factor, where it was kept from an earlier run: else it has none */
};

typedef struct plan_buffer {
    uint8_t kind;
    int32_t leaf; /* BUFFER_LEAF */
    int64_t bytes;
    int64_t at; /* BUFFER_TEMPORARY: its place in the arena */
} plan_buffer;

typedef struct plan_view {
    int32_t buffer;
    bk_dtype dtype;
    int64_t offset; /* in elements */
    const layout *layout;
} plan_view;

static inline void layout_view(view *to, const layout *l, bk_dtype dtype, char *data)
{
    to->data = data;
    to->dtype = dtype;
    view_shape(to, l->ndim, l->sizes, l->strides);
}

/* A reduction of what a program computes, done as it is computed. */
typedef struct plan_sink {
    reduce_kind kind;
    bool mean;
    int32_t from; /* the first sink with the same port */
    int32_t port; /* that of its values; without a buffer when they only pass through */
    plan_view out;
} plan_sink;

/* A fused group as it is run: the program, what its ports are bound to, and what is reduced on the way. */
typedef struct plan_program {
    const ew_program *program; /* one of the plan's: groups that are alike have the same */
    plan_view *ports;
    plan_sink *sinks;
    int sink_count;
    uint32_t dims;         /* that the sinks reduce */
    reduce_stream *stream; /* how they do, all at once; NULL: there are none */
} plan_program;

typedef enum instruction_kind { DO_PROGRAM, DO_COPY, DO_KERNEL, DO_SUM, INSTRUCTION_KINDS } instruction_kind;

/* A sum in a region of rows: each core adds up the terms of its rows, group of rows by group of rows, and the groups
 * are added up when the region ends. Sums of one value in a region share what they have added up so far. */
enum { SUM_GROUPS = 4 };
typedef struct sum_share {
    bool by_rows;
    bool first, last; /* of the region's sums of this value */
    bool sets;        /* the sum as a whole begins in this region */
    int32_t before;   /* the one before it, or -1 */
    int32_t partial;  /* the buffer with a sum for each group */
} sum_share;

typedef struct instruction {
    instruction_kind kind;
    int32_t record; /* the record it runs for: its source line */
    int32_t op;
    bool waits; /* in a team: it touches what others of the team may still be at */
    union {
        plan_program elementwise;
        struct {
            plan_view to, from;
        } copy;
        struct {
            plan_view out, second, in[MAX_INPUTS];
            int inputs;
            bool has_second;
            attr attr;
            int32_t packed;        /* the buffer with in[1] in packed form, or -1 */
            bool packs;            /* it is packed now */
            bool loose;            /* unless it lies well enough to be read as it is: see reads_packed */
            bool keeps;            /* its packed form may be kept for later runs */
            plan_view addend;      /* what the product's kernel adds to it (gemm.h); buffer -1: nothing */
            int64_t addend_row;    /* elements from one row of it to the next: 0 for a row of biases */
            plan_program epilogue; /* run as rows of the result are finished; program is NULL when there is none */
        } kernel;
        struct {
            plan_view out;
            plan_view *terms; /* of a sum of products the factors, two each; of a sum of rows these */
            int count;        /* of terms */
            bool products;
            bool begins;            /* out is set, else increased */
            int32_t scratch, table; /* buffers: see run_sum.h; the terms' addresses */
            sum_share share;
        } sum;
    };
} instruction;

typedef struct shared_program {
    ew_program *program;
    int32_t groups; /* that have it */
} shared_program;

/* Views that instructions have besides those within them: pieces of blocks that go with the plan. */
typedef struct view_block {
    struct view_block *next;
    int count, capacity;
    plan_view views[];
} view_block;

/* A factor in memory of a leaf, whose packed form may be kept from one run to the next. */
typedef struct plan_factor {
    int32_t code;   /* the first product that reads it */
    int32_t buffer; /* its packed form */
} plan_factor;

typedef struct kept_value {
    int32_t record;
    int32_t buffer;
    int64_t offset;
} kept_value;

typedef struct plan_local {
    int32_t buffer;
    int64_t at;  /* in the scratch of a thread; of what is far, in the buffer */
    int64_t row; /* bytes of a row */
} plan_local;

/* A temporary that begins and ends within a region, and lies in rows. */
typedef struct plan_own {
    int32_t buffer;
    int32_t first, last; /* the instructions that touch it */
} plan_own;

/* Rows that an instruction will read or write and that are far away: asked for before. In bytes. */
typedef struct plan_ask {
    int32_t code, buffer;
    int64_t at;
    int32_t step, width;
    bool writes;
} plan_ask;

/* Instructions that each core takes its rows through, all at once or block by block; or, where there are few rows, that
 * the cores go through together, each with its columns of every one. */
typedef struct plan_region {
    int32_t first, end;
    int64_t rows; /* 0: together */
    double work_ns;
    int32_t waits;    /* together: how many of its instructions wait */
    int64_t together; /* instructions of a multiple of so many columns are split alike; 0: none */
    int64_t width;    /* blocks: the elements of a row; 0: a region of the other kind */
    int64_t scratch;  /* bytes of locals for each thread */
    plan_local *locals;
    int32_t local_count;
    plan_local far[4]; /* memory outside of it that has rows: where the first one is */
    int32_t far_count;
    int32_t sums; /* how many of its instructions are sums by rows */
    plan_own *own;
    int32_t own_count;
    int64_t own_at, own_bytes; /* the stretch of the arena that these are in */
    plan_ask *asks;            /* in the order of the instructions */
    int32_t ask_count;
} plan_region;

typedef struct plan_head plan_head; /* ahead.c */

typedef struct plan {
    plan_key key;               /* without its records: */
    key_text *text;             /* these */
    struct plan *older, *newer; /* the cache's order of use */
    struct plan *next;          /* in its hash bucket */
    uint64_t hash;              /* of the key */
    int64_t bytes;              /* its own size: the cache is bounded by the sum */
    bool begun;                 /* a log is in the middle of it: it stays */
    bool asks;                  /* what its regions ask for has been looked for (asks.c) */
    bool emitted;               /* all of its programs that can have machine code have it */
    int64_t runs;               /* until then */
    instruction *code;
    int code_count;
    shared_program *programs;
    int program_count;
    view_block *views;
    plan_buffer *buffers;
    int buffer_count;
    struct binding *bound; /* where these are, while it is begun */
    int64_t arena_bytes;
    plan_region *regions;
    int region_count;
    kept_value *kept;
    int kept_count;
    plan_factor *factors;
    int factor_count;
    plan_report report;
    plan_head *head; /* what can run before its log is complete (ahead.c); NULL: not looked for */
} plan;

/* The fused group of an instruction; NULL when it has none. */
static inline const plan_program *plan_program_of(const instruction *in)
{
    const plan_program *q = in->kind == DO_PROGRAM  ? &in->elementwise
                            : in->kind == DO_KERNEL ? &in->kernel.epilogue
                                                    : NULL;
    return q && q->program ? q : NULL;
}

/* What a kernel of nodes.def is called with. */
typedef struct kernel_call {
    int op;
    view out, second, in[MAX_INPUTS];
    int inputs;
    bool has_second;
    const attr *attr;
    void (*epilogue)(void *arg, int64_t row_begin, int64_t row_end); /* products: see gemm.h; or NULL */
    void *epilogue_arg;
    void *packed;       /* products: in[1] as gemm_pack packs it; or NULL */
    bool packs;         /* it is to be packed first */
    const void *addend; /* products: see gemm.h */
    int64_t addend_row;
    const struct row_moments *moments; /* of rows that are standardised: see rows.h; or NULL */
} kernel_call;

/* All but the views. Those that are not used stay unset: clearing them would cost more than all the rest of a call. */
static inline void call_begin(kernel_call *call, const instruction *in, const attr *a)
{
    call->op = in->op;
    call->inputs = in->kernel.inputs;
    call->has_second = in->kernel.has_second;
    call->attr = a;
    call->epilogue = NULL;
    call->epilogue_arg = NULL;
    call->packed = NULL;
    call->packs = false;
    call->addend = NULL;
    call->addend_row = 0;
    call->moments = NULL;
}

/* Plans the log of this key; NULL when memory is out. */
plan *plan_make(const op_log *log, const plan_key *key);
void plan_free(plan *p);
/* Before a run: gives programs machine code where that pays (emission.c). */
void plan_emit(plan *p);
/* Before its second run: what its regions ask for (asks.c). */
void plan_find_asks(plan *p);
/* BRISK_CHECK_PLAN: plans again and compares. -1 with the error set when they differ. */
int plan_check(const plan *p, const op_log *log, const plan_key *key);
/* Takes all memory for a run over the log's nodes. -1: out of memory, nothing is held. */
int plan_begin(plan *p, op_log *log);
/* The same before the log is complete: the memory of all buffers but its leaves and kept factors, and the arena. NULL:
 * there is none, and the error is as it was. */
char *plan_take_memory(plan *p, const op_log *log);
void plan_give_memory(plan *p, char *arena);
void plan_bind_factor(const plan *p, int factor); /* of leaves that are bound */
/* Runs what the log has begun, from where it stopped: afterwards every kept record has data. -1: it was interrupted, or
 * an instruction had no memory to work in; then it has done nothing, and the next call goes on with it. */
int plan_go_on(op_log *log);

/* How many instructions of each kind have run, and how: what the tests of the planner look at. */
typedef struct run_counts {
    int64_t instructions[INSTRUCTION_KINDS];
    int64_t teams; /* stretches of few rows that several cores went through */
} run_counts;
run_counts run_count(void);

/* The cached plan of this key, or NULL. */
plan *cache_find(const plan_key *key);
/* The plan that was used last, or NULL; `older` leads to the others. */
plan *cache_newest(void);
/* Puts p in the cache, which owns it from now on (and may free older ones). */
void cache_add(plan *p);
void cache_clear(void);
typedef struct cache_counts {
    int64_t plans, bytes, hits, misses;
} cache_counts;
cache_counts cache_count(void);

#endif
