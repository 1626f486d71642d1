"""What programs use around models: data, checkpoint. The first is imported when it is asked for: it needs modules that
importing brisk does not have to wait for."""

from brisk._missing import finder
from brisk.utils import checkpoint

__all__ = ["checkpoint", "data", "dlpack", "model_zoo"]


__getattr__ = finder(__name__, later=("data", "dlpack", "model_zoo", "tensorboard"))
