"""Runs a random program in both libraries, line by line, and says where they part.

Dtypes, shapes, strides, aliasing and exceptions agree exactly, and so do exact values (programs.py). A rough value is
within CLOSE of PyTorch's, relative to itself, element by element: 1e-5 in float32. Where it is not, it has to be within
a small multiple of what other roundings make of PyTorch's own value (rounding.py). There is no other allowance: none
for long programs, and none for being small beside a neighbour.
"""

import re
from dataclasses import replace

import numpy as np

from tests.torch.compare import (
    PRIMITIVE,
    REF,
    SUT,
    Difference,
    Raised,
    check_tensor,
    dtype_name,
    outcome,
    same_exception,
    to_numpy,
)
from tests.torch.programs import Program
from tests.torch.rounding import noise_of

# Relative distance; 16 bits: neighbours.
CLOSE = {"float32": 1e-5, "float64": 1e-12, "float16": 2**-10, "bfloat16": 2**-7}
# Times the noise. The runs that measure it are few, and one library may err one way where the other errs the other way.
MULTIPLE = 2
RUNS = (4, 32)  # that measure noise: some first, more where these are not convinced


class Failure(Difference):
    """A program whose outcomes differ; `step` is where it showed, `kind` what to look for again while shrinking."""

    def __init__(self, step, kind, message):
        super().__init__(message)
        self.step, self.kind = step, kind


def run(program, module=None, around=None):
    """Runs a program in both libraries, line by line, and raises Failure where they differ.

    `around`, when given, is a context manager entered for every line of the module under test."""
    module = module or SUT
    theirs, ours = {"torch": REF}, {"torch": module}
    for number, step in enumerate(program.steps):
        code = compile(step.line, f"step {number}", "exec")
        expected = outcome(exec, code, theirs)
        if around is None:
            got = outcome(exec, code, ours)
        else:
            with around:
                got = outcome(exec, code, ours)
        if isinstance(expected, Raised) and any(text in str(expected.error) for text in (PRIMITIVE, "INTERNAL ASSERT")):
            return  # PyTorch fails for reasons of its own: nothing to compare with from here on
        if isinstance(expected, Raised) and not isinstance(got, Raised) and takes_a_view_for_a_leaf(step, theirs):
            return
        compare_errors(number, step, got, expected)
        if step.check:
            compare_pools(number, step, ours, theirs, program.steps)


def strides_of(name, steps):
    """What is compared of the strides of a tensor: all of them; of a gradient not those of dimensions of one element,
    where PyTorch promises nothing and gives what its own rules left there."""
    read = any(step.line.startswith(f"{name} = torch.zeros(1) if ") for step in steps)
    return "effective" if read else "exact"


def takes_a_view_for_a_leaf(step, theirs):
    """Whether PyTorch refuses a write to a view that came onto the tape by a write to its base, and that nobody has
    asked for its grad_fn since: it takes the view for a leaf then (docs/DIFFERENCES.md)."""
    target = re.match(r"t\d+", step.line)
    base = theirs[target[0]]._base if target and target[0] in theirs else None
    return base is not None and base.grad_fn is not None


def compare_errors(number, step, got, expected):
    if isinstance(expected, Raised) != isinstance(got, Raised):
        who = f"PyTorch {expected!r}" if isinstance(expected, Raised) else f"we {got!r}"
        raise Failure(number, f"raises {step.line}", f"`{step.line}`: only one of both raised: {who}")
    if isinstance(expected, Raised) and not same_exception(got.error, expected.error):
        raise Failure(number, f"error type {step.line}", f"`{step.line}`: we {got!r}; PyTorch {expected!r}")


def compare_pools(number, step, ours, theirs, steps):
    for name, expected in theirs.items():
        if not isinstance(expected, REF.Tensor):
            continue
        where = f"{name} after `{step.line}`"
        try:
            rough = name in step.rough
            strides = strides_of(name, steps)
            check_tensor(ours[name], expected, where, values=not rough, strides=strides, rtol=0.0, atol=0.0)
            if rough:
                check_rough(ours[name], expected, where, name, steps[: number + 1])
        except Difference as difference:
            what = str(difference)[len(where) + 2 :].split()[0]
            raise Failure(number, f"{name} {'values' if what.isdigit() else what}", str(difference)) from None
        except Exception as error:
            raise Failure(number, "read", f"{where}: reading raised {type(error).__name__}: {error}") from None


def check_rough(ours, theirs, where, name, steps):
    """Raises Difference unless a rough value is as close to PyTorch's as the program allows."""
    kind, ours, theirs = dtype_name(theirs.dtype), values(ours), values(theirs)
    with np.errstate(all="ignore"):
        apart = np.where((ours == theirs) | np.isnan(ours) & np.isnan(theirs), 0, np.abs(ours - theirs))
        apart = np.where(np.isnan(apart), np.inf, apart)
        far = ~(apart <= CLOSE.get(kind, 0.0) * np.abs(theirs))
    for runs in RUNS:
        if not far.any():
            return
        far &= ~(apart <= MULTIPLE * noise_of(name, steps, theirs, runs))
    if far.any():
        index = tuple(int(i) for i in np.argwhere(far)[0]) if far.ndim else ()
        raise Difference(
            f"{where}: {int(far.sum())} of {far.size} values differ, the first at {index}: {ours[index]!r}, "
            f"PyTorch's is {theirs[index]!r}, its noise {noise_of(name, steps, theirs, RUNS[-1])[index]!r}"
        )


def values(tensor):
    return to_numpy(tensor).astype("float64")


def failure_of(program, **how):
    try:
        run(program, **how)
    except Failure as failure:
        return failure
    return None


def shrink(program, failure, **how):
    """The shortest program found by dropping steps that still fails in the same way."""
    steps = program.steps[: failure.step + 1]
    kind = failure.kind
    size = max(len(steps) // 2, 1)
    while size:
        at = 0
        while at < len(steps):
            shorter = Program(steps[:at] + steps[at + size :], program.seed)
            if shorter.steps:
                shorter.steps[-1] = replace(shorter.steps[-1], check=True)
                again = failure_of(shorter, **how)
                if again and again.kind == kind:
                    steps = shorter.steps[: again.step + 1]
                    continue
            at += size
        size //= 2
    return Program(steps, program.seed)
