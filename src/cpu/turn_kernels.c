/* turn_kernels.c: the transposing copies of one instruction set, compiled once per level with ISA_NAME set to it. */
#include "cpu/turn.h"
#include "cpu/turn_stages.h"
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define JOIN_(a, b)   a##b
#define JOIN(a, b)    JOIN_(a, b)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES   64
#define STREAM(to, v)  _mm512_stream_si512((void *)(to), (__m512i)(v))
#define STREAM_FENCE() _mm_sfence()
#elif defined(__AVX2__)
#define VECTOR_BYTES   32
#define STREAM(to, v)  _mm256_stream_si256((void *)(to), (__m256i)(v))
#define STREAM_FENCE() _mm_sfence()
#else
#define VECTOR_BYTES 16
#if defined(__x86_64__)
#define STREAM(to, v)  _mm_stream_si128((void *)(to), (__m128i)(v))
#define STREAM_FENCE() _mm_sfence()
#else
#define STREAM(to, v)  memcpy((to), &(v), sizeof(v))
#define STREAM_FENCE() (void)0
#endif
#endif

#define ELEM    uint32_t
#define NAME(x) x##_words
#if VECTOR_BYTES == 64
#define STAGES STAGES_16
#elif VECTOR_BYTES == 32
#define STAGES STAGES_8
#else
#define STAGES STAGES_4
#endif
#include "cpu/turn_squares.h"

#define ELEM    uint64_t
#define NAME(x) x##_longs
#if VECTOR_BYTES == 64
#define STAGES STAGES_8
#elif VECTOR_BYTES == 32
#define STAGES STAGES_4
#else
#define STAGES STAGES_2
#endif
#include "cpu/turn_squares.h"

const turn_kernels JOIN(turn_kernels_, ISA_NAME) = {
    .words = turn_words,
    .longs = turn_longs,
    .stream_words = stream_words,
    .stream_longs = stream_longs,
};
