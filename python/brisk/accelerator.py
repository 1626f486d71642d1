"""Devices beside the CPU: there are none, and asking is answered as PyTorch answers on a machine without one."""

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "empty_cache", "is_available", "set_device_index",
    "synchronize",
]  # fmt: skip


def is_available():
    """False."""
    return False


def device_count():
    """0."""
    return 0


def current_accelerator(check_available=False):
    """None."""
    return None


def _refuse(*args, **kwargs):
    raise RuntimeError("there is no accelerator here: tensors are on the CPU")


current_device_index = set_device_index = synchronize = _refuse


def empty_cache():
    """Nothing: no accelerator's memory is held."""
