"""Gradients where a function has a kink, a tie, an infinite slope or no value: they are PyTorch's, line by line.

Both orders are compared: the gradient, and the gradient of its weighted sum where PyTorch has one."""

import math

import numpy as np
import pytest

from tests.torch.compare import REF, SUT, Raised, check_same, outcome, tensor_of

EDGE = [-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, -3.0, 1.0, 0.0]
TIES = [[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [0.0, 0.0, -1.0, 0.0]]
NANS = [[1.0, math.nan, 3.0, 0.0], [2.0, 2.0, math.inf, 2.0], [math.nan, 0.0, -math.inf, math.nan]]

AT_EDGES = """
x.abs() | x.relu() | x.sign() | x.sqrt() | x.rsqrt() | x.log() | x.log1p() | x.reciprocal() | x ** 0 | x ** 0.5 | x ** 1
x ** 2 | x ** 3 | x ** -1 | 0.0 ** x | 2 ** x | x.clamp(0, 1) | x.clamp(min=0.5) | x.clamp(max=-0.5) | x.frac()
x.floor() | x.round() | x.asin() | x.acos() | x.atanh() | x.erfinv() | x.logit() | x.sigmoid() | x.hypot(x)
torch.nn.functional.leaky_relu(x) | torch.nn.functional.elu(x) | torch.nn.functional.hardtanh(x)
torch.nn.functional.softplus(x) | torch.nn.functional.gelu(x) | torch.nn.functional.silu(x)
torch.sinc(x) | torch.nn.functional.relu6(x) | torch.nn.functional.hardswish(x)
torch.nn.functional.softsign(x) | torch.nn.functional.selu(x) | torch.nn.functional.celu(x)
torch.maximum(x, torch.zeros(())) | torch.minimum(x, x.detach()) | torch.fmax(x, torch.zeros(())) | torch.fmin(x, -x)
torch.atan2(x, x * 0) | torch.atan2(x * 0, x) | torch.pow(x, x) | torch.xlogy(x, x) | torch.logaddexp(x, x)
x.norm() | (x * 0).norm() | (x * 0).norm(1) | x.norm(3) | (x * 0).norm(3) | x.norm(float('inf'))
x.prod() | x.cumprod(0) | x.var() | (x * 0).std() | x.logsumexp(0) | x.softmax(0) | x.cummax(0)[0] | x.logcumsumexp(0)
torch.where(x > 0, x.sqrt(), x * 2) | torch.where(x > 0, x.log(), torch.zeros(())) | x.log().masked_fill(x <= 0, 0.0)
torch.where(x != 0, 1 / x, x) | x.sqrt()[x > 0] | x.remainder(1.0) | x.fmod(2.0) | x % 0.5 | x.copysign(torch.ones(()))
x.nan_to_num() | x.square() | x.exp() | x.tanh() | x.lerp(x * 2, 0.0) | x.heaviside(torch.ones(()))
torch.div(x, 0, rounding_mode="trunc") | torch.div(x, x, rounding_mode="trunc") | torch.div(1, x, rounding_mode="trunc")
torch.div(x, 0, rounding_mode="floor") | torch.div(x, x, rounding_mode="floor") | torch.div(1, x, rounding_mode="floor")
(x * 1).div_(0, rounding_mode="trunc") | torch.special.xlog1py(x, x.detach()) | torch.special.xlog1py(x, x + 0.25)
torch.special.entr(x) | torch.nn.functional.huber_loss(x, x.detach() * 0, reduction="none")
torch.nn.functional.smooth_l1_loss(x, x.detach() * 0)
torch.nn.functional.smooth_l1_loss(x, x.detach() - 0.5, beta=0.5)
"""
AT_TIES = """
x.max() | x.min() | x.amax() | x.amin() | x.amax(1) | x.amin(0) | x.amax((0, 1)) | x.max(1)[0] | x.min(0)[0]
x.median() | x.median(1)[0] | x.nanmedian() | x.mode(1)[0] | x.sort(1)[0] | x.sort(1, stable=True)[0] | x.aminmax()[0]
x.norm(float('inf'), 1) | x.norm(-float('inf'), 1) | x.prod(1) | x.cummax(1)[0] | x.cummin(1)[0]
x.std(1) | x.var(0) | x.norm(dim=1) | x.norm(1.5, 1) | x.logsumexp(1) | x.log_softmax(1) | x.quantile(0.5, 1)
"""
AT_NANS = """
x.max() | x.min() | x.amax(1) | x.max(1)[0] | x.median() | x.nanmedian() | x.nansum() | x.nan_to_num(1.0)
torch.maximum(x, torch.ones(())) | torch.fmax(x, torch.ones(())) | torch.fmin(torch.ones(()), x) | x.clamp(0, 1)
x.relu() | x.abs() | x.sign() | torch.where(x == x, x, torch.zeros(())) | x.masked_fill(x.isnan(), 2.0) | x.sigmoid()
torch.where(x.isnan(), torch.zeros(()), x * x) | x.nan_to_num().softmax(1) | x.cummax(1)[0] | x.tanh()
"""

# Lines whose second derivative differs from PyTorch's, and whether ours is a number where PyTorch's is NaN (see
# docs/DIFFERENCES.md). The others: inf against NaN at the ends of a domain, and the side that a kink counts to.
SECOND_DIFFERS = {
    "0.0 ** x": True,
    "(x * 0).norm()": True,
    "x.norm(1.5, 1)": True,
    "torch.sinc(x)": True,
    "x.copysign(torch.ones(()))": True,
    "x.asin()": False,
    "x.acos()": False,
    "x.atanh()": False,
    "x.logit()": False,
    "torch.special.entr(x)": False,
    "torch.nn.functional.elu(x)": False,
    "torch.nn.functional.selu(x)": False,
    "torch.nn.functional.celu(x)": False,
}


def lines(text):
    return [line.strip() for row in text.strip().splitlines() for line in row.split("|")]


def derivatives(m, line, data):
    x = tensor_of(m, np.array(data, "float64")).requires_grad_()
    y = eval(line, {"torch": m, "x": x})
    weights = m.arange(1.0, 1 + y.numel(), dtype=m.float64).reshape(y.shape)
    (g,) = m.autograd.grad((y * weights).sum(), x, create_graph=True)
    if not g.requires_grad:
        return g.detach(), m.zeros_like(g)
    (h,) = m.autograd.grad((g * m.arange(1.0, 1 + g.numel(), dtype=m.float64).reshape(g.shape)).sum(), x,
                           allow_unused=True, materialize_grads=True)  # fmt: skip
    return g.detach(), h + 0  # PyTorch's may be zeros without memory


CASES = [(data, line) for data, text in ((EDGE, AT_EDGES), (TIES, AT_TIES), (NANS, AT_NANS)) for line in lines(text)]


@pytest.mark.parametrize("data,line", CASES, ids=[line for _, line in CASES])
def test_the_derivatives_at_an_edge(data, line):
    ours, theirs = outcome(derivatives, SUT, line, data), outcome(derivatives, REF, line, data)
    if line in SECOND_DIFFERS:
        ours, theirs = ours[0], theirs[0]
    check_same(ours, theirs, line, strides=None, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("line", [line for line, better in SECOND_DIFFERS.items() if better])
def test_the_second_derivative_has_no_nan_where_pytorch_has(line):
    data = EDGE if line in lines(AT_EDGES) else TIES
    ours, theirs = derivatives(SUT, line, data)[1], derivatives(REF, line, data)[1]
    assert not ours.isnan().any() and theirs.isnan().any()


@pytest.mark.parametrize("line", ["torch.nn.functional.hardsigmoid(x)", "x.norm(0)"])
def test_a_gradient_that_pytorch_refuses(line):
    assert isinstance(outcome(derivatives, REF, line, EDGE), Raised)
    _, second = derivatives(SUT, line, EDGE)
    assert not second.any()


def test_outside_of_its_domain_acosh_has_no_gradient():
    data = [-2.0, 0.5, 2.0]
    ours, theirs = derivatives(SUT, "x.acosh()", data)[0], derivatives(REF, "x.acosh()", data)[0]
    assert ours.isnan().tolist() == [True, True, False] and not theirs[0].isnan()
    assert ours[2].item() == pytest.approx(theirs[2].item())
