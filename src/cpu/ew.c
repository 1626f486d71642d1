/* ew.c: the rows of ops.def as data, and the kernel table of the current ISA level. */
#include "cpu/ew.h"

enum { TYPES_F = 1, TYPES_I = 2, TYPES_B = 4, TYPES_FI = 3, TYPES_IB = 6, TYPES_FIB = 7 };

#define UNARY(name, rule, types, f, i, b, lo, hi, gx)      { #name, 1, EW_##rule, TYPES_##types, lo, hi, { #gx } },
#define BINARY(name, rule, types, f, i, b, lo, hi, gx, gy) { #name, 2, EW_##rule, TYPES_##types, lo, hi, { #gx, #gy } },
#define TERNARY(name, rule, types, f, i, b, lo, hi, gx, gy, gz)                                                        \
    { #name, 3, EW_##rule, TYPES_##types, lo, hi, { #gx, #gy, #gz } },

const ew_info ew_infos[EW_COUNT] = {
#include "brisk/ops.def"
};

const ew_table *ew_table_of(isa_level level)
{
    static const ew_table *const tables[ISA_COUNT] = {
        [ISA_BASELINE] = &ew_table_baseline,
#ifdef HAVE_AVX2
        [ISA_AVX2] = &ew_table_avx2,
#endif
#ifdef HAVE_AVX512
        [ISA_AVX512] = &ew_table_avx512,
#endif
    };
    return tables[level];
}

const ew_table *ew_kernels(void) { return ew_table_of(isa_current()); }
