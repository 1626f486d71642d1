/* gemm_pack.c: the packed form of a factor: panels of nr columns one after another, the last filled up with zeros; a
 * vector stays a vector.
 *
 * A product packs its factor while it runs. A slice's state goes from raw to busy to packed, once; who wins the first
 * step packs it. Nobody waits for a slice: whoever finds it busy packs a copy for itself, so that a thread that loses
 * its core in the midst holds up nobody. Memory of a slice is read by others only once it is packed. */
#include "cpu/gemm_internal.h"
#include "cpu/turn.h"
#include "core/threads.h"
#include <string.h>

typedef uint32_t word32 __attribute__((may_alias));
typedef uint64_t word64 __attribute__((may_alias));

/* n times one element: a few, and copies of what is there, twice as many each time. */
static void repeat(int size, int64_t n, const char *from, char *to)
{
    enum { FEW = 64 };
    const word32 narrow = *(const word32 *)from;
    const word64 wide = size == 8 ? *(const word64 *)from : 0;
    const int64_t few = min_i64(n, FEW);
    if (size == 4)
        for (int64_t j = 0; j < few; j++)
            ((word32 *)to)[j] = narrow;
    else
        for (int64_t j = 0; j < few; j++)
            ((word64 *)to)[j] = wide;
    for (int64_t done = few; done < n; done *= 2)
        memcpy(to + done * size, to, (size_t)(min_i64(done, n - done) * size));
}

static void copy_strided(int size, int64_t rows, int64_t cols, const char *from, int64_t from_row, int64_t from_col,
                         char *to, int64_t to_row)
{
    if (from_row == 0 && from_col == 0 && to_row == cols) {
        repeat(size, rows * cols, from, to);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        const char *source = from + i * from_row * size;
        char *target = to + i * to_row * size;
        if (from_col == 1)
            memcpy(target, source, (size_t)(cols * size));
        else if (from_col == 0) /* the gradient of a sum */
            repeat(size, cols, source, target);
        else if (size == 4)
            for (int64_t j = 0; j < cols; j++)
                ((word32 *)target)[j] = ((const word32 *)source)[j * from_col];
        else
            for (int64_t j = 0; j < cols; j++)
                ((word64 *)target)[j] = ((const word64 *)source)[j * from_col];
    }
}

void gemm_copy_matrix(int size, int64_t rows, int64_t cols, const char *from, int64_t from_row, int64_t from_col,
                      char *to, int64_t to_row)
{
    const turn_kernels *turn = turn_current();
    if (from_row == 1 && from_col != 1 && rows > 1)
        (size == 4 ? turn->words : turn->longs)(rows, cols, from, from_col, to, to_row);
    else
        copy_strided(size, rows, cols, from, from_row, from_col, to, to_row);
}

void gemm_pack_slice(const gemm_factor *f, int64_t k, int64_t rows, int64_t col, char *to)
{
    const int size = f->kernels->size, nr = f->kernels->nr;
    const int64_t cols = min_i64(nr, f->n - col);
    const char *from = f->b + (k * f->b_row + col * f->b_col) * size;
    if (f->b_col == 1 && cols == nr) {
        f->kernels->pack(rows, from, f->b_row, to);
        return;
    }
    gemm_copy_matrix(size, rows, cols, from, f->b_row, f->b_col, to, nr);
    if (cols < nr)
        for (int64_t i = 0; i < rows; i++)
            memset(to + (i * nr + cols) * size, 0, (size_t)((nr - cols) * size));
}

/* --- packing on the way --------------------------------------------------------------------------------------- */

enum { RAW, BUSY, PACKED };

static int64_t steps_of(const gemm_factor *f) { return ceil_div(f->k, GEMM_STEP_K); }

static int64_t slices_of(const gemm_factor *f) { return steps_of(f) * ceil_div(f->n, f->kernels->nr); }

static size_t panel_bytes(const gemm_factor *f)
{
    return (size_t)(ceil_div(f->n, f->kernels->nr) * f->kernels->nr * f->k * f->kernels->size);
}

size_t gemm_factor_bytes(const gemm_factor *f) { return panel_bytes(f) + (size_t)slices_of(f); }

void gemm_factor_start(gemm_factor *f, char *memory)
{
    f->packed = memory;
    f->states = (atomic_uchar *)(memory + panel_bytes(f));
    for (int64_t i = 0; i < slices_of(f); i++)
        atomic_init(&f->states[i], RAW);
}

static atomic_uchar *state_of(const gemm_factor *f, int64_t k, int64_t col)
{
    return &f->states[col / f->kernels->nr * steps_of(f) + k / GEMM_STEP_K];
}

bool gemm_slice_is_packed(const gemm_factor *f, int64_t k, int64_t col)
{
    return f->packed && (!f->states || atomic_load_explicit(state_of(f, k, col), memory_order_acquire) == PACKED);
}

char *gemm_slice_claim(const gemm_factor *f, int64_t k, int64_t col, char *own)
{
    unsigned char raw = RAW;
    const bool first = f->packed && atomic_compare_exchange_strong(state_of(f, k, col), &raw, BUSY);
    return first ? gemm_slice_place(f, k, col) : own;
}

void gemm_slice_done(const gemm_factor *f, int64_t k, int64_t col, const char *slice)
{
    if (f->packed && slice == gemm_slice_place(f, k, col))
        atomic_store_explicit(state_of(f, k, col), PACKED, memory_order_release);
}

const char *gemm_slice(const gemm_factor *f, int64_t k, int64_t col, char *own)
{
    if (gemm_slice_is_packed(f, k, col))
        return gemm_slice_place(f, k, col);
    char *slice = gemm_slice_claim(f, k, col, own);
    gemm_pack_slice(f, k, min_i64(GEMM_STEP_K, f->k - k), col, slice);
    gemm_slice_done(f, k, col, slice);
    return slice;
}

/* --- packing beforehand --------------------------------------------------------------------------------------- */

size_t gemm_packed_bytes(bk_dtype dtype, int64_t k, int64_t n)
{
    const gemm_kernels *kernels = gemm_kernels_for(dtype);
    int64_t columns = n == 1 ? 1 : ceil_div(n, kernels->nr) * kernels->nr;
    return (size_t)(columns * k * kernels->size);
}

/* Rows of whole panels: a row of b is read across all of them, since memory is fast along rows. */
static void pack_rows(const gemm_factor *f, int64_t begin, int64_t end)
{
    enum { TOGETHER = 8 };
    const int64_t size = f->kernels->size, row_bytes = f->kernels->nr * size, panel_bytes = row_bytes * f->k;
    for (int64_t first = begin; first < end; first += TOGETHER) {
        const int64_t count = min_i64(TOGETHER, end - first);
        for (int64_t k = 0; k < f->k; k++) {
            const char *from = f->b + k * f->b_row * size + first * row_bytes;
            char *to = f->packed + first * panel_bytes + k * row_bytes;
            for (int64_t panel = 0; panel < count; panel++, to += panel_bytes)
                for (int64_t at = 0; at < row_bytes; at += 32, from += 32)
                    memcpy(to + at, from, 32);
        }
    }
}

static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const gemm_factor *f = arg;
    const int nr = f->kernels->nr;
    if (f->b_col == 1) {
        const int64_t whole = min_i64(end, f->n / nr);
        pack_rows(f, begin, whole);
        begin = max_i64(whole, begin);
    }
    for (int64_t panel = begin; panel < end; panel++)
        gemm_pack_slice(f, 0, f->k, panel * nr, gemm_slice_place(f, 0, panel * nr));
}

void gemm_pack(bk_dtype dtype, int64_t k, int64_t n, const void *b, int64_t b_row, int64_t b_col, void *packed)
{
    gemm_factor f = { gemm_kernels_for(dtype), k, n, b, b_row, b_col, packed, NULL };
    if (k == 0 || n == 0)
        return;
    if (n == 1)
        gemm_copy_matrix(f.kernels->size, 1, k, b, 0, b_row, packed, 0);
    else
        threads_for(ceil_div(n, f.kernels->nr), 1, 0.3 * (double)(k * n), pack_panels, &f);
}
