"""Hooks on tensors: functions that see a gradient when it is complete, and may replace it."""

import itertools

from brisk._C import Tensor

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


def register_hook(self, hook):
    """Calls hook(grad) when this tensor's gradient is complete; what it returns, if anything, takes its place."""
    hooks = self._hooks()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


Tensor.register_hook = register_hook
