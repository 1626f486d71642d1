"""Distributions of functions of numbers: TransformedDistribution, and those that are made with it."""

import math

from brisk import _C
from brisk.distributions import constraints
from brisk.distributions.bernoulli import OfProbability
from brisk.distributions.categorical import Categorical, OfCategorical, OneHotCategorical
from brisk.distributions.distribution import Centred, Distribution, LocationScale, standard_normal, sum_rightmost
from brisk.distributions.exponential import Exponential
from brisk.distributions.gamma import Gamma
from brisk.distributions.independent import Independent
from brisk.distributions.kl import kl_divergence, register_kl
from brisk.distributions.normal import Normal
from brisk.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    StickBreakingTransform,
    Transform,
)
from brisk.distributions.uniform import Uniform
from brisk.distributions.utils import broadcast_all, clamp_probs

__all__ = [
    "Cauchy", "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "MixtureSameFamily", "OneHotCategoricalStraightThrough", "Pareto", "RelaxedBernoulli",
    "RelaxedOneHotCategorical", "TransformedDistribution", "Weibull",
]  # fmt: skip

EULER = 0.57721566490153286060


class TransformedDistribution(Distribution):
    """transforms of what base_distribution draws."""

    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        joined = ComposeTransform(self.transforms)
        base_shape = tuple(base_distribution.batch_shape) + tuple(base_distribution.event_shape)
        shape = tuple(joined.forward_shape(base_shape))
        wanted = tuple(joined.inverse_shape(shape))
        events = len(base_distribution.event_shape)
        if base_shape != wanted:
            base_distribution = base_distribution.expand(wanted[: len(wanted) - events])
        more = joined.domain_dim - events
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        event_dim = max(joined.codomain_dim, events + joined.codomain_dim - joined.domain_dim)
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(TransformedDistribution, _instance)
        new.transforms = self.transforms
        shape = tuple(batch_shape) + tuple(self.event_shape)
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(tuple(shape)[: len(shape) - len(self.base_dist.event_shape)])
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _forward(self, x):
        for t in self.transforms:
            x = t(x)
        return x

    def sample(self, sample_shape=()):
        return self._forward(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape=()):
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        event_dim, total, y = len(self.event_shape), 0.0, value
        for t in reversed(self.transforms):
            x = t._inv_call(y)
            event_dim += t.domain_dim - t.codomain_dim
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), event_dim - t.domain_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _sign(self):
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return sign

    def _flip(self, value):
        sign = self._sign()
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for t in reversed(self.transforms):
            value = t._inv_call(value)
        return self._flip(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._flip(value)))

    def __repr__(self):
        names = [name for name in self.arg_constraints if name in self.__dict__]
        return super().__repr__() if names else type(self).__name__ + "()"


class _Named(TransformedDistribution):
    """With parameters of its own, which are repeated together with the base."""

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape, self.__new__(type(self)) if _instance is None else _instance)
        for name in self.arg_constraints:
            if name in self.__dict__:
                setattr(new, name, getattr(self, name).expand(batch_shape))
        return new


class LogNormal(_Named):
    """exp of a normal number."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def mean(self):
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self):
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self):
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class _Folded(_Named):
    """The size of a number whose distribution is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    scale = property(lambda self: self.base_dist.scale)

    def __init__(self, base, validate_args):
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mode(self):
        return _C.zeros_like(self.scale)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return _C.where(value >= 0, log_prob, _C.full_like(log_prob, -math.inf))

    def cdf(self, value):
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """The size of a normal number."""

    def __init__(self, scale, validate_args=None):
        super().__init__(Normal(0, scale, validate_args=False), validate_args=validate_args)

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)


class Cauchy(LocationScale):
    """The ratio of two normal numbers: it has no mean."""

    @property
    def mean(self):
        return _C.full_like(self.loc, math.nan)

    @property
    def variance(self):
        return _C.full_like(self.loc, math.inf)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Cauchy, batch_shape, {"loc": 0, "scale": 0}, _instance)

    def rsample(self, sample_shape=()):
        eps = _C.empty(self._extended_shape(sample_shape), dtype=self.loc.dtype).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - ((value - self.loc) / self.scale).square().log1p()

    def cdf(self, value):
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value):
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(_Folded):
    """The size of a Cauchy number."""

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args=validate_args)

    @property
    def mean(self):
        return _C.full(self._extended_shape(), math.inf, dtype=self.scale.dtype)

    @property
    def variance(self):
        return self.base_dist.variance


class Gumbel(_Named):
    """The largest of many."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info = _C.finfo(self.loc.dtype)
        one = _C.ones_like(self.loc.detach())
        base = Uniform(one * info.tiny, one * (1 - info.eps), validate_args=False)
        transforms = [
            ExpTransform().inv, AffineTransform(0, -one), ExpTransform().inv, AffineTransform(self.loc, -self.scale),
        ]  # fmt: skip
        super().__init__(base, transforms, validate_args=validate_args)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self):
        return self.loc + self.scale * EULER

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return (math.pi / math.sqrt(6)) ** 2 * self.scale.pow(2)

    def entropy(self):
        return self.scale.log() + (1 + EULER)


class Weibull(_Named):
    """A power of an exponential number."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(_C.ones_like(self.scale), validate_args=validate_args)
        transforms = [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self):
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self):
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self):
        r = self.concentration.reciprocal()
        return self.scale.pow(2) * ((1 + 2 * r).lgamma().exp() - (2 * (1 + r).lgamma()).exp())

    def entropy(self):
        r = self.concentration.reciprocal()
        return EULER * (1 - r) + (self.scale * r).log() + 1


class Pareto(_Named):
    """Density proportional to x^-(alpha + 1) from scale on."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    @property
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self):
        return self.scale

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(_Named):
    """Between 0 and 1, much like Beta."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(_C.full_like(self.concentration0, 0), _C.full_like(self.concentration0, 1), validate_args=False)
        transforms = [
            PowerTransform(self.concentration0.reciprocal()), AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]  # fmt: skip
        super().__init__(base, transforms, validate_args=validate_args)

    def _moment(self, n):
        a, b = self.concentration1, self.concentration0
        return (b.log() + (1 + n / a).lgamma() + b.lgamma() - (1 + n / a + b).lgamma()).exp()

    @property
    def mean(self):
        return self._moment(1)

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-a * b).log1p()
        return log_mode.exp().masked_fill((a < 1) | (b < 1), math.nan)

    @property
    def variance(self):
        return self._moment(2) - self.mean.pow(2)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        first = 1 - a.reciprocal()
        harmonic = (b + 1).digamma() + EULER
        return first * harmonic + (1 - b.reciprocal()) - a.log() - b.log()


class InverseGamma(_Named):
    """One over a gamma number."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-_C.ones((), dtype=base.rate.dtype)), validate_args=validate_args)

    @property
    def mean(self):
        result = self.rate / (self.concentration - 1)
        return _C.where(self.concentration > 1, result, _C.full_like(result, math.inf))

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        result = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return _C.where(self.concentration > 2, result, _C.full_like(result, math.inf))

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class LogisticNormal(_Named):
    """Vectors that sum to 1, by breaking a stick at sigmoids of normal numbers."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)


# --- relaxed: gradients pass through choices -------------------------------------------------------------------------


class _LogitRelaxedBernoulli(OfProbability):
    has_rsample = True
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded_probability(_LogitRelaxedBernoulli, batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(_C.rand(shape, dtype=probs.dtype))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value * self.temperature
        return _C.as_tensor(self.temperature).log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that are near one of them at a low temperature."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = _LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self.__new__(type(self)) if _instance is None else _instance)


class _ExpRelaxedCategorical(OfCategorical):
    has_rsample = True
    support = constraints.real_vector

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        super().__init__(probs, logits, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded_categorical(_ExpRelaxedCategorical, batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape=()):
        u = clamp_probs(_C.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value):
        k = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        temperature = _C.as_tensor(self.temperature, dtype=logits.dtype)
        scale = math.lgamma(k) + (k - 1) * temperature.log()
        score = logits - value * temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors that sum to 1 and are near one-hot ones at a low temperature."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = _ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self.__new__(type(self)) if _instance is None else _instance)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A one-hot draw whose gradient is that of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape=()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


# --- mixtures, and covariances of low rank ---------------------------------------------------------------------------


class MixtureSameFamily(Distribution):
    """A component, drawn by mixture_distribution, of the last batch dimension of component_distribution."""

    arg_constraints = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        self._num_component = mixture_distribution.logits.shape[-1]
        shape = component_distribution.batch_shape
        if shape[-1] != self._num_component:
            raise ValueError(
                f"`mixture_distribution component` ({self._num_component}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({shape[-1]})"
            )
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(MixtureSameFamily, batch_shape, {}, _instance, self._event_shape)
        new.component_distribution = self.component_distribution.expand((*batch_shape, self._num_component))
        new.mixture_distribution = self.mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return new

    @property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _weights(self):
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * self._event_ndims)

    @property
    def mean(self):
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self):
        at = -1 - self._event_ndims
        within = (self._weights() * self.component_distribution.variance).sum(at)
        centred = self.component_distribution.mean - self.mean.unsqueeze(at)
        return within + (self._weights() * centred.pow(2)).sum(at)

    def cdf(self, x):
        inside = self.component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims))
        return (inside * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        if self._validate_args:
            self._validate_sample(x)
        inside = self.component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        return (inside + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape=()):
        at = len(sample_shape) + len(self._batch_shape)
        chosen = self.mixture_distribution.sample(sample_shape)
        drawn = self.component_distribution.sample(sample_shape)
        index = chosen.reshape(*chosen.shape, *[1] * (self._event_ndims + 1))
        index = index.expand(*chosen.shape, 1, *self._event_shape)
        return drawn.gather(at, index).squeeze(at)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


class LowRankMultivariateNormal(Centred):
    """A normal vector of covariance cov_factor cov_factor^T + diag(cov_diag)."""

    arg_constraints = {
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        batch = (loc.unsqueeze(-1) + cov_factor[..., :1] + cov_diag.unsqueeze(-1)).shape[:-2]
        n = loc.shape[-1]
        self.loc, self.cov_diag = loc.expand((*batch, n)), cov_diag.expand((*batch, n))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        super().__init__(batch, (n,), validate_args=validate_args)

    @property
    def _capacitance(self):
        """The Cholesky factor of I + W^T D^-1 W."""
        W = self.cov_factor
        inner = W.mT @ (W / self.cov_diag.unsqueeze(-1))
        return _C.cholesky(inner + _C.eye(W.shape[-1], dtype=W.dtype))

    @property
    def variance(self):
        return self.cov_factor.pow(2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self):
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def scale_tril(self):
        return _C.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self):
        return _C.inverse(self.covariance_matrix)

    def expand(self, batch_shape, _instance=None):
        names = {"loc": 1, "cov_factor": 2, "cov_diag": 1}
        return self._expanded(LowRankMultivariateNormal, batch_shape, names, _instance, self._event_shape)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        eps_w = standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc.dtype)
        eps_d = standard_normal(shape, self.loc.dtype)
        return self.loc + (self.cov_factor @ eps_w.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * eps_d

    def _log_det(self, L):
        return 2 * L.diagonal(0, -2, -1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diff, L = value - self.loc, self._capacitance
        scaled = diff / self.cov_diag
        inner = (self.cov_factor.mT @ scaled.unsqueeze(-1)).squeeze(-1)
        inner = _C._linalg_solve_triangular(L, inner.unsqueeze(-1), upper=False).squeeze(-1)
        distance = (diff * scaled).sum(-1) - inner.pow(2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det(L) + distance)

    def entropy(self):
        n = self._event_shape[0]
        return 0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det(self._capacitance))


# --- divergences -----------------------------------------------------------------------------------------------------


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p, q):
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _cauchys(p, q):
    first = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return first - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbels(p, q):
    ratio, gap = p.scale / q.scale, (q.loc - p.loc) / q.scale
    moment = (gap + (ratio + 1).lgamma()).exp()
    return -ratio.log() - gap + ratio * EULER + moment - (1 + EULER)


@register_kl(Pareto, Pareto)
def _paretos(p, q):
    ratio, shape = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * ratio.log() - shape.log() + shape - 1
    return result.masked_fill(p.scale < q.scale, math.inf)
