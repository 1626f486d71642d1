/* run_sum.h: a sum of products a_1^T b_1 + a_2^T b_2 + ..., or of sums over rows. */
#ifndef BK_GRAPH_RUN_SUM_H
#define BK_GRAPH_RUN_SUM_H
#include "core/layout.h"
#include "cpu/view.h"

enum { SUM_ROWS = 256 }; /* that the scratch holds of each factor */

typedef struct sum_rows {
    const char *data;
    const layout *layout;
    const void *memory; /* which it lies in: what only happens to lie behind something else must not change an order */
} sum_rows;

typedef struct sum_call {
    view out; /* dense, row-major; float32 or float64 */
    const sum_rows *terms;
    int count, factors; /* of each term: 2 for products, the first transposed; 1 for sums over rows */
    bool begins;        /* out is set, else increased */
    char *scratch;
} sum_call;

int run_sum(const sum_call *s);
int64_t run_sum_copied(void); /* rows of factors copied so far: what the tests of the planner look at */

#endif
