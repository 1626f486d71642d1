"""Parameters as one vector."""

from brisk import _C
from brisk._C import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters):
    """The elements of all parameters, one after the other."""
    return _C.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Lets the parameters' data be parts of a vector."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    at = 0
    for p in parameters:
        p.data = vec[at : at + p.numel()].view_as(p).data
        at += p.numel()
