"""torch.special, second forms of functions, and functorch, against PyTorch."""

import importlib

import numpy as np
import pytest
import torch

from tests.torch.compare import REF, SUT, check_same, outcome

POINTS = np.array([-45.0, -29.9, -12.0, -7.5, -2.0, -0.3, 0.0, 1e-4, 0.7, 3.0, 9.5, 29.9, 30.1, 60.0])
UNIT = np.array([0.001, 0.2, 0.5, 0.93, 0.9999])

CALLS = {
    "sinc": POINTS[np.abs(POINTS) > 0.2],  # its slope near 0 is a difference of great numbers, here and there
    **dict.fromkeys(("i0", "i0e", "i1", "i1e", "ndtr", "log_ndtr", "entr", "expit", "erfc"), POINTS),
    **dict.fromkeys(("ndtri", "logit", "entr", "gammaln", "psi", "exp2", "log1p", "erfinv"), UNIT),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_special_functions_and_their_slopes(name, dtype):
    def ask(m):
        points = CALLS[name] if dtype == "float64" else CALLS[name][np.abs(CALLS[name]) < 40]
        x = m.tensor(points, dtype=getattr(m, dtype), requires_grad=True)
        y = getattr(m.special, name)(x)
        (slope,) = m.autograd.grad(y.sum(), x)
        return y.detach(), slope

    rtol = 2e-5 if dtype == "float32" else 1e-9 if name == "psi" else 1e-12  # PyTorch's trigamma is the less exact
    check_same(outcome(ask, SUT), outcome(ask, REF), name, rtol=rtol, atol=rtol * 1e-2)


def test_special_functions_of_two_arguments_and_of_integers():
    def ask(m):
        x, y = m.tensor([0.0, 0.0, 2.0, -1.0]), m.tensor([-1.0, float("nan"), 0.5, 3.0])
        return [
            m.special.xlog1py(x, y), m.special.xlog1py(2.0, m.tensor([0.5])), m.special.xlog1py(x, 3),
            m.special.i0(m.arange(3)),
            m.special.multigammaln(m.tensor([3.0, 4.5]), 2), m.special.polygamma(1, m.tensor([0.5])),
            m.special.ndtr(m.tensor([1, 2])), m.i0(m.tensor([1.5])),
        ]  # fmt: skip

    check_same(ask(SUT), ask(REF), "special functions", rtol=1e-6)


SECOND_FORMS = """
clamp_min_(x, 0.1)
clamp_max_(x, 0.1)
fill_(x, 3)
zero_(x)
xlogy_(x, x + 2)
fill(x, 2.5)
fill(x, torch.tensor(7))
t_copy(x)
view_copy(x, (4, 3))
permute_copy(x, (1, 0))
transpose_copy(x, 0, 1)
select_copy(x, 0, 1)
slice_copy(x, 1, 1, 3)
split_copy(x, 2)
unbind_copy(x)
unsqueeze_copy(x, 0)
squeeze_copy(x)
expand_copy(x, (2, 3, 4))
diagonal_copy(x)
detach_copy(x)
alias_copy(x)
constant_pad_nd(x, [1, 2], 5.0)
frobenius_norm(x, (0, 1), False)
frobenius_norm(x, 1, True)
nuclear_norm(x)
kl_div(x, x.exp(), 2)
""".strip().splitlines()


@pytest.mark.parametrize("call", SECOND_FORMS)
def test_second_forms_of_functions(call):
    def ask(m):
        x = m.tensor(np.random.RandomState(4).randn(3, 4).astype("f4"))
        result = eval("torch." + call, {"torch": m, "x": x})
        for one in result if isinstance(result, (tuple, list)) else [result]:
            one.add_(1)  # a copy: x stays as it was, but for the forms that change it
        return result, x

    check_same(ask(SUT), ask(REF), call, strides=False)


def test_functorch_takes_models_apart():
    ours, theirs = importlib.import_module("brisk.functorch"), importlib.import_module("functorch")

    def ask(m, f):
        m.manual_seed(3)
        nets = [m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4)) for _ in range(2)]
        x = m.arange(6.0).reshape(2, 3)
        call, params, buffers = f.make_functional_with_buffers(nets[0])
        with pytest.raises(RuntimeError, match="has buffers"):
            f.make_functional(nets[0])
        plain, weights = f.make_functional(nets[0][0])
        slopes = m.autograd.grad(plain(weights, x).square().sum(), weights)
        both, stacked, _ = f.combine_state_for_ensemble([n[0] for n in nets])
        many = f.vmap(both, (0, 0, None))(stacked, (), x)
        return [call(params, buffers, x).detach(), *slopes, many.detach(), f.functionalize(m.sin)(x)]

    check_same(ask(SUT, ours), ask(torch, theirs), "functorch", rtol=1e-5, atol=1e-6)
