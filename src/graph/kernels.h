/* kernels.h: what the rows of nodes.def run. Thin: they unpack the call and hand views to src/cpu. */
#ifndef BK_GRAPH_KERNELS_H
#define BK_GRAPH_KERNELS_H

#include "cpu/view.h"

struct kernel_call;
int run_matmul(const struct kernel_call *call);
/* Whether run_matmul will call the epilogue as rows of the result are finished; it is not set otherwise. */
bool matmul_finishes_rows(const struct kernel_call *call);
int run_triangle(const struct kernel_call *call);

/* kernels_index.c */
int run_gather(const struct kernel_call *call);
int run_scatter(const struct kernel_call *call);
int run_index_get(const struct kernel_call *call);
int run_index_put(const struct kernel_call *call);
int run_index_sum(const struct kernel_call *call);
int run_index_keep(const struct kernel_call *call);
int run_mask_select(const struct kernel_call *call);
int run_mask_scatter(const struct kernel_call *call);
int run_accumulate(const struct kernel_call *call);
int run_flip(const struct kernel_call *call);
/* kernels_reduce.c. attr.reduce: the dimensions, the kind */
int run_reduce(const struct kernel_call *call);
int run_mean(const struct kernel_call *call);
int run_var(const struct kernel_call *call);
int run_extreme(const struct kernel_call *call);
int run_named(const struct kernel_call *call);
int run_scan(const struct kernel_call *call);
int run_scan_extreme(const struct kernel_call *call);
int run_rows(const struct kernel_call *call);
int run_softmax(const struct kernel_call *call);

/* kernels_sort.c */
int run_sort(const struct kernel_call *call);
int run_topk(const struct kernel_call *call);
int run_select(const struct kernel_call *call);
int run_pick(const struct kernel_call *call);
int run_place(const struct kernel_call *call);
int run_searchsorted(const struct kernel_call *call);

/* kernels_linalg.c */
int run_lu(const struct kernel_call *call);
int run_cholesky(const struct kernel_call *call);
int run_qr(const struct kernel_call *call);
int run_solve_triangular(const struct kernel_call *call);
int run_lu_solve(const struct kernel_call *call);

/* A result recorded without its reduced dimensions, with size 1 at them. */
void kept_dims(view *to, const view *v, int ndim, uint32_t dims);

#endif
