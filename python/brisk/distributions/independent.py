"""Dimensions of a batch that are one event."""

from brisk.distributions import constraints
from brisk.distributions.distribution import Distribution, sum_rightmost

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution whose last batch dimensions belong to the event: their log-probabilities are added."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        dims = reinterpreted_batch_ndims
        if dims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{dims} vs {len(base_distribution.batch_shape)}"
            )
        shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        events = dims + len(base_distribution.event_shape)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, dims
        super().__init__(shape[: len(shape) - events], shape[len(shape) - events :], validate_args=validate_args)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def support(self):
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self):
        return self.base_dist.mean

    @property
    def mode(self):
        return self.base_dist.mode

    @property
    def variance(self):
        return self.base_dist.variance

    def expand(self, batch_shape, _instance=None):
        inner = tuple(self.event_shape)[: self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand(tuple(batch_shape) + inner), self.reinterpreted_batch_ndims)

    def sample(self, sample_shape=()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
