"""NumPy is imported with brisk where a program is going to need it, and else when it is needed.

Its import takes as long as brisk's own, and would fall on the first `x.numpy()`, which is where programs look at the
clock. So the files that are being run when brisk is imported, the main program and the modules on the way, are searched
for its name: PyTorch imports it in any case.
"""

import contextlib
import os
import sys

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_MOST_BYTES = 1 << 20  # a longer program is searched no further


def _mentions(path):
    try:
        with open(path, "rb") as f:
            return b"numpy" in f.read(_MOST_BYTES)
    except (OSError, ValueError):
        return False


def _files(frame):
    """Of the frames that lead here, those outside of brisk and of the import system."""
    while frame is not None:
        path = frame.f_globals.get("__file__")
        if isinstance(path, str) and not path.startswith(_OWN) and not path.endswith("_brisk_as_torch.py"):
            yield path
        frame = frame.f_back


def look():
    if "numpy" not in sys.modules and any(map(_mentions, dict.fromkeys(_files(sys._getframe(1))))):
        with contextlib.suppress(ImportError):  # said where it is needed
            import numpy  # noqa: F401
