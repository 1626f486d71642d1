/* turn.c: the choice of the transposing copies by instruction set. */
#include "cpu/turn.h"
#include "cpu/isa.h"

const turn_kernels *turn_current(void)
{
#if defined(__x86_64__)
    static const turn_kernels *const levels[] = {
        [ISA_BASELINE] = &turn_kernels_baseline,
        [ISA_AVX2] = &turn_kernels_avx2,
        [ISA_AVX512] = &turn_kernels_avx512,
    };
    return levels[isa_current()];
#else
    return &turn_kernels_baseline;
#endif
}
