"""Modules that learn the sizes of their parameters from their first input."""

from brisk.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Comes before the class of the module; initialize_parameters(input) is called before the first forward, and the
    module then becomes an ordinary one of cls_to_become."""

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing, unexpected, errors):
        for name, param in (*self._parameters.items(), *self._buffers.items()):
            if is_lazy(param) and prefix + name in state_dict:
                param.materialize(state_dict[prefix + name].shape)

    def has_uninitialized_params(self):
        """Whether some sizes are not known yet."""
        return any(is_lazy(p) for p in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
