/* gemm_internal.h: what the files of the matrix products share: moving matrices, packed factors, products by tiles. */
#ifndef BK_CPU_GEMM_INTERNAL_H
#define BK_CPU_GEMM_INTERNAL_H
#include "cpu/gemm.h"
#include "cpu/gemm_kernels.h"
#include <stdatomic.h>

enum {
    GEMM_STEP_K =
        512, /* a slice of 64 KB at most, half with AVX2: L2 is near enough, and tiles begin and end less often */
    GEMM_A_PAD = 16, /* keeps copied rows off the same cache sets */
    GEMM_SLICE_BYTES = GEMM_STEP_K * GEMM_MAX_PANEL_BYTES,
};

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline double gemm_bytes_ns(double bytes) { return bytes * 0.05; } /* about 20 GB/s from memory */

/* Copies a rows x cols matrix of any strides (in elements) to one of contiguous rows. */
void gemm_copy_matrix(int size, int64_t rows, int64_t cols, const char *from, int64_t from_row, int64_t from_col,
                      char *to, int64_t to_row);

/* --- a factor that is packed on its way ---------------------------------------------------------------------- */

/* b in the packed form, made slice by slice (STEP_K rows of a panel) by whichever thread needs one first. */
typedef struct gemm_factor {
    const gemm_kernels *kernels;
    int64_t k, n;
    const char *b;
    int64_t b_row, b_col;
    char *packed;
    atomic_uchar *states; /* of each slice: raw, being packed, packed; NULL when all of it is packed */
} gemm_factor;

size_t gemm_factor_bytes(const gemm_factor *f); /* what gemm_factor_start needs */
void gemm_factor_start(gemm_factor *f, char *memory);

/* The slice at row k (a multiple of STEP_K) and column `col`: for good, or in `own` while another thread packs it. */
const char *gemm_slice(const gemm_factor *f, int64_t k, int64_t col, char *own);
/* Where the caller is to pack that slice: in place if he is the first, else in `own`. Once it is there gemm_slice_done
 * says so. */
char *gemm_slice_claim(const gemm_factor *f, int64_t k, int64_t col, char *own);
void gemm_slice_done(const gemm_factor *f, int64_t k, int64_t col, const char *slice);
bool gemm_slice_is_packed(const gemm_factor *f, int64_t k, int64_t col);
static inline char *gemm_slice_place(const gemm_factor *f, int64_t k, int64_t col)
{
    return f->packed + (col * f->k + k * f->kernels->nr) * f->kernels->size;
}
/* A slice of `rows` rows as kernels read it, its columns beyond n zero. */
void gemm_pack_slice(const gemm_factor *f, int64_t k, int64_t rows, int64_t col, char *to);

/* --- products by tiles ---------------------------------------------------------------------------------------- */

void gemm_run_tiled(const gemm_task *task, const gemm_kernels *kernels);

#endif
