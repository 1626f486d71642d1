"""Functions over windows and places of images: pooling, padding, folding, resizing. All over recorded ops."""

import itertools
import math
import warnings

from brisk import _C
from brisk._C import _nn
from brisk._composed import looks_like

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d", "channel_shuffle", "fold",
    "interpolate", "local_response_norm", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d",
    "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "pad", "pixel_shuffle", "pixel_unshuffle", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def _each(x, n):
    x = tuple(x) if hasattr(x, "__iter__") else (x,)
    return x * n if len(x) == 1 else x


# --- padding ---------------------------------------------------------------------------------------------------------


def _places(size, before, after, mode):
    """Where each place of a padded dimension takes its element from."""
    at = _C.arange(-before, size + after)
    if mode == "circular":
        return at % size
    if mode == "replicate":
        return at.clamp(0, size - 1)
    return (size - 1 - ((size - 1) - at.abs()).abs()).abs()


def _padding(input, pad, mode="constant", value=None):
    if mode == "circular":  # which PyTorch writes part by part
        return f"_circular_{len(pad) // 2}_{sum(int(p) > 0 for p in pad)}"
    return f"_{mode}_{len(pad) // 2}d"


def pad(input, pad, mode="constant", value=None):
    """Adds elements before and after, the last dimension first: a value, or by mirroring, repeating, going round."""
    result = _pad(input, pad, mode, value)
    if mode == "circular":
        _C._written_often(result, 1 + sum(int(p) > 0 for p in pad))
    return result


@looks_like(_padding)
def _pad(input, pad, mode="constant", value=None):
    pad = [int(p) for p in pad]
    if mode == "constant":
        return _nn._pad_constant(input, pad, 0.0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    pairs = len(pad) // 2
    if input.dim() not in (pairs + 1, pairs + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    for i in range(pairs):
        dim, before, after = input.dim() - 1 - i, pad[2 * i], pad[2 * i + 1]
        size = input.shape[dim]
        if mode == "reflect" and (before >= size or after >= size):
            raise RuntimeError(
                f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({before}, {after}) at dimension {dim} of input {list(input.shape)}"
            )
        if mode == "circular" and (before > size or after > size):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if before or after:
            input = input.index_select(dim, _places(size, before, after, mode))
    return input if any(pad) else input.clone()


# --- pooling ---------------------------------------------------------------------------------------------------------


def _check_images(name, input, n):
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(f"{name}() Expected {n + 1}D or {n + 2}D input tensor, but got {input.dim()}D")


def _pooled_size(size, kernel, stride, padding, dilation, ceil_mode):
    span = dilation * (kernel - 1) + 1
    count = (size + 2 * padding - span + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # the last window must start inside the input
    if count < 1:
        raise RuntimeError(f"Given input size: {size}. Calculated output size: {count}. Output size is too small")
    return count


def _padded(input, kernel, stride, padding, dilation, ceil_mode, fill):
    """The input with room for every window, and how many windows each dimension has."""
    n = len(kernel)
    pads, counts = [], []
    for i in range(n):
        if padding[i] > kernel[i] // 2 * dilation[i] and padding[i] * 2 > kernel[i]:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={padding[i]}, "
                f"kernel_size={kernel[i]} and dilation={dilation[i]}"
            )
        size = input.shape[input.dim() - n + i]
        counts.append(_pooled_size(size, kernel[i], stride[i], padding[i], dilation[i], ceil_mode))
        needed = (counts[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
        pads = [padding[i], max(0, needed - size - padding[i]), *pads]
    if any(pads):
        input = _nn._pad_constant(input, pads, fill)
    return input, counts


def _windows(input, kernel, stride, padding, dilation, ceil_mode, fill):
    """(..., out..., places of the window)"""
    n = len(kernel)
    input, counts = _padded(input, kernel, stride, padding, dilation, ceil_mode, fill)
    first = input.dim() - n
    for i in range(n):
        input = input.unfold(first + i, dilation[i] * (kernel[i] - 1) + 1, stride[i])
        if input.shape[first + i] > counts[i]:
            input = input.narrow(first + i, 0, counts[i])
        if dilation[i] > 1:
            input = input[..., :: dilation[i]]
    return input.flatten(-n)


FEW_PLACES = 16  # of a window: so many views are compared element by element, without a copy of the windows


def _greatest_of_few(input, kernel, stride, padding, dilation, ceil_mode, with_places):
    """The greatest of every window, and which of its places that is: the first of equal ones, a NaN before all."""
    input, counts = _padded(input, kernel, stride, padding, dilation, ceil_mode, -math.inf)
    values = chosen = None
    for number, place in enumerate(itertools.product(*map(range, kernel))):
        starts = [at * step for at, step in zip(place, dilation)]
        seen = input[(..., *(slice(s, s + (c - 1) * t + 1, t) for s, c, t in zip(starts, counts, stride)))]
        if values is None:
            values = seen
            chosen = _C.zeros(seen.shape, dtype=_C.int64) if with_places else None
            continue
        taken = (seen > values) | (seen != seen)
        values = _C.where(taken, seen, values)
        if with_places:
            chosen = _C.where(taken, number, chosen)
    return (values.clone() if math.prod(kernel) == 1 else values), chosen


def _max_pool(n, input, kernel_size, stride, padding, dilation, ceil_mode, with_indices):
    _check_images(f"max_pool{n}d", input, n)
    kernel = _each(kernel_size, n)
    stride = kernel if stride is None or stride == [] else _each(stride, n)
    padding, dilation = _each(padding, n), _each(dilation, n)
    if min(stride) < 1:
        raise RuntimeError("stride should not be zero")
    if math.prod(kernel) <= FEW_PLACES:
        values, chosen = _greatest_of_few(input, kernel, stride, padding, dilation, ceil_mode, with_indices)
    else:
        values, chosen = _windows(input, kernel, stride, padding, dilation, ceil_mode, -math.inf).max(-1)
    if not with_indices:
        return values
    places, rest = 0, chosen
    for i in reversed(range(n)):
        step = rest % kernel[i]
        rest = rest // kernel[i]
        counts = [1] * values.dim()
        counts[values.dim() - n + i] = -1
        start = _C.arange(values.shape[values.dim() - n + i]).view(counts) * stride[i] - padding[i]
        scale = math.prod(input.shape[input.dim() - n + i + 1 :])
        places = places + (start + step * dilation[i]) * scale
    return values, places


@looks_like("_max_pool_1d", view=True)
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@looks_like("_max_pool_2d")
def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@looks_like("_max_pool_3d")
def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest element of each window."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@looks_like("_max_pool_1d", view=True)
def max_pool1d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):
    """The largest element of each window, and its place."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


@looks_like("_max_pool_2d")
def max_pool2d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):
    """The largest element of each window, and its place."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


@looks_like("_max_pool_3d")
def max_pool3d_with_indices(
    input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=True
):
    """The largest element of each window, and its place."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _covered(input, n, kernel, stride, padding, ceil_mode, pad_too):
    """How many places of each window count: those within the input, or within its padding too."""
    size = input.shape[input.dim() - n :]
    if pad_too:
        grid = _nn._pad_constant(_C.ones(size), [p for p in reversed(padding) for _ in range(2)], 1.0)
        padding = (0,) * n
        ones = grid
        counts = [
            _pooled_size(size[i], kernel[i], stride[i], (grid.shape[i] - size[i]) // 2, 1, ceil_mode) for i in range(n)
        ]
        more = [max(0, (counts[i] - 1) * stride[i] + kernel[i] - grid.shape[i]) for i in range(n)]
        pads = [p for m in reversed(more) for p in (0, m)]
        ones = _nn._pad_constant(ones, pads, 0.0)
        for i in range(n):
            ones = ones.unfold(i, kernel[i], stride[i]).narrow(i, 0, counts[i])
        return ones.flatten(-n).sum(-1)
    return _windows(_C.ones(size), kernel, stride, padding, (1,) * n, ceil_mode, 0.0).sum(-1)


def _avg_pool(n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    _check_images(f"avg_pool{n}d", input, n)
    kernel = _each(kernel_size, n)
    stride = kernel if stride is None or stride == [] else _each(stride, n)
    padding = _each(padding, n)
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    sums = _windows(input, kernel, stride, padding, (1,) * n, ceil_mode, 0.0).sum(-1)
    if divisor_override is not None:
        return sums / divisor_override
    if not any(padding) and not ceil_mode:
        return sums / math.prod(kernel)
    return sums / _covered(input, n, kernel, stride, padding, ceil_mode, count_include_pad).to(input.dtype)


@looks_like("_avg_pool_1d", view=True)
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """The mean of each window."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@looks_like("_avg_pool_2d")
def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of each window."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@looks_like("_avg_pool_3d")
def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """The mean of each window."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _bounds(size, count):
    return [(i * size // count, -((-(i + 1) * size) // count)) for i in range(count)]


def _adaptive_sizes(input, n, output_size):
    sizes = _each(output_size, n)
    return [input.shape[input.dim() - n + i] if s is None else s for i, s in enumerate(sizes)]


def _means_row(n, input, output_size):
    one = all(s == 1 for s in _adaptive_sizes(input, n, output_size))
    return f"_adaptive_avg_pool_{n}d" if not one else "_mean_pool_1d" if n == 1 else ""


def _adaptive_avg(n, input, output_size):
    """The mean over each dimension in turn: windows are boxes, so their means are means of means."""
    _check_images(f"adaptive_avg_pool{n}d", input, n)
    counts = _adaptive_sizes(input, n, output_size)
    if n > 1 and all(count == 1 for count in counts):
        return input.mean(tuple(range(-n, 0)), keepdim=True)
    for i, count in enumerate(counts):
        dim = input.dim() - n + i
        size = input.shape[dim]
        if size % count == 0:
            input = input.unflatten(dim, (count, size // count)).mean(dim + 1)
        else:
            parts = [input.narrow(dim, a, b - a).mean(dim, keepdim=True) for a, b in _bounds(size, count)]
            input = _C.cat(parts, dim)
    return input


@looks_like(lambda input, output_size: _means_row(1, input, output_size), view=True)
def adaptive_avg_pool1d(input, output_size):
    """The means of as many windows as asked for."""
    return _adaptive_avg(1, input, output_size)


@looks_like(lambda input, output_size: _means_row(2, input, output_size))
def adaptive_avg_pool2d(input, output_size):
    """The means of as many windows as asked for."""
    return _adaptive_avg(2, input, output_size)


@looks_like(lambda input, output_size: _means_row(3, input, output_size))
def adaptive_avg_pool3d(input, output_size):
    """The means of as many windows as asked for."""
    return _adaptive_avg(3, input, output_size)


def _adaptive_max(n, input, output_size, with_indices):
    _check_images(f"adaptive_max_pool{n}d", input, n)
    first = input.dim() - n
    sizes = input.shape[first:]
    counts = _adaptive_sizes(input, n, output_size)
    values, places = [], []
    grid = _C.arange(math.prod(sizes)).view(sizes)
    boxes = [[]]
    for size, count in zip(sizes, counts):
        boxes = [box + [bound] for box in boxes for bound in _bounds(size, count)]
    for box in boxes:
        part, at = input, grid
        for i, (a, b) in enumerate(box):
            part, at = part.narrow(first + i, a, b - a), at.narrow(i, a, b - a)
        value, chosen = part.flatten(first).max(-1)
        values.append(value)
        places.append(at.flatten()[chosen])
    out = _C.stack(values, -1).unflatten(-1, counts)
    return (out, _C.stack(places, -1).unflatten(-1, counts)) if with_indices else out


@looks_like("_adaptive_max_pool_1d", view=True)
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The largest elements of as many windows as asked for."""
    return _adaptive_max(1, input, output_size, return_indices)


@looks_like("_adaptive_max_pool_2d")
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The largest elements of as many windows as asked for."""
    return _adaptive_max(2, input, output_size, return_indices)


@looks_like("_adaptive_max_pool_3d")
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The largest elements of as many windows as asked for."""
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """The largest elements of as many windows as asked for, and their places."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """The largest elements of as many windows as asked for, and their places."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """The largest elements of as many windows as asked for, and their places."""
    return adaptive_max_pool3d(input, output_size, True)


def _lp_pool(n, input, norm_type, kernel_size, stride, ceil_mode):
    kernel = _each(kernel_size, n)
    mean = (avg_pool1d, avg_pool2d, avg_pool3d)[n - 1](input.pow(norm_type), kernel, stride, 0, ceil_mode)
    total = (mean.sign() * _nn.relu(mean.abs())) * math.prod(kernel)
    return total.pow(1.0 / norm_type)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm of each window."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm of each window."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The norm of each window."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _max_unpool(n, input, indices, kernel_size, stride, padding, output_size):
    kernel = _each(kernel_size, n)
    stride = kernel if stride is None else _each(stride, n)
    padding = _each(padding, n)
    first = input.dim() - n
    if output_size is None:
        output_size = [(input.shape[first + i] - 1) * stride[i] - 2 * padding[i] + kernel[i] for i in range(n)]
    output_size = list(output_size)[-n:]
    flat = _C.zeros((*input.shape[:first], math.prod(output_size)), dtype=input.dtype)
    return flat.scatter(-1, indices.flatten(first), input.flatten(first)).unflatten(-1, output_size)


@looks_like("max_unpool1d", view=True)
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts the elements back where max_pool1d found them, among zeros."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@looks_like("max_unpool2d")
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts the elements back where max_pool2d found them, among zeros."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@looks_like("max_unpool3d")
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Puts the elements back where max_pool3d found them, among zeros."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


@looks_like(lambda square, size: "_channel_means_1d" if square.dim() == 3 else "_channel_means", view=True)
def _channel_means(square, size):
    lanes = _nn._pad_constant(square.transpose(1, -1), [size // 2, (size - 1) // 2], 0.0)
    return lanes.unfold(-1, size, 1).mean(-1).transpose(1, -1)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divides by the squares of neighbouring channels."""
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)")
    return input / (_channel_means(input * input, size) * alpha + k).pow(beta)


# --- folding ---------------------------------------------------------------------------------------------------------


@looks_like("_im2col")
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of an image as columns."""
    kernel, dilation, padding, stride = (_each(v, 2) for v in (kernel_size, dilation, padding, stride))
    batched = input if input.dim() == 4 else input.unsqueeze(0)
    if batched.dim() != 4:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(input.shape)}"
        )
    x = _nn._pad_constant(batched, [padding[1], padding[1], padding[0], padding[0]], 0.0)
    for i in range(2):
        x = x.unfold(2 + i, dilation[i] * (kernel[i] - 1) + 1, stride[i])
    x = x[..., :: dilation[0], :: dilation[1]]
    columns = x.permute(0, 1, 4, 5, 2, 3).flatten(4).flatten(1, 3)
    return columns if input.dim() == 4 else columns.squeeze(0)


@looks_like("_col2im")
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds columns up into an image: the reverse of unfold."""
    out, kernel, dilation, padding, stride = (
        _each(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    if input.dim() not in (2, 3):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(input.shape)}"
        )
    columns = input if input.dim() == 3 else input.unsqueeze(0)
    if columns.shape[1] % math.prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={columns.shape[1]} and kernel_size={tuple(kernel)}."
        )
    full = [out[i] + 2 * padding[i] for i in range(2)]
    counts = [(full[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    if columns.shape[2] != math.prod(counts):
        raise RuntimeError(
            f"Given output_size={tuple(out)}, expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {counts[0]} * {counts[1]} = {math.prod(counts)}, but got input.size(2)={columns.shape[2]}."
        )
    channels = columns.shape[1] // math.prod(kernel)
    places = _C.arange(math.prod(full)).view(full)
    for i in range(2):
        places = places.unfold(i, dilation[i] * (kernel[i] - 1) + 1, stride[i])
    places = places[..., :: dilation[0], :: dilation[1]].permute(2, 3, 0, 1).reshape(-1)
    flat = _C.zeros((columns.shape[0], channels, math.prod(full)), dtype=columns.dtype)
    image = flat.index_add(2, places, columns.reshape(columns.shape[0], channels, -1)).unflatten(2, full)
    image = image[:, :, padding[0] : full[0] - padding[0], padding[1] : full[1] - padding[1]]
    return image if input.dim() == 3 else image.squeeze(0)


@looks_like("pixel_shuffle")
def pixel_shuffle(input, upscale_factor):
    """(C r^2, H, W) to (C, H r, W r)."""
    r, (c, h, w) = upscale_factor, input.shape[-3:]
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    lead = input.shape[:-3]
    x = input.reshape(-1, c // (r * r), r, r, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(*lead, c // (r * r), h * r, w * r)


@looks_like("pixel_unshuffle")
def pixel_unshuffle(input, downscale_factor):
    """(C, H r, W r) to (C r^2, H, W)."""
    r, (c, h, w) = downscale_factor, input.shape[-3:]
    if h % r or w % r:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but got {h}, {w} and {r}"
        )
    lead = input.shape[:-3]
    x = input.reshape(-1, c, h // r, r, w // r, r).permute(0, 1, 3, 5, 2, 4)
    return x.reshape(*lead, c * r * r, h // r, w // r)


@looks_like("channel_shuffle")
def channel_shuffle(input, groups):
    """Takes the channels of the groups in turn."""
    if input.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups."
        )
    return input.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


# --- resizing --------------------------------------------------------------------------------------------------------


def _ratio(size, count, scale):
    return 1.0 / scale if scale is not None and scale > 0 else size / count


def _nearest(input, dim, count, scale, exact):
    at = _C.arange(count, dtype=_C.float32)
    at = ((at + 0.5 if exact else at) * _ratio(input.shape[dim], count, scale)).floor().long()
    return input.index_select(dim, at.clamp(max=input.shape[dim] - 1))


def _source(size, count, scale, align_corners):
    at = _C.arange(count, dtype=_C.float64)
    if align_corners:
        return at * ((size - 1) / (count - 1) if count > 1 else 0.0)
    return (at + 0.5) * _ratio(size, count, scale) - 0.5


def _linear(input, dim, count, scale, align_corners):
    size = input.shape[dim]
    at = _source(size, count, scale, align_corners).clamp(min=0)
    low = at.floor().long().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    sizes = [1] * input.dim()
    sizes[dim] = count
    share = (at - low).to(input.dtype).view(sizes)
    return input.index_select(dim, low) * (1 - share) + input.index_select(dim, high) * share


def _cubic(input, dim, count, scale, align_corners, a=-0.75):
    size = input.shape[dim]
    at = _source(size, count, scale, align_corners)
    low = at.floor()
    t = at - low
    near = lambda d: ((a + 2) * d - (a + 3)) * d * d + 1  # noqa: E731
    far = lambda d: ((a * d - 5 * a) * d + 8 * a) * d - 4 * a  # noqa: E731
    sizes = [1] * input.dim()
    sizes[dim] = count
    total = 0
    for shift, share in ((-1, far(t + 1)), (0, near(t)), (1, near(1 - t)), (2, far(2 - t))):
        places = (low.long() + shift).clamp(0, size - 1)
        total = total + input.index_select(dim, places) * share.to(input.dtype).view(sizes)
    return total


_LINEAR_DIMS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


def _resizing(input, size=None, scale_factor=None, mode="nearest", *args, **kwargs):
    return f"_{mode.replace('-', '_')}_{input.dim() - 2}d"


@looks_like(_resizing)
def interpolate(
    input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
    antialias=False,
):  # fmt: skip
    """Resizes the dimensions from the third on."""
    n = input.dim() - 2
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: "
                "linear | bilinear | bicubic | trilinear"
            )
    elif mode not in _LINEAR_DIMS or _LINEAR_DIMS[mode] != n:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    if antialias:
        raise NotImplementedError("interpolate: antialias")
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "either size or scale_factor should be defined" if size is None
            else "only one of size or scale_factor should be defined"
        )  # fmt: skip
    scales = [None] * n
    if size is not None:
        sizes = _each(size, n)
        if len(sizes) != n:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and output size of {size}."
            )
    else:
        factors = _each(scale_factor, n)
        sizes = [math.floor(float(input.shape[2 + i]) * factors[i]) for i in range(n)]
        scales = [None] * n if recompute_scale_factor else list(factors)
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[n - 1](input, sizes)
    for i in range(n):
        if mode.startswith("nearest"):
            input = _nearest(input, 2 + i, sizes[i], scales[i], mode == "nearest-exact")
        else:
            step = _cubic if mode == "bicubic" else _linear
            input = step(input, 2 + i, sizes[i], scales[i], bool(align_corners))
    return input


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The older name of interpolate."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate by the nearest element."""
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate in both dimensions, corners on corners."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
