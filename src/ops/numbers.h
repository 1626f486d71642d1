/* numbers.h: numbers that become elements. */
#ifndef BK_OPS_NUMBERS_H
#define BK_OPS_NUMBERS_H
#include "core/tensor.h"

/* What PyTorch's error texts call the C type of a dtype. */
extern const char *const c_type_names[BK_DTYPE_COUNT];

/* A C number: a whole one is an integer, which keeps integers integers. */
static inline operand number_of(double d)
{
    return d >= -0x1p53 && d <= 0x1p53 && d == (double)(int64_t)d ? number_int((int64_t)d) : number_float(d);
}
/* The greatest number that a float of this dtype holds. */
double number_greatest(bk_dtype dtype);
/* Whether the number has a value of this dtype; -1 with PyTorch's error where not. Tensors pass. */
int number_check(operand number, bk_dtype dtype);
/* The same of a tensor without dimensions too, which is evaluated where its dtype has numbers that this one has not. */
int value_check(operand value, bk_dtype dtype);
/* The same of a factor: 16-bit floats are multiplied in float32. */
int factor_check(operand factor, bk_dtype dtype);
/* The number as a 16-bit float has it, infinite where it is too large; as it is for other dtypes. */
operand number_narrowed(operand number, bk_dtype dtype);

#endif
