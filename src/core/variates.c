/* variates.c: numbers that are drawn by rejection: gamma and binomial ones, in the order in which PyTorch draws.
 *
 * Each candidate takes its uniform and normal numbers from the generator whether or not it is kept, so the order of the
 * draws is part of the result. */
#include <float.h>
#include <math.h>

#include "core/error.h"
#include "core/random.h"

static int require_float(bk_dtype dtype, const char *kernel)
{
    if (dtype_is_float(dtype))
        return 0;
    return error_int(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, dtypes[dtype].type_name);
}

static double load(bk_dtype dtype, const void *data, int64_t i)
{
    return dtype_load_double(dtype, (const char *)data + i * (int64_t)dtype_size(dtype));
}

static void store(bk_dtype dtype, void *data, int64_t i, double x)
{
    dtype_store_double(dtype, (char *)data + i * (int64_t)dtype_size(dtype), x);
}

/* --- gamma ----------------------------------------------------------------------------------------------------------
 */

/* Marsaglia and Tsang (2000): the cube of a normal number, kept if it passes. Below 1, a draw of alpha + 1 times a
 * power of a uniform number. Constants are floats, as PyTorch's are. */
static double gamma_number(rng *r, double alpha, bool single)
{
    double scale = 1;
    if (alpha < 1) {
        if (alpha == 0)
            return 0;
        scale = pow(1 - rng_next_u53(r), single ? (double)(1 / (float)alpha) : 1 / alpha);
        alpha = single ? (double)((float)alpha + 1) : alpha + 1;
    }
    const float third = 1.0f / 3.0f;
    double d = single ? (double)((float)alpha - third) : alpha - (double)third, c = 1 / sqrt(9 * d);
    for (;;) {
        double x, y;
        do {
            x = rng_next_normal(r);
            y = 1 + c * x;
        } while (y <= 0);
        double v = y * y * y, u = 1 - rng_next_u53(r), square = x * x;
        if (u < 1 - (double)0.0331f * square * square || log(u) < 0.5 * square + d * (1 - v + log(v)))
            return scale * d * v;
    }
}

static double smallest(bk_dtype dtype)
{
    static const double of[] = {
        [BK_FLOAT32] = FLT_MIN, [BK_FLOAT64] = DBL_MIN, [BK_FLOAT16] = 0x1p-14, [BK_BFLOAT16] = 0x1p-126
    };
    return of[dtype];
}

int rng_standard_gamma(rng *r, bk_dtype dtype, const void *alphas, void *data, int64_t n)
{
    if (require_float(dtype, "gamma_cpu") < 0)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        double x = gamma_number(r, load(dtype, alphas, i), dtype != BK_FLOAT64);
        store(dtype, data, i, x > smallest(dtype) ? x : smallest(dtype));
    }
    return 0;
}

/* psi, for the derivative below: recurrence to where the asymptotic series is exact to a double. */
static double digamma(double x)
{
    double sum = 0;
    for (; x < 12; x += 1)
        sum -= 1 / x;
    double f = 1 / (x * x);
    return sum + log(x) - 0.5 / x - f * (1.0 / 12 - f * (1.0 / 120 - f * (1.0 / 252 - f * (1.0 / 240 - f / 132))));
}

/* dx/dalpha at a fixed value of the distribution function P(alpha, x), by the series of P and its derivative:
 * P x^-alpha e^x Gamma(alpha) = sum of T_n = x^n / (alpha (alpha + 1) ... (alpha + n)). */
double gamma_slope(double alpha, double x)
{
    if (!(x > 0) || !(alpha > 0))
        return 0;
    double term = 1 / alpha, harmonic = 1 / alpha, sum = term, weighted = term * harmonic;
    for (double k = alpha + 1; k < alpha + 1e5; k += 1) {
        term *= x / k;
        harmonic += 1 / k;
        sum += term;
        weighted += term * harmonic;
        if (term * harmonic < 1e-17 * weighted)
            break;
    }
    return x * (weighted - (log(x) - digamma(alpha)) * sum);
}

/* --- binomial -------------------------------------------------------------------------------------------------------
 */

/* The sum of the waits for successes. */
static double binomial_by_waiting(rng *r, double count, double p)
{
    double waited = 0, successes = 0, rate = log1p(-p);
    for (;;) {
        waited += ceil(log(rng_next_u53(r)) / rate);
        if (waited > count)
            return successes;
        successes++;
    }
}

/* What Stirling's formula leaves out of log(k!). */
static double stirling_rest(double k)
{
    static const double small[] = { 0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                    0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                    0.00925546218271273, 0.00833056343336287 };
    if (k <= 9)
        return small[(int)k];
    double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/* Hoermann (1993), transformed rejection with squeeze: BTRS. */
static double binomial_by_rejection(rng *r, double n, double p)
{
    double spread = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double c = n * p + 0.5, squeeze = 0.92 - 4.2 / b, odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * spread;
    double m = floor((n + 1) * p);
    for (;;) {
        double u = rng_next_u53(r) - 0.5, v = rng_next_u53(r), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + c);
        if (k < 0 || k > n)
            continue;
        if (us >= 0.07 && v <= squeeze)
            return k;
        v = log(v * alpha / (a / (us * us) + b));
        double bound = (m + 0.5) * log((m + 1) / (odds * (n - m + 1))) + (n + 1) * log((n - m + 1) / (n - k + 1)) +
                       (k + 0.5) * log(odds * (n - k + 1) / (k + 1)) + stirling_rest(m) + stirling_rest(n - m) -
                       stirling_rest(k) - stirling_rest(n - k);
        if (v <= bound)
            return k;
    }
}

static double binomial_number(rng *r, double n, double p)
{
    if (n <= 0 || p <= 0)
        return 0;
    if (p >= 1)
        return n;
    bool many = p > 0.5;
    double q = many ? 1 - p : p, x = n * q >= 10 ? binomial_by_rejection(r, n, q) : binomial_by_waiting(r, n, q);
    return many ? n - x : x;
}

int rng_binomial(rng *r, bk_dtype dtype, const void *counts, const void *probs, void *data, int64_t n)
{
    if (require_float(dtype, "binomial_cpu") < 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (!(load(dtype, probs, i) >= 0 && load(dtype, probs, i) <= 1))
            return error_int(BK_RUNTIME_ERROR, "invalid probability, expected a number from 0 to 1");
    for (int64_t i = 0; i < n; i++)
        store(dtype, data, i, binomial_number(r, load(dtype, counts, i), load(dtype, probs, i)));
    return 0;
}
