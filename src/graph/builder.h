/* builder.h: what the planner has decided, before it is turned into a plan. */
#ifndef BK_GRAPH_BUILDER_H
#define BK_GRAPH_BUILDER_H
#include "graph/plan.h"
#include "graph/rewrites.h"

enum {
    FAMILIES = 8,
    OPERANDS = 6 /* whose memory a group's results may take over */
};

/* Values of one layout at a range of offsets: all x[t] of a sequence are one family. */
typedef struct family {
    const layout *layout;
    int64_t low, high;
    int32_t touched; /* the last instruction that reads or writes one of them */
    bool live;       /* still needed by later records */
} family;

typedef struct draft_buffer {
    uint8_t kind;
    bool crowded; /* too many long-lived values to tell apart: nothing in it is overwritten */
    uint8_t family_count;
    int32_t touched; /* the last touch of values that fitted no family */
    int32_t leaf;
    int64_t bytes;
    int32_t first, last; /* the instructions that touch it */
    int64_t first_step,
        last_step;  /* the bytes from row to row in the region where it begins and ends; 0: not in rows */
    int32_t values; /* a list through value.next */
    int32_t value_count;
    family *families; /* FAMILIES of them, or NULL: most buffers never get one */
} draft_buffer;

typedef struct value {
    const layout *layout;
    int64_t offset;
    int32_t buffer; /* -1: only ever in a register */
    int32_t group;  /* the elementwise group that computes it, -1 for other values */
    int32_t born;
    int32_t last_use; /* the last record that reads it; INT32_MAX when it outlives the plan */
    int32_t next;     /* in its buffer's list */
    int32_t touched;  /* the last instruction that reads or writes it in memory */
    uint8_t dtype;
    bool sunk; /* a reduction takes it as it is made */
} value;

typedef struct draft {
    instruction_kind kind;
    int32_t record;
    int32_t first_member, last_member, members; /* DO_PROGRAM, and the epilogue of a product */
    const layout *plain;
    struct {
        plan_view to, from;
    } copy;
    plan_view out, second, in[MAX_INPUTS]; /* DO_KERNEL */
    bool has_second;
    int32_t sinks[REDUCE_SINKS]; /* DO_PROGRAM: records that reduce a member */
    int sink_count;
    int32_t operands[OPERANDS]; /* the first values that the group reads from memory and that end with the log */
    int operand_count;
    int32_t packed;         /* a product: the buffer with its second factor in packed form, or -1 */
    bool packs;             /* it is the first to need it */
    bool loose;             /* only if it does not begin where cache lines do */
    bool keeps;             /* it may stay packed for later runs */
    int32_t scratch, table; /* DO_SUM: buffers */
    sum_share share;        /* DO_SUM */
} draft;

/* What a record is to a sum of products (sums.c). */
enum { SUM_NONE, SUM_TERM, SUM_INNER, SUM_END };

typedef struct sum_part {
    uint8_t role;
    bool first;     /* SUM_END: nothing was added up before */
    bool is_factor; /* of a term of a sum that has been cut into stretches */
    bool cuts;      /* with that term a stretch ends: see settle */
    int32_t length; /* terms up to here */
    int32_t before; /* the addition that this one adds to, or the first term; -1 at that */
    int32_t term;   /* what it adds */
    int32_t terms;  /* SUM_END: the first of the terms that are added there; SUM_TERM: the next one */
    int32_t at;     /* SUM_TERM: the addition where it is added */
    int32_t root;   /* SUM_END: the last addition */
} sum_part;

/* Where a record's value is to live (homes.c). */
typedef struct home {
    int32_t owner;  /* 1 + the record whose memory it is part of; -1 - a slab; 0: nowhere */
    int32_t update; /* the record that writes it into its owner: until then nobody sees it there */
    int32_t stack;  /* an update: 1 + the empty record that it writes into */
    int32_t kept; /* 1 + the buffer that it is copied to in the end, since it outlives the plan and lives in a stack */
    int32_t within;    /* 1 + the record that it will be part of, but not densely: then it has no home */
    int32_t fill;      /* an update: 1 + the fill that it writes into */
    bool fresh;        /* an update: its region is still zero */
    bool unfilled;     /* zeros that nobody will see */
    bool late;         /* one number in every element: made where it is read, and not yet */
    bool waits;        /* a view: its base gets memory when the only reader, an update or a copy, is planned */
    bool copied;       /* its memory is that of a copy in another order (orders.c) */
    int32_t source;    /* that copy: 1 + what it copies */
    int64_t offset;    /* in elements */
    int64_t low, high; /* an empty record: where updates have written, in elements */
} home;

/* Zeros, and the regions of them that have been written (fills.c). */
typedef struct fill {
    int32_t root;
    bool closed;              /* no more is known */
    int64_t covered;          /* elements in all */
    int64_t begin, end;       /* all elements from begin to end are written */
    const layout *layout;     /* of the regions beside these, a family; NULL: there are none */
    int64_t low, high, count; /* their offsets, and elements */
} fill;

/* Memory for values that are to lie one after the other. */
typedef struct slab {
    int32_t buffer; /* -1 until one of them is made */
    int64_t bytes;
} slab;

/* Records that one pass or another looks for, in the log's order. */
typedef struct record_list {
    int32_t *at;
    int count;
} record_list;

/* Values are numbered: records first, then leaves. */
typedef struct planner {
    const op_log *log;
    const plan_key *asked; /* the log's key, which the plan is found by */
    const plan_key *key;   /* what is planned: the log rewritten */
    plan_key changed;      /* where that is the log itself, but some records are changed (equal.c) */
    const int32_t *origin; /* per record: that of the log; NULL: each itself */
    value *values;
    int32_t *next_member;                  /* per record: the next of its group */
    int32_t *same;                         /* per record: the first record that computes the same, mostly itself */
    int32_t *same_leaf;                    /* per leaf */
    int32_t *uses;                         /* per record: how many records read it, one more if it outlives the plan */
    record_list additions, updates, casts; /* that are computed */
    home *homes;                           /* per record */
    slab *slabs;
    int slab_count, slab_capacity;
    fill *fills;
    int fill_count, fill_capacity;
    sum_part *sums;       /* per record */
    int late_count;       /* records that are late */
    int32_t last_product; /* a draft; -1: none */
    int32_t *latest_group;
    draft_buffer *buffers;
    int buffer_count, buffer_capacity;
    draft *drafts;
    int draft_count, draft_capacity;
    plan_region *regions;
    int region_count, region_capacity;
    plan_report report;
} planner;

static inline int32_t origin_of(const planner *p, int32_t record) { return p->origin ? p->origin[record] : record; }

static inline void note(planner *p, plan_fact fact, int32_t record)
{
    report_fact(&p->report, fact, origin_of(p, record), op_get(p->key->record[record].op)->name);
}

static inline int32_t input_of(const planner *p, int32_t record, int k)
{
    int32_t in = p->key->record[record].in[k];
    return in >= 0 ? p->same[in] : p->key->records + p->same_leaf[-1 - in];
}

/* The memory of a value. Inline: a view that a call returns is written field by field and copied as a whole at once,
 * which waits until all stores before it are in cache: 50 ns. */
static inline plan_view view_of(const planner *p, int32_t v)
{
    const value *x = &p->values[v];
    return (plan_view){ x->buffer, (bk_dtype)x->dtype, x->offset, x->layout };
}

/* plan.c */
int32_t buffer_new(planner *p, int kind, int64_t bytes); /* -1: out of memory */
void buffer_touch(planner *p, int32_t b, int32_t instruction);
void value_place(planner *p, int32_t v, int32_t b, int64_t offset, const layout *l);
bool materialise(planner *p, int32_t v);                                    /* gives an elementwise member memory */
bool copy_memory(planner *p, plan_view to, plan_view from, int32_t record); /* the caller touches the values */
void touch(planner *p, int32_t v, int32_t instruction); /* it is read from (or written to) memory there */
draft *draft_new(planner *p, instruction_kind kind, int32_t record);

/* The passes before and after that of plan.c; false: out of memory. */
bool share_equal(planner *p);
bool find_sums(planner *p);
bool plan_sum(planner *p, int32_t i); /* record i, which has a role in a sum */
/* Factor k of a term as rows of a matrix: those that are summed over. NULL as layout: out of memory. */
plan_view term_rows(const planner *p, int32_t term, int k);
bool find_fills(planner *p);
bool find_homes(planner *p);
bool is_at_home(planner *p, int32_t i);             /* an update */
int32_t memory_behind(const planner *p, int32_t v); /* the record that the memory of v was made for */
bool move_home(planner *p, int32_t v);              /* a value with an owner gets memory */
bool keep_value(planner *p, int32_t v); /* memory of its own for a value that is kept, once all is planned */
void find_orders(planner *p);           /* orders.c */
/* The layout of what copy i copies, when the copy has layout l. NULL: out of memory. */
const layout *source_layout(const planner *p, int32_t i, const layout *l);
void settle_source(planner *p, int32_t i, const layout *l); /* the copy has memory: what it copies is made there */
bool share_packed(planner *p);
bool keep_packed(planner *p); /* once regions are found */
bool find_regions(planner *p);
bool find_own(const planner *p, plan *made); /* what a region has for itself, once all has its place */
bool find_blocks(planner *p);                /* blocks.c */

/* The first dimension that is not of size 1, as rows: how many, how far apart, how wide. */
typedef struct row_shape {
    int64_t rows, step, width; /* step and width in bytes */
} row_shape;
row_shape view_rows(const plan_view *v); /* regions.c */

/* What a program is made from (programs.c). Operands of steps are ports, or registers r as ~r. */
typedef struct program_text {
    const layout *plain; /* the sizes of its group */
    const plan_view *ports;
    const bool *writes;
    const ew_step *steps;
    int port_count, step_count, registers;
    bool by_rows;   /* it is run for ranges of rows */
    int32_t leader; /* the port in whose order it is run; -1: any */
} program_text;

typedef struct program_table {
    struct known_program *known;
    int count, capacity, room; /* room: of the plan's programs */
    int bucket[64];
} program_table;

/* The program of this text, made or found among the plan's; NULL when memory is out. */
const ew_program *program_for(program_table *t, plan *made, const program_text *text);
void port_view(view *to, bk_dtype dtype, const layout *l, const layout *plain);
plan_view *plan_views(plan *made, int count); /* memory for so many; NULL when there is none */

/* The plan; NULL when memory is out. */
plan *plan_build(planner *p);
/* Its stretches of few rows, once it is built: false: out of memory. */
bool find_teams(planner *p, plan *made);
void regions_free(plan_region *regions, int count);

#endif
