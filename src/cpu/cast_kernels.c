/* cast_kernels.c: conversion between all dtypes, and rounding to narrow dtypes inside a compute type, for one ISA
 * level (ISA_NAME).
 *
 * Results are those of core/dtype.c element by element, NaN payloads apart: floats truncate to int64 and wrap from
 * there, what does not fit int64 becomes INT64_MIN, halves round to nearest even, bool is != 0. Casts run in place
 * between types of one size, so element types may alias. */
#include "cpu/ew_internal.h"
#include "cpu/vmath.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

/* --- element types ------------------------------------------------------------------------------------------- */

#define ALIASING __attribute__((may_alias))
typedef float ALIASING e_FLOAT32;
typedef double ALIASING e_FLOAT64;
typedef uint16_t ALIASING e_FLOAT16;
typedef uint16_t ALIASING e_BFLOAT16;
typedef int64_t ALIASING e_INT64;
typedef int32_t ALIASING e_INT32;
typedef int16_t ALIASING e_INT16;
typedef int8_t ALIASING e_INT8;
typedef uint8_t ALIASING e_UINT8;
typedef uint8_t ALIASING e_BOOL;

/* --- halves, branch-free ------------------------------------------------------------------------------------- */

/* A half's bits 13 places up are a float too small by 2^112, denormals included. */
VM float float_of_half(uint16_t h)
{
    uint32_t u = (uint32_t)(h & 0x7fff) << 13;
    float finite = float_of(u) * 0x1p112f;
    uint32_t r = (int32_t)u >= 0x7c00 << 13 ? u | 0x7f800000u : bits_f(finite);
    return float_of(r | (uint32_t)(h & 0x8000) << 16);
}

/* Below 2^-14 adding 1/2 rounds to a multiple of 2^-24; above, the rounding bit is added to the float's bits. */
VM uint16_t half_of_float(float x)
{
    uint32_t u = bits_f(x) & 0x7fffffff, sign = (bits_f(x) >> 16) & 0x8000;
    uint32_t small = bits_f(float_of(u) + 0.5f) - 0x3f000000u;
    uint32_t normal = (u + 0xfff + ((u >> 13) & 1) - 0x38000000u) >> 13;
    uint32_t r = (int32_t)u < 0x38800000 ? small : normal;
    r = (int32_t)u >= 0x477ff000 ? 0x7c00 : r;
    r = (int32_t)u > 0x7f800000 ? 0x7e00 : r;
    return (uint16_t)(r | sign);
}

VM float float_of_bfloat(uint16_t h) { return float_of((uint32_t)h << 16); }
VM uint16_t bfloat_of_float(float x)
{
    uint32_t u = bits_f(x), r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((int32_t)(u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : r);
}

/* --- values of one element ------------------------------------------------------------------------------------ */

VM int64_t int_of_float(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }
VM int64_t int_of_int(int64_t v) { return v; }
#define AS_INT(v) _Generic((v), float: int_of_float, double: int_of_float, default: int_of_int)(v)

#define LOAD_FLOAT32(v)  (v)
#define LOAD_FLOAT64(v)  (v)
#define LOAD_FLOAT16(v)  float_of_half(v)
#define LOAD_BFLOAT16(v) float_of_bfloat(v)
#define LOAD_INT64(v)    (v)
#define LOAD_INT32(v)    (v)
#define LOAD_INT16(v)    (v)
#define LOAD_INT8(v)     (v)
#define LOAD_UINT8(v)    (v)
#define LOAD_BOOL(v)     ((v) != 0)

#define STORE_FLOAT32(v)  ((float)(v))
#define STORE_FLOAT64(v)  ((double)(v))
#define STORE_FLOAT16(v)  half_of_float((float)(v))
#define STORE_BFLOAT16(v) bfloat_of_float((float)(v))
#define STORE_INT64(v)    AS_INT(v)
#define STORE_INT32(v)    ((int32_t)AS_INT(v))
#define STORE_INT16(v)    ((int16_t)AS_INT(v))
#define STORE_INT8(v)     ((int8_t)AS_INT(v))
#define STORE_UINT8(v)    ((uint8_t)AS_INT(v))
#define STORE_BOOL(v)     ((v) != 0)

/* --- the loops ------------------------------------------------------------------------------------------------ */

/* Between float32 and float16 the processor converts a vector in one instruction. Each returns how many elements it
 * has done; the loops below do the rest. */
#ifdef __F16C__
static int64_t widen_halves(int64_t n, float *out, const uint16_t *x)
{
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        _mm256_storeu_ps(out + k, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + k))));
    return k;
}
static int64_t narrow_to_halves(int64_t n, uint16_t *out, const float *x)
{
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        _mm_storeu_si128((__m128i *)(out + k), _mm256_cvtps_ph(_mm256_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT));
    return k;
}
static int64_t round_to_halves(int64_t n, float *out, const float *x)
{
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + k), _MM_FROUND_TO_NEAREST_INT);
        _mm256_storeu_ps(out + k, _mm256_cvtph_ps(h));
    }
    return k;
}
#else
#define widen_halves(n, out, x)     0
#define narrow_to_halves(n, out, x) 0
#define round_to_halves(n, out, x)  0
#endif

#define CONVERT(fn, FROM, TO, start, value)                                                                            \
    void fn(int64_t n, void *out, const void *x, const void *y, const void *z)                                         \
    {                                                                                                                  \
        const FROM *xs = x;                                                                                            \
        TO *o = out;                                                                                                   \
        (void)y, (void)z;                                                                                              \
        EW_INDEPENDENT for (int64_t k = (start); k < n; k++)                                                           \
        {                                                                                                              \
            FROM v = xs[k];                                                                                            \
            o[k] = (TO)(value);                                                                                        \
        }                                                                                                              \
    }

/* Rows, not statements. */
/* clang-format off */
#define CAST(from, to) CONVERT(EW_CAST_NAME(from, to), e_##from, e_##to, 0, STORE_##to(LOAD_##from(v)))
EW_EACH_TO(CAST, FLOAT64)
EW_EACH_TO(CAST, BFLOAT16)
EW_EACH_TO(CAST, INT64)
EW_EACH_TO(CAST, INT32)
EW_EACH_TO(CAST, INT16)
EW_EACH_TO(CAST, INT8)
EW_EACH_TO(CAST, UINT8)
EW_EACH_TO(CAST, BOOL)

CAST(FLOAT32, FLOAT32) CAST(FLOAT32, FLOAT64) CAST(FLOAT32, BFLOAT16) CAST(FLOAT32, INT64) CAST(FLOAT32, INT32)
CAST(FLOAT32, INT16)   CAST(FLOAT32, INT8)    CAST(FLOAT32, UINT8)    CAST(FLOAT32, BOOL)
CONVERT(EW_CAST_NAME(FLOAT32, FLOAT16), e_FLOAT32, e_FLOAT16, narrow_to_halves(n, out, x), half_of_float(v))

CAST(FLOAT16, FLOAT64) CAST(FLOAT16, BFLOAT16) CAST(FLOAT16, INT64) CAST(FLOAT16, INT32) CAST(FLOAT16, INT16)
CAST(FLOAT16, INT8)    CAST(FLOAT16, UINT8)    CAST(FLOAT16, BOOL)
CONVERT(EW_CAST_NAME(FLOAT16, FLOAT32), e_FLOAT16, e_FLOAT32, widen_halves(n, out, x), float_of_half(v))
CONVERT(EW_CAST_NAME(FLOAT16, FLOAT16), e_FLOAT16, e_FLOAT16, 0, v)

/* --- rounding inside the compute type --------------------------------------------------------------------------- */

CONVERT(EW_ROUND_NAME(FLOAT16), float, float, round_to_halves(n, out, x), float_of_half(half_of_float(v)))
CONVERT(EW_ROUND_NAME(BFLOAT16), float, float, 0, float_of_bfloat(bfloat_of_float(v)))
CONVERT(EW_ROUND_NAME(INT32), int64_t, int64_t, 0, (int32_t)v)
CONVERT(EW_ROUND_NAME(INT16), int64_t, int64_t, 0, (int16_t)v)
CONVERT(EW_ROUND_NAME(INT8), int64_t, int64_t, 0, (int8_t)v)
CONVERT(EW_ROUND_NAME(UINT8), int64_t, int64_t, 0, (uint8_t)v)
    /* clang-format on */
