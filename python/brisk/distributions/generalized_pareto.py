"""GeneralizedPareto: what lies beyond a threshold, with tails of any weight."""

import math

from brisk import _C
from brisk.distributions import constraints
from brisk.distributions.distribution import Distribution
from brisk.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """From loc on; exponential at concentration 0, heavier-tailed above it, bounded below it."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        names = {"loc": 0, "scale": 0, "concentration": 0}
        return self._expanded(GeneralizedPareto, batch_shape, names, _instance)

    @property
    def support(self):
        k = self.concentration
        upper = _C.where(k < 0, self.loc - self.scale / k, _C.full_like(k, math.inf))
        return constraints.interval(self.loc, upper)

    @property
    def mean(self):
        valid = self.concentration < 1
        k = _C.where(valid, self.concentration, _C.full_like(self.concentration, 0.5))
        result = self.loc + self.scale / (1 - k)
        return _C.where(valid, result, _C.full_like(result, math.nan))

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        valid = self.concentration < 0.5
        k = _C.where(valid, self.concentration, _C.full_like(self.concentration, 0.25))
        result = self.scale.square() / ((1 - k).square() * (1 - 2 * k))
        return _C.where(valid, result, _C.full_like(result, math.nan))

    def _by_concentration(self):
        """Where it is near 0, and itself with ones there, to divide by."""
        zero = self.concentration.abs() <= 1e-8
        return zero, _C.where(zero, _C.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape=()):
        return self.icdf(_C.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, k = self._by_concentration()
        power = 1 / k + _C.ones_like(z)
        return -self.scale.log() - _C.where(zero, z, _C.where(power == 0, power, power * (k * z).log1p()))

    def log_survival_function(self, value):
        """log(1 - cdf(value))"""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, k = self._by_concentration()
        return _C.where(zero, -z, -(k * z).log1p() / k)

    def log_cdf(self, value):
        """log(cdf(value))"""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value):
        return self.log_cdf(value).exp()

    def icdf(self, value):
        zero, k = self._by_concentration()
        log_rest = (-value).log1p()
        return _C.where(zero, self.loc - self.scale * log_rest, self.loc + self.scale / k * (-k * log_rest).expm1())

    def entropy(self):
        return (self.scale.log() + self.concentration + 1).expand(self._batch_shape)
