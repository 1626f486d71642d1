"""torch.overrides: functions that let arguments of other classes take over, by their `__torch_function__`.

brisk's own functions take tensors and ask nobody. What is here serves programs whose functions do ask."""

import functools

from brisk._C import Tensor

__all__ = [
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "wrap_torch_function",
]


def _takes_over(value):
    return type(value) is not Tensor and hasattr(type(value), "__torch_function__")


def _in_turn(arguments):
    """One argument of each class like Tensor: as they come, but a class before those that it is derived from."""
    found = []
    for value in filter(is_tensor_like, arguments):
        if any(type(value) is type(other) for other in found):
            continue
        bases = (i for i, other in enumerate(found) if issubclass(type(value), type(other)))
        found.insert(next(bases, len(found)), value)
    return found


def has_torch_function(relevant_args):
    """Whether an argument's class has a `__torch_function__` that is to run instead."""
    return any(map(_takes_over, relevant_args))


def has_torch_function_unary(value):
    """has_torch_function of one argument."""
    return _takes_over(value)


def has_torch_function_variadic(*values):
    """has_torch_function of the arguments."""
    return has_torch_function(values)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Calls the `__torch_function__` of the arguments in turn; the first that is not NotImplemented is the result."""
    asked = _in_turn(relevant_args)
    types = tuple(map(type, asked))
    for value in filter(_takes_over, asked):
        result = value.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on types that implement "
        f"__torch_function__: {list(types)}"
    )


def wrap_torch_function(dispatcher):
    """A decorator: what dispatcher gives of the arguments is asked before the function runs."""

    def decorate(function):
        @functools.wraps(function)
        def asks_first(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(asks_first, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asks_first

    return decorate


def is_tensor_like(value):
    """Whether value is a tensor, or of a class with a `__torch_function__`."""
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")
