"""The call of a module that has hooks: around forward, and around the gradients that pass it."""

import warnings
from functools import partial

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.function import Function


class BackwardHookFunction(Function):
    """The identity on several tensors at once, whose gradients a function sees together."""

    @staticmethod
    def forward(ctx, see, *tensors):
        ctx.see = see
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return (None, *ctx.see(grads))


class BackwardHooks:
    """Calls a module's backward hooks: those before with the gradients of the outputs, the others with both."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs = None
        self.input_places, self.inputs = [], 0

    def __bool__(self):
        return bool(self.hooks or self.pre_hooks)

    def _pass(self, values, see):
        """values with the tensors among them led through a passage, and the tensors' places."""
        places = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.dtype.is_floating_point]
        if not any(_C._on_tape(values[i]) for i in places):
            return values, []
        passed = BackwardHookFunction.apply(see, *(values[i] for i in places))
        values = list(values)
        for i, v in zip(places, passed):
            values[i] = v
        return tuple(values), places

    def around_inputs(self, args):
        self.inputs = len(args)
        args, self.input_places = self._pass(args, self._inputs_done)
        return args

    def around_output(self, result):
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors"
                f" but received {type(result)}",
                stacklevel=4,
            )
            return result
        single = isinstance(result, Tensor)
        outputs = (result,) if single else result
        passed, self.output_places = self._pass(outputs, self._outputs_done)
        self.outputs = len(outputs)
        return passed[0] if single else passed

    def _outputs_done(self, grads):
        full = [None] * self.outputs
        for i, g in zip(self.output_places, grads):
            full[i] = g
        for hook in self.pre_hooks:
            replaced = hook(self.module, tuple(full))
            if replaced is not None:
                full = list(replaced) if isinstance(replaced, tuple) else [replaced]
        self.grad_outputs = tuple(full)
        if not self.input_places:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                "inputs require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.register_full_backward_hook for more details.",
                stacklevel=5,
            )
            self._run(tuple([None] * self.inputs))
        return [full[i] for i in self.output_places]

    def _inputs_done(self, grads):
        full = [None] * self.inputs
        for i, g in zip(self.input_places, grads):
            full[i] = g
        full = self._run(tuple(full))
        return [full[i] for i in self.input_places]

    def _run(self, grad_inputs):
        for hook in self.hooks:
            replaced = hook(self.module, grad_inputs, self.grad_outputs)
            if replaced is not None:
                replaced = replaced if isinstance(replaced, tuple) else (replaced,)
                if len(replaced) != len(grad_inputs):
                    raise RuntimeError(
                        f"Backward hook returned an invalid number of grad_input, got {len(replaced)}, "
                        f"but expected {len(grad_inputs)}"
                    )
                grad_inputs = replaced
        return grad_inputs


def _first_tensor(result):
    while not isinstance(result, Tensor):
        result = next(v for v in result.values() if isinstance(v, Tensor)) if isinstance(result, dict) else result[0]
    return result


def hook_function(module, hooks, result):
    """The older backward hooks: around the one function that made the (first) result, whatever else forward did."""
    function = _first_tensor(result).grad_fn
    for hook in hooks if function is not None else ():
        function.register_hook(partial(hook, module))


def _before(module, hooks, with_kwargs, args, kwargs):
    for key, hook in hooks.items():
        if key in with_kwargs:
            result = hook(module, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                args, kwargs = result
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def call_with_hooks(module, args, kwargs, pre_hooks, hooks, with_kwargs, always_called, backward, older=()):
    """module.forward with everything that was to happen before and after."""
    result, called = None, set()

    def after(key, hook):
        nonlocal result
        called.add(key)
        given = hook(module, args, kwargs, result) if key in with_kwargs else hook(module, args, result)
        if given is not None:
            result = given

    try:
        args, kwargs = _before(module, pre_hooks, module._forward_pre_hooks_with_kwargs, args, kwargs)
        if backward:
            args = backward.around_inputs(args)
        result = module.forward(*args, **kwargs)
        for key, hook in hooks.items():
            after(key, hook)
        result = backward.around_output(result) if backward else result
        if older:
            hook_function(module, older, result)
        return result
    except Exception:
        for key, hook in hooks.items():
            if key in always_called and key not in called:
                try:
                    after(key, hook)
                except Exception as error:
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception "
                        f"that was silenced as another error was raised in forward: {error}",
                        stacklevel=2,
                    )
        raise
