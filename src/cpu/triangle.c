/* triangle.c: tril and triu, one row of a matrix at a time.
 *
 * Every row is a run that is kept and a run that becomes zero; where they meet follows from the row and the diagonal.
 */
#include "cpu/triangle.h"

#include "core/threads.h"
#include "cpu/move.h"

typedef struct triangle {
    view dst, src;
    int64_t diagonal;
    bool upper;
} triangle;

static const char *row_start(const view *v, int64_t row)
{
    const char *p = v->data;
    for (int d = v->ndim - 2; d >= 0; d--) {
        p += row % v->sizes[d] * v->strides[d] * (int64_t)dtype_size(v->dtype);
        row /= v->sizes[d];
    }
    return p;
}

static void copy_run(const triangle *t, char *to, const char *from, int64_t first, int64_t end)
{
    bk_dtype dtype = t->dst.dtype;
    int last = t->dst.ndim - 1;
    int64_t size = (int64_t)dtype_size(dtype), out = t->dst.strides[last] * size, in = t->src.strides[last] * size;
    if (end > first)
        move_run(dtype, to + first * out, out, dtype, from + first * in, in, end - first);
}

static void zero_run(const triangle *t, char *to, int64_t first, int64_t end)
{
    static const char zero[8];
    bk_dtype dtype = t->dst.dtype;
    int64_t out = t->dst.strides[t->dst.ndim - 1] * (int64_t)dtype_size(dtype);
    if (end > first)
        move_run(dtype, to + first * out, out, dtype, zero, 0, end - first);
}

static void some_rows(void *context, int64_t begin, int64_t end)
{
    const triangle *t = context;
    int64_t rows = t->dst.sizes[t->dst.ndim - 2], columns = t->dst.sizes[t->dst.ndim - 1];
    for (int64_t row = begin; row < end; row++) {
        char *to = (char *)row_start(&t->dst, row);
        const char *from = row_start(&t->src, row);
        int64_t meet = row % rows + t->diagonal + !t->upper; /* the first element past the left run */
        meet = meet < 0 ? 0 : meet > columns ? columns : meet;
        if (t->upper) {
            zero_run(t, to, 0, meet);
            copy_run(t, to, from, meet, columns);
        } else {
            copy_run(t, to, from, 0, meet);
            zero_run(t, to, meet, columns);
        }
    }
}

void triangle_copy(const view *dst, const view *src, int64_t diagonal, bool upper)
{
    triangle t = { *dst, *src, diagonal, upper };
    int64_t count = view_numel(dst), columns = dst->sizes[dst->ndim - 1];
    if (count)
        threads_for(count / columns, 16384 / columns + 1, 0.5 * (double)count, some_rows, &t);
}
