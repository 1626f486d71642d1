/* kernels_linalg.c: from kernel calls of the plan to factorisations and solutions. */
#include "cpu/linalg.h"
#include "graph/kernels.h"
#include "graph/plan.h"

static const view *second(const kernel_call *call) { return call->has_second ? &call->second : NULL; }

int run_lu(const kernel_call *call) { return linalg_lu(&call->out, second(call), &call->in[0]); }
int run_cholesky(const kernel_call *call) { return linalg_cholesky(&call->out, &call->in[0]); }
int run_qr(const kernel_call *call) { return linalg_qr(&call->out, second(call), &call->in[0]); }

/* attr: TRIANGLE_* */
int run_solve_triangular(const kernel_call *call)
{
    return linalg_solve_triangular(&call->out, &call->in[0], &call->in[1], (int)call->attr->i[0]);
}

/* in: LU, the right side, the pivots. attr: whether of the transposed matrix. */
int run_lu_solve(const kernel_call *call)
{
    return linalg_lu_solve(&call->out, &call->in[0], &call->in[2], &call->in[1], call->attr->i[0]);
}
