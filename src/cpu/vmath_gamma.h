/* vmath_gamma.h: the gamma function's logarithm and its derivatives, and erfcx, of float32 by way of doubles. Those of
 * the gamma function are for positive arguments: the kernels hand the others to vmath.c. */
#ifndef BK_CPU_VMATH_GAMMA_H
#define BK_CPU_VMATH_GAMMA_H
#include "cpu/vmath_exp.h"

/* Below 8 the argument is moved to v + 2 by factors x - 1, x - 2 ... or 1 / x, 1 / (x + 1), whose logarithm is added:
 * lgamma(2 + v) = v P(v), with an error of 3.2e-11, and near 1 log(x) has the factor x - 1 too. From 8 on Stirling's
 * series. */
VM float lgamma_f(float x)
{
    double d = x, whole = rint_d(d), v = d - whole, factors = 1;
    factors *= whole > 2 ? d - 1 : 1;
    factors *= whole > 3 ? d - 2 : 1;
    factors *= whole > 4 ? d - 3 : 1;
    factors *= whole > 5 ? d - 4 : 1;
    factors *= whole > 6 ? d - 5 : 1;
    factors *= whole > 7 ? d - 6 : 1;
    factors = whole < 2 ? d : factors;
    factors = whole < 1 ? d * (d + 1) : factors;
    double l = wide_log(d < 8 ? factors : d),
           near = v * POLY_10(madd_d, v, 0.42278433510634367, 0.3224670336613532, -0.06735230274478406,
                              0.020580789162352554, -0.007385491369885799, 0.0028909442308684614,
                              -0.0011935238210048853, 0.000505721209012987, -0.00021872552757169346,
                              0.0001148901559501448, -5.6217808753245954e-05);
    near = whole < 2 ? near - l : near + l;
    double z = 1 / (d * d), series = POLY_3(madd_d, z, 1. / 12, -1. / 360, 1. / 1260, -1. / 1680) / d;
    double far = madd_d(d - 0.5, l, 0.91893853320467274178 - d) + series;
    double r = d < 8 ? near : far;
    return (float)(d < INFINITY ? r : d);
}

/* psi(x + 10) less ten reciprocals, as one quotient; the asymptotic series from 10 on. Within 1/4 of the zero, where
 * that cancels, the distance times a polynomial: 5.2e-10. */
VM float digamma_f(float x)
{
    double d = x, over = 1, under = d;
    for (int k = 1; k < 10; k++) {
        over = madd_d(over, d + k, under);
        under *= d + k;
    }
    double w = d < 10 ? d + 10 : d, z = 1 / (w * w), sum = d < 10 ? over / under : 0;
    double series = POLY_4(madd_d, z, 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132);
    double far = (wide_log(w) - sum) - madd_d(z, series, 0.5 / w), t = d - 1.461632144968362341263;
    double near = t * POLY_8(madd_d, t, 0.9676722454781544, -0.442763152348271, 0.2584997361844697,
                             -0.16394573419494354, 0.10782703962386747, -0.07205122381372861, 0.048682751728123294,
                             -0.0358281810832431, 0.024558382513573243);
    return (float)(abs_d(t) < 0.25 ? near : far);
}

/* psi'(x + 6) and six squares of reciprocals, likewise. */
VM float trigamma_f(float x)
{
    double d = x, over = 1, under = d * d;
    for (int k = 1; k < 6; k++) {
        double square = (d + k) * (d + k);
        over = madd_d(over, square, under);
        under *= square;
    }
    double w = d < 8 ? d + 6 : d, t = 1 / w, z = t * t, sum = d < 8 ? over / under : 0;
    double series = POLY_4(madd_d, z, 1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66);
    return (float)(sum + t * madd_d(t, madd_d(t, series, 0.5), 1));
}

/* P(u) / d with d = |x| + 2 and u = 1 - 4 / d, as erfc's core; for x < 0 2 exp(x^2) less that. Relative error of P
 * 1.2e-9. */
VM float erfcx_f(float x)
{
    double a = abs_d(x), t = 1 / (a + 2), u = madd_d(-4, t, 1), e = wide_exp(a * a);
    double v = t * POLY_12(madd_d, u, 1.0215827050549744, -0.6871606688314708, 0.27947209974534304,
                           -0.03644270975105369, -0.021510639931074223, 0.0064833770046879916, 0.0030898530630728014,
                           -0.0008532728230858939, -0.0006596168641012502, 6.513014212883544e-05,
                           0.00013843097390656462, 2.937481748289938e-06, -1.8041080084594208e-05);
    return (float)(x < 0 ? 2 * e - v : v);
}

#endif
