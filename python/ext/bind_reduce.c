/* bind_reduce.c: reductions and scans. */
#include <math.h>
#include <string.h>

#include "autograd/composed.h"
#include "binds.h"
#include "core/scope.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "return_types.h"

enum { BOTH = AS_FUNCTION | AS_METHOD };

/* --- shared ----------------------------------------------------------------------------------------------------------
 */

typedef bk_tensor *(*reduce_fn)(const bk_tensor *t, uint32_t dims, bool keepdim);

/* None, an int or several as a mask; false with the exception set. */
static bool dims_of(const arg *self, const arg *dim, uint32_t *mask)
{
    *mask = 0;
    if (!dim->given)
        return true;
    if (bk_dims_mask(self->tensor, dim->ints.n, dim->ints.v, mask) == 0)
        return true;
    py_raise();
    return false;
}

/* What was computed of t since `start`, in another dtype: the cast is no function to PyTorch. */
static bk_tensor *without_cast(bk_tensor *r, const bk_tensor *t, uint64_t start)
{
    static int row;
    return composed_as(r, "_as_dtype", &row, start, &t, 1);
}

/* dtype= casts the operand before the op and the result after it. */
static bk_tensor *reduced(reduce_fn fn, const bk_tensor *t, uint32_t mask, bool keepdim, const arg *dtype)
{
    if (!dtype->given)
        return fn(t, mask, keepdim);
    uint64_t start = next_sequence;
    bk_scope_push();
    return scope_return(without_cast(bk_to(fn(bk_to(t, dtype->dtype), mask, keepdim), dtype->dtype), t, start));
}

static const arg absent = { 0 };

/* The dtype that was asked for, or out's. */
static arg dtype_of_out(const arg *dtype, const arg *out)
{
    return dtype->given || !out->given ? *dtype : (arg){ .given = true, .dtype = tensor_dtype(out->tensor) };
}

/* a: self, dim, keepdim, out */
static PyObject *by_dims(reduce_fn fn, const arg *a)
{
    uint32_t mask;
    return dims_of(&a[0], &a[1], &mask) ? py_out(fn(a[0].tensor, mask, a[2].b), &a[3]) : NULL;
}

/* a: self, dim, keepdim, dtype, out */
static PyObject *by_dims_as(reduce_fn fn, const arg *a)
{
    uint32_t mask;
    return dims_of(&a[0], &a[1], &mask) ? py_out(reduced(fn, a[0].tensor, mask, a[2].b, &a[3]), &a[4]) : NULL;
}

/* The same of a function that PyTorch has another name for where dimensions may be named, also if none is. */
static PyObject *over_dims(reduce_fn fn, const arg *a, const char *name, int *row)
{
    uint32_t mask;
    if (!dims_of(&a[0], &a[1], &mask))
        return NULL;
    const bk_tensor *t = a[0].tensor;
    const uint64_t start = next_sequence;
    bk_tensor *r = reduced(fn, t, mask, a[2].b, &a[3]);
    return py_out(mask ? r : composed_as(r, name, row, start, &t, 1), &a[4]);
}

/* The same where the sums are computed in out's dtype. */
static PyObject *by_dims_in(reduce_fn fn, const arg *a)
{
    arg dtype = dtype_of_out(&a[3], &a[4]);
    return by_dims_as(fn, (const arg[]){ a[0], a[1], a[2], dtype, a[4] });
}

/* a: self, dtype */
static PyObject *whole_as(reduce_fn fn, const arg *a) { return py_wrap(reduced(fn, a[0].tensor, 0, false, &a[1])); }

/* --- sums ------------------------------------------------------------------------------------------------------------
 */

static PyObject *py_sum(const arg *a) { return whole_as(bk_sum, a); }
static PyObject *py_sum_dim(const arg *a)
{
    static int row;
    const arg dtype = dtype_of_out(&a[3], &a[4]);
    return over_dims(bk_sum, (const arg[]){ a[0], a[1], a[2], dtype, a[4] }, "_sum_dim", &row);
}
static PyObject *py_nansum(const arg *a) { return by_dims_in(bk_nansum, a); }
static PyObject *py_mean(const arg *a) { return py_out(reduced(bk_mean, a[0].tensor, 0, false, &a[1]), &a[2]); }
static PyObject *py_mean_dim(const arg *a)
{
    static int row;
    return over_dims(bk_mean, a, "_mean_dim", &row);
}
/* As PyTorch has it with a dtype: the sum is in it, and is one function with the cast. */
static bk_tensor *nanmean_as(const bk_tensor *t, uint32_t mask, bool keepdim, const arg *dtype)
{
    static int row;
    bk_scope_push();
    bk_tensor *count = bk_sum(bk_logical_not(bk_isnan(t)), mask, keepdim);
    uint64_t start = next_sequence;
    bk_tensor *total = composed_as(reduced(bk_nansum, t, mask, keepdim, dtype), "nansum", &row, start, &t, 1);
    return scope_return(bk_div(total, count));
}
static PyObject *py_nanmean(const arg *a)
{
    uint32_t mask;
    if (!a[3].given || !dtype_is_float(tensor_dtype(a[0].tensor)) || !dtype_is_float(a[3].dtype))
        return by_dims_as(bk_nanmean, a);
    return dims_of(&a[0], &a[1], &mask) ? py_out(nanmean_as(a[0].tensor, mask, a[2].b, &a[3]), &a[4]) : NULL;
}
static PyObject *py_prod(const arg *a) { return whole_as(bk_prod, a); }
static PyObject *py_logsumexp(const arg *a) { return by_dims(bk_logsumexp, a); }
static PyObject *py_any(const arg *a) { return by_dims(bk_any, a); }
static PyObject *py_all(const arg *a) { return by_dims(bk_all, a); }
static PyObject *py_amax(const arg *a) { return by_dims(bk_amax, a); }
static PyObject *py_amin(const arg *a) { return by_dims(bk_amin, a); }

/* One int as a mask. */
static bool dim_of(const arg *self, const arg *dim, uint32_t *mask)
{
    arg one = { .given = dim->given, .ints = { 1, { dim->i } } };
    return dims_of(self, &one, mask);
}

static PyObject *py_prod_dim(const arg *a)
{
    static int row;
    const arg dtype = dtype_of_out(&a[3], &a[4]), dims = { .given = a[1].given, .ints = { 1, { a[1].i } } };
    return over_dims(bk_prod, (const arg[]){ a[0], dims, a[2], dtype, a[4] }, "_prod_dim", &row);
}

/* The dtype is refused before the dimension is looked at. */
static PyObject *place_of(reduce_fn fn, const arg *a)
{
    uint32_t mask = 0;
    bool refused = tensor_dtype(a[0].tensor) == BK_BOOL;
    return refused || dim_of(&a[0], &a[1], &mask) ? py_out(fn(a[0].tensor, mask, a[2].b), &a[3]) : NULL;
}

static PyObject *py_argmax(const arg *a) { return place_of(bk_argmax, a); }
static PyObject *py_argmin(const arg *a) { return place_of(bk_argmin, a); }

static PyObject *py_count_nonzero(const arg *a)
{
    uint32_t mask;
    return dims_of(&a[0], &a[1], &mask) ? py_wrap(bk_count_nonzero(a[0].tensor, mask)) : NULL;
}

/* --- moments
 * ----------------------------------------------------------------------------------------------------------- */

typedef bk_tensor *(*spread_fn)(const bk_tensor *t, uint32_t dims, double correction, bool keepdim);

/* A spread over no more elements than are taken off for the mean is infinite or NaN: PyTorch says so. False raises. */
static bool warn_of_freedom(const char *name, const bk_tensor *t, const bk_tensor *spread, double correction)
{
    int64_t results = spread->layout->numel;
    double over = results ? (double)(t->layout->numel / results) : 0;
    return over - correction > 0 ||
           PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "%s(): degrees of freedom is <= 0. Correction should be strictly less than the reduction "
                            "factor (input numel divided by output numel).",
                            name) == 0;
}

/* NULL with an exception set. */
static bk_tensor *spread_of(spread_fn fn, const char *name, const bk_tensor *t, uint32_t mask, double correction,
                            bool keepdim)
{
    bk_tensor *spread = fn(t, mask, correction, keepdim);
    if (!spread)
        return py_raise(), NULL;
    if (warn_of_freedom(name, t, spread, correction))
        return spread;
    bk_release(spread);
    return NULL;
}

/* self and dim, then keepdim and out */
static PyObject *spread(spread_fn fn, const char *name, const arg *a, double correction, const arg *rest)
{
    uint32_t mask;
    bk_tensor *t = dims_of(&a[0], &a[1], &mask) ? spread_of(fn, name, a[0].tensor, mask, correction, rest[0].b) : NULL;
    return t ? py_out(t, &rest[1]) : NULL;
}

/* a: self, unbiased */
static PyObject *spread_whole(spread_fn fn, const char *name, const arg *a)
{
    return spread(fn, name, (const arg[]){ a[0], absent }, a[1].b, (const arg[]){ absent, absent });
}

static double correction_of(const arg *a) { return a->given ? a->scalar.d : 1; }

static PyObject *spread_and_mean(spread_fn fn, const char *name, const arg *a, double correction)
{
    uint32_t mask;
    if (!dims_of(&a[0], &a[1], &mask))
        return NULL;
    bk_tensor *spread = spread_of(fn, name, a[0].tensor, mask, correction, a[3].b);
    return spread ? py_tuple_two(spread, bk_mean(a[0].tensor, mask, a[3].b)) : NULL;
}

/* (self, unbiased), (self, dim, unbiased, keepdim, out) and (self, dim, correction, keepdim, out) */
#define SPREAD(name, fn)                                                                                               \
    static PyObject *py_##name(const arg *a) { return spread_whole(fn, #name, a); }                                    \
    static PyObject *py_##name##_unbiased(const arg *a) { return spread(fn, #name, a, a[2].b, a + 3); }                \
    static PyObject *py_##name##_corrected(const arg *a) { return spread(fn, #name, a, correction_of(&a[2]), a + 3); }
/* The same with the mean, and without out. */
#define SPREAD_AND_MEAN(name, fn)                                                                                      \
    static PyObject *py_##name(const arg *a)                                                                           \
    {                                                                                                                  \
        return spread_and_mean(fn, #name, (const arg[]){ a[0], absent, absent, absent }, a[1].b);                      \
    }                                                                                                                  \
    static PyObject *py_##name##_unbiased(const arg *a) { return spread_and_mean(fn, #name, a, a[2].b); }              \
    static PyObject *py_##name##_corrected(const arg *a) { return spread_and_mean(fn, #name, a, correction_of(&a[2])); }
SPREAD(var, bk_var)
SPREAD(std, bk_std)
SPREAD_AND_MEAN(var_mean, bk_var)
SPREAD_AND_MEAN(std_mean, bk_std)

static PyObject *py_cov(const arg *a)
{
    double freedom;
    bk_tensor *c = moments_cov(a[0].tensor, (double)a[1].i, a[2].tensor, a[3].tensor, &freedom);
    if (c && freedom <= 0 &&
        PyErr_WarnEx(PyExc_UserWarning,
                     "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                     "observations.",
                     1)) {
        bk_release(c);
        return NULL;
    }
    return py_wrap(c);
}

static PyObject *py_corrcoef(const arg *a) { return py_wrap(bk_corrcoef(a[0].tensor)); }
static PyObject *py_trace(const arg *a) { return py_wrap(bk_trace(a[0].tensor)); }

/* --- norms
 * --------------------------------------------------------------------------------------------------------------- */

/* A number, or 'fro', which is 2 for a vector and for all elements alike. */
static bool order_of(const arg *p, double *order)
{
    *order = 2;
    if (!p->given)
        return true;
    if (PyUnicode_Check(p->object)) {
        const char *text = PyUnicode_AsUTF8(p->object);
        if (text && !strcmp(text, "fro"))
            return true;
        if (text)
            PyErr_Format(PyExc_RuntimeError, "linalg.matrix_norm: Order %s not supported.", text);
        return false;
    }
    py_number n;
    int status = py_number_from(p->object, &n);
    if (status == 0)
        PyErr_Format(PyExc_TypeError, "norm(): argument 'p' must be Number, not %s", py_type_name(p->object));
    *order = n.d;
    return status > 0;
}

static bk_tensor *norm_as(const bk_tensor *t, double p, uint32_t mask, bool keepdim, const arg *dtype)
{
    if (!dtype->given)
        return bk_norm(t, p, mask, keepdim);
    bk_scope_push();
    uint64_t start = next_sequence;
    return scope_return(without_cast(bk_norm(bk_to(t, dtype->dtype), p, mask, keepdim), t, start));
}

static bool is_nuclear(const arg *p)
{
    return p->given && PyUnicode_Check(p->object) && PyUnicode_CompareWithASCIIString(p->object, "nuc") == 0;
}

/* The dims that are meant, as a tuple: all of them where none are named. */
static PyObject *dims_tuple(const arg *self, const arg *dim)
{
    const int n = dim->given ? dim->ints.n : self->tensor->layout->ndim;
    PyObject *dims = PyTuple_New(n);
    for (int i = 0; dims && i < n; i++) {
        PyObject *d = PyLong_FromLongLong(dim->given ? dim->ints.v[i] : i);
        if (d)
            PyTuple_SET_ITEM(dims, i, d);
        else
            Py_CLEAR(dims);
    }
    return dims;
}

/* It is linalg.matrix_norm's work. */
static PyObject *nuclear_norm(const arg *a)
{
    PyObject *module = PyImport_ImportModule("brisk.linalg"), *dims = module ? dims_tuple(&a[0], &a[2]) : NULL;
    PyObject *dtype = a[5].object ? a[5].object : Py_None, *out = a[4].object ? a[4].object : Py_None;
    PyObject *function = dims ? PyObject_GetAttrString(module, "matrix_norm") : NULL;
    PyObject *args = function ? Py_BuildValue("(OsOO)", a[0].object, "nuc", dims, a[3].b ? Py_True : Py_False) : NULL;
    PyObject *names = args ? Py_BuildValue("{sOsO}", "dtype", dtype, "out", out) : NULL;
    PyObject *answer = names ? PyObject_Call(function, args, names) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(dims);
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(names);
    return answer;
}

/* a: self, p, dim, keepdim, out, dtype */
static PyObject *py_norm(const arg *a)
{
    uint32_t mask;
    double p;
    if (is_nuclear(&a[1]))
        return nuclear_norm(a);
    if (!order_of(&a[1], &p) || !dims_of(&a[0], &a[2], &mask))
        return NULL;
    return py_out(norm_as(a[0].tensor, p, mask, a[3].b, &a[5]), &a[4]);
}

static PyObject *py_dist(const arg *a) { return py_wrap(bk_dist(a[0].tensor, a[1].tensor, a[2].scalar.d)); }

/* --- extremes with places
 * --------------------------------------------------------------------------------------------------- */

static PyObject *py_max(const arg *a) { return py_out(bk_max(a[0].tensor), &a[1]); }
static PyObject *py_min(const arg *a) { return py_out(bk_min(a[0].tensor), &a[1]); }
static PyObject *py_max_other(const arg *a) { return py_row_out(EW_maximum, bk_maximum(a[0].tensor, a[1].tensor), a); }
static PyObject *py_min_other(const arg *a) { return py_row_out(EW_minimum, bk_minimum(a[0].tensor, a[1].tensor), a); }

static PyObject *py_max_dim(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_max_dim(a[0].tensor, (int)a[1].i, a[2].b, &places);
    return py_return_two(RETURN_MAX, values, places, &a[3]);
}

static PyObject *py_min_dim(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_min_dim(a[0].tensor, (int)a[1].i, a[2].b, &places);
    return py_return_two(RETURN_MIN, values, places, &a[3]);
}

static bool check_aminmax(const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    if (!a[1].given && bk_numel(t) == 0) {
        PyErr_SetString(PyExc_RuntimeError,
                        "aminmax(): cannot compute aminmax over an empty dimension as the operation has "
                        "no identity.");
        return false;
    }
    return true;
}

static PyObject *py_aminmax(const arg *a)
{
    uint32_t mask;
    if (!check_aminmax(a) || !dim_of(&a[0], &a[1], &mask))
        return NULL;
    bk_tensor *low = bk_amin(a[0].tensor, mask, a[2].b), *high = low ? bk_amax(a[0].tensor, mask, a[2].b) : NULL;
    return py_return_two(RETURN_AMINMAX, low, high, &a[3]);
}

static PyObject *py_cummax(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_cummax(a[0].tensor, (int)a[1].i, &places);
    return py_return_two(RETURN_CUMMAX, values, places, &a[2]);
}

static PyObject *py_cummin(const arg *a)
{
    bk_tensor *places = NULL, *values = bk_cummin(a[0].tensor, (int)a[1].i, &places);
    return py_return_two(RETURN_CUMMIN, values, places, &a[2]);
}

/* --- along one dimension
 * ------------------------------------------------------------------------------------------------------ */

typedef bk_tensor *(*along_fn)(const bk_tensor *t, int dim);

static bk_tensor *along_as(along_fn fn, const bk_tensor *t, int dim, const arg *dtype)
{
    if (!dtype->given)
        return fn(t, dim);
    bk_scope_push();
    return scope_return(bk_to(fn(bk_to(t, dtype->dtype), dim), dtype->dtype));
}

/* a: self, dim, dtype, out */
static PyObject *along(along_fn fn, const arg *a)
{
    return py_out(along_as(fn, a[0].tensor, (int)a[1].i, &a[2]), &a[3]);
}

/* Sums are no truths, once there is something to add up. */
static bool scans_into(const bk_tensor *t, bk_dtype into, const char *name)
{
    if (into != BK_BOOL || !bk_ndim(t) || !bk_numel(t))
        return true;
    PyErr_Format(PyExc_NotImplementedError, "\"%s_out_cpu\" not implemented for 'Bool'", name);
    return false;
}

/* PyTorch sees no cast in a scan, unlike in softmax. */
static PyObject *scanned(along_fn fn, const char *name, const arg *a)
{
    const bk_tensor *t = a[0].tensor;
    uint64_t start = next_sequence;
    if (a[3].given && !scans_into(t, tensor_dtype(a[3].tensor), name))
        return NULL;
    arg dtype = dtype_of_out(&a[2], &a[3]);
    bk_tensor *r = along_as(fn, t, (int)a[1].i, &dtype);
    return py_out(a[2].given ? without_cast(r, t, start) : r, &a[3]);
}

static PyObject *along_in_place(along_fn fn, const char *name, const arg *a)
{
    if (!scans_into(a[0].tensor, tensor_dtype(a[0].tensor), name))
        return NULL;
    bk_scope_push();
    bk_tensor *r = along_as(fn, a[0].tensor, (int)a[1].i, &a[2]);
    int status = r ? bk_copy_(a[0].tensor, r) : -1;
    bk_scope_pop();
    return py_in_place(&a[0], status);
}

static PyObject *py_softmax(const arg *a) { return along(bk_softmax, a); }
static PyObject *py_log_softmax(const arg *a) { return along(bk_log_softmax, a); }
static PyObject *py_cumsum(const arg *a) { return scanned(bk_cumsum, "cumsum", a); }
static PyObject *py_cumsum_(const arg *a) { return along_in_place(bk_cumsum, "cumsum", a); }
static PyObject *py_cumprod(const arg *a) { return scanned(bk_cumprod, "cumprod", a); }
static PyObject *py_cumprod_(const arg *a) { return along_in_place(bk_cumprod, "cumprod", a); }
static PyObject *py_logcumsumexp(const arg *a) { return py_out(bk_logcumsumexp(a[0].tensor, (int)a[1].i), &a[2]); }

/* a: self, n, dim, prepend, append, out */
static PyObject *py_diff(const arg *a)
{
    bk_scope_push();
    bk_tensor *parts[3], *t = a[0].tensor;
    int count = 0;
    if (a[3].given)
        parts[count++] = a[3].tensor;
    parts[count++] = t;
    if (a[4].given)
        parts[count++] = a[4].tensor;
    if (count > 1)
        t = bk_cat(parts, count, (int)a[2].i);
    return py_out(scope_return(t ? bk_diff(t, a[1].i, (int)a[2].i) : NULL), &a[5]);
}

/* --- rows
 * ------------------------------------------------------------------------------------------------------------------------
 */

#define OUT       ", *, Tensor? out=None)"
#define OUTS      ", *, Tensor[]? out=None)"
#define AS        ", *, dtype? dtype=None)"
#define AS_OUT    ", *, dtype? dtype=None, Tensor? out=None)"
#define CORRECTED "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False, Tensor? out=None)"
#define UNBIASED  "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False" OUT
#define CORRECTED_MEAN "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"
#define UNBIASED_MEAN  "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)"
#define NORM "(Tensor self, Object? p=None, int[1]? dim=None, bool keepdim=False, Tensor? out=None, dtype? dtype=None)"
const binding reduce_rows[] = {
    { BOTH, "sum(Tensor self" AS, py_sum, NULL },
    { BOTH, "sum(Tensor self, int[1]? dim, bool keepdim=False" AS_OUT, py_sum_dim, NULL },
    { BOTH, "nansum(Tensor self, int[1]? dim=None, bool keepdim=False" AS_OUT, py_nansum, NULL },
    { BOTH, "mean(Tensor self" AS_OUT, py_mean, NULL },
    { BOTH, "mean(Tensor self, int[1]? dim, bool keepdim=False" AS_OUT, py_mean_dim, NULL },
    { BOTH, "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False" AS_OUT, py_nanmean, NULL },
    { BOTH, "prod(Tensor self" AS, py_prod, NULL },
    { BOTH, "prod(Tensor self, int dim, bool keepdim=False" AS_OUT, py_prod_dim, NULL },
    { BOTH, "logsumexp(Tensor self, int[1] dim, bool keepdim=False" OUT, py_logsumexp, NULL },
    { BOTH, "any(Tensor self, int[1]? dim=None, bool keepdim=False" OUT, py_any, NULL },
    { BOTH, "all(Tensor self, int[1]? dim=None, bool keepdim=False" OUT, py_all, NULL },
    { BOTH, "amax(Tensor self, int[1]? dim=None, bool keepdim=False" OUT, py_amax, NULL },
    { BOTH, "amin(Tensor self, int[1]? dim=None, bool keepdim=False" OUT, py_amin, NULL },
    { BOTH, "aminmax(Tensor self, *, int? dim=None, bool keepdim=False, Tensor[]? out=None)", py_aminmax, NULL },
    { BOTH, "argmax(Tensor self, int? dim=None, bool keepdim=False" OUT, py_argmax, NULL },
    { BOTH, "argmin(Tensor self, int? dim=None, bool keepdim=False" OUT, py_argmin, NULL },
    { BOTH, "count_nonzero(Tensor self, int[1]? dim=None)", py_count_nonzero, NULL },
    { BOTH, "max(Tensor self" OUT, py_max, NULL },
    { BOTH, "max(Tensor self, Tensor other" OUT, py_max_other, NULL },
    { BOTH, "max(Tensor self, int dim, bool keepdim=False" OUTS, py_max_dim, NULL },
    { BOTH, "min(Tensor self" OUT, py_min, NULL },
    { BOTH, "min(Tensor self, Tensor other" OUT, py_min_other, NULL },
    { BOTH, "min(Tensor self, int dim, bool keepdim=False" OUTS, py_min_dim, NULL },
    { BOTH, "var(Tensor self, bool unbiased=True)", py_var, NULL },
    { BOTH, "var" UNBIASED, py_var_unbiased, NULL },
    { BOTH, "var" CORRECTED, py_var_corrected, NULL },
    { BOTH, "std(Tensor self, bool unbiased=True)", py_std, NULL },
    { BOTH, "std" UNBIASED, py_std_unbiased, NULL },
    { BOTH, "std" CORRECTED, py_std_corrected, NULL },
    { AS_FUNCTION, "var_mean(Tensor self, bool unbiased=True)", py_var_mean, NULL },
    { AS_FUNCTION, "var_mean" UNBIASED_MEAN, py_var_mean_unbiased, NULL },
    { AS_FUNCTION, "var_mean" CORRECTED_MEAN, py_var_mean_corrected, NULL },
    { AS_FUNCTION, "std_mean(Tensor self, bool unbiased=True)", py_std_mean, NULL },
    { AS_FUNCTION, "std_mean" UNBIASED_MEAN, py_std_mean_unbiased, NULL },
    { AS_FUNCTION, "std_mean" CORRECTED_MEAN, py_std_mean_corrected, NULL },
    { BOTH, "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)", py_cov, NULL },
    { BOTH, "corrcoef(Tensor self)", py_corrcoef, NULL },
    { BOTH, "trace(Tensor self)", py_trace, NULL },
    { BOTH, "norm" NORM, py_norm, NULL },
    { BOTH, "dist(Tensor self, Tensor other, Scalar p=2)", py_dist, NULL },
    { BOTH, "softmax(Tensor self, int dim, dtype? dtype=None" OUT, py_softmax, NULL },
    { BOTH, "log_softmax(Tensor self, int dim, dtype? dtype=None" OUT, py_log_softmax, NULL },
    { BOTH, "cumsum(Tensor self, int dim" AS_OUT, py_cumsum, NULL },
    { AS_METHOD, "cumsum_(Tensor self, int dim, *, dtype? dtype=None)", py_cumsum_, NULL },
    { BOTH, "cumprod(Tensor self, int dim" AS_OUT, py_cumprod, NULL },
    { AS_METHOD, "cumprod_(Tensor self, int dim, *, dtype? dtype=None)", py_cumprod_, NULL },
    { BOTH, "logcumsumexp(Tensor self, int dim" OUT, py_logcumsumexp, NULL },
    { BOTH, "cummax(Tensor self, int dim" OUTS, py_cummax, NULL },
    { BOTH, "cummin(Tensor self, int dim" OUTS, py_cummin, NULL },
    { BOTH, "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None" OUT, py_diff, NULL },
};
const size_t reduce_row_count = sizeof reduce_rows / sizeof *reduce_rows;
