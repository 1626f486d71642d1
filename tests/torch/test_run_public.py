"""The comparison of public programs: which lines are the same, and what of a notebook is run."""

import importlib.util
import json
import pathlib

import pytest

SPEC = importlib.util.spec_from_file_location(
    "run_public", pathlib.Path(__file__).parent.parent.parent / "tools" / "run_public.py"
)
run_public = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(run_public)


@pytest.mark.parametrize(
    "first, second",
    [
        ("loss 0.123", "loss 0.124"),
        ("loss 1.23e-05", "loss 1.24e-05"),
        ("epoch 3 took 1.5s", "epoch 3 took 2.5s"),
        ("nan", "nan"),
    ],
)
def test_lines_are_the_same_up_to_the_last_digit_printed_and_to_durations(first, second):
    assert run_public.same_line(first, second, 0.0) == 0.0


def test_integers_have_no_last_digit_to_differ_in():
    assert run_public.same_line("right: 90", "right: 91", 0.0) == pytest.approx(1 / 91)


def test_a_difference_is_relative_to_the_greater_number():
    assert run_public.same_line("loss 2.00", "loss 1.00", 0.0) == 0.5
    assert run_public.same_line("loss 2.00", "cost 2.00", 0.0) is None


def test_of_a_notebook_the_code_without_shell_commands_is_run(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["no code"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "x = 1\n", "if x:\n", "    !ls"]},
        {"cell_type": "code", "source": ["print(x)"]},
    ]
    notebook = tmp_path / "two words.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    script = run_public.as_script(str(notebook))
    assert pathlib.Path(script).read_text() == "pass\nx = 1\nif x:\n    pass\nprint(x)\n"
