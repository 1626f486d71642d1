"""Functions over tensors that networks are made of: brisk._C._nn, and what takes Python's own kinds of arguments."""

import warnings

from brisk import _C
from brisk._C._nn import *  # noqa: F403  (the rows of the extension)
from brisk._C._nn import leaky_relu

__all__ = ["log_softmax", "rrelu", "softmax", "softmin"]


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn between two bounds; their mean when not training."""
    if training:
        raise NotImplementedError("rrelu: training mode")
    return leaky_relu(input, (lower + upper) / 2, inplace)


def _softmax_dim(name, ndim, stacklevel):
    """The dimension that was meant before it had to be named."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """Exponentials over their sum along dim."""
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return _C.softmax(input, dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -input."""
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return _C.softmax(-input, dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax, computed without its rounding."""
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return _C.log_softmax(input, dim, dtype=dtype)
