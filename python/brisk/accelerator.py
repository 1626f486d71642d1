"""The accelerator of this machine, of which there is none: what programs ask before they use it."""

__all__ = [  # noqa: F822  (those refused are set below)
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "empty_cache", "is_available", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip

_MISSING = "Cannot access accelerator device when none is available."


def is_available():
    """False: there is no accelerator."""
    return False


def device_count():
    """0: there is no accelerator."""
    return 0


def current_accelerator(check_available=False):
    """None: there is no accelerator."""
    return None


def _refused(name):
    def function(*args, **kwargs):
        raise RuntimeError(_MISSING)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Refused: there is no accelerator."
    return function


for _name in (
    "current_device_idx", "current_device_index", "current_stream", "empty_cache", "set_device_idx",
    "set_device_index", "set_stream", "synchronize",
):  # fmt: skip
    globals()[_name] = _refused(_name)
