"""Training steps of whole networks, large enough that computing takes the time and recording does not."""

from case import case, numbers

SEED = 0  # of the initial values: PyTorch and brisk draw the same


def trained(optimizer, loss):
    def body():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return body


WIDTH, TIME, BATCH, HEADS = 128, 64, 16, 4


@case("transformer_step", "a training step of two transformer blocks, width 128, 16 x 64 tokens, AdamW", target=1.3)
def transformer_step(torch):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            q, k, v = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
            q, k, v = (t.view(BATCH, TIME, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).contiguous().view(BATCH, TIME, WIDTH))
            return x + self.narrow(F.gelu(self.wide(self.norm2(x))))

    torch.manual_seed(SEED)
    model = nn.Sequential(Block(), Block())
    x = torch.from_numpy(numbers(BATCH, TIME, WIDTH, seed=100))
    y = torch.from_numpy(numbers(BATCH, TIME, WIDTH, seed=101))
    return trained(torch.optim.AdamW(model.parameters(), lr=1e-4), lambda: F.mse_loss(model(x), y))


@case("conv_step", "a training step of a small conv net (2 conv, 2 linear), batch 64 of 28 x 28, SGD", target=0.7)
def conv_step(torch):
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(SEED)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    x = torch.from_numpy(numbers(64, 1, 28, 28, seed=100))
    y = torch.arange(64) % 10
    return trained(torch.optim.SGD(model.parameters(), lr=1e-3), lambda: F.cross_entropy(model(x), y))
