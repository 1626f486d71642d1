/* rows.c: from views to rows. A view whose rows are not dense is copied first, or the result last. */
#include "cpu/rows.h"

#include <string.h>

#include "core/memory.h"
#include "core/threads.h"
#include "cpu/isa.h"
#include "cpu/move.h"
#include "cpu/walk.h"

enum { GRAIN = 1 << 13, VIEWS = 3, TOGETHER_BYTES = 1 << 14 /* of one view: all of them are in L1 */ };

static const row_table *table(void)
{
    static const row_table *const of[] = {
        [ISA_BASELINE] = &row_table_baseline,
        [ISA_AVX2] = &row_table_avx2,
        [ISA_AVX512] = &row_table_avx512,
    };
    return of[isa_current()];
}

typedef struct rows {
    view v[VIEWS]; /* the first elements of the rows: where to, x, g */
    int64_t n, together;
    row_kernel run;
    double eps;
    size_t size;
    const row_moments *moments; /* or NULL */
} rows;

/* Those of rows `first` and on, or some that nobody keeps. */
static row_moments moments_of(const rows *r, int64_t first, double spare[2][ROWS_TOGETHER])
{
    if (!r->moments)
        return (row_moments){ .mean = spare[0], .scale = spare[1] };
    size_t at = (size_t)first * r->size;
    return (row_moments){ .mean = (char *)r->moments->mean + at,
                          .scale = (char *)r->moments->scale + at,
                          .known = r->moments->known };
}

static void run_rows(void *arg, int64_t begin, int64_t end)
{
    const rows *r = arg;
    walk w;
    walk_start(&w, (const view *const[]){ &r->v[0], &r->v[1], &r->v[2] }, VIEWS, begin);
    void *row[VIEWS][ROWS_TOGETHER];
    double spare[2][ROWS_TOGETHER];
    while (begin < end) {
        const row_moments m = moments_of(r, begin, spare);
        int count = 0;
        for (; count < r->together && begin < end; count++, begin++, walk_skip(&w, 1))
            for (int i = 0; i < VIEWS; i++)
                row[i][count] = w.p[i];
        r->run(r->n, count, row[0], row[1], row[2], r->eps, &m);
    }
}

static bool rows_are_dense(const view *v, int dims)
{
    int64_t expect = 1;
    for (int d = v->ndim - 1; d >= v->ndim - dims; d--) {
        if (v->sizes[d] != 1 && v->strides[d] != expect)
            return false;
        expect *= v->sizes[d];
    }
    return true;
}

/* The same sizes in memory of its own, row-major. */
static void dense_like(view *to, const view *v)
{
    int64_t step = 1;
    view_take(to, v);
    for (int d = v->ndim - 1; d >= 0; d--) {
        to->strides[d] = step;
        step *= v->sizes[d];
    }
    to->data = pool_take((size_t)step * dtype_size(v->dtype));
}

int rows_run(row_op op, const view *to, const view *x, const view *g, int dims, double eps, const row_moments *moments)
{
    const view *given[VIEWS] = { to, x, g ? g : x };
    int64_t elements = view_numel(to), bytes = elements * (int64_t)dtype_size(to->dtype);
    if (!elements)
        return 0;
    rows r = { .n = 1,
               .eps = eps,
               .size = dtype_size(to->dtype),
               .moments = moments,
               .run = (to->dtype == BK_FLOAT64 ? table()->wide : table()->single)[op] };
    bool good = true;
    for (int i = 0; i < VIEWS; i++) {
        (rows_are_dense(given[i], dims) ? view_take : dense_like)(&r.v[i], given[i]);
        good = good && r.v[i].data;
        if (i && good && r.v[i].data != given[i]->data)
            move_copy(&r.v[i], given[i]);
    }
    for (int d = to->ndim - dims; d < to->ndim; d++)
        r.n *= to->sizes[d];
    r.together = TOGETHER_BYTES / (r.n * (int64_t)dtype_size(to->dtype));
    r.together = r.together < 1 ? 1 : r.together > ROWS_TOGETHER ? ROWS_TOGETHER : r.together;
    view whole;
    view_take(&whole, &r.v[0]);
    for (int i = 0; i < VIEWS; i++)
        r.v[i].ndim -= dims;
    if (good)
        threads_for(elements / r.n, 1 + GRAIN / r.n, (double)elements * 0.6, run_rows, &r);
    if (good && whole.data != to->data)
        move_copy(to, &whole);
    for (int i = 0; i < VIEWS; i++)
        if (r.v[i].data && r.v[i].data != given[i]->data)
            pool_give(r.v[i].data, (size_t)bytes);
    return good ? 0 : -1;
}
