"""Functions over tensors that networks are made of: brisk._C._nn, and what takes Python's own kinds of arguments."""

import warnings

from brisk import _C
from brisk._C._nn import *  # noqa: F403  (the rows of the extension)
from brisk._C._nn import leaky_relu

__all__ = [
    "alpha_dropout",
    "cosine_similarity",
    "dropout",
    "embedding",
    "log_softmax",
    "normalize",
    "one_hot",
    "pairwise_distance",
    "rrelu",
    "softmax",
    "softmin",
]


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn between two bounds; their mean when not training."""
    if training:
        raise NotImplementedError("rrelu: training mode")
    return leaky_relu(input, (lower + upper) / 2, inplace)


def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes each element with probability p and divides the others by 1 - p."""
    _check_probability(p)
    return (_C.dropout_ if inplace else _C.dropout)(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps the mean and variance of what a SELU gives."""
    _check_probability(p)
    return (_C.alpha_dropout_ if inplace else _C.alpha_dropout)(input, p, training)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input over its norm along dim, which is taken to be at least eps."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps)
    return _C.div(input, norm.expand_as(input), out=out)


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between two vectors along dim."""
    shape = (x1 + x2).shape
    x1, x2 = x1.expand(shape), x2.expand(shape)
    length1 = x1.norm(2, dim, keepdim=True).clamp_min(eps)
    length2 = x2.norm(2, dim, keepdim=True).clamp_min(eps)
    return ((x1 / length1) * (x2 / length2)).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """The rows of weight that input names; the row padding_idx gets no gradient."""
    if max_norm is not None or scale_grad_by_freq:
        raise NotImplementedError("embedding: max_norm and scale_grad_by_freq are not supported")
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    rows = weight.index_select(0, input.reshape(-1)).reshape(*input.shape, *weight.shape[1:])
    if padding_idx is None:
        return rows
    return _C.where((input == padding_idx % weight.shape[0]).unsqueeze(-1), rows.detach(), rows)


def one_hot(tensor, num_classes=-1):
    """int64 rows that are 1 at the given class and 0 elsewhere."""
    if tensor.dtype != _C.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return _C.zeros((*tensor.shape, num_classes), dtype=_C.int64)
    if tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    highest = tensor.max().item()
    if num_classes == -1:
        num_classes = highest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif highest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == _C.arange(num_classes)).long()


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
