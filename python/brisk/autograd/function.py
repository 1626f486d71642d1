"""Custom functions: a forward and a backward of the user's own. The calls themselves are python/ext/bind_function.c."""

import functools
import inspect
import warnings

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.grad_mode import no_grad

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class FunctionCtx(_C._FunctionBase):
    """What a forward and its backward share: it belongs to one call."""

    def __reduce_ex__(self, protocol):
        raise TypeError(f"cannot pickle '{type(self).__name__}' object: it belongs to a tape")

    @property
    def saved_variables(self):
        """An old name of saved_tensors."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def maybe_clear_saved_tensors(self):
        """Saved tensors go with the tape."""

    def save_for_forward(self, *tensors):
        """Keeps tensors for jvp's saved_tensors."""
        self._saved_for_forward = tensors

    def mark_shared_storage(self, *pairs):
        """Of old programs: which tensors share memory is known."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. "
            "Note that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )


class BackwardCFunction(FunctionCtx):
    """The type of every ctx; that of a function F is FBackward."""


def _ctx_type(cls):
    names = {"_forward_cls": cls, "__module__": "torch.autograd.function"}
    return type(cls.__name__ + "Backward", (BackwardCFunction,), names)


def _both(ctx, *grads):
    raise RuntimeError(
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of "
        "them."
    )


class Function(FunctionCtx):
    """Subclass with static forward and backward; call with apply. As torch.autograd.Function.

    >>> class Square(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> y = Square.apply(x)
    """

    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._backward_cls = _ctx_type(cls)
        if isinstance(cls.apply, _C._Apply):  # bound once, unless the user has a method of that name
            cls.apply = cls.apply
        if cls.vjp is not Function.vjp:  # another name for backward
            cls.backward = staticmethod(cls.vjp if cls.backward is Function.backward else _both)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the outputs from the inputs. forward(ctx, *inputs), or forward(*inputs) beside a setup_context."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Saves what backward needs, for a forward that takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """The gradients of the inputs from those of the outputs: one for each input, None where there is none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The tangents of the outputs from those of the inputs. Without one, forward mode differentiates backward."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with "
                                  "forward mode AD.")  # fmt: skip

    @staticmethod
    def vmap(info, in_dims, *args):
        """(output, out_dims) of a batch: what torch.func.vmap calls. Without one, it calls forward for each example."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )


Function._backward_cls = _ctx_type(Function)


@functools.lru_cache(maxsize=256)
def _signature(forward):
    signature = inspect.signature(forward)
    plain = all(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in signature.parameters.values()
    )
    return signature, plain


def _by_position(cls, has_setup, args, kwargs):
    """All arguments by position: a gradient is returned for each. setup_context sees defaults too."""
    signature, plain = _signature(cls.forward)
    if plain and not kwargs and (not has_setup or len(args) == len(signature.parameters)):
        return args
    bound = signature.bind(*args, **kwargs) if has_setup else signature.bind(None, *args, **kwargs)
    if has_setup:
        bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(bound.kwargs))}'")
    return bound.args if has_setup else bound.args[1:]


def _with_tangents(ctx, args, outputs, materialize):
    """The outputs of a call with the tangents that the function's own jvp gives them; or the outputs as they are."""
    jvp = ctx._forward_cls.jvp
    if jvp is Function.jvp:
        return outputs
    from brisk.autograd.forward_ad import with_jvp

    return with_jvp(jvp, ctx, args, outputs, materialize)


_C._function_setup(Function.setup_context, _by_position, _with_tangents)


class InplaceFunction(Function):
    """A function that may work in place; the name is from old programs."""


class NestedIOFunction(Function):
    """The name is from old programs; inputs and outputs are tensors, not nested."""


class _Refused(Function):
    """Passes values through and refuses to be differentiated."""

    @staticmethod
    def forward(ctx, message, *values):
        ctx.message = message
        return tuple(v.detach() for v in values)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.message)


class _Undefined(Function):
    """Passes values through and sends no gradient back."""

    @staticmethod
    def forward(ctx, *values):
        return tuple(v.clone() for v in values) if len(values) > 1 else values[0].clone()

    @staticmethod
    def backward(ctx, *grads):
        return (None,) * len(grads)


def once_differentiable(backward):
    """Decorates a backward that is not to be differentiated itself: doing so raises an error."""

    @functools.wraps(backward)
    def wrapper(ctx, *grads):
        with no_grad():
            results = backward(ctx, *grads)
        if not _C.is_grad_enabled() or not any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return results
        results = results if isinstance(results, tuple) else (results,)
        at = [k for k, r in enumerate(results) if isinstance(r, Tensor) and r.dtype.is_floating_point]
        message = "trying to differentiate twice a function that was marked with @once_differentiable"
        refused = _Refused.apply(message, *(_C._as_leaf(results[k].detach()) for k in at))
        results = list(results)
        for k, r in zip(at, refused):
            results[k] = r
        return tuple(results)

    return wrapper
