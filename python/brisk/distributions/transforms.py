"""Maps between sets, with their inverses and the logarithms of their Jacobians' determinants."""

import math

from brisk import _C, linalg
from brisk.distributions import constraints
from brisk.distributions.distribution import sum_rightmost
from brisk.nn.functional import logsigmoid, pad, softplus

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "biject_to",
    "identity_transform", "transform_to",
]  # fmt: skip


class Transform:
    """y = t(x); subclasses define _call, _inverse and log_abs_det_jacobian. dims: of one element of its domain."""

    bijective = False
    domain, codomain = constraints.real, constraints.real
    domain_dim = codomain_dim = 0

    def __init__(self, cache_size=0):
        self._cache_size, self._pair, self._inverted = cache_size, (None, None), None

    @property
    def inv(self):
        if self._inverted is None:
            self._inverted = _InverseTransform(self)
        return self._inverted

    @property
    def sign(self):
        raise NotImplementedError

    def with_cache(self, cache_size=1):
        """The same map, which remembers its last pair."""
        self._cache_size = cache_size
        return self

    def __call__(self, x):
        if self._cache_size and self._pair[0] is x:
            return self._pair[1]
        y = self._call(x)
        if self._cache_size:
            self._pair = x, y
        return y

    def _inv_call(self, y):
        if self._cache_size and self._pair[1] is y:
            return self._pair[0]
        x = self._inverse(y)
        if self._cache_size:
            self._pair = x, y
        return x

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        raise NotImplementedError

    def forward_shape(self, shape):
        return shape

    def inverse_shape(self, shape):
        return shape

    def __eq__(self, other):
        return self is other or (type(self) is type(other) and self._parts() == other._parts())

    def _parts(self):
        return ()

    __hash__ = object.__hash__

    def __repr__(self):
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    def __init__(self, of):
        super().__init__()
        self._inverted = of
        self.bijective, self.domain, self.codomain = of.bijective, of.codomain, of.domain
        self.domain_dim, self.codomain_dim = of.codomain_dim, of.domain_dim

    @property
    def sign(self):
        return self._inverted.sign

    def __call__(self, x):
        return self._inverted._inv_call(x)

    def _inv_call(self, y):
        return self._inverted(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._inverted.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inverted.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inverted.forward_shape(shape)

    def _parts(self):
        return (self._inverted,)

    def __repr__(self):
        return f"{type(self).__name__[1:]}({self._inverted!r})"


class ComposeTransform(Transform):
    """One after the other."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = list(parts)
        self.bijective = all(t.bijective for t in self.parts)
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain
        need = 0
        for t in reversed(self.parts):
            need = max(need + t.domain_dim - t.codomain_dim, t.domain_dim)
        self.domain_dim = need
        for t in self.parts:
            need = max(need + t.codomain_dim - t.domain_dim, t.codomain_dim)
        self.codomain_dim = need

    @property
    def sign(self):
        sign = 1
        for t in self.parts:
            sign = sign * t.sign
        return sign

    def _call(self, x):
        for t in self.parts:
            x = t(x)
        return x

    def _inverse(self, y):
        for t in reversed(self.parts):
            y = t._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return _C.zeros_like(x)
        total, dims = 0, self.domain_dim
        for i, t in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else t(x)
            total = total + sum_rightmost(t.log_abs_det_jacobian(x, after), dims - t.domain_dim)
            dims += t.codomain_dim - t.domain_dim
            x = after
        return total

    def forward_shape(self, shape):
        for t in self.parts:
            shape = t.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for t in reversed(self.parts):
            shape = t.inverse_shape(shape)
        return shape

    def _parts(self):
        return tuple(self.parts)

    def __repr__(self):
        return "ComposeTransform(\n    " + ",\n    ".join(repr(t) for t in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A map of which some dimensions of a batch are one event."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)
        self.domain_dim = base_transform.domain_dim + reinterpreted_batch_ndims
        self.codomain_dim = base_transform.codomain_dim + reinterpreted_batch_ndims

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        return self.base_transform(x)

    def _inverse(self, y):
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def _parts(self):
        return (self.base_transform, self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """The last dimensions as others."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain_dim, self.codomain_dim = len(self.in_shape), len(self.out_shape)
        self.domain = constraints.independent(constraints.real, self.domain_dim)
        self.codomain = constraints.independent(constraints.real, self.codomain_dim)

    def _call(self, x):
        return x.reshape(tuple(x.shape[: x.dim() - self.domain_dim]) + self.out_shape)

    def _inverse(self, y):
        return y.reshape(tuple(y.shape[: y.dim() - self.codomain_dim]) + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return _C.zeros(x.shape[: x.dim() - self.domain_dim], dtype=x.dtype)

    def forward_shape(self, shape):
        return tuple(shape[: len(shape) - self.domain_dim]) + self.out_shape

    def inverse_shape(self, shape):
        return tuple(shape[: len(shape) - self.codomain_dim]) + self.in_shape


class ExpTransform(Transform):
    """exp"""

    bijective, sign, codomain = True, 1, constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """x ^ exponent"""

    bijective, domain, codomain = True, constraints.positive, constraints.positive

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, _C.Tensor) else _C.tensor(float(exponent))

    @property
    def sign(self):
        return self.exponent.sign()

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return _broadcast(shape, self.exponent.shape)


def _broadcast(*shapes):
    from brisk._arrange import broadcast_shapes

    return broadcast_shapes(*shapes)


class SigmoidTransform(Transform):
    """sigmoid"""

    bijective, sign, codomain = True, 1, constraints.unit_interval

    def _call(self, x):
        info = _C.finfo(x.dtype)
        return x.sigmoid().clamp(min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y):
        info = _C.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))"""

    bijective, sign, codomain = True, 1, constraints.positive

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -softplus(-x)


class TanhTransform(Transform):
    """tanh"""

    bijective, sign, codomain = True, 1, constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|: not one to one."""

    codomain = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """loc + scale x"""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        self.domain_dim = self.codomain_dim = event_dim
        if event_dim:
            self.domain = self.codomain = constraints.independent(constraints.real, event_dim)

    @property
    def sign(self):
        if isinstance(self.scale, _C.Tensor):
            return self.scale.sign()
        return 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, _C.Tensor):
            result = self.scale.abs().log()
        else:
            result = _C.full_like(x, math.log(abs(self.scale)))
        if self._event_dim:
            result = sum_rightmost(result.expand(x.shape), self._event_dim)
            return result
        return result.expand(x.shape)

    def forward_shape(self, shape):
        return _broadcast(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape

    def __eq__(self, other):
        if self is other:
            return True
        if type(other) is not AffineTransform:
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool((_C.as_tensor(a) == _C.as_tensor(b)).all()) for a, b in pairs)

    __hash__ = object.__hash__


class SoftmaxTransform(Transform):
    """softmax: not one to one."""

    domain, codomain = constraints.real_vector, constraints.simplex
    domain_dim = codomain_dim = 1

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(Transform):
    """n numbers to n + 1 that sum to 1: each takes its share of what is left."""

    bijective, domain, codomain = True, constraints.real_vector, constraints.simplex
    domain_dim = codomain_dim = 1

    def _offset(self, n, dtype):
        return n + 1 - _C.ones(n, dtype=dtype).cumsum(-1)

    def _call(self, x):
        z = SigmoidTransform()(x - self._offset(x.shape[-1], x.dtype).log())
        rest = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y):
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=_C.finfo(y.dtype).tiny)
        return head.log() - left.log() + self._offset(head.shape[-1], y.dtype).log()

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x.shape[-1], x.dtype).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape):
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """Any matrix to a lower triangle with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky
    domain_dim = codomain_dim = 2

    def _call(self, x):
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Any matrix to a symmetric positive-definite one, by its Cholesky factor."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    domain_dim = codomain_dim = 2

    def _call(self, x):
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


def _below(n, diagonal):
    """Rows and columns of the elements below a diagonal, in the order of rows."""
    rows, columns = _C.tril_indices(n, n, diagonal)
    return rows, columns


class CorrCholeskyTransform(Transform):
    """D (D - 1) / 2 numbers to the Cholesky factor of a correlation matrix: each row breaks its length, which is 1,
    into signed parts."""

    bijective, domain, codomain = True, constraints.real_vector, constraints.corr_cholesky
    domain_dim, codomain_dim = 1, 2

    def _call(self, x):
        eps = _C.finfo(x.dtype).eps
        n = self.forward_shape(x.shape)[-1]
        rows, columns = _below(n, -1)
        shares = _C.zeros((*x.shape[:-1], n, n), dtype=x.dtype)
        shares[..., rows, columns] = x.tanh().clamp(min=-1 + eps, max=1 - eps)
        left = (1 - shares**2).sqrt().cumprod(-1)
        return (shares + _C.eye(n, dtype=x.dtype)) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        rows, columns = _below(y.shape[-1], -1)
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        t = y[..., rows, columns] / left[..., rows, columns].sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y):
        rows, columns = _below(y.shape[-1], -2)
        left = (1 - (y * y).cumsum(-1))[..., rows, columns]
        of_tanh = -2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + of_tanh

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class CumulativeDistributionTransform(Transform):
    """A number to the probability of what is not greater than it."""

    bijective, sign, codomain = True, 1, constraints.unit_interval

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)

    def _parts(self):
        return (self.distribution,)


class _OfParts(Transform):
    """Maps for the parts of a tensor along one of its dimensions. Subclasses take it apart and join it."""

    def __init__(self, tseq, dim, cache_size):
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise AssertionError("All elements of tseq must be Transform instances")
        self.bijective = all(t.bijective for t in self.transforms)

    def _call(self, x):
        return self._join([t(part) for t, part in zip(self.transforms, self._apart(x), strict=True)])

    def _inverse(self, y):
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._apart(y), strict=True)])

    def _logs(self, x, y):
        parts = zip(self.transforms, self._apart(x), self._apart(y), strict=True)
        return [t.log_abs_det_jacobian(a, b) for t, a, b in parts]

    def _parts(self):
        return (*self.transforms, self.dim)


class CatTransform(_OfParts):
    """A map for each of some parts, of lengths along dim."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")
        self.length = sum(self.lengths)
        self.domain_dim = self.codomain_dim = max(t.domain_dim for t in self.transforms)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)

    def _apart(self, x):
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
        if x.shape[self.dim] != self.length:
            raise AssertionError(f"x.size({self.dim}) = {x.shape[self.dim]} must equal length {self.length}")
        return x.split(self.lengths, self.dim)

    def _join(self, parts):
        return _C.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        logs = [
            sum_rightmost(log, self.domain_dim - t.domain_dim)
            for t, log in zip(self.transforms, self._logs(x, y), strict=True)
        ]
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.domain_dim
        return _C.cat(logs, dim) if dim < 0 else sum(logs)


class StackTransform(_OfParts):
    """A map for each slice along dim."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)
        self.domain_dim, self.codomain_dim = self.domain.event_dim, self.codomain.event_dim

    def _apart(self, x):
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
        if x.shape[self.dim] != len(self.transforms):
            raise AssertionError(
                f"x.size({self.dim}) = {x.shape[self.dim]} must equal len(transforms) {len(self.transforms)}"
            )
        return x.unbind(self.dim)

    def _join(self, parts):
        return _C.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x, y):
        return _C.stack(self._logs(x, y), self.dim)


# --- from a constraint to a map onto it ------------------------------------------------------------------------------


class _Registry:
    """Which map leads from all numbers onto a set."""

    def __init__(self, onto_simplex, onto_definite=None):
        self._simplex, self._definite, self._rules = onto_simplex, onto_definite, []

    def register(self, constraint, factory=None):
        """A factory for a constraint, or for a class of them."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        self._rules.insert(0, (constraint, factory))
        return factory

    def __call__(self, constraint):
        for kind, factory in self._rules:
            if isinstance(constraint, kind) if isinstance(kind, type) else constraint is kind:
                return factory(constraint)
        return self._known(constraint)

    def _known(self, c):
        if c is constraints.simplex:
            return self._simplex()
        if c is constraints.lower_cholesky:
            return LowerCholeskyTransform()
        if c is constraints.corr_cholesky:
            return CorrCholeskyTransform()
        if c in (constraints.positive_definite, constraints.positive_semidefinite) and self._definite:
            return self._definite()
        if isinstance(c, constraints.cat):
            return CatTransform([self(part) for part in c.cseq], c.dim, c.lengths)
        if isinstance(c, constraints.stack):
            return StackTransform([self(part) for part in c.cseq], c.dim)
        if isinstance(c, constraints.independent):
            return IndependentTransform(self(c.base_constraint), c.reinterpreted_batch_ndims)
        if isinstance(c, (constraints.greater_than, constraints.greater_than_eq)):
            zero = not isinstance(c.lower_bound, _C.Tensor) and c.lower_bound == 0
            return ExpTransform() if zero else ComposeTransform([ExpTransform(), AffineTransform(c.lower_bound, 1)])
        if isinstance(c, constraints.less_than):
            return ComposeTransform([ExpTransform(), AffineTransform(c.upper_bound, -1)])
        if isinstance(c, (constraints.interval, constraints.half_open_interval)) and not c.is_discrete:
            plain = all(not isinstance(b, _C.Tensor) for b in (c.lower_bound, c.upper_bound))
            if plain and (c.lower_bound, c.upper_bound) == (0, 1):
                return SigmoidTransform()
            scale = c.upper_bound - c.lower_bound
            return ComposeTransform([SigmoidTransform(), AffineTransform(c.lower_bound, scale)])
        if c is constraints.real:
            return identity_transform
        raise NotImplementedError(f"Cannot transform {type(c).__name__} constraints")


biject_to = _Registry(StickBreakingTransform)
transform_to = _Registry(SoftmaxTransform, PositiveDefiniteTransform)
