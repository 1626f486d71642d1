/* gemm_kernels.h: what the products need of an instruction set: one table of micro-kernels per element type.
 *
 * A micro-kernel computes a tile of c of a fixed number of rows, and one panel (`nr` columns) or several panels wide.
 * It keeps the whole tile in registers and adds up k in ascending order. */
#ifndef BK_CPU_GEMM_KERNELS_H
#define BK_CPU_GEMM_KERNELS_H
#include "brisk.h"

enum {
    GEMM_MAX_ROWS = 14,
    GEMM_MAX_TURNED_ROWS = 4,
    GEMM_MAX_PANEL_BYTES = 128, /* one row of a panel */
    GEMM_PACK_SPILL = 128,
    GEMM_LEAN_FETCH = 2, /* k for each address that a lean tile fetches */
    GEMM_CARRY_K = 4,    /* k for each row that one packs which carries */
};

typedef struct gemm_steps { /* strides in elements; columns of b and c are contiguous */
    int64_t k;
    int64_t a_row, a_col;
    int64_t b_row, b_panel;
    int64_t c_row, from_row;
    const void *addend; /* of the tile: added to what is stored, after all else; or NULL */
    int64_t addend_row;
    /* Rows of a whole panel, raw_row apart, of which a tile that carries packs one every GEMM_CARRY_K k; every other
     * time not, if raw_rests is GEMM_CARRY_K and not 0. */
    const void *raw;
    int64_t raw_row, raw_rests;
    void *keep; /* where they go: contiguous */
    /* What to bring into L2 meanwhile, an address for each k: `next_run` of them next_step bytes apart, then as many
     * again next_jump bytes further on. */
    const char *next;
    int64_t next_step, next_run, next_jump;
    /* Of a tile whose k come in runs, k of them each: how many runs, and from the beginning of one to that of the next.
     */
    int64_t runs, a_run, b_run;
} gemm_steps;

/* c = a b, or c = from + a b unless `from` is NULL; it may be c. */
typedef void (*gemm_tile_fn)(const gemm_steps *steps, const void *a, const void *b, const void *from, void *c);
/* out[i] = the dot product of row i of a (contiguous, a_row apart) and x, for `rows` rows. */
typedef void (*gemm_dots_fn)(int64_t rows, int64_t k, const void *a, int64_t a_row, const void *x, void *out);

/* Copies `rows` rows of a whole panel, b_row elements apart, to contiguous ones. */
typedef void (*gemm_pack_fn)(int64_t rows, const void *b, int64_t b_row, void *to);
/* Copies `rows` rows of a, k elements each, side by side for each k. It may write GEMM_PACK_SPILL bytes beyond. */
typedef void (*gemm_pack_a_fn)(int rows, int64_t k, const void *a, int64_t a_row, int64_t a_col, void *to);
/* c = (c +) a tile of contiguous panel rows, its first `cols` columns. */
typedef void (*gemm_store_fn)(int rows, int64_t cols, const void *tile, void *c, int64_t c_row, int64_t c_col,
                              bool add);
/* c[i] = (c[i] +) sums[0][i] + sums[1][i] + ..., in that order, for m elements. */
typedef void (*gemm_add_up_fn)(int64_t m, int64_t steps, const void *sums, void *c, int64_t c_row, bool add);

/* How a lean tile finds a: contiguous rows, contiguous columns, or as pack_a packs it. */
typedef enum gemm_a { GEMM_A_ROWS, GEMM_A_COLUMNS, GEMM_A_PACKED, GEMM_A_KINDS } gemm_a;

typedef struct gemm_kernels {
    int size; /* bytes per element */
    int mr, nr;
    double flops_per_ns;                  /* of one thread, roughly: what the thread pool is told */
    gemm_tile_fn tile[GEMM_MAX_ROWS + 1]; /* by rows, one panel wide */
    /* One panel wide, faster where a lies well; [][1] carries: meanwhile it packs rows of another slice of b. By rows;
     * NULL for integers. */
    gemm_tile_fn lean[GEMM_A_KINDS][2][GEMM_MAX_ROWS + 1];
    gemm_tile_fn strung[GEMM_MAX_ROWS + 1]; /* by rows, one panel wide: k in runs, columns of a contiguous; or NULL */
    gemm_tile_fn narrow[GEMM_MAX_ROWS + 1]; /* by rows, the first half of a panel: for the last columns */
    gemm_tile_fn wide[GEMM_MAX_ROWS + 1];   /* by rows, wide_panels wide: few rows need more columns in flight */
    uint8_t wide_panels[GEMM_MAX_ROWS + 1];
    gemm_tile_fn pair[GEMM_MAX_ROWS + 1]; /* by rows, two panels wide where `wide` has more; or NULL */
    /* By rows, one panel wide, where columns of b are contiguous, b_panel apart: the panel is turned in registers. */
    gemm_tile_fn turned[GEMM_MAX_TURNED_ROWS + 1];
    gemm_dots_fn dots;
    gemm_pack_fn pack;
    gemm_pack_a_fn pack_a;
    gemm_store_fn store;
    gemm_add_up_fn add_up;
} gemm_kernels;

enum { GEMM_F32, GEMM_F64, GEMM_I64, GEMM_TYPES };
extern const gemm_kernels *const gemm_kernels_baseline[GEMM_TYPES];
extern const gemm_kernels *const gemm_kernels_avx2[GEMM_TYPES];
extern const gemm_kernels *const gemm_kernels_avx512[GEMM_TYPES];

const gemm_kernels *gemm_kernels_for(bk_dtype dtype); /* of the instruction set in use */

#endif
