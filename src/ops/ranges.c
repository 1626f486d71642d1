/* ranges.c: sequences of numbers, the identity, and grids.
 *
 * Values are those of PyTorch to the bit: which type a step is computed in, and from which end, is part of the rule.
 * They are written at once, into memory of their own. */
#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/create.h"
#include "ops/numbers.h"

static storage *sequence_storage(int64_t count, bk_dtype dtype, const layout **l)
{
    *l = checked_layout(1, &count);
    return *l ? storage_new((size_t)count * dtype_size(dtype)) : NULL;
}

static int refuse_bool(bk_dtype dtype, const char *kernel)
{
    if (dtype != BK_BOOL)
        return 0;
    return error_int(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", kernel);
}

/* --- arange -------------------------------------------------------------------------------------------------- */

static void store_ints(bk_dtype dtype, char *to, int64_t count, int64_t start, int64_t step)
{
    if (dtype == BK_INT64)
        for (int64_t i = 0; i < count; i++)
            ((int64_t *)to)[i] = (int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)step);
    else
        for (int64_t i = 0; i < count; i++)
            dtype_store_int(dtype, to + i * (int64_t)dtype_size(dtype), start + i * step);
}

/* In double whatever the dtype; each number is rounded once. */
static void store_floats(bk_dtype dtype, char *to, int64_t count, double start, double step)
{
    if (dtype == BK_FLOAT32)
        for (int64_t i = 0; i < count; i++)
            ((float *)to)[i] = (float)(start + (double)i * step);
    else
        for (int64_t i = 0; i < count; i++)
            dtype_store_double(dtype, to + i * (int64_t)dtype_size(dtype), fma((double)i, step, start));
}

static int check_range(double start, double end, double step)
{
    if (!(step < 0 || step > 0))
        return error_int(BK_RUNTIME_ERROR, "step must be nonzero");
    if (!isfinite(start) || !isfinite(end))
        return error_int(BK_RUNTIME_ERROR, "unsupported range: %g -> %g", start, end);
    if (!(step > 0 ? end >= start : end <= start))
        return error_int(BK_RUNTIME_ERROR, "upper bound and lower bound inconsistent with step sign");
    return 0;
}

static bk_tensor *arange_of_ints(int64_t count, int64_t start, int64_t step, bk_dtype dtype)
{
    lock_take();
    const layout *l;
    storage *s = sequence_storage(count, dtype, &l);
    if (s)
        store_ints(dtype, s->data, count, start, step);
    bk_tensor *t = tensor_adopt(s, l, dtype);
    lock_give();
    return t;
}

static bk_tensor *arange_of_floats(double count, double start, double step, bk_dtype dtype)
{
    if (!(count <= 0x1p62))
        return error_null(BK_RUNTIME_ERROR, "invalid size, possible overflow?");
    lock_take();
    const layout *l;
    storage *s = sequence_storage((int64_t)count, dtype, &l);
    if (s)
        store_floats(dtype, s->data, l->numel, start, step);
    bk_tensor *t = tensor_adopt(s, l, dtype);
    lock_give();
    return t;
}

bk_tensor *bk_arange_int(int64_t start, int64_t end, int64_t step, bk_dtype dtype)
{
    if (refuse_bool(dtype, "arange_cpu") < 0 || check_range((double)start, (double)end, (double)step) < 0)
        return NULL;
    uint64_t distance = step > 0 ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
    uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step, count = distance / stride + (distance % stride != 0);
    if (count > INT64_MAX)
        return error_null(BK_RUNTIME_ERROR, "invalid size, possible overflow?");
    if (dtype_is_float(dtype))
        return arange_of_floats((double)count, (double)start, (double)step, dtype);
    return arange_of_ints((int64_t)count, start, step, dtype);
}

bk_tensor *bk_arange(double start, double end, double step, bk_dtype dtype)
{
    if (refuse_bool(dtype, "arange_cpu") < 0 || check_range(start, end, step) < 0)
        return NULL;
    double count = ceil((end - start) / step);
    if (dtype_is_float(dtype))
        return arange_of_floats(count, start, step, dtype);
    if ((int64_t)step == 0)
        return error_null(BK_VALUE_ERROR, "step must be nonzero");
    if (dtype == BK_INT64) /* the bounds are cut off first, then counted */
        return bk_arange_int((int64_t)start, (int64_t)end, (int64_t)step, dtype);
    return arange_of_ints((int64_t)count, (int64_t)start, (int64_t)step, dtype);
}

bk_tensor *bk_range(double start, double end, double step, bk_dtype dtype)
{
    if (refuse_bool(dtype, "range_cpu") < 0 || check_range(start, end, step) < 0)
        return NULL;
    double count = floor((end - start) / step) + 1;
    if (dtype_is_float(dtype))
        return arange_of_floats(count, start, step, dtype);
    return arange_of_ints((int64_t)count, (int64_t)start, (int64_t)step, dtype);
}

/* --- linspace, logspace -------------------------------------------------------------------------------------- */

/* Number i of linspace, counted from the nearer end, in the dtype's own arithmetic (the halves compute in float). */
static double linear_double(double start, double end, int64_t steps, int64_t i)
{
    double step = (end - start) / (double)(steps - 1);
    return i < steps / 2 ? fma(step, (double)i, start) : fma(-step, (double)(steps - i - 1), end);
}

static double linear_float(float start, float end, int64_t steps, int64_t i)
{
    float step = (end - start) / (float)(steps - 1);
    return i < steps / 2 ? fmaf(step, (float)i, start) : fmaf(-step, (float)(steps - i - 1), end);
}

static double in_dtype(bk_dtype dtype, double x)
{
    double bits;
    dtype_store_double(dtype, &bits, x);
    return dtype_load_double(dtype, &bits);
}

/* A half dtype rounds the step, and the product, to itself. */
static double linear_half(bk_dtype dtype, double start, double end, int64_t steps, int64_t i)
{
    double range = in_dtype(dtype, end - start);
    double step = in_dtype(dtype, (float)range / (float)in_dtype(dtype, (double)(steps - 1)));
    double product = in_dtype(dtype, step * in_dtype(dtype, (double)(i < steps / 2 ? i : steps - i - 1)));
    return i < steps / 2 ? start + product : end - product;
}

static double linear(bk_dtype dtype, double start, double end, int64_t steps, int64_t i)
{
    if (dtype == BK_FLOAT32)
        return linear_float((float)start, (float)end, steps, i);
    return dtype_size(dtype) == 2 && dtype_is_float(dtype) ? linear_half(dtype, start, end, steps, i)
                                                           : linear_double(start, end, steps, i);
}

static bk_tensor *spaced(double start, double end, int64_t steps, const double *base, bk_dtype dtype)
{
    if (steps < 0)
        return error_null(BK_RUNTIME_ERROR, "number of steps must be non-negative");
    if (steps && refuse_bool(dtype, base ? "logspace_cpu" : "linspace_cpu") < 0)
        return NULL;
    if (number_check(number_float(start), dtype) < 0 || number_check(number_float(end), dtype) < 0)
        return NULL;
    start = in_dtype(dtype, start);
    end = in_dtype(dtype, end);
    lock_take();
    const layout *l;
    storage *s = sequence_storage(steps, dtype, &l);
    for (int64_t i = 0; s && i < steps; i++) {
        double x = steps == 1 ? start : linear(dtype, start, end, steps, i);
        if (base)
            x = dtype == BK_FLOAT32 ? powf((float)*base, (float)x) : pow(*base, x);
        dtype_store_double(dtype, s->data + i * (int64_t)dtype_size(dtype), x);
    }
    bk_tensor *t = tensor_adopt(s, l, dtype);
    lock_give();
    return t;
}

bk_tensor *bk_linspace(double start, double end, int64_t steps, bk_dtype dtype)
{
    return spaced(start, end, steps, NULL, dtype);
}

bk_tensor *bk_logspace(double start, double end, int64_t steps, double base, bk_dtype dtype)
{
    return spaced(start, end, steps, &base, dtype);
}

/* --- eye ------------------------------------------------------------------------------------------------------ */

bk_tensor *bk_eye(int64_t rows, int64_t columns, bk_dtype dtype)
{
    if (rows < 0 || columns < 0)
        return error_null(BK_RUNTIME_ERROR, "%s must be greater or equal to 0, got %lld", rows < 0 ? "n" : "m",
                          (long long)(rows < 0 ? rows : columns));
    lock_take();
    const layout *l = layout_get(2, (int64_t[]){ rows, columns }, NULL);
    storage *s = l ? storage_new((size_t)l->numel * dtype_size(dtype)) : NULL;
    if (s) {
        memset(s->data, 0, s->bytes);
        for (int64_t i = 0; i < rows && i < columns; i++)
            dtype_store_int(dtype, s->data + i * (columns + 1) * (int64_t)dtype_size(dtype), 1);
    }
    bk_tensor *t = tensor_adopt(s, l, dtype);
    lock_give();
    return t;
}

/* --- meshgrid ------------------------------------------------------------------------------------------------- */

static int check_axes(bk_tensor *const *tensors, int count)
{
    char text[200];
    for (int k = 0; k < count; k++) {
        if (!tensors[k])
            return -1;
        if (tensor_dtype(tensors[k]) != tensor_dtype(tensors[0]))
            return error_int(BK_RUNTIME_ERROR, "meshgrid expects all tensors to have the same dtype");
        if (tensors[k]->layout->ndim > 1)
            return error_int(BK_RUNTIME_ERROR,
                             "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: shape %s",
                             layout_text(tensors[k]->layout, text));
    }
    if (count > BK_MAX_NDIM)
        return error_int(BK_RUNTIME_ERROR, "brisk tensors have at most %d dimensions", BK_MAX_NDIM);
    return 0;
}

/* Tensor k seen along dimension `dim` of the grid. */
static bk_tensor *along(const bk_tensor *t, int count, int dim, const int64_t *sizes)
{
    int64_t thin[BK_MAX_NDIM];
    for (int d = 0; d < count; d++)
        thin[d] = d == dim ? sizes[d] : 1;
    bk_scope_push();
    return scope_return(bk_expand(bk_view(t, count, thin), count, sizes));
}

int bk_meshgrid(bk_tensor *const *tensors, int count, bool xy, bk_tensor **out)
{
    if (count < 1)
        return error_int(BK_RUNTIME_ERROR, "meshgrid expects a non-empty TensorList");
    if (check_axes(tensors, count) < 0)
        return -1;
    int64_t sizes[BK_MAX_NDIM];
    bool swap = xy && count > 1;
    for (int k = 0; k < count; k++)
        sizes[swap && k < 2 ? 1 - k : k] = tensors[k]->layout->numel;
    for (int k = 0; k < count; k++) {
        out[k] = along(tensors[k], count, swap && k < 2 ? 1 - k : k, sizes);
        if (!out[k]) {
            while (k-- > 0)
                scope_drop(out[k]);
            return -1;
        }
    }
    return 0;
}
