"""Sums of products with a common factor: one product, of the sum of the other factors."""

import os

import brisk
import numpy as np
import pytest
from brisk import _C

H = 40


def numbers(*shape, seed=0):
    return brisk.from_numpy((np.random.default_rng(seed).standard_normal(shape) * 0.3).astype("float32"))


def keys(scored):
    """Attention that projects its keys in every step, as tutorials have it: outputs and gradients."""
    enc, Ua, Wa = numbers(6, 9, H, seed=1).requires_grad_(), numbers(H, H, seed=2), numbers(H, H, seed=3)
    Ua.requires_grad_(), Wa.requires_grad_()
    h, outs = numbers(6, H, seed=4), []
    for _ in range(5):
        scores = brisk.tanh((h @ Wa.t()).unsqueeze(1) + brisk.nn.functional.linear(enc, Ua)).sum(2)
        h = brisk.tanh((scored(scores).unsqueeze(2) * enc).sum(1))
        outs.append(h)
    y = brisk.stack(outs)
    y.square().sum().backward()
    return [y, enc.grad, Ua.grad, Wa.grad]


def sums(m=40):
    """Sums of products, forward and backward, in both orders of the factors."""
    W, x = numbers(H, H, seed=5).requires_grad_(), [numbers(m, H, seed=k) for k in range(6)]
    left = x[0].tanh() @ W + x[1].tanh() @ W + x[2].tanh() @ W
    right = W @ x[3].t().contiguous().tanh() + W @ x[4].t().contiguous().tanh()
    apart = x[5].tanh() @ W.tanh() + x[0].exp() @ W
    (left * right.t() + apart).sum().backward()
    return [left, right, apart, W.grad]


def narrow():
    W = numbers(3, 3, seed=9)
    return numbers(50, 3).exp() @ W + numbers(50, 3, seed=1).exp() @ W


def found(run):
    brisk.compiler.reset()
    before = _C._plan_facts()["FACTORED"]
    run()
    return _C._plan_facts()["FACTORED"] - before


PROGRAMS = {"keys": lambda: keys(lambda s: s.softmax(1)), "sums": sums, "few columns": lambda: sums(3)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_have_the_values_of_single_products(name):
    together = PROGRAMS[name]()
    _C._evaluate_at_once(True)
    try:
        apart = PROGRAMS[name]()
    finally:
        _C._evaluate_at_once(False)
    for a, b in zip(together, apart, strict=True):
        scale = max(1.0, float(b.detach().abs().max()))
        np.testing.assert_allclose(a.detach().numpy() / scale, b.detach().numpy() / scale, rtol=1e-4, atol=2e-6)


@pytest.mark.skipif(os.environ.get("BRISK_EAGER", "0") != "0", reason="nothing is rewritten")
def test_they_are_found():
    assert found(PROGRAMS["keys"]) == 1  # the gradient of the weight
    assert found(sums) >= 2


@pytest.mark.skipif(os.environ.get("BRISK_EAGER", "0") != "0", reason="nothing is rewritten")
def test_products_that_are_as_cheap_as_additions_are_left_alone():
    assert found(lambda: narrow().sum().item()) == 0


def test_what_somebody_holds_is_there():
    a, b, c, W = (numbers(H, H, seed=k) for k in range(4))
    W = W.exp()
    first = a.exp() @ W
    two = first + b.exp() @ W
    three = two + c.exp() @ W
    expected = [np.exp(v.numpy()) @ W.numpy() for v in (a, b, c)]
    np.testing.assert_allclose(first.numpy(), expected[0], rtol=1e-4)
    np.testing.assert_allclose(two.numpy(), expected[0] + expected[1], rtol=1e-4)
    np.testing.assert_allclose(three.numpy(), sum(expected), rtol=1e-4)


def test_no_bit_of_them_depends_on_the_number_of_threads():
    threads = brisk.get_num_threads()
    results = []
    for n in (1, 2, 5):
        brisk.set_num_threads(n)
        results.append([v.detach().numpy().copy() for v in (*PROGRAMS["keys"](), *sums())])
    brisk.set_num_threads(threads)
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))


def test_a_factor_whose_address_is_known_is_read_before_it_is_written_to():
    W, a, b = numbers(H, H, seed=1), numbers(H, H, seed=2), numbers(H, H, seed=3)
    W.data_ptr()
    expected = np.exp(a.numpy()) @ W.tolist() + np.exp(b.numpy()) @ W.tolist()
    x, y = a.exp() @ W, b.exp() @ W
    W.add_(1)
    total = x + y
    del x, y
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-4, atol=1e-5)
