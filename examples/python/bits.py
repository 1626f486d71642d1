"""The same memory as another type: 1 / sqrt(x) from the bits of x. In C: examples/c/bits.c.

The bits of a float, read as an integer, are roughly its logarithm. Half of it, taken from a constant, is that of the
inverse root; two of Newton's steps do the rest.
"""

import torch

x = torch.logspace(-3, 3, 7)
guess = (0x5F3759DF - (x.view(torch.int32) >> 1)).view(torch.float32)
y = guess
for _ in range(2):
    y = y * (1.5 - 0.5 * x * y * y)

for name, value in (("from the bits alone", guess), ("after two steps", y)):
    print(f"{name}: off by {(value * x.sqrt() - 1).abs().max().item():.1e}")
assert torch.allclose(y, x.rsqrt(), rtol=1e-5)

number = torch.tensor([1.0, 2.0])
number.view(torch.int32)[1] += 1 << 23  # one more in the exponent: twice the number
print(number)
