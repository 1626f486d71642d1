/* rows_kernels.c: the row kernels of one ISA level (ISA_NAME: baseline, avx2 or avx512). */
#include "cpu/ew_internal.h"
#include "cpu/rows.h"
#include "cpu/vmath.h"

enum { LANES = 64, SLICE = 2048 };

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
      [ROW_SOFTMAX_BACK] = softmax_back_##type }
const row_table JOIN(row_table_, ISA_NAME) = { .single = ROWS(float), .wide = ROWS(double) };
