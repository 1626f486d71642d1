/* gemm_kernels.c: the micro-kernels of one instruction set, compiled once per level with ISA_NAME set to it.
 *
 * A panel is two vectors wide at every level. The tile takes as many rows as leaves registers for one row of the
 * panel and a broadcast: 14 of 32 registers' worth with AVX-512, 6 with AVX2 and 4 with SSE2. Fewer rows than 8
 * accumulators' worth would wait for the adder, so they take several panels at once (1x64 floats with AVX2).
 * Contraction to fused multiply-adds is wanted here, and here alone: compile with -ffp-contract=fast. */
#include "cpu/gemm_kernels.h"
#include "core/memory.h"
#include "cpu/turn_stages.h"
#include <string.h>

#define VECTORS_PER_LINE (64 / VECTOR_BYTES)
#define JOIN_(a, b)      a##b
#define JOIN(a, b)       JOIN_(a, b)
#define ALWAYS_INLINE    static inline __attribute__((always_inline))
#define HIDE(x)          __asm__("" : "+r"(x)) /* the compiler forgets how x was computed */
#ifdef MEM_ASAN                                /* which checks every load: unrolled, that takes the compiler minutes */
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_ROWS    14
#define SPEED        1.0
#define PIN(v)       __asm__ volatile("" : "+v"(v))
/* sum += left * right, of vectors and of an element in memory; gcc would let the sums change registers, and run out. */
#define ADD_PRODUCT_F32(sum, left, right) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left))
#define ADD_PRODUCT_F64(sum, left, right) __asm__ volatile("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left))
#define ADD_SCALED_F32(sum, left, right)                                                                               \
    __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(right), "m"(left))
#define ADD_SCALED_F64(sum, left, right)                                                                               \
    __asm__ volatile("vfmadd231pd %2%{1to8%}, %1, %0" : "+v"(sum) : "v"(right), "m"(left))
/* clang-format off */
#define TILES                                                                                                          \
    TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1) TILE(7, 1)                                       \
    TILE(8, 1) TILE(9, 1) TILE(10, 1) TILE(11, 1) TILE(12, 1) TILE(13, 1) TILE(14, 1)
/* clang-format on */
#define WIDE_TILES WIDE_TILE(1, 4) WIDE_TILE(2, 4) WIDE_TILE(3, 4) WIDE_TILE(4, 2) WIDE_TILE(5, 2) WIDE_TILE(6, 2)
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#define TILE_ROWS    6
#define SPEED        0.6
#define PIN(v)       __asm__("" : "+x"(v))
#define TILES        TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
#define WIDE_TILES   WIDE_TILE(1, 4) WIDE_TILE(2, 2) WIDE_TILE(3, 2)
#else
#define VECTOR_BYTES 16
#define TILE_ROWS    4
#define SPEED        0.15
#define PIN(v)       (void)(v)
#define TILES        TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1)
#define WIDE_TILES   WIDE_TILE(1, 4) WIDE_TILE(2, 2)
#endif

#define ADD_PLAIN(sum, left, right) (sum) += (left) * (right)
#ifndef ADD_PRODUCT_F32
#define ADD_PRODUCT_F32 ADD_PLAIN
#define ADD_PRODUCT_F64 ADD_PLAIN
#define ADD_SCALED_F32  ADD_PLAIN
#define ADD_SCALED_F64  ADD_PLAIN
#endif
#define PAIR_TILES   PAIR_TILE(1, 2) /* a row of half as many columns as the wide tile: what a core is left with */
#define TURNED_TILES TURNED_TILE(1) TURNED_TILE(2) TURNED_TILE(3) TURNED_TILE(4)
#if VECTOR_BYTES == 64
#define STAGES_WORDS STAGES_16
#define STAGES_LONGS STAGES_8
#elif VECTOR_BYTES == 32
#define STAGES_WORDS STAGES_8
#define STAGES_LONGS STAGES_4
#else
#define STAGES_WORDS STAGES_4
#define STAGES_LONGS STAGES_2
#endif

#define ELEM         float
#define STAGES       STAGES_WORDS
#define NAME(x)      x##_f32
#define LEAN_TILES   1
#define ADD_PRODUCT  ADD_PRODUCT_F32
#define ADD_SCALED   ADD_SCALED_F32
#define FLOPS_PER_NS (120 * SPEED)
#include "cpu/gemm_micro.h"

#define ELEM         double
#define STAGES       STAGES_LONGS
#define NAME(x)      x##_f64
#define LEAN_TILES   1
#define ADD_PRODUCT  ADD_PRODUCT_F64
#define ADD_SCALED   ADD_SCALED_F64
#define FLOPS_PER_NS (60 * SPEED)
#include "cpu/gemm_micro.h"

#define ELEM         uint64_t /* the arithmetic of int64, with defined overflow */
#define STAGES       STAGES_LONGS
#define NAME(x)      x##_i64
#define LEAN_TILES   0 /* a multiplication is several instructions, whatever is saved around it */
#define FLOPS_PER_NS (10 * SPEED)
#include "cpu/gemm_micro.h"

const gemm_kernels *const JOIN(gemm_kernels_, ISA_NAME)[GEMM_TYPES] = {
    [GEMM_F32] = &table_f32,
    [GEMM_F64] = &table_f64,
    [GEMM_I64] = &table_i64,
};
