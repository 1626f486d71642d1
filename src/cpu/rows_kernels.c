/* rows_kernels.c: the row kernels of one ISA level (ISA_NAME: baseline, avx2 or avx512). */
#include "cpu/ew_internal.h"
#include "cpu/rows.h"
#include "cpu/vmath.h"

#include <math.h>
#include <string.h>

enum { LANES = 64, SLICE = 2048, LINE_BYTES = 64 };
#define ROW_INLINE static inline __attribute__((always_inline))

/* Vectors of a cache line, wherever they are, and the sum of one: half by half. */
typedef float line_float __attribute__((vector_size(LINE_BYTES)));
typedef float loose_float __attribute__((vector_size(LINE_BYTES), aligned(4), may_alias));
typedef float half_float __attribute__((vector_size(LINE_BYTES / 2)));
typedef float quarter_float __attribute__((vector_size(LINE_BYTES / 4)));
typedef double line_double __attribute__((vector_size(LINE_BYTES)));
typedef double loose_double __attribute__((vector_size(LINE_BYTES), aligned(8), may_alias));
typedef double half_double __attribute__((vector_size(LINE_BYTES / 2)));

ROW_INLINE float line_sum_float(const line_float *v)
{
    const half_float h = __builtin_shufflevector(*v, *v, 0, 1, 2, 3, 4, 5, 6, 7) +
                         __builtin_shufflevector(*v, *v, 8, 9, 10, 11, 12, 13, 14, 15);
    const quarter_float q = __builtin_shufflevector(h, h, 0, 1, 2, 3) + __builtin_shufflevector(h, h, 4, 5, 6, 7);
    return (q[0] + q[2]) + (q[1] + q[3]);
}

ROW_INLINE double line_sum_double(const line_double *v)
{
    const half_double h = __builtin_shufflevector(*v, *v, 0, 1, 2, 3) + __builtin_shufflevector(*v, *v, 4, 5, 6, 7);
    return (h[0] + h[2]) + (h[1] + h[3]);
}

#define T       float
#define NAME(f) f##_float
#include "cpu/rows_loops.h"
#undef T
#undef NAME
#define T       double
#define NAME(f) f##_double
#include "cpu/rows_loops.h"
#undef T
#undef NAME

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ROWS(type)                                                                                                     \
    { [ROW_STANDARDISE] = standardise_##type,                                                                          \
      [ROW_STANDARDISE_BACK] = standardise_back_##type,                                                                \
      [ROW_UNIT] = unit_##type,                                                                                        \
      [ROW_UNIT_BACK] = unit_back_##type,                                                                              \
      [ROW_SOFTMAX] = softmax_##type,                                                                                  \
      [ROW_SOFTMAX_BACK] = softmax_back_##type,                                                                        \
      [ROW_LOG_SOFTMAX] = log_softmax_##type }
const row_table JOIN(row_table_, ISA_NAME) = { .single = ROWS(float), .wide = ROWS(double) };
