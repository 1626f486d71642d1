"""With the same seed a training run prints PyTorch's losses: initial values, dropout and gradients, many steps deep."""

import pytest

from tests.torch.compare import REF, SUT

MODELS = {
    "mlp": ("Sequential(Linear(6, 16), Tanh(), Dropout(0.2), Linear(16, 1))", (8, 6)),
    "lstm": ("LSTM(4, 8, 2, dropout=0.3, batch_first=True)", (3, 7, 4)),
    "gru": ("GRU(4, 8, bidirectional=True)", (7, 3, 4)),
    "conv net": (
        "Sequential(Conv2d(1, 4, 3, padding=1), BatchNorm2d(4), ReLU(), MaxPool2d(2), Conv2d(4, 6, 3), ReLU(),"
        " Flatten(), Linear(24, 3))",
        (5, 1, 8, 8),
    ),
    "transformer": ("TransformerEncoderLayer(8, 2, 16, batch_first=True)", (3, 5, 8)),
}


def losses(m, constructor, shape, steps=30):
    m.manual_seed(1)
    model = eval(constructor, dict(vars(m.nn)))
    x = m.randn(shape)
    seen = []
    for _ in range(steps):
        out = model(x)
        out = out[0] if isinstance(out, tuple) else out
        target = m.arange(out.numel()).view(out.shape).remainder(5) / 4 - 0.5
        loss = ((out - target) ** 2).mean()
        model.zero_grad()
        loss.backward()
        with m.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        seen.append(loss.item())
    return seen


@pytest.mark.parametrize("name", MODELS)
def test_a_training_run_has_the_losses_of_pytorch(name):
    ours, theirs = losses(SUT, *MODELS[name]), losses(REF, *MODELS[name])
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert theirs[-1] < theirs[0]
