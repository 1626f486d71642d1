"""torch.distributed, for programs that ask whether there is more than one process: there is not."""

from brisk._missing import finder

__all__ = [
    "all_reduce", "barrier", "broadcast", "destroy_process_group", "get_rank", "get_world_size", "init_process_group",
    "is_available", "is_initialized",
]  # fmt: skip


def is_available():
    """False: a program runs as one process."""
    return False


def is_initialized():
    """False: no group was ever made."""
    return False


def init_process_group(backend=None, *args, **kwargs):
    """Not there."""
    raise NotImplementedError("torch.distributed.init_process_group: there are no groups of processes")


def _without_a_group(name):
    def function(*args, **kwargs):
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Needs a group of processes, which is not there."
    return function


all_reduce, barrier, broadcast, get_rank, get_world_size = map(
    _without_a_group, ("all_reduce", "barrier", "broadcast", "get_rank", "get_world_size")
)


def destroy_process_group(group=None):
    """Needs a group of processes, which is not there."""
    raise AssertionError("Process group cannot be None")


__getattr__ = finder(__name__)
