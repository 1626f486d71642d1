/* gemm.h: matrix products, c = a b or c += a b, for float32, float64 and int64 with any strides.
 *
 * An element of c is always the same sum in the same order, a function of k and of the instruction set: neither the
 * number of threads, nor m, nor whether b came packed can change a bit of it, nor can strides unless n == 1 (a's rows
 * times a vector are dot products and have their order; a's columns times a vector have that of all other products). */
#ifndef BK_CPU_GEMM_H
#define BK_CPU_GEMM_H
#include "brisk.h"

typedef struct gemm_task {
    bk_dtype dtype; /* BK_FLOAT32, BK_FLOAT64, BK_INT64 */
    int64_t m, n, k;
    const void *a; /* strides in elements, any: 0 and negative too */
    int64_t a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    void *c;
    int64_t c_row, c_col;
    bool accumulate;      /* c += a b, else c = a b; k == 0 gives zeros */
    const void *packed_b; /* b packed by gemm_pack, or NULL; b itself is not read then */
    /* Added to each finished sum, once rounded, or NULL: m rows addend_row apart, contiguous columns. Asks for k > 0,
     * n > 1 and c_col == 1. It must not share memory with c. */
    const void *addend;
    int64_t addend_row;
    /* Called once for each block of finished rows of c (complete in all columns), from the thread that finished it. */
    void (*epilogue)(void *arg, int64_t row_begin, int64_t row_end);
    void *epilogue_arg;
    bool back; /* gemm_run_columns begins with the last columns: those that the product before has read last */
} gemm_task;

/* The packed form belongs to the instruction set in use: it can't be stored or sent elsewhere. 64-byte aligned. */
size_t gemm_packed_bytes(bk_dtype dtype, int64_t k, int64_t n);
void gemm_pack(bk_dtype dtype, int64_t k, int64_t n, const void *b, int64_t b_row, int64_t b_col, void *packed);

/* Uses the thread pool. Returns 0: where memory for copies is out it runs slower, but cannot fail. */
int gemm_run(const gemm_task *task);

/* Columns [begin, end) of every `apart` of a product of few rows, on the calling thread: for who splits it himself and
 * has many to run, so that what surrounds the kernels should cost nothing. begin is a multiple of GEMM_COLUMNS, and so
 * are end and apart unless they are n. No epilogue is called. */
enum { GEMM_COLUMNS = 32 };
void gemm_run_columns(const gemm_task *task, int64_t begin, int64_t end, int64_t apart);
/* Whether it can: b comes packed or has contiguous rows, as has c; and b is not so large that it should be cut. */
bool gemm_has_few_rows(const gemm_task *task);
/* The same columns of a factor, packed where gemm_pack would put them. */
void gemm_pack_columns(const gemm_task *task, int64_t begin, int64_t end, void *packed);

/* c = a^T b or c += a^T b over rows of a and b that come in runs of at most GEMM_MOST_RUN, on the calling thread.
 * Columns are contiguous; strides are in elements and may be 0. float32 and float64. The sum goes by blocks of whole
 * runs, as many as GEMM_MOST_RUN rows have, each block's begun at zero: its order depends on `runs` and `rows` alone.
 */
enum { GEMM_MOST_RUN = 512 };
typedef struct gemm_rows {
    bk_dtype dtype;
    int64_t m, n; /* columns of a and of b */
    int64_t runs, rows;
    const void *a, *b;
    int64_t a_row, b_row; /* from one row of a run to the next */
    int64_t a_run, b_run; /* from the first row of a run to that of the next */
    void *c;              /* m rows of n elements without gaps */
    bool accumulate;
} gemm_rows;
void gemm_add_rows(const gemm_rows *rows);

/* Many products of one shape: batch dimensions with strides in elements for a, b and c. */
typedef struct gemm_batch {
    int ndim;
    int64_t sizes[BK_MAX_NDIM], a[BK_MAX_NDIM], b[BK_MAX_NDIM], c[BK_MAX_NDIM];
} gemm_batch;

/* Runs the task at every index of the batch, which it folds where it can; task->packed_b must be NULL. The epilogue
 * counts the rows of all products, one after the other. */
int gemm_run_batch(const gemm_task *task, gemm_batch *batch);

#endif
