"""What programs tell a compiler. Everything is compiled as it runs, so there is one thing to do here: forget it."""

import contextlib

from brisk import _C, compile
from brisk._missing import finder

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
]  # fmt: skip


def reset():
    """Evaluates what is recorded, and forgets all plans: the next call of everything is a first one."""
    _C._forget_plans()


def disable(fn=None, recursive=True, *, reason=None):
    """fn itself."""
    return fn if fn is not None else lambda fn: fn


def allow_in_graph(fn):
    """fn itself."""
    return fn


def assume_constant_result(fn):
    """fn itself."""
    return fn


class set_stance(contextlib.ContextDecorator):
    """Changes nothing, as a call, as a context and as a decorator."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


def is_compiling():
    """False: a program is never run for its trace alone."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def cudagraph_mark_step_begin():
    """Nothing to do."""


def list_backends(exclude_tags=("debug", "experimental")):
    """The name of the one that compile() has unless it is told otherwise."""
    return ["inductor"]


__getattr__ = finder(__name__)
