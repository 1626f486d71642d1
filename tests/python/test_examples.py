"""The programs of examples/python, each run as a user runs it. Those in C are tests of examples/c/meson.build."""

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


def test_there_are_examples():
    assert len(PROGRAMS) >= 10
