"""Gradients: backward(), grad modes, custom functions."""

from brisk.autograd import function
from brisk.autograd.function import Function
from brisk.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = ["Function", "Variable", "backward", "enable_grad", "function", "inference_mode", "no_grad", "set_grad_enabled"]


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False):
    """Accumulates the gradients of the given tensors into the leaves they were computed from."""
    tensors = (tensors,) if not isinstance(tensors, (list, tuple)) else tensors
    if grad_tensors is None:
        grad_tensors = [None] * len(tensors)
    elif not isinstance(grad_tensors, (list, tuple)):
        grad_tensors = [grad_tensors]
    for i, (t, g) in enumerate(zip(tensors, grad_tensors)):
        last = i == len(tensors) - 1
        t._backward(g, retain_graph if last else True, create_graph)


def Variable(data, requires_grad=False, volatile=False):
    """A tensor: the name is from before tensors had gradients of their own."""
    v = data.detach()
    return v.requires_grad_(requires_grad) if requires_grad else v
