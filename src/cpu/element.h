/* element.h: one element of any dtype, inlined.
 *
 * Every function is to be called with a constant dtype, so that the switch folds away and the loop around it is as
 * if written for the type. The conversions of the halves are free of branches: compilers vectorise them. They agree
 * bit for bit with dtype.c. */
#ifndef BK_CPU_ELEMENT_H
#define BK_CPU_ELEMENT_H
#include "core/dtype.h"

#define ELEMENT_INLINE static inline __attribute__((always_inline))

/* One row per dtype: the dtype, a suffix for functions, the C type that holds it, the type it computes in. */
#define ELEMENT_FLOATS(X)                                                                                              \
    X(BK_FLOAT32, f32, float, float)                                                                                   \
    X(BK_FLOAT64, f64, double, double)                                                                                 \
    X(BK_FLOAT16, f16, uint16_t, float)                                                                                \
    X(BK_BFLOAT16, bf16, uint16_t, float)
#define ELEMENT_INTS(X)                                                                                                \
    X(BK_INT64, i64, int64_t, int64_t)                                                                                 \
    X(BK_INT32, i32, int32_t, int64_t)                                                                                 \
    X(BK_INT16, i16, int16_t, int64_t)                                                                                 \
    X(BK_INT8, i8, int8_t, int64_t)                                                                                    \
    X(BK_UINT8, u8, uint8_t, int64_t)                                                                                  \
    X(BK_BOOL, b8, uint8_t, int64_t)
#define ELEMENT_DTYPES(X) ELEMENT_FLOATS(X) ELEMENT_INTS(X)

typedef union float_bits {
    float f;
    uint32_t u;
} float_bits;

/* A half times 2^112 is the float with the same exponent and mantissa bits; infinities and NaNs are patched in. */
ELEMENT_INLINE float element_half_to_float(uint16_t h)
{
    float_bits scaled = { .u = (uint32_t)(h & 0x7fff) << 13 };
    float_bits finite = { .f = scaled.f * 0x1p112f };
    uint32_t special = scaled.u | 0x7f800000u;
    uint32_t u = (h & 0x7fff) >= 0x7c00 ? special : finite.u;
    float_bits r = { .u = u | (uint32_t)(h & 0x8000) << 16 };
    return r.f;
}

ELEMENT_INLINE uint16_t element_half_from_float(float f)
{
    float_bits in = { .f = f };
    uint32_t u = in.u & 0x7fffffff, sign = in.u >> 16 & 0x8000;
    float_bits tiny = { .u = u < 0x38800000 ? u : 0 };
    tiny.f += 0.5f; /* the float adder rounds to a multiple of 2^-24 */
    uint32_t normal = (u + 0xfff + (u >> 13 & 1) - 0x38000000) >> 13;
    uint32_t r = u < 0x38800000 ? tiny.u - 0x3f000000 : normal;
    r = u >= 0x477ff000 ? 0x7c00 : r;
    r = u > 0x7f800000 ? 0x7e00 : r;
    return (uint16_t)(sign | r);
}

ELEMENT_INLINE uint16_t element_bfloat_from_float(float f)
{
    float_bits in = { .f = f };
    uint32_t rounded = (in.u + 0x7fff + (in.u >> 16 & 1)) >> 16;
    return (uint16_t)((in.u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

/* What cvttsd2si gives for what does not fit. */
ELEMENT_INLINE int64_t element_truncate(double v) { return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN; }

ELEMENT_INLINE int64_t element_int(bk_dtype t, const void *p)
{
    switch (t) {
    case BK_INT64: return *(const int64_t *)p;
    case BK_INT32: return *(const int32_t *)p;
    case BK_INT16: return *(const int16_t *)p;
    case BK_INT8: return *(const int8_t *)p;
    case BK_UINT8: return *(const uint8_t *)p;
    case BK_BOOL: return *(const uint8_t *)p != 0;
    default: return dtype_load_int(t, p);
    }
}

ELEMENT_INLINE float element_float(bk_dtype t, const void *p)
{
    switch (t) {
    case BK_FLOAT32: return *(const float *)p;
    case BK_FLOAT16: return element_half_to_float(*(const uint16_t *)p);
    case BK_BFLOAT16: return bfloat_to_float(*(const uint16_t *)p);
    default: return (float)element_int(t, p);
    }
}

ELEMENT_INLINE double element_double(bk_dtype t, const void *p)
{
    switch (t) {
    case BK_FLOAT64: return *(const double *)p;
    case BK_FLOAT32:
    case BK_FLOAT16:
    case BK_BFLOAT16: return element_float(t, p);
    default: return (double)element_int(t, p);
    }
}

ELEMENT_INLINE bool element_nonzero(bk_dtype t, const void *p)
{
    switch (t) {
    case BK_FLOAT64: return *(const double *)p != 0;
    case BK_FLOAT32: return *(const float *)p != 0;
    case BK_FLOAT16:
    case BK_BFLOAT16: return (*(const uint16_t *)p & 0x7fff) != 0;
    default: return element_int(t, p) != 0;
    }
}

ELEMENT_INLINE void element_put_int(bk_dtype t, void *p, int64_t v)
{
    switch (t) {
    case BK_INT64: *(int64_t *)p = v; break;
    case BK_INT32: *(int32_t *)p = (int32_t)v; break;
    case BK_INT16: *(int16_t *)p = (int16_t)v; break;
    case BK_INT8: *(int8_t *)p = (int8_t)v; break;
    case BK_UINT8: *(uint8_t *)p = (uint8_t)v; break;
    case BK_BOOL: *(uint8_t *)p = v != 0; break;
    case BK_FLOAT64: *(double *)p = (double)v; break;
    case BK_FLOAT32: *(float *)p = (float)v; break;
    case BK_FLOAT16: *(uint16_t *)p = element_half_from_float((float)v); break;
    default: *(uint16_t *)p = element_bfloat_from_float((float)v);
    }
}

ELEMENT_INLINE void element_put_float(bk_dtype t, void *p, float v)
{
    switch (t) {
    case BK_FLOAT32: *(float *)p = v; break;
    case BK_FLOAT64: *(double *)p = v; break;
    case BK_FLOAT16: *(uint16_t *)p = element_half_from_float(v); break;
    case BK_BFLOAT16: *(uint16_t *)p = element_bfloat_from_float(v); break;
    case BK_BOOL: *(uint8_t *)p = v != 0; break;
    default: element_put_int(t, p, element_truncate(v));
    }
}

ELEMENT_INLINE void element_put_double(bk_dtype t, void *p, double v)
{
    switch (t) {
    case BK_FLOAT64: *(double *)p = v; break;
    case BK_BOOL: *(uint8_t *)p = v != 0; break;
    case BK_FLOAT32:
    case BK_FLOAT16:
    case BK_BFLOAT16: element_put_float(t, p, (float)v); break;
    default: element_put_int(t, p, element_truncate(v));
    }
}

#endif
