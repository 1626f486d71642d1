"""A recurrent layer written by hand: one Python loop over the time steps, as one first writes it.

The layer learns to tell whether a sequence of noisy numbers rises or falls. Nothing here is arranged for speed.
"""

import torch
import torch.nn.functional as F


class Cell:
    """A minimal gated unit: one gate decides how much of the state is replaced."""

    def __init__(self, inputs, hidden):
        self.gate_x, self.gate_h = weight(inputs, hidden), weight(hidden, hidden)
        self.new_x, self.new_h = weight(inputs, hidden), weight(hidden, hidden)
        self.gate_bias = torch.zeros(hidden, requires_grad=True)
        self.new_bias = torch.zeros(hidden, requires_grad=True)

    def parameters(self):
        return [self.gate_x, self.gate_h, self.new_x, self.new_h, self.gate_bias, self.new_bias]

    def __call__(self, x, h):
        f = torch.sigmoid(x @ self.gate_x + h @ self.gate_h + self.gate_bias)
        n = torch.tanh(x @ self.new_x + (f * h) @ self.new_h + self.new_bias)
        return (1 - f) * h + f * n


def weight(rows, columns):
    return (torch.randn(rows, columns) / rows**0.5).requires_grad_()


def classify(cell, out, x):  # (time, batch, inputs) -> (batch,)
    h = torch.zeros(x.shape[1], out.shape[0])
    states = []
    for t in range(x.shape[0]):
        h = cell(x[t], h)
        states.append(h)
    return (torch.stack(states)[-1] @ out).squeeze(1)


def sequences(batch, steps):
    slope = torch.randint(0, 2, (batch,)).float()
    time = torch.linspace(-1, 1, steps).reshape(steps, 1)
    x = time * (2 * slope - 1) + 0.7 * torch.randn(steps, batch)
    return x.unsqueeze(2), slope


torch.manual_seed(0)
cell, out = Cell(1, 32), weight(32, 1)
parameters = [*cell.parameters(), out]
for step in range(61):
    x, target = sequences(batch=32, steps=50)
    logit = classify(cell, out, x)
    loss = (F.softplus(logit) - target * logit).mean()
    loss.backward()
    with torch.no_grad():
        for p in parameters:
            p -= 0.3 * p.grad
            p.grad = None
    if step % 20 == 0:
        print(f"step {step:2d}  loss {loss.item():.3f}")
