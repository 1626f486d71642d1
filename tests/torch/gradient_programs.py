"""Programs about gradients that run in PyTorch and in brisk: how they are collected, written and compared."""

import importlib

from tests.torch.compare import REF, SUT, Raised, check_same, outcome


def collection():
    """A list of programs, and the decorator that adds one to it."""
    programs = []

    def program(fn):
        programs.append(fn)
        return fn

    return programs, program


def shown_name(fn):
    return fn.__name__.replace("_", " ")


def compare(fn):
    ours, theirs = outcome(fn, SUT), outcome(fn, REF)
    assert not isinstance(theirs, Raised), "what raises is tried"
    check_same(ours, theirs, fn.__name__, strides=None)


def inside(m, name):
    return importlib.import_module(f"{m.__name__}.{name}")


def functional(m):
    return inside(m, "autograd.functional")


def checkpointing(m):
    return inside(m, "utils.checkpoint")


def function(m, **methods):
    return type("Fn", (m.autograd.Function,), {name: staticmethod(f) for name, f in methods.items()})


def tried(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error).replace("brisk.", "torch.")


def leaf(m, *v):
    return m.tensor(list(v) or [1.0, 2.0, 3.0], requires_grad=True)
