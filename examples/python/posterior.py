"""A rate and how sure one can be of it: a Gamma distribution is fitted by gradients that go through its own draws.

Events of an unknown rate were counted. What the counts say about the rate has a known formula here, so that the fit,
which never uses it, can be compared with it.
"""

import torch
from torch.distributions import Gamma, Poisson, kl_divergence

torch.manual_seed(0)
counts = torch.tensor([3.0, 5.0, 4.0, 6.0, 2.0, 4.0, 5.0, 3.0])
prior = Gamma(2.0, 1.0)
exact = Gamma(2 + counts.sum(), 1.0 + len(counts))

logs = torch.zeros(2, requires_grad=True)  # of the Gamma's two parameters
optimizer = torch.optim.Adam([logs], lr=0.05)
for step in range(601):
    guess = Gamma(*logs.exp())
    rates = guess.rsample((64,))
    likelihood = Poisson(rates[:, None]).log_prob(counts).sum(1).mean()
    loss = kl_divergence(guess, prior) - likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step:3d}  distance from the exact answer {kl_divergence(guess, exact).item():.2f}")

guess = Gamma(*logs.detach().exp())
print(f"fitted: {guess.mean.item():.1f} +- {guess.stddev.item():.1f}")
print(f"exact:  {exact.mean.item():.1f} +- {exact.stddev.item():.1f}")
assert kl_divergence(guess, exact) < 0.05
