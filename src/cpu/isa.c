/* isa.c: the choice of the ISA level.
 *
 * Invariant: isa_current never names a level that was not built (HAVE_AVX2, HAVE_AVX512 from the build) or that the
 * processor or the system's saved register state lacks. */
#include "cpu/isa.h"
#include "brisk.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[ISA_COUNT] = { "baseline", "avx2", "avx512" };

const char *isa_name(isa_level level) { return names[level]; }

/* __builtin_cpu_supports looks at cpuid and at what the system saves (xgetbv). */
isa_level isa_highest(void)
{
    isa_level level = ISA_BASELINE;
#if defined(__x86_64__) && defined(HAVE_AVX2)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        level = ISA_AVX2; /* every processor with AVX2 has F16C */
#ifdef HAVE_AVX512
    if (level == ISA_AVX2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        level = ISA_AVX512;
#endif
#endif
    return level;
}

/* An unknown name allows everything. */
static isa_level allowed(void)
{
    const char *wanted = getenv("BRISK_ISA");
    for (int level = ISA_BASELINE; wanted && level < ISA_COUNT; level++)
        if (!strcmp(wanted, names[level]))
            return (isa_level)level;
    return ISA_AVX512;
}

isa_level isa_current(void)
{
    static atomic_int chosen; /* level + 1; two threads that race here choose the same */
    int level = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!level) {
        isa_level highest = isa_highest(), limit = allowed();
        level = (int)(highest < limit ? highest : limit) + 1;
        atomic_store_explicit(&chosen, level, memory_order_relaxed);
    }
    return (isa_level)(level - 1);
}

const char *bk_isa(void) { return isa_name(isa_current()); }
