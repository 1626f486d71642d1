"""From a list of items to a batch."""

import collections.abc
import copy
import re
import sys

from brisk import _C
from brisk._C import Tensor

__all__ = ["default_collate", "default_convert"]

_NOT_NUMBERS = re.compile(r"[SaUO]")
_WRONG_TYPE = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _is_numpy(x):
    """Whether x is an array or a scalar of NumPy's; NumPy is not imported to find out."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic))


def _is_namedtuple(x):
    return isinstance(x, tuple) and hasattr(x, "_fields")


def default_convert(data):
    """Arrays in nested containers become tensors; nothing is batched."""
    if isinstance(data, Tensor):
        return data
    if _is_numpy(data):
        return data if _NOT_NUMBERS.search(data.dtype.str) else _C.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if _is_namedtuple(data):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _like(data, [default_convert(item) for item in data])
    return data


def _like(original, made):
    """The container as one of the original's type, where that can be made."""
    try:
        if isinstance(original, collections.abc.MutableMapping):
            result = copy.copy(original)
            result.update(made)
            return result
        if isinstance(original, collections.abc.MutableSequence):
            result = copy.copy(original)
            for i, item in enumerate(made):
                result[i] = item
            return result
        return type(original)(made)
    except TypeError:
        return made


def _columns(batch):
    """The items' first parts, second parts, and so on."""
    size = len(batch[0])
    if any(len(item) != size for item in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    return list(zip(*batch))


def _collate_arrays(batch):
    first = batch[0]
    if _NOT_NUMBERS.search(first.dtype.str):
        raise TypeError(_WRONG_TYPE.format(first.dtype))
    if first.shape == () and not hasattr(first, "__array_interface__"):
        return _C.as_tensor(batch)
    return _C.stack([_C.as_tensor(item) for item in batch])


def default_collate(batch):
    """Stacks tensors, arrays and numbers along a new first dimension, in containers part by part."""
    first = batch[0]
    if isinstance(first, Tensor):
        return _C.stack(list(batch), 0)
    if _is_numpy(first):
        return _collate_arrays(batch)
    if isinstance(first, float):
        return _C.tensor(batch, dtype=_C.float64)
    if isinstance(first, int):
        return _C.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, collections.abc.Mapping):
        return _like(first, {key: default_collate([item[key] for item in batch]) for key in first})
    if _is_namedtuple(first):
        return type(first)(*map(default_collate, zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        made = [default_collate(column) for column in _columns(batch)]
        return made if isinstance(first, tuple) else _like(first, made)
    raise TypeError(_WRONG_TYPE.format(type(first)))
