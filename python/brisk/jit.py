"""Compilation that programs ask for: everything is compiled as it runs, so each function here gives back its own."""

import functools

from brisk._missing import finder

__all__ = [
    "Final", "annotate", "export", "freeze", "ignore", "is_scripting", "is_tracing", "script", "script_method", "trace",
    "unused",
]  # fmt: skip

from typing import Final


def script(obj, *args, **kwargs):
    """obj itself."""
    return obj


def trace(func=None, example_inputs=None, *args, **kwargs):
    """func itself."""
    return func if func is not None else functools.partial(trace, example_inputs=example_inputs)


def annotate(the_type, the_value):
    """the_value itself: its type is known."""
    return the_value


def script_method(fn):
    """fn itself."""
    return fn


def export(fn):
    """fn itself."""
    return fn


def unused(fn):
    """fn itself."""
    return fn


def ignore(drop=False, **kwargs):
    """The function itself, with or without parentheses."""
    return drop if callable(drop) else lambda fn: fn


def freeze(module, *args, **kwargs):
    """The module itself."""
    return module


def is_scripting():
    return False


def is_tracing():
    return False


def __getattr__(name):
    if name == "ScriptModule":
        from brisk.nn import Module

        return Module
    if name in ("save", "load"):
        raise AttributeError(f"jit.{name}: there is no compiled format; use brisk.{name} with a state_dict")
    return _find(name)


_find = finder(__name__)
