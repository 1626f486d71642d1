"""NumPy's files, npy and npz, without NumPy: the library in C reads and writes them, atomically, and runs nothing that
a file says. Compressed archives are not read."""

import os

from brisk import _C

__all__ = ["load", "save", "savez"]


def load(file):
    """The tensor of an .npy file, or the tensors of an .npz file by name."""
    path = os.fsdecode(os.fspath(file))
    with open(path, "rb") as opened:  # a missing file is FileNotFoundError, as everywhere in Python
        archive = opened.read(2) == b"PK"
    return _C._load_npz(path) if archive else _C._load_npy(path)


def save(file, tensor):
    """Writes a tensor; as numpy.save, to a name that ends in .npy."""
    _C._save_npy(_named(file, ".npy"), tensor)


def savez(file, **tensors):
    """Writes tensors by name; as numpy.savez, to a name that ends in .npz."""
    _C._save_npz(_named(file, ".npz"), tensors)


def _named(file, end):
    path = os.fsdecode(os.fspath(file))
    return path if path.endswith(end) else path + end
