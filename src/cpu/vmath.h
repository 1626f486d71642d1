/* vmath.h: the mathematical functions of the elementwise kernels, written for the auto-vectoriser.
 *
 * Each is a branch-free inline function of scalars: a loop around it becomes SIMD code at every ISA level. The
 * contract: at most 2.5 ULP in float32 over the whole range, denormals included; exact specials (NaN, infinities,
 * signed zeros); odd functions are odd. In float64: 2 ULP, with glibc where nothing faster stands here.
 *
 * Two ways lead there in float32. What training spends its time in (exp, tanh, sigmoid, log, gelu) is computed in
 * float. All else is computed in double ("wide": half the lanes, but no error analysis: a polynomial good to 1e-9 is
 * good to 0.51 ULP) and rounded once. The polynomials interpolate at Chebyshev nodes on the reduced range; the relative
 * error on that range stands beside each.
 *
 * Selects compare values of the width they select, and conversions between integers and doubles go through the
 * bits of 2^52 + n: AVX2 has no other instruction for it. */
#ifndef BK_CPU_VMATH_H
#define BK_CPU_VMATH_H
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

/* --- float32 in float: exp, sigmoid, tanh, log -------------------------------------------------------------- */

/* expm1(r) for |r| <= ln2 / 2: r + r^2 Q(r), with Q in two short chains. Relative error 3e-9. */
VM float expm1_reduced_f(float r)
{
    float z = r * r, low = madd_f(0.16666667f, r, 0.5f), middle = madd_f(0.0083333108f, r, 0.041666463f);
    float high = madd_f(0.0001989118f, r, 0.001393382f);
    return madd_f(z, madd_f(madd_f(high, z, middle), z, low), r);
}

/* The same with a term less, for those who add 1 to it. Relative error 1.4e-8. */
VM float expm1_coarse_f(float r)
{
    float z = r * r, low = madd_f(0.16666548f, r, 0.5f), middle = madd_f(0.008366069f, r, 0.041666854f);
    return madd_f(z, madd_f(madd_f(0.0013898234f, z, middle), z, low), r);
}

/* x - k ln2. k * 0x1.62e4p-1 is exact, so the result is good to the last bit. */
VM float reduce_ln2_f(float x, float k) { return madd_f(k, -1.42860682030941723212e-6f, madd_f(k, -0x1.62e4p-1f, x)); }

VM float pow2_f(int32_t n) { return float_of((uint32_t)(n + 127) << 23); }

/* Rounds x to an integer n and leaves 2^(n + bias) in the low nine bits of the sum: one shift makes the float of it. */
#define POW2_ROUNDER_F(bias) (ROUNDER_F + 127 + (bias))
VM float pow2_of_rounded_f(float t) { return float_of(bits_f(t) << 23); }

/* x in [-104, 89]. The power of two comes in two factors: results may be denormal, or reach 2^128. */
VM float exp_bounded_f(float x)
{
    float t = madd_f(x, (float)LOG2E, ROUNDER_F);
    float p = expm1_coarse_f(reduce_ln2_f(x, t - ROUNDER_F));
    int32_t n = (int32_t)(bits_f(t) - bits_f(ROUNDER_F)), half = n >> 1;
    float s = pow2_f(half);
    return madd_f(p, s, s) * pow2_f(n - half);
}

/* What vanishes is not computed: masks of -inf would make denormals, which processors take a hundred cycles for. */
VM float exp_f(float x)
{
    float r = exp_bounded_f(x < -104 ? 0 : x);
    r = x < -104 ? 0 : r;
    return x > 89 ? INFINITY : r;
}

/* exp of -|x| never overflows, and serves both signs. It may be denormal, so it is scaled down at the end. */
VM float sigmoid_f(float x)
{
    const float rounder = POW2_ROUNDER_F(64);
    float a = float_of(bits_f(x) | SIGN_F);
    a = a < -104 ? -104 : a;
    float t = madd_f(a, (float)LOG2E, rounder), s = pow2_of_rounded_f(t);
    float p = expm1_coarse_f(reduce_ln2_f(a, t - rounder));
    float e = madd_f(p, s, s) * 0x1p-64f;
    return (x < 0 ? e : 1) / (1 + e);
}

/* x sigmoid(x), with the same exponential: what multiplies it is scaled down at the end, and of what vanishes x is
 * bounded too. */
VM float silu_f(float x)
{
    const float rounder = POW2_ROUNDER_F(64);
    float a = float_of(bits_f(x) | SIGN_F);
    a = a < -115 ? -115 : a;
    float t = madd_f(a, (float)LOG2E, rounder), s = pow2_of_rounded_f(t);
    float p = expm1_coarse_f(reduce_ln2_f(a, t - rounder)), y = a * s;
    float r = (x < 0 ? madd_f(y, p, y) : x) / madd_f(madd_f(p, s, s), 0x1p-64f, 1) * (x < 0 ? 0x1p-64f : 1);
    return x == -INFINITY ? NAN : r;
}

/* Twice 2^(k-1) exp(r) - 1/2, since 2^k may overflow where the result does not; below -18 it is -1. With k = 0 it is
 * expm1(r), which may be denormal. */
VM float expm1_f(float x)
{
    const float rounder = POW2_ROUNDER_F(-1);
    float a = x > 89 ? 89 : x;
    a = a < -18 ? -18 : a;
    float t = madd_f(a, (float)LOG2E, rounder), s = pow2_of_rounded_f(t);
    float k = t - rounder, p = expm1_reduced_f(reduce_ln2_f(a, k));
    return copysign_f(k == 0 ? p : 2 * madd_f(p, s, s - 0.5f), x); /* of a zero */
}

/* u / (u + 2) with u = expm1(2|x|); from 9.1 on the result is 1. The quotient forgives u its last bits where it is
 * large, so one product with ln2 is enough. */
VM float tanh_f(float x)
{
    const float rounder = POW2_ROUNDER_F(0);
    float a = abs_f(x);
    a = a > 9.1f ? 9.1f : a;
    a += a;
    float t = madd_f(a, (float)LOG2E, rounder), s = pow2_of_rounded_f(t);
    float p = expm1_reduced_f(madd_f(t - rounder, (float)-LN2, a));
    float u = madd_f(p, s, s - 1);
    return copysign_f(u / (u + 2), x);
}

/* x = 2^k (1 + f) with 1 + f in [sqrt 1/2, sqrt 2); log(1 + f) = f - f^2/2 + f^3 P(f). */
VM float log_f(float x)
{
    float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
    float bias = x < 0x1p-126f ? -23.0f : 0.0f;
    uint32_t u = bits_f(scaled) + (0x3f800000u - 0x3f3504f3u);
    float k = (float)((int32_t)(u >> 23) - 127) + bias;
    float f = float_of((u & 0x7fffff) + 0x3f3504f3u) - 1, f2 = f * f;
    float p = POLY_8(madd_f, f, 0.33333331f, -0.24999997f, 0.20000721f, -0.1666781f, 0.14248877f, -0.1242536f,
                     0.11687025f, -0.11483081f, 0.069713463f); /* 7e-8 */
    float y = madd_f(f * f2, p, k * -2.12194440e-4f);
    float r = madd_f(k, 0.693359375f, f + madd_f(-0.5f, f2, y));
    r = x == 0 ? -INFINITY : r;
    r = x < 0 ? NAN : r;
    return x < INFINITY ? r : x;
}

/* As log(1 + x), where f takes what that sum rounds away. A zero keeps its sign. */
VM float log1p_f(float x)
{
    float sum = 1 + x, back = sum - 1, lost = (1 - (sum - back)) + (x - back);
    uint32_t u = bits_f(sum) + (0x3f800000u - 0x3f3504f3u), n = (u >> 23) - 127;
    float k = (float)(int32_t)n;
    float f = float_of((u & 0x7fffff) + 0x3f3504f3u) - 1;
    f = madd_f(lost * 0.5f, pow2_f((int32_t)(1 - n)), f); /* n may be 128, where the second factor is 0 */
    float f2 = f * f;
    float p = POLY_8(madd_f, f, 0.33333331f, -0.24999997f, 0.20000721f, -0.1666781f, 0.14248877f, -0.1242536f,
                     0.11687025f, -0.11483081f, 0.069713463f); /* 7e-8 */
    float y = madd_f(f * f2, p, k * -2.12194440e-4f);
    float r = copysign_f(madd_f(k, 0.693359375f, f + madd_f(-0.5f, f2, y)), x);
    r = x == -1 ? -INFINITY : r;
    r = x < -1 ? NAN : r;
    return x < INFINITY ? r : x;
}

VM float softplus_f(float x, float beta, float threshold)
{
    float t = x * beta;
    return t > threshold ? x : log1p_f(exp_f(t)) / beta;
}

/* log(1 + exp(-|x|)) is at most log(2), and all of the result where x is positive. */
VM float logsigmoid_f(float x) { return (x < 0 ? x : 0) - log1p_f(exp_f(float_of(bits_f(x) | SIGN_F))); }

/* --- wide: doubles with the accuracy that a float32 result needs ------------------------------------------- */

VM double pow2_d(uint64_t n) { return double_of((n + 1023) << 52); }

/* expm1(r) and *n with x = n ln2 + r. */
VM double wide_exp_reduced(double x, uint64_t *n)
{
    double t = madd_d(x, LOG2E, ROUNDER_D), k = t - ROUNDER_D;
    double r = madd_d(k, -1.90821492927058770002e-10, madd_d(k, -6.93147180369123816490e-01, x));
    double q = POLY_5(madd_d, r, 0.5000000013620138, 0.16666666681794626, 0.041666463386339524, 0.008333310754576892,
                      0.001393382048977602, 0.00019891180158282143); /* 2.9e-9 */
    *n = bits_d(t) - bits_d(ROUNDER_D);
    return madd_d(r * r, q, r);
}

/* Beyond +-700, far outside float's range, it is infinity and zero. */
VM double wide_exp(double x)
{
    uint64_t n;
    double p = wide_exp_reduced(x, &n), s = pow2_d(n);
    double r = madd_d(p, s, s);
    r = x > 700 ? INFINITY : r;
    return x < -700 ? 0 : r;
}

VM double wide_expm1(double x)
{
    uint64_t n;
    double p = wide_exp_reduced(x, &n), s = pow2_d(n);
    double r = madd_d(p, s, s - 1);
    r = x > 700 ? INFINITY : r;
    r = x < -700 ? -1 : r;
    return x == 0 ? x : r;
}

/* x = 2^k m with m in [sqrt 1/2, sqrt 2), s = (m - 1) / (m + 1): log m = 2 s + s^3 R(s^2). Relative error 2e-13. */
VM double wide_log(double x)
{
    uint64_t u = bits_d(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = double_of((u >> 52) | 0x4330000000000000u) - (0x1p52 + 1023);
    double m = double_of((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double s = (m - 1) / (m + 1), z = s * s;
    double p = POLY_4(madd_d, z, 0.6666666666737868, 0.3999999879244169, 0.28571755535032944, 0.22191337428065783,
                      0.19363884986633198); /* 1.1e-11 */
    double r = madd_d(k, LN2, madd_d(s * z, p, 2 * s));
    r = x == 0 ? -INFINITY : r;
    r = x < 0 ? NAN : r;
    return x < INFINITY ? r : x;
}

/* Near 0, where 1 + x rounds too much away, the series. */
VM double wide_log1p(double x)
{
    double r = wide_log(1 + x);
    return abs_d(x) < 0x1p-20 ? x - 0.5 * x * x : r;
}

/* x - n pi/2 for |x| <= TRIG_MAX, where n pi/2's first part (33 bits) is exact; *n in the low bits. */
#define TRIG_MAX 0x1p20
VM double wide_reduce_pi(double x, uint64_t *n)
{
    double t = madd_d(x, 1 / HALF_PI, ROUNDER_D), k = t - ROUNDER_D;
    *n = bits_d(t);
    return madd_d(k, -6.07710050650619224932e-11, madd_d(k, -1.57079632673412561417e+00, x));
}

VM double wide_sin_reduced(double r)
{
    double z = r * r;
    return r * POLY_4(madd_d, z, 1, -0.16666666663844049, 0.008333331870341349, -0.00019840084376422702,
                      2.724962008007533e-06); /* 1.7e-10 */
}

VM double wide_cos_reduced(double r)
{
    double z = r * r;
    return POLY_5(madd_d, z, 1, -0.4999999999996371, 0.04166666663727906, -0.001388888508002599, 2.4799858750748857e-05,
                  -2.7236822001886194e-07); /* 7.6e-13 */
}

/* a where the low bit of n is clear, b where it is set: SSE2 has no 64-bit compare, so by masks. */
VM double pick_by_parity(uint64_t n, double a, double b)
{
    uint64_t odd = 0 - (n & 1);
    return double_of((bits_d(a) & ~odd) | (bits_d(b) & odd));
}

VM double wide_sin_quadrant(double r, uint64_t n)
{
    double v = pick_by_parity(n, wide_sin_reduced(r), wide_cos_reduced(r));
    return double_of(bits_d(v) ^ (n & 2) << 62);
}

/* 0 <= a <= 1 */
VM double wide_atan_unit(double a)
{
    double z = a * a;
    return a * POLY_11(madd_d, z, 1, -0.33333333293301176, 0.19999990275947271, -0.14285317963907304,
                       0.1110470678864422, -0.09036742342070782, 0.0741749696430051, -0.05760716083128117,
                       0.038327445983064846, -0.019261081322765883, 0.00620725453378005,
                       -0.0009362994719496015); /* 1.2e-9 */
}

/* asin(s) with z = s^2, 0 <= s <= 1/2 */
VM double wide_asin_half(double s, double z)
{
    return s * POLY_9(madd_d, z, 1, 0.16666666666738633, 0.07499999953429712, 0.044642906474584965,
                      0.030379945210024933, 0.022412417726695433, 0.016902683886393575, 0.01686409027396012,
                      0.001067506315036312, 0.02834674523183333); /* 4.9e-12 */
}

/* --- float32 in float: the error function and gelu ----------------------------------------------------------- */

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

/* Both functions below are P(u) / d with d = a + 2 and u = 1 - 4 / d. `more` is how much of itself d would have to grow
 * to be the reciprocal of t: what was lost when a + 2 and 1 / d were rounded. A division costs less than Newton's
 * steps among so many multiplications, which it leaves the units to. */
VM float reciprocal_f(float a, float *u, float *more)
{
    float d = a + 2, t = 1 / d;
    *more = madd_f(t, a - (d - 2), product_lost_f(t, d, 1));
    *u = madd_f(-4, t, 1);
    return t;
}

/* (base + p) t, which moves with d as d^power does, and what it lost in rounding: base is a power of two. */
VM float divided_f(float base, float p, float t, float power, float more, float *lost)
{
    float most = base * t, all = madd_f(t, p, most);
    *lost = madd_f(all, power * more, madd_f(t, p, most - all));
    return all;
}

/* exp(a^2) erfc(a) for 0 <= a <= 10.2. Relative error 5.9e-9. */
VM float erfc_core_f(float a, float *lost)
{
    float u, more, t = reciprocal_f(a, &u, &more);
    float p =
        POLY_10(madd_f, u, 0.0215827078f, -0.687160671f, 0.279471755f, -0.0364422761f, -0.0215055924f, 0.00647881813f,
                0.00306284358f, -0.000839216169f, -0.000595316931f, 5.31310907e-05f, 7.33962952e-05f);
    return divided_f(1, p, t, madd_f(0.63f, u, -1.63f), more, lost);
}

/* exp(a^2 / 2) (1 - Phi(a)) for 0 <= a <= 15: the same at a / sqrt(2), which would be rounded. Relative error
 * 1.4e-8. */
VM float normal_core_f(float a, float *lost)
{
    float u, more, t = reciprocal_f(a, &u, &more);
    float p =
        POLY_11(madd_f, u, 0.172408f, -0.331404477f, 0.0287973452f, 0.0367194116f, -0.000469408144f, -0.00673441635f,
                -0.00195317203f, 0.000822717673f, 0.000839693821f, 0.000135136826f, -0.000151344342f, -6.7255467e-05f);
    return divided_f(0.5f, p, t, madd_f(0.3f, u, -1.3f), more, lost);
}

/* expm1(r) and 2^(k + 64) with exp(-scale a^2) = 2^k exp(r), scale 1 or 1/2, the exponent at most 115. A rounded square
 * would cost one ULP for each unit of it: k times the first part of log(2) is exact, and taken from the square before
 * that is rounded. Results may be denormal, so they are scaled down at the end. */
VM float exp_of_square_f(float a, float scale, float *power)
{
    const float rounder = POW2_ROUNDER_F(64);
    float b = a * -scale, t = madd_f(b * a, (float)LOG2E, rounder), k = t - rounder;
    float r = madd_f(k, -1.42860682030941723212e-6f, product_less_f(b, a, k * -0x1.62e4p-1f));
    *power = pow2_of_rounded_f(t);
    return expm1_reduced_f(r);
}

/* erfc(a) for 0 <= a <= 10.2 */
VM float erfc_positive_f(float a)
{
    float lost, core = erfc_core_f(a, &lost), power, e = exp_of_square_f(a, 1, &power);
    return (madd_f(core, e, lost) + core) * power * 0x1p-64f;
}

/* |x|, but at most `most`; of a NaN too. Numbers that are not negative have the order of their bits. */
VM float bounded_abs_f(float x, float most)
{
    uint32_t a = bits_f(x) & ~SIGN_F, b = bits_f(most);
    return float_of(a < b ? a : b);
}

VM float erfc_f(float x)
{
    float v = erfc_positive_f(bounded_abs_f(x, 10.2f)), r = x < 0 ? 2 - v : v;
    return x != x ? x : r;
}

VM float erf_f(float x)
{
    float a = abs_f(x), z = a * a;
    float near = POLY_6(madd_f, z, 0.12837917f, -0.376126267f, 0.112835947f, -0.026854212f, 0.00518908742f,
                        -0.000801686429f, 7.87587506e-05f); /* 1.3e-9 */
    float far = 1 - erfc_positive_f(bounded_abs_f(x, 10.2f)), r = a < 0.75f ? madd_f(a, near, a) : far;
    return x != x ? x : copysign_f(r, x);
}

/* x Phi(x) is x (1 - Phi(-x)), and likewise its derivative Phi(x) + x phi(x): the tail serves both signs, and both
 * functions. The latter is 0 at -0.7518, and within 1 ULP of 1 around there. */
VM float gelu_of_tail_f(float x, float a, float core, float lost, float e, float power)
{
    float y = a * core, v = (madd_f(y, e, a * lost) + y) * power;
    float r = madd_f(v, -0x1p-64f, x < 0 ? -0.0f : x);
    return x == -INFINITY ? NAN : r;
}

VM float gelu_slope_of_tail_f(float x, float a, float core, float lost, float e, float power)
{
    const double density = 0.39894228040143267794;
    const float high = (float)density, low = (float)(density - (double)high);
    float y = madd_f(-high, a, core);
    lost += madd_f(-low, a, product_lost_f(-high, a, y - core));
    float v = (madd_f(y, e, lost) + y) * power * 0x1p-64f, r = x < 0 ? v : 1 - v;
    return (bits_f(x) & ~SIGN_F) >= bits_f(INFINITY) ? NAN : r;
}

VM void gelu_both_f(float x, float *gelu, float *slope)
{
    float a = bounded_abs_f(x, 15), lost, core = normal_core_f(a, &lost), power, e = exp_of_square_f(a, 0.5f, &power);
    *gelu = gelu_of_tail_f(x, a, core, lost, e, power);
    *slope = gelu_slope_of_tail_f(x, a, core, lost, e, power);
}

VM float gelu_f(float x)
{
    float gelu, slope;
    gelu_both_f(x, &gelu, &slope);
    return gelu;
}

VM float gelu_slope_f(float x)
{
    float gelu, slope;
    gelu_both_f(x, &gelu, &slope);
    return slope;
}

/* --- float32 by way of doubles ------------------------------------------------------------------------------ */

VM float log2_f(float x) { return (float)(wide_log(x) * LOG2E); }
VM float log10_f(float x) { return (float)(wide_log(x) * 0.43429448190325182765); }
VM float exp2_f(float x) { return (float)wide_exp((double)x * LN2); }

/* Right for |x| <= TRIG_MAX; the kernels hand what is larger to libm. */
VM float sin_f(float x)
{
    uint64_t n;
    double r = wide_reduce_pi(x, &n);
    return (float)wide_sin_quadrant(r, n);
}

VM float cos_f(float x)
{
    uint64_t n;
    double r = wide_reduce_pi(x, &n);
    return (float)wide_sin_quadrant(r, n + 1);
}

VM float tan_f(float x)
{
    uint64_t n;
    double r = wide_reduce_pi(x, &n), s = wide_sin_reduced(r), c = wide_cos_reduced(r);
    double v = pick_by_parity(n, s, c) / pick_by_parity(n, c, s);
    return (float)double_of(bits_d(v) ^ (n & 1) << 63);
}

/* Above 1/2: asin a = pi/2 - 2 asin sqrt((1 - a) / 2). Outside [-1, 1] the root is NaN. */
VM float asin_f(float x)
{
    double a = abs_d(x), far = 0.5 * (1 - a);
    double z = a > 0.5 ? far : a * a, s = a > 0.5 ? __builtin_sqrt(far) : a;
    double p = wide_asin_half(s, z);
    return (float)copysign_d(a > 0.5 ? HALF_PI - 2 * p : p, x);
}

VM float acos_f(float x)
{
    double d = x, a = abs_d(d), far = 0.5 * (1 - a);
    double z = a > 0.5 ? far : a * a, s = a > 0.5 ? __builtin_sqrt(far) : a;
    double p = wide_asin_half(s, z);
    double outer = d < 0 ? 2 * HALF_PI - 2 * p : 2 * p;
    return (float)(a > 0.5 ? outer : HALF_PI - copysign_d(p, d));
}

VM float atan_f(float x)
{
    double a = abs_d(x), p = wide_atan_unit(a > 1 ? 1 / a : a);
    return (float)copysign_d(a > 1 ? HALF_PI - p : p, x);
}

VM float atan2_f(float y, float x)
{
    double ay = abs_d(y), ax = abs_d(x);
    double small = ax > ay ? ay : ax, large = ax > ay ? ax : ay;
    double diagonal = large == 0 ? 0 : 1; /* both zero, or equal, or both infinite */
    double p = wide_atan_unit(small == large ? diagonal : small / large);
    p = ay > ax ? HALF_PI - p : p;
    p = copysign_d(1, x) < 0 ? 2 * HALF_PI - p : p;
    return (float)copysign_d(p, y);
}

VM float sinh_f(float x)
{
    double a = abs_d(x), e = wide_exp(a), z = a * a;
    double near = a * POLY_5(madd_d, z, 1, 0.16666666666698407, 0.008333333317464362, 0.0001984128253011599,
                             2.755377026364149e-06, 2.545670657152382e-08); /* 1.9e-12 */
    return (float)copysign_d(a < 1 ? near : 0.5 * (e - 1 / e), x);
}

VM float cosh_f(float x)
{
    double e = wide_exp(abs_d(x));
    return (float)(0.5 * (e + 1 / e));
}

VM float asinh_f(float x)
{
    double a = abs_d(x), root = __builtin_sqrt(a * a + 1);
    return (float)copysign_d(wide_log1p(a < INFINITY ? a + a * a / (1 + root) : a), x);
}

VM float acosh_f(float x)
{
    double t = (double)x - 1;
    double r = wide_log1p(t + __builtin_sqrt(t * (t + 2)));
    return (float)(t < 0 ? NAN : r);
}

VM float atanh_f(float x)
{
    double a = abs_d(x);
    double r = 0.5 * wide_log1p(2 * a / (1 - a));
    return (float)copysign_d(a > 1 ? NAN : r, x);
}

/* erfinv(x) / x is smooth in w = -log(1 - x^2) near the centre and in sqrt(w) in the tails. */
VM float erfinv_f(float x)
{
    double d = x, w = -wide_log((1 - d) * (1 + d)), s = __builtin_sqrt(w);
    double centre =
        POLY_13(madd_d, w, 0.8862269252642508, 0.2320136783922654, 0.011549216921361868, -0.0023345757969169736,
                -0.00012920883391029296, 4.817385293756846e-05, 6.526499727642317e-07, -1.9702567700570657e-07,
                -3.7514665144588216e-07, 1.1950248662262078e-07, -1.7566458759322325e-08, 1.4662478804215205e-09,
                -6.781936572405251e-11, 1.3642498644590784e-12); /* 2.1e-10 */
    double tail = POLY_10(madd_d, s, -4.545917685128504, 18.05084880481762, -26.184983333844013, 22.345516338695923,
                          -12.062712070322684, 4.362767251947044, -1.078642206252438, 0.18082644145379828,
                          -0.0197293301720417, 0.0012675776025117328, -3.646736422581535e-05); /* 2.2e-10 */
    double r = d * (w < 6.25 ? centre : tail);
    return (float)(abs_d(d) == 1 ? d * INFINITY : r);
}

/* exp(y log|x|), then C's rules for signs, zeros, infinities and NaN. */
VM float pow_f(float x, float y)
{
    double dx = x, a = abs_d(dx), dy = y;
    double bounded = dy > 0x1p40 ? 0x1p40 : dy; /* an even integer for all that is larger */
    bounded = bounded < -0x1p40 ? -0x1p40 : bounded;
    double is_integer = (bounded + ROUNDER_D) - ROUNDER_D == bounded ? 1 : 0;
    double is_even = (0.5 * bounded + ROUNDER_D) - ROUNDER_D == 0.5 * bounded ? 1 : 0;
    double negative = copysign_d(1, dx) < 0 ? 1 : 0;

    double r = wide_exp(dy * wide_log(a));
    r = a == 1 && dy == dy ? 1 : r; /* log is 0 then, and 0 * infinity is not */
    r = negative * is_integer * (1 - is_even) > 0 ? -r : r;
    r = dx < 0 && a < INFINITY && is_integer == 0 && dy == dy ? NAN : r;
    r = dy == 0 ? 1 : r;
    return (float)(dx == 1 ? 1 : r);
}

VM float hypot_f(float x, float y)
{
    double dx = x, dy = y, r = __builtin_sqrt(dx * dx + dy * dy);
    r = abs_d(dx) == INFINITY ? INFINITY : r;
    return (float)(abs_d(dy) == INFINITY ? INFINITY : r);
}

/* The next bit pattern, towards y. */
VM float nextafter_f(float x, float y)
{
    uint32_t u = bits_f(x);
    float away = float_of(u + 1), back = float_of(u - 1);
    float r = x < y ? (x > 0 ? away : back) : (x > 0 ? back : away);
    r = x == 0 ? copysign_f(0x1p-149f, y) : r;
    r = x == y ? y : r;
    r = x == x ? r : x;
    return y == y ? r : y;
}

/* For |x/y| < 2^28 the quotient's integer part and the remainder are exact in double. */
VM float fmod_f(float x, float y)
{
    double dx = x, dy = y;
    return copysign_f((float)(dx - trunc_d(dx / dy) * dy), x);
}

/* --- activations that would lose digits in float ------------------------------------------------------------ */

/* x/2 (1 + tanh u) = x sigmoid(2u), without the cancellation */
VM float gelu_tanh_f(float x)
{
    double d = x, twice_u = 1.59576912160573071176 * d * madd_d(0.044715 * d, d, 1);
    return (float)(d / (1 + wide_exp(-twice_u)));
}

/* tanh(log(1 + e)) = e(e + 2) / (e(e + 2) + 2); from 30 on it is 1 */
VM float mish_f(float x)
{
    double d = x, e = wide_exp(d > 30 ? 30 : d), w = e * (e + 2);
    return (float)(d * (w / (w + 2)));
}

VM float logaddexp_f(float x, float y)
{
    double a = x, b = y, m = a > b ? a : b;
    double r = m + wide_log1p(wide_exp(-abs_d(a - b)));
    return (float)(a == b && abs_d(a) == INFINITY ? a : r);
}

VM float logaddexp2_f(float x, float y)
{
    double a = x, b = y, m = a > b ? a : b;
    double r = m + LOG2E * wide_log1p(wide_exp(-abs_d(a - b) * LN2));
    return (float)(a == b && abs_d(a) == INFINITY ? a : r);
}

/* --- float64 ------------------------------------------------------------------------------------------------ */

/* expm1(r) and *n with x = n ln2 + r; what r rounds away goes in with the small terms. */
VM double exp_reduced_d(double x, uint64_t *n)
{
    double t = madd_d(x, LOG2E, ROUNDER_D), k = t - ROUNDER_D;
    double high = madd_d(k, -6.93147180369123816490e-01, x), low = k * 1.90821492927058770002e-10;
    double r = high - low, lost = (high - r) - low;
    double q =
        POLY_11(madd_d, r, 0.5, 0.16666666666666666, 0.04166666666666668, 0.008333333333333333, 0.0013888888888878923,
                0.00019841269841263198, 2.4801587336841623e-05, 2.755731924748493e-06, 2.7557262852470396e-07,
                2.5052070809943926e-08, 2.0918295266435273e-09, 1.6086732952745416e-10); /* 4e-20 */
    *n = bits_d(t) - bits_d(ROUNDER_D);
    return r + madd_d(r * r, q, lost);
}

/* x in [-746, 710]; the shift is logical because AVX2 has no other for 64 bits. */
VM double exp_bounded_d(double x)
{
    uint64_t n;
    double p = exp_reduced_d(x, &n);
    uint64_t half = ((n + 4096) >> 1) - 2048;
    double s = pow2_d(half);
    return madd_d(p, s, s) * pow2_d(n - half);
}

VM double exp_d(double x)
{
    double c = x > 710 ? 710 : x;
    return exp_bounded_d(c < -746 ? -746 : c);
}

/* As sigmoid_f, but with what e and 1 + e rounded away added back to first order, for 2 ULP: 1 / (1 + e) is the
 * result itself, or 1 less the result. */
VM double sigmoid_d(double x)
{
    double a = -abs_d(x);
    uint64_t n;
    double p = exp_reduced_d(a < -746 ? -746 : a, &n);
    uint64_t half = ((n + 4096) >> 1) - 2048;
    double s = pow2_d(half), s2 = pow2_d(n - half), head = madd_d(p, s, s);
    double e = head * s2, e_lost = (p * s - (head - s)) * s2;
    double w = 1 + e, w_lost = e - (w - 1) + e_lost;
    double q = (x < 0 ? e : 1) / w;
    return madd_d((x < 0 ? e_lost : 0) - q * w_lost, x < 0 ? 1 - q : q, q);
}

/* As tanh_f; from 20 on it is 1. */
VM double tanh_d(double x)
{
    double a = abs_d(x);
    uint64_t n;
    a = a > 20 ? 20 : a;
    double p = exp_reduced_d(a + a, &n), s = pow2_d(n);
    double u = madd_d(p, s, s - 1);
    return copysign_d(u / (u + 2), x);
}

/* log m = f - (f^2/2 - s (f^2/2 + z R(z))), with f = m - 1, s = f / (2 + f), z = s^2: f is exact and comes last. */
VM double log_d(double x)
{
    double scaled = x < 0x1p-1022 ? x * 0x1p54 : x, bias = x < 0x1p-1022 ? 0x1p52 + 1077 : 0x1p52 + 1023;
    uint64_t u = bits_d(scaled) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
    double k = double_of((u >> 52) | 0x4330000000000000u) - bias;
    double f = double_of((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1;
    double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double p = z * POLY_7(madd_d, z, 0.6666666666666666, 0.40000000000000885, 0.28571428570799784, 0.22222222392581045,
                          0.18181795547521137, 0.15386244737621665, 0.13268638369266825, 0.13088034850927555);
    double low = madd_d(k, 1.90821492927058770002e-10, s * (half + p));
    double r = madd_d(k, 6.93147180369123816490e-01, f - (half - low));
    r = x == 0 ? -INFINITY : r;
    r = x < 0 ? NAN : r;
    return x < INFINITY ? r : x;
}

/* exp(x), and in *lost what it rounded away. */
VM double exp_with_lost_d(double x, double *lost)
{
    uint64_t n;
    double p = exp_reduced_d(x, &n);
    uint64_t half = ((n + 4096) >> 1) - 2048;
    double s = pow2_d(half), s2 = pow2_d(n - half), head = madd_d(p, s, s);
    *lost = (p * s - (head - s)) * s2;
    return head * s2;
}

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

/* k + u (q + q_lost), and in *lost what it rounded away. */
VM double step_with_lost_d(double u, double q, double q_lost, double k, double *lost)
{
    double h = u * q, sum_lost, sum = sum_with_lost_d(k, h, &sum_lost);
    *lost = sum_lost + madd_d(u, q_lost, product_lost_d(u, q, h));
    return sum;
}

/* exp(a^2 / 2) (1 - Phi(a)) for 0 <= a <= 39, as normal_core_f: P(u) / d with d = a + 4 and u = 1 - 8 / d, and what it
 * lost in rounding. Relative error of P 3e-17. Its small terms are two sums, of even and odd powers, side by side; what
 * the last two steps, d, 1 / d and u round away is carried along, with the slopes of P and of all as d moves. */
VM double normal_core_d(double a, double *lost)
{
    double d = a + 4, t = 1 / d, more = madd_d(t, a - (d - 4), product_lost_d(t, d, 1));
    double u = madd_d(-8, t, 1), u_lost = madd_d(-8, t, 1 - u), z = u * u;
    double even = POLY_9(madd_d, z, 0.060396574891023166, -0.003479692368742233, 0.0001333443240758403,
                         -1.908320192971361e-06, 7.168763146450979e-07, -6.301658242841878e-07, 2.7248955113232797e-07,
                         -8.603735478935197e-08, 1.9949152696187504e-08, -2.597212844685219e-09);
    double odd = POLY_9(madd_d, z, -0.007540188966685697, 0.0016308184570261784, -0.0002310949303875024,
                        3.514465958851994e-05, -5.920076290422741e-06, 1.0213180082122042e-06, -1.545899444175427e-07,
                        1.2908073766368007e-08, 2.1281614295279836e-09, -7.772452419168315e-10);
    double q = POLY_2(madd_d, u, 0.387137400742212, -0.1865218579596589, madd_d(u, odd, even)), q_lost;
    q = step_with_lost_d(u, q, 0, -0.6078966419718921, &q_lost);
    double p_lost, p = step_with_lost_d(u, q, q_lost, 0.7552851304157515, &p_lost);
    double power = madd_d(madd_d(-0.32, u, 1.095), u, -1.774);
    double moved = madd_d(power, more, (power + 1) * u_lost * 0.125 * d), core = t * p;
    *lost = madd_d(t, madd_d(p, moved, p_lost), product_lost_d(t, p, core));
    return core;
}

/* As gelu_both_f: the tail 1 - Phi(a) serves both signs and both functions. What the square of a rounds away counts in
 * the exponent, which goes down to -760. The slope is 0 at -0.7518, and within 1 ULP of 1 around there. */
VM void gelu_both_d(double x, double *gelu, double *slope)
{
    double b = abs_d(x), a = b < 39 ? b : 39, lost, core = normal_core_d(a, &lost);
    double square = a * a, more = -0.5 * product_lost_d(a, a, square);
    uint64_t n;
    double p = exp_reduced_d(-0.5 * square, &n), e = madd_d(more, 1 + p, p);
    uint64_t half = ((n + 4096) >> 1) - 2048;
    double s = pow2_d(half), s2 = pow2_d(n - half);
    double y = a * core, v = (madd_d(y, e, madd_d(a, lost, product_lost_d(a, core, y))) + y) * s * s2;
    double r = (x < 0 ? -0.0 : x) - v;
    *gelu = x == -INFINITY ? NAN : r;
    const double density = 0.3989422804014327, density_low = -2.49232720227773e-17; /* phi(0) */
    double h = -density * a, sum_lost, w = sum_with_lost_d(core, h, &sum_lost);
    double w_lost = lost + sum_lost + madd_d(-density_low, a, product_lost_d(-density, a, h));
    double tail = (madd_d(w, e, w_lost) + w) * s * s2;
    *slope = b < INFINITY ? (x < 0 ? tail : 1 - tail) : NAN;
}

VM double gelu_d(double x)
{
    double gelu, slope;
    gelu_both_d(x, &gelu, &slope);
    return gelu;
}

VM double gelu_slope_d(double x)
{
    double gelu, slope;
    gelu_both_d(x, &gelu, &slope);
    return slope;
}

/* x sigmoid(v + v_low), v of x's sign. With e = exp(-|v|) = 2^n g it is x / (1 + e), or x g / (1 + e), scaled down at
 * the end because e may be denormal where x e is not. What g and 1 + e round away is added back to first order. */
VM double times_sigmoid_d(double x, double v, double v_low)
{
    double a = -abs_d(v);
    uint64_t n;
    double q = exp_reduced_d(a < -760 ? -760 : a, &n), p = madd_d(v < 0 ? v_low : -v_low, 1 + q, q);
    uint64_t half = ((n + 4096) >> 1) - 2048;
    double s = pow2_d(half), s2 = pow2_d(n - half), g = 1 + p, g_lost = p - (g - 1);
    double e = g * s * s2, w = 1 + e, w_lost = e - (w - 1) + g_lost * s * s2;
    double y = (v < 0 ? (x < -760 ? -760 : x) * g : x) / w;
    double more = y * ((v < 0 ? g_lost * (1 - p) : 0) - w_lost * madd_d(-0.47, w, 1.41)); /* 1 / g and 1 / w, nearly */
    double r = abs_d(more) < INFINITY ? y + more : y;
    return x == -INFINITY ? NAN : v < 0 ? r * s * s2 : r;
}

VM double silu_d(double x) { return times_sigmoid_d(x, x, 0); }

/* x/2 (1 + tanh u) = x sigmoid(v) with v = 2u = x (c + k x^2) in two parts: one part's last place would count a
 * thousand times in the exponent. */
VM double gelu_tanh_d(double x)
{
    const double c = 1.5957691216057308, c_low = -9.96930880911092e-17;   /* 2 sqrt(2 / pi) */
    const double k = 0.07135481627260025, k_low = -6.175149918155315e-19; /* 0.044715 c */
    double b = x < -25 ? -25 : x, t = b > 25 ? 25 : b;
    double z = t * t, z_low = product_lost_d(t, t, z), kz = k * z, sum_lost, sum = sum_with_lost_d(c, kz, &sum_lost);
    double sum_low = sum_lost + (c_low + madd_d(k_low, z, madd_d(k, z_low, product_lost_d(k, z, kz))));
    double v = t * sum;
    return times_sigmoid_d(x, v, madd_d(t, sum_low, product_lost_d(t, sum, v)));
}

/* x exp(x) where exp(x) has lost digits already, being denormal, and the product has them still. */
VM double small_product_d(double x)
{
    uint64_t n;
    double p = exp_reduced_d(x < -760 ? -760 : x, &n);
    uint64_t half = ((n + 4096) >> 1) - 2048;
    double s = pow2_d(half);
    return x * madd_d(p, s, s) * pow2_d(n - half);
}

/* x w / (w + 2) with w = e (e + 2), e = exp(x). What e and the steps round away is added back to first order: what is
 * left are the roundings of x r and of the last sum. From 40 on it is x, below -700 x e. */
VM double mish_d(double x)
{
    double e_lost, c = x > 40 ? 40 : x, e = exp_with_lost_d(c < -746 ? -746 : c, &e_lost);
    double t = e + 2, t_e = t - e, t_lost = (e - (t - t_e)) + (2 - t_e);
    double w = e * t, w_lost = product_lost_d(e, t, w) + e * t_lost + e_lost * (t + e);
    double d = w + 2, d_w = d - w, d_lost = (w - (d - d_w)) + (2 - d_w);
    double r = w / d, back = r * d, r_lost = (w - back) - product_lost_d(r, d, back);
    double y = x * r, more = x * ((r_lost + 2 * w_lost / d - r * d_lost) / d);
    double z = abs_d(more) < INFINITY ? y + more : y;
    return x < -700 && x > -760 ? small_product_d(x) : z;
}
VM double softplus_d(double x, double beta, double threshold)
{
    return x * beta > threshold ? x : log1p(exp_d(x * beta)) / beta;
}
VM double logsigmoid_d(double x) { return (x < 0 ? x : 0) - log1p(exp_d(-abs_d(x))); }
VM double logaddexp_d(double x, double y)
{
    return x == y && abs_d(x) == INFINITY ? x : (x > y ? x : y) + log1p(exp_d(-abs_d(x - y)));
}
VM double logaddexp2_d(double x, double y)
{
    return x == y && abs_d(x) == INFINITY ? x : (x > y ? x : y) + LOG2E * log1p(exp_d(-abs_d(x - y) * LN2));
}

/* --- scalar: gamma functions and erfinv --------------------------------------------------------------------- */

double vm_lgamma(double x); /* for float32 */
double vm_lgamma_d(double x);
double vm_erfc_d(double x);
double vm_digamma(double x);
double vm_trigamma(double x);
double vm_erfinv(double x);
double vm_erfcx(double x);
double vm_zeta(double s, double q);
double vm_igamma(double a, double x);
double vm_igammac(double a, double x);

/* --- the prelude of ops.def: one name for both float types --------------------------------------------------- */

#define V1(x, f, d)    _Generic((x), float: f, double: d)(x)
#define V2(x, y, f, d) _Generic((x), float: f, double: d)(x, y)

#define v_abs(x)            V1(x, abs_f, abs_d)
#define v_copysign(x, y)    V2(x, y, copysign_f, copysign_d)
#define v_sqrt(x)           V1(x, __builtin_sqrtf, __builtin_sqrt)
#define v_min(x, y)         _Generic((x), float: min_f, double: min_d, int64_t: min_i)(x, y)
#define v_max(x, y)         _Generic((x), float: max_f, double: max_d, int64_t: max_i)(x, y)
#define v_floor(x)          V1(x, floor_f, floor_d)
#define v_ceil(x)           V1(x, ceil_f, ceil_d)
#define v_trunc(x)          V1(x, trunc_f, trunc_d)
#define v_rint(x)           V1(x, rint_f, rint_d)
#define v_exp(x)            V1(x, exp_f, exp_d)
#define v_exp2(x)           V1(x, exp2_f, exp2)
#define v_expm1(x)          V1(x, expm1_f, expm1)
#define v_log(x)            V1(x, log_f, log_d)
#define v_log1p(x)          V1(x, log1p_f, log1p)
#define v_log2(x)           V1(x, log2_f, log2)
#define v_log10(x)          V1(x, log10_f, log10)
#define v_sin(x)            V1(x, sin_f, sin)
#define v_cos(x)            V1(x, cos_f, cos)
#define v_tan(x)            V1(x, tan_f, tan)
#define v_asin(x)           V1(x, asin_f, asin)
#define v_acos(x)           V1(x, acos_f, acos)
#define v_atan(x)           V1(x, atan_f, atan)
#define v_atan2(x, y)       V2(x, y, atan2_f, atan2)
#define v_sinh(x)           V1(x, sinh_f, sinh)
#define v_cosh(x)           V1(x, cosh_f, cosh)
#define v_tanh(x)           V1(x, tanh_f, tanh_d)
#define v_asinh(x)          V1(x, asinh_f, asinh)
#define v_acosh(x)          V1(x, acosh_f, acosh)
#define v_atanh(x)          V1(x, atanh_f, atanh)
#define v_sigmoid(x)        V1(x, sigmoid_f, sigmoid_d)
#define v_erf(x)            V1(x, erf_f, erf)
#define v_erfc(x)           V1(x, erfc_f, vm_erfc_d)
#define v_erfinv(x)         V1(x, erfinv_f, vm_erfinv)
#define v_pow(x, y)         V2(x, y, pow_f, pow)
#define v_hypot(x, y)       V2(x, y, hypot_f, hypot)
#define v_fmod(x, y)        V2(x, y, fmod_f, fmod)
#define v_nextafter(x, y)   V2(x, y, nextafter_f, nextafter)
#define v_gelu(x)           V1(x, gelu_f, gelu_d)
#define v_gelu_slope(x)     V1(x, gelu_slope_f, gelu_slope_d)
#define v_gelu_tanh(x)      V1(x, gelu_tanh_f, gelu_tanh_d)
#define v_silu(x)           V1(x, silu_f, silu_d)
#define v_mish(x)           V1(x, mish_f, mish_d)
#define v_logsigmoid(x)     V1(x, logsigmoid_f, logsigmoid_d)
#define v_logaddexp(x, y)   V2(x, y, logaddexp_f, logaddexp_d)
#define v_logaddexp2(x, y)  V2(x, y, logaddexp2_f, logaddexp2_d)
#define v_softplus(x, y, z) _Generic((x), float: softplus_f, double: softplus_d)(x, y, z)
#define v_lgamma(x)         ((T)V1(x, vm_lgamma, vm_lgamma_d))
#define v_digamma(x)        ((T)vm_digamma(x))
#define v_trigamma(x)       ((T)vm_trigamma(x))
#define v_erfcx(x)          ((T)vm_erfcx(x))
#define v_zeta(x, y)        ((T)vm_zeta(x, y))
#define v_igamma(x, y)      ((T)vm_igamma(x, y))
#define v_igammac(x, y)     ((T)vm_igammac(x, y))

/* The sign bit itself: 1 for -0 and negative NaN. */
VM uint8_t signbit_f(float x) { return (uint8_t)(bits_f(x) >> 31); }
VM uint8_t signbit_d(double x) { return (uint8_t)(bits_d(x) >> 63); }
#define v_signbit(x) V1(x, signbit_f, signbit_d)

/* Remainder with the divisor's sign, and the floor of the quotient that goes with it, as Python has them. */
VM float remainder_f(float x, float y)
{
    float m = fmod_f(x, y);
    return m != 0 && (y < 0) != (m < 0) ? m + y : m;
}
VM float floor_divide_f(float x, float y) { return (float)floor_d((double)x / (double)y); }
VM double remainder_d(double x, double y)
{
    double m = fmod(x, y);
    return m != 0 && (y < 0) != (m < 0) ? m + y : m;
}
VM double floor_divide_d(double x, double y)
{
    double m = fmod(x, y), q = (x - m) / y;
    q = m != 0 && (y < 0) != (m < 0) ? q - 1 : q;
    double whole = floor(q);
    whole = q - whole > 0.5 ? whole + 1 : whole;
    whole = q != 0 ? whole : copysign(0, x / y);
    return y == 0 ? x / y : whole;
}
#define v_remainder(x, y)    V2(x, y, remainder_f, remainder_d)
#define v_floor_divide(x, y) V2(x, y, floor_divide_f, floor_divide_d)

/* NaN is ignored while the other is a number. */
VM float fmin_f(float x, float y) { return ((y != y) | (x <= y)) ? x : y; }
VM float fmax_f(float x, float y) { return ((y != y) | (x >= y)) ? x : y; }
VM double fmin_d(double x, double y) { return ((y != y) | (x <= y)) ? x : y; }
VM double fmax_d(double x, double y) { return ((y != y) | (x >= y)) ? x : y; }
#define v_fmin(x, y) V2(x, y, fmin_f, fmin_d)
#define v_fmax(x, y) V2(x, y, fmax_f, fmax_d)
#define v_relu6(x)   v_min(v_max(x, (T)0), (T)6)

VM float lerp_f(float x, float y, float w) { return abs_f(w) < 0.5f ? x + w * (y - x) : y - (y - x) * (1 - w); }
VM double lerp_d(double x, double y, double w) { return abs_d(w) < 0.5 ? x + w * (y - x) : y - (y - x) * (1 - w); }
#define v_lerp(x, y, z) _Generic((x), float: lerp_f, double: lerp_d)(x, y, z)

#define SELU_SCALE       1.0507009873554804934193349852946
#define SELU_SCALE_ALPHA 1.7580993408473768599402175208123
VM float selu_f(float x) { return x > 0 ? (float)SELU_SCALE * x : (float)SELU_SCALE_ALPHA * expm1_f(x); }
VM double selu_d(double x) { return x > 0 ? SELU_SCALE * x : SELU_SCALE_ALPHA * expm1(x); }
#define v_selu(x) V1(x, selu_f, selu_d)

/* --- int64: nothing traps. Division by zero gives 0 (the recorder has raised), INT64_MIN / -1 wraps. ---------- */

VM int64_t i_quotient(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y; }
VM int64_t i_fmod(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
VM int64_t i_remainder(int64_t x, int64_t y)
{
    int64_t m = i_fmod(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
VM int64_t i_floor_divide(int64_t x, int64_t y)
{
    int64_t m = i_fmod(x, y);
    return i_quotient(x, y) - (m != 0 && (m < 0) != (y < 0));
}
/* A negative exponent leaves something only of 1 and -1. */
VM int64_t i_pow(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t r = 1;
    for (uint64_t base = (uint64_t)x; y; y >>= 1, base *= base)
        r *= y & 1 ? base : 1;
    return (int64_t)r;
}
/* Shifts by 64 and more, or by a negative count, push every bit out. */
VM int64_t i_shift_left(int64_t x, int64_t y) { return (uint64_t)y < 64 ? (int64_t)((uint64_t)x << (y & 63)) : 0; }
VM int64_t i_shift_right(int64_t x, int64_t y) { return x >> ((uint64_t)y < 64 ? y : 63); }

#endif
