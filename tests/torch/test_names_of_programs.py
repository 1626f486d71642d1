"""Every name that programs use often is there, and a line that uses it has PyTorch's outcome; so for rarer ones."""

import io
import zipfile

import numpy as np
import pytest

from tests.torch.compare import REF, SUT, check_same, outcome
from tests.torch.name_rows import OUT_OF_SCOPE, RARE, ROWS, rows

# Names that a line uses through a function of this file.
FOUND_BY_HELPERS = {"apply", "Function", "needs_input_grad", "swa_utils", "GradScaler", "UninitializedParameter"}


def reloaded(m, value, **options):
    file = io.BytesIO()
    m.save(value, file)
    file.seek(0)
    return m.load(file, **options)


def saved_by(save, value):
    """The names of the tensors' bytes and what an archive says about itself: both libraries write the same."""
    file = io.BytesIO()
    save(value, file)
    names = zipfile.ZipFile(file).namelist()
    return sorted(n.partition("/")[2] for n in names if "/data/" in n or n.endswith(("data.pkl", "byteorder")))


def under(context, call):
    with context:
        return call()


def packed(m):
    return m.nn.utils.rnn.pack_padded_sequence(m.arange(8.0).view(2, 4), [4, 2], batch_first=True)


def loader(m, **options):
    return m.utils.data.DataLoader(m.utils.data.TensorDataset(m.arange(5)), **options)


def stream(m, n):
    class Stream(m.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(n))

    return Stream()


def both_ways(transform, x):
    y = transform(x)
    return y, transform.inv(y), transform.log_abs_det_jacobian(x, y)


def averaged(m, net, opt):
    """Stochastic weight averaging: the mean of the weights of three steps."""
    mean = m.optim.swa_utils.AveragedModel(net)
    for _ in range(3):
        opt.step()
        mean.update_parameters(net)
    return list(mean.module.parameters()), mean.n_averaged


def scaled(m, net, opt):
    scaler = m.amp.GradScaler("cpu", enabled=False)
    scaler.scale(net(m.ones(1, 4)).sum()).backward()
    scaler.unscale_(opt)
    scaler.step(opt)
    scaler.update()
    return list(net.parameters()), scaler.state_dict(), scaler.is_enabled()


def doubled(m, x, look=None):
    """A custom function; `look` is called with its context, in forward and in backward."""

    class Doubled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.seen = look(ctx) if look and "saved" not in look.__code__.co_names else None
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            seen.append(look(ctx) if look and "saved_tensors" in look.__code__.co_names else ctx.seen)
            return 2 * grad

    seen = []
    y = Doubled.apply(x)
    if look:
        y.sum().backward()
        return seen, x.grad
    return y


def namespace(m):
    m.manual_seed(1)
    net = m.nn.Linear(4, 2)
    x, y, s, v = m.randn(3, 4), m.randn(3, 4), m.randn(4, 4), m.randn(4)
    net(x).square().sum().backward()

    def steps(optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
        return [p.detach() for p in net.parameters()], repr(optimizer)

    return {
        "torch": m, "nn": m.nn, "F": m.nn.functional, "np": np, "x": x, "y": y, "s": s, "v": v, "c": x.clone(),
        "k": m.tensor([2, 0, 3]), "g": x.clone().requires_grad_(), "images": m.randn(2, 3, 6, 6), "net": net,
        "opt": m.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), "steps": steps, "outcome": outcome,
        "reloaded": reloaded, "under": under, "packed": packed, "loader": loader, "doubled": doubled,
        "saved_by": saved_by, "stream": stream,
        "both_ways": both_ways, "averaged": averaged, "scaled": scaled, "u": x.sigmoid(),
        "cube": m.randn(1, 2, 4, 4, 4),
    }  # fmt: skip


def detached(value):
    """Parameters as tensors, so that two of them are compared by value."""
    if isinstance(value, dict):
        return {name: detached(one) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(detached(one) for one in value)
    return value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, expression", ROWS + RARE, ids=[name for name, _ in ROWS + RARE])
def test_a_line_that_uses_the_name_has_pytorchs_outcome(name, expression):
    ours, theirs = (outcome(lambda m: detached(eval(expression, namespace(m))), m) for m in (SUT, REF))
    assert not hasattr(theirs, "error"), theirs
    check_same(ours, theirs, expression, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name, expression", ROWS + RARE, ids=[name for name, _ in ROWS + RARE])
def test_the_line_uses_the_name(name, expression):
    kind, _, rest = name.rpartition(" ")
    if kind == "keyword":
        assert f"{rest}=" in expression
    elif " " not in name and name.rpartition(".")[2] not in FOUND_BY_HELPERS:
        assert name.rpartition(".")[2] in expression


@pytest.mark.parametrize("name, expression", rows(OUT_OF_SCOPE))
def test_what_is_out_of_scope_is_named_by_the_error(name, expression):
    with pytest.raises((AttributeError, NotImplementedError)) as caught:
        eval(expression, namespace(SUT))
    assert name.split(".")[0 if name.startswith("fft") else -1] in str(caught.value)
