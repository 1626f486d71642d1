"""Functions that make tensors and take any number of them, or other objects that the rows of the extension do not."""

import math
import warnings

from brisk import _C
from brisk._composed import looks_like


def meshgrid(*tensors, indexing=None):
    """The coordinates of a grid, one tensor for each axis."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    if indexing is None:
        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=2
        )
    return _C._meshgrid(list(tensors), indexing or "ij")


def vander(x, N=None, increasing=False):
    """The powers of x, one column each."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    powers = _C.arange(x.numel() if N is None else N)
    if len(powers) < 2:  # nothing of x is left
        return _C.ones(x.numel(), len(powers), dtype=_C.promote_types(x.dtype, powers.dtype))
    return _rising_powers(x, powers) if increasing else _falling_powers(x, powers.flip(0))


def _powers(x, powers):
    return x.reshape(-1, 1) ** powers


_rising_powers, _falling_powers = looks_like("_rising_powers")(_powers), looks_like("_falling_powers")(_powers)


def _cosine_window(name, coefficients):
    def window(window_length, periodic=True, *, dtype=None, requires_grad=False, **where):
        dtype = dtype or _C.get_default_dtype()
        if window_length < 2:
            return _C.ones(window_length, dtype=dtype, requires_grad=requires_grad, **where)
        n = window_length + 1 if periodic else window_length
        angle = _C.arange(n, dtype=dtype) * (2 * math.pi / (n - 1))
        w = sum(c * (angle * k).cos() for k, c in enumerate(coefficients) if k) + coefficients[0]
        w = w[:-1].clone() if periodic else w
        return _C._as_leaf(w) if requires_grad else w

    window.__doc__ = f"{name}'s window: 1 in the middle, falling off as cosines do."
    return window


hann_window = _cosine_window("Hann", (0.5, -0.5))
blackman_window = _cosine_window("Blackman", (0.42, -0.5, 0.08))


def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, **options):
    """Hamming's window: alpha - beta cos, 1 in the middle where they add up to that."""
    return _cosine_window("Hamming", (alpha, -beta))(window_length, periodic, **options)


__all__ = ["blackman_window", "hamming_window", "hann_window", "meshgrid", "vander"]
