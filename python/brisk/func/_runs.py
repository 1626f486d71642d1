"""The runs of a mapped function, one for each example, and the custom functions that they call.

A custom function with a vmap of its own is to see all examples at once. A call of it ends the run of its example until
all examples have come there; then its vmap is called with the batch, and the runs begin anew, with the answer at hand.
So a mapped function that calls k such functions is run k + 1 times for each example.
"""

import contextlib
import threading
from typing import NamedTuple

from brisk import _C
from brisk._C import Tensor
from brisk.autograd.functional import stacked
from brisk.autograd.grad_mode import enable_grad
from brisk.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_spec, tree_unflatten


class VmapInfo(NamedTuple):
    """What a custom function's vmap is told."""

    batch_size: int
    randomness: str


class Unlike(Exception):
    """Dimensions are given for another structure."""


def spread(dims, tree):
    """The dimension for each leaf: a number or None stands for all leaves below it."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tree_leaves(tree))
    matches = (
        isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys()
        if isinstance(dims, dict)
        else isinstance(dims, (tuple, list)) and type(dims) is type(tree) and len(dims) == len(tree)
    )
    if not matches:
        raise Unlike
    pairs = [(dims[k], tree[k]) for k in tree] if isinstance(tree, dict) else zip(dims, tree)
    return [d for dim, child in pairs for d in spread(dim, child)]


# --- the transforms under way ----------------------------------------------------------------------------------------

_here = threading.local()  # .transforms: the Runs of this thread, the innermost last; None: a derivative inside of some


def _transforms():
    if not hasattr(_here, "transforms"):
        _here.transforms = []
    return _here.transforms


class derivative(enable_grad):
    """Around a function that is differentiated: inside of a mapped one, custom functions ask for it."""

    def __enter__(self):
        super().__enter__()
        self.stack = _transforms()
        self.inside = bool(self.stack)
        if self.inside:
            self.stack.append(None)

    def __exit__(self, *exception):
        if self.inside:
            self.stack.pop()
        return super().__exit__(*exception)


def inside(func, *args, **kwargs):
    """What func returns to a transform, where it may not ask for gradients itself."""
    _C._in_transform(1)
    try:
        return func(*args, **kwargs)
    finally:
        _C._in_transform(-1)


@contextlib.contextmanager
def _outside(runs):
    """The body is called by what is around the runs."""
    stack = _transforms()
    at = stack.index(runs)
    inner = stack[at:]
    del stack[at:]
    try:
        yield
    finally:
        stack.extend(inner)


# --- custom functions ------------------------------------------------------------------------------------------------


class _Wait(BaseException):
    """An example has come to a custom function with a vmap. No Exception: those the mapped function may handle."""

    def __init__(self, runs, function, arguments, derived):
        self.runs, self.function, self.arguments, self.derived = runs, function, arguments, derived


def custom_call(function, arguments):
    """The answer of a custom function, where a mapped one calls it; NotImplemented: it is called as anywhere else."""
    from brisk.autograd.function import Function

    stack = _transforms()
    runs = next((t for t in reversed(stack) if t is not None), None)
    if runs is None or function.vmap is Function.vmap:
        return NotImplemented
    if function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overridden "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
            "avoid ambiguity. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    derived = stack[-1] is None
    if derived and function.setup_context is Function.setup_context:
        return NotImplemented  # its backward reads what its own forward has saved
    answer = runs.answer_to(function, arguments, derived)
    if not derived:
        return answer
    with _outside(runs):
        return _with_backward(function, answer, arguments)


def _off_the_tape(tree):
    return tree_map(lambda t: t.detach() if isinstance(t, Tensor) else t, tree)


def _with_backward(function, answer, arguments):
    """The answer as what function gave, on the tape of the derivative around it."""
    values = _off_the_tape(answer)
    return type(function.__name__, (function,), {"forward": staticmethod(lambda *_: values)}).apply(*arguments)


def _alike(some, others):
    """Whether two examples call with the same, but for the values of tensors."""
    leaves, structure = tree_flatten(some)
    other_leaves, other_structure = tree_flatten(others)

    def same(a, b):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return a.shape == b.shape and a.dtype == b.dtype
        return a is b or (type(a) is type(b) and a == b)

    return structure == other_structure and all(map(same, leaves, other_leaves))


def _parted(result, count):
    """What each example gets of a vmap's (output, out_dims)."""
    expected = (
        "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible "
        "with the output. "
    )
    if not isinstance(result, tuple):
        raise RuntimeError(f"{expected}Got a {type(result)} instead")
    if len(result) != 2:
        raise RuntimeError(f"{expected}Got {len(result)} returns instead")
    output, out_dims = result
    leaves, structure = tree_flatten(output)
    try:
        dims = spread(out_dims, output)
    except Unlike:
        raise RuntimeError(f"{expected}Got out_dims of structure {tree_spec(out_dims)} for {structure}") from None
    columns = [[t] * count if d is None else t.unbind(d) for t, d in zip(leaves, dims)]
    return [tree_unflatten([c[i] for c in columns], structure) for i in range(count)]


# --- random numbers --------------------------------------------------------------------------------------------------


class _Numbers:
    """The random numbers that runs draw: those of one run of all examples side by side, from answer to answer.

    A run goes through segments, one to each answer. states has the generator's state at the start of each that was
    begun: a list for all examples where they draw the same numbers, else one for each."""

    def __init__(self, randomness, size):
        self.randomness = randomness
        self.now = _C.get_rng_state()
        self.states = [[]] * size if randomness == "same" else [[] for _ in range(size)]

    def begin(self, example, segment):
        states = self.states[example]
        if self.randomness == "error":
            return
        if segment < len(states):
            _C.set_rng_state(states[segment])
        else:
            if segment:
                _C.set_rng_state(self.now)
            states.append(self.now)

    def end(self, waits):
        """Of a run; waits: it, or one before it, will go on."""
        if self.randomness == "error":
            if not _C.equal(self.now, _C.get_rng_state()):
                _C.set_rng_state(self.now)
                raise RuntimeError(
                    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
                )
        elif waits or self.randomness == "different":
            self.answered()

    def answered(self):
        self.now = _C.get_rng_state()


# --- the runs --------------------------------------------------------------------------------------------------------


class Runs:
    """The runs of one call of a mapped function; answers[i] are those of custom functions to example i so far."""

    def __init__(self, leaves, dims, size, randomness):
        self.leaves, self.dims, self.randomness = leaves, dims, randomness
        self.columns = [x if d is None else x.unbind(d) for x, d in zip(leaves, dims)]
        self.answers = [[] for _ in range(size)]
        self.numbers = _Numbers(randomness, size)

    def results(self, func, structure, kwargs):
        """What func returns for each example."""
        found, left, stack = [None] * len(self.answers), list(range(len(self.answers))), _transforms()
        _C._ask_about_custom_calls(custom_call, 1)
        try:
            while left:
                waiting = []
                for i in left:
                    self.example, self.calls, depth = i, 0, len(stack)
                    self.numbers.begin(i, 0)
                    stack.append(self)
                    try:
                        example = [c if d is None else c[i] for c, d in zip(self.columns, self.dims)]
                        found[i] = inside(func, *tree_unflatten(example, structure), **kwargs)
                    except _Wait as wait:
                        if wait.runs is not self:
                            raise
                        waiting.append((i, wait))
                    finally:
                        del stack[depth:]
                    self.numbers.end(bool(waiting))
                left = [i for i, _ in waiting]
                self.answer(waiting)
        finally:
            _C._ask_about_custom_calls(custom_call, -1)
        return found

    def answer_to(self, function, arguments, derived):
        """The answer to the next call of the current example, which waits for it where there is none yet."""
        answers = self.answers[self.example]
        if self.calls == len(answers):
            raise _Wait(self, function, arguments, derived)
        self.calls += 1
        self.numbers.begin(self.example, self.calls)
        return answers[self.calls - 1]

    def answer(self, waiting):
        """Calls each function that examples wait for, once for all that call it alike."""
        while waiting:
            first = waiting[0][1]
            alike = [w.function is first.function and _alike(w.arguments, first.arguments) for _, w in waiting]
            called = [pair for pair, yes in zip(waiting, alike) if yes]
            waiting = [pair for pair, yes in zip(waiting, alike) if not yes]
            examples = [i for i, _ in called]
            for i, one in zip(examples, self.call(first, [w.arguments for _, w in called], examples)):
                self.answers[i].append(one)
            self.numbers.answered()

    def call(self, first, arguments, examples):
        function, structure = first.function, tree_flatten(first.arguments)[1]
        pairs = [self.batch(values, examples) for values in zip(*map(tree_leaves, arguments))]
        args = tree_unflatten([v for v, _ in pairs], structure)
        args = _off_the_tape(args) if first.derived else args
        if all(d is None for _, d in pairs):
            return [function.apply(*args)] * len(examples)
        in_dims = tree_unflatten([d for _, d in pairs], structure)
        return _parted(function.vmap(VmapInfo(len(examples), self.randomness), in_dims, *args), len(examples))

    def batch(self, values, examples):
        """(what stands for these values of the examples, the dimension that they are along; None: it is one for all)"""
        if not isinstance(values[0], Tensor) or all(v is values[0] for v in values):
            return values[0], None
        for x, d, column in zip(self.leaves, self.dims, self.columns):
            if d is not None and len(examples) == len(column) and all(v is c for v, c in zip(values, column)):
                return x, d % x.dim()
        return stacked(values), 0
