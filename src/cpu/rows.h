/* rows.h: kernels that read a whole row before they write it: standardising, softmax, and the gradients of both.
 *
 * What an elementwise group and reductions would do in several passes over memory is done while a row is in cache. */
#ifndef BK_CPU_ROWS_H
#define BK_CPU_ROWS_H
#include "cpu/view.h"

typedef enum row_op {
    ROW_STANDARDISE,      /* (x - mean) s, s = 1 / sqrt(var + eps) */
    ROW_STANDARDISE_BACK, /* s (g - mean(g) - y mean(g y)), y what ROW_STANDARDISE makes of x */
    ROW_UNIT,             /* x s, s = 1 / sqrt(mean(x^2) + eps) */
    ROW_UNIT_BACK,        /* s (g - y mean(g y)) */
    ROW_SOFTMAX,          /* exp(x - max) / sum(exp(x - max)) */
    ROW_SOFTMAX_BACK,     /* x (g - sum(g x)), x a softmax */
    ROW_OPS
} row_op;

/* The mean and s of each row in order, of the views' dtype. */
typedef struct row_moments {
    void *mean, *scale;
    bool known; /* gradients may read them; else they are written by all but softmax */
} row_moments;

/* A row is what the last `dims` dimensions hold. All views have equal sizes and one dtype, float32 or float64; g may be
 * NULL where nothing reads it. Each row is computed by one thread, in an order that depends on its length alone. -1
 * when memory is out. `moments` is NULL where nobody keeps them. */
int rows_run(row_op op, const view *to, const view *x, const view *g, int dims, double eps, const row_moments *moments);

/* --- the inner loops, one table per ISA -------------------------------------------------------------------- */

/* What is summed up over one row is waited for: so each step of a kernel takes `count` rows after each other, at most
 * ROWS_TOGETHER, and their sums overlap. */
enum { ROWS_TOGETHER = 4 };
typedef void (*row_kernel)(int64_t n, int count, void *const *to, void *const *x, void *const *g, double eps,
                           const row_moments *moments);

typedef struct row_table {
    row_kernel single[ROW_OPS], wide[ROW_OPS]; /* float32, float64 */
} row_table;

extern const row_table row_table_baseline, row_table_avx2, row_table_avx512;

#endif
