"""What programs use around models: data, checkpoint."""

from brisk.utils import checkpoint, data, model_zoo

__all__ = ["checkpoint", "data", "model_zoo"]
