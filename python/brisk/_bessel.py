"""Bessel and Airy functions and orthogonal polynomials, for torch.special: in float64; no derivatives, as in PyTorch.

No tables of coefficients: near zero power series, elsewhere integrals over the whole line of functions that fall off
like exp(-s^2), for which the trapezoidal rule is exact to the last bit with some thirty points."""

import math

from brisk import _C
from brisk._arrange import broadcast_tensors
from brisk._out import fill

EULER = 0.5772156649015329


def _double(function):
    """A function of a float64 tensor, as one of any tensor, in and out."""

    def called(input, *, out=None):
        x = input.detach()
        kind = x.dtype if x.is_floating_point() else _C.get_default_dtype()
        if kind not in (_C.float32, _C.float64):
            raise NotImplementedError(f'"{function.__name__}_cpu" not implemented for {kind}')
        return fill(f"special_{function.__name__}", out, function(x.to(_C.float64)).to(kind))

    called.__name__ = called.__qualname__ = function.__name__
    called.__doc__ = function.__doc__
    return called


def _series(start, ratio, terms, weight=lambda k: 1.0):
    """sum of weight(k) start ratio(1) ... ratio(k)"""
    term, total = start, start * weight(0)
    for k in range(1, terms):
        term = term * ratio(k)
        total = total + weight(k) * term
    return total


# --- order nu at x >= 3: amplitude and phase -------------------------------------------------------------------------


def _nodes(order):
    """[(u, weight)] of the integral of exp(-u) u^(order - 1/2) f(u) from 0, divided by gamma(order + 1/2)."""
    whole = math.gamma(order + 0.5)
    if order == int(order):  # u = s^2
        weights = [(0.2 * k, (0.4 if k else 0.2) / whole) for k in range(33)]
        return [(s * s, w * math.exp(-s * s) * s ** (2 * order)) for s, w in weights]
    found = []
    for k in range(-45, 45):  # where u^(2 order) is not smooth at 0: u = exp(w - exp(-w)), which reaches it at no node
        w = 0.09 * k
        u = math.exp(w - math.exp(-w))
        found.append((u, 0.09 * math.exp(-u) * u ** (order + 0.5) * (1 + math.exp(-w)) / whole))
    return found


def _hankel(x, order):
    """(J, Y) by H = J + iY = sqrt(2 / (pi x)) exp(i (x - order pi / 2 - pi / 4)) (p + iq), where p + iq is
    the integral of exp(-u) u^(order - 1/2) (1 + iu / (2x))^(order - 1/2) from 0, divided by gamma(order + 1/2)."""
    p, q = _C.zeros_like(x), _C.zeros_like(x)
    for u, weight in _nodes(order):
        if weight > 1e-40:
            t = u / (2 * x)
            size = (0.5 * (order - 0.5) * (t * t).log1p()).exp() * weight
            angle = (order - 0.5) * t.atan()
            p, q = p + size * angle.cos(), q + size * angle.sin()
    c, s = x.cos(), x.sin()
    turn = (order / 2 + 0.25) * math.pi
    cosine, sine = c * math.cos(turn) + s * math.sin(turn), s * math.cos(turn) - c * math.sin(turn)
    scale = (2 / (math.pi * x)).sqrt()
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


def _harmonic(n):
    return sum(1 / k for k in range(1, n + 1))


def _first_kind_small(x, order):
    quarter = -x * x / 4
    return _series(x.new_ones(()).expand_as(x) if order == 0 else x / 2, lambda k: quarter / (k * (k + order)), 22)


def _second_kind_small(x, order):
    quarter, log = -x * x / 4, (x / 2).log() + EULER
    first = _first_kind_small(x, order)
    if order == 0:
        rest = _series(_C.ones_like(x), lambda k: quarter / (k * k), 22, _harmonic)
        return 2 / math.pi * (log * first - rest)
    rest = _series(x / 2, lambda k: quarter / (k * (k + 1)), 22, lambda k: _harmonic(k) + _harmonic(k + 1))
    return 2 / math.pi * (log * first - 1 / x) - rest / math.pi


def _first_kind(x, order):
    size = x.abs()
    near, far = _first_kind_small(size.clamp(max=3), order), _hankel(size.clamp(3, 1e300), order)[0]
    value = _C.where(size < 3, near, far).masked_fill(size.isinf(), math.nan)
    return _C.where(x < 0, -value, value) if order else value


def _second_kind(x, order):
    near, far = _second_kind_small(x.clamp(1e-300, 3), order), _hankel(x.clamp(3, 1e300), order)[1]
    value = _C.where(x < 3, near, far).masked_fill(x.isposinf(), math.nan)
    return value.masked_fill(x == 0, -math.inf).masked_fill(x < 0, math.nan)


@_double
def bessel_j0(x):
    """The Bessel function of the first kind, of order 0."""
    return _first_kind(x, 0)


@_double
def bessel_j1(x):
    """The Bessel function of the first kind, of order 1."""
    return _first_kind(x, 1)


@_double
def bessel_y0(x):
    """The Bessel function of the second kind, of order 0."""
    return _second_kind(x, 0)


@_double
def bessel_y1(x):
    """The Bessel function of the second kind, of order 1."""
    return _second_kind(x, 1)


@_double
def spherical_bessel_j0(x):
    """sin(x) / x"""
    return _C.where(x == 0, 1.0, x.sin() / _C.where(x == 0, 1.0, x)).masked_fill(x.isinf(), 0)


# --- modified, of the second kind ------------------------------------------------------------------------------------


def _scaled_modified(x, order):
    """exp(x) K(x) for x >= 1: the integral of exp(-x (cosh t - 1)) cosh(order t), in s = 2 sqrt(x) sinh(t / 2)."""
    step, total = 0.15, _C.zeros_like(x)
    for k in range(60):
        s = k * step
        weight = (1 if k else 0.5) * step * math.exp(-0.5 * s * s)
        half = 1 + s * s / (4 * x)  # cosh(t / 2)^2
        angle = 2 * ((s / 2) / x.sqrt()).asinh()
        total = total + weight / half.sqrt() * (order * angle).cosh()
    return total / x.sqrt()


def _modified_small(x, order):
    """K(x) for x < 1."""
    quarter, log = x * x / 4, (x / 2).log() + EULER
    if order == 0:
        first = _series(_C.ones_like(x), lambda k: quarter / (k * k), 14)
        return _series(_C.ones_like(x), lambda k: quarter / (k * k), 14, _harmonic) - log * first
    first = _series(x / 2, lambda k: quarter / (k * (k + 1)), 14)
    rest = _series(x / 2, lambda k: quarter / (k * (k + 1)), 14, lambda k: _harmonic(k) + _harmonic(k + 1))
    return 1 / x + log * first - rest / 2


def _modified(x, order, scaled):
    small, large = x.clamp(1e-300, 1), x.clamp(1, 1e300)
    near, far = _modified_small(small, order), _scaled_modified(large, order)
    value = _C.where(x < 1, near * small.exp(), far) if scaled else _C.where(x < 1, near, far * (-large).exp())
    return value.masked_fill(x.isposinf(), 0).masked_fill(x == 0, math.inf).masked_fill(x < 0, math.nan)


@_double
def modified_bessel_k0(x):
    """The modified Bessel function of the second kind, of order 0."""
    return _modified(x, 0, False)


@_double
def modified_bessel_k1(x):
    """The modified Bessel function of the second kind, of order 1."""
    return _modified(x, 1, False)


@_double
def scaled_modified_bessel_k0(x):
    """exp(x) modified_bessel_k0(x)"""
    return _modified(x, 0, True)


@_double
def scaled_modified_bessel_k1(x):
    """exp(x) modified_bessel_k1(x)"""
    return _modified(x, 1, True)


@_double
def airy_ai(x):
    """The Airy function Ai: Bessel functions of order 1/3, and its power series between -2.5 and 1.5."""
    middle = x.clamp(-2.5, 1.5)
    cube = middle**3
    even = _series(_C.ones_like(cube), lambda k: cube / ((3 * k - 1) * 3 * k), 20)
    odd = _series(middle, lambda k: cube / (3 * k * (3 * k + 1)), 20)
    near = even / (3 ** (2 / 3) * math.gamma(2 / 3)) - odd / (3 ** (1 / 3) * math.gamma(1 / 3))
    above = x.clamp(1.5, 1e100)
    size = 2 / 3 * above * above.sqrt()
    right = (above / 3).sqrt() / math.pi * _scaled_modified(size, 1 / 3) * (-size).exp()
    below = (-x).clamp(2.5, 1e100)
    j, y = _hankel(2 / 3 * below * below.sqrt(), 1 / 3)
    left = below.sqrt() * (j / 2 - y / (2 * math.sqrt(3)))
    value = _C.where(x > 1.5, right, _C.where(x < -2.5, left, near))
    return value.masked_fill(x.isposinf(), 0)


# --- polynomials: p[k + 1] = (a x + b) p[k] - c p[k - 1] -------------------------------------------------------------


def _polynomial(name, text, first, shifted, step):
    """first(x) is the polynomial of degree 1, step(k) the numbers a, b and c."""

    def polynomial(input, n, *, out=None):
        given = [t for t in (input, n) if isinstance(t, _C.Tensor)]
        kind = _C.result_type(input, n)
        kind = kind if kind.is_floating_point else _C.get_default_dtype()
        x = _C.as_tensor(input).detach().to(_C.float64)
        degree = _C.as_tensor(n).detach().to(_C.float64).trunc()
        if not given:
            raise TypeError(f"{name}(): one of the arguments must be a Tensor")
        x = 2 * x - 1 if shifted else x
        x, degree = broadcast_tensors(x, degree)
        before, value = _C.ones_like(x), first(x)
        result = _C.where(degree < 0, 0.0, _C.where(degree == 0, before, value))
        top = int(degree.max().item()) if degree.numel() else 0
        for k in range(1, top):
            a, b, c = step(k)
            before, value = value, (a * x + b) * value - c * before
            result = _C.where(degree == k + 1, value, result)
        return fill(f"special_{name}", out, result.to(kind))

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = f"{text}, of degree n."
    return polynomial


_CHEBYSHEV = {
    "t": ("of the first kind", lambda x: x), "u": ("of the second kind", lambda x: 2 * x),
    "v": ("of the third kind", lambda x: 2 * x - 1), "w": ("of the fourth kind", lambda x: 2 * x + 1),
}  # fmt: skip
for _letter, (_kind, _first) in _CHEBYSHEV.items():
    for _shifted in (False, True):
        _name = f"{'shifted_' if _shifted else ''}chebyshev_polynomial_{_letter}"
        _text = f"The {'shifted ' if _shifted else ''}Chebyshev polynomial {_kind}"
        globals()[_name] = _polynomial(_name, _text, _first, _shifted, lambda k: (2, 0, 1))
hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h", "The physicist's Hermite polynomial", lambda x: 2 * x, False, lambda k: (2, 0, 2 * k)
)
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he", "The probabilist's Hermite polynomial", lambda x: x, False, lambda k: (1, 0, k)
)
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l", "The Laguerre polynomial", lambda x: 1 - x, False,
    lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1)),
)  # fmt: skip
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p", "The Legendre polynomial", lambda x: x, False,
    lambda k: ((2 * k + 1) / (k + 1), 0, k / (k + 1)),
)  # fmt: skip
