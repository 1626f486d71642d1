"""Optimizer: groups of parameters with their options, and the state that steps keep."""

import functools
import warnings
from collections import OrderedDict, defaultdict
from copy import deepcopy
from itertools import chain

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.grad_mode import enable_grad, no_grad
from brisk.autograd.hooks import RemovableHandle

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

_global_pre_hooks = OrderedDict()
_global_post_hooks = OrderedDict()


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()


def _hooked(table, hook):
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def register_optimizer_step_pre_hook(hook):
    """Calls hook(optimizer, args, kwargs) before every step of every optimizer."""
    return _hooked(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Calls hook(optimizer, args, kwargs) after every step of every optimizer."""
    return _hooked(_global_post_hooks, hook)


def number(x):
    """An option that may be a tensor of one element, as a float."""
    return x if type(x) is float else float(x)


def _with_hooks(step):
    """A step that calls the hooks around it."""

    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        self._opt_called = True  # schedulers ask whether a step came before theirs
        if not (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
                or _global_pre_hooks or _global_post_hooks):  # fmt: skip
            return step(self, *args, **kwargs)
        for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
            result = hook(self, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), got {result}.")
                args, kwargs = result
        out = step(self, *args, **kwargs)
        for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
            hook(self, args, kwargs)
        return out

    wrapper.hooked = True
    return wrapper


class Optimizer:
    """The base of all optimizers: a step of theirs moves the parameters of all groups."""

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._start()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + params.type()
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            if not isinstance(group, dict):
                raise TypeError(f"param_group must be a dict, but got {type(group)}")
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def _start(self):
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self._optimizer_state_dict_pre_hooks = OrderedDict()
        self._optimizer_state_dict_post_hooks = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks = OrderedDict()
        self._optimizer_load_state_dict_post_hooks = OrderedDict()
        self._patch_step_function()

    def _patch_step_function(self):
        cls = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = _with_hooks(cls.step)

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._start()
        self.defaults.setdefault("differentiable", False)
        for group in self.param_groups:
            for name, value in self._old_options.items():
                group.setdefault(name, value)

    _old_options = {}  # what groups of older checkpoints lack

    def __repr__(self):
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # --- hooks -------------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) before every step; what it returns replaces the arguments."""
        return _hooked(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) after every step."""
        return _hooked(self._optimizer_step_post_hooks, hook)

    def _hook_at(self, table, hook, prepend):
        handle = _hooked(table, hook)
        if prepend:
            table.move_to_end(handle.id, last=False)
        return handle

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer) before state_dict."""
        return self._hook_at(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) after state_dict; what it returns replaces the dict."""
        return self._hook_at(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) before load_state_dict; what it returns replaces the dict."""
        return self._hook_at(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer) after load_state_dict."""
        return self._hook_at(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # --- groups ------------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients of all parameters, or makes them zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                    continue
                if p.grad.grad_fn is not None:
                    p.grad.detach_()
                else:
                    p.grad.requires_grad_(False)
                p.grad.zero_()

    def step(self, closure=None):
        """Moves the parameters once; closure computes the loss again where the method needs that."""
        raise NotImplementedError

    def add_param_group(self, param_group):
        """Adds parameters, with options of their own, to those that are optimized."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        else:
            param_group["params"] = list(params)
        self._take_names(param_group)
        for param in param_group["params"]:
            if not isinstance(param, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + _type_text(param))
            if not self.defaults.get("differentiable", None) and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        params = param_group["params"]
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an "
                "error; see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        known = set(chain.from_iterable(group["params"] for group in self.param_groups))
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _take_names(self, group):
        """(name, parameter) pairs become a list of parameters and one of names."""
        params = group["params"]
        if not params or not all(isinstance(p, tuple) for p in params):
            if any(isinstance(p, tuple) for p in params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            return
        for pair in params:
            if not isinstance(pair[1], Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + _type_text(pair[1]))
        group["param_names"] = [name for name, _ in params]
        group["params"] = [param for _, param in params]

    # --- state -------------------------------------------------------------------------------------------------------

    def state_dict(self):
        """The state and the options, with parameters as numbers in the order of the groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict):
        """Takes over what another optimizer's state_dict gave."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(mine["params"]) != len(theirs["params"]) for mine, theirs in zip(groups, saved)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        names = chain.from_iterable(group["params"] for group in saved)
        by_name = dict(zip(names, chain.from_iterable(group["params"] for group in groups)))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_name:
                state[by_name[key]] = _adapted(by_name[key], value)
            else:
                state[key] = value
        for mine, theirs in zip(groups, saved):
            theirs["params"] = mine["params"]
            if "param_names" in mine:
                theirs["param_names"] = mine["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)


def _type_text(x):
    return (
        getattr(type(x), "__module__", "") + "." + type(x).__name__
        if type(x).__module__ != "builtins"
        else type(x).__name__
    )


def _adapted(param, value, key=None):
    """Loaded state in the parameter's dtype; counters stay as they are."""
    if isinstance(value, Tensor):
        if key != "step" and param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value
    if isinstance(value, dict):
        return {k: _adapted(param, v, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_adapted(param, v) for v in value)
    return value


def loss_of(closure):
    """What the closure returns, computed with gradients."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def at_least_zero(**options):
    """Raises for an option that is negative: the name of each is the text of its error."""
    for name, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {name.replace('__', ' ')}: {value}")


def check_betas(betas):
    for i in range(2):
        if not 0.0 <= betas[i] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")


def no_differentiable(differentiable):
    if differentiable:
        raise NotImplementedError("differentiable=True: steps are on no tape; write the update with tensor operations")


def counter(at=0.0):
    """A number that is part of the state: a tensor, as checkpoints have it."""
    return _C.tensor(at, dtype=_C.float64 if _C.get_default_dtype() == _C.float64 else _C.float32)


class PerParameter(Optimizer):
    """An optimizer that says in `_update` what happens to one parameter, and in `_zeros` what it keeps of it: the
    names of tensors that begin at 0. Steps are counted, and weights decay, before `_update` sees a gradient."""

    _zeros = ()

    def _init_state(self, p, state, group):
        state["step"] = counter()
        for name in self._zeros:
            state[name] = _C.zeros_like(p).detach()

    @staticmethod
    def _decayed(p, grad, group):
        """The gradient with that of the weights' decay, which may instead shrink the weights themselves."""
        if group.get("weight_decay", 0) == 0:
            return grad
        if group.get("decoupled_weight_decay"):
            p.mul_(1 - number(group["lr"]) * group["weight_decay"])
            return grad
        return grad.add(p, alpha=group["weight_decay"])

    def step(self, closure=None):
        """Moves the parameters once."""
        loss = loss_of(closure)
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        self._init_state(p, state, group)
                    grad = -p.grad if group.get("maximize") else p.grad
                    if "step" in state:
                        state["step"] += 1
                    self._update(p, self._decayed(p, grad, group), state, group)
        return loss
