/* reduce.h: sums, products, extremes and moments over any set of dimensions.
 *
 * A destination has the source's ndim, with size 1 at the reduced dimensions (a bit mask). All return 0, or -1 when
 * memory is out. The recording layer refuses extremes of nothing; other empty reductions give their identity. */
#ifndef BK_CPU_REDUCE_H
#define BK_CPU_REDUCE_H
#include "cpu/view.h"

typedef enum reduce_kind {
    REDUCE_SUM,
    REDUCE_PROD,
    REDUCE_MAX, /* a NaN is both the greatest and the least */
    REDUCE_MIN,
    REDUCE_ANY,
    REDUCE_ALL,
    REDUCE_ARGMAX, /* int64: row-major index within the reduced dimensions, of the first occurrence */
    REDUCE_ARGMIN,
    REDUCE_MOMENTS, /* only through reduce_moments */
    REDUCE_KINDS
} reduce_kind;

/* Accumulates in float64 (float sources) or int64 (all others) and casts to dst's dtype. */
int reduce_run(reduce_kind kind, const view *dst, const view *src, uint32_t dims);
/* Extremes along one dimension together with their indices (int64). */
int reduce_extreme(bool max, const view *values, const view *indices, const view *src, int dim);
/* Of a float source: the mean and the sum of squared differences from it. Either destination may be NULL. */
int reduce_moments(const view *mean, const view *m2, const view *src, uint32_t dims);

/* Of a float source: divided in float64, rounded once. */
int reduce_mean(const view *dst, const view *src, uint32_t dims);
/* The sum of squared differences from the mean over `divide`, or its square root. Either destination may be NULL. */
int reduce_variance(const view *mean, const view *variance, const view *src, uint32_t dims, double divide, bool root);

/* --- reducing values as they are made ----------------------------------------------------------------------- */

enum { REDUCE_SINKS = 4 }; /* reductions that take part in one pass */

typedef struct reduce_sink {
    reduce_kind kind; /* REDUCE_SUM to REDUCE_ALL */
    bool mean;        /* the sum divided by the count, in float64 */
    view src;         /* dense; all of one pass have the same sizes and strides */
    view dst;
    int from; /* the sink whose values it takes: itself, or an earlier one */
} reduce_sink;

/* Where a sink of a pass is this time. */
typedef struct reduce_end {
    char *memory; /* where its values are in memory, once they are made; NULL: they only pass through */
    char *dst;
} reduce_end;

/* Makes elements [begin, end) of memory order: those of sink i at to[i], unless it has memory of its own. Each element
 * is asked for once, from any thread. */
typedef struct reduce_source {
    void (*make)(const void *arg, int64_t begin, int64_t end, char *const *to);
    const void *arg;
    double work_ns;
} reduce_source;

/* Whether the reduction of src can take its values piece by piece, in an order that gives what reduce_run gives. */
bool reduce_streams(const view *src, uint32_t dims);
/* All sinks in one pass; bit for bit the results of reduce_run and reduce_mean over src in memory. What follows from
 * sizes is found out once, without addresses; runs come one after the other. mem_free frees it; NULL: out of memory. */
typedef struct reduce_stream reduce_stream;
reduce_stream *reduce_stream_new(const reduce_sink *sinks, int count, uint32_t dims);
size_t reduce_stream_bytes(int count);
int reduce_stream_run(reduce_stream *s, const reduce_end *ends, const reduce_source *source);

/* --- reducing blocks of rows as they are made -------------------------------------------------------------------
 *
 * Rows of `width` elements follow each other in memory. Blocks of reduce_block_rows(width) rows (the last one has what
 * is left) are fed in ascending order within a task of reduce_task_rows(width) rows, which one thread does; tasks may
 * run in any order. */

enum {
    REDUCE_FEED = 1 << 14,  /* elements of a block, at least: a few such blocks fit into L2 */
    REDUCE_WIDEST = 1 << 13 /* the widest rows that are fed */
};

typedef struct reduce_feed reduce_feed;

int64_t reduce_block_rows(int64_t width);
int64_t reduce_task_rows(int64_t width); /* a multiple of these */
/* Whether the reduction of src can be fed by rows of this width. */
bool reduce_feeds(const view *src, uint32_t dims, int64_t width);
reduce_feed *reduce_feed_open(const reduce_sink *sink, uint32_t dims); /* NULL: out of memory */
/* Elements [begin, end) of src, a block, are at p. */
void reduce_feed_block(const reduce_feed *f, int64_t begin, int64_t end, const char *p);
/* All blocks were fed, if it is to be delivered: bit for bit the result of reduce_run or reduce_mean. */
void reduce_feed_close(reduce_feed *f, bool deliver);

/* --- the inner loops, one table per ISA -------------------------------------------------------------------- */

/* Accumulators a (float64 or int64) and b (the index, or the second moment), one per output. `before` says how many
 * elements of each output are in them: none means that they are uninitialised. Steps are in bytes. */
typedef void (*reduce_rows_fn)(const char *p, int64_t outputs, int64_t output_step, int64_t n, int64_t step,
                               int64_t before, void *a, void *b);
/* Outputs side by side: `columns` of them, each reduced down `rows`. */
typedef void (*reduce_columns_fn)(const char *p, int64_t rows, int64_t row_step, int64_t columns, int64_t step,
                                  int64_t before, void *a, void *b);

typedef struct reduce_table {
    reduce_rows_fn rows[BK_DTYPE_COUNT][REDUCE_KINDS];
    reduce_columns_fn columns[BK_DTYPE_COUNT][REDUCE_KINDS];
} reduce_table;

extern const reduce_table reduce_table_baseline, reduce_table_avx2, reduce_table_avx512;

enum {
    REDUCE_TILE = 1024,  /* columns reduced at a time: a row of 4 KB of floats, lanes that stay in L1 */
    REDUCE_BLOCK = 2048, /* elements in float lanes: 32 per lane at 64 lanes; 2048 * 32768 fits into 32 bits */
    REDUCE_ROWS = 32,    /* rows in float lanes; so many rows of a part of the columns, as they are made, fit into L2 */
};

#endif
