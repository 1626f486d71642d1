"""TorchVersion: a version as text that compares as numbers, so that "2.10" comes after "2.9"."""

import re

__all__ = ["TorchVersion"]


def _key(version):
    """(the numbers, whether there is a local part): of "2.13.0+cpu", or of (2, 13)."""
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    public, _, local = text.partition("+")
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", public)
    if numbers is None:
        raise ValueError(f"Invalid version: {text!r}")
    parts = [int(n) for n in numbers[1].split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return parts, public[numbers.end() :] == "", local


class TorchVersion(str):
    """Compares with texts and tuples by its numbers."""

    def __lt__(self, other):
        return _key(self) < _key(other)

    def __le__(self, other):
        return _key(self) <= _key(other)

    def __gt__(self, other):
        return _key(self) > _key(other)

    def __ge__(self, other):
        return _key(self) >= _key(other)

    def __eq__(self, other):
        try:
            return _key(self) == _key(other)
        except ValueError:
            return str(self) == other

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__
