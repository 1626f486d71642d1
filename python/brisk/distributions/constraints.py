"""Sets that parameters and values lie in. check(value) gives a tensor of truths, one for each event."""

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "dependent", "greater_than", "greater_than_eq",
    "independent", "integer_interval", "interval", "less_than", "lower_cholesky", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "real", "real_vector", "simplex",
    "unit_interval",
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


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _PositiveDefinite(Constraint):
    """Symmetric: whether a matrix is definite is found out when it is factored."""

    event_dim = 2

    def check(self, value):
        return ((value - value.transpose(-2, -1)).abs() <= 1e-6 + 1e-5 * value.abs()).flatten(-2).all(-1)


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
nonnegative_integer = _IntegerGreaterThan(0)
multinomial = _Multinomial
simplex, lower_cholesky, positive_definite = _Simplex(), _LowerCholesky(), _PositiveDefinite()
