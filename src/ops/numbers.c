/* numbers.c: which numbers a dtype can hold, where PyTorch refuses the others instead of wrapping them. */
#include "ops/numbers.h"

#include <float.h>
#include <math.h>

#include "core/error.h"
#include "core/scope.h"

const char *const c_type_names[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = "float", [BK_FLOAT64] = "double", [BK_FLOAT16] = "c10::Half", [BK_BFLOAT16] = "c10::BFloat16",
    [BK_INT64] = "int64_t", [BK_INT32] = "int",      [BK_INT16] = "int16_t",     [BK_INT8] = "int8_t",
    [BK_UINT8] = "uint8_t", [BK_BOOL] = "bool",
};

static const struct {
    double low, high;
} ranges[BK_DTYPE_COUNT] = {
    [BK_FLOAT32] = { -0x1.fffffep127, 0x1.fffffep127 },
    [BK_FLOAT64] = { -DBL_MAX, DBL_MAX },
    [BK_FLOAT16] = { -65504, 65504 },
    [BK_BFLOAT16] = { -0x1.fep127, 0x1.fep127 },
    [BK_INT64] = { -0x1p63, 0x1p63 },
    [BK_INT32] = { INT32_MIN, INT32_MAX },
    [BK_INT16] = { INT16_MIN, INT16_MAX },
    [BK_INT8] = { INT8_MIN, INT8_MAX },
    [BK_UINT8] = { 0, UINT8_MAX },
    [BK_BOOL] = { -INFINITY, INFINITY },
};

/* Negative integers wrap in uint8, negative floats do not; infinities and NaN fit every float. */
static bool fits(operand number, bk_dtype dtype)
{
    if (number.category == CATEGORY_FLOAT && !isfinite(number.d))
        return dtype_is_float(dtype) || dtype == BK_BOOL;
    if (dtype == BK_UINT8 && number.category != CATEGORY_FLOAT)
        return number.i >= -UINT8_MAX && number.i <= UINT8_MAX;
    return number.d >= ranges[dtype].low && number.d <= ranges[dtype].high;
}

double number_greatest(bk_dtype dtype) { return ranges[dtype].high; }

int number_check(operand number, bk_dtype dtype)
{
    if (number.value || fits(number, dtype))
        return 0;
    return error_int(BK_RUNTIME_ERROR, "value cannot be converted to type %s without overflow", c_type_names[dtype]);
}

/* Whether all numbers of a dtype are numbers of another. */
static bool goes_into(bk_dtype from, bk_dtype to)
{
    return from == BK_BOOL || (ranges[from].low >= ranges[to].low && ranges[from].high <= ranges[to].high);
}

int value_check(operand value, bk_dtype dtype)
{
    if (!value.value)
        return number_check(value, dtype);
    bk_dtype from = (bk_dtype)value.value->dtype;
    if (goes_into(from, dtype))
        return 0;
    bk_scope_push();
    bk_tensor *t = tensor_at(value.value, NULL);
    char *data = t ? tensor_data(t) : NULL;
    int status = !data                  ? -1
                 : dtype_is_float(from) ? number_check(number_float(dtype_load_double(from, data)), dtype)
                                        : number_check(number_int(dtype_load_int(from, data)), dtype);
    bk_scope_pop();
    return status;
}

static bool is_narrow(bk_dtype d) { return d == BK_FLOAT16 || d == BK_BFLOAT16; }

int factor_check(operand factor, bk_dtype dtype) { return number_check(factor, is_narrow(dtype) ? BK_FLOAT32 : dtype); }

operand number_narrowed(operand number, bk_dtype dtype)
{
    uint16_t bits;
    if (number.value || !is_narrow(dtype))
        return number;
    dtype_store_double(dtype, &bits, number.d);
    return number_float(dtype_load_double(dtype, &bits));
}
