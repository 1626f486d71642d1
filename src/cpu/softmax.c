/* softmax.c: softmax and log-softmax along one dimension.
 *
 * A lane is one run through that dimension. A dense lane is done in place, in slices that stay in L1; where instead the
 * neighbours of an element belong to other lanes, ABREAST of those go together; any other lane is copied to a buffer in
 * its compute type and back.
 *
 * Invariant: the result of a lane does not depend on the others, nor on the thread that computes it. */
#include "cpu/softmax.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/threads.h"
#include "cpu/ew.h"
#include "cpu/move.h"
#include "cpu/walk.h"

enum { LANES = 16, SLICE = 1024, ABREAST = 256, GRAIN = 1 << 13 };

typedef struct softmax {
    view to, from; /* without the dimension */
    int64_t to_step, from_step, n;
    bool log;
    ew_kernel exp;
    bk_dtype compute;
    int failed;
} softmax;

#define T       float
#define NAME(f) f##_float
#include "cpu/softmax_loops.h"
#undef T
#undef NAME
#define T       double
#define NAME(f) f##_double
#include "cpu/softmax_loops.h"
#undef T
#undef NAME

static void dense_lane(const softmax *s, void *to, const void *from)
{
    (s->compute == BK_FLOAT32 ? lane_float : lane_double)(s, to, from, s->n);
}

static void copied_lane(const softmax *s, char *to, const char *from, char *buffer)
{
    int64_t size = (int64_t)dtype_size(s->compute);
    move_run(s->compute, buffer, size, s->from.dtype, from, s->from_step, s->n);
    dense_lane(s, buffer, buffer);
    move_run(s->to.dtype, to, s->to_step, s->compute, buffer, size, s->n);
}

static void lanes_piece(void *arg, int64_t begin, int64_t end)
{
    softmax *s = arg;
    int64_t size = (int64_t)dtype_size(s->to.dtype);
    bool same = s->to.dtype == s->compute, dense = same && s->to_step == size && s->from_step == size;
    size_t bytes = (size_t)s->n * dtype_size(s->compute);
    char *buffer = NULL;
    walk w;
    walk_start(&w, (const view *const[]){ &s->to, &s->from }, 2, begin);
    for (int64_t lanes; begin < end; begin += lanes, walk_skip(&w, lanes)) {
        lanes = walk_run(&w, end - begin);
        bool neighbours = same && walk_step(&w, 0) == size && walk_step(&w, 1) == size && lanes > 1;
        lanes = dense || !neighbours ? 1 : lanes < ABREAST ? lanes : ABREAST;
        if (dense) {
            dense_lane(s, w.p[0], w.p[1]);
        } else if (neighbours) {
            (s->compute == BK_FLOAT32 ? abreast_float : abreast_double)(s, w.p[0], w.p[1], lanes);
        } else {
            if (!buffer && !(buffer = pool_take(bytes))) {
                __atomic_store_n(&s->failed, -1, __ATOMIC_RELAXED);
                return;
            }
            copied_lane(s, w.p[0], w.p[1], buffer);
        }
    }
    if (buffer)
        pool_give(buffer, bytes);
}

/* v without dim; the byte stride of dim. */
static int64_t drop_dim(view *v, int dim)
{
    int64_t step = v->strides[dim] * (int64_t)dtype_size(v->dtype);
    v->ndim--;
    for (int d = dim; d < v->ndim; d++) {
        v->sizes[d] = v->sizes[d + 1];
        v->strides[d] = v->strides[d + 1];
    }
    return step;
}

int softmax_run(const view *dst, const view *src, int dim, bool log)
{
    compute_type compute = (compute_type)dtypes[src->dtype].compute;
    softmax s = { .to = *dst,
                  .from = *src,
                  .n = 1,
                  .log = log,
                  .compute = compute_dtype(compute),
                  .exp = ew_kernels()->op[EW_exp][compute] };
    if (view_numel(dst) == 0)
        return 0;
    s.to_step = s.from_step = (int64_t)dtype_size(src->dtype);
    if (dst->ndim) {
        s.n = dst->sizes[dim];
        s.to_step = drop_dim(&s.to, dim);
        s.from_step = drop_dim(&s.from, dim);
    }
    views_order((view *[]){ &s.to, &s.from }, 2);
    int64_t lanes = view_numel(&s.to);
    threads_for(lanes, 1 + GRAIN / s.n, (double)lanes * (double)s.n * 1.5, lanes_piece, &s);
    if (s.failed)
        error_memory(); /* the error of the thread that met it is not ours */
    return s.failed;
}
