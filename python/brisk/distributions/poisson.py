"""The Poisson distribution."""

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.distributions import constraints
from brisk.distributions.distribution import Distribution
from brisk.distributions.utils import broadcast_all

__all__ = ["Poisson"]


class Poisson(Distribution):
    """Counts of what happens at a rate."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return self.rate.floor()

    @property
    def variance(self):
        return self.rate

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Poisson, batch_shape, {"rate": 0}, _instance)

    def sample(self, sample_shape=()):
        with no_grad():
            return _C.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return _C.xlogy(value, rate) - rate - (value + 1).lgamma()
