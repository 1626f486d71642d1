"""Random programs rehearsed with other numbers, so that what caches remember of their form meets new values.

A program is run as often as it takes until its backward passes are replayed (src/autograd/replay.c); the run that is
compared with PyTorch comes after that. What a cache took from the values of a rehearsal would show there."""

from contextlib import suppress

from tests.torch.compare import SUT, to_numpy

SCALES = (1.5, -0.75)


def scaled(data, scale):
    if isinstance(data, list):
        return [scaled(item, scale) for item in data]
    return data * scale if isinstance(data, float) else data


class Scaled:
    """The module under test, where the numbers of a literal are others."""

    def __init__(self, scale):
        self.scale = scale

    def tensor(self, data, **how):
        return SUT.tensor(scaled(data, self.scale), **how)

    def full(self, shape, value, **how):
        return SUT.full(shape, value * self.scale, **how)

    def __getattr__(self, name):
        return getattr(SUT, name)


def rehearse(program):
    for scale in SCALES:
        scope = {"torch": Scaled(scale)}
        for step in program.steps:
            with suppress(Exception):  # the run that counts will show whether PyTorch refuses too
                exec(step.line, scope)
            if step.check:
                for value in [v for v in scope.values() if isinstance(v, SUT.Tensor)]:
                    to_numpy(value)
