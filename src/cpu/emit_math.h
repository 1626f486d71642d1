/* emit_math.h: functions of vmath.h as nodes; and the nodes that rows are written with. */
#ifndef BK_CPU_EMIT_MATH_H
#define BK_CPU_EMIT_MATH_H
#include <math.h>

#include "cpu/emit_ir.h"

int ir_unary(ir_code *code, ir_op op, int a);
int ir_binary(ir_code *code, ir_op op, int a, int b);
int ir_ternary(ir_code *code, ir_op op, int a, int b, int c);
int ir_shift(ir_code *code, ir_op op, int a, int by);
int ir_compare(ir_code *code, int how, int a, int b);
int ir_select(ir_code *code, int mask, int a, int b);
int ir_number(ir_code *code, ir_type type, double v);
int ir_bits(ir_code *code, ir_type type, uint64_t bits);
int ir_abs(ir_code *code, int x);
int ir_copysign(ir_code *code, int x, int sign);

/* Of x; the last two are not looked at. */
int ir_exp(ir_code *code, ir_type type, int x, int y, int z);
int ir_sigmoid(ir_code *code, ir_type type, int x, int y, int z);
int ir_tanh(ir_code *code, ir_type type, int x, int y, int z);
int ir_log(ir_code *code, ir_type type, int x, int y, int z);
int ir_logit(ir_code *code, ir_type type, int x, int y, int z);
int ir_xlogy(ir_code *code, ir_type type, int x, int y, int z);
int ir_exp2(ir_code *code, ir_type type, int x, int y, int z);
int ir_log2(ir_code *code, ir_type type, int x, int y, int z);
int ir_log10(ir_code *code, ir_type type, int x, int y, int z);
int ir_atan(ir_code *code, ir_type type, int x, int y, int z);
int ir_asin(ir_code *code, ir_type type, int x, int y, int z);
int ir_acos(ir_code *code, ir_type type, int x, int y, int z);
int ir_expm1(ir_code *code, ir_type type, int x, int y, int z);
int ir_log1p(ir_code *code, ir_type type, int x, int y, int z);
int ir_silu(ir_code *code, ir_type type, int x, int y, int z);
int ir_logsigmoid(ir_code *code, ir_type type, int x, int y, int z);
int ir_erf(ir_code *code, ir_type type, int x, int y, int z);
int ir_erfinv(ir_code *code, ir_type type, int x, int y, int z);
int ir_erfc(ir_code *code, ir_type type, int x, int y, int z);
int ir_gelu(ir_code *code, ir_type type, int x, int y, int z);
int ir_gelu_slope(ir_code *code, ir_type type, int x, int y, int z);
/* y and z as in their rows. */
int ir_softplus(ir_code *code, ir_type type, int x, int y, int z);
int ir_elu(ir_code *code, ir_type type, int x, int y, int z);
int ir_celu(ir_code *code, ir_type type, int x, int y, int z);
int ir_selu(ir_code *code, ir_type type, int x, int y, int z);
/* gelu, and its slope. */
int ir_gelu_both(ir_code *code, int x, int *slope);
int ir_exp_d(ir_code *code, ir_type type, int x, int y, int z);
int ir_sigmoid_d(ir_code *code, ir_type type, int x, int y, int z);
int ir_tanh_d(ir_code *code, ir_type type, int x, int y, int z);
int ir_log_d(ir_code *code, ir_type type, int x, int y, int z);

#endif
