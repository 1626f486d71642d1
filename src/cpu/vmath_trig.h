/* vmath_trig.h: trigonometric functions and their inverses. Of float32 they are computed in float, but for sine, cosine
 * and tangent without a fused multiply-add. */
#ifndef BK_CPU_VMATH_TRIG_H
#define BK_CPU_VMATH_TRIG_H
#include "cpu/vmath_base.h"

/* --- sine, cosine, tangent ------------------------------------------------------------------------------------- */

/* They are right for |x| <= SIN_MAX, TAN_MAX; the kernels hand what is larger to libm. */
#ifdef __FMA__
#define SIN_MAX 0x1p18
#define TAN_MAX 0x1p17

/* pi in three parts, each less than what is left, so that a negative zero stays one. With a fused multiply-add x - k
 * pi1 is exact, and what is left of x once the second part is gone too is right to the last bit, even where x is next
 * to a zero. Where x is large and lies between two multiples, k may be the other one, so that r is beyond pi/2 and the
 * series loses: over all floats sin and cos stay within 2.3 ULP up to SIN_MAX, tan within 2.5 up to TAN_MAX. Twice as
 * far cos and tan do not. */
#define PI1 0x1.921fb4p+1f
#define PI2 0x1.4442dp-23f
#define PI3 0x1.846988p-47f

/* |r| <= pi/2 (1 + 2^-8). Relative error 6.5e-9. */
VM float sin_reduced_f(float r)
{
    float z = r * r, low = madd_f(0.00833306834f, z, -0.166666597f),
          high = madd_f(2.60572824e-06f, z, -0.000198096546f);
    return madd_f(r * z, madd_f(high, z * z, low), r);
}

/* sin r, negative if k is odd, which t has in its last bit. */
VM float sin_signed_f(float r, float t) { return copysign_f(sin_reduced_f(r), float_of(bits_f(r) ^ bits_f(t) << 31)); }

/* sin(x - k pi), negative where k is odd. */
VM float sin_f(float x)
{
    float t = madd_f(x, 0.318309886f, ROUNDER_F), k = t - ROUNDER_F;
    float r = madd_f(k, -PI3, madd_f(k, -PI2, madd_f(k, -PI1, x)));
    return sin_signed_f(r, t);
}

/* sin((j + 1/2) pi - x), negative where j is odd. */
VM float cos_f(float x)
{
    float t = madd_f(x, 0.318309886f, -0.5f) + ROUNDER_F, k = t - ROUNDER_F + 0.5f;
    float r = madd_f(k, PI3, madd_f(k, PI2, madd_f(k, PI1, -x)));
    return sin_signed_f(r, t);
}

/* tan(x - k pi/2), or -1 / it where k is odd. The slope is 2 at the ends, so what r rounds away counts, except near 0,
 * where q - r would have to be rounded itself. Relative error of the series 1.4e-9. */
VM float tan_f(float x)
{
    float t = madd_f(x, 0.636619747f, ROUNDER_F), k = t - ROUNDER_F;
    float q = madd_f(k, -0.5f * PI1, x), r = madd_f(k, -0.5f * PI2, q), lost = madd_f(k, -0.5f * PI2, q - r);
    lost = madd_f(k, -0.5f * PI3, abs_f(r) < 0x1p-8f ? -0.0f : lost);
    float z = r * r, z2 = z * z, low = madd_f(0.133326665f, z, 0.333333492f);
    float middle = madd_f(0.0212759394f, z, 0.0540605076f);
    float high = madd_f(madd_f(0.00439546164f, z, 5.54645776e-05f), z, 0.0108580198f);
    float v = r + madd_f(r * z, madd_f(madd_f(high, z2, middle), z2, low), lost);
    float turned = -1 / v;
    return bits_f(t) & 1 ? turned : v;
}

#else /* in doubles */
#define SIN_MAX 0x1p20
#define TAN_MAX 0x1p20

/* x - n pi/2, where n pi/2's first part (33 bits) is exact; *n in the low bits. */
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

#endif

/* --- inverses ---------------------------------------------------------------------------------------------------- */

/* pi/2 in two parts. */
#define HALF_PI1 0x1.921fb6p+0f
#define HALF_PI2 -0x1.777a5cp-25f

/* 0 <= a <= 1. Relative error 2.6e-9. */
VM float atan_unit_f(float a)
{
    float z = a * a, z2 = z * z;
    float p = madd_f(0.19998531f, z, -0.333332986f), q = madd_f(0.109511748f, z, -0.142640516f);
    float r = madd_f(0.0579065457f, z, -0.0840047523f), s = madd_f(0.0108873611f, z, -0.0311270021f);
    float low = madd_f(q, z2, p), high = madd_f(madd_f(-0.0017875476f, z2, s), z2, r);
    return madd_f(a * z, madd_f(high, z2 * z2, low), a);
}

/* The smaller of a and 1 / a is at most 1: asking whether a > 1 twice, gcc computes all of it for either answer. */
VM float atan_f(float x)
{
    float a = abs_f(x), turned = 1 / a, p = atan_unit_f(turned < a ? turned : a);
    float far = HALF_PI1 - p + HALF_PI2;
    return copysign_f(a > 1 ? far : p, x);
}

VM float atan2_f(float y, float x)
{
    float ay = abs_f(y), ax = abs_f(x);
    float small = ax > ay ? ay : ax, large = ax > ay ? ax : ay;
    float diagonal = large == 0 ? 0 : 1; /* both zero, or equal, or both infinite */
    float p = atan_unit_f(small == large ? diagonal : small / large);
    p = ay > ax ? HALF_PI1 - p + HALF_PI2 : p;
    p = copysign_f(1, x) < 0 ? 2 * HALF_PI1 - p + 2 * HALF_PI2 : p;
    return x != x ? x : copysign_f(p, y);
}

/* asin(s) with z = s^2, |s| <= 1/2. Relative error 4.9e-9. */
VM float asin_half_f(float s, float z)
{
    float low = madd_f(0.0454691499f, z, 0.0749530941f), high = madd_f(0.0421583056f, z, 0.0241847783f);
    return madd_f(s * z, madd_f(madd_f(high, z * z, low), z, 0.166667521f), s);
}

/* Above 1/2: asin a = pi/2 - 2 asin sqrt((1 - a) / 2). Outside [-1, 1] the root is NaN. */
VM float asin_f(float x)
{
    float a = abs_f(x), half = madd_f(a, -0.5f, 0.5f), root = __builtin_sqrtf(half), square = a * a;
    float p = asin_half_f(a > 0.5f ? root : a, a > 0.5f ? half : square);
    float far = madd_f(-2, p, HALF_PI1) + HALF_PI2;
    return copysign_f(a > 0.5f ? far : p, x);
}

/* pi/2 - asin x, 2 asin sqrt((1 - x) / 2), or pi less that of -x, as a multiple of p added to a constant in two parts.
 */
VM float acos_f(float x)
{
    float a = abs_f(x), half = madd_f(a, -0.5f, 0.5f), root = __builtin_sqrtf(half), square = a * a;
    float p = copysign_f(asin_half_f(a > 0.5f ? root : a, a > 0.5f ? half : square), x);
    uint32_t negative = 0 - (bits_f(x) >> 31), outer = 0 - ((bits_f(0.5f) - bits_f(a)) >> 31); /* a > 1/2 */
    float high = float_of((negative & outer & bits_f(2 * HALF_PI1)) | (~outer & bits_f(HALF_PI1)));
    float low = float_of((negative & outer & bits_f(2 * HALF_PI2)) | (~outer & bits_f(HALF_PI2)));
    return madd_f(float_of((outer & bits_f(2.0f)) | (~outer & bits_f(-1.0f))), p, high) + low;
}

#endif
