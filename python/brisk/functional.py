"""Functions of the package whose arguments need Python: lists of subscripts, pairs of dimension lists."""

from brisk import _C
from brisk._C import Tensor
from brisk._once import warn_once

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "cdist", "chain_matmul", "einsum", "tensordot"]


def atleast_1d(*tensors):
    """The tensor with one dimension or more; a tuple of them, of several."""
    return _C.atleast_1d(*tensors) if len(tensors) == 1 else _C.atleast_1d(tensors)


def atleast_2d(*tensors):
    """The tensor with two dimensions or more; a tuple of them, of several."""
    return _C.atleast_2d(*tensors) if len(tensors) == 1 else _C.atleast_2d(tensors)


def atleast_3d(*tensors):
    """The tensor with three dimensions or more; a tuple of them, of several."""
    return _C.atleast_3d(*tensors) if len(tensors) == 1 else _C.atleast_3d(tensors)


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _subscripts(labels):
    text = ""
    for label in labels:
        if label is Ellipsis:
            text += "..."
        elif 0 <= label < len(_LETTERS):
            text += _LETTERS[label]
        else:
            raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return text


def einsum(*args):
    """Sums of products over named dimensions: einsum("ij,jk->ik", x, y), or einsum(x, [0, 1], y, [1, 2], [0, 2])."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, "
            "or at least one operand and its subscripts list"
        )
    if isinstance(args[0], Tensor):
        pairs = len(args) // 2
        operands = args[: 2 * pairs : 2]
        equation = ",".join(_subscripts(labels) for labels in args[1 : 2 * pairs : 2])
        if len(args) % 2:
            equation += "->" + _subscripts(args[-1])
    else:
        equation, operands = args[0], args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        return einsum(equation, *operands[0])
    return _C._einsum(equation, list(operands))


def tensordot(a, b, dims=2, out=None):
    """Sums over the last dims dimensions of a and the first of b, or over the pairs that two lists name."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, (tuple, list)):
        if len(dims) == 1:
            dims = dims[0]
        else:
            first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
            return _C._tensordot(a, b, first, second, out=out)
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}, ndim_a={a.dim()}, ndim_b={b.dim()}"
            )
        return _C._tensordot(a, b, list(range(-dims, 0)), list(range(dims)), out=out)
    raise RuntimeError("tensordot expects dims to be an int or two lists of ints")


_CDIST_MODES = {
    "use_mm_for_euclid_dist_if_necessary": 0,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}


def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """Distances between the rows of x1 and those of x2."""
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _C._cdist(x1, x2, p, _CDIST_MODES[compute_mode])


def chain_matmul(*matrices, out=None):
    """The product of matrices, in the order that takes the fewest operations."""
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = matrices[0]
    return _C._chain_matmul(list(matrices), out=out)
