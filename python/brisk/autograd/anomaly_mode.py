"""detect_anomaly: the gradient function that fails, or first makes a NaN, is named with the line of its forward."""

import linecache
import warnings

from brisk import _C
from brisk.autograd.grad_mode import no_grad

__all__ = ["detect_anomaly", "set_detect_anomaly"]

_enabled, _nan = False, True


def is_anomaly_enabled():
    """Whether anomaly mode is on."""
    return _enabled


def is_anomaly_check_nan_enabled():
    """Whether it looks for NaN."""
    return _nan


def _set(enabled, nan):
    global _enabled, _nan
    _enabled, _nan = bool(enabled), bool(nan)
    _C._set_anomaly_check(_check if _enabled else None, _tell)


def set_anomaly_enabled(enabled, check_nan=True):
    """Anomaly mode on or off."""
    _set(enabled, check_nan)


def _check(name, gradients):
    """Called after every gradient function of a pass."""
    if not _nan:
        return
    with no_grad():
        for k, g in enumerate(gradients):
            if g is not None and g.isnan().any().item():
                raise RuntimeError(f"Function '{name}' returned nan values in its {k}th output.")


def _texts(chain):
    """The warnings of a failure: of the function, and of those whose gradients it was recorded for."""
    for k, (name, line) in enumerate(chain):
        if line is None:
            yield (
                f"Error detected in {name}. No forward pass information available. Enable detect anomaly during "
                "forward pass for more information."
            )
            return
        file, number, function = line
        traceback = f'  File "{file}", line {number}, in {function}\n    {linecache.getline(file, number).strip()}\n'
        if k == 0:
            yield f"Error detected in {name}. Traceback of forward call that caused the error:\n{traceback}"
        else:
            yield (
                f"\n\nPrevious calculation was induced by {name}. Traceback of forward call that induced the previous "
                f"calculation:\n{traceback}"
            )


def _tell(chain):
    """Called when a gradient function has failed, with it and what it was recorded for: names and lines."""
    _C._set_anomaly_check(None)  # what warns may compute
    try:
        for text in _texts(chain):
            warnings.warn(text, stacklevel=3)
    finally:
        _set(_enabled, _nan)


class set_detect_anomaly:
    """Turns anomaly mode on or off; as a context manager it puts the old mode back."""

    def __init__(self, mode, check_nan=True):
        self.before = _enabled, _nan
        _set(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        _set(*self.before)


class detect_anomaly(set_detect_anomaly):
    """A context in which a NaN in a gradient raises, naming the function that made it and the line of its forward."""

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        self.before = _enabled, _nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self.before = _enabled, _nan
        _set(True, self.check_nan)
