"""What programs use around models: data, checkpoint. The first is imported when it is asked for: it needs modules that
importing brisk does not have to wait for."""

import importlib

from brisk.utils import checkpoint

__all__ = ["checkpoint", "data", "model_zoo"]


def __getattr__(name):
    if name in ("data", "model_zoo"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
