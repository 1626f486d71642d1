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

/* --- by the number of inputs and outputs
 * ------------------------------------------------------------------------------
 */

/* A weight is (outputs, inputs, places of a kernel...). 0, or -1 with the error set. */
static int fans(const bk_tensor *t, double *in, double *out)
{
    if (!t)
        return -1;
    const layout *l = t->layout;
    if (l->ndim < 2)
        return error_int(BK_VALUE_ERROR,
                         "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
    double places = 1;
    for (int d = 2; d < l->ndim; d++)
        places *= (double)l->sizes[d];
    *in = (double)l->sizes[1] * places;
    *out = (double)l->sizes[0] * places;
    return 0;
}

static int fill_untaped(bk_tensor *t, bool normal, double size, bk_generator *g)
{
    bool before = bk_set_grad_enabled(false);
    int status = normal ? bk_normal_(t, 0, size, g) : bk_uniform_(t, -size, size, g);
    bk_set_grad_enabled(before);
    return status;
}

static int xavier(bk_tensor *t, double gain, bool normal, bk_generator *g)
{
    double in = 1, out = 1;
    if (fans(t, &in, &out) < 0)
        return -1;
    double deviation = gain * sqrt(2 / (in + out));
    return fill_untaped(t, normal, normal ? deviation : sqrt(3) * deviation, g);
}

static int kaiming(bk_tensor *t, double gain, bool fan_out, bool normal, bk_generator *g)
{
    double in = 1, out = 1;
    if (fans(t, &in, &out) < 0)
        return -1;
    double deviation = gain / sqrt(fan_out ? out : in);
    return fill_untaped(t, normal, normal ? deviation : sqrt(3) * deviation, g);
}

int bk_xavier_uniform_(bk_tensor *t, double gain, bk_generator *g) { return xavier(t, gain, false, g); }
int bk_xavier_normal_(bk_tensor *t, double gain, bk_generator *g) { return xavier(t, gain, true, g); }
int bk_kaiming_uniform_(bk_tensor *t, double gain, bool fan_out, bk_generator *g)
{
    return kaiming(t, gain, fan_out, false, g);
}
int bk_kaiming_normal_(bk_tensor *t, double gain, bool fan_out, bk_generator *g)
{
    return kaiming(t, gain, fan_out, true, g);
}
