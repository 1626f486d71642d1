"""What programs need around the tensors."""

from brisk.utils import data, model_zoo

__all__ = ["data", "model_zoo"]
