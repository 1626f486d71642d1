"""Resolves `import torch` and its submodules to brisk's, and `import functorch` to what stands for it there.

`torch.nn.functional` is `brisk.nn.functional`, the same module object under a second name. A submodule that brisk does
not have is a ModuleNotFoundError that names it, and importlib.util.find_spec gives None for it, as for any other.

This module stands beside the package, not in it: brisk-as-torch.pth imports it when an interpreter starts with
BRISK_AS_TORCH set, which is how processes started by a program resolve torch too; most of them never need it, and
importing the package for it would cost each of them NumPy's start-up time.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

VARIABLE = "BRISK_AS_TORCH"
PACKAGES = {"torch": "brisk", "functorch": "brisk.functorch"}
FOLLOWED = "2.13.0"  # the PyTorch whose API this is


class _Alias:
    """Loads the module `name` and presents it as the module asked for."""

    def __init__(self, name):
        self.name = name

    def create_module(self, spec):
        module = importlib.import_module(self.name)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.own_spec  # the import system has just set the alias's
        if self.name == "brisk":  # programs ask which PyTorch's API they can count on
            version = importlib.import_module("brisk.torch_version").TorchVersion
            module.__version__ = version(FOLLOWED + "+brisk")
            importlib.import_module("brisk._numpy_ahead").look()  # for who imports torch, where brisk was there before


class _Finder:
    def find_spec(self, fullname, path=None, target=None):
        top, dot, rest = fullname.partition(".")
        if top not in PACKAGES:
            return None
        name = PACKAGES[top] + dot + rest
        found = importlib.util.find_spec(name)
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, _Alias(name), origin=found.origin, is_package=is_package)


def install():
    """From now on `import torch` gives brisk, in this process and in those it starts."""
    module = sys.modules.get("torch")
    if module is not None and module is not sys.modules.get("brisk"):
        raise RuntimeError("torch has been imported already: call brisk.install() before the first `import torch`")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    os.environ[VARIABLE] = "1"
