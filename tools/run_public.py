"""Runs a program under PyTorch and under `brisk run`, and compares every number that both print.

    python tools/run_public.py script.py args...                  one program
    python tools/run_public.py --list programs.json --sources DIR [--only NAME]

The program is not changed; of a notebook, the code cells are run. Both runs start from the same seeds (torch, random,
NumPy), in the directory of the script, and end by themselves, or after --lines lines of output or --seconds. Line by
line, the text must be the same and the numbers within --rtol of each other, or one unit of the last digit printed;
durations are not compared. Programs print seldom, so with --losses each value that `backward` or `autograd.grad` is
called on is a line too, with nine digits. Training is chaotic, so where the two part, PyTorch is run once more with
other vector instructions and with each parameter moved by one unit in its last place, at the start and after every
step of an optimiser, as if each step had been rounded otherwise: the line at which it departs from itself is the
measure of how long two correct libraries can agree. --double makes float64 the default type of both runs: what was
chaos agrees much longer then. The time given is the processor's, from the moment `import torch` is done until the last
line that both printed.

DIR holds a checkout of each repository of the list under the name owner+name. Modules that stand in for what a program
imports beside torch (data sets, mostly) are taken from --path, before everything else.
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading

BEGUN = "\x01begun\x01"

CHILD = """
import os, random, runpy, sys, time
backend, script = sys.argv[1:3]
sys.argv[:] = sys.argv[2:]
if backend == "brisk":
    from brisk._run import install, run_script
    install()
import torch
random.seed(0)
torch.manual_seed(0)
if backend == "torch":
    torch.set_num_threads(int(os.environ["THREADS"]))
    if os.environ.get("ROUNDED"):
        generator = torch.Generator().manual_seed(1)
        def round_otherwise(optimizer, *args):
            for group in optimizer.param_groups:
                for p in group["params"]:
                    up = torch.randn(p.shape, generator=generator) >= 0
                    towards = torch.where(up, float("inf"), -float("inf")).to(p)
                    p.data.copy_(torch.nextafter(p.data, towards))
        begin = torch.optim.Optimizer.__init__
        def begin_rounded(self, params, *args):
            begin(self, params, *args)
            round_otherwise(self)
        torch.optim.Optimizer.__init__ = begin_rounded
        from torch.optim.optimizer import register_optimizer_step_post_hook
        register_optimizer_step_post_hook(round_otherwise)
if os.environ.get("DOUBLE"):
    torch.set_default_dtype(torch.float64)
if os.environ.get("LOSSES"):
    def shown(call):
        def wrapper(of, *args, **kwargs):
            for value in of if isinstance(of, (list, tuple)) else [of]:
                if value.numel() == 1:
                    print(f"loss {{value.item():.9g}}", flush=True)
            return call(of, *args, **kwargs)
        return wrapper
    torch.Tensor.backward = shown(torch.Tensor.backward)
    torch.autograd.grad = shown(torch.autograd.grad)
try:
    import numpy
    numpy.random.seed(0)
except ImportError:
    pass
sys.stderr.write(f"{begun}{{time.process_time()}}\\n")
sys.stderr.flush()
if backend == "brisk":
    run_script(script, sys.argv[1:])
else:
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    runpy.run_path(script, run_name="__main__")
"""

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\b-?(?:nan|inf)\b")
DURATION = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:]+|\d+m ?\d+(\.\d+)?s|\d+:\d\d(:\d\d)?(\.\d+)?"
    r"|\d+(\.\d+)?(e-?\d+)? ?(ms/\w+|s/\w+|it/s|ms|secs?|seconds|s)\b"
    r"|(?i:ms/batch|s/it|fps|time|took|elapsed|sps)\W*-?\d+(\.\d+)?"
)


class Run:
    """One program under one backend: its lines, each with the processor time that the program had used by then."""

    def __init__(self, backend, script, args, limits, other_rounding=False):
        self.backend, self.lines, self.errors, self.begun, self.stopped = backend, [], [], 0.0, False
        environment = dict(os.environ, MPLBACKEND="Agg", PYTHONUNBUFFERED="1", THREADS=str(limits.threads))
        environment["OMP_NUM_THREADS"] = environment["BRISK_NUM_THREADS"] = str(limits.threads)
        environment["PYTHONPATH"] = os.pathsep.join([*limits.path, environment.get("PYTHONPATH", "")])
        environment.update({name: "1" for name in ("LOSSES", "DOUBLE") if getattr(limits, name.lower())})
        if other_rounding:
            environment.update(ATEN_CPU_CAPABILITY="default", MKL_CBWR="COMPATIBLE", ROUNDED="1")
        environment["PYTHONHASHSEED"] = "0"
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            CHILD.format(begun=BEGUN),
            backend,
            os.path.abspath(script),
            *args,
        ]
        for left in limits.fresh:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(left) if os.path.isdir(left) else os.remove(left)
        before = cpu_of_children()
        self.child = subprocess.Popen(
            command, cwd=limits.cwd or os.path.dirname(os.path.abspath(script)), env=environment, text=True,
            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        readers = [threading.Thread(target=f) for f in (lambda: self._read(limits.lines), self._read_errors)]
        for reader in readers:
            reader.start()
        try:
            self.child.wait(timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            self._stop()
        for reader in readers:
            reader.join()
        self.ended = cpu_of_children() - before

    def _stop(self):
        self.stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGKILL)  # a group of its own: the program's workers go with it

    def _read(self, limit):
        for line in self.child.stdout:
            if not self.stopped:
                self.lines.append((self._cpu(), line.rstrip()))
            if len(self.lines) >= limit and not self.stopped:
                self._stop()

    def _read_errors(self):
        for line in self.child.stderr:
            if line.startswith(BEGUN):
                self.begun = float(line[len(BEGUN) :])
            else:
                self.errors.append(line.rstrip())

    def _cpu(self):
        try:
            with open(f"/proc/{self.child.pid}/stat") as f:
                user, system = f.read().rpartition(")")[2].split()[11:13]
        except (OSError, ValueError):  # it has ended meanwhile
            return self.lines[-1][0] if self.lines else self.begun
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    @property
    def failed(self):
        return not self.stopped and self.child.returncode != 0

    def time_of_line(self, count):
        """Processor time from `import torch` to the count-th line, or to the end of a run that ended there."""
        whole = not self.stopped and count >= len(self.lines)
        end = self.ended if whole or not count else self.lines[count - 1][0]
        return end - self.begun


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def as_script(path):
    """The path of a script: of a notebook, one beside it that holds its code cells without their shell commands."""
    if not path.endswith(".ipynb"):
        return path
    with open(path) as f:
        cells = json.load(f)["cells"]
    lines = [line for cell in cells if cell["cell_type"] == "code" for line in "".join(cell["source"]).split("\n")]
    name = os.path.basename(path).removesuffix(".ipynb").replace(" ", "_") + "_cells.py"
    script = os.path.join(os.path.dirname(path), name)
    with open(script, "w") as f:
        f.write("\n".join(re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in lines) + "\n")
    return script


def last_digit(number):
    """One unit of the last digit that was printed after the point; nothing for an integer."""
    digits, _, exponent = number.lower().partition("e")
    _, point, fraction = digits.partition(".")
    return 1.01 * 10.0 ** (int(exponent or 0) - len(fraction)) if point else 0.0


def same_line(a, b, atol):
    """How far the numbers of two lines are apart, relatively; None where the lines say something different."""
    a, b = DURATION.sub("<time>", a), DURATION.sub("<time>", b)
    if a == b:
        return 0.0
    if NUMBER.sub("#", a).split() != NUMBER.sub("#", b).split():
        return None
    worst = 0.0
    for first, second in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True):
        x, y = float(first), float(second)
        if x == y or (x != x and y != y):
            continue
        distance = abs(x - y)
        if not distance <= max(atol, last_digit(first), last_digit(second)):
            worst = max(worst, distance / max(abs(x), abs(y)) if distance == distance else float("inf"))
    return worst


def compare(torch, brisk, limits):
    """(lines in common, index of the first that differs or None, greatest relative distance before it)"""
    common = min(len(torch.lines), len(brisk.lines))
    if not torch.stopped and not brisk.stopped and len(torch.lines) != len(brisk.lines):
        common = max(len(torch.lines), len(brisk.lines))
    worst = 0.0
    for i in range(common):
        if i >= len(torch.lines) or i >= len(brisk.lines):
            return common, i, worst
        distance = same_line(torch.lines[i][1], brisk.lines[i][1], limits.atol)
        if distance is None or distance > limits.rtol:
            return common, i, worst
        worst = max(worst, distance)
    return common, None, worst


def agrees(result):
    """Every line agrees, or those do up to where PyTorch departs from itself (or half as far)."""
    if result["agree"] == result["lines"]:
        return True
    return result["steady"] is not None and result["agree"] > 0 and 2 * result["agree"] >= result["steady"]


def run_one(script, args, limits, name):
    script = as_script(script)
    torch = Run("torch", script, args, limits)
    brisk = Run("brisk", script, args, limits)
    common, differs, worst = compare(torch, brisk, limits)
    steady = None
    if differs is not None and not torch.failed and not brisk.failed:
        other = Run("torch", script, args, limits, other_rounding=True)
        steady = compare(torch, other, limits)[1] if not other.failed else None
        if other.failed:
            print(f"    PyTorch, rounded otherwise, fails: {other.errors[-1:]}")
    count = min(len(torch.lines), len(brisk.lines))
    times = torch.time_of_line(count), brisk.time_of_line(count)
    result = {
        "name": name,
        "runs": not brisk.failed,
        "torch_runs": not torch.failed,
        "lines": common,
        "agree": common if differs is None else differs,
        "steady": steady,
        "worst": worst,
        "torch_seconds": round(times[0], 2),
        "brisk_seconds": round(times[1], 2),
    }
    status = "FAILS" if brisk.failed else "agrees" if agrees(result) else "DIFFERS"
    if torch.failed:
        status += " (PyTorch fails too)"
    print(f"{name}: {status}; lines {result['agree']}/{common}, worst {worst:.1e}, "
          f"{times[0]:.2f} s -> {times[1]:.2f} s ({times[0] / max(times[1], 1e-9):.2f}x)", flush=True)  # fmt: skip
    if differs is not None:
        for run in (torch, brisk):
            line = run.lines[differs][1] if differs < len(run.lines) else "<nothing>"
            print(f"    line {differs + 1}, {run.backend}: {line[:200]}")
        if steady is not None:
            print(f"    PyTorch departs from itself, rounded otherwise, at line {steady + 1}")
    for run in (torch, brisk):
        if run.failed:
            print(f"  {run.backend}:", *run.errors[-limits.trace :], sep="\n    ")
    if limits.show:
        for a, b in zip(torch.lines, brisk.lines):
            print(f"    {a[0] - torch.begun:7.2f} {a[1][:90]:90} | {b[0] - brisk.begun:7.2f} {b[1][:90]}")
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list")
    parser.add_argument("--sources", default=".")
    parser.add_argument("--only", action="append")
    parser.add_argument("--path", action="append", default=[])
    parser.add_argument("--cwd")
    parser.add_argument("--fresh", action="append", default=[], help="what a run leaves behind; removed before each")
    parser.add_argument("--lines", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rtol", type=float, default=1e-4)
    parser.add_argument("--atol", type=float, default=1e-7)
    parser.add_argument("--losses", action="store_true", help="print every value that a gradient is asked of")
    parser.add_argument("--double", action="store_true", help="float64 as the default type")
    parser.add_argument("--trace", type=int, default=8, help="lines of a failed run's errors to show")
    parser.add_argument("--show", action="store_true", help="show both outputs side by side")
    parser.add_argument("--json", help="write the results there")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.path = [os.path.abspath(p) for p in options.path]
    if not options.list:
        result = run_one(options.command[0], options.command[1:], options, os.path.basename(options.command[0]))
        return 0 if result["runs"] and agrees(result) else 1
    with open(options.list) as f:
        programs = json.load(f)
    results = []
    for program in programs:
        name = program["repo"] + "/" + program["file"]
        if options.only and not any(part in name for part in options.only):
            continue
        top = os.path.abspath(os.path.join(options.sources, program["repo"].replace("/", "+")))
        limits = argparse.Namespace(**vars(options))
        limits.lines, limits.seconds = program.get("lines", options.lines), program.get("seconds", options.seconds)
        limits.losses, limits.double = program.get("losses", options.losses), program.get("double", options.double)
        limits.cwd = os.path.join(top, program["cwd"]) if "cwd" in program else None
        limits.fresh = [os.path.join(top, p) for p in program.get("fresh", [])]
        limits.path = [os.path.join(top, p) for p in program.get("path", [])] + options.path
        results.append(run_one(os.path.join(top, program["file"]), program.get("args", []), limits, name))
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)
    good = sum(r["runs"] and agrees(r) for r in results)
    print(f"{good} of {len(results)} run and agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
