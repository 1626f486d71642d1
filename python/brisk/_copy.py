"""Copies and pickles of tensors. Tensors that share memory still share it in the copy, because the storage is an object
of its own that copy and pickle remember."""

import copy

from brisk import _C
from brisk._C import Tensor


def _rebuild(kind, storage, offset, size, stride, requires_grad):
    t = _C._tensor_on_storage(storage, offset, size, stride)
    if kind is not Tensor:
        return _C._make_subclass(kind, t, requires_grad)
    return _C._as_leaf(t) if requires_grad else t


def _parts(t):
    return t.storage_offset(), tuple(t.shape), t.stride(), t.requires_grad


def _reduce_ex(self, protocol):
    state = (self.__dict__,) if self.__dict__ else ()
    return (_rebuild, (type(self), self.untyped_storage(), *_parts(self)), *state)


def _deepcopy(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )
    new = _rebuild(type(self), copy.deepcopy(self.untyped_storage(), memo), *_parts(self))
    memo[id(self)] = new
    if self.grad is not None:
        new.grad = copy.deepcopy(self.grad, memo)
    if self.__dict__:
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return new


Tensor.__reduce_ex__ = _reduce_ex
Tensor.__deepcopy__ = _deepcopy
