"""What distributions share: numbers that become tensors of one shape, probabilities and their logits."""

import functools

from brisk import _C
from brisk._arrange import broadcast_tensors
from brisk._C import Tensor
from brisk.autograd.grad_mode import enable_grad

__all__ = ["broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits"]


def broadcast_all(*values):
    """Numbers and tensors, as tensors of one shape."""
    if not all(isinstance(v, (Tensor, int, float)) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                         "__torch_function__.")  # fmt: skip
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = _C.get_default_dtype() if like is None else like.dtype
    tensors = [v if isinstance(v, Tensor) else _C.tensor(v, dtype=dtype) for v in values]
    return broadcast_tensors(*tensors)


def clamp_probs(probs):
    """Probabilities that have finite logits."""
    eps = _C.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """log(p), or log(p / (1 - p))."""
    probs = clamp_probs(probs)
    return probs.log() - (-probs).log1p() if is_binary else probs.log()


def logits_to_probs(logits, is_binary=False):
    """The reverse."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


class lazy_property:
    """A property that is computed once, when it is asked for."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value
