/* normalise.c: softmax and its logarithm. */
#include "core/error.h"
#include "core/lock.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"

static bk_tensor *normalised(int op, const bk_tensor *t, int at, const char *kernel)
{
    if (!t)
        return NULL;
    bk_dtype dtype = tensor_dtype(t);
    int dim = layout_dim(t->layout, at);
    if (dim < 0)
        return NULL;
    if (!dtype_is_float(dtype) && !t->layout->numel)
        return bk_zeros(t->layout->ndim, t->layout->sizes, dtype); /* of any dtype */
    if (!dtype_is_float(dtype))
        return error_null(BK_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, dtypes[dtype].type_name);
    lock_take();
    operand in;
    bk_tensor *r = NULL;
    if (tensor_read(t, &in))
        r = record_one(op, in, dtype, t->layout->plain, (attr){ .reduce = { .dims = 1u << dim } });
    lock_give();
    return r;
}

bk_tensor *bk_softmax(const bk_tensor *t, int dim) { return normalised(OP_softmax, t, dim, "softmax_kernel_impl"); }

bk_tensor *bk_log_softmax(const bk_tensor *t, int dim)
{
    return normalised(OP_log_softmax, t, dim, "log_softmax_kernel_impl");
}
