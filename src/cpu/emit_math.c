/* emit_math.c: exp, sigmoid, tanh and log, of float32 also atan, erf, gelu and the like, as nodes, as vmath.h computes
 * them where there is a fused multiply-add: the same roundings, so the same bits. AVX-512 has instructions of its own
 * for the parts of a number, which stand here for what vmath.h does with integers. Names are those of vmath.h, where
 * the reasons stand; who changes a formula there changes it here, and test_emit.c tells who forgot. */
#include "cpu/emit_math.h"

#include <string.h>

#include "cpu/vmath_series.h"

#define LN2   0.69314718055994530942
#define LOG2E 1.44269504088896340736
static const float ROUNDER = 0x1.8p23f;

/* --- the words these functions are written in ----------------------------------------------------------------------
 */

static int k(ir_code *c, float v) { return ir_number(c, IR_F32, v); }
static int u(ir_code *c, uint32_t bits) { return ir_bits(c, IR_F32, bits); }
static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
static int add(ir_code *c, int a, int b) { return ir_binary(c, IR_ADD, a, b); }
static int sub(ir_code *c, int a, int b) { return ir_binary(c, IR_SUB, a, b); }
static int mul(ir_code *c, int a, int b) { return ir_binary(c, IR_MUL, a, b); }
static int quotient(ir_code *c, int a, int b) { return ir_binary(c, IR_DIV, a, b); }
static int madd(ir_code *c, int a, int b, int d) { return ir_ternary(c, IR_MULTIPLY_ADD, a, b, d); }
static int where_less(ir_code *c, int x, float than, int yes, int no)
{
    return ir_select(c, ir_compare(c, IR_LT, x, k(c, than)), yes, no);
}

/* c[0] + c[1] x + ... */
static int polynomial(ir_code *c, int x, int degree, const float *coefficient)
{
    int r = k(c, coefficient[degree]);
    for (int i = degree - 1; i >= 0; i--)
        r = madd(c, r, x, k(c, coefficient[i]));
    return r;
}

/* The same as two short chains, of even and of odd powers. */
static int split_polynomial(ir_code *c, int x, int degree, const float *coefficient)
{
    int z = mul(c, x, x), part[2];
    for (int odd = 0; odd < 2; odd++) {
        int i = degree - (degree % 2 != odd);
        part[odd] = k(c, coefficient[i]);
        for (i -= 2; i >= 0; i -= 2)
            part[odd] = madd(c, part[odd], z, k(c, coefficient[i]));
    }
    return madd(c, part[1], x, part[0]);
}

/* --- exp ------------------------------------------------------------------------------------------------------------
 */

static int expm1_reduced(ir_code *c, int r)
{
    int z = mul(c, r, r), low = madd(c, k(c, 0.16666667f), r, k(c, 0.5f));
    int middle = madd(c, k(c, 0.0083333108f), r, k(c, 0.041666463f));
    int high = madd(c, k(c, 0.0001989118f), r, k(c, 0.001393382f));
    return madd(c, z, madd(c, madd(c, high, z, middle), z, low), r);
}

static int expm1_coarse(ir_code *c, int r)
{
    int z = mul(c, r, r), low = madd(c, k(c, 0.16666548f), r, k(c, 0.5f));
    int middle = madd(c, k(c, 0.008366069f), r, k(c, 0.041666854f));
    return madd(c, z, madd(c, madd(c, k(c, 0.0013898234f), z, middle), z, low), r);
}

static int reduce_ln2(ir_code *c, int x, int n)
{
    return madd(c, n, k(c, -1.42860682030941723212e-6f), madd(c, n, k(c, -0x1.62e4p-1f), x));
}

static int pow2(ir_code *c, int n) { return ir_shift(c, IR_SHIFT_LEFT, ir_binary(c, IR_INT_ADD, n, u(c, 127)), 23); }
static int pow2_of_rounded(ir_code *c, int t) { return ir_shift(c, IR_SHIFT_LEFT, t, 23); }

/* 2^n (1 + p), rounded as (s p + s) 2^(n - half) is with s = 2^half; n in two forms: a float, and t, in whose bits it
 * is added to those of ROUNDER. */
static int scaled_by_pow2(ir_code *c, int p, int n, int t)
{
    if (c->avx512)
        return ir_binary(c, IR_SCALE, add(c, p, k(c, 1)), n);
    int whole = ir_binary(c, IR_INT_SUB, t, u(c, bits_of(ROUNDER))), half = ir_shift(c, IR_SHIFT_ARITHMETIC, whole, 1);
    int s = pow2(c, half);
    return mul(c, madd(c, p, s, s), pow2(c, ir_binary(c, IR_INT_SUB, whole, half)));
}

/* x, but 0 below the least of interest, and the largest above: exponentials of the latter are infinite. */
static int within(ir_code *c, int x, float least, float largest, int *vanishes)
{
    *vanishes = ir_compare(c, IR_LT, x, k(c, least));
    return ir_binary(c, IR_LEAST, k(c, largest), ir_select(c, *vanishes, k(c, 0), x));
}

int ir_exp(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int vanishes, a = within(c, x, -104, 89, &vanishes), t = madd(c, a, k(c, (float)LOG2E), k(c, ROUNDER));
    int n = sub(c, t, k(c, ROUNDER)), p = expm1_coarse(c, reduce_ln2(c, a, n));
    return ir_select(c, vanishes, k(c, 0), scaled_by_pow2(c, p, n, t));
}

int ir_exp2(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int vanishes, a = within(c, x, -151, 129, &vanishes), t = add(c, a, k(c, ROUNDER)), n = sub(c, t, k(c, ROUNDER));
    int r = sub(c, a, n), w = mul(c, r, r), low = madd(c, k(c, 0.24022648f), r, k(c, 0.6931472f));
    int middle = madd(c, k(c, 0.009618437f), r, k(c, 0.055503324f));
    int high = madd(c, k(c, 1.535336e-4f), r, k(c, 0.0013398875f));
    int p = mul(c, r, madd(c, madd(c, high, w, middle), w, low));
    return ir_select(c, vanishes, k(c, 0), scaled_by_pow2(c, p, n, t));
}

int ir_sigmoid(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    const float rounder = ROUNDER + 127 - 64;
    int a = ir_binary(c, IR_LEAST, k(c, 24), ir_binary(c, IR_GREATEST, k(c, -104), x)), one = k(c, 0x1p-64f);
    int t = madd(c, a, k(c, (float)-LOG2E), k(c, rounder)), s = pow2_of_rounded(c, t), n = sub(c, k(c, rounder), t);
    int first = ir_ternary(c, IR_MULTIPLY_SUBTRACT, n, k(c, 0x1.62e4p-1f), a);
    int p = expm1_coarse(c, madd(c, n, k(c, 1.42860682030941723212e-6f), first));
    return quotient(c, one, add(c, s, madd(c, p, s, one)));
}

int ir_silu(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    const float rounder = ROUNDER + 127 + 64;
    int one = k(c, 1), scale = k(c, 0x1p-64f), negative = ir_compare(c, IR_LT, x, k(c, 0));
    int a = ir_binary(c, IR_GREATEST, k(c, -115), ir_binary(c, IR_OR, x, k(c, -0.0f)));
    int t = madd(c, a, k(c, (float)LOG2E), k(c, rounder)), s = pow2_of_rounded(c, t);
    int p = expm1_coarse(c, reduce_ln2(c, a, sub(c, t, k(c, rounder)))), v = mul(c, a, s);
    int over = ir_select(c, negative, madd(c, v, p, v), x), under = madd(c, madd(c, p, s, s), scale, one);
    int r = mul(c, quotient(c, over, under), ir_select(c, negative, scale, one));
    return ir_select(c, ir_compare(c, IR_EQ, x, k(c, -INFINITY)), k(c, NAN), r);
}

int ir_expm1(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    const float rounder = ROUNDER + 127 - 1;
    int a = ir_binary(c, IR_GREATEST, k(c, -18), ir_binary(c, IR_LEAST, k(c, 89), x));
    int t = madd(c, a, k(c, (float)LOG2E), k(c, rounder)), s = pow2_of_rounded(c, t), n = sub(c, t, k(c, rounder));
    int p = expm1_reduced(c, reduce_ln2(c, a, n)), half = madd(c, p, s, sub(c, s, k(c, 0.5f)));
    return ir_copysign(c, ir_select(c, ir_compare(c, IR_EQ, n, k(c, 0)), p, mul(c, k(c, 2), half)), x);
}

static int below_zero(ir_code *c, int x, int yes, int no)
{
    return ir_select(c, ir_compare(c, IR_LT, x, k(c, 0)), yes, no);
}

int ir_elu(ir_code *c, ir_type type, int x, int y, int z)
{
    return below_zero(c, x, mul(c, y, ir_expm1(c, type, x, y, z)), x);
}

int ir_celu(ir_code *c, ir_type type, int x, int y, int z)
{
    return below_zero(c, x, mul(c, y, ir_expm1(c, type, quotient(c, x, y), y, z)), x);
}

int ir_selu(ir_code *c, ir_type type, int x, int y, int z)
{
    int above = mul(c, k(c, (float)1.0507009873554804934193349852946), x);
    return below_zero(c, x, mul(c, k(c, (float)1.7580993408473768599402175208123), ir_expm1(c, type, x, y, z)), above);
}

int ir_tanh(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    const float rounder = ROUNDER + 127;
    int a = ir_binary(c, IR_LEAST, k(c, 9.1f), ir_abs(c, x));
    int t = madd(c, a, k(c, (float)(2 * LOG2E)), k(c, rounder)), s = pow2_of_rounded(c, t);
    int r = madd(c, sub(c, t, k(c, rounder)), k(c, (float)(-0.5 * LN2)), a), w = mul(c, r, r);
    int low = madd(c, k(c, 4 * 0.16666667f), r, k(c, 2 * 0.5f));
    int middle = madd(c, k(c, 16 * 0.0083333108f), r, k(c, 8 * 0.041666463f));
    int high = madd(c, k(c, 64 * 0.0001989118f), r, k(c, 32 * 0.001393382f));
    int p = madd(c, w, madd(c, madd(c, high, w, middle), w, low), r);
    int v = madd(c, p, s, madd(c, s, k(c, 0.5f), k(c, -0.5f)));
    return ir_copysign(c, quotient(c, v, add(c, v, k(c, 1))), x);
}

/* --- log ------------------------------------------------------------------------------------------------------------
 */

enum { LEAST_MANTISSA = 0x3f400000 };

static int log_rest(ir_code *c, int f, int z)
{
    int a0 = madd(c, k(c, 0.33333534f), f, k(c, -0.50000066f)), a1 = madd(c, k(c, 0.19977683f), f, k(c, -0.24993171f));
    int a2 = madd(c, k(c, 0.14982618f), f, k(c, -0.1682958f)), a3 = madd(c, k(c, 0.0534675f), f, k(c, -0.120129995f));
    return madd(c, madd(c, a3, z, a2), mul(c, z, z), madd(c, a1, z, a0));
}

/* 2^n (1 + f) */
static int log_of_parts(ir_code *c, int n, int f)
{
    int z = mul(c, f, f), r = madd(c, z, log_rest(c, f, z), f);
    return madd(c, n, k(c, 0x1.62e4p-1f), madd(c, n, k(c, 1.42860682030941723212e-6f), r));
}

int ir_log1p(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int one = k(c, 1), sum = add(c, one, x), back = sub(c, sum, one);
    int lost = add(c, sub(c, one, sub(c, sum, back)), sub(c, x, back));
    int bits = ir_binary(c, IR_INT_ADD, sum, u(c, 0x3f800000u - LEAST_MANTISSA));
    int n = ir_binary(c, IR_INT_SUB, ir_shift(c, IR_SHIFT_RIGHT, bits, 23), u(c, 127));
    int m = ir_binary(c, IR_INT_ADD, ir_binary(c, IR_AND, bits, u(c, 0x7fffff)), u(c, LEAST_MANTISSA));
    int f = madd(c, mul(c, lost, k(c, 0.5f)), pow2(c, ir_binary(c, IR_INT_SUB, u(c, 1), n)), sub(c, m, one));
    int r = ir_copysign(c, log_of_parts(c, ir_unary(c, IR_FLOAT_OF_INT, n), f), x);
    r = ir_select(c, ir_compare(c, IR_EQ, x, k(c, -1)), k(c, -INFINITY), r);
    r = where_less(c, x, -1, k(c, NAN), r);
    return where_less(c, x, INFINITY, r, x);
}

int ir_softplus(ir_code *c, ir_type type, int x, int y, int z)
{
    int t = mul(c, x, y), r = quotient(c, ir_log1p(c, type, ir_exp(c, type, t, y, z), y, z), y);
    return ir_select(c, ir_compare(c, IR_GT, t, z), x, r);
}

int ir_logsigmoid(ir_code *c, ir_type type, int x, int y, int z)
{
    int e = ir_exp(c, type, ir_binary(c, IR_OR, x, k(c, -0.0f)), y, z);
    return sub(c, where_less(c, x, 0, x, k(c, 0)), ir_log1p(c, type, e, y, z));
}

/* Of what is no positive number the exponent is infinite and so the logarithm, or the mantissa not a number. */
static int log_parts_512(ir_code *c, int x, int *f)
{
    int m = ir_unary(c, IR_MANTISSA, x);
    *f = sub(c, m, k(c, 1));
    return sub(c, ir_unary(c, IR_EXPONENT, x), ir_unary(c, IR_EXPONENT, m));
}

static int log_parts(ir_code *c, int x, int *f)
{
    if (c->avx512)
        return log_parts_512(c, x, f);
    int denormal = ir_compare(c, IR_LT, x, k(c, 0x1p-126f));
    int scaled = ir_select(c, denormal, mul(c, x, k(c, 0x1p23f)), x);
    int least = ir_select(c, denormal, u(c, LEAST_MANTISSA + (23u << 23)), u(c, LEAST_MANTISSA));
    int bits = ir_binary(c, IR_INT_SUB, scaled, least);
    int m = ir_binary(c, IR_INT_ADD, ir_binary(c, IR_AND, bits, u(c, 0x7fffff)), u(c, LEAST_MANTISSA));
    *f = sub(c, m, k(c, 1));
    return ir_unary(c, IR_FLOAT_OF_INT, ir_shift(c, IR_SHIFT_ARITHMETIC, bits, 23));
}

static int log_special(ir_code *c, int x, int r)
{
    if (c->avx512)
        return r;
    r = ir_select(c, ir_compare(c, IR_EQ, x, k(c, 0)), k(c, -INFINITY), r);
    r = where_less(c, x, 0, k(c, NAN), r);
    return where_less(c, x, INFINITY, r, x);
}

int ir_log(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int f, n = log_parts(c, x, &f);
    return log_special(c, x, log_of_parts(c, n, f));
}

static int log_to_base(ir_code *c, int f, float high, float low)
{
    int z = mul(c, f, f), rest = mul(c, z, log_rest(c, f, z));
    return madd(c, f, k(c, high), madd(c, rest, k(c, high), mul(c, f, k(c, low))));
}

int ir_logit(ir_code *c, ir_type type, int x, int y, int z)
{
    return ir_log(c, type, quotient(c, x, sub(c, k(c, 1), x)), y, z);
}

int ir_xlogy(ir_code *c, ir_type type, int x, int y, int z)
{
    int r = mul(c, x, ir_log(c, type, y, y, z));
    r = ir_select(c, ir_compare(c, IR_EQ, x, k(c, 0)), k(c, 0), r);
    return ir_select(c, ir_compare(c, IR_NE, y, y), y, r);
}

int ir_log2(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int f, n = log_parts(c, x, &f);
    return log_special(c, x, add(c, n, log_to_base(c, f, 0x1.715476p+0f, 0x1.4ae0cp-26f)));
}

int ir_log10(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int f, n = log_parts(c, x, &f), r = log_to_base(c, f, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f);
    return log_special(c, x, madd(c, n, k(c, 0x1.344p-2f), madd(c, n, k(c, 4.60503898e-6f), r)));
}

/* --- inverses of trigonometric functions
 * ------------------------------------------------------------------------------
 */

static const float HALF_PI1 = 0x1.921fb6p+0f, HALF_PI2 = -0x1.777a5cp-25f;

static int atan_unit(ir_code *c, int a)
{
    int z = mul(c, a, a), z2 = mul(c, z, z);
    int p = madd(c, k(c, 0.19998531f), z, k(c, -0.333332986f));
    int q = madd(c, k(c, 0.109511748f), z, k(c, -0.142640516f));
    int r = madd(c, k(c, 0.0579065457f), z, k(c, -0.0840047523f));
    int s = madd(c, k(c, 0.0108873611f), z, k(c, -0.0311270021f));
    int low = madd(c, q, z2, p), high = madd(c, madd(c, k(c, -0.0017875476f), z2, s), z2, r);
    return madd(c, mul(c, a, z), madd(c, high, mul(c, z2, z2), low), a);
}

int ir_atan(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int a = ir_abs(c, x), p = atan_unit(c, ir_binary(c, IR_LEAST, quotient(c, k(c, 1), a), a));
    int far = add(c, sub(c, k(c, HALF_PI1), p), k(c, HALF_PI2));
    return ir_copysign(c, ir_select(c, ir_compare(c, IR_GT, a, k(c, 1)), far, p), x);
}

/* asin |x|, or of sqrt((1 - |x|) / 2) where |x| is above 1/2: `outer`. */
static int asin_half(ir_code *c, int x, int *outer)
{
    int a = ir_abs(c, x), half = madd(c, a, k(c, -0.5f), k(c, 0.5f)), root = ir_unary(c, IR_SQRT, half);
    *outer = ir_compare(c, IR_GT, a, k(c, 0.5f));
    int s = ir_select(c, *outer, root, a), z = ir_select(c, *outer, half, mul(c, a, a));
    int low = madd(c, k(c, 0.0454691499f), z, k(c, 0.0749530941f));
    int high = madd(c, k(c, 0.0421583056f), z, k(c, 0.0241847783f));
    return madd(c, mul(c, s, z), madd(c, madd(c, high, mul(c, z, z), low), z, k(c, 0.166667521f)), s);
}

int ir_asin(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int outer, p = asin_half(c, x, &outer), far = add(c, madd(c, k(c, -2), p, k(c, HALF_PI1)), k(c, HALF_PI2));
    return ir_copysign(c, ir_select(c, outer, far, p), x);
}

int ir_acos(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int outer, p = ir_copysign(c, asin_half(c, x, &outer), x), negative = ir_compare(c, IR_LT, x, k(c, 0));
    int high = ir_select(c, outer, ir_select(c, negative, k(c, 2 * HALF_PI1), k(c, 0)), k(c, HALF_PI1));
    int low = ir_select(c, outer, ir_select(c, negative, k(c, 2 * HALF_PI2), k(c, 0)), k(c, HALF_PI2));
    return add(c, madd(c, ir_select(c, outer, k(c, 2), k(c, -1)), p, high), low);
}

/* --- the error function and gelu -------------------------------------------------------------------------------------
 */

static int bounded_abs(ir_code *c, int x, float most) { return ir_binary(c, IR_LEAST, ir_abs(c, x), k(c, most)); }
static int product_lost(ir_code *c, int a, int b, int p) { return ir_ternary(c, IR_MULTIPLY_SUBTRACT, a, b, p); }
static int unless_nan(ir_code *c, int x, int r) { return ir_select(c, ir_compare(c, IR_NE, x, x), x, r); }

static int reciprocal(ir_code *c, int a, int *u, int *more)
{
    int one = k(c, 1), two = k(c, 2), d = add(c, a, two), t = quotient(c, one, d);
    *more = madd(c, t, sub(c, a, sub(c, d, two)), product_lost(c, t, d, one));
    *u = madd(c, k(c, -4), t, one);
    return t;
}

static int divided(ir_code *c, float base, int p, int t, int power, int more, int *lost)
{
    int most = mul(c, k(c, base), t), all = madd(c, t, p, most);
    *lost = madd(c, all, mul(c, power, more), madd(c, t, p, sub(c, most, all)));
    return all;
}

static int exp_of_square(ir_code *c, int a, float scale, int *power)
{
    const float rounder = ROUNDER + 127 + 64;
    int b = mul(c, a, k(c, -scale)), t = madd(c, mul(c, b, a), k(c, (float)LOG2E), k(c, rounder));
    int n = sub(c, t, k(c, rounder)), less = madd(c, b, a, mul(c, n, k(c, -0x1.62e4p-1f)));
    *power = pow2_of_rounded(c, t);
    return expm1_reduced(c, madd(c, n, k(c, -1.42860682030941723212e-6f), less));
}

/* (y + low) (1 + e) */
static int grown(ir_code *c, int y, int e, int low) { return add(c, madd(c, y, e, low), y); }

/* The same of a result that was scaled up. */
static int scaled_down(ir_code *c, int y, int e, int low, int power)
{
    return mul(c, mul(c, grown(c, y, e, low), power), k(c, 0x1p-64f));
}

static int erfc_core(ir_code *c, int a, int *lost)
{
    static const float series[] = { ERFC_REST };
    int more, u, t = reciprocal(c, a, &u, &more), first = k(c, ERFC_FIRST), second = k(c, ERFC_SECOND);
    int s = polynomial(c, u, 8, series), q = madd(c, s, u, second), p = madd(c, q, u, first);
    int left = madd(c, u, madd(c, s, u, sub(c, second, q)), add(c, product_lost(c, q, u, p), first));
    int u_lost = madd(c, k(c, -4), t, sub(c, k(c, 1), u)), slope = madd(c, k(c, 0.559f), u, k(c, -0.687f));
    int y = divided(c, 1, p, t, madd(c, k(c, 0.63f), u, k(c, -1.63f)), more, lost);
    *lost = madd(c, t, madd(c, u_lost, slope, left), *lost);
    return y;
}

static int erfc_positive(ir_code *c, int a)
{
    int lost, power, y = erfc_core(c, a, &lost), e = exp_of_square(c, a, 1, &power);
    return scaled_down(c, y, e, lost, power);
}

int ir_erfc(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int v = erfc_positive(c, bounded_abs(c, x, 10.2f));
    return unless_nan(c, x, where_less(c, x, 0, sub(c, k(c, 2), v), v));
}

int ir_erf(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    static const float series[] = { ERF_SERIES };
    const float rounder = ROUNDER + 127;
    int a = ir_abs(c, x), near = polynomial(c, mul(c, a, a), 5, series);
    int b = ir_binary(c, IR_LEAST, k(c, 4), a), d = mul(c, b, b);
    int p = madd(c, k(c, -1.12827146f), b, k(c, -5.68228315e-05f));
    int q = madd(c, k(c, -0.104876481f), b, k(c, -0.636141956f));
    int r = madd(c, k(c, -0.00316486927f), b, k(c, 0.0226973724f));
    int power = madd(c, madd(c, madd(c, k(c, 0.00020869408f), d, r), d, q), d, p);
    int t = madd(c, power, k(c, (float)LOG2E), k(c, rounder)), s = pow2_of_rounded(c, t);
    int e = expm1_coarse(c, madd(c, sub(c, t, k(c, rounder)), k(c, (float)-LN2), power));
    int far = sub(c, k(c, 1), madd(c, e, s, s));
    return ir_copysign(c, where_less(c, a, 0.8f, madd(c, a, near, a), far), x);
}

int ir_erfinv(ir_code *c, ir_type type, int x, int y, int z)
{
    static const float centre[] = { ERFINV_CENTRE }, tail[] = { ERFINV_TAIL };
    int l = ir_log(c, type, ir_ternary(c, IR_NEGATIVE_ADD, x, x, k(c, 1)), y, z);
    int w = ir_binary(c, IR_XOR, l, k(c, -0.0f)), v = sub(c, ir_unary(c, IR_SQRT, w), k(c, 3.1f));
    int r = mul(c, x, where_less(c, w, 5.5f, polynomial(c, w, 9, centre), polynomial(c, v, 9, tail)));
    int end = ir_compare(c, IR_EQ, ir_abs(c, x), k(c, 1));
    return ir_select(c, end, mul(c, x, k(c, INFINITY)), r);
}

/* What gelu and its slope share. */
typedef struct normal_tail {
    int a, core, lost, e, power;
} normal_tail;

static normal_tail tail_of(ir_code *c, int x)
{
    static const float series[] = { NORMAL_SERIES };
    normal_tail t = { .a = bounded_abs(c, x, 15) };
    int u, more, of = reciprocal(c, t.a, &u, &more), p = split_polynomial(c, u, 11, series);
    t.core = divided(c, 0.5f, p, of, madd(c, k(c, 0.3f), u, k(c, -1.3f)), more, &t.lost);
    t.e = exp_of_square(c, t.a, 0.5f, &t.power);
    return t;
}

static int gelu_of(ir_code *c, int x, const normal_tail *t)
{
    int y = mul(c, t->a, t->core), lost = madd(c, t->a, t->lost, product_lost(c, t->a, t->core, y));
    int v = mul(c, grown(c, y, t->e, lost), t->power);
    int at_least = ir_binary(c, IR_GREATEST, k(c, -0.0f), x); /* of two zeros x */
    int r = madd(c, v, k(c, -0x1p-64f), at_least);
    return ir_select(c, ir_compare(c, IR_EQ, x, k(c, -INFINITY)), k(c, NAN), r);
}

static int slope_of(ir_code *c, int x, const normal_tail *t)
{
    const double density = 0.39894228040143267794;
    const float high = (float)density, low = (float)(density - (double)high);
    int y = madd(c, k(c, -high), t->a, t->core), lost = madd(c, k(c, -low), t->a, t->lost);
    int v = scaled_down(c, y, t->e, lost, t->power);
    return madd(c, x, k(c, 0), where_less(c, x, 0, v, sub(c, k(c, 1), v)));
}

int ir_gelu(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    normal_tail t = tail_of(c, x);
    return gelu_of(c, x, &t);
}

int ir_gelu_slope(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    normal_tail t = tail_of(c, x);
    return slope_of(c, x, &t);
}

int ir_gelu_both(ir_code *c, int x, int *slope)
{
    normal_tail t = tail_of(c, x);
    int r = gelu_of(c, x, &t);
    *slope = slope_of(c, x, &t);
    return r;
}

/* --- float64 -------------------------------------------------------------------------------------------------------
 */

static int kd(ir_code *c, double v) { return ir_number(c, IR_F64, v); }
static int ud(ir_code *c, uint64_t bits) { return ir_bits(c, IR_F64, bits); }
static const double ROUNDER_D = 0x1.8p52;

static int polynomial_d(ir_code *c, int x, int degree, const double *coefficient)
{
    int r = kd(c, coefficient[degree]);
    for (int i = degree - 1; i >= 0; i--)
        r = madd(c, r, x, kd(c, coefficient[i]));
    return r;
}

/* t: with n added to ROUNDER_D. */
static int exp_reduced_d(ir_code *c, int x, int *t)
{
    static const double series[] = { 0.5,
                                     0.16666666666666666,
                                     0.04166666666666668,
                                     0.008333333333333333,
                                     0.0013888888888878923,
                                     0.00019841269841263198,
                                     2.4801587336841623e-05,
                                     2.755731924748493e-06,
                                     2.7557262852470396e-07,
                                     2.5052070809943926e-08,
                                     2.0918295266435273e-09,
                                     1.6086732952745416e-10 };
    int rounder = kd(c, ROUNDER_D);
    *t = madd(c, x, kd(c, LOG2E), rounder);
    int whole = sub(c, *t, rounder);
    int high = madd(c, whole, kd(c, -6.93147180369123816490e-01), x);
    int low = mul(c, whole, kd(c, 1.90821492927058770002e-10));
    int r = sub(c, high, low), lost = sub(c, sub(c, high, r), low), q = polynomial_d(c, r, 11, series);
    return add(c, r, madd(c, mul(c, r, r), q, lost));
}

static int pow2_d(ir_code *c, int n)
{
    return ir_shift(c, IR_SHIFT_LEFT, ir_binary(c, IR_INT_ADD, n, ud(c, 1023)), 52);
}

/* 2^n in two factors. */
static int halves_d(ir_code *c, int t, int *rest)
{
    int n = ir_binary(c, IR_INT_SUB, t, kd(c, ROUNDER_D));
    int more = ir_shift(c, IR_SHIFT_RIGHT, ir_binary(c, IR_INT_ADD, n, ud(c, 4096)), 1);
    int half = ir_binary(c, IR_INT_SUB, more, ud(c, 2048));
    *rest = pow2_d(c, ir_binary(c, IR_INT_SUB, n, half));
    return pow2_d(c, half);
}

int ir_exp_d(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int t, rest, bounded = ir_binary(c, IR_GREATEST, kd(c, -746), ir_binary(c, IR_LEAST, kd(c, 710), x));
    int p = exp_reduced_d(c, bounded, &t);
    if (c->avx512)
        return ir_binary(c, IR_SCALE, add(c, p, kd(c, 1)), sub(c, t, kd(c, ROUNDER_D)));
    int s = halves_d(c, t, &rest);
    return mul(c, madd(c, p, s, s), rest);
}

int ir_sigmoid_d(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int t, s2, a = ir_binary(c, IR_OR, x, kd(c, -0.0)), one = kd(c, 1);
    int p = exp_reduced_d(c, ir_binary(c, IR_GREATEST, kd(c, -746), a), &t), s = halves_d(c, t, &s2);
    int head = madd(c, p, s, s), e = mul(c, head, s2);
    int e_lost = mul(c, sub(c, mul(c, p, s), sub(c, head, s)), s2);
    int w = add(c, one, e), w_lost = add(c, sub(c, e, sub(c, w, one)), e_lost);
    int negative = ir_compare(c, IR_LT, x, kd(c, 0)), q = quotient(c, ir_select(c, negative, e, one), w);
    int lost = sub(c, ir_select(c, negative, e_lost, kd(c, 0)), mul(c, q, w_lost));
    return madd(c, lost, ir_select(c, negative, sub(c, one, q), q), q);
}

int ir_tanh_d(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int t, a = ir_binary(c, IR_LEAST, kd(c, 20), ir_abs(c, x)), p = exp_reduced_d(c, add(c, a, a), &t);
    int s = pow2_d(c, ir_binary(c, IR_INT_SUB, t, kd(c, ROUNDER_D))), e = madd(c, p, s, sub(c, s, kd(c, 1)));
    return ir_copysign(c, quotient(c, e, add(c, e, kd(c, 2))), x);
}

int ir_log_d(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    static const double series[] = {
        0.6666666666666666,  0.40000000000000885, 0.28571428570799784, 0.22222222392581045,
        0.18181795547521137, 0.15386244737621665, 0.13268638369266825, 0.13088034850927555
    };
    int denormal = ir_compare(c, IR_LT, x, kd(c, 0x1p-1022));
    int scaled = ir_select(c, denormal, mul(c, x, kd(c, 0x1p54)), x);
    int bias = ir_select(c, denormal, kd(c, 0x1p52 + 1077), kd(c, 0x1p52 + 1023));
    int bits = ir_binary(c, IR_INT_ADD, scaled, ud(c, 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu));
    int n = ir_binary(c, IR_OR, ir_shift(c, IR_SHIFT_RIGHT, bits, 52), ud(c, 0x4330000000000000u));
    n = sub(c, n, bias);
    int m = ir_binary(c, IR_INT_ADD, ir_binary(c, IR_AND, bits, ud(c, 0xfffffffffffffu)), ud(c, 0x3fe6a09e667f3bcdu));
    int f = sub(c, m, kd(c, 1)), s = quotient(c, f, add(c, kd(c, 2), f)), w = mul(c, s, s);
    int half = mul(c, mul(c, kd(c, 0.5), f), f), p = mul(c, w, polynomial_d(c, w, 7, series));
    int low = madd(c, n, kd(c, 1.90821492927058770002e-10), mul(c, s, add(c, half, p)));
    int r = madd(c, n, kd(c, 6.93147180369123816490e-01), sub(c, f, sub(c, half, low)));
    r = ir_select(c, ir_compare(c, IR_EQ, x, kd(c, 0)), kd(c, -INFINITY), r);
    r = ir_select(c, ir_compare(c, IR_LT, x, kd(c, 0)), kd(c, NAN), r);
    return ir_select(c, ir_compare(c, IR_LT, x, kd(c, INFINITY)), r, x);
}
