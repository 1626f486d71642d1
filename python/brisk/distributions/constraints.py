"""Sets that parameters and values lie in. check(value) gives a tensor of truths, one for each event."""

from brisk import _C, linalg

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set; event_dim dimensions of a value are one element of it."""

    is_discrete, event_dim = False, 0

    def check(self, value):
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters: not checked."""

    def __init__(self, *, is_discrete=False, event_dim=0):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete=None, event_dim=None):
        """The same, with what is known of it."""
        return _Dependent(
            is_discrete=self.is_discrete if is_discrete is None else is_discrete,
            event_dim=self.event_dim if event_dim is None else event_dim,
        )

    def check(self, value):
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A property whose value is a set; of the class itself, a set that depends on parameters."""

    def __init__(self, function=None, *, is_discrete=False, event_dim=0):
        property.__init__(self, function)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, function):
        return dependent_property(function, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint):
    """Whether a set depends on parameters, so that nothing can be checked."""
    return isinstance(constraint, _Dependent)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Real(Constraint):
    def check(self, value):
        return value == value


class _Bounds(Constraint):
    """Numbers between bounds, by name."""

    names = ("lower_bound", "upper_bound")

    def __init__(self, *bounds):
        for name, bound in zip(self.names, bounds):
            setattr(self, name, bound)

    def __repr__(self):
        bounds = ", ".join(f"{name}={getattr(self, name)}" for name in self.names)
        return f"{type(self).__name__[1:]}({bounds})"


class _Interval(_Bounds):
    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounds):
    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _GreaterThan(_Bounds):
    names = ("lower_bound",)

    def check(self, value):
        return value > self.lower_bound


class _GreaterThanEq(_GreaterThan):
    def check(self, value):
        return value >= self.lower_bound


class _IntegerGreaterThan(_GreaterThan):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


class _LessThan(_Bounds):
    names = ("upper_bound",)

    def check(self, value):
        return value < self.upper_bound


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_Bounds):
    """Counts that sum to a number."""

    is_discrete, event_dim, names = True, 1, ("upper_bound",)

    def __repr__(self):
        return "Multinomial()"

    def check(self, value):
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class MixtureSameFamilyConstraint(Constraint):
    """The set of a component; a value has no dimension for the components."""

    def __init__(self, base_constraint):
        self.base_constraint = base_constraint
        self.event_dim, self.is_discrete = base_constraint.event_dim, base_constraint.is_discrete

    def check(self, value):
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        dims = value.dim() - self.event_dim
        return inside.flatten(dims).all(-1) if inside.dim() > dims else inside

    def __repr__(self):
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Its rows are of length 1, so that its product with its transpose has ones on the diagonal."""

    def check(self, value):
        length = value.detach().square().sum(-1).sqrt()
        near = (length - 1).abs() <= 10 * value.shape[-1] * _C.finfo(value.dtype).eps
        return super().check(value) & near.all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return _C.full(value.shape[:-2], value.shape[-2] == value.shape[-1])


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return ((value - value.mT).abs() <= 1e-6 + 1e-5 * value.mT.abs()).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all().item():
            return symmetric
        return (linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all().item():
            return symmetric
        return linalg.cholesky_ex(value).info == 0


class _Sequence(Constraint):
    """Sets for the parts of a value, along one of its dimensions."""

    def __init__(self, cseq, dim):
        self.cseq, self.dim = list(cseq), dim
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)


class _Cat(_Sequence):
    """Of parts of some length each."""

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    def check(self, value):
        parts = value.split(self.lengths, self.dim)
        return _C.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Sequence):
    """Of slices."""

    def __init__(self, cseq, dim=0):
        super().__init__(cseq, dim)
        self.event_dim += self.dim + self.event_dim < 0

    def check(self, value):
        return _C.stack([c.check(part) for c, part in zip(self.cseq, value.unbind(self.dim), strict=True)], self.dim)


class _IndependentConstraint(Constraint):
    """A set of which some dimensions together are one event."""

    def __init__(self, base, dims):
        self.base_constraint, self.reinterpreted_batch_ndims = base, dims
        self.event_dim, self.is_discrete = base.event_dim + dims, base.is_discrete

    def check(self, value):
        inside = self.base_constraint.check(value)
        return inside.flatten(inside.dim() - self.reinterpreted_batch_ndims).all(-1)

    def __repr__(self):
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


dependent, boolean, one_hot, real = _Dependent(), _Boolean(), _OneHot(), _Real()
interval, integer_interval, greater_than, greater_than_eq, less_than = (
    _Interval, _IntegerInterval, _GreaterThan, _GreaterThanEq, _LessThan,
)  # fmt: skip
independent = _IndependentConstraint
real_vector = independent(real, 1)
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
half_open_interval, multinomial, cat, stack = _HalfOpenInterval, _Multinomial, _Cat, _Stack
simplex, lower_triangular, lower_cholesky, corr_cholesky = (
    _Simplex(), _LowerTriangular(), _LowerCholesky(), _CorrCholesky(),
)  # fmt: skip
square, symmetric, positive_semidefinite, positive_definite = (
    _Square(), _Symmetric(), _PositiveSemidefinite(), _PositiveDefinite(),
)  # fmt: skip
