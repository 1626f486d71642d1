"""LKJCholesky: lower Cholesky factors of correlation matrices."""

import math

from brisk import _C
from brisk._tail import mvlgamma
from brisk.autograd.grad_mode import no_grad
from brisk.distributions import constraints
from brisk.distributions.distribution import Distribution
from brisk.distributions.gamma import Beta
from brisk.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Of dim rows; the density of the matrix is proportional to its determinant^(concentration - 1)."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        rows = (_C.arange(dim, dtype=self.concentration.dtype) - 1).clamp(min=0)
        others = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * rows
        self._beta = Beta(rows + 0.5, others)  # the squared length of each row but for its diagonal
        super().__init__(self.concentration.size(), (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(LKJCholesky, batch_shape, {"concentration": 0}, _instance, self._event_shape)
        new.dim, new._beta = self.dim, self._beta.expand((*batch_shape, self.dim))
        return new

    def sample(self, sample_shape=()):
        """Rows of random directions and lengths, and the diagonal that makes each of length 1."""
        with no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            normal = _C.randn(self._extended_shape(sample_shape), dtype=square.dtype).tril(-1)
            direction = normal / normal.square().sum(-1, keepdim=True).sqrt()
            direction = _C.where(_C.arange(self.dim).unsqueeze(-1) == 0, _C.zeros_like(direction), direction)
            below = square.sqrt() * direction
            diagonal = (1 - below.square().sum(-1)).clamp(min=_C.finfo(below.dtype).tiny).sqrt()
            return below + diagonal.diag_embed()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        rows = _C.arange(2, self.dim + 1)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - rows
        unnormalised = (order * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1)
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normaliser = 0.5 * n * math.log(math.pi) + mvlgamma(alpha - 0.5, n) - alpha.lgamma() * n
        return unnormalised - normaliser
