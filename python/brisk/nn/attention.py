"""Which kernel computes attention: there is one here, so a choice changes nothing."""

import contextlib
import enum

from brisk._missing import finder

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """PyTorch's kernels of scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """A context (or decorator) in which attention is computed as everywhere else."""
    listed = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(listed, (list, tuple)) or not all(isinstance(b, SDPBackend) for b in listed):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield {}


__getattr__ = finder(__name__)
