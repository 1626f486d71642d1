"""What a benchmark case is.

A case is a small program over a module called `torch`: a setup function that takes the module, prepares the inputs and
returns the body, a function without arguments that is timed. The same text runs with brisk and with PyTorch. Inputs
come from NumPy, so that every library computes on the same numbers, and the harness compares the results.

    @case("sum", "sum of 1e7 numbers", target=1)
    def sum_(torch):
        x = torch.from_numpy(numbers(10_000_000))
        return lambda: x.sum()

    @sum_.numpy
    def _(np):
        x = numbers(10_000_000)
        return lambda: x.sum()

A tensor that the body returns is forced inside the timed region (`.numpy()`), so lazy evaluation gains nothing by not
computing; what the body does not return is not forced.

This file and the cases import NumPy only: the worker that times PyTorch must not load brisk.
"""

import numpy as np

CASES = {}


class Case:
    def __init__(self, name, shows, target, per, setup):
        self.name = name
        self.shows = shows
        self.target = target  # PyTorch's time / ours that we aim at
        self.per = per  # how many operations one call of the body does: times are reported per operation
        self.setups = {"brisk": setup, "torch": setup}

    def forward(self, setup):
        """Adds what brisk itself takes for less: the forward pass of a case that does both. Results differ."""
        self.setups["forward"] = setup
        return setup

    def layer(self, setup):
        """Adds what brisk itself takes for the same done by a layer of the library. Results differ."""
        self.setups["layer"] = setup
        return setup

    def first(self):
        """Adds what brisk takes when nothing like it has run before: plans forgotten, and in a new process."""

        def setup(torch):
            body = self.setups["brisk"](torch)

            def first_call():
                torch.compiler.reset()
                return body()

            return first_call

        self.setups["first"] = setup
        self.setups["process"] = self.setups["brisk"]
        return self

    def numpy(self, setup):
        """Adds a NumPy twin: a setup that takes the module numpy."""
        self.setups["numpy"] = setup
        return setup

    def compile(self, setup):
        """Adds a torch.compile twin: a setup that takes the module torch and returns a compiled body."""
        self.setups["compile"] = setup
        return setup

    def jax(self, setup):
        """Adds a JAX twin: a setup that takes the module jax."""
        self.setups["jax"] = setup
        return setup


def case(name, shows, target, per=1):
    def register(setup):
        assert name not in CASES, name
        CASES[name] = Case(name, shows, target, per, setup)
        return CASES[name]

    return register


def numbers(*shape, seed=0):
    """The same float32 normal numbers for every library."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
