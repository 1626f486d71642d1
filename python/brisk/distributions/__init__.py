"""Probability distributions: samples from the same numbers as PyTorch's, densities, entropies, divergences."""

from brisk._missing import finder
from brisk._places import also_at
from brisk.distributions import categorical, constraints, counts, gamma, transformed, transforms, utils
from brisk.distributions.bernoulli import Bernoulli
from brisk.distributions.categorical import Categorical, OneHotCategorical
from brisk.distributions.continuous_bernoulli import ContinuousBernoulli
from brisk.distributions.counts import *  # noqa: F403
from brisk.distributions.distribution import Distribution
from brisk.distributions.exp_family import ExponentialFamily
from brisk.distributions.exponential import Exponential
from brisk.distributions.gamma import *  # noqa: F403
from brisk.distributions.generalized_pareto import GeneralizedPareto
from brisk.distributions.independent import Independent
from brisk.distributions.kl import kl_divergence, register_kl
from brisk.distributions.laplace import Laplace
from brisk.distributions.lkj_cholesky import LKJCholesky
from brisk.distributions.multivariate_normal import MultivariateNormal
from brisk.distributions.normal import Normal
from brisk.distributions.poisson import Poisson
from brisk.distributions.transformed import *  # noqa: F403
from brisk.distributions.transforms import *  # noqa: F403
from brisk.distributions.uniform import Uniform
from brisk.distributions.von_mises import VonMises
from brisk.distributions.wishart import Wishart

__all__ = [
    "Bernoulli", "Categorical", "ContinuousBernoulli", "Distribution", "Exponential", "ExponentialFamily",
    "GeneralizedPareto", "Independent", "LKJCholesky", "Laplace", "MultivariateNormal", "Normal", "OneHotCategorical",
    "Poisson", "Uniform", "VonMises", "Wishart", "constraints", "kl_divergence", "register_kl", "utils",
    *counts.__all__, *gamma.__all__, *transformed.__all__, *transforms.__all__,
]  # fmt: skip

also_at(
    __name__,
    {
        categorical: "one_hot_categorical",
        counts: "binomial geometric multinomial negative_binomial",
        gamma: "beta chi2 dirichlet fishersnedecor studentT",
        transformed: "cauchy gumbel half_cauchy half_normal inverse_gamma kumaraswamy log_normal logistic_normal "
        "lowrank_multivariate_normal mixture_same_family pareto relaxed_bernoulli relaxed_categorical "
        "transformed_distribution weibull",
        transforms: "constraint_registry",
    },
)

__getattr__ = finder(__name__)
