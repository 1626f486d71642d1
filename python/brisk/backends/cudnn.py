"""cuDNN, which is not there. benchmark and deterministic may be set: what is computed is deterministic."""

import contextlib

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available", "version"]

enabled, benchmark, deterministic, allow_tf32, benchmark_limit = True, False, False, True, None


def is_available():
    return False


def version():
    return None


@contextlib.contextmanager
def flags(
    enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, fp32_precision="none"
):
    """Nothing changes inside."""
    yield
