"""The programs of examples/python, each run as a user runs it. Those in C are tests of examples/c/meson.build; here
those that are written in both languages are compared, if BRISK_EXAMPLES says where the C programs were built."""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAMS = sorted((pathlib.Path(__file__).parents[2] / "examples" / "python").glob("*.py"))


def run(program, module):
    """What the program prints with `import torch` giving the module of that name."""
    env = {k: v for k, v in os.environ.items() if k != "BRISK_AS_TORCH"}
    how = [] if module == "torch" else ["-m", module, "run"]
    done = subprocess.run([sys.executable, *how, program], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_something(torch, program):
    assert run(program, torch.__name__)


@pytest.mark.parametrize("name", ["training", "char_lstm"])
def test_the_same_program_in_c_prints_the_same_losses(name):
    if "BRISK_EXAMPLES" not in os.environ:
        pytest.skip("BRISK_EXAMPLES is not set")
    c = subprocess.run([os.path.join(os.environ["BRISK_EXAMPLES"], name)], capture_output=True, text=True, timeout=300)
    assert c.returncode == 0, c.stderr
    lines = c.stdout.splitlines()
    assert sum("loss" in line for line in lines) >= 4
    assert run(PROGRAMS[0].with_name(f"{name}.py"), "brisk").splitlines()[: len(lines)] == lines


def test_there_are_examples():
    assert len(PROGRAMS) >= 10
