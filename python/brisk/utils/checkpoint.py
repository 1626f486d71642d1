"""checkpoint: what a function saved for backward is thrown away, and computed again when backward comes to it.

In backward the function runs once more, with the random state it had, and gradients go on from there. With
use_reentrant=False it is taped the first time too, only to see where its tape ends: at its arguments and at what it
captured (the parameters of a module, say). That tape is dropped before anything is computed for it. With
use_reentrant=True it runs on no tape, and in backward runs a backward of its own, as PyTorch does.
"""

import contextlib
import warnings

from brisk import _C, autograd
from brisk._C import Tensor
from brisk.autograd import Function, backward
from brisk.autograd.grad_mode import enable_grad, no_grad
from brisk.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = [
    "checkpoint", "checkpoint_sequential", "check_backward_validity", "detach_variable", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "CheckpointError",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """Running the function again gave something else than the first time."""


def noop_context_fn():
    """(context of the forward, context of the recomputation) that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs):
    """The inputs with places of their own on the tape."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(_apart(x) for x in inputs)


def _apart(x):
    return _C._as_leaf(x.detach(), x.requires_grad) if isinstance(x, Tensor) else x


def check_backward_validity(inputs):
    """Warns when no input wants a gradient: a reentrant checkpoint then gives none to anything."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


@contextlib.contextmanager
def _random_state(state):
    """The given random state, and afterwards the one there was."""
    if state is None:
        yield
        return
    before = _C.get_rng_state()
    _C.set_rng_state(state)
    try:
        yield
    finally:
        _C.set_rng_state(before)


class CheckpointFunction(Function):
    @staticmethod
    def forward(ctx, run, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run = run
        ctx.state = _C.get_rng_state() if preserve_rng_state else None
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.tensors = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensors))
        with no_grad():
            return run(*args)

    @staticmethod
    def backward(ctx, *grads):
        if not autograd._accumulates():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.others)
        for i, t in zip(ctx.tensors, ctx.saved_tensors):
            args[i] = t
        args = detach_variable(tuple(args))
        with _random_state(ctx.state), enable_grad():
            outputs = ctx.run(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        ends = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and _C._on_tape(o) and g is not None]
        if not ends:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in ends], [g for _, g in ends])
        return (None, None, *(a.grad if isinstance(a, Tensor) else None for a in args))


class _Recomputed(Function):
    """The ends of the function's tape in, its outputs out."""

    @staticmethod
    def forward(ctx, again, outputs, *ends):
        ctx.again, ctx.ends = again, ends
        return outputs

    @staticmethod
    def backward(ctx, *grads):
        create = _C.is_grad_enabled()
        if ctx.again.saved[0]:
            _ = ctx.saved_tensors  # refuses a second time, as the functions inside would
        outputs = ctx.again()
        if len(outputs) != len(grads):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation. Number of outputs of the original forward: {len(grads)}; of the recomputation: "
                f"{len(outputs)}."
            )
        for k, (o, g) in enumerate(zip(outputs, grads)):
            if isinstance(o, Tensor) and g is not None and o.shape != g.shape:
                raise CheckpointError(
                    "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                    f"during the forward pass: output {k} had shape {g.shape}, now {o.shape}."
                )
        ctx.again.compare(outputs)
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and _C._on_tape(o) and g is not None]
        if not pairs:
            return (None, None) + (None,) * len(ctx.ends)
        outputs, grads = zip(*pairs)
        return (None, None, *_C._run_backward(outputs, grads, ctx.ends, create, create, False, True))


def _metadata(sizes, dtype):
    return f"{{'shape': torch.Size({list(sizes)}), 'dtype': torch.{dtype}, 'device': device(type='cpu')}}"


class _Again:
    """The second run of a function, and what it has to agree with."""

    def __init__(self, function, args, kwargs, state, context, count, at, saved):
        self.call = function, args, kwargs
        self.state, self.context = state, context
        self.count, self.at = count, at  # how many results there were, and which of them are on the tape
        self.saved, self.start = saved, 0

    def __call__(self):
        function, args, kwargs = self.call
        self.start = _C._tape_position()
        with _random_state(self.state), enable_grad(), self.context:
            found = tree_leaves(function(*args, **kwargs))
        return [found[k] for k in self.at] if len(found) == self.count else found

    def compare(self, outputs):
        """What the second run has for backward must begin with what the first one had."""
        before, metadata = self.saved
        now = _C._tape_saved([o for o in outputs if isinstance(o, Tensor) and _C._on_tape(o)], self.start)
        if len(now) < len(before):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(before)}\n"
                f"Number of tensors saved during recomputation: {len(now)}."
            )
        changed = [(k, old, new) for k, (old, new) in enumerate(zip(before, now)) if metadata and old != new]
        if changed:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                "during the forward pass.\n"
                + "".join(
                    f"tensor at position {k}:\nsaved metadata: {_metadata(*old)}\n"
                    f"recomputed metadata: {_metadata(*new)}\n"
                    for k, old, new in changed
                )
                + "."
            )


def _without_reentrance(function, preserve_rng_state, context_fn, determinism_check, args, kwargs):
    forward_context, again_context = context_fn()
    state = _C.get_rng_state() if preserve_rng_state else None
    start = _C._tape_position()
    with forward_context:
        result = function(*args, **kwargs)
    leaves, structure = tree_flatten(result)
    at = [k for k, t in enumerate(leaves) if isinstance(t, Tensor) and _C._on_tape(t)]
    if not at or not _C.is_grad_enabled():
        return result
    taped = [leaves[k] for k in at]
    saved = _C._tape_saved(taped, start), determinism_check != "none"
    ends = _C._tape_ends(taped, start)
    again = _Again(function, args, kwargs, state, again_context, len(leaves), at, saved)
    outputs = _Recomputed.apply(again, tuple(t.detach() for t in taped), *ends)
    for k, o in zip(at, outputs):
        leaves[k] = o
    return tree_unflatten(leaves, structure)


def checkpoint(
    function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check="default", debug=False,
    early_stop=True, **kwargs,
):  # fmt: skip
    """function(*args, **kwargs), its intermediate values computed again in backward instead of kept.

    preserve_rng_state (true unless told otherwise) gives the second run the random state of the first."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, "
            "calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but "
            "if you need to preserve the current default behavior, you can pass use_reentrant=True.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        if determinism_check not in ("default", "none"):
            raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
        return _without_reentrance(function, preserve, context_fn, determinism_check, args, kwargs)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """A chain of functions (or the layers of a Sequential) in segments; only what goes between segments is kept."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def run(first, last):
        def segment(x):
            for f in functions[first:last]:
                x = f(x)
            return x

        return segment

    size, last = len(functions) // segments, 0
    for first in range(0, size * (segments - 1), size):
        last = first + size
        input = checkpoint(run(first, last), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(last, len(functions))(input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable):
    """Accepted: what the recomputation does not need is not computed in any case."""
    yield


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    """Accepted, and changes nothing."""
    yield
