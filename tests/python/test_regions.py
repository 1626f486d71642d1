"""Norms, softmax, sums and elements of rows in a cell, and losses in the loop: each core takes its rows through all
steps, as it does without them."""

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
    "a norm by hand": lambda z: (z - z.mean(1, keepdim=True)) / (z.var(1, unbiased=False, keepdim=True) + 0.1).sqrt(),
    "a softmax by hand": lambda z: z.exp() / z.exp().sum(1, keepdim=True),
    "a scale without a dimension of its own": lambda z: z.tanh() * (0.1 + z.square().mean(1)).sqrt()[:, None],
    "unit length": lambda z: z / (z.norm(dim=1, keepdim=True) + 1),
    "attention": lambda z: z.tanh() * z.sum(1, keepdim=True).sigmoid(),
    "elements of rows": lambda z: z.tanh() + z.gather(1, PLACES[: len(z)]) * 0.3,
    "elements in other places": lambda z: brisk.zeros_like(z).scatter(1, PLACES[: len(z)], z.tanh()),
    "the greatest of a row": lambda z: z.tanh() - z.amax(1, keepdim=True) * 0.1,
}
PLACES = brisk.stack([brisk.arange(H).roll(r) for r in range(257)])

ONE_STRETCH = CELLS


def numbers(*shape, seed):
    return brisk.from_numpy((np.random.default_rng(seed).standard_normal(shape) * 0.3).astype("float32"))


WEIGHT = numbers(H, seed=3).requires_grad_()


LOSSES = {
    "a mean": lambda h, t: h.square().mean(),
    "cross entropy": lambda h, t: F.cross_entropy(h @ OUT, LABELS[t, : len(h)]),
    "a weighted sum": lambda h, t: 0.5 * (h - OUT[t]).abs().sum() / (t + 1),
    "a norm that is written down": lambda h, t: NORMS[t : t + 1].copy_(h.detach().norm()).sum() * 0 + h.norm(),
}
OUT = numbers(H, H, seed=4).requires_grad_()
LABELS = (brisk.arange(T * 257) % H).reshape(T, 257)
NORMS = brisk.zeros(T)


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


def losing(loss, rows):
    """The losses of a loop, added up, and its gradients."""
    x, Wx, Wh = numbers(T, rows, H, seed=0), *(numbers(H, H, seed=k).requires_grad_() for k in (1, 2))
    OUT.grad = None
    h, total = brisk.zeros(rows, H), 0
    for t in range(T):
        h = brisk.tanh(x[t] @ Wx + h @ Wh)
        total = total + loss(h, t)
    total.backward()
    found = [total, h, Wx.grad, Wh.grad, OUT.grad, NORMS]
    return [v.detach().numpy().copy() for v in found if v is not None]


def found(fact, run):
    brisk.compiler.reset()
    before = _C._plan_facts()[fact]
    run()
    return _C._plan_facts()[fact] - before


def regions(run):
    return found("REGION", run)


def close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * max(1, np.abs(b).max()))


def at_once(run):
    _C._evaluate_at_once(True)
    try:
        return run()
    finally:
        _C._evaluate_at_once(False)


@pytest.mark.skipif(os.environ.get("BRISK_EAGER", "0") != "0", reason="there are no regions")
@pytest.mark.parametrize("name", ONE_STRETCH)
def test_a_row_kernel_in_a_cell_does_not_end_the_stretch(name):
    assert 1 <= regions(lambda: trained(CELLS[name], 16)) <= 4


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 16, 257])
@pytest.mark.parametrize("name", CELLS)
def test_the_stretch_has_the_values_of_single_steps(name, rows):
    together, apart = trained(CELLS[name], rows), at_once(lambda: trained(CELLS[name], rows))
    close(together, apart)


@pytest.mark.skipif(os.environ.get("BRISK_EAGER", "0") != "0", reason="there are no regions")
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_in_the_loop_does_not_end_the_stretch(name):
    assert 1 <= regions(lambda: losing(LOSSES[name], 16)) <= 4
    assert found("PUT_OFF", lambda: losing(LOSSES[name], 16)) >= T


@pytest.mark.parametrize("rows", [1, 3, 4, 16, 257])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_in_the_loop_have_the_values_of_single_steps(name, rows):
    together, apart = losing(LOSSES[name], rows), at_once(lambda: losing(LOSSES[name], rows))
    close(together, apart)


@pytest.mark.parametrize("pinned", [False, True])
def test_a_number_of_memory_that_is_written_to_later_is_that_of_before(pinned):
    W, memory = numbers(H, H, seed=1), brisk.ones(3, H)
    if pinned:
        memory.data_ptr()
    h, sums = numbers(16, H, seed=2), []
    for _ in range(T):
        h = brisk.tanh(h @ W)
        sums.append(memory[1].sum() * 1)
        memory.add_(1)
    assert [s.item() for s in sums] == [H * (t + 1.0) for t in range(T)]


@pytest.mark.parametrize("name", [*CELLS, *LOSSES])
def test_no_bit_of_it_depends_on_the_number_of_threads(name):
    threads = brisk.get_num_threads()
    results = []
    for n in (1, 2, 3, 7):
        brisk.set_num_threads(n)
        results.append(trained(CELLS[name], 16) if name in CELLS else losing(LOSSES[name], 16))
    brisk.set_num_threads(threads)
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))
