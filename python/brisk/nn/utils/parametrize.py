"""Parameters as functions of others: module.weight is computed from module.parametrizations.weight.

A parametrization is a module whose forward makes the parameter from one or more originals; its right_inverse, if it
has one, makes the originals from a given parameter. The attribute becomes a property of a class made for the module.
"""

from contextlib import contextmanager

from brisk._C import Tensor
from brisk.autograd.grad_mode import no_grad
from brisk.nn.modules.container import ModuleDict, ModuleList
from brisk.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
]  # fmt: skip

_cache, _caching = {}, 0


@contextmanager
def cached():
    """Inside, a parameter is computed once."""
    global _caching
    _caching += 1
    try:
        yield
    finally:
        _caching -= 1
        if not _caching:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one parameter, applied one after the other, and its originals."""

    def __init__(self, modules, original, unsafe=False):
        super().__init__(modules)
        self.unsafe = unsafe
        value = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        if self.is_tensor:
            if original.dtype != value.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {value.dtype}"
                )
            with no_grad():
                original.data = value.data
            self._own("original", original)
        else:
            self.ntensors = len(value)
            for i, part in enumerate(value):
                kept = Parameter(part, original.requires_grad) if isinstance(original, Parameter) else part
                self._own(f"original{i}", kept)

    def _own(self, name, value):
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value)

    def right_inverse(self, value):
        """Sets the originals so that the parameter becomes value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            parts = [value] if self.is_tensor else value
            names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
            for name, part in zip(names, parts):
                getattr(self, name).copy_(part)

    def forward(self):
        first, *others = self
        if self.is_tensor:
            value = first(self.original)
        else:
            value = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in others:
            value = module(value)
        return value


def _inject_class(module):
    base = type(module)
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), {"_unparametrized": base})


def _inject_property(module, name):
    def get(self):
        if not _caching:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self, value):
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on module.tensor_name is what the parametrization makes of its original."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    made = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_class(module)
        module.parametrizations = ModuleDict()
    _inject_property(module, tensor_name)
    module.parametrizations[tensor_name] = made
    return module


def is_parametrized(module, tensor_name=None):
    """Whether a module, or one tensor of it, is computed from others."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Makes the tensor a plain one again: what it is now, or its original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    made = module.parametrizations[tensor_name]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        trained = any(p.requires_grad for p in made.parameters(recurse=False))
        is_parameter = bool(made._parameters)
        kept = Parameter(value, trained) if is_parameter else value
    elif made.is_tensor:
        kept = made.original
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in "
                         "terms of a sequence of tensors.")  # fmt: skip
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(kept, Parameter):
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module)._unparametrized
    return module
