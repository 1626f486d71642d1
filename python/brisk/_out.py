"""out= of functions that are written in Python."""

from brisk import _C


def fill(function, out, result):
    """The result, or what it was written into. Errors name the function as PyTorch's operators are called."""
    if out is None:
        return result
    _C._fill_out(function, result, out)
    kind = type(result)
    return out if isinstance(result, _C.Tensor) else getattr(kind, "_make", kind)(out)
