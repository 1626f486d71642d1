"""GradScaler, under the name of the module it is defined in."""

from brisk.amp import GradScaler

__all__ = ["GradScaler"]
