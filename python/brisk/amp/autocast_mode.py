"""autocast, under the name of the module it is defined in."""

from brisk.amp import autocast

__all__ = ["autocast"]
