/* run_sum.c: adding up a stretch of products, or of sums over rows.
 *
 * The factors' rows are strung together, so that one product sums over all of them. Those that follow each other in
 * memory are read where they lie, others are copied to the scratch first, SUM_ROWS at a time: what is copied is still
 * in cache when the product reads it. */
#include "graph/run_sum.h"

#include <string.h>

#include "cpu/gemm.h"

/* Rows of one factor: term after term. */
typedef struct rows {
    const char *first;
    int64_t step; /* elements from one row to the next */
    int64_t width;
} rows;

static rows rows_in(const sum_call *s, int term, int factor)
{
    const sum_rows *r = &s->terms[term * s->factors + factor];
    const int along = s->factors == 2 && factor == 0; /* the first factor of a product is transposed */
    return (rows){ r->data, r->layout->strides[along], r->layout->sizes[!along] };
}

static int64_t count_of(const sum_call *s, int term)
{
    const int last = s->factors - 1;
    return s->terms[term * s->factors + last].layout->sizes[0];
}

/* Whether the rows are such that they can be strung together. */
static bool lie_in_rows(const sum_call *s, int term)
{
    for (int f = 0; f < s->factors; f++) {
        const bool along = s->factors == 2 && f == 0;
        if (s->terms[term * s->factors + f].layout->strides[!along] != 1)
            return false;
    }
    return true;
}

/* Whether the next term's rows of a factor come right after those of this one. */
static bool next_follows(const sum_call *s, int term, int factor)
{
    const int64_t size = (int64_t)bk_dtype_size(s->out.dtype);
    rows a = rows_in(s, term, factor), b = rows_in(s, term + 1, factor);
    const sum_rows *r = &s->terms[term * s->factors + factor];
    return r[s->factors].memory == r->memory && b.step == a.step &&
           b.first == a.first + count_of(s, term) * a.step * size;
}

/* How many terms from the first on lie in memory as the rows of one matrix each. */
static int follow(const sum_call *s, int first, int64_t *count)
{
    int last = first;
    *count = count_of(s, first);
    for (; last + 1 < s->count; last++) {
        for (int f = 0; f < s->factors; f++)
            if (!next_follows(s, last, f))
                return last + 1 - first;
        *count += count_of(s, last + 1);
    }
    return last + 1 - first;
}

/* The sum over rows of a and b; without b that of a, as the product of ones. */
static int add_rows(const sum_call *s, const rows *r, int64_t count, bool begins)
{
    const bool product = s->factors == 2;
    gemm_task task = { .dtype = s->out.dtype, .m = 1, .k = count, .c = s->out.data, .accumulate = !begins };
    task.n = r[product].width;
    task.b = r[product].first;
    task.b_row = r[product].step;
    task.b_col = 1;
    task.c_row = task.n;
    task.c_col = 1;
    if (product) {
        task.m = r[0].width;
        task.a = r[0].first;
        task.a_row = 1;
        task.a_col = r[0].step;
        return gemm_run(&task);
    }
    union {
        float f[SUM_ROWS];
        double d[SUM_ROWS];
    } ones;
    for (int i = 0; i < SUM_ROWS && i < count; i++)
        if (task.dtype == BK_FLOAT32)
            ones.f[i] = 1;
        else
            ones.d[i] = 1;
    task.a = &ones;
    task.a_row = SUM_ROWS;
    task.a_col = 1;
    for (int64_t done = 0; done < count; done += SUM_ROWS) {
        task.k = count - done < SUM_ROWS ? count - done : SUM_ROWS;
        task.b = r[0].first + done * r[0].step * (int64_t)bk_dtype_size(task.dtype);
        if (gemm_run(&task) < 0)
            return -1;
        task.accumulate = true;
    }
    return 0;
}

static int64_t copied;

int64_t run_sum_copied(void) { return copied; }

static void copy_rows(rows from, int64_t count, int64_t size, char *to)
{
    copied += count;
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * from.width * size, from.first + i * from.step * size, (size_t)(from.width * size));
}

/* One term whose factors lie in other ways. */
static int add_apart(const sum_call *s, int term, bool begins)
{
    const sum_rows *r = &s->terms[term * s->factors];
    gemm_task task = { .dtype = s->out.dtype, .c = s->out.data, .accumulate = !begins, .m = 1, .c_col = 1 };
    const layout *b = r[s->factors - 1].layout;
    const double one = 1;
    const float one_f = 1;
    task.n = b->sizes[1];
    task.k = b->sizes[0];
    task.b = r[s->factors - 1].data;
    task.b_row = b->strides[0];
    task.b_col = b->strides[1];
    task.c_row = task.n;
    if (s->factors == 1) {
        task.a = task.dtype == BK_FLOAT32 ? (const void *)&one_f : &one;
        return gemm_run(&task);
    }
    task.m = r[0].layout->sizes[0];
    task.a = r[0].data;
    task.a_row = r[0].layout->strides[0];
    task.a_col = r[0].layout->strides[1];
    return gemm_run(&task);
}

/* Strings terms from `first` on together until the scratch is full, copying the factors that lie apart; returns how
 * many. */
static int gather(const sum_call *s, int first, int64_t *count, rows *r)
{
    const int64_t size = (int64_t)bk_dtype_size(s->out.dtype);
    char *scratch = s->scratch;
    int taken = 0;
    *count = 0;
    for (int t = first; t < s->count && lie_in_rows(s, t) && *count + count_of(s, t) <= SUM_ROWS; t++, taken++)
        *count += count_of(s, t);
    for (int f = 0; f < s->factors; f++) {
        int last = first;
        r[f] = rows_in(s, first, f);
        while (last + 1 < first + taken && next_follows(s, last, f))
            last++;
        if (last + 1 == first + taken)
            continue;
        const int64_t width = r[f].width;
        r[f] = (rows){ scratch, width, width };
        for (int t = first; t < first + taken; t++) {
            copy_rows(rows_in(s, t, f), count_of(s, t), size, scratch);
            scratch += count_of(s, t) * width * size;
        }
    }
    return taken;
}

int run_sum(const sum_call *s)
{
    bool begins = s->begins;
    for (int t = 0, taken; t < s->count; t += taken, begins = false) {
        int64_t count;
        rows r[2];
        int status;
        if (!lie_in_rows(s, t)) {
            taken = 1;
            status = add_apart(s, t, begins);
        } else if ((taken = follow(s, t, &count)) == s->count - t || count >= SUM_ROWS / 2) {
            for (int f = 0; f < s->factors; f++)
                r[f] = rows_in(s, t, f);
            status = add_rows(s, r, count, begins);
        } else {
            taken = gather(s, t, &count, r);
            status = add_rows(s, r, count, begins);
        }
        if (status < 0)
            return -1;
    }
    return 0;
}
