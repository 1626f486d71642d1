"""Dropout drops what PyTorch drops, from the same seed."""

import pytest

from tests.torch.compare import REF, SUT, check_same, outcome

CALLS = [
    "torch.dropout(x, 0.5, True)",
    "torch.dropout(x, 0.3, False) is x",
    "torch.dropout(x, 0.0, True) is x",
    "torch.dropout(x, 1.0, True)",
    "torch.dropout(x, 1.5, True)",
    "torch.dropout(x, float('nan'), True)",
    "torch.dropout(x.t(), 0.4, True)",
    "torch.dropout(x[:, ::2], 0.4, True)",
    "torch.dropout(x[0].expand(6, 5), 0.3, True)",
    "torch.dropout(x[:0], 0.3, True)",
    "torch.dropout_(x, 0.7, True)",
    "torch.feature_dropout(x, 0.5, True)",
    "torch.feature_dropout(x.view(2, 3, 5), 0.5, True)",
    "torch.feature_dropout(x[0], 0.5, True)",
    "torch.feature_dropout_(x.view(2, 3, 5), 0.5, True)",
    "torch.alpha_dropout(x, 0.4, True)",
    "torch.alpha_dropout_(x, 0.4, True)",
    "torch.feature_alpha_dropout(x.view(2, 3, 5), 0.4, True)",
    "F.dropout(x)",
    "F.dropout(x, 0.2, training=False)",
    "F.dropout(x, p=0.2, inplace=True) is x",
    "F.dropout(x, 2)",
    "F.dropout(x, -0.1)",
    "F.alpha_dropout(x, 0.3, training=True)",
    "(torch.dropout(x, 0.5, True), torch.rand(3))[1]",
]


def run(m, call, dtype):
    m.manual_seed(3)
    x = (m.arange(30).view(6, 5) - 7).to(getattr(m, dtype))
    return eval(call, {"torch": m, "F": m.nn.functional, "x": x})


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("call", CALLS)
def test_dropout(call, dtype):
    check_same(outcome(run, SUT, call, dtype), outcome(run, REF, call, dtype), call, rtol=1e-6)


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout"])
def test_the_gradient_is_the_noise(name):
    def gradient(m):
        m.manual_seed(5)
        x = m.arange(12.0).requires_grad_()
        getattr(m, name)(x, 0.5, True).sum().backward()
        return x.grad

    check_same(gradient(SUT), gradient(REF), name)
