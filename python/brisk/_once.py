"""What PyTorch warns of once in a process: functions that have a new name."""

import warnings

_said = set()


def warn_once(text, callers=1):
    """callers: how many functions are between the user's line and this call."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, UserWarning, stacklevel=2 + callers)
