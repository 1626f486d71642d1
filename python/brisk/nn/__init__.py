"""Building blocks of networks."""

from brisk._missing import finder
from brisk.nn import functional, init, modules, parallel, parameter, utils
from brisk.nn.modules import *  # noqa: F403
from brisk.nn.parallel import DataParallel
from brisk.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init", "modules",
    "parallel", "parameter", "utils", *modules.__all__,
]  # fmt: skip

__getattr__ = finder(__name__)
