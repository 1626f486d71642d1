"""Runs many random programs: `python -m tests.torch.fuzz --programs 50000 --seed 1`.

Prints each failure with a small script that reproduces it, and a line of totals; the exit status is 1 if any failed.
`--training` runs those of training_programs.py.
`--mutant NAME` breaks PyTorch on purpose (mutants.py) and uses it as the module under test: the fuzzer must notice.
"""

import argparse
import sys
import time
import warnings
from collections import Counter

from tests.torch import agreement, mutants, programs, training_programs
from tests.torch.compare import REF, SUT
from tests.torch.rehearse import rehearse


def run_one(seed, around=None, module=None, grad=False, rehearsed=False):
    """The program of this seed and None; or, if it fails, what it shrinks to and the failure."""
    how = {"around": around, "module": module}
    program = programs.generate(seed, grad=grad)
    if rehearsed:
        rehearse(program)
    failure = agreement.failure_of(program, **how)
    if failure is None:
        return program, None
    smaller = agreement.shrink(program, failure, **how)
    return smaller, agreement.failure_of(smaller, **how) or failure


def run_training(options):
    """Training programs instead; the exit status."""
    failures, first = 0, options.seed * 1_000_003
    for seed in range(first, first + options.programs):
        failure = training_programs.failure_of(seed, SUT, REF)
        if failure:
            failures += 1
            print(f"--- training program {seed}: {failure}\n{training_programs.generate(seed)}", flush=True)
        if failures >= options.stop_after:
            break
    print(f"{seed - first + 1} training programs, {failures} failures")
    return 1 if failures else 0


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop-after", type=int, default=10, help="failures after which to stop")
    parser.add_argument("--mutant", choices=sorted(mutants.MUTANTS))
    parser.add_argument("--grad", action="store_true", help="every program has gradients")
    parser.add_argument("--rehearsed", action="store_true", help="run twice with other numbers before (rehearse.py)")
    parser.add_argument("--log-limit", type=int, help="records after which a log is evaluated, amid an op or not")
    parser.add_argument("--training", action="store_true", help="training programs instead (training_programs.py)")
    parser.add_argument("--show", action="store_true", help="print every program")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    REF.set_num_threads(1)
    if options.log_limit:
        SUT._C._log_limit(options.log_limit)
    if options.training:
        return run_training(options)
    around, module = (mutants.MUTANTS[options.mutant](), REF) if options.mutant else (None, None)
    start, failures, steps, done = time.time(), Counter(), 0, 0
    for seed in range(options.seed * 1_000_003, options.seed * 1_000_003 + options.programs):
        program, failure = run_one(seed, around, module, options.grad, options.rehearsed)
        done += 1
        steps += len(program.steps)
        if options.show:
            print(f"# {seed}", *[step.line for step in program.steps], sep="\n")
        if failure:
            failures[failure.kind] += 1
            print(f"--- program {seed}: {failure}\n{program.source()}", flush=True)
            if sum(failures.values()) >= options.stop_after:
                break
    seconds = time.time() - start
    print(
        f"{done} programs, {steps} steps, {sum(failures.values())} failures, "
        f"{seconds:.1f} s ({1e3 * seconds / done:.2f} ms each)"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
