"""A function with a gradient of its own: rounding to a grid that lets the gradient through where the value is in range.

This is how quantised networks are trained: the forward pass rounds, the backward pass pretends it did not.
"""

import torch


class RoundToGrid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step, limit):
        ctx.save_for_backward(x)
        ctx.limit = limit
        return torch.clamp(torch.round(x / step) * step, -limit, limit)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= ctx.limit), None, None


torch.manual_seed(0)
inputs, truth = torch.randn(256, 8), torch.tensor([1.0, -0.5, 0.25, 0.0, 0.75, -1.0, 0.5, -0.25])
targets = inputs @ truth

weights = torch.zeros(8, requires_grad=True)
for step in range(101):
    rounded = RoundToGrid.apply(weights, 0.25, 1.0)
    loss = (inputs @ rounded - targets).square().mean()
    loss.backward()
    with torch.no_grad():
        weights -= 0.05 * weights.grad
        weights.grad = None
    if step % 25 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}")
print("learned on the grid:", RoundToGrid.apply(weights, 0.25, 1.0).tolist())
