"""torch.special: functions of statistics and physics, and other names for what stands in the package itself.

The modified Bessel functions are computed in float64: their power series up to 30, where every term is positive, and
from there on the asymptotic one, of which 16 terms are below the last bit."""

import itertools
import math

from brisk import _C
from brisk._bessel import (  # noqa: F401
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
    spherical_bessel_j0,
)
from brisk._C import (  # noqa: F401
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    sinc,
    softmax,
    xlogy,
)
from brisk._C import digamma as psi  # noqa: F401
from brisk._C import igamma as gammainc  # noqa: F401
from brisk._C import igammac as gammaincc  # noqa: F401
from brisk._C import lgamma as gammaln  # noqa: F401
from brisk._C import sigmoid as expit  # noqa: F401
from brisk._composed import looks_like as _looks_like
from brisk._missing import finder
from brisk._out import fill as _fill
from brisk._tail import mvlgamma as multigammaln  # noqa: F401
from brisk.autograd import Function

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2",
    "expit", "expm1", "gammainc", "gammaincc", "gammaln", "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e",
    "i1", "i1e", "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0",
    "xlog1py", "xlogy", "zeta",
]  # fmt: skip


def _floating(x):
    return x if x.is_floating_point() else x.to(_C.get_default_dtype())


class _SpecialEntrBackward0(Function):
    """PyTorch's gradient is that of x log(x) wherever x is: infinite at 0, and nan below."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        inside = _C.where(x == 0, _C.zeros_like(x), -x * x.log())
        return _C.where(x < 0, _C.full_like(x, -math.inf), inside)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (-x.log() - 1)


def entr(input, *, out=None):
    """-x log(x): 0 at 0, and minus infinity below."""
    return _fill("special_entr", out, _SpecialEntrBackward0.apply(_floating(input)))


@_looks_like("ndtr")
def ndtr(input, *, out=None):
    """The probability of what is not greater than x, of a standard normal number."""
    return _fill("special_ndtr", out, 0.5 * _C.erfc(-_floating(input) * math.sqrt(0.5)))


@_looks_like("ndtri")
def ndtri(input, *, out=None):
    """The reverse of ndtr."""
    p = _floating(input)
    return _fill("special_ndtri", out, math.sqrt(2.0) * _C.erfinv(2 * p - 1))


@_looks_like("log_ndtr")
def log_ndtr(input, *, out=None):
    """log(ndtr(x)), also where ndtr(x) is too small to be represented."""
    x = _floating(input)
    near = x.clamp(min=-10)
    far = x.clamp(max=-10)
    z = far.square().reciprocal()
    series, term = _C.ones_like(z), _C.ones_like(z)
    for k in range(1, 13):  # Mills' ratio
        term = term * (-(2 * k - 1)) * z
        series = series + term
    tail = -0.5 * far.square() - (-far).log() - 0.5 * math.log(2 * math.pi) + series.log()
    upper = (-0.5 * _C.erfc(near.clamp(min=0) * math.sqrt(0.5))).log1p()
    lower = (0.5 * _C.erfc(-near.clamp(max=0) * math.sqrt(0.5))).log()
    return _fill("special_log_ndtr", out, _C.where(x < -10, tail, _C.where(x > 0, upper, lower)))


def erfcx(input, *, out=None):
    """exp(x^2) erfc(x), also where erfc(x) is too small to be represented."""
    return _fill("special_erfcx", out, _C._erfcx(input))


def _both(input, other):
    """Two operands, of which one may be a number, as tensors."""
    x = input if isinstance(input, _C.Tensor) else _C.tensor(float(input), dtype=_floating(other).dtype)
    y = other if isinstance(other, _C.Tensor) else _C.tensor(float(other), dtype=_floating(x).dtype)
    return x, y


round = _looks_like("_round_decimals")(_C.round)
_zeta_to_number = _looks_like("_zeta_to_number")(_C._zeta)
_zeta_of_number = _looks_like("_zeta_of_number", first=1)(_C._zeta)


def zeta(input, other, *, out=None):
    """The Hurwitz zeta function: the sum of (q + k)^-x over all k >= 0."""
    tensors = [isinstance(t, _C.Tensor) for t in (input, other)]
    sums = _C._zeta if all(tensors) else _zeta_to_number if tensors[0] else _zeta_of_number
    return _fill("special_zeta", out, sums(*_both(input, other)))


@_looks_like("xlog1py", 2)
@_looks_like("_xlog1py_by_number")
@_looks_like("_xlog1py_of_number", first=1)
def xlog1py(input, other, *, out=None):
    """x log(1 + y), 0 where x is."""
    x, y = _both(input, other)
    lost = (x == 0) & ((y <= -1) | y.isinf())  # elsewhere x has a gradient at 0, too
    return _fill("special_xlog1py", out, x * y.masked_fill(lost, 0).log1p())


# --- modified Bessel functions of the first kind ---------------------------------------------------------------------


def _products(count, factor):
    """1, factor(1), factor(1) factor(2) ..."""
    return list(itertools.accumulate(range(1, count), lambda product, k: product * factor(k), initial=1.0))


# By order: the power series in x^2 (of order 1 divided by x), and the asymptotic series in 1 / x.
_POWERS = [
    _products(60, lambda k: 0.25 / (k * k)),
    [0.5 * c for c in _products(60, lambda k: 0.25 / (k * (k + 1)))],
]
_FALLING = [_products(17, lambda k, n=order: ((2 * k - 1) ** 2 - 4 * n) / (8 * k)) for order in (0, 1)]


def _horner(x, coefficients):
    value = x * coefficients[-1] + coefficients[-2]
    for c in coefficients[-3::-1]:
        value = value * x + c
    return value


def _scaled_bessel(x, order):
    """exp(-|x|) I(x) of order 0 or 1, in float64."""
    size = x.to(_C.float64).abs()
    small = size.clamp(max=30.0)
    series = _horner(small.square(), _POWERS[order])
    series = series if order == 0 else series * small
    large = size.clamp(min=30.0)
    tail = _horner(large.reciprocal(), _FALLING[order])
    value = _C.where(size < 30, series * (-small).exp(), tail / (2 * math.pi * large).sqrt())
    return value if order == 0 else value * x.to(_C.float64).sign()


class _Bessel(Function):
    """I0, I1 and their scaled forms; the derivative of each is made of the others."""

    @staticmethod
    def forward(ctx, x, order, scaled):
        ctx.save_for_backward(x)
        ctx.order, ctx.scaled = order, scaled
        value = _scaled_bessel(x.detach(), order)
        value = value if scaled else value * x.detach().to(_C.float64).abs().exp()
        return value.to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        zeroth, first = (_bessel(x, order, ctx.scaled) for order in (0, 1))
        if ctx.order == 0:
            slope, own = first, zeroth
        else:  # I1(x) / x is 1/2 at 0
            ratio = _C.where(x == 0, _C.full_like(x, 0.5), first / _C.where(x == 0, _C.ones_like(x), x))
            slope, own = zeroth - ratio, first
        if ctx.scaled:
            slope = slope - x.sign() * own
        return grad * slope, None, None


# The tape shows them as PyTorch's.
_BESSEL = {
    key: type(name, (_Bessel,), {})
    for key, name in {
        (0, False): "_I0Backward0",
        (1, False): "_SpecialI1Backward0",
        (0, True): "_SpecialI0EBackward0",
        (1, True): "_SpecialI1EBackward0",
    }.items()
}


def _bessel(x, order, scaled):
    return _BESSEL[order, scaled].apply(x, order, scaled)


def i0(input, *, out=None):
    """The modified Bessel function of the first kind, of order 0."""
    return _fill("i0", out, _bessel(_floating(input), 0, False))


def i0e(input, *, out=None):
    """exp(-|x|) i0(x)"""
    return _fill("special_i0e", out, _bessel(_floating(input), 0, True))


def i1(input, *, out=None):
    """The modified Bessel function of the first kind, of order 1."""
    return _fill("special_i1", out, _bessel(_floating(input), 1, False))


def i1e(input, *, out=None):
    """exp(-|x|) i1(x)"""
    return _fill("special_i1e", out, _bessel(_floating(input), 1, True))


def modified_bessel_i0(input, *, out=None):
    """i0, on no tape."""
    return i0(input.detach(), out=out)


def modified_bessel_i1(input, *, out=None):
    """i1, on no tape."""
    return i1(input.detach(), out=out)


__getattr__ = finder(__name__)
