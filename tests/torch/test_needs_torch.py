"""Says in the report that the comparison with PyTorch ran, or why it did not."""

import pytest


def test_pytorch_is_installed_so_the_comparison_runs():
    pytest.importorskip("torch", reason="PyTorch, the reference of tests/torch, is not installed")
