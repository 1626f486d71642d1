"""How far rounding alone moves the values of a program: PyTorch, run again with other roundings.

No library can promise more than its functions do. A sum may be taken in any order, a function may be off in its last
digits, and what follows may magnify that: the difference of two nearly equal numbers has no digit in common with its
twin. How much it magnifies is a property of the program and is measured, not guessed. In every line that rounds, each
step of PyTorch's is, as a coin decides, left as it is or computed in float64 and rounded to its dtype, which takes out
PyTorch's own error; then it is moved at random by no more than what two libraries may differ by there, and so are the
terms of each sum (which is what another order amounts to). The largest distance of some such runs from PyTorch's plain
one is the noise of a value, element by element. Lines that do not round, and so all exact values, stay as they are.
"""

import math

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.torch.compare import Raised, outcome, to_numpy

# The relative distance of two libraries' results of one function: 2.5 units in the last place of one and 1 of the other
# in float32, 2 and 1 in float64; 16 bits are rounded once, to neighbours at worst.
APART = {torch.float32: 2**-21, torch.float64: 2**-51 * 3, torch.float16: 2**-10, torch.bfloat16: 2**-7}

# What adds up many terms, whose errors are relative to the terms and not to the sum.
SUMS = {"sum", "mean", "mm", "bmm", "mv", "dot", "addmm", "addmv", "baddbmm", "logsumexp", "var", "var_mean", "cumsum",
        "_softmax", "_log_softmax", "_softmax_backward_data", "linalg_vector_norm", "prod"}  # fmt: skip


# PyTorch's gelu is 0.5 x (1 + erf(x / sqrt 2)): it has no digits left below -6 in float32 or below -9 in float64.
def phi(x):
    return (-x / math.sqrt(2)).erfc() / 2


BETTER = {
    "gelu": lambda x, approximate="none": x * phi(x),
    "gelu_backward": lambda g, x, approximate="none": g * (phi(x) + x * (-x * x / 2).exp() / math.sqrt(2 * math.pi)),
}


# A function that ends by taking away nearly all of what it has rounded inside: the logarithm of a sum a little above 1
# has the digits that the sum left it. So that sum is moved too, by `move`; a single term has nothing to round.
def log_of_sum(move, x, dim):
    total = x.exp().sum(dim, keepdim=True)
    return (total if total.numel() == x.numel() else move(total)).log()


def log_sum_exp(move, x, dim, keepdim=False):
    x = x.double()
    top = x.amax(dim, keepdim=True)
    top = torch.where(top.isinf(), 0, top)
    result = log_of_sum(move, x - top, dim) + top
    return result if keepdim else result.squeeze(dim)


def log_softmax(move, x, dim, half_to_float=False):
    x = x - x.amax(dim, keepdim=True)
    return x - log_of_sum(move, x, dim)


INSIDE = {"logsumexp": log_sum_exp, "_log_softmax": log_softmax}


class OtherRoundings(TorchDispatchMode):
    """Moves the results of whatever PyTorch computes, the steps of its backward passes too."""

    def __init__(self, seed):
        super().__init__()
        self.random = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.rpartition("::")[2]
        if name == "_efficientzerotensor":  # zeros without memory, which cannot be written to
            return torch.zeros(*args, **(kwargs or {}))
        given = [x.dtype for x in tree_leaves((args, kwargs or {})) if isinstance(x, torch.Tensor)]
        widens = APART if any(dtype in APART for dtype in given) else given  # integers, where nothing else is rounded
        wide = tree_map(lambda x: self.widened(x, widens, name in SUMS), (args, kwargs or {}))
        results = func(*args, **(kwargs or {}))
        made = [said.alias_info is None or said.alias_info.is_write for said in func._schema.returns]
        if any(made):
            exactly = name in SUMS or self.coin()
            better = outcome(self.another, name, func, wide, several(results)[0]) if exactly else results
            better = results if isinstance(better, Raised) else better
            for result, good, fresh in zip(several(results), several(better), made):
                if fresh and isinstance(result, torch.Tensor) and result.dtype in APART:
                    self.move(result, good)
        return results

    def another(self, name, func, wide, result):
        """The results in float64; of what rounds inside, with that moved."""
        if name in INSIDE:
            return INSIDE[name](lambda x: x * self.noise(x, result.dtype), *wide[0], **wide[1])
        return BETTER.get(name, func)(*wide[0], **wide[1])

    def coin(self):
        return bool(torch.rand((), generator=self.random) < 0.5)

    def widened(self, x, widens, terms):
        """An operand in float64, a copy, so that a write to it is not seen; moved if it is a sum's."""
        if not isinstance(x, torch.Tensor) or x.dtype not in widens:
            return x
        copy = x.to(torch.float64, copy=True)
        return copy * self.noise(x) if terms and x.dtype in APART else copy

    def move(self, result, value):
        result.copy_(value.to(result.dtype).double() * self.noise(result))

    def noise(self, x, dtype=None):
        return 1 + APART[dtype or x.dtype] * (torch.rand(x.shape, generator=self.random, dtype=torch.float64) * 2 - 1)


def several(results):
    return results if isinstance(results, (tuple, list)) else (results,)


def run_otherwise(steps, seed):
    """PyTorch's scope after these steps, in one of the other ways to round them."""
    scope, roundings = {"torch": torch}, OtherRoundings(seed)
    for step in steps:
        code = compile(step.line, "step", "exec")
        if step.rounds:
            with roundings:
                outcome(exec, code, scope)
        else:
            outcome(exec, code, scope)
    return scope


def noise_of(name, steps, theirs, runs):
    """The noise of each element of PyTorch's value `theirs` of this name after the steps, over so many runs."""
    largest = np.zeros(theirs.shape)
    for seed in range(runs):
        other = run_otherwise(steps, seed).get(name)
        if isinstance(other, torch.Tensor) and tuple(other.shape) == theirs.shape:
            other = to_numpy(other).astype("float64")
            with np.errstate(all="ignore"):
                same = (other == theirs) | np.isnan(other) & np.isnan(theirs)
                apart = np.where(same, 0, np.abs(other - theirs))
            largest = np.fmax(largest, np.where(np.isnan(apart), np.inf, apart))
    return largest
