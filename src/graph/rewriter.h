/* rewriter.h: what the parts of the rewriting share: rewrite.c decides, rewrite_numbers.c puts off what no step waits
 * for, rewrite_factors.c adds factors up, rewrite_rows.c finds runs of rows, rewrite_parts.c what is read part by part,
 * rewrite_lookups.c rows that were looked up, rewrite_emit.c writes the new log. */
#ifndef BK_GRAPH_REWRITER_H
#define BK_GRAPH_REWRITER_H
#include "graph/rewrite.h"

enum { MOST_PARTS = 8 }; /* products that become one */

/* What becomes of a record. */
enum {
    ROLE_NONE,
    ROLE_COLUMNS, /* a product: columns of a joined one */
    ROLE_TERM,    /* a product or an addition that a sum of products takes in */
    ROLE_SUM,     /* the addition that ends it */
    ROLE_NARROW,  /* a product of which some columns are made */
    ROLE_LOOKUP,  /* what a product of looked-up rows becomes is made in its place */
};

typedef struct mark {
    int32_t uses, elementwise_uses;
    int32_t column_uses; /* reads of some of its columns, from `low` to `high` */
    int32_t low, high;
    int32_t set;          /* 1 + the set that it is part or the end of; ROLE_LOOKUP: 1 + the lookup */
    int32_t completes;    /* 1 + the sum whose factors are all there once it is made */
    int32_t before, term; /* an addition: what it adds to, the product that it adds; the first adds it to anything */
    int32_t run, place;   /* a product: 1 + the run of rows that it is part of, and which part */
    uint8_t length;       /* products added up so far, this one included */
    uint8_t role;
    bool product; /* of matrices, that is not held afterwards */
    bool rows;    /* a run is made of its rows */
    bool spread;  /* computed part by part, where its views are read */
    uint8_t deep; /* operations between it and its parts */
    int32_t part_uses;
    int64_t shown; /* elements of its parts */
} mark;

typedef struct part {
    int32_t weight; /* as value */
    int32_t record; /* the product */
    int64_t at;     /* where its share of the joined weight begins */
} part;

/* Products that become one. */
typedef struct set {
    int32_t first; /* the record before which the joined one is made */
    int32_t result, base;
    int32_t beside; /* a sum: its factors side by side, once they are written so */
    int joined;     /* its weight's number */
    int count;
    bool adds;
    part parts[MOST_PARTS]; /* by weight */
} set;

typedef struct joined_weight {
    int32_t weights[MOST_PARTS];
    int count, dim; /* they follow each other along this dimension */
    int uses;
    int32_t record; /* -1 until it is made */
    const layout *layout;
    int next; /* in its bucket */
} joined_weight;

/* Products with one weight whose rows follow each other in memory: x[0] W, x[1] W, ... */
typedef struct run {
    int32_t root;   /* the value that the rows are part of */
    int32_t weight; /* a value; -1 - a joined weight */
    int64_t turned; /* as the products read it */
    int32_t low;    /* the value that shows the first rows, as they lie in memory */
    int64_t rows;   /* of each part */
    int64_t offset; /* of the latest part, in elements */
    int64_t step;   /* from part to part; 0 while there is one */
    int64_t at; /* the first of the weight's rows that they are multiplied with: x[t] may be part of cat([x[t], h]) */
    int64_t width;
    int32_t count;
    int32_t product; /* all rows, once they are made */
    int next;        /* in its bucket */
} run;

enum { MOST_LOOKUPS = 64 };

/* Where a table's rows are looked up: an index, in the order of the rows that products read. */
typedef struct places {
    int32_t index;       /* a value */
    const layout *order; /* of its elements, as they would lie without gaps */
    int32_t record;      /* once it is made */
    bool made;
} places;

/* A product of looked-up rows, or of gradients that are added up by an index. */
typedef struct lookup {
    uint8_t kind;
    int places;      /* their number */
    int32_t product; /* a record */
    int32_t table;   /* a value: what is looked up in */
    int32_t other;   /* a value: the rows that are added up */
    int32_t summed;  /* these, once it is made; -1 */
} lookup;

enum { BUCKETS = 64 };

typedef struct rewriter {
    const plan_key *key;
    const layout **layouts; /* per record of the log */
    const int32_t *origin;  /* the same as it was recorded, where it was put into another order; or NULL */
    const op_log *log;
    mark *marks;
    int32_t *same_leaf;
    int64_t largest;               /* elements of a record */
    bool indexes;                  /* whether some are looked up, or written, by an index */
    int32_t *products, *additions; /* those that are needed, in the log's order, from the first to the log's length */
    int32_t first_product, first_addition;
    int32_t *open; /* per value: 1 + the latest set of products that read it first; of a single product, -1 - it */
    set *sets;
    int set_count, set_capacity;
    joined_weight *joined;
    int joined_count, joined_capacity;
    int bucket[BUCKETS];
    run *runs;
    int run_count, run_capacity;
    int run_bucket[BUCKETS];
    lookup *lookups;
    int lookup_count;
    places *places;
    int places_count;
    plan_report *report;
    /* what is made */
    rewritten *out;
    int capacity;
    int32_t *map; /* per record of the log */
} rewriter;

/* --- values ------------------------------------------------------------------------------------------------------- */

static inline int32_t value_of(const rewriter *w, int32_t record, int k)
{
    int32_t in = w->key->record[record].in[k];
    return in >= 0 ? in : w->key->records + w->same_leaf[-1 - in];
}

static inline const layout *layout_of(const rewriter *w, int32_t v)
{
    return v < w->key->records ? w->layouts[v] : w->log->leaves[v - w->key->records]->layout;
}

/* Whether record i reads memory that is written to in its place whoever still needs what is there. As long as records
 * stand in the order in which they were recorded nobody does: such a record is not to read later than it did. */
static inline bool reads_forced(const plan_key *key, int32_t i)
{
    for (int k = 0; k < key->record[i].inputs; k++) {
        int32_t v = key->record[i].in[k];
        while (v >= 0 && op_get(key->record[v].op)->kind == KIND_VIEW)
            v = key->record[v].in[0];
        if (v < 0 && key->leaf[-1 - v].bits & LEAF_FORCED)
            return true;
    }
    return false;
}

static inline bool is_needed(const rewriter *w, int32_t i) { return w->key->bits[i] & RECORD_NEEDED; }
static inline bool is_kept(const rewriter *w, int32_t i) { return w->key->bits[i] & RECORD_KEPT; }

/* The dimension of the weight as it lies in memory that is the columns, or the rows, as the product reads it. */
static inline int columns_dim(const record_key *key) { return key->attr.product.turned & 2 ? 0 : 1; }
static inline int rows_dim(const record_key *key) { return key->attr.product.turned & 2 ? 1 : 0; }

static inline void note_of(rewriter *w, plan_fact fact, int32_t record)
{
    report_fact(w->report, fact, w->origin ? w->origin[record] : record, op_get(w->key->record[record].op)->name);
}

/* A product of matrices that is not held afterwards. */
static inline bool is_free_product(const rewriter *w, int32_t v) { return v < w->key->records && w->marks[v].product; }
/* Whether only some of its columns are read. */
bool is_narrow(const rewriter *w, int32_t i);

/* Two values side by side, as cat makes them: what the rows of x[t] are part of, and the rest. */
typedef struct halves {
    int32_t known, rest; /* values: rows of something larger, and what else there is; rest -1: x[t] stands alone */
    int64_t at, rest_at; /* their first columns */
} halves;

/* rewrite_numbers.c: the log in another order, if that gains something. False: out of memory. */
bool put_off_numbers(rewritten *log, plan_report *report);
/* rewrite_factors.c: the log with fewer products. False: out of memory. */
bool share_factors(rewritten *log, plan_report *report);
/* rewrite_rows.c. False: out of memory. */
bool find_runs(rewriter *w);
halves halves_of(const rewriter *w, int32_t product);
/* rewrite_lookups.c: whether there are any. False with w->lookups NULL: out of memory. */
bool find_lookups(rewriter *w);
bool emit_lookup(rewriter *w, int32_t i);
/* rewrite_parts.c: whether there are any. */
bool find_parts(rewriter *w);
/* Whether both are one value, or what is computed alike of the same values. */
bool computes_same(const rewriter *w, int32_t v, int32_t u);
/* rewrite_emit.c: room for so many records in all, and the log written anew. */
bool reserve(rewriter *w, int records);
bool write_anew(rewriter *w);

/* Records of the new log, which serve record `origin`: their numbers, or NO_RECORD. */
enum { NO_RECORD = INT32_MAX }; /* out of memory */
int32_t emit(rewriter *w, record_key key, const layout *l, uint8_t bits, int32_t origin);
int32_t emit_view(rewriter *w, int32_t of, const layout *whole, const layout *l, int64_t offset, uint8_t dtype,
                  int32_t origin);
int32_t emit_product(rewriter *w, const record_key *like, int32_t a, const layout *la, int32_t b, const layout *lb,
                     const layout *l, uint8_t bits, int32_t origin);
/* Value v, as records of the new log name it. */
int32_t new_input(const rewriter *w, int32_t v);

#endif
