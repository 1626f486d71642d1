"""Building blocks of networks."""

from brisk.nn import functional
from brisk.nn.parameter import Parameter

__all__ = ["Parameter", "functional"]
