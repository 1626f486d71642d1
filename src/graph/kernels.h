/* kernels.h: what the rows of nodes.def run. Thin: they unpack the call and hand views to src/cpu. */
#ifndef BK_GRAPH_KERNELS_H
#define BK_GRAPH_KERNELS_H

struct kernel_call;
int run_matmul(const struct kernel_call *call);
int run_reduce(const struct kernel_call *call);
int run_triangle(const struct kernel_call *call);

#endif
