"""Reading images at computed places: grids of an affine map, samples between pixels, windows drawn at random."""

import math

from brisk import _C
from brisk._composed import looks_like
from brisk.nn._windows import _each

__all__ = [
    "affine_grid", "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "grid_sample",
]  # fmt: skip

# --- grids -----------------------------------------------------------------------------------------------------------


def _base(size, align_corners, dtype):
    """The places of the pixels of one dimension, from -1 to 1."""
    if size == 1:
        return _C.zeros(1, dtype=dtype)
    ends = _C.linspace(-1, 1, size, dtype=dtype)
    return ends if align_corners else ends * ((size - 1) / size)


@looks_like("affine_grid")
def affine_grid(theta, size, align_corners=None):
    """Where each pixel of an image of the given size is taken from by the affine maps theta, for grid_sample."""
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}"
        )
    if tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}."
        )
    spatial = list(size[2:])
    axes = []
    for k in range(n):  # x, the last dimension, comes first
        d = n - 1 - k
        shape = [1] * n
        shape[d] = spatial[d]
        axes.append(_base(spatial[d], bool(align_corners), theta.dtype).view(shape).expand(spatial))
    base = _C.stack([*axes, _C.ones(spatial, dtype=theta.dtype)], -1).reshape(1, -1, n + 1)
    return (base @ theta.transpose(1, 2)).reshape(theta.shape[0], *spatial, n)


def _pixels(at, size, align_corners):
    """From -1 ... 1 to pixels."""
    return (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2


def _reflected(at, low, high):
    """Going back at the ends; low and high are twice the bounds."""
    if low == high:
        return _C.zeros_like(at)
    span, start = (high - low) / 2, low / 2
    at = (at - start).abs()
    rest, turns = at - span * (at / span).floor(), (at / span).floor()
    return _C.where(turns % 2 == 0, rest + start, span - rest + start)


def _confined(at, size, mode, align_corners):
    if mode == "border":
        return at.clamp(0, size - 1)
    if mode == "reflection":
        at = _reflected(at, 0, 2 * (size - 1)) if align_corners else _reflected(at, -1, 2 * size - 1)
        return at.clamp(0, size - 1)
    return at


def _read(input, places):
    """input at whole places, one tensor (N, out...) for each spatial dimension; 0 outside."""
    sizes = input.shape[2:]
    flat, inside = 0, None
    for at, size in zip(places, sizes):
        here = (at >= 0) & (at <= size - 1)
        inside = here if inside is None else inside & here
        flat = flat * size + at.clamp(0, size - 1).long()
    n, c = input.shape[:2]
    index = flat.reshape(n, 1, -1).expand(n, c, -1)
    values = input.flatten(2).gather(2, index).unflatten(2, flat.shape[1:])
    return _C.where(inside.unsqueeze(1), values, _C.zeros((), dtype=input.dtype))


def _linear_samples(input, places):
    lows = [at.floor() for at in places]
    total = 0
    for corner in range(2 ** len(places)):
        share, at = 1, []
        for d, (place, low) in enumerate(zip(places, lows)):
            far = corner >> d & 1
            share = share * ((place - low) if far else (low + 1 - place))
            at.append(low + far)
        total = total + _read(input, at) * share.unsqueeze(1)
    return total


def _cubic_shares(t, a=-0.75):
    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _cubic_samples(input, places, confine):
    lows = [at.floor() for at in places]
    shares = [_cubic_shares(at - low) for at, low in zip(places, lows)]
    total = 0
    for i in range(4):
        for j in range(4):
            at = [confine(low + step - 1, d) for d, (low, step) in enumerate(zip(lows, (i, j)))]
            total = total + _read(input, at) * (shares[0][i] * shares[1][j]).unsqueeze(1)
    return total


@looks_like(lambda input, *a, **k: f"_grid_sample_{input.dim() - 2}d", 2)
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """input at the places of grid, whose last dimension is x, y (and z) from -1 to 1."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    n, sizes = input.dim() - 2, input.shape[2:]
    if n not in (2, 3) or grid.dim() != input.dim() or grid.shape[-1] != n:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if mode == "bicubic" and n != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    align_corners = bool(align_corners)

    def confine(at, d):
        return _confined(at, sizes[d], padding_mode, align_corners)

    places = [_pixels(grid[..., n - 1 - d], sizes[d], align_corners) for d in range(n)]
    if mode == "bicubic":
        return _cubic_samples(input, places, confine)
    places = [confine(at, d) for d, at in enumerate(places)]
    if mode == "nearest":
        return _read(input, [at.round() for at in places])
    return _linear_samples(input, places)


# --- windows drawn at random -----------------------------------------------------------------------------------------


def _starts(sample, size, count, kernel):
    """(..., count): where the windows of one dimension start, by one draw each for a plane."""
    if count == 1:
        return _C.full((*sample.shape, 1), size - kernel)
    step = (size - kernel) / (count - 1)
    at = _C.arange(count, dtype=sample.dtype)
    starts = ((at + sample.unsqueeze(-1)) * step).floor() - (sample.unsqueeze(-1) * step).floor()
    return _C.where(at == count - 1, _C.full((), float(size - kernel), dtype=sample.dtype), starts).long()


def _fractional(n, input, kernel_size, output_size, output_ratio, random_samples):
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"fractional_max_pool{n}d requires specifying either an output_size or an output_ratio")
    kernel, sizes = _each(kernel_size, n), input.shape[-n:]
    if output_size is None:
        output_size = [int(size * ratio) for size, ratio in zip(sizes, _each(output_ratio, n))]
    counts = _each(output_size, n)
    planes = input.reshape(-1, math.prod(sizes))
    if random_samples is None:
        lead = (1, *input.shape[:1]) if input.dim() == n + 1 else input.shape[:2]
        random_samples = _C.rand((*lead, n), dtype=input.dtype)
    samples = random_samples.reshape(-1, n)
    flat = 0
    for d in range(n):
        drawn = samples[:, n - 1 - d] if n == 2 else samples[:, d]  # of two dimensions, the last is drawn first
        places = _starts(drawn, sizes[d], counts[d], kernel[d]).unsqueeze(-1) + _C.arange(kernel[d])
        shape = [len(planes)] + [1] * (2 * n)
        shape[1 + d], shape[1 + n + d] = counts[d], kernel[d]
        flat = flat * sizes[d] + places.reshape(shape)
    flat = flat.flatten(1 + n)  # (planes, counts..., places of the window)
    index = flat.reshape(len(planes), -1)
    values, chosen = planes.gather(1, index).reshape(flat.shape).max(-1)
    places = flat.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    shape = (*input.shape[:-n], *counts)
    return values.reshape(shape), places.reshape(shape)


@looks_like("fractional_max_pool2d")
def fractional_max_pool2d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """The largest element of each of windows whose places are drawn, and where it is."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


@looks_like("fractional_max_pool3d")
def fractional_max_pool3d_with_indices(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """The largest element of each of windows whose places are drawn, and where it is."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


@looks_like("fractional_max_pool2d")
def fractional_max_pool2d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """The largest element of each of windows whose places are drawn."""
    both = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


@looks_like("fractional_max_pool3d")
def fractional_max_pool3d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """The largest element of each of windows whose places are drawn."""
    both = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]
