"""torch.sparse: there are no sparse tensors. Programs import the module, and some reach the package through it."""

import brisk as torch  # noqa: F401  (torch.sparse.torch)
from brisk._missing import finder

__all__ = []

__getattr__ = finder(__name__)
