# Made by tools/make_stubs.py from the package itself.
from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Iterator, Sequence
from typing import Any, Optional, Union, overload

_Number = Union[_bool, _int, _float]
_Ints = Union[_int, Sequence[_int]]
from brisk.utils.data import collate as collate
from brisk.utils.data import dataloader as dataloader
from brisk.utils.data import dataset as dataset
from brisk.utils.data import sampler as distributed
from brisk.utils.data import sampler as sampler
from brisk.utils.data.sampler import BatchSampler as BatchSampler
from brisk.utils.data.dataset import ChainDataset as ChainDataset
from brisk.utils.data.dataset import ConcatDataset as ConcatDataset
from brisk.utils.data.dataloader import DataLoader as DataLoader
from brisk.utils.data.dataset import Dataset as Dataset
from brisk.utils.data.sampler import DistributedSampler as DistributedSampler
from brisk.utils.data.dataset import IterableDataset as IterableDataset
from brisk.utils.data.sampler import RandomSampler as RandomSampler
from brisk.utils.data.sampler import Sampler as Sampler
from brisk.utils.data.sampler import SequentialSampler as SequentialSampler
from brisk.utils.data.dataset import StackDataset as StackDataset
from brisk.utils.data.dataset import Subset as Subset
from brisk.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from brisk.utils.data.dataset import TensorDataset as TensorDataset
from brisk.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from brisk._places import also_at as also_at
from brisk.utils.data.collate import default_collate as default_collate
from brisk.utils.data.collate import default_convert as default_convert
from brisk.utils.data._workers import get_worker_info as get_worker_info
from brisk.utils.data.dataset import random_split as random_split
