"""checkpoint: what a function saved for backward is thrown away, and computed again when backward comes to it.

With use_reentrant=False the function's tape is as it would be without a checkpoint, but for the values that its
gradients read: these have numbers. When a backward asks for the first of them, the function runs once more, with the
random state it had, until it has saved as many again (python/ext/bind_checkpoint.c). With use_reentrant=True it runs on
no tape, and in backward runs once more and then a backward of its own. Both as in PyTorch.
"""

import contextlib
import traceback
import warnings

from brisk import _C, autograd
from brisk._C import Tensor
from brisk.autograd import Function, backward
from brisk.autograd.grad_mode import enable_grad, no_grad
from brisk.utils._pytree import tree_leaves

__all__ = [
    "checkpoint", "checkpoint_sequential", "check_backward_validity", "detach_variable", "noop_context_fn",
    "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "CheckpointError",
]  # fmt: skip


_StopRecomputationError = _C._StopRecomputationError  # ends a second run that has saved all that is needed


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


class _Inputs(Function):
    """Keeps the tensors that a function was given as functions keep what they save: a checkpoint around has them."""

    @staticmethod
    def forward(ctx, always, *tensors):
        ctx.save_for_backward(*tensors)
        return always.detach()

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("nothing leads here")


_always = None  # requires gradients, so that _Inputs is on the tape whatever else it is given


def _keep(tensors):
    global _always
    if _always is None:
        _always = _C._as_leaf(_C.zeros(0), True)
    return _Inputs.apply(_always, *tensors)


_TIP = """
Tip: To see a more detailed error message, either pass `debug=True` to
`torch.utils.checkpoint.checkpoint(...)` or wrap the code block
with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to
enable checkpoint\u2011debug mode globally.
"""

_LOGS = """ \
An error happened while unpacking tensors; dumping logs of latest computation
because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.

1. Stack traces of the operators that ran in the original forward

{forward_traces}
2. Stack traces of the operators that ran during recomputation

{recompute_traces}
3. Log of operators in the original forward and recomputation

Operations executed during the original forward:

{forward_ops}

Operations executed during recomputation:

{recompute_ops}

ERROR: Detected non-determinism while running activation checkpointing

You are seeing this error because you passed `debug=True` to checkpoint and
tensors to be saved during the original forward and differ between those saved
during recomputation. This can happen if different operators were ran in the
original forward and in the recomputation.
"""


class _Log:
    """What a run has recorded, and from where."""

    def __init__(self):
        self.ops, self.traces = [], []

    def add(self, name, form):
        sizes, dtype = form
        self.ops.append(f"{name}: {str(dtype).removeprefix('torch.')}{list(sizes)}")
        here = [f for f in traceback.extract_stack() if f.filename != __file__]
        self.traces.append("".join(f"{f.filename}:{f.lineno}:{f.name}\n" for f in reversed(here)))

    def traced(self, label):
        pairs = enumerate(zip(self.ops, self.traces), 1)
        return "".join(f"{op}   ({i} of {len(self.ops)} in {label})\n\n{trace}\n\n" for i, (op, trace) in pairs)


def _metadata(form):
    sizes, dtype = form
    return f"{{'shape': torch.Size({list(sizes)}), 'dtype': {dtype}, 'device': device(type='cpu')}}"


class _Again:
    """How a function is run again, and what is said when it then saves something else."""

    def __init__(self, function, args, kwargs, state, context, check, debug):
        self.function, self.kwargs = function, kwargs
        self.state, self.context, self.check = state, context, check
        self.at = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        self.args = [None if isinstance(a, Tensor) else a for a in args]
        self.inputs = _keep([args[k] for k in self.at]) if self.at else None
        self.logs = (_Log(), _Log()) if debug else None

    def run(self):
        args = list(self.args)
        for k, t in zip(self.at, self.inputs.grad_fn.saved_tensors if self.at else ()):
            args[k] = t
        if self.logs:
            self.logs = self.logs[0], _Log()
        with enable_grad(), _random_state(self.state), self.context:
            _C._save_new(_tensors(self.function(*args, **self.kwargs)))

    def note(self, again, name, form):
        self.logs[again].add(name, form)

    def _refuse(self, text):
        error = CheckpointError(f"torch.utils.checkpoint: {text}")
        if not self.logs:
            raise error
        first, second = self.logs
        logs = _LOGS.format(
            forward_traces=first.traced("original"), recompute_traces=second.traced("recompute"),
            forward_ops="\n".join(first.ops), recompute_ops="\n".join(second.ops),
        )  # fmt: skip
        raise CheckpointError(logs) from error

    def refuse_more(self):
        self._refuse(f"trying to save more tensors during recomputation than during the original forward pass.\n{_TIP}")

    def refuse_number(self, before, now):
        self._refuse(
            "A different number of tensors was saved during the original forward and recomputation.\n"
            f"Number of tensors saved during forward: {before}\n"
            f"Number of tensors saved during recomputation: {now}.\n{_TIP}"
        )

    def refuse_forms(self, changed):
        if self.check == "none":
            return
        tensors = "".join(
            f"tensor at position {k}:\nsaved metadata: {_metadata(old)}\nrecomputed metadata: {_metadata(new)}\n"
            for k, old, new in changed
        )
        self._refuse(
            "Recomputed values for the following tensors have different metadata than during the forward pass.\n"
            f"{tensors}.\n{_TIP}"
        )

    def refuse_twice(self):
        self._refuse(
            "Unpack is being triggered for a tensor that was already unpacked once. If you are calling "
            "ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an issue with details "
            "on your use case."
        )


def _tensors(result):
    return [t for t in tree_leaves(result) if isinstance(t, Tensor)]


_early_stop = _debug = None  # what overrides the arguments of checkpoint


def _without_reentrance(function, preserve_rng_state, context_fn, check, debug, early_stop, args, kwargs):
    debug = debug if _debug is None else _debug
    if debug and context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    if check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {check}")
    forward_context, again_context = context_fn()
    if not _C.is_grad_enabled():
        return function(*args, **kwargs)
    state = _C.get_rng_state() if preserve_rng_state else None
    again = _Again(function, args, kwargs, state, again_context, check, debug)
    frame = _C._checkpoint_frame(again, early_stop if _early_stop is None else _early_stop, bool(debug))
    before, returned = _C._swap_saver(frame), False
    try:
        with forward_context:
            result = function(*args, **kwargs)
            _C._save_new(_tensors(result))
            returned = True
    finally:
        _C._swap_saver(before)
    if not returned:
        raise RuntimeError(
            "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during "
            "the checkpointed forward. This is not supported because checkpoint cannot return a value for a failed "
            "forward."
        )
    _C._checkpoint_done(frame)
    return result


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
        return _without_reentrance(function, preserve, context_fn, determinism_check, debug, early_stop, args, kwargs)
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
    """Whether checkpoints made here end their second run when all that is needed was computed, whatever they say."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled):
    """Whether errors of checkpoints made here tell what was recorded, whatever their `debug` says; None: as it says."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before
