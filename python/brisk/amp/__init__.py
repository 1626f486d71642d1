"""Mixed precision: accepted, and computed in the precision of the tensors.

A program that asks for it runs, in float32. The scaler behaves as PyTorch's does where CUDA is missing: disabled.
"""

import functools
import warnings

from brisk import _C
from brisk._missing import finder

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_enabled(device_type=None):
    """False: tensors keep their precision, also within autocast."""
    return False


def get_autocast_dtype(device_type):
    """What PyTorch would compute in, on that device."""
    return _C.bfloat16 if device_type == "cpu" else _C.float16


def is_autocast_cpu_enabled():
    """False, as is_autocast_enabled."""
    return False


def get_autocast_cpu_dtype():
    """What PyTorch would compute in."""
    return _C.bfloat16


def get_autocast_gpu_dtype():
    """What PyTorch would compute in, on a GPU."""
    return _C.float16


def is_autocast_cache_enabled():
    """True, as in PyTorch; there is nothing to keep."""
    return True


def clear_autocast_cache():
    """There is nothing to forget."""


def is_autocast_available(device_type):
    return device_type == "cpu"


class autocast:
    """A context (or decorator) in which nothing changes."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device, self.fast_dtype, self._enabled = device_type, dtype, False
        if device_type == "cuda" and enabled:
            warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return wrapper


def custom_fwd(fwd=None, *, device_type=None, cast_inputs=None):
    """The function itself."""
    return fwd if fwd is not None else lambda fn: fn


def custom_bwd(bwd=None, *, device_type=None):
    """The function itself."""
    return bwd if bwd is not None else lambda fn: fn


class GradScaler:
    """Scales by 1: losses are computed in their own precision, whose range needs no scaling."""

    def __init__(
        self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
        enabled=True,
    ):  # fmt: skip
        if enabled and device == "cuda":
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
        self._enabled = False
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )

    def scale(self, outputs):
        """The outputs."""
        return outputs

    def unscale_(self, optimizer):
        """Nothing to do."""

    def step(self, optimizer, *args, **kwargs):
        """The optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale=None):
        """Nothing to do."""

    def get_scale(self):
        return 1.0

    def is_enabled(self):
        return False

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def state_dict(self):
        return {}

    def load_state_dict(self, state_dict):
        """Nothing to take over."""


__getattr__ = finder(__name__)
