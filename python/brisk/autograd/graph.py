"""The tape as an object: nodes, and contexts about what they save."""

import contextlib

from brisk import _C

__all__ = ["GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "save_on_cpu",
           "saved_tensors_hooks"]  # fmt: skip

Node = _C._Node


def saved_tensors_hooks(pack_hook, unpack_hook):
    """Not there: built-in ops save nodes of the graph, not tensors that a hook could pack."""
    raise NotImplementedError(
        "brisk has no saved_tensors_hooks: to keep less for backward, use torch.utils.checkpoint.checkpoint"
    )


class save_on_cpu(contextlib.nullcontext):
    """Saved values are in the machine's memory already."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__()


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """There are none to disable."""
    yield


class allow_mutation_on_saved_tensors(contextlib.nullcontext):
    """What built-in ops saved is not changed by later writes in any case."""


class GradientEdge(tuple):
    """(node, output_nr)"""

    def __new__(cls, node, output_nr=0):
        return super().__new__(cls, (node, output_nr))

    node = property(lambda self: self[0])
    output_nr = property(lambda self: self[1])
