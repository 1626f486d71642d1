/* vmath_exp.h: exponentials and logarithms, powers, hyperbolic functions and their inverses. Of float32 exp, exp2,
 * expm1, logarithms and tanh are computed in float, all else in doubles. */
#ifndef BK_CPU_VMATH_EXP_H
#define BK_CPU_VMATH_EXP_H
#include "cpu/vmath_base.h"

/* --- float32 in float --------------------------------------------------------------------------------------- */

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

/* 2^k 2^r, |r| <= 1/2 exactly. The error is 2e-9 of the result. Bounded as exp_f. */
VM float exp2_f(float x)
{
    float b = x < -151 ? 0 : x;
    b = b > 129 ? 129 : b;
    float t = b + ROUNDER_F, r = b - (t - ROUNDER_F), z = r * r;
    float low = madd_f(0.24022648f, r, 0.6931472f), middle = madd_f(0.009618437f, r, 0.055503324f);
    float p = r * madd_f(madd_f(madd_f(1.535336e-4f, r, 0.0013398875f), z, middle), z, low);
    int32_t n = (int32_t)(bits_f(t) - bits_f(ROUNDER_F)), half = n >> 1;
    float s = pow2_f(half), y = madd_f(p, s, s) * pow2_f(n - half);
    return x < -151 ? 0 : y;
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

/* v / (v + 1) with v = expm1(2|x|) / 2; from 9.1 on the result is 1. The quotient forgives v its last bits where it is
 * large, so one product with ln2 is enough. |r| <= ln2 / 4, and the series is expm1_reduced_f's at 2 r, halved. */
VM float tanh_f(float x)
{
    const float rounder = POW2_ROUNDER_F(0);
    float a = abs_f(x);
    a = a > 9.1f ? 9.1f : a;
    float t = madd_f(a, (float)(2 * LOG2E), rounder), s = pow2_of_rounded_f(t);
    float r = madd_f(t - rounder, (float)(-0.5 * LN2), a), z = r * r;
    float low = madd_f(4 * 0.16666667f, r, 2 * 0.5f), middle = madd_f(16 * 0.0083333108f, r, 8 * 0.041666463f);
    float high = madd_f(64 * 0.0001989118f, r, 32 * 0.001393382f);
    float p = madd_f(z, madd_f(madd_f(high, z, middle), z, low), r);
    float v = madd_f(p, s, madd_f(s, 0.5f, -0.5f));
    return copysign_f(v / (v + 1), x);
}

/* (log(1 + f) - f) / f^2 for 1 + f in [3/4, 3/2), z = f^2, in short chains. The error is 2.8e-8 of the logarithm. */
VM float log_rest_f(float f, float z)
{
    float a = madd_f(0.33333534f, f, -0.50000066f), b = madd_f(0.19977683f, f, -0.24993171f);
    float c = madd_f(0.14982618f, f, -0.1682958f), d = madd_f(0.0534675f, f, -0.120129995f);
    return madd_f(madd_f(d, z, c), z * z, madd_f(b, z, a));
}

/* k log(2) + log(1 + f). Both parts of log(2) are positive: k may be infinite. */
VM float log_of_parts_f(float k, float f)
{
    float z = f * f;
    return madd_f(k, 0x1.62e4p-1f, madd_f(k, 1.42860682030941723212e-6f, madd_f(z, log_rest_f(f, z), f)));
}

/* x = 2^k (1 + f); a denormal is scaled up. The bits of 3/4 are taken from those of x: what is left above the fraction
 * is k. AVX-512 has instructions for both parts (emit_math.c), of [3/4, 3/2) too. */
#define LEAST_MANTISSA 0x3f400000u
VM float log_parts_f(float x, float *f)
{
    float scaled = x < 0x1p-126f ? x * 0x1p23f : x;
    uint32_t least = x < 0x1p-126f ? LEAST_MANTISSA + (23u << 23) : LEAST_MANTISSA, u = bits_f(scaled) - least;
    *f = float_of((u & 0x7fffff) + LEAST_MANTISSA) - 1;
    return (float)((int32_t)u >> 23);
}

/* Of what is not a positive number, which r is the logarithm of. */
VM float log_special_f(float x, float r)
{
    r = x == 0 ? -INFINITY : r;
    r = x < 0 ? NAN : r;
    return x < INFINITY ? r : x;
}

VM float log_f(float x)
{
    float f, k = log_parts_f(x, &f);
    return log_special_f(x, log_of_parts_f(k, f));
}

/* log(1 + f) times high + low, the reciprocal of another base's logarithm. */
VM float log_to_base_f(float f, float high, float low)
{
    float z = f * f;
    return madd_f(f, high, madd_f(z * log_rest_f(f, z), high, f * low));
}

#ifdef __FMA__
VM float log2_f(float x)
{
    float f, k = log_parts_f(x, &f);
    return log_special_f(x, k + log_to_base_f(f, 0x1.715476p+0f, 0x1.4ae0cp-26f));
}

VM float log10_f(float x)
{
    float f, k = log_parts_f(x, &f), r = log_to_base_f(f, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f);
    return log_special_f(x, madd_f(k, 0x1.344p-2f, madd_f(k, 4.60503898e-6f, r)));
}
#endif

/* As log(1 + x), where f takes what that sum rounds away. A zero keeps its sign. */
VM float log1p_f(float x)
{
    float sum = 1 + x, back = sum - 1, lost = (1 - (sum - back)) + (x - back);
    uint32_t u = bits_f(sum) + (0x3f800000u - LEAST_MANTISSA), n = (u >> 23) - 127;
    float f = float_of((u & 0x7fffff) + LEAST_MANTISSA) - 1;
    f = madd_f(lost * 0.5f, pow2_f((int32_t)(1 - n)), f); /* n may be 128, where the second factor is 0 */
    float r = copysign_f(log_of_parts_f((float)(int32_t)n, f), x);
    r = x == -1 ? -INFINITY : r;
    r = x < -1 ? NAN : r;
    return x < INFINITY ? r : x;
}

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

/* --- float32 by way of doubles ------------------------------------------------------------------------------ */

#ifndef __FMA__ /* their roundings would be 3 ULP just below 3/4 */
VM float log2_f(float x) { return (float)(wide_log(x) * LOG2E); }
VM float log10_f(float x) { return (float)(wide_log(x) * 0.43429448190325182765); }
#endif

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

/* log(1 + e) for 0 <= e <= 1, by s = e / (2 + e). Relative error 1.2e-10. */
VM double wide_log1p_unit(double e)
{
    double s = e / (2 + e), z = s * s;
    return s * madd_d(z,
                      POLY_4(madd_d, z, 0.6666667562240863, 0.39998877715711884, 0.28616885392149827,
                             0.21427652481918405, 0.24300951938478407),
                      2);
}

VM float logaddexp_f(float x, float y)
{
    double a = x, b = y, m = a > b ? a : b;
    double r = m + wide_log1p_unit(wide_exp(-abs_d(a - b)));
    return (float)(a == b && abs_d(a) == INFINITY ? a : r);
}

VM float logaddexp2_f(float x, float y)
{
    double a = x, b = y, m = a > b ? a : b;
    double r = m + LOG2E * wide_log1p_unit(wide_exp(-abs_d(a - b) * LN2));
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

VM double logaddexp_d(double x, double y)
{
    return x == y && abs_d(x) == INFINITY ? x : (x > y ? x : y) + log1p(exp_d(-abs_d(x - y)));
}
VM double logaddexp2_d(double x, double y)
{
    return x == y && abs_d(x) == INFINITY ? x : (x > y ? x : y) + LOG2E * log1p(exp_d(-abs_d(x - y) * LN2));
}

#endif
