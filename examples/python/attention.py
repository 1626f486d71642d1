"""A decoder with attention, as tutorials write it: it learns to say a sequence backwards.

The keys are projected anew in every step, and the loss is added up in the loop. Nothing here is arranged for speed.
"""

import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS, LENGTH, WIDTH, BATCH = 8, 6, 48, 24


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.encode = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.of_state, self.of_keys = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, 1)
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, SYMBOLS)

    def attend(self, h, keys):  # (batch, width), (batch, time, width) -> (batch, width)
        scores = self.score(torch.tanh(self.of_state(h).unsqueeze(1) + self.of_keys(keys))).squeeze(2)
        return torch.bmm(F.softmax(scores, dim=1).unsqueeze(1), keys).squeeze(1)

    def forward(self, said, wanted):
        """The mean loss of all steps; each is told what the one before should have said."""
        keys, last = self.encode(self.embed(said))
        h, loss, before = last[0], 0, torch.zeros_like(wanted[:, 0])
        for t in range(wanted.shape[1]):
            h = self.cell(torch.cat([self.embed(before), self.attend(h, keys)], 1), h)
            loss = loss + F.cross_entropy(self.out(h), wanted[:, t])
            before = wanted[:, t]
        return loss / wanted.shape[1]


torch.manual_seed(0)
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(61):
    said = torch.randint(0, SYMBOLS, (BATCH, LENGTH))
    loss = model(said, said.flip(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:2d}  loss {loss.item():.3f}")
