/* reduce_kernels.c: the inner loops of reductions, compiled once per ISA level (ISA_NAME names the table).
 *
 * Lanes are float for float32 and the halves, but only over REDUCE_BLOCK elements (REDUCE_ROWS rows for columns);
 * blocks are joined in double. A sum of any length thus has the rounding errors of a sum of at most a few hundred
 * terms per lane. Small integers have 32-bit lanes over the same blocks, joined in int64.
 *
 * Invariant: the order of additions depends on n and on the vector width alone. */
#include "cpu/element.h"
#include "cpu/reduce.h"

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

enum {
    ARG_BLOCK = 256, /* elements searched one by one for a place */
    MOMENT_ROWS = 32 /* rows read twice: 128 KB of floats, in L2 at the second reading */
};

#define FLOAT_LANES  1 /* float32 and the halves */
#define DOUBLE_LANES 2
#define INT32_LANES  3 /* integers of 8 and 16 bits */
#define INT64_LANES  4

#define AS_IS(vec, mask, h)       ((vec)(h))
#define CONVERTED(vec, mask, h)   __builtin_convertvector(h, vec)
#define FROM_BOOL(vec, mask, h)   __builtin_convertvector(-((h) != 0), vec)
#define FROM_BFLOAT(vec, mask, h) ((vec)(__builtin_convertvector(h, mask) << 16))
#define FROM_HALF(vec, mask, h)   ((vec)half_lanes(__builtin_convertvector(h, mask)))

typedef int32_t half_mask __attribute__((vector_size(VECTOR_BYTES)));
typedef float half_vec __attribute__((vector_size(VECTOR_BYTES)));

/* element_half_to_float, by vectors of zero-extended halves. */
ELEMENT_INLINE half_mask half_lanes(half_mask h)
{
    half_mask scaled = (h & 0x7fff) << 13, finite = (half_mask)((half_vec)scaled * 0x1p112f);
    half_mask special = (0x7bff - (h & 0x7fff)) >> 31; /* all ones for infinities and NaNs */
    return ((scaled | 0x7f800000) & special) | (finite & ~special) | (h & 0x8000) << 16;
}

/* Chan's formula: the moments of `before` elements joined with those of n more. */
ELEMENT_INLINE void moments_join(double *mean, double *m2, int64_t before, double new_mean, double new_m2, int64_t n)
{
    if (before == 0) {
        *mean = new_mean;
        *m2 = new_m2;
        return;
    }
    double delta = new_mean - *mean, share = (double)n / (double)(before + n);
    *mean += delta * share;
    *m2 += new_m2 + delta * delta * (double)before * share;
}

#define N(name) f32_##name
#define DTYPE   BK_FLOAT32
#define HELD    float
#define FAMILY  FLOAT_LANES
#define WIDEN   AS_IS
#include "cpu/reduce_loops.h"

#define N(name) f64_##name
#define DTYPE   BK_FLOAT64
#define HELD    double
#define FAMILY  DOUBLE_LANES
#define WIDEN   AS_IS
#include "cpu/reduce_loops.h"

#define N(name) f16_##name
#define DTYPE   BK_FLOAT16
#define HELD    uint16_t
#define FAMILY  FLOAT_LANES
#define WIDEN   FROM_HALF
#include "cpu/reduce_loops.h"

#define N(name) bf16_##name
#define DTYPE   BK_BFLOAT16
#define HELD    uint16_t
#define FAMILY  FLOAT_LANES
#define WIDEN   FROM_BFLOAT
#include "cpu/reduce_loops.h"

#define N(name) i64_##name
#define DTYPE   BK_INT64
#define HELD    int64_t
#define FAMILY  INT64_LANES
#define WIDEN   AS_IS
#include "cpu/reduce_loops.h"

#define N(name) i32_##name
#define DTYPE   BK_INT32
#define HELD    int32_t
#define FAMILY  INT64_LANES
#define WIDEN   CONVERTED
#include "cpu/reduce_loops.h"

#define N(name) i16_##name
#define DTYPE   BK_INT16
#define HELD    int16_t
#define FAMILY  INT32_LANES
#define WIDEN   CONVERTED
#include "cpu/reduce_loops.h"

#define N(name) i8_##name
#define DTYPE   BK_INT8
#define HELD    int8_t
#define FAMILY  INT32_LANES
#define WIDEN   CONVERTED
#include "cpu/reduce_loops.h"

#define N(name) u8_##name
#define DTYPE   BK_UINT8
#define HELD    uint8_t
#define FAMILY  INT32_LANES
#define WIDEN   CONVERTED
#include "cpu/reduce_loops.h"

#define N(name) b8_##name
#define DTYPE   BK_BOOL
#define HELD    uint8_t
#define FAMILY  INT32_LANES
#define WIDEN   FROM_BOOL
#include "cpu/reduce_loops.h"

/* --- the table --------------------------------------------------------------------------------------------- */

#define KINDS(X, dtype, name, acc)                                                                                     \
    X(name, SUM, acc) X(name, PROD, acc) X(name, MAX, acc) X(name, MIN, acc) X(name, ANY, acc) X(name, ALL, acc)
#define KIND_FUNCTIONS(name, kind, acc)                                                                                \
    static void name##_rows_##kind(const char *p, int64_t outputs, int64_t output_step, int64_t n, int64_t step,       \
                                   int64_t before, void *a, void *b)                                                   \
    {                                                                                                                  \
        (void)b;                                                                                                       \
        name##_rows(REDUCE_##kind, p, outputs, output_step, n, step, before, (acc *)a);                                \
    }                                                                                                                  \
    static void name##_columns_##kind(const char *p, int64_t rows, int64_t row_step, int64_t n, int64_t step,          \
                                      int64_t before, void *a, void *b)                                                \
    {                                                                                                                  \
        (void)b;                                                                                                       \
        name##_columns(REDUCE_##kind, p, rows, row_step, n, step, before, (acc *)a);                                   \
    }
#define ARG_FUNCTIONS(name, kind, acc)                                                                                 \
    static void name##_rows_ARG##kind(const char *p, int64_t outputs, int64_t output_step, int64_t n, int64_t step,    \
                                      int64_t before, void *a, void *b)                                                \
    {                                                                                                                  \
        name##_arg_rows(REDUCE_##kind, p, outputs, output_step, n, step, before, (acc *)a, (int64_t *)b);              \
    }                                                                                                                  \
    static void name##_columns_ARG##kind(const char *p, int64_t rows, int64_t row_step, int64_t n, int64_t step,       \
                                         int64_t before, void *a, void *b)                                             \
    {                                                                                                                  \
        name##_arg_columns(REDUCE_##kind, p, rows, row_step, n, step, before, (acc *)a, (int64_t *)b);                 \
    }
#define FUNCTIONS(dtype, name, acc)                                                                                    \
    KINDS(KIND_FUNCTIONS, dtype, name, acc)                                                                            \
    ARG_FUNCTIONS(name, MAX, acc)                                                                                      \
    ARG_FUNCTIONS(name, MIN, acc)
#define FLOAT_FUNCTIONS(dtype, name, held, compute) FUNCTIONS(dtype, name, double)
#define INT_FUNCTIONS(dtype, name, held, compute)   FUNCTIONS(dtype, name, int64_t)

ELEMENT_FLOATS(FLOAT_FUNCTIONS)
ELEMENT_INTS(INT_FUNCTIONS)

#define ENTRIES(name, shape)                                                                                           \
    name##_##shape##_SUM, name##_##shape##_PROD, name##_##shape##_MAX, name##_##shape##_MIN, name##_##shape##_ANY,     \
        name##_##shape##_ALL, name##_##shape##_ARGMAX, name##_##shape##_ARGMIN
#define FLOAT_ROWS(dtype, name, held, compute)    [dtype] = { ENTRIES(name, rows), name##_moment_rows },
#define FLOAT_COLUMNS(dtype, name, held, compute) [dtype] = { ENTRIES(name, columns), name##_moment_columns },
#define INT_ROWS(dtype, name, held, compute)      [dtype] = { ENTRIES(name, rows), NULL },
#define INT_COLUMNS(dtype, name, held, compute)   [dtype] = { ENTRIES(name, columns), NULL },
#define TABLE_OF(isa)                             reduce_table_##isa
#define TABLE(isa)                                TABLE_OF(isa)

const reduce_table TABLE(ISA_NAME) = {
    .rows = { ELEMENT_FLOATS(FLOAT_ROWS) ELEMENT_INTS(INT_ROWS) },
    .columns = { ELEMENT_FLOATS(FLOAT_COLUMNS) ELEMENT_INTS(INT_COLUMNS) },
};
