"""brisk.install(): `import torch` gives brisk, for notebooks and conftest.py. The machinery is in _brisk_as_torch.py."""

from _brisk_as_torch import install

__all__ = ["install"]
