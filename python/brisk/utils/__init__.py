"""What programs use around models: checkpoint."""

from brisk.utils import checkpoint

__all__ = ["checkpoint"]
