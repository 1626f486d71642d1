/* ew_kernels.c: the elementwise kernels of one ISA level (ISA_NAME: baseline, avx2 or avx512).
 *
 * The rows of ops.def become loops that the compiler vectorises; the build compiles this file once per level, with
 * that level's flags. Invariant: what an element becomes depends on its operands alone, not on its neighbours or its
 * place in the array, so that fused groups give what single ops give. */
#include "cpu/ew.h"
#include "cpu/ew_internal.h"
#include "cpu/vmath.h"

/* --- one loop per arity. R: result, A: first operand, T: the others and the type of the expression ----------- */

#define KERNEL_1(fn, R, A, T_, value)                                                                                  \
    static void fn(int64_t n, void *out, const void *x_, const void *y_, const void *z_)                               \
    {                                                                                                                  \
        typedef T_ T;                                                                                                  \
        R *o = out;                                                                                                    \
        const A *xs = x_;                                                                                              \
        (void)y_, (void)z_, (void)sizeof(T);                                                                           \
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++)                                                                 \
        {                                                                                                              \
            A x = xs[k];                                                                                               \
            (void)x;                                                                                                   \
            o[k] = (R)(value);                                                                                         \
        }                                                                                                              \
    }

#define KERNEL_2(fn, R, A, T_, value)                                                                                  \
    static void fn(int64_t n, void *out, const void *x_, const void *y_, const void *z_)                               \
    {                                                                                                                  \
        typedef T_ T;                                                                                                  \
        R *o = out;                                                                                                    \
        const A *xs = x_;                                                                                              \
        const T *ys = y_;                                                                                              \
        (void)z_;                                                                                                      \
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++)                                                                 \
        {                                                                                                              \
            A x = xs[k];                                                                                               \
            T y = ys[k];                                                                                               \
            o[k] = (R)(value);                                                                                         \
        }                                                                                                              \
    }

#define KERNEL_3(fn, R, A, T_, value)                                                                                  \
    static void fn(int64_t n, void *out, const void *x_, const void *y_, const void *z_)                               \
    {                                                                                                                  \
        typedef T_ T;                                                                                                  \
        R *o = out;                                                                                                    \
        const A *xs = x_;                                                                                              \
        const T *ys = y_, *zs = z_;                                                                                    \
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++)                                                                 \
        {                                                                                                              \
            A x = xs[k];                                                                                               \
            T y = ys[k], z = zs[k];                                                                                    \
            o[k] = (R)(value);                                                                                         \
        }                                                                                                              \
    }

/* The result's type by rule, and the first operand's. */
#define RESULT_ARITH(T)   T
#define RESULT_FLOAT(T)   T
#define RESULT_BITS(T)    T
#define RESULT_SELECT(T)  T
#define RESULT_COMPARE(T) uint8_t
#define RESULT_LOGIC(T)   uint8_t
#define RESULT_TEST(T)    uint8_t
#define FIRST_ARITH(T)    T
#define FIRST_FLOAT(T)    T
#define FIRST_BITS(T)     T
#define FIRST_COMPARE(T)  T
#define FIRST_LOGIC(T)    T
#define FIRST_TEST(T)     T
#define FIRST_SELECT(T)   uint8_t

/* IF_F_FI(text) is text, IF_F_IB(text) is nothing: the `types` column as a condition. */
#define IF_F_F(...)   __VA_ARGS__
#define IF_F_FI(...)  __VA_ARGS__
#define IF_F_FIB(...) __VA_ARGS__
#define IF_F_I(...)
#define IF_F_IB(...)
#define IF_F_B(...)
#define IF_I_F(...)
#define IF_I_FI(...)  __VA_ARGS__
#define IF_I_FIB(...) __VA_ARGS__
#define IF_I_I(...)   __VA_ARGS__
#define IF_I_IB(...)  __VA_ARGS__
#define IF_I_B(...)
#define IF_B_F(...)
#define IF_B_FI(...)
#define IF_B_FIB(...) __VA_ARGS__
#define IF_B_I(...)
#define IF_B_IB(...) __VA_ARGS__
#define IF_B_B(...)  __VA_ARGS__

#define ROW(arity, name, rule, types, f, i, b)                                                                         \
    IF_F_##types(KERNEL_##arity(name##_f32, RESULT_##rule(float), FIRST_##rule(float), float, f)                       \
                     KERNEL_##arity(name##_f64, RESULT_##rule(double), FIRST_##rule(double), double, f))               \
        IF_I_##types(KERNEL_##arity(name##_i64, RESULT_##rule(int64_t), FIRST_##rule(int64_t), int64_t, i))            \
            IF_B_##types(KERNEL_##arity(name##_bool, RESULT_##rule(uint8_t), FIRST_##rule(uint8_t), uint8_t, b))

#define UNARY(name, rule, types, f, i, b, ...)   ROW(1, name, rule, types, f, i, b)
#define BINARY(name, rule, types, f, i, b, ...)  ROW(2, name, rule, types, f, i, b)
#define TERNARY(name, rule, types, f, i, b, ...) ROW(3, name, rule, types, f, i, b)
#include "brisk/ops.def"
#undef UNARY
#undef BINARY
#undef TERNARY

/* --- pairs of arithmetic ops ---------------------------------------------------------------------------------- */

/* M(first, second, the value over x, y, z) */
#define EACH_PAIR(M)                                                                                                   \
    M(add, add, (x + y) + z)                                                                                           \
    M(add, sub, (x + y) - z)                                                                                           \
    M(add, mul, (x + y) * z)                                                                                           \
    M(add, from, z - (x + y))                                                                                          \
    M(sub, add, (x - y) + z)                                                                                           \
    M(sub, sub, (x - y) - z)                                                                                           \
    M(sub, mul, (x - y) * z)                                                                                           \
    M(sub, from, z - (x - y))                                                                                          \
    M(mul, add, x *y + z)                                                                                              \
    M(mul, sub, x *y - z)                                                                                              \
    M(mul, mul, x * y * z)                                                                                             \
    M(mul, from, z - x * y)

#define PAIR(first, second, value)                                                                                     \
    KERNEL_3(first##_##second##_f32, float, float, float, value)                                                       \
    KERNEL_3(first##_##second##_f64, double, double, double, value)
EACH_PAIR(PAIR)

/* --- two functions of one operand ----------------------------------------------------------------------------- */

/* M(first, second): first_both_f and first_both_d of vmath.h give both. */
#define EACH_TWIN(M) M(gelu, gelu_slope)

#define TWIN_KERNEL(fn, T, both)                                                                                       \
    static void fn(int64_t n, void *out, const void *x_, const void *y_, const void *z_)                               \
    {                                                                                                                  \
        T *o = out, *q = (T *)(uintptr_t)y_;                                                                           \
        const T *xs = x_;                                                                                              \
        (void)z_;                                                                                                      \
        EW_INDEPENDENT for (int64_t k = 0; k < n; k++)                                                                 \
        {                                                                                                              \
            T first, second;                                                                                           \
            both(xs[k], &first, &second);                                                                              \
            o[k] = first;                                                                                              \
            q[k] = second;                                                                                             \
        }                                                                                                              \
    }
#define TWIN(first, second)                                                                                            \
    TWIN_KERNEL(first##_both_f32, float, first##_both_f) TWIN_KERNEL(first##_both_f64, double, first##_both_d)
EACH_TWIN(TWIN)

/* --- guarded kernels: the vector form holds only for operands in some range ---------------------------------- */

/* Elements are looked at a block at a time. A block with all operands in range takes the kernel above; in any other,
 * elements that are not take the far form. */
enum { GUARD_BLOCK = 128 };

#define GUARDED(name, operands, in_range, far)                                                                         \
    static void name##_f32_guarded(int64_t n, void *out, const void *x_, const void *y_, const void *z_)               \
    {                                                                                                                  \
        for (int64_t at = 0; at < n; at += GUARD_BLOCK) {                                                              \
            const int64_t m = n - at < GUARD_BLOCK ? n - at : GUARD_BLOCK;                                             \
            const float *xs = (const float *)x_ + at, *ys = operands > 1 ? (const float *)y_ + at : xs;                \
            float *o = (float *)out + at, near[GUARD_BLOCK];                                                           \
            int outside = 0;                                                                                           \
            for (int64_t k = 0; k < m; k++) {                                                                          \
                float x = xs[k], y = ys[k];                                                                            \
                (void)y;                                                                                               \
                outside |= !(in_range);                                                                                \
            }                                                                                                          \
            name##_f32(m, outside ? near : o, xs, ys, z_);                                                             \
            for (int64_t k = 0; outside && k < m; k++) {                                                               \
                float x = xs[k], y = ys[k];                                                                            \
                (void)y;                                                                                               \
                o[k] = (in_range) ? near[k] : (far);                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Larger arguments need more digits of pi than two doubles hold. */
GUARDED(sin, 1, abs_f(x) <= (float)SIN_MAX, (float)sin((double)x))
GUARDED(cos, 1, abs_f(x) <= (float)SIN_MAX, (float)cos((double)x))
GUARDED(tan, 1, abs_f(x) <= (float)TAN_MAX, (float)tan((double)x))
GUARDED(lgamma, 1, x > 0, (float)vm_lgamma((double)x))
GUARDED(digamma, 1, x > 0, (float)vm_digamma((double)x))
GUARDED(trigamma, 1, x > 0, (float)vm_trigamma((double)x))
/* A quotient of 2^28 and more has no exact integer part; infinities and zero divisors go the same way. */
#define QUOTIENT_FITS (abs_f(x) < 0x1p28f * abs_f(y) && abs_f(y) < 0x1p99f)
GUARDED(fmod, 2, QUOTIENT_FITS, (float)fmod((double)x, (double)y))
GUARDED(remainder, 2, QUOTIENT_FITS, (float)remainder_d((double)x, (double)y))
GUARDED(floor_divide, 2, QUOTIENT_FITS, (float)floor_divide_d((double)x, (double)y))

/* --- the table ------------------------------------------------------------------------------------------------ */

#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif

#define EW_TABLE_2(isa) ew_table_##isa
#define EW_TABLE(isa)   EW_TABLE_2(isa)

#define ENTRY(name, types)                                                                                             \
    IF_F_##types([EW_##name][COMPUTE_F32] = name##_f32, ) IF_F_##types([EW_##name][COMPUTE_F64] = name##_f64, )        \
        IF_I_##types([EW_##name][COMPUTE_I64] = name##_i64, ) IF_B_##types([EW_##name][COMPUTE_BOOL] = name##_bool, )
#define UNARY(name, rule, types, ...)   ENTRY(name, types)
#define BINARY(name, rule, types, ...)  ENTRY(name, types)
#define TERNARY(name, rule, types, ...) ENTRY(name, types)

const ew_table EW_TABLE(ISA_NAME) = {
    .op = {
#include "brisk/ops.def"
        /* a guarded kernel takes the place of the plain one */
        [EW_sin][COMPUTE_F32] = sin_f32_guarded,
        [EW_cos][COMPUTE_F32] = cos_f32_guarded,
        [EW_tan][COMPUTE_F32] = tan_f32_guarded,
        [EW_lgamma][COMPUTE_F32] = lgamma_f32_guarded,
        [EW_digamma][COMPUTE_F32] = digamma_f32_guarded,
        [EW_trigamma][COMPUTE_F32] = trigamma_f32_guarded,
        [EW_fmod][COMPUTE_F32] = fmod_f32_guarded,
        [EW_remainder][COMPUTE_F32] = remainder_f32_guarded,
        [EW_floor_divide][COMPUTE_F32] = floor_divide_f32_guarded,
    },
#define PAIR_ENTRY(first, second, value)                                                                               \
    [EW_PAIR_##first][EW_PAIR_##second] = { [COMPUTE_F32] = first##_##second##_f32,                                    \
                                            [COMPUTE_F64] = first##_##second##_f64 },
    .pair = { EACH_PAIR(PAIR_ENTRY) },
#define TWIN_ENTRY(first, second) { EW_##first, EW_##second, { first##_both_f32, first##_both_f64 } },
    .twin = { EACH_TWIN(TWIN_ENTRY) },
#define CAST(from, to)            [BK_##from][BK_##to] = EW_CAST_NAME(from, to),
    .cast = { EW_EACH_CAST(CAST) },
#define ROUND(to)                 [BK_##to] = EW_ROUND_NAME(to),
    .round_to = { EW_EACH_ROUND(ROUND) },
};
