/* dtype.c: the dtype table, promotion, and conversion of single elements. */
#include "core/dtype.h"

#include <math.h>
#include <string.h>

const dtype_info dtypes[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = { "float32", "Float", "float", 4, COMPUTE_F32, CATEGORY_FLOAT },
    [BK_FLOAT64] = { "float64", "Double", "double", 8, COMPUTE_F64, CATEGORY_FLOAT },
    [BK_FLOAT16] = { "float16", "Half", "c10::Half", 2, COMPUTE_F32, CATEGORY_FLOAT },
    [BK_BFLOAT16] = { "bfloat16", "BFloat16", "c10::BFloat16", 2, COMPUTE_F32, CATEGORY_FLOAT },
    [BK_INT64] = { "int64", "Long", "long int", 8, COMPUTE_I64, CATEGORY_INT },
    [BK_INT32] = { "int32", "Int", "int", 4, COMPUTE_I64, CATEGORY_INT },
    [BK_INT16] = { "int16", "Short", "short int", 2, COMPUTE_I64, CATEGORY_INT },
    [BK_INT8] = { "int8", "Char", "signed char", 1, COMPUTE_I64, CATEGORY_INT },
    [BK_UINT8] = { "uint8", "Byte", "unsigned char", 1, COMPUTE_I64, CATEGORY_INT },
    [BK_BOOL] = { "bool", "Bool", "bool", 1, COMPUTE_BOOL, CATEGORY_BOOL },
};

const uint8_t compute_size[COMPUTE_COUNT] = { 4, 8, 8, 1 };

bk_dtype compute_dtype(compute_type c)
{
    static const bk_dtype of[COMPUTE_COUNT] = { BK_FLOAT32, BK_FLOAT64, BK_INT64, BK_BOOL };
    return of[c];
}

const char *bk_dtype_name(bk_dtype d) { return dtypes[d].name; }

size_t bk_dtype_size(bk_dtype d) { return dtypes[d].size; }

/* Within a category the wider type wins; float16 with bfloat16 gives float32, uint8 with int8 gives int16. */
bk_dtype dtype_promote(bk_dtype a, bk_dtype b)
{
    if (a == b)
        return a;
    if (dtypes[a].category != dtypes[b].category)
        return dtypes[a].category > dtypes[b].category ? a : b;
    if (dtypes[a].size != dtypes[b].size)
        return dtypes[a].size > dtypes[b].size ? a : b;
    return dtypes[a].category == CATEGORY_FLOAT ? BK_FLOAT32 : BK_INT16;
}

float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 0) { /* zero and subnormals: mantissa * 2^-24 */
        float f = (float)mantissa * 0x1p-24f;
        return sign ? -f : f;
    }
    uint32_t u = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t half_from_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000);
    u &= 0x7fffffff;
    if (u > 0x7f800000)
        return sign | 0x7e00;
    if (u >= 0x477ff000) /* rounds to 65536 or more */
        return sign | 0x7c00;
    if (u < 0x38800000) { /* subnormal in half: let the float adder round to a multiple of 2^-24 */
        float a;
        memcpy(&a, &u, 4);
        a += 0.5f;
        uint32_t r;
        memcpy(&r, &a, 4);
        return sign | (uint16_t)(r - 0x3f000000);
    }
    u += 0xfff + ((u >> 13) & 1); /* to nearest, ties to even */
    return sign | (uint16_t)((u - 0x38000000) >> 13);
}

uint16_t bfloat_from_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if ((u & 0x7fffffff) > 0x7f800000)
        return 0x7fc0;
    return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

double dtype_load_double(bk_dtype d, const void *p)
{
    switch (d) {
    case BK_FLOAT32: return *(const float *)p;
    case BK_FLOAT64: return *(const double *)p;
    case BK_FLOAT16: return half_to_float(*(const uint16_t *)p);
    case BK_BFLOAT16: return bfloat_to_float(*(const uint16_t *)p);
    default: return (double)dtype_load_int(d, p);
    }
}

int64_t dtype_load_int(bk_dtype d, const void *p)
{
    switch (d) {
    case BK_INT64: return *(const int64_t *)p;
    case BK_INT32: return *(const int32_t *)p;
    case BK_INT16: return *(const int16_t *)p;
    case BK_INT8: return *(const int8_t *)p;
    case BK_UINT8: return *(const uint8_t *)p;
    case BK_BOOL: return *(const uint8_t *)p != 0;
    default: {
        double v = dtype_load_double(d, p);
        /* what cvttsd2si gives for what does not fit */
        return v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
    }
    }
}

void dtype_store_double(bk_dtype d, void *p, double v)
{
    switch (d) {
    case BK_FLOAT32: *(float *)p = (float)v; break;
    case BK_FLOAT64: *(double *)p = v; break;
    case BK_FLOAT16: *(uint16_t *)p = half_from_float((float)v); break;
    case BK_BFLOAT16: *(uint16_t *)p = bfloat_from_float((float)v); break;
    case BK_BOOL: *(uint8_t *)p = v != 0; break;
    default: dtype_store_int(d, p, v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN);
    }
}

void dtype_store_int(bk_dtype d, void *p, int64_t v)
{
    switch (d) {
    case BK_INT64: *(int64_t *)p = v; break;
    case BK_INT32: *(int32_t *)p = (int32_t)v; break;
    case BK_INT16: *(int16_t *)p = (int16_t)v; break;
    case BK_INT8: *(int8_t *)p = (int8_t)v; break;
    case BK_UINT8: *(uint8_t *)p = (uint8_t)v; break;
    case BK_BOOL: *(uint8_t *)p = v != 0; break;
    default: dtype_store_double(d, p, (double)v);
    }
}
