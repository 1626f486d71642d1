/* index_rows.c: whole rows of matrices by an index: added up, or kept.
 *
 * The rows that meet are found first, by counting, so that each row of the result is made in one go while it is in
 * cache, and by one thread.
 *
 * Invariant: rows are added up in the order of the index, SUM_AT_ONCE at a time, whatever the number of threads. */
#include <string.h>

#include "core/memory.h"
#include "core/threads.h"
#include "cpu/ew.h"
#include "cpu/index.h"

enum {
    SUM_AT_ONCE = 256, /* a longer sum is one of sums, which loses less */
    BLOCK_BYTES = 4096 /* of a row */
};

typedef struct row_sums {
    char *to;
    const char *from;
    int64_t to_row, from_row, row; /* in bytes */
    int64_t blocks, size;
    const int64_t *begin, *order; /* rows order[begin[r]] to order[begin[r + 1]] meet in row r */
    ew_kernel add;
} row_sums;

static int64_t place_at(const view *index, int64_t i, int64_t rows)
{
    const int64_t at = ((const int64_t *)index->data)[i * index->strides[0]];
    return at < 0 ? at + rows : at;
}

static void sum_block(const row_sums *s, int64_t r, int64_t at, int64_t bytes)
{
    char part[BLOCK_BYTES], *to = s->to + r * s->to_row + at;
    const int64_t n = bytes / s->size;
    if (s->begin[r] == s->begin[r + 1])
        memset(to, 0, (size_t)bytes);
    for (int64_t k = s->begin[r]; k < s->begin[r + 1];) {
        const int64_t end = s->begin[r + 1] - k < SUM_AT_ONCE ? s->begin[r + 1] : k + SUM_AT_ONCE;
        char *sum = k == s->begin[r] ? to : part;
        memcpy(sum, s->from + s->order[k] * s->from_row + at, (size_t)bytes);
        for (k++; k < end; k++)
            s->add(n, sum, sum, s->from + s->order[k] * s->from_row + at, NULL);
        if (sum == part)
            s->add(n, to, to, part, NULL);
    }
}

static void sum_blocks(void *arg, int64_t begin, int64_t end)
{
    const row_sums *s = arg;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i % s->blocks * BLOCK_BYTES, left = s->row - at;
        sum_block(s, i / s->blocks, at, left < BLOCK_BYTES ? left : BLOCK_BYTES);
    }
}

/* Which rows meet where. begin: zeros, rows + 1 of them and one more. */
static void sort_rows(const view *index, int64_t rows, int64_t count, int64_t *begin, int64_t *order)
{
    for (int64_t i = 0; i < count; i++)
        begin[place_at(index, i, rows) + 2]++;
    for (int64_t r = 2; r <= rows; r++)
        begin[r] += begin[r - 1];
    for (int64_t i = 0; i < count; i++)
        order[begin[place_at(index, i, rows) + 1]++] = i;
}

int index_sum(const view *dst, const view *index, const view *src)
{
    const int64_t rows = dst->sizes[0], count = view_numel(index), size = (int64_t)dtype_size(dst->dtype);
    row_sums s = { .to = dst->data, .from = src->data, .size = size, .row = dst->sizes[1] * size };
    s.to_row = dst->strides[0] * size;
    s.from_row = src->strides[0] * size;
    s.blocks = (s.row + BLOCK_BYTES - 1) / BLOCK_BYTES;
    s.add = ew_kernels()->op[EW_add][dtypes[dst->dtype].compute];
    int64_t *begin = mem_alloc((size_t)(rows + 2 + count) * sizeof *begin);
    if (!begin)
        return -1;
    memset(begin, 0, (size_t)(rows + 2) * sizeof *begin);
    sort_rows(index, rows, count, begin, begin + rows + 2);
    s.begin = begin;
    s.order = begin + rows + 2;
    threads_for(rows * s.blocks, 1 + rows * s.blocks / 64, (double)(count * dst->sizes[1]) * 0.2, sum_blocks, &s);
    mem_free(begin);
    return 0;
}

typedef struct kept_rows {
    const view *to, *from;
    const bool *named;
} kept_rows;

static void keep_rows(void *arg, int64_t begin, int64_t end)
{
    const kept_rows *k = arg;
    const int64_t size = (int64_t)dtype_size(k->to->dtype), bytes = k->to->sizes[1] * size;
    for (int64_t r = begin; r < end; r++) {
        char *to = k->to->data + r * k->to->strides[0] * size;
        if (k->named[r])
            memcpy(to, k->from->data + r * k->from->strides[0] * size, (size_t)bytes);
        else
            memset(to, 0, (size_t)bytes);
    }
}

int index_keep(const view *dst, const view *index, const view *src)
{
    const int64_t rows = dst->sizes[0], count = view_numel(index);
    bool *named = mem_alloc((size_t)rows * sizeof *named);
    if (!named)
        return -1;
    memset(named, 0, (size_t)rows * sizeof *named);
    for (int64_t i = 0; i < count; i++)
        named[place_at(index, i, rows)] = true;
    kept_rows k = { .to = dst, .from = src, .named = named };
    threads_for(rows, 1 + (1 << 14) / (dst->sizes[1] + 1), (double)view_numel(dst) * 0.3, keep_rows, &k);
    mem_free(named);
    return 0;
}
