/* weights.h: tensors of numbers that do not repeat, for the tests of loops. */
#ifndef BK_TESTS_WEIGHTS_H
#define BK_TESTS_WEIGHTS_H
#include "brisk.h"

#include <math.h>
#include <stdlib.h>

static inline bk_tensor *sample(int ndim, const int64_t *shape, bk_dtype dtype, int seed, double scale)
{
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    float *data = malloc((size_t)n * sizeof *data + 1);
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(sin((double)(i * 7 + seed * 131)) * scale);
    bk_tensor *t = bk_to(bk_from_data(data, ndim, shape, BK_FLOAT32), dtype);
    free(data);
    bk_sync();
    return t;
}

static inline double element(const bk_tensor *t, int64_t i)
{
    const void *data = bk_data((bk_tensor *)t);
    return bk_dtype_of(t) == BK_FLOAT64 ? ((const double *)data)[i] : ((const float *)data)[i];
}

/* Within so much of the largest element: sums over time have as many terms as there are steps and rows. */
static inline bool within(bk_tensor *a, bk_tensor *b, double epsilon64, double epsilon32)
{
    if (!a || !b || bk_numel(a) != bk_numel(b))
        return false;
    double largest = 0, apart = 0;
    for (int64_t i = 0; i < bk_numel(a); i++) {
        double x = element(a, i), y = element(b, i);
        largest = fabs(y) > largest ? fabs(y) : largest;
        apart = !(fabs(x - y) <= apart) ? fabs(x - y) : apart;
    }
    return apart <= (bk_dtype_of(a) == BK_FLOAT64 ? epsilon64 : epsilon32) * (largest + 1e-30);
}

#endif
