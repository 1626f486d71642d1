"""Building blocks of networks."""

from brisk.nn import functional, init, modules, parameter, utils
from brisk.nn.modules import *  # noqa: F403
from brisk.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init", "modules",
    "parameter", "utils", *modules.__all__,
]  # fmt: skip
