/* vmath_base.h: what the functions of vmath.h are written with: bits, multiply-adds, polynomials, roundings, and what
 * roundings lost. All of it is exact or rounded once. */
#ifndef BK_CPU_VMATH_BASE_H
#define BK_CPU_VMATH_BASE_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#define VM static inline __attribute__((always_inline, unused))

/* --- bits, multiply-add, polynomials ------------------------------------------------------------------------ */

VM uint32_t bits_f(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
VM uint64_t bits_d(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
VM float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
VM double double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, 8);
    return x;
}

#define SIGN_F 0x80000000u
#define SIGN_D 0x8000000000000000u
VM float abs_f(float x) { return float_of(bits_f(x) & ~SIGN_F); }
VM double abs_d(double x) { return double_of(bits_d(x) & ~SIGN_D); }
VM float copysign_f(float x, float s) { return float_of((bits_f(x) & ~SIGN_F) | (bits_f(s) & SIGN_F)); }
VM double copysign_d(double x, double s) { return double_of((bits_d(x) & ~SIGN_D) | (bits_d(s) & SIGN_D)); }

/* NaN propagates, whichever side it is on. (Asking for x's NaN instead, gcc 12 threads jumps and clamp takes 3x.) */
VM float min_f(float x, float y)
{
    float r = y <= x ? y : x;
    return y != y ? y : r;
}
VM float max_f(float x, float y)
{
    float r = y >= x ? y : x;
    return y != y ? y : r;
}
VM double min_d(double x, double y)
{
    double r = y <= x ? y : x;
    return y != y ? y : r;
}
VM double max_d(double x, double y)
{
    double r = y >= x ? y : x;
    return y != y ? y : r;
}
VM int64_t min_i(int64_t x, int64_t y) { return x < y ? x : y; }
VM int64_t max_i(int64_t x, int64_t y) { return x > y ? x : y; }

/* a*b + c, fused where the ISA fuses: the bounds above hold either way. */
#ifdef __FMA__
VM float madd_f(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
VM double madd_d(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
VM float madd_f(float a, float b, float c) { return a * b + c; }
VM double madd_d(double a, double b, double c) { return a * b + c; }
#endif

/* poly_N(x, c0, ..., cN) = c0 + c1 x + ... + cN x^N. A macro, since C has no variadic inline functions. */
#define POLY_1(f, x, a, b)    f(b, x, a)
#define POLY_2(f, x, a, ...)  f(POLY_1(f, x, __VA_ARGS__), x, a)
#define POLY_3(f, x, a, ...)  f(POLY_2(f, x, __VA_ARGS__), x, a)
#define POLY_4(f, x, a, ...)  f(POLY_3(f, x, __VA_ARGS__), x, a)
#define POLY_5(f, x, a, ...)  f(POLY_4(f, x, __VA_ARGS__), x, a)
#define POLY_6(f, x, a, ...)  f(POLY_5(f, x, __VA_ARGS__), x, a)
#define POLY_7(f, x, a, ...)  f(POLY_6(f, x, __VA_ARGS__), x, a)
#define POLY_8(f, x, a, ...)  f(POLY_7(f, x, __VA_ARGS__), x, a)
#define POLY_9(f, x, a, ...)  f(POLY_8(f, x, __VA_ARGS__), x, a)
#define POLY_10(f, x, a, ...) f(POLY_9(f, x, __VA_ARGS__), x, a)
#define POLY_11(f, x, a, ...) f(POLY_10(f, x, __VA_ARGS__), x, a)
#define POLY_12(f, x, a, ...) f(POLY_11(f, x, __VA_ARGS__), x, a)
#define POLY_13(f, x, a, ...) f(POLY_12(f, x, __VA_ARGS__), x, a)

#define LN2     0.69314718055994530942
#define LOG2E   1.44269504088896340736
#define HALF_PI 1.57079632679489661923

/* Adding 1.5 * 2^23 (2^52) rounds to an integer and leaves it in the low bits. */
#define ROUNDER_F 0x1.8p23f
#define ROUNDER_D 0x1.8p52

/* --- rounding ----------------------------------------------------------------------------------------------- */

#ifdef __SSE4_1__
VM float rint_f(float x) { return __builtin_rintf(x); }
VM float floor_f(float x) { return __builtin_floorf(x); }
VM float ceil_f(float x) { return __builtin_ceilf(x); }
VM float trunc_f(float x) { return __builtin_truncf(x); }
VM double rint_d(double x) { return __builtin_rint(x); }
VM double floor_d(double x) { return __builtin_floor(x); }
VM double ceil_d(double x) { return __builtin_ceil(x); }
VM double trunc_d(double x) { return __builtin_trunc(x); }
#else /* SSE2 cannot round; an addition can, below 2^23 (2^52), and what is larger is an integer already */
VM float rint_f(float x)
{
    float a = abs_f(x), r = (a + 0x1p23f) - 0x1p23f;
    return copysign_f(a < 0x1p23f ? r : a, x);
}
VM float floor_f(float x)
{
    float r = rint_f(x);
    return r > x ? r - 1 : r;
}
VM float ceil_f(float x)
{
    float r = rint_f(x);
    return copysign_f(r < x ? r + 1 : r, x);
}
VM float trunc_f(float x) { return copysign_f(floor_f(abs_f(x)), x); }
VM double rint_d(double x)
{
    double a = abs_d(x), r = (a + 0x1p52) - 0x1p52;
    return copysign_d(a < 0x1p52 ? r : a, x);
}
VM double floor_d(double x)
{
    double r = rint_d(x);
    return r > x ? r - 1 : r;
}
VM double ceil_d(double x)
{
    double r = rint_d(x);
    return copysign_d(r < x ? r + 1 : r, x);
}
VM double trunc_d(double x) { return copysign_d(floor_d(abs_d(x)), x); }
#endif

/* --- what was rounded away ---------------------------------------------------------------------------------- */

/* a * b - p, where p is nearly that. */
#ifdef __FMA__
VM float product_lost_f(float a, float b, float p) { return __builtin_fmaf(a, b, -p); }
#else
VM float product_lost_f(float a, float b, float p)
{
    float a1 = float_of(bits_f(a) & 0xfffff000u), a2 = a - a1, b1 = float_of(bits_f(b) & 0xfffff000u), b2 = b - b1;
    return ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
}
#endif

/* x y + k, rounded once where k nearly cancels it. */
#ifdef __FMA__
VM float product_less_f(float x, float y, float k) { return __builtin_fmaf(x, y, k); }
#else
VM float product_less_f(float x, float y, float k)
{
    float p = x * y;
    return (p + k) + product_lost_f(x, y, p);
}
#endif

/* What p = a b rounded away. */
#ifdef __FMA__
VM double product_lost_d(double a, double b, double p) { return __builtin_fma(a, b, -p); }
#else
VM double product_lost_d(double a, double b, double p) /* halves of 26 and 27 bits have exact products */
{
    double a_high = double_of(bits_d(a) & 0xfffffffff8000000u), a_low = a - a_high;
    double b_high = double_of(bits_d(b) & 0xfffffffff8000000u), b_low = b - b_high;
    return ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
}
#endif

/* a + b, and in *lost what the sum rounded away. */
VM double sum_with_lost_d(double a, double b, double *lost)
{
    double sum = a + b, part = sum - a;
    *lost = (a - (sum - part)) + (b - part);
    return sum;
}

#endif
