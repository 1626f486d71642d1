"""The normal distribution of vectors."""

import math

from brisk import _C
from brisk.distributions import constraints
from brisk.distributions.distribution import Distribution, standard_normal
from brisk.distributions.utils import lazy_property

__all__ = ["MultivariateNormal"]


def cholesky(matrix):
    """The lower triangle L with L L^T = matrix, column by column, over recorded ops."""
    n, columns = matrix.shape[-1], []
    for j in range(n):
        rest = matrix[..., j]
        for column in columns:
            rest = rest - column * column[..., j : j + 1]
        below = _C.arange(n) >= j
        columns.append(_C.where(below, rest / rest[..., j : j + 1].sqrt(), 0.0))
    lower = _C.stack(columns, -1)
    if not lower.detach().isfinite().all().item():
        raise ValueError("the covariance matrix is not positive-definite")
    return lower


def solve_lower(lower, vector):
    """L^-1 v by forward substitution; v: (..., n)."""
    parts = []
    for i in range(lower.shape[-1]):
        rest = vector[..., i]
        for j, part in enumerate(parts):
            rest = rest - lower[..., i, j] * part
        parts.append(rest / lower[..., i, i])
    return _C.stack(parts, -1)


def _inverse_of_lower(lower):
    eye = _C.eye(lower.shape[-1], dtype=lower.dtype)
    return solve_lower(lower.unsqueeze(-3), eye.expand_as(lower)).transpose(-2, -1)


class MultivariateNormal(Distribution):
    """Of mean loc and a covariance, its inverse, or its lower Cholesky factor."""

    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        named = [(name, value) for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, value = named[0]
        if value.dim() < 2:
            text = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{text} must be at least two-dimensional, with optional leading batch dimensions")
        batch = (_C.zeros(value.shape[:-2]) + _C.zeros(loc.shape[:-1])).shape
        setattr(self, name, value.expand((*batch, *value.shape[-2:])))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = value
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(value)
        else:
            flipped = cholesky(value.flip((-2, -1))).flip((-2, -1)).transpose(-2, -1)
            self._unbroadcasted_scale_tril = _inverse_of_lower(flipped)

    @lazy_property
    def scale_tril(self):
        n = self._event_shape[0]
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, n, n))

    @lazy_property
    def covariance_matrix(self):
        lower = self._unbroadcasted_scale_tril
        n = self._event_shape[0]
        return (lower @ lower.transpose(-2, -1)).expand((*self._batch_shape, n, n))

    @lazy_property
    def precision_matrix(self):
        inverse = _inverse_of_lower(self._unbroadcasted_scale_tril)
        n = self._event_shape[0]
        return (inverse.transpose(-2, -1) @ inverse).expand((*self._batch_shape, n, n))

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand((*self._batch_shape, *self._event_shape))

    def expand(self, batch_shape, _instance=None):
        names = {"loc": 1, "scale_tril": 2, "covariance_matrix": 2, "precision_matrix": 2}
        new = self._expanded(MultivariateNormal, batch_shape, names, _instance, self._event_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def rsample(self, sample_shape=()):
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = solve_lower(self._unbroadcasted_scale_tril, value - self.loc).pow(2).sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
