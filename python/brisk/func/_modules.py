"""Modules called with parameters and buffers that are not their own."""

import contextlib
import copy
import functools

from brisk import _C
from brisk._C import Tensor
from brisk.func._runs import inside


def _tensors_of(module):
    """{full name: tensor}, shared tensors under each of their names."""
    found = dict(module.named_parameters(remove_duplicate=False))
    found.update(module.named_buffers(remove_duplicate=False))
    return found


def _owner(module, name):
    """The dict that holds the tensor of this full name, and its key there."""
    path, _, last = name.rpartition(".")
    owner = module.get_submodule(path) if path else module
    for place in (owner._parameters, owner._buffers):
        if last in place:
            return place, last
    return None, last  # PyTorch sets it while the module runs; a module that reads it has it already


def _with_ties(tensors, module_tensors):
    """The given tensors under every name of the tensor they stand for."""
    names = {}
    for name, t in module_tensors.items():
        names.setdefault(id(t), []).append(name)
    full = {}
    for name, t in tensors.items():
        for other in names.get(id(module_tensors.get(name)), [name]):
            if other in tensors and tensors[other] is not t:
                raise ValueError(
                    f"functional_call got multiple values for keys {sorted([name, other])}, which are tied. "
                    "Consider using tie_weights=False"
                )
            full[other] = t
    return full


def _check_names(module, given, own):
    unexpected, missing = sorted(given.keys() - own.keys()), sorted(own.keys() - given.keys())
    lines = [f"\n\t{what} key(s): {', '.join(map(repr, names))}." for what, names in
             (("Unexpected", unexpected), ("Missing", missing)) if names]  # fmt: skip
    if lines:
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:{''.join(lines)}")


@contextlib.contextmanager
def _replaced(module, tensors):
    before = []
    try:
        for name, t in tensors.items():
            place, key = _owner(module, name)
            if place is None:
                continue
            before.append((place, key, place[key]))
            place[key] = t
        yield
    finally:
        for place, key, t in reversed(before):
            place[key] = t


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with the parameters and buffers named in a dict (or several) in place of its own."""
    if isinstance(parameter_and_buffer_dicts, dict):
        tensors = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, (tuple, list)):
        if not all(isinstance(d, dict) for d in parameter_and_buffer_dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for d in parameter_and_buffer_dicts for name in d]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        tensors = {name: t for d in parameter_and_buffer_dicts for name, t in d.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    own = _tensors_of(module)
    full = _with_ties(tensors, own) if tie_weights else tensors
    if strict:
        _check_names(module, full, own)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, full):
        return module(*args, **(kwargs or {}))


def stack_module_state(models):
    """(parameters, buffers) of models of one class, stacked along a new first dimension, for vmap over the models."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) != 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) != 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(of):
        columns = {name: [dict(of(m))[name] for m in models] for name in dict(of(models[0]))}
        return {name: _stacked_leaf(column) for name, column in columns.items()}

    return stacked(lambda m: m.named_parameters()), stacked(lambda m: m.named_buffers())


def _stacked_leaf(column):
    first = column[0]
    if not isinstance(first, Tensor) or any(t.requires_grad != first.requires_grad for t in column):
        raise RuntimeError("Expected Parameters from each model to have the same .requires_grad")
    return _C.stack(column).detach().requires_grad_(first.requires_grad)


# --- what functorch had ----------------------------------------------------------------------------------------------


class _Functional:
    """A copy of a module without tensors of its own: called with parameters, and with buffers where it has them."""

    def __init__(self, model, names, buffer_names):
        self.stateless_model, self.param_names, self.buffer_names = model, names, buffer_names

    def __call__(self, params, *args, **kwargs):
        tensors = dict(zip(self.param_names, params, strict=True))
        if self.buffer_names is not None:
            buffers, *args = args
            tensors.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, tensors, tuple(args), kwargs)


def _taken_apart(model, disable_autograd_tracking):
    params, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    if disable_autograd_tracking:
        for p in params.values():
            p.requires_grad_(False)
    return copy.deepcopy(model), params, buffers


def make_functional(model, disable_autograd_tracking=False):
    """(function, parameters): function(parameters, *inputs) is what the model computes."""
    if next(model.buffers(), None) is not None:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    stateless, params, _ = _taken_apart(model, disable_autograd_tracking)
    return _Functional(stateless, list(params), None), tuple(params.values())


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(function, parameters, buffers): function(parameters, buffers, *inputs) is what the model computes."""
    stateless, params, buffers = _taken_apart(model, disable_autograd_tracking)
    return _Functional(stateless, list(params), list(buffers)), tuple(params.values()), tuple(buffers.values())


def combine_state_for_ensemble(models):
    """(function, parameters, buffers) of models of one class, stacked along a new first dimension for vmap."""
    models = list(models)
    params, buffers = stack_module_state(models)
    function, _, _ = make_functional_with_buffers(models[0])
    return function, tuple(params.values()), tuple(buffers.values())


def functionalize(func, *, remove="mutations"):
    """The function itself: changes in place are recorded as new values anyway, so nothing is left to remove."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations' or remove='mutations_and_views'"
        )
    return functools.wraps(func, updated=())(functools.partial(inside, func))
