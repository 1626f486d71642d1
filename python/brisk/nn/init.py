"""Initial values of parameters: the numbers PyTorch draws for the same seed."""

import functools
import math
import warnings

from brisk import _C
from brisk._C import _nn
from brisk._missing import finder
from brisk.autograd.grad_mode import no_grad

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip


def calculate_gain(nonlinearity, param=None):
    """The factor that keeps variance through a nonlinearity."""
    if nonlinearity.startswith(("linear", "conv")) or nonlinearity == "sigmoid":
        return 1
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in gains:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return gains[nonlinearity]


def _without_tape(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with no_grad():
            return function(*args, **kwargs)

    return wrapped


@_without_tape
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Numbers between a and b."""
    return tensor.uniform_(a, b, generator=generator)


@_without_tape
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Numbers of a normal distribution."""
    return tensor.normal_(mean, std, generator=generator)


def _below(x):
    """The share of a normal distribution below x."""
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _redrawn_normal(tensor, mean, std, a, b, generator):
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    result = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (result < low) | (result > high)
        if not outside.any():
            return result
        again = _C.empty_like(result).normal_(mean, std, generator=generator)
        result = _C.where(outside, again, result)


def _accepted_uniform(tensor, mean, std, a, b, generator):
    """Rejection from a uniform distribution: for intervals that hold little of the normal one."""
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def draw():
        drawn = _C.empty_like(tensor).uniform_(a, b, generator=generator)
        density = ((drawn - mean) / std).pow(2) * -0.5 - log_peak
        return drawn, _C.empty_like(tensor).uniform_(generator=generator).log() > density

    result, pending = draw()
    while pending.any():
        drawn, refused = draw()
        result = _C.where(pending, drawn, result)
        pending = pending & refused
    return result


@_without_tape
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Numbers of a normal distribution that lie between a and b."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=3,
        )
    much = _below((b - mean) / std) - _below((a - mean) / std) > 0.3
    result = (_redrawn_normal if much else _accepted_uniform)(tensor, mean, std, a, b, generator)
    return tensor if result is tensor else tensor.copy_(result)


@_without_tape
def constant_(tensor, val):
    """One number everywhere."""
    return tensor.fill_(val)


def ones_(tensor):
    """Ones."""
    return constant_(tensor, 1.0)


@_without_tape
def zeros_(tensor):
    """Zeros."""
    return tensor.zero_()


@_without_tape
def eye_(tensor):
    """The identity matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(_C.eye(*tensor.shape, dtype=tensor.dtype))


@_without_tape
def dirac_(tensor, groups=1):
    """A convolution that passes its channels through."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    out = tensor.shape[0] // groups
    centre = tuple(n // 2 for n in tensor.shape[2:])
    for g in range(groups):
        for d in range(min(out, tensor.shape[1])):
            tensor[(g * out + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform, with the variance 2 gain^2 / (fan_in + fan_out)."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal, with the variance 2 gain^2 / (fan_in + fan_out)."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _nothing_to_do(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform, with the variance gain^2 / fan."""
    if _nothing_to_do(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal, with the variance gain^2 / fan."""
    if _nothing_to_do(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """An orthogonal matrix along the shorter side."""
    return _nn._orthogonal_(tensor, gain, generator)


@_without_tape
def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal numbers, of which in each column a share is zero."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[_C.randperm(rows)[:zeros], column] = 0
    return tensor


def _older(function):
    name = function.__name__[:-1]

    def wrapper(*args, **kwargs):
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    wrapper.__name__ = name
    wrapper.__doc__ = f"The older name of {name}_."
    return wrapper


uniform = _older(uniform_)
normal = _older(normal_)
constant = _older(constant_)
eye = _older(eye_)
dirac = _older(dirac_)
xavier_uniform = _older(xavier_uniform_)
xavier_normal = _older(xavier_normal_)
kaiming_uniform = _older(kaiming_uniform_)
kaiming_normal = _older(kaiming_normal_)
orthogonal = _older(orthogonal_)
sparse = _older(sparse_)

__getattr__ = finder(__name__)
