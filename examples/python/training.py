"""A small network fitted to a curve: modules, an optimiser, batches, a checkpoint. examples/c/training.c is the same."""

import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

x = torch.linspace(-1, 1, 256).unsqueeze(1)
y = torch.sin(4 * x) + 0.5 * x
batches = DataLoader(TensorDataset(x, y), batch_size=64)

for epoch in range(61):
    total = 0.0
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    if epoch % 20 == 0:
        print(f"epoch {epoch:2d}  loss {total / len(batches):.5f}")

path = os.path.join(tempfile.mkdtemp(), "model.pt")
torch.save(model.state_dict(), path)
again = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
again.load_state_dict(torch.load(path))
print("the same after loading:", torch.equal(model(x), again(x)))
os.remove(path)
