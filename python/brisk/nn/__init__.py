"""Building blocks of networks."""

from brisk.nn import functional

__all__ = ["functional"]
