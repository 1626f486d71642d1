"""Random training programs (training_programs.py) give what they give in PyTorch, at once and lazily."""

import warnings

import pytest

from tests.torch import training_programs
from tests.torch.compare import REF, SUT

PROGRAMS, CHUNKS = 120, 6


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_training_programs_are_pytorchs(chunk):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(chunk, PROGRAMS, CHUNKS):
            failure = training_programs.failure_of(seed, SUT, REF)
            assert failure is None, f"program {seed}: {failure}\n{training_programs.generate(seed)}"


def test_most_programs_are_compared_to_their_end():
    ends = [training_programs.recorded(training_programs.generate(seed), REF)[-1] for seed in range(40)]
    assert sum(end is None for end in ends) > 35, [repr(end) for end in ends if end is not None]


def test_a_difference_is_noticed():
    source = training_programs.generate(3)
    theirs = training_programs.recorded(source, REF)
    moved = training_programs.recorded(source, REF, moved=1e-15)
    wrong = source.replace("0.01 * p[", "0.0100001 * p[")
    assert training_programs.difference(theirs, theirs, moved) is None
    assert training_programs.difference(training_programs.recorded(wrong, SUT), theirs, moved) is not None
