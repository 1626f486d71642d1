/* vmath_erf.h: the error function, its complement and inverse, and gelu with its slope, which is made of the normal
 * distribution's tail. */
#ifndef BK_CPU_VMATH_ERF_H
#define BK_CPU_VMATH_ERF_H
#include "cpu/vmath_exp.h"
#include "cpu/vmath_series.h"

/* --- float32 ------------------------------------------------------------------------------------------------ */

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

/* Where fused operations are missing the same series are evaluated in double. */
#define EXPANDED(poly, ...) poly(__VA_ARGS__)
/* The same as two short chains, of even and of odd powers: one long chain would be waited for. */
#define SPLIT_11(f, x, z, a, b, c, d, e, g, h, i, j, k, l, m)                                                          \
    f(POLY_5(f, z, b, d, g, i, k, m), x, POLY_5(f, z, a, c, e, h, j, l))

/* exp(a^2) erfc(a) for 0 <= a <= 10.2. Relative error 5.9e-9. The sum is known better than a float holds: what u and
 * its last two steps lost would be a ULP where the result is some way from 1 / d. */
VM float erfc_core_f(float a, float *lost)
{
    const float first = ERFC_FIRST, second = ERFC_SECOND;
    float u, more, t = reciprocal_f(a, &u, &more);
    float s = EXPANDED(POLY_8, madd_f, u, ERFC_REST);
    float q = madd_f(s, u, second), p = madd_f(q, u, first);
    float left = madd_f(u, madd_f(s, u, second - q), product_lost_f(q, u, p) + first);
    left = madd_f(madd_f(-4, t, 1 - u), madd_f(0.559f, u, -0.687f), left);
    float core = divided_f(1, p, t, madd_f(0.63f, u, -1.63f), more, lost);
    *lost = madd_f(t, left, *lost);
    return core;
}

/* exp(a^2 / 2) (1 - Phi(a)) for 0 <= a <= 15: the same at a / sqrt(2), which would be rounded. Relative error
 * 1.4e-8. */
VM float normal_core_f(float a, float *lost)
{
    float u, more, t = reciprocal_f(a, &u, &more);
    float z = u * u, p = EXPANDED(SPLIT_11, madd_f, u, z, NORMAL_SERIES);
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

/* erfc(a) for 0 <= a <= 10.2. Without fused operations all of this loses too much, and doubles are as fast. */
#ifdef __FMA__
VM float erfc_positive_f(float a)
{
    float lost, core = erfc_core_f(a, &lost), power, e = exp_of_square_f(a, 1, &power);
    return (madd_f(core, e, lost) + core) * power * 0x1p-64f;
}
#else
VM float erfc_positive_f(float a)
{
    double d = a + 2.0, u = 1 - 4 / d, x = a;
    double p = EXPANDED(POLY_10, madd_d, u, ERFC_FIRST, ERFC_SECOND, ERFC_REST);
    return (float)((1 + p) / d * wide_exp(-x * x));
}
#endif

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

/* Up to 0.8 a series in x^2; beyond it 1 - exp(L(|x|)), which need not have a good tail: from 4 on the result is 1. The
 * errors are 3e-9 and 2.5e-9. */
VM float erf_f(float x)
{
    const float rounder = POW2_ROUNDER_F(0);
    float a = abs_f(x), z = a * a, b = a > 4 ? 4 : a, c = b * b;
    float near = EXPANDED(POLY_5, madd_f, z, ERF_SERIES);
    float p = madd_f(-1.12827146f, b, -5.68228315e-05f), q = madd_f(-0.104876481f, b, -0.636141956f);
    float r = madd_f(-0.00316486927f, b, 0.0226973724f);
    float power = madd_f(madd_f(madd_f(0.00020869408f, c, r), c, q), c, p);
    float t = madd_f(power, (float)LOG2E, rounder), s = pow2_of_rounded_f(t);
    float e = expm1_coarse_f(madd_f(t - rounder, (float)-LN2, power)), far = 1 - madd_f(e, s, s);
    return copysign_f(a < 0.8f ? madd_f(a, near, a) : far, x);
}

/* x, or -0 where it is negative. Not by x < 0: clang 14 makes a maximum of that, and -0 of 0. */
#define NOT_BELOW_ZERO_F(x) ((x) <= -0x1p-149f ? -0.0f : (x))
#define NOT_BELOW_ZERO_D(x) ((x) <= -0x1p-1074 ? -0.0 : (x))

/* x Phi(x) is x (1 - Phi(-x)), and likewise its derivative Phi(x) + x phi(x): the tail serves both signs, and both
 * functions. The latter is 0 at -0.7518, and within 1 ULP of 1 around there. */
VM float gelu_of_tail_f(float x, float a, float core, float lost, float e, float power)
{
    float y = a * core, v = (madd_f(y, e, madd_f(a, lost, product_lost_f(a, core, y))) + y) * power;
    float r = madd_f(v, -0x1p-64f, NOT_BELOW_ZERO_F(x));
    return x == -INFINITY ? NAN : r;
}

VM float gelu_slope_of_tail_f(float x, float a, float core, float lost, float e, float power)
{
    const double density = 0.39894228040143267794;
    const float high = (float)density, low = (float)(density - (double)high);
    float y = madd_f(-high, a, core);
    lost = madd_f(-low, a, lost);
#ifndef __FMA__ /* the product was rounded */
    lost += product_lost_f(-high, a, y - core);
#endif
    float v = (madd_f(y, e, lost) + y) * power * 0x1p-64f;
    return madd_f(x, 0, x < 0 ? v : 1 - v); /* NaN where x is infinite */
}

#ifdef __FMA__
VM void gelu_both_f(float x, float *gelu, float *slope)
{
    float a = bounded_abs_f(x, 15), lost, core = normal_core_f(a, &lost), power, e = exp_of_square_f(a, 0.5f, &power);
    *gelu = gelu_of_tail_f(x, a, core, lost, e, power);
    *slope = gelu_slope_of_tail_f(x, a, core, lost, e, power);
}
#else
VM void gelu_both_f(float x, float *gelu, float *slope)
{
    double a = bounded_abs_f(x, 15), d = a + 2, u = 1 - 4 / d, e = wide_exp(-0.5 * a * a);
    double core = (0.5 + EXPANDED(POLY_11, madd_d, u, NORMAL_SERIES)) / d, v = (core - 0.39894228040143267794 * a) * e;
    *gelu = x == -INFINITY ? NAN : (float)((double)NOT_BELOW_ZERO_F(x) - a * core * e);
    *slope = (float)(x * 0.0 + (x < 0 ? v : 1 - v)); /* NaN where x is infinite */
}
#endif

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

/* erfinv(x) / x is smooth in w = -log(1 - x^2) near the centre and in sqrt(w) in the tails: 2e-8 and 4e-9. */
VM float erfinv_f(float x)
{
    float w = -log_f(product_less_f(-x, x, 1)), v = __builtin_sqrtf(w) - 3.1f;
    float centre = EXPANDED(POLY_9, madd_f, w, ERFINV_CENTRE), tail = EXPANDED(POLY_9, madd_f, v, ERFINV_TAIL);
    float r = x * (w < 5.5f ? centre : tail);
    return abs_f(x) == 1 ? x * INFINITY : r;
}

/* --- float64 ------------------------------------------------------------------------------------------------ */

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
    double r = NOT_BELOW_ZERO_D(x) - v;
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

#endif
