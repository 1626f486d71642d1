"""multiprocessing of the standard library under PyTorch's name, and functions that start several processes at once.

Tensors are copied into messages. Those in shared memory (Tensor.share_memory_, Module.share_memory) are in common with
processes that were forked; to send one to a process that was started anew is an error, since it would get a copy.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import signal
import sys
import traceback
from multiprocessing import *  # noqa: F403
from multiprocessing.reduction import ForkingPickler

from . import _C
from .nn.parameter import Parameter

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn",
    "start_processes",
]  # fmt: skip


def get_all_sharing_strategies():
    return {"file_descriptor", "file_system"} if sys.platform == "linux" else {"file_system"}


_strategy = "file_descriptor" if sys.platform == "linux" else "file_system"


def get_sharing_strategy():
    return _strategy


def set_sharing_strategy(new_strategy):
    """Kept and given back: anonymous mappings need neither files nor descriptors."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"{new_strategy!r} is no sharing strategy of this system")
    _strategy = new_strategy


def _reduce(tensor):
    if tensor.is_shared():
        raise RuntimeError("a tensor in shared memory can be passed to forked processes only, before they start")
    return tensor.__reduce_ex__(2)


for _kind in (_C.Tensor, Parameter):
    ForkingPickler.register(_kind, _reduce)


class ProcessException(Exception):  # noqa: N818
    """A process that start_processes made has failed: its number and its pid."""

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message has its traceback."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """The process ended otherwise: by a signal, or with a status that is not 0."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _call(fn, index, args, errors):
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of one start_processes; join waits for them and raises what the first to fail raised."""

    def __init__(self, processes, errors):
        self.processes, self._errors = processes, errors
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self):
        return [int(process.pid) for process in self.processes]

    def join(self, timeout=None, grace_period=None):
        """True when all have ended; False when the time is over. After a failure the others are ended first."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(self.sentinels, timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._end(grace_period)
        self._raise(failed)

    def _end(self, grace_period):
        for process in self.processes:
            process.join(timeout=0 if grace_period is None else grace_period)
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(timeout=30)
            if process.is_alive():
                process.kill()
                process.join()

    def _raise(self, index):
        process, errors = self.processes[index], self._errors[index]
        with contextlib.suppress(EOFError):  # it ended without a word
            text = f"\n\n-- Process {index} terminated with the following error:\n{errors.recv()}"
            raise ProcessRaisedException(text, index, process.pid)
        if process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            text = f"process {index} terminated with signal {name}"
            raise ProcessExitedException(text, index, process.pid, process.exitcode, name)
        text = f"process {index} terminated with exit code {process.exitcode}"
        raise ProcessExitedException(text, index, process.pid, process.exitcode)


SpawnContext = ProcessContext


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs fn(i, *args) in nprocs processes. With join=False, their ProcessContext."""
    context = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_call, args=(fn, index, args, theirs), daemon=daemon)
        process.start()
        theirs.close()
        processes.append(process)
        errors.append(ours)
    made = ProcessContext(processes, errors)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """start_processes, each in an interpreter of its own."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
