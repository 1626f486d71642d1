/* vmath_arithmetic.h: remainders, quotients, neighbours and blends of numbers: functions without a series. */
#ifndef BK_CPU_VMATH_ARITHMETIC_H
#define BK_CPU_VMATH_ARITHMETIC_H
#include "cpu/vmath_base.h"

VM float hypot_f(float x, float y)
{
    double dx = x, dy = y, r = __builtin_sqrt(dx * dx + dy * dy);
    r = abs_d(dx) == INFINITY ? INFINITY : r;
    return (float)(abs_d(dy) == INFINITY ? INFINITY : r);
}

/* The next bit pattern, towards y. */
VM float nextafter_f(float x, float y)
{
    uint32_t u = bits_f(x);
    float away = float_of(u + 1), back = float_of(u - 1);
    float r = x < y ? (x > 0 ? away : back) : (x > 0 ? back : away);
    r = x == 0 ? copysign_f(0x1p-149f, y) : r;
    r = x == y ? y : r;
    r = x == x ? r : x;
    return y == y ? r : y;
}

/* For |x/y| < 2^28 the quotient's integer part and the remainder are exact in double. */
VM float fmod_f(float x, float y)
{
    double dx = x, dy = y;
    return copysign_f((float)(dx - trunc_d(dx / dy) * dy), x);
}

/* The sign bit itself: 1 for -0 and negative NaN. */
VM uint8_t signbit_f(float x) { return (uint8_t)(bits_f(x) >> 31); }
VM uint8_t signbit_d(double x) { return (uint8_t)(bits_d(x) >> 63); }

/* Remainder with the divisor's sign, and the floor of the quotient that goes with it, as Python has them. */
VM float remainder_f(float x, float y)
{
    float m = fmod_f(x, y);
    return m != 0 && (y < 0) != (m < 0) ? m + y : m;
}
VM float floor_divide_f(float x, float y) { return (float)floor_d((double)x / (double)y); }
VM double remainder_d(double x, double y)
{
    double m = fmod(x, y);
    return m != 0 && (y < 0) != (m < 0) ? m + y : m;
}
VM double floor_divide_d(double x, double y)
{
    double m = fmod(x, y), q = (x - m) / y;
    q = m != 0 && (y < 0) != (m < 0) ? q - 1 : q;
    double whole = floor(q);
    whole = q - whole > 0.5 ? whole + 1 : whole;
    whole = q != 0 ? whole : copysign(0, x / y);
    return y == 0 ? x / y : whole;
}

/* NaN is ignored while the other is a number. */
VM float fmin_f(float x, float y) { return ((y != y) | (x <= y)) ? x : y; }
VM float fmax_f(float x, float y) { return ((y != y) | (x >= y)) ? x : y; }
VM double fmin_d(double x, double y) { return ((y != y) | (x <= y)) ? x : y; }
VM double fmax_d(double x, double y) { return ((y != y) | (x >= y)) ? x : y; }

VM float lerp_f(float x, float y, float w) { return abs_f(w) < 0.5f ? x + w * (y - x) : y - (y - x) * (1 - w); }
VM double lerp_d(double x, double y, double w) { return abs_d(w) < 0.5 ? x + w * (y - x) : y - (y - x) * (1 - w); }

/* --- int64: nothing traps. Division by zero gives 0 (the recorder has raised), INT64_MIN / -1 wraps. ---------- */

VM int64_t i_quotient(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y; }
VM int64_t i_fmod(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
VM int64_t i_remainder(int64_t x, int64_t y)
{
    int64_t m = i_fmod(x, y);
    return m != 0 && (m < 0) != (y < 0) ? m + y : m;
}
VM int64_t i_floor_divide(int64_t x, int64_t y)
{
    int64_t m = i_fmod(x, y);
    return i_quotient(x, y) - (m != 0 && (m < 0) != (y < 0));
}
/* A negative exponent leaves something only of 1 and -1. */
VM int64_t i_pow(int64_t x, int64_t y)
{
    if (y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t r = 1;
    for (uint64_t base = (uint64_t)x; y; y >>= 1, base *= base)
        r *= y & 1 ? base : 1;
    return (int64_t)r;
}
/* Shifts by 64 and more, or by a negative count, push every bit out. */
VM int64_t i_shift_left(int64_t x, int64_t y) { return (uint64_t)y < 64 ? (int64_t)((uint64_t)x << (y & 63)) : 0; }
VM int64_t i_shift_right(int64_t x, int64_t y) { return x >> ((uint64_t)y < 64 ? y : 63); }

#endif
