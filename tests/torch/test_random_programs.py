"""Random programs agree with PyTorch: evaluated at once and lazily, on every instruction set, with one thread and two.

BRISK_PROGRAMS sets how many programs run in all (2000 unless told). For long runs see fuzz.py."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.torch import fuzz, mutants, programs
from tests.torch.compare import SUT

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = int(os.environ.get("BRISK_PROGRAMS", "2000"))


def instruction_sets():
    """The levels this machine has, slowest first."""
    levels = ["baseline", "avx2", "avx512"]
    isa = getattr(SUT, "isa", None)
    best = isa() if callable(isa) else "avx2" if "avx2" in Path("/proc/cpuinfo").read_text() else "baseline"
    return levels[: levels.index(best) + 1]


CONFIGURATIONS = [
    {},
    {"BRISK_EAGER": "1"},
    {"BRISK_CHECK_PLAN": "1"},
    {"BRISK_NUM_THREADS": "1"},
    {"BRISK_NUM_THREADS": "2", "BRISK_CHECK_PLAN": "1"},
    {"BRISK_NUM_THREADS": "2", "BRISK_EAGER": "1"},
] + [{"BRISK_ISA": level} for level in instruction_sets()]


@pytest.mark.parametrize(
    "number",
    range(len(CONFIGURATIONS)),
    ids=[" ".join(f"{k}={v}" for k, v in c.items()) or "default" for c in CONFIGURATIONS],
)
def test_random_programs_agree_with_pytorch(number):
    share = max(PROGRAMS * 4 // 5 // len(CONFIGURATIONS), 1)
    command = [sys.executable, "-m", "tests.torch.fuzz", "--programs", str(share), "--seed", str(number + 1)]
    environment = {**os.environ, **CONFIGURATIONS[number]}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"


@pytest.mark.parametrize("check", ["0", "1"])
def test_random_programs_agree_with_pytorch_when_their_backward_passes_are_replayed(check):
    command = [sys.executable, "-m", "tests.torch.fuzz", "--programs", str(max(PROGRAMS // 20, 1)), "--seed", "77"]
    environment = {**os.environ, "BRISK_CHECK_PLAN": check}
    done = subprocess.run(
        [*command, "--grad", "--rehearsed"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=max(PROGRAMS // 20, 1), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), length=st.integers(3, 14), grad=st.booleans())
def test_hypothesis_finds_no_program_that_differs(rng, length, grad):
    """Hypothesis looks for short programs: it drives every choice of the generator, and shrinks through them."""
    program = programs.Generator(rng, length, grad).program(seed=-1)
    failure = programs.failure_of(program)
    assert failure is None, f"{failure}\n{program.source()}"


@pytest.mark.filterwarnings("ignore")
def test_one_program_after_another_in_one_process_with_shared_plans():
    """The same program twice: the second run hits whatever the first left in a cache."""
    for seed in range(max(PROGRAMS * 3 // 40, 1)):
        program = programs.generate(10**9 + seed)
        for attempt in range(2):
            failure = programs.failure_of(program)
            assert failure is None, f"run {attempt + 1}: {failure}\n{program.source()}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", mutants.HARMFUL)
def test_the_comparison_notices(name):
    """A broken PyTorch is found out within some hundred programs; the reproducer is short."""
    around = mutants.MUTANTS[name]()
    for seed in range(3000):
        program, failure = fuzz.run_one(seed, around, module=programs.REF)
        if failure:
            assert len(program.steps) <= 12, program.source()
            return
    pytest.fail("nothing was noticed")


@pytest.mark.filterwarnings("ignore")
def test_the_comparison_does_not_mind_the_last_digit_of_functions_that_round():
    around = mutants.MUTANTS["ulp"]()
    for seed in range(300):
        program = programs.generate(seed)
        failure = programs.failure_of(program, around=around, module=programs.REF)
        assert failure is None, f"{failure}\n{program.source()}"


def test_programs_are_the_same_for_the_same_seed():
    seeds = random.Random(5).sample(range(10**6), 5)
    assert [programs.generate(s).source() for s in seeds] == [programs.generate(s).source() for s in seeds]
