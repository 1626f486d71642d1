"""What public programs once found: ways to call that no table of operations has."""

import pytest

from tests.torch.compare import REF, SUT, check_tensor


@pytest.mark.parametrize("arguments", [{"split_size": [2, 4]}, {"split_size": 4}, {"split_size": (1, 5), "dim": -1}])
def test_split_takes_its_sizes_by_name(arguments):
    ours, theirs = (m.arange(6.0).split(**arguments) for m in (SUT, REF))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        check_tensor(a, b, f"split {arguments}")
