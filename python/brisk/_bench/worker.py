"""A process that times one library: worker.py <brisk|torch|forward|layer|first|process|numpy|compile|jax> <threads>.

Its first line is {"version": of the library, "cases": what there is to time}. Then it reads requests from standard
input, one JSON object per line, and answers each with one line:
    {"prepare": case}  ->  {"reps": calls that take about ROUND_SECONDS, "digest": numbers that stand for the result}
    {"time": reps}     ->  {"seconds": for one call of the body}
    {"distance": null} ->  {"ns": for a message from core to core and back}, by brisk only
An answer {"error": text} says why not. Between requests it is blocked on the pipe and uses no core.

With the name of a case behind these it answers {"seconds": for the first call of its body} and ends; that is what
`process` asks a process of its own for, each time.

Run by path, not as a module of the package: the process that times PyTorch must not load brisk.
"""

import gc
import importlib
import json
import os
import subprocess
import sys
import time

import numpy as np
from case import CASES
from cases import calls, data, elementwise, gradients, large, loops, small, training  # noqa: F401 (they register)

OURS = ("brisk", "forward", "layer", "first", "process")
ROUND_SECONDS = 0.02  # short, so that some rounds fall between a neighbour's bursts


def load(library, threads):
    """The module that a case's setup takes. BRISK_TEST_MODULE=torch puts PyTorch into both roles."""
    name = os.environ.get("BRISK_TEST_MODULE", "brisk") if library in OURS else library
    module = importlib.import_module("torch" if name == "compile" else name)
    if library in (*OURS, "torch", "compile"):
        module.set_num_threads(threads)
    return module


def force_tensor(result):
    if hasattr(result, "detach"):
        result.detach().numpy()
    elif isinstance(result, (tuple, list)):
        for r in result:
            force_tensor(r)


def force_jax(result):
    result.block_until_ready()


FORCE = {
    **dict.fromkeys(OURS, force_tensor),
    "torch": force_tensor,
    "numpy": lambda result: None,
    "compile": force_tensor,
    "jax": force_jax,
}


def digest(result):
    """A few numbers that differ when results differ: size, mean, mean of squares, and the last element."""
    values = np.asarray(result.detach() if hasattr(result, "detach") else result, dtype=np.float64).ravel()
    return [float(values.size), float(values.mean()), float(np.square(values).mean()), float(values[-1])]


def seconds(body, force, reps):
    start = time.perf_counter()
    for _ in range(reps):
        force(body())
    return (time.perf_counter() - start) / reps


class Worker:
    def __init__(self, library, threads):
        self.library = library
        self.module = load(library, threads)
        self.force = FORCE[library]
        self.body = None

    def prepare(self, name):
        self.body = None
        gc.collect()
        self.body = CASES[name].setups[self.library](self.module)
        numbers = digest(self.body())
        reps = 1
        while min(seconds(self.body, self.force, reps) for _ in range(3)) * reps < ROUND_SECONDS / 4:
            reps *= 2
        one = min(seconds(self.body, self.force, reps) for _ in range(3))
        return {"reps": max(1, round(ROUND_SECONDS / one)), "digest": numbers}

    def time(self, reps):
        self.force(self.body())  # wakes threads and caches that went cold while the others ran
        gc.disable()
        try:
            return {"seconds": seconds(self.body, self.force, reps)}
        finally:
            gc.enable()

    def distance(self, _):
        return {"ns": self.module._C._distance_ns() if self.module.__name__ == "brisk" else 0}


def first_call(library, threads, name):
    module = load(library, threads)
    body = CASES[name].setups[library](module)
    return {"seconds": seconds(body, FORCE[library], 1)}


class FirstCalls(Worker):
    """Each time that is asked for is one of a new process."""

    def prepare(self, name):
        self.name = name
        return {"reps": 1, "digest": []}

    def time(self, reps):
        command = [sys.executable, __file__, self.library, sys.argv[2], self.name]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads begin with 100 ms of spinning
        return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)


def describe(case):
    return {
        "name": case.name,
        "shows": case.shows,
        "target": case.target,
        "per": case.per,
        "libraries": list(case.setups),
    }


def main():
    # Answers go to a private copy of standard output; whatever a library prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    library, threads, *name = sys.argv[1:]
    try:
        if name:
            answer(first_call(library, int(threads), *name))
            return
        worker = (FirstCalls if library == "process" else Worker)(library, int(threads))
        answer({"version": worker.module.__version__, "cases": [describe(c) for c in CASES.values()]})
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})
        return
    for line in sys.stdin:
        ((request, argument),) = json.loads(line).items()
        try:
            answer(getattr(worker, request)(argument))
        except Exception as error:
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
