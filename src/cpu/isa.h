/* isa.h: which instruction sets the kernels may use on this machine. */
#ifndef BK_CPU_ISA_H
#define BK_CPU_ISA_H

typedef enum isa_level { ISA_BASELINE, ISA_AVX2, ISA_AVX512, ISA_COUNT } isa_level;

/* The highest level that was built, that the processor has and that BRISK_ISA=baseline|avx2|avx512 allows (it lowers
 * the level, never raises it). Decided at the first call; the same for the life of the process. */
isa_level isa_current(void);
/* The highest level that was built and that the processor has, whatever BRISK_ISA says. */
isa_level isa_highest(void);
const char *isa_name(isa_level level);

#endif
