"""Distributions of counts: Binomial, Multinomial, Geometric, NegativeBinomial."""

from brisk import _C
from brisk.autograd.grad_mode import no_grad
from brisk.distributions import constraints
from brisk.distributions.bernoulli import OfProbability
from brisk.distributions.categorical import OfCategorical
from brisk.distributions.distribution import Distribution
from brisk.distributions.gamma import Gamma
from brisk.distributions.kl import register_kl
from brisk.distributions.utils import broadcast_all
from brisk.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Binomial", "Geometric", "Multinomial", "NegativeBinomial"]


def _log_terms(value, total, logits):
    """value logits - total log(1 + exp(logits)), for logits of any size."""
    positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2  # of slope 1/2 at 0
    return value * logits - total * positive - total * (-logits.abs()).exp().log1p()


class Binomial(OfProbability):
    """Successes among total_count trials."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        (self.total_count,) = self._take(probs, logits, total_count)
        Distribution.__init__(self, self.total_count.size(), validate_args=validate_args)

    @property
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape, _instance=None):
        return self._expanded_probability(Binomial, batch_shape, _instance, total_count=0)

    def sample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return _C.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + _log_terms(value, n, self.logits)

    def entropy(self):
        if not (self.total_count == self.total_count.max()).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        most = int(self.total_count.max())
        if int(self.total_count.min()) != most:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._numbers(1 + most, expand)


class Geometric(OfProbability):
    """Failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        super().__init__(probs, logits, validate_args=validate_args)
        value = self._param
        if self._validate_args and probs is not None and not (value > 0).all():
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(value.shape)}) of distribution {self!r} "
                f"to be positive but found invalid values:\n{value}"
            )

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return _C.zeros_like(self.probs)

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    def expand(self, batch_shape, _instance=None):
        return self._expanded_probability(Geometric, batch_shape, _instance)

    def sample(self, sample_shape=()):
        with no_grad():
            u = _C.empty(self._extended_shape(sample_shape), dtype=self.probs.dtype)
            u.uniform_(_C.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(OfProbability):
    """Successes before total_count failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0), "probs": constraints.interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        (self.total_count,) = self._take(probs, logits, total_count)
        Distribution.__init__(self, self.total_count.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * self.logits.exp()

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / (-self.logits).sigmoid()

    def expand(self, batch_shape, _instance=None):
        return self._expanded_probability(NegativeBinomial, batch_shape, _instance, total_count=0)

    def sample(self, sample_shape=()):
        with no_grad():
            rate = Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape)
            return _C.poisson(rate)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        log_sigmoid = -(-self.logits).exp().log1p()
        unnormalised = n * -(self.logits.exp().log1p()) + value * log_sigmoid
        normaliser = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return unnormalised - normaliser.masked_fill(n + value == 0.0, 0.0)


class Multinomial(OfCategorical):
    """How often each class was drawn among total_count draws."""

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args=validate_args)

    @property
    def support(self):
        return constraints.multinomial(self.total_count)

    @property
    def mean(self):
        return self.probs * self.total_count

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded_categorical(Multinomial, batch_shape, _instance)
        new.total_count = self.total_count
        return new

    def sample(self, sample_shape=()):
        drawn = self._categorical.sample((self.total_count, *sample_shape)).movedim(0, -1)
        counts = _C.zeros(self._extended_shape(sample_shape), dtype=self.probs.dtype)
        return counts.scatter_add_(-1, drawn, _C.ones_like(drawn).to(counts.dtype))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self):
        n = _C.tensor(float(self.total_count), dtype=self.probs.dtype)
        of_class = self._categorical.entropy()
        terms = Binomial(self.total_count, probs=self.probs).log_prob(_counts(self)).exp()
        weights = (_counts(self) + 1).lgamma()
        return n * of_class - (n + 1).lgamma() + (terms * weights).sum([0, -1])

    def __repr__(self):
        return "Multinomial()"


def _counts(d):
    """1 ... total_count, before the dimensions of the probabilities."""
    values = _C.arange(1, d.total_count + 1, dtype=d.probs.dtype)
    return values.view((-1,) + (1,) * (len(d.batch_shape) + 1))


@register_kl(Binomial, Binomial)
def _binomials(p, q):
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return kl.masked_fill(p.total_count > q.total_count, float("inf"))


@register_kl(Geometric, Geometric)
def _geometrics(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits
