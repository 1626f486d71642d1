"""Probability distributions: samples from the same numbers as PyTorch's, densities, entropies, divergences."""

from brisk.distributions import constraints, utils
from brisk.distributions.bernoulli import Bernoulli
from brisk.distributions.categorical import Categorical, OneHotCategorical
from brisk.distributions.distribution import Distribution
from brisk.distributions.exponential import Exponential
from brisk.distributions.independent import Independent
from brisk.distributions.kl import kl_divergence, register_kl
from brisk.distributions.laplace import Laplace
from brisk.distributions.multivariate_normal import MultivariateNormal
from brisk.distributions.normal import Normal
from brisk.distributions.poisson import Poisson
from brisk.distributions.uniform import Uniform

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace", "MultivariateNormal",
    "Normal", "OneHotCategorical", "Poisson", "Uniform", "constraints", "kl_divergence", "register_kl", "utils",
]  # fmt: skip


def __getattr__(name):
    if name in ("Beta", "Dirichlet", "Gamma", "Chi2", "StudentT"):
        raise AttributeError(f"distributions.{name}: there is no sampler of gamma variates yet")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
