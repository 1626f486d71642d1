/* bind_linalg.c: factorisations and linear systems. What PyTorch has in linalg only begins with _linalg. */
#include <string.h>

#include "binds.h"
#include "core/error.h"
#include "return_types.h"

enum { BOTH = AS_FUNCTION | AS_METHOD };

static PyObject *py_solve(const arg *a) { return py_out(bk_solve(a[0].tensor, a[1].tensor, a[2].b, a[3].b), &a[4]); }
static PyObject *py_inverse(const arg *a) { return py_out(bk_inverse(a[0].tensor, true), &a[1]); }
static PyObject *py_inverse_ex(const arg *a) { return py_wrap(bk_inverse(a[0].tensor, false)); }
static PyObject *py_solve_triangular(const arg *a)
{
    return py_out(bk_solve_triangular(a[0].tensor, a[1].tensor, a[2].b, a[3].b, a[4].b), &a[5]);
}

static PyObject *py_lu_factor(const arg *a)
{
    bk_tensor *pivots = NULL, *lu = bk_lu_factor(a[0].tensor, &pivots);
    return py_return_two(RETURN_LU_FACTOR, lu, pivots, &a[1]);
}
static PyObject *py_lu_solve(const arg *a)
{
    return py_out(bk_lu_solve(a[0].tensor, a[1].tensor, a[2].tensor, a[3].b, a[4].b), &a[5]);
}

static PyObject *py_det(const arg *a) { return py_wrap(bk_det(a[0].tensor)); }
static PyObject *py_linalg_det(const arg *a) { return py_out(bk_det(a[0].tensor), &a[1]); }
static PyObject *slogdet(const arg *a, return_type type, const arg *out)
{
    bk_tensor *size = NULL, *sign = bk_slogdet(a[0].tensor, &size);
    return py_return_two(type, sign, size, out);
}
static PyObject *py_slogdet(const arg *a) { return slogdet(a, RETURN_SLOGDET, &a[1]); }
static PyObject *py_linalg_slogdet(const arg *a) { return slogdet(a, RETURN_LINALG_SLOGDET, &a[1]); }

static PyObject *py_cholesky(const arg *a) { return py_out(bk_cholesky(a[0].tensor, a[1].b, true), &a[2]); }
static PyObject *py_cholesky_of(const arg *a) { return py_wrap(bk_cholesky(a[0].tensor, a[1].b, true)); }
static PyObject *py_cholesky_ex(const arg *a) { return py_wrap(bk_cholesky(a[0].tensor, a[1].b, false)); }
static PyObject *py_cholesky_solve(const arg *a)
{
    return py_out(bk_cholesky_solve(a[0].tensor, a[1].tensor, a[2].b), &a[3]);
}

static PyObject *qr(const arg *a, return_type type, bk_qr_mode mode, const arg *out)
{
    bk_tensor *r = NULL, *q = bk_qr(a[0].tensor, mode, &r);
    if (mode == BK_QR_R && q) {
        bk_release(q);
        q = bk_empty(1, (int64_t[]){ 0 }, tensor_dtype(a[0].tensor));
    }
    return py_return_two(type, q, r, out);
}
static PyObject *py_qr(const arg *a) { return qr(a, RETURN_QR, a[1].b ? BK_QR_REDUCED : BK_QR_COMPLETE, &a[2]); }
static PyObject *py_linalg_qr(const arg *a)
{
    static const char *const modes[] = { "reduced", "complete", "r" };
    for (int m = 0; m < 3; m++)
        if (strcmp(a[1].s, modes[m]) == 0)
            return qr(a, RETURN_LINALG_QR, (bk_qr_mode)m, &a[2]);
    error_null(BK_RUNTIME_ERROR,
               "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'",
               a[1].s);
    return py_raise();
}

const binding linalg_rows[] = {
    { BOTH, "inverse(Tensor self, *, Tensor? out=None)", py_inverse, "The inverse of a matrix." },
    { BOTH, "det(Tensor self)", py_det, "The determinant." },
    { AS_FUNCTION, "_linalg_det(Tensor A, *, Tensor? out=None)", py_linalg_det, "The determinant." },
    { BOTH, "slogdet(Tensor self, *, Tensor[]? out=None)", py_slogdet,
      "The sign and the logarithm of the absolute value of the determinant." },
    { BOTH, "cholesky(Tensor self, bool upper=False, *, Tensor? out=None)", py_cholesky, NULL },
    { BOTH, "cholesky_solve(Tensor self, Tensor input2, bool upper=False, *, Tensor? out=None)", py_cholesky_solve,
      NULL },
    { BOTH, "qr(Tensor self, bool some=True, *, Tensor[]? out=None)", py_qr, NULL },
    { AS_FUNCTION, "_linalg_cholesky(Tensor A, bool upper=False)", py_cholesky_of, NULL },
    { AS_FUNCTION, "_linalg_inv_ex(Tensor A)", py_inverse_ex, NULL },
    { AS_FUNCTION, "_linalg_solve(Tensor A, Tensor B, *, bool left=True, bool check=True, Tensor? out=None)", py_solve,
      NULL },
    { AS_FUNCTION,
      "_linalg_solve_triangular(Tensor A, Tensor B, *, bool upper, bool left=True, bool unitriangular=False, "
      "Tensor? out=None)",
      py_solve_triangular, NULL },
    { AS_FUNCTION, "_linalg_lu_factor(Tensor A, *, Tensor[]? out=None)", py_lu_factor, NULL },
    { AS_FUNCTION,
      "_linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False, Tensor? out=None)",
      py_lu_solve, NULL },
    { AS_FUNCTION, "_linalg_slogdet(Tensor A, *, Tensor[]? out=None)", py_linalg_slogdet, NULL },
    { AS_FUNCTION, "_linalg_cholesky_ex(Tensor A, bool upper=False)", py_cholesky_ex, NULL },
    { AS_FUNCTION, "_linalg_qr(Tensor A, str mode='reduced', *, Tensor[]? out=None)", py_linalg_qr, NULL },
};
const size_t linalg_row_count = sizeof linalg_rows / sizeof *linalg_rows;
