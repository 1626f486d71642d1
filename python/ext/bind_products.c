/* bind_products.c: matrix products and contractions. */
#include "binds.h"
#include "core/error.h"
#include "ops/numbers.h"

enum { BOTH = AS_FUNCTION | AS_METHOD, OLDER = AS_OLDER | AS_FUNCTION, OLDER_METHOD = AS_OLDER | AS_METHOD };
static const arg ONE = { .given = true, .scalar = { NUMBER_INT, 1, 1 } };

#define PRODUCT(name)                                                                                                  \
    static PyObject *py_##name(const arg *a) { return py_out(bk_##name(a[0].tensor, a[1].tensor), &a[2]); }
PRODUCT(mm)
PRODUCT(bmm)
PRODUCT(mv)
PRODUCT(dot)
PRODUCT(inner)
PRODUCT(outer)
PRODUCT(kron)
#undef PRODUCT

/* beta and alpha are numbers of the result's dtype. */
static bool factors_fit(const arg *a)
{
    bk_dtype dtype = tensor_dtype(a[0].tensor);
    return factor_check(py_number_operand(&a[3].scalar), dtype) == 0 &&
           factor_check(py_number_operand(&a[4].scalar), dtype) == 0;
}

/* self, a, b, beta, alpha and, out of place, out. */
#define SUM_WITH_PRODUCT(name)                                                                                         \
    static bk_tensor *call_##name(const arg *a)                                                                        \
    {                                                                                                                  \
        return factors_fit(a) ? bk_##name(a[0].tensor, a[1].tensor, a[2].tensor, a[3].scalar.d, a[4].scalar.d) : NULL; \
    }                                                                                                                  \
    static PyObject *py_##name(const arg *a) { return py_out(call_##name(a), &a[5]); }                                 \
    static PyObject *py_##name##_(const arg *a) { return py_write_back(&a[0], call_##name(a)); }
SUM_WITH_PRODUCT(addmm)
SUM_WITH_PRODUCT(addmv)
SUM_WITH_PRODUCT(addbmm)
SUM_WITH_PRODUCT(baddbmm)
#undef SUM_WITH_PRODUCT

static bk_tensor *call_addr(const arg *a)
{
    bool whole = !dtype_is_float(tensor_dtype(a[0].tensor)) && !dtype_is_float(tensor_dtype(a[1].tensor)) &&
                 !dtype_is_float(tensor_dtype(a[2].tensor));
    for (int k = 3; k < 5; k++)
        if (whole && a[k].scalar.kind == NUMBER_FLOAT)
            return error_null(BK_RUNTIME_ERROR,
                              "For integral input tensors, argument %s must not be a floating point number.",
                              k == 3 ? "beta" : "alpha");
    return bk_addr(a[0].tensor, a[1].tensor, a[2].tensor, a[3].scalar.d, a[4].scalar.d);
}
static PyObject *py_addr(const arg *a) { return py_out(call_addr(a), &a[5]); }
static PyObject *py_addr_(const arg *a) { return py_write_back(&a[0], call_addr(a)); }

/* Older orders: (beta, self, alpha, a, b, out) and (beta, self, a, b, out); of a method self comes first. */
#define FACTORS_FIRST(name)                                                                                            \
    static PyObject *py_##name##_factors(const arg *a)                                                                 \
    {                                                                                                                  \
        return py_##name((const arg[]){ a[1], a[3], a[4], a[0], a[2], a[5] });                                         \
    }                                                                                                                  \
    static PyObject *py_##name##_beta(const arg *a)                                                                    \
    {                                                                                                                  \
        return py_##name((const arg[]){ a[1], a[2], a[3], a[0], ONE, a[4] });                                          \
    }                                                                                                                  \
    static PyObject *py_##name##_of_factors(const arg *a)                                                              \
    {                                                                                                                  \
        return py_##name((const arg[]){ a[0], a[3], a[4], a[1], a[2], { 0 } });                                        \
    }                                                                                                                  \
    static PyObject *py_##name##_of_beta(const arg *a)                                                                 \
    {                                                                                                                  \
        return py_##name((const arg[]){ a[0], a[2], a[3], a[1], ONE, { 0 } });                                         \
    }                                                                                                                  \
    static PyObject *py_##name##_factors_(const arg *a)                                                                \
    {                                                                                                                  \
        return py_##name##_((const arg[]){ a[0], a[3], a[4], a[1], a[2] });                                            \
    }                                                                                                                  \
    static PyObject *py_##name##_beta_(const arg *a)                                                                   \
    {                                                                                                                  \
        return py_##name##_((const arg[]){ a[0], a[2], a[3], a[1], ONE });                                             \
    }
FACTORS_FIRST(addmm)
FACTORS_FIRST(addmv)
FACTORS_FIRST(addbmm)
FACTORS_FIRST(baddbmm)
FACTORS_FIRST(addr)
#undef FACTORS_FIRST

static PyObject *py_einsum(const arg *a) { return py_wrap(bk_einsum(a[0].s, a[1].tensors.v, a[1].tensors.n)); }
static PyObject *py_multi_dot(const arg *a) { return py_out(bk_multi_dot(a[0].tensors.v, a[0].tensors.n), &a[1]); }
static PyObject *py_chain_matmul(const arg *a)
{
    return py_out(bk_chain_matmul(a[0].tensors.v, a[0].tensors.n), &a[1]);
}
static PyObject *py_matrix_power(const arg *a) { return py_out(bk_matrix_power(a[0].tensor, a[1].i), &a[2]); }

static PyObject *py_tensordot(const arg *a)
{
    int x[BK_MAX_NDIM], y[BK_MAX_NDIM];
    for (int k = 0; k < a[2].ints.n; k++)
        x[k] = (int)a[2].ints.v[k];
    for (int k = 0; k < a[3].ints.n; k++)
        y[k] = (int)a[3].ints.v[k];
    if (a[2].ints.n != a[3].ints.n) {
        error_null(BK_RUNTIME_ERROR, "both dimension lists should have same length");
        return py_raise();
    }
    return py_out(bk_tensordot(a[0].tensor, a[1].tensor, a[2].ints.n, x, y), &a[4]);
}

static PyObject *py_cdist(const arg *a)
{
    int64_t mode = a[3].given ? a[3].i : 0;
    return py_wrap(bk_cdist(a[0].tensor, a[1].tensor, a[2].d, (int)mode));
}

#define SUM_ROWS(name, x, y)                                                                                           \
    { BOTH, #name "(Tensor self, Tensor " x ", Tensor " y ", *, Scalar beta=1, Scalar alpha=1, Tensor? out=None)",     \
      py_##name, NULL },                                                                                               \
        { OLDER, #name "(Scalar beta, Tensor self, Scalar alpha, Tensor " x ", Tensor " y ", *, Tensor? out=None)",    \
          py_##name##_factors, NULL },                                                                                 \
        { OLDER, #name "(Scalar beta, Tensor self, Tensor " x ", Tensor " y ", *, Tensor? out=None)",                  \
          py_##name##_beta, NULL },                                                                                    \
        { OLDER_METHOD, #name "(Tensor self, Scalar beta, Scalar alpha, Tensor " x ", Tensor " y ")",                  \
          py_##name##_of_factors, NULL },                                                                              \
        { OLDER_METHOD, #name "(Tensor self, Scalar beta, Tensor " x ", Tensor " y ")", py_##name##_of_beta, NULL },   \
        { AS_METHOD, #name "_(Tensor self, Tensor " x ", Tensor " y ", *, Scalar beta=1, Scalar alpha=1)",             \
          py_##name##_, NULL },                                                                                        \
        { OLDER_METHOD, #name "_(Tensor self, Scalar beta, Scalar alpha, Tensor " x ", Tensor " y ")",                 \
          py_##name##_factors_, NULL },                                                                                \
    {                                                                                                                  \
        OLDER_METHOD, #name "_(Tensor self, Scalar beta, Tensor " x ", Tensor " y ")", py_##name##_beta_, NULL         \
    }

const binding products_rows[] = {
    { BOTH, "mm(Tensor self, Tensor mat2, *, Tensor? out=None)", py_mm, NULL },
    { BOTH, "bmm(Tensor self, Tensor mat2, *, Tensor? out=None)", py_bmm, NULL },
    { BOTH, "mv(Tensor self, Tensor vec, *, Tensor? out=None)", py_mv, NULL },
    { BOTH, "dot(Tensor self, Tensor tensor, *, Tensor? out=None)", py_dot, NULL },
    { BOTH, "vdot(Tensor self, Tensor other, *, Tensor? out=None)", py_dot, NULL },
    { BOTH, "inner(Tensor self, Tensor other, *, Tensor? out=None)", py_inner, NULL },
    { BOTH, "outer(Tensor self, Tensor vec2, *, Tensor? out=None)", py_outer, NULL },
    { BOTH, "ger(Tensor self, Tensor vec2, *, Tensor? out=None)", py_outer, NULL },
    { BOTH, "kron(Tensor self, Tensor other, *, Tensor? out=None)", py_kron, NULL },
    SUM_ROWS(addmm, "mat1", "mat2"),
    SUM_ROWS(addmv, "mat", "vec"),
    SUM_ROWS(addbmm, "batch1", "batch2"),
    SUM_ROWS(baddbmm, "batch1", "batch2"),
    SUM_ROWS(addr, "vec1", "vec2"),
    { BOTH, "matrix_power(Tensor self, int n, *, Tensor? out=None)", py_matrix_power, NULL },
    { AS_FUNCTION, "_einsum(str equation, Tensor[] tensors)", py_einsum, NULL },
    { AS_FUNCTION, "_multi_dot(Tensor[] tensors, *, Tensor? out=None)", py_multi_dot, NULL },
    { AS_FUNCTION, "_chain_matmul(Tensor[] matrices, *, Tensor? out=None)", py_chain_matmul, NULL },
    { AS_FUNCTION, "_tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other, *, Tensor? out=None)",
      py_tensordot, NULL },
    { AS_FUNCTION, "_cdist(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None)", py_cdist, NULL },
};
const size_t products_row_count = sizeof products_rows / sizeof *products_rows;
