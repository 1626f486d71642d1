"""Forward mode: tangents carried along with values.

A dual tensor is a place on the tape whose tangent its level knows. The tangent of what was computed from it is the
product of the Jacobian with those tangents, taken when it is asked for: the reverse pass is linear in the vector it
starts from, so differentiating it by that vector gives the product. Hence ops must be recorded: while a level is open
they are inside no_grad too, where only passes for tangents find them.
"""

import contextlib
import threading
from typing import NamedTuple

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.grad_mode import enable_grad

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_here = threading.local()  # .level: of this thread, None outside of one; .levels: those of jvp around and inside of it


class Level:
    """The dual tensors that were made at one level: places on the tape, and their tangents."""

    def __init__(self, places=(), tangents=()):
        self.places, self.tangents = list(places), list(tangents)

    def own(self):
        return [p for p in self.places if _C._is_tape_leaf(p)]

    def dual(self, tensor, tangent):
        with enable_grad():
            on_tape = _C._on_tape(tensor)
            place = tensor.clone() if on_tape else _C._for_tangents(_C.zeros_like(tensor, requires_grad=True))
            self.places.append(place)
            self.tangents.append(tangent.to(tensor.dtype))
            return _C._placed_at(tensor, place.clone())  # no leaf: it may be written to

    def tangent(self, tensor):
        """The Jacobian of tensor by the places, times their tangents; None where it depends on none of them."""
        if not self.places or not _C._on_tape(tensor):
            return None
        return _pushed(tensor, tuple(self.places), tuple(self.tangents))

    def leads_outside(self, tensors):
        return _C._leads_outside(tensors, self.own())


def _levels():
    if not hasattr(_here, "levels"):
        _here.levels = []
    return _here.levels


@contextlib.contextmanager
def opened(level):
    """What is computed inside has tangents at this level."""
    _levels().append(level)
    _C._forward_mode(True)
    try:
        yield level
    finally:
        _C._forward_mode(False)
        _levels().remove(level)


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent; None: it has none."""

    primal: Tensor
    tangent: Tensor | None


def _duals():
    return getattr(_here, "level", None)


def enter_dual_level():
    """Starts a level, in which dual tensors can be made. Levels are not nested."""
    if _duals() is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _here.level = Level()
    _levels().append(_here.level)
    _C._forward_mode(True)
    return 0


def exit_dual_level(*, level=None):
    """Ends the level: tensors have no tangents any more."""
    if _duals() is None:
        raise RuntimeError("Dual level must be a positive number.")
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _levels().remove(_here.level)
    _here.level = None
    _C._forward_mode(False)


class dual_level:
    """A context for dual tensors."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exception):
        exit_dual_level()


def _check(primal, tangent):
    for what, t in (("primal", primal), ("tangent", tangent)):
        if not t.dtype.is_floating_point:
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {t.dtype}")
    if primal.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def make_dual(tensor, tangent, *, level=None):
    """The tensor with a tangent: the same memory, which the tape knows by a place of its own."""
    if _duals() is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    _check(tensor, tangent)
    if _C.is_inference_mode_enabled():  # where tensors have no tangents
        return tensor.view_as(tensor)
    if _C._on_tape(tensor) and _duals().tangent(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    return _duals().dual(tensor, tangent)


@contextlib.contextmanager
def tangents_taken():
    was = _C._take_tangents(True)
    try:
        yield
    finally:
        _C._take_tangents(was)


def _pushed(tensor, places, tangents):
    """The Jacobian of tensor by places, times tangents; None where it depends on none of them."""
    from brisk.autograd import _gradients_of

    with enable_grad(), tangents_taken():
        probe = _C.zeros_like(tensor, requires_grad=True)
        gradients = _gradients_of([tensor], list(places), [probe], True, True)
        if all(g is None for g in gradients):
            return None
        used = [(g, t) for g, t in zip(gradients, tangents) if g is not None and _C._on_tape(g)]
        if not used:
            return _C.zeros_like(tensor)
        gradients, tangents = zip(*used)
        (tangent,) = _gradients_of(list(gradients), [probe], list(tangents), True, True)
    return _C.zeros_like(tensor) if tangent is None else tangent


def _outside_of(level, tensor, *others):
    """The tensor, on the tape only if an outer derivative wants to go on from it, or from the others."""
    return tensor if level.leads_outside([tensor, *others]) else tensor.detach()


def _tangents_at(level, tensors):
    found = [None if t is None else level.tangent(t) for t in tensors]
    return [None if t is None else _outside_of(level, t) for t in found]


def with_jvp(jvp, ctx, args, outputs, materialize):
    """The outputs of a custom function as dual tensors, if its inputs are: their tangents are what jvp makes of those.

    An output that is one of the inputs, written in place, stays what it is: its backward is differentiated."""
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    if any(r is a for r in results for a in args):
        return outputs
    tensors = [a if isinstance(a, Tensor) and a.dtype.is_floating_point else None for a in args]
    changed = False
    for level in list(_levels()):
        tangents = _tangents_at(level, tensors)
        if any(t is not None for t in tangents):
            results, changed = _duals_at(level, jvp, ctx, tensors, tangents, results, materialize), True
    return outputs if not changed else results if isinstance(outputs, tuple) else results[0]


def _duals_at(level, jvp, ctx, tensors, tangents, results, materialize):
    if materialize:
        tangents = [_C.zeros_like(a) if t is None and a is not None else t for a, t in zip(tensors, tangents)]
    given = jvp(ctx, *tangents)
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != len(results):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(results)} but got "
            f"{len(given)})"
        )
    for r, t in zip(results, given):
        if t is not None:
            _check(r, t)
    return tuple(r if t is None else level.dual(r, _outside_of(level, t)) for r, t in zip(results, given))


def unpack_dual(tensor, *, level=None):
    """(the tensor's value, its tangent or None)"""
    duals = _duals()
    if duals is None:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    tangent = duals.tangent(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    if duals.leads_outside([tensor, *(t for t in duals.tangents if _C._on_tape(t))]):  # an outer derivative goes on
        return UnpackedDualTensor(tensor, tangent)
    return UnpackedDualTensor(tensor.detach(), tangent.detach())
