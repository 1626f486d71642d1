/* vmath.c: the functions that stay scalar: the gamma family and float64's erfinv. */
#define _DEFAULT_SOURCE /* lgamma_r: lgamma writes the global signgam, which threads share */
#include "cpu/vmath.h"

#define PI 3.14159265358979323846264338327950288L

/* In long double, which carries 11 bits more than the result: what is rounded and what cancels on the way stays below
 * the result's last place. float32's functions have these bits in double. */
double vm_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

double vm_lgamma_d(double x)
{
    int sign;
    return (double)lgammal_r((long double)x, &sign);
}

double vm_erfc_d(double x) { return (double)erfcl((long double)x); }

/* The recurrence psi(x) = psi(x + 1) - 1/x up to 14, then the asymptotic series in 1/x^2. */
static long double digamma_positive(long double x)
{
    long double sum = 0;
    for (; x < 14; x++)
        sum -= 1 / x;
    double z = (double)(1 / (x * x));
    double series = POLY_6(madd_d, z, 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12);
    return sum + logl(x) - 0.5L / x - (long double)z * series;
}

/* Near the positive zero, of which two long doubles give 38 digits, all terms of the same formula are differences from
 * those at the zero, each with the factor x - zero: nothing cancels. */
static long double digamma_near_zero(double x)
{
    static const double series[] = { 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12 };
    const long double zero = 1.46163214496836234128092L, rest = -1.82570963159634842146e-20L;
    long double d = ((long double)x - zero) - rest, a = x, b = zero, sum = 0;
    for (int k = 0; k < 13; k++, a++, b++)
        sum += 1 / (a * b);
    long double za = 1 / (a * a), zb = 1 / (b * b), power = 1, difference = 1, tail = 0;
    for (int k = 0; k < 7; k++) { /* difference: (za^(k+1) - zb^(k+1)) / (za - zb) */
        tail += series[k] * difference;
        power *= zb;
        difference = za * difference + power;
    }
    return log1pl(d / b) + d * (sum + 0.5L / (a * b) + tail * (a + b) * za * zb);
}

/* Poles at 0 (a signed infinity) and at the negative integers (NaN); between them reflected:
 * psi(x) = psi(1 - x) - pi / tan(pi x), with pi x reduced to the fraction first. */
double vm_digamma(double x)
{
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x > 1.25 && x < 1.75)
        return (double)digamma_near_zero(x);
    if (x > 0 || x != x)
        return (double)digamma_positive(x);
    if (x == trunc(x))
        return NAN;
    return (double)(digamma_positive(1 - (long double)x) - PI / tanl(PI * (x - trunc(x))));
}

static long double trigamma_positive(long double x)
{
    long double sum = 0;
    for (; x < 14; x++)
        sum += 1 / (x * x);
    long double z = 1 / (x * x);
    double series = POLY_6(madd_d, (double)z, 1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66, -691. / 2730, 7. / 6);
    return sum + 1 / x + z * (0.5L + series / x);
}

/* psi'(x) = (pi / sin(pi x))^2 - psi'(1 - x) */
double vm_trigamma(double x)
{
    if (x > 0 || x != x)
        return (double)trigamma_positive(x);
    long double s = PI / sinl(PI * (x - trunc(x)));
    return (double)(s * s - trigamma_positive(1 - (long double)x));
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
    double t = a < 0.9999999 ? (double)erfinv_f((float)a) : sqrt(w - 0.5 * log((double)PI * w));
    for (int step = 0; step < 3; step++) {
        double error = a < 0.5 ? erf(t) - a : tail - erfc(t);
        double u = error / (1.12837916709551257390 * exp(-t * t));
        t -= u / (1 + t * u);
    }
    return copysign(t, x);
}
