# Made by tools/make_stubs.py. What the extension gives is described where it is public.
from typing import Any

from brisk import Generator as Generator
from brisk import Size as Size
from brisk import Tensor as Tensor
from brisk import device as device
from brisk import dtype as dtype

def __getattr__(name: str) -> Any: ...
