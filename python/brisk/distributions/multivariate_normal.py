"""The normal distribution of vectors."""

import math

from brisk import _C, linalg
from brisk._arrange import broadcast_shapes
from brisk.distributions import constraints
from brisk.distributions.distribution import Centred, Distribution, standard_normal
from brisk.distributions.utils import lazy_property

__all__ = ["MultivariateNormal"]


def solve_lower(lower, matrix):
    """L^-1 M."""
    return linalg.solve_triangular(lower, matrix, upper=False)


def _lower_of_precision(precision):
    """The lower Cholesky factor of a matrix's inverse: by that of the matrix turned upside down."""
    turned = linalg.cholesky(precision.flip((-2, -1))).flip((-2, -1)).mT
    return solve_lower(turned, _C.eye(precision.shape[-1], dtype=precision.dtype).expand_as(turned))


class OfCovariance(Distribution):
    """What has a covariance, its inverse, or its lower Cholesky factor: one is given, the others are computed when
    they are asked for."""

    def _take(self, given, others_shape):
        """Keeps the one matrix that was given, by name, in a batch with others; the shape of that batch."""
        ((name, value),) = given.items()
        batch = broadcast_shapes(value.shape[:-2], others_shape)
        setattr(self, name, value.expand((*batch, *value.shape[-2:])))
        return batch

    def _factor(self, given):
        """The factor, once the matrix has been checked."""
        ((name, value),) = given.items()
        make = {"covariance_matrix": linalg.cholesky, "precision_matrix": _lower_of_precision}
        self._unbroadcasted_scale_tril = make[name](value) if name in make else value

    def _in_batch(self, matrix):
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    @lazy_property
    def scale_tril(self):
        return self._in_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        lower = self._unbroadcasted_scale_tril
        return self._in_batch(lower @ lower.mT)

    @lazy_property
    def precision_matrix(self):
        lower = self._unbroadcasted_scale_tril
        return self._in_batch(_C.cholesky_solve(_C.eye(lower.shape[-1], dtype=lower.dtype), lower))

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)


class MultivariateNormal(OfCovariance, Centred):
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
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        for name, value in given.items():
            if value.dim() < 2:
                text = "scale_tril matrix" if name == "scale_tril" else name
                raise ValueError(f"{text} must be at least two-dimensional, with optional leading batch dimensions")
        batch = self._take(given, loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._factor(given)

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

    def _distance(self, vector):
        """The square of its length, as the covariance measures it."""
        return solve_lower(self._unbroadcasted_scale_tril, vector.unsqueeze(-1)).squeeze(-1).pow(2).sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = self._distance(value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)
