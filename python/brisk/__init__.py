"""brisk: tensors and autograd that are fast as written. The API follows PyTorch's."""

from brisk import _C
from brisk._C import *  # noqa: F403  (functions, dtypes and types: the rows of the extension)
from brisk._C import Size, Tensor, device, dtype  # noqa: F401
from brisk._install import install  # noqa: F401

__version__ = "0.1.0"
