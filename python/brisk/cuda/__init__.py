"""CUDA, of which there is none: what programs ask before they use it, and calls that mean nothing without it."""

import contextlib

from brisk._missing import finder
from brisk.cuda import amp

__all__ = [
    "Event", "Stream", "amp", "current_device", "current_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all",
    "initial_seed", "ipc_collect", "is_available", "is_bf16_supported", "is_initialized", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_reserved", "memory_stats", "memory_summary", "reset_max_memory_allocated", "reset_peak_memory_stats",
    "seed", "seed_all", "set_device", "set_rng_state", "set_rng_state_all", "stream", "synchronize",
]  # fmt: skip

_MISSING = "Torch not compiled with CUDA enabled"


def is_available():
    return False


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def device_count():
    return 0


def _nothing(name, result=None):
    def function(*args, **kwargs):
        return result

    function.__name__ = function.__qualname__ = name
    return function


def _refused(name):
    def function(*args, **kwargs):
        raise AssertionError(_MISSING)

    function.__name__ = function.__qualname__ = name
    return function


for _name in (
    "empty_cache", "ipc_collect", "manual_seed", "manual_seed_all", "reset_max_memory_allocated",
    "reset_peak_memory_stats", "seed", "seed_all", "set_rng_state_all",
):  # fmt: skip
    globals()[_name] = _nothing(_name)
for _name in ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved"):
    globals()[_name] = _nothing(_name, 0)
for _name in (
    "current_device", "current_stream", "get_device_capability", "get_device_name", "get_device_properties",
    "get_rng_state", "initial_seed", "mem_get_info", "memory_stats", "memory_summary", "set_device", "set_rng_state",
    "synchronize", "Event", "Stream",
):  # fmt: skip
    globals()[_name] = _refused(_name)


def get_rng_state_all():
    return []


@contextlib.contextmanager
def device(device):
    """Nothing to choose from."""
    yield


@contextlib.contextmanager
def stream(stream):
    """None stands for no stream, which is what there is."""
    if stream is not None:
        raise AssertionError(_MISSING)
    yield


__getattr__ = finder(__name__)
