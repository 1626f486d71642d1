"""Worker processes of a loader.

Each worker has a pipe of its own. Task k goes to one worker and its answer comes back through that worker's pipe in the
order of its tasks, so the loader gets batches in order by asking the pipes in the order of its tasks: nothing has to be
sorted. A worker sends from a second thread, so it always goes on reading tasks, and neither side can block the other.
"""

import contextlib
import multiprocessing
import os
import queue
import random
import sys
import threading
import traceback
from multiprocessing.reduction import ForkingPickler

from brisk import _C

_info = None


class WorkerInfo:
    """What get_worker_info gives in a worker: id, num_workers, seed, dataset."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, dataset={self.dataset!r})"


def get_worker_info():
    """Facts about the worker process that this is; None in the main process."""
    return _info


class Batch:
    def __init__(self, data):
        self.data = data


class End:
    """An iterable dataset has no more items in this worker."""


class Failure:
    """An exception, with its traceback as text: tracebacks do not travel."""

    def __init__(self, kind, worker):
        self.kind = kind
        self.text = f"Caught {kind.__name__} in DataLoader worker process {worker}.\nOriginal {traceback.format_exc()}"

    def reraise(self):
        if self.kind is KeyError:
            raise KeyError(_Shown(self.text))
        try:
            error = self.kind(self.text)
        except Exception:
            raise RuntimeError(self.text) from None
        raise error


class _Shown(str):
    """A text that is its own repr: KeyError prints the repr."""

    __repr__ = str.__str__


def _seed_everything(base_seed, worker):
    seed = base_seed + worker
    random.seed(seed)
    _C.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        parts = [worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
        numpy.random.seed(numpy.random.SeedSequence(parts).generate_state(4))
    return seed


def _pickled(answer, worker):
    try:
        return bytes(ForkingPickler.dumps(answer))
    except Exception as error:
        return bytes(ForkingPickler.dumps(Failure(type(error), worker)))


def _send_all(pipe, answers):
    try:
        while (data := answers.get()) is not None:
            pipe.send_bytes(data)
    except (BrokenPipeError, OSError):
        pass  # the loader is gone, and the end of its pipe ends the worker


def work(pipe, others, make_fetch, dataset, worker, num_workers, base_seed, init):
    """The main function of a worker: answers each task until it is told to stop or the loader is gone."""
    global _info
    for other in others:
        other.close()  # so that a loader that dies is seen by everybody
    _C.set_num_threads(1)
    _info = WorkerInfo(worker, num_workers, _seed_everything(base_seed, worker), dataset)
    answers = queue.SimpleQueue()
    sender = threading.Thread(target=_send_all, args=(pipe, answers), daemon=True)
    sender.start()
    fetch = failure = None
    try:
        if init is not None:
            init(worker)
    except Exception as error:
        failure = Failure(type(error), worker)
    try:
        while (task := pipe.recv()) is not None:
            if task == "reset":
                fetch = None
                continue
            try:
                if fetch is None and failure is None:
                    fetch = make_fetch()
                answer = failure or Batch(fetch(task))
            except StopIteration:
                answer = End()
            except Exception as error:
                answer = Failure(type(error), worker)
            answers.put(_pickled(answer, worker))
    except (EOFError, KeyboardInterrupt, OSError):
        return
    answers.put(None)
    sender.join()


class Workers:
    """The processes of a loader, and the tasks that they have been given."""

    def __init__(self, loader, make_fetch, base_seed):
        context = loader.multiprocessing_context or multiprocessing
        if isinstance(context, str):
            context = multiprocessing.get_context(context)
        if "numpy" in sys.modules:
            import numpy.random  # noqa: F401  (once here, not in every worker, which seeds it)
        self.timeout = loader.timeout
        self.owner = os.getpid()  # a process that inherits this object has nothing to do with the workers
        self.pipes, self.processes = [], []
        for worker in range(loader.num_workers):
            here, there = context.Pipe()
            inherited = [*self.pipes, here] if _forks(context) else []
            process = context.Process(
                target=work,
                args=(there, inherited, make_fetch, loader.dataset, worker, loader.num_workers, base_seed,
                      loader.worker_init_fn),
                daemon=True,
            )  # fmt: skip
            process.start()
            there.close()
            self.pipes.append(here)
            self.processes.append(process)

    def give(self, worker, task):
        with contextlib.suppress(OSError):  # the answer will not come, and the loader says so when it asks for it
            self.pipes[worker].send(task)

    def take(self, worker):
        pipe = self.pipes[worker]
        if self.timeout > 0 and not pipe.poll(self.timeout):
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        try:
            return pipe.recv()
        except (EOFError, ConnectionResetError):
            self.processes[worker].join(1)
            process = self.processes[worker]
            raise RuntimeError(
                f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly (exit code {process.exitcode})"
            ) from None

    def stop(self):
        if os.getpid() != self.owner:
            return
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
            pipe.close()
        for process in self.processes:
            process.join(2)
            if process.is_alive():
                process.terminate()
                process.join()
        self.pipes, self.processes = [], []


def _forks(context):
    return context.get_start_method() == "fork"
