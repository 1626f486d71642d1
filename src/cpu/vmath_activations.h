/* vmath_activations.h: activations that are made of exponentials and logarithms: sigmoid, silu, softplus, mish and the
 * like; gelu is in vmath_erf.h, its tanh form here. */
#ifndef BK_CPU_VMATH_ACTIVATIONS_H
#define BK_CPU_VMATH_ACTIVATIONS_H
#include "cpu/vmath_exp.h"

/* --- float32 ------------------------------------------------------------------------------------------------ */

/* 1 / (1 + exp(-x)), over and under scaled by 2^-64: exp reaches 2^150, and the result may be denormal. From 24 on it
 * is 1. */
VM float sigmoid_f(float x)
{
    const float rounder = POW2_ROUNDER_F(-64);
    float a = x < -104 ? -104 : x;
    a = a > 24 ? 24 : a;
    float t = madd_f(a, (float)-LOG2E, rounder), s = pow2_of_rounded_f(t), k = rounder - t;
    float r = madd_f(k, 1.42860682030941723212e-6f, madd_f(k, 0x1.62e4p-1f, -a)), p = expm1_coarse_f(r);
    return 0x1p-64f / (s + madd_f(p, s, 0x1p-64f));
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

VM float softplus_f(float x, float beta, float threshold)
{
    float t = x * beta;
    return t > threshold ? x : log1p_f(exp_f(t)) / beta;
}

/* log(1 + exp(-|x|)) is at most log(2), and all of the result where x is positive. */
VM float logsigmoid_f(float x) { return (x < 0 ? x : 0) - log1p_f(exp_f(float_of(bits_f(x) | SIGN_F))); }

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

/* --- float64 ------------------------------------------------------------------------------------------------ */

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

/* --- both --------------------------------------------------------------------------------------------------- */

#define SELU_SCALE       1.0507009873554804934193349852946
#define SELU_SCALE_ALPHA 1.7580993408473768599402175208123
VM float selu_f(float x) { return x < 0 ? (float)SELU_SCALE_ALPHA * expm1_f(x) : (float)SELU_SCALE * x; }
VM double selu_d(double x) { return x < 0 ? SELU_SCALE_ALPHA * expm1(x) : SELU_SCALE * x; }

#endif
