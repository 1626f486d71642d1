"""brisk bench: time ratios between brisk and other libraries on this machine.

One process per library (worker.py), because one library's spinning threads slow another's work in the same process. The
processes take turns in short rounds, so that a busy neighbour disturbs all of them alike; of a library's rounds the
lower quartile counts. What is reported are ratios, their time / ours: absolute times belong to one machine on one day.

A process whose turn it is not is stopped (SIGSTOP), and the order of turns changes from round to round. Being blocked
on its pipe is not enough: OpenBLAS's threads go on spinning for more than 80 ms after a product and hold a core.

A busy machine does not only scatter times, it can favour us: with two threads PyTorch's sin of 100 elements waits for
its second thread, and while another program held that core most calls took 8 ms instead of 3 us, in every round alike.
So the share of the cores that other programs took is measured too, and a ratio taken beside more than BUSY of it is
marked.

Cores that share a cache answer each other in about 0.1 us. Others take several times as long, and a virtual machine's
may be moved apart while it runs: then whatever meets in every step is slower, in all rounds alike. So the cores are
asked before and after each case, and a ratio taken while they were further apart than FAR_NS is marked.

The harness is checked by timing PyTorch against itself: BRISK_TEST_MODULE=torch brisk bench must give 1.
"""

import argparse
import fnmatch
import json
import math
import os
import platform
import select
import signal
import statistics
import subprocess
import sys
import time

from . import report

OWN = ("forward", "layer", "first", "process")  # brisk beside itself, doing something else
OTHERS = ("torch", *OWN, "numpy", "compile", "jax")
SAME = (*OWN, "compile")  # brisk's own, torch's own
THREADS = 2
ROUNDS = 25
BUSY = 0.03  # share of all cores that other programs may use during a case
FAR_NS = 250  # from core to core and back
PATIENCE_SECONDS = 120  # a worker that is silent for longer has hung


class WorkerError(Exception):
    pass


class Worker:
    """The process of one library. `error` says why it cannot be used."""

    def __init__(self, library):
        self.library = library
        self.start()

    def start(self):
        env = {k: v for k, v in os.environ.items() if k != "BRISK_AS_TORCH"}
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BRISK_NUM_THREADS"):
            env[name] = str(THREADS)
        env["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={THREADS}"
        path = os.path.join(os.path.dirname(__file__), "worker.py")
        command = [sys.executable, path, self.library, str(THREADS)]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            hello = self.receive()
            self.version, self.cases, self.error = hello["version"], hello["cases"], None
            self.process.send_signal(signal.SIGSTOP)
        except WorkerError as error:
            self.version, self.cases, self.error = None, [], str(error)

    def receive(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            self.stop()
            raise WorkerError("hung" if not ready else f"died (exit code {self.process.returncode})")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer

    def ask(self, request, argument):
        if self.process.poll() is not None:
            self.start()
        if self.error:
            raise WorkerError(self.error)
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps({request: argument}).encode() + b"\n")
        self.process.stdin.flush()
        try:
            return self.receive()
        finally:
            self.process.send_signal(signal.SIGSTOP)

    def stop(self):
        self.process.kill()
        self.process.wait()


def lower_quartile(values):
    return statistics.quantiles(values, n=4, method="inclusive")[0] if len(values) > 1 else values[0]


def same(a, b):
    """Digests agree to the accuracy that different summation orders and math functions leave in float32."""
    return len(a) == len(b) and all(math.isclose(x, y, rel_tol=1e-3, abs_tol=1e-3) for x, y in zip(a, b, strict=True))


def cpu_seconds(workers):
    """CPU time that the machine and that this harness with its workers have used so far; zeros where /proc is not."""
    try:
        with open("/proc/stat") as f:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, f.readline().split()[1:9])
        ours = 0
        for pid in [os.getpid(), *(worker.process.pid for worker in workers)]:
            with open(f"/proc/{pid}/stat") as f:
                fields = f.read().rpartition(")")[2].split()
            ours += sum(map(int, fields[11:15]))  # utime, stime, and those of children
    except OSError:
        return 0.0, 0.0
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq + steal) / tick, ours / tick


def core_distance(workers):
    """From core to core and back, in nanoseconds; 0 where brisk cannot tell."""
    try:
        return workers[0].ask("distance", None)["ns"]
    except WorkerError:
        return 0


def measure(case, workers):
    """Times one case beside whatever else the machine does: the result of `time_case` and the share others took."""
    start = time.perf_counter()
    machine_before, ours_before = cpu_seconds(workers)
    far = core_distance(workers)
    result = time_case(case, workers)
    result["core_ns"] = max(far, core_distance(workers))
    machine_after, ours_after = cpu_seconds(workers)
    capacity = (time.perf_counter() - start) * os.cpu_count()
    others = (machine_after - machine_before) - (ours_after - ours_before)
    result["others"] = max(0.0, others / capacity)
    result["noisy"] |= result["others"] > BUSY
    result["far"] = result["core_ns"] > FAR_NS
    return result


def time_case(case, workers):
    """Times one case: a dict with the seconds, ratios and errors by library."""
    result = {**case, "seconds": {}, "rounds": {}, "errors": {}, "ratios": {}, "noisy": False}
    prepared = {}
    for worker in workers:
        if worker.library not in case["libraries"]:
            continue
        try:
            prepared[worker] = worker.ask("prepare", case["name"])
        except WorkerError as error:
            result["errors"][worker.library] = str(error)
    _compare_results(prepared, result["errors"])

    times = {worker: [] for worker in prepared}
    for turn in range(ROUNDS):
        order = list(times)
        first = turn % max(1, len(order))
        for worker in order[first:] + order[:first]:
            try:
                times[worker].append(worker.ask("time", prepared[worker]["reps"])["seconds"] / case["per"])
            except WorkerError as error:
                result["errors"][worker.library] = str(error)
                del times[worker]

    for worker, values in times.items():
        result["rounds"][worker.library] = values
        result["seconds"][worker.library] = lower_quartile(values)
        result["noisy"] |= statistics.median(values) > 1.25 * lower_quartile(values)
    ours = result["seconds"].get("brisk")
    if ours:
        result["ratios"] = {name: s / ours for name, s in result["seconds"].items() if name != "brisk"}
    return result


def _compare_results(prepared, errors):
    by_name = {worker.library: answer["digest"] for worker, answer in prepared.items()}
    for name, digest in by_name.items():
        if name not in ("brisk", *OWN) and "brisk" in by_name and not same(by_name["brisk"], digest):
            errors[name] = f"the results differ: brisk {by_name['brisk']}, {name} {digest}"


def machine(workers):
    """What the figures depend on. No host name."""
    facts = {"CPU": _cpu_model(), "cores": len(os.sched_getaffinity(0)), "threads": THREADS}
    try:
        from .._C import info

        facts.update({"ISA": info()["isa"]})
    except (ImportError, KeyError):
        pass
    facts["system"] = f"{platform.system()} {platform.machine()}"
    facts["Python"] = platform.python_version()
    facts.update({w.library: w.version for w in workers if not w.error and w.library not in SAME})
    return facts


def _cpu_model():
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def start_workers():
    """brisk's worker first; of the others, those that are installed."""
    workers = [Worker(name) for name in ("brisk", *OTHERS)]
    if workers[0].error:
        raise WorkerError(f"brisk itself cannot be timed: {workers[0].error}")
    return [worker for worker in workers if not worker.error]


def main(args):
    parser = argparse.ArgumentParser(prog="brisk bench", description="Time ratios: their time / ours.")
    parser.add_argument("pattern", nargs="?", default="*", help="names of cases, with * and ? (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write everything measured")
    parser.add_argument("--write", metavar="FILE", help="write the table as Markdown, as in docs/BENCHMARKS.md")
    options = parser.parse_args(args)
    try:
        workers = start_workers()
    except WorkerError as error:
        print(f"brisk bench: {error}", file=sys.stderr)
        return 1
    try:
        cases = [c for c in workers[0].cases if fnmatch.fnmatch(c["name"], options.pattern)]
        if not cases:
            names = ", ".join(c["name"] for c in workers[0].cases)
            print(f"brisk bench: no case matches {options.pattern!r}; there are {names}", file=sys.stderr)
            return 2
        facts = machine(workers)
        results = []
        for case in cases:
            print(f"\r\033[K{case['name']}", end="", file=sys.stderr, flush=True)
            results.append(measure(case, workers))
        print("\r\033[K", end="", file=sys.stderr)
    finally:
        for worker in workers:
            worker.stop()
    report.show(facts, results)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"machine": facts, "results": results}, f, indent=2)
    if options.write:
        with open(options.write, "w") as f:
            f.write(report.markdown(facts, results))
    return 1 if any(result["errors"] for result in results) else 0
