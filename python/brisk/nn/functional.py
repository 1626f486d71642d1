"""Functions over tensors that networks are made of: brisk._C._nn, and what takes Python's own kinds of arguments."""

from brisk._C._nn import *  # noqa: F403  (the rows of the extension)
from brisk._C._nn import leaky_relu

__all__ = ["rrelu"]


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn between two bounds; their mean when not training."""
    if training:
        raise NotImplementedError("rrelu: training mode")
    return leaky_relu(input, (lower + upper) / 2, inplace)
