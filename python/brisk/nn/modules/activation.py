"""Activations as modules. MultiheadAttention is here too, where PyTorch has it."""

from brisk import _C
from brisk.nn import functional as F
from brisk.nn import init as _init
from brisk.nn.modules.attention import MultiheadAttention
from brisk.nn.modules.module import Module
from brisk.nn.parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
    "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _MaybeInPlace(Module):
    """A function of the input, perhaps written over it."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    forward = _C.layer_forward(_C.sigmoid)


class Tanh(Module):
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x))."""

    forward = _C.layer_forward(_C.tanh)


class LogSigmoid(Module):
    """log(1 / (1 + exp(-x)))."""

    forward = _C.layer_forward(F.logsigmoid)


class Softsign(Module):
    """x / (1 + |x|)."""

    forward = _C.layer_forward(F.softsign)


class Tanhshrink(Module):
    """x - tanh(x)."""

    forward = _C.layer_forward(F.tanhshrink)


class ReLU(_MaybeInPlace):
    """max(x, 0)."""

    forward = _C.layer_forward(F.relu, "inplace")


class SiLU(_MaybeInPlace):
    """x sigmoid(x)."""

    forward = _C.layer_forward(F.silu, "inplace")


class Mish(_MaybeInPlace):
    """x tanh(softplus(x))."""

    forward = _C.layer_forward(F.mish, "inplace")


class SELU(_MaybeInPlace):
    """ELU with the slopes that keep mean 0 and variance 1."""

    forward = _C.layer_forward(F.selu, "inplace")


class Hardswish(_MaybeInPlace):
    """x times Hardsigmoid."""

    forward = _C.layer_forward(F.hardswish, "inplace")

    def extra_repr(self):
        return ""


class Hardsigmoid(Hardswish):
    """x / 6 + 1/2, between 0 and 1."""

    forward = _C.layer_forward(F.hardsigmoid, "inplace")


class Threshold(Module):
    """x above the threshold, else a value."""

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """LeakyReLU whose slope is drawn at random in training."""

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Hardtanh(Module):
    """x, between two bounds."""

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError("max_val must be larger than min_val")

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """x, between 0 and 6."""

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return "inplace=True" if self.inplace else ""


class _WithAlpha(Module):
    function = None

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input):
        return type(self).function(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_WithAlpha):
    """x above 0, else alpha (exp(x) - 1)."""

    function = F.elu


class CELU(_WithAlpha):
    """x above 0, else alpha (exp(x / alpha) - 1)."""

    function = F.celu


class LeakyReLU(Module):
    """x above 0, else a small slope times x."""

    def __init__(self, negative_slope=1e-2, inplace=False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class GLU(Module):
    """One half along a dimension times the sigmoid of the other."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class GELU(Module):
    """x times the normal distribution function of x, or nearly so by tanh."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    function = None

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def forward(self, input):
        return type(self).function(input, self.lambd)

    def extra_repr(self):
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x outside of [-lambd, lambd], else 0."""

    function = F.hardshrink


class Softshrink(_Shrink):
    """x moved towards 0 by lambd."""

    function = F.softshrink


class Softplus(Module):
    """log(1 + exp(beta x)) / beta."""

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """x above 0, else a learnt slope times x."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(_C.empty(num_parameters, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self):
        """The slope that was given."""
        _init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class _Along(Module):
    """`function` along dim."""

    function = None

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def forward(self, input):
        return type(self).function(input, self.dim, _stacklevel=5)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmin(_Along):
    """Softmax of -x."""

    function = F.softmin


class Softmax(_Along):
    """Exponentials along a dimension over their sum."""

    function = F.softmax


class LogSoftmax(_Along):
    """The logarithm of Softmax."""

    function = F.log_softmax


class Softmax2d(Module):
    """Softmax over the channels of each place."""

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)
