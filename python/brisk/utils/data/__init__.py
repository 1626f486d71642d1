"""Datasets, samplers and the loader that makes batches of them. The same seed gives the order that PyTorch gives."""

from brisk._missing import finder
from brisk._places import also_at
from brisk.utils.data import sampler
from brisk.utils.data._workers import get_worker_info
from brisk.utils.data.collate import default_collate, default_convert
from brisk.utils.data.dataloader import DataLoader
from brisk.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from brisk.utils.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

also_at(__name__, {sampler: "distributed"})

__getattr__ = finder(__name__)
