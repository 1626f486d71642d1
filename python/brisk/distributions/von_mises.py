"""VonMises: angles around a direction."""

import math

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.distributions import constraints
from brisk.distributions.distribution import Centred
from brisk.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]

# Abramowitz and Stegun, 9.8.1 to 9.8.4: I0 and I1 below 3.75 in (x / 3.75)^2, and above it in 3.75 / x.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_LARGE = (
    (0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1, -0.1647633e-1,
     0.392377e-2),
    (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1, -0.2895312e-1, 0.1787654e-1,
     -0.420059e-2),
)  # fmt: skip


def _polynomial(x, coefficients):
    value = coefficients[-1]
    for c in coefficients[-2::-1]:
        value = c + x * value
    return value


def log_bessel(x, order):
    """The logarithm of the modified Bessel function of the first kind, of order 0 or 1, of a positive number."""
    small = _polynomial((x / 3.75).square(), _SMALL[order])
    small = (x.abs() * small if order else small).log()
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return _C.where(x < 3.75, small, large)


class VonMises(Centred):
    """Angles with a density proportional to exp(concentration cos(x - loc)); moments are those of the circle."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(VonMises, batch_shape, {"loc": 0, "concentration": 0}, _instance)

    @lazy_property
    def variance(self):
        return 1 - (log_bessel(self.concentration, 1) - log_bessel(self.concentration, 0)).exp()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        around = self.concentration * (value - self.loc).cos()
        return around - math.log(2 * math.pi) - log_bessel(self.concentration, 0)

    def _proposal(self, k):
        """The parameter of the wrapped Cauchy distribution that proposes angles (Best and Fisher, 1979)."""
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return _C.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape=()):
        """Proposals until each is accepted, in float64: float32 would never accept at small concentrations."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, k = self.loc.to(_C.float64), self.concentration.to(_C.float64)
            r = self._proposal(k)
            x, done = _C.zeros(shape, dtype=_C.float64), _C.zeros(shape, dtype=_C.bool)
            while not done.all().item():
                u1, u2, u3 = _C.rand((3, *shape), dtype=_C.float64).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = _C.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)
