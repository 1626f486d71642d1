"""Python numbers that a dtype cannot hold are refused where PyTorch refuses them, and taken exactly elsewhere."""

import pytest

from tests.torch.compare import REF, SUT, Raised, outcome
from tests.torch.scripts import compare_lines, evaluate, lines_of

DTYPES = ("float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
NUMBERS = [
    "300",
    "-1",
    "-300",
    "256",
    "2**31",
    "-2**40",
    "2**63-1",
    "-2**62",
    "-2**70",
    "70000.0",
    "1e30",
    "1e300",
    "1.5",
]
USES = """
x.pow(V) ; x ** V ; x.pow_(V) ; x.clamp(V) ; x.clamp(max=V) ; x.clamp_min(V) ; x.clamp_max(V) ; x.fill_(V)
torch.full((2,), V, dtype=x.dtype) ; torch.full_like(x, V) ; x.new_full((2,), V) ; x.add(V) ; x + V ; V - x ; x.mul(V)
x.masked_fill(x > 0, V) ; x.masked_fill_(x > 0, V) ; x.index_fill(0, i, V) ; x.scatter(0, i, V) ; x.scatter_(0, i, V)
x.__setitem__(0, V) ; x.__setitem__(slice(None), V) ; x.__setitem__(i, V) ; x.__setitem__(x > 0, V)
x.add(x, alpha=V) ; x.sub(x, alpha=V) ; torch.addcmul(x, x, x, value=V) ; torch.where(x > 0, x, V)
F.threshold(x, V, 1) ; F.pad(x, (1, 1), value=V) ; torch.linspace(0, V, 2, dtype=x.dtype)
torch.scalar_tensor(V, dtype=x.dtype)
torch.tensor(V, dtype=x.dtype) ; torch.tensor([V], dtype=x.dtype) ; x // V ; x % V ; x.fmod(V) ; x == V ; x < V
torch.baddbmm(x.view(3, 1, 1), x.view(3, 1, 1), x.view(3, 1, 1), alpha=V) ; F.hardtanh(x, -1, V)
"""
USES = [use.strip() for line in lines_of(USES) for use in line.split(";")]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", USES)
def test_a_number_is_taken_or_refused_as_in_pytorch(use, dtype):
    for number in NUMBERS:
        if "baddbmm" in use and "2**6" in number and dtype == "int64":
            continue  # factors of products are doubles
        if dtype == "uint8" and number == "-1" and "linspace" in use or number == "-2**70" and "F." in use:
            continue  # which depends on how PyTorch's signature reads the number
        code = use.replace("V", f"({number})")
        line = f"x = torch.tensor([1, 0, 2]).to(torch.{dtype}); i = torch.tensor([0]) :: ({code}, x)"
        compare_lines(line)
        theirs, ours = (outcome(evaluate, m, line) for m in (REF, SUT))
        if isinstance(theirs, Raised) and "without overflow" in str(theirs.error):
            assert str(ours.error) == str(theirs.error), line


EXACT = """
torch.zeros(3, dtype=torch.int64).masked_fill(torch.tensor([True, False, True]), 2**63 - 1)
torch.zeros(3, dtype=torch.int64).index_fill(0, torch.tensor([1]), 2**62 + 1)
torch.zeros(3, dtype=torch.int64).scatter(0, torch.tensor([1]), 2**62 + 1)
torch.zeros(3, dtype=torch.uint8).index_fill(0, torch.tensor([1]), -1)
torch.isin(torch.tensor([0.1, 2.0]), 0.1)
torch.isin(torch.tensor([1, 2]), 1, invert=True)
torch.isin(1, torch.tensor([1, 2]))
torch.addcmul(torch.tensor([1, 2]), torch.tensor([1, 2]), torch.tensor([3, 4]), value=1.5)
"""


@pytest.mark.parametrize("line", lines_of(EXACT))
def test_large_integers_and_numbers_for_tensors_are_taken_as_they_are(line):
    compare_lines(line)
