"""A smooth curve from noisy points, by a Gaussian process: gradients go through a Cholesky factorisation, twice.

How smooth, how large and how noisy the curve is are three logarithms, found where the points are most likely. The
curvature there says how well the points determine them. In C: examples/c/gaussian_process.c.
"""

import torch
from torch.distributions import MultivariateNormal

POINTS = 40
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.linspace(-3, 3, POINTS)
y = torch.sin(2 * x) + 0.1 * torch.randn(POINTS)


def covariance(a, b, logs):
    length, scale, _ = logs.exp()
    return scale**2 * torch.exp(-0.5 * ((a[:, None] - b) / length) ** 2)


def factor(logs):
    return torch.linalg.cholesky(covariance(x, x, logs) + torch.exp(2 * logs[2]) * torch.eye(POINTS))


def misfit(logs):
    return -MultivariateNormal(torch.zeros(POINTS), scale_tril=factor(logs)).log_prob(y)


logs = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.Adam([logs], lr=0.1)
for step in range(121):
    optimizer.zero_grad()
    loss = misfit(logs)
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step:3d}  -log likelihood {loss.item():8.4f}")

logs = logs.detach()
spread = torch.linalg.inv(torch.autograd.functional.hessian(misfit, logs)).diagonal().sqrt()
for name, value, error in zip(("length", "scale", "noise"), logs.exp().tolist(), spread.tolist(), strict=True):
    print(f"{name:6s} {value:.3f}, to within {100 * error:.0f}%")

places = torch.tensor([-1.0, 0.0, 1.0])
curve = covariance(places, x, logs) @ torch.cholesky_solve(y[:, None], factor(logs))
worst = (curve[:, 0] - torch.sin(2 * places)).abs().max().item()
print(f"the curve is off by {worst:.3f} at most")
assert worst < 0.1
