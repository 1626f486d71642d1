"""The Laplace distribution."""

from brisk import _C
from brisk.distributions.distribution import LocationScale

__all__ = ["Laplace"]


class Laplace(LocationScale):
    """Exponential to both sides of loc."""

    @property
    def variance(self):
        return 2 * self.scale.pow(2)

    @property
    def stddev(self):
        return 2**0.5 * self.scale

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Laplace, batch_shape, {"loc": 0, "scale": 0}, _instance)

    def rsample(self, sample_shape=()):
        shape, eps = self._extended_shape(sample_shape), _C.finfo(self.loc.dtype).eps
        u = self.loc.new_empty(shape).uniform_(eps - 1, 1)
        return self.loc - self.scale * u.sign() * (-u.abs()).log1p()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value):
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * (-away.abs() / self.scale).expm1()

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self):
        return 1 + (2 * self.scale).log()
