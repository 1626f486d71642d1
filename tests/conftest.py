"""What every test shares: the module under test, and what it needs to be left as it was found.

BRISK_TEST_MODULE names the module under test (brisk unless told otherwise). With BRISK_TEST_MODULE=torch the tests run
PyTorch against itself: each must pass there, which proves that a test asks for what PyTorch really does.
"""

import importlib
import importlib.util
import os
import sys

import pytest

MODULE = os.environ.get("BRISK_TEST_MODULE", "brisk")

# Some virtual machines name AMX without granting it: PyTorch then fails in a product of bfloat16, and after that
# in every convolution of the process. Without AMX it works everywhere.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


def pytest_report_header(config):
    return f"module under test: {MODULE}"


def pytest_ignore_collect(collection_path, config):
    """Without PyTorch tests/torch cannot even be imported: one placeholder says so instead."""
    if collection_path.parent.name == "torch" and not importlib.util.find_spec("torch"):
        return collection_path.name != "test_needs_torch.py"
    return None


@pytest.fixture(scope="session")
def torch():
    """The module under test, under the name that PyTorch programs use."""
    return importlib.import_module(MODULE)


@pytest.fixture(autouse=True)
def fresh_settings():
    """Printing options, the default dtype and the random state do not leak from one test into the next."""
    yield
    for name in {MODULE, "torch"} & set(sys.modules):
        module = sys.modules[name]
        try:
            module.set_printoptions(profile="default", sci_mode=None)
            module.set_default_dtype(module.float32)
            module.manual_seed(0)
        except AttributeError:
            pass  # a module that lacks a setting fails in the test of that setting, not here
