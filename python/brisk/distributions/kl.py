"""Divergences of one distribution from another, by the types of the two."""

import math

from brisk import _C
from brisk.distributions.bernoulli import Bernoulli
from brisk.distributions.categorical import Categorical, OneHotCategorical
from brisk.distributions.distribution import sum_rightmost
from brisk.distributions.exponential import Exponential
from brisk.distributions.independent import Independent
from brisk.distributions.laplace import Laplace
from brisk.distributions.multivariate_normal import MultivariateNormal, solve_lower
from brisk.distributions.normal import Normal
from brisk.distributions.poisson import Poisson
from brisk.distributions.uniform import Uniform

__all__ = ["kl_divergence", "register_kl"]

_rules = {}


def register_kl(type_p, type_q):
    """A decorator: the function gives kl_divergence(p, q) for these types and their subclasses."""

    def register(rule):
        _rules[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p, q):
    """The mean of log p - log q under p, by the rule for the nearest types."""
    fits = [pair for pair in _rules if isinstance(p, pair[0]) and isinstance(q, pair[1])]
    if not fits:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    near = min(fits, key=lambda pair: type(p).__mro__.index(pair[0]) + type(q).__mro__.index(pair[1]))
    return _rules[near](p, q)


@register_kl(Normal, Normal)
def _normals(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Categorical, Categorical)
def _categoricals(p, q):
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill((q.probs == 0).expand_as(t), math.inf).masked_fill((p.probs == 0).expand_as(t), 0)
    return t.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hots(p, q):
    return _categoricals(p._categorical, q._categorical)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p, q):
    def softplus(x):
        return _C.logaddexp(x, _C.zeros_like(x))

    yes = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    yes = yes.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    no = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return yes + no.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)


@register_kl(Uniform, Uniform)
def _uniforms(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Normal, Uniform)
@register_kl(Laplace, Uniform)
@register_kl(Exponential, Uniform)
def _beyond_the_interval(p, q):
    shape = (p.mean + q.low).shape
    return _C.full(shape, math.inf, dtype=p.mean.dtype)


@register_kl(Uniform, Normal)
def _uniform_normal(p, q):
    common = p.high - p.low
    first = (math.sqrt(math.pi * 2) * q.scale / common).log()
    second = common.pow(2) / 12
    third = ((p.high + p.low - 2 * q.loc) / 2).pow(2)
    return first + 0.5 * (second + third) / q.scale.pow(2)


@register_kl(Exponential, Exponential)
def _exponentials(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Laplace, Laplace)
def _laplaces(p, q):
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Poisson, Poisson)
def _poissons(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Independent, Independent)
def _independents(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    lower_p, lower_q = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    trace = solve_lower(lower_q, lower_p).pow(2).sum((-2, -1))
    distance = q._distance(q.loc - p.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + distance - p.event_shape[0])
