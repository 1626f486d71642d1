/* hand.h: the loop that a fused chain is compared with, as one would write it by hand, at each ISA level. */
#ifndef BENCH_HAND_H
#define BENCH_HAND_H
#include <stdint.h>

typedef void (*hand_fn)(int64_t n, const float *x, const float *y, const float *z, float *out);

void hand_baseline(int64_t n, const float *x, const float *y, const float *z, float *out);
void hand_avx2(int64_t n, const float *x, const float *y, const float *z, float *out);
void hand_avx512(int64_t n, const float *x, const float *y, const float *z, float *out);

#endif
