"""The tape as an object: its functions, edges between them, and what they save.

Hooks for saved tensors see what gradients will read: pack is called when an op's result comes into being, for each
value that its gradient reads, and unpack when a backward runs it. Which values those are is brisk's business: an op
that saves its result in PyTorch may read its input here.
"""

import contextlib
import threading
from typing import NamedTuple

from brisk import _C
from brisk.autograd.grad_mode import no_grad

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
           "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
           "saved_tensors_hooks"]  # fmt: skip

Node = _C._Node


# --- edges


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes: a function and the number of its output."""

    node: Node
    output_nr: int
    ownership_token: object = None


def get_gradient_edge(tensor):
    """The edge of a tensor that requires gradients; autograd.grad and backward take it in the tensor's place."""
    return GradientEdge(*tensor._gradient_edge(), _C._stand_in(tensor))


def _tensor_at(edge):
    """A tensor at an edge, for passes that want tensors."""
    return edge.ownership_token if edge.ownership_token is not None else edge.node._stand_in(edge.output_nr)


def increment_version(tensor):
    """Counts a write to the tensor, or to each of several, that happened behind the tape's back."""
    for t in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        _C._increment_version(t)


# --- what is saved


_here = threading.local()  # .refused: why this thread may have no hooks


class saved_tensors_hooks:
    """A context in which pack_hook(tensor) is kept for what a backward needs, and unpack_hook(kept) gives it back."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before = []

    def _pack(self, tensor):
        with no_grad():
            version = None if tensor.is_inference() else tensor._version
            packed = self.pack_hook(tensor)
            if version is not None and tensor._version != version:
                raise RuntimeError(
                    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
                    "cannot be modified by in-place operations as this can lead to unexpected side-effects. Please "
                    "open an issue if you need to perform in-place operations on the input to a pack hook."
                )
            return packed, self.unpack_hook

    def __enter__(self):
        if getattr(_here, "refused", None) is not None:
            raise RuntimeError(_here.refused)
        self._before.append(_C._swap_saver(self._pack))

    def __exit__(self, *exception):
        _C._swap_saver(self._before.pop())


class save_on_cpu(contextlib.nullcontext):
    """Saved values are in the machine's memory already."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__()


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """A context in which saved_tensors_hooks raises a RuntimeError with this message."""
    before = getattr(_here, "refused", None)
    if _C._has_saver():
        raise RuntimeError(error_message)
    _here.refused = error_message
    try:
        yield
    finally:
        _here.refused = before


class _SavedTensors:
    """What allow_mutation_on_saved_tensors gives: it holds nothing."""

    def clear(self):
        pass


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """What built-in ops saved is not changed by later writes in any case."""
    yield _SavedTensors()


# --- hooks on several tensors


class _Handles:
    """Takes several hooks off."""

    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn when gradients of tensors are there: mode "all": fn(list of gradients, None for those that a pass does
    not reach) once for each pass; "any": fn(gradient), for the first of them."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors, lock = list(tensors), threading.Lock()
    if not all(t.requires_grad for t in tensors):
        raise AssertionError("Expected gradient function to be set")
    found = {}  # pass -> the gradients so far, and how many there will be

    def on_all(index):
        def hook(gradient):
            number = _C._pass_number()
            with lock:
                if number not in found:
                    found.clear()  # of passes that failed
                    found[number] = [[None] * len(tensors), sum(_C._pass_reaches(t) for t in tensors)]
                gradients, missing = found[number]
                gradients[index] = gradient
                found[number][1] = missing = missing - 1
                if missing:
                    return
                del found[number]
            fn(gradients)

        return hook

    def on_any(gradient):
        with lock:
            number = _C._pass_number()
            if number in found:
                return
            found.clear()
            found[number] = True
        fn(gradient)

    return _Handles([t.register_hook(on_all(i) if mode == "all" else on_any) for i, t in enumerate(tensors)])
