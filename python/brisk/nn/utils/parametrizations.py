"""Weight norm and spectral norm as parametrizations."""

from brisk import _C
from brisk._composed import looks_like
from brisk.autograd.grad_mode import no_grad
from brisk.nn import functional as F
from brisk.nn.modules.module import Module
from brisk.nn.utils import parametrize
from brisk.nn.utils.spectral_norm import as_matrix, output_dim
from brisk.nn.utils.weight_norm import norm_except_dim

__all__ = ["spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return _weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return norm_except_dim(weight, self.dim), weight


@looks_like("_weight_norm", 2)
def _weight_norm(direction, length, dim):
    return direction * (length / norm_except_dim(direction, dim))


def weight_norm(module, name="weight", dim=0):
    """The parameter as lengths (original0) and directions (original1)."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim if dim >= 0 else dim + ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            h, w = matrix.size()
            u, v = weight.new_empty(h).normal_(0, 1), weight.new_empty(w).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=self.eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=self.eps))
            self._power_method(matrix.detach(), 15)

    def _matrix(self, weight):
        return weight if weight.ndim == 2 and self.dim == 0 else as_matrix(weight, self.dim)

    @no_grad()
    def _power_method(self, matrix, n_power_iterations):
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(_C.mv(matrix, self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(_C.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / _C.vdot(u, _C.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The parameter over its largest singular value."""
    weight = getattr(module, name, None)
    if weight is None:
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = output_dim(module) if dim is None else dim
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module
