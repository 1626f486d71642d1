"""Numbers beside 16-bit floats, at kinks and at the ends of ranges: the values that PyTorch gives, bit for bit."""

import math

import pytest

from tests.torch.compare import REF, SUT
from tests.torch.scripts import evaluate, lines_of

SETUP = (
    "inf, nan = float('inf'), float('nan'); h = torch.tensor([0, 1, -2, inf], dtype=torch.float16);"
    " bf = torch.tensor([0, 1, -2], dtype=torch.bfloat16); x = torch.tensor([0, -0., 1, -1, nan]);"
    " b = torch.tensor([True, False]); m = torch.tensor([True, False, True]); i = torch.tensor([1]); z = torch.zeros(3)"
)


def answer(m, line):
    try:
        result = evaluate(m, f"{SETUP} :: {line}")
    except Exception as e:
        return type(e).__name__, str(e).partition("\n")[0]
    return str(result.dtype).rpartition(".")[2], str(result.tolist())


def check(line):
    assert answer(SUT, line) == answer(REF, line)


BESIDE_16_BITS = """
torch.mul(70000, h)
torch.multiply(70000, h)
torch.mul(70000, h[0])
torch.mul(1.001, h)
torch.mul(1e39, bf)
70000 * h
h * 70000
h.mul_(70000)
h.lerp(torch.ones_like(h), 70000)
h.lerp_(torch.ones_like(h), 70000.)
torch.zeros_like(h).lerp(torch.full_like(h, 1e-4), 70000)
torch.lerp(bf, torch.ones_like(bf), 1e39)
torch.lerp(z, z, 1e39)
F.leaky_relu(h, 70000)
F.leaky_relu(h * 1e-4, 70000)
F.leaky_relu(h[2], .3333)
F.elu(h, 70000.)
F.celu(h, 70000.)
F.softplus(h, 70000)
F.threshold(h, 0, 70000)
F.hardshrink(h, 70000)
F.softshrink(h, 70000)
F.softshrink(bf, 1e39)
F.softshrink(x, -1)
"""


@pytest.mark.parametrize("line", lines_of(BESIDE_16_BITS))
def test_a_number_beside_16_bits_is_rounded_where_pytorch_rounds_it(line):
    check(line)


@pytest.mark.parametrize("function", ["F.elu(x, A)", "F.celu(x, A)", "F.selu(x)", "F.elu(x.double(), A)"])
@pytest.mark.parametrize("alpha", [1.0, -1.0, math.inf, -math.inf, 2.5])
def test_an_activation_of_zero_is_that_zero(function, alpha):
    def zeros(m):
        return str(evaluate(m, f"{SETUP} :: {function.replace('A', repr(alpha))}")[:2].tolist())

    def zeros_of_many(m):
        many = evaluate(m, f"{SETUP}; x = x[:2].repeat(400) :: {function.replace('A', repr(alpha))}")
        return str(many.tolist())

    assert zeros(SUT) == zeros(REF) and zeros_of_many(SUT) == zeros_of_many(REF)


POWERS = """
b ** True
b ** False
b.pow(True)
b.clone().pow_(False)
b[1] ** True
torch.pow(b, False)
b ** 2
b ** b
"""


@pytest.mark.parametrize("line", lines_of(POWERS))
def test_a_truth_to_the_power_of_a_truth_is_one(line):
    check(line)


BOUNDS = """
z.masked_fill(m, torch.tensor(1e300, dtype=torch.float64))
z.masked_fill_(m, torch.tensor(1e300, dtype=torch.float64))
z.masked_fill(m, torch.tensor(1e30, dtype=torch.float64))
z.masked_fill(m, torch.tensor(-inf, dtype=torch.float64))
z.half().masked_fill(m, torch.tensor(70000.))
z.half().masked_fill(m, torch.tensor(70000))
z.index_fill(0, i, torch.tensor(1e300, dtype=torch.float64))
z.index_fill_(0, i, torch.tensor(1e300, dtype=torch.float64))
z.half().index_fill(0, i, torch.tensor(70000.))
z.char().index_fill(0, i, torch.tensor(300))
z.char().index_fill(0, i, torch.tensor(1.5))
torch.histc(z, 4, 0, 1e39)
torch.histc(z, 4, 1e39, 0)
torch.histc(z.half(), 4, 0, 70000)
torch.arange(0, 3, nan)
torch.arange(0, nan)
torch.arange(0, 3, inf)
"""


@pytest.mark.parametrize("line", lines_of(BOUNDS))
def test_a_value_or_bound_that_the_dtype_cannot_hold_is_refused(line):
    check(line)
