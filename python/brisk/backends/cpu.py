"""What the CPU can do."""

from brisk import _C

__all__ = ["get_cpu_capability"]


def get_cpu_capability():
    """The instruction set in use, in PyTorch's words."""
    return {"avx2": "AVX2", "avx512": "AVX512"}.get(_C.info()["isa"], "DEFAULT")
