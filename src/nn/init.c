/* init.c: initial values that need more than a draw. */
#include "core/error.h"
#include "core/memory.h"
#include "core/scope.h"
#include "core/tensor.h"

#include <math.h>

/* Orthonormal columns in the span of those of a (rows x columns, row-major, rows >= columns), each having a positive
 * product with the column it came from: the Q of a QR factorisation whose R has a positive diagonal. Each column is
 * freed of the earlier ones twice, which in double precision leaves nothing of them. */
static void orthonormalise(double *a, int64_t rows, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = 0; k < j; k++) {
                double dot = 0;
                for (int64_t i = 0; i < rows; i++)
                    dot += a[k * rows + i] * a[j * rows + i];
                for (int64_t i = 0; i < rows; i++)
                    a[j * rows + i] -= dot * a[k * rows + i];
            }
        double square = 0;
        for (int64_t i = 0; i < rows; i++)
            square += a[j * rows + i] * a[j * rows + i];
        double scale = square > 0 ? 1 / sqrt(square) : 0;
        for (int64_t i = 0; i < rows; i++)
            a[j * rows + i] *= scale;
    }
}

/* The numbers of t (rows x columns) made orthogonal along its shorter side, with `gain` applied. */
static bk_tensor *orthogonal(const bk_tensor *drawn, int64_t rows, int64_t columns, double gain)
{
    bool wide = rows < columns;
    int64_t lines = wide ? rows : columns, length = wide ? columns : rows;
    bk_tensor *lined = bk_contiguous(bk_to(wide ? drawn : bk_transpose(drawn, 0, 1), BK_FLOAT64)); /* lines x length */
    bk_tensor *copy = lined ? bk_clone(lined) : NULL;
    double *a = copy ? bk_data(copy) : NULL;
    if (!a)
        return NULL;
    orthonormalise(a, length, lines);
    bk_tensor *made = bk_mul_s(bk_from_data(a, 2, (int64_t[]){ lines, length }, BK_FLOAT64), gain);
    return wide ? made : bk_transpose(made, 0, 1);
}

int bk_orthogonal_(bk_tensor *t, double gain, bk_generator *g)
{
    if (!t)
        return -1;
    if (t->layout->ndim < 2)
        return error_int(BK_VALUE_ERROR, "Only tensors with 2 or more dimensions are supported");
    if (!t->layout->numel)
        return 0;
    int64_t rows = t->layout->sizes[0], columns = t->layout->numel / rows;
    bool before = bk_set_grad_enabled(false);
    bk_scope_push();
    bk_tensor *drawn = bk_empty(2, (int64_t[]){ rows, columns }, tensor_dtype(t));
    int status = drawn ? bk_normal_(drawn, 0, 1, g) : -1;
    bk_tensor *made = status == 0 ? orthogonal(drawn, rows, columns, gain) : NULL;
    made = bk_reshape(made, t->layout->ndim, t->layout->sizes);
    status = made ? bk_copy_(t, made) : -1;
    bk_scope_pop();
    bk_set_grad_enabled(before);
    return status;
}
