"""brisk: tensors and autograd that are fast as written. The API follows PyTorch's."""

import importlib

from brisk import _C
from brisk._C import *  # noqa: F403  (functions, dtypes and types: the rows of the extension)
from brisk._C import Tensor
from brisk._install import install
from brisk._arrange import *  # noqa: F403
from brisk import _copy, _memory, autograd, hub, linalg, nn, random, safetensors, serialization
from brisk._legacy import *  # noqa: F403
from brisk._making import *  # noqa: F403
from brisk.serialization import load, save
from brisk.functional import cdist, chain_matmul, einsum, tensordot
from brisk import func, utils
from brisk.func import vmap
from brisk.autograd import enable_grad, inference_mode, no_grad, set_grad_enabled

__version__ = "0.1.0"

# Submodules that are imported when they are first named, so that a program which does without them starts faster.
_LATER = frozenset(("accelerator", "amp", "backends", "cuda", "distributions", "jit", "onnx", "optim"))


def __getattr__(name):
    if name in _LATER:
        return importlib.import_module(f"brisk.{name}")
    if name == "autocast":
        return importlib.import_module("brisk.amp").autocast
    raise AttributeError(f"module 'brisk' has no attribute {name!r}")


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """The model itself: what it records is compiled as it runs."""
    return model if model is not None else lambda model: model


def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulates the gradients of this tensor into the leaves it was computed from."""
    if inputs is None:
        self._backward(gradient, retain_graph, create_graph)
    else:
        autograd.backward(self, gradient, retain_graph, create_graph, inputs)


Tensor.backward = _backward
