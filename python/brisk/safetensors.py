"""The safetensors format: named tensors and nothing else. The library in C reads and writes it; the functions are
named as in the package safetensors.torch."""

import os

from brisk import _C

__all__ = ["load", "load_file", "save", "save_file"]


def load_file(filename, device="cpu"):
    """The tensors of a file, by name."""
    if _C.device(device).type != "cpu":
        raise RuntimeError(f"cannot load to {device}: brisk computes on the CPU")
    with open(filename, "rb") as file:
        return _C._load_safetensors(file.fileno())


def load(data):
    """The tensors in bytes, by name."""
    return _C._load_safetensors(data)


def save_file(tensors, filename, metadata=None):
    """Writes tensors by name, atomically."""
    _C._save_safetensors(os.fsdecode(os.fspath(filename)), _checked(tensors), _pairs(metadata))


def save(tensors, metadata=None):
    """The bytes of the file that save_file writes."""
    parts = []
    _C._save_safetensors(parts.append, _checked(tensors), _pairs(metadata))
    return b"".join(parts)


def _checked(tensors):
    """Tensors that share memory would be saved twice and come back apart."""
    seen = {}
    for name, t in tensors.items():
        if t.numel() and (other := seen.setdefault(t.untyped_storage(), name)) != name:
            raise RuntimeError(f"{other!r} and {name!r} share memory: save a clone of one, or use brisk.save")
    return dict(tensors)


def _pairs(metadata):
    return tuple(text for pair in (metadata or {}).items() for text in pair)
