"""Parameters: tensors that a module owns and an optimiser updates."""

from brisk import _C
from brisk._C import Tensor

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf that modules register as theirs when it is assigned to them."""

    def __new__(cls, data=None, requires_grad=True):
        return _C._make_subclass(cls, _C.empty(0) if data is None else data, requires_grad)

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.data.clone(), self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return _rebuild, (self.data, self.requires_grad)


def _rebuild(data, requires_grad):
    return Parameter(data, requires_grad)
