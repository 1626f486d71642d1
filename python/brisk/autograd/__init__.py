"""Gradients: backward(), grad(), grad modes, custom functions."""

import threading
import warnings

from brisk import _C
from brisk._C import Tensor
from brisk._missing import finder
from brisk.autograd import anomaly_mode, forward_ad, function, functional, graph, hooks
from brisk.autograd import gradcheck as _gradcheck
from brisk.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from brisk.autograd.function import Function
from brisk.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled, set_multithreading_enabled

gradcheck, gradgradcheck, GradcheckError = _gradcheck.gradcheck, _gradcheck.gradgradcheck, _gradcheck.GradcheckError

__all__ = [
    "Function", "GradcheckError", "Variable", "anomaly_mode", "backward", "detect_anomaly", "enable_grad", "forward_ad",
    "function", "functional", "grad", "gradcheck", "gradgradcheck", "graph", "hooks", "inference_mode", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

_pass = threading.local()  # .only_inputs: the running pass gives gradients to some tensors, not to the leaves


def _accumulates():
    return not getattr(_pass, "only_inputs", False)


def _run(outputs, gradients, inputs, retain, create, accumulate):
    before = getattr(_pass, "only_inputs", False)
    _pass.only_inputs = inputs is not None
    try:
        return _C._run_backward(outputs, gradients, inputs, retain, create, accumulate)
    finally:
        _pass.only_inputs = before


def _listed(tensors):
    """Tensors, or edges of the graph in their place, as a list of tensors."""
    listed = [tensors] if isinstance(tensors, (Tensor, graph.GradientEdge)) else list(tensors)
    return [graph._tensor_at(t) if isinstance(t, graph.GradientEdge) else t for t in listed]


def _inputs(tensors, caller):
    """What gradients are asked for, as a list of tensors."""
    listed = _listed(tensors)
    if not listed:
        raise RuntimeError(f"`inputs` argument to `{caller}()` cannot be empty.")
    for t in listed:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    return listed


def _check_batch(outputs, given, vectors):
    """Each output has a batch of vectors of its size, and all batches are of one size."""
    for k, (v, o) in enumerate(zip(given, outputs)):
        if v is not None and v[0].shape != o.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{k}] has a shape of {v[0].shape[1:]} and "
                f"output[{k}] has a shape of {o.shape}. If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap."
            )
    if any(v.dim() == 0 for v in vectors):
        raise ValueError(
            "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor of "
            "dimensionality 0 so expected in_dim to satisfy 0 <= in_dim < 0."
        )
    sizes = [len(v) for v in vectors]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )


def _batched(outputs, inputs, vectors, retain, create, allow_unused):
    """The gradients for each of a batch of vectors, stacked."""
    given = [None] * len(outputs) if vectors is None else _listed(vectors)
    vectors = list(_first_gradients(outputs, given))
    _check_batch(outputs, given, vectors)
    count = len(vectors[0])
    rows = [
        _gradients_of(outputs, inputs, [v[i] for v in vectors], retain or i + 1 < count, create, allow_unused)
        for i in range(count)
    ]
    return tuple(None if column[0] is None else _C.stack(column) for column in zip(*rows))


def _first_gradients(outputs, gradients):
    """A gradient for each output: ones where none is given, which only a scalar can do without."""
    gradients = [None] * len(outputs) if gradients is None else _listed(gradients)
    if len(gradients) < len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(gradients)} gradients")
    for output, gradient in zip(outputs, gradients):
        if gradient is None and not _C._on_tape(output):
            yield output  # the pass itself says what is wrong with it
        elif gradient is None and output.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        elif gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
        else:
            yield _C.ones_like(output) if gradient is None else gradient


def _check_asked(tensors):
    """What forward mode alone has put on the tape has no gradient to the user."""
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise AssertionError("Expected output to be a torch.Tensor")
        if not t.requires_grad and _C._on_tape(t):
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")


def backward(
    tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None
):  # fmt: skip
    """Accumulates the gradients of the given tensors into the leaves they were computed from, or into inputs."""
    if grad_variables is not None:
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use `grad_tensors`."
            )
        grad_tensors = grad_variables
    tensors = _listed(tensors)
    if inputs is not None:
        inputs = _inputs(inputs, "backward")
    _check_asked(tensors)
    retain = create_graph if retain_graph is None else retain_graph
    _run(tensors, list(_first_gradients(tensors, grad_tensors)), inputs, retain, create_graph, True)


def grad(
    outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
    is_grads_batched=False, materialize_grads=False,
):  # fmt: skip
    """The gradients of outputs by inputs; no leaf takes any."""
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    names = list(inputs) if type(inputs) is dict else None
    outputs, inputs = _listed(outputs), _inputs(inputs if names is None else inputs.values(), "grad")
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    _check_asked(outputs)
    retain = create_graph if retain_graph is None else retain_graph
    find = _batched if is_grads_batched else _gradients_of
    results = find(outputs, inputs, grad_outputs, retain, create_graph, allow_unused or materialize_grads)
    if materialize_grads:
        results = tuple(
            _C.zeros_like(x, requires_grad=create_graph) if g is None else g for g, x in zip(results, inputs)
        )
    return results if names is None else dict(zip(names, results))


def _gradients_of(outputs, inputs, grad_outputs, retain, create_graph, allow_unused=True):
    """grad, also of what only forward mode has put on the tape."""
    gradients = list(_first_gradients(outputs, grad_outputs))
    results = _run(outputs, gradients, inputs, retain, create_graph, False)
    for index, g in enumerate(results):
        if g is None and not allow_unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
    return results


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """A tensor: the name is from before tensors had gradients of their own."""

    def __new__(cls, data=None, requires_grad=False, volatile=False):
        if data is None:
            return _C.tensor([])
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        v = data.detach()
        return v.requires_grad_() if requires_grad else v


__getattr__ = finder(__name__, later=("profiler",))
