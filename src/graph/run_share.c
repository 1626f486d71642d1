/* run_share.c: sums over the rows of a region, by whoever has these rows.
 *
 * The rows of a term fall into SUM_GROUPS groups. A group's rows of all terms are added up by one core, to a sum of the
 * group's own; the groups' sums are added up in order when all cores are through. So neither how many cores there are
 * nor which rows each has changes a bit. */
#include "graph/run.h"

#include <string.h>

#include "cpu/ew.h"

/* How many terms from the first on lie as far apart as the first two, in each factor. */
static int even_terms(const plan_view *terms, int count, int factors)
{
    int n = 1;
    for (; n < count; n++)
        for (int f = 0; f < factors; f++) {
            const plan_view *a = &terms[(n - 1) * factors + f], *b = a + factors;
            if (b->buffer != a->buffer || b->layout != a->layout ||
                b->offset - a->offset != terms[factors + f].offset - terms[f].offset)
                return n;
        }
    return n;
}

/* Rows of a factor, and how far apart they are in one term and from term to term. */
static const void *term_rows(const instruction *in, const binding *bound, const plan_view *first, bool turned,
                             int64_t row, bool many, int64_t *each, int64_t *next)
{
    const int factors = in->sum.products ? 2 : 1;
    *each = first->layout->strides[turned];
    *next = many ? first[factors].offset - first->offset : 0;
    return address(bound, first) + row * *each * (int64_t)dtype_size(first->dtype);
}

/* The terms' rows [begin, end), a group of them, are added to what the group has so far. */
static void add_group(const instruction *in, const binding *bound, int64_t group, int64_t begin, int64_t end)
{
    static const float one = 1;
    static const double one_double = 1;
    const int factors = in->sum.products ? 2 : 1;
    const layout *out = in->sum.out.layout;
    const int64_t size = (int64_t)dtype_size(in->sum.out.dtype);
    gemm_rows t = { .dtype = in->sum.out.dtype, .rows = end - begin, .accumulate = !in->sum.share.first };
    t.a = t.dtype == BK_FLOAT32 ? (const void *)&one : &one_double;
    t.m = 1;
    t.c = bound[in->sum.share.partial].base + group * out->numel * size;
    for (int i = 0, count; i < in->sum.count; i += count, t.accumulate = true) {
        const plan_view *first = &in->sum.terms[i * factors], *b = first + factors - 1;
        count = even_terms(first, in->sum.count - i, factors);
        t.runs = count;
        t.n = b->layout->sizes[1];
        t.b = term_rows(in, bound, b, false, begin, count > 1, &t.b_row, &t.b_run);
        if (in->sum.products) {
            t.m = first->layout->sizes[0];
            t.a = term_rows(in, bound, first, true, begin, count > 1, &t.a_row, &t.a_run);
        }
        gemm_add_rows(&t);
    }
}

void share_run(const instruction *in, const binding *bound, int64_t rows, int64_t begin, int64_t end)
{
    const int64_t each = rows / SUM_GROUPS;
    for (int64_t group = begin / each; group < end / each; group++)
        add_group(in, bound, group, group * each, (group + 1) * each);
}

void share_end(const instruction *in, const binding *bound)
{
    const ew_table *kernels = ew_kernels();
    const int64_t numel = in->sum.out.layout->numel, size = (int64_t)dtype_size(in->sum.out.dtype);
    const ew_kernel add = kernels->op[EW_add][in->sum.out.dtype == BK_FLOAT32 ? COMPUTE_F32 : COMPUTE_F64];
    char *to = address(bound, &in->sum.out), *from = bound[in->sum.share.partial].base;
    for (int64_t group = 0; group < SUM_GROUPS; group++, from += numel * size)
        if (group || !in->sum.share.sets)
            add(numel, to, to, from, NULL);
        else
            memcpy(to, from, (size_t)(numel * size));
}
