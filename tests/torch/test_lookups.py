"""Products of rows that were looked up in a small table: computed in the table, with PyTorch's values and gradients.

Each form says how many of its products become such; the same program without the rewrite has the same bits forward,
and gradients within rounding."""

import os

import numpy as np
import pytest

from tests.torch.compare import REF, SUT

if SUT.__name__ != "brisk":
    pytest.skip("switches of brisk's", allow_module_level=True)

from brisk import _C

V, K, N, B, T = 20, 64, 96, 16, 24
FACT, AT_ONCE = "LOOKED_UP", os.environ.get("BRISK_EAGER", "0") not in ("", "0")


def data(*shape, seed=0, scale=0.3):
    return np.random.default_rng(seed).standard_normal(shape) * scale


class World:
    """A table, a weight, biases and places; the last two rows of the table are never looked up."""

    def __init__(self, m, dtype, seed=0):
        self.m, self.F, self.dtype = m, m.nn.functional, dtype
        self.E, self.W, self.b = (
            m.from_numpy(data(*shape, seed=seed + k).astype(dtype)).requires_grad_(True)
            for k, shape in enumerate([(V, K), (N, K), (N,)])
        )
        self.all_places = m.from_numpy(np.random.default_rng(seed + 9).integers(0, V - 2, (B, T + 1)))
        self.places = self.all_places[:, :T].contiguous()


def finish(w, y, loss=None):
    (loss if loss is not None else (y * w.m.from_numpy(data(*y.shape, seed=7).astype(w.dtype))).sum()).backward()
    return [v.detach().numpy() for v in (y, *(p.grad for p in (w.E, w.W, w.b) if p.grad is not None))]


def linear(w):
    return finish(w, w.F.linear(w.F.embedding(w.places, w.E), w.W, w.b))


def in_another_order(w):
    return finish(w, w.F.linear(w.F.embedding(w.places, w.E).transpose(0, 1), w.W, w.b))


def places_with_gaps(w):
    return finish(w, w.F.linear(w.F.embedding(w.all_places[:, 1:], w.E), w.W, w.b))


def places_with_gaps_in_another_order(w):
    x = w.F.embedding(w.all_places[:, :-1], w.E).transpose(0, 1).contiguous()
    return finish(w, x.view(-1, K) @ w.W.t())


def by_brackets_from_the_end(w):
    return finish(w, w.E[w.places.reshape(-1) - V] @ w.W.t())


def selected(w):
    return finish(w, w.W @ w.m.index_select(w.E, 0, w.places.reshape(-1)).t())


def transposed_weight(w):
    x = w.F.embedding(w.places.reshape(-1), w.E)
    return finish(w, x @ (w.W.t() * 2 + 1))


def rows_are_read_elsewhere_too(w):
    x = w.F.embedding(w.places, w.E)
    y = w.F.linear(x, w.W, w.b)
    return finish(w, y, w.F.relu(y).sum() + x.square().sum())


def rows_are_held(w):
    x = w.F.embedding(w.places, w.E)
    y = w.F.linear(x, w.W, w.b)
    return [*finish(w, y), x.detach().numpy()]


def the_table_is_fixed(w):
    return finish(w, w.F.linear(w.F.embedding(w.places, w.E.detach()), w.W, w.b))


def the_weight_is_fixed(w):
    return finish(w, w.F.linear(w.F.embedding(w.places, w.E), w.W.detach(), w.b))


def two_layers_read_the_rows(w):
    x = w.F.embedding(w.places, w.E)
    return finish(w, w.F.linear(x, w.W, w.b) * w.m.tanh(w.F.linear(x, w.W * 2)))


def a_layer_over_time(w):
    layer = w.m.nn.LSTM(K, 32, batch_first=True)
    layer = layer.double() if w.dtype == "float64" else layer
    with w.m.no_grad():
        for k, p in enumerate(layer.parameters()):
            p.copy_(w.m.from_numpy(data(*p.shape, seed=k + 20).astype(w.dtype)))
    y = layer(w.F.embedding(w.places, w.E))[0]
    return [*finish(w, y), *(p.grad.numpy() for p in layer.parameters())]


def the_table_is_written_afterwards(w):
    with w.m.no_grad():
        y = w.F.linear(w.F.embedding(w.places, w.E), w.W, w.b)
        w.E.mul_(0.5)
        z = w.F.linear(w.F.embedding(w.places, w.E), w.W, w.b)
    return [v.detach().numpy() for v in (y, z, w.E)]


def unused_rows_are_not_numbers(w):
    with w.m.no_grad():
        w.E[V - 1], w.E[V - 2] = float("nan"), float("inf")
    return linear(w)


def unused_rows_have_no_gradient_of_infinite_weights(w):
    with w.m.no_grad():
        w.W[:, 5] = float("inf")
    return [finish(w, w.F.linear(w.F.embedding(w.places, w.E), w.W, w.b))[1][-2:]]


def of_a_gradient(w):
    y = w.F.linear(w.F.embedding(w.places, w.E), w.W, w.b)
    (g,) = w.m.autograd.grad(w.m.tanh(y).sum(), w.E, create_graph=True)
    return finish(w, y, g.square().sum())


def one_place_for_most(w):
    w.places = w.m.where(w.places > 2, w.places * 0, w.places).repeat(4, 1)
    return linear(w)


FORMS = {  # how many products, at least
    linear: 3,
    in_another_order: 3,
    places_with_gaps: 3,
    places_with_gaps_in_another_order: 3,
    by_brackets_from_the_end: 3,
    selected: 0,  # the rows are columns here
    transposed_weight: 3,
    rows_are_read_elsewhere_too: 2,
    rows_are_held: 3,
    the_table_is_fixed: 2,
    the_weight_is_fixed: 2,
    two_layers_read_the_rows: 4,
    a_layer_over_time: 3,
    the_table_is_written_afterwards: 2,
    unused_rows_are_not_numbers: 0,  # the plan of the first form
    unused_rows_have_no_gradient_of_infinite_weights: 0,
    of_a_gradient: 3,
    one_place_for_most: 3,
}


@pytest.fixture(autouse=True)
def all_rewrites_afterwards():
    yield
    _C._plan_without("")


def name(form):
    return form.__name__.replace("_", " ") if callable(form) else None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_a_product_of_rows_that_were_looked_up_is_pytorchs(form, dtype):
    theirs = form(World(REF, dtype))
    before = _C._plan_facts()[FACT]
    for _ in range(3):
        ours = form(World(SUT, dtype))
        for a, b in zip(ours, theirs, strict=True):
            scale = np.abs(b[np.isfinite(b)]).max()
            np.testing.assert_allclose(a, b, rtol=0, atol=scale * (3e-6 if dtype == "float32" else 1e-14))
    _C._plan_without("lookups")
    assert form(World(SUT, dtype))[0].tobytes() == ours[0].tobytes()
    _C._plan_without("")
    assert _C._plan_facts()[FACT] - before >= FORMS[form] or AT_ONCE


def test_a_table_in_which_few_rows_are_looked_up_is_left_alone():
    before = _C._plan_facts()[FACT]
    w = World(SUT, "float32")
    w.places = w.places[:3]
    linear(w)
    assert _C._plan_facts()[FACT] == before


def test_the_gradient_of_a_row_that_meets_an_infinite_weight_is_not_finite():
    w = World(SUT, "float32")
    with SUT.no_grad():
        w.W[3, 5] = float("inf")
    linear(w)
    assert not np.isfinite(w.E.grad.numpy()[:-2, 5]).any() and np.isfinite(w.E.grad.numpy()[:, :5]).all()
