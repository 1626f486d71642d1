"""Linear algebra: norms, products, factorisations and systems of matrices.

Factorisations by elimination and reflections are the library's own (src/ops/linalg.c); those by iteration (eigenvalues,
singular values) are NumPy's, with gradients, in brisk._spectra."""

import builtins
import collections

from brisk import _C
from brisk._C import _linalg_det as det
from brisk._C import _linalg_lu_solve as lu_solve
from brisk._C import _linalg_qr as qr
from brisk._C import _linalg_slogdet as slogdet
from brisk._C import _LinAlgError as LinAlgError
from brisk._C import diagonal as _diagonal
from brisk._C import inverse, matmul
from brisk._composed import looks_like as _looks_like
from brisk._missing import finder
from brisk._out import fill as _fill

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve",
    "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet",
    "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip

_FLOATS = (_C.float32, _C.float64, _C.float16, _C.bfloat16)


def _check_cast(name, x, dtype):
    """A dtype that is asked for must hold the values of x."""
    if dtype is None:
        return
    if dtype not in _FLOATS:
        raise RuntimeError(f"linalg.{name}: dtype should be floating point or complex. Got {dtype}")
    if _C.promote_types(x.dtype, dtype) != dtype:
        raise RuntimeError(
            f"linalg.{name}: the dtype of the input ({x.dtype}) should be convertible without narrowing to the "
            f"specified dtype ({dtype})"
        )


def _check_float(name, x):
    if x.dtype not in _FLOATS:
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {x.dtype}")


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of x as a vector: of all elements, or along dim."""
    _check_float("vector_norm", x)
    _check_cast("vector_norm", x, dtype)
    return _C.norm(x, ord, dim, keepdim, dtype=dtype, out=out)


def _matrix_dims(x, dim):
    if isinstance(dim, int) or len(dim) != 2:
        given = (dim,) if isinstance(dim, int) else dim
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, given))}")
    dims = [d + x.dim() if d < 0 else d for d in dim]
    if dims[0] == dims[1]:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return dims


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """The norm of the matrices in two dimensions of A: 'fro', 'nuc', 1, -1, 2, -2, inf or -inf."""
    _check_float("matrix_norm", A)
    if A.dim() < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    dims = _matrix_dims(A, dim)
    _check_cast("matrix_norm", A, dtype)
    if ord == "fro":
        return _C.norm(A, 2, dims, keepdim, dtype=dtype, out=out)
    if ord == "nuc" or not isinstance(ord, str) and builtins.abs(ord) == 2:
        return _spectral_norm(A if dtype is None else A.to(dtype), ord, dims, keepdim, out)
    if isinstance(ord, str) or builtins.abs(ord) not in (1, float("inf")):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, chosen = dims if builtins.abs(ord) == 1 else dims[::-1]
    if not keepdim and chosen > summed:
        chosen -= 1
    sums = _C.norm(A, 1, summed, keepdim, dtype=dtype)
    extreme = _C.amax if ord > 0 else _C.amin
    return _fill("linalg_matrix_norm", out, extreme(sums, chosen, keepdim=keepdim))


def _spectral_norm(A, ord, dims, keepdim, out):
    values = svdvals(A.movedim(dims, (-2, -1)))
    reduce = _C.sum if ord == "nuc" else _C.amax if ord > 0 else _C.amin
    result = reduce(values, -1, keepdim=keepdim)
    if keepdim:
        result = result.unsqueeze(-1).movedim((-2, -1), dims)
    return _fill("linalg_matrix_norm", out, result)


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None, out=None):
    """A vector norm, or (an order by name, two dimensions, or an order and a matrix) a matrix norm."""
    how = {"keepdim": keepdim, "dtype": dtype, "out": out}
    if dim is not None and not isinstance(dim, int) and len(dim) == 1:
        dim = dim[0]
    if ord is None:
        return vector_norm(A, 2, dim, **how)
    if dim is None and A.dim() not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D."
        )
    matrix = isinstance(ord, str) or (A.dim() == 2 if dim is None else not isinstance(dim, int))
    if not matrix:
        return vector_norm(A, ord, dim, **how)
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, **how)


def multi_dot(tensors, *, out=None):
    """The product of matrices, in the order that takes the fewest operations; the ends may be vectors."""
    return _C._multi_dot(list(tensors), out=out)


def vecdot(x, y, *, dim=-1, out=None):
    """The dot products of the vectors along dim."""
    if x.dtype != y.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected x and y to have the same dtype, but got {x.dtype} and {y.dtype}")
    if x.dim() == y.dim() == 1:
        return _C.vdot(x, y, out=out)
    return _C.sum(x * y, dim, dtype=x.dtype, out=out)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonal of the matrices in two dimensions of A, as a view."""
    return _diagonal(A, offset, dim1, dim2)


def matrix_power(A, n, *, out=None):
    """The n-th power of a square matrix; a negative one is a power of the inverse."""
    if n == -1:
        return inv(A, out=out)
    return _C.matrix_power(A, n, out=out) if n >= 0 else _C.matrix_power(inv(A), -n, out=out)


@_looks_like("cross", 2)
def cross(input, other, *, dim=-1, out=None):
    """The cross products of the vectors of size 3 along dim."""
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and {other.shape[dim]}"
        )
    if input.dim() != other.dim():
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    a, b = input, other
    return _fill("linalg_cross", out, a.roll(-1, dim) * b.roll(-2, dim) - a.roll(-2, dim) * b.roll(-1, dim))


@_looks_like("_last_powers")
def vander(x, *, N=None):
    """The powers 0, 1, ... of x along a new last dimension."""
    count = x.shape[-1] if N is None else N
    if count < 2:
        raise RuntimeError("N must be greater than 1.")
    return x.unsqueeze(-1) ** _C.arange(count)


# --- systems ---------------------------------------------------------------------------------------------------------


def _info(bad):
    """For each matrix the place, counted from 1, of the first bad number on its diagonal; 0 for none."""
    if bad.shape[-1] == 0:
        return bad.sum(-1).to(_C.int32)
    first = bad.to(_C.int32).argmax(-1) + 1
    return _C.where(bad.any(-1), first, _C.zeros_like(first)).to(_C.int32)


def _raise_if(name, info, check_errors):
    if check_errors and bool(info.any()):
        raise LinAlgError(f"linalg.{name}: the input matrix is singular or not positive-definite")


def inv(A, *, out=None):
    """The inverse of a square matrix; LinAlgError where there is none."""
    return inverse(A, out=out)


def inv_ex(A, *, check_errors=False, out=None):
    """The inverse, and where elimination met a zero."""
    info = _info(_C._linalg_lu_factor(A.detach())[0].diagonal(0, -2, -1) == 0)
    _raise_if("inv", info, check_errors)
    return _fill("linalg_inv_ex", out, _InvEx(_C._linalg_inv_ex(A), info))


def solve(A, B, *, left=True, out=None):
    """x with A x = B, or (left=False) x A = B."""
    return _C._linalg_solve(A, B, left=left, out=out)


def solve_ex(A, B, *, left=True, check_errors=False, out=None):
    """solve, and where elimination met a zero."""
    info = _info(_C._linalg_lu_factor(A.detach())[0].diagonal(0, -2, -1) == 0)
    _raise_if("solve", info, check_errors)
    return _fill("linalg_solve_ex", out, _SolveEx(_C._linalg_solve(A, B, left=left, check=False), info))


def solve_triangular(A, B, *, upper, left=True, unitriangular=False, out=None):
    """x with A x = B, or (left=False) x A = B, where A is triangular."""
    return _C._linalg_solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular, out=out)


@_looks_like("lstsq", 2)
def lstsq(A, B, rcond=None, *, driver=None, out=None):
    """x that makes A x - B least, the shortest one where there are several.

    A has full rank, unless driver is 'gelsd' or 'gelss'."""
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = B.dim() == 1 or A.dim() - 1 == B.dim() and A.shape[:-1] == B.shape
    right = B.unsqueeze(-1) if vector else B
    rows, columns = A.shape[-2:]
    if driver in ("gelsd", "gelss"):
        solution = pinv(A, rtol=rcond) @ right
    elif rows >= columns:
        Q, R = qr(A)
        solution = solve_triangular(R, Q.mT @ right, upper=True)
    else:
        Q, R = qr(A.mT)
        solution = Q @ solve_triangular(R.mT, right, upper=False)
    full = driver in (None, "gelsy", "gelsd", "gelss")
    rank = matrix_rank(A.detach()) if full else A.new_empty(0, dtype=_C.int64)
    residuals = solution.reshape(-1)[:0].clone() if solution.requires_grad else A.new_empty(0)  # on the tape
    if rows > columns and driver in ("gels", "gelsd", "gelss") and (not full or bool((rank == columns).all())):
        residuals = (A @ solution - right).square().sum(-2)
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else A.new_empty(0)
    result = _LstSq(solution.squeeze(-1) if vector else solution, residuals, rank, values)
    return _fill("linalg_lstsq", out, result)


# --- factorisations ---------------------------------------------------------------------------------------------------


def cholesky(A, *, upper=False, out=None):
    """L with L L^T = A; LinAlgError where A is not positive-definite."""
    return _fill("linalg_cholesky", out, _C._linalg_cholesky(A, upper))


def cholesky_ex(A, *, upper=False, check_errors=False, out=None):
    """The factor, and the order of the first leading minor that is not positive."""
    L = _C._linalg_cholesky_ex(A, upper)
    info = _info(~(L.detach().diagonal(0, -2, -1) > 0))
    _raise_if("cholesky", info, check_errors)
    return _fill("linalg_cholesky_ex", out, _CholeskyEx(L, info))


def lu_factor(A, *, pivot=True, out=None):
    """L and U in one matrix, and the exchanges of rows."""
    _check_pivot("lu_factor", pivot)
    return _C._linalg_lu_factor(A, out=out)


def _check_pivot(name, pivot):
    if not pivot:
        raise RuntimeError(f"linalg.{name}: LU without pivoting is not implemented on the CPU")


def lu_factor_ex(A, *, pivot=True, check_errors=False, out=None):
    """lu_factor, and where elimination met a zero."""
    LU, pivots = lu_factor(A, pivot=pivot)
    info = _info(LU.detach().diagonal(0, -2, -1) == 0)
    _raise_if("lu_factor", info, check_errors)
    return _fill("linalg_lu_factor_ex", out, _LuFactorEx(LU, pivots, info))


def _permutation(pivots, n):
    """The matrix P of A = P L U."""
    order = _C.arange(n).expand(*pivots.shape[:-1], n).tolist()
    flat = pivots.reshape(-1, pivots.shape[-1]).tolist()
    rows = _C.tensor(order).reshape(-1, n).tolist()
    for row, exchanges in zip(rows, flat):
        for k, j in enumerate(exchanges):
            row[k], row[j - 1] = row[j - 1], row[k]
    return _C.eye(n)[_C.tensor(rows).reshape(*pivots.shape[:-1], n)].mT


def lu(A, *, pivot=True, out=None):
    """P, L and U with P L U = A."""
    _check_pivot("lu", pivot)
    L, U, P = _lu(A)
    return _fill("linalg_lu", out, _Lu(P, L, U))


@_looks_like("_lu")
def _lu(A):
    P, L, U = _lu_unpack(*_C._linalg_lu_factor(A))
    return L, U, P  # those that have gradients come first in PyTorch's function


def _lu_unpack(LU, pivots):
    rows, columns = LU.shape[-2:]
    k = builtins.min(rows, columns)
    L = LU[..., :k].tril(-1) + _C.eye(rows, k, dtype=LU.dtype)
    return _permutation(pivots, rows).to(LU.dtype), L, LU[..., :k, :].triu()


def svd(A, full_matrices=True, *, driver=None, out=None):
    """U, S and V^T with U diag(S) V^T = A. Computed by NumPy."""
    from brisk import _spectra

    return _fill("linalg_svd", out, _Svd(*_spectra.svd(A, full_matrices)))


def svdvals(A, *, driver=None, out=None):
    """The singular values, the largest first. Computed by NumPy."""
    from brisk import _spectra

    return _fill("linalg_svdvals", out, _spectra.svd(A, False)[1])


def eigh(A, UPLO="L", *, out=None):
    """The eigenvalues (ascending) and eigenvectors of a symmetric matrix. Computed by NumPy."""
    from brisk import _spectra

    return _fill("linalg_eigh", out, _Eigh(*_spectra.eigh(A, UPLO)))


def eigvalsh(A, UPLO="L", *, out=None):
    """The eigenvalues of a symmetric matrix, ascending. Computed by NumPy."""
    return _fill("linalg_eigvalsh", out, eigh(A, UPLO)[0])


def eig(A, *, out=None):
    """Not there: its results are complex. eigh has those of symmetric matrices."""
    raise NotImplementedError("linalg.eig: there are no complex tensors; linalg.eigh is there for symmetric matrices")


def eigvals(A, *, out=None):
    """Not there: its results are complex. eigvalsh has those of symmetric matrices."""
    raise NotImplementedError(
        "linalg.eigvals: there are no complex tensors; linalg.eigvalsh is there for symmetric matrices"
    )


def householder_product(A, tau, *, out=None):
    """The first columns of the product of reflections that are the columns of A below the diagonal, and tau."""
    return _fill("linalg_householder_product", out, _householder_product(tau, A))


@_looks_like("_householder_product", 2)
def _householder_product(tau, A):
    rows, columns = A.shape[-2:]
    Q = _C.eye(rows, columns, dtype=A.dtype).expand(*A.shape[:-2], rows, columns)
    lower = A.tril(-1) + _C.eye(rows, columns, dtype=A.dtype)
    for k in reversed(range(tau.shape[-1])):
        v = lower[..., :, k : k + 1]
        Q = Q - tau[..., k, None, None] * (v @ (v.mT @ Q))
    return Q


def ldl_factor(A, *, hermitian=False, out=None):
    """Not there; cholesky and lu_factor are."""
    raise NotImplementedError("linalg.ldl_factor is not there; linalg.cholesky and linalg.lu_factor are")


# --- made of the above ------------------------------------------------------------------------------------------------


def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """The pseudo-inverse. Singular values of at most max(atol, rtol * the largest) count as 0."""
    from brisk import _spectra

    return _fill("linalg_pinv", out, _spectra.pinv(A, atol, rcond if rtol is None else rtol))


def _tolerance(A, values, atol, rtol):
    if rtol is None:
        rtol = 0.0 if atol is not None else builtins.max(A.shape[-2:]) * _C.finfo(A.dtype).eps
    atol = 0.0 if atol is None else atol
    largest = values.amax(-1, keepdim=True)
    return _C.maximum(_C.as_tensor(rtol, dtype=A.dtype) * largest, _C.as_tensor(atol, dtype=A.dtype))


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None, out=None):
    """How many singular values are more than max(atol, rtol * the largest)."""
    values = eigvalsh(A).abs() if hermitian else svdvals(A)
    if values.shape[-1] == 0:
        return _fill("linalg_matrix_rank", out, values.sum(-1).to(_C.int64))
    if tol is not None:
        atol, rtol = tol, 0.0
    return _fill("linalg_matrix_rank", out, (values > _tolerance(A, values, atol, rtol)).sum(-1))


def cond(A, p=None, *, out=None):
    """The condition number by a norm; that by singular values for p=None."""
    if p in (None, 2, -2):
        values = svdvals(A)
        largest, least = values.narrow(-1, 0, 1), values.narrow(-1, -1, 1)
        return _fill("linalg_cond", out, (least / largest if p == -2 else largest / least).squeeze(-1))
    if p == "nuc":
        values = svdvals(A)
        return _fill("linalg_cond", out, values.sum(-1) * values.reciprocal().sum(-1))
    inverse, info = inv_ex(A)
    inverse = inverse.masked_fill((info > 0)[..., None, None], float("inf"))
    product = matrix_norm(A, p) * matrix_norm(inverse, p)
    return _fill("linalg_cond", out, product.nan_to_num(float("inf"), float("inf"), -float("inf")))


# Exponents up to this size are left to the Pade approximant of degree 13 (Higham 2005).
_PADE_REACH = 5.4
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
    670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip


@_looks_like("matrix_exp")
def matrix_exp(A):
    """The exponential of a square matrix: that of A / 2^s by a quotient of polynomials, squared s times."""
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError("linalg.matrix_exp: A must be batches of square matrices")
    if A.numel() == 0:
        return A.clone()
    size, squarings = float(A.detach().abs().sum(-2).max()), 0
    while size > _PADE_REACH and squarings < 64:
        size, squarings = size / 2, squarings + 1
    A = A * 0.5**squarings
    even, odd, power, square = 0, 0, _C.eye(A.shape[-1], dtype=A.dtype), A @ A
    for k in range(0, 14, 2):
        even, odd = even + (_PADE[k] / _PADE[0]) * power, odd + (_PADE[k + 1] / _PADE[0]) * power
        power = power @ square
    odd = A @ odd
    result = solve(even - odd, even + odd)
    for _ in range(squarings):
        result = result @ result
    return result


def tensorinv(A, ind=2, *, out=None):
    """The inverse of A as a map from its last dimensions to its first `ind`."""
    rows, columns = A.shape[:ind], A.shape[ind:]
    return _fill("linalg_tensorinv", out, _taken_apart(inv(A.reshape(rows.numel(), -1)), (*columns, *rows)))


@_looks_like("_tensorinv")
def _taken_apart(inverse, sizes):
    return inverse.reshape(sizes)


def tensorsolve(A, B, dims=None, *, out=None):
    """x with tensordot(A, x, x.ndim) = B."""
    if dims is not None:
        A = A.movedim(dims, tuple(range(A.dim() - len(dims), A.dim())))
    return _fill("linalg_tensorsolve", out, solve(A.reshape(B.numel(), -1), B.flatten()).reshape(A.shape[B.dim() :]))


# --- named results ----------------------------------------------------------------------------------------------------


def _named(name, fields):
    """A named tuple that is printed as PyTorch prints it."""

    def show(self):
        return f"torch.return_types.{name}(\n" + ",\n".join(f"{f}={getattr(self, f)!r}" for f in fields.split()) + ")"

    return type(name, (collections.namedtuple(name, fields),), {"__slots__": (), "__repr__": show})


_InvEx = _named("linalg_inv_ex", "inverse info")
_SolveEx = _named("linalg_solve_ex", "result info")
_CholeskyEx = _named("linalg_cholesky_ex", "L info")
_LuFactorEx = _named("linalg_lu_factor_ex", "LU pivots info")
_Lu = _named("linalg_lu", "P L U")
_LstSq = _named("linalg_lstsq", "solution residuals rank singular_values")
_Svd = _named("linalg_svd", "U S Vh")
_Eigh = _named("linalg_eigh", "eigenvalues eigenvectors")

__getattr__ = finder(__name__)
