/* distributions.c: numbers of a distribution from the generator's words, by PyTorch's rules.
 *
 * A float has 24 random bits of one word (u24), a double 53 bits of two words (u53); most distributions compute in
 * double whatever the dtype, and round once. Everything goes through chunks that stay in L1: words, then uniform
 * numbers, then the transformation, then the store in the dtype. */
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 512, BLOCK = 16 }; /* BLOCK: normal numbers are made 16 at a time; it divides CHUNK */

static const double PI = 3.14159265358979323846;

static inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

static void fill_u24(rng *r, float *out, int64_t n)
{
    uint32_t words[CHUNK];
    rng_fill_u32(r, words, n);
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(int32_t)(words[i] & 0xffffffu) * 0x1p-24f;
}

/* u53 from a signed integer, which every instruction set converts in one step. */
static void fill_u53(rng *r, double *out, int64_t n)
{
    uint32_t words[2 * CHUNK];
    rng_fill_u32(r, words, 2 * n);
    for (int64_t i = 0; i < n; i++) {
        int64_t bits = (int64_t)(words[2 * i] & 0x1fffffu) << 32 | words[2 * i + 1];
        out[i] = (double)bits * 0x1p-53;
    }
}

double rng_next_u53(rng *r) { return (double)(int64_t)(rng_u64(r) & ((1ull << 53) - 1)) * 0x1p-53; }

static void store_doubles(bk_dtype dtype, void *data, int64_t at, const double *from, int64_t n)
{
    char *out = (char *)data + at * (int64_t)dtype_size(dtype);
    if (dtype == BK_FLOAT64)
        memcpy(out, from, (size_t)n * sizeof *from);
    else if (dtype == BK_FLOAT32)
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[i] = (float)from[i];
    else
        for (int64_t i = 0; i < n; i++)
            dtype_store_double(dtype, out + i * (int64_t)dtype_size(dtype), from[i]);
}

static void store_floats(bk_dtype dtype, void *data, int64_t at, const float *from, int64_t n)
{
    char *out = (char *)data + at * (int64_t)dtype_size(dtype);
    if (dtype == BK_FLOAT32)
        memcpy(out, from, (size_t)n * sizeof *from);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = dtype == BK_FLOAT16 ? half_from_float(from[i]) : bfloat_from_float(from[i]);
}

static int require_float(bk_dtype dtype, const char *kernel)
{
    if (dtype_is_float(dtype))
        return 0;
    return error_int(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, dtypes[dtype].type_name);
}

static int require_continuous(bk_dtype dtype, const char *name)
{
    if (dtype_is_float(dtype))
        return 0;
    return error_int(BK_RUNTIME_ERROR,
                     "%s distribution is a continuous probability distribution. dtype must be a floating point but "
                     "you specified %s",
                     name, dtypes[dtype].type_name);
}

/* --- uniform ----------------------------------------------------------------------------------------------- */

static double largest(bk_dtype dtype)
{
    static const double of[] = {
        [BK_FLOAT32] = FLT_MAX, [BK_FLOAT64] = DBL_MAX, [BK_FLOAT16] = 65504, [BK_BFLOAT16] = 0x1.fep127
    };
    return of[dtype];
}

static int check_uniform(bk_dtype dtype, double lo, double hi)
{
    if (require_float(dtype, "check_uniform_bounds") < 0)
        return -1;
    double limit = largest(dtype);
    if (!(fabs(lo) <= limit && fabs(hi) <= limit))
        return error_int(BK_RUNTIME_ERROR, "%s is out of bounds for %s", fabs(lo) <= limit ? "to" : "from",
                         dtypes[dtype].name);
    if (lo > hi)
        return error_int(BK_RUNTIME_ERROR, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
                         lo, hi);
    if (hi - lo > limit)
        return error_int(BK_RUNTIME_ERROR,
                         "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and from=%g "
                         "which result in to-from to exceed the limit",
                         dtypes[dtype].type_name, hi, lo);
    return 0;
}

/* A number in the dtype: rounded as a store rounds. */
static double rounded(bk_dtype dtype, double x)
{
    double bits;
    dtype_store_double(dtype, &bits, x);
    return dtype_load_double(dtype, &bits);
}

/* u24 * (hi - lo) + lo, rounded once as a fused multiply-add rounds: the product of two floats is exact in double. */
static void scale_floats(float *x, int64_t n, float lo, float hi)
{
    float range = hi - lo;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] * range + lo);
}

/* hi is excluded: a number that rounds up to it in the dtype becomes lo, which in a half dtype happens once in some
 * hundred draws. This is the smallest float that does, found by bisection. */
static float first_excluded(bk_dtype dtype, float lo, float hi)
{
    float end = (float)rounded(dtype, hi);
    if (dtype == BK_FLOAT32 || rounded(dtype, lo) >= end)
        return dtype == BK_FLOAT32 ? hi : lo;
    while (nextafterf(lo, hi) < hi) { /* lo rounds to less than end, hi does not */
        float middle = lo + (hi - lo) / 2;
        *(rounded(dtype, middle) >= end ? &hi : &lo) = middle;
    }
    return hi;
}

static void uniform_floats(rng *r, bk_dtype dtype, void *data, int64_t n, float lo, float hi)
{
    float x[CHUNK];
    float excluded = first_excluded(dtype, lo, hi);
    bool unit = lo == 0 && hi == 1, plain = unit && dtype == BK_FLOAT32;
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = min(CHUNK, n - i);
        float *out = plain ? (float *)data + i : x;
        fill_u24(r, out, m);
        if (plain)
            continue;
        if (!unit)
            scale_floats(x, m, lo, hi);
        for (int64_t k = 0; k < m; k++)
            x[k] = x[k] >= excluded ? lo : x[k];
        store_floats(dtype, data, i, x, m);
    }
}

static void uniform_doubles(rng *r, double *out, int64_t n, double lo, double hi)
{
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = min(CHUNK, n - i);
        fill_u53(r, out + i, m);
        if (lo == 0 && hi == 1)
            continue;
        for (int64_t k = i; k < i + m; k++) {
            double x = fma(out[k], hi - lo, lo);
            out[k] = x >= hi ? lo : x;
        }
    }
}

int rng_uniform(rng *r, bk_dtype dtype, void *data, int64_t n, double lo, double hi)
{
    if (check_uniform(dtype, lo, hi) < 0)
        return -1;
    if (dtype == BK_FLOAT64)
        uniform_doubles(r, data, n, lo, hi);
    else
        uniform_floats(r, dtype, data, n, (float)lo, (float)hi);
    return 0;
}

/* --- normal ------------------------------------------------------------------------------------------------ */

/* PyTorch's single-precision log, sine and cosine here are those of the Cephes library in fused multiply-adds. The
 * same steps in the same order give the same bits. Without the instruction a double holds the product exactly, and
 * rounding twice instead of once changes one result in 2^29. */
typedef float multiply_add(float a, float b, float c);
#define INLINE static inline __attribute__((always_inline))

INLINE float fma_in_double(float a, float b, float c) { return (float)((double)a * b + c); }
INLINE float fma_instruction(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/* Choices are made on the bits, without branches: vector code on every compiler. */
INLINE uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
INLINE float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ln x for 2^-24 <= x <= 1: x = (1 + m) 2^e with sqrt(1/2) <= 1 + m < sqrt 2, and a polynomial in m. */
INLINE float log_of_unit(float x, multiply_add *fused)
{
    uint32_t bits = bits_of(x), mantissa = (bits & 0x7fffffu) | 0x3f000000u; /* in [1/2, 1) */
    uint32_t lower = mantissa < 0x3f3504f3u;                                 /* sqrt(1/2) */
    float e = (float)((int32_t)(bits >> 23) - 126 - (int32_t)lower);
    float m = float_of(mantissa) + float_of(mantissa & -lower) - 1; /* twice the mantissa, or once */
    float square = m * m;
    float y = fused(7.0376836292E-2f, m, -1.1514610310E-1f);
    y = fused(y, m, 1.1676998740E-1f);
    y = fused(y, m, -1.2420140846E-1f);
    y = fused(y, m, 1.4249322787E-1f);
    y = fused(y, m, -1.6668057665E-1f);
    y = fused(y, m, 2.0000714765E-1f);
    y = fused(y, m, -2.4999993993E-1f);
    y = fused(y, m, 3.3333331174E-1f);
    y = fused(y * m, square, e * -2.12194440e-4f); /* ln 2 = 0.693359375 - 2.12194440e-4 */
    y = fused(square, -0.5f, y);
    return fused(e, 0.693359375f, m + y);
}

/* For 0 <= x <= 2 pi: x less a multiple of pi / 4, and a polynomial for each of the two. */
INLINE void sine_and_cosine(float x, float *sine, float *cosine, multiply_add *fused)
{
    int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)octant;
    x = fused(y, -0.78515625f, x); /* pi / 4 in three parts */
    x = fused(y, -2.4187564849853515625e-4f, x);
    x = fused(y, -3.77489497744594108e-8f, x);
    float square = x * x;
    float c = fused(2.443315711809948E-005f, square, -1.388731625493765E-003f);
    c = fused(c, square, 4.166664568298827E-002f);
    c = fused(c * square, square, -(square * 0.5f)) + 1;
    float s = fused(-1.9515295891E-4f, square, 8.3321608736E-3f);
    s = fused(s, square, -1.6666654611E-1f);
    s = fused(s * square, x, x);
    uint32_t o = (uint32_t)octant, swapped = -(o >> 1 & 1), exchange = (bits_of(s) ^ bits_of(c)) & swapped;
    *sine = float_of((bits_of(s) ^ exchange) ^ (o & 4) << 29);
    *cosine = float_of((bits_of(c) ^ exchange) ^ ((o + 2) & 4) << 29);
}

/* n is a multiple of BLOCK; of 16 uniform numbers, eight become the radius and eight the angle. Each loop over eight
 * is one vector loop. */
INLINE void box_muller_floats(float *x, int64_t n, float mean, float std, multiply_add *fused)
{
    enum { HALF = BLOCK / 2 };
    for (float *d = x; d < x + n; d += BLOCK) {
        float radius[HALF], sine[HALF], cosine[HALF];
        for (int j = 0; j < HALF; j++)
            radius[j] = __builtin_sqrtf(-2.0f * log_of_unit(1 - d[j], fused));
        for (int j = 0; j < HALF; j++)
            sine_and_cosine(6.283185307179586f * d[j + HALF], &sine[j], &cosine[j], fused);
        for (int j = 0; j < HALF; j++) {
            d[j] = fused(radius[j] * cosine[j], std, mean);
            d[j + HALF] = fused(radius[j] * sine[j], std, mean);
        }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void normal_floats_fma(float *x, int64_t n, float mean, float std)
{
    box_muller_floats(x, n, mean, std, fma_instruction);
}
static void normal_floats(float *x, int64_t n, float mean, float std)
{
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        normal_floats_fma(x, n, mean, std);
    else
        box_muller_floats(x, n, mean, std, fma_in_double);
}
#elif defined(__FP_FAST_FMAF)
static void normal_floats(float *x, int64_t n, float mean, float std)
{
    box_muller_floats(x, n, mean, std, fma_instruction);
}
#else
static void normal_floats(float *x, int64_t n, float mean, float std)
{
    box_muller_floats(x, n, mean, std, fma_in_double);
}
#endif

static void normal_doubles(double *x, int64_t n, double mean, double std)
{
    for (double *d = x; d < x + n; d += BLOCK)
        for (int j = 0; j < BLOCK / 2; j++) {
            double radius = sqrt(-2 * log(1 - d[j])), angle = 2 * PI * d[j + BLOCK / 2];
            d[j] = fma(radius * cos(angle), std, mean);
            d[j + BLOCK / 2] = fma(radius * sin(angle), std, mean);
        }
}

/* One chunk of up to CHUNK numbers, of which whole blocks are transformed. */
static void normal_chunk(rng *r, bk_dtype dtype, void *data, int64_t at, int64_t n, double mean, double std)
{
    int64_t whole = n / BLOCK * BLOCK;
    if (dtype == BK_FLOAT64) {
        double x[CHUNK];
        fill_u53(r, x, n);
        normal_doubles(x, whole, mean, std);
        store_doubles(dtype, data, at, x, whole);
    } else {
        float x[CHUNK];
        fill_u24(r, x, n);
        normal_floats(x, whole, (float)mean, (float)std);
        store_floats(dtype, data, at, x, whole);
    }
}

/* The last 16 elements are made anew when they are not a block. A float or double dtype draws the numbers of the
 * incomplete block all the same; a half dtype does not. */
static void normal_blocks(rng *r, bk_dtype dtype, void *data, int64_t n, double mean, double std)
{
    int64_t drawn = dtype_size(dtype) == 2 ? n / BLOCK * BLOCK : n;
    for (int64_t i = 0; i < drawn; i += CHUNK)
        normal_chunk(r, dtype, data, i, min(CHUNK, drawn - i), mean, std);
    if (n % BLOCK)
        normal_chunk(r, dtype, data, n - BLOCK, BLOCK, mean, std);
}

double rng_next_normal(rng *r)
{
    if (r->has_next_normal) {
        r->has_next_normal = false;
        return r->next_normal;
    }
    double angle = 2 * PI * rng_next_u53(r);
    double radius = sqrt(-2 * log1p(-rng_next_u53(r)));
    r->next_normal = radius * sin(angle);
    r->has_next_normal = true;
    return radius * cos(angle);
}

int rng_normal(rng *r, bk_dtype dtype, void *data, int64_t n, bool contiguous, double mean, double std)
{
    if (!(std >= 0))
        return error_int(BK_RUNTIME_ERROR, "normal expects std >= 0.0, but found std %g", std);
    if (require_float(dtype, "normal_kernel_cpu") < 0)
        return -1;
    if (contiguous && n >= BLOCK) {
        normal_blocks(r, dtype, data, n, mean, std);
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        double x = fma(rng_next_normal(r), std, mean);
        store_doubles(dtype, data, i, &x, 1);
    }
    return 0;
}

int rng_log_normal(rng *r, bk_dtype dtype, void *data, int64_t n, double mean, double std)
{
    if (!(std > 0))
        return error_int(BK_RUNTIME_ERROR, "log_normal_ expects std > 0.0, but found std=%g", std);
    if (require_float(dtype, "log_normal_cpu") < 0)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        double x = exp(fma(rng_next_normal(r), std, mean));
        store_doubles(dtype, data, i, &x, 1);
    }
    return 0;
}

/* --- distributions that transform one u53 ------------------------------------------------------------------ */

typedef struct parameters {
    double a, b;
} parameters;
typedef double transform(double u, parameters p);

static void fill_transformed(rng *r, bk_dtype dtype, void *data, int64_t n, transform *f, parameters p)
{
    double x[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = min(CHUNK, n - i);
        fill_u53(r, x, m);
        for (int64_t k = 0; k < m; k++)
            x[k] = f(x[k], p);
        store_doubles(dtype, data, i, x, m);
    }
}

static double exponential(double u, parameters p) { return -1 / p.a * log1p(-u); }
static double cauchy(double u, parameters p) { return fma(p.b, tan(PI * (u - 0.5)), p.a); }
static double geometric(double u, parameters p) { return ceil(log(u) / p.b); }
static double bernoulli(double u, parameters p) { return u < p.a; }

int rng_exponential(rng *r, bk_dtype dtype, void *data, int64_t n, double lambda)
{
    if (require_continuous(dtype, "Exponential") < 0)
        return -1;
    if (!(lambda > 0))
        return error_int(BK_RUNTIME_ERROR, "exponential_ expects lambda > 0.0, but found lambda=%g", lambda);
    fill_transformed(r, dtype, data, n, exponential, (parameters){ lambda, 0 });
    return 0;
}

int rng_cauchy(rng *r, bk_dtype dtype, void *data, int64_t n, double median, double sigma)
{
    if (!(sigma > 0))
        return error_int(BK_RUNTIME_ERROR, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    if (require_continuous(dtype, "Cauchy") < 0)
        return -1;
    fill_transformed(r, dtype, data, n, cauchy, (parameters){ median, sigma });
    return 0;
}

int rng_geometric(rng *r, bk_dtype dtype, void *data, int64_t n, double p)
{
    if (!(p > 0 && p < 1))
        return error_int(BK_RUNTIME_ERROR, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    if (dtype == BK_BOOL)
        return error_int(BK_NOT_IMPLEMENTED, "\"geometric_cpu\" not implemented for 'Bool'");
    fill_transformed(r, dtype, data, n, geometric, (parameters){ p, log1p(-p) });
    return 0;
}

int rng_bernoulli_p(rng *r, bk_dtype dtype, void *data, int64_t n, double p)
{
    if (!(p >= 0 && p <= 1))
        return error_int(BK_RUNTIME_ERROR, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    fill_transformed(r, dtype, data, n, bernoulli, (parameters){ p, 0 });
    return 0;
}

static int check_probabilities(bk_dtype dtype, const void *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double x = dtype_load_double(dtype, (const char *)p + i * (int64_t)dtype_size(dtype));
        if (!(x >= 0 && x <= 1))
            return error_int(BK_RUNTIME_ERROR, "bernoulli expects every p to be in [0, 1], but got p=%g", x);
    }
    return 0;
}

/* The probability's dtype decides how many bits are drawn, the result's dtype nothing. */
int rng_bernoulli_tensor(rng *r, bk_dtype p_dtype, const void *p, bk_dtype dtype, void *data, int64_t n)
{
    if (require_float(p_dtype, "bernoulli_tensor_cpu_p_") < 0 || check_probabilities(p_dtype, p, n) < 0)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        double u = p_dtype == BK_FLOAT64 ? rng_next_u53(r) : (double)(rng_u32(r) & 0xffffffu) * 0x1p-24;
        double x = u < dtype_load_double(p_dtype, (const char *)p + i * (int64_t)dtype_size(p_dtype));
        store_doubles(dtype, data, i, &x, 1);
    }
    return 0;
}

/* --- poisson ----------------------------------------------------------------------------------------------- */

/* Small rates: how many uniform factors it takes to fall to exp(-rate). */
static double poisson_by_product(rng *r, double rate)
{
    double limit = exp(-rate), product = 1;
    for (int64_t count = 0;; count++) {
        product *= rng_next_u53(r);
        if (product <= limit)
            return (double)count;
    }
}

/* Transformed rejection (Hoermann 1993, PTRS). */
static double poisson_by_rejection(rng *r, double rate)
{
    double log_rate = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accepted = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = rng_next_u53(r) - 0.5, v = rng_next_u53(r), us = 0.5 - fabs(u);
        double k = floor((2 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= accepted)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= -rate + k * log_rate - lgamma(k + 1))
            return k;
    }
}

int rng_poisson(rng *r, bk_dtype dtype, const void *rates, void *data, int64_t n)
{
    if (require_float(dtype, "poisson_cpu") < 0)
        return -1;
    int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t i = 0; i < n; i++)
        if (!(dtype_load_double(dtype, (const char *)rates + i * size) >= 0))
            return error_int(BK_RUNTIME_ERROR, "invalid Poisson rate, expected rate to be non-negative");
    for (int64_t i = 0; i < n; i++) {
        double rate = dtype_load_double(dtype, (const char *)rates + i * size);
        double x = rate >= 10 ? poisson_by_rejection(r, rate) : rate > 0 ? poisson_by_product(r, rate) : 0;
        store_doubles(dtype, data, i, &x, 1);
    }
    return 0;
}

/* --- integers ---------------------------------------------------------------------------------------------- */

static void store_ints(bk_dtype dtype, void *data, int64_t at, const int64_t *from, int64_t n)
{
    char *out = (char *)data + at * (int64_t)dtype_size(dtype);
    if (dtype == BK_INT64)
        memcpy(out, from, (size_t)n * sizeof *from);
    else
        for (int64_t i = 0; i < n; i++)
            dtype_store_int(dtype, out + i * (int64_t)dtype_size(dtype), from[i]);
}

/* x % range for 32-bit numbers by two multiplications (Lemire, Kaser, Kurz 2019): exact, and half of a division. */
static inline uint32_t remainder_of(uint32_t x, uint64_t inverse, uint32_t range)
{
    return (uint32_t)(((unsigned __int128)(inverse * x) * range) >> 64);
}

static void small_range(rng *r, int64_t *out, int64_t n, uint64_t lo, uint32_t range)
{
    uint32_t words[CHUNK];
    uint64_t inverse = UINT64_MAX / range + 1;
    rng_fill_u32(r, words, n);
    for (int64_t i = 0; i < n; i++)
        out[i] = (int64_t)(remainder_of(words[i], inverse, range) + lo);
}

/* A range of 0 stands for all 2^64. */
static void large_range(rng *r, int64_t *out, int64_t n, uint64_t lo, uint64_t range)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = rng_u64(r);
        out[i] = (int64_t)(range ? x % range + lo : x);
    }
}

/* One word per number while the skew of the remainder is small: `wide` is the caller's decision. */
static void fill_integers(rng *r, bk_dtype dtype, void *data, int64_t n, uint64_t lo, uint64_t range, bool wide)
{
    int64_t x[CHUNK];
    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = min(CHUNK, n - i);
        if (wide)
            large_range(r, x, m, lo, range);
        else
            small_range(r, x, m, lo, (uint32_t)range);
        store_ints(dtype, data, i, x, m);
    }
}

int rng_randint(rng *r, bk_dtype dtype, void *data, int64_t n, int64_t lo, int64_t hi)
{
    if (lo >= hi && hi != INT64_MIN)
        return error_int(BK_RUNTIME_ERROR, "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                         (long long)lo, (long long)hi);
    uint64_t range = (uint64_t)hi - (uint64_t)lo;
    fill_integers(r, dtype, data, n, (uint64_t)lo, range, range == 0 || range >= 1u << 28);
    return 0;
}

int rng_random(rng *r, bk_dtype dtype, void *data, int64_t n)
{
    static const uint64_t ranges[BK_DTYPE_COUNT] = {
        [BK_FLOAT32] = (1u << 24) + 1, [BK_FLOAT64] = (1ull << 53) + 1,
        [BK_FLOAT16] = (1u << 11) + 1, [BK_BFLOAT16] = (1u << 8) + 1,
        [BK_INT64] = 1ull << 63,       [BK_INT32] = 1u << 31,
        [BK_INT16] = 1u << 15,         [BK_INT8] = 1u << 7,
        [BK_UINT8] = 1u << 8,          [BK_BOOL] = 2,
    };
    fill_integers(r, dtype, data, n, 0, ranges[dtype], dtype_size(dtype) == 8);
    return 0;
}

/* From some 200 million elements on one word is too coarse, and PyTorch shuffles inside out. */
static void long_randperm(rng *r, int64_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t z = (int64_t)(rng_u64(r) % (uint64_t)(i + 1));
        out[i] = i;
        out[i] = out[z];
        out[z] = i;
    }
}

void rng_randperm(rng *r, int64_t *out, int64_t n)
{
    if (n >= UINT32_MAX / 20) {
        long_randperm(r, out, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t z = i + rng_u32(r) % (uint32_t)(n - i);
        int64_t kept = out[i];
        out[i] = out[z];
        out[z] = kept;
    }
}

/* --- multinomial ------------------------------------------------------------------------------------------- */

static double weight_at(bk_dtype dtype, const void *weights, int64_t i)
{
    return dtype_load_double(dtype, (const char *)weights + i * (int64_t)dtype_size(dtype));
}

static int check_weights(bk_dtype dtype, const void *weights, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t k = 0; k < columns; k++) {
            double w = weight_at(dtype, weights, i * columns + k);
            if (!(w >= 0 && w <= DBL_MAX))
                return error_int(BK_RUNTIME_ERROR, "probability tensor contains either `inf`, `nan` or element < 0");
            sum += w;
        }
        if (!(sum > 0))
            return error_int(BK_RUNTIME_ERROR, "invalid multinomial distribution (sum of probabilities <= 0)");
    }
    return 0;
}

/* The normalised cumulative sums of one row; in float but for double, as the samples depend on the last bit. */
static void cumulate(bk_dtype dtype, const void *weights, int64_t row, int64_t columns, double *sums)
{
    bool is_double = dtype == BK_FLOAT64;
    double sum = 0;
    for (int64_t k = 0; k < columns; k++) {
        sum += weight_at(dtype, weights, row * columns + k);
        sum = is_double ? sum : (float)sum;
        sums[k] = sum;
    }
    for (int64_t k = 0; k < columns; k++)
        sums[k] = is_double ? sums[k] / sum : (float)sums[k] / (float)sum;
    sums[columns - 1] = 1;
}

/* The first index whose sum is at least u. */
static int64_t first_at_least(const double *sums, int64_t n, double u)
{
    int64_t left = 0, right = n;
    while (left < right) {
        int64_t middle = left + (right - left) / 2;
        if (sums[middle] < u)
            left = middle + 1;
        else
            right = middle;
    }
    return left;
}

static int sample_with_replacement(rng *r, bk_dtype dtype, const void *weights, int64_t rows, int64_t columns,
                                   int64_t samples, int64_t *out)
{
    double *sums = mem_alloc((size_t)columns * sizeof *sums);
    if (!sums)
        return -1;
    for (int64_t i = 0; i < rows; i++) {
        cumulate(dtype, weights, i, columns, sums);
        for (int64_t k = 0; k < samples; k++)
            out[i * samples + k] = first_at_least(sums, columns, rng_next_u53(r));
    }
    mem_free(sums);
    return 0;
}

typedef struct candidate {
    double score;
    int64_t index;
} candidate;

static int by_score(const void *x, const void *y)
{
    const candidate *a = x, *b = y;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* w / q with q exponentially distributed, the quotient and q rounded to the dtype. */
static double draw_score(rng *r, bk_dtype dtype, double w)
{
    double q = rounded(dtype, exponential(rng_next_u53(r), (parameters){ 1, 0 }));
    return rounded(dtype, dtype == BK_FLOAT64 ? w / q : (float)w / (float)q);
}

/* The exponential race: the largest quotients win, in order. */
static int sample_by_race(rng *r, bk_dtype dtype, const void *weights, int64_t rows, int64_t columns, int64_t samples,
                          int64_t *out)
{
    candidate *c = mem_alloc((size_t)columns * sizeof *c);
    if (!c)
        return -1;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < columns; k++)
            c[k] = (candidate){ draw_score(r, dtype, weight_at(dtype, weights, i * columns + k)), k };
        int64_t best = 0;
        for (int64_t k = 1; k < columns; k++)
            best = by_score(&c[k], &c[best]) < 0 ? k : best;
        out[i * samples] = best;
        if (samples > 1)
            qsort(c, (size_t)columns, sizeof *c, by_score);
        for (int64_t k = 1; k < samples; k++)
            out[i * samples + k] = c[k].index;
    }
    mem_free(c);
    return 0;
}

int rng_multinomial(rng *r, bk_dtype dtype, const void *weights, int64_t rows, int64_t columns, int64_t samples,
                    bool replacement, int64_t *out)
{
    if (!dtype_is_float(dtype))
        return error_int(BK_RUNTIME_ERROR, "multinomial only supports floating-point dtypes for input, got: %s",
                         dtypes[dtype].type_name);
    if (samples <= 0)
        return error_int(BK_RUNTIME_ERROR, "cannot sample n_sample <= 0 samples");
    if (!replacement && samples > columns)
        return error_int(BK_RUNTIME_ERROR, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    if (check_weights(dtype, weights, rows, columns) < 0)
        return -1;
    if (replacement && samples > 1)
        return sample_with_replacement(r, dtype, weights, rows, columns, samples, out);
    return sample_by_race(r, dtype, weights, rows, columns, samples, out);
}
