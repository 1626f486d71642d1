"""CUDA's settings: flags that may be set and change nothing."""

import contextlib
import types

__all__ = ["is_built", "matmul", "sdp_kernel"]

matmul = types.SimpleNamespace(
    allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True
)


def is_built():
    return False


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Nothing changes inside."""
    yield


def enable_flash_sdp(enabled):
    """Nothing to do."""


def enable_math_sdp(enabled):
    """Nothing to do."""


def enable_mem_efficient_sdp(enabled):
    """Nothing to do."""
