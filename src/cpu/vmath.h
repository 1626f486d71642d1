/* vmath.h: the mathematical functions of the elementwise kernels, written for the auto-vectoriser.
 *
 * Each is a branch-free inline function of scalars: a loop around it becomes SIMD code at every ISA level. The
 * contract: at most 2.5 ULP in float32 over the whole range, denormals included; exact specials (NaN, infinities,
 * signed zeros); odd functions are odd. In float64: 2 ULP, with glibc where nothing faster stands here.
 *
 * Two ways lead there in float32. What programs spend their time in (exp, tanh, sigmoid, logarithms, trigonometric and
 * error functions) is computed in float. All else is computed in double ("wide": half the lanes, but no error analysis:
 * a polynomial good to 1e-9 is good to 0.51 ULP) and rounded once. The polynomials interpolate at Chebyshev nodes on
 * the reduced range; the relative error on that range stands beside each.
 *
 * They stand by subject in vmath_*.h; here are the names under which ops.def reads them.
 *
 * Selects compare values of the width they select, and conversions between integers and doubles go through the
 * bits of 2^52 + n: AVX2 has no other instruction for it. */
#ifndef BK_CPU_VMATH_H
#define BK_CPU_VMATH_H
#include "cpu/vmath_activations.h"
#include "cpu/vmath_arithmetic.h"
#include "cpu/vmath_erf.h"
#include "cpu/vmath_exp.h"
#include "cpu/vmath_gamma.h"
#include "cpu/vmath_trig.h"

/* --- scalar: gamma functions and erfinv --------------------------------------------------------------------- */

double vm_lgamma(double x); /* for float32, not positive */
double vm_lgamma_d(double x);
double vm_erfc_d(double x);
double vm_digamma(double x);
double vm_trigamma(double x);
double vm_erfinv(double x);
double vm_erfcx(double x);
double vm_zeta(double s, double q);
double vm_igamma(double a, double x);
double vm_igammac(double a, double x);

/* --- the prelude of ops.def: one name for both float types --------------------------------------------------- */

#define V1(x, f, d)    _Generic((x), float: f, double: d)(x)
#define V2(x, y, f, d) _Generic((x), float: f, double: d)(x, y)

#define v_abs(x)             V1(x, abs_f, abs_d)
#define v_copysign(x, y)     V2(x, y, copysign_f, copysign_d)
#define v_sqrt(x)            V1(x, __builtin_sqrtf, __builtin_sqrt)
#define v_min(x, y)          _Generic((x), float: min_f, double: min_d, int64_t: min_i)(x, y)
#define v_max(x, y)          _Generic((x), float: max_f, double: max_d, int64_t: max_i)(x, y)
#define v_floor(x)           V1(x, floor_f, floor_d)
#define v_ceil(x)            V1(x, ceil_f, ceil_d)
#define v_trunc(x)           V1(x, trunc_f, trunc_d)
#define v_rint(x)            V1(x, rint_f, rint_d)
#define v_exp(x)             V1(x, exp_f, exp_d)
#define v_exp2(x)            V1(x, exp2_f, exp2)
#define v_expm1(x)           V1(x, expm1_f, expm1)
#define v_log(x)             V1(x, log_f, log_d)
#define v_log1p(x)           V1(x, log1p_f, log1p)
#define v_log2(x)            V1(x, log2_f, log2)
#define v_log10(x)           V1(x, log10_f, log10)
#define v_sin(x)             V1(x, sin_f, sin)
#define v_cos(x)             V1(x, cos_f, cos)
#define v_tan(x)             V1(x, tan_f, tan)
#define v_asin(x)            V1(x, asin_f, asin)
#define v_acos(x)            V1(x, acos_f, acos)
#define v_atan(x)            V1(x, atan_f, atan)
#define v_atan2(x, y)        V2(x, y, atan2_f, atan2)
#define v_sinh(x)            V1(x, sinh_f, sinh)
#define v_cosh(x)            V1(x, cosh_f, cosh)
#define v_tanh(x)            V1(x, tanh_f, tanh_d)
#define v_asinh(x)           V1(x, asinh_f, asinh)
#define v_acosh(x)           V1(x, acosh_f, acosh)
#define v_atanh(x)           V1(x, atanh_f, atanh)
#define v_sigmoid(x)         V1(x, sigmoid_f, sigmoid_d)
#define v_erf(x)             V1(x, erf_f, erf)
#define v_erfc(x)            V1(x, erfc_f, vm_erfc_d)
#define v_erfinv(x)          V1(x, erfinv_f, vm_erfinv)
#define v_pow(x, y)          V2(x, y, pow_f, pow)
#define v_hypot(x, y)        V2(x, y, hypot_f, hypot)
#define v_fmod(x, y)         V2(x, y, fmod_f, fmod)
#define v_nextafter(x, y)    V2(x, y, nextafter_f, nextafter)
#define v_gelu(x)            V1(x, gelu_f, gelu_d)
#define v_gelu_slope(x)      V1(x, gelu_slope_f, gelu_slope_d)
#define v_gelu_tanh(x)       V1(x, gelu_tanh_f, gelu_tanh_d)
#define v_silu(x)            V1(x, silu_f, silu_d)
#define v_mish(x)            V1(x, mish_f, mish_d)
#define v_logsigmoid(x)      V1(x, logsigmoid_f, logsigmoid_d)
#define v_logaddexp(x, y)    V2(x, y, logaddexp_f, logaddexp_d)
#define v_logaddexp2(x, y)   V2(x, y, logaddexp2_f, logaddexp2_d)
#define v_softplus(x, y, z)  _Generic((x), float: softplus_f, double: softplus_d)(x, y, z)
#define v_lgamma(x)          V1(x, lgamma_f, vm_lgamma_d)
#define v_digamma(x)         V1(x, digamma_f, vm_digamma)
#define v_trigamma(x)        V1(x, trigamma_f, vm_trigamma)
#define v_erfcx(x)           V1(x, erfcx_f, vm_erfcx)
#define v_zeta(x, y)         ((T)vm_zeta(x, y))
#define v_igamma(x, y)       ((T)vm_igamma(x, y))
#define v_igammac(x, y)      ((T)vm_igammac(x, y))
#define v_signbit(x)         V1(x, signbit_f, signbit_d)
#define v_remainder(x, y)    V2(x, y, remainder_f, remainder_d)
#define v_floor_divide(x, y) V2(x, y, floor_divide_f, floor_divide_d)
#define v_fmin(x, y)         V2(x, y, fmin_f, fmin_d)
#define v_fmax(x, y)         V2(x, y, fmax_f, fmax_d)
#define v_relu6(x)           v_min(v_max(x, (T)0), (T)6)
#define v_lerp(x, y, z)      _Generic((x), float: lerp_f, double: lerp_d)(x, y, z)
#define v_selu(x)            V1(x, selu_f, selu_d)

#endif
