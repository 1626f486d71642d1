"""ContinuousBernoulli: numbers in [0, 1] with a density proportional to p^x (1 - p)^(1 - x)."""

import math

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.distributions import constraints
from brisk.distributions.bernoulli import OfProbability
from brisk.distributions.kl import register_kl
from brisk.distributions.uniform import Uniform
from brisk.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from brisk.nn._losses import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(OfProbability):
    """Between 0 and 1, the nearer to 1 the greater probs. Where probs is within lims, around 1/2, the quotients that
    would be 0/0 there are replaced by their series."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._lims = lims
        if probs is not None and logits is None:
            (probs,) = broadcast_all(probs)
            if validate_args is not None and not constraints.unit_interval.check(probs).all().item():
                raise ValueError("The parameter probs has invalid values")  # before they are clamped
            probs = clamp_probs(probs)
        super().__init__(probs, logits, validate_args=validate_args)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def expand(self, batch_shape, _instance=None):
        new = self._expanded_probability(ContinuousBernoulli, batch_shape, _instance)
        new._lims = self._lims
        return new

    def _outside(self):
        low, high = self._lims
        return (self.probs <= low) | (self.probs > high)

    def _cut(self):
        """probs, moved to the edge of the region where the quotients are not used."""
        return _C.where(self._outside(), self.probs, _C.full_like(self.probs, self._lims[0]))

    def _log_normaliser(self):
        cut = self._cut()
        below = _C.where(cut <= 0.5, cut, _C.zeros_like(cut))
        above = _C.where(cut >= 0.5, cut, _C.ones_like(cut))
        gap = _C.where(cut <= 0.5, (-2.0 * below).log1p(), (2.0 * above - 1.0).log())
        log_norm = ((-cut).log1p() - cut.log()).abs().log() - gap
        x = (self.probs - 0.5).square()
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return _C.where(self._outside(), log_norm, series)

    @property
    def mean(self):
        cut, x = self._cut(), self.probs - 0.5
        mean = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        return _C.where(self._outside(), mean, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self):
        cut, x = self._cut(), (self.probs - 0.5).square()
        variance = cut * (cut - 1.0) / (1.0 - 2.0 * cut).square() + 1.0 / ((-cut).log1p() - cut.log()).square()
        return _C.where(self._outside(), variance, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def sample(self, sample_shape=()):
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.icdf(_C.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_normaliser()

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut()
        inside = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = _C.where(self._outside(), inside, value)
        from_above = _C.where(value >= 1, _C.ones_like(value), inside)
        return _C.where(value <= 0, _C.zeros_like(value), from_above)

    def icdf(self, value):
        cut = self._cut()
        rest = (-cut).log1p()
        inside = ((-cut + value * (2.0 * cut - 1.0)).log1p() - rest) / (cut.log() - rest)
        return _C.where(self._outside(), inside, value)

    def entropy(self):
        no, yes = (-self.probs).log1p(), self.probs.log()
        return self.mean * (no - yes) - self._log_normaliser() - no


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoullis(p, q):
    weighted = p.mean * (p.logits - q.logits)
    normalisers = p._log_normaliser() + (-p.probs).log1p() - q._log_normaliser() - (-q.probs).log1p()
    return weighted + normalisers


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_and_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    outside = (q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)
    return _C.where(outside, _C.full_like(result, math.inf), result)
