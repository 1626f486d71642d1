"""Distribution: the base of all, with the shapes of batches and events, and the checks of arguments."""

import math

from brisk import _C
from brisk._C import Size, Tensor
from brisk.autograd.grad_mode import no_grad
from brisk.distributions import constraints
from brisk.distributions.utils import broadcast_all, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """batch_shape: independent distributions of one kind; event_shape: one draw of each."""

    has_rsample = has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints = {}

    @staticmethod
    def set_default_validate_args(value):
        """Whether distributions check their arguments when nothing else is said."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_arguments()

    def _check_arguments(self):
        for name, constraint in self.arg_constraints.items():
            computed = isinstance(getattr(type(self), name, None), lazy_property) and name not in self.__dict__
            if computed or constraints.is_dependent(constraint):
                continue  # computed from others, which are checked
            value = getattr(self, name)
            with no_grad():
                valid = constraint.check(value)
                if valid.all().item():
                    continue
            raise ValueError(
                f"Expected parameter {name} ({_kind(value)} of shape {tuple(value.shape)}) of distribution {self!r} "
                f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
            )

    @property
    def batch_shape(self):
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    @property
    def support(self):
        raise NotImplementedError

    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=()):
        """Draws that no gradient goes through."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """Draws as functions of the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        """n draws."""
        return self.sample(Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density (or probability) at value."""
        raise NotImplementedError

    def cdf(self, value):
        raise NotImplementedError

    def icdf(self, value):
        raise NotImplementedError

    def entropy(self):
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        raise NotImplementedError

    def expand(self, batch_shape, _instance=None):
        raise NotImplementedError

    def perplexity(self):
        """The exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape=()):
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value):
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_start = value.dim() - len(self._event_shape)
        if tuple(value.shape[event_start:]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}."
            )
        expected = tuple(self._batch_shape) + tuple(self._event_shape)
        for i, j in zip(reversed(value.shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs {Size(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        with no_grad():
            if support.check(value).all().item():
                return
        raise ValueError(
            f"Expected value argument ({_kind(value)} of shape {tuple(value.shape)}) to be within the support "
            f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
        )

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expanded(self, cls, batch_shape, names, _instance, event_shape=()):
        """A copy with its parameters repeated to another batch shape. names: parameter -> its own dimensions."""
        new = self._get_checked_instance(cls, _instance)
        for name, dims in names.items():
            if name in self.__dict__:
                own = self.__dict__[name]
                setattr(new, name, own.expand(tuple(batch_shape) + tuple(own.shape[own.dim() - dims :])))
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def __repr__(self):
        names = [name for name in self.arg_constraints if name in self.__dict__]
        texts = [
            f"{name}: {value.item() if value.numel() == 1 else value.size()}"
            for name, value in ((name, self.__dict__[name]) for name in names)
        ]
        return type(self).__name__ + "(" + ", ".join(texts) + ")"


class Centred(Distribution):
    """loc is its middle in every sense."""

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc


class LocationScale(Centred):
    """Around loc, by multiples of scale; symmetric."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)


def _kind(value):
    return type(value).__name__


def standard_normal(shape, dtype):
    """Draws of mean 0 and variance 1, in PyTorch's order."""
    return _C.normal(_C.zeros(shape, dtype=dtype), _C.ones(shape, dtype=dtype))


def sum_rightmost(value, dims):
    """The sum over the last dims dimensions."""
    return value if dims == 0 else value.reshape(*value.shape[: value.dim() - dims], -1).sum(-1)


LOG_SQRT_2PI = math.log(math.sqrt(2 * math.pi))
