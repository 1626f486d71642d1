"""brisk.install(): `import torch` gives brisk, for notebooks and conftest.py. _brisk_as_torch.py does the work."""

from _brisk_as_torch import install

__all__ = ["install"]
