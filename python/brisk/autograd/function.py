"""Custom functions: a forward and a backward of the user's own."""

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.grad_mode import no_grad, set_grad_enabled


class FunctionCtx:
    """What a custom function keeps between its forward and its backward."""

    def __init__(self):
        self._saved = ()
        self._non_differentiable = ()
        self._dirty = ()
        self._materialize = True
        self.needs_input_grad = ()

    def save_for_backward(self, *tensors):
        self._saved = tensors

    @property
    def saved_tensors(self):
        if self._saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Specify retain_graph=True if you need to backward through the graph twice."
            )
        return tuple(self._saved)

    def mark_non_differentiable(self, *tensors):
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors):
        self._dirty = tensors

    def set_materialize_grads(self, value):
        self._materialize = value


class Function(FunctionCtx):
    """Subclass with static forward and backward; call with apply. As torch.autograd.Function."""

    @staticmethod
    def forward(ctx, *args):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function."
        )

    @classmethod
    def apply(cls, *args):
        ctx = cls()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        with no_grad():
            if "setup_context" in cls.__dict__ or cls.setup_context is not Function.setup_context:
                out = cls.forward(*args)
                cls.setup_context(ctx, args, out)
            else:
                out = cls.forward(ctx, *args)
        return ctx._record(args, out)

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError

    def _record(self, args, out):
        single = not isinstance(out, tuple)
        outputs = (out,) if single else out
        self._inputs = len(args)
        self._tensors = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        if not _C.is_grad_enabled() or not any(self.needs_input_grad):
            return out
        taped = [
            i
            for i, o in enumerate(outputs)
            if isinstance(o, Tensor) and o.dtype.is_floating_point and not any(o is n for n in self._non_differentiable)
        ]
        self._outputs = len(outputs)
        self._taped = taped
        self._shapes = [(outputs[i].shape, outputs[i].dtype) for i in taped]
        placed = _C._function_apply(self, [args[i] for i in self._tensors], [outputs[i] for i in taped])
        result = list(outputs)
        for i, o in zip(taped, placed):
            result[i] = o
        return result[0] if single else tuple(result)

    def _run_backward(self, grads):
        """Called by the reverse pass: the gradients of the taped outputs in, those of the tensor inputs out."""
        full = [None] * self._outputs
        for i, g in zip(self._taped, grads):
            full[i] = g
        if self._materialize:
            for i, (shape, dtype) in zip(self._taped, self._shapes):
                if full[i] is None:
                    full[i] = _C.zeros(shape, dtype=dtype)
        result = type(self).backward(self, *full)
        result = result if isinstance(result, tuple) else (result,)
        if len(result) < self._inputs or any(g is not None for g in result[self._inputs :]):
            raise RuntimeError(
                f"function {type(self).__name__}Backward returned an incorrect number of gradients "
                f"(expected {self._inputs}, got {len(result)})"
            )
        return tuple(result[i] for i in self._tensors)


def once_differentiable(backward):
    """Decorates a backward that is not to be differentiated itself."""

    def wrapper(ctx, *grads):
        with set_grad_enabled(False):
            return backward(ctx, *grads)

    return wrapper
