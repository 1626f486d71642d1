/* test_kernels.c: the elementwise kernels of every ISA level the machine has, against long double libm.
 *
 * float32 functions are scanned over the whole range of bit patterns and must stay within 2.5 ULP; float64 functions
 * are sampled and must stay within the bound in their row. */
#define _GNU_SOURCE
#include "cpu/ew.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef long double real;

/* --- references ----------------------------------------------------------------------------------------------- */

static real ref_rsqrt(real x) { return 1 / sqrtl(x); }
static real ref_reciprocal(real x) { return 1 / x; }
static real ref_square(real x) { return x * x; }
static real ref_cube(real x) { return x * x * x; }
static real ref_sigmoid(real x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
/* What a rounded argument of exp loses is made good: |x| in the exponent magnifies it. */
static real exp_of(real high, real low) { return high > -11400 ? expl(high) * (1 + low) : expl(high); }
static real exp_of_square(real x) { return exp_of(-x * x / 2, -fmal(x, x, -(x * x)) / 2); }
/* Phi(x) */
static real ref_normal(real x)
{
    real a = -x * M_SQRT1_2l, lost = fmal(-x, M_SQRT1_2l, -a) - x * 1.89503255889325708e-20l;
    return erfcl(a) / 2 - (isfinite(x) ? lost * exp_of_square(x) / sqrtl(M_PIl) : 0);
}
static real ref_gelu(real x) { return x * ref_normal(x); }
static real ref_gelu_slope(real x) { return ref_normal(x) + x * exp_of_square(x) * M_2_SQRTPIl * M_SQRT1_2l / 2; }
/* x sigmoid(v), v = x (c + 0.044715 c x^2), c = 2 sqrt(2 / pi) */
static real ref_gelu_tanh(real x)
{
    const real c = 1.595769121605730711706272l, c_low = 5.35117775572047829e-20l;
    const real k = 0.07135481627260024877721376l, k_low = -8.75006214400898496e-22l;
    real z = x * x, kz = k * z, kz_low = fmal(k, z, -kz) + k * fmal(x, x, -z) + k_low * z;
    real sum = c + kz, part = sum - c, v = x * sum;
    real v_low = fmal(x, sum, -v) + x * ((c - (sum - part)) + (kz - part) + kz_low + c_low);
    if (!isfinite(v))
        return x * ref_sigmoid(v);
    real e = exp_of(-fabsl(v), v < 0 ? v_low : -v_low);
    return x * (v < 0 ? e : 1) / (1 + e);
}
static real ref_silu(real x) { return x * ref_sigmoid(x); }
static real ref_mish(real x) { return x * tanhl(log1pl(expl(x))); }
static real ref_logsigmoid(real x) { return (x < 0 ? x : 0) - log1pl(expl(-fabsl(x))); }
static real ref_softsign(real x) { return x / (1 + fabsl(x)); }
static real ref_selu(real x)
{
    return 1.0507009873554804934193349852946l * (x > 0 ? x : 1.6732632423543772848170429916717l * expm1l(x));
}
static real ref_frac(real x) { return x - truncl(x); }

/* Newton's method on erf, from below: erf is concave there. Odd. */
static real ref_erfinv(real x)
{
    real a = fabsl(x), t = 0;
    if (!(a < 1))
        return a == 1 ? copysignl(INFINITY, x) : NAN;
    for (int step = 0; step < 60; step++) {
        real error = a < 0.5l ? erfl(t) - a : (1 - a) - erfcl(t);
        real u = error * expl(t * t) * 0.886226925452758013649l;
        t -= u / (1 + t * u);
        if (fabsl(u) <= 1e-19l * t)
            break;
    }
    return copysignl(t, x);
}

static real ref_digamma(real x)
{
    if (x <= 0)
        return x == 0           ? copysignl(INFINITY, -x)
               : x == truncl(x) ? NAN
                                : ref_digamma(1 - x) - M_PIl / tanl(M_PIl * (x - truncl(x)));
    real sum = 0;
    for (; x < 40; x++)
        sum -= 1 / x;
    real z = 1 / (x * x);
    return sum + logl(x) - 0.5l / x - z * (1 / 12.l - z * (1 / 120.l - z * (1 / 252.l - z * (1 / 240.l - z / 132))));
}

static real ref_trigamma(real x)
{
    real sum = 0;
    for (; x < 40; x++)
        sum += 1 / (x * x);
    real z = 1 / (x * x);
    return sum + 1 / x + z / 2 + z / x * (1 / 6.l - z * (1 / 30.l - z * (1 / 42.l - z * (1 / 30.l - z * 5 / 66))));
}

/* Beyond 25 by a continued fraction, which the kernel does not use. */
static real ref_erfcx(real x)
{
    if (!(x > 25))
        return expl(x * x) * erfcl(x);
    real fraction = x;
    for (int k = 12; k > 0; k--)
        fraction = x + k / 2.l / fraction;
    return 1 / (fraction * 1.77245385090551602729817l);
}

static real ref_lgamma(real x)
{
    int sign;
    return lgammal_r(x, &sign);
}

typedef struct function {
    ew_op op;
    real (*reference)(real);
    int odd;
    double ulp64;  /* allowed in float64 */
    double lo, hi; /* float64 samples beyond random bit patterns; both 0: bit patterns only */
    double lo32;   /* float32 is scanned from here up, unless 0 */
} function;

static const function functions[] = {
    { EW_sqrt, sqrtl, 0, .51, 0, 9, 0 },
    { EW_rsqrt, ref_rsqrt, 0, 2, 0, 9, 0 },
    { EW_reciprocal, ref_reciprocal, 1, 1, -9, 9, 0 },
    { EW_square, ref_square, 0, 1, -9, 9, 0 },
    { EW_cube, ref_cube, 1, 2, -9, 9, 0 },
    { EW_exp, expl, 0, 2, -750, 720, 0 },
    { EW_exp2, exp2l, 0, 2, -1080, 1030, 0 },
    { EW_expm1, expm1l, 0, 2, -2, 2, 0 },
    { EW_log, logl, 0, 2, 0, 3, 0 },
    { EW_log1p, log1pl, 0, 2, -1, 1, 0 },
    { EW_log2, log2l, 0, 2, 0, 3, 0 },
    { EW_log10, log10l, 0, 2, 0, 3, 0 },
    { EW_sin, sinl, 1, 2, -9, 9, 0 },
    { EW_cos, cosl, 0, 2, -9, 9, 0 },
    { EW_tan, tanl, 1, 2, -9, 9, 0 },
    { EW_asin, asinl, 1, 2, -1, 1, 0 },
    { EW_acos, acosl, 0, 2, -1, 1, 0 },
    { EW_atan, atanl, 1, 2, -9, 9, 0 },
    { EW_sinh, sinhl, 1, 2, -9, 9, 0 },
    { EW_cosh, coshl, 0, 2, -9, 9, 0 },
    { EW_tanh, tanhl, 1, 2, -20, 20, 0 },
    { EW_asinh, asinhl, 1, 2, -9, 9, 0 },
    { EW_acosh, acoshl, 0, 2, 1, 9, 0 },
    { EW_atanh, atanhl, 1, 2, -1, 1, 0 },
    { EW_sigmoid, ref_sigmoid, 0, 2, -40, 40, 0 },
    { EW_erf, erfl, 1, 2, -6, 6, 0 },
    { EW_erfc, erfcl, 0, 2, -6, 28, 0 },
    { EW_erfinv, ref_erfinv, 1, 2, -1, 1, 0 },
    { EW_floor, floorl, 0, 0, -9, 9, 0 },
    { EW_ceil, ceill, 0, 0, -9, 9, 0 },
    { EW_round, rintl, 1, 0, -9, 9, 0 },
    { EW_trunc, truncl, 1, 0, -9, 9, 0 },
    { EW_frac, ref_frac, 0, 0, -9, 9, 0 },
    { EW_gelu, ref_gelu, 0, 2, -40, 10, 0 },
    { EW_gelu_slope, ref_gelu_slope, 0, 2, -0.4, 10, -0.4 },
    { EW_gelu_slope, ref_gelu_slope, 0, 2, -40, -1.2, -0.4 },
    { EW_gelu_tanh, ref_gelu_tanh, 0, 2, -25, 10, 0 },
    { EW_silu, ref_silu, 0, 2, -760, 40, 0 },
    { EW_mish, ref_mish, 0, 2, -40, 40, 0 },
    { EW_logsigmoid, ref_logsigmoid, 0, 2, -40, 40, 0 },
    { EW_softsign, ref_softsign, 1, 2, -9, 9, 0 },
    { EW_selu, ref_selu, 0, 2, -9, 9, 0 },
    { EW_lgamma, ref_lgamma, 0, 2, -30, 30, 0x1p-149 },
    { EW_digamma, ref_digamma, 0, 2, 1.75, 30, 0x1p-126 },
    { EW_trigamma, ref_trigamma, 0, 2, .01, 30, 1e-19 },
    { EW_erfcx, ref_erfcx, 0, 2, -26, 40, 0 },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* --- distance --------------------------------------------------------------------------------------------------- */

/* |got - want| in units of the last place of `want` in a format with `digits` bits and least exponent `emin`. Equal
 * specials are 0 apart, others infinitely far; infinity counts as the power of two after the largest number. */
static double ulps(real got, real want, int digits, int emin, real overflow)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (got == want)
        return signbit(got) == signbit(want) ? 0 : INFINITY;
    if (isinf(want) && isinf(got))
        return INFINITY;
    if (isinf(want) || fabsl(want) > overflow)
        want = copysignl(overflow, want);
    if (isinf(got))
        got = copysignl(overflow, got);
    int e = want == 0 ? emin : ilogbl(want);
    return (double)(fabsl(got - want) / ldexpl(1, (e < emin ? emin : e) - digits + 1));
}
static double ulps32(float got, real want) { return ulps(got, want, 24, -126, 0x1p128l); }
static double ulps64(double got, real want) { return ulps(got, want, 53, -1022, ldexpl(1, 1024)); }

/* --- scans ------------------------------------------------------------------------------------------------------ */

enum { STRIDE = 4099, DENSE = 1500, SCAN_MAX = 1100000 };

static float float_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;
static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Every 4099th bit pattern, and neighbourhoods of where functions change branch, overflow, or are worst. */
static int64_t scan_inputs(float *x)
{
    static const float points[] = { .74958485f,
                                    .74987179f,
                                    3.8349826f,
                                    16.643444f,
                                    6.6320157f,
                                    6.8916235f,
                                    7.1315866f,
                                    7.7864079f,
                                    .57143009f,
                                    0x1.19028cp16f,
                                    0x1.cf44b4p17f,
                                    0x1p17f,
                                    0x1p18f,
                                    .8f,
                                    0,
                                    0x1p-126f,
                                    .25f,
                                    .5f,
                                    1,
                                    1.41421356f,
                                    .70710678f,
                                    2,
                                    3,
                                    3.14159265f,
                                    1.57079633f,
                                    4,
                                    5,
                                    9,
                                    9.1f,
                                    11,
                                    10.05f,
                                    13.2f,
                                    20,
                                    30,
                                    88.72f,
                                    87.3f,
                                    103.97f,
                                    104,
                                    127,
                                    128,
                                    149,
                                    0x1p20f,
                                    0x1p23f,
                                    0x1p24f,
                                    0x1p64f,
                                    3.4028235e38f,
                                    INFINITY };
    int64_t n = 0;
    for (uint64_t u = 0; u <= 0xffffffffu; u += STRIDE)
        x[n++] = float_of_bits((uint32_t)u);
    for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
        uint32_t centre;
        memcpy(&centre, &points[p], 4);
        for (int k = -DENSE / 2; k < DENSE / 2; k++) {
            x[n] = float_of_bits(centre + (uint32_t)k);
            x[n + 1] = -x[n];
            n += 2;
        }
    }
    return n;
}

static void scan_function(const function *f, int64_t n, const float *x, float *got, real *want)
{
    for (int64_t k = 0; k < n; k++)
        want[k] = f->lo32 && !(x[k] >= f->lo32) ? 0 : f->reference(x[k]);
    for (int level = 0; level <= (int)isa_highest(); level++) {
        ew_table_of(level)->op[f->op][COMPUTE_F32](n, got, x, NULL, NULL);
        double worst = 0;
        int64_t at = 0;
        for (int64_t k = 0; k < n; k++) {
            /* a reference without sign of zero, or beyond the range asked for */
            if (f->lo32 && !(x[k] >= f->lo32))
                continue;
            double d = ulps32(got[k], want[k]);
            if (d > worst)
                worst = d, at = k;
        }
        if (!tap_ok(worst <= 2.5, "%s in float32 is within 2.5 ULP on %s", ew_infos[f->op].name, isa_name(level)) ||
            getenv("VERBOSE"))
            printf("# %.3f ULP at %a (%g): %a, should be %La\n", worst, x[at], x[at], got[at], want[at]);
    }
}

static void scan_float32(void)
{
    float *x = malloc(SCAN_MAX * 2 * sizeof *x), *got = malloc(SCAN_MAX * 2 * sizeof *got);
    real *want = malloc(SCAN_MAX * 2 * sizeof *want);
    int64_t n = scan_inputs(x);
    for (int f = 0; f < FUNCTIONS; f++)
        scan_function(&functions[f], n, x, got, want);
    free(x), free(got), free(want);
}

/* Below 2^-3, 2^-4 ... tanh's numerator has just begun a binade and its result ends one: its error counts double there,
 * which a scan with steps misses. */
static void tanh_at_its_worst(void)
{
    enum { BELOW = 1 << 18, POWERS = 4 };
    float *x = malloc(BELOW * POWERS * sizeof *x), *got = malloc(BELOW * POWERS * sizeof *got);
    for (int p = 0; p < POWERS; p++)
        for (int k = 0; k < BELOW; k++) {
            uint32_t bits = ((124u - (uint32_t)p) << 23) - 1 - (uint32_t)k;
            memcpy(&x[p * BELOW + k], &bits, 4);
        }
    for (int level = 0; level <= (int)isa_highest(); level++) {
        ew_table_of(level)->op[EW_tanh][COMPUTE_F32](BELOW * POWERS, got, x, NULL, NULL);
        double worst = 0;
        for (int k = 0; k < BELOW * POWERS; k++)
            worst = fmax(worst, ulps32(got[k], tanhl(x[k])));
        if (!tap_ok(worst <= 2.5, "tanh is within 2.5 ULP below powers of two on %s", isa_name(level)))
            printf("# %.3f ULP\n", worst);
    }
    free(x);
    free(got);
}

static void sample_float64(void)
{
    enum { N = 20000 };
    static double x[N], got[N];
    for (int i = 0; i < FUNCTIONS; i++) {
        const function *f = &functions[i];
        for (int k = 0; k < N; k++) {
            double unit = (double)(random_bits() >> 11) * 0x1p-53;
            x[k] = f->lo + (f->hi - f->lo) * unit;
            uint64_t u = random_bits();
            if (k % 4 == 0 && f->ulp64 <= 2 && !f->lo32)
                memcpy(&x[k], &u, 8);
        }
        const double specials[] = { 0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 5e-324, 1e308 };
        if (f->ulp64 <= 2 && !f->lo32) /* the others' references do not know them */
            memcpy(x, specials, sizeof specials);
        for (int level = 0; level <= (int)isa_highest(); level++) {
            ew_table_of(level)->op[f->op][COMPUTE_F64](N, got, x, NULL, NULL);
            double worst = 0;
            int at = 0;
            for (int k = 0; k < N; k++) {
                double d = ulps64(got[k], f->reference(x[k]));
                if (d > worst)
                    worst = d, at = k;
            }
            if (!tap_ok(worst <= f->ulp64 + 0.01, "%s in float64 is within %g ULP on %s", ew_infos[f->op].name,
                        f->ulp64, isa_name(level)) ||
                getenv("VERBOSE"))
                printf("# %.3f ULP at %a (%g): %a, should be %La\n", worst, x[at], x[at], got[at], f->reference(x[at]));
        }
    }
}

/* Where references in long double cancel, too: values that were computed with 50 digits. */
static void gamma_functions_near_their_zeros(void)
{
    static const double digamma[][2] = {
        { 0x1.762d86356be3fp+0, -0x1.aa2d9b3ce29e0p-54 }, { 0x1.762d86356be40p+0, 0x1.1a5beef0723bbp-53 },
        { 0x1.762d86356ce3fp+0, 0x1.ef656b2208c10p-41 },  { 0x1.762d86316be3fp+0, -0x1.ef72bfe6c988bp-31 },
        { 0x1.762d96356be3fp+0, 0x1.ef72ae62f14e0p-21 },  { 0x1.75ed86356be3fp+0, -0x1.efab714c7e572p-11 },
        { 0x1.7333333333333p+0, -0x1.72d108754fe62p-7 },  { 0x1.8000000000000p+0, 0x1.2aed059bd608ap-5 },
        { 0x1.428f5c28f5c29p+0, -0x1.b970450754763p-3 },  { 0x1.bd70a3d70a3d7p+0, 0x1.eb1df17e9c075p-3 },
    };
    static const double lgamma[][2] = {
        { 0x1.0000000400000p+0, -0x1.2788cfc066f7fp-31 }, { 0x1.ffffe00000000p-1, 0x1.2788ea18a2911p-21 },
        { 0x1.0000000000800p+1, 0x1.b0ee60720a871p-42 },  { 0x1.fff0000000000p+0, -0x1.b0d9bce04b453p-14 },
        { -0x1.3a7fc9600f86cp+1, 0x1.0323b6d1fe86dp-54 }, { -0x1.3a7ef9db22d0ep+1, 0x1.3a8ab4332558bp-15 },
        { -0x1.0000000000000p-1, 0x1.43f89a3f0edd6p+0 },  { 0x1.0000000000000p-2, 0x1.49bbd81c16efbp+0 },
    };
    const struct {
        ew_op op;
        const double (*values)[2];
        int count;
    } tables[] = { { EW_digamma, digamma, sizeof digamma / sizeof *digamma },
                   { EW_lgamma, lgamma, sizeof lgamma / sizeof *lgamma } };
    for (int level = 0; level <= (int)isa_highest(); level++)
        for (int t = 0; t < 2; t++) {
            double worst = 0;
            for (int k = 0; k < tables[t].count; k++) {
                double got;
                ew_table_of(level)->op[tables[t].op][COMPUTE_F64](1, &got, &tables[t].values[k][0], NULL, NULL);
                worst = fmax(worst, ulps64(got, tables[t].values[k][1]));
            }
            tap_ok(worst <= 2, "%s in float64 is within 2 ULP near its zeros on %s", ew_infos[tables[t].op].name,
                   isa_name(level));
        }
}

static void odd_functions_are_odd(void)
{
    enum { N = 1 << 16 };
    static float x[N], minus[N], a[N], b[N];
    for (int k = 0; k < N; k++) {
        x[k] = float_of_bits((uint32_t)k * 65537u);
        minus[k] = -x[k];
    }
    for (int level = 0; level <= (int)isa_highest(); level++)
        for (int i = 0; i < FUNCTIONS; i++) {
            if (!functions[i].odd)
                continue;
            ew_kernel kernel = ew_table_of(level)->op[functions[i].op][COMPUTE_F32];
            kernel(N, a, x, NULL, NULL);
            kernel(N, b, minus, NULL, NULL);
            int good = 1;
            for (int k = 0; k < N; k++)
                good &= isnan(a[k]) ? isnan(b[k]) : a[k] == -b[k] && signbit(a[k]) != signbit(b[k]);
            tap_ok(good, "%s is odd on %s", ew_infos[functions[i].op].name, isa_name(level));
        }
}

/* --- two operands ------------------------------------------------------------------------------------------------ */

static real ref_remainder(real x, real y)
{
    real m = fmodl(x, y);
    return m != 0 && (y < 0) != (m < 0) ? (real)((float)m + (float)y) : m;
}
static real ref_logaddexp(real x, real y)
{
    return x == y && isinf(x) ? x : (x > y ? x : y) + log1pl(expl(-fabsl(x - y)));
}
static real ref_xlogy(real x, real y) { return isnan(y) ? y : x == 0 ? 0 : x * logl(y); }
static real ref_div(real x, real y) { return x / y; }
static real ref_maximum(real x, real y) { return isnan(x) ? x : isnan(y) ? y : x > y ? x : y; }
static real ref_minimum(real x, real y) { return isnan(x) ? x : isnan(y) ? y : x < y ? x : y; }
static real ref_fmax(real x, real y) { return isnan(y) || x >= y ? x : y; }
static real ref_nextafter(real x, real y) { return nextafterf((float)x, (float)y); }

static const struct pair {
    ew_op op;
    real (*reference)(real, real);
    double ulp;
} pairs[] = {
    { EW_pow, powl, 2.5 },
    { EW_atan2, atan2l, 2.5 },
    { EW_hypot, hypotl, 2.5 },
    { EW_fmod, fmodl, 0 },
    { EW_remainder, ref_remainder, .5 },
    { EW_copysign, copysignl, 0 },
    { EW_xlogy, ref_xlogy, 2.5 },
    { EW_logaddexp, ref_logaddexp, 2.5 },
    { EW_div, ref_div, .5 },
    { EW_maximum, ref_maximum, 0 },
    { EW_minimum, ref_minimum, 0 },
    { EW_fmax, ref_fmax, 0 },
    { EW_nextafter, ref_nextafter, 0 },
};

static void scan_pairs(void)
{
    enum { N = 400000 };
    static float x[N], y[N], got[N];
    static const float specials[] = { 0,          -0.0f,   1,        -1,       2,         -2,    3,
                                      -3,         .5f,     -.5f,     INFINITY, -INFINITY, NAN,   0x1p-149f,
                                      -0x1p-149f, 3.4e38f, -3.4e38f, 0x1p24f,  16777215,  1e-3f, 7.25f };
    enum { S = sizeof specials / sizeof *specials };
    for (int k = 0; k < N; k++) {
        uint64_t u = random_bits();
        x[k] = k < S * S ? specials[k / S] : float_of_bits((uint32_t)u);
        y[k] = k < S * S ? specials[k % S] : float_of_bits((uint32_t)(u >> 32));
        if (k >= S * S && k % 4) { /* most with exponents near 1 */
            x[k] = float_of_bits(((uint32_t)u & 0x83ffffffu) + 0x3e000000u);
            y[k] = float_of_bits(((uint32_t)(u >> 32) & 0x83ffffffu) + 0x3e000000u);
        }
        if (k >= S * S && k % 4 == 3)
            x[k] = fabsf(x[k]), y[k] *= 64;
    }
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (int level = 0; level <= (int)isa_highest(); level++) {
            ew_table_of(level)->op[pairs[p].op][COMPUTE_F32](N, got, x, y, NULL);
            double worst = 0;
            int at = 0;
            for (int k = 0; k < N; k++) {
                real want = pairs[p].reference(x[k], y[k]);
                /* near its zero logaddexp is a difference: measured there by the ULP of its terms */
                int difference = pairs[p].op == EW_logaddexp && fabsl(want) < 0.25l;
                double d = difference ? fabs((double)((got[k] - want) * 0x1p25l)) : ulps32(got[k], want);
                if (d > worst)
                    worst = d, at = k;
            }
            if (!tap_ok(worst <= pairs[p].ulp + .01, "%s in float32 is within %g ULP on %s", ew_infos[pairs[p].op].name,
                        pairs[p].ulp, isa_name(level)) ||
                getenv("VERBOSE"))
                printf("# %.3f ULP at %a, %a (%g, %g): %a, should be %La\n", worst, x[at], y[at], x[at], y[at], got[at],
                       pairs[p].reference(x[at], y[at]));
        }
}

/* --- integers ----------------------------------------------------------------------------------------------------- */

static int64_t int_op(int level, ew_op op, int64_t x, int64_t y)
{
    int64_t xs[1] = { x }, ys[1] = { y }, out[1];
    ew_table_of(level)->op[op][COMPUTE_I64](1, out, xs, ys, NULL);
    return out[0];
}

static void integers(void)
{
    static const struct {
        ew_op op;
        int64_t x, y, want;
    } cases[] = {
        { EW_floor_divide, -7, 2, -4 },
        { EW_floor_divide, 7, -2, -4 },
        { EW_floor_divide, -8, 2, -4 },
        { EW_floor_divide, 5, 0, 0 },
        { EW_floor_divide, INT64_MIN, -1, INT64_MIN },
        { EW_remainder, -7, 2, 1 },
        { EW_remainder, 7, -2, -1 },
        { EW_remainder, -7, -3, -1 },
        { EW_remainder, 7, 0, 0 },
        { EW_remainder, INT64_MIN, -1, 0 },
        { EW_fmod, -7, 2, -1 },
        { EW_fmod, 7, -2, 1 },
        { EW_fmod, 1, 0, 0 },
        { EW_fmod, INT64_MIN, -1, 0 },
        { EW_pow, 3, 4, 81 },
        { EW_pow, 2, 64, 0 },
        { EW_pow, 2, -1, 0 },
        { EW_pow, 1, -3, 1 },
        { EW_pow, -1, -3, -1 },
        { EW_pow, -1, -2, 1 },
        { EW_pow, 0, 0, 1 },
        { EW_pow, -2, 63, INT64_MIN },
        { EW_bitwise_left_shift, -8, 1, -16 },
        { EW_bitwise_left_shift, 1, 63, INT64_MIN },
        { EW_bitwise_left_shift, 5, 64, 0 },
        { EW_bitwise_left_shift, 5, -1, 0 },
        { EW_bitwise_right_shift, -8, 1, -4 },
        { EW_bitwise_right_shift, -8, 64, -1 },
        { EW_bitwise_right_shift, 8, 65, 0 },
        { EW_bitwise_right_shift, -8, -1, -1 },
        { EW_add, INT64_MAX, 1, INT64_MIN },
        { EW_mul, INT64_MIN, -1, INT64_MIN },
        { EW_minimum, -3, 2, -3 },
        { EW_maximum, -3, 2, 2 },
        { EW_heaviside, 0, 5, 5 },
        { EW_heaviside, -2, 5, 0 },
    };
    for (int level = 0; level <= (int)isa_highest(); level++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            int64_t got = int_op(level, cases[c].op, cases[c].x, cases[c].y);
            tap_ok(got == cases[c].want, "%s(%lld, %lld) is %lld in int64 on %s", ew_infos[cases[c].op].name,
                   (long long)cases[c].x, (long long)cases[c].y, (long long)cases[c].want, isa_name(level));
        }
        tap_ok(int_op(level, EW_abs, INT64_MIN, 0) == INT64_MIN, "abs of the least int64 wraps on %s", isa_name(level));
        tap_ok(int_op(level, EW_sign, -9, 0) == -1, "sign of -9 is -1 on %s", isa_name(level));
    }
}

/* Integer kernels agree on long arrays, where they are vectorised, with calls of one element, where they are not. */
static void integers_in_bulk(void)
{
    enum { N = 1003 };
    static int64_t x[N], y[N], out[N];
    static uint8_t bools[N];
    for (int k = 0; k < N; k++) {
        x[k] = (int64_t)random_bits() >> (random_bits() % 64);
        y[k] = (int64_t)random_bits() >> (random_bits() % 64);
    }
    for (int level = 0; level <= (int)isa_highest(); level++)
        for (int op = 0; op < EW_COUNT; op++) {
            ew_kernel kernel = ew_table_of(level)->op[op][COMPUTE_I64], base = ew_table_of(0)->op[op][COMPUTE_I64];
            if (!kernel || ew_infos[op].arity == 3)
                continue;
            int good = 1;
            bool to_bool = ew_gives_bool(op);
            kernel(N, to_bool ? (void *)bools : out, x, y, NULL);
            for (int k = 0; k < N; k++) {
                int64_t one = 0;
                base(1, &one, x + k, y + k, NULL);
                good &= to_bool ? bools[k] == (uint8_t)one : out[k] == one;
            }
            tap_ok(good, "%s in int64 does not depend on the length on %s", ew_infos[op].name, isa_name(level));
        }
}

/* --- lengths, aliasing, tails --------------------------------------------------------------------------------------
 */

enum { LONGEST = 300, GUARD = 0x5a };

typedef struct operands {
    _Alignas(64) char x[LONGEST * 8], y[LONGEST * 8], z[LONGEST * 8];
} operands;

static void fill(operands *o, ew_op op, compute_type c)
{
    double lo = ew_infos[op].lo, hi = ew_infos[op].hi;
    char *arrays[3] = { o->x, o->y, o->z };
    for (int a = 0; a < 3; a++)
        for (int k = 0; k < LONGEST; k++) {
            double v = lo + (hi - lo) * ((double)(random_bits() >> 11) * 0x1p-53);
            if (a == 0 && ew_infos[op].rule == EW_SELECT)
                o->x[k] = (char)(random_bits() & 1);
            else
                dtype_store_double(compute_dtype(c), arrays[a] + k * compute_size[c], c == COMPUTE_BOOL ? v > 0 : v);
        }
}

/* For each length: the results are those of single elements, in place too, and nothing past the end is written. */
static int lengths_agree(const ew_table *table, ew_op op, compute_type c)
{
    static operands o;
    static char want[LONGEST * 8], got[LONGEST * 8 + 64];
    ew_kernel kernel = table->op[op][c];
    size_t in = compute_size[c], first = ew_infos[op].rule == EW_SELECT ? 1 : in, out = ew_gives_bool(op) ? 1 : in;
    fill(&o, op, c);
    for (int k = 0; k < LONGEST; k++)
        kernel(1, want + (size_t)k * out, o.x + (size_t)k * first, o.y + (size_t)k * in, o.z + (size_t)k * in);
    for (int n = 0; n <= LONGEST; n = n < 70 ? n + 1 : n + 115) {
        memset(got, GUARD, sizeof got);
        kernel(n, got, o.x, o.y, o.z);
        if (memcmp(got, want, (size_t)n * out) || got[(size_t)n * out] != GUARD)
            return 0;
        const void *operand[3] = { o.x, o.y, o.z };
        for (int a = 0; a < ew_infos[op].arity; a++) {
            if (out != (a ? in : first))
                continue;
            const void *args[3] = { o.x, o.y, o.z };
            memcpy(got, operand[a], (size_t)n * out);
            args[a] = got;
            kernel(n, got, args[0], args[1], args[2]);
            if (memcmp(got, want, (size_t)n * out))
                return 0;
        }
    }
    return 1;
}

static void lengths(void)
{
    for (int level = 0; level <= (int)isa_highest(); level++)
        for (int op = 0; op < EW_COUNT; op++) {
            int good = 1, kernels = 0;
            for (int c = 0; c < COMPUTE_COUNT; c++)
                if (ew_table_of(level)->op[op][c])
                    good &= lengths_agree(ew_table_of(level), op, c), kernels |= 1 << c;
            int types = ew_infos[op].types;
            int expected = (types & EW_TYPE_F ? 3 : 0) | (types & EW_TYPE_I ? 4 : 0) | (types & EW_TYPE_B ? 8 : 0);
            tap_ok(kernels == expected, "%s has the kernels its row names on %s", ew_infos[op].name, isa_name(level));
            tap_ok(good, "%s gives the same for every length and in place on %s", ew_infos[op].name, isa_name(level));
        }
}

/* --- casts ----------------------------------------------------------------------------------------------------------
 */

enum { CAST_N = 4096 };

static void fill_cast(bk_dtype d, char *x)
{
    static const double specials[] = {
        0,      -0.0, 1,     -1,     .5,       1.5,       2.5,   1e10,         -1e10,         1e19,       -1e19,
        127,    128,  255,   256,    300,      65504,     65519, 65520,        6e-8,          2.9e-8,     3e-8,
        6.1e-5, -129, 1e300, 1e-300, INFINITY, -INFINITY, NAN,   2147483648.0, -2147483649.0, 1.00390625, 1.01171875
    };
    for (int k = 0; k < CAST_N; k++) {
        uint64_t u = random_bits();
        double v = ldexp((double)(int64_t)u, (int)(random_bits() % 60) - 90);
        if (k < (int)(sizeof specials / sizeof *specials))
            v = specials[k];
        if (dtype_is_float(d))
            dtype_store_double(d, x + (size_t)k * dtype_size(d), v);
        else if (d == BK_BOOL)
            x[k] = (char)(u & 1);
        else
            dtype_store_int(d, x + (size_t)k * dtype_size(d), (int64_t)u >> (11 + random_bits() % 40));
    }
}

/* As core/dtype.c converts; integers of more than 53 bits are left to it. */
static void cast_one(bk_dtype from, bk_dtype to, const void *x, void *out)
{
    if (dtype_is_float(from))
        dtype_store_double(to, out, dtype_load_double(from, x));
    else
        dtype_store_int(to, out, dtype_load_int(from, x));
}

static int same_value(bk_dtype d, const void *a, const void *b)
{
    if (dtype_is_float(d) && isnan(dtype_load_double(d, a)))
        return isnan(dtype_load_double(d, b));
    return !memcmp(a, b, dtype_size(d));
}

static int cast_agrees(const ew_table *table, bk_dtype from, bk_dtype to)
{
    static char x[CAST_N * 8], got[CAST_N * 8], want[8];
    fill_cast(from, x);
    for (int in_place = 0; in_place <= (dtype_size(from) == dtype_size(to)); in_place++) {
        if (in_place)
            memcpy(got, x, sizeof x);
        table->cast[from][to](CAST_N, got, in_place ? got : x, NULL, NULL);
        for (size_t k = 0; k < CAST_N; k++) {
            cast_one(from, to, x + k * dtype_size(from), want);
            if (!same_value(to, want, got + k * dtype_size(to))) {
                printf("# element %zu: %g gives %g, should be %g\n", k,
                       dtype_load_double(from, x + k * dtype_size(from)),
                       dtype_load_double(to, got + k * dtype_size(to)), dtype_load_double(to, want));
                return 0;
            }
        }
    }
    return 1;
}

static int every_half_survives(const ew_table *table)
{
    static uint16_t half[65536], back[65536];
    static float wide[65536];
    int good = 1;
    for (int k = 0; k < 65536; k++)
        half[k] = (uint16_t)k;
    table->cast[BK_FLOAT16][BK_FLOAT32](65536, wide, half, NULL, NULL);
    table->cast[BK_FLOAT32][BK_FLOAT16](65536, back, wide, NULL, NULL);
    for (int k = 0; k < 65536; k++)
        good &= same_value(BK_FLOAT32, &wide[k], &(float){ half_to_float(half[k]) }) &&
                same_value(BK_FLOAT16, &half[k], &back[k]);
    return good;
}

static int rounding_is_a_cast_and_back(const ew_table *table, bk_dtype d)
{
    static char x[CAST_N * 8], got[CAST_N * 8], want[8], narrow[8];
    bk_dtype wide = compute_dtype(dtypes[d].compute);
    size_t size = dtype_size(wide);
    fill_cast(wide, x);
    memcpy(got, x, sizeof x);
    table->round_to[d](CAST_N, got, got, NULL, NULL);
    for (size_t k = 0; k < CAST_N; k++) {
        cast_one(wide, d, x + k * size, narrow);
        cast_one(d, wide, narrow, want);
        if (!same_value(wide, want, got + k * size))
            return 0;
    }
    return 1;
}

static void casts(void)
{
    for (int level = 0; level <= (int)isa_highest(); level++) {
        const ew_table *table = ew_table_of(level);
        for (int from = 0; from < BK_DTYPE_COUNT; from++)
            for (int to = 0; to < BK_DTYPE_COUNT; to++)
                tap_ok(cast_agrees(table, from, to), "%s to %s converts as one element does on %s", dtypes[from].name,
                       dtypes[to].name, isa_name(level));
        for (int d = 0; d < BK_DTYPE_COUNT; d++) {
            if ((bk_dtype)d == compute_dtype(dtypes[d].compute))
                tap_ok(!table->round_to[d], "%s needs no rounding on %s", dtypes[d].name, isa_name(level));
            else
                tap_ok(rounding_is_a_cast_and_back(table, d), "rounding to %s is a cast there and back on %s",
                       dtypes[d].name, isa_name(level));
        }
        tap_ok(every_half_survives(table), "every float16 survives the way to float32 and back on %s", isa_name(level));
        int64_t wide[1] = { (1ll << 60) + (1ll << 36) + 1 };
        float narrow[1];
        table->cast[BK_INT64][BK_FLOAT32](1, narrow, wide, NULL, NULL);
        tap_ok(narrow[0] == (float)wide[0], "int64 to float32 rounds once on %s", isa_name(level));
    }
}

int main(void)
{
    scan_float32();
    tanh_at_its_worst();
    scan_pairs();
    sample_float64();
    gamma_functions_near_their_zeros();
    odd_functions_are_odd();
    integers();
    integers_in_bulk();
    lengths();
    casts();
    return tap_done();
}
