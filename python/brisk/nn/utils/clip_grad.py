"""Bounds for gradients. The norm that is returned is as lazy as any tensor: nobody who does not look pays for it."""

import functools
import warnings

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.grad_mode import no_grad

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(parameters):
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


@no_grad()
def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all elements of some tensors."""
    tensors, norm_type = _listed(tensors), float(norm_type)
    if not tensors:
        return _C.tensor(0.0)
    norms = _C.stack([t.norm(norm_type) for t in tensors])
    total = norms.norm(norm_type)
    if error_if_nonfinite and not total.isfinite().item():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales gradients whose total norm is known to at most max_norm."""
    _scale(_gradients(_listed(parameters)), max_norm, total_norm)


def _gradients(parameters):
    grads = [p.grad for p in parameters]
    return [g for g in grads if g is not None]


def _scale(grads, max_norm, total_norm):
    if not grads:
        return
    scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(scale)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales the gradients so that the norm of all of them together is at most max_norm. Returns what it was."""
    if not isinstance(parameters, Tensor):
        exhausted = iter(parameters) is parameters
        parameters = list(parameters)
        if exhausted and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    else:
        parameters = [parameters]
    grads = _gradients(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    with no_grad():
        _scale(grads, max_norm, total)
    return total


@functools.wraps(clip_grad_norm_)
def clip_grad_norm(*args, **kwargs):
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(*args, **kwargs)


@no_grad()
def clip_grad_value_(parameters, clip_value, foreach=None):
    """Bounds every element of the gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    for p in _listed(parameters):
        if p.grad is not None:
            p.grad.clamp_(-clip_value, clip_value)
