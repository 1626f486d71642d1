"""Training with less memory by hooks: values are kept in half precision, and no gradient outlives its use.

What the ops keep for backward is packed on its way in and unpacked on its way out. Each parameter is moved as soon as
its gradient is complete, which is then dropped: the gradients of all parameters never stand side by side.
"""

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
alive = 0


def pack(t):
    return t.half() if t.dtype == torch.float32 and t.numel() > 1 else t


def unpack(t):
    return t.float() if t.dtype == torch.float16 else t


def move(p):
    global alive
    alive = max(alive, sum(q.grad is not None for q in model.parameters()))
    with torch.no_grad():
        p -= 0.05 * p.grad
    p.grad = None


for p in model.parameters():
    p.register_post_accumulate_grad_hook(move)

x = torch.linspace(-1, 1, 256).unsqueeze(1)
y = torch.sin(3 * x)
for step in range(401):
    with saved_tensors_hooks(pack, unpack):
        loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    if step % 100 == 0:
        print(f"step {step:3d}  loss {loss.item():.2f}")
print("gradients that stood side by side at most:", alive)

with torch.inference_mode():  # nothing is kept at all, and nothing can be differentiated later
    print("largest error:", round((model(x) - y).abs().max().item(), 1), " kept for backward:", model(x).requires_grad)
