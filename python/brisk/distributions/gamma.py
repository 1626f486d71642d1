"""Gamma numbers and what is made of them: Gamma, Chi2, Dirichlet, Beta, StudentT, FisherSnedecor.

The gradient of a draw is the exact derivative at a fixed value of the distribution function. That of a Dirichlet draw
goes through its gamma numbers."""

import math

from brisk import _C
from brisk.autograd import Function
from brisk.distributions import constraints
from brisk.distributions.distribution import Distribution, standard_normal
from brisk.distributions.kl import register_kl
from brisk.distributions.utils import broadcast_all

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "StudentT"]


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx, alpha):
        drawn = _C._standard_gamma(alpha.detach())
        ctx.save_for_backward(alpha.detach(), drawn)
        return drawn

    @staticmethod
    def backward(ctx, grad):
        alpha, drawn = ctx.saved_tensors
        return grad * _C._standard_gamma_grad(alpha, drawn.detach())


def standard_gamma(alpha):
    """Draws of shape alpha and rate 1."""
    return _StandardGamma.apply(alpha)


class Gamma(Distribution):
    """The sum of waits: density proportional to x^(concentration - 1) exp(-rate x)."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / self.rate.pow(2)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Gamma, batch_shape, {"concentration": 0, "rate": 0}, _instance)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return value.clamp(min=_C.finfo(value.dtype).tiny)

    def log_prob(self, value):
        value = _C.as_tensor(value, dtype=self.rate.dtype)
        if self._validate_args:
            self._validate_sample(value)
        return (
            _C.xlogy(self.concentration, self.rate) + _C.xlogy(self.concentration - 1, value) - self.rate * value
            - self.concentration.lgamma()
        )  # fmt: skip

    def entropy(self):
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of the squares of df normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        df = df if isinstance(df, _C.Tensor) else _C.tensor(float(df))
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        return self.concentration * 2

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(Chi2, batch_shape, {"concentration": 0, "rate": 0}, _instance)
        return new


class Dirichlet(Distribution):
    """Vectors of positive numbers that sum to 1."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        first = (_C.arange(mode.shape[-1]) == mode.argmax(-1, keepdim=True)).to(mode.dtype)
        return _C.where(flat, first, mode)

    @property
    def variance(self):
        a, total = self.concentration, self.concentration.sum(-1, True)
        return a * (total - a) / (total.pow(2) * (total + 1))

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Dirichlet, batch_shape, {"concentration": 1}, _instance, self._event_shape)

    def rsample(self, sample_shape=()):
        alpha = self.concentration.expand(self._extended_shape(sample_shape))
        drawn = standard_gamma(alpha.to(_C.float64))  # in double: small ones would vanish
        info = _C.finfo(alpha.dtype)
        below_one = 1.0 - (info.eps / 2 if alpha.dtype == _C.float32 else 2.0**-53)
        return (drawn / drawn.sum(-1, True)).to(alpha.dtype).clamp(min=info.tiny, max=below_one)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return _C.xlogy(a - 1.0, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self):
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)


class Beta(Distribution):
    """Numbers between 0 and 1: the first of a Dirichlet pair."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        pair = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(_C.stack(list(pair), -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self):
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self):
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self):
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self):
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(Beta, batch_shape, {}, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return new

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(_C.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    def __repr__(self):
        return "Beta()"


class StudentT(Distribution):
    """A normal number over the root of a Chi2 one."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        usual = self.scale.pow(2) * self.df / (self.df - 2)
        return usual.masked_fill(self.df <= 2, math.inf).masked_fill(self.df <= 1, math.nan)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(StudentT, batch_shape, {"df": 0, "loc": 0, "scale": 0}, _instance)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        normal = standard_normal(shape, self.df.dtype)
        return self.loc + self.scale * normal * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + (0.5 * self.df).lgamma()
        z = z - (0.5 * (self.df + 1.0)).lgamma()
        return -0.5 * (self.df + 1.0) * (y.pow(2) / self.df).log1p() - z

    def entropy(self):
        half = 0.5 * self.df
        log_beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        return (
            self.scale.log() + (half + 0.5) * ((half + 0.5).digamma() - half.digamma()) + 0.5 * self.df.log() + log_beta
        )


class FisherSnedecor(Distribution):
    """The ratio of two Chi2 numbers, each over its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self):
        return (self.df2 / (self.df2 - 2)).masked_fill(self.df2 <= 2, math.nan)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self):
        a, b = self.df1, self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * b.pow(2) * (a + b - 2) / (a * (b - 2).pow(2) * (b - 4))

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(FisherSnedecor, batch_shape, {"df1": 0, "df2": 0}, _instance)
        new._gamma1, new._gamma2 = self._gamma1.expand(batch_shape), self._gamma2.expand(batch_shape)
        return new

    def rsample(self, sample_shape=()):
        tiny = _C.finfo(self.df1.dtype).tiny
        above = self._gamma1.rsample(sample_shape)
        return (above / self._gamma2.rsample(sample_shape).clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        first = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return first + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()


# --- divergences ------------------------------------------------------------------------------------------------------


@register_kl(Gamma, Gamma)
def _gammas(p, q):
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = total.lgamma() - b.sum(-1).lgamma()
    second = (a.lgamma() - b.lgamma()).sum(-1)
    return first - second + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _betas(p, q):
    return _dirichlets(p._dirichlet, q._dirichlet)
