"""Datasets, samplers and loaders against PyTorch's: the same seed gives the same batches in the same order."""

import collections
import importlib

import numpy as np
import pytest
import torch as REF

from .compare import SUT

Point = collections.namedtuple("Point", "x y")


def data_of(torch):
    return importlib.import_module(torch.__name__ + ".utils.data")


def plain(x):
    """Batches of either library as Python values, with the types of the containers."""
    if hasattr(x, "untyped_storage"):
        return ("tensor", str(x.dtype), tuple(x.shape), x.stride(), x.tolist())
    if isinstance(x, dict):
        return (type(x).__name__, {key: plain(value) for key, value in x.items()})
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, [plain(value) for value in x])
    return (type(x).__name__, x)


def squares(data):
    class Squares(data.Dataset):
        def __len__(self):
            return 23

        def __getitem__(self, i):
            if not 0 <= i < 23:
                raise IndexError(i)
            return i * i, float(i)

    return Squares()


def stream(data):
    class Stream(data.IterableDataset):
        def __iter__(self):
            info = data.get_worker_info()
            return iter(range(10) if info is None else range(info.id, 10 + 3 * info.id, info.num_workers))

    return Stream()


def tensors(torch, data):
    return data.TensorDataset(torch.arange(46.0).reshape(23, 2), torch.arange(23))


def noise(torch, data):
    class Noise(data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return torch.rand(2), np.random.rand(), __import__("random").random()

    return Noise()


def epochs(loader, n=2):
    return [plain(batch) for _ in range(n) for batch in loader]


def seeded(torch, seed):
    return torch.Generator().manual_seed(seed)


CASES = {
    "in order": lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_size=4)),
    "shuffled": lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_size=4, shuffle=True)),
    "shuffled, the last dropped": lambda t, d: epochs(d.DataLoader(tensors(t, d), 4, True, drop_last=True)),
    "one by one": lambda t, d: epochs(d.DataLoader(tensors(t, d))),
    "not batched": lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_size=None)),
    "a generator": lambda t, d: epochs(d.DataLoader(tensors(t, d), 4, True, generator=seeded(t, 7))),
    "a dataset of the user's": lambda t, d: epochs(d.DataLoader(squares(d), batch_size=5, shuffle=True)),
    "a collate function": lambda t, d: epochs(d.DataLoader(squares(d), batch_size=5, collate_fn=list)),
    "a stream": lambda t, d: epochs(d.DataLoader(stream(d), batch_size=4)),
    "a stream, the last dropped": lambda t, d: epochs(d.DataLoader(stream(d), batch_size=4, drop_last=True)),
    "a stream not batched": lambda t, d: epochs(d.DataLoader(stream(d), batch_size=None)),
    "random with replacement": lambda t, d: list(d.RandomSampler(range(50), True, 70)) + [t.rand(1).item()],
    "random, more than there are": lambda t, d: list(d.RandomSampler(range(5), num_samples=12)),
    "random of a generator": lambda t, d: [list(d.RandomSampler(range(5), generator=(g := seeded(t, 1)))) for _ in "ab"]
    + [t.rand(2, generator=g).tolist()],
    "a random subset": lambda t, d: list(d.SubsetRandomSampler([3, 5, 7, 9])),
    "by weights": lambda t, d: list(d.WeightedRandomSampler([0.1, 0.9, 0.4], 8)),
    "by weights, each once": lambda t, d: list(d.WeightedRandomSampler([0.1, 0.9, 0.4], 3, replacement=False)),
    "batches": lambda t, d: list(d.BatchSampler(d.SequentialSampler(range(7)), 3, False)),
    "a sampler": lambda t, d: epochs(d.DataLoader(tensors(t, d), 4, sampler=d.SubsetRandomSampler(range(9)))),
    "a batch sampler": lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_sampler=[[0, 22], [5], [3, 4, -1]])),
    "a split": lambda t, d: [list(s.indices) for s in d.random_split(range(10), [3, 7])],
    "a split by fractions": lambda t, d: [list(s.indices) for s in d.random_split(range(11), [0.3, 0.3, 0.4])],
    "a split of a generator": lambda t, d: [s.indices for s in d.random_split(range(9), [4, 5], seeded(t, 42))],
    "a loader over a split": lambda t, d: epochs(d.DataLoader(d.random_split(tensors(t, d), [9, 14])[0], 4, True)),
    "one after the other": lambda t, d: epochs(d.DataLoader(tensors(t, d) + tensors(t, d), 7, True)),
    "the end of two": lambda t, d: plain((tensors(t, d) + tensors(t, d))[-1]),
    "chained streams": lambda t, d: epochs(d.DataLoader(stream(d) + stream(d), batch_size=3)),
    "stacked": lambda t, d: epochs(d.DataLoader(d.StackDataset(a=squares(d), b=tensors(t, d)), 4, True)),
    "stacked by place": lambda t, d: epochs(d.DataLoader(d.StackDataset(squares(d), tensors(t, d)), 4)),
    "collate numbers": lambda t, d: plain(d.default_collate([1, 2, 3])),
    "collate floats": lambda t, d: plain(d.default_collate([1.5, 2.0])),
    "collate bools": lambda t, d: plain(d.default_collate([True, False])),
    "collate texts": lambda t, d: plain(d.default_collate(["a", "b"])),
    "collate arrays": lambda t, d: plain(d.default_collate([np.ones(2), np.zeros(2)])),
    "collate array scalars": lambda t, d: plain(d.default_collate([np.float32(1), np.float32(2)])),
    "collate dicts": lambda t, d: plain(d.default_collate([{"a": 1, "b": [1, 2]}, {"a": 3, "b": [5, 6]}])),
    "collate named tuples": lambda t, d: plain(d.default_collate([Point(1, 2.0), Point(3, 4.0)])),
    "collate tuples": lambda t, d: plain(d.default_collate([(1, t.ones(2)), (3, t.zeros(2))])),
    "collate lists": lambda t, d: plain(d.default_collate([[1, "a"], [3, "b"]])),
    "convert": lambda t, d: plain(d.default_convert({"a": np.ones(2), "b": (1, [np.float64(2)]), "c": "x"})),
    "lengths": lambda t, d: [len(d.DataLoader(squares(d), n, drop_last=b)) for n in (4, 23, 24) for b in (False, True)],
    "what an iterator draws": lambda t, d: [(iter(d.DataLoader(tensors(t, d))), t.rand(1).item())[1] for _ in "ab"],
    "an uneven batch": lambda t, d: d.default_collate([[1], [1, 2]]),
    "a batch of objects": lambda t, d: d.default_collate([object()]),
    "uneven tensors": lambda t, d: d.TensorDataset(t.ones(2), t.ones(3)),
    "a sampler and shuffle": lambda t, d: d.DataLoader(tensors(t, d), sampler=[1], shuffle=True),
    "a batch sampler and a size": lambda t, d: d.DataLoader(tensors(t, d), batch_sampler=[[1]], batch_size=3),
    "a batch size of zero": lambda t, d: d.DataLoader(tensors(t, d), batch_size=0),
    "a shuffled stream": lambda t, d: d.DataLoader(stream(d), shuffle=True),
    "fewer than no workers": lambda t, d: d.DataLoader(tensors(t, d), num_workers=-1),
    "persistent without workers": lambda t, d: d.DataLoader(tensors(t, d), persistent_workers=True),
    "an index too large": lambda t, d: epochs(d.DataLoader(tensors(t, d), batch_sampler=[[1, 23]])),
    "a wrong split": lambda t, d: d.random_split(range(10), [3, 6]),
    "shuffling nothing": lambda t, d: epochs(d.DataLoader(d.TensorDataset(t.ones(0, 2)), shuffle=True)),
    "workers": lambda t, d: epochs(d.DataLoader(tensors(t, d), 4, True, num_workers=2)),
    "workers that persist": lambda t, d: epochs(
        d.DataLoader(squares(d), 4, True, num_workers=2, persistent_workers=True), 3
    ) + [t.rand(1).item()],
    "workers on a stream": lambda t, d: epochs(d.DataLoader(stream(d), 2, num_workers=3)),
    "random numbers in workers": lambda t, d: epochs(d.DataLoader(noise(t, d), 2, num_workers=2)),
    "an error in a worker": lambda t, d: epochs(d.DataLoader(squares(d), batch_sampler=[[1], [99]], num_workers=1)),
}  # fmt: skip


def outcome(torch, run):
    torch.manual_seed(3)
    try:
        return run(torch, data_of(torch))
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_it_behaves_as_in_pytorch(name):
    assert outcome(SUT, CASES[name]) == outcome(REF, CASES[name])


def test_changing_a_batch_leaves_the_dataset_alone():
    data = data_of(SUT)
    x = SUT.arange(6.0)
    for (batch,) in data.DataLoader(data.TensorDataset(x), batch_size=3):
        batch.zero_()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_worker_that_dies_is_an_error_that_says_so():
    data = data_of(SUT)

    class Deadly(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            __import__("os")._exit(3)

    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(data.DataLoader(Deadly(), num_workers=1))


def test_a_worker_that_is_too_slow_is_an_error():
    data = data_of(SUT)

    class Slow(data.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, i):
            __import__("time").sleep(30)

    with pytest.raises(RuntimeError, match="timed out after 0.2 seconds"):
        list(data.DataLoader(Slow(), num_workers=1, timeout=0.2))


def test_batches_larger_than_a_pipe_pass_through_workers():
    data = data_of(SUT)
    x = SUT.arange(300000)
    loader = data.DataLoader(data.TensorDataset(x), batch_size=60000, num_workers=2, prefetch_factor=4)
    assert [batch[0].item() for (batch,) in loader] == [0, 60000, 120000, 180000, 240000]
