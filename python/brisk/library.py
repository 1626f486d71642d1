"""torch.library: a Python function as an operation with a name of its own and a backward function.

An operation is its function here: it is called as it is, and its results have the gradient that was registered for it.
What compilers want to know of it (register_fake) is kept and not needed.
"""

import inspect
import re

from brisk._missing import finder
from brisk.autograd import Function, no_grad

__all__ = ["custom_op", "register_autograd", "register_fake", "register_kernel"]

_operations = {}


class CustomOpDef:
    """What custom_op makes: called as the function it was made of."""

    def __init__(self, name, function):
        self._qualname, self._function = name, function
        self._signature = inspect.signature(function)
        self._backward = self._setup = self._fake = None
        self.__doc__, self.__name__ = function.__doc__, name
        _operations[name] = self

    def register_fake(self, function):
        """How shapes follow from shapes: kept, as compilers alone ask for it."""
        self._fake = function
        return function

    def register_kernel(self, device_types, function=None):
        """Another function for devices; the one for the CPU takes the place of the first."""
        if function is None:
            return lambda function: self.register_kernel(device_types, function)
        if device_types is None or "cpu" in ([device_types] if isinstance(device_types, str) else device_types):
            self._function = function
        return function

    def register_autograd(self, backward, /, *, setup_context=None):
        """backward(ctx, *gradients of the results) gives one gradient, or None, for each argument;
        setup_context(ctx, inputs, output) keeps what it needs."""
        self._backward, self._setup = backward, setup_context

    def __call__(self, *args, **kwargs):
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._as_function().apply(*bound.args, *bound.kwargs.values())

    def _as_function(self):
        operation, names = self, list(self._signature.parameters.values())
        positional = sum(p.kind is not p.KEYWORD_ONLY for p in names)

        class Operation(Function):
            @staticmethod
            def forward(*inputs):
                keywords = {p.name: value for p, value in zip(names[positional:], inputs[positional:], strict=True)}
                with no_grad():
                    return operation._function(*inputs[:positional], **keywords)

            @staticmethod
            def setup_context(ctx, inputs, output):
                if operation._setup is None:
                    return
                if positional < len(names):
                    keywords = {p.name: v for p, v in zip(names[positional:], inputs[positional:], strict=True)}
                    operation._setup(ctx, inputs[:positional], keywords, output)
                else:
                    operation._setup(ctx, inputs, output)

            @staticmethod
            def backward(ctx, *gradients):
                if operation._backward is None:
                    raise RuntimeError(
                        f"Trying to backward through {operation._qualname} but no autograd formula was registered. "
                        "Please use register_autograd to add one."
                    )
                found = operation._backward(ctx, *gradients)
                found = found if isinstance(found, tuple) else (found,)
                return (*found, *(None,) * (len(names) - len(found)))

        return Operation

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """A function, or a decorator for one, as the operation `namespace::name`."""
    if not re.fullmatch(r"\w+::[\w.]+", name):
        raise ValueError(f"custom_op: a name is `namespace::name`, not {name!r}")
    return CustomOpDef(name, fn) if fn is not None else lambda fn: CustomOpDef(name, fn)


def _named(op):
    name = op if isinstance(op, str) else getattr(op, "_qualname", None)
    if name not in _operations:
        raise RuntimeError(f"torch.library: there is no operation {op!r}; custom_op makes one")
    return _operations[name]


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """How shapes follow from shapes: kept, as compilers alone ask for it."""
    return _named(op).register_fake(func) if func is not None else _named(op).register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """The backward function of an operation."""
    _named(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Another function for an operation's devices."""
    return _named(op).register_kernel(device_types, func)


__getattr__ = finder(__name__)
