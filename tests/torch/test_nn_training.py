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


def losses(m, constructor, shape, steps=50):
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


def char_lstm(m):
    text = "hello brisk world, hello small world, " * 4
    letters = sorted(set(text))
    data = m.tensor([letters.index(c) for c in text])

    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm = m.nn.Embedding(len(letters), 8), m.nn.LSTM(8, 16, batch_first=True)
            self.output = m.nn.Linear(16, len(letters))

        def forward(self, x):
            return self.output(self.lstm(self.embedding(x))[0])

    model = Net()
    optimizer = m.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(50):
        at = m.randint(0, len(data) - 13, (4,)).tolist()
        rows = m.stack([data[i : i + 13] for i in at])
        loss = m.nn.functional.cross_entropy(model(rows[:, :-1]).transpose(1, 2), rows[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        m.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def gru_classifier(m):
    x, y = m.randn(24, 6, 4), m.randint(0, 3, (24,))
    gru, head = m.nn.GRU(4, 8, 2, batch_first=True, dropout=0.2), m.nn.Linear(8, 3)
    params = [*gru.parameters(), *head.parameters()]
    optimizer = m.optim.RMSprop(params, lr=0.005, momentum=0.5)
    loader = m.utils.data.DataLoader(m.utils.data.TensorDataset(x, y), batch_size=6, shuffle=True)
    steps = 0
    while steps < 50:
        for rows, labels in loader:
            loss = m.nn.functional.cross_entropy(head(gru(rows)[0][:, -1]), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
            steps += 1


def transformer_block(m):
    layer, head = m.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), m.nn.Linear(8, 5)
    optimizer = m.optim.AdamW([*layer.parameters(), *head.parameters()], lr=0.003)
    x, y = m.randn(4, 6, 8), m.randint(0, 5, (4, 6))
    mask = m.nn.Transformer.generate_square_subsequent_mask(6)
    for _ in range(50):
        loss = m.nn.functional.cross_entropy(head(layer(x, src_mask=mask)).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def reinforce(m):
    """A policy learns to answer the sign of what it sees."""
    policy = m.nn.Sequential(m.nn.Linear(2, 16), m.nn.ReLU(), m.nn.Linear(16, 2))
    optimizer = m.optim.Adam(policy.parameters(), lr=0.02)
    for _ in range(50):
        seen = m.randn(12, 2)
        choices = m.distributions.Categorical(logits=policy(seen))
        actions = choices.sample()
        rewards = (actions == (seen[:, 0] > 0).long()).float()
        loss = -(choices.log_prob(actions) * (rewards - rewards.mean())).sum() - 0.01 * choices.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
        yield rewards.mean().item()


@pytest.mark.parametrize("program", [char_lstm, gru_classifier, transformer_block, reinforce])
def test_a_program_of_fifty_steps_has_the_losses_of_pytorch(program):
    seen = []
    for m in (SUT, REF):
        m.manual_seed(5)
        seen.append(list(program(m)))
    assert len(seen[0]) >= 50 and seen[0] == pytest.approx(seen[1], rel=1e-4, abs=1e-6)
