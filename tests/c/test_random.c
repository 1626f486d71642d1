/* test_random.c: the numbers that PyTorch 2.13 gives for the same seed and calls. */
#include "core/random.h"
#include "core/memory.h"

#include "tap.h"

#include <math.h>
#include <string.h>

static rng r;

static bool near(const float *got, const double *expected, int n, double tolerance)
{
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - (float)expected[i]) <= tolerance))
            return false;
    return true;
}

static bool same(const int64_t *got, const int64_t *expected, int n)
{
    return memcmp(got, expected, (size_t)n * sizeof *got) == 0;
}

/* Floats with nine digits, which name them exactly. */
static const double rand_6[] = { 0.49625659, 0.768221796, 0.0884774327, 0.132030487, 0.307422817, 0.634078681 };
static const double rand_1000_end[] = { 0.838666797, 0.527322531, 0.593845844, 0.339188695, 0.501794398, 0.40386343 };
static const double uniform_6[] = { 0.098502636, 0.207288727, -0.0646090284, -0.0471878052, 0.0229691267, 0.153631479 };
static const double rand_negative_6[] = { 0.253337622, 0.677360356, 0.253445864, 0.606417835, 0.406579494, 0.95850569 };
static const double randn_3[] = { 1.54099607, -0.293428898, -2.17878938 };
static const double randn_4th[] = { 0.568431258 };
static const double randn_20[] = { -1.12583983,  -1.1523602,  -0.250578582, -0.433878809, 0.598839462,
                                   -1.55509508,  -0.34136039, 1.85300612,   0.468096405,  -0.157712445,
                                   1.44366014,   0.266049415, 1.38936615,   1.58633423,   0.946298361,
                                   -0.843676746, 0.931826591, 1.25900924,   2.00498056,   0.0537369028 };
static const double normal_20[] = { -1.75167966, -1.8047204,  -0.00115716457, -0.367757618, 1.69767892,
                                    -2.61019015, -0.18272078, 4.20601225,     1.43619275,   0.184575111,
                                    3.38732028,  1.03209877,  3.2787323,      3.67266846,   2.39259672,
                                    -1.18735349, 2.36365318,  3.01801848,     4.50996113,   0.607473791 };
static const double randn_double_20[] = { -2.3104118,   -0.373250861, -1.06081668,  0.999509355, -0.0199647509,
                                          0.21029989,   0.177189351,  -0.830510051, 0.238718058, 0.733528369,
                                          -1.32188183,  1.31481137,   -0.687003694, 1.48807432,  -0.448415805,
                                          -0.891003035, 0.674857544,  1.04686538,   0.154295179, -0.749891523 };
static const double randn_half_20[] = { -1.12597656,  -1.15234375, -0.250488281, -0.433837891, -1.35253906,
                                        -1.69628906,  0.566894531, 0.793457031,  0.598632812,  -1.5546875,
                                        -0.341308594, 1.85253906,  0.75,         -0.585449219, -0.173339844,
                                        0.18347168,   1.38964844,  1.5859375,    0.946289062,  -0.84375 };
static const int64_t randint_10[] = { 4, 9, 3, 0 };
static const int64_t randint_2_40[] = { INT64_C(741280623151), INT64_C(506137267392) };
static const int64_t randint_all[] = { INT64_C(-8322921849960486353), INT64_C(-5253828890213626688) };
static const int64_t random_int64[] = { INT64_C(900450186894289455), INT64_C(3969543146641149120) };
static const int64_t randperm_20[] = { 4, 5, 13, 19, 7, 14, 3, 6, 9, 17, 11, 2, 16, 18, 10, 12, 15, 8, 1, 0 };
static const int64_t random_int32[] = { 209652396, 398764591, 924231285 };
static const double bernoulli_20[] = { 0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0 };
static const double bernoulli_tensor_20[] = { 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const double exponential_4[] = { 2.33888412, 0.820256531, 0.410029382, 1.69007909 };
static const double cauchy_4[] = { 18.3161392, 1.60010433, 0.0818911195, 6.98622465 };
static const double geometric_4[] = { 1, 4, 8, 1 };
static const double log_normal_4[] = { 3.9697268, 1.09921885, 0.293712884, 2.00953197 };
static const int64_t multinomial_replaced[] = { 3, 3, 1, 3, 3, 3, 1, 3, 4, 2, 4, 1 };
static const int64_t multinomial_race[] = { 1, 2, 3, 4, 1, 2 };
static const int64_t multinomial_one[] = { 1, 4 };

static void test_uniform(void)
{
    float x[6], y[1000];
    rng_seed(&r, 0);
    rng_uniform(&r, BK_FLOAT32, x, 6, 0, 1);
    tap_ok(near(x, rand_6, 6, 0), "rand");
    rng_seed(&r, 0);
    for (int i = 0; i < 6; i++)
        rng_uniform(&r, BK_FLOAT32, x + i, 1, 0, 1);
    tap_ok(near(x, rand_6, 6, 0), "rand drawn one by one");
    rng_seed(&r, 0);
    rng_uniform(&r, BK_FLOAT32, y, 1000, 0, 1);
    tap_ok(near(y + 994, rand_1000_end, 6, 0), "rand beyond one block of the generator");
    rng_seed(&r, 0);
    rng_uniform(&r, BK_FLOAT32, x, 6, -0.1, 0.3);
    tap_ok(near(x, uniform_6, 6, 0), "uniform_(-0.1, 0.3) rounds once");
    rng_seed(&r, (uint64_t)-7);
    rng_uniform(&r, BK_FLOAT32, x, 6, 0, 1);
    tap_ok(near(x, rand_negative_6, 6, 0), "a negative seed");
}

static void test_excluded_end(void)
{
    static uint16_t h[20000];
    bool below = true;
    rng_seed(&r, 0);
    rng_uniform(&r, BK_BFLOAT16, h, 20000, 0, 1);
    for (int i = 0; i < 20000; i++)
        below &= bfloat_to_float(h[i]) < 1;
    tap_ok(below, "rand in bfloat16 never rounds up to 1");
    float x[100];
    rng_seed(&r, 0);
    rng_uniform(&r, BK_FLOAT32, x, 100, 1, 1 + 0x1p-22);
    below = true;
    for (int i = 0; i < 100; i++)
        below &= x[i] >= 1 && x[i] < 1 + 0x1p-22f;
    tap_ok(below, "nor does a narrow range of float32 reach its end");
    tap_ok(rng_uniform(&r, BK_FLOAT32, x, 1, 2, 1) == -1 && bk_error_code() == BK_RUNTIME_ERROR,
           "from > to is an error");
    tap_ok(rng_uniform(&r, BK_INT32, x, 1, 0, 1) == -1 && bk_error_code() == BK_NOT_IMPLEMENTED,
           "uniform integers are an error");
    bk_error_clear();
}

static void test_normal(void)
{
    float x[20];
    rng_seed(&r, 0);
    rng_normal(&r, BK_FLOAT32, x, 3, true, 0, 1);
    tap_ok(near(x, randn_3, 3, 1e-6), "randn of fewer than 16");
    rng_normal(&r, BK_FLOAT32, x, 1, true, 0, 1);
    tap_ok(near(x, randn_4th, 1, 1e-6), "the second of a pair waits for the next call");
    rng_seed(&r, 0);
    rng_normal(&r, BK_FLOAT32, x, 20, true, 0, 1);
    tap_ok(near(x, randn_20, 20, 0), "randn of 16 and more, bit for bit");
    rng_seed(&r, 0);
    rng_normal(&r, BK_FLOAT32, x, 20, false, 0, 1);
    tap_ok(near(x, randn_3, 3, 1e-6), "a tensor that is not contiguous draws one by one");
    rng_seed(&r, 0);
    rng_normal(&r, BK_FLOAT32, x, 20, true, 0.5, 2);
    tap_ok(near(x, normal_20, 20, 0), "normal_(0.5, 2)");
    double d[20];
    rng_seed(&r, 0);
    rng_normal(&r, BK_FLOAT64, d, 20, true, 0, 1);
    for (int i = 0; i < 20; i++)
        x[i] = (float)d[i];
    tap_ok(near(x, randn_double_20, 20, 1e-6), "randn in float64");
    uint16_t h[20];
    rng_seed(&r, 0);
    rng_normal(&r, BK_FLOAT16, h, 20, true, 0, 1);
    for (int i = 0; i < 20; i++)
        x[i] = half_to_float(h[i]);
    tap_ok(near(x, randn_half_20, 20, 0), "randn in float16 draws the last block by its own rule");
}

static void test_integers(void)
{
    int64_t x[20];
    rng_seed(&r, 0);
    rng_randint(&r, BK_INT64, x, 4, 0, 10);
    tap_ok(same(x, randint_10, 4), "randint(0, 10)");
    rng_seed(&r, 0);
    rng_randint(&r, BK_INT64, x, 2, 0, (int64_t)1 << 40);
    tap_ok(same(x, randint_2_40, 2), "randint(0, 2**40)");
    rng_seed(&r, 0);
    rng_randint(&r, BK_INT64, x, 2, INT64_MIN, INT64_MIN);
    tap_ok(same(x, randint_all, 2), "all 64-bit integers");
    rng_seed(&r, 0);
    rng_random(&r, BK_INT64, x, 2);
    tap_ok(same(x, random_int64, 2), "random_() of int64");
    rng_seed(&r, 0);
    rng_randperm(&r, x, 20);
    tap_ok(same(x, randperm_20, 20), "randperm(20)");
    int32_t y[3];
    rng_seed(&r, 0);
    rng_random(&r, BK_INT32, y, 3);
    tap_ok(y[0] == random_int32[0] && y[1] == random_int32[1] && y[2] == random_int32[2], "random_() of int32");
    tap_ok(rng_randint(&r, BK_INT64, x, 1, 3, 3) == -1, "an empty range is an error");
    bk_error_clear();
}

/* The remainder by multiplication is that of the division, also at the ends of the range. */
static void test_remainders(void)
{
    static const int64_t ranges[] = { 1, 2, 3, 7, 10, 255, 256, 1000003, (1 << 28) - 1 };
    rng other;
    int64_t x[700];
    bool equal = true;
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        rng_seed(&r, k);
        rng_seed(&other, k);
        rng_randint(&r, BK_INT64, x, 700, 0, ranges[k]);
        for (int i = 0; i < 700; i++)
            equal &= x[i] == (int64_t)(rng_u32(&other) % ranges[k]);
    }
    tap_ok(equal, "randint is the remainder of the word");
}

static void test_one_number_transforms(void)
{
    float x[20];
    rng_seed(&r, 0);
    rng_bernoulli_p(&r, BK_FLOAT32, x, 20, 0.5);
    tap_ok(near(x, bernoulli_20, 20, 0), "bernoulli_(0.5)");
    float p[20];
    for (int i = 0; i < 20; i++)
        p[i] = (float)i / 20;
    rng_seed(&r, 0);
    rng_bernoulli_tensor(&r, BK_FLOAT32, p, BK_FLOAT32, x, 20);
    tap_ok(near(x, bernoulli_tensor_20, 20, 0), "bernoulli of a tensor of probabilities");
    p[3] = NAN;
    tap_ok(rng_bernoulli_tensor(&r, BK_FLOAT32, p, BK_FLOAT32, x, 20) == -1, "a probability that is none is an error");
    rng_seed(&r, 0);
    rng_exponential(&r, BK_FLOAT32, x, 4, 1.5);
    tap_ok(near(x, exponential_4, 4, 1e-6), "exponential_(1.5)");
    rng_seed(&r, 0);
    rng_cauchy(&r, BK_FLOAT32, x, 4, 0.3, 1.7);
    tap_ok(near(x, cauchy_4, 4, 1e-5), "cauchy_(0.3, 1.7)");
    rng_seed(&r, 0);
    rng_geometric(&r, BK_FLOAT32, x, 4, 0.1);
    tap_ok(near(x, geometric_4, 4, 0), "geometric_(0.1)");
    rng_seed(&r, 0);
    rng_log_normal(&r, BK_FLOAT32, x, 4, 0.3, 0.7);
    tap_ok(near(x, log_normal_4, 4, 1e-6), "log_normal_(0.3, 0.7)");
    bk_error_clear();
}

static void test_multinomial(void)
{
    static const float w[2][5] = { { 0.1f, 3, 0.5f, 2, 0 }, { 1, 1, 1, 1, 5 } };
    int64_t x[12];
    rng_seed(&r, 0);
    rng_multinomial(&r, BK_FLOAT32, w, 2, 5, 6, true, x);
    tap_ok(same(x, multinomial_replaced, 12), "multinomial with replacement");
    rng_seed(&r, 0);
    rng_multinomial(&r, BK_FLOAT32, w, 2, 5, 3, false, x);
    tap_ok(same(x, multinomial_race, 6), "multinomial without replacement");
    rng_seed(&r, 0);
    rng_multinomial(&r, BK_FLOAT32, w, 2, 5, 1, true, x);
    tap_ok(same(x, multinomial_one, 2), "one sample is drawn by the race in any case");
    tap_ok(rng_multinomial(&r, BK_FLOAT32, w, 2, 5, 6, false, x) == -1, "more samples than categories are an error");
    static const float zero[2] = { 0, 0 };
    tap_ok(rng_multinomial(&r, BK_FLOAT32, zero, 1, 2, 1, false, x) == -1, "weights without a sum are an error");
    int64_t live = mem_live();
    for (int replacement = 0; replacement < 2; replacement++) {
        bk_error_clear();
        mem_fail_after(1);
        tap_ok(rng_multinomial(&r, BK_FLOAT32, w, 2, 5, 3, replacement, x) == -1 && bk_error_code() == BK_MEMORY_ERROR,
               "multinomial without memory is an error");
    }
    tap_ok(mem_live() == live, "and nothing leaks");
    bk_error_clear();
}

static uint64_t word(const unsigned char *bytes, int at)
{
    uint64_t w;
    memcpy(&w, bytes + at, 8);
    return w;
}

static void test_state(void)
{
    unsigned char bytes[RNG_STATE_BYTES], again[RNG_STATE_BYTES];
    float x[700], y[700];
    rng_seed(&r, (uint64_t)-1);
    rng_get_state(&r, bytes);
    tap_ok(word(bytes, 0) == UINT64_MAX && word(bytes, 8) == 0x100000001 && word(bytes, 16) == 0 &&
               word(bytes, 24) == 0xffffffff && word(bytes, 32) == 1340201581,
           "a seeded state has PyTorch's layout");
    rng_normal(&r, BK_FLOAT32, x, 3, true, 0, 1);
    rng_get_state(&r, bytes);
    tap_ok(word(bytes, 8) == 0x100000000 + 624 - 7 && word(bytes, 16) == 8 && word(bytes, 5040) == 1,
           "and one drawn from, with the normal number that waits");
    rng copy;
    tap_ok(rng_set_state(&copy, bytes, RNG_STATE_BYTES) == 0, "a state is accepted");
    rng_get_state(&copy, again);
    tap_ok(memcmp(bytes, again, sizeof bytes) == 0, "and read back as it was");
    rng_normal(&r, BK_FLOAT32, x, 1, true, 0, 1);
    rng_uniform(&r, BK_FLOAT32, x + 1, 699, 0, 1);
    rng_normal(&copy, BK_FLOAT32, y, 1, true, 0, 1);
    rng_uniform(&copy, BK_FLOAT32, y + 1, 699, 0, 1);
    tap_ok(memcmp(x, y, sizeof x) == 0, "the numbers go on where they were");
    tap_ok(rng_set_state(&copy, bytes, 10) == -1, "a state of another size is an error");
    memset(bytes, 0, sizeof bytes);
    tap_ok(rng_set_state(&copy, bytes, RNG_STATE_BYTES) == -1 && strcmp(bk_error(), "Invalid mt19937 state") == 0,
           "bytes that are no state are an error");
    bk_error_clear();
}

int main(void)
{
    test_uniform();
    test_excluded_end();
    test_normal();
    test_integers();
    test_remainders();
    test_one_number_transforms();
    test_multinomial();
    test_state();
    return tap_done();
}
