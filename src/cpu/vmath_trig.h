/* vmath_trig.h: trigonometric functions and their inverses. */
#ifndef BK_CPU_VMATH_TRIG_H
#define BK_CPU_VMATH_TRIG_H
#include "cpu/vmath_base.h"

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

#endif
