"""A recurrent layer written by hand: one Python loop over the time steps, as one first writes it.

The layer learns to tell whether a sequence of noisy numbers rises or falls. Nothing here is arranged for speed.
"""

import torch
from torch import nn


class Cell(nn.Module):
    """A minimal gated unit: one gate decides how much of the state is replaced."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.gate_x, self.gate_h = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden, bias=False)
        self.new_x, self.new_h = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden, bias=False)

    def forward(self, x, h):
        f = torch.sigmoid(self.gate_x(x) + self.gate_h(h))
        n = torch.tanh(self.new_x(x) + self.new_h(f * h))
        return (1 - f) * h + f * n


class Classifier(nn.Module):
    def __init__(self, inputs=1, hidden=32):
        super().__init__()
        self.hidden = hidden
        self.cell = Cell(inputs, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):  # (time, batch, inputs)
        h = torch.zeros(x.shape[1], self.hidden)
        states = []
        for t in range(x.shape[0]):
            h = self.cell(x[t], h)
            states.append(h)
        return self.out(torch.stack(states)[-1]).squeeze(1)  # (batch,)


def sequences(batch, steps):
    slope = torch.randint(0, 2, (batch,)).float()
    time = torch.linspace(-1, 1, steps).reshape(steps, 1)
    x = time * (2 * slope - 1) + 0.7 * torch.randn(steps, batch)
    return x.unsqueeze(2), slope


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(61):
    x, target = sequences(batch=32, steps=50)
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:2d}  loss {loss.item():.3f}")
