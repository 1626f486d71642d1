"""Hooks on tensors and on the functions of the graph.

In the order in which they run: those of the tensor, in the order of their registration; the gradient is kept if
retain_grad() asked for it; those before the function; the function (for a leaf: its gradient is accumulated, then the
post-accumulate hooks run); those after it.
"""

import itertools

from brisk._C import Tensor, _Node

_ids = itertools.count()


class RemovableHandle:
    """Takes a hook off again: remove(), or the end of a with statement."""

    def __init__(self, hooks, extra=()):
        self.hooks = hooks
        self.extra = extra  # tables that may say something about the hook
        self.id = next(_ids)

    def remove(self):
        for table in (self.hooks, *self.extra):
            table.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def _add(hooks, hook):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_hook(self, hook):
    """Calls hook(grad) when this tensor's gradient is complete; what it returns, if anything, takes its place."""
    return _add(self._hooks(), hook)


def register_post_accumulate_grad_hook(self, hook):
    """Calls hook(self) after this leaf's .grad has been accumulated to."""
    return _add(self._hooks(True), hook)


def _register_prehook(self, fn):
    """Calls fn(grad_outputs) before this function runs; a tuple that it returns takes their place."""
    return _add(self._hooks(True), fn)


def _register_hook(self, fn):
    """Calls fn(grad_inputs, grad_outputs) after this function has run; a tuple takes the place of grad_inputs."""
    return _add(self._hooks(False), fn)


Tensor.register_hook = register_hook
Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook
_Node.register_prehook, _Node.register_hook = _register_prehook, _register_hook
