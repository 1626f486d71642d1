"""Functions written in Python that look like one on the tape, as they do in PyTorch: src/autograd/composed.def."""

import functools

from brisk import _C


def looks_like(function, arguments=1):
    """Decorates a function whose first arguments are tensors. function: its row, or what gives it for a call."""

    def decorate(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            if not _C.is_grad_enabled():
                return fn(*args, **kwargs)
            start = _C._tape_position()
            result = fn(*args, **kwargs)
            first = result[0] if type(result) is tuple else result
            given = args[:arguments]
            if all(isinstance(t, _C.Tensor) for t in (first, *given)) and len(given) == arguments:
                row = function if isinstance(function, str) else function(*args, **kwargs)
                _C._looks_like(row, start, first, given)
            return result

        return call

    return decorate
