"""Datasets: objects with items, by number or one after the other."""

import bisect
import itertools
import math
import typing
import warnings

from brisk import _C

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip

_T = typing.TypeVar("_T", covariant=True)


class Dataset(typing.Generic[_T]):
    """Items by number: __getitem__, usually __len__, and __getitems__ where many at once are cheaper."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T]):
    """Items one after the other: __iter__."""

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Item i is the tuple of the tensors' rows i."""

    def __init__(self, *tensors):
        if any(tensors[0].size(0) != t.size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Item i is the tuple, or by keyword the dict, of the datasets' items i."""

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        parts = self._parts()
        self._length = len(parts[0])
        if any(self._length != len(part) for part in parts):
            raise ValueError("Size mismatch between datasets")

    def _parts(self):
        return list(self.datasets.values()) if isinstance(self.datasets, dict) else list(self.datasets)

    def _join(self, items):
        return dict(zip(self.datasets, items)) if isinstance(self.datasets, dict) else tuple(items)

    def __getitem__(self, index):
        return self._join([part[index] for part in self._parts()])

    def __getitems__(self, indices):
        columns = [_items_of(part, indices) for part in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
        return [self._join(row) for row in zip(*columns)]

    def __len__(self):
        return self._length


class ConcatDataset(Dataset[_T]):
    """The items of several datasets, one dataset after the other."""

    @staticmethod
    def cumsum(sequence):
        return list(itertools.accumulate(map(len, sequence)))

    def __init__(self, datasets):
        self.datasets = list(datasets)
        assert self.datasets, "datasets should not be an empty iterable"
        for d in self.datasets:
            assert not isinstance(d, IterableDataset), "ConcatDataset does not support IterableDataset"
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - self.cumulative_sizes[which - 1] if which else idx]

    @property
    def cummulative_sizes(self):
        warnings.warn("cummulative_sizes attribute is renamed to cumulative_sizes", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset):
    """Several iterable datasets, one after the other."""

    def __init__(self, datasets):
        self.datasets = datasets

    def __iter__(self):
        for d in self.datasets:
            assert isinstance(d, IterableDataset), "ChainDataset only supports IterableDataset"
            yield from d

    def __len__(self):
        total = 0
        for d in self.datasets:
            assert isinstance(d, IterableDataset), "ChainDataset only supports IterableDataset"
            total += len(d)
        return total


class Subset(Dataset[_T]):
    """The items of a dataset at the given indices."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        return _items_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self):
        return len(self.indices)


def _items_of(dataset, indices):
    """The items at these indices, at once where the dataset knows how."""
    at_once = getattr(dataset, "__getitems__", None)
    return at_once(indices) if callable(at_once) else [dataset[i] for i in indices]


def random_split(dataset, lengths, generator=None):
    """Subsets of these lengths, or of these fractions of the dataset, chosen at random."""
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        fractions, lengths = lengths, []
        for i, fraction in enumerate(fractions):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
            lengths.append(math.floor(total * fraction))
        for i in range(total - sum(lengths)):
            lengths[i % len(lengths)] += 1
        for i, length in enumerate(lengths):
            if length == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _C.randperm(total, generator=generator or _C.default_generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - length : end]) for end, length in zip(ends, lengths)]
