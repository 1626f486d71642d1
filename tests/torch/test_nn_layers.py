"""Every layer of nn_rows.py is PyTorch's: its initial values, names, text, results, gradients and errors."""

import re
import warnings

import pytest

from tests.torch import nn_rows
from tests.torch.compare import REF, SUT, In, Raised, check_same, outcome

ROWS = [
    row
    for text in (
        nn_rows.ACTIVATIONS, nn_rows.SIMPLE, nn_rows.NORMS, nn_rows.IMAGES, nn_rows.RECURRENT, nn_rows.ATTENTION,
    )
    for row in nn_rows.rows(text)
]  # fmt: skip


def make(m, word, seed):
    shape, _, bound = word.partition("<")
    dtype = "float64" if shape.endswith("d") else "int64" if bound else "float32"
    shape = tuple(int(n) for n in shape.rstrip("d").split(","))
    t = In(shape, dtype, domain="<" + bound if bound else "any", seed=seed).make(m)
    return t if bound else t.requires_grad_()


def inputs(m, text):
    """The arguments of the call, and the tensors among them that take gradients."""
    args, leaves = [], []
    for i, word in enumerate(re.findall(r"\([^)]*\)|\S+", text)):
        tensors = [make(m, w, (i, j)) for j, w in enumerate(word.strip("()").split())]
        leaves += [t for t in tensors if t.requires_grad]
        args.append(tuple(tensors) if word[0] == "(" else tensors[0])
    return args, leaves


def build(m, constructor):
    m.manual_seed(11)
    return eval(constructor, {**vars(m.nn), "torch": m})


def tensors_of(result):
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in tensors_of(part)]
    return [] if result is None else [result]


def called(m, constructor, text, training):
    layer = build(m, constructor)
    if not training:
        layer.eval()
    args, leaves = inputs(m, text)
    if "inplace=True" in repr(layer) or constructor in ("Hardswish(True)",):
        args = [a * 1 for a in args]  # a leaf cannot be written to
    m.manual_seed(5)
    out = tensors_of(layer(*args))
    floats = [t for t in out if t.is_floating_point() and t.requires_grad]
    if floats:
        total = sum((t * (m.arange(t.numel()).view(t.shape) % 7 - 2.5)).sum() for t in floats)
        total.backward()
    grads = [p.grad for p in [*leaves, *layer.parameters()]]
    return out, grads, list(layer.buffers()), m.rand(2)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row))
@pytest.mark.filterwarnings("ignore")
def test_a_layer_computes_what_pytorch_computes(row, training):
    ours, theirs = outcome(called, SUT, *row, training), outcome(called, REF, *row, training)
    assert not isinstance(theirs, Raised), theirs
    check_same(ours, theirs, " ".join(row), rtol=1e-4, atol=2e-5, strides=None)


@pytest.mark.parametrize("constructor", sorted({row[0] for row in ROWS}))
@pytest.mark.filterwarnings("ignore")
def test_a_layer_begins_as_pytorch_begins(constructor):
    ours, theirs = build(SUT, constructor), build(REF, constructor)
    assert repr(ours) == repr(theirs)
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    check_same(dict(ours.state_dict()), dict(theirs.state_dict()), constructor, rtol=0, atol=0)
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata


@pytest.mark.parametrize("row", nn_rows.rows(nn_rows.ERRORS), ids=lambda row: " ".join(row))
def test_a_misuse_raises_what_pytorch_raises(row):
    def run(m):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            layer = build(m, row[0])
            return tensors_of(layer(*inputs(m, row[1])[0]))

    check_same(outcome(run, SUT), outcome(run, REF), " ".join(row), rtol=1e-4)


STATES_THAT_DO_NOT_FIT = """
{cell}(3, 4)(x, state(3, 4))
{cell}(3, 4)(x, state(2, 5))
{cell}(3, 4)(x, state(4))
{cell}(3, 2)(x, state(2))
{cell}(3, 4)(x[0], state(5))
{cell}(3, 4)(x[0], state(1, 4))
{cell}(3, 4)(x, state(1, 2, 4))
{cell}(3, 4)(x[None])
{cell}(5, 4)(x)
{cell}(3, 4)(x, state(2, 4))
{cell}(3, 4)(x[0], state(4))
""".strip().splitlines()
PAIRS_THAT_DO_NOT_FIT = """
nn.LSTMCell(3, 4)(x, (T.ones(2, 4), T.ones(3, 4)))
nn.LSTMCell(3, 4)(x, (T.ones(2, 4), T.ones(2, 5)))
nn.LSTMCell(3, 4)(x, (T.ones(2, 4), T.ones(1, 2, 4)))
nn.LSTM(3, 4)(x, (T.ones(1, 2, 4), T.ones(1, 2, 4)))
nn.LSTM(3, 4)(x, (T.ones(1, 4), T.ones(1, 2, 4)))
nn.LSTM(3, 4)(x[None], (T.ones(2, 4), T.ones(2, 4)))
nn.LSTM(3, 4)(x[None], (T.ones(1, 2, 4), T.ones(2, 4)))
nn.LSTM(3, 4)(x[None], (T.ones(1, 2, 4), T.ones(1, 2, 5)))
nn.LSTM(3, 4)(x[None], T.ones(1, 2, 4))
nn.LSTM(3, 4)(x[None], (T.ones(1, 2, 4),))
nn.LSTM(3, 4)(x[None], (T.ones(1, 2, 4),) * 3)
nn.GRU(3, 4)(x[None], T.ones(2, 4))
nn.GRU(3, 4)(x, T.ones(1, 2, 4))
""".strip().splitlines()


@pytest.mark.parametrize(
    "line",
    [line.format(cell=f"nn.{cell}") for line in STATES_THAT_DO_NOT_FIT for cell in ("RNNCell", "GRUCell", "LSTMCell")]
    + PAIRS_THAT_DO_NOT_FIT,
)
def test_states_that_do_not_fit_are_refused_in_pytorchs_words(line):
    def run(m):
        def state(*sizes):
            return (m.ones(*sizes),) * 2 if "LSTM" in line else m.ones(*sizes)

        try:
            found = eval(line, {"T": m, "nn": m.nn, "x": m.ones(2, 3), "state": state})
        except Exception as error:
            return type(error).__name__, str(error)
        return [list(t.shape) for t in (found if isinstance(found, tuple) else (found,))]

    assert run(SUT) == run(REF)
