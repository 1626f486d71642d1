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

from tests.torch import agreement, fuzz, mutants, programs
from tests.torch.compare import REF, SUT, Difference

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


def run_fuzz(*arguments, **environment):
    command = [sys.executable, "-m", "tests.torch.fuzz", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"


@pytest.mark.parametrize(
    "number",
    range(len(CONFIGURATIONS)),
    ids=[" ".join(f"{k}={v}" for k, v in c.items()) or "default" for c in CONFIGURATIONS],
)
def test_random_programs_agree_with_pytorch(number):
    share = max(PROGRAMS * 4 // 5 // len(CONFIGURATIONS), 1)
    run_fuzz("--programs", share, "--seed", number + 1, **CONFIGURATIONS[number])


@pytest.mark.parametrize("setting", ["BRISK_EAGER", "BRISK_CHECK_PLAN"])
def test_random_training_programs_agree_with_pytorch(setting):
    share = max(PROGRAMS // 50, 1)
    run_fuzz("--training", "--programs", share, "--seed", 7, BRISK_NUM_THREADS="2", **{setting: "1"})


@pytest.mark.parametrize("check", ["0", "1"])
def test_random_programs_agree_with_pytorch_when_their_backward_passes_are_replayed(check):
    share = max(PROGRAMS // 20, 1)
    run_fuzz("--programs", share, "--seed", 77, "--grad", "--rehearsed", BRISK_CHECK_PLAN=check)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_random_programs_agree_with_pytorch_when_logs_are_full_amid_their_ops(limit):
    run_fuzz("--programs", max(PROGRAMS // 40, 1), "--seed", 78 + limit, "--grad", "--log-limit", limit)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=max(PROGRAMS // 20, 1), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), length=st.integers(3, 14), grad=st.booleans())
def test_hypothesis_finds_no_program_that_differs(rng, length, grad):
    """Hypothesis looks for short programs: it drives every choice of the generator, and shrinks through them."""
    program = programs.Generator(rng, length, grad).program(seed=-1)
    failure = agreement.failure_of(program)
    assert failure is None, f"{failure}\n{program.source()}"


@pytest.mark.filterwarnings("ignore")
def test_one_program_after_another_in_one_process_with_shared_plans():
    """The same program twice: the second run hits whatever the first left in a cache."""
    for seed in range(max(PROGRAMS * 3 // 40, 1)):
        program = programs.generate(10**9 + seed)
        for attempt in range(2):
            failure = agreement.failure_of(program)
            assert failure is None, f"run {attempt + 1}: {failure}\n{program.source()}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", mutants.HARMFUL)
def test_the_comparison_notices(name):
    """A broken PyTorch is found out within some hundred programs; the reproducer is short."""
    around = mutants.MUTANTS[name]()
    for seed in range(3000):
        program, failure = fuzz.run_one(seed, around, module=REF)
        if failure:
            assert len(program.steps) <= 12, program.source()
            return
    pytest.fail("nothing was noticed")


@pytest.mark.filterwarnings("ignore")
def test_the_comparison_does_not_mind_the_last_digit_of_functions_that_round():
    around = mutants.MUTANTS["ulp"]()
    for seed in range(300):
        program = programs.generate(seed)
        failure = agreement.failure_of(program, around=around, module=REF)
        assert failure is None, f"{failure}\n{program.source()}"


def test_programs_are_the_same_for_the_same_seed():
    seeds = random.Random(5).sample(range(10**6), 5)
    assert [programs.generate(s).source() for s in seeds] == [programs.generate(s).source() for s in seeds]


STEPS = [
    programs.Step("x = torch.tensor([1.0, 2.0, -9.0])"),
    programs.Step("y = x.exp()", rounds=True),
    programs.Step("d = y - torch.tensor([2.7182818, 7.0, 0.0])"),
    programs.Step("g = torch.nn.functional.gelu(x)", rounds=True),
    programs.Step("s = torch.tensor([[0, -6, -6]]).logsumexp(1)", rounds=True),
]


@pytest.mark.parametrize(
    "name, place, apart, close",
    [
        ("y", 0, 0.9e-5, True),
        ("y", 0, 1.1e-5, False),  # relative to itself, not to its largest neighbour
        ("d", 1, 0.9e-5, True),
        ("d", 0, 2.0, True),  # two units of e, what is left of e - e
        ("d", 0, 100.0, False),
        ("g", 2, -1.0, True),  # PyTorch's is 0, and -1e-18 is right
        ("g", 2, -3.0, False),
        ("s", 0, 1.0, True),  # one unit of the sum, 1.005, that it is the logarithm of
        ("s", 0, 10.0, False),
    ],
)
def test_rough_values_are_within_1e_5_or_within_what_rounding_moves_them_by(name, place, apart, close):
    scope = {"torch": REF}
    for step in STEPS:
        exec(step.line, scope)
    theirs = scope[name]
    unit = {"d": 2.0**-22, "g": 1.0157e-18, "s": 2.0**-23}.get(name) if place != 1 else None
    ours = theirs.double()
    ours[place] += apart * (unit or float(theirs[place]))
    ours = ours.float()
    if close:
        agreement.check_rough(ours, theirs, name, name, STEPS)
    else:
        with pytest.raises(Difference):
            agreement.check_rough(ours, theirs, name, name, STEPS)
