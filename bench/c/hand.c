/* hand.c: (x * y + z)^2 and what follows, in one loop; compiled once per ISA level with the flags of our own kernels.
 */
#include "hand.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

void JOIN(hand_, ISA_NAME)(int64_t n, const float *restrict x, const float *restrict y, const float *restrict z,
                           float *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        float t = x[i] * y[i] + z[i];
        out[i] = 1 / (1 + t * t) * x[i] - y[i];
    }
}
