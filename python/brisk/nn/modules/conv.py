"""Convolutions and their transposes."""

import math

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.nn import functional as F
from brisk.nn import init
from brisk.nn.modules.lazy import LazyModuleMixin
from brisk.nn.modules.module import Module
from brisk.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from brisk.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """n spatial dimensions; `function` computes."""

    n = 0
    function = None
    transposed = False

    def _set(
        self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
        padding_mode, device, dtype,
    ):  # fmt: skip
        each = _ntuple(self.n, "each")
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        stride = each(stride)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode must be one of {set(_MODES)}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = each(kernel_size), stride, each(dilation)
        self.padding = padding if isinstance(padding, str) else each(padding)
        self.output_padding, self.padding_mode = each(output_padding), padding_mode
        self._reversed_padding_repeated_twice = self._all_pads()
        pair = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(_C.empty((*pair, *self.kernel_size), dtype=dtype, device=device))
        if bias:
            self.bias = Parameter(_C.empty(out_channels, dtype=dtype, device=device))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _all_pads(self):
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        pads = []
        for d, k in reversed(list(zip(self.dilation, self.kernel_size))):
            total = d * (k - 1) if self.padding == "same" else 0
            pads += [total // 2, total - total // 2]
        return pads

    def reset_parameters(self):
        """Draws weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "padding_mode"):
            self.padding_mode = "zeros"

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return type(self).function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zeros, ones = (0,) * self.n, (1,) * self.n
        if self.padding != zeros:
            text += f", padding={self.padding}"
        if self.dilation != ones:
            text += f", dilation={self.dilation}"
        if self.output_padding != zeros:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
        padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        self._set(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode, device,
            dtype,
        )  # fmt: skip


class Conv1d(_Conv):
    """Over (N, C, L)."""

    n = 1
    function = F.conv1d


class Conv2d(_Conv):
    """Over (N, C, H, W)."""

    n = 2
    function = F.conv2d


class Conv3d(_Conv):
    """Over (N, C, D, H, W)."""

    n = 3
    function = F.conv3d


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True,
        dilation=1, padding_mode="zeros", device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._set(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def _extra(self, input, output_size):
        """The output padding that gives the size asked for."""
        if output_size is None:
            return self.output_padding
        n = self.n
        if len(output_size) == n + 2 or len(output_size) == input.dim() and len(output_size) > n:
            output_size = list(output_size)[-n:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {n + 2} elements "
                f"(got {len(output_size)})"
            )
        extra = []
        for d, wanted in enumerate(output_size):
            least = (input.shape[input.dim() - n + d] - 1) * self.stride[d] - 2 * self.padding[d]
            least += self.dilation[d] * (self.kernel_size[d] - 1) + 1
            if not least <= wanted <= least + self.stride[d] - 1:
                raise ValueError(f"requested an output size of {list(output_size)}, which dimension {d} cannot have")
            extra.append(wanted - least)
        return tuple(extra)

    def forward(self, input, output_size=None):
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, self._extra(input, output_size), self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_ConvTransposeNd):
    """Over (N, C, L)."""

    n = 1
    function = F.conv_transpose1d


class ConvTranspose2d(_ConvTransposeNd):
    """Over (N, C, H, W)."""

    n = 2
    function = F.conv_transpose2d


class ConvTranspose3d(_ConvTransposeNd):
    """Over (N, C, D, H, W)."""

    n = 3
    function = F.conv_transpose3d


class _LazyConv(LazyModuleMixin):
    """A convolution that learns its number of input channels from its first input."""

    def __init__(self, out_channels, kernel_size, *args, device=None, dtype=None, **kwargs):
        named = dict(zip(self._after_kernel, args), **kwargs)
        biased = named.pop("bias", True)
        super().__init__(0, 0, kernel_size, bias=False, **named)
        self.out_channels = out_channels
        self.weight = UninitializedParameter(dtype=dtype)
        if biased:
            self.bias = UninitializedParameter(dtype=dtype)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        if not self.has_uninitialized_params():
            return
        self.in_channels = input.shape[0 if input.dim() == self.n + 1 else 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        pair = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        with no_grad():
            self.weight.materialize((pair[0], pair[1] // self.groups, *self.kernel_size))
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


def _lazy(base):
    """The lazy form of a convolution, which becomes one."""
    code = base.__init__.__code__
    options = code.co_varnames[4 : code.co_argcount]  # after self and the sizes
    fields = {"cls_to_become": base, "_after_kernel": options, "__module__": __name__, "__doc__": _LazyConv.__doc__}
    return type(f"Lazy{base.__name__}", (_LazyConv, base), fields)


LazyConv1d, LazyConv2d, LazyConv3d = _lazy(Conv1d), _lazy(Conv2d), _lazy(Conv3d)
LazyConvTranspose1d = _lazy(ConvTranspose1d)
LazyConvTranspose2d = _lazy(ConvTranspose2d)
LazyConvTranspose3d = _lazy(ConvTranspose3d)
