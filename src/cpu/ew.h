/* ew.h: the elementwise ops: their numbers, what is known about each, and their kernels.
 *
 * A kernel computes n elements of dense arrays in one compute type (core/dtype.h). `out` may be the very address of an
 * operand whose elements have the same size; otherwise the arrays must not overlap. Nothing past n is touched. */
#ifndef BK_CPU_EW_H
#define BK_CPU_EW_H
#include "core/dtype.h"
#include "cpu/isa.h"

typedef enum ew_op {
#define UNARY(name, ...)   EW_##name,
#define BINARY(name, ...)  EW_##name,
#define TERNARY(name, ...) EW_##name,
#include "brisk/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY
    EW_COUNT
} ew_op;

/* What becomes of dtypes: see ops.def. */
typedef enum ew_rule { EW_ARITH, EW_FLOAT, EW_COMPARE, EW_BITS, EW_LOGIC, EW_TEST, EW_SELECT } ew_rule;

/* Bits of ew_info.types. */
enum { EW_TYPE_F = 1, EW_TYPE_I = 2, EW_TYPE_B = 4 };

typedef struct ew_info {
    const char *name;
    uint8_t arity;
    uint8_t rule;            /* ew_rule */
    uint8_t types;           /* which kernels there are */
    double lo, hi;           /* where tests take operands from */
    const char *gradient[3]; /* the text of each operand's gradient; "NONDIFF" where none flows */
} ew_info;

extern const ew_info ew_infos[EW_COUNT];

/* Does the op's kernel write uint8_t 0 or 1 rather than its compute type? */
static inline bool ew_gives_bool(ew_op op)
{
    uint8_t rule = ew_infos[op].rule;
    return rule == EW_COMPARE || rule == EW_LOGIC || rule == EW_TEST;
}

typedef void (*ew_kernel)(int64_t n, void *out, const void *x, const void *y, const void *z);

/* Two arithmetic ops in one pass: (x first y) second z, each rounded by itself. `from` is z minus the first. */
enum { EW_PAIR_add, EW_PAIR_sub, EW_PAIR_mul, EW_PAIR_FIRSTS, EW_PAIR_from = EW_PAIR_FIRSTS, EW_PAIR_SECONDS };
enum { EW_PAIR_TYPES = COMPUTE_F64 + 1 };

/* Two functions of one operand that share most of their way, in one pass: `out` is the first one's result, y the
 * second's, which is written. */
typedef struct ew_twin {
    ew_op first, second;
    ew_kernel run[EW_PAIR_TYPES];
} ew_twin;
enum { EW_TWINS = 1 };

typedef struct ew_table {
    /* NULL where ops.def has no such kernel. COMPARE, LOGIC and TEST give uint8_t; SELECT takes uint8_t for x. */
    ew_kernel op[EW_COUNT][COMPUTE_COUNT];
    ew_kernel pair[EW_PAIR_FIRSTS][EW_PAIR_SECONDS][EW_PAIR_TYPES]; /* float32 and float64 */
    ew_twin twin[EW_TWINS];
    /* Converts x to out; in place when both have the same size. */
    ew_kernel cast[BK_DTYPE_COUNT][BK_DTYPE_COUNT]; /* [from][to] */
    /* Rounds (float16, bfloat16) or wraps (narrow integers) compute-type data as storing it in the dtype would.
     * NULL where the compute type is the dtype. */
    ew_kernel round_to[BK_DTYPE_COUNT];
} ew_table;

extern const ew_table ew_table_baseline, ew_table_avx2, ew_table_avx512;

/* The table of the level; NULL for a level that was not built. */
const ew_table *ew_table_of(isa_level level);
/* The table of the current level. */
const ew_table *ew_kernels(void);

#endif
