/* vmath_gamma.c: functions of two arguments around the gamma function, and erfcx. Scalar, in long double as vmath.c's:
 * sums and exponents keep 11 bits that the result does not have. */
#define _DEFAULT_SOURCE /* lgammal_r, as in vmath.c */
#include <stdbool.h>

#include "cpu/vmath.h"

#define EPSILON 1e-20L /* of a sum, what may be left out */

/* --- the Hurwitz zeta function ---------------------------------------------------------------------------------- */

/* The sum itself up to where the series of Euler and Maclaurin converges, by a factor 10 a term at least. */
static long double zeta_positive(long double s, long double q)
{
    static const long double bernoulli[] = {
        /* B_2j / (2j)! */
        1 / 12.L,
        -1 / 720.L,
        1 / 30240.L,
        -1 / 1209600.L,
        1 / 47900160.L,
        -691 / 1307674368000.L,
        1 / 74724249600.L,
        -3617 / 10670622842880000.L,
        43867 / 5109094217170944000.L,
        -174611 / 802857662698291200000.L,
    };
    long double sum = 0, end = s / 2 > 14 ? s / 2 : 14, term = powl(q, -s);
    for (; q < end; term = powl(++q, -s)) {
        sum += term;
        if (term < EPSILON * sum)
            return sum;
    }
    sum += term / 2 + term * q / (s - 1);
    long double factor = term * s / q;
    for (int j = 0; j < 10; j++) {
        sum += factor * bernoulli[j];
        factor *= (s + 2 * j + 1) / q * ((s + 2 * j + 2) / q);
    }
    return sum;
}

/* Below 0 the terms with a negative base are a sum from 0 to -q, turned. */
double vm_zeta(double s, double q)
{
    if (s == 1)
        return INFINITY;
    if (!(s > 1) || q != q)
        return NAN;
    if (q > 0)
        return q < INFINITY ? (double)zeta_positive(s, q) : 0;
    if (q == floor(q))
        return INFINITY;
    if (s != floor(s))
        return NAN;
    long double p = (long double)q - floorl(q), sign = fmod(s, 2) == 0 ? 1 : -1;
    return (double)(zeta_positive(s, p) + sign * (zeta_positive(s, 1 - p) - zeta_positive(s, 1 - (long double)q)));
}

/* --- the incomplete gamma function ------------------------------------------------------------------------------ */

/* log(gamma(1 + a)); for small a by its power series, whose terms 1 + a would have lost. */
static long double lgamma_1p(long double a)
{
    int sign;
    if (a > 1e-3L)
        return lgammal_r(1 + a, &sign);
    return -a * (0.577215664901532860606512L -
                 a * (0.822467033424113218236208L -
                      a * (0.400685634386531428466580L -
                           a * (0.270580808427784547879000L - a * 0.207385551028673985266274L))));
}

/* x^a e^-x / gamma(a + 1). For large a by what x differs from a: nothing large cancels then. */
static long double gamma_prefix(long double a, long double x)
{
    if (a < 20)
        return expl(a * logl(x) - x - lgamma_1p(a));
    long double z = 1 / (a * a), d = (x - a) / a;
    long double stirling = (1 / 12.L - z * (1 / 360.L - z * (1 / 1260.L - z * (1 / 1680.L - z / 1188)))) / a;
    return expl(-a * (d - log1pl(d)) - stirling) / sqrtl(6.28318530717958647692529L * a);
}

/* P for x < a + 1: every term is positive. */
static long double gamma_lower(long double a, long double x)
{
    long double sum = 1, term = 1, prefix = gamma_prefix(a, x);
    for (long double n = 1; prefix > 0 && term > EPSILON * sum; n++)
        sum += term *= x / (a + n);
    return prefix * sum;
}

/* Q for x > a by its continued fraction, from the front (Lentz). */
static long double gamma_upper(long double a, long double x)
{
    long double b = x + 1 - a, c = 1e300L, d = 1 / b, fraction = d, step = 0, prefix = a * gamma_prefix(a, x);
    for (long double n = 1; prefix > 0 && fabsl(step - 1) > EPSILON * 10; n++) {
        long double an = n * (a - n);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        fraction *= step = c * d;
    }
    return prefix * fraction;
}

/* Q where both are small, without 1 - P: 1 - x^a / gamma(1 + a), and what is left of the series of P. */
static long double gamma_upper_small(long double a, long double x)
{
    long double power = a * logl(x) - lgamma_1p(a), sum = 0, term = 1;
    for (long double n = 1; n < 60; n++) {
        term *= -x / n;
        sum += term * a / (a + n);
    }
    return -expm1l(power) - expl(power) * sum;
}

/* Both in the limit of large a: the normal distribution's, and the first correction of Temme's uniform expansion. */
static long double gamma_upper_large(long double a, long double x)
{
    long double d = (x - a) / a, half = d - log1pl(d), eta = copysignl(sqrtl(2 * half), d);
    long double c0 = -1 / 3.L + eta * (1 / 12.L - eta * 2 / 135);
    return erfcl(eta * sqrtl(a / 2)) / 2 +
           expl(-a * half) / sqrtl(6.28318530717958647692529L * a) * (c0 - 1 / (540 * a));
}

/* P, or Q = 1 - P (upper), each from the form that does not cancel. */
static double incomplete(double a, double x, bool upper)
{
    if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x)))
        return NAN;
    if (a == 0 || isinf(x))
        return !upper;
    if (x == 0 || isinf(a))
        return upper;
    if (a > 1e8 && fabs(x - a) < 1e-3 * a) {
        long double q = gamma_upper_large(a, x);
        return (double)(upper ? q : 1 - q);
    }
    bool small = x <= 0.5 ? -0.4 / log(x) >= a : 1.1 * x >= a;
    if (x > 1.1 && x > a)
        return (double)(upper ? gamma_upper(a, x) : 1 - gamma_upper(a, x));
    if (upper && x <= 1.1 && small)
        return (double)gamma_upper_small(a, x);
    return (double)(upper ? 1 - gamma_lower(a, x) : gamma_lower(a, x));
}

double vm_igamma(double a, double x) { return incomplete(a, x, false); }
double vm_igammac(double a, double x) { return incomplete(a, x, true); }

/* --- erfcx -------------------------------------------------------------------------------------------------------- */

/* exp(x^2) erfc(x): as it stands while neither leaves its range, then erfc's asymptotic series. */
double vm_erfcx(double x)
{
    if (!(x > 25))
        return x < -27 ? INFINITY : (double)(expl((long double)x * x) * erfcl((long double)x));
    long double z = 1 / (2 * (long double)x * x), series = 1;
    for (int k = 17; k > 0; k -= 2)
        series = 1 - k * z * series;
    return (double)(series / (x * 1.77245385090551602729817L));
}
