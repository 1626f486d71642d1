"""The long tail of rearranging tensors: what is rare enough to be composed in Python."""

import itertools

from brisk import _C
from brisk._composed import looks_like

__all__ = ["block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "combinations"]


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes broadcast to."""
    sizes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    ndim = max(map(len, sizes), default=0)
    result = [1] * ndim
    for shape in sizes:
        for d, size in enumerate(shape, ndim - len(shape)):
            if size < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({size}): ({size})")
            if size == 1 or size == result[d]:
                continue
            if result[d] != 1:
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            result[d] = size
    return _C.Size(result)


def broadcast_tensors(*tensors):
    """Views of the tensors with the shape they broadcast to."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    ndim = max(t.ndim for t in tensors)
    result = [1] * ndim
    for t in tensors:
        for d, size in reversed(list(enumerate(t.shape, ndim - t.ndim))):
            if size != 1 and result[d] not in (1, size):
                raise RuntimeError(
                    f"The size of tensor a ({result[d]}) must match the size of tensor b ({size}) at non-singleton "
                    f"dimension {d}"
                )
            result[d] = result[d] if size == 1 else size
    return tuple(t if list(t.shape) == result else t.expand(*result) for t in tensors)


def block_diag(*tensors):
    """A matrix with the tensors along its diagonal."""
    return _C._block_diag(tensors)


def cartesian_prod(*tensors):
    """All choices of one element from each of the 1-d tensors, a row each."""
    if len(tensors) == 1:
        return tensors[0]
    for t in tensors:
        if t.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    columns = []
    for k, t in enumerate(tensors):
        columns.append(t.reshape([-1 if d == k else 1 for d in range(len(tensors))]))
    return _C.stack([c.flatten() for c in broadcast_tensors(*columns)], 1)


def combinations(input, r=2, with_replacement=False):
    """All choices of r elements of the 1-d tensor, a row each."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty(0)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = _C.tensor(list(choose(range(len(input)), r)), dtype=_C.int64).reshape(-1, r)
    return _C.stack([_chosen(input, column) for column in places.unbind(1)], 1)


_chosen = looks_like("_chosen")(_C.take)
