"""A list of Python floats to a tensor, two functions, and back to NumPy; beside it the same in plain Python."""

import math
import time

import torch

floats = [i * 0.1 for i in range(300_000)]

start = time.perf_counter()
tensor = torch.pow(torch.sin(torch.tensor(floats, dtype=torch.float32)), 2).numpy()
with_tensor = time.perf_counter() - start

start = time.perf_counter()
plain = [math.sin(x) ** 2 for x in floats]
with_python = time.perf_counter() - start

worst = max(abs(a - b) for a, b in zip(tensor.tolist(), plain, strict=True))
print(f"tensor {1e3 * with_tensor:.1f} ms, plain Python {1e3 * with_python:.1f} ms, largest difference {worst:.1e}")
