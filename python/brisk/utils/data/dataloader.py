"""The loader: batches of a dataset, in the order of a sampler, made here or in worker processes."""

import collections
import functools
import itertools
import math
import typing
import warnings

from brisk import _C
from brisk._C import Tensor
from brisk.utils.data import _workers
from brisk.utils.data._workers import get_worker_info  # noqa: F401  (programs import it from here too)
from brisk.utils.data.collate import default_collate, default_convert
from brisk.utils.data.dataset import Dataset, IterableDataset, Subset, TensorDataset, _items_of, random_split  # noqa: F401
from brisk.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T = typing.TypeVar("_T", covariant=True)


class _Endless:
    """The sampler of an iterable dataset: the dataset says when it ends."""

    def __iter__(self):
        return itertools.repeat(None)


# --- from indices to a batch ---------------------------------------------------------------------------------------

_tensor_dataset_item = TensorDataset.__getitem__


def _rows(dataset):
    """The plain tensors whose rows are the dataset's items, and the indices of them that it has (None: all)."""
    indices = None
    if type(dataset) is Subset and type(dataset.indices) is list:
        dataset, indices = dataset.dataset, dataset.indices
    if type(dataset) is not TensorDataset or TensorDataset.__getitem__ is not _tensor_dataset_item:
        return None, None
    plain = all(type(t) is Tensor and not t.requires_grad and t.ndim for t in dataset.tensors)
    return (dataset.tensors if plain else None), indices


def _plain(indices):
    return type(indices) is list and indices and all(type(i) is int and i >= 0 for i in indices)


def _fetch_items(dataset, collate):
    """Batches of a dataset with items. Rows of tensors that would be taken one by one and stacked are taken at once:
    the result has the same memory layout, values and dtype, on no tape in either case."""
    tensors, subset = _rows(dataset) if collate is default_collate else (None, None)

    def fetch(indices):
        if (
            tensors is not None
            and type(indices) is list
            and indices
            and all(type(i) is int and i >= 0 for i in indices)
        ):
            rows = _C.tensor([subset[i] for i in indices] if subset is not None else indices)
            if rows.dtype is _C.int64:
                return [t.index_select(0, rows) for t in tensors]
        return collate(_items_of(dataset, indices))

    return fetch


def _fetch_item(dataset, collate):
    return lambda index: collate(dataset[index])


def _fetch_stream(dataset, collate, drop_last):
    """Batches of an iterable dataset; the task says how many items."""
    items = iter(dataset)

    def fetch(indices):
        batch = list(itertools.islice(items, len(indices)))
        if not batch or (drop_last and len(batch) < len(indices)):
            raise StopIteration
        return collate(batch)

    return fetch


def _fetch_stream_item(dataset, collate):
    items = iter(dataset)
    return lambda index: collate(next(items))


# --- the loader ----------------------------------------------------------------------------------------------------


class DataLoader(typing.Generic[_T]):
    """Iterates over the batches of a dataset. pin_memory is accepted and has no meaning here."""

    def __init__(
        self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
        pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None,
        *, prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True,
    ):  # fmt: skip
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if multiprocessing_context is not None and num_workers == 0:
            raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0)")
        self.dataset, self.num_workers, self.timeout = dataset, num_workers, timeout
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.worker_init_fn, self.multiprocessing_context = worker_init_fn, multiprocessing_context
        self.generator, self.persistent_workers, self.in_order = generator, persistent_workers, in_order
        self._stream = isinstance(dataset, IterableDataset)
        if self._stream:
            self._check_stream(shuffle, sampler, batch_sampler)
        elif shuffle not in (None, True, False):
            raise ValueError(f"expected shuffle to be a bool, but got shuffle={shuffle}")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = self._default_sampler(shuffle)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._told_length = None  # of an iterable dataset
        self._kept = None  # the iterator whose workers persist

    @staticmethod
    def _check_stream(shuffle, sampler, batch_sampler):
        if shuffle not in (None, False):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
            )
        for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )

    def _default_sampler(self, shuffle):
        if self._stream:
            return _Endless()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def _index_sampler(self):
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _make_fetch(self):
        """What makes a batch of a task, as a function without arguments that can travel to a worker."""
        batched, args = self.batch_sampler is not None, (self.dataset, self.collate_fn)
        if self._stream:
            return functools.partial(_fetch_stream, *args, self.drop_last) if batched else functools.partial(
                _fetch_stream_item, *args
            )  # fmt: skip
        return functools.partial(_fetch_items if batched else _fetch_item, *args)

    def __iter__(self):
        if self.num_workers == 0:
            return _HereIterator(self)
        if not self.persistent_workers:
            return _WorkersIterator(self)
        if self._kept is None:
            self._kept = _WorkersIterator(self)
        else:
            self._kept.reset()
        return self._kept

    def __len__(self):
        if not self._stream:
            return len(self._index_sampler)
        length = len(self.dataset)
        if self.batch_size is not None:
            length = length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)
        self._told_length = length
        return length

    def check_worker_number_rationality(self):
        pass


class _Iterator:
    """Draws the base seed of its workers when it is made, workers or not: PyTorch does, and draws count."""

    def __init__(self, loader):
        self.loader = loader
        self.tasks = iter(loader._index_sampler)
        self.base_seed = draw_seed(loader.generator)
        self.yielded = 0

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.loader._index_sampler)

    def _count(self):
        """Whoever asked for the length of an iterable dataset should know that it was wrong."""
        self.yielded += 1
        loader, length = self.loader, self.loader._told_length
        if length is not None and self.yielded > length:
            warnings.warn(
                f"Length of IterableDataset {loader.dataset} was reported to be {length}, but {self.yielded} "
                "samples have been fetched.",
                stacklevel=3,
            )


class _HereIterator(_Iterator):
    def __init__(self, loader):
        super().__init__(loader)
        self.fetch = loader._make_fetch()()

    def __next__(self):
        batch = self.fetch(next(self.tasks))
        if self.loader._stream:
            self._count()
        return batch


class _WorkersIterator(_Iterator):
    def __init__(self, loader):
        super().__init__(loader)
        self.workers = _workers.Workers(loader, loader._make_fetch(), self.base_seed)
        self.start()

    def start(self):
        self.turn = itertools.cycle(range(self.loader.num_workers))
        self.active = set(range(self.loader.num_workers))
        self.given = collections.deque()  # the worker of each task that has no answer yet, in the order of the tasks
        self.ended = False
        for _ in range(self.loader.prefetch_factor * self.loader.num_workers):
            self.give()

    def reset(self):
        """Once more from the start, in the same processes."""
        while self.given:
            self.workers.take(self.given.popleft())
        for worker in range(self.loader.num_workers):
            self.workers.give(worker, "reset")
        self.tasks = iter(self.loader._index_sampler)
        self.yielded = 0
        self.start()

    def give(self):
        """The next task to the next worker that still has items."""
        if self.ended or not self.active:
            return
        try:
            task = next(self.tasks)
        except StopIteration:
            self.ended = True
            return
        worker = next(w for w in self.turn if w in self.active)
        self.workers.give(worker, task)
        self.given.append(worker)

    def __next__(self):
        if not self.given:
            self.give()
        while self.given:
            worker = self.given.popleft()
            try:
                answer = self.workers.take(worker)
            except RuntimeError:
                self.given.appendleft(worker)
                raise
            if isinstance(answer, _workers.End):
                self.active.discard(worker)
                self.give()
                continue
            self.give()
            if isinstance(answer, _workers.Failure):
                answer.reraise()
            self._count()
            return answer.data
        if not self.loader.persistent_workers:
            self.workers.stop()
        raise StopIteration

    def __del__(self):
        workers = getattr(self, "workers", None)
        if workers is not None:
            workers.stop()
