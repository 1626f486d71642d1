/* gemm_kernels.h: what gemm.c needs of an instruction set: one table of micro-kernels per element type.
 *
 * A micro-kernel computes a tile of c of a fixed number of rows, and one panel (`nr` columns) or several panels wide.
 * It keeps the whole tile in registers and adds up k in ascending order. */
#ifndef BK_CPU_GEMM_KERNELS_H
#define BK_CPU_GEMM_KERNELS_H
#include "brisk.h"

enum {
    GEMM_MAX_ROWS = 14,
    GEMM_MAX_PANEL_BYTES = 128, /* one row of a panel */
};

typedef struct gemm_steps { /* strides in elements; columns of b and c are contiguous */
    int64_t k;
    int64_t a_row, a_col;
    int64_t b_row, b_panel;
    int64_t c_row;
} gemm_steps;

/* c = a b, or c += a b when `add`. */
typedef void (*gemm_tile_fn)(const gemm_steps *steps, const void *a, const void *b, void *c, bool add);
/* out[i] = the dot product of row i of a (contiguous, a_row apart) and x, for `rows` rows. */
typedef void (*gemm_dots_fn)(int64_t rows, int64_t k, const void *a, int64_t a_row, const void *x, void *out);

typedef struct gemm_kernels {
    int size; /* bytes per element */
    int mr, nr;
    double flops_per_ns; /* of one thread, roughly: what the thread pool is told */
    gemm_tile_fn tile[GEMM_MAX_ROWS + 1];      /* by rows, one panel wide */
    gemm_tile_fn wide[GEMM_MAX_ROWS + 1];      /* by rows, wide_panels wide: few rows need more columns in flight */
    uint8_t wide_panels[GEMM_MAX_ROWS + 1];
    gemm_dots_fn dots;
} gemm_kernels;

enum { GEMM_F32, GEMM_F64, GEMM_I64, GEMM_TYPES };
extern const gemm_kernels *const gemm_kernels_baseline[GEMM_TYPES];
extern const gemm_kernels *const gemm_kernels_avx2[GEMM_TYPES];
extern const gemm_kernels *const gemm_kernels_avx512[GEMM_TYPES];

#endif
