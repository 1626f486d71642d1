"""A recurrent network learns a text letter by letter, and writes one of its own. In C: examples/c/char_lstm.c."""

import torch
from torch import nn

TEXT = (
    "the quick brown fox jumps over the lazy dog while the slow brown bear sleeps under the old "
    "tree and the small grey mouse runs across the long green field to the quiet river bank; "
)
LETTERS = sorted(set(TEXT))  # a letter's place is its class
STEPS, STREAMS = 24, 4


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS), 16)
        self.lstm = nn.LSTM(16, 64)
        self.output = nn.Linear(64, len(LETTERS))

    def forward(self, letters, state=None):
        out, state = self.lstm(self.embedding(letters), state)
        return self.output(out), state


def classes(offset):
    """(STEPS, STREAMS) letters of as many parts of the text."""
    part = len(TEXT) // STREAMS
    rows = [[LETTERS.index(TEXT[s * part + offset + t]) for s in range(STREAMS)] for t in range(STEPS)]
    return torch.tensor(rows)


torch.manual_seed(3)
model = CharLSTM()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for step in range(201):
    offset = step * 7 % (len(TEXT) // STREAMS - STEPS - 1)
    optimizer.zero_grad()
    scores, _ = model(classes(offset))
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), classes(offset + 1).flatten())
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step:3d}  loss {loss.item():.5f}")

written, state = "t", None
with torch.no_grad():
    for _ in range(47):
        scores, state = model(torch.tensor([[LETTERS.index(written[-1])]]), state)
        written += LETTERS[torch.multinomial(scores[0].softmax(1), 1).item()]
print(written)
