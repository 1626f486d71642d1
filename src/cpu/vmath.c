/* vmath.c: the functions that stay scalar: the gamma family and float64's erfinv. */
#define _DEFAULT_SOURCE /* lgamma_r: lgamma writes the global signgam, which threads share */
#include "cpu/vmath.h"

#define PI 3.14159265358979323846

double vm_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* The recurrence psi(x) = psi(x + 1) - 1/x up to 14, then the asymptotic series in 1/x^2. The sums cancel: long double
 * keeps the digits that this costs. */
static double digamma_positive(double at)
{
    long double x = at, sum = 0;
    for (; x < 14; x++)
        sum -= 1 / x;
    double z = (double)(1 / (x * x));
    double series = POLY_6(madd_d, z, 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12);
    return (double)(sum + logl(x) - 0.5 / x - z * series);
}

/* Poles at 0 (a signed infinity) and at the negative integers (NaN); between them reflected:
 * psi(x) = psi(1 - x) - pi / tan(pi x), with pi x reduced to the fraction first. */
double vm_digamma(double x)
{
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x > 0 || x != x)
        return digamma_positive(x);
    if (x == trunc(x))
        return NAN;
    return digamma_positive(1 - x) - PI / tan(PI * (x - trunc(x)));
}

static double trigamma_positive(double at)
{
    long double x = at, sum = 0;
    for (; x < 14; x++)
        sum += 1 / (x * x);
    double z = (double)(1 / (x * x));
    double series = POLY_6(madd_d, z, 1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66, -691. / 2730, 7. / 6);
    return (double)(sum + 1 / x + z * (0.5 + series / x));
}

/* psi'(x) = (pi / sin(pi x))^2 - psi'(1 - x) */
double vm_trigamma(double x)
{
    if (x > 0 || x != x)
        return trigamma_positive(x);
    double s = PI / sin(PI * (x - trunc(x)));
    return s * s - trigamma_positive(1 - x);
}

/* The float32 form, polished by two steps of Halley's method; in the tail on erfc, which keeps the digits there. */
double vm_erfinv(double x)
{
    double a = fabs(x);
    if (!(a < 1))
        return a == 1 ? copysign(INFINITY, x) : NAN;
    if (a < 1e-9)
        return x * 0.88622692545275801365;
    double tail = 1 - a, w = -log(tail * (1 + a));
    double t = a < 0.9999999 ? (double)erfinv_f((float)a) : sqrt(w - 0.5 * log(PI * w));
    for (int step = 0; step < 3; step++) {
        double error = a < 0.5 ? erf(t) - a : tail - erfc(t);
        double u = error / (1.12837916709551257390 * exp(-t * t));
        t -= u / (1 + t * u);
    }
    return copysign(t, x);
}
