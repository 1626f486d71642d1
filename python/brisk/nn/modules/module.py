"""Module: what networks are made of. It owns parameters, buffers and other modules, and is called like a function.

The base in C (python/ext/module_object.c) does what happens often: calls without hooks, and finding self.weight in the
tables of the module. The tables are plain dictionaries in __dict__ under PyTorch's names, since programs use them.
"""

import copy
import itertools
import warnings
import weakref
from collections import OrderedDict, namedtuple

from brisk import _C
from brisk._C import ModuleBase, Tensor
from brisk.autograd.grad_mode import no_grad
from brisk.autograd.hooks import RemovableHandle
from brisk.nn.modules._hooks import BackwardHooks, call_with_hooks
from brisk.nn.parameter import Buffer, Parameter, is_lazy

__all__ = ["Module"]

_EXTRA_STATE = "_extra_state"

# Hooks of all modules: the tables in the order of call_with_hooks' arguments.
_global_forward_hooks = OrderedDict()
_global_forward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None  # of the kind that was registered first
_global_backward_pre_hooks = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_registration_hooks = {"parameter": OrderedDict(), "buffer": OrderedDict(), "module": OrderedDict()}

_TABLES = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def typename(x):
    """The name of a type as PyTorch's messages give it."""
    if isinstance(x, Tensor):
        return x.type()
    module = type(x).__module__
    return type(x).__qualname__ if module in ("builtins", None) else f"{module}.{type(x).__qualname__}"


def _registered(kind, module, name, value):
    for hook in _global_registration_hooks[kind].values():
        replacement = hook(module, name, value)
        if replacement is not None:
            value = replacement
    return value


def _hooked(hooks, hook, *marks, prepend=False, extra=()):
    """Puts a hook into its table, and its id into the other tables that say how it is called."""
    handle = RemovableHandle(hooks, extra)
    hooks[handle.id] = hook
    for table in marks:
        table[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _indented(text, by):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * by + line for line in rest)]) if rest else text


class Module(ModuleBase):
    """The base of all networks: assign parameters and modules to self in __init__, and write forward."""

    dump_patches = False
    training: bool
    call_super_init = False
    _version = 1
    _is_hf_initialized = False

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        if not self.call_super_init and args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for table in _TABLES:
            own[table] = OrderedDict()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input):
        """What a call computes: to be written by every subclass."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _call_impl(self, *args, **kwargs):
        return self(*args, **kwargs)

    # --- what a module owns ------------------------------------------------------------------------------------------

    def _check_name(self, kind, name, known):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if kind != "module" and "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if hasattr(self, name) and name not in known:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(
                f'module name can\'t contain ".", got: {name}'
                if kind == "module"
                else f'{kind} name can\'t contain "."'
            )
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_parameter(self, name, param):
        """Adds a parameter, or None to keep its place."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param is not None and not is_lazy(param) and not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                "To express "
                f"'{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        self._parameters[name] = param if param is None else _registered("parameter", self, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but no parameter; one that is not persistent stays out of state_dict."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = _registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name, module):
        """Adds a submodule, or None to keep its place."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = _registered("module", self, name, module)

    def register_module(self, name, module):
        """As add_module."""
        self.add_module(name, module)

    def __setstate__(self, state):
        self.__dict__.update(state)
        for table in _TABLES:  # a pickle from before a table existed
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def __getstate__(self):
        return self.__dict__.copy()

    def __dir__(self):
        own = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in own if not name[0].isdigit())

    def _walk(self, target, what):
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def get_submodule(self, target):
        """The module at a dotted path."""
        return self._walk(target, "module")

    def set_submodule(self, target, module, strict=False):
        """Puts a module at a dotted path."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        param = getattr(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(module, name)

    def get_extra_state(self):
        """What state_dict keeps beside tensors, where a subclass says so."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    def set_extra_state(self, state):
        """Takes back what get_extra_state gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. "
            "Please file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml "
            "to report this bug."
        )

    # --- iteration ---------------------------------------------------------------------------------------------------

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield (path + "." + name if path else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Names and parameters, of submodules too; a shared one once."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """The parameters, of submodules too."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Names and buffers, of submodules too."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """The buffers, of submodules too."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self):
        """Names and modules of the first level; a shared one once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """The modules of the first level."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Names and modules of all levels, this one first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self):
        """The modules of all levels, this one first."""
        for _, module in self.named_modules():
            yield module

    # --- changes to all of it ----------------------------------------------------------------------------------------

    def apply(self, fn):
        """Calls fn with every module, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode=True):
        """Sets training on this module and all below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """train(False)"""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Says whether the parameters take gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drops the gradients of all parameters, or sets them to zero."""
        for p in self.parameters():
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
            else:
                p.grad = p.grad.detach()
                p.grad.zero_()

    def share_memory(self):
        """Parameters and buffers move into memory that processes forked from now on have in common with this one."""
        for tensor in (*self.parameters(), *self.buffers()):
            tensor.share_memory_()
        return self

    def _apply(self, fn, recurse=True):
        """Replaces the data of every parameter and buffer by fn of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                param.data = fn(param.data) if not is_lazy(param) else param.data
                if param.grad is not None:
                    grad = fn(param.grad.data)
                    param.grad = None
                    param.grad = grad.requires_grad_(False)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves floating-point parameters and buffers to another dtype; to(device) accepts the CPU."""
        probe = _C.empty(0).to(*args, **kwargs)  # checks the arguments as tensors do
        named = [a for a in (*args, *kwargs.values()) if isinstance(a, (_C.dtype, Tensor))]
        if not named:
            return self
        if not probe.dtype.is_floating_point:
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={probe.dtype}"
            )
        return self._apply(lambda t: t.to(probe.dtype) if t.is_floating_point() else t)

    def to_empty(self, *, device=None, recurse=True):
        """The same module, its parameters and buffers in memory whose contents do not matter."""
        return self._apply(lambda t: _C.empty_like(t), recurse=recurse)

    def cpu(self):
        """Nothing to do: everything is on the CPU."""
        return self

    def cuda(self, device=None):
        """There is no other device: raises what a tensor's cuda() raises."""
        return self._apply(lambda t: t.cuda(device))

    def type(self, dst_type):
        """Casts all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast_floats(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self):
        """float32 parameters and buffers."""
        return self._cast_floats(_C.float32)

    def double(self):
        """float64 parameters and buffers."""
        return self._cast_floats(_C.float64)

    def half(self):
        """float16 parameters and buffers."""
        return self._cast_floats(_C.float16)

    def bfloat16(self):
        """bfloat16 parameters and buffers."""
        return self._cast_floats(_C.bfloat16)

    def compile(self, *args, **kwargs):
        """Nothing to do: evaluation is planned anyway."""

    # --- hooks -------------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; what it returns replaces the arguments."""
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        extra = (self._forward_pre_hooks_with_kwargs,)
        return _hooked(self._forward_pre_hooks, hook, *marks, prepend=prepend, extra=extra)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; what it returns replaces the output."""
        marks = [self._forward_hooks_with_kwargs] if with_kwargs else []
        marks += [self._forward_hooks_always_called] if always_call else []
        extra = (self._forward_hooks_with_kwargs, self._forward_hooks_always_called)
        return _hooked(self._forward_hooks, hook, *marks, prepend=prepend, extra=extra)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) before the gradients of the inputs are computed."""
        return _hooked(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) when the gradients of the inputs are there."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = True
        return _hooked(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook):
        """hook(module, grad_input, grad_output) around the function that made the output: the older form."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = False
        return _hooked(self._backward_hooks, hook)

    # --- state -------------------------------------------------------------------------------------------------------

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata) after state_dict()."""
        hook._from_public_api = True
        return _hooked(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return _hooked(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) before state_dict()."""
        return _hooked(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        own = weakref.ref(self)
        bound = (lambda *args: hook(own(), *args)) if with_module else hook
        return _hooked(self._load_state_dict_pre_hooks, bound)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) after loading."""
        return _hooked(self._load_state_dict_post_hooks, hook)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by their dotted names."""
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination, prefix, keep_vars = (*args, *(destination, prefix, keep_vars)[len(args) :])
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if result is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif result is not None:
                destination = result
        return destination

    def _load_member(self, name, value, key, given, assign, error_msgs):
        """One parameter or buffer takes what the state dict holds for it."""
        if not isinstance(given, Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                f"checkpoint but received {type(given)}"
            )
            return
        if not is_lazy(value):
            if value.dim() == 0 and tuple(given.shape) == (1,):
                given = given[0]  # scalars were saved as one element once
            if given.shape != value.shape:
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                    f"the shape in current model is {value.shape}."
                )
                return
        try:
            with no_grad():
                if not assign:
                    value.copy_(given)
                    return
            if isinstance(value, Parameter):
                if isinstance(given, Parameter):
                    given.requires_grad_(value.requires_grad)
                else:
                    given = Parameter(given, requires_grad=value.requires_grad)
            setattr(self, name, given)
        except Exception as error:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are {value.size()} and '
                f"whose dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}."
            )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Loads this module's own members; subclasses override it to understand older files."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        buffers = (item for item in self._buffers.items() if item[0] not in self._non_persistent_buffers_set)
        own = {name: v for name, v in itertools.chain(self._parameters.items(), buffers) if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, value in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_member(name, value, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        for key in state_dict if strict else ():
            if key.startswith(prefix) and key != extra_key:
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (self._modules if dot else own):
                    unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Takes what state_dict gave: every name must be there, and no other, unless strict is False."""
        if not hasattr(state_dict, "keys") or not hasattr(state_dict, "__getitem__"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, part, prefix):
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(part, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    load(child, {k: v for k, v in part.items() if k.startswith(below)}, below)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError("a hook after load_state_dict changes the keys in place and returns None")

        load(self, state_dict, "")
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    errors.insert(0, f"{what} key(s) in state_dict: " + ", ".join(f'"{k}"' for k in keys) + ". ")
        if errors:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors))
        return _IncompatibleKeys(missing, unexpected)

    # --- text --------------------------------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What stands between the parentheses of the module's text."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + _indented(repr(module), 2) for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def _replicate_for_data_parallel(self):
        replica = copy.copy(self)
        replica._is_replica = True
        return replica


def _drop(module, name, *tables):
    for table in tables:
        if isinstance(table, dict):
            table.pop(name, None)
        else:
            table.discard(name)


def _assign_member(module, name, *value):
    """Sets (or without a value deletes) an attribute that is, or becomes, a parameter, buffer or submodule."""
    own = module.__dict__
    params, buffers, modules = own.get("_parameters"), own.get("_buffers"), own.get("_modules")
    if not value:
        if name in buffers:
            module._non_persistent_buffers_set.discard(name)
        for table in (params, buffers, modules):
            if name in table:
                del table[name]
                return
    value = value[0]
    if isinstance(value, Parameter):
        if params is None:
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        _drop(module, name, own, buffers, modules, module._non_persistent_buffers_set)
        module.register_parameter(name, value)
    elif params is not None and name in params:
        if value is not None:
            raise TypeError(
                f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
            )
        module.register_parameter(name, value)
    elif isinstance(value, Module):
        if modules is None:
            raise AttributeError("cannot assign module before Module.__init__() call")
        _drop(module, name, own, params, buffers, module._non_persistent_buffers_set)
        modules[name] = _registered("module", module, name, value)
    elif modules is not None and name in modules:
        if value is not None:
            raise TypeError(
                f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
            )
        modules[name] = _registered("module", module, name, value)
    else:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        persistent = value.persistent if isinstance(value, Buffer) else name not in module._non_persistent_buffers_set
        if persistent:
            module.register_buffer(name, value)
        else:
            module.register_buffer(name, value, persistent)


def _register_global(table, hook, *extra, always_call=False, with_kwargs=False):
    marks = [t for t, wanted in zip(extra, (with_kwargs, always_call)) if wanted]
    return _hooked(table, hook, *marks, extra=extra)


def register_module_forward_pre_hook(hook):
    """A forward pre-hook of all modules."""
    return _register_global(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """A forward hook of all modules."""
    extra = (_global_forward_hooks_with_kwargs, _global_forward_hooks_always_called)
    return _register_global(_global_forward_hooks, hook, *extra, with_kwargs=with_kwargs, always_call=always_call)


def register_module_full_backward_pre_hook(hook):
    """A backward pre-hook of all modules."""
    return _register_global(_global_backward_pre_hooks, hook)


def _register_backward(hook, full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module hook. "
            "Please use only one of them."
        )
    _global_is_full_backward_hook = full
    return _register_global(_global_backward_hooks, hook)


def register_module_full_backward_hook(hook):
    """A backward hook of all modules."""
    return _register_backward(hook, True)


def register_module_backward_hook(hook):
    """The older form of a backward hook of all modules (Module.register_backward_hook)."""
    return _register_backward(hook, False)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) whenever a parameter is registered."""
    return _register_global(_global_registration_hooks["parameter"], hook)


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) whenever a buffer is registered."""
    return _register_global(_global_registration_hooks["buffer"], hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) whenever a submodule is registered."""
    return _register_global(_global_registration_hooks["module"], hook)


def _backward_hooks_of(module):
    """Those in the full form and those in the older one, the hooks of all modules first."""
    full, older = [], []
    for hooks, is_full in (
        (_global_backward_hooks, _global_is_full_backward_hook),
        (module._backward_hooks, module._is_full_backward_hook),
    ):
        (older if is_full is False else full).extend(hooks.values())
    return full, older


def _call_with_hooks(module, *args, **kwargs):
    full, older = _backward_hooks_of(module)
    return call_with_hooks(
        module, args, kwargs,
        {**_global_forward_pre_hooks, **module._forward_pre_hooks},
        {**_global_forward_hooks, **module._forward_hooks},
        {**_global_forward_hooks_with_kwargs, **module._forward_hooks_with_kwargs},
        {**_global_forward_hooks_always_called, **module._forward_hooks_always_called},
        BackwardHooks(
            module,
            full,
            [*_global_backward_pre_hooks.values(), *module._backward_pre_hooks.values()],
        ),
        older,
    )  # fmt: skip


ModuleBase._module_setup(
    Parameter, _assign_member, _call_with_hooks,
    (_global_forward_hooks, _global_forward_pre_hooks, _global_backward_hooks, _global_backward_pre_hooks),
)  # fmt: skip
