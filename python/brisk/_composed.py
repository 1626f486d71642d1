"""Functions written in Python that look like one on the tape, as they do in PyTorch: src/autograd/composed.def."""

import functools

from brisk import _C


def looks_like(function, arguments=1, first=0, view=False):
    """Decorates a function with tensors among its arguments, from `first` on. function: its row, or what gives it.
    view: its result is a view of something inside in PyTorch, too: off the tape, where only who asks can tell."""
    row = _C._composed_row(function) if isinstance(function, str) else None

    def decorate(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            taped = _C.is_grad_enabled()
            given = args[first : first + arguments] if taped else ()
            begun = _C._call_begins(given) if len(given) == arguments else None
            result = fn(*args, **kwargs)
            if (taped or not view) and isinstance(result, _C.Tensor) and not (args and result is args[0]):
                result = _C._as_own(result)
            if begun is not None:
                at = _C._composed_row(function(*args, **kwargs)) if row is None else row
                for number, one in enumerate(result if isinstance(result, tuple) else (result,)):
                    if isinstance(one, _C.Tensor):
                        _C._looks_like(at, begun, one, number)
            return result

        return call

    return decorate
