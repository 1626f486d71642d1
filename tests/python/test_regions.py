"""Norms and softmax in a cell: each core takes its rows through all steps, as it does without them."""

import os

import brisk
import numpy as np
import pytest
from brisk import _C

F = brisk.nn.functional
T, H = 12, 24

CELLS = {
    "layer_norm": lambda z: F.layer_norm(z, (H,)).tanh(),
    "layer_norm with a weight": lambda z: F.layer_norm(z, (H,), WEIGHT, WEIGHT).tanh(),
    "rms_norm": lambda z: F.rms_norm(z, (H,)).tanh(),
    "softmax": lambda z: z.softmax(-1),
    "log_softmax": lambda z: z.log_softmax(1) * 0.1,
    "a norm of the half": lambda z: brisk.cat([F.layer_norm(z[:, : H // 2], (H // 2,)), z[:, H // 2 :].tanh()], 1),
}

ONE_STRETCH = [name for name in CELLS if name != "log_softmax"]  # its gradient adds up rows, which ends a stretch


def numbers(*shape, seed):
    return brisk.from_numpy((np.random.default_rng(seed).standard_normal(shape) * 0.3).astype("float32"))


WEIGHT = numbers(H, seed=3).requires_grad_()


def trained(cell, rows):
    """Outputs and gradients of a loop over the cell."""
    x, Wx, Wh = numbers(T, rows, H, seed=0), *(numbers(H, H, seed=k).requires_grad_() for k in (1, 2))
    WEIGHT.grad = None
    h, outs = brisk.zeros(rows, H), []
    for t in range(T):
        h = cell(x[t] @ Wx + h @ Wh)
        outs.append(h)
    y = brisk.stack(outs)
    (y * y).mean().backward()
    found = [y, Wx.grad, Wh.grad, WEIGHT.grad]
    return [v.detach().numpy().copy() for v in found if v is not None]


def regions(run):
    brisk.compiler.reset()
    before = _C._plan_facts()["REGION"]
    run()
    return _C._plan_facts()["REGION"] - before


@pytest.mark.skipif(os.environ.get("BRISK_EAGER", "0") != "0", reason="there are no regions")
@pytest.mark.parametrize("name", ONE_STRETCH)
def test_a_row_kernel_in_a_cell_does_not_end_the_stretch(name):
    assert 1 <= regions(lambda: trained(CELLS[name], 16)) <= 4


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 16, 257])
@pytest.mark.parametrize("name", CELLS)
def test_the_stretch_has_the_values_of_single_steps(name, rows):
    together = trained(CELLS[name], rows)
    _C._evaluate_at_once(True)
    try:
        apart = trained(CELLS[name], rows)
    finally:
        _C._evaluate_at_once(False)
    for a, b in zip(together, apart, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CELLS)
def test_no_bit_of_it_depends_on_the_number_of_threads(name):
    threads = brisk.get_num_threads()
    results = []
    for n in (1, 2, 3, 7):
        brisk.set_num_threads(n)
        results.append(trained(CELLS[name], 16))
    brisk.set_num_threads(threads)
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))
