/* linalg_kernels.c: the loops of linalg_loops.h, compiled once per ISA level with ISA_NAME set to it. */
#include <math.h>

#include "cpu/linalg.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

#define T       float
#define SQRT    sqrtf
#define ABS     fabsf
#define NAME(x) x##_float
#include "cpu/linalg_loops.h"
#undef T
#undef SQRT
#undef ABS
#undef NAME

#define T       double
#define SQRT    sqrt
#define ABS     fabs
#define NAME(x) x##_double
#include "cpu/linalg_loops.h"

const linalg_kernels JOIN(linalg_kernels_, ISA_NAME)[2] = {
    { lu_float, cholesky_float, solve_float, qr_float, reflections_float, vectors_float, join_float, negate_float,
      transpose_float },
    { lu_double, cholesky_double, solve_double, qr_double, reflections_double, vectors_double, join_double,
      negate_double, transpose_double },
};
