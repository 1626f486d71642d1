"""Linear algebra: norms, and products of matrices."""

import builtins

from brisk import _C
from brisk._C import diagonal as _diagonal
from brisk._C import matmul, matrix_power

__all__ = ["diagonal", "matmul", "matrix_norm", "matrix_power", "multi_dot", "norm", "vecdot", "vector_norm"]

_FLOATS = (_C.float32, _C.float64, _C.float16, _C.bfloat16)


def _cast(name, x, dtype):
    """x as dtype, which must hold its values."""
    if dtype is None:
        return x
    if dtype not in _FLOATS:
        raise RuntimeError(f"linalg.{name}: dtype should be floating point or complex. Got {dtype}")
    if _C.promote_types(x.dtype, dtype) != dtype:
        raise RuntimeError(
            f"linalg.{name}: the dtype of the input ({x.dtype}) should be convertible without narrowing to the "
            f"specified dtype ({dtype})"
        )
    return x.to(dtype)


def _check_float(name, x):
    if x.dtype not in _FLOATS:
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {x.dtype}")


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, out=None):
    """The norm of x as a vector: of all elements, or along dim."""
    _check_float("vector_norm", x)
    return _C.norm(_cast("vector_norm", x, dtype), ord, dim, keepdim, out=out)


def _matrix_dims(x, dim):
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {1 if isinstance(dim, int) else len(dim)}")
    dims = [d + x.dim() if d < 0 else d for d in dim]
    if dims[0] == dims[1]:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return dims


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """The norm of the matrices in two dimensions of A: 'fro', 1, -1, inf or -inf."""
    _check_float("matrix_norm", A)
    if A.dim() < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    dims = _matrix_dims(A, dim)
    A = _cast("matrix_norm", A, dtype)
    if ord == "fro":
        return _C.norm(A, 2, dims, keepdim, out=out)
    if ord == "nuc" or not isinstance(ord, str) and builtins.abs(ord) == 2:
        raise NotImplementedError(f"linalg.matrix_norm: order {ord} needs a singular value decomposition")
    if isinstance(ord, str) or builtins.abs(ord) not in (1, float("inf")):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, chosen = dims if builtins.abs(ord) == 1 else dims[::-1]
    sums = A.abs().sum(summed, keepdim=True)
    extreme = _C.amax if ord > 0 else _C.amin
    result = extreme(sums, chosen, keepdim=True)
    for d in () if keepdim else sorted(dims, reverse=True):
        result = result.squeeze(d)
    return result if out is None else out.copy_(result)


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
    return _C.sum(x * y, dim, dtype=x.dtype, out=out)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonal of the matrices in two dimensions of A, as a view."""
    return _diagonal(A, offset, dim1, dim2)
