/* emit_math.c: exp, sigmoid, tanh and log of float32 as nodes, as vmath.h computes them where there is a fused
 * multiply-add: the same operations in the same order, so the same bits. Names are those of vmath.h, where the reasons
 * stand; who changes a formula there changes it here, and test_emit.c tells who forgot. */
#include "cpu/emit_math.h"

#include <string.h>

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

static int exp_bounded(ir_code *c, int x)
{
    int t = madd(c, x, k(c, (float)LOG2E), k(c, ROUNDER));
    int p = expm1_coarse(c, reduce_ln2(c, x, sub(c, t, k(c, ROUNDER))));
    int n = ir_binary(c, IR_INT_SUB, t, u(c, bits_of(ROUNDER))), half = ir_shift(c, IR_SHIFT_ARITHMETIC, n, 1);
    int s = pow2(c, half);
    return mul(c, madd(c, p, s, s), pow2(c, ir_binary(c, IR_INT_SUB, n, half)));
}

int ir_exp(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    int zero = k(c, 0), vanishes = ir_compare(c, IR_LT, x, k(c, -104));
    int r = exp_bounded(c, ir_select(c, vanishes, zero, x));
    r = ir_select(c, vanishes, zero, r);
    return ir_select(c, ir_compare(c, IR_GT, x, k(c, 89)), k(c, INFINITY), r);
}

int ir_sigmoid(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    const float rounder = ROUNDER + 127 + 64;
    int a = ir_binary(c, IR_GREATEST, k(c, -104), ir_binary(c, IR_OR, x, k(c, -0.0f)));
    int t = madd(c, a, k(c, (float)LOG2E), k(c, rounder)), s = pow2_of_rounded(c, t);
    int p = expm1_coarse(c, reduce_ln2(c, a, sub(c, t, k(c, rounder))));
    int e = mul(c, madd(c, p, s, s), k(c, 0x1p-64f));
    return quotient(c, where_less(c, x, 0, e, k(c, 1)), add(c, k(c, 1), e));
}

int ir_tanh(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    const float rounder = ROUNDER + 127;
    int a = ir_binary(c, IR_LEAST, k(c, 9.1f), ir_abs(c, x));
    a = add(c, a, a);
    int t = madd(c, a, k(c, (float)LOG2E), k(c, rounder)), s = pow2_of_rounded(c, t);
    int p = expm1_reduced(c, madd(c, sub(c, t, k(c, rounder)), k(c, (float)-LN2), a));
    int e = madd(c, p, s, sub(c, s, k(c, 1)));
    return ir_copysign(c, quotient(c, e, add(c, e, k(c, 2))), x);
}

/* --- log ------------------------------------------------------------------------------------------------------------
 */

int ir_log(ir_code *c, ir_type type, int x, int y, int z)
{
    (void)type, (void)y, (void)z;
    static const float series[] = { 0.33333331f, -0.24999997f, 0.20000721f,  -0.1666781f, 0.14248877f,
                                    -0.1242536f, 0.11687025f,  -0.11483081f, 0.069713463f };
    int denormal = ir_compare(c, IR_LT, x, k(c, 0x1p-126f));
    int scaled = ir_select(c, denormal, mul(c, x, k(c, 0x1p23f)), x);
    int bias = ir_select(c, denormal, k(c, -23), k(c, 0));
    int bits = ir_binary(c, IR_INT_ADD, scaled, u(c, 0x3f800000u - 0x3f3504f3u));
    int exponent = ir_binary(c, IR_INT_SUB, ir_shift(c, IR_SHIFT_RIGHT, bits, 23), u(c, 127));
    int n = add(c, ir_unary(c, IR_FLOAT_OF_INT, exponent), bias);
    int m = ir_binary(c, IR_INT_ADD, ir_binary(c, IR_AND, bits, u(c, 0x7fffff)), u(c, 0x3f3504f3u));
    int f = sub(c, m, k(c, 1)), f2 = mul(c, f, f);
    int p = polynomial(c, f, 8, series);
    int low = madd(c, mul(c, f, f2), p, mul(c, n, k(c, -2.12194440e-4f)));
    int r = madd(c, n, k(c, 0.693359375f), add(c, f, madd(c, k(c, -0.5f), f2, low)));
    r = ir_select(c, ir_compare(c, IR_EQ, x, k(c, 0)), k(c, -INFINITY), r);
    r = where_less(c, x, 0, k(c, NAN), r);
    return where_less(c, x, INFINITY, r, x);
}
