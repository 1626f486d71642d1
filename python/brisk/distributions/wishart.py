"""Wishart: symmetric positive-definite matrices, as sums of products of normal vectors with themselves."""

import math
import warnings

from brisk import _C, linalg
from brisk._tail import mvlgamma
from brisk.distributions import constraints
from brisk.distributions.gamma import Chi2
from brisk.distributions.multivariate_normal import OfCovariance

__all__ = ["Wishart"]


class Wishart(OfCovariance):
    """The sum of v v^T over df normal vectors v of a covariance, its inverse, or its lower Cholesky factor; df need
    not be an integer."""

    support = constraints.positive_definite
    has_rsample = True

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (value,) = given.values()
        if value.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, _C.Tensor) else _C.tensor(df, dtype=value.dtype)
        batch = self._take(given, df.shape)
        self.df = df.expand(batch)
        n = value.shape[-1]
        if (self.df <= n - 1).any().item():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        if (self.df < n).any().item():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch, value.shape[-2:], validate_args=validate_args)
        self._factor(given)
        self._chi2 = self._diagonal()

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self._event_shape[-1] - 1),
        }  # fmt: skip

    def _diagonal(self):
        """The squares on the diagonal of a draw's factor."""
        return Chi2(self.df.unsqueeze(-1) - _C.arange(self._event_shape[-1], dtype=self.df.dtype))

    def expand(self, batch_shape, _instance=None):
        names = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
        new = self._expanded(Wishart, batch_shape, names, _instance, self._event_shape)
        new._unbroadcasted_scale_tril = new._in_batch(self._unbroadcasted_scale_tril)
        new._chi2 = new._diagonal()
        return new

    def _per_matrix(self, number):
        return number.reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self):
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self._event_shape[-1] - 1
        return self._per_matrix(factor.masked_fill(factor <= 0, math.nan)) * self.covariance_matrix

    @property
    def variance(self):
        V = self.covariance_matrix
        d = V.diagonal(0, -2, -1)
        return self._per_matrix(self.df) * (V.pow(2) + d.unsqueeze(-1) * d.unsqueeze(-2))

    def _bartlett(self, sample_shape):
        """Draws by their Cholesky factors: chi numbers on the diagonal, normal ones below it."""
        n = self._event_shape[-1]
        diagonal = self._chi2.rsample(sample_shape).sqrt()
        diagonal = diagonal.clamp(min=_C.finfo(diagonal.dtype).eps)
        below = _C.randn((*sample_shape, *self._batch_shape, n * (n - 1) // 2), dtype=diagonal.dtype)
        rows, columns = _C.tril_indices(n, n, -1)
        noise = _C.zeros((*diagonal.shape, n), dtype=diagonal.dtype)
        noise[..., rows, columns] = below
        lower = self._unbroadcasted_scale_tril @ (noise + diagonal.diag_embed())
        return lower @ lower.mT

    def rsample(self, sample_shape=(), max_try_correction=None):
        """Draws. PyTorch takes the definite matrices of its first round for singular ones and draws them once more:
        so that the same seed gives the same draws, this does too."""
        sample_shape = _C.Size(sample_shape)
        sample = self._bartlett(sample_shape)
        again = self._any_of_batch(self.support.check(sample))
        if not again.any().item():
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            drawn = self._bartlett(again[again].shape)
            sample = sample.index_put((again,), drawn)
            singular = self._any_of_batch(~self.support.check(drawn))
            again = again.index_put((again,), singular)
            if not again.any().item():
                break
        return sample

    def _any_of_batch(self, truths):
        dims = [-(i + 1) for i in range(len(self._batch_shape))]
        return truths.amax(dims) if dims else truths

    def _log_scale(self):
        return self._event_shape[-1] * math.log(2) / 2 + self._half_log_det()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n, lower = self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = _C.cholesky_solve(value, lower).diagonal(0, -2, -1).sum(-1)
        log_det = linalg.slogdet(value)[1]
        return -self.df * self._log_scale() - mvlgamma(self.df / 2, n) + (self.df - n - 1) / 2 * log_det - trace / 2

    def entropy(self):
        n = self._event_shape[-1]
        steps = _C.arange(n, dtype=self.df.dtype) / 2
        digammas = (self.df.unsqueeze(-1) / 2 - steps).digamma().sum(-1)
        return (
            (n + 1) * self._log_scale() + mvlgamma(self.df / 2, n) - (self.df - n - 1) / 2 * digammas + self.df * n / 2
        )
