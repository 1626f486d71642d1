"""The programs of examples/python print what they print with PyTorch."""

import re

import pytest

from tests.python.test_examples import PROGRAMS, run

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def parts(text):
    """The text without its numbers, and the numbers; times do not count."""
    text = re.sub(r" +[\d.]+ ms", " ms", text)
    return NUMBER.sub("#", text), [float(n) for n in NUMBER.findall(text)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_prints_what_it_prints_with_pytorch(program):
    words, numbers = parts(run(program, "brisk"))
    expected_words, expected = parts(run(program, "torch"))
    assert words == expected_words
    assert numbers == pytest.approx(expected, rel=0.02, abs=0.02)  # printed digits: the last may be rounded otherwise
