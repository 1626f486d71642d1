"""Cells that nobody has written yet, in loops over time: PyTorch's values and gradients, with each rewrite and without.

hypothesis builds the body of a cell from products, slices, chunks, joins, writes and elementwise operations over some
carries, x[t] and weights; the loop around it may run backwards, leave early, take another path in some steps, cut the
tape, and have a loss of its own. Its results and all its gradients are compared with PyTorch's, with those of brisk
evaluating each operation at once, and with those of plans that leave out each rewrite, and all of them."""

import os
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.torch.compare import REF, SUT

if SUT.__name__ != "brisk":
    pytest.skip("switches of brisk's", allow_module_level=True)

from brisk import _C

CELLS = 120

# What one step of a cell may do with values a and b, all of B rows and H columns, and weights w, u of H by H.
MOVES = {
    "product": lambda m, a, b, w, u: a @ w,
    "transposed": lambda m, a, b, w, u: a @ w.t() + b,
    "with one weight": lambda m, a, b, w, u: a @ w + m.tanh(b) @ w,
    "linear": lambda m, a, b, w, u: m.nn.functional.linear(a, w, w[0]),
    "gates": lambda m, a, b, w, u: m.sigmoid(a @ w) * b + m.tanh(a @ u) * 0.5,
    "over cat": lambda m, a, b, w, u: m.cat([a, b], 1) @ m.cat([w, u], 0) * 0.5,
    "tanh": lambda m, a, b, w, u: m.tanh(a),
    "times": lambda m, a, b, w, u: a * b * 0.5,
    "plus": lambda m, a, b, w, u: a * 0.5 + b,
    "halves": lambda m, a, b, w, u: m.cat([a.chunk(2, 1)[1], m.sigmoid(a.chunk(2, 1)[0])], 1),
    "gate": lambda m, a, b, w, u: b + m.sigmoid(a) * (m.tanh(a) - b),
    "centred": lambda m, a, b, w, u: a - b.mean(0, keepdim=True),
    "normed": lambda m, a, b, w, u: a / (1 + b.square().sum(1, keepdim=True)),
    "layer norm": lambda m, a, b, w, u: m.nn.functional.layer_norm(a, a.shape[1:], w[0], u[0], eps=0.1) * 0.5 + b,
    "softmax": lambda m, a, b, w, u: m.softmax(a + b, 1) + m.log_softmax(a, 1) * 0.1,
    "scaled rows": lambda m, a, b, w, u: (a - a.mean(1, keepdim=True)) * m.sigmoid(b.amax(1, keepdim=True)),
    "rows as long": lambda m, a, b, w, u: a / (1 + b.norm(dim=1)[:, None]) + a.var(1, keepdim=True) * 0.1,
    "picked": lambda m, a, b, w, u: a * 0.5 + b.gather(1, places(m, a)),
    "spread": lambda m, a, b, w, u: a.scatter_add(1, places(m, a)[:, :3], b[:, :3]) * 0.5,
    "rows": lambda m, a, b, w, u: m.cat([a[:1], b[1:]], 0),
    "columns": lambda m, a, b, w, u: m.cat([a[:, 1:], b[:, :1]], 1),
    "other order": lambda m, a, b, w, u: a.flip(1) + b,
    "kept": lambda m, a, b, w, u: m.where(a > 0, a, b),
    "written": lambda m, a, b, w, u: written(a.clone(), b),
}


def places(m, like):
    rows, columns = like.shape
    return (m.arange(rows)[:, None] * 3 + m.arange(columns)) % columns


def written(a, b):
    half = a.shape[1] // 2
    a[:, :half] = b[:, -half:]
    return a


SIZES = [(1, 3, 8), (2, 2, 8), (6, 1, 8), (8, 5, 16), (12, 16, 8), (5, 1, 130), (4, 33, 16), (30, 2, 8)]  # T, B, H


@dataclass
class Cell:
    steps: list  # (move, a, b, weight): values so far by number, the carries first, then x[t]
    sometimes: tuple  # (every how many steps, move, a, b, weight): another way for the last of the steps
    carries: list  # which values go on
    sizes: tuple
    backwards: bool = False
    leaves_at: int = 99
    cuts_at: int = 99  # the tape is cut every so many steps
    loss_inside: bool = False
    ending: str = "stack"
    dim: int = 0
    wants_x: bool = False
    reads_x: str = "x[t]"


# Cells in which, taken together, every rewrite has something to do, whatever hypothesis draws beside them.
NEVER = (99, "tanh", 0, 0, 0)
KNOWN = [
    Cell([("gates", 0, 1, 1)], NEVER, [2], sizes=(8, 5, 16)),
    Cell([("over cat", 1, 0, 1)], NEVER, [2], sizes=(8, 5, 16), ending="slices"),
    Cell([("linear", 0, 1, 1)], NEVER, [2], sizes=(5, 1, 130)),
    Cell([("linear", 0, 1, 1)], NEVER, [2], sizes=(8, 260, 130)),
    Cell([("with one weight", 0, 1, 1)], NEVER, [2], sizes=(4, 33, 130)),
    Cell([("layer norm", 0, 1, 1), ("softmax", 2, 1, 0)], NEVER, [2, 3], sizes=(12, 16, 8)),
    Cell([("picked", 0, 1, 1), ("scaled rows", 2, 1, 0)], NEVER, [3], sizes=(12, 16, 8), loss_inside=True),
    Cell([("written", 0, 1, 1), ("centred", 2, 2, 0), ("normed", 0, 2, 0)], NEVER, [4], sizes=(8, 5, 16), wants_x=True),
]
FOUND = ["GROUP", "REDUCED", "EPILOGUE", "ADDEND", "PLACED", "REUSED", "SHARED", "PACKED", "JOINED", "ADDED",
         "PUT_OFF", "FACTORED", "NARROWED", "ROWS", "PARTS", "SUMMED", "REGION", "TEAM", "UNFILLED"]  # fmt: skip


@st.composite
def cells(draw):
    carries = draw(st.integers(1, 3))
    moves, weight, steps = st.sampled_from(sorted(MOVES)), st.integers(0, 2), []
    for count in range(carries + 1, carries + 1 + draw(st.integers(2, 7))):
        value = st.integers(0, count - 1)
        steps.append((draw(moves), draw(value), draw(value), draw(weight)))
    count = carries + 1 + len(steps)
    value = st.integers(0, count - 2)
    return Cell(
        steps,
        (draw(st.sampled_from([2, 3, 99])), draw(moves), draw(value), draw(value), draw(weight)),
        [draw(st.integers(carries + 1, count - 1)) for _ in range(carries)],
        sizes=draw(st.sampled_from(SIZES)),
        backwards=draw(st.booleans()),
        leaves_at=draw(st.sampled_from([99, 99, 3])),
        cuts_at=draw(st.sampled_from([99, 99, 2])),
        loss_inside=draw(st.booleans()),
        ending=draw(st.sampled_from(["stack", "cat", "sum", "last", "slices"])),
        dim=draw(st.integers(0, 1)),
        wants_x=draw(st.booleans()),
        reads_x=draw(st.sampled_from(["x[t]", "x[:, t]", "unbind", "chunk"])),
    )


def data(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype("float32")


def inputs(cell, x):
    """x[t] of all steps, in the way that the cell reads them."""
    T = cell.sizes[0]
    turned = x.transpose(0, 1)
    ways = {
        "x[t]": lambda: [x[t] for t in range(T)],
        "x[:, t]": lambda: [turned[:, t] for t in range(T)],
        "unbind": lambda: list(x.unbind(0)),
        "chunk": lambda: [part[0] for part in x.chunk(T, 0)],
    }
    steps = ways[cell.reads_x]()
    return steps[::-1] if cell.backwards else steps


def join(m, cell, outs):
    if cell.ending == "slices":
        whole = m.zeros(len(outs), *outs[0].shape)
        for t, out in enumerate(outs):
            whole[t] = out
        return whole
    if cell.ending in ("stack", "cat"):
        return getattr(m, cell.ending)(outs, cell.dim)
    return sum(outs) if cell.ending == "sum" else outs[-1]


def run(m, cell):
    """Everything that the loop gives: results, carries, loss, gradients."""
    T, B, H = cell.sizes
    x = m.from_numpy(data(T, B, H)).requires_grad_(cell.wants_x)
    weights = [m.from_numpy(data(H, H, seed=k + 1, scale=0.7 * H**-0.5)).requires_grad_() for k in range(3)]
    state, outs, loss = [m.zeros(B, H) for _ in cell.carries], [], m.zeros(())
    every, *other = cell.sometimes
    for t, now in enumerate(inputs(cell, x)):
        if t == cell.leaves_at:
            break
        values = [*(s.detach() if t and t % cell.cuts_at == 0 else s for s in state), now]
        for number, step in enumerate(cell.steps):
            move, a, b, w = other if number == len(cell.steps) - 1 and t % every == every - 1 else step
            values.append(MOVES[move](m, values[a], values[b], weights[w], weights[w - 1]))
        state = [m.tanh(values[v] + now @ weights[0]) for v in cell.carries]
        outs.append(state[0])
        if cell.loss_inside:
            loss = loss + (state[-1] * now).mean()
    out = join(m, cell, outs)
    loss = loss + out.square().mean() + sum(s.sum() for s in state) * 0.1
    loss.backward()
    grads = [v.grad for v in (*weights, x) if v.grad is not None]
    return [v.detach().numpy() for v in (loss, out, *state, *grads)]


def check(ours, theirs, where):
    assert len(ours) == len(theirs), where
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        scale = max(1e-3, float(np.abs(b).max()))
        np.testing.assert_allclose(a / scale, b / scale, rtol=1e-3, atol=3e-5, err_msg=f"{where}: value {k}")


@pytest.fixture(scope="module", autouse=True)
def all_rewrites_afterwards():
    yield
    _C._plan_without("")
    _C._evaluate_at_once(False)


def look_at(cell):
    theirs, rewrites = run(REF, cell), _C._rewrites()
    _C._plan_without("")
    _C._evaluate_at_once(True)
    check(run(SUT, cell), theirs, "evaluated at once")
    _C._evaluate_at_once(False)
    for _ in range(3):  # the third time backward passes are replayed
        check(run(SUT, cell), theirs, "with all rewrites")
    for names in (*rewrites, ",".join(rewrites)):
        _C._plan_without(names)
        check(run(SUT, cell), theirs, f"without {names}")


def test_a_random_cell_is_pytorchs_with_each_rewrite_and_without():
    before, replayed = _C._plan_facts(), _C.info()["backward passes replayed"]
    how = settings(
        max_examples=CELLS, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    looks = given(cells())(look_at)
    for cell in KNOWN:
        looks = example(cell)(looks)
    how(looks)()
    found = _C._plan_facts()
    assert not [name for name in FOUND if found[name] == before[name]]
    assert _C.info()["backward passes replayed"] > replayed or os.environ.get("BRISK_CHECK_PLAN", "0") != "0"


def test_a_rewrite_that_is_not_there_cannot_be_left_out():
    with pytest.raises(ValueError, match="no rewrite is called flying"):
        _C._plan_without("teams,flying,sums")
