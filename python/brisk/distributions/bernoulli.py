"""Yes or no."""

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.distributions import constraints
from brisk.distributions.distribution import Distribution
from brisk.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from brisk.nn._losses import binary_cross_entropy_with_logits

__all__ = ["Bernoulli"]


class OfProbability(Distribution):
    """What has a probability or its logit: one is given, the other computed when it is asked for."""

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def _take(self, probs, logits, *others):
        """Keeps the one given; the others, in its shape and type."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._given = "probs" if logits is None else "logits"
        *others, value = broadcast_all(*others, probs if logits is None else logits)
        setattr(self, self._given, value)
        return [other.to(value.dtype) for other in others]

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self):
        return getattr(self, self._given)

    @property
    def param_shape(self):
        return self._param.size()

    def _expanded_probability(self, cls, batch_shape, _instance, **names):
        new = self._expanded(cls, batch_shape, {"probs": 0, "logits": 0, **names}, _instance)
        new._given = self._given
        return new

    def _numbers(self, count, expand):
        """0 ... count - 1, in front of the dimensions of the batch."""
        values = _C.arange(count, dtype=self._param.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class Bernoulli(OfProbability):
    """1 with the given probability (or its logit), else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return mode.masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def expand(self, batch_shape, _instance=None):
        return self._expanded_probability(Bernoulli, batch_shape, _instance)

    def sample(self, sample_shape=()):
        with no_grad():
            return _C.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        return self._numbers(2, expand)
