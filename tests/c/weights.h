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

#endif
