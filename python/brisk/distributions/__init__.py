"""Probability distributions: samples from the same numbers as PyTorch's, densities, entropies, divergences."""

from brisk._missing import finder
from brisk.distributions import constraints, counts, gamma, transformed, transforms, utils
from brisk.distributions.bernoulli import Bernoulli
from brisk.distributions.categorical import Categorical, OneHotCategorical
from brisk.distributions.counts import *  # noqa: F403
from brisk.distributions.distribution import Distribution
from brisk.distributions.exponential import Exponential
from brisk.distributions.gamma import *  # noqa: F403
from brisk.distributions.independent import Independent
from brisk.distributions.kl import kl_divergence, register_kl
from brisk.distributions.laplace import Laplace
from brisk.distributions.multivariate_normal import MultivariateNormal
from brisk.distributions.normal import Normal
from brisk.distributions.poisson import Poisson
from brisk.distributions.transformed import *  # noqa: F403
from brisk.distributions.transforms import *  # noqa: F403
from brisk.distributions.uniform import Uniform

__all__ = [
    "Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace", "MultivariateNormal",
    "Normal", "OneHotCategorical", "Poisson", "Uniform", "constraints", "kl_divergence", "register_kl", "utils",
    *counts.__all__, *gamma.__all__, *transformed.__all__, *transforms.__all__,
]  # fmt: skip

__getattr__ = finder(__name__)
