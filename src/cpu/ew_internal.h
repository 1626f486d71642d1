/* ew_internal.h: what the kernel files of one ISA level share. */
#ifndef BK_CPU_EW_INTERNAL_H
#define BK_CPU_EW_INTERNAL_H
#include "cpu/ew.h"

#ifndef ISA_NAME
#error "the build compiles kernel files once per ISA level, with -DISA_NAME=baseline|avx2|avx512"
#endif

/* Before a loop over elements: an array may be the same as another, but no iteration touches what another does. */
#ifdef __clang__
#define EW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* loops around libm calls stay scalar */
#else
#define EW_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* cast_FLOAT32_INT64_avx2 and the like */
#define EW_PASTE_2(a, b, c, d) a##b##_##c##_##d
#define EW_PASTE(a, b, c, d)   EW_PASTE_2(a, b, c, d)
#define EW_CAST_NAME(from, to) EW_PASTE(cast_, from, to, ISA_NAME)
#define EW_ROUND_NAME(to)      EW_PASTE(round_, to, of, ISA_NAME)

/* clang-format off */
#define EW_EACH_TO(M, from)                                                                                            \
    M(from, FLOAT32) M(from, FLOAT64) M(from, FLOAT16) M(from, BFLOAT16) M(from, INT64)                                \
    M(from, INT32) M(from, INT16) M(from, INT8) M(from, UINT8) M(from, BOOL)
#define EW_EACH_CAST(M)                                                                                                \
    EW_EACH_TO(M, FLOAT32) EW_EACH_TO(M, FLOAT64) EW_EACH_TO(M, FLOAT16) EW_EACH_TO(M, BFLOAT16) EW_EACH_TO(M, INT64)  \
    EW_EACH_TO(M, INT32) EW_EACH_TO(M, INT16) EW_EACH_TO(M, INT8) EW_EACH_TO(M, UINT8) EW_EACH_TO(M, BOOL)
/* clang-format on */
/* the dtypes that their compute type does not hold as they are */
#define EW_EACH_ROUND(M) M(FLOAT16) M(BFLOAT16) M(INT32) M(INT16) M(INT8) M(UINT8)

#define EW_DECLARE_CAST(from, to)                                                                                      \
    void EW_CAST_NAME(from, to)(int64_t n, void *out, const void *x, const void *y, const void *z);
#define EW_DECLARE_ROUND(to) void EW_ROUND_NAME(to)(int64_t n, void *out, const void *x, const void *y, const void *z);
EW_EACH_CAST(EW_DECLARE_CAST)
EW_EACH_ROUND(EW_DECLARE_ROUND)

#endif
