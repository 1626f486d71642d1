"""Linear algebra by its older names, beside those of brisk.linalg, and the same as methods of tensors."""

from brisk import _C, linalg
from brisk._C import Tensor
from brisk._composed import looks_like
from brisk._once import warn_once
from brisk._out import fill as _fill
from brisk.autograd import Function
from brisk.linalg import matrix_exp, matrix_power

__all__ = [
    "cholesky_inverse", "cross", "lu_solve", "lu_unpack", "logdet", "lu", "matrix_exp", "matrix_power", "orgqr",
    "pinverse", "svd", "triangular_solve",
]  # fmt: skip

_TriangularSolve = linalg._named("triangular_solve", "solution cloned_coefficient")
_SvdOld = linalg._named("svd", "U S V")
_LuUnpack = linalg._named("lu_unpack", "P L U")


def logdet(input):
    """The logarithm of the determinant; NaN where it is negative."""
    sign, size = _C._linalg_slogdet(input)
    return _C.where(sign < 0, _C.full_like(size, float("nan")), size)


@looks_like("cross", 2)
def cross(input, other, dim=None, *, out=None):
    """The cross products of the vectors of size 3 along dim, by default the first dimension of that size."""
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross "
            "in a future release.",
            callers=2,
        )
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg.cross(input, other, dim=dim, out=out)


@looks_like("cholesky_inverse")
def cholesky_inverse(input, upper=False, *, out=None):
    """The inverse of A from its Cholesky factor."""
    eye = _C.eye(input.shape[-1], dtype=input.dtype).expand(input.shape)
    return _C.cholesky_solve(eye, input, upper, out=out)


def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False, *, out=None):
    """x with A x = input (A^T x = input), where A is triangular."""
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a future "
        "PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a copy of one "
        "of the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\n"
        "X = torch.linalg.solve_triangular(A, B)."
    )
    both = _TriangularSolveBackward0.apply(input, A, upper, transpose, unitriangular)
    return _fill("triangular_solve", out, _TriangularSolve(*both))


def _triangular_solution(input, A, upper, transpose, unitriangular):
    matrix, upper = (A.mT, not upper) if transpose else (A, upper)
    return _C._linalg_solve_triangular(matrix, input, upper=upper, unitriangular=unitriangular)


class _TriangularSolveBackward0(Function):
    """(x, a copy of A): one function of both arguments to PyTorch, also where only one of them has a gradient."""

    @staticmethod
    def forward(ctx, input, A, upper, transpose, unitriangular):
        x = _triangular_solution(input, A, upper, transpose, unitriangular)
        ctx.save_for_backward(A, x)
        ctx.form = upper, transpose, unitriangular
        ctx.sizes = input.shape
        copied = A.expand(*x.shape[:-2], *A.shape[-2:]).clone(memory_format=_C.contiguous_format)
        return x, copied

    @staticmethod
    def backward(ctx, g, g_copied):
        A, x = ctx.saved_tensors
        upper, transpose, unitriangular = ctx.form
        of_input = _triangular_solution(g, A, upper, not transpose, unitriangular)
        of_a = -(x @ of_input.mT if transpose else of_input @ x.mT)
        of_a = of_a.triu(int(unitriangular)) if upper else of_a.tril(-int(unitriangular))
        return of_input.sum_to_size(ctx.sizes), (of_a + g_copied).sum_to_size(A.shape), None, None, None


def pinverse(input, rcond=1e-15):
    """The pseudo-inverse."""
    return linalg.pinv(input, rtol=rcond)


def svd(input, some=True, compute_uv=True, *, out=None):
    """U, S and V with U diag(S) V^T = input."""
    U, S, Vh = linalg.svd(input, full_matrices=not some)
    if not compute_uv:
        U, Vh = _C.zeros_like(U), _C.zeros_like(Vh)
    return _fill("svd", out, _SvdOld(U, S, Vh.mT))


def lu(A, pivot=True, get_infos=False, out=None):
    """lu_factor by its older name."""
    warn_once(
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in "
        "a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\n"
        "LU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
        "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
    )
    LU, pivots, info = linalg.lu_factor_ex(A, pivot=pivot)
    return _fill("lu", out, (LU, pivots, info) if get_infos else (LU, pivots))


def lu_solve(b, LU_data, LU_pivots, *, out=None):
    """x with A x = b, from the factors of A."""
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch "
        "release.\nNote that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, pivots)\n"
        "should be replaced with\nX = torch.linalg.lu_solve(LU, pivots, B)"
    )
    return _C._linalg_lu_solve(LU_data, LU_pivots, b, out=out)


def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True, *, out=None):
    """P, L and U from the results of lu_factor."""
    return _fill("lu_unpack", out, _LuUnpack(*linalg._lu_unpack(LU_data, LU_pivots)))


def orgqr(input, tau):
    """householder_product by its older name."""
    return linalg.householder_product(input, tau)


for _name in set(__all__) - {"lu_unpack"}:
    if not hasattr(Tensor, _name) or _name == "matrix_power":
        setattr(Tensor, _name, globals()[_name])
